/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The real sluice-spawnd in self mode, over its socket, with stand-ins for the
 * programs that it starts. Run as root it becomes `nobody` first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/tools/spawn_site.h"

#define SECRET "s3cr3t-value-of-alice"
#define OTHER_SUM                                                              \
    "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"

static int self_exe, spawnd_exe;
static struct spawn_site site;
static struct spawn_client client;

static void people(char *out, size_t n)
{
    (void)snprintf(
        out, n,
        "{\"alice\": {\"account\": \"%s\", \"roles\": [\"researcher\"],"
        " \"proof\": \"network\", \"groups\": [], \"gpus\": 400},"
        " \"bob\": {\"account\": \"bea\", \"roles\": [\"researcher\"], "
        "\"proof\": \"token\"},"
        " \"olga\": {\"roles\": [\"operator\"]}}",
        site.account);
}

static void write_accounts(const char *shell)
{
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "{\"v\":1,\"accounts\":{\"%s\":{\"uid\":%u,\"gid\":%u,"
                   "\"groups\":[%u],\"home\":\"/\",\"shell\":\"%s\"}}}",
                   site.account, geteuid(), getegid(), getegid(), shell);
    site_put(&site, "accounts.json", text, 0644);
}

static int setup(void **state)
{
    const struct passwd *pw = getpwuid(geteuid());
    char map[1024], conf[1024];

    (void)state;
    site_new(&site, self_exe, spawnd_exe);
    (void)snprintf(site.account, sizeof(site.account), "%s", pw->pw_name);
    (void)snprintf(conf, sizeof(conf),
                   "version: 1\nmode: self\nstate_dir: %s\n"
                   "cluster: {name: test}\n"
                   "limits: {submit_deadline_ms: 1000, request_deadline_ms: "
                   "1000, worker_idle_ms: 1000}\n",
                   site.dir);
    site_put(&site, "sluice.yaml", conf, 0644);
    write_accounts("/bin/sh");
    people(map, sizeof(map));
    site_install(&site, map, "one", getegid(), site.generation);
    site_switch(&site, site.generation);
    spawnd_start(&site, NULL);
    client_open(&site, &client);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&client);
    if (site.pid != 0)
        (void)spawnd_end(&site, SIGKILL);
    if (getenv("SPAWN_TEST_KEEP") != NULL)
        (void)fprintf(stderr, "%s is kept\n", site.dir);
    else
        site_remove(&site);
    return 0;
}

static void restart(int sig)
{
    client_close(&client);
    (void)spawnd_end(&site, sig);
    spawnd_start(&site, NULL);
    client_open(&site, &client);
}

static void says(const char *name, const char *word, bool yes)
{
    char *text = site_get(&site, name);

    if ((strstr(text, word) != NULL) != yes)
        fail_msg("%s: '%s' %s", name, word, yes ? "is missing" : "is there");
    free(text);
}

/* --- greeting
 * ------------------------------------------------------------------ */

static void it_greets_and_passes_watch(void **state)
{
    struct wire_msg m;

    (void)state;
    assert_string_equal(client.generation, site.generation);
    assert_string_equal(
        json_string_value(json_object_get(client.hello, "mode")), "self");
    json_decref(client_call(&client, "outcome", "system", NULL,
                            "01HZZZZZZZZZZZZZZZZZZZZZZZ", NULL));
    assert_true(client.watch >= 0);
    wire_msg_init(&m);
    assert_int_equal(wire_recv(client.watch, &m, 3000, NULL), 1);
    assert_string_equal(json_string_value(json_object_get(m.body, "event")),
                        "synced");
    wire_msg_clear(&m);
    says("run/spawn/watch.pid", "\n", true);
}

static void wait_for_watches(int n)
{
    int64_t deadline = clock_mono_ms() + 5000;

    while (client.watches < n && clock_mono_ms() < deadline) {
        json_decref(client_call(&client, "outcome", "system", NULL,
                                "01HZZZZZZZZZZZZZZZZZZZZZZZ", NULL));
        (void)usleep(20000);
    }
    assert_true(client.watches >= n);
}

