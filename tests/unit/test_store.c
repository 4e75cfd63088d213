/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "broker/jobs/doc.h"
#include "broker/jobs/fingerprint.h"
#include "broker/jobs/schema.h"
#include "broker/jobs/store.h"
#include "broker/jobs/writer.h"
#include "tests/unit/test_ledger_db.h"

#include <pthread.h>
#include <stdatomic.h>

static struct scratch s;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(s.dir, sizeof s.dir, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(s.dir));
    (void)snprintf(s.path, sizeof s.path, "%s/t.db", s.dir);
    must(schema_open_writer(s.path, &s.db, e));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&s);
    return 0;
}

/* Literals: rows made here are not store_job_clear()ed. */
static struct job_row row(int i)
{
    static char text[64], name[64];
    struct job_row j = {.version = 1,
                        .principal = 1 + i % 2,
                        .uid = 1000,
                        .phase = PHASE_INTENT,
                        .state = i % 3 ? JOB_PENDING : JOB_ERROR,
                        .person = (char *)(uintptr_t) "alice",
                        .account = text,
                        .cluster = (char *)(uintptr_t) "test",
                        .workflow = (char *)(uintptr_t)(i % 2 ? "odd" : "even"),
                        .generation = (char *)(uintptr_t) "g",
                        .request = (char *)(uintptr_t) "r",
                        .params = (char *)(uintptr_t) "{\"a\":1}",
                        .labels = (char *)(uintptr_t)(i == 4 ? "{\"p\":\"x\"}"
                                                             : "{\"p\":\"y\"}"),
                        .detail = (char *)(uintptr_t) "submitting",
                        .slurm_name = name,
                        .created_at = 1000 + i,
                        .requested = (char *)(uintptr_t) "{\"gpus\":2}",
                        .receipts = (char *)(uintptr_t) "[]"};

    (void)snprintf(j.ulid, sizeof j.ulid, "01ARZ3NDEKTSV4RRFFQ69G5%03d", i);
    (void)snprintf(text, sizeof text, "acct");
    (void)snprintf(name, sizeof name, "w.%d", i);
    return j;
}

static void a_row_comes_back_as_it_went(void **state)
{
    struct job_row j = row(1), back;

    (void)state;
    j.slurm_flags = (char *)(uintptr_t) "[\"COMPLETING\"]";
    j.has_exit = true;
    j.exit_signal = 9;
    must(store_job_insert(s.db, &j, e));
    must(store_job_get(s.db, j.ulid, &back, e));
    assert_string_equal(back.person, "alice");
    assert_string_equal(back.params, "{\"a\":1}");
    assert_string_equal(back.slurm_flags, "[\"COMPLETING\"]");
    assert_null(back.reason);
    assert_true(back.has_exit);
    assert_int_equal(back.exit_signal, 9);
    assert_int_equal(back.state, j.state);
    assert_int_equal(back.created_at, 1001);
    back.phase = PHASE_FINAL;
    free(back.detail);
    back.detail = strdup("done");
    must(store_job_update(s.db, &back, e));
    assert_int_equal(back.version, 2);
    store_job_clear(&back);
    must(store_job_get(s.db, j.ulid, &back, e));
    assert_int_equal(back.version, 2);
    assert_string_equal(back.detail, "done");
    assert_int_equal(back.phase, PHASE_FINAL);
    store_job_clear(&back);
    must(store_job_delete(s.db, j.ulid, e));
    must_fail(store_job_get(s.db, j.ulid, &back, e), "job_not_found");
    must_fail(store_job_update(s.db, &j, e), "job_not_found");
}

struct seen {
    int n;
    char first[ULID_LEN + 1], last[ULID_LEN + 1];
};

static int see(const struct job_row *j, void *arg, struct err *e)
{
    struct seen *x = arg;

    (void)e;
    memcpy(x->n == 0 ? x->first : x->last, j->ulid, sizeof x->first);
    x->n++;
    return 0;
}

static int count(const struct job_filter *f)
{
    struct seen x = {0};

    must(store_job_list(s.db, f, see, &x, e));
    return x.n;
}

