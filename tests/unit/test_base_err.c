/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"

#include <errno.h>
#include <string.h>

static void first_error_is_kept(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    assert_false(err_is_set(&e));
    assert_int_equal(err_set(&e, ERR_DENIED, "no_role", "role %d", 7), -1);
    assert_int_equal(err_set(&e, ERR_INVALID, "later", "later"), -1);
    assert_int_equal(err_sys(&e, ERR_INVALID, EIO, "later", "later"), -1);
    assert_int_equal(err_nomem(&e), -1);
    assert_true(err_is_set(&e));
    assert_int_equal(e.class, ERR_DENIED);
    assert_string_equal(e.code, "no_role");
    assert_string_equal(e.text, "role 7");
    assert_int_equal(e.sys, 0);
}

static void first_pointer_is_kept(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(err_at(&e, "/a/b"), -1);
    assert_int_equal(err_at(&e, "/c"), -1);
    assert_string_equal(e.pointer, "/a/b");
    err_clear(&e);
    assert_string_equal(e.pointer, "");
    assert_false(err_is_set(&e));
}

static void null_err_is_fine(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_DENIED, "x", "x"), -1);
    assert_int_equal(err_sys(NULL, ERR_DENIED, EIO, "x", "x"), -1);
    assert_int_equal(err_nomem(NULL), -1);
    assert_int_equal(err_at(NULL, "/x"), -1);
    assert_false(err_is_set(NULL));
    err_clear(NULL);
}

static void system_error_is_described(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    (void)err_sys(&e, ERR_UNAVAILABLE, ENOENT, "file_open", "open %s", "it");
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.text, "open it: No such file or directory");
    err_clear(&e);
    /* Slurm's errnos are not the C library's. */
    (void)err_sys(&e, ERR_SLURM, 2015, "slurm_refused", "submit");
    assert_int_equal(e.sys, 2015);
    assert_string_equal(e.text, "submit: error 2015");
}

static void out_of_memory(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(err_nomem(&e), -1);
    assert_int_equal(e.class, ERR_INTERNAL);
    assert_string_equal(e.code, "no_memory");
}

/* The text is cut before a character, never within one. */
static void long_text_stays_utf8(void **state)
{
    char text[2 * ERR_TEXT_MAX];
    size_t shift, i;

    (void)state;
    for (shift = 0; shift < 4; shift++) {
        struct err e = ERR_INIT;

        memset(text, 'a', shift);
        for (i = shift; i + 4 < sizeof(text); i += 4)
            memcpy(text + i, "\xf0\x9f\x98\x80", 4);
        text[i] = '\0';
        (void)err_set(&e, ERR_INVALID, "x", "%s", text);
        assert_true(strlen(e.text) > ERR_TEXT_MAX - 5);
        assert_true(strlen(e.text) < ERR_TEXT_MAX);
        assert_true(json_utf8_valid(e.text, strlen(e.text)));
        assert_null(strchr(e.text, '?'));
        (void)err_at(&e, text);
        assert_true(json_utf8_valid(e.pointer, strlen(e.pointer)));
        assert_true(strlen(e.pointer) > ERR_POINTER_MAX - 5);
    }
}

static void foreign_bytes_become_question_marks(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    (void)err_set(&e, ERR_INVALID, "x",
                  "a\xff"
                  "b\xc3"
                  "c\xe4\xbd");
    assert_string_equal(e.text, "a?b?c??");
}

static void suffix_of_a_full_text_is_dropped(void **state)
{
    char text[ERR_TEXT_MAX];
    struct err e = ERR_INIT;

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)err_sys(&e, ERR_INVALID, EIO, "x", "%s", text);
    assert_string_equal(e.text, text);
}

static void long_code_is_cut(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    (void)err_set(&e, ERR_INVALID,
                  "a_code_that_is_much_too_long_for_the_field_of_the_struct",
                  "x");
    assert_int_equal(strlen(e.code), ERR_CODE_MAX - 1);
}

static void class_words_come_back(void **state)
{
    int i;

    (void)state;
    for (i = ERR_NONE; i <= ERR_INTERNAL; i++)
        assert_int_equal(err_class_parse(err_class_name((enum err_class)i)), i);
    assert_string_equal(err_class_name(ERR_NOT_FOUND), "not_found");
    assert_int_equal(err_class_parse("no such word"), ERR_INTERNAL);
    assert_int_equal(err_class_parse(""), ERR_INTERNAL);
    assert_int_equal(err_class_parse(NULL), ERR_INTERNAL);
    assert_string_equal(err_class_name((enum err_class)99), "internal");
    assert_string_equal(err_class_name((enum err_class) - 1), "internal");
}

/* A set err must count as set, whatever the class was. */
static void class_none_is_still_an_error(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    (void)err_set(&e, ERR_NONE, "x", "x");
    assert_true(err_is_set(&e));
    assert_int_equal(e.class, ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_is_kept),
        cmocka_unit_test(first_pointer_is_kept),
        cmocka_unit_test(null_err_is_fine),
        cmocka_unit_test(system_error_is_described),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(long_text_stays_utf8),
        cmocka_unit_test(foreign_bytes_become_question_marks),
        cmocka_unit_test(suffix_of_a_full_text_is_dropped),
        cmocka_unit_test(long_code_is_cut),
        cmocka_unit_test(class_words_come_back),
        cmocka_unit_test(class_none_is_still_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