static void a_dead_watch_comes_again_with_a_new_peer(void **state)
{
    char *text;
    pid_t pid;

    (void)state;
    wait_for_watches(1);
    text = site_get(&site, "run/spawn/watch.pid");
    pid = (pid_t)strtol(text, NULL, 10);
    free(text);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    wait_for_watches(2);
}

/* Watch dropped sluiced's peer: another is to be had on the same connection. */
static void a_watch_socket_is_given_when_asked_for(void **state)
{
    json_t *ask = json_pack("{s:i, s:b}", "v", 1, "watch", 1);
    struct err e = ERR_INIT;
    struct wire_msg m;

    (void)state;
    wait_for_watches(1);
    assert_int_equal(wire_send(client.sock, ask, NULL, 0, 1000, &e), 0);
    json_decref(ask);
    wait_for_watches(2);
    wire_msg_init(&m);
    assert_int_equal(wire_recv(client.watch, &m, 3000, NULL), 1);
    wire_msg_clear(&m);
}

/* Unknown keys end a connection here too. */
static void a_malformed_ask_for_watch_ends_the_connection(void **state)
{
    json_t *ask = json_pack("{s:i, s:b, s:i}", "v", 1, "watch", 1, "x", 1);
    struct err e = ERR_INIT;

    (void)state;
    wait_for_watches(1);
    assert_int_equal(wire_send(client.sock, ask, NULL, 0, 1000, &e), 0);
    json_decref(ask);
    assert_null(client_next(&client, 3000));
}

/* --- submit
 * --------------------------------------------------------------------- */

static void a_submit_goes_through_both_workers(void **state)
{
    char u[ULID_LEN + 1];
    json_t *args = toy("none", "ok"), *f, *kept;

    (void)state;
    new_ulid(u);
    (void)json_object_set_new(args, "secrets",
                              json_pack("{ss}", "TOKEN", SECRET));
    f = client_call(&client, "submit", "alice", NULL, u, args);
    assert_true(json_is_true(json_object_get(f, "ok")));
    assert_string_equal(client.stages, "is");
    assert_true(result_int(f, "job_id") > 1000);
    assert_true(json_is_true(
        json_object_get(json_object_get(f, "result"), "run_dir_created")));
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(f, "result"), "paths")),
        1);
    assert_null(json_object_get(json_object_get(f, "result"), "has_sidecar"));
    kept = client_call(&client, "outcome", "system", NULL, u, NULL);
    assert_true(json_equal(
        json_object_get(f, "result"),
        json_object_get(
            json_object_get(json_object_get(kept, "result"), "answer"),
            "result")));
    json_decref(kept);
    json_decref(f);
    assert_int_equal(count_sent(&site, u), 1);
    says("spawn/record.log", u, true);
    says("spawn/record.log", "TOKEN", true);
    says("spawn/record.log", SECRET, false);
    says("spawnd.log", SECRET, false);
}

static void a_second_submit_is_answered_and_never_sent(void **state)
{
    char u[ULID_LEN + 1];
    json_t *one, *two;

    (void)state;
    new_ulid(u);
    one = submit(&client, u, "none", "ok");
    two = submit(&client, u, "none", "ok");
    assert_int_equal(result_int(one, "job_id"), result_int(two, "job_id"));
    assert_string_not_equal(json_string_value(json_object_get(one, "request")),
                            json_string_value(json_object_get(two, "request")));
    json_decref(one);
    json_decref(two);
    expect_error(submit(&client, u, "x", "ok"), "none", "ulid_reused");
    assert_int_equal(count_sent(&site, u), 1);
    restart(SIGKILL);
    two = submit(&client, u, "none", "ok");
    assert_true(result_int(two, "job_id") > 0);
    json_decref(two);
    assert_int_equal(count_sent(&site, u), 1);
}

static void a_plan_sends_nothing_and_brings_the_script(void **state)
{
    char *text = NULL;
    json_t *args = toy("none", "ok");
    json_t *f;

    (void)state;
    (void)json_object_set_new(args, "secrets", json_pack("[s]", "TOKEN"));
    f = client_piped(&client, "plan", "alice", NULL, NULL, args, &text);
    assert_true(json_is_true(
        json_object_get(json_object_get(f, "result"), "will_run")));
    expect_ok(f);
    assert_string_equal(text, "script");
    free(text);
    says("sent", "", true);
    text = site_get(&site, "sent");
    assert_string_equal(text, "");
    free(text);
}

