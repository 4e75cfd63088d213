/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/test_jobs_lab.h"

/* --- the test plays watch --- */

static struct lab lab;
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    atomic_bool stop, ctld, dbd;
    json_t *jobs, *rows; /* what slurmctld and slurmdbd hold */
    atomic_int asks;
} watch;
static char job_id[JOB_ID_LEN + 1], name[SLURM_NAME_MAX + 1], digest[65];

static json_t *source(atomic_bool *ok, const char *key, json_t *list)
{
    bool up = atomic_load(ok);

    return json_pack("{s:b, s:o}", "ok", (int)up, key,
                     up ? json_deep_copy(list) : json_array());
}

static void answer(const json_t *ask, int fd)
{
    const char *what = lab_str(ask, "ask");
    bool ctld = strcmp(what, "accounting") != 0;
    bool dbd = strcmp(what, "job") != 0;
    json_t *o;

    atomic_fetch_add(&watch.asks, 1);
    pthread_mutex_lock(&watch.lock);
    o = json_pack("{s:i, s:s, s:s, s:o, s:o}", "v", 1, "event", "answer", "id",
                  lab_str(ask, "id"), "slurmctld",
                  ctld ? source(&watch.ctld, "jobs", watch.jobs) : json_null(),
                  "slurmdbd",
                  dbd ? source(&watch.dbd, "rows", watch.rows) : json_null());
    pthread_mutex_unlock(&watch.lock);
    lab_send(fd, o);
}

static int watch_fd(void)
{
    int fd;

    pthread_mutex_lock(&lab.lock);
    fd = lab.watch;
    pthread_mutex_unlock(&lab.lock);
    return fd;
}

static void *watch_main(void *arg)
{
    while (!atomic_load(&watch.stop)) {
        struct err e = ERR_INIT;
        struct wire_msg m;
        int fd = watch_fd();
        wire_msg_init(&m);
        if (fd >= 0 && wire_recv(fd, &m, 20, &e) == 1)
            answer(m.body, fd);
        else
            (void)usleep(2000);
        wire_msg_clear(&m);
    }
    return arg;
}

static void tell_poll(bool ok)
{
    lab_send(watch_fd(),
             json_pack("{s:i, s:s, s:I, s:b, s:b, s:n, s:i, s:i, s:i}", "v", 1,
                       "event", "poll", "at_ms", (json_int_t)clock_now_ms(),
                       "slurmctld", (int)ok, "slurmdbd", 1, "error", "jobs", 1,
                       "took_ms", 1, "message_timeout_seconds", 10));
}

static void tell(const char *event)
{
    lab_send(watch_fd(), json_pack("{s:i, s:s, s:i, s:i, s:s, s:i}", "v", 1,
                                   "event", event, "at_ms", 1, "job_id", 100,
                                   "name", name, "submit_time", 1));
}

static json_t *job_of(const char *state, int64_t start, int64_t end,
                      const char *tres)
{
    return json_pack(
        "{s:i, s:s, s:i, s:I, s:s, s:[], s:s, s:o, s:o, s:i, s:i, s:i, s:s,"
        " s:s, s:i, s:o, s:o, s:b}",
        "job_id", 100, "name", name, "uid", (int)geteuid(), "submit_time",
        (json_int_t)clock_now(), "state", state, "flags", "reason", "None",
        "start_time", start ? json_integer(start) : json_null(), "end_time",
        end ? json_integer(end) : json_null(), "exit_code", 0, "exit_signal", 0,
        "restarts", 0, "partition", "v100", "account", "acct", "nodes", 1,
        "tres_alloc", tres ? json_loads(tres, 0, NULL) : json_null(),
        "script_sha256", digest[0] ? json_string(digest) : json_null(),
        "priority_held", 0);
}

/* What slurmctld holds now; consumes job. told: as an event too. */
static void hold_job(json_t *job, bool told)
{
    pthread_mutex_lock(&watch.lock);
    json_array_clear(watch.jobs);
    json_array_append(watch.jobs, job);
    pthread_mutex_unlock(&watch.lock);
    if (told)
        lab_send(watch_fd(),
                 json_pack("{s:i, s:s, s:i, s:o}", "v", 1, "event", "job",
                           "at_ms", 1, "job", json_incref(job)));
    json_decref(job);
}

#define TWO_V100 "{\"gres/gpu\":2,\"gres/gpu:v100\":2}"

static void add_row(const char *index, const char *state, int64_t submit,
                    int64_t start, int64_t end)
{
    json_t *row = json_pack(
        "{s:s, s:i, s:s, s:i, s:I, s:o, s:I, s:s, s:i, s:i, s:i, s:o}",
        "db_index", index, "job_id", 100, "name", name, "uid", (int)geteuid(),
        "submit", (json_int_t)submit, "start",
        start ? json_integer(start) : json_null(), "end", (json_int_t)end,
        "state", state, "exit_code", 0, "exit_signal", 0, "nodes", 1,
        "tres_alloc", json_loads(TWO_V100, 0, NULL));

    pthread_mutex_lock(&watch.lock);
    json_array_append_new(watch.rows, row);
    pthread_mutex_unlock(&watch.lock);
}

