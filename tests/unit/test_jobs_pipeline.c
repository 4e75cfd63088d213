/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/test_jobs_lab.h"

static struct lab lab;

static int setup(void **state)
{
    (void)state;
    lab_make(&lab);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lab_remove(&lab);
    return 0;
}

static void refused(int gpus, const char *key, const char *code)
{
    struct submit_answer a;
    struct err e = ERR_INIT;

    assert_int_equal(lab_post(&lab, lab.reader, gpus, key, &a, &e), -1);
    assert_string_equal(e.code, code);
    submit_answer_clear(&a);
}

static void a_post_is_answered_with_the_job(void **state)
{
    struct submit_answer a;
    json_t *doc;

    (void)state;
    must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
    assert_int_equal(a.status, 201);
    assert_false(a.replayed);
    doc = json_loadb(a.body, a.body_len, 0, NULL);
    assert_non_null(doc);
    assert_string_equal(lab_str(doc, "id"), a.job);
    assert_string_equal(lab_str(doc, "state"), "PENDING");
    assert_string_equal(lab_str(doc, "detail"), "submitting");
    assert_true(json_is_null(json_object_get(doc, "gpu_seconds")));
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(doc, "slurm"), "job_id")),
                     100);
    json_decref(doc);
    submit_answer_clear(&a);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'decided' AND code IS NULL"),
                     1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit o JOIN audit d"
                                   " ON d.request = o.request WHERE o.kind ="
                                   " 'outcome' AND d.kind = 'decided' AND"
                                   " o.code = 'ok' AND d.seq < o.seq"),
                     1);
    assert_int_equal(lab_int(&lab, "SELECT SUM(gpus) FROM hold_open"), 2);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_event WHERE"
                                   " kind = 'attach'"),
                     1);
}

/* Names are labels: what the audit's leaves hold is the principal's id. */
static void leaves_name_nobody(void **state)
{
    struct submit_answer a;

    (void)state;
    must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
    submit_answer_clear(&a);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE"
                                   " instr(CAST(leaf AS TEXT), '\"alice\"')"),
                     0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE"
                                   " principal = (SELECT id FROM principal"
                                   " WHERE label = 'alice')"),
                     2);
}

static void a_refusal_leaves_intent_and_audit_but_no_job(void **state)
{
    (void)state;
    atomic_store(&lab.mode, STANDIN_REFUSE);
    refused(2, NULL, "slurm_invalid_qos");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM job"), 0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_open"), 0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_event WHERE"
                                   " kind = 'release'"),
                     1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'outcome' AND code ="
                                   " 'slurm_invalid_qos'"),
                     1);
}

static void a_lost_answer_is_a_job_that_is_unknown(void **state)
{
    static const int modes[] = {STANDIN_LOSE, STANDIN_SILENT};

    (void)state;
    lab.service->times.forget_ms = 3600 * 1000;
    pthread_mutex_lock(&lab.lock);
    json_object_set_new(lab.outcome, "known", json_true());
    json_object_set_new(lab.outcome, "running", json_true());
    pthread_mutex_unlock(&lab.lock);
    for (size_t i = 0; i < 2; i++) {
        struct submit_answer a;
        json_t *doc;
        atomic_store(&lab.mode, modes[i]);
        must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
        assert_int_equal(a.status, 202);
        doc = json_loadb(a.body, a.body_len, 0, NULL);
        assert_string_equal(lab_str(doc, "state"), "UNKNOWN");
        assert_string_equal(lab_str(json_object_get(doc, "reason"), "code"),
                            "submit_unknown");
        json_decref(doc);
        submit_answer_clear(&a);
    }
    assert_int_equal(lab_int(&lab, "SELECT SUM(gpus) FROM hold_open"), 4);
    assert_int_equal(atomic_load(&lab.submits), 2); /* never sent twice */
}

/* A worker's claim that can't be read is no reason to say that nothing was
 * started. */
static void a_claim_that_makes_no_sense_is_unknown(void **state)
{
    struct submit_answer a;
    json_t *doc;

    (void)state;
    atomic_store(&lab.garbage, 1);
    must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
    assert_int_equal(a.status, 202);
    doc = json_loadb(a.body, a.body_len, 0, NULL);
    assert_string_equal(lab_str(doc, "state"), "UNKNOWN");
    json_decref(doc);
    submit_answer_clear(&a);
    assert_int_equal(atomic_load(&lab.submits), 1);
}

static void the_first_answer_is_replayed_byte_for_byte(void **state)
{
    struct submit_answer a, b;

    (void)state;
    must(lab_post(&lab, lab.reader, 2, "key-1", &a, e));
    must(lab_post(&lab, lab.reader, 2, "key-1", &b, e));
    assert_true(b.replayed);
    assert_int_equal(b.status, 201);
    assert_string_equal(a.job, b.job);
    assert_string_equal(a.body, b.body);
    submit_answer_clear(&a);
    submit_answer_clear(&b);
    refused(3, "key-1", "idempotency_key_reused");
    refused(2, "bad key", "idempotency_key");
    assert_int_equal(atomic_load(&lab.submits), 1);
}

