/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The one thread that writes the database, with group commit: everything that
 * is queued runs in one BEGIN IMMEDIATE ... COMMIT, each unit in a savepoint of
 * its own, so that eight submitters share one fsync and one unit's failure
 * undoes only itself.
 * Thread rule: writer_call from any thread but the writer's own; a unit runs on
 * the writer thread and must not block on anything but the database.
 */
#ifndef BROKER_JOBS_WRITER_H
#define BROKER_JOBS_WRITER_H

#include "base/db.h"
#include "base/err.h"

struct writer;

/* 0: keep; -1 with e: this unit is rolled back, others are not touched. */
typedef int writer_fn(struct db *d, void *arg, struct err *e);

/* Takes over `d` (closed by writer_stop, or on failure). */
int writer_start(struct db *d, struct writer **out, struct err *e);
/* Runs what is queued, then ends the thread and closes the database. Later
 * calls get ERR_UNAVAILABLE "stopping". NULL is fine. */
void writer_stop(struct writer *w);

/* Returns when the unit's transaction is durable. Errors: the unit's own;
 * base/db's when the transaction couldn't begin (nothing was done);
 * ERR_INTERNAL "commit_unknown" when COMMIT failed: it may or may not be
 * there after a restart, for everybody in the group. */
int writer_call(struct writer *w, writer_fn *fn, void *arg, struct err *e);

#endif
