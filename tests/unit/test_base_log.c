/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE_BYTES = 4096 };

static int saved_stderr = -1, file = -1;
static char text[4 * LINE_BYTES];

static void catch_begin(void)
{
    file = memfd_create("log", MFD_CLOEXEC);
    saved_stderr = dup(STDERR_FILENO);
    assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
}

/* What was written to stderr; each line must be strict JSON. */
static json_t *catch_end(void)
{
    struct err e = ERR_INIT;
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    json_t *v;

    (void)dup2(saved_stderr, STDERR_FILENO);
    (void)close(saved_stderr);
    (void)close(file);
    assert_true(n >= 0);
    text[n] = '\0';
    if (n == 0)
        return NULL;
    assert_int_equal(text[n - 1], '\n');
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    assert_true(n <= LINE_BYTES);
    v = json_parse(text, (size_t)n, sizeof(text), &e);
    if (v == NULL)
        fail_msg("%s: %s", e.text, text);
    return v;
}

static const char *str(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

static void one_line_an_event(void **state)
{
    json_t *v;
    int64_t t;

    (void)state;
    log_init("sluiced", LOG_INFO_);
    catch_begin();
    log_event(LOG_WARN_, "started", "req1", "listen", "x:1", "n", "5", NULL);
    v = catch_end();
    assert_string_equal(str(v, "level"), "warn");
    assert_string_equal(str(v, "program"), "sluiced");
    assert_string_equal(str(v, "event"), "started");
    assert_string_equal(str(v, "request"), "req1");
    assert_string_equal(str(v, "listen"), "x:1");
    assert_string_equal(str(v, "n"), "5");
    assert_int_equal(clock_parse(str(v, "at"), &t), 0);
    assert_null(json_object_get(v, "cut"));
    json_decref(v);
}

static void absent_values(void **state)
{
    json_t *v;

    (void)state;
    catch_begin();
    log_event(LOG_INFO_, "x", NULL, "none", NULL, "last", "z", NULL);
    v = catch_end();
    assert_null(json_object_get(v, "request"));
    assert_string_equal(str(v, "none"), "");
    assert_string_equal(str(v, "last"), "z");
    json_decref(v);
}

static void low_levels_are_dropped(void **state)
{
    (void)state;
    log_init("t", LOG_WARN_);
    catch_begin();
    log_event(LOG_DEBUG_, "x", NULL, NULL);
    log_event(LOG_INFO_, "x", NULL, NULL);
    assert_null(catch_end());
    log_init("t", LOG_DEBUG_);
    catch_begin();
    log_event(LOG_DEBUG_, "x", NULL, NULL);
    json_decref(catch_end());
}

/* A job name may hold a newline and a forged line, ESC, or bytes of no text. */
static void values_are_cleaned(void **state)
{
    json_t *v;

    (void)state;
    catch_begin();
    log_event(LOG_INFO_, "x", "r\n\"}", "v",
              "a\n{\"b\":1}\x1b[2J\x7f\t\\ \xc2\x9b"
              "31m \xff \xe4\xbd\xa0 \xed\xa0\x80",
              NULL);
    v = catch_end();
    assert_string_equal(str(v, "request"), "r?\"}");
    assert_string_equal(str(v, "v"),
                        "a?{\"b\":1}?[2J??\\ ?31m \xef\xbf\xbd \xe4\xbd\xa0 "
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    json_decref(v);
}

static void long_values_are_cut(void **state)
{
    char big[9000];
    json_t *v;
    size_t i;

    (void)state;
    for (i = 0; i + 3 < sizeof(big); i += 3)
        memcpy(big + i, "\xe4\xbd\xa0", 3);
    big[i] = '\0';
    catch_begin();
    log_event(LOG_INFO_, "x", NULL, "a", big, "b", "kept", NULL);
    v = catch_end();
    assert_true(json_is_true(json_object_get(v, "cut")));
    assert_int_equal(strlen(str(v, "a")), 1500);
    assert_string_equal(str(v, "b"), "kept");
    json_decref(v);
}

/* Whatever is passed, the line is whole JSON of at most PIPE_BUF bytes. */
static void the_line_is_never_broken(void **state)
{
    static const char *const fills[] = {"a", "\"", "\xff", "\xc3\xa9", "\n"};
    char big[4000];
    size_t f, n, i, k;
    json_t *v;

    (void)state;
    for (f = 0; f < 5; f++) {
        k = strlen(fills[f]);
        for (n = 3000; n < 4000; n += 7) {
            for (i = 0; i + k <= n; i += k)
                memcpy(big + i, fills[f], k);
            big[i] = '\0';
            catch_begin();
            log_event(LOG_INFO_, "x", NULL, "a", big, "b", big + n / 2, "c",
                      big, "d", "e", "f", "g", NULL);
            v = catch_end();
            assert_non_null(v);
            json_decref(v);
        }
    }
}

static void long_keys_are_left_out(void **state)
{
    char key[66];
    json_t *v;

    (void)state;
    memset(key, 'k', 65);
    key[65] = '\0';
    catch_begin();
    log_event(LOG_INFO_, "x", NULL, key, "v", NULL);
    v = catch_end();
    assert_null(json_object_get(v, key));
    assert_true(json_is_true(json_object_get(v, "cut")));
    json_decref(v);
}

static void errors_are_spelled_out(void **state)
{
    struct err e = ERR_INIT;
    json_t *v;

    (void)state;
    (void)err_sys(&e, ERR_UNAVAILABLE, ENOSPC, "db_full", "insert");
    (void)err_at(&e, "/a");
    catch_begin();
    log_err("write", "r", &e);
    v = catch_end();
    assert_string_equal(str(v, "level"), "error");
    assert_string_equal(str(v, "event"), "write");
    assert_string_equal(str(v, "class"), "unavailable");
    assert_string_equal(str(v, "code"), "db_full");
    assert_string_equal(str(v, "sys"), "28");
    assert_string_equal(str(v, "text"), "insert: No space left on device");
    assert_string_equal(str(v, "pointer"), "/a");
    json_decref(v);
}

static void errno_is_kept(void **state)
{
    struct err e = ERR_INIT;
    int sys;

    (void)state;
    catch_begin();
    (void)close(STDERR_FILENO);
    errno = ENOTTY;
    log_event(LOG_ERROR_, "x", NULL, NULL);
    log_err("x", NULL, &e);
    sys = errno;
    (void)catch_end();
    assert_int_equal(sys, ENOTTY);
}

static void gate_opens_once(void **state)
{
    struct log_gate g = {0, 0}, always = {0, 0};
    int64_t until;
    int i;

    (void)state;
    assert_int_equal(log_gate_open(&g, 100), 1);
    for (i = 0; i < 5; i++)
        assert_int_equal(log_gate_open(&g, 100), 0);
    assert_true(g.dropped == 5);
    until = clock_mono_ms() + 110;
    while (clock_left_ms(until) > 0)
        (void)usleep(1000);
    assert_int_equal(log_gate_open(&g, 100), 1);
    assert_int_equal(log_gate_open(&g, 100), 0);
    for (i = 0; i < 5; i++)
        assert_int_equal(log_gate_open(&always, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_an_event),
        cmocka_unit_test(absent_values),
        cmocka_unit_test(low_levels_are_dropped),
        cmocka_unit_test(values_are_cleaned),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(the_line_is_never_broken),
        cmocka_unit_test(long_keys_are_left_out),
        cmocka_unit_test(errors_are_spelled_out),
        cmocka_unit_test(errno_is_kept),
        cmocka_unit_test(gate_opens_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
