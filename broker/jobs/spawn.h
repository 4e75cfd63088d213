/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluiced's side of sluice-spawnd (broker/proto.h 1 and 2): one SEQPACKET
 * connection, made again for ever with a backoff; a receive thread; any number
 * of calls in flight, each waiting in its own thread.
 * Thread rule: any thread may call; callbacks run on the receive thread and
 * must not call back into spawn_call.
 */
#ifndef BROKER_JOBS_SPAWN_H
#define BROKER_JOBS_SPAWN_H

#include "base/buf.h"
#include "base/err.h"
#include "broker/generation.h"
#include "broker/proto.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct spawn;

struct spawn_hooks {
    void *arg;
    /* The current generation's id, copied to out (GENERATION_ID_LEN + 1). */
    void (*generation)(void *arg, char *out);
    /* A watch peer socket; ownership moves to the callee. */
    void (*watch)(void *arg, int fd);
    /* Connected or lost. May be NULL. */
    void (*link)(void *arg, bool up);
};

/* Starts the thread; the first connection may come later. */
int spawn_start(const char *socket_path, const struct spawn_hooks *h,
                struct spawn **out, struct err *e);
/* Closes the connection; every call in flight ends as if it were lost, later
 * ones get spawn_down. Then, when nobody calls any more, spawn_free. NULL is
 * fine in both. */
void spawn_stop(struct spawn *s);
void spawn_free(struct spawn *s);
bool spawn_connected(struct spawn *s);
/* The watch socket was lost: ask for another one (hooks.watch), without a wait.
 * May do nothing: ask again after a while. */
void spawn_ask_watch(struct spawn *s);

struct spawn_request { /* all borrowed */
    enum proto_verb verb;
    const char *request; /* ULID, unique; NULL: one is made */
    const char *ulid;    /* NULL for plan */
    const char *actor;   /* NULL: "system" */
    const char *token;   /* NULL: none */
    const json_t *args;  /* NULL: {} */
    /* Bytes of the request's pipe, at most its max; NULL: no pipe. */
    struct buf *pipe;
    /* Out, may be NULL: the generation that the frame named. */
    char *generation; /* GENERATION_ID_LEN + 1 */
};

/* Send, drain the pipe, wait for the result. *result is owned (may be NULL).
 * Without a connection it waits for one, at most 2 s and the deadline.
 * generation_mismatch is tried once more with the then current generation.
 * Errors: the spawner's or worker's own (ok: false) where the stage says that
 * nothing was sent, or Slurm said no; ERR_UNAVAILABLE spawn_down,
 * spawn_not_sent (nothing left this process); ERR_UNKNOWN answer_lost (the
 * frame left, and no answer came in time, or the connection went, or stage
 * `sending` and no word of slurmctld's own). */
int spawn_call(struct spawn *s, const struct spawn_request *r,
               int64_t deadline_mono_ms, json_t **result, struct err *e);

#endif
