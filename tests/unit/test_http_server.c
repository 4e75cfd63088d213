/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The HTTP server over a real service: long polls, also of somebody else's job
 * (which go through the pool), and its end while they sleep.
 */
#include "broker/http/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/test_jobs_lab.h"

enum { ANSWER_MS = 10000, POLLERS = 8 };

static struct lab lab;
static struct server *server;
static char job_id[JOB_ID_LEN + 1];

static int setup(void **state)
{
    struct submit_answer a;

    (void)state;
    lab_make(&lab);
    must(server_start(lab.service, &server, e));
    must(lab_post(&lab, lab.reader, 2, NULL, &a, e));
    (void)snprintf(job_id, sizeof job_id, "%s", a.job);
    submit_answer_clear(&a);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    server_stop(server);
    server = NULL;
    lab_remove(&lab);
    return 0;
}

/* GET of the job on local.sock. The socket. */
static int ask_job(const struct identity *who, const char *query)
{
    int fd = wire_connect(lab.config.listen.local, SOCK_STREAM, NULL);
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "GET /v1/jobs/%s%s HTTP/1.1\r\nHost: localhost\r\n"
                     "Authorization: Bearer %s\r\nConnection: close\r\n\r\n",
                     job_id, query, who->token);

    assert_true(fd >= 0);
    assert_true(n > 0 && (size_t)n < sizeof text);
    assert_int_equal(write(fd, text, (size_t)n), n);
    return fd;
}

/* The status of the answer, 0 when the connection ended without one. */
static int status_of(int fd)
{
    struct pollfd v = {fd, POLLIN, 0};
    char text[64] = "";
    ssize_t n = -1;

    if (poll(&v, 1, ANSWER_MS) > 0)
        n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n < 12 || strncmp(text, "HTTP/1.1 ", 9) != 0)
        return 0;
    text[12] = '\0';
    return (int)strtol(text + 9, NULL, 10);
}

static void one_own_and_one_foreign_job_are_read(void **state)
{
    struct identity otto;

    (void)state;
    lab_identity(&lab, "otto", &otto);
    assert_int_equal(status_of(ask_job(&lab.alice, "")), 200);
    assert_int_equal(status_of(ask_job(&otto, "")), 200);
    identity_clear(&otto);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct identity otto;
    int64_t start = clock_mono_ms();
    int a, b;

    (void)state;
    lab_identity(&lab, "otto", &otto);
    a = ask_job(&lab.alice, "?wait=1");
    b = ask_job(&otto, "?wait=1");
    assert_int_equal(status_of(a), 200);
    assert_int_equal(status_of(b), 200);
    assert_true(clock_mono_ms() - start >= 900);
    identity_clear(&otto);
}

static void nothing(void *arg, bool changed)
{
    (void)arg;
    (void)changed;
}

/* No room to wait is no reason to ask the database again and again. */
static void where_no_more_can_wait_the_answer_comes_at_once(void **state)
{
    struct err full = ERR_INIT;
    char ulid[ULID_LEN + 1];
    int64_t start;
    int rc = 0;

    (void)state;
    assert_int_equal(id_job_parse(job_id, ulid), 0);
    while (rc == 0)
        rc = waiters_register(lab.service->waiters, lab.reader, ulid,
                              INT64_MAX - 1, INT64_MAX - 1, nothing, &lab,
                              &full);
    assert_string_equal(full.code, "waiters_full");
    start = clock_mono_ms();
    assert_int_equal(status_of(ask_job(&lab.alice, "?wait=5")), 200);
    assert_true(clock_mono_ms() - start < 4000);
}

/* An operator's poll goes to the pool again when it is woken: the pool must
 * still be there. */
static void an_end_answers_who_sleeps(void **state)
{
    struct identity otto;
    int fd[POLLERS];

    (void)state;
    lab_identity(&lab, "otto", &otto);
    for (int i = 0; i < POLLERS; i++)
        fd[i] = ask_job(i % 2 ? &otto : &lab.alice, "?wait=60");
    (void)usleep(300000);
    server_stop(server);
    server = NULL;
    for (int i = 0; i < POLLERS; i++)
        assert_int_equal(status_of(fd[i]), 200);
    identity_clear(&otto);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_own_and_one_foreign_job_are_read,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_ends_with_its_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            where_no_more_can_wait_the_answer_comes_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_answers_who_sleeps, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
