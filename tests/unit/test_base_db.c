/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/db.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h> /* a second, foreign connection */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static const struct db_migration schema[] = {
    {1, "CREATE TABLE log (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE,"
        "                  job INTEGER REFERENCES job(id) ON DELETE CASCADE"
        "                                        ON UPDATE CASCADE) STRICT;"
        "CREATE TABLE job (id INTEGER PRIMARY KEY, n INTEGER NOT NULL,"
        "                  note TEXT, data BLOB) STRICT;"
        "CREATE TABLE trap (id INTEGER PRIMARY KEY) STRICT;"
        "CREATE TRIGGER spring AFTER INSERT ON trap BEGIN"
        "  UPDATE log SET text = 'changed'; END;"},
    {2, "CREATE INDEX job_n ON job(n);"
        "INSERT INTO job (id, n) VALUES (1, 10);"},
};
static const char *const append_only[] = {"log", NULL};

static const char *at(const char *name)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];

    (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
    return p;
}

static int clear_folder(void)
{
    DIR *d = opendir(dir);
    struct dirent *de;

    if (d == NULL)
        return -1;
    while ((de = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), de->d_name, 0);
    return closedir(d);
}

static int make_folder(void **state)
{
    (void)state;
    (void)umask(022);
    (void)snprintf(dir, sizeof(dir), "/tmp/test_base_db.XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)clear_folder();
    return rmdir(dir);
}

static struct db *writer(void)
{
    struct err e = ERR_INIT;
    struct db *d = NULL;

    if (db_open_writer(at("db"), schema, 2, append_only, &d, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    return d;
}

static int set_up(void **state)
{
    *state = writer();
    return 0;
}

static int tear_down(void **state)
{
    db_close(*state);
    return clear_folder();
}

static int only_clear(void **state)
{
    (void)state;
    return clear_folder();
}

static void ok(struct db *d, const char *sql)
{
    struct err e = ERR_INIT;

    if (db_exec(d, sql, &e) != 0)
        fail_msg("%s: %s: %s", sql, e.code, e.text);
}

static void fails(struct db *d, const char *sql, enum err_class class,
                  const char *code)
{
    struct err e = ERR_INIT;

    if (db_exec(d, sql, &e) != -1)
        fail_msg("done: %s", sql);
    if (e.class != class || strcmp(e.code, code) != 0)
        fail_msg("%s: %s %s (%s)", sql, err_class_name(e.class), e.code,
                 e.text);
}

/* Denied by the authorizer: at prepare, so by both ways in. */
static void denied(struct db *d, const char *sql)
{
    struct err e = ERR_INIT;

    fails(d, sql, ERR_INTERNAL, "db_error");
    assert_null(db_prepare(d, sql, &e));
    assert_string_equal(e.code, "db_error");
}

static int64_t number(struct db *d, const char *sql)
{
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, sql, &e);
    int64_t v;

    if (s == NULL)
        fail_msg("%s: %s", sql, e.text);
    assert_int_equal(db_step(s, &e), 1);
    v = db_col_int(s, 0);
    db_reset(s);
    return v;
}

/* --- opening ------------------------------------------------------------ */

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(at(name), &st), 0);
    return st.st_mode & 07777;
}

static void files_are_private(void **state)
{
    struct db *d = *state;

    ok(d, "INSERT INTO job (n) VALUES (1)");
    assert_int_equal(mode_of("db"), 0600);
    assert_int_equal(mode_of("db-wal"), 0600);
    assert_int_equal(mode_of("db-shm"), 0600);
    assert_int_equal(mode_of("db.lock"), 0600);
}

