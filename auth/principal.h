/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A principal is an integer of ours, mapped from (issuer, subject) in its own
 * table. Names are labels: audit and ledger
 * keep the integer, and a label may change.
 * Thread rule: one thread per struct db.
 */
#ifndef AUTH_PRINCIPAL_H
#define AUTH_PRINCIPAL_H

#include "base/db.h"
#include "base/err.h"

#include <stdint.h>

enum { PRINCIPAL_TEXT_MAX = 256 };

/* CREATE TABLE and triggers; one entry of the migration list that broker/jobs
 * owns. An id is never used again; issuer and subject never change. */
extern const char *const principal_sql;

/* The principal of (issuer, subject), made when new; its label is brought up
 * to date. d is the writer's. Errors: ERR_INVALID principal_text (empty, or
 * longer than PRINCIPAL_TEXT_MAX bytes), and base/db.h's. */
int principal_id(struct db *d, const char *issuer, const char *subject,
                 const char *label, int64_t *out, struct err *e);

#endif
