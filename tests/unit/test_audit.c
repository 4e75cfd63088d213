/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/tree.h"
#include "base/crypto.h"
#include "tests/unit/test_ledger_db.h"

static struct scratch s;

static int setup(void **state)
{
    (void)state;
    scratch_make(&s);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&s);
    return 0;
}

static void append(enum audit_kind kind, int64_t principal, const char *job,
                   int64_t at_ms)
{
    json_t *detail = json_pack("{s:i, s:s}", "gpus", 8, "a", "z");
    struct audit_row r = {.kind = kind,
                          .at_ms = at_ms,
                          .request = "R",
                          .principal = principal,
                          .client = "127.0.0.1",
                          .action = "job.submit",
                          .job = job,
                          .detail = detail};

    must(audit_append(s.db, &r, NULL, e));
    json_decref(detail);
}

static void a_leaf_is_canonical_and_hashed(void **state)
{
    static const char want[] =
        "{\"action\":\"job.submit\",\"at_ms\":5000,\"client\":\"127.0.0.1\","
        "\"code\":null,\"detail\":{\"a\":\"z\",\"gpus\":8},\"job\":\"J\","
        "\"kind\":\"decided\",\"principal\":7,\"request\":\"R\","
        "\"token\":null,\"v\":1}";
    uint8_t hash[TREE_HASH_LEN];
    struct db_stmt *q;
    struct err bad = ERR_INIT;
    const void *p;
    size_t n;

    (void)state;
    append(AUDIT_DECIDED, 7, "J", 5000);
    q = db_prepare(s.db, "SELECT leaf, leaf_hash FROM audit", &bad);
    assert_int_equal(db_step(q, &bad), 1);
    p = db_col_blob(q, 0, &n);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(p, want, n);
    must(tree_leaf_hash(want, n, hash, e));
    p = db_col_blob(q, 1, &n);
    assert_memory_equal(p, hash, TREE_HASH_LEN);
    db_reset(q);
}

static void the_tree_is_that_of_the_rows(void **state)
{
    uint8_t a[TREE_HASH_LEN], b[TREE_HASH_LEN];
    struct tree kept, made;

    (void)state;
    for (int i = 0; i < 37; i++)
        append(AUDIT_OUTCOME, i, NULL, 1000 + i);
    must(tree_load(s.db, &kept, e));
    must(tree_rebuild(s.db, &made, e));
    assert_int_equal(kept.size, 37);
    must(tree_root(&kept, a, e));
    must(tree_root(&made, b, e));
    assert_memory_equal(a, b, TREE_HASH_LEN);
}

/* A rolled back transaction leaves no gap: the next row has its number. */
static void seq_has_no_gap_after_a_rollback(void **state)
{
    struct tree t;

    (void)state;
    append(AUDIT_DECIDED, 1, NULL, 1);
    must(db_begin_immediate(s.db, e));
    append(AUDIT_DECIDED, 1, NULL, 2);
    db_rollback(s.db);
    append(AUDIT_DECIDED, 1, NULL, 3);
    assert_int_equal(scratch_int(s.db, "SELECT MAX(seq) FROM audit"), 2);
    must(tree_rebuild(s.db, &t, e));
}

static void rows_can_be_neither_changed_nor_replaced(void **state)
{
    static const char *const bad[] = {
        "UPDATE audit SET action = 'x'",
        "DELETE FROM audit",
        "INSERT OR REPLACE INTO audit SELECT * FROM audit",
        "INSERT INTO audit SELECT * FROM audit WHERE true"
        " ON CONFLICT DO UPDATE SET action = 'x'",
        "DROP TABLE audit",
        "DROP TRIGGER audit_d"};

    (void)state;
    append(AUDIT_DECIDED, 1, NULL, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = ERR_INIT;
        if (db_exec(s.db, bad[i], &e) == 0)
            fail_msg("worked: %s", bad[i]);
    }
    assert_int_equal(scratch_int(s.db,
                                 "SELECT COUNT(*) FROM audit WHERE action ="
                                 " 'job.submit'"),
                     1);
}

static int64_t seq_at(json_t *rows, size_t i)
{
    return json_integer_value(json_object_get(json_array_get(rows, i), "seq"));
}