static void a_lasting_refusal_is_replayed_and_a_passing_one_is_not(void **state)
{
    struct submit_answer a;

    (void)state;
    atomic_store(&lab.mode, STANDIN_REFUSE);
    refused(2, "k", "slurm_invalid_qos");
    atomic_store(&lab.mode, STANDIN_ACCEPT);
    refused(2, "k", "slurm_invalid_qos");
    assert_int_equal(atomic_load(&lab.submits), 1);
    atomic_store(&lab.mode, STANDIN_DOWN);
    refused(2, "k2", "storage_stalled");
    atomic_store(&lab.mode, STANDIN_ACCEPT);
    must(lab_post(&lab, lab.reader, 2, "k2", &a, e));
    assert_false(a.replayed);
    submit_answer_clear(&a);
}

struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    int status;
    char code[ERR_CODE_MAX], job[JOB_ID_LEN + 1];
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct submit_answer a;
    struct db *reader = NULL;
    struct err e = ERR_INIT;

    if (service_reader(lab.service, &reader, &e))
        return NULL;
    (void)pthread_barrier_wait(r->start);
    if (lab_post(&lab, reader, 1, "the-key", &a, &e) == 0)
        r->status = a.status;
    (void)snprintf(r->code, sizeof r->code, "%s", e.code);
    (void)snprintf(r->job, sizeof r->job, "%s", a.job);
    submit_answer_clear(&a);
    db_close(reader);
    return NULL;
}

static void fifty_posts_with_one_key_are_one_job(void **state)
{
    enum { N = 50 };
    static struct racer v[N];
    pthread_barrier_t start;
    const char *job = "";
    int answered = 0;

    (void)state;
    memset(v, 0, sizeof v);
    (void)pthread_barrier_init(&start, NULL, N);
    for (int i = 0; i < N; i++) {
        v[i].start = &start;
        assert_int_equal(pthread_create(&v[i].thread, NULL, race, &v[i]), 0);
    }
    for (int i = 0; i < N; i++)
        (void)pthread_join(v[i].thread, NULL);
    (void)pthread_barrier_destroy(&start);
    for (int i = 0; i < N; i++) {
        if (v[i].status == 0) {
            assert_string_equal(v[i].code, "idempotency_in_flight");
            continue;
        }
        assert_int_equal(v[i].status, 201);
        if (answered++ == 0)
            job = v[i].job;
        assert_string_equal(v[i].job, job);
    }
    assert_true(answered >= 1);
    assert_int_equal(atomic_load(&lab.submits), 1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM job"), 1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 1);
}

static void many_posts_at_once_are_as_many_jobs(void **state)
{
    struct submit_answer a;

    (void)state;
    for (int i = 0; i < 16; i++) {
        must(lab_post(&lab, lab.reader, 1, NULL, &a, e));
        submit_answer_clear(&a);
    }
    refused(1, NULL, "quota_gpus"); /* alice's cap is 16, all wait */
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM job"), 16);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'quota_gpus'"),
                     1);
}

static int post_body(const struct identity *who, json_t *body, bool dry,
                     struct submit_answer *a, struct err *e)
{
    struct submit_request r = {.who = who,
                               .body = body,
                               .dry_run = dry,
                               .request = "01ARZ3NDEKTSV4RRFFQ69G5FAV"};
    int rc = pipeline_submit(lab.service, lab.reader, &r, a, e);

    json_decref(body);
    return rc;
}

static void bad_bodies_are_refused_by_name(void **state)
{
    static const struct {
        const char *body, *code, *pointer;
    } rows[] = {
        {"[]", "body_type", ""},
        {"{\"workflow\":\"gpu-canary\",\"x\":1}", "json_unknown_key", "/x"},
        {"{\"params\":{}}", "json_missing", "/workflow"},
        {"{\"workflow\":\"rm-rf\"}", "workflow_not_found", ""},
        {"{\"workflow\":\"gpu-canary\",\"params\":{\"gpus\":9}}", "param_range",
         "/params/gpus"},
        {"{\"workflow\":\"gpu-canary\",\"labels\":{\"a\":1}}", "label_invalid",
         "/labels/a"},
        {"{\"workflow\":\"gpu-canary\",\"secrets\":{\"X\":\"1\"}}",
         "secret_unknown", "/secrets/X"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct submit_answer a;
        struct err e = ERR_INIT;
        json_t *body = json_loads(rows[i].body, 0, NULL);
        assert_int_equal(post_body(&lab.alice, body, false, &a, &e), -1);
        assert_string_equal(e.code, rows[i].code);
        assert_string_equal(e.pointer, rows[i].pointer);
        assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                       " 'decided' AND code IS NOT NULL"),
                         (int64_t)i + 1); /* one each */
    }
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 0);
}