static void each_broken_worker_costs_its_request_only(void **state)
{
    static const struct {
        const char *at, *how, *stage, *code;
    } rows[] = {
        {"prepare", "exit1", "init", "worker_died"},
        {"prepare", "abort", "init", "worker_died"},
        {"prepare", "garbage", "init", "worker_garbage"},
        {"prepare", "wrong", "init", "worker_garbage"},
        {"prepare", "hang", "init", "worker_timeout"},
        {"prepare", "stop", "init", "worker_timeout"},
        {"submit", "exit1", "init", "worker_died"},
        {"submit", "abort", "init", "worker_died"},
        {"submit", "garbage", "init", "worker_garbage"},
        {"submit", "wrong", "init", "worker_garbage"},
        {"submit", "sending-exit1", "sending", "outcome_unknown"},
        {"submit", "sending-abort", "sending", "outcome_unknown"},
        {"submit", "sending-garbage", "sending", "outcome_unknown"},
        {"submit", "sending-stop", "sending", "outcome_unknown"},
    };
    char u[ULID_LEN + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        new_ulid(u);
        expect_error(submit(&client, u, rows[i].at, rows[i].how), rows[i].stage,
                     rows[i].code);
        new_ulid(u);
        expect_ok(submit(&client, u, "none", "ok"));
    }
    says("spawnd.log", "fatal: something", true);
}

static void an_unknown_end_is_kept_and_not_tried_again(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    new_ulid(u);
    expect_error(submit(&client, u, "submit", "sending-exit1"), "sending",
                 "outcome_unknown");
    expect_error(submit(&client, u, "submit", "sending-exit1"), "sending",
                 "outcome_unknown");
    restart(SIGTERM);
    expect_error(submit(&client, u, "submit", "sending-exit1"), "sending",
                 "outcome_unknown");
}

static void a_submit_goes_on_without_its_client(void **state)
{
    char u[ULID_LEN + 1];
    struct err e = ERR_INIT;
    json_t *f = frame_make(&client, "submit", "alice", NULL, "", NULL);
    json_t *answer = NULL;
    int64_t deadline = clock_mono_ms() + 6000;

    (void)state;
    new_ulid(u);
    (void)json_object_set_new(f, "ulid", json_string(u));
    (void)json_object_set_new(f, "args", toy("submit", "sending-late"));
    assert_int_equal(wire_send(client.sock, f, NULL, 0, 1000, &e), 0);
    json_decref(f);
    (void)usleep(300000);
    client_close(&client);
    client_open(&site, &client);
    f = client_call(&client, "outcome", "system", NULL, u, NULL);
    assert_true(
        json_is_true(json_object_get(json_object_get(f, "result"), "running")));
    json_decref(f);
    expect_error(submit(&client, u, "submit", "sending-late"), "sending",
                 "submit_running");
    while (answer == NULL && clock_mono_ms() < deadline) {
        (void)usleep(50000);
        f = client_call(&client, "outcome", "system", NULL, u, NULL);
        answer = json_incref(
            json_object_get(json_object_get(f, "result"), "answer"));
        json_decref(f);
    }
    assert_true(result_int(answer, "job_id") > 0);
    json_decref(answer);
    assert_int_equal(count_sent(&site, u), 1);
}

/* Only what was durable before the worker started is there; it is enough. */
static void a_killed_spawner_knows_what_it_may_have_sent(void **state)
{
    char u[ULID_LEN + 1], v[ULID_LEN + 1];
    struct err e = ERR_INIT;
    json_t *f = frame_make(&client, "submit", "alice", NULL, "", NULL);

    (void)state;
    new_ulid(u);
    (void)json_object_set_new(f, "ulid", json_string(u));
    (void)json_object_set_new(f, "args", toy("submit", "sending-stop"));
    assert_int_equal(wire_send(client.sock, f, NULL, 0, 1000, &e), 0);
    json_decref(f);
    (void)usleep(500000);
    says("spawn/workers", "worker", true);
    restart(SIGKILL);
    f = client_call(&client, "outcome", "system", NULL, u, NULL);
    assert_true(json_is_false(
        json_object_get(json_object_get(f, "result"), "running")));
    assert_true(
        json_is_null(json_object_get(json_object_get(f, "result"), "answer")));
    json_decref(f);
    expect_error(submit(&client, u, "submit", "sending-stop"), "sending",
                 "submit_unknown");
    assert_int_equal(count_sent(&site, u), 0);
    new_ulid(v);
    expect_ok(submit(&client, v, "none", "ok"));
}

