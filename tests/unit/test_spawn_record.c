/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/wire.h"
#include "broker/spawn/record.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/spawn-record-XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/record.log", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)rmdir(dir);
    return 0;
}

static struct record *must_open(void)
{
    struct record *r = NULL;
    struct err e = ERR_INIT;

    if (record_open(path, &r, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    return r;
}

static void refuses_to_open(const char *code)
{
    struct record *r = NULL;
    struct err e = ERR_INIT;

    assert_int_equal(record_open(path, &r, &e), -1);
    assert_null(r);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, code);
}

static void new_ulid(char *out)
{
    static int64_t ms = 1700000000000;

    assert_int_equal(id_ulid(ms++, out), 0);
}

static struct rec *intend(struct record *r, const char *ulid)
{
    json_t *names = json_pack("[s]", "TOKEN");
    struct rec_intent in = {.ulid = ulid,
                            .request = ulid,
                            .actor = "alice",
                            .account = "ann",
                            .workflow = "toy",
                            .uid = 1234,
                            .secret_names = names,
                            .gpus = 8,
                            .generation = "00"};
    struct rec *x = NULL;
    struct err e = ERR_INIT;

    memset(in.args_sha256, 0xab, sizeof(in.args_sha256));
    if (record_intent(r, &in, &x, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    json_decref(names);
    return x;
}

static json_t *ok_frame(const char *ulid, int job_id)
{
    char sum[SHA256_HEX_LEN + 1];

    memset(sum, 'c', SHA256_HEX_LEN);
    sum[SHA256_HEX_LEN] = '\0';
    return json_pack("{sisssssbs{siss}}", "v", 1, "event", "result", "request",
                     ulid, "ok", 1, "result", "job_id", job_id, "script_sha256",
                     sum);
}

static json_t *bad_frame(const char *ulid, const char *stage,
                         enum err_class class)
{
    json_t *f = json_pack("{sisssssbss}", "v", 1, "event", "result", "request",
                          ulid, "ok", 0, "stage", stage);
    struct err e = ERR_INIT;

    (void)err_set(&e, class, "some_code", "some text");
    assert_int_equal(wire_err_put(f, "error", &e), 0);
    return f;
}

static void keep(struct record *r, struct rec *x, json_t *frame)
{
    struct err e = ERR_INIT;

    assert_int_equal(record_result(r, x, frame, &e), 0);
    json_decref(frame);
}

static char *slurp(size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char *text;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    text = calloc(1, (size_t)st.st_size + 1);
    assert_non_null(text);
    *n = (size_t)read(fd, text, (size_t)st.st_size);
    (void)close(fd);
    return text;
}

static void spit(const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    (void)close(fd);
}

static void what_was_written_is_read_again(void **state)
{
    char a[ULID_LEN + 1], b[ULID_LEN + 1];
    struct record *r = must_open();
    struct err e = ERR_INIT;
    struct rec *x;
    json_t *frame;

    (void)state;
    new_ulid(a);
    new_ulid(b);
    x = intend(r, a);
    assert_int_equal(record_sending(r, x, &e), 0);
    keep(r, x, ok_frame(a, 77));
    assert_int_equal(record_alias(r, x, 77, 1700000001, &e), 0);
    assert_int_equal(record_ended(r, x, "COMPLETED", &e), 0);
    assert_int_equal(record_finished(r, x, &e), 0);
    assert_int_equal(record_act(r, x, a, "olga", "log", &e), 0);
    (void)intend(r, b);
    assert_true(record_pending(r));
    assert_int_equal(record_flush(r, true, &e), 0);
    assert_false(record_unsynced(r));
    record_close(r);

    r = must_open();
    assert_int_equal(record_count(r), 2);
    x = record_find(r, a);
    assert_non_null(x);
    assert_string_equal(x->actor, "alice");
    assert_string_equal(x->account, "ann");
    assert_string_equal(x->workflow, "toy");
    assert_int_equal(x->uid, 1234);
    assert_int_equal(x->gpus, 8);
    assert_int_equal(x->args_sha256[31], 0xab);
    assert_int_equal(x->job_id, 77);
    assert_int_equal(x->claimed_id, 77);
    assert_int_equal(x->submit_time, 1700000001);
    assert_true(x->has_result && x->ended && x->finished && x->has_script);
    frame = record_answer(r, x, &e);
    assert_non_null(frame);
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(frame, "result"), "job_id")),
                     77);
    json_decref(frame);
    x = record_find(r, b);
    assert_false(x->has_result);
    assert_true(x->maybe_sent); /* never "surely not sent" after a crash */
    assert_null(record_answer(r, x, &e));
    assert_ptr_equal(record_open_first(r), x);
    assert_null(x->open_next);
    record_close(r);
}