static void pragmas_are_set(void **state)
{
    struct db *d = *state;

    assert_int_equal(number(d, "PRAGMA synchronous"), 2);
    assert_int_equal(number(d, "PRAGMA foreign_keys"), 1);
    assert_int_equal(number(d, "PRAGMA recursive_triggers"), 1);
    assert_int_equal(number(d, "PRAGMA trusted_schema"), 0);
    assert_int_equal(number(d, "PRAGMA user_version"), 2);
    assert_int_equal(
        number(d, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
}

static void second_writer_is_refused(void **state)
{
    struct err e = ERR_INIT;
    struct db *d = NULL;
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(db_open_writer(at("db"), schema, 2, append_only, &d, &e),
                     -1);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, "db_in_use");
    assert_null(d);
    pid = fork(); /* another process, as it would be in life */
    if (pid == 0) {
        err_clear(&e);
        (void)db_open_writer(at("db"), schema, 2, append_only, &d, &e);
        _exit(strcmp(e.code, "db_in_use") == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void lock_ends_with_close(void **state)
{
    struct db *d;

    (void)state;
    db_close(writer());
    d = writer();
    assert_int_equal(number(d, "SELECT n FROM job"), 10);
    db_close(d);
    db_close(NULL);
}

static void lock_is_no_link(void **state)
{
    struct err e = ERR_INIT;
    struct db *d = NULL;

    (void)state;
    assert_int_equal(symlink("elsewhere", at("db.lock")), 0);
    assert_int_equal(db_open_writer(at("db"), schema, 2, append_only, &d, &e),
                     -1);
    assert_int_equal(e.sys, ELOOP);
    assert_int_equal(access(at("elsewhere"), F_OK), -1);
}

/* --- migrations --------------------------------------------------------- */

static int open_with(const struct db_migration *m, size_t n, struct err *e)
{
    struct db *d = NULL;
    int r = db_open_writer(at("db"), m, n, NULL, &d, e);

    if (r == 0)
        db_close(d);
    return r;
}

static void migrations_continue(void **state)
{
    struct err e = ERR_INIT;
    struct db *d = NULL;

    (void)state;
    assert_int_equal(open_with(schema, 0, &e), 0);
    assert_int_equal(open_with(schema, 1, &e), 0);
    assert_int_equal(open_with(schema, 2, &e), 0);
    /* Not again: the INSERT of the second would fail. */
    assert_int_equal(open_with(schema, 2, &e), 0);
    assert_int_equal(open_with(schema, 1, &e), -1);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, "db_newer");
    assert_int_equal(db_open_reader(at("db"), &d, NULL), 0);
    assert_int_equal(number(d, "SELECT count(*) FROM job"), 1);
    db_close(d);
}

static void failed_migration_changes_nothing(void **state)
{
    static const struct db_migration bad[] = {
        {1, "CREATE TABLE a (x INTEGER) STRICT"},
        {2, "CREATE TABLE b (x INTEGER) STRICT; INSERT INTO a VALUES ('t');"},
    };
    static const struct db_migration good[] = {
        {1, "CREATE TABLE a (x INTEGER) STRICT"},
        {2, "CREATE TABLE b (x INTEGER) STRICT"},
    };
    struct err e = ERR_INIT;
    struct db *d = NULL;

    (void)state;
    assert_int_equal(open_with(bad, 2, &e), -1);
    assert_string_equal(e.code, "db_constraint");
    assert_int_equal(db_open_reader(at("db"), &d, NULL), 0);
    assert_int_equal(number(d, "PRAGMA user_version"), 1);
    assert_int_equal(
        number(d, "SELECT count(*) FROM sqlite_master WHERE name='b'"), 0);
    db_close(d);
    err_clear(&e);
    assert_int_equal(open_with(good, 2, &e), 0);
}

static void migration_that_commits(void **state)
{
    static const struct db_migration bad[] = {
        {1, "CREATE TABLE a (x INTEGER) STRICT; COMMIT"}};
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(open_with(bad, 1, &e), -1);
    assert_int_equal(e.class, ERR_INTERNAL);
}

static void gap_in_the_migrations(void **state)
{
    static const struct db_migration bad[] = {
        {1, "CREATE TABLE a (x INTEGER) STRICT"},
        {3, "CREATE TABLE b (x INTEGER) STRICT"}};
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(open_with(bad, 2, &e), -1);
    assert_int_equal(e.class, ERR_INTERNAL);
}

/* Later migrations may change the schema, but not what was appended. */
static void migrations_and_append_only(void **state)
{
    struct db_migration m[3] = {schema[0],
                                schema[1],
                                {3, "ALTER TABLE log ADD COLUMN more TEXT;"
                                    "DROP TABLE trap; DROP INDEX job_n;"}};
    struct err e = ERR_INIT;
    struct db *d = NULL;

    (void)state;
    d = writer();
    ok(d, "INSERT INTO log (text) VALUES ('one')");
    db_close(d);
    d = NULL;
    m[2].sql = "DROP TABLE log";
    assert_int_equal(db_open_writer(at("db"), m, 3, append_only, &d, &e), -1);
    err_clear(&e);
    m[2].sql = "UPDATE log SET text = 'two'";
    assert_int_equal(db_open_writer(at("db"), m, 3, append_only, &d, &e), -1);
    err_clear(&e);
    m[2].sql = "ALTER TABLE log ADD COLUMN more TEXT; DROP TABLE trap;"
               "DROP INDEX job_n;";
    if (db_open_writer(at("db"), m, 3, append_only, &d, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(number(d, "SELECT text = 'one' FROM log"), 1);
    db_close(d);
}

/* A misspelt name in the list would leave the real table unprotected. */
static void unknown_append_only_table(void **state)
{
    static const char *const wrong[] = {"log", "lgo", NULL};
    struct err e = ERR_INIT;
    struct db *d = NULL;

    (void)state;
    assert_int_equal(db_open_writer(at("db"), schema, 2, wrong, &d, &e), -1);
    assert_null(d);
}

static void no_database(void **state)
{
    struct err e = ERR_INIT;
    struct db *d = NULL;
    FILE *f = fopen(at("db"), "we");
    int i;

    (void)state;
    for (i = 0; i < 2000; i++)
        (void)fputs("no database", f);
    (void)fclose(f);
    assert_int_equal(open_with(schema, 2, &e), -1);
    assert_string_equal(e.code, "db_error");
    err_clear(&e);
    assert_int_equal(db_open_reader(at("db"), &d, &e), -1);
    assert_string_equal(e.code, "db_error");
    assert_int_equal(db_open_reader(at("absent"), &d, NULL), -1);
    assert_int_equal(access(at("absent"), F_OK), -1);
    assert_int_equal(
        db_open_writer("/no/such/folder/db", schema, 2, NULL, &d, NULL), -1);
    assert_null(d);
}

/* --- append-only tables ------------------------------------------------- */

static void log_is_as_it_was(struct db *d)
{
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 2);
    assert_int_equal(
        number(d, "SELECT count(*) FROM log WHERE text IN ('a', 'b')"), 2);
    assert_int_equal(number(d, "SELECT job FROM log WHERE id = 2"), 1);
}

static struct db *with_log(void **state)
{
    struct db *d = *state;

    ok(d, "INSERT INTO log (id, text) VALUES (1, 'a');"
          "INSERT INTO log (id, text, job) VALUES (2, 'b', 1)");
    return d;
}

static void update_and_delete_are_denied(void **state)
{
    struct db *d = with_log(state);

    denied(d, "UPDATE log SET text = 'x'");
    denied(d, "UPDATE LOG SET text = 'x' WHERE id = 1");
    denied(d, "UPDATE main.log SET id = 5");
    denied(d, "DELETE FROM log");
    denied(d, "DELETE FROM \"Log\" WHERE id = 1");
    denied(d, "WITH x AS (SELECT 1) DELETE FROM log");
    denied(d, "UPDATE OR IGNORE log SET text = 'b' WHERE id = 1");
    log_is_as_it_was(d);
    ok(d, "UPDATE job SET n = 11; DELETE FROM trap WHERE id = 99");
}

/* Other tables' rights must not lead there: a trigger that updates the log is
 * refused together with the statement that fires it. */
static void trigger_is_denied(void **state)
{
    struct db *d = with_log(state);

    denied(d, "INSERT INTO trap (id) VALUES (1)");
    log_is_as_it_was(d);
}

static void upsert_is_denied(void **state)
{
    struct db *d = with_log(state);

    denied(d, "INSERT INTO log (id, text) VALUES (1, 'x') "
              "ON CONFLICT (id) DO UPDATE SET text = excluded.text");
    ok(d, "INSERT INTO log (id, text) VALUES (1, 'x') ON CONFLICT DO NOTHING");
    log_is_as_it_was(d);
}

/* The authorizer does not see the DELETE in these, and a DELETE trigger of the
 * schema would not be fired without recursive_triggers. */
static void replace_is_stopped(void **state)
{
    struct db *d = with_log(state);

    fails(d, "INSERT OR REPLACE INTO log (id, text) VALUES (1, 'x')",
          ERR_CONFLICT, "db_constraint");
    fails(d, "REPLACE INTO log (id, text) VALUES (2, 'x')", ERR_CONFLICT,
          "db_constraint");
    /* By the UNIQUE index, not the key. */
    fails(d, "REPLACE INTO log (id, text) VALUES (3, 'a')", ERR_CONFLICT,
          "db_constraint");
    log_is_as_it_was(d);
    fails(d, "INSERT INTO log (id, text) VALUES (1, 'x')", ERR_CONFLICT,
          "db_constraint");
    ok(d, "REPLACE INTO log (id, text) VALUES (3, 'new')"); /* nothing lost */
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 3);
}

/* ON DELETE/UPDATE CASCADE into the log: the authorizer does see these. */
static void foreign_key_actions_are_denied(void **state)
{
    struct db *d = with_log(state);

    denied(d, "DELETE FROM job WHERE id = 1");
    denied(d, "DELETE FROM job");
    denied(d, "UPDATE job SET id = 7 WHERE id = 1");
    denied(d, "REPLACE INTO job (id, n) VALUES (1, 5)");
    log_is_as_it_was(d);
    assert_int_equal(number(d, "SELECT n FROM job WHERE id = 1"), 10);
}

static void protection_can_not_be_switched_off(void **state)
{
    struct db *d = with_log(state);

    denied(d, "PRAGMA recursive_triggers = OFF");
    denied(d, "PRAGMA foreign_keys = OFF");
    denied(d, "PRAGMA writable_schema = ON");
    denied(d, "PRAGMA synchronous = OFF");
    denied(d, "PRAGMA journal_mode = DELETE");
    denied(d, "PRAGMA user_version = 0");
    denied(d, "PRAGMA trusted_schema = ON");
    denied(d, "DROP TRIGGER temp.sluice_keep_log");
    denied(d, "DROP TRIGGER sluice_keep_log");
    fails(d, "UPDATE sqlite_master SET sql = ''", ERR_INTERNAL, "db_error");
    fails(d, "DELETE FROM sqlite_temp_master", ERR_INTERNAL, "db_error");
    fails(d, "DELETE FROM sqlite_schema", ERR_INTERNAL, "db_error");
    fails(d, "REPLACE INTO log (id, text) VALUES (1, 'x')", ERR_CONFLICT,
          "db_constraint");
    log_is_as_it_was(d);
}

static void schema_is_closed_after_migration(void **state)
{
    struct db *d = with_log(state);

    denied(d, "DROP TABLE log");
    denied(d, "DROP TABLE job");
    denied(d, "DROP INDEX job_n");
    denied(d, "DROP TRIGGER spring");
    denied(d, "ALTER TABLE log RENAME TO gol");
    denied(d, "ALTER TABLE job ADD COLUMN x TEXT");
    denied(d, "ALTER TABLE log DROP COLUMN job");
    denied(d, "ATTACH ':memory:' AS x");
    fails(d, "VACUUM INTO '/tmp/x'", ERR_INTERNAL, "db_error");
    log_is_as_it_was(d);
    ok(d, "PRAGMA wal_checkpoint(PASSIVE); PRAGMA optimize;"
          "PRAGMA integrity_check");
}

/* A statement that was prepared stays what it was: the judgement fell then. */
static void prepared_insert_goes_on(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    int i;

    for (i = 0; i < 3; i++) {
        struct db_stmt *s =
            db_prepare(d, "INSERT INTO log (text) VALUES (?1)", &e);

        assert_non_null(s);
        db_bind_text(s, 1, i == 0 ? "a" : i == 1 ? "b" : "c");
        assert_int_equal(db_run(s, &e), 0);
        ok(d, i == 0 ? "CREATE TABLE extra (x INTEGER) STRICT" : "SELECT 1");
    }
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 3);
    assert_int_equal(db_last_id(d), 3);
    assert_int_equal(db_changes(d), 1);
}

/* --- values ------------------------------------------------------------- */

static const char insert_job[] =
    "INSERT INTO job (n, note, data) VALUES (?1, ?2, ?3)";

static void values_come_back(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, insert_job, &e);
    size_t n = 77;

    assert_non_null(s);
    db_bind_int(s, 1, INT64_MIN);
    db_bind_text(s, 2, "t\xc3\xa9xt");
    db_bind_blob(s, 3, "a\0b", 3);
    assert_int_equal(db_run(s, &e), 0);
    s = db_prepare(d, "SELECT n, note, data FROM job WHERE id = ?1", &e);
    db_bind_int(s, 1, db_last_id(d));
    assert_int_equal(db_step(s, &e), 1);
    assert_true(db_col_int(s, 0) == INT64_MIN);
    assert_string_equal(db_col_text(s, 1), "t\xc3\xa9xt");
    assert_memory_equal(db_col_blob(s, 2, &n), "a\0b", 3);
    assert_int_equal(n, 3);
    assert_int_equal(db_step(s, &e), 0);
}

static void null_and_empty_differ(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, insert_job, &e);
    size_t n = 77;

    db_bind_int(s, 1, 1);
    db_bind_text(s, 2, NULL);
    db_bind_blob(s, 3, NULL, 0);
    assert_int_equal(db_run(s, &e), 0);
    s = db_prepare(d, insert_job, &e);
    db_bind_int(s, 1, 2);
    db_bind_text(s, 2, "");
    db_bind_null(s, 3);
    assert_int_equal(db_run(s, &e), 0);
    s = db_prepare(d, "SELECT note, data FROM job WHERE id > 1 ORDER BY n", &e);
    assert_int_equal(db_step(s, &e), 1);
    assert_true(db_col_is_null(s, 0));
    assert_null(db_col_text(s, 0));
    assert_int_equal(db_col_int(s, 0), 0);
    assert_false(db_col_is_null(s, 1));
    assert_non_null(db_col_blob(s, 1, &n));
    assert_int_equal(n, 0);
    assert_int_equal(db_step(s, &e), 1);
    assert_string_equal(db_col_text(s, 0), "");
    n = 77;
    assert_null(db_col_blob(s, 1, &n));
    assert_int_equal(n, 0);
    db_reset(s);
}

