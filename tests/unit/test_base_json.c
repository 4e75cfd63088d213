/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { CAP = 4096 };

static json_t *parse(const char *text)
{
    struct err e = ERR_INIT;
    json_t *v = json_parse(text, strlen(text), CAP, &e);

    if (v == NULL)
        fail_msg("%s: %s", e.code, e.text);
    assert_false(err_is_set(&e));
    return v;
}

static void refused(const char *text, size_t n, const char *code)
{
    struct err e = ERR_INIT;

    if (json_parse(text, n, CAP, &e) != NULL)
        fail_msg("\"%.60s\" was taken", text);
    assert_int_equal(e.class, ERR_INVALID);
    if (strcmp(e.code, code) != 0)
        fail_msg("\"%.60s\": %s, not %s (%s)", text, e.code, code, e.text);
    assert_string_not_equal(e.text, "");
}

static void bad(const char *text, const char *code)
{
    refused(text, strlen(text), code);
}

static void good_text(void **state)
{
    json_t *v = parse(" {\"a\": [1, -2, true, null, \"\\u00e9\\ud83d\\ude00\"],"
                      " \"r\": 1.5}\n");
    char *s = json_text(v);

    (void)state;
    assert_string_equal(s, "{\"a\":[1,-2,true,null,\"\xc3\xa9"
                           "\xf0\x9f\x98\x80\"],\"r\":1.5}");
    free(s);
    json_decref(v);
    json_decref(parse("[]"));
}

static void syntax(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "{]",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "[1,]",
        "[01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[NaN]",
        "[Infinity]",
        "nul",
        "5",
        "\"text\"",
        "null",
        "{} x",
        "{}{}",
        "[1]]",
        "{\"a\":1}\x01",
        "[\"\n\"]",
        "[\"\\x\"]",
        "[\"\\ud800\"]",
        "[\"\\udc00\"]",
        "/**/{}",
        "{\"a\" 1}",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        bad(texts[i], "json_syntax");
    refused(NULL, 0, "json_syntax");
}

static void invalid_utf8(void **state)
{
    static const char *const texts[] = {
        "[\"\xff\"]",
        "[\"\xc3\"]",
        "[\"\xc0\xaf\"]",
        "[\"\xe0\x80\xaf\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"\xf4\x90\x80\x80\"]",
        "[\"\xf0\x80\x80\xaf\"]",
        "\xef\xbb\xbf{}",
        "{\"\xff\":1}",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        bad(texts[i], "json_syntax");
}

/* jansson alone would take the last one. */
static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    bad("{\"a\":1,\"a\":1}", "json_duplicate_key");
    bad("[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "json_duplicate_key");
    bad("{\"a\":1,\"\\u0061\":2}", "json_duplicate_key");
}

static void nul_is_refused(void **state)
{
    (void)state;
    bad("[\"a\\u0000b\"]", "json_nul");
    bad("{\"a\\u0000\":1}", "json_nul");
    refused("[\"a\0b\"]", 7, "json_nul");
    refused("{}\0", 3, "json_nul");
    refused("{}\0{", 4, "json_nul");
}

static void size_cap(void **state)
{
    struct err e = ERR_INIT;
    json_t *v = json_parse("[1,2]", 5, 5, &e);

    (void)state;
    assert_non_null(v);
    json_decref(v);
    assert_null(json_parse("[1,2]", 5, 4, &e));
    assert_string_equal(e.code, "json_too_large");
}

static void nested(char *out, int depth)
{
    memset(out, '[', (size_t)depth);
    memset(out + depth, ']', (size_t)depth);
    out[2 * depth] = '\0';
}

static void depth_cap(void **state)
{
    char text[CAP];

    (void)state;
    nested(text, JSON_DEPTH_MAX);
    json_decref(parse(text));
    nested(text, JSON_DEPTH_MAX + 1);
    bad(text, "json_too_deep");
    memset(text, '[', 2000);
    text[2000] = '\0';
    bad(text, "json_too_deep");
    bad("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":"
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}}}}"
        "}}}}",
        "json_too_deep");
}

