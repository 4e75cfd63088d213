/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

/* --- GPUs --- */

static void typed_gpus_count_and_the_untyped_one_checks(void **state)
{
    static const struct {
        const char *text;
        int n;
        int64_t total;
        const char *first;
        bool mismatch;
    } rows[] = {
        {"cpu=1,mem=20000M,node=1,billing=1,gres/gpu=2,gres/gpu:v100=2", 1, 2,
         "v100", false},
        {"gres/gpu:v100=2,gres/gpu:a100=1,gres/gpu=3", 2, 3, "a100", false},
        {"gres/gpu=3,gres/gpu:v100=2", 2, 3, "", false},
        {"gres/gpu=4", 1, 4, "", false},
        {"gres/gpu:v100=2", 1, 2, "v100", false},
        {"gres/gpu=1,gres/gpu:v100=2", 1, 2, "v100", true},
        {"cpu=80,gres/gpumem=100M,gres/gpuutil=5,gres/shard=3", 0, 0, "",
         false},
        {"gres/gpu:v100=0,gres/gpu=0", 0, 0, "", false},
        {"", 0, 0, "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ledger_gpus g;
        int64_t total = -1;
        must(ledger_gpus_text(rows[i].text, &g, e));
        must(ledger_gpus_total(&g, &total, e));
        assert_int_equal(g.n, rows[i].n);
        assert_int_equal(total, rows[i].total);
        assert_int_equal(g.mismatch, rows[i].mismatch);
        if (g.n)
            assert_string_equal(g.v[0].type, rows[i].first);
    }
}

static void bad_tres_are_refused(void **state)
{
    static const char *const bad[] = {
        "gres/gpu",
        "gres/gpu=x",
        "gres/gpu=-1",
        "gres/gpu=18446744073709551614",
        "gres/gpu:v100=1000001",
        "gres/gpu:abcdefghijklmnopqrstuvwxyzabcdefghij=1"};
    struct ledger_gpus g;
    json_t *o = json_pack("{s:s}", "gres/gpu", "2");

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        must_fail(ledger_gpus_text(bad[i], &g, e), "ledger_tres");
    must_fail(ledger_gpus_json(o, &g, e), "ledger_tres");
    json_decref(o);
    o = json_pack("{s:i, s:i, s:i}", "gres/gpu", 2, "gres/gpu:v100", 2, "cpu",
                  4);
    must(ledger_gpus_json(o, &g, e));
    assert_int_equal(g.n, 1);
    assert_int_equal(g.v[0].count, 2);
    json_decref(o);
    must(ledger_gpus_json(NULL, &g, e));
    assert_int_equal(g.n, 0);
}

static void gpu_seconds_are_the_overlap(void **state)
{
    static const int64_t big = INT64_MAX;
    int64_t v = -1;

    (void)state;
    must(ledger_gpu_seconds(2, 100, 160, 0, big, &v, e));
    assert_int_equal(v, 120);
    must(ledger_gpu_seconds(2, 100, 160, 130, 140, &v, e));
    assert_int_equal(v, 20);
    must(ledger_gpu_seconds(2, 100, 160, 160, 200, &v, e));
    assert_int_equal(v, 0);
    must(ledger_gpu_seconds(2, 0, 160, 0, big, &v, e)); /* never started */
    assert_int_equal(v, 0);
    must(ledger_gpu_seconds(2, 161, 160, 0, big, &v, e)); /* NO_VAL start */
    assert_int_equal(v, 0);
    must_fail(ledger_gpu_seconds(INT64_MAX, 1, INT64_MAX, 0, INT64_MAX, &v, e),
              "ledger_overflow");
}

static void months_are_utc(void **state)
{
    int64_t from, to;
    char name[8];

    (void)state;
    ledger_month(1796083199, &from, &to, name); /* 2026-11-30T23:59:59Z */
    assert_string_equal(name, "2026-11");
    assert_int_equal(to, 1796083200);
    assert_int_equal(to - from, 30 * 86400);
    ledger_month(1796083200, &from, &to, name);
    assert_string_equal(name, "2026-12");
    ledger_month(1798761600, &from, &to, name);
    assert_string_equal(name, "2027-01");
    assert_int_equal(from, 1798761600);
}

/* --- holds --- */

static int take(const char *idem, int64_t principal, int64_t gpus, int64_t most,
                struct err *e)
{
    struct ledger_hold h = {.idem = idem,
                            .principal = principal,
                            .gpu_type = "v100",
                            .gpus = gpus,
                            .seconds = 660};

    return ledger_hold_take(s.db, &h, most, 1000, e);
}

static void a_hold_ends_exactly_once(void **state)
{
    static const enum ledger_end kinds[] = {LEDGER_SETTLE, LEDGER_RELEASE,
                                            LEDGER_EXPIRE};
    bool open = false;
    char idem[8];

    (void)state;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(idem, sizeof idem, "H%d", i);
        must(take(idem, 1, 4, 0, e));
        must(ledger_hold_attach(s.db, idem, "test/12", 1001, e));
        must(ledger_hold_is_open(s.db, idem, &open, e));
        assert_true(open);
        must(ledger_hold_end(s.db, idem, kinds[i], "x", 1002, e));
        must(ledger_hold_is_open(s.db, idem, &open, e));
        assert_false(open);
        for (int k = 0; k < 3; k++)
            must_fail(ledger_hold_end(s.db, idem, kinds[k], "y", 1003, e),
                      "hold_ended");
    }
    must_fail(take("H0", 1, 1, 0, e), "hold_exists");
    must_fail(ledger_hold_end(s.db, "no", LEDGER_SETTLE, NULL, 1, e),
              "hold_missing");
}