static int setup(void **state)
{
    (void)state;
    memset(&watch, 0, sizeof watch);
    pthread_mutex_init(&watch.lock, NULL);
    watch.jobs = json_array();
    watch.rows = json_array();
    atomic_store(&watch.ctld, true);
    atomic_store(&watch.dbd, true);
    lab_make(&lab);
    return pthread_create(&watch.thread, NULL, watch_main, NULL);
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&watch.stop, true);
    (void)pthread_join(watch.thread, NULL);
    lab_remove(&lab);
    json_decref(watch.jobs);
    json_decref(watch.rows);
    return 0;
}

static void read_names(void)
{
    struct err e = ERR_INIT;
    struct db_stmt *q =
        db_prepare(lab.reader, "SELECT slurm_name, script_sha256 FROM job", &e);

    assert_int_equal(db_step(q, &e), 1);
    (void)snprintf(name, sizeof name, "%s", db_col_text(q, 0));
    (void)snprintf(digest, sizeof digest, "%s", db_col_text(q, 1));
    db_reset(q);
}

/* One job of alice with two GPUs. */
static void post(int want)
{
    struct submit_answer a;

    must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
    assert_int_equal(a.status, want);
    (void)snprintf(job_id, sizeof job_id, "%s", a.job);
    submit_answer_clear(&a);
    read_names();
}

/* --- waiting --- */

static bool shows(const char *state, const char *detail)
{
    json_t *doc = lab_get(&lab, job_id);
    bool yes = doc && !strcmp(lab_str(doc, "state"), state) &&
               (!detail || !strcmp(lab_str(doc, "detail"), detail));

    json_decref(doc);
    return yes;
}

static void until(const char *state, const char *detail)
{
    int64_t end = clock_mono_ms() + 15000;

    while (!shows(state, detail)) {
        if (clock_left_ms(end) == 0) {
            json_t *doc = lab_get(&lab, job_id);
            char *text = json_dumps(doc, 0);
            json_decref(doc);
            fail_msg("never %s %s: %s", state, detail ? detail : "",
                     text ? text : "gone");
        }
        (void)usleep(2000);
    }
}

static void must_be(const char *error_class, const char *reason,
                    int64_t gpu_seconds, const char *from)
{
    json_t *doc = lab_get(&lab, job_id);

    assert_string_equal(lab_str(doc, "error_class"), error_class);
    assert_string_equal(lab_str(json_object_get(doc, "reason"), "code"),
                        reason);
    assert_int_equal(json_integer_value(json_object_get(doc, "gpu_seconds")),
                     gpu_seconds);
    assert_string_equal(lab_str(doc, "source"), from);
    json_decref(doc);
}

static void set_finish(const char *json)
{
    pthread_mutex_lock(&lab.lock);
    json_decref(lab.finish);
    lab.finish = json_loads(json, 0, NULL);
    pthread_mutex_unlock(&lab.lock);
    assert_non_null(lab.finish);
}

static void run_to(const char *state, int64_t seconds)
{
    int64_t t = clock_now();

    post(201);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    add_row("7", state, t, t, t + seconds);
    hold_job(job_of(state, t, t + seconds, TWO_V100), true);
}

/* --- the tests --- */

static void a_job_is_followed_to_its_end(void **state)
{
    json_t *doc, *receipt;
    int64_t t = clock_now();

    (void)state;
    (void)snprintf(lab.receipt, sizeof lab.receipt, "{\"devices\":2}");
    set_finish("{\"sidecar\":\"absent\",\"missing\":[],\"failure\":null,"
               "\"receipts\":[{\"path\":\"canary.json\",\"bytes\":13,"
               "\"sha256\":\"ab\",\"truncated\":false}]}");
    tell_poll(true);
    post(201);
    hold_job(job_of("PENDING", 0, 0, NULL), true);
    until("PENDING", "queued");
    assert_int_equal(lab_int(&lab, "SELECT phase FROM job"), PHASE_CONFIRMED);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    add_row("7", "COMPLETED", t, t, t + 60);
    hold_job(job_of("COMPLETED", t, t + 60, TWO_V100), true);
    until("COMPLETE", "done");
    must_be("", "", 120, "slurmdbd");
    doc = lab_get(&lab, job_id);
    receipt = json_array_get(json_object_get(doc, "receipts"), 0);
    assert_string_equal(lab_str(receipt, "path"), "canary.json");
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(receipt, "content"), "devices")),
                     2);
    assert_int_equal(json_integer_value(json_object_get(doc, "attempts")), 1);
    assert_true(json_is_false(json_object_get(doc, "stale")));
    json_decref(doc);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_event WHERE"
                                   " kind = 'settle'"),
                     1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_open"), 0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE action ="
                                   " 'job.end'"),
                     1);
}

