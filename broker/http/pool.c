/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct item {
    int64_t owner;
    void (*fn)(void *);
    void *arg;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *threads;
    size_t nthreads;
    int64_t *running;      /* whose work the busy threads do */
    size_t nrunning, most; /* most: threads for one owner */
    struct item *queue;    /* oldest first */
    size_t len, cap;
    bool stopping;
};

/* Half of the threads, and of the queue, are everybody else's: whoever makes
 * his own requests slow (a worker that he stopped) delays himself. */
static size_t share(size_t all)
{
    return all > 1 ? all / 2 : 1;
}

static size_t runs_of(const struct pool *p, int64_t owner)
{
    size_t n = 0;

    for (size_t i = 0; i < p->nrunning; i++)
        n += p->running[i] == owner;
    return n;
}

static size_t waits_of(const struct pool *p, int64_t owner)
{
    size_t n = 0;

    for (size_t i = 0; i < p->len; i++)
        n += p->queue[i].owner == owner;
    return n;
}

/* The oldest item whose owner may have one more thread; p->len: none. At the
 * end everything goes. */
static size_t next_item(const struct pool *p)
{
    size_t i = 0;

    while (i < p->len && !p->stopping && p->queue[i].owner != 0 &&
           runs_of(p, p->queue[i].owner) >= p->most)
        i++;
    return i;
}

static bool take(struct pool *p, struct item *out)
{
    bool got;
    size_t i;

    pthread_mutex_lock(&p->lock);
    while ((i = next_item(p)) == p->len && !p->stopping)
        pthread_cond_wait(&p->work, &p->lock);
    got = i < p->len;
    if (got) {
        *out = p->queue[i];
        p->len--;
        memmove(&p->queue[i], &p->queue[i + 1],
                (p->len - i) * sizeof(p->queue[0]));
        p->running[p->nrunning++] = out->owner;
    }
    pthread_mutex_unlock(&p->lock);
    return got;
}

static void done(struct pool *p, int64_t owner)
{
    size_t i = 0;

    pthread_mutex_lock(&p->lock);
    while (p->running[i] != owner)
        i++;
    p->running[i] = p->running[--p->nrunning];
    pthread_mutex_unlock(&p->lock);
}

static void *run(void *arg)
{
    struct pool *p = arg;
    struct item item;

    while (take(p, &item)) {
        item.fn(item.arg);
        done(p, item.owner);
    }
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
    p->most = share(threads);
    p->queue = calloc(queue, sizeof(*p->queue));
    p->running = calloc(threads, sizeof(*p->running));
    p->threads = calloc(threads, sizeof(*p->threads));
    if (p->queue == NULL || p->running == NULL || p->threads == NULL) {
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
    free(p->queue);
    free(p->running);
    free(p->threads);
    free(p);
}

int pool_add(struct pool *p, int64_t owner, void (*fn)(void *), void *arg,
             struct err *e)
{
    bool full;

    pthread_mutex_lock(&p->lock);
    full = p->len == p->cap || p->stopping ||
           (owner != 0 && waits_of(p, owner) >= share(p->cap));
    if (!full) {
        p->queue[p->len++] = (struct item){owner, fn, arg};
        pthread_cond_signal(&p->work);
    }
    pthread_mutex_unlock(&p->lock);
    if (full)
        return err_set(e, ERR_UNAVAILABLE, "busy",
                       "too many requests are waiting; try again");
    return 0;
}
