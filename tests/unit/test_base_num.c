/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/num.h"

enum { UNTOUCHED = 4711 };

static void takes(const char *s, int64_t want)
{
    int64_t v = UNTOUCHED;

    assert_int_equal(num_parse(s, INT64_MIN, INT64_MAX, &v), 0);
    assert_true(v == want);
}

static void refuses(const char *s)
{
    int64_t v = UNTOUCHED;

    if (num_parse(s, INT64_MIN, INT64_MAX, &v) != -1)
        fail_msg("\"%s\" was taken", s == NULL ? "(null)" : s);
    assert_true(v == UNTOUCHED);
}

static void whole_numbers(void **state)
{
    (void)state;
    takes("0", 0);
    takes("7", 7);
    takes("-1", -1);
    takes("1234567890123", INT64_C(1234567890123));
    takes("9223372036854775807", INT64_MAX);
    takes("-9223372036854775808", INT64_MIN);
}

static void malformed_numbers(void **state)
{
    static const char *const bad[] = {
        "",
        "-",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "01",
        "00",
        "-0",
        "-01",
        "--1",
        "1.0",
        "1e3",
        "0x10",
        "1,000",
        "1_000",
        "\t1",
        "1-",
        "a",
        "1a",
        "9223372036854775808",
        "\xd9\xa1",
        "-9223372036854775809",
        "99999999999999999999999999",
    };
    size_t i;

    (void)state;
    refuses(NULL);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuses(bad[i]);
}

static void bounds_are_inclusive(void **state)
{
    int64_t v = UNTOUCHED;

    (void)state;
    assert_int_equal(num_parse("1", 1, 3, &v), 0);
    assert_int_equal(num_parse("3", 1, 3, &v), 0);
    assert_int_equal(num_parse("0", 1, 3, &v), -1);
    assert_int_equal(num_parse("4", 1, 3, &v), -1);
    assert_true(v == 3);
}

static void checked_arithmetic(void **state)
{
    int64_t v = UNTOUCHED;

    (void)state;
    assert_int_equal(num_add(INT64_MAX, 1, &v), -1);
    assert_int_equal(num_add(INT64_MIN, -1, &v), -1);
    assert_int_equal(num_mul(INT64_MAX, 2, &v), -1);
    assert_int_equal(num_mul(INT64_MIN, -1, &v), -1);
    assert_true(v == UNTOUCHED);
    assert_int_equal(num_add(INT64_MAX, INT64_MIN, &v), 0);
    assert_true(v == -1);
    assert_int_equal(num_mul(-3, 4, &v), 0);
    assert_true(v == -12);
    v = 5;
    assert_int_equal(num_add(v, v, &v), 0);
    assert_true(v == 10);
}

static void lasts(const char *s, int64_t want)
{
    int64_t v = UNTOUCHED;

    assert_int_equal(num_parse_duration(s, INT64_MAX, &v), 0);
    assert_true(v == want);
}

/* The six forms of sbatch(1). */
static void durations(void **state)
{
    (void)state;
    lasts("0", 0);
    lasts("30", 30 * 60);
    lasts("90", 90 * 60);
    lasts("02:30", 150);
    lasts("120:00", 120 * 60);
    lasts("01:30:00", 5400);
    lasts("48:00:00", 48 * 3600);
    lasts("2-12", 2 * 86400 + 12 * 3600);
    lasts("2-12:30", 2 * 86400 + 12 * 3600 + 30 * 60);
    lasts("1-00:00:01", 86401);
    lasts("0-0", 0);
    lasts("999999999-00", INT64_C(999999999) * 86400);
}

static void malformed_durations(void **state)
{
    static const char *const bad[] = {
        "",
        ":",
        "-",
        "1:",
        ":1",
        "1-",
        "-1",
        "1--1",
        "1-2-3",
        "1:2:3:4",
        "1-1:1:1:1",
        "1:60",
        "1:00:60",
        "1:60:00",
        "1-24",
        "1-0:60",
        "1-0:0:60",
        "1h",
        " 1",
        "1 ",
        "+1",
        "1.5",
        "UNLIMITED",
        "INFINITE",
        "1000000000",
        "1000000000-0",
        "99999999999999999999",
    };
    int64_t v = UNTOUCHED;
    size_t i;

    (void)state;
    assert_int_equal(num_parse_duration(NULL, INT64_MAX, &v), -1);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (num_parse_duration(bad[i], INT64_MAX, &v) != -1)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_true(v == UNTOUCHED);
}

static void duration_maximum(void **state)
{
    int64_t v = UNTOUCHED;

    (void)state;
    assert_int_equal(num_parse_duration("01:00:00", 3600, &v), 0);
    assert_int_equal(num_parse_duration("01:00:01", 3600, &v), -1);
    assert_true(v == 3600);
}

static void bytes(void **state)
{
    int64_t v = UNTOUCHED;

    (void)state;
    assert_int_equal(num_parse_bytes("0", INT64_MAX, &v), 0);
    assert_true(v == 0);
    assert_int_equal(num_parse_bytes("512", INT64_MAX, &v), 0);
    assert_true(v == 512);
    assert_int_equal(num_parse_bytes("64K", INT64_MAX, &v), 0);
    assert_true(v == 65536);
    assert_int_equal(num_parse_bytes("10M", INT64_MAX, &v), 0);
    assert_true(v == 10 * 1048576);
    assert_int_equal(num_parse_bytes("176G", INT64_MAX, &v), 0);
    assert_true(v == INT64_C(176) << 30);
    assert_int_equal(num_parse_bytes("2T", INT64_MAX, &v), 0);
    assert_true(v == INT64_C(2) << 40);
    assert_int_equal(num_parse_bytes("1K", 1024, &v), 0);
    assert_int_equal(num_parse_bytes("1025", 1024, &v), -1);
    assert_true(v == 1024);
}

static void malformed_bytes(void **state)
{
    static const char *const bad[] = {
        "",
        "K",
        "-1",
        "-1K",
        "1k",
        "1KB",
        "1Ki",
        "1P",
        "1 K",
        "01K",
        "1.5G",
        "1KK",
        "K1",
        "8388608T",
        "9223372036854775807K",
        "99999999999999999999999999999999",
    };
    int64_t v = UNTOUCHED;
    size_t i;

    (void)state;
    assert_int_equal(num_parse_bytes(NULL, INT64_MAX, &v), -1);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (num_parse_bytes(bad[i], INT64_MAX, &v) != -1)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_true(v == UNTOUCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(malformed_numbers),
        cmocka_unit_test(bounds_are_inclusive),
        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(durations),
        cmocka_unit_test(malformed_durations),
        cmocka_unit_test(duration_maximum),
        cmocka_unit_test(bytes),
        cmocka_unit_test(malformed_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