static void sigterm_waits_for_a_running_submit(void **state)
{
    char u[ULID_LEN + 1];
    struct err e = ERR_INIT;
    json_t *f = frame_make(&client, "submit", "alice", NULL, "", NULL);

    (void)state;
    new_ulid(u);
    (void)json_object_set_new(f, "ulid", json_string(u));
    (void)json_object_set_new(f, "args", toy("submit", "sending-late"));
    assert_int_equal(wire_send(client.sock, f, NULL, 0, 1000, &e), 0);
    json_decref(f);
    (void)usleep(300000);
    assert_int_equal(kill(site.pid, SIGTERM), 0);
    expect_ok(client_next(&client, 5000));
    assert_int_equal(spawnd_wait(&site, 5000), 0);
    assert_int_not_equal(access(site.sock, F_OK), 0);
}

/* --- caps and brake
 * ---------------------------------------------------------------- */

static void two_cold_deaths_brake_the_account(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    for (int i = 0; i < 2; i++) {
        new_ulid(u);
        expect_error(submit(&client, u, "prepare", "exit1"), "init",
                     "worker_died");
    }
    new_ulid(u);
    expect_error(submit(&client, u, "none", "ok"), "none", "worker_brake");
    (void)usleep(1100000);
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
}

/* alice has 400, a job takes 2, and watch never says that one ended. */
static void gpus_are_capped_on_this_side_too(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    for (int i = 0; i < 200; i++) {
        new_ulid(u);
        expect_ok(submit(&client, u, "none", "ok"));
    }
    new_ulid(u);
    expect_error(submit(&client, u, "none", "ok"), "none", "gpus_held");
    says("spawn/record.log", u, false);
}

/* --- who
 * ------------------------------------------------------------------------------
 */

static void tokens_are_looked_at_again(void **state)
{
    char u[ULID_LEN + 1];
    json_t *ok = toy("none", "ok");

    (void)state;
    new_ulid(u);
    expect_error(
        client_call(&client, "submit", "bob", NULL, u, json_incref(ok)), "none",
        "token_required");
    expect_error(
        client_call(&client, "submit", "bob", "forged", u, json_incref(ok)),
        "none", "token_signature");
    expect_error(
        client_call(&client, "submit", "alice", "good-bob", u, json_incref(ok)),
        "none", "actor_mismatch");
    expect_error(client_call(&client, "submit", "alice", "other-alice", u,
                             json_incref(ok)),
                 "none", "workflow_unknown");
    expect_error(
        client_call(&client, "submit", "bob", "good-bob", u, json_incref(ok)),
        "none", "account_unknown");
    expect_error(
        client_call(&client, "submit", "eve", NULL, u, json_incref(ok)), "none",
        "actor_unknown");
    expect_error(
        client_call(&client, "submit", "system", NULL, u, json_incref(ok)),
        "none", "verb_forbidden");
    json_decref(ok);
    assert_int_equal(count_sent(&site, u), 0);
    says("spawn/record.log", u, false);
}

static void a_hung_verifier_is_replaced(void **state)
{
    char u[ULID_LEN + 1];
    json_t *f = NULL;

    (void)state;
    new_ulid(u);
    expect_error(
        client_call(&client, "submit", "bob", "hang", u, toy("none", "ok")),
        "none", "verify_timeout");
    for (int i = 0; i < 100; i++) {
        json_decref(f);
        (void)usleep(20000);
        f = client_call(&client, "submit", "bob", "good-bob", u,
                        toy("none", "ok"));
        if (strcmp(frame_code(f), "account_unknown") == 0)
            break;
    }
    expect_error(f, "none", "account_unknown");
}