static void a_ulid_has_one_intent(void **state)
{
    char a[ULID_LEN + 1];
    struct record *r = must_open();
    struct rec_intent in = {.ulid = a,
                            .request = a,
                            .actor = "bob",
                            .account = "bea",
                            .workflow = "toy",
                            .uid = 4,
                            .generation = "00"};
    json_t *none = json_array();
    struct err e = ERR_INIT;
    struct rec *x = NULL;

    (void)state;
    new_ulid(a);
    (void)intend(r, a);
    in.secret_names = none;
    assert_int_equal(record_intent(r, &in, &x, &e), -1);
    assert_string_equal(e.code, "record_known");
    json_decref(none);
    assert_string_equal(record_find(r, a)->actor, "alice");
    record_close(r);
    r = must_open(); /* nothing of the refused line is in the file */
    assert_int_equal(record_count(r), 1);
    record_close(r);
}

static void only_a_sure_no_leaves_no_job(void **state)
{
    static const struct {
        const char *stage;
        enum err_class class;
        bool maybe;
    } rows[] = {
        {"none", ERR_UNAVAILABLE, false}, {"init", ERR_UNAVAILABLE, false},
        {"init", ERR_SLURM, false},       {"sending", ERR_SLURM, false},
        {"sending", ERR_UNKNOWN, true},   {"sending", ERR_UNAVAILABLE, true},
        {"sending", ERR_INTERNAL, true},
    };
    struct record *r = must_open();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char a[ULID_LEN + 1];
        struct rec *x;

        new_ulid(a);
        x = intend(r, a);
        keep(r, x, bad_frame(a, rows[i].stage, rows[i].class));
        assert_int_equal(x->maybe_sent, rows[i].maybe);
        assert_int_equal(x->is_open, rows[i].maybe);
    }
    record_close(r);
}

static void a_requeue_reopens_an_ended_job(void **state)
{
    char a[ULID_LEN + 1];
    struct record *r = must_open();
    struct err e = ERR_INIT;
    struct rec *x;

    (void)state;
    new_ulid(a);
    x = intend(r, a);
    assert_int_equal(record_alias(r, x, 5, 100, &e), 0);
    assert_int_equal(record_ended(r, x, "FAILED", &e), 0);
    assert_false(x->is_open);
    assert_int_equal(record_alias(r, x, 5, 200, &e), 0);
    assert_false(x->ended);
    assert_true(x->is_open);
    record_close(r);
}

/* Three lines: start (at open: none), so intent, sending, result. */
static void make_three(void)
{
    char a[ULID_LEN + 1];
    struct record *r = must_open();
    struct err e = ERR_INIT;
    struct rec *x;

    new_ulid(a);
    x = intend(r, a);
    assert_int_equal(record_sending(r, x, &e), 0);
    keep(r, x, ok_frame(a, 9));
    record_close(r);
}

static void any_changed_byte_breaks_the_chain(void **state)
{
    size_t n, i;
    char *text;

    (void)state;
    make_three();
    text = slurp(&n);
    for (i = 0; i < n; i += 13) {
        char was = text[i];

        if (was == '\n')
            continue;
        text[i] = was == '0' ? '1' : '0';
        spit(text, n);
        refuses_to_open("record_broken");
        text[i] = was;
    }
    spit(text, n);
    record_close(must_open());
    free(text);
}

