/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/pool.h"

#include <pthread.h>
#include <stdlib.h>

struct item {
    void (*fn)(void *);
    void *arg;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *threads;
    size_t nthreads;
    struct item *ring;
    size_t head, len, cap;
    bool stopping;
};

static bool take(struct pool *p, struct item *out)
{
    bool got = false;

    pthread_mutex_lock(&p->lock);
    while (p->len == 0 && !p->stopping)
        pthread_cond_wait(&p->work, &p->lock);
    if (p->len > 0) {
        *out = p->ring[p->head];
        p->head = (p->head + 1) % p->cap;
        p->len--;
        got = true;
    }
    pthread_mutex_unlock(&p->lock);
    return got;
}

static void *run(void *arg)
{
    struct pool *p = arg;
    struct item item;

    while (take(p, &item))
        item.fn(item.arg);
    return NULL;
}

static int start(struct pool *p, size_t threads)
{
    pthread_attr_t attr;
    int bad = 0;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 512 * 1024);
    while (bad == 0 && p->nthreads < threads) {
        bad = pthread_create(&p->threads[p->nthreads], &attr, run, p);
        p->nthreads += bad == 0 ? 1 : 0;
    }
    pthread_attr_destroy(&attr);
    return bad;
}

int pool_new(size_t threads, size_t queue, struct pool **out, struct err *e)
{
    struct pool *p = calloc(1, sizeof(*p));
    int sys;

    if (p == NULL)
        return err_nomem(e);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->cap = queue;
    p->ring = calloc(queue, sizeof(*p->ring));
    p->threads = calloc(threads, sizeof(*p->threads));
    if (p->ring == NULL || p->threads == NULL) {
        pool_free(p);
        return err_nomem(e);
    }
    sys = start(p, threads);
    if (sys != 0) {
        pool_free(p);
        return err_sys(e, ERR_INTERNAL, sys, "thread", "pthread_create");
    }
    *out = p;
    return 0;
}

void pool_stop(struct pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->nthreads; i++)
        pthread_join(p->threads[i], NULL);
    p->nthreads = 0;
}

void pool_free(struct pool *p)
{
    if (p == NULL)
        return;
    pool_stop(p);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->ring);
    free(p->threads);
    free(p);
}

int pool_add(struct pool *p, void (*fn)(void *), void *arg, struct err *e)
{
    bool full;

    pthread_mutex_lock(&p->lock);
    full = p->len == p->cap || p->stopping;
    if (!full) {
        p->ring[(p->head + p->len) % p->cap] = (struct item){fn, arg};
        p->len++;
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
    if (full)
        return err_set(e, ERR_UNAVAILABLE, "busy",
                       "too many requests are waiting; try again");
    return 0;
}
