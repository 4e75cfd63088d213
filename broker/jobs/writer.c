/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/writer.h"

#include "base/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* A group is bounded so that the first in the queue doesn't wait for a stream
 * of later ones: 64 units of a few rows each are written in about 10 ms. */
enum { GROUP_MAX = 64 };

/* Lives on the caller's stack until done. */
struct unit {
    writer_fn *fn;
    void *arg;
    struct err *e;
    int rc;
    bool done;
    struct unit *next;
};

struct writer {
    struct db *db;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct unit *head, **tail;
    int callers; /* in writer_call: the writer is freed after the last */
    bool stopping;
};

/* Up to GROUP_MAX units off the queue; NULL when stopping and empty. */
static struct unit *next_group(struct writer *w)
{
    struct unit *group, **end;
    int n = 0;

    pthread_mutex_lock(&w->lock);
    while (!w->head && !w->stopping)
        pthread_cond_wait(&w->work, &w->lock);
    group = w->head;
    for (end = &w->head; *end && n < GROUP_MAX; n++)
        end = &(*end)->next;
    w->head = *end;
    *end = NULL;
    if (!w->head)
        w->tail = &w->head;
    if (n == 0)
        group = NULL;
    pthread_mutex_unlock(&w->lock);
    return group;
}

static void run_unit(struct db *d, struct unit *u)
{
    u->rc = -1;
    if (db_savepoint(d, u->e))
        return;
    if (u->fn(d, u->arg, u->e) == 0 && db_release(d, u->e) == 0) {
        u->rc = 0;
        return;
    }
    err_set(u->e, ERR_INTERNAL, "unit_failed", "no reason was given");
    db_rollback_to(d);
}

static void fail_group(struct unit *group, const struct err *why)
{
    for (struct unit *u = group; u; u = u->next) {
        if (u->rc == 0 && u->e)
            *u->e = *why;
        u->rc = -1;
    }
}

static void run_group(struct db *d, struct unit *group)
{
    struct err e = ERR_INIT, unknown = ERR_INIT;

    if (db_begin_immediate(d, &e)) {
        fail_group(group, &e); /* rc is still 0: everybody gets the reason */
        log_err("begin_failed", NULL, &e);
        return;
    }
    for (struct unit *u = group; u; u = u->next)
        run_unit(d, u);
    if (db_commit(d, &e) == 0)
        return;
    /* A failed COMMIT can still be there after reopening. */
    log_err("commit_failed", NULL, &e);
    db_rollback(d);
    err_set(&unknown, ERR_INTERNAL, "commit_unknown",
            "the database did not confirm the change");
    fail_group(group, &unknown);
}

static void finish_group(struct writer *w, struct unit *group)
{
    struct unit *next;

    pthread_mutex_lock(&w->lock);
    for (struct unit *u = group; u; u = next) {
        next = u->next; /* u is gone once its caller wakes */
        u->done = true;
    }
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct unit *group;

    while ((group = next_group(w))) {
        run_group(w->db, group);
        finish_group(w, group);
    }
    return NULL;
}

int writer_start(struct db *d, struct writer **out, struct err *e)
{
    struct writer *w = calloc(1, sizeof *w);

    if (!w) {
        db_close(d);
        return err_nomem(e);
    }
    w->db = d;
    w->tail = &w->head;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    if (pthread_create(&w->thread, NULL, writer_main, w)) {
        db_close(d);
        free(w);
        return err_set(e, ERR_INTERNAL, "no_thread", "no writer thread");
    }
    *out = w;
    return 0;
}

void writer_stop(struct writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_lock(&w->lock);
    while (w->callers > 0)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
    db_close(w->db);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

int writer_call(struct writer *w, writer_fn *fn, void *arg, struct err *e)
{
    struct unit u = {.fn = fn, .arg = arg, .e = e};

    pthread_mutex_lock(&w->lock);
    if (w->stopping) {
        pthread_mutex_unlock(&w->lock);
        return err_set(e, ERR_UNAVAILABLE, "stopping", "the server stops");
    }
    w->callers++;
    *w->tail = &u;
    w->tail = &u.next;
    pthread_cond_signal(&w->work);
    while (!u.done)
        pthread_cond_wait(&w->done, &w->lock);
    if (--w->callers == 0 && w->stopping)
        pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
    return u.rc;
}