/* Without the script's digest a claim moves nothing. */
static void a_claim_counts_only_when_watch_agrees(void **state)
{
    char good[65];

    (void)state;
    post(201);
    memcpy(good, digest, sizeof good);
    digest[0] = '\0';
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    (void)usleep(200000);
    assert_true(shows("PENDING", "submitting"));
    memcpy(digest, good, sizeof good);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), false);
    until("RUNNING", "running"); /* asked for by id, without an event */
}

static void another_script_is_noticed_and_still_booked(void **state)
{
    int64_t t = clock_now();

    (void)state;
    post(201);
    digest[0] = digest[0] == 'a' ? 'b' : 'a';
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("UNKNOWN", "unknown");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'noticed' AND code = 'claim_mismatch'"),
                     1);
    add_row("7", "COMPLETED", t, t, t + 10);
    hold_job(job_of("COMPLETED", t, t + 10, TWO_V100), true);
    until("ERROR", "failed");
    must_be("denied", "claim_mismatch", 20, "slurmdbd");
}

static void a_foreign_uid_under_our_name_is_not_ours(void **state)
{
    json_t *job;

    (void)state;
    post(201);
    job = job_of("RUNNING", clock_now(), 0, TWO_V100);
    json_object_set_new(job, "uid", json_integer(geteuid() + 1));
    hold_job(job, true);
    (void)usleep(200000);
    assert_true(shows("PENDING", "submitting"));
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'foreign_name'"),
                     1);
}

static void a_name_that_nobody_submitted_is_noticed_once(void **state)
{
    json_t *job;

    (void)state;
    post(201);
    for (int i = 0; i < 3; i++) {
        job = job_of("RUNNING", clock_now(), 0, TWO_V100);
        json_object_set_new(job, "name",
                            json_string("gpu-canary."
                                        "01arz3ndektsv4rrffq69g5fav"));
        json_object_set_new(job, "job_id", json_integer(666));
        hold_job(job, true);
    }
    (void)usleep(300000);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'unknown_name'"),
                     1);
    assert_true(shows("PENDING", "submitting"));
}

static void a_failure_receipt_explains_a_failed_job(void **state)
{
    json_t *doc, *reason;

    (void)state;
    set_finish("{\"sidecar\":\"absent\",\"missing\":[\"canary.json\"],"
               "\"receipts\":[],\"failure\":{\"code\":\"gpus_wrong_number\","
               "\"en\":\"Two cards were asked for.\",\"zh\":\"两张\","
               "\"error_class\":\"infra\"}}");
    run_to("FAILED", 5);
    until("ERROR", "failed");
    must_be("infra", "gpus_wrong_number", 10, "slurmdbd");
    doc = lab_get(&lab, job_id);
    reason = json_object_get(doc, "reason");
    assert_string_equal(lab_str(reason, "en"), "Two cards were asked for.");
    assert_string_equal(lab_str(reason, "zh"), "两张");
    json_decref(doc);
}

/* A limit that Slurm enforced stays Slurm's word. */
static void a_receipt_does_not_explain_a_timeout_away(void **state)
{
    (void)state;
    set_finish("{\"sidecar\":\"absent\",\"missing\":[],\"receipts\":[],"
               "\"failure\":{\"code\":\"x\",\"en\":\"y\",\"zh\":\"z\","
               "\"error_class\":\"infra\"}}");
    run_to("TIMEOUT", 67);
    until("ERROR", "failed");
    must_be("timeout", "timeout", 134, "slurmdbd");
}

static void a_missing_receipt_is_waited_for_and_then_an_error(void **state)
{
    (void)state;
    set_finish("{\"sidecar\":\"absent\",\"missing\":[\"canary.json\"],"
               "\"receipts\":[],\"failure\":null}");
    run_to("COMPLETED", 5);
    until("RUNNING", "verifying");
    until("ERROR", "failed");
    must_be("receipt", "receipts_missing", 10, "slurmdbd");
    assert_true(atomic_load(&lab.finishes) > 1);
}

static void a_late_receipt_still_counts(void **state)
{
    (void)state;
    set_finish("{\"sidecar\":\"absent\",\"missing\":[\"canary.json\"],"
               "\"receipts\":[],\"failure\":null}");
    run_to("COMPLETED", 5);
    until("RUNNING", "verifying");
    set_finish("{\"sidecar\":\"absent\",\"missing\":[],\"receipts\":[],"
               "\"failure\":null}");
    until("COMPLETE", "done");
}

static void without_slurmdbd_it_ends_on_slurmctlds_figures(void **state)
{
    int64_t t = clock_now(), end = clock_mono_ms() + 15000;
    json_t *doc;
    bool corrected = false;

    (void)state;
    atomic_store(&watch.dbd, false);
    post(201);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    hold_job(job_of("COMPLETED", t, t + 61, TWO_V100), true);
    until("COMPLETE", "done");
    must_be("", "", 122, "slurmctld");
    add_row("7", "COMPLETED", t, t, t + 60); /* it comes back, late */
    atomic_store(&watch.dbd, true);
    while (!corrected && clock_left_ms(end) > 0) {
        doc = lab_get(&lab, job_id);
        corrected = !strcmp(lab_str(doc, "source"), "slurmdbd");
        json_decref(doc);
        (void)usleep(2000);
    }
    must_be("", "", 120, "slurmdbd");
    assert_int_equal(lab_int(&lab, "SELECT MAX(rev) FROM run_figure"), 2);
    assert_int_equal(lab_int(&lab, "SELECT SUM(gpu_seconds) FROM usage_month"),
                     120);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_event WHERE"
                                   " kind <> 'attach'"),
                     1);
}