static void lists_filter_and_page_by_key(void **state)
{
    struct job_filter f = {.limit = 4};
    struct seen x = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        struct job_row j = row(i);
        must(store_job_insert(s.db, &j, e));
    }
    must(store_job_list(s.db, &f, see, &x, e));
    assert_int_equal(x.n, 4);
    assert_string_equal(x.first, "01ARZ3NDEKTSV4RRFFQ69G5009");
    memcpy(f.before, x.last, sizeof f.before);
    x = (struct seen){0};
    must(store_job_list(s.db, &f, see, &x, e));
    assert_string_equal(x.first, "01ARZ3NDEKTSV4RRFFQ69G5005");
    f = (struct job_filter){.limit = 100};
    assert_int_equal(count(&f), 10);
    f.principal = 1;
    assert_int_equal(count(&f), 5);
    f.state = "ERROR"; /* 0, 6 of the even ones */
    assert_int_equal(count(&f), 2);
    f = (struct job_filter){.limit = 100, .workflow = "odd"};
    assert_int_equal(count(&f), 5);
    f = (struct job_filter){.limit = 100, .since = 1002, .until = 1005};
    assert_int_equal(count(&f), 3);
    f = (struct job_filter){.limit = 100, .label_key = "p"};
    assert_int_equal(count(&f), 10);
    f.label_value = "x";
    assert_int_equal(count(&f), 1);
    f.label_key = "q";
    assert_int_equal(count(&f), 0);
    f = (struct job_filter){.limit = 100, .owner = "bob"};
    assert_int_equal(count(&f), 0);
}

static void label_keys_cannot_leave_their_path(void **state)
{
    (void)state;
    assert_true(store_label_key_valid("a.b/c-D_9"));
    assert_false(store_label_key_valid(""));
    assert_false(store_label_key_valid("a\"b"));
    assert_false(store_label_key_valid("a b"));
    assert_false(store_label_key_valid("\xc3\xa9"));
}

static void open_jobs_are_those_to_follow(void **state)
{
    struct seen x = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct job_row j = row(i);
        j.phase = i < 3 ? (enum job_phase)i : PHASE_FINAL;
        j.source = i >= 4 ? (char *)(uintptr_t) "slurmctld" : NULL;
        j.ended_at = i == 4 ? 100 : 5000;
        must(store_job_insert(s.db, &j, e));
    }
    /* 0 1 2 are open, 5 may be corrected; 3 is done, 4 is too old. */
    must(store_job_open(s.db, 1000, see, &x, e));
    assert_int_equal(x.n, 4);
    assert_string_equal(x.last, "01ARZ3NDEKTSV4RRFFQ69G5005");
}

static void an_intent_stays(void **state)
{
    struct intent_row i = {"U", "r", "w", "g", "a", "w.u", 1, 1000, 5};
    struct err bad = ERR_INIT;

    (void)state;
    must(store_intent_insert(s.db, &i, e));
    assert_int_equal(db_exec(s.db, "DELETE FROM intent", &bad), -1);
    err_clear(&bad);
    assert_int_equal(db_exec(s.db, "UPDATE intent SET uid = 0", &bad), -1);
}

static void a_key_is_claimed_once(void **state)
{
    struct idem_claim c = {.principal = 1,
                           .route = "POST /v1/jobs",
                           .key = "k",
                           .fingerprint = "f",
                           .ulid = "U1",
                           .now = 5};
    struct idem_answer first;

    (void)state;
    must(store_idem_claim(s.db, &c, &first, e));
    c.ulid = "U2";
    assert_int_equal(store_idem_claim(s.db, &c, &first, NULL), 1);
    assert_int_equal(first.status, 0); /* in flight */
    assert_string_equal(first.ulid, "U1");
    store_idem_clear(&first);
    must(store_idem_answer(s.db, "U1", 201, "body", NULL, e));
    must(store_idem_answer(s.db, "U1", 201, "other", NULL, e)); /* no effect */
    assert_int_equal(store_idem_find(s.db, &c, &first, NULL), 1);
    assert_string_equal(first.body, "body");
    store_idem_clear(&first);
    c.fingerprint = "g";
    must_fail(store_idem_find(s.db, &c, &first, e), "idempotency_key_reused");
    c.principal = 2; /* somebody else's key of the same name */
    must(store_idem_claim(s.db, &c, &first, e));
}

static void a_restart_answers_what_was_in_flight(void **state)
{
    struct idem_claim c = {.principal = 1,
                           .route = "r",
                           .key = "k",
                           .fingerprint = "f",
                           .ulid = "U1",
                           .now = 5};
    struct idem_answer first;

    (void)state;
    must(store_idem_claim(s.db, &c, &first, e));
    must(store_idem_sweep(s.db, e));
    assert_int_equal(store_idem_find(s.db, &c, &first, NULL), 1);
    assert_int_equal(first.status, 202);
    assert_null(first.body);
    store_idem_clear(&first);
    must(store_idem_expire(s.db, 6, e));
    assert_int_equal(store_idem_find(s.db, &c, &first, NULL), 0);
}