static void lists_filter_and_page(void **state)
{
    struct audit_filter f = {.limit = 4};
    json_t *rows = NULL;
    int64_t next = 0;

    (void)state;
    for (int i = 1; i <= 10; i++)
        append(AUDIT_DECIDED, 1 + i % 2, i % 3 ? "A" : "B", i * 1000);
    must(audit_list(s.db, &f, &rows, &next, e));
    assert_int_equal(json_array_size(rows), 4);
    assert_int_equal(seq_at(rows, 0), 10);
    assert_int_equal(next, 7);
    json_decref(rows);
    f.before = next;
    f.limit = 100;
    must(audit_list(s.db, &f, &rows, &next, e));
    assert_int_equal(json_array_size(rows), 6);
    assert_int_equal(seq_at(rows, 0), 6);
    assert_int_equal(next, 0);
    json_decref(rows);
    f = (struct audit_filter){.limit = 100, .job = "B", .principal = 1};
    must(audit_list(s.db, &f, &rows, &next, e)); /* 6 */
    assert_int_equal(json_array_size(rows), 1);
    assert_int_equal(seq_at(rows, 0), 6);
    json_decref(rows);
    f = (struct audit_filter){.limit = 100, .since_ms = 3000, .until_ms = 5000};
    must(audit_list(s.db, &f, &rows, &next, e));
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(rows, 1), "at")),
        "1970-01-01T00:00:03Z");
    json_decref(rows);
}

static void a_real_number_is_refused(void **state)
{
    json_t *detail = json_pack("{s:f}", "x", 1.5);
    struct audit_row r = {
        .kind = AUDIT_DECIDED, .action = "a", .detail = detail};

    (void)state;
    must_fail(audit_append(s.db, &r, NULL, e), "json_real");
    assert_int_equal(scratch_int(s.db, "SELECT COUNT(*) FROM audit"), 0);
    json_decref(detail);
}

static void refusals_are_one_row_a_minute(void **state)
{
    struct audit_refusals *r = audit_refusals_new();
    json_t *rows = NULL, *detail;
    struct audit_filter f = {.limit = 10};
    int64_t next;

    (void)state;
    for (int i = 0; i < 1000; i++)
        audit_refusals_add(r, "10.0.0.1", "token_expired", 60000 + i);
    audit_refusals_add(r, "10.0.0.1", "token_expired", 120000);
    assert_int_equal(audit_refusals_pending(r, 119999), 0);
    assert_int_equal(audit_refusals_pending(r, 120000), 1);
    must(audit_refusals_flush(r, s.db, 120000, e));
    audit_refusals_done(r);
    assert_int_equal(audit_refusals_pending(r, 120000), 0);
    assert_int_equal(audit_refusals_pending(r, INT64_MAX), 1);
    must(audit_list(s.db, &f, &rows, &next, e));
    assert_int_equal(json_array_size(rows), 1);
    detail = json_object_get(json_array_get(rows, 0), "detail");
    assert_int_equal(json_integer_value(json_object_get(detail, "count")),
                     1000);
    assert_int_equal(json_integer_value(json_object_get(detail, "first_ms")),
                     60000);
    assert_int_equal(json_integer_value(json_object_get(detail, "last_ms")),
                     60999);
    json_decref(rows);
    audit_refusals_free(r);
}

static void a_flood_of_sources_stays_within_its_budget(void **state)
{
    struct audit_refusals *r = audit_refusals_new();
    char source[32];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(source, sizeof source, "10.0.%d.%d", i / 256, i % 256);
        audit_refusals_add(r, source, "token_missing", 60000);
    }
    assert_int_equal(audit_refusals_pending(r, INT64_MAX), AUDIT_REFUSALS_MAX);
    must(audit_refusals_flush(r, s.db, INT64_MAX, e));
    assert_int_equal(scratch_int(s.db,
                                 "SELECT SUM(json_extract(CAST(leaf AS TEXT),"
                                 " '$.detail.count')) FROM audit"),
                     5000);
    audit_refusals_free(r);
}

/* The commit failed: nothing is lost, the next flush has it again. */
static void a_failed_flush_is_done_again(void **state)
{
    struct audit_refusals *r = audit_refusals_new();

    (void)state;
    audit_refusals_add(r, "x", "y", 1000);
    must(db_begin_immediate(s.db, e));
    must(audit_refusals_flush(r, s.db, INT64_MAX, e));
    db_rollback(s.db);
    must(audit_refusals_flush(r, s.db, INT64_MAX, e));
    audit_refusals_done(r);
    must(audit_refusals_flush(r, s.db, INT64_MAX, e));
    assert_int_equal(scratch_int(s.db, "SELECT COUNT(*) FROM audit"), 1);
    audit_refusals_free(r);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_leaf_is_canonical_and_hashed),
        T(the_tree_is_that_of_the_rows),
        T(seq_has_no_gap_after_a_rollback),
        T(rows_can_be_neither_changed_nor_replaced),
        T(lists_filter_and_page),
        T(a_real_number_is_refused),
        T(refusals_are_one_row_a_minute),
        T(a_flood_of_sources_stays_within_its_budget),
        T(a_failed_flush_is_done_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