static void every_attempt_is_billed_once(void **state)
{
    int64_t t = clock_now();
    json_t *doc;

    (void)state;
    post(201);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    add_row("7", "REQUEUED", t, t, t + 3);
    add_row("8", "COMPLETED", t + 4, t + 5, t + 13);
    hold_job(job_of("COMPLETED", t + 5, t + 13, TWO_V100), true);
    until("COMPLETE", "done");
    must_be("", "", 2 * 3 + 2 * 8, "slurmdbd");
    doc = lab_get(&lab, job_id);
    assert_int_equal(json_integer_value(json_object_get(doc, "attempts")), 2);
    json_decref(doc);
}

static void cancelled_before_its_start_costs_nothing(void **state)
{
    int64_t t = clock_now();
    json_t *doc;

    (void)state;
    post(201);
    hold_job(job_of("PENDING", 0, 0, NULL), true);
    until("PENDING", "queued");
    add_row("7", "CANCELLED", t, 0, t + 5);
    hold_job(job_of("CANCELLED", t + 5, t + 5, NULL), true);
    until("CANCELED", "canceled");
    must_be("", "canceled_before_start", 0, "slurmdbd");
    doc = lab_get(&lab, job_id);
    assert_true(json_is_null(json_object_get(doc, "started_at")));
    json_decref(doc);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_event WHERE"
                                   " kind = 'release'"),
                     1);
}

/* Slurmctld forgot the job while we were not looking. */
static void what_slurmctld_forgot_accounting_ends(void **state)
{
    int64_t t = clock_now();

    (void)state;
    post(201);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    pthread_mutex_lock(&watch.lock);
    json_array_clear(watch.jobs);
    pthread_mutex_unlock(&watch.lock);
    tell("gone");
    until("UNKNOWN", "unknown"); /* absence is never completion */
    add_row("7", "FAILED", t, t, t + 9);
    until("ERROR", "failed");
    must_be("program", "program_failed", 18, "slurmdbd");
}

/* --- reconcile --- */

static void set_outcome(const char *json)
{
    pthread_mutex_lock(&lab.lock);
    json_decref(lab.outcome);
    lab.outcome = json_loads(json, 0, NULL);
    pthread_mutex_unlock(&lab.lock);
    assert_non_null(lab.outcome);
}

static void a_lost_submit_is_found_by_name_and_script(void **state)
{
    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":null}");
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);
    until("UNKNOWN", NULL);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), false);
    until("RUNNING", "running");
    assert_int_equal(lab_int(&lab, "SELECT slurm_job_id FROM job"), 100);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'found'"),
                     1);
    assert_int_equal(atomic_load(&lab.submits), 1);
}

/* The name is known to its owner once it runs: a second job under it is not the
 * one that was sent, whichever slurmctld lists first. */
static void of_several_under_its_name_the_oldest_is_it(void **state)
{
    json_t *old, *young;

    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":null}");
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);
    old = job_of("RUNNING", clock_now(), 0, TWO_V100);
    young = json_deep_copy(old);
    json_object_set_new(young, "job_id", json_integer(105));
    json_object_set_new(young, "submit_time", json_integer(clock_now() + 30));
    pthread_mutex_lock(&watch.lock);
    json_array_append_new(watch.jobs, young);
    json_array_append_new(watch.jobs, old);
    pthread_mutex_unlock(&watch.lock);
    until("RUNNING", "running");
    assert_int_equal(lab_int(&lab, "SELECT slurm_job_id FROM job"), 100);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'duplicate_name'"),
                     1);
}

static void a_lost_submit_that_nobody_shows_stays_unknown(void **state)
{
    json_t *doc;
    int64_t end = clock_mono_ms() + 10000;
    bool said = false;

    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":null}");
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);
    while (!said && clock_left_ms(end) > 0) {
        doc = lab_get(&lab, job_id);
        said = !strcmp(lab_str(json_object_get(doc, "reason"), "code"),
                       "submit_not_found");
        json_decref(doc);
        (void)usleep(2000);
    }
    assert_true(said);
    assert_true(shows("UNKNOWN", NULL));
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_open"), 1);
}

static void a_submit_that_never_arrived_is_refused(void **state)
{
    (void)state;
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);              /* outcome: {"known": false} */
    until("ERROR", "done"); /* the id was given out with the 202 */
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_open"), 0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM intent"), 1);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE code ="
                                   " 'spawn_not_sent'"),
                     1);
}

