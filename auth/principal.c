/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "auth/principal.h"

#include "base/clock.h"

#include <string.h>

/* AUTOINCREMENT: SQLite would give the highest id out again after a delete. */
static const char table_sql[] =
    "CREATE TABLE principal ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " issuer TEXT NOT NULL CHECK (issuer <> ''),"
    " subject TEXT NOT NULL CHECK (subject <> ''),"
    " label TEXT NOT NULL,"
    " created_at INTEGER NOT NULL,"
    " UNIQUE (issuer, subject)"
    ") STRICT;"
    "CREATE TRIGGER principal_fixed"
    " BEFORE UPDATE OF id, issuer, subject, created_at ON principal"
    " BEGIN SELECT RAISE(ABORT, 'a principal does not change'); END;"
    "CREATE TRIGGER principal_kept BEFORE DELETE ON principal"
    " BEGIN SELECT RAISE(ABORT, 'a principal is kept'); END;";

const char *const principal_sql = table_sql;

static const char find_sql[] =
    "SELECT id, label FROM principal WHERE issuer = ?1 AND subject = ?2";
static const char add_sql[] =
    "INSERT INTO principal (issuer, subject, label, created_at)"
    " VALUES (?1, ?2, ?3, ?4)";
static const char label_sql[] = "UPDATE principal SET label = ?2 WHERE id = ?1";

static bool text_valid(const char *s)
{
    return s != NULL && s[0] != '\0' && strlen(s) <= PRINCIPAL_TEXT_MAX;
}

/* 1: found, 0: new, -1. */
static int find(struct db *d, const char *issuer, const char *subject,
                const char *label, int64_t *id, bool *relabel, struct err *e)
{
    struct db_stmt *s = db_prepare(d, find_sql, e);
    const char *old;
    int r;

    if (s == NULL)
        return -1;
    db_bind_text(s, 1, issuer);
    db_bind_text(s, 2, subject);
    r = db_step(s, e);
    if (r == 1) {
        *id = db_col_int(s, 0);
        old = db_col_text(s, 1);
        *relabel = old == NULL || strcmp(old, label) != 0;
        db_reset(s);
    }
    return r;
}

static int add(struct db *d, const char *issuer, const char *subject,
               const char *label, int64_t *id, struct err *e)
{
    struct db_stmt *s = db_prepare(d, add_sql, e);

    if (s == NULL)
        return -1;
    db_bind_text(s, 1, issuer);
    db_bind_text(s, 2, subject);
    db_bind_text(s, 3, label);
    db_bind_int(s, 4, clock_now());
    if (db_run(s, e) != 0)
        return -1;
    *id = db_last_id(d);
    return 0;
}

static int set_label(struct db *d, int64_t id, const char *label, struct err *e)
{
    struct db_stmt *s = db_prepare(d, label_sql, e);

    if (s == NULL)
        return -1;
    db_bind_int(s, 1, id);
    db_bind_text(s, 2, label);
    return db_run(s, e);
}

int principal_id(struct db *d, const char *issuer, const char *subject,
                 const char *label, int64_t *out, struct err *e)
{
    bool relabel = false;
    int64_t id = 0;
    int r;

    if (!text_valid(issuer) || !text_valid(subject) || !text_valid(label))
        return err_set(e, ERR_INVALID, "principal_text",
                       "issuer, subject and label must have 1 to %d bytes",
                       PRINCIPAL_TEXT_MAX);
    r = find(d, issuer, subject, label, &id, &relabel, e);
    if (r == 0)
        r = add(d, issuer, subject, label, &id, e);
    else if (r == 1)
        r = relabel ? set_label(d, id, label, e) : 0;
    if (r == 0)
        *out = id;
    return r;
}
