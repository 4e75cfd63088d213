/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { BUSY_MS = 5000, BUCKETS = 64, SQL_MAX = 1024 };

struct db_stmt {
    struct db *d;
    sqlite3_stmt *st;
    const char *key; /* the caller's pointer */
    char *text;      /* our copy: a key that was used again is noticed */
    int bind_error;  /* the first failed bind since db_prepare() */
    struct db_stmt *next;
};

struct db {
    sqlite3 *h;
    int lock_fd;
    bool reader;
    bool sealed; /* opening is over: the strict half of the authorizer acts */
    const char *const *append_only;
    struct db_stmt *stmts[BUCKETS];
};

/* --- errors ------------------------------------------------------------- */

static int failed(struct db *d, int rc, struct err *e)
{
    const char *text = d->h != NULL ? sqlite3_errmsg(d->h) : sqlite3_errstr(rc);

    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return err_nomem(e);
    case SQLITE_CONSTRAINT:
        return err_set(e, ERR_CONFLICT, "db_constraint", "%s", text);
    case SQLITE_FULL:
        return err_set(e, ERR_UNAVAILABLE, "db_full", "%s", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_UNAVAILABLE, "db_busy", "%s", text);
    default:
        return err_set(e, ERR_INTERNAL, "db_error", "%s (SQLite %d)", text, rc);
    }
}

/* --- authorizer: asked when a statement is prepared ---------------------- */

static bool is_append_only(const struct db *d, const char *table)
{
    const char *const *t = d->append_only;

    for (; t != NULL && table != NULL && *t != NULL; t++) {
        if (sqlite3_stricmp(*t, table) == 0)
            return true;
    }
    return false;
}

/* A pragma with an argument can switch our protection off; without one it
 * only tells. */
static int judge_pragma(const char *name, const char *arg)
{
    static const char *const fine[] = {
        "foreign_key_check", "incremental_vacuum",
        "index_info",        "index_list",
        "integrity_check",   "optimize",
        "quick_check",       "table_info",
        "wal_checkpoint",    NULL};
    size_t i;

    if (arg == NULL)
        return SQLITE_OK;
    for (i = 0; fine[i] != NULL; i++) {
        if (sqlite3_stricmp(fine[i], name) == 0)
            return SQLITE_OK;
    }
    return SQLITE_DENY;
}

static int judge_sealed(int action, const char *a, const char *b)
{
    switch (action) {
    case SQLITE_ALTER_TABLE:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_TRIGGER:
    case SQLITE_DROP_TEMP_VIEW:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_VIEW:
    case SQLITE_DROP_VTABLE:
        return SQLITE_DENY;
    case SQLITE_PRAGMA:
        return judge_pragma(a, b);
    default:
        return SQLITE_OK;
    }
}

/* A reader reads. Its file is opened read-only and query_only is set besides;
 * what is not known to be harmless is refused. */
static int judge_reader(int action, const char *a, const char *b)
{
    switch (action) {
    case SQLITE_FUNCTION:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
    case SQLITE_SAVEPOINT:
    case SQLITE_SELECT:
    case SQLITE_TRANSACTION:
        return SQLITE_OK;
    case SQLITE_PRAGMA:
        return judge_pragma(a, b);
    default:
        return SQLITE_DENY;
    }
}

static int authorize(void *arg, int action, const char *a, const char *b,
                     const char *database, const char *trigger)
{
    const struct db *d = arg;

    (void)database;
    (void)trigger;
    if ((action == SQLITE_UPDATE || action == SQLITE_DELETE) &&
        is_append_only(d, a))
        return SQLITE_DENY;
    if (!d->sealed)
        return SQLITE_OK;
    return d->reader ? judge_reader(action, a, b) : judge_sealed(action, a, b);
}

/* --- opening ------------------------------------------------------------ */

static int configure(struct db *d, struct err *e)
{
    static const struct {
        int what, value;
    } switches[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 1},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},
    };
    int rc = SQLITE_OK, is = 0;
    size_t i;

    for (i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        rc = sqlite3_db_config(d->h, switches[i].what, switches[i].value, &is);
        if (rc != SQLITE_OK || is != switches[i].value)
            return failed(d, rc == SQLITE_OK ? SQLITE_ERROR : rc, e);
    }
    (void)sqlite3_extended_result_codes(d->h, 1);
    (void)sqlite3_busy_timeout(d->h, BUSY_MS);
    (void)sqlite3_limit(d->h, SQLITE_LIMIT_ATTACHED, 0);
    rc = sqlite3_set_authorizer(d->h, authorize, d);
    return rc == SQLITE_OK ? 0 : failed(d, rc, e);
}

