/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The request loop that both workers share: what is a request, what is an
 * answer, and what is neither.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/wire.h"
#include "broker/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ULID "01J9ZQ4Y8N5V3K7T2M6R0W1XAB"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int runs, answers;

static int echo(void *context, struct worker_request *r, json_t *result,
                struct err *e)
{
    (void)context;
    runs++;
    if (json_object_get(r->args, "fail") != NULL)
        return err_set(e, ERR_CONFLICT, "echo_failed", "as asked");
    if (json_object_get(r->args, "silent") != NULL)
        return -1;
    return json_put_str(result, "account", r->person.account);
}

static int big(void *context, struct worker_request *r, json_t *result,
               struct err *e)
{
    char *text = calloc(1, WIRE_FRAME_MAX + 1);
    int rc;

    (void)context;
    (void)r;
    memset(text, 'x', WIRE_FRAME_MAX);
    rc = json_put_str(result, "text", text);
    free(text);
    return rc == 0 ? 0 : err_nomem(e);
}

static int stages(void *context, struct worker_request *r, json_t *result,
                  struct err *e)
{
    (void)context;
    (void)result;
    if (worker_stage(r, "init", e) != 0 || worker_stage(r, "sending", e) != 0)
        return -1;
    return err_set(e, ERR_UNKNOWN, "lost", "no answer");
}

static int writes(void *context, struct worker_request *r, json_t *result,
                  struct err *e)
{
    (void)context;
    (void)result;
    return worker_pipe(r, "bytes", 5, e);
}

static const struct worker_verb verbs[] = {
    {"echo", 0, echo},
    {"big", 0, big},
    {"stages", WORKER_WANTS_ULID, stages},
    {"writes", WORKER_WANTS_FD, writes},
    {"job", WORKER_WANTS_JOB, echo},
};

static void answered(void *context)
{
    (void)context;
    answers++;
}

static struct worker worker = {
    .sock = -1, .verbs = verbs, .count = COUNT(verbs), .answered = answered};

static json_t *request(const char *verb)
{
    json_t *person =
        json_pack("{s:s,s:s,s:s,s:s,s:n,s:s}", "name", "al", "account", "alice",
                  "home", "/h", "shell", "/s", "slurm_account", "qos", "q");
    json_t *job = json_pack("{s:s,s:i,s:i,s:s,s:I}", "workflow", "w", "job_id",
                            7, "submit_time", 9, "name", "w.x", "uid",
                            (json_int_t)geteuid());

    return json_pack("{s:i,s:s,s:s,s:s,s:{},s:o,s:o}", "v", 1, "request", "r1",
                     "verb", verb, "ulid", ULID, "args", "person", person,
                     "job", job);
}

/* Consumes body. The code of the failure ("" when ok). */
static void code_is(json_t *body, int fd, const char *code)
{
    struct err e = ERR_INIT, why = ERR_INIT;
    json_t *frame = worker_answer(&worker, body, fd, &e);

    json_decref(body);
    assert_non_null(frame);
    assert_string_equal(json_string_value(json_object_get(frame, "request")),
                        "r1");
    assert_int_equal(wire_err_get(frame, "error", &why), 0);
    assert_string_equal(why.code, code);
    assert_true(json_is_true(json_object_get(frame, "ok")) ==
                (code[0] == '\0'));
    if (code[0] != '\0')
        assert_string_equal(json_string_value(json_object_get(frame, "stage")),
                            "init");
    json_decref(frame);
}

static void a_request_is_answered(void **state)
{
    (void)state;
    runs = 0;
    code_is(request("echo"), -1, "");
    code_is(request("job"), -1, "");
    assert_int_equal(runs, 2);
}

static json_t *changed(const char *key, json_t *value)
{
    json_t *body = request("job");

    assert_int_equal(json_object_set_new(body, key, value), 0);
    return body;
}

static json_t *changed_in(const char *object, const char *key, json_t *value)
{
    json_t *body = request("job");

    assert_int_equal(
        json_object_set_new(json_object_get(body, object), key, value), 0);
    return body;
}