static void the_kept_answer_is_taken(void **state)
{
    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":{\"ok\":true,"
                "\"result\":{\"job_id\":100,\"script_sha256\":\"00\","
                "\"limits\":{}}}}");
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);
    until("PENDING", "submitting");
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), false);
    until("RUNNING", "running");
}

static bool is_claimed(struct lab *l)
{
    return lab_int(l, "SELECT phase FROM job") == PHASE_CLAIMED;
}

/* Sent, and the disk filled up before it could be written down: an error would
 * say that nothing was started. When there is room again it is found out. */
static void
an_outcome_that_is_not_written_is_unknown_and_asked_again(void **state)
{
    struct submit_answer a;
    json_t *doc;

    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":{\"ok\":true,"
                "\"result\":{\"job_id\":100,\"script_sha256\":\"00\","
                "\"limits\":{}}}}");
    atomic_store(&lab.full, 1);
    must(lab_post(&lab, lab.reader, 2, "k", &a, e));
    (void)usleep(400000); /* the follower asks, and can't write it either */
    lab_disk(false);
    assert_int_equal(a.status, 202);
    doc = json_loadb(a.body, a.body_len, 0, NULL);
    assert_string_equal(lab_str(doc, "state"), "UNKNOWN");
    assert_string_equal(lab_str(json_object_get(doc, "reason"), "code"),
                        "submit_unknown");
    json_decref(doc);
    (void)snprintf(job_id, sizeof job_id, "%s", a.job);
    submit_answer_clear(&a);
    lab_until(is_claimed, &lab, "the spawner's kept answer");
    must(lab_post(&lab, lab.reader, 2, "k", &a, e));
    assert_true(a.replayed);
    assert_string_equal(a.job, job_id);
    submit_answer_clear(&a);
    assert_int_equal(atomic_load(&lab.submits), 1);
}

static void a_kept_refusal_ends_it(void **state)
{
    (void)state;
    set_outcome("{\"known\":true,\"running\":false,\"answer\":{\"ok\":false,"
                "\"stage\":\"sending\",\"error\":{\"class\":\"slurm\","
                "\"code\":\"slurm_invalid_qos\",\"text\":\"no\","
                "\"pointer\":\"\",\"sys\":2066}}}");
    atomic_store(&lab.mode, STANDIN_LOSE);
    post(202);
    until("ERROR", "done"); /* the id was given out with the 202 */
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM hold_open"), 0);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM job WHERE reason ="
                                   " 'slurm'"),
                     1);
}

static void a_restart_goes_on_where_it_was(void **state)
{
    int64_t t = clock_now();

    (void)state;
    post(201);
    hold_job(job_of("RUNNING", t, 0, TWO_V100), true);
    until("RUNNING", "running");
    lab_stop_service(&lab);
    add_row("7", "COMPLETED", t, t, t + 4);
    hold_job(job_of("COMPLETED", t, t + 4, TWO_V100), false);
    lab_start_service(&lab);
    hold_job(job_of("COMPLETED", t, t + 4, TWO_V100), true); /* snapshot */
    tell("synced");
    until("COMPLETE", "done");
    must_be("", "", 8, "slurmdbd");
}

/* --- freshness, waiting, acting --- */

static void a_lost_watch_makes_answers_stale(void **state)
{
    json_t *doc;

    (void)state;
    tell_poll(true);
    post(201);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    until("RUNNING", "running");
    doc = lab_get(&lab, job_id);
    assert_true(json_is_false(json_object_get(doc, "stale")));
    assert_string_not_equal(lab_str(doc, "observed_at"), "");
    json_decref(doc);
    tell_poll(false);
    (void)usleep(100000);
    doc = lab_get(&lab, job_id);
    assert_true(json_is_true(json_object_get(doc, "stale")));
    assert_string_equal(lab_str(doc, "state"), "RUNNING");
    json_decref(doc);
    tell_poll(true);
    (void)usleep(100000);
    atomic_store(&lab.no_watch, 1);
    pthread_mutex_lock(&lab.lock);
    (void)shutdown(lab.watch, SHUT_RDWR);
    pthread_mutex_unlock(&lab.lock);
    (void)usleep(100000);
    doc = lab_get(&lab, job_id);
    assert_true(json_is_true(json_object_get(doc, "stale")));
    json_decref(doc);
}

static void *call_for_ever(void *arg)
{
    struct ask a = lab_ask(&lab, &lab.alice);
    struct log_query q = {.stream = "stdout", .limit = 100};
    struct log_answer n;
    struct db *d = NULL;
    struct buf b;

    if (service_reader(lab.service, &d, NULL))
        return arg;
    a.reader = d;
    buf_init(&b, DOC_BYTES_MAX);
    while (!atomic_load((atomic_bool *)arg)) {
        (void)jobs_log(&a, job_id, &q, &b, &n, NULL);
        buf_reset(&b);
    }
    buf_clear(&b);
    db_close(d);
    return NULL;
}