static void params_are_judged_on_this_side_too(void **state)
{
    char u[ULID_LEN + 1];
    json_t *args = toy("none", "ok");

    (void)state;
    new_ulid(u);
    (void)json_object_set_new(json_object_get(args, "params"), "more",
                              json_integer(1));
    expect_error(client_call(&client, "submit", "alice", NULL, u, args), "none",
                 "param_unknown");
    args = toy("none", "ok");
    (void)json_object_set_new(args, "secrets", json_pack("{ss}", "OTHER", "x"));
    expect_error(client_call(&client, "submit", "alice", NULL, u, args), "none",
                 "secret_unknown");
    args = toy("none", "ok");
    (void)json_object_set_new(args, "script", json_string("rm -r /"));
    expect_error(client_call(&client, "submit", "alice", NULL, u, args), "none",
                 "json_unknown_key");
    says("spawn/record.log", u, false);
}

/* --- later verbs
 * ------------------------------------------------------------------------ */

static void others_jobs_are_none_and_the_operators_too(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    expect_error(client_call(&client, "cancel", "bob", "good-bob", u, NULL),
                 "none", "job_unknown");
    expect_error(client_call(&client, "cancel", "olga", NULL, u, NULL), "none",
                 "token_required");
    expect_ok(client_call(&client, "cancel", "olga", "good-olga", u, NULL));
    expect_ok(client_call(&client, "cancel", "alice", NULL, u, NULL));
    expect_error(client_call(&client, "cancel", "alice", NULL,
                             "01HZZZZZZZZZZZZZZZZZZZZZZZ", NULL),
                 "none", "job_unknown");
    says("spawn/record.log", "\"actor\":\"olga\",\"verb\":\"cancel\"", true);
}

static json_t *finish(const char *ulid)
{
    return client_piped(&client, "finish", "system", NULL, ulid, NULL, NULL);
}

static void see_until(const char *ulid, const char *word)
{
    int64_t deadline = clock_mono_ms() + 3000;
    char *text = NULL;
    bool there = false;

    (void)ulid;
    while (!there && clock_mono_ms() < deadline) {
        free(text);
        (void)usleep(10000);
        text = site_get(&site, "spawn/record.log");
        there = strstr(text, word) != NULL;
    }
    free(text);
    assert_true(there);
}

static void finish_needs_watchs_word_of_the_end(void **state)
{
    char u[ULID_LEN + 1];
    int64_t id;
    json_t *f;

    (void)state;
    new_ulid(u);
    f = submit(&client, u, "none", "ok");
    id = result_int(f, "job_id");
    expect_ok(f);
    expect_error(finish(u), "none", "not_ended"); /* nobody saw it */
    site_job(&site, u, id, geteuid(), "RUNNING", STAND_IN_SUM);
    see_until(u, "\"kind\":\"alias\"");
    expect_error(finish(u), "none", "not_ended");
    site_job(&site, u, id, geteuid() + 1, "COMPLETED", STAND_IN_SUM);
    (void)usleep(200000);
    expect_error(finish(u), "none", "not_ended"); /* another uid's job */
    site_job(&site, u, id, geteuid(), "COMPLETED", STAND_IN_SUM);
    expect_ok(finish(u)); /* by its question to watch, if not before */
    see_until(u, "\"kind\":\"finished\"");
    expect_ok(finish(u));
    restart(SIGTERM);
    expect_ok(finish(u));
}

static void what_was_surely_not_sent_can_be_finished(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    new_ulid(u);
    expect_error(submit(&client, u, "submit", "exit1"), "init", "worker_died");
    expect_ok(finish(u));
    new_ulid(u);
    expect_error(submit(&client, u, "submit", "sending-exit1"), "sending",
                 "outcome_unknown");
    expect_error(finish(u), "none", "not_ended");
}

static void the_system_cancels_only_what_differs(void **state)
{
    char u[ULID_LEN + 1];
    int64_t id;
    json_t *f;

    (void)state;
    new_ulid(u);
    f = submit(&client, u, "none", "ok");
    id = result_int(f, "job_id");
    expect_ok(f);
    site_job(&site, u, id, geteuid(), "RUNNING", STAND_IN_SUM);
    see_until(u, "\"kind\":\"alias\"");
    expect_error(client_call(&client, "cancel", "system", NULL, u, NULL),
                 "none", "not_ended");
    site_job(&site, u, id, geteuid(), "RUNNING", OTHER_SUM);
    (void)usleep(200000);
    expect_ok(client_call(&client, "cancel", "system", NULL, u, NULL));
}