static void what_does_not_fit_is_answered_and_not_run(void **state)
{
    (void)state;
    runs = 0;
    code_is(changed("extra", json_true()), -1, "json_unknown_key");
    code_is(changed("v", json_integer(2)), -1, "json_range");
    code_is(changed("verb", json_string("nope")), -1, "worker_frame");
    code_is(changed("verb", json_integer(1)), -1, "json_type");
    code_is(changed("ulid", json_string("01J9ZQ")), -1, "worker_frame");
    code_is(changed("ulid", json_string("01j9zq4y8n5v3k7t2m6r0w1xab")), -1,
            "worker_frame");
    code_is(changed("args", json_array()), -1, "json_type");
    code_is(changed("job", json_null()), -1, "worker_frame");
    code_is(changed_in("person", "uid", json_integer(0)), -1,
            "json_unknown_key");
    code_is(changed_in("person", "account", json_null()), -1, "json_missing");
    code_is(changed_in("job", "job_id", json_integer(-1)), -1, "json_range");
    code_is(changed_in("args", "fail", json_true()), -1, "echo_failed");
    code_is(changed_in("args", "silent", json_true()), -1, "worker_failed");
    assert_int_equal(runs, 2); /* the last two */
}

static void anothers_job_is_refused(void **state)
{
    (void)state;
    runs = 0;
    code_is(changed_in("job", "uid", json_integer((json_int_t)geteuid() + 1)),
            -1, "worker_identity");
    assert_int_equal(runs, 0);
}

static void no_request_id_is_no_request(void **state)
{
    struct err e = ERR_INIT;
    json_t *body = json_pack("{s:i,s:s}", "v", 1, "verb", "echo");

    (void)state;
    assert_null(worker_answer(&worker, body, -1, &e));
    assert_true(err_is_set(&e));
    json_decref(body);
}

