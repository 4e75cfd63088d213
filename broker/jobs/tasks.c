/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/tasks.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "broker/jobs/spawn.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Each may sit in a stuck share until its deadline; the spawner itself bounds
 * what touches one mount. */
enum {
    THREADS = 4,
    RECEIPTS_BYTES_MAX = PROTO_RECEIPTS_MAX * PROTO_RECEIPT_MAX,
    CONTENT_MAX = 16 * 1024, /* of one receipt in the job document */
    CONTENTS_MAX = 96 * 1024 /* of all: the document has a maximum too */
};

struct tasks {
    pthread_t threads[THREADS];
    int started;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct task_answer *head, **tail; /* queued, still empty */
    struct spawn *spawn;
    int64_t deadline_ms;
    task_done_fn *done;
    void *arg;
    bool stopping;
};

void task_answer_free(struct task_answer *a)
{
    if (!a)
        return;
    json_decref(a->result);
    free(a);
}

/* --- receipts --- */

static json_t *content_of(const char *p, size_t n, size_t *used)
{
    struct err ignored = ERR_INIT;
    json_t *v = NULL;

    if (n <= CONTENT_MAX && *used + n <= CONTENTS_MAX)
        v = json_parse(p, n, CONTENT_MAX, &ignored);
    if (!v)
        return json_null();
    *used += n;
    return v;
}

int tasks_put_contents(json_t *result, const char *bytes, size_t n,
                       struct err *e)
{
    json_t *list = json_object_get(result, "receipts");
    size_t at = 0, used = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *r = json_array_get(list, i);
        int64_t size = json_integer_value(json_object_get(r, "bytes"));
        size_t part = size < 0 || size > PROTO_RECEIPT_MAX ? PROTO_RECEIPT_MAX
                                                           : (size_t)size;
        if (!json_is_object(r))
            return err_set(e, ERR_INVALID, "wire_frame", "receipts");
        if (part > n - at)
            part = n - at;
        if (json_put(r, "content", content_of(bytes + at, part, &used)))
            return err_nomem(e);
        at += part;
    }
    return 0;
}

/* --- calls --- */

static int run_finish(struct tasks *t, struct task_answer *a)
{
    struct buf pipe;
    const struct spawn_request r = {
        .verb = VERB_FINISH, .ulid = a->ulid, .pipe = &pipe};
    int rc;

    buf_init(&pipe, RECEIPTS_BYTES_MAX);
    rc = spawn_call(t->spawn, &r, clock_mono_ms() + t->deadline_ms, &a->result,
                    &a->error);
    if (rc == 0)
        rc = tasks_put_contents(a->result, buf_str(&pipe), pipe.len, &a->error);
    buf_clear(&pipe);
    return rc;
}

static int run_outcome(struct tasks *t, struct task_answer *a)
{
    const struct spawn_request r = {.verb = VERB_OUTCOME, .ulid = a->ulid};

    return spawn_call(t->spawn, &r, clock_mono_ms() + t->deadline_ms,
                      &a->result, &a->error);
}

/* a was made by tasks_add, so that an answer always comes. */
static void run_task(struct tasks *t, struct task_answer *a)
{
    int rc = a->kind == TASK_FINISH ? run_finish(t, a) : run_outcome(t, a);
    if (rc) {
        json_decref(a->result);
        a->result = NULL;
    }
    t->done(t->arg, a);
}

/* --- threads --- */

static struct task_answer *next_task(struct tasks *t)
{
    struct task_answer *a = NULL;

    pthread_mutex_lock(&t->lock);
    while (!t->stopping && (!t->head || !t->spawn))
        pthread_cond_wait(&t->work, &t->lock);
    if (!t->stopping) {
        a = t->head;
        t->head = a->next;
        a->next = NULL;
        if (!t->head)
            t->tail = &t->head;
    }
    pthread_mutex_unlock(&t->lock);
    return a;
}

static void *tasks_main(void *arg)
{
    struct tasks *t = arg;
    struct task_answer *a;

    while ((a = next_task(t)))
        run_task(t, a);
    return NULL;
}

int tasks_start(int64_t deadline_ms, task_done_fn *done, void *arg,
                struct tasks **out, struct err *e)
{
    struct tasks *t = calloc(1, sizeof *t);

    if (!t)
        return err_nomem(e);
    t->deadline_ms = deadline_ms;
    t->done = done;
    t->arg = arg;
    t->tail = &t->head;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    for (; t->started < THREADS; t->started++) {
        if (pthread_create(&t->threads[t->started], NULL, tasks_main, t)) {
            tasks_stop(t);
            return err_set(e, ERR_INTERNAL, "no_thread", "no task thread");
        }
    }
    *out = t;
    return 0;
}

void tasks_use_spawn(struct tasks *t, struct spawn *spawn)
{
    pthread_mutex_lock(&t->lock);
    t->spawn = spawn;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

void tasks_stop(struct tasks *t)
{
    struct task_answer *next;

    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->started; i++)
        pthread_join(t->threads[i], NULL);
    for (struct task_answer *a = t->head; a; a = next) {
        next = a->next;
        task_answer_free(a);
    }
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

int tasks_add(struct tasks *t, enum task_kind kind, const char *ulid)
{
    struct task_answer *a = calloc(1, sizeof *a);

    if (!a)
        return -1;
    a->kind = kind;
    memcpy(a->ulid, ulid, sizeof a->ulid);
    pthread_mutex_lock(&t->lock);
    *t->tail = a;
    t->tail = &a->next;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    return 0;
}
