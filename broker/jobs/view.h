/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * watch's JOB and ROW objects (proto.h 4) as plain structs. Borrowed: a view
 * lives as long as the object it was made from. Pure functions.
 */
#ifndef BROKER_JOBS_VIEW_H
#define BROKER_JOBS_VIEW_H

#include "audit/ledger.h"
#include "base/err.h"
#include "broker/jobs/states.h"
#include "broker/jobs/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct job_view {
    int64_t job_id, uid, submit_time, start_time, end_time, restarts, nodes,
        time_limit_seconds;
    const char *name, *partition, *account, *qos, *script_sha256;
    bool has_exit;
    struct slurm_view slurm;
    struct ledger_gpus alloc, requested;
    const json_t *raw;
};
/* Errors: base/json's (ERR_INVALID), ledger_tres. */
int view_job(const json_t *job, struct job_view *out, struct err *e);

struct row_view {
    int64_t job_id, uid, submit, start, end, nodes, restarts;
    const char *db_index, *name, *state;
    bool has_exit;
    int64_t exit_code, exit_signal;
    struct ledger_gpus alloc;
    const json_t *raw;
};
int view_row(const json_t *row, struct row_view *out, struct err *e);
/* Is the row one of this job's: uid, and the id or the exact name, and not
 * older than the intent? */
bool view_row_is_of(const struct row_view *r, const struct job_row *j);

#endif