static int open_handle(struct db *d, const char *path, int flags, struct err *e)
{
    int rc = sqlite3_open_v2(
        path, &d->h, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
        NULL);

    if (rc != SQLITE_OK)
        return failed(d, rc, e);
    return configure(d, e);
}

/* One integer or text of a one-row query that is not cached. */
static int query(struct db *d, const char *sql, int64_t *n, char *text,
                 size_t size, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->h, sql, -1, &st, NULL), r = -1;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW) {
        (void)failed(d, rc == SQLITE_DONE ? SQLITE_ERROR : rc, e);
        goto out;
    }
    if (n != NULL)
        *n = sqlite3_column_int64(st, 0);
    if (text != NULL)
        (void)snprintf(text, size, "%s",
                       (const char *)sqlite3_column_text(st, 0));
    r = 0;
out:
    (void)sqlite3_finalize(st);
    return r;
}

static int set_up_writer(struct db *d, struct err *e)
{
    char mode[16] = "";

    if (query(d, "PRAGMA journal_mode=WAL", NULL, mode, sizeof(mode), e) != 0)
        return -1;
    if (strcmp(mode, "wal") != 0)
        return err_set(e, ERR_INTERNAL, "db_error",
                       "no write-ahead log is possible here (%s)", mode);
    return db_exec(d,
                   "PRAGMA synchronous=FULL;"
                   "PRAGMA foreign_keys=ON;"
                   "PRAGMA recursive_triggers=ON;"
                   "PRAGMA temp_store=MEMORY;",
                   e);
}

static int migrate_one(struct db *d, const struct db_migration *m,
                       struct err *e)
{
    char sql[48];

    (void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", m->version);
    if (db_exec(d, "BEGIN IMMEDIATE", e) != 0)
        return -1;
    if (db_exec(d, m->sql, e) != 0)
        goto fail;
    if (sqlite3_get_autocommit(d->h)) {
        (void)err_set(e, ERR_INTERNAL, "db_error",
                      "migration %d ends its own transaction", m->version);
        goto fail;
    }
    if (db_exec(d, sql, e) != 0 || db_exec(d, "COMMIT", e) != 0)
        goto fail;
    return 0;
fail:
    db_rollback(d);
    return -1;
}

static int migrate(struct db *d, const struct db_migration *m, size_t count,
                   struct err *e)
{
    int64_t have = 0;
    size_t i;

    if (query(d, "PRAGMA user_version", &have, NULL, 0, e) != 0)
        return -1;
    if (have < 0 || have > (int64_t)count)
        return err_set(e, ERR_CONFIG, "db_newer",
                       "the database has version %lld, this program knows %zu",
                       (long long)have, count);
    for (i = 0; i < count; i++) {
        if (m[i].version != (int)i + 1)
            return err_set(e, ERR_INTERNAL, "db_error",
                           "migration %zu is numbered %d", i + 1, m[i].version);
        if (m[i].version > have && migrate_one(d, &m[i], e) != 0)
            return -1;
    }
    return 0;
}

/* The authorizer sees foreign-key actions and upserts, but not the rows that
 * INSERT OR REPLACE removes. A temporary trigger ends that (REPLACE fires it
 * because recursive_triggers is on), whatever the schema itself has. A table
 * that does not exist is an error: a misspelt name must not leave the real one
 * unprotected. */
static int guard_table(struct db *d, const char *table, struct err *e)
{
    char sql[SQL_MAX];

    (void)sqlite3_snprintf((int)sizeof(sql), sql,
                           "CREATE TEMP TRIGGER \"sluice_keep_%w\" BEFORE "
                           "DELETE ON main.\"%w\" BEGIN SELECT RAISE(ABORT, "
                           "'append-only table'); END",
                           table, table);
    return db_exec(d, sql, e);
}

static int guard_tables(struct db *d, struct err *e)
{
    const char *const *t;

    for (t = d->append_only; t != NULL && *t != NULL; t++) {
        if (guard_table(d, *t, e) != 0)
            return -1;
    }
    return 0;
}

static int take_lock(struct db *d, const char *path, struct err *e)
{
    char name[PATH_MAX];
    int n = snprintf(name, sizeof(name), "%s.lock", path);

    if (n < 0 || (size_t)n >= sizeof(name))
        return err_set(e, ERR_CONFIG, "db_error", "the path is too long");
    d->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock_fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "db_error", "open the lock file");
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_CONFIG, "db_in_use",
                       "another process writes this database");
    return err_sys(e, ERR_CONFIG, errno, "db_error", "lock");
}