static void the_secret_key_is_made_once(void **state)
{
    uint8_t a[32], b[32], zero[32] = {0};

    (void)state;
    must(store_secret_key(s.db, a, e));
    must(store_secret_key(s.db, b, e));
    assert_memory_equal(a, b, 32);
    assert_memory_not_equal(a, zero, 32);
}

static void print(const char *body, const uint8_t *key, char *out)
{
    json_t *o = json_loads(body, 0, NULL);

    assert_non_null(o);
    must(fingerprint_body(o, key, out, e));
    json_decref(o);
}

static void same_meaning_has_the_same_fingerprint(void **state)
{
    static const char *const same[] = {
        "{\"workflow\":\"w\",\"params\":{\"a\":1,\"b\":[1,2]}}",
        "{\"params\":{\"b\":[1,2],\"a\":1},\"workflow\":\"w\"}",
        "{\"workflow\":\"w\",\"params\":{\"a\":1,\"b\":[1,2]},\"secrets\":{}}"};
    static const char *const other[] = {
        "{\"workflow\":\"w\",\"params\":{\"a\":1,\"b\":[2,1]}}",
        "{\"workflow\":\"w\",\"params\":{\"a\":1.0,\"b\":[1,2]}}",
        "{\"workflow\":\"w\",\"params\":{\"a\":\"1\",\"b\":[1,2]}}",
        "{\"workflow\":\"v\",\"params\":{\"a\":1,\"b\":[1,2]}}"};
    uint8_t key[32] = {1};
    char want[65], got[65];

    (void)state;
    print(same[0], key, want);
    for (size_t i = 1; i < 3; i++) {
        print(same[i], key, got);
        assert_string_equal(want, got);
    }
    for (size_t i = 0; i < 4; i++) {
        print(other[i], key, got);
        assert_string_not_equal(want, got);
    }
}

static void secrets_count_through_the_key_only(void **state)
{
    static const char a[] = "{\"workflow\":\"w\",\"secrets\":{\"X\":\"one\"}}";
    static const char b[] = "{\"workflow\":\"w\",\"secrets\":{\"X\":\"two\"}}";
    static const char c[] = "{\"workflow\":\"w\",\"secrets\":{\"Y\":\"one\"}}";
    uint8_t key[32] = {1}, other[32] = {2};
    char h[4][65];

    (void)state;
    print(a, key, h[0]);
    print(b, key, h[1]);
    print(c, key, h[2]);
    print(a, other, h[3]);
    for (int i = 1; i < 4; i++)
        assert_string_not_equal(h[0], h[i]);
}

/* --- the document --- */