/* There is always a call in flight, as under steady polling. */
static void a_dropped_watch_comes_back_under_load(void **state)
{
    pthread_t threads[3];
    static atomic_bool end;

    (void)state;
    atomic_store(&end, false);
    post(201);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_for_ever, &end),
                         0);
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&lab.lock);
        (void)shutdown(lab.watch, SHUT_RDWR);
        lab.old[lab.nold++] = lab.watch;
        lab.watch = -1;
        pthread_mutex_unlock(&lab.lock);
        lab_until(lab_is_up, &lab, "another watch socket");
    }
    atomic_store(&end, true);
    for (int i = 0; i < 3; i++)
        (void)pthread_join(threads[i], NULL);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    until("RUNNING", "running"); /* and it tells */
}

static void set_flag(void *arg, bool changed)
{
    atomic_store((atomic_int *)arg, changed ? 1 : 2);
}

static void a_long_poll_wakes_by_a_change_or_by_time(void **state)
{
    char ulid[ULID_LEN + 1];
    int64_t version = lab_int(&lab, "SELECT COUNT(*) FROM job");
    static atomic_int woken;

    (void)state;
    atomic_store(&woken, 0);
    post(201);
    assert_int_equal(id_job_parse(job_id, ulid), 0);
    must(store_job_version(lab.reader, ulid, &version, e));
    assert_int_equal(waiters_register(lab.service->waiters, lab.reader, ulid,
                                      version - 1, clock_mono_ms() + 60000,
                                      set_flag, &woken, NULL),
                     1);
    assert_int_equal(waiters_register(lab.service->waiters, lab.reader, ulid,
                                      version, clock_mono_ms() + 60000,
                                      set_flag, &woken, NULL),
                     0);
    assert_int_equal(atomic_load(&woken), 0);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    until("RUNNING", "running");
    (void)usleep(50000);
    assert_int_equal(atomic_load(&woken), 1);
    must(store_job_version(lab.reader, ulid, &version, e));
    atomic_store(&woken, 0);
    assert_int_equal(waiters_register(lab.service->waiters, lab.reader, ulid,
                                      version, clock_mono_ms() + 30, set_flag,
                                      &woken, NULL),
                     0);
    (void)usleep(200000);
    assert_int_equal(atomic_load(&woken), 2);
}

static int act_says(const struct identity *who, enum job_act what,
                    json_t **said, struct err *e)
{
    struct ask a = lab_ask(&lab, who);
    struct buf b;
    int rc;

    buf_init(&b, DOC_BYTES_MAX);
    rc = jobs_act(&a, what, job_id, &b, NULL, e);
    *said = json_loads(buf_str(&b), 0, NULL);
    buf_clear(&b);
    return rc;
}

static int act(const struct identity *who, enum job_act what, struct err *e)
{
    json_t *said = NULL;
    int rc = act_says(who, what, &said, e);

    json_decref(said);
    return rc;
}

/* Rows of the audit that say no with this code, whoever asked for what. */
static int64_t noes(const char *action, const char *code)
{
    char sql[256];
    struct err bad = ERR_INIT;
    struct db *d = NULL;
    struct db_stmt *q;
    int64_t n;

    must(service_reader(lab.service, &d, e));
    (void)snprintf(sql, sizeof sql,
                   "SELECT COUNT(*) FROM audit WHERE kind = 'decided' AND"
                   " action = '%s' AND code = '%s'",
                   action, code);
    q = db_prepare(d, sql, &bad);
    assert_int_equal(db_step(q, &bad), 1);
    n = db_col_int(q, 0);
    db_close(d);
    return n;
}

static void cancel_is_for_owner_and_operator(void **state)
{
    struct identity otto, audrey;
    struct err e = ERR_INIT;

    (void)state;
    run_to("COMPLETED", 5);
    lab_identity(&lab, "otto", &otto);
    lab_identity(&lab, "audrey", &audrey);
    assert_int_equal(act(&audrey, ACT_CANCEL, &e), -1);
    assert_string_equal(e.code, "role_missing");
    err_clear(&e);
    until("COMPLETE", "done");
    pthread_mutex_lock(&lab.lock);
    (void)snprintf(lab.last, sizeof lab.last, "-");
    pthread_mutex_unlock(&lab.lock);
    assert_int_equal(act(&otto, ACT_CANCEL, &e), 0); /* ended: nothing */
    assert_string_equal(lab.last, "-");
    assert_int_equal(act(&lab.alice, ACT_HOLD, &e), -1);
    assert_string_equal(e.code, "job_ended");
    assert_int_equal(noes("job.cancel", "role_missing"), 1);
    assert_int_equal(noes("job.hold", "job_ended"), 1);
    identity_clear(&otto);
    identity_clear(&audrey);
}

