/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The verbs as a table, and the question "may this actor do this?" answered
 * from root's people map, narrowed by a token. Pure functions: no state.
 * Thread rule: any thread.
 */
#ifndef BROKER_SPAWN_VERBS_H
#define BROKER_SPAWN_VERBS_H

#include "auth/people.h"
#include "base/err.h"
#include "broker/proto.h"
#include "workflows/workflow.h"

#include <stdbool.h>
#include <stdint.h>

enum verb_flag {
    VERB_BY_PERSON = 1, /* a person may send it */
    VERB_BY_SYSTEM = 2, /* sluiced itself may */
    VERB_OF_JOB = 4,    /* names a job of the record */
    VERB_NEW_JOB = 8,   /* names one that is not there yet */
    VERB_PIPE = 16,     /* comes with one descriptor */
    VERB_STORAGE = 32,  /* touches the shared filesystem */
    VERB_BULK = 64,     /* leaves the lane that is kept for the rest free */
    VERB_ACTS = 128     /* changes something: recorded before it is done */
};

struct verb_rule {
    enum proto_verb verb;
    unsigned flags;     /* enum verb_flag */
    unsigned own_roles; /* enum role: on one's own job, or a new one */
    unsigned any_roles; /* on anybody's job */
};
/* NULL: no verb that a client may send. */
const struct verb_rule *verbs_rule(int verb);

struct claims { /* of a verified token */
    char person[PERSON_NAME_MAX + 1];
    unsigned roles;        /* 0: all that the map gives */
    struct strs workflows; /* globs; empty: all */
    int64_t gpus_max;      /* 0: none named */
};
void claims_clear(struct claims *c);
int claims_copy(struct claims *to, const struct claims *from, struct err *e);
/* c may be NULL (no token). */
bool claims_workflow(const struct claims *c, const char *name);

struct grant {
    const struct person *person; /* of the map */
    enum role acting;
    bool own; /* his own job, or a new one */
};
/* owner: the job's, by the spawner's own record; NULL when the verb names
 * none. c: NULL without a token. Errors: ERR_DENIED actor_unknown
 * actor_mismatch role_required verb_forbidden; ERR_UNAUTHENTIC token_required;
 * ERR_NOT_FOUND job_unknown (a stranger's job is like none). */
int verbs_authorise(const struct verb_rule *r, const struct people *map,
                    const char *actor, const struct claims *c,
                    const char *owner, struct grant *out, struct err *e);
/* The workflow that g's person may run; one he may not is like an unknown one:
 * ERR_NOT_FOUND workflow_unknown. */
const struct workflow *verbs_workflow(const struct allowlist *list,
                                      const struct grant *g,
                                      const struct claims *c, const char *name,
                                      struct err *e);

#endif