/* Without STRICT, text would be stored in an INTEGER column. */
static void strict_columns(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, insert_job, &e);

    db_bind_text(s, 1, "ten");
    db_bind_null(s, 2);
    db_bind_null(s, 3);
    assert_int_equal(db_run(s, &e), -1);
    assert_int_equal(e.class, ERR_CONFLICT);
    assert_string_equal(e.code, "db_constraint");
    fails(d, "INSERT INTO job (n) VALUES (1.5)", ERR_CONFLICT, "db_constraint");
    /* + and * overflow into REAL without a word; the column says no. */
    fails(d, "INSERT INTO job (n) VALUES (9223372036854775807 + 1)",
          ERR_CONFLICT, "db_constraint");
    fails(d, "UPDATE job SET n = 4611686018427387904 * 4", ERR_CONFLICT,
          "db_constraint");
    assert_int_equal(number(d, "SELECT count(*) FROM job"), 1);
}

/* SUM over int64 is an error: the step must say so, not "no row". */
static void overflowing_sum_is_an_error(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s;

    ok(d, "INSERT INTO job (n) VALUES (9223372036854775807)");
    s = db_prepare(d, "SELECT SUM(n) FROM job", &e);
    assert_non_null(s);
    assert_int_equal(db_step(s, &e), -1);
    assert_int_equal(e.class, ERR_INTERNAL);
    assert_string_equal(e.code, "db_error");
    assert_non_null(strstr(e.text, "overflow"));
}