static void absent_facts_are_null_never_left_out(void **state)
{
    static const char *const keys[] = {
        "id",         "workflow",     "params",     "state",    "detail",
        "reason",     "error_class",  "owner",      "cluster",  "slurm",
        "created_at", "submitted_at", "started_at", "ended_at", "observed_at",
        "stale",      "exit",         "resources",  "attempts", "gpu_seconds",
        "source",     "receipts",     "links",      "labels"};
    static const char *const nulls[] = {
        "reason",      "error_class", "submitted_at", "started_at", "ended_at",
        "observed_at", "exit",        "gpu_seconds",  "source"};
    const struct doc_fresh fresh = {2000, true};
    struct job_row j = row(1);
    struct doc_version v;
    struct buf b;
    json_t *doc;

    (void)state;
    buf_init(&b, DOC_BYTES_MAX);
    assert_int_equal(doc_job(&b, &j, &fresh, &v), 0);
    doc = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(doc);
    assert_int_equal(json_object_size(doc), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_non_null(json_object_get(doc, keys[i]));
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        assert_true(json_is_null(json_object_get(doc, nulls[i])));
    assert_true(
        json_is_null(json_object_get(json_object_get(doc, "slurm"), "job_id")));
    assert_true(v.stale);
    json_decref(doc);
    buf_clear(&b);
}

static void freshness_moves_until_the_end(void **state)
{
    const struct doc_fresh fresh = {2000, false};
    struct job_row j = row(1);
    struct doc_version v;
    struct buf b;

    (void)state;
    buf_init(&b, DOC_BYTES_MAX);
    j.observed_at = 1500;
    (void)doc_job(&b, &j, &fresh, &v);
    assert_int_equal(v.observed_at, 2000);
    assert_false(v.final);
    j.phase = PHASE_FINAL;
    (void)doc_job(&b, &j, &fresh, &v);
    assert_int_equal(v.observed_at, 1500);
    assert_true(v.final);
    buf_clear(&b);
}

static void strings_are_escaped(void **state)
{
    struct buf b;
    json_t *v;

    (void)state;
    buf_init(&b, 1024);
    (void)doc_str(&b, "a\"b\\c\n\x01\x7f\xe4\xb8\xad</script>");
    v = json_loadb(b.data, b.len, JSON_DECODE_ANY, NULL);
    assert_string_equal(json_string_value(v),
                        "a\"b\\c\n\x01\x7f\xe4\xb8\xad</script>");
    json_decref(v);
    buf_clear(&b);
}

/* --- the writer --- */

static int add_or_fail(struct db *d, void *arg, struct err *e)
{
    int i = *(int *)arg;
    struct job_row j = row(i);
    char name[32];

    (void)snprintf(name, sizeof name, "w.%d", i);
    j.slurm_name = name;
    if (store_job_insert(d, &j, e))
        return -1;
    return i % 5 ? 0 : err_set(e, ERR_DENIED, "five", "no fives");
}

struct caller {
    pthread_t thread;
    struct writer *w;
    int i, rc;
    struct err e;
};

static void *call(void *arg)
{
    struct caller *c = arg;

    c->rc = writer_call(c->w, add_or_fail, &c->i, &c->e);
    return NULL;
}

/* Forty at once: each fails or stays by itself, whatever shares its group. */
static void units_of_a_group_fail_alone(void **state)
{
    enum { N = 40 };
    static struct caller v[N];
    struct writer *w = NULL;
    struct db *reader = NULL;

    (void)state;
    memset(v, 0, sizeof v);
    must(writer_start(s.db, &w, e));
    s.db = NULL;
    for (int i = 0; i < N; i++) {
        v[i].w = w;
        v[i].i = i;
        assert_int_equal(pthread_create(&v[i].thread, NULL, call, &v[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        (void)pthread_join(v[i].thread, NULL);
        assert_int_equal(v[i].rc, i % 5 ? 0 : -1);
        assert_string_equal(v[i].e.code, i % 5 ? "" : "five");
    }
    must(db_open_reader(s.path, &reader, e));
    assert_int_equal(scratch_int(reader, "SELECT COUNT(*) FROM job"),
                     N - N / 5);
    db_close(reader);
    writer_stop(w);
    must(schema_open_writer(s.path, &s.db, e));
}

static int wait_a_little(struct db *d, void *arg, struct err *e)
{
    (void)d;
    (void)e;
    (void)usleep(50000);
    atomic_store((atomic_int *)arg, 1);
    return 0;
}

static void *call_wait(void *arg)
{
    struct caller *c = arg;
    static atomic_int done;

    c->rc = writer_call(c->w, wait_a_little, &done, &c->e);
    c->i = atomic_load(&done);
    return NULL;
}

static void what_is_queued_is_written_before_the_stop(void **state)
{
    struct caller c = {0};
    struct writer *w = NULL;

    (void)state;
    must(writer_start(s.db, &w, e));
    s.db = NULL;
    c.w = w;
    assert_int_equal(pthread_create(&c.thread, NULL, call_wait, &c), 0);
    (void)usleep(10000);
    writer_stop(w);
    (void)pthread_join(c.thread, NULL);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.i, 1);
    must(schema_open_writer(s.path, &s.db, e));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_row_comes_back_as_it_went),
        T(lists_filter_and_page_by_key),
        T(label_keys_cannot_leave_their_path),
        T(open_jobs_are_those_to_follow),
        T(an_intent_stays),
        T(a_key_is_claimed_once),
        T(a_restart_answers_what_was_in_flight),
        T(the_secret_key_is_made_once),
        T(same_meaning_has_the_same_fingerprint),
        T(secrets_count_through_the_key_only),
        T(absent_facts_are_null_never_left_out),
        T(freshness_moves_until_the_end),
        T(strings_are_escaped),
        T(units_of_a_group_fail_alone),
        T(what_is_queued_is_written_before_the_stop)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
