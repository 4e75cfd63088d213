/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * POST /v1/jobs as named steps:
 * parse -> replay -> authorise -> validate -> prepare -> record intent (with
 * the hold) -> submit -> record outcome; a dry run ends in plan. Each step is
 * one function, 0 or -1.
 * Thread rule: a pool thread; it blocks until the answer or the deadline
 * (config limits.submit_deadline_ms).
 */
#ifndef BROKER_JOBS_PIPELINE_H
#define BROKER_JOBS_PIPELINE_H

#include "base/db.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/jobs/identity.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct service;

/* Keys: store_label_key_valid(). */
enum { LABELS_MAX = 16, LABEL_VALUE_MAX = 255 };

struct submit_request { /* all borrowed */
    const struct identity *who;
    const json_t *body; /* as base/json parsed it */
    const char
        *idempotency_key; /* NULL: none; 1..STORE_KEY_MAX visible ASCII */
    const char *request;  /* ULID of this HTTP request */
    bool dry_run;
};

struct submit_answer { /* submit_answer_clear() */
    int status;        /* 201, 202, 200 (dry run) */
    bool replayed;
    char job[JOB_ID_LEN + 1]; /* "" for a dry run */
    char *body;               /* JSON text */
    size_t body_len;
};
void submit_answer_clear(struct submit_answer *a);

/* 0 with the answer, or -1. Errors beside validation's (workflow.h), Slurm's
 * (ERR_SLURM, sys = Slurm's errno) and the spawner's:
 *   ERR_INVALID body_type json_* (an unknown key) label_invalid
 *               idempotency_key idempotency_key_reused
 *   ERR_CONFLICT idempotency_in_flight generation_mismatch (come again)
 *   ERR_NOT_FOUND workflow_not_found (also for a forbidden one)
 *   ERR_DENIED   role_missing no_account
 *   ERR_UNAUTHENTIC token_required
 *   ERR_LIMITED  quota_gpus
 *   ERR_UNAVAILABLE spawn_down spawn_not_sent db_*
 * Each refusal leaves its audit row (kind decided, with the code).
 * answer->replayed is set for a replayed error too. A dry run answers
 * {"workflow","params","script","script_sha256","resources","account","qos",
 *  "will_run","start_estimate","slurm_error","price":null}. */
int pipeline_submit(struct service *s, struct db *reader,
                    const struct submit_request *r, struct submit_answer *out,
                    struct err *e);

#endif