/* Not in the job, not in the audit, not in the idempotency row. */
static void a_secret_is_nowhere_in_the_database(void **state)
{
    static const char secret[] = "hunter2hunter2";
    json_t *body = json_pack("{s:s, s:{s:s}}", "workflow", "gpu-canary",
                             "secrets", "CANARY_TOKEN", secret);
    struct submit_request r = {.who = &lab.alice,
                               .body = body,
                               .idempotency_key = "k",
                               .request = "01ARZ3NDEKTSV4RRFFQ69G5FAV"};
    struct submit_answer a;
    char path[128], *text;
    static const char *const files[] = {"db/sluice.db", "db/sluice.db-wal"};

    (void)state;
    must(pipeline_submit(lab.service, lab.reader, &r, &a, e));
    submit_answer_clear(&a);
    json_decref(body);
    for (size_t i = 0; i < 2; i++) {
        struct stat st;
        size_t n = 0;
        (void)snprintf(path, sizeof path, "%s/%s", lab.site.dir, files[i]);
        if (stat(path, &st))
            continue;
        text = file_read(AT_FDCWD, path, 64 << 20, &n, NULL);
        assert_non_null(text);
        assert_null(memmem(text, n, secret, strlen(secret)));
        free(text);
    }
    assert_int_equal(lab_int(&lab, "SELECT has_sidecar FROM job"), 1);
}

static void a_plan_starts_nothing(void **state)
{
    struct submit_answer a;
    json_t *doc, *body = json_pack("{s:s}", "workflow", "gpu-canary");

    (void)state;
    must(post_body(&lab.alice, body, true, &a, e));
    assert_int_equal(a.status, 200);
    doc = json_loadb(a.body, a.body_len, 0, NULL);
    assert_string_equal(lab_str(doc, "script"), "#!/bin/bash\n");
    assert_string_equal(lab_str(doc, "start_estimate"), "2026-12-01T00:00:00Z");
    assert_true(json_is_null(json_object_get(doc, "price")));
    json_decref(doc);
    submit_answer_clear(&a);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 0);
    assert_int_equal(atomic_load(&lab.submits), 0);
}

static void roles_decide_who_may_submit(void **state)
{
    struct identity otto;
    struct submit_answer a;
    struct err e = ERR_INIT;

    (void)state;
    lab_identity(&lab, "otto", &otto);
    assert_int_equal(post_body(&otto,
                               json_pack("{s:s}", "workflow", "gpu-canary"),
                               false, &a, &e),
                     -1);
    assert_string_equal(e.code, "role_missing");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'role_missing'"),
                     1);
    identity_clear(&otto);
}

/* Her uid says who she is, and her entry wants a token for what she starts. */
static void a_submit_without_the_token_it_needs_is_audited(void **state)
{
    struct identity tess;
    struct submit_answer a;
    struct err e = ERR_INIT;

    (void)state;
    lab_identity(&lab, "tess", &tess);
    tess.proof = PROOF_NETWORK;
    assert_int_equal(post_body(&tess,
                               json_pack("{s:s}", "workflow", "gpu-canary"),
                               false, &a, &e),
                     -1);
    assert_string_equal(e.code, "token_required");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'decided' AND code = 'token_required'"),
                     1);
    identity_clear(&tess);
}

/* The spawner is at another generation for good: tried once more, then 503. */
static void another_generation_is_not_sent(void **state)
{
    char good[GENERATION_ID_LEN + 1];

    (void)state;
    memcpy(good, lab.generation, sizeof good);
    lab.generation[0] = lab.generation[0] == 'a' ? 'b' : 'a';
    refused(2, "k", "generation_mismatch");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM job"), 0);
    memcpy(lab.generation, good, sizeof good);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_post_is_answered_with_the_job),
        T(leaves_name_nobody),
        T(a_refusal_leaves_intent_and_audit_but_no_job),
        T(a_lost_answer_is_a_job_that_is_unknown),
        T(a_claim_that_makes_no_sense_is_unknown),
        T(the_first_answer_is_replayed_byte_for_byte),
        T(a_lasting_refusal_is_replayed_and_a_passing_one_is_not),
        T(fifty_posts_with_one_key_are_one_job),
        T(many_posts_at_once_are_as_many_jobs),
        T(bad_bodies_are_refused_by_name),
        T(a_secret_is_nowhere_in_the_database),
        T(a_plan_starts_nothing),
        T(roles_decide_who_may_submit),
        T(a_submit_without_the_token_it_needs_is_audited),
        T(another_generation_is_not_sent)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
