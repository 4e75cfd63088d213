/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * From what slurmdbd or slurmctld says of a job to run rows of the ledger, one
 * an attempt (runs are billed, not jobs: rows with duplicates).
 * Thread rule: writer units; runs_closed is pure.
 */
#ifndef BROKER_JOBS_RUNS_H
#define BROKER_JOBS_RUNS_H

#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/store.h"
#include "broker/jobs/view.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Is accounting done with this job: its newest row is closed, and is not an
 * attempt that goes on (REQUEUED, RESIZING)? last: that row, borrowed from
 * rows. Rows of other jobs and malformed ones don't count. */
bool runs_closed(const json_t *rows, const struct job_row *j,
                 struct row_view *last);

/* Book every closed row of this job. Idempotent. */
int runs_book_rows(struct db *d, const struct job_row *j, const json_t *rows,
                   int64_t now, struct err *e);
/* Book the last attempt on slurmctld's figures. */
int runs_book_job(struct db *d, const struct job_row *j, const json_t *job,
                  int64_t now, struct err *e);

#endif