/* SQLite creates with 0644; its -wal and -shm take the mode of the file. An
 * existing file is not opened here: closing any descriptor of it would drop
 * the POSIX locks of this process's other connections. */
static int create_private(const char *path, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0)
        return close(fd);
    if (errno == EEXIST)
        return 0;
    return err_sys(e, ERR_CONFIG, errno, "db_error", "create the database");
}

static struct db *db_new(bool reader, struct err *e)
{
    struct db *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    d->lock_fd = -1;
    d->reader = reader;
    return d;
}

int db_open_writer(const char *path, const struct db_migration *m, size_t count,
                   const char *const *append_only, struct db **out,
                   struct err *e)
{
    struct db *d = db_new(false, e);

    if (d == NULL)
        return -1;
    d->append_only = append_only;
    if (take_lock(d, path, e) != 0 || create_private(path, e) != 0 ||
        open_handle(d, path, SQLITE_OPEN_READWRITE, e) != 0 ||
        set_up_writer(d, e) != 0 || migrate(d, m, count, e) != 0 ||
        guard_tables(d, e) != 0) {
        db_close(d);
        return -1;
    }
    d->sealed = true;
    *out = d;
    return 0;
}

int db_open_reader(const char *path, struct db **out, struct err *e)
{
    struct db *d = db_new(true, e);

    if (d == NULL)
        return -1;
    if (open_handle(d, path, SQLITE_OPEN_READONLY, e) != 0 ||
        db_exec(d, "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY;", e) != 0 ||
        query(d, "PRAGMA schema_version", NULL, NULL, 0, e) != 0) {
        db_close(d);
        return -1;
    }
    d->sealed = true;
    *out = d;
    return 0;
}

static void stmt_free(struct db_stmt *s)
{
    if (s == NULL)
        return;
    (void)sqlite3_finalize(s->st);
    free(s->text);
    free(s);
}

void db_close(struct db *d)
{
    struct db_stmt *s, *next;
    size_t i;

    if (d == NULL)
        return;
    for (i = 0; i < BUCKETS; i++) {
        for (s = d->stmts[i]; s != NULL; s = next) {
            next = s->next;
            stmt_free(s);
        }
    }
    (void)sqlite3_close(d->h);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd); /* drops the flock, after SQLite is done */
    free(d);
}

/* --- transactions ------------------------------------------------------- */

int db_exec(struct db *d, const char *sql, struct err *e)
{
    int rc = sqlite3_exec(d->h, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : failed(d, rc, e);
}

static int run_cached(struct db *d, const char *sql, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql, e);

    return s == NULL ? -1 : db_run(s, e);
}

int db_begin_immediate(struct db *d, struct err *e)
{
    return run_cached(d, "BEGIN IMMEDIATE", e);
}

int db_commit(struct db *d, struct err *e)
{
    return run_cached(d, "COMMIT", e);
}

void db_rollback(struct db *d)
{
    if (!sqlite3_get_autocommit(d->h))
        (void)run_cached(d, "ROLLBACK", NULL);
}

/* Savepoints of one name nest: each command means the innermost one. */
int db_savepoint(struct db *d, struct err *e)
{
    return run_cached(d, "SAVEPOINT unit", e);
}

int db_release(struct db *d, struct err *e)
{
    return run_cached(d, "RELEASE unit", e);
}

void db_rollback_to(struct db *d)
{
    if (run_cached(d, "ROLLBACK TO unit", NULL) == 0)
        (void)run_cached(d, "RELEASE unit", NULL);
}

/* --- statements --------------------------------------------------------- */

static struct db_stmt **bucket(struct db *d, const char *sql)
{
    return &d->stmts[((uintptr_t)sql >> 3) % BUCKETS];
}

static struct db_stmt *find(struct db *d, const char *sql)
{
    struct db_stmt *s;

