/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The follower's calls to the spawner, which may block for seconds: a few
 * threads, a queue, and a function that gets each answer.
 * Thread rule: tasks_add from any thread; done() runs on a task thread.
 */
#ifndef BROKER_JOBS_TASKS_H
#define BROKER_JOBS_TASKS_H

#include "base/err.h"
#include "base/id.h"

#include <jansson.h>
#include <stdint.h>

struct spawn;
struct tasks;

enum task_kind {
    TASK_FINISH, /* verb finish; the receipts' contents are put into result */
    TASK_OUTCOME /* verb outcome */
};

struct task_answer {
    enum task_kind kind;
    char ulid[ULID_LEN + 1];
    json_t *result; /* owned; NULL on error */
    struct err error;
    struct task_answer *next;
};
void task_answer_free(struct task_answer *a);

/* a is the callee's. */
typedef void task_done_fn(void *arg, struct task_answer *a);

int tasks_start(int64_t deadline_ms, task_done_fn *done, void *arg,
                struct tasks **out, struct err *e);
/* Calls wait until there is a spawner. */
void tasks_use_spawn(struct tasks *t, struct spawn *spawn);
/* What is queued is dropped, what runs is waited for. NULL is fine. */
void tasks_stop(struct tasks *t);
/* 0: done() will get its answer, once; -1: ENOMEM. */
int tasks_add(struct tasks *t, enum task_kind kind, const char *ulid);

/* For tests: cut the pipe's bytes into the receipts of a finish's result, as
 * "content" (the receipt's JSON, or null where it is none or too long). */
int tasks_put_contents(json_t *result, const char *bytes, size_t n,
                       struct err *e);

#endif
