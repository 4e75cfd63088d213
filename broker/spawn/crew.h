/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The people's workers. One is keyed by (uid, kind, generation, entry of the
 * account table), serves one task at a time, and is kept for the next of the
 * same person: at most worker_requests, or worker_idle_ms of nothing to do. At
 * most CREW_PER_PERSON of each kind a person; bulk reads use at most one of
 * them, so that a lane stays free for submit and cancel. What finds no place
 * waits until the task's start_by.
 * Thread rule: the one thread. `done` is never called from inside crew_give.
 */
#ifndef BROKER_SPAWN_CREW_H
#define BROKER_SPAWN_CREW_H

#include "base/err.h"
#include "base/id.h"
#include "broker/config.h"
#include "broker/generation.h"
#include "broker/proto.h"
#include "broker/spawn/accounts.h"
#include "broker/spawn/child.h"
#include "broker/spawn/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum crew_kind { CREW_FILES, CREW_SLURM, CREW_KINDS };
enum {
    CREW_PER_PERSON = 2,
    CREW_WORKERS_MAX = 512,
    CREW_QUEUE_PERSON_MAX = 256,
    CREW_STUCK_MAX = 4,  /* then storage_stalled */
    CREW_GRACE_MS = 1000 /* from SIGKILL to "it is stuck" */
};

struct crew;
struct task;

struct task_spec {
    enum crew_kind kind;
    enum proto_verb verb; /* the worker's */
    bool bulk;
    char request[ULID_LEN + 1];
    struct accounts *table;        /* borrowed; the task keeps a reference */
    const struct account *account; /* of table */
    struct generation *generation; /* borrowed; the task keeps a reference */
    json_t *frame;                 /* owned by the task from crew_give on */
    int fd;                        /* likewise; -1: none */
    int64_t start_by_ms;           /* CLOCK_MONOTONIC: then crew_busy */
    int64_t run_ms;                /* from the worker's getting it to its end */
    /* The worker's word of its stage; may be NULL. */
    void (*staged)(void *arg, enum proto_stage stage);
    /* result (borrowed), or NULL with the stage it came to and why. */
    void (*done)(void *arg, const json_t *result, enum proto_stage stage,
                 const struct err *why);
    void *arg;
};

int crew_new(struct loop *l, struct children *cs, const struct config *config,
             struct crew **out, struct err *e);
void crew_free(struct crew *c); /* no callbacks; NULL is fine */

/* *out: for crew_forget. On -1 nothing will be called, frame and fd are gone
 * too. Errors: ERR_UNAVAILABLE worker_brake storage_stalled, ERR_LIMITED
 * crew_busy. */
int crew_give(struct crew *c, const struct task_spec *s, struct task **out,
              struct err *e);
/* A worker of this spec's kind and person will be wanted soon: where he has
 * none, start it now, so that its start overlaps what comes before. The spec's
 * frame, fd and callbacks are not looked at. Never fails. */
void crew_warm(struct crew *c, const struct task_spec *s);
/* Nobody waits for it any more; it goes on. */
void crew_forget(struct task *t);

/* End what is idle, and the busy ones after their task. */
void crew_retire_account(struct crew *c, uid_t uid);
void crew_retire_generations(struct crew *c, const char *but_id);

size_t crew_workers(const struct crew *c);
/* File workers that outlived SIGKILL: an uninterruptible wait. */
size_t crew_stuck(const struct crew *c);

#endif