static void identifiers_are_no_strings(void **state)
{
    struct err e = ERR_INIT;

    assert_null(db_prepare(*state, "SELECT \"no such column\" FROM job", &e));
    assert_string_equal(e.code, "db_error");
}

/* --- statements --------------------------------------------------------- */

static void statements_are_cached(void **state)
{
    static const char sql[] = "SELECT ?1";
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, sql, &e), *again;

    db_bind_int(s, 1, 5);
    assert_int_equal(db_step(s, &e), 1);
    again = db_prepare(d, sql, &e);
    assert_ptr_equal(again, s);
    assert_int_equal(db_step(s, &e), 1); /* reset, and bindings cleared */
    assert_true(db_col_is_null(s, 0));
    db_reset(s);
}

/* A buffer that was used again is another statement, not the old one. */
static void same_pointer_other_text(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    char sql[32] = "SELECT 1";
    struct db_stmt *s = db_prepare(d, sql, &e);

    assert_int_equal(db_step(s, &e), 1);
    assert_int_equal(db_col_int(s, 0), 1);
    db_reset(s);
    memcpy(sql, "SELECT 12", 10);
    s = db_prepare(d, sql, &e);
    assert_int_equal(db_step(s, &e), 1);
    assert_int_equal(db_col_int(s, 0), 12);
    db_reset(s);
}