/* Many containers side by side are not deep; brackets in strings don't count,
 * and a quote behind a backslash does not end the string. */
static void breadth_is_not_depth(void **state)
{
    (void)state;
    json_decref(parse("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],"
                      "[],[],[],[],{},{},{},{}]"));
    json_decref(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[{{{{{{{{{{{{{{{{{{\"]"));
    json_decref(parse("[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[\",\"\\\\\",[]]"));
    bad("[\"\\\\\",[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]", "json_too_deep");
}

static void integers(void **state)
{
    json_t *v = parse("[9223372036854775807,-9223372036854775808]");

    (void)state;
    assert_true(json_integer_value(json_array_get(v, 0)) == INT64_MAX);
    assert_true(json_integer_value(json_array_get(v, 1)) == INT64_MIN);
    json_decref(v);
    bad("[9223372036854775808]", "json_range");
    bad("[-9223372036854775809]", "json_range");
    bad("[1e999]", "json_range");
}

static void error_has(const struct err *e, const char *code,
                      const char *pointer)
{
    assert_int_equal(e->class, ERR_INVALID);
    assert_string_equal(e->code, code);
    assert_string_equal(e->pointer, pointer);
}

static void get_string(void **state)
{
    json_t *o = parse("{\"s\":\"abc\",\"n\":null,\"i\":1,\"u\":\"\"}");
    struct err e = ERR_INIT;
    const char *s = "untouched";

    (void)state;
    assert_int_equal(json_get_str(o, "s", true, 2, &s, "/x", &e), -1);
    error_has(&e, "json_too_large", "/x/s");
    err_clear(&e);
    assert_int_equal(json_get_str(o, "i", true, 9, &s, "", &e), -1);
    error_has(&e, "json_type", "/i");
    err_clear(&e);
    assert_int_equal(json_get_str(o, "n", true, 9, &s, "", &e), -1);
    error_has(&e, "json_missing", "/n");
    err_clear(&e);
    assert_int_equal(json_get_str(o, "none", true, 9, &s, "/a", &e), -1);
    error_has(&e, "json_missing", "/a/none");
    assert_non_null(strstr(e.text, "\"none\""));
    err_clear(&e);
    assert_int_equal(json_get_str(o, "n", false, 9, &s, "", &e), 0);
    assert_int_equal(json_get_str(o, "none", false, 9, &s, "", &e), 0);
    assert_string_equal(s, "untouched");
    assert_int_equal(json_get_str(o, "s", true, 3, &s, "", &e), 0);
    assert_string_equal(s, "abc");
    assert_int_equal(json_get_str(o, "u", true, 0, &s, "", &e), 0);
    assert_string_equal(s, "");
    assert_false(err_is_set(&e));
    json_decref(o);
}

static void get_string_with_nul(void **state)
{
    json_t *o = json_object();
    struct err e = ERR_INIT;
    const char *s = NULL;

    (void)state;
    assert_int_equal(json_put(o, "s", json_stringn("a\0b", 3)), 0);
    assert_int_equal(json_get_str(o, "s", true, 9, &s, "", &e), -1);
    error_has(&e, "json_nul", "/s");
    assert_null(s);
    json_decref(o);
}

static void get_integer(void **state)
{
    json_t *o = parse("{\"i\":5,\"r\":5.0,\"s\":\"5\",\"b\":true}");
    struct err e = ERR_INIT;
    int64_t v = 77;

    (void)state;
    assert_int_equal(json_get_int(o, "i", true, 5, 5, &v, "", &e), 0);
    assert_true(v == 5);
    v = 77;
    assert_int_equal(json_get_int(o, "i", true, 6, 9, &v, "", &e), -1);
    error_has(&e, "json_range", "/i");
    err_clear(&e);
    assert_int_equal(json_get_int(o, "i", true, 0, 4, &v, "", &e), -1);
    error_has(&e, "json_range", "/i");
    err_clear(&e);
    assert_int_equal(json_get_int(o, "r", true, 0, 9, &v, "", &e), -1);
    error_has(&e, "json_type", "/r");
    err_clear(&e);
    assert_int_equal(json_get_int(o, "s", true, 0, 9, &v, "", &e), -1);
    error_has(&e, "json_type", "/s");
    err_clear(&e);
    assert_int_equal(json_get_int(o, "b", true, 0, 9, &v, "", &e), -1);
    error_has(&e, "json_type", "/b");
    err_clear(&e);
    assert_int_equal(json_get_int(o, "x", false, 0, 9, &v, "", &e), 0);
    assert_true(v == 77);
    json_decref(o);
}

static void get_others(void **state)
{
    json_t *o = parse("{\"b\":true,\"o\":{},\"a\":[1,2],\"i\":0}"), *v = NULL;
    struct err e = ERR_INIT;
    bool b = false;

    (void)state;
    assert_int_equal(json_get_bool(o, "b", true, &b, "", &e), 0);
    assert_true(b);
    assert_int_equal(json_get_bool(o, "i", true, &b, "", &e), -1);
    error_has(&e, "json_type", "/i");
    err_clear(&e);
    assert_int_equal(json_get_obj(o, "a", true, &v, "", &e), -1);
    error_has(&e, "json_type", "/a");
    err_clear(&e);
    assert_int_equal(json_get_arr(o, "o", true, 9, &v, "", &e), -1);
    error_has(&e, "json_type", "/o");
    err_clear(&e);
    assert_int_equal(json_get_arr(o, "a", true, 1, &v, "", &e), -1);
    error_has(&e, "json_too_large", "/a");
    err_clear(&e);
    assert_null(v);
    assert_int_equal(json_get_arr(o, "a", true, 2, &v, "", &e), 0);
    assert_int_equal(json_array_size(v), 2);
    assert_int_equal(json_get_obj(o, "o", true, &v, "", &e), 0);
    assert_true(json_is_object(v));
    json_decref(o);
}

static void getters_refuse_what_is_no_object(void **state)
{
    json_t *a = parse("[1]");
    struct err e = ERR_INIT;
    int64_t v = 77;

    (void)state;
    assert_int_equal(json_get_int(a, "x", false, 0, 9, &v, "/p", &e), -1);
    error_has(&e, "json_type", "/p");
    err_clear(&e);
    assert_int_equal(json_get_int(NULL, "x", false, 0, 9, &v, "", &e), -1);
    error_has(&e, "json_type", "");
    assert_true(v == 77);
    json_decref(a);
}

/* A second failure must not lend its pointer to the first. */
static void first_error_keeps_its_pointer(void **state)
{
    json_t *o = parse("{}");
    struct err e = ERR_INIT;
    int64_t v;

    (void)state;
    (void)err_set(&e, ERR_DENIED, "first", "first");
    assert_int_equal(json_get_int(o, "x", true, 0, 9, &v, "", &e), -1);
    assert_string_equal(e.code, "first");
    assert_string_equal(e.pointer, "");
    assert_int_equal(json_get_int(o, "x", true, 0, 9, &v, "", NULL), -1);
    json_decref(o);
}

static void unknown_keys(void **state)
{
    static const char *const keys[] = {"a", "b", NULL};
    static const char *const none[] = {NULL};
    json_t *o = parse("{\"a\":1,\"b\":2}"), *x = parse("{\"a\":1,\"A/~\":2}");
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(json_only(o, keys, "", &e), 0);
    assert_int_equal(json_only(x, keys, "/in", &e), -1);
    error_has(&e, "json_unknown_key", "/in/A~1~0");
    err_clear(&e);
    assert_int_equal(json_only(o, none, "", &e), -1);
    error_has(&e, "json_unknown_key", "/a");
    err_clear(&e);
    assert_int_equal(json_only(NULL, keys, "", &e), -1);
    error_has(&e, "json_type", "");
    json_decref(o);
    json_decref(x);
}

/* A key of the client's goes into the error text: it must not break it. */
static void long_foreign_key_in_the_text(void **state)
{
    static const char *const none[] = {NULL};
    char key[301];
    json_t *o = json_object();
    struct err e = ERR_INIT;
    size_t i;

    (void)state;
    for (i = 0; i < 300; i += 3)
        memcpy(key + i, "\xe4\xbd\xa0", 3);
    key[300] = '\0';
    assert_int_equal(json_put_int(o, key, 1), 0);
    assert_int_equal(json_only(o, none, "", &e), -1);
    assert_true(json_utf8_valid(e.text, strlen(e.text)));
    assert_true(json_utf8_valid(e.pointer, strlen(e.pointer)));
    assert_int_equal((strlen(e.pointer) - 1) % 3, 0);
    json_decref(o);
}

static void pointers(void **state)
{
    char p[32];

    (void)state;
    json_pointer(p, sizeof(p), "", "a");
    assert_string_equal(p, "/a");
    json_pointer(p, sizeof(p), p, "b/c~d");
    assert_string_equal(p, "/a/b~1c~0d");
    json_pointer(p, sizeof(p), "", "");
    assert_string_equal(p, "/");
    memset(p, 'x', sizeof(p));
    json_pointer(p, 0, "", "a");
    assert_int_equal(p[0], 'x');
}

static void pointers_are_cut_safely(void **state)
{
    char p[8];

    (void)state;
    json_pointer(p, sizeof(p), "/abcd", "~");
    assert_string_equal(p, "/abcd/"); /* not "/abcd/~" */
    json_pointer(p, sizeof(p), "", "abcde\xc3\xa9");
    assert_string_equal(p, "/abcde");
    json_pointer(p, sizeof(p), "", "abcdefgh");
    assert_string_equal(p, "/abcdef");
    json_pointer(p, sizeof(p), "/0123456789", "a");
    assert_string_equal(p, "/012345");
    json_pointer(p, 1, "", "a");
    assert_string_equal(p, "");
}

static void canonical(void **state)
{
    json_t *v = parse("{\"b\":[{\"z\":1,\"a\":\"\\u00e9\\n/\"}],\"a\":null,"
                      "\"B\":-1,\"aa\":false}");
    struct err e = ERR_INIT;
    size_t n = 0;
    char *s = json_canonical(v, &n, &e);

    (void)state;
    assert_string_equal(s, "{\"B\":-1,\"a\":null,\"aa\":false,\"b\":"
                           "[{\"a\":\"\xc3\xa9\\n/\",\"z\":1}]}");
    assert_int_equal(n, strlen(s));
    free(s);
    json_decref(v);
}

static void canonical_has_no_reals(void **state)
{
    static const char *const texts[] = {"[1.5]", "[1.0]",
                                        "{\"a\":[{\"b\":1e3}]}"};
    size_t i, n;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct err e = ERR_INIT;
        json_t *v = parse(texts[i]);

        assert_null(json_canonical(v, &n, &e));
        assert_int_equal(e.class, ERR_INTERNAL);
        assert_string_equal(e.code, "json_real");
        json_decref(v);
    }
}

static void canonical_ends_on_a_cycle(void **state)
{
    json_t *a = json_array(), *b = json_array();
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(json_array_append(a, b), 0);
    assert_int_equal(json_array_append(b, a), 0);
    assert_null(json_canonical(a, NULL, &e));
    assert_int_equal(e.class, ERR_INTERNAL);
    err_clear(&e);
    assert_null(json_canonical(NULL, NULL, &e));
    assert_int_equal(e.class, ERR_INTERNAL);
    (void)json_array_clear(b);
    json_decref(a);
    json_decref(b);
}

static void building(void **state)
{
    json_t *o = json_object();
    char *s;
    int r = 0;

    (void)state;
    r |= json_put_str(o, "s", "x");
    r |= json_put_str(o, "n", NULL);
    r |= json_put_int(o, "i", INT64_MIN);
    r |= json_put_bool(o, "b", true);
    r |= json_put_time(o, "t", 1796032800);
    r |= json_put_time(o, "u", 0);
    r |= json_put_time(o, "v", -5);
    assert_int_equal(r, 0);
    s = json_text(o);
    assert_string_equal(s, "{\"s\":\"x\",\"n\":null,\"i\":-9223372036854775808,"
                           "\"b\":true,\"t\":\"2026-11-30T10:00:00Z\","
                           "\"u\":null,\"v\":null}");
    free(s);
    json_decref(o);
}

/* jansson returns NULL for such strings: that must come out as -1, and the
 * value must not leak (the sanitizer looks). */
static void building_fails_cleanly(void **state)
{
    json_t *o = json_object();

    (void)state;
    assert_int_equal(json_put_str(o, "s", "\xff"), -1);
    assert_int_equal(json_put_str(o, "s", "cut \xe4\xbd"), -1);
    assert_int_equal(json_put(o, "s", NULL), -1);
    assert_int_equal(json_put(NULL, "s", json_string("x")), -1);
    assert_int_equal(json_put(o, "\xff", json_string("x")), -1);
    assert_int_equal(json_object_size(o), 0);
    json_decref(o);
}

static void clean(const char *in, size_t n, const char *want)
{
    struct buf b;

    buf_init(&b, 100);
    assert_int_equal(json_utf8_clean(&b, in, n), 0);
    assert_string_equal(buf_str(&b), want);
    buf_clear(&b);
}

static void utf8(void **state)
{
    struct buf small;

    (void)state;
    assert_true(json_utf8_valid("", 0));
    assert_true(json_utf8_valid("a\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80", 10));
    assert_true(
        json_utf8_valid("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", 10));
    assert_false(json_utf8_valid("\xc3", 1));
    assert_false(json_utf8_valid("\xc3\xa9", 1));
    assert_false(json_utf8_valid("\x80", 1));
    assert_false(json_utf8_valid("\xc1\xbf", 2));
    assert_false(json_utf8_valid("\xe0\x9f\xbf", 3));
    assert_false(json_utf8_valid("\xed\xa0\x80", 3));
    assert_false(json_utf8_valid("\xf0\x8f\xbf\xbf", 4));
    assert_false(json_utf8_valid("\xf4\x90\x80\x80", 4));
    assert_false(json_utf8_valid("\xf5\x80\x80\x80", 4));
    clean("ok \xc3\xa9", 5, "ok \xc3\xa9");
    clean("\xff", 1, "\xef\xbf\xbd");
    clean("a\xe4\xbd", 3, "a\xef\xbf\xbd\xef\xbf\xbd");
    clean("\xed\xa0\x80z", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    buf_init(&small, 2);
    assert_int_equal(json_utf8_clean(&small, "a\xff", 2), -1);
    buf_clear(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text),
        cmocka_unit_test(syntax),
        cmocka_unit_test(invalid_utf8),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(nul_is_refused),
        cmocka_unit_test(size_cap),
        cmocka_unit_test(depth_cap),
        cmocka_unit_test(breadth_is_not_depth),
        cmocka_unit_test(integers),
        cmocka_unit_test(get_string),
        cmocka_unit_test(get_string_with_nul),
        cmocka_unit_test(get_integer),
        cmocka_unit_test(get_others),
        cmocka_unit_test(getters_refuse_what_is_no_object),
        cmocka_unit_test(first_error_keeps_its_pointer),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(long_foreign_key_in_the_text),
        cmocka_unit_test(pointers),
        cmocka_unit_test(pointers_are_cut_safely),
        cmocka_unit_test(canonical),
        cmocka_unit_test(canonical_has_no_reals),
        cmocka_unit_test(canonical_ends_on_a_cycle),
        cmocka_unit_test(building),
        cmocka_unit_test(building_fails_cleanly),
        cmocka_unit_test(utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