/* The schema says it too, whatever the code does. */
static void the_schema_ends_a_hold_once(void **state)
{
    struct err bad = ERR_INIT;

    (void)state;
    must(take("H", 1, 4, 0, e));
    must(ledger_hold_end(s.db, "H", LEDGER_SETTLE, NULL, 1, e));
    assert_int_equal(db_exec(s.db,
                             "INSERT INTO hold_event(hold_id, seq, kind, at)"
                             " VALUES(1, 99, 'release', 5)",
                             &bad),
                     -1);
    assert_string_equal(bad.code, "db_constraint");
}

static void open_holds_count_against_the_quota(void **state)
{
    int64_t gpus = 0, used = 0;

    (void)state;
    must(take("A", 1, 5, 8, e));
    must_fail(take("B", 1, 4, 8, e), "quota_gpus");
    must(take("B", 1, 3, 8, e));
    must(take("C", 2, 8, 8, e)); /* somebody else's */
    must(ledger_open_gpus(s.db, 1, &gpus, e));
    assert_int_equal(gpus, 8);
    must(ledger_month_used(s.db, 1, 1000, &used, e));
    assert_int_equal(used, 8 * 660);
    must(ledger_hold_end(s.db, "A", LEDGER_RELEASE, NULL, 1001, e));
    must(take("D", 1, 5, 8, e));
}

/* --- runs --- */

static struct ledger_gpus v100(int64_t n)
{
    struct ledger_gpus g = {.n = 1, .v = {{"v100", n}}};

    return g;
}

static struct ledger_recorded record(enum ledger_source source,
                                     const char *db_index, int64_t submit,
                                     int64_t start, int64_t end, int64_t gpus)
{
    struct ledger_gpus g = v100(gpus);
    json_t *raw =
        json_pack("{s:I, s:I, s:I, s:i}", "submit", (json_int_t)submit, "start",
                  (json_int_t)start, "end", (json_int_t)end, "by", (int)source);
    struct ledger_run r = {.job = "J",
                           .principal = 1,
                           .workflow = "w",
                           .cluster = "test",
                           .job_id = 12,
                           .submit_time = submit,
                           .db_index = db_index,
                           .source = source,
                           .state = "COMPLETED",
                           .started_at = start,
                           .ended_at = end,
                           .gpus = &g,
                           .nodes = 1,
                           .raw = raw,
                           .observed_at = end};
    struct ledger_recorded out;

    must(ledger_run_record(s.db, &r, &out, e));
    json_decref(raw);
    return out;
}

static int64_t usage(const char *month)
{
    json_t *rows = NULL;
    int64_t sum = 0;

    must(ledger_usage(s.db, 1, month, month, 100, &rows, e));
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += json_integer_value(
            json_object_get(json_array_get(rows, i), "gpu_seconds"));
    json_decref(rows);
    return sum;
}

static void a_run_is_booked_once(void **state)
{
    struct ledger_recorded a, b;
    struct ledger_job_sum sum;

    (void)state;
    a = record(LEDGER_SLURMDBD, "77", 1000, 1010, 1070, 2);
    assert_true(a.changed);
    assert_int_equal(a.gpu_seconds, 120);
    b = record(LEDGER_SLURMDBD, "77", 1000, 1010, 1070, 2);
    assert_false(b.changed);
    assert_int_equal(b.run_id, a.run_id);
    must(ledger_job_sum(s.db, "J", &sum, e));
    assert_int_equal(sum.runs, 1);
    assert_int_equal(sum.gpu_seconds, 120);
    assert_true(sum.from_slurmdbd);
    assert_int_equal(usage("1970-01"), 120);
    assert_int_equal(scratch_int(s.db, "SELECT COUNT(*) FROM raw_record"), 1);
    assert_int_equal(scratch_int(s.db, "SELECT SUM(runs) FROM usage_month"), 1);
}

