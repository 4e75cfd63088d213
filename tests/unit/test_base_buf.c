/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static void empty_is_a_string(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 10);
    assert_string_equal(buf_str(&b), "");
    assert_true(buf_ok(&b));
    buf_clear(&b);
    buf_clear(&b);
    buf_wipe(&b);
}

static void pieces_add_up(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 1000);
    assert_int_equal(buf_puts(&b, "one "), 0);
    assert_int_equal(buf_putc(&b, '2'), 0);
    assert_int_equal(buf_add(&b, " three", 6), 0);
    assert_int_equal(buf_add(&b, NULL, 0), 0);
    assert_int_equal(buf_printf(&b, " %d%%", 44), 0);
    assert_string_equal(buf_str(&b), "one 2 three 44%");
    assert_int_equal(b.len, 15);
    buf_clear(&b);
}

static void max_is_exact(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 4);
    assert_int_equal(buf_puts(&b, "1234"), 0);
    assert_int_equal(buf_add(&b, "", 0), 0);
    assert_int_equal(buf_putc(&b, '5'), -1);
    assert_false(buf_ok(&b));
    assert_string_equal(buf_str(&b), "1234");
    buf_clear(&b);
    buf_init(&b, 0);
    assert_int_equal(buf_puts(&b, ""), 0);
    assert_int_equal(buf_putc(&b, 'x'), -1);
    buf_clear(&b);
}

/* A gap in the middle would be a different text: after one failure all fail. */
static void failure_is_sticky(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 6);
    assert_int_equal(buf_puts(&b, "abc"), 0);
    assert_int_equal(buf_puts(&b, "too long"), -1);
    assert_int_equal(buf_puts(&b, "d"), -1);
    assert_int_equal(buf_printf(&b, "%d", 1), -1);
    assert_string_equal(buf_str(&b), "abc");
    assert_null(buf_take(&b, NULL));
    buf_reset(&b);
    assert_true(buf_ok(&b));
    assert_int_equal(buf_puts(&b, "d"), 0);
    assert_string_equal(buf_str(&b), "d");
    buf_clear(&b);
}

static void clear_keeps_the_maximum(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 3);
    assert_int_equal(buf_puts(&b, "abcd"), -1);
    buf_clear(&b);
    assert_true(buf_ok(&b));
    assert_int_equal(buf_puts(&b, "abc"), 0);
    assert_int_equal(buf_puts(&b, "d"), -1);
    buf_clear(&b);
}

static void printf_over_the_maximum_leaves_the_content(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 8);
    assert_int_equal(buf_puts(&b, "12345"), 0);
    assert_int_equal(buf_printf(&b, "%s", "6789"), -1);
    assert_string_equal(buf_str(&b), "12345");
    buf_clear(&b);
    buf_init(&b, 8);
    assert_int_equal(buf_printf(&b, "%s", "12345678"), 0);
    assert_string_equal(buf_str(&b), "12345678");
    buf_clear(&b);
}

static void take_moves_the_bytes(void **state)
{
    struct buf b;
    size_t n = 99;
    char *p;

    (void)state;
    buf_init(&b, 100);
    assert_int_equal(buf_add(&b, "a\0b", 3), 0);
    p = buf_take(&b, &n);
    assert_non_null(p);
    assert_int_equal(n, 3);
    assert_memory_equal(p, "a\0b", 4);
    free(p);
    assert_string_equal(buf_str(&b), "");
    p = buf_take(&b, &n);
    assert_non_null(p);
    assert_string_equal(p, "");
    assert_int_equal(n, 0);
    free(p);
    assert_int_equal(buf_puts(&b, "again"), 0);
    buf_clear(&b);
}

static void grows_far(void **state)
{
    enum { COUNT = 100000 };
    struct buf b;
    int i;

    (void)state;
    buf_init(&b, COUNT);
    for (i = 0; i < COUNT; i++)
        assert_int_equal(buf_putc(&b, (char)('a' + i % 26)), 0);
    assert_int_equal(buf_putc(&b, 'x'), -1);
    assert_int_equal(strlen(buf_str(&b)), COUNT);
    for (i = 0; i < COUNT; i++)
        assert_int_equal(buf_str(&b)[i], 'a' + i % 26);
    buf_wipe(&b);
    assert_null(b.data);
}

static void huge_lengths_do_not_wrap(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_puts(&b, "abc"), 0);
    assert_int_equal(buf_add(&b, "x", SIZE_MAX), -1);
    buf_reset(&b);
    assert_int_equal(buf_puts(&b, "abc"), 0);
    assert_int_equal(buf_add(&b, "x", SIZE_MAX - 3), -1);
    assert_string_equal(buf_str(&b), "abc");
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_a_string),
        cmocka_unit_test(pieces_add_up),
        cmocka_unit_test(max_is_exact),
        cmocka_unit_test(failure_is_sticky),
        cmocka_unit_test(clear_keeps_the_maximum),
        cmocka_unit_test(printf_over_the_maximum_leaves_the_content),
        cmocka_unit_test(take_moves_the_bytes),
        cmocka_unit_test(grows_far),
        cmocka_unit_test(huge_lengths_do_not_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
