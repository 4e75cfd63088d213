/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One request of sluiced, as a list of named steps (steps.c) that each go on,
 * wait for a callback, or refuse. Its answer goes to the client that asked, if
 * it is still there; a submit goes on without it and its result is kept.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_OPS_H
#define BROKER_SPAWN_OPS_H

#include "base/err.h"
#include "base/wire.h"
#include "broker/spawn/crew.h"
#include "broker/spawn/record.h"
#include "broker/spawn/spawnd.h"
#include "broker/spawn/verbs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct client;
enum { OPS_MAX = 4096, OPS_CLIENT_MAX = 1024 };

enum step { STEP_NEXT, STEP_WAIT, STEP_FAIL, STEP_ANSWERED };

struct op {
    struct op *next, *prev;
    struct spawnd *spawnd;
    struct client *client; /* NULL: gone */
    char request[ULID_LEN + 1];
    char ulid[ULID_LEN + 1]; /* "": none */
    char actor[PERSON_NAME_MAX + 1];
    char generation_id[GENERATION_ID_LEN + 1];
    bool is_system;
    char *token; /* owned, wiped; NULL: none */
    const struct verb_rule *rule;
    json_t *args; /* owned; may hold secrets: wiped */
    int fd;       /* the request's pipe, or -1 */

    enum step (*const *steps)(struct op *o);
    size_t at;
    bool in_step, woken, wants_sync;
    struct err err;

    bool has_claims;
    struct claims claims;
    struct grant grant;            /* person: of `current`, which is held */
    struct generation *current;    /* owned: of the frame */
    struct generation *generation; /* owned: of the job */
    struct accounts *table;        /* owned */
    const struct account *account;
    const struct workflow *workflow; /* of `current`; plan and submit */
    json_t *params;                  /* owned, normal form */
    json_t *secret_names;            /* owned, sorted array */
    int64_t gpus;
    struct rec *rec;
    bool asked;                   /* watch, what became of the job */
    bool absent_ctld, absent_dbd; /* it was asked, answered, and had nothing */
    struct task *task;
    bool has_sidecar;
    json_t *prepared; /* owned: result of prepare */
    json_t *result;   /* owned: of the last task, or the answer's */
    json_t *answer;   /* owned: a whole frame, for STEP_ANSWERED */
    enum proto_stage stage;
};

struct ops;
int ops_new(struct spawnd *d, struct ops **out, struct err *e);
void ops_free(struct ops *s); /* no answers; NULL is fine */

/* A frame of a client that may send verbs; what it needs of m is taken. -1: it
 * is no request: the caller drops the connection. */
int ops_begin(struct ops *s, struct client *c, struct wire_msg *m,
              struct err *e);
void ops_client_gone(struct ops *s, const struct client *c);
/* End of a turn of the loop: write, make durable, go on. */
void ops_turn(struct ops *s);
size_t ops_count(const struct ops *s);

/* For the steps: go on after STEP_WAIT; with o->err set it has failed. */
void op_resume(struct op *o);
/* {"event":"stage"} to the client. */
void op_tell_stage(struct op *o);

/* The steps of a verb, NULL-terminated (steps.c). */
enum step (*const *steps_of(enum proto_verb v))(struct op *o);

#endif