static void a_worker_is_given_what_it_needs_and_no_more(void **state)
{
    char u[ULID_LEN + 1], *t = NULL, want[200];

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    expect_ok(client_piped(&client, "log", "alice", NULL, u, log_args(0), &t));
    assert_non_null(strstr(t, "fd 0\n"));
    assert_non_null(strstr(t, "fd 4\n"));
    assert_null(strstr(t, "fd 5\n"));
    (void)snprintf(want, sizeof(want), "env SLURM_CONF=%s/etc/slurm.conf\n",
                   site.dir);
    assert_non_null(strstr(t, want));
    assert_non_null(strstr(t, "env TZ=UTC\n"));
    assert_null(strstr(t, "SECRET_OF_ROOT"));
    assert_non_null(strstr(t, "CapPrm:\t0000000000000000"));
    assert_non_null(strstr(t, "CapEff:\t0000000000000000"));
    assert_non_null(strstr(t, "CapAmb:\t0000000000000000"));
    assert_non_null(strstr(t, "NoNewPrivs:\t1"));
    assert_non_null(strstr(t, "SigBlk:\t0000000000000000"));
    assert_non_null(strstr(t, "pdeath 9\nsession 1\numask 077\ncore 0\n"));
    assert_null(strstr(t, "\"token\""));
    assert_non_null(strstr(t, "\"job\":{\"workflow\":\"toy\""));
    free(t);
}

static int64_t worker_of(const char *u, int offset)
{
    json_t *f =
        client_piped(&client, "log", "alice", NULL, u, log_args(offset), NULL);
    int64_t pid = result_int(f, "size");

    expect_ok(f);
    return pid;
}

static void a_worker_is_kept_for_the_next_and_not_for_ever(void **state)
{
    char u[ULID_LEN + 1];
    int64_t pid;

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    pid = worker_of(u, 0);
    assert_int_equal(worker_of(u, 0), pid);
    (void)usleep(1300000);
    assert_int_not_equal(kill((pid_t)pid, 0), 0);
    assert_int_not_equal(worker_of(u, 0), pid);
}

static void a_killed_idle_worker_costs_nothing(void **state)
{
    char u[ULID_LEN + 1];
    int64_t pid;

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    for (int i = 0; i < 5; i++) {
        pid = worker_of(u, 0);
        assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        (void)usleep(20000);
        assert_int_not_equal(worker_of(u, 0), pid);
    }
}

/* Three slow reads queue one behind the other; a submit passes them. */
static void bulk_reads_leave_a_lane_for_submits(void **state)
{
    char u[ULID_LEN + 1], v[ULID_LEN + 1];
    int64_t begin;
    int p[3][2];

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    begin = clock_mono_ms();
    for (int i = 0; i < 3; i++) {
        json_t *f = frame_make(&client, "log", "alice", NULL, u, log_args(1));

        assert_int_equal(pipe2(p[i], O_CLOEXEC), 0);
        assert_int_equal(wire_send(client.sock, f, &p[i][1], 1, 1000, NULL), 0);
        (void)close(p[i][1]);
        json_decref(f);
    }
    new_ulid(v);
    {
        json_t *f = submit(&client, v, "none", "ok"); /* the first answer */

        assert_true(result_int(f, "job_id") > 0);
        expect_ok(f);
    }
    for (int i = 0; i < 3; i++) {
        expect_ok(client_next(&client, 3000));
        (void)close(p[i][0]);
    }
    assert_true(clock_mono_ms() - begin >= 900);
}

static void a_hung_read_ends_at_its_deadline(void **state)
{
    char u[ULID_LEN + 1];

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    expect_error(
        client_piped(&client, "log", "alice", NULL, u, log_args(2), NULL),
        "init", "worker_timeout");
    expect_ok(
        client_piped(&client, "log", "alice", NULL, u, log_args(0), NULL));
}