static void only_a_pipes_write_end_is_taken(void **state)
{
    char text[8];
    int p[2], sv[2];

    (void)state;
    code_is(request("writes"), -1, "worker_frame");
    code_is(request("echo"), open("/dev/null", O_WRONLY), "worker_frame");
    code_is(request("writes"), open("/dev/null", O_WRONLY), "worker_frame");
    assert_int_equal(pipe(p), 0);
    code_is(request("writes"), p[0], "worker_frame");
    (void)close(p[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    code_is(request("writes"), sv[0], "worker_frame");
    (void)close(sv[1]);
    assert_int_equal(pipe(p), 0);
    code_is(request("writes"), p[1], "");
    assert_int_equal(read(p[0], text, sizeof(text)), 5);
    assert_int_equal(read(p[0], text, sizeof(text)), 0); /* closed by it */
    (void)close(p[0]);
}

static void a_reader_that_left_ends_the_request(void **state)
{
    int p[2];

    (void)state;
    assert_int_equal(pipe(p), 0);
    (void)close(p[0]);
    code_is(request("writes"), p[1], "pipe_closed");
}

/* --- over a socket ---------------------------------------------------------
 */

/* All frames that serving these requests gives. */
static size_t serve(json_t **requests, size_t n, json_t **frames, size_t max,
                    int want)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int sv[2];
    size_t got = 0;

    assert_int_equal(wire_pair(sv, &e), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(wire_send(sv[0], requests[i], NULL, 0, 0, &e), 0);
        json_decref(requests[i]);
    }
    (void)shutdown(sv[0], SHUT_WR);
    worker.sock = sv[1];
    assert_int_equal(worker_serve(&worker, &e), want);
    worker.sock = -1;
    (void)close(sv[1]);
    wire_msg_init(&m);
    err_clear(&e);
    while (got < max && wire_recv(sv[0], &m, 100, &e) == 1)
        frames[got++] = json_incref(m.body);
    wire_msg_clear(&m);
    (void)close(sv[0]);
    return got;
}

static void stages_come_before_the_result(void **state)
{
    json_t *in[] = {request("stages"), request("echo")}, *out[8];
    struct err why = ERR_INIT;

    (void)state;
    answers = 0;
    assert_int_equal(serve(in, 2, out, 8, 0), 4);
    assert_int_equal(answers, 2);
    assert_string_equal(json_string_value(json_object_get(out[0], "stage")),
                        "init");
    assert_string_equal(json_string_value(json_object_get(out[1], "stage")),
                        "sending");
    assert_string_equal(json_string_value(json_object_get(out[1], "event")),
                        "stage");
    assert_string_equal(json_string_value(json_object_get(out[2], "event")),
                        "result");
    assert_string_equal(json_string_value(json_object_get(out[2], "stage")),
                        "sending");
    assert_int_equal(wire_err_get(out[2], "error", &why), 0);
    assert_int_equal(why.class, ERR_UNKNOWN);
    /* The next request starts anew. */
    assert_true(json_is_true(json_object_get(out[3], "ok")));
    for (size_t i = 0; i < 4; i++)
        json_decref(out[i]);
}

static void a_result_over_a_frame_is_an_error(void **state)
{
    json_t *in[] = {request("big")}, *out[2];
    struct err why = ERR_INIT;

    (void)state;
    assert_int_equal(serve(in, 1, out, 2, 0), 1);
    assert_int_equal(wire_err_get(out[0], "error", &why), 0);
    assert_string_equal(why.code, "wire_too_large");
    assert_string_equal(json_string_value(json_object_get(out[0], "request")),
                        "r1");
    json_decref(out[0]);
}

static void a_frame_that_is_no_request_ends_the_worker(void **state)
{
    json_t *in[] = {json_pack("{s:i}", "v", 1), request("echo")}, *out[2];

    (void)state;
    assert_int_equal(serve(in, 2, out, 2, -1), 0);
}

/* --- start -------------------------------------------------------------------
 */

static int options(const char *a, const char *b, const char *c, const char *d)
{
    char words[4][32];
    char *argv[] = {words[0], words[1], words[2], words[3], NULL};
    const char *given[] = {a, b, c, d};
    struct worker_site out;
    struct err e = ERR_INIT;
    int argc = 0;

    for (; argc < 4 && given[argc] != NULL; argc++)
        (void)snprintf(words[argc], sizeof(words[0]), "%s", given[argc]);
    argv[argc] = NULL;
    return worker_options(argc, argv, 0, &out, &e);
}

static void options_are_a_table(void **state)
{
    (void)state;
    assert_int_equal(options(NULL, NULL, NULL, NULL), 0);
    assert_int_equal(options("--jobs-root", "/j", "--cluster", "c"), 0);
    assert_int_equal(options("--jobs-root", "j", NULL, NULL), -1);
    assert_int_equal(options("--jobs-root", NULL, NULL, NULL), -1);
    assert_int_equal(options("--jobs-root", "", NULL, NULL), -1);
    assert_int_equal(options("--uid", "0", NULL, NULL), -1);
    assert_int_equal(options("--cluster", "a", "--cluster", "b"), -1);
}

/* In a child, for it changes the process. */
static int start_status(bool drop)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct err e = ERR_INIT;

        if (drop && geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(9);
        _exit(worker_start(&e) == 0                   ? 0
              : strcmp(e.code, "worker_capable") == 0 ? 1
                                                      : 2);
    }
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_capable_process_is_no_worker(void **state)
{
    (void)state;
    if (geteuid() == 0)
        assert_int_equal(start_status(false), 1);
    assert_int_equal(start_status(true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered),
        cmocka_unit_test(what_does_not_fit_is_answered_and_not_run),
        cmocka_unit_test(anothers_job_is_refused),
        cmocka_unit_test(no_request_id_is_no_request),
        cmocka_unit_test(only_a_pipes_write_end_is_taken),
        cmocka_unit_test(a_reader_that_left_ends_the_request),
        cmocka_unit_test(stages_come_before_the_result),
        cmocka_unit_test(a_result_over_a_frame_is_an_error),
        cmocka_unit_test(a_frame_that_is_no_request_ends_the_worker),
        cmocka_unit_test(options_are_a_table),
        cmocka_unit_test(a_capable_process_is_no_worker),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
