/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/waiters.h"

#include "base/clock.h"
#include "base/id.h"
#include "broker/jobs/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One a waiting connection: more than two listeners' connections by default. */
enum { WAITERS_MAX = 16384, BUCKETS = 1024 };

struct waiter {
    char ulid[ULID_LEN + 1];
    int64_t seen, deadline;
    waiters_fn *fn;
    void *arg;
    struct waiter *next;
};

struct waiters {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct waiter *bucket[BUCKETS];
    size_t count;
    int64_t next_deadline; /* INT64_MAX: none */
    bool stopping, closed;
};

/* The random half of a ULID hashes itself. */
static struct waiter **bucket_of(struct waiters *w, const char *ulid)
{
    size_t h = 0;

    for (int i = ULID_LEN - 6; i < ULID_LEN; i++)
        h = h * 33 + (unsigned char)ulid[i];
    return &w->bucket[h % BUCKETS];
}

static void take(struct waiters *w, struct waiter **p, struct waiter **list)
{
    struct waiter *x = *p;

    *p = x->next;
    x->next = *list;
    *list = x;
    w->count--;
}

/* Outside the lock: a callback may take other locks of its owner. */
static void call_all(struct waiter *list, bool changed)
{
    struct waiter *next;

    for (; list; list = next) {
        next = list->next;
        list->fn(list->arg, changed);
        free(list);
    }
}

/* Take what is due at `now`, and note the next deadline. Locked. */
static struct waiter *take_due(struct waiters *w, int64_t now)
{
    struct waiter *list = NULL;

    w->next_deadline = INT64_MAX;
    for (size_t i = 0; i < BUCKETS; i++) {
        struct waiter **p = &w->bucket[i];
        while (*p) {
            if ((*p)->deadline <= now) {
                take(w, p, &list);
                continue;
            }
            if ((*p)->deadline < w->next_deadline)
                w->next_deadline = (*p)->deadline;
            p = &(*p)->next;
        }
    }
    return list;
}

static void sleep_until(struct waiters *w)
{
    struct timespec at;

    if (w->next_deadline == INT64_MAX) {
        pthread_cond_wait(&w->wake, &w->lock);
        return;
    }
    at.tv_sec = (time_t)(w->next_deadline / 1000);
    at.tv_nsec = (long)(w->next_deadline % 1000) * 1000000;
    pthread_cond_timedwait(&w->wake, &w->lock, &at);
}

static void *waiters_main(void *arg)
{
    struct waiters *w = arg;

    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        struct waiter *due = NULL;
        if (w->next_deadline <= clock_mono_ms())
            due = take_due(w, clock_mono_ms());
        if (due) {
            pthread_mutex_unlock(&w->lock);
            call_all(due, false);
            pthread_mutex_lock(&w->lock);
            continue;
        }
        sleep_until(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int waiters_start(struct waiters **out, struct err *e)
{
    struct waiters *w = calloc(1, sizeof *w);
    pthread_condattr_t attr;

    if (!w)
        return err_nomem(e);
    w->next_deadline = INT64_MAX;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&w->thread, NULL, waiters_main, w)) {
        free(w);
        return err_set(e, ERR_INTERNAL, "no_thread", "no waiters thread");
    }
    *out = w;
    return 0;
}

void waiters_wake_all(struct waiters *w)
{
    struct waiter *all;

    pthread_mutex_lock(&w->lock);
    w->closed = true;
    all = take_due(w, INT64_MAX);
    pthread_mutex_unlock(&w->lock);
    call_all(all, false);
}

void waiters_stop(struct waiters *w)
{
    if (!w)
        return;
    waiters_wake_all(w);
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* 0 added; 1 closed; -1. */
static int add(struct waiters *w, struct waiter *x, struct err *e)
{
    struct waiter **p = bucket_of(w, x->ulid);
    int rc = 0;

    pthread_mutex_lock(&w->lock);
    if (w->closed)
        rc = 1;
    else if (w->count >= WAITERS_MAX)
        rc = err_set(e, ERR_LIMITED, "waiters_full", "too many wait already");
    if (rc == 0) {
        x->next = *p;
        *p = x;
        w->count++;
        if (x->deadline < w->next_deadline) {
            w->next_deadline = x->deadline;
            pthread_cond_signal(&w->wake);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* Take it back. true: removed, fn won't be called any more; false: fn was or
 * is being called. */
static bool cancel(struct waiters *w, const char *ulid, void *arg)
{
    struct waiter *list = NULL;

    pthread_mutex_lock(&w->lock);
    for (struct waiter **p = bucket_of(w, ulid); *p; p = &(*p)->next) {
        if ((*p)->arg == arg && !strcmp((*p)->ulid, ulid)) {
            take(w, p, &list);
            break;
        }
    }
    pthread_mutex_unlock(&w->lock);
    free(list);
    return list != NULL;
}

int waiters_register(struct waiters *w, struct db *reader, const char *ulid,
                     int64_t seen, int64_t deadline_mono_ms, waiters_fn *fn,
                     void *arg, struct err *e)
{
    struct waiter *x = calloc(1, sizeof *x);
    int64_t version = 0;
    int rc;

    if (!x)
        return err_nomem(e);
    *x = (struct waiter){
        .seen = seen, .deadline = deadline_mono_ms, .fn = fn, .arg = arg};
    memcpy(x->ulid, ulid, ULID_LEN + 1);
    rc = add(w, x, e);
    if (rc) {
        free(x);
        return rc;
    }
    /* A change that was committed before add() is seen here; a later one
     * finds us registered. */
    rc = store_job_version(reader, ulid, &version, e);
    if (rc == 0 && version <= seen)
        return 0;
    if (!cancel(w, ulid, arg))
        return 0; /* it was called in between: that was its one call */
    return rc ? -1 : 1;
}

void waiters_notify(struct waiters *w, const char *ulid, int64_t version)
{
    struct waiter *list = NULL, **p;

    pthread_mutex_lock(&w->lock);
    p = bucket_of(w, ulid);
    while (*p) {
        if (version > (*p)->seen && !strcmp((*p)->ulid, ulid))
            take(w, p, &list);
        else
            p = &(*p)->next;
    }
    pthread_mutex_unlock(&w->lock);
    call_all(list, true);
}