/* --- frames
 * ----------------------------------------------------------------------------
 */

static void drops(json_t *f, int fd)
{
    json_t *answer = client_ask(&client, f, fd, 3000);

    assert_null(answer);
    client_close(&client);
    client_open(&site, &client);
}

static json_t *with(const char *key, json_t *value)
{
    char u[ULID_LEN + 1];
    json_t *f;

    new_ulid(u);
    f = frame_make(&client, "submit", "alice", NULL, u, toy("none", "ok"));
    (void)json_object_set_new(f, key, value);
    return f;
}

static void a_bad_frame_ends_the_connection(void **state)
{
    int p[2];

    (void)state;
    drops(with("uid", json_integer(0)), -1);
    drops(with("v", json_integer(2)), -1);
    drops(with("request", json_string("x")), -1);
    drops(with("ulid", json_null()), -1);
    drops(with("ulid", json_string("../../etc")), -1);
    drops(with("actor", json_string("a/b")), -1);
    drops(with("actor", json_integer(1)), -1);
    drops(with("token", json_string("")), -1);
    drops(with("verb", json_string("prepare")), -1);
    drops(with("verb", json_string("run")), -1);
    drops(with("args", json_array()), -1);
    drops(with("generation", json_string("current")), -1);
    drops(json_pack("{siss}", "v", 1, "admin", "dance"), -1);
    /* a submit has no descriptor; a log has a pipe's write end */
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    drops(with("v", json_integer(1)), p[1]);
    drops(with("verb", json_string("log")), -1);
    drops(with("verb", json_string("log")), p[0]);
    drops(with("verb", json_string("log")),
          open("/dev/null", O_WRONLY | O_CLOEXEC));
    expect_ok(client_call(&client, "outcome", "system", NULL,
                          "01HZZZZZZZZZZZZZZZZZZZZZZZ", NULL));
}

/* --- generations
 * -------------------------------------------------------------------------- */

static json_t *admin(const char *verb, const char *id)
{
    return client_ask(&client,
                      json_pack("{sissss?}", "v", 1, "admin", verb, "id", id),
                      -1, 12000);
}

static void a_switch_is_loaded_first_and_ends_idle_workers(void **state)
{
    char u[ULID_LEN + 1], next[GENERATION_ID_LEN + 1], map[1024];
    int64_t pid;

    (void)state;
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    pid = worker_of(u, 0);
    people(map, sizeof(map));
    site_install(&site, map, "two", getegid(), next);
    expect_error(admin("switch", next), NULL, "generation_not_loaded");
    expect_error(admin("load", OTHER_SUM), NULL, "generation_missing");
    expect_ok(admin("load", next));
    (void)snprintf(client.generation, sizeof(client.generation), "%s", next);
    expect_error(
        client_piped(&client, "log", "alice", NULL, u, log_args(0), NULL),
        "none", "generation_mismatch");
    expect_ok(admin("switch", next));
    (void)usleep(300000);
    assert_int_not_equal(kill((pid_t)pid, 0), 0);
    expect_ok(client_piped(&client, "log", "alice", NULL, u, log_args(0),
                           NULL)); /* a job of the older generation */
    new_ulid(u);
    expect_ok(submit(&client, u, "none", "ok"));
    expect_ok(admin("status", NULL));
}

static void sighup_looks_at_current_again(void **state)
{
    char next[GENERATION_ID_LEN + 1], map[1024];
    int64_t deadline = clock_mono_ms() + 5000;

    (void)state;
    people(map, sizeof(map));
    site_install(&site, map, "two", getegid(), next);
    site_switch(&site, next);
    assert_int_equal(kill(site.pid, SIGHUP), 0);
    do {
        (void)usleep(20000);
        client_close(&client);
        client_open(&site, &client);
    } while (strcmp(client.generation, next) != 0 &&
             clock_mono_ms() < deadline);
    assert_string_equal(client.generation, next);
}

/* --- starts that are refused
 * ----------------------------------------------------------------- */