static void one_statement_exactly(void **state)
{
    struct db *d = *state;

    assert_null(db_prepare(d, "SELECT 1; DELETE FROM job", NULL));
    assert_null(db_prepare(d, "", NULL));
    assert_null(db_prepare(d, "  ", NULL));
    assert_null(db_prepare(d, "-- nothing", NULL));
    assert_null(db_prepare(d, "SELEKT", NULL));
    assert_non_null(db_prepare(d, "SELECT 1; \n", NULL));
    assert_int_equal(number(d, "SELECT count(*) FROM job"), 1);
}

static void failed_bind_fails_the_step(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, insert_job, &e);

    db_bind_int(s, 1, 1);
    db_bind_int(s, 4, 1); /* there is no ?4 */
    db_bind_text(s, 2, "x");
    assert_int_equal(db_step(s, &e), -1);
    assert_string_equal(e.code, "db_error");
    assert_int_equal(db_step(s, NULL), -1); /* until it is prepared again */
    assert_int_equal(number(d, "SELECT count(*) FROM job"), 1);
    err_clear(&e);
    s = db_prepare(d, insert_job, &e);
    db_bind_int(s, 1, 1);
    assert_int_equal(db_run(s, &e), 0);
    s = db_prepare(d, insert_job, &e);
    db_bind_int(s, 0, 1);
    assert_int_equal(db_run(s, NULL), -1);
}

