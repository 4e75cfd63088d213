/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A database of its own for a test, with the audit's tables in it.
 */
#ifndef TESTS_UNIT_TEST_LEDGER_DB_H
#define TESTS_UNIT_TEST_LEDGER_DB_H

#include "audit/audit.h"
#include "audit/ledger.h"
#include "base/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scratch {
    char dir[64], path[96];
    struct db *db;
};

static inline void scratch_open(struct scratch *s)
{
    static const char *const append_only[] = {
        "audit",     "hold",       "hold_event", "run",
        "run_alias", "raw_record", "run_figure", NULL};
    const struct db_migration m[] = {{1, audit_schema}, {2, ledger_schema}};
    struct err e = ERR_INIT;

    if (db_open_writer(s->path, m, 2, append_only, &s->db, &e))
        fail_msg("%s", e.text);
}

static inline void scratch_make(struct scratch *s)
{
    (void)snprintf(s->dir, sizeof s->dir, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    (void)snprintf(s->path, sizeof s->path, "%s/t.db", s->dir);
    scratch_open(s);
}

static inline void scratch_remove(struct scratch *s)
{
    static const char *const files[] = {"", "-wal", "-shm", ".lock"};
    char path[128];

    db_close(s->db);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s%s", s->path, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(s->dir);
}

/* One integer of a query. */
static inline int64_t scratch_int(struct db *d, const char *sql)
{
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, sql, &e);
    int64_t v;

    if (!s || db_step(s, &e) != 1)
        fail_msg("%s: %s", sql, e.text);
    v = db_col_int(s, 0);
    db_reset(s);
    return v;
}

#define must(call)                                                             \
    do {                                                                       \
        struct err err_ = ERR_INIT;                                            \
        struct err *e = &err_;                                                 \
        if ((call) != 0)                                                       \
            fail_msg("%s: %s (%s)", #call, err_.code, err_.text);              \
    } while (0)

#define must_fail(call, want)                                                  \
    do {                                                                       \
        struct err err_ = ERR_INIT;                                            \
        struct err *e = &err_;                                                 \
        assert_int_equal((call), -1);                                          \
        assert_string_equal(err_.code, want);                                  \
    } while (0)

#endif
