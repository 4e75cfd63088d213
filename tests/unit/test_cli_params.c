/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The client's arguments: typed by the workflow's document.
 */
#include "base/json.h"
#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *workflow(void)
{
    static const char text[] =
        "{\"params\":[{\"name\":\"n\",\"type\":\"integer\",\"list\":null},"
        "{\"name\":\"ok\",\"type\":\"boolean\",\"list\":null},"
        "{\"name\":\"s\",\"type\":\"string\",\"list\":null},"
        "{\"name\":\"many\",\"type\":\"integer\",\"list\":{\"min\":0,"
        "\"max\":4}}]}";
    struct err e = ERR_INIT;
    json_t *o = json_parse(text, strlen(text), sizeof(text), &e);

    assert_non_null(o);
    return o;
}

static void expect(const char *const *args, const char *want)
{
    json_t *w = workflow(), *params = json_object();
    struct err e = ERR_INIT;
    char *got;

    for (; *args != NULL; args++)
        assert_int_equal(param_add(params, w, *args, &e), 0);
    got = json_text(params);
    assert_string_equal(got, want);
    free(got);
    json_decref(params);
    json_decref(w);
}

static void test_types(void **state)
{
    (void)state;
    expect((const char *const[]){"n=2", "ok=true", "s=2", NULL},
           "{\"n\":2,\"ok\":true,\"s\":\"2\"}");
    expect((const char *const[]){"many=1", "many=2", NULL}, "{\"many\":[1,2]}");
    expect((const char *const[]){"s:=[1,{\"a\":null}]", NULL},
           "{\"s\":[1,{\"a\":null}]}");
    /* What is no number stays text: the server says what is wrong. */
    expect((const char *const[]){"n=two", "x=a=b", NULL},
           "{\"n\":\"two\",\"x\":\"a=b\"}");
}

static void test_malformed(void **state)
{
    static const char *const bad[] = {"n",   "=1",     ":=1",
                                      "n:=", "n:=1,2", "n:={"};
    json_t *w = workflow(), *params = json_object();

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = ERR_INIT;

        assert_int_equal(param_add(params, w, bad[i], &e), -1);
        assert_true(err_is_set(&e));
    }
    assert_int_equal(json_object_size(params), 0);
    json_decref(params);
    json_decref(w);
}

static void test_secrets_come_from_files_only(void **state)
{
    json_t *secrets = json_object();
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(secret_add(secrets, "TOKEN=value", &e), -1);
    assert_string_equal(e.code, "secret_form");
    err_clear(&e);
    assert_int_equal(secret_add(secrets, "TOKEN=@/nonexistent", &e), -1);
    assert_int_equal(json_object_size(secrets), 0);
    json_decref(secrets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_secrets_come_from_files_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
