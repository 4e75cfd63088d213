/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * SQLite, named in this module only. One file, WAL, synchronous=FULL,
 * foreign_keys, recursive_triggers, trusted_schema=OFF, DEFENSIVE; an
 * authorizer denies UPDATE/DELETE on the append-only tables named at open, and
 * DROP/ALTER/ATTACH and pragmas that set something after migration; temporary
 * triggers stop what it can't see, INSERT OR REPLACE (db_constraint). What is
 * denied fails when it is prepared, and so does a statement whose trigger or
 * foreign-key action would do it. A reader may only read. A step never turns an
 * error into "not found". Thread rule: one thread per struct db at a time.
 * Errors: ERR_INTERNAL db_error (text from SQLite), ERR_CONFLICT
 * db_constraint, ERR_UNAVAILABLE db_full / db_busy.
 */
#ifndef BASE_DB_H
#define BASE_DB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct db_stmt; /* prepared once, owned by its db */

struct db_migration {
    int version;     /* 1, 2, 3, ... without gaps: PRAGMA user_version */
    const char *sql; /* several statements; runs in one transaction */
};

/* For writing: takes an exclusive flock(2) on "<path>.lock"; a second writer
 * is ERR_CONFIG "db_in_use". Creates with mode 0600. Runs what is missing of
 * the migrations; a database newer than the list is ERR_CONFIG "db_newer".
 * append_only: NULL-terminated (or NULL), kept by pointer; each table must
 * exist after the migrations. */
int db_open_writer(const char *path, const struct db_migration *m, size_t count,
                   const char *const *append_only, struct db **out,
                   struct err *e);
int db_open_reader(const char *path, struct db **out, struct err *e);
void db_close(struct db *d); /* finalises all its statements */

int db_exec(struct db *d, const char *sql, struct err *e);
int db_begin_immediate(struct db *d, struct err *e);
/* -1 is not "it did not happen": after an I/O error the rows may be there when
 * the file is opened again. After -1 call db_rollback(). */
int db_commit(struct db *d, struct err *e);
void db_rollback(struct db *d);
/* Nested savepoints, for one unit inside a group commit. */
int db_savepoint(struct db *d, struct err *e);
int db_release(struct db *d, struct err *e);
void db_rollback_to(struct db *d); /* undo and end the innermost one */

/* Prepare, or find the one already prepared for this very pointer `sql` (a
 * static string, exactly one statement). Reset and cleared of bindings: don't
 * prepare a statement again while its rows are being read. Borrowed. */
struct db_stmt *db_prepare(struct db *d, const char *sql, struct err *e);
/* Parameters are numbered from 1. Text and blobs are copied. NULL text binds
 * SQL NULL. A failed bind is remembered and makes the step fail. */
void db_bind_int(struct db_stmt *s, int i, int64_t v);
void db_bind_text(struct db_stmt *s, int i, const char *v);
void db_bind_blob(struct db_stmt *s, int i, const void *p, size_t n);
void db_bind_null(struct db_stmt *s, int i);
/* 1: a row; 0: done; -1: error. After 0 or -1 the statement is reset. */
int db_step(struct db_stmt *s, struct err *e);
/* Run to the end, no rows wanted. */
int db_run(struct db_stmt *s, struct err *e);
void db_reset(struct db_stmt *s); /* when leaving before the last row */
/* Columns from 0; borrowed until the next step. */
int64_t db_col_int(struct db_stmt *s, int i);      /* NULL: 0 */
const char *db_col_text(struct db_stmt *s, int i); /* NULL: NULL */
const void *db_col_blob(struct db_stmt *s, int i, size_t *n);
bool db_col_is_null(struct db_stmt *s, int i);
int64_t db_changes(struct db *d);
int64_t db_last_id(struct db *d);

#endif
