/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What came of a submit, recorded in one transaction: job row, hold, audit row
 * and the Idempotency-Key's answer. Used by the POST itself and by the
 * reconcile that comes after a lost answer, so that both record the same.
 * Thread rule: writer units and what they call.
 */
#ifndef BROKER_JOBS_OUTCOME_H
#define BROKER_JOBS_OUTCOME_H

#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/doc.h"
#include "broker/jobs/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum outcome_kind {
    OUTCOME_ACCEPTED, /* the worker reported an id (a claim) */
    OUTCOME_REFUSED,  /* definite: nothing was started */
    OUTCOME_UNKNOWN   /* sent, or perhaps sent, and no word */
};

struct outcome {
    const char *ulid;        /* in */
    enum outcome_kind kind;  /* in */
    const json_t *result;    /* in: of an accepted one */
    const struct err *error; /* in: of the others */
    const char *generation;  /* in: that the frame named; NULL: as stored */
    int64_t now;             /* in: Unix seconds */
    struct doc_fresh fresh;  /* in: for the document that is the answer */
    /* out: the row as it is now. The kind may become ACCEPTED: watch had seen
     * and confirmed the job before its worker's refusal came. */
    struct job_row job;
    bool told;  /* in: somebody may hold the id already, so the row stays */
    bool gone;  /* the job row was deleted */
    char *body; /* the job document; owned; NULL when gone */
};
/* Errors: base/db's, job_not_found, base/json's (a result that is not one). The
 * Idempotency-Key's claim is dropped where nothing was started and a retry may
 * do better (ERR_UNAVAILABLE and the like). */
int outcome_record(struct db *d, struct outcome *o, struct err *e);
void outcome_clear(struct outcome *o);

#endif