static void a_missing_or_moved_line_breaks_the_chain(void **state)
{
    size_t n;
    char *text, *second, *third;

    (void)state;
    make_three();
    text = slurp(&n);
    second = strchr(text, '\n') + 1;
    third = strchr(second, '\n') + 1;
    spit(second, n - (size_t)(second - text));
    refuses_to_open("record_broken");
    memmove(second, third, n - (size_t)(third - text) + 1);
    spit(text, strlen(text));
    refuses_to_open("record_broken");
    free(text);
}

static void a_torn_tail_is_cut_and_noted(void **state)
{
    size_t n, cut, lines = 0;
    char *text, *again;

    (void)state;
    make_three();
    text = slurp(&n);
    for (cut = 1; cut < 200; cut += 40) {
        struct record *r;

        spit(text, n - cut);
        r = must_open();
        assert_int_equal(record_count(r), 1);
        assert_false(record_open_first(r)->has_result);
        record_close(r);
        again = slurp(&lines);
        assert_non_null(strstr(again, "\"kind\":\"cut\""));
        free(again);
        record_close(must_open()); /* and the chain goes on behind it */
    }
    free(text);
}

static void zeros_at_the_end_are_a_torn_tail(void **state)
{
    size_t n;
    char *text, *more;
    struct record *r;

    (void)state;
    make_three();
    text = slurp(&n);
    more = calloc(1, n + 4096);
    assert_non_null(more);
    memcpy(more, text, n);
    spit(more, n + 4096);
    r = must_open();
    assert_true(record_open_first(r)->has_result);
    record_close(r);
    free(more);
    free(text);
}

static void there_is_one_spawner_a_record(void **state)
{
    struct record *r = must_open();

    (void)state;
    refuses_to_open("record_in_use");
    record_close(r);
}

static void it_is_private(void **state)
{
    struct stat st;

    (void)state;
    record_close(must_open());
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* RLIMIT_FSIZE stands for a full disk: a short write, then EFBIG. */
static void a_failed_write_stops_everything_and_leaves_a_good_file(void **state)
{
    char a[ULID_LEN + 1];
    struct rlimit was, small;
    struct err e = ERR_INIT;
    struct record *r;
    struct rec *x = NULL;
    size_t n;
    char *text;

    (void)state;
    make_three();
    text = slurp(&n);
    free(text);
    r = must_open();
    new_ulid(a);
    x = intend(r, a);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = n + 50;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(record_flush(r, true, &e), -1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_string_equal(e.code, "record_failed");
    err_clear(&e);
    assert_int_equal(record_sending(r, x, &e), -1);
    assert_string_equal(e.code, "record_failed");
    assert_int_equal(record_flush(r, true, &e), -1);
    record_close(r);
    r = must_open();
    assert_int_equal(record_count(r), 1);
    record_close(r);
}

static void many_are_found(void **state)
{
    static char v[5000][ULID_LEN + 1];
    struct record *r = must_open();
    struct err e = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < 5000; i++) {
        new_ulid(v[i]);
        (void)intend(r, v[i]);
        if (i % 64 == 0)
            assert_int_equal(record_flush(r, false, &e), 0);
    }
    record_close(r);
    r = must_open();
    assert_int_equal(record_count(r), 5000);
    for (size_t i = 0; i < 5000; i++)
        assert_string_equal(record_find(r, v[i])->ulid, v[i]);
    new_ulid(v[0]);
    assert_null(record_find(r, v[0]));
    record_close(r);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_written_is_read_again),
        CASE(a_ulid_has_one_intent),
        CASE(only_a_sure_no_leaves_no_job),
        CASE(a_requeue_reopens_an_ended_job),
        CASE(any_changed_byte_breaks_the_chain),
        CASE(a_missing_or_moved_line_breaks_the_chain),
        CASE(a_torn_tail_is_cut_and_noted),
        CASE(zeros_at_the_end_are_a_torn_tail),
        CASE(there_is_one_spawner_a_record),
        CASE(it_is_private),
        CASE(a_failed_write_stops_everything_and_leaves_a_good_file),
        CASE(many_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