static void a_broken_record_stops_the_start(void **state)
{
    char *text;

    (void)state;
    client_close(&client);
    (void)spawnd_end(&site, SIGTERM);
    text = site_get(&site, "spawn/record.log");
    text[40] = text[40] == 'x' ? 'y' : 'x';
    site_put(&site, "spawn/record.log", text, 0600);
    free(text);
    spawnd_start(&site, NULL);
    assert_int_equal(WEXITSTATUS(spawnd_wait(&site, 5000)), 1);
    says("spawnd.log", "record_broken", true);
}

static void a_second_spawner_stops(void **state)
{
    struct spawn_site second = site;

    (void)state;
    spawnd_start(&second, NULL);
    assert_int_equal(WEXITSTATUS(spawnd_wait(&second, 5000)), 1);
    says("spawnd.log", "record_in_use", true);
    expect_ok(client_call(&client, "outcome", "system", NULL,
                          "01HZZZZZZZZZZZZZZZZZZZZZZZ", NULL));
}

static void an_account_of_another_uid_gets_no_worker(void **state)
{
    char u[ULID_LEN + 1], text[512];

    (void)state;
    (void)snprintf(text, sizeof(text),
                   "{\"v\":1,\"accounts\":{\"%s\":{\"uid\":4242,\"gid\":4242,"
                   "\"groups\":[],\"home\":\"/\",\"shell\":\"/bin/sh\"}}}",
                   site.account);
    site_put(&site, "accounts.json", text, 0644);
    restart(SIGTERM);
    new_ulid(u);
    expect_error(submit(&client, u, "none", "ok"), "none", "account_refused");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void become_nobody(void)
{
    if (geteuid() != 0)
        return;
    if (setgroups(0, NULL) != 0 || setresgid(65534, 65534, 65534) != 0 ||
        setresuid(65534, 65534, 65534) != 0 ||
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) /* LeakSanitizer ptraces */
        _exit(99);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(it_greets_and_passes_watch),
        CASE(a_dead_watch_comes_again_with_a_new_peer),
        CASE(a_watch_socket_is_given_when_asked_for),
        CASE(a_malformed_ask_for_watch_ends_the_connection),
        CASE(a_submit_goes_through_both_workers),
        CASE(a_second_submit_is_answered_and_never_sent),
        CASE(a_plan_sends_nothing_and_brings_the_script),
        CASE(each_broken_worker_costs_its_request_only),
        CASE(an_unknown_end_is_kept_and_not_tried_again),
        CASE(a_submit_goes_on_without_its_client),
        CASE(a_killed_spawner_knows_what_it_may_have_sent),
        CASE(sigterm_waits_for_a_running_submit),
        CASE(two_cold_deaths_brake_the_account),
        CASE(gpus_are_capped_on_this_side_too),
        CASE(tokens_are_looked_at_again),
        CASE(a_hung_verifier_is_replaced),
        CASE(params_are_judged_on_this_side_too),
        CASE(others_jobs_are_none_and_the_operators_too),
        CASE(finish_needs_watchs_word_of_the_end),
        CASE(what_was_surely_not_sent_can_be_finished),
        CASE(the_system_cancels_only_what_differs),
        CASE(a_worker_is_given_what_it_needs_and_no_more),
        CASE(a_worker_is_kept_for_the_next_and_not_for_ever),
        CASE(a_killed_idle_worker_costs_nothing),
        CASE(bulk_reads_leave_a_lane_for_submits),
        CASE(a_hung_read_ends_at_its_deadline),
        CASE(a_bad_frame_ends_the_connection),
        CASE(a_switch_is_loaded_first_and_ends_idle_workers),
        CASE(sighup_looks_at_current_again),
        CASE(a_broken_record_stops_the_start),
        CASE(a_second_spawner_stops),
        CASE(an_account_of_another_uid_gets_no_worker),
    };

    stand_in_main(argc, argv);
    self_exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    spawnd_exe = open(SLUICE_BINARY_DIR "/sluice-spawnd", O_RDONLY | O_CLOEXEC);
    if (self_exe < 0 || spawnd_exe < 0) {
        (void)fputs("sluice-spawnd is not built\n", stderr);
        return 1;
    }
    become_nobody();
    if (chdir("/") != 0)
        return 1;
    cmocka_set_test_filter(getenv("SPAWN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
