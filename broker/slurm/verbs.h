/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The verbs of sluice-slurm worker: plan submit cancel hold release, as the
 * person. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_VERBS_H
#define BROKER_SLURM_VERBS_H

#include "base/err.h"
#include "broker/generation.h"
#include "broker/slurm/assoc.h"
#include "broker/worker.h"

#include <jansson.h>
#include <stddef.h>

struct slurm_context { /* the context of every verb; pointers borrowed */
    const struct worker_site *site;
    const struct generation *generation;
    struct assoc assoc;
    char account[256]; /* the Unix account of the last order; "": none yet */
};

const struct worker_verb *slurm_verbs(size_t *count);

/* For worker.answered: what the next order will want to know of Slurm. */
void slurm_answered(void *context);

int verb_plan(void *context, struct worker_request *r, json_t *result,
              struct err *e);
int verb_submit(void *context, struct worker_request *r, json_t *result,
                struct err *e);
int verb_cancel(void *context, struct worker_request *r, json_t *result,
                struct err *e);
int verb_hold(void *context, struct worker_request *r, json_t *result,
              struct err *e);
int verb_release(void *context, struct worker_request *r, json_t *result,
                 struct err *e);

#endif
