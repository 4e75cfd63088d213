/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/principal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/sluice-test-XXXXXX";
static struct db *db;

static void path_of(char *out, size_t n, const char *suffix)
{
    (void)snprintf(out, n, "%s/p.db%s", dir, suffix);
}

static int setup(void **state)
{
    const struct db_migration m = {1, principal_sql};
    struct err e = ERR_INIT;
    char path[128];

    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/sluice-test-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    path_of(path, sizeof(path), "");
    if (db_open_writer(path, &m, 1, NULL, &db, &e) != 0)
        fail_msg("%s", e.text);
    return 0;
}

static int teardown(void **state)
{
    static const char *const files[] = {"", "-wal", "-shm", ".lock"};
    char path[128];

    (void)state;
    db_close(db);
    for (size_t i = 0; i < 4; i++) {
        path_of(path, sizeof(path), files[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

static int64_t id(const char *issuer, const char *subject, const char *label)
{
    struct err e = ERR_INIT;
    int64_t out = 0;

    if (principal_id(db, issuer, subject, label, &out, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(out > 0);
    return out;
}

static void the_same_issuer_and_subject_stay_one_principal(void **state)
{
    int64_t alice = id("sluice", "alice", "alice");

    (void)state;
    assert_int_equal(id("sluice", "alice", "alice"), alice);
    assert_true(id("sluice", "bob", "bob") != alice);
    assert_true(id("https://login.example", "alice", "alice") != alice);
}

static void a_name_is_a_label(void **state)
{
    int64_t alice = id("sluice", "alice", "alice");
    struct err e = ERR_INIT;
    struct db_stmt *s;

    (void)state;
    assert_int_equal(id("sluice", "alice", "Alice B."), alice);
    s = db_prepare(db, "SELECT label FROM principal WHERE subject = 'alice'",
                   &e);
    assert_int_equal(db_step(s, &e), 1);
    assert_string_equal(db_col_text(s, 0), "Alice B.");
    db_reset(s);
}

static void a_principal_neither_changes_nor_goes(void **state)
{
    struct err e = ERR_INIT;
    int64_t alice = id("sluice", "alice", "alice");

    (void)state;
    assert_int_equal(
        db_exec(db, "UPDATE principal SET subject = 'mallory'", &e), -1);
    err_clear(&e);
    assert_int_equal(db_exec(db, "DELETE FROM principal", &e), -1);
    assert_int_equal(id("sluice", "alice", "alice"), alice);
}

static void empty_and_endless_texts_are_refused(void **state)
{
    char text[PRINCIPAL_TEXT_MAX + 2];
    struct err e = ERR_INIT;
    int64_t out = 7;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(principal_id(db, "", "a", "a", &out, &e), -1);
    assert_string_equal(e.code, "principal_text");
    err_clear(&e);
    assert_int_equal(principal_id(db, "a", text, "a", &out, &e), -1);
    assert_int_equal(principal_id(db, "a", "a", NULL, &out, &e), -1);
    assert_int_equal(out, 7);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_same_issuer_and_subject_stay_one_principal),
        T(a_name_is_a_label),
        T(a_principal_neither_changes_nor_goes),
        T(empty_and_endless_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
