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

#include <stdbool.h>
#include <stdint.h>

/* Whose roles reach over what is their own: anybody's may be read, and
 * anybody's may be cancelled, held and released. */
enum {
    ACCESS_READ_ALL = ROLE_OPERATOR | ROLE_AUDITOR,
    ACCESS_ACT_ALL = ROLE_OPERATOR | ROLE_ADMIN,
    ACCESS_LABEL_MAX = 264
};

enum access {
    ACCESS_READ, /* all that is read: owner, ACCESS_READ_ALL */
    ACCESS_ACT   /* cancel, hold, release: owner, ACCESS_ACT_ALL */
};
/* May it be read? An admin acts on jobs that he may not read. */
bool access_may_read(const struct identity *who, const struct job_row *j);
/* The row of job_id ("job_..."), if this identity may: else job_not_found, as
 * for one that isn't there. An auditor who may see but not act: ERR_DENIED
 * role_missing. out: store_job_clear. */
int access_job(const struct ask *a, const char *job_id, enum access what,
               struct job_row *out, struct err *e);

/* Is it a no to what was asked (and not: a part is down, a mistake of ours)?
 * Each no to a known person leaves one audit row. */
bool access_is_refusal(const struct err *why);
/* That row: kind decided, with the code. ulid: the job's, or NULL. It waits for
 * a commit; what can't be written is logged. Does nothing for other errors. */
void access_note_refusal(const struct ask *a, const char *action,
                         const char *ulid, const struct err *why);

/* One audit row (kind read) if the job is somebody else's: one commit. Once a
 * request (ask.noted). */
int access_note_read(const struct ask *a, const struct job_row *j,
                     const char *action, struct err *e);
/* The same for a read of everybody's rows. */
int access_note_all(const struct ask *a, const char *action, struct err *e);

/* A principal's name label; "" when there is none. label: ACCESS_LABEL_MAX. */
int access_label(struct db *d, int64_t principal, char *label, struct err *e);

#endif