static void slurmdbd_corrects_slurmctld_and_never_the_reverse(void **state)
{
    struct ledger_recorded a, b, c;
    struct ledger_job_sum sum;

    (void)state;
    a = record(LEDGER_SLURMCTLD, NULL, 1000, 1010, 1075, 2);
    must(ledger_job_sum(s.db, "J", &sum, e));
    assert_false(sum.from_slurmdbd);
    b = record(LEDGER_SLURMDBD, "77", 1000, 1010, 1070, 2);
    assert_int_equal(b.run_id, a.run_id);
    assert_int_equal(b.rev, 2);
    assert_true(b.changed);
    c = record(LEDGER_SLURMCTLD, NULL, 1000, 1010, 1099, 2);
    assert_false(c.changed);
    assert_int_equal(c.gpu_seconds, 120);
    must(ledger_job_sum(s.db, "J", &sum, e));
    assert_int_equal(sum.gpu_seconds, 120);
    assert_true(sum.from_slurmdbd);
    assert_int_equal(usage("1970-01"), 120);
    assert_int_equal(scratch_int(s.db, "SELECT SUM(runs) FROM usage_month"), 1);
}

/* 401 GPU-seconds read with duplicates: each attempt is a run of its own. */
static void a_requeue_is_two_runs_under_one_job_id(void **state)
{
    struct ledger_job_sum sum;
    json_t *v = NULL, *first;

    (void)state;
    (void)record(LEDGER_SLURMDBD, "78", 1100, 1110, 1118, 2);
    (void)record(LEDGER_SLURMDBD, "77", 1000, 1010, 1013, 2);
    must(ledger_job_sum(s.db, "J", &sum, e));
    assert_int_equal(sum.runs, 2);
    assert_int_equal(sum.gpu_seconds, 6 + 16);
    must(ledger_attempts(s.db, "J", &v, e));
    first = json_array_get(v, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "attempt")), 1);
    assert_int_equal(json_integer_value(json_object_get(first, "gpu_seconds")),
                     6);
    json_decref(v);
}

static void a_run_over_midnight_of_the_month_is_cut_there(void **state)
{
    const int64_t cut = 1796083200; /* 2026-12-01T00:00:00Z */

    (void)state;
    (void)record(LEDGER_SLURMDBD, "77", cut - 200, cut - 100, cut + 50, 4);
    assert_int_equal(usage("2026-11"), 400);
    assert_int_equal(usage("2026-12"), 200);
    assert_int_equal(usage(NULL), 600);
}

static void cancelled_before_start_costs_nothing(void **state)
{
    struct ledger_recorded a;
    struct ledger_job_sum sum;

    (void)state;
    a = record(LEDGER_SLURMDBD, "77", 1000, INT64_C(4294967294), 1070, 8);
    assert_int_equal(a.gpu_seconds, 0);
    must(ledger_job_sum(s.db, "J", &sum, e));
    assert_int_equal(sum.runs, 1);
    assert_int_equal(sum.gpu_seconds, 0);
}

static void an_alias_of_another_job_is_refused(void **state)
{
    struct ledger_gpus g = v100(1);
    json_t *raw = json_object();
    struct ledger_run r = {.job = "OTHER",
                           .principal = 2,
                           .workflow = "w",
                           .cluster = "test",
                           .job_id = 12,
                           .submit_time = 5000,
                           .db_index = "77",
                           .source = LEDGER_SLURMDBD,
                           .state = "COMPLETED",
                           .started_at = 5000,
                           .ended_at = 5001,
                           .gpus = &g,
                           .raw = raw,
                           .observed_at = 1};
    struct ledger_recorded out;

    (void)state;
    (void)record(LEDGER_SLURMDBD, "77", 1000, 1010, 1070, 2);
    must_fail(ledger_run_record(s.db, &r, &out, e), "ledger_alias");
    r.db_index = "78"; /* same id, later submit: the id was used again */
    must(ledger_run_record(s.db, &r, &out, e));
    json_decref(raw);
}

static void the_ledger_only_grows(void **state)
{
    static const char *const tables[] = {
        "hold", "hold_event", "run", "run_alias", "raw_record", "run_figure"};
    char sql[128];

    (void)state;
    must(take("H", 1, 4, 0, e));
    must(ledger_hold_attach(s.db, "H", "x", 1, e));
    (void)record(LEDGER_SLURMDBD, "77", 1000, 1010, 1070, 2);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct err e = ERR_INIT;
        (void)snprintf(sql, sizeof sql, "DELETE FROM %s", tables[i]);
        assert_int_equal(db_exec(s.db, sql, &e), -1);
        (void)snprintf(sql, sizeof sql,
                       "INSERT OR REPLACE INTO %s SELECT * FROM %s", tables[i],
                       tables[i]);
        assert_int_equal(db_exec(s.db, sql, &e), -1);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(typed_gpus_count_and_the_untyped_one_checks),
        T(bad_tres_are_refused),
        T(gpu_seconds_are_the_overlap),
        T(months_are_utc),
        T(a_hold_ends_exactly_once),
        T(the_schema_ends_a_hold_once),
        T(open_holds_count_against_the_quota),
        T(a_run_is_booked_once),
        T(slurmdbd_corrects_slurmctld_and_never_the_reverse),
        T(a_requeue_is_two_runs_under_one_job_id),
        T(a_run_over_midnight_of_the_month_is_cut_there),
        T(cancelled_before_start_costs_nothing),
        T(an_alias_of_another_job_is_refused),
        T(the_ledger_only_grows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
