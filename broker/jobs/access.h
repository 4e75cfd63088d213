/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who may see and do what with a job, in one place; and the audit rows of reads
 * that aren't one's own.
 * Thread rule: as actions.h.
 */
#ifndef BROKER_JOBS_ACCESS_H
#define BROKER_JOBS_ACCESS_H

#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/actions.h"
#include "broker/jobs/store.h"

#include <stdint.h>

enum { ACCESS_READ_ALL = ROLE_OPERATOR | ROLE_AUDITOR, ACCESS_LABEL_MAX = 264 };

enum access {
    ACCESS_READ, /* all that is read: owner, operator, auditor */
    ACCESS_ACT   /* cancel, hold, release: owner, operator, admin */
};
/* The row of job_id ("job_..."), if this identity may: else job_not_found, as
 * for one that isn't there. An auditor who may see but not act: ERR_DENIED
 * role_missing. out: store_job_clear. */
int access_job(const struct ask *a, const char *job_id, enum access what,
               struct job_row *out, struct err *e);

/* One audit row (kind read) if the job is somebody else's: one commit. */
int access_note_read(const struct ask *a, const struct job_row *j,
                     const char *action, struct err *e);
/* The same for a read of everybody's rows. */
int access_note_all(const struct ask *a, const char *action, struct err *e);

/* A principal's name label; "" when there is none. label: ACCESS_LABEL_MAX. */
int access_label(struct db *d, int64_t principal, char *label, struct err *e);

#endif
