/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The script that a job must have: rendered from its pinned generation with the
 * workflow's own limits, so that everybody who renders it gets the same bytes.
 * Thread rule: any thread; reads the store's files.
 */
#ifndef BROKER_JOBS_SCRIPT_H
#define BROKER_JOBS_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"
#include "broker/generation.h"
#include "broker/jobs/store.h"
#include "workflows/workflow.h"

#include <jansson.h>

struct service;

/* Limits the script to what a job is: workflow, validated params, ids. */
struct script_of {
    const struct generation *generation;
    const struct workflow *workflow;
    const struct limits *limits;
    const char *ulid, *slurm_name, *account;
    bool has_sidecar;
};
/* Appends the text; sha256_hex has SHA256_HEX_LEN + 1 bytes. Errors:
 * templates/render.h's, crypto_failed. */
int script_render(struct service *s, const struct script_of *o, struct buf *out,
                  char *sha256_hex, struct err *e);

/* The same for a stored job, whose generation is loaded if it isn't the current
 * one. Errors also: ERR_UNAVAILABLE script_unavailable (generation or workflow
 * gone or revoked). */
int script_of_job(struct service *s, const struct job_row *j, struct buf *out,
                  char *sha256_hex, struct err *e);

#endif