/* She may end it, and learns that she did; the job is not hers to read. */
static void an_admin_acts_on_what_she_may_not_read(void **state)
{
    struct identity ada;
    struct err e = ERR_INIT;
    struct ask a;
    struct buf b;
    json_t *said = NULL;

    (void)state;
    post(201);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    until("RUNNING", "running");
    lab_identity(&lab, "ada", &ada);
    assert_int_equal(act_says(&ada, ACT_CANCEL, &said, &e), 0);
    assert_string_equal(lab.last, "cancel");
    assert_string_equal(lab_str(said, "id"), job_id);
    assert_string_equal(lab_str(said, "state"), "RUNNING");
    assert_string_equal(lab_str(said, "detail"), "running");
    assert_int_equal(json_object_size(said), 3);
    json_decref(said);
    a = lab_ask(&lab, &ada);
    buf_init(&b, DOC_BYTES_MAX);
    assert_int_equal(jobs_get_text(&a, job_id, &b, NULL, &e), -1);
    assert_string_equal(e.code, "job_not_found");
    buf_clear(&b);
    identity_clear(&ada);
}

static void no_one_reads_the_usage_or_audit_of_all_unseen(void **state)
{
    struct ask a = lab_ask(&lab, &lab.alice);
    struct audit_query q = {.all = true, .limit = 10};
    struct usage_query u = {.all = true, .limit = 10};
    struct err e = ERR_INIT, f = ERR_INIT;
    struct buf b;

    (void)state;
    buf_init(&b, DOC_BYTES_MAX);
    assert_int_equal(jobs_usage_text(&a, &u, &b, &e), -1);
    assert_string_equal(e.code, "role_missing");
    assert_int_equal(jobs_audit_text(&a, &q, &b, &f), -1);
    assert_string_equal(f.code, "role_missing");
    assert_int_equal(noes("usage.read", "role_missing"), 1);
    assert_int_equal(noes("audit.read", "role_missing"), 1);
    buf_clear(&b);
}

static int five_months(struct db *d, void *arg, struct err *e)
{
    (void)arg;
    return db_exec(d,
                   "INSERT INTO usage_month(principal, month, workflow,"
                   " gpu_type, gpu_seconds, runs)"
                   " SELECT p.id, '2026-0' || m.value, 'w', 'v100', 100, 1"
                   " FROM principal p, json_each('[1,2,3,4,5]') m"
                   " WHERE p.label = 'alice'",
                   e);
}

/* The total is that of all pages, and a page says that there is another. */
static void usage_comes_in_pages_with_one_total(void **state)
{
    static const char *const cursors[] = {NULL, "2", "4"};
    struct ask a = lab_ask(&lab, &lab.alice);
    struct usage_query q = {.limit = 2};
    struct err bad = ERR_INIT;
    struct buf b;

    (void)state;
    must(writer_call(lab.service->writer, five_months, NULL, e));
    buf_init(&b, DOC_BYTES_MAX);
    for (int i = 0; i < 3; i++) {
        json_t *doc;
        const char *next;
        q.cursor = cursors[i];
        must(jobs_usage_text(&a, &q, &b, e));
        doc = json_loads(buf_str(&b), 0, NULL);
        assert_int_equal(
            json_integer_value(json_object_get(doc, "gpu_seconds")), 500);
        assert_int_equal(json_array_size(json_object_get(doc, "usage")),
                         i < 2 ? 2 : 1);
        next = json_string_value(json_object_get(doc, "next"));
        assert_string_equal(next ? next : "-", i < 2 ? cursors[i + 1] : "-");
        json_decref(doc);
        buf_reset(&b);
    }
    q.cursor = "x";
    assert_int_equal(jobs_usage_text(&a, &q, &b, &bad), -1);
    assert_string_equal(bad.code, "cursor");
    buf_clear(&b);
}

/* A worker is the person's; what he says wrongly is no fault of the request. */
static void a_workers_garbage_is_no_bad_request(void **state)
{
    struct ask a = lab_ask(&lab, &lab.alice);
    struct log_query q = {.stream = "stdout", .limit = 100};
    struct artifact_answer file;
    struct log_answer log;
    struct buf b;

    (void)state;
    post(201);
    atomic_store(&lab.garbage, 1);
    buf_init(&b, DOC_BYTES_MAX);
    for (int i = 0; i < 3; i++) {
        struct err e = ERR_INIT;
        int rc = i == 0   ? jobs_log(&a, job_id, &q, &b, &log, &e)
                 : i == 1 ? jobs_artifacts_text(&a, job_id, &b, &e)
                          : jobs_artifact(&a, job_id, "results/x", 0, 100, &b,
                                          &file, &e);
        assert_int_equal(rc, -1);
        assert_string_equal(e.code, "worker_garbage");
        assert_int_equal(e.class, ERR_UNAVAILABLE);
        buf_reset(&b);
    }
    buf_clear(&b);
}

static void an_act_is_audited_before_and_after(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    post(201);
    hold_job(job_of("RUNNING", clock_now(), 0, TWO_V100), true);
    until("RUNNING", "running");
    assert_int_equal(act(&lab.alice, ACT_CANCEL, &e), 0);
    assert_string_equal(lab.last, "cancel");
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE action ="
                                   " 'job.cancel'"),
                     2);
}

/* A stranger's id answers exactly like an absent one; who may read all is
 * written down. */
