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

/* --- whole answers --- */

struct answer {
    int status;
    char head[4096];
    struct buf body;
};

static int ask_for(const char *method, const char *target, const char *headers,
                   const struct identity *who)
{
    int fd = wire_connect(lab.config.listen.local, SOCK_STREAM, NULL);
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close"
                     "\r\nAuthorization: Bearer %s\r\n%s\r\n",
                     method, target, who->token, headers);

    assert_true(fd >= 0);
    assert_true(n > 0 && (size_t)n < sizeof text);
    assert_int_equal(write(fd, text, (size_t)n), n);
    return fd;
}

/* Until the connection ends. Closes fd. */
static void read_answer(int fd, struct answer *a)
{
    struct pollfd v = {fd, POLLIN, 0};
    char piece[65536];
    const char *end;
    struct buf all;
    ssize_t n = 1;

    buf_init(&all, 64 << 20);
    while (n > 0 && poll(&v, 1, ANSWER_MS) > 0) {
        n = read(fd, piece, sizeof piece);
        if (n > 0)
            assert_int_equal(buf_add(&all, piece, (size_t)n), 0);
    }
    (void)close(fd);
    end = strstr(buf_str(&all), "\r\n\r\n");
    assert_non_null(end);
    (void)snprintf(a->head, sizeof a->head, "%.*s\r\n",
                   (int)(end - buf_str(&all)), buf_str(&all));
    a->status = (int)strtol(a->head + 9, NULL, 10);
    buf_init(&a->body, 64 << 20);
    (void)buf_add(&a->body, end + 4,
                  all.len - (size_t)(end + 4 - buf_str(&all)));
    buf_clear(&all);
}

static void get(const char *method, const char *target, const char *headers,
                struct answer *a)
{
    read_answer(ask_for(method, target, headers, &lab.alice), a);
}

static void has(const struct answer *a, const char *line)
{
    char text[256];

    (void)snprintf(text, sizeof text, "\r\n%s\r\n", line);
    if (strcasestr(a->head, text) == NULL)
        fail_msg("no '%s' in:\n%s", line, a->head);
}

/* --- artifacts --- */

static const char *artifact(void)
{
    static char target[128];

    (void)snprintf(target, sizeof target, "/v1/jobs/%s/artifacts/results/x",
                   job_id);
    return target;
}

static void holds(const struct answer *a, int64_t from, int64_t n)
{
    assert_int_equal(a->body.len, n);
    for (int64_t i = 0; i < n; i++) {
        if (a->body.data[i] != lab_byte(from + i))
            fail_msg("byte %lld is wrong", (long long)(from + i));
    }
}

static void one_range_of_an_artifact_is_sent(void **state)
{
    static const struct {
        const char *range, *content;
        int status;
        int64_t from, n;
    } rows[] = {
        {"", NULL, 200, 0, LAB_ARTIFACT},
        {"Range: bytes=0-0\r\n", "bytes 0-0/3145733", 206, 0, 1},
        {"Range: bytes=1048570-2097160\r\n", "bytes 1048570-2097160/3145733",
         206, 1048570, 1048591},
        {"Range: bytes=3145730-\r\n", "bytes 3145730-3145732/3145733", 206,
         3145730, 3},
        {"Range: bytes=3145730-9999999\r\n", "bytes 3145730-3145732/3145733",
         206, 3145730, 3},
        {"Range: bytes=-5\r\n", "bytes 3145728-3145732/3145733", 206, 3145728,
         5},
        {"Range: bytes=-9999999\r\n", "bytes 0-3145732/3145733", 206, 0,
         LAB_ARTIFACT},
        /* Not taken, so the whole: */
        {"Range: bytes=0-1,5-6\r\n", NULL, 200, 0, LAB_ARTIFACT},
        {"Range: lines=0-1\r\n", NULL, 200, 0, LAB_ARTIFACT},
        {"Range: bytes=5-1\r\n", NULL, 200, 0, LAB_ARTIFACT},
        {"Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", NULL, 200, 0, LAB_ARTIFACT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct answer a;
        char line[128];
        get("GET", artifact(), rows[i].range, &a);
        assert_int_equal(a.status, rows[i].status);
        has(&a, "Accept-Ranges: bytes");
        if (rows[i].content != NULL) {
            (void)snprintf(line, sizeof line, "Content-Range: %s",
                           rows[i].content);
            has(&a, line);
        }
        holds(&a, rows[i].from, rows[i].n);
        buf_clear(&a.body);
    }
}

static void a_range_after_the_end_is_refused(void **state)
{
    static const char *const ranges[] = {"Range: bytes=3145733-\r\n",
                                         "Range: bytes=-0\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct answer a;
        get("GET", artifact(), ranges[i], &a);
        assert_int_equal(a.status, 416);
        has(&a, "Content-Range: bytes */3145733");
        assert_non_null(strstr(buf_str(&a.body), "range_not_satisfiable"));
        buf_clear(&a.body);
    }
}

/* Its size, without its bytes. */
static void head_of_an_artifact_reads_one_piece(void **state)
{
    int64_t start = clock_mono_ms();
    struct answer a;

    (void)state;
    get("HEAD", artifact(), "", &a);
    assert_int_equal(a.status, 200);
    has(&a, "Content-Length: 3145733");
    assert_int_equal(a.body.len, 0);
    assert_int_equal(atomic_load(&lab.pieces), 1);
    assert_true(clock_mono_ms() - start < 5000);
    buf_clear(&a.body);
}

static atomic_bool slow_end;

static void *read_slowly(void *arg)
{
    const int *fd = arg;
    char piece[4096];

    while (!atomic_load(&slow_end) && read(*fd, piece, sizeof piece) > 0)
        (void)usleep(100000);
    return NULL;
}

/* It never stalls, and at this pace it would take a minute and more. */
static void a_slow_reader_does_not_hold_up_the_end(void **state)
{
    int fd = ask_for("GET", artifact(), "", &lab.alice), small = 4096;
    int64_t start;
    pthread_t thread;

    (void)state;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    atomic_store(&slow_end, false);
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &fd), 0);
    (void)usleep(500000);
    start = clock_mono_ms();
    server_stop(server);
    server = NULL;
    assert_true(clock_mono_ms() - start < 10000);
    atomic_store(&slow_end, true);
    (void)pthread_join(thread, NULL);
    (void)close(fd);
}

