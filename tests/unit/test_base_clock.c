/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void now_is_now(void **state)
{
    int64_t a = (int64_t)time(NULL), b = clock_now(), c = clock_now_ms();
    int64_t m = clock_mono_ms();

    (void)state;
    assert_true(b - a <= 2 && b >= a - 1);
    assert_true(c / 1000 - b <= 2 && c / 1000 >= b);
    assert_true(clock_mono_ms() >= m);
}

static void left(void **state)
{
    int64_t now = clock_mono_ms();
    int ms = clock_left_ms(now + 5000);

    (void)state;
    assert_in_range(ms, 4000, 5000);
    assert_int_equal(clock_left_ms(now - 1), 0);
    assert_int_equal(clock_left_ms(0), 0);
    assert_int_equal(clock_left_ms(INT64_MIN), 0);
    assert_int_equal(clock_left_ms(INT64_MAX), INT_MAX);
}

static void reads(const char *s, int64_t want)
{
    char back[CLOCK_TEXT_MAX];
    int64_t t = -4711;

    assert_int_equal(clock_parse(s, &t), 0);
    assert_true(t == want);
    clock_format(t, back);
    assert_string_equal(back, s);
}

static void both_ways(void **state)
{
    (void)state;
    reads("1970-01-01T00:00:00Z", 0);
    reads("1969-12-31T23:59:59Z", -1);
    reads("2026-11-30T10:00:00Z", 1796032800);
    reads("2000-02-29T23:59:59Z", 951868799);
    reads("2024-02-29T00:00:00Z", 1709164800);
    reads("2038-01-19T03:14:08Z", INT64_C(2147483648));
    reads("9999-12-31T23:59:59Z", INT64_C(253402300799));
    reads("0000-01-01T00:00:00Z", INT64_C(-62167219200));
}

static void malformed(void **state)
{
    static const char *const bad[] = {
        "",
        "2026-11-30",
        "2026-11-30T10:00:00",
        "2026-11-30T10:00:00z",
        "2026-11-30t10:00:00Z",
        "2026-11-30 10:00:00Z",
        "2026-11-30T10:00:00+00:00",
        "2026-11-30T10:00:00.5Z",
        "2026-11-30T10:00:00Z ",
        " 2026-11-30T10:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2016-12-31T23:59:60Z",
        "+026-01-01T00:00:00Z",
        "-026-01-01T00:00:00Z",
        "12026-01-01T00:00:00Z",
    };
    int64_t t = 4711;
    size_t i;

    (void)state;
    assert_int_equal(clock_parse(NULL, &t), -1);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (clock_parse(bad[i], &t) != -1)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_true(t == 4711);
}

static void absurd_times_fit_the_field(void **state)
{
    char text[CLOCK_TEXT_MAX];

    (void)state;
    clock_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59Z");
    clock_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00Z");
}

/* UTC, whatever the zone of the host is. */
static void local_zone_does_not_matter(void **state)
{
    char text[CLOCK_TEXT_MAX];
    int64_t t;

    (void)state;
    assert_int_equal(setenv("TZ", "Asia/Shanghai", 1), 0);
    tzset();
    clock_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    assert_int_equal(clock_parse("1970-01-02T00:00:00Z", &t), 0);
    assert_true(t == 86400);
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(now_is_now),
        cmocka_unit_test(left),
        cmocka_unit_test(both_ways),
        cmocka_unit_test(malformed),
        cmocka_unit_test(absurd_times_fit_the_field),
        cmocka_unit_test(local_zone_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