static void reads_of_others_are_bounded_and_audited(void **state)
{
    struct identity otto = {0}, bob;
    struct err none = ERR_INIT, foreign = ERR_INIT;
    struct ask a;
    struct buf b;

    (void)state;
    post(201);
    buf_init(&b, DOC_BYTES_MAX);
    bob = lab.alice; /* somebody else, without a role for it */
    bob.principal = 999;
    a = lab_ask(&lab, &bob);
    assert_int_equal(jobs_get_text(&a, job_id, &b, NULL, &foreign), -1);
    assert_int_equal(
        jobs_get_text(&a, "job_01ARZ3NDEKTSV4RRFFQ69G5FAV", &b, NULL, &none),
        -1);
    assert_string_equal(none.code, foreign.code);
    assert_string_equal(none.text, foreign.text);
    assert_int_equal(none.class, foreign.class);
    lab_identity(&lab, "otto", &otto);
    a = lab_ask(&lab, &otto);
    assert_true(jobs_read_is_foreign(&a, job_id));
    must(jobs_get_text(&a, job_id, &b, NULL, e));
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'read' AND job IS NOT NULL"),
                     1);
    a = lab_ask(&lab, &lab.alice);
    must(jobs_get_text(&a, job_id, &b, NULL, e));
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'read'"),
                     1);
    buf_clear(&b);
    identity_clear(&otto);
}

static void script_and_log_and_lists_are_there(void **state)
{
    struct ask a = lab_ask(&lab, &lab.alice);
    struct log_query q = {.stream = "stdout", .limit = 100};
    struct job_filter f = {.limit = 10};
    struct audit_query aq = {.limit = 10};
    struct usage_query uq = {.limit = 10};
    struct log_answer n;
    char hex[65];
    struct buf b;

    (void)state;
    run_to("COMPLETED", 5);
    until("COMPLETE", "done");
    buf_init(&b, 1 << 20);
    must(jobs_script(&a, job_id, &b, e));
    must(crypto_sha256_hex(b.data, b.len, hex, e));
    assert_string_equal(hex, digest);
    buf_reset(&b);
    must(jobs_log(&a, job_id, &q, &b, &n, e));
    assert_int_equal(b.len, 3); /* the cut character isn't sent */
    assert_int_equal(n.next_offset, 3);
    assert_false(n.complete);
    buf_reset(&b);
    must(jobs_list_text(&a, &f, NULL, &b, e));
    assert_non_null(strstr(buf_str(&b), job_id));
    assert_non_null(strstr(buf_str(&b), "\"next\":null"));
    buf_reset(&b);
    must(jobs_attempts_text(&a, job_id, &b, e));
    assert_non_null(strstr(buf_str(&b), "\"gpu_seconds\":10"));
    buf_reset(&b);
    must(jobs_usage_text(&a, &uq, &b, e));
    assert_non_null(strstr(buf_str(&b), "\"gpu_seconds\":10,\"next\":null}"));
    buf_reset(&b);
    aq.job_id = job_id;
    must(jobs_audit_text(&a, &aq, &b, e));
    assert_non_null(strstr(buf_str(&b), "\"job.end\""));
    assert_non_null(strstr(buf_str(&b), "\"person\":\"alice\""));
    buf_clear(&b);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_job_is_followed_to_its_end),
        T(a_claim_counts_only_when_watch_agrees),
        T(another_script_is_noticed_and_still_booked),
        T(a_foreign_uid_under_our_name_is_not_ours),
        T(a_name_that_nobody_submitted_is_noticed_once),
        T(a_failure_receipt_explains_a_failed_job),
        T(a_receipt_does_not_explain_a_timeout_away),
        T(a_missing_receipt_is_waited_for_and_then_an_error),
        T(a_late_receipt_still_counts),
        T(without_slurmdbd_it_ends_on_slurmctlds_figures),
        T(every_attempt_is_billed_once),
        T(cancelled_before_its_start_costs_nothing),
        T(what_slurmctld_forgot_accounting_ends),
        T(a_lost_submit_is_found_by_name_and_script),
        T(of_several_under_its_name_the_oldest_is_it),
        T(a_lost_submit_that_nobody_shows_stays_unknown),
        T(a_submit_that_never_arrived_is_refused),
        T(the_kept_answer_is_taken),
        T(an_outcome_that_is_not_written_is_unknown_and_asked_again),
        T(a_kept_refusal_ends_it),
        T(a_restart_goes_on_where_it_was),
        T(a_lost_watch_makes_answers_stale),
        T(a_dropped_watch_comes_back_under_load),
        T(a_long_poll_wakes_by_a_change_or_by_time),
        T(cancel_is_for_owner_and_operator),
        T(an_admin_acts_on_what_she_may_not_read),
        T(no_one_reads_the_usage_or_audit_of_all_unseen),
        T(usage_comes_in_pages_with_one_total),
        T(a_workers_garbage_is_no_bad_request),
        T(an_act_is_audited_before_and_after),
        T(reads_of_others_are_bounded_and_audited),
        T(script_and_log_and_lists_are_there)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