    for (s = *bucket(d, sql); s != NULL; s = s->next) {
        if (s->key == sql && strcmp(s->text, sql) == 0)
            return s;
    }
    return NULL;
}

static int compile(struct db_stmt *s, const char *sql, struct err *e)
{
    const char *tail = "";
    int rc = sqlite3_prepare_v3(s->d->h, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                &s->st, &tail);

    if (rc != SQLITE_OK)
        return failed(s->d, rc, e);
    if (s->st == NULL || tail[strspn(tail, "; \t\r\n")] != '\0')
        return err_set(e, ERR_INTERNAL, "db_error",
                       "not exactly one statement");
    return 0;
}

static struct db_stmt *stmt_new(struct db *d, const char *sql, struct err *e)
{
    struct db_stmt *s = calloc(1, sizeof(*s)), **b = bucket(d, sql);

    if (s != NULL)
        s->text = strdup(sql);
    if (s == NULL || s->text == NULL) {
        (void)err_nomem(e);
        goto fail;
    }
    s->d = d;
    s->key = sql;
    if (compile(s, sql, e) != 0)
        goto fail;
    s->next = *b;
    *b = s;
    return s;
fail:
    stmt_free(s);
    return NULL;
}

struct db_stmt *db_prepare(struct db *d, const char *sql, struct err *e)
{
    struct db_stmt *s = find(d, sql);

    if (s == NULL)
        return stmt_new(d, sql, e);
    (void)sqlite3_reset(s->st);
    (void)sqlite3_clear_bindings(s->st);
    s->bind_error = SQLITE_OK;
    return s;
}

static void remember(struct db_stmt *s, int rc)
{
    if (rc != SQLITE_OK && s->bind_error == SQLITE_OK)
        s->bind_error = rc;
}

void db_bind_int(struct db_stmt *s, int i, int64_t v)
{
    remember(s, sqlite3_bind_int64(s->st, i, v));
}

void db_bind_text(struct db_stmt *s, int i, const char *v)
{
    if (v == NULL)
        db_bind_null(s, i);
    else
        remember(s, sqlite3_bind_text64(s->st, i, v, strlen(v),
                                        SQLITE_TRANSIENT, SQLITE_UTF8));
}

void db_bind_blob(struct db_stmt *s, int i, const void *p, size_t n)
{
    /* A NULL pointer would bind SQL NULL: an empty blob is a value. */
    remember(
        s, sqlite3_bind_blob64(s->st, i, n > 0 ? p : "", n, SQLITE_TRANSIENT));
}

void db_bind_null(struct db_stmt *s, int i)
{
    remember(s, sqlite3_bind_null(s->st, i));
}

int db_step(struct db_stmt *s, struct err *e)
{
    int rc = s->bind_error;

    if (rc != SQLITE_OK)
        return rc == SQLITE_NOMEM ? err_nomem(e)
                                  : err_set(e, ERR_INTERNAL, "db_error",
                                            "bind: %s", sqlite3_errstr(rc));
    rc = sqlite3_step(s->st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc != SQLITE_DONE)
        (void)failed(s->d, rc, e); /* before reset: it has the text */
    (void)sqlite3_reset(s->st);
    return rc == SQLITE_DONE ? 0 : -1;
}

int db_run(struct db_stmt *s, struct err *e)
{
    int r;

    do {
        r = db_step(s, e);
    } while (r == 1);
    return r;
}

void db_reset(struct db_stmt *s)
{
    (void)sqlite3_reset(s->st);
}

int64_t db_col_int(struct db_stmt *s, int i)
{
    return sqlite3_column_int64(s->st, i);
}

const char *db_col_text(struct db_stmt *s, int i)
{
    return (const char *)sqlite3_column_text(s->st, i);
}

const void *db_col_blob(struct db_stmt *s, int i, size_t *n)
{
    const void *p = sqlite3_column_blob(s->st, i);

    if (n != NULL)
        *n = (size_t)sqlite3_column_bytes(s->st, i);
    if (p == NULL && !db_col_is_null(s, i))
        return ""; /* an empty blob */
    return p;
}

bool db_col_is_null(struct db_stmt *s, int i)
{
    return sqlite3_column_type(s->st, i) == SQLITE_NULL;
}

int64_t db_changes(struct db *d)
{
    return sqlite3_changes64(d->h);
}

int64_t db_last_id(struct db *d)
{
    return sqlite3_last_insert_rowid(d->h);
}