/* --- the audit --- */

static int64_t rows_of(const char *where)
{
    char sql[256];
    struct err bad = ERR_INIT;
    struct db *d = NULL;
    struct db_stmt *q;
    int64_t n;

    must(service_reader(lab.service, &d, e));
    (void)snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM audit WHERE %s",
                   where);
    q = db_prepare(d, sql, &bad);
    assert_int_equal(db_step(q, &bad), 1);
    n = db_col_int(q, 0);
    db_close(d);
    return n;
}

/* A no to somebody who is known: one row, whoever refuses and wherever. */
static void each_refusal_leaves_one_row(void **state)
{
    static const char json[] = "Content-Type: application/json\r\n";
    static const char foreign[] = "/v1/jobs/job_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    static const struct {
        const char *method, *target, *body, *action, *code;
    } rows[] = {
        {"POST", "/v1/jobs", "{", "job.submit", "json_syntax"},
        {"POST", "/v1/jobs", "{\"workflow\":1}", "job.submit", "json_type"},
        {"POST", "/v1/jobs?x=1", "{}", "job.submit", "query_unknown"},
        {"POST", "/v1/jobs/job_x/cancel", "", "job.cancel", "job_not_found"},
        {"GET", foreign, "", "job.read", "job_not_found"},
        {"GET", "/v1/workflows/rm-rf", "", "workflow.read",
         "workflow_not_found"},
        {"GET", "/v1/usage?all=true", "", "usage.read", "role_missing"},
        {"GET", "/v1/audit?all=true", "", "audit.read", "role_missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char headers[256], where[128];
        struct answer a;
        (void)snprintf(headers, sizeof headers, "%sContent-Length: %zu\r\n",
                       rows[i].body[0] ? json : "", strlen(rows[i].body));
        if (rows[i].body[0]) /* the blank line goes before the body */
            (void)snprintf(headers + strlen(headers),
                           sizeof headers - strlen(headers), "\r\n%s",
                           rows[i].body);
        get(rows[i].method, rows[i].target, headers, &a);
        if (strstr(buf_str(&a.body), rows[i].code) == NULL)
            fail_msg("%s: %s", rows[i].target, buf_str(&a.body));
        (void)snprintf(where, sizeof where,
                       "kind = 'decided' AND action = '%s' AND code = '%s'",
                       rows[i].action, rows[i].code);
        assert_int_equal(rows_of(where), 1);
        assert_int_equal(rows_of("kind = 'decided' AND code IS NOT NULL"),
                         (int64_t)i + 1);
        buf_clear(&a.body);
    }
}

/* However often it is woken, it is one read. */
static void a_wait_of_somebody_else_is_one_read(void **state)
{
    struct identity otto;
    char ulid[ULID_LEN + 1];
    int fd;

    (void)state;
    lab_identity(&lab, "otto", &otto);
    assert_int_equal(id_job_parse(job_id, ulid), 0);
    fd = ask_job(&otto, "?wait=2");
    for (int i = 0; i < 5; i++) {
        (void)usleep(100000);
        /* A wake without a change: it goes to sleep again. */
        waiters_notify(lab.service->waiters, ulid, INT64_MAX);
    }
    assert_int_equal(status_of(fd), 200);
    assert_int_equal(rows_of("kind = 'read' AND action = 'job.read'"), 1);
    identity_clear(&otto);
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
        cmocka_unit_test_setup_teardown(one_range_of_an_artifact_is_sent, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_range_after_the_end_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(head_of_an_artifact_reads_one_piece,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_does_not_hold_up_the_end,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(each_refusal_leaves_one_row, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_wait_of_somebody_else_is_one_read,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
