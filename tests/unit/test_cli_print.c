/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the client prints of what others wrote.
 */
#include "base/json.h"
#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void shows(const char *text, const char *want)
{
    json_t *o = json_object();

    assert_int_equal(json_put_str(o, "name", text), 0);
    assert_string_equal(field(o, "name"), want);
    json_decref(o);
}

/* ESC and CSI begin what a terminal obeys; U+009B is CSI in one character. */
static void test_no_control_reaches_the_terminal(void **state)
{
    (void)state;
    shows("a\x1b[2Jb\x7f\n", "a?[2Jb??");
    shows("\xc2\x9b"
          "2J",
          "?2J");
    shows("\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0");
}

/* The same bytes within other characters are text. */
static void test_text_is_left_alone(void **state)
{
    static const char text[] = "\xe4\xbd\x9c\xe4\xb8\x9a \xc3\x9f "
                               "\xf0\x9f\x98\x80 \xc2\xb5";

    (void)state;
    shows(text, text);
}

/* The document is the same one. */
static void test_json_escapes_what_a_terminal_obeys(void **state)
{
    json_t *o = json_object(), *again;
    char text[256] = "";
    FILE *was = stdout;

    (void)state;
    assert_int_equal(
        json_put_str(o, "name", "a\x7f\xc2\x9b \xe4\xbd\x9c\xc2\xb5"), 0);
    stdout = fmemopen(text, sizeof text, "w");
    print_json(o);
    (void)fclose(stdout);
    stdout = was;
    assert_non_null(strstr(text, "a\\u007f\\u009b \xe4\xbd\x9c\xc2\xb5"));
    again = json_loads(text, 0, NULL);
    assert_true(json_equal(again, o));
    json_decref(again);
    json_decref(o);
}

/* A field is cut by bytes; the rest of the character must not be a C1. */
static void test_a_cut_character_is_no_control(void **state)
{
    char text[600];
    json_t *o = json_object();
    const char *got;

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text + 510, "\xc2\x9b", 2);
    text[599] = '\0';
    assert_int_equal(json_put_str(o, "name", text), 0);
    got = field(o, "name");
    for (; *got != '\0'; got++)
        assert_false((unsigned char)*got >= 0x80 &&
                     (unsigned char)*got <= 0x9f);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_control_reaches_the_terminal),
        cmocka_unit_test(test_text_is_left_alone),
        cmocka_unit_test(test_json_escapes_what_a_terminal_obeys),
        cmocka_unit_test(test_a_cut_character_is_no_control),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