static void reset_after_the_end(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s = db_prepare(d, "SELECT n FROM job WHERE n = ?1", &e);

    db_bind_int(s, 1, 10);
    assert_int_equal(db_step(s, &e), 1);
    assert_int_equal(db_step(s, &e), 0);
    assert_int_equal(db_step(s, &e), 1); /* from the start again */
    db_reset(s);
    s = db_prepare(d, "SELECT n FROM job WHERE n = ?1", &e);
    assert_int_equal(db_run(s, &e), 0); /* NULL matches nothing */
}

/* After a failed step the statement holds no lock and works again. */
static void usable_after_a_failure(void **state)
{
    struct db *d = *state;
    int i;

    for (i = 0; i < 3; i++) {
        struct err e = ERR_INIT;
        struct db_stmt *s =
            db_prepare(d, "INSERT INTO log (id, text) VALUES (1, 'a')", &e);

        assert_int_equal(db_run(s, &e), i == 0 ? 0 : -1);
        assert_string_equal(e.code, i == 0 ? "" : "db_constraint");
    }
    ok(d, "BEGIN IMMEDIATE; COMMIT");
}

/* --- transactions ------------------------------------------------------- */

static void commit_and_rollback(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;

    assert_int_equal(db_begin_immediate(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('x')");
    db_rollback(d);
    db_rollback(d); /* nothing to do */
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 0);
    assert_int_equal(db_begin_immediate(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('x')");
    assert_int_equal(db_commit(d, &e), 0);
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 1);
    assert_int_equal(db_commit(d, &e), -1); /* nothing is open */
    assert_string_equal(e.code, "db_error");
    err_clear(&e);
    assert_int_equal(db_begin_immediate(d, &e), 0);
    assert_int_equal(db_begin_immediate(d, &e), -1);
    db_rollback(d);
}

/* One unit of a group commit fails, the others stay. */
static void savepoints_nest(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;

    assert_int_equal(db_begin_immediate(d, &e), 0);
    assert_int_equal(db_savepoint(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('one')");
    assert_int_equal(db_savepoint(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('two')");
    db_rollback_to(d);
    assert_int_equal(db_savepoint(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('three')");
    assert_int_equal(db_release(d, &e), 0);
    assert_int_equal(db_release(d, &e), 0);
    assert_int_equal(db_savepoint(d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('four')");
    fails(d, "INSERT INTO log (text) VALUES ('one')", ERR_CONFLICT,
          "db_constraint");
    db_rollback_to(d);
    assert_int_equal(db_release(d, NULL), -1); /* none is left */
    assert_int_equal(db_commit(d, &e), 0);
    assert_int_equal(number(d, "SELECT count(*) FROM log WHERE text IN "
                               "('one', 'three')"),
                     2);
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 2);
    db_rollback_to(d); /* without any: no effect */
}

/* The disk is full in the middle of a group: a clear error, nothing of the
 * group is taken for granted, and what was committed before stays. */
static void full_disk(void **state)
{
    struct db_migration m[3] = {
        schema[0], schema[1], {3, "PRAGMA max_page_count = 40"}};
    struct err e = ERR_INIT;
    struct db *d = NULL;
    int64_t before;
    int i, r = 0;

    (void)state;
    assert_int_equal(db_open_writer(at("db"), m, 3, append_only, &d, &e), 0);
    ok(d, "INSERT INTO log (text) VALUES ('kept')");
    before = number(d, "SELECT count(*) FROM job");
    assert_int_equal(db_begin_immediate(d, &e), 0);
    for (i = 0; i < 1000 && r == 0; i++)
        r = db_exec(d, "INSERT INTO job (n, data) VALUES (1, zeroblob(9000))",
                    &e);
    assert_int_equal(r, -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "db_full");
    db_rollback(d);
    assert_int_equal(number(d, "SELECT count(*) FROM job"), before);
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 1);
    ok(d, "INSERT INTO log (text) VALUES ('again')");
    db_close(d);
}

/* A foreign connection wrote after our read began: busy, without waiting. */
static void busy(void **state)
{
    struct db *d = *state;
    struct err e = ERR_INIT;
    struct db_stmt *s;
    sqlite3 *other = NULL;

    assert_int_equal(sqlite3_open(at("db"), &other), SQLITE_OK);
    ok(d, "BEGIN");
    assert_int_equal(number(d, "SELECT count(*) FROM job"), 1);
    assert_int_equal(
        sqlite3_exec(other, "INSERT INTO job (n) VALUES (2)", NULL, NULL, NULL),
        SQLITE_OK);
    s = db_prepare(d, "INSERT INTO job (n) VALUES (3)", &e);
    assert_non_null(s);
    assert_int_equal(db_run(s, &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "db_busy");
    db_rollback(d);
    assert_int_equal(db_run(s, NULL), 0);
    (void)sqlite3_close(other);
}

/* --- readers ------------------------------------------------------------ */

static void reader_sees_commits(void **state)
{
    struct db *w = *state, *r = NULL;
    struct err e = ERR_INIT;

    assert_int_equal(db_open_reader(at("db"), &r, &e), 0);
    assert_int_equal(db_begin_immediate(w, &e), 0);
    ok(w, "INSERT INTO log (text) VALUES ('x')");
    assert_int_equal(number(r, "SELECT count(*) FROM log"), 0);
    assert_int_equal(db_commit(w, &e), 0);
    assert_int_equal(number(r, "SELECT count(*) FROM log"), 1);
    /* One snapshot for several reads. */
    ok(r, "BEGIN");
    assert_int_equal(number(r, "SELECT count(*) FROM log"), 1);
    ok(w, "INSERT INTO log (text) VALUES ('y')");
    assert_int_equal(number(r, "SELECT count(*) FROM log"), 1);
    ok(r, "COMMIT");
    assert_int_equal(number(r, "SELECT count(*) FROM log"), 2);
    db_close(r);
}

static void reader_can_only_read(void **state)
{
    struct db *w = *state, *r = NULL;
    struct err e = ERR_INIT;

    assert_int_equal(db_open_reader(at("db"), &r, &e), 0);
    denied(r, "INSERT INTO job (n) VALUES (1)");
    denied(r, "UPDATE job SET n = 1");
    denied(r, "DELETE FROM log");
    denied(r, "UPDATE log SET text = 'x'");
    denied(r, "REPLACE INTO log (id, text) VALUES (1, 'x')");
    denied(r, "CREATE TABLE x (a)");
    denied(r, "CREATE TEMP TABLE x (a)");
    denied(r, "DROP TABLE job");
    denied(r, "ATTACH ':memory:' AS x");
    denied(r, "PRAGMA query_only = OFF");
    denied(r, "PRAGMA user_version = 9");
    denied(r, "ANALYZE");
    denied(r, "REINDEX");
    fails(r, "BEGIN IMMEDIATE; DELETE FROM job", ERR_INTERNAL, "db_error");
    db_rollback(r);
    assert_int_equal(number(r, "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL "
                               "SELECT i + 1 FROM c WHERE i < 5) "
                               "SELECT sum(i) FROM c"),
                     15);
    assert_int_equal(number(w, "SELECT count(*) FROM job"), 1);
    db_close(r);
}

/* The writer is gone (and has taken -wal and -shm with it). */
static void reader_without_a_writer(void **state)
{
    struct err e = ERR_INIT;
    struct db *d = writer();

    (void)state;
    ok(d, "INSERT INTO log (text) VALUES ('x')");
    db_close(d);
    d = NULL;
    assert_int_equal(db_open_reader(at("db"), &d, &e), 0);
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 1);
    db_close(d);
}

/* --- crash -------------------------------------------------------------- */

/* SIGKILL in an open transaction: the lock is free at once, what was committed
 * is there, what was not is not. */
static void killed_writer(void **state)
{
    struct db *d = NULL;
    char c = 0;
    int p[2], status;
    pid_t pid;

    (void)state;
    db_close(writer());
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        if (db_open_writer(at("db"), schema, 2, append_only, &d, NULL) != 0 ||
            db_exec(d, "INSERT INTO log (text) VALUES ('kept')", NULL) != 0 ||
            db_begin_immediate(d, NULL) != 0 ||
            db_exec(d, "INSERT INTO log (text) VALUES ('lost')", NULL) != 0)
            _exit(1);
        (void)!write(p[1], "x", 1);
        (void)pause();
        _exit(2);
    }
    (void)close(p[1]);
    assert_int_equal(read(p[0], &c, 1), 1);
    (void)close(p[0]);
    assert_int_equal(db_open_writer(at("db"), schema, 2, append_only, &d, NULL),
                     -1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    d = writer();
    assert_int_equal(number(d, "SELECT count(*) FROM log"), 1);
    assert_int_equal(number(d, "SELECT text = 'kept' FROM log"), 1);
    db_close(d);
}

#define WITH_DB(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define ALONE(f) cmocka_unit_test_setup_teardown(f, NULL, only_clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DB(files_are_private),
        WITH_DB(pragmas_are_set),
        WITH_DB(second_writer_is_refused),
        ALONE(lock_ends_with_close),
        ALONE(lock_is_no_link),
        ALONE(migrations_continue),
        ALONE(failed_migration_changes_nothing),
        ALONE(migration_that_commits),
        ALONE(gap_in_the_migrations),
        ALONE(migrations_and_append_only),
        ALONE(unknown_append_only_table),
        ALONE(no_database),
        WITH_DB(update_and_delete_are_denied),
        WITH_DB(trigger_is_denied),
        WITH_DB(upsert_is_denied),
        WITH_DB(replace_is_stopped),
        WITH_DB(foreign_key_actions_are_denied),
        WITH_DB(protection_can_not_be_switched_off),
        WITH_DB(schema_is_closed_after_migration),
        WITH_DB(prepared_insert_goes_on),
        WITH_DB(values_come_back),
        WITH_DB(null_and_empty_differ),
        WITH_DB(strict_columns),
        WITH_DB(overflowing_sum_is_an_error),
        WITH_DB(identifiers_are_no_strings),
        WITH_DB(statements_are_cached),
        WITH_DB(same_pointer_other_text),
        WITH_DB(one_statement_exactly),
        WITH_DB(failed_bind_fails_the_step),
        WITH_DB(reset_after_the_end),
        WITH_DB(usable_after_a_failure),
        WITH_DB(commit_and_rollback),
        WITH_DB(savepoints_nest),
        ALONE(full_disk),
        WITH_DB(busy),
        WITH_DB(reader_sees_commits),
        WITH_DB(reader_can_only_read),
        ALONE(reader_without_a_writer),
        ALONE(killed_writer),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
