/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/yaml.h"

#include <stdlib.h>
#include <string.h>

/* The tree of a text, as compact JSON. */
static void reads(const char *text, const char *want)
{
    struct err e = ERR_INIT;
    json_t *v = yaml_parse(text, strlen(text), "f.yaml", NULL, &e);
    char *s;

    if (v == NULL)
        fail_msg("%s: %s: %s", text, e.code, e.text);
    s = json_text(v);
    assert_string_equal(s, want);
    free(s);
    json_decref(v);
}

static void refused_n(const char *text, size_t n, const char *code)
{
    struct yaml_lines *lines = NULL;
    struct err e = ERR_INIT;

    if (yaml_parse(text, n, "f.yaml", &lines, &e) != NULL)
        fail_msg("\"%.60s\" was taken", text);
    assert_null(lines);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.code, code) != 0)
        fail_msg("\"%.60s\": %s, not %s (%s)", text, e.code, code, e.text);
    assert_memory_equal(e.text, "f.yaml:", 7);
}

static void refused(const char *text, const char *code)
{
    refused_n(text, strlen(text), code);
}

static void structures(void **state)
{
    (void)state;
    reads("a: 1\nb:\n  - x\n  - {c: d, e: [1, 2]}\n  - []\n",
          "{\"a\":1,\"b\":[\"x\",{\"c\":\"d\",\"e\":[1,2]},[]]}");
    reads("--- # begin\na: b\n...\n", "{\"a\":\"b\"}");
    reads("- - 1\n  - 2\n- 3\n", "[[1,2],3]");
    reads("plain\n", "\"plain\"");
    reads("---\n", "null");
    reads("a:\nb: ~\n", "{\"a\":null,\"b\":null}");
    reads("? a\n: 1\n", "{\"a\":1}");
}

static void strings(void **state)
{
    (void)state;
    reads("a: 'it''s'\nb: \"x\\ty\\u00e9\"\n",
          "{\"a\":\"it's\",\"b\":\"x\\ty\xc3\xa9\"}");
    reads("a: |\n  one\n  two\nb: >\n  three\n  four\n",
          "{\"a\":\"one\\ntwo\\n\",\"b\":\"three four\\n\"}");
    reads("a: one\n  two\n", "{\"a\":\"one two\"}");
    reads("a: \xe4\xbd\xa0\xe5\xa5\xbd\n",
          "{\"a\":\"\xe4\xbd\xa0\xe5\xa5\xbd\"}");
    reads("a: \"\"\nb: ''\n", "{\"a\":\"\",\"b\":\"\"}");
}

/* Quoted scalars are strings, whatever they look like. */
static void quotes_make_strings(void **state)
{
    (void)state;
    reads("['1', \"true\", 'null', '~', \"1.5\", '0x1f', '<<', '']",
          "[\"1\",\"true\",\"null\",\"~\",\"1.5\",\"0x1f\",\"<<\",\"\"]");
    reads("a: |-\n  1\nb: >-\n  true\n", "{\"a\":\"1\",\"b\":\"true\"}");
    reads("\"1\": a\n'true': b\n", "{\"1\":\"a\",\"true\":\"b\"}");
}

static void core_schema(void **state)
{
    (void)state;
    reads("[null, Null, NULL, ~, ]", "[null,null,null,null]");
    reads("[true, True, TRUE, false, False, FALSE]",
          "[true,true,true,false,false,false]");
    reads("[0, 7, -7, +7, -0, +0, 9223372036854775807, -9223372036854775808]",
          "[0,7,-7,7,0,0,9223372036854775807,-9223372036854775808]");
}

/* YAML 1.1 made booleans and base-60 numbers of these. */
static void yaml_1_1_words_are_strings(void **state)
{
    (void)state;
    reads("[yes, Yes, YES, no, No, NO, on, On, off, OFF, y, n]",
          "[\"yes\",\"Yes\",\"YES\",\"no\",\"No\",\"NO\",\"on\",\"On\","
          "\"off\",\"OFF\",\"y\",\"n\"]");
    reads("[01:30:00, 1:30, 2026-11-30, 1_000, 1.98.10, tRUE, nULL]",
          "[\"01:30:00\",\"1:30\",\"2026-11-30\",\"1_000\",\"1.98.10\","
          "\"tRUE\",\"nULL\"]");
    reads("[007, 00, -07, 0o18, 0xfg, 0b1, 1-2, '-', +, 1e, e5, 1k, 0o, 0x]",
          "[\"007\",\"00\",\"-07\",\"0o18\",\"0xfg\",\"0b1\",\"1-2\",\"-\","
          "\"+\",\"1e\",\"e5\",\"1k\",\"0o\",\"0x\"]");
    reads("[., .., ..., -., .a, inf, nan, .infx]",
          "[\".\",\"..\",\"...\",\"-.\",\".a\",\"inf\",\"nan\",\".infx\"]");
    reads("on: {off: no}\n", "{\"on\":{\"off\":\"no\"}}");
}

static void floats_are_refused(void **state)
{
    static const char *const texts[] = {
        "1.5",  "-1.5", "+1.5",  "1.",    ".5",   "-.5",   "1e3",   "1E3",
        "1e-3", "1e+3", "1.5e3", "01.5",  ".inf", "-.inf", "+.INF", ".Inf",
        ".nan", ".NaN", ".NAN",  "12e34", "0.0",  "1.e5",
    };
    char line[64];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)snprintf(line, sizeof(line), "a: %s\n", texts[i]);
        refused(line, "yaml_float");
    }
}

static void ambiguous_numbers_are_refused(void **state)
{
    (void)state;
    refused("a: 0o17\n", "yaml_refused");
    refused("a: 0x1F\n", "yaml_refused");
    refused("a: 9223372036854775808\n", "yaml_refused");
    refused("a: -9223372036854775809\n", "yaml_refused");
    refused("a: 99999999999999999999999\n", "yaml_refused");
}

static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    refused("a: 1\nb: 2\na: 1\n", "yaml_duplicate_key");
    refused("x:\n  a: 1\n  'a': 2\n", "yaml_duplicate_key");
    refused("{a: 1, \"\\u0061\": 2}\n", "yaml_duplicate_key");
    refused("'': 1\n\"\": 2\n", "yaml_duplicate_key");
}

static void refused_by_name(void **state)
{
    (void)state;
    refused("a: &x 1\n", "yaml_refused");
    refused("a: &x [1]\n", "yaml_refused");
    refused("a: &x {b: 1}\n", "yaml_refused");
    refused("&x a: 1\n", "yaml_refused");
    refused("a: &x 1\nb: *x\n", "yaml_refused");
    refused("a: *x\n", "yaml_refused");
    refused("*x : 1\n", "yaml_refused");
    refused("a: !!str 1\n", "yaml_refused");
    refused("a: !foo 1\n", "yaml_refused");
    refused("a: ! 1\n", "yaml_refused");
    refused("a: !!set {b}\n", "yaml_refused");
    refused("a: !!seq [b]\n", "yaml_refused");
    refused("!!str a: 1\n", "yaml_refused");
    refused("a: {<<: {b: 1}}\n", "yaml_refused");
    refused("<<: 1\n", "yaml_refused");
    refused("a: 1\n---\nb: 2\n", "yaml_refused");
    refused("a: 1\n...\n---\n", "yaml_refused");
    refused("%YAML 1.1\n---\na: 1\n", "yaml_refused");
    refused("%TAG ! tag:x,2026:\n---\na: 1\n", "yaml_refused");
    refused("a: \"x\\0y\"\n", "yaml_refused");
    refused("\"x\\0y\": 1\n", "yaml_refused");
}

static void keys_are_strings(void **state)
{
    (void)state;
    refused("1: a\n", "yaml_refused");
    refused("true: a\n", "yaml_refused");
    refused("~: a\n", "yaml_refused");
    refused(": a\n", "yaml_syntax");
    refused("1.5: a\n", "yaml_refused");
    refused("0x1f: a\n", "yaml_refused");
    refused("[a]: b\n", "yaml_refused");
    refused("{a: 1}: b\n", "yaml_refused");
    refused("? [a]\n: b\n", "yaml_refused");
    reads("007: a\n", "{\"007\":\"a\"}");
}

static void syntax(void **state)
{
    static const char *const texts[] = {
        "",
        "# only a comment\n",
        "a: [1\n",
        "a: {b\n",
        "a: 'x\n",
        "a: b: c\n",
        "\tx: 1\n",
        "a: \"\\q\"\n",
        "a: @x\n",
        "a: `x\n",
        "- 1\nb: 2\n",
        "a: \"\\ud800\"\n",
        "a: \x01\n",
        "a: \xff\n",
        "a: \xc0\xaf\n",
        "]\n",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        refused(texts[i], "yaml_syntax");
    refused_n("a: x\0y\n", 7, "yaml_syntax");
}

/* UTF-16 is not sniffed. */
static void utf16_is_refused(void **state)
{
    (void)state;
    refused_n("\xff\xfe"
              "a\0:\0 \0b\0\n\0",
              12, "yaml_syntax");
}

static void messages_name_file_and_line(void **state)
{
    static const char text[] = "a: 1\nb:\n  c: 2\n  d: 1.5\n";
    struct err e = ERR_INIT;

    (void)state;
    assert_null(yaml_parse(text, strlen(text), "x/y.yaml", NULL, &e));
    assert_memory_equal(e.text, "x/y.yaml:4: ", 12);
    assert_string_equal(e.pointer, "/b/d");
    err_clear(&e);
    assert_null(yaml_parse("a: 1\nb: [\n", 10, "z", NULL, &e));
    assert_string_equal(e.code, "yaml_syntax");
    assert_memory_equal(e.text, "z:3: ", 5);
}

static void lines_of_keys(void **state)
{
    static const char text[] = "# head\n"
                               "a:\n"
                               "  b: 1\n"
                               "  list:\n"
                               "    - x\n"
                               "    - y/z: |\n"
                               "        text\n"
                               "\n"
                               "c: {d: 1,\n"
                               "    e: 2}\n";
    struct yaml_lines *l = NULL;
    struct err e = ERR_INIT;
    json_t *v = yaml_parse(text, strlen(text), "f", &l, &e);

    (void)state;
    assert_non_null(v);
    assert_int_equal(yaml_line(l, ""), 2);
    assert_int_equal(yaml_line(l, "/a"), 2);
    assert_int_equal(yaml_line(l, "/a/b"), 3);
    assert_int_equal(yaml_line(l, "/a/list"), 4);
    assert_int_equal(yaml_line(l, "/a/list/0"), 5);
    assert_int_equal(yaml_line(l, "/a/list/1"), 6);
    assert_int_equal(yaml_line(l, "/a/list/1/y~1z"), 6);
    assert_int_equal(yaml_line(l, "/c"), 9);
    assert_int_equal(yaml_line(l, "/c/e"), 10);
    assert_int_equal(yaml_line(l, "/none"), 0);
    assert_int_equal(yaml_line(NULL, "/a"), 0);
    assert_int_equal(yaml_line(l, NULL), 0);
    yaml_lines_free(l);
    yaml_lines_free(NULL);
    json_decref(v);
}

static void nested(char *out, int depth, const char *open, const char *close)
{
    int i;

    out[0] = '\0';
    for (i = 0; i < depth; i++)
        memcpy(out + strlen(out), open, strlen(open) + 1);
    for (i = 0; i < depth; i++)
        memcpy(out + strlen(out), close, strlen(close) + 1);
}

static void depth_cap(void **state)
{
    char text[4096];
    struct err e = ERR_INIT;
    json_t *v;

    (void)state;
    nested(text, JSON_DEPTH_MAX, "[", "]");
    v = yaml_parse(text, strlen(text), "f", NULL, &e);
    assert_non_null(v);
    json_decref(v);
    nested(text, JSON_DEPTH_MAX + 1, "[", "]");
    refused(text, "yaml_too_deep");
    nested(text, JSON_DEPTH_MAX + 1, "{a: ", "}");
    refused(text, "yaml_too_deep");
    nested(text, JSON_DEPTH_MAX + 1, "- ", "");
    refused(text, "yaml_too_deep");
}

static void size_cap(void **state)
{
    size_t n = YAML_BYTES_MAX + 1;
    char *text = malloc(n);
    struct err e = ERR_INIT;
    json_t *v;

    (void)state;
    assert_non_null(text);
    memset(text, '#', n);
    memcpy(text, "a: 1\n", 5);
    refused_n(text, n, "yaml_too_large");
    v = yaml_parse(text, n - 1, "f", NULL, &e);
    assert_non_null(v);
    json_decref(v);
    free(text);
}

/* Fill `unit` up to the byte cap and expect a quick no. */
static void quick_no(const char *unit, const char *code)
{
    size_t k = strlen(unit), n = YAML_BYTES_MAX / k * k, i;
    char *text = malloc(n);
    int64_t start;

    assert_non_null(text);
    for (i = 0; i < n; i += k)
        memcpy(text + i, unit, k);
    start = clock_mono_ms();
    refused_n(text, n, code);
    assert_true(clock_mono_ms() - start < 2000);
    free(text);
}

/* 200 KB of '[' takes libyaml 23 s. The later ones hide their opening brackets
 * from the first count behind closing ones in quotes. */
static void bracket_bombs_end_at_once(void **state)
{
    (void)state;
    quick_no("[", "yaml_too_deep");
    quick_no("{", "yaml_too_deep");
    quick_no("[{", "yaml_too_deep");
    quick_no("{a: ", "yaml_too_deep");
    quick_no("[ ']', ", "yaml_too_deep");
    quick_no("[ \"]\", ", "yaml_too_deep");
    quick_no("[ #]\n", "yaml_too_deep");
    quick_no("- ", "yaml_too_deep");
    quick_no("? ", "yaml_refused");
    quick_no("? - ", "yaml_refused");
    quick_no("&a ", "yaml_refused");
    quick_no("*a ", "yaml_refused");
    quick_no("!a ", "yaml_refused");
}

/* Much legal text must not be slow either. */
static void a_full_file_is_quick(void **state)
{
    enum { ITEMS = 20000 };
    struct buf b;
    struct yaml_lines *l = NULL;
    struct err e = ERR_INIT;
    int64_t start;
    json_t *v;
    int i;

    (void)state;
    buf_init(&b, YAML_BYTES_MAX);
    for (i = 0; i < ITEMS; i++)
        assert_int_equal(buf_printf(&b, "k%d: v\n", i), 0);
    start = clock_mono_ms();
    v = yaml_parse(b.data, b.len, "f", &l, &e);
    assert_non_null(v);
    assert_true(clock_mono_ms() - start < 5000);
    assert_int_equal(json_object_size(v), ITEMS);
    assert_int_equal(yaml_line(l, "/k19999"), ITEMS);
    json_decref(v);
    yaml_lines_free(l);
    buf_clear(&b);
}

/* A few brackets in quotes, comments and block text are only text. */
static void brackets_in_text(void **state)
{
    (void)state;
    reads("# [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"
          "a: '[[[[[[[[[[[[[[[[[[[[[['\n"
          "b: x [y\n"
          "c: |\n  ]]]] {{{{{{{{{{{{{{{{{{{{\n",
          "{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[\",\"b\":\"x [y\","
          "\"c\":\"]]]] {{{{{{{{{{{{{{{{{{{{\\n\"}");
}

static void long_keys_do_not_break_the_pointers(void **state)
{
    struct yaml_lines *l = NULL;
    struct err e = ERR_INIT;
    struct buf b;
    json_t *v;
    int i;

    (void)state;
    buf_init(&b, YAML_BYTES_MAX);
    for (i = 0; i < 900; i++)
        (void)buf_putc(&b, 'k');
    assert_int_equal(buf_puts(&b, ":\n  a: 1\n  b: 2\nz: 3\n"), 0);
    v = yaml_parse(b.data, b.len, "f", &l, &e);
    assert_non_null(v);
    assert_int_equal(json_object_size(v), 2);
    assert_int_equal(yaml_line(l, "/z"), 4);
    json_decref(v);
    yaml_lines_free(l);
    buf_clear(&b);
}

static void null_err_and_a_set_err(void **state)
{
    struct err e = ERR_INIT;
    json_t *v;

    (void)state;
    assert_null(yaml_parse("a: [", 4, "f", NULL, NULL));
    (void)err_set(&e, ERR_DENIED, "first", "first");
    assert_null(yaml_parse("a: [", 4, "f", NULL, &e));
    assert_string_equal(e.code, "first");
    v = yaml_parse("a: 1", 4, "f", NULL, &e);
    assert_non_null(v); /* an old error does not spoil a good file */
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures),
        cmocka_unit_test(strings),
        cmocka_unit_test(quotes_make_strings),
        cmocka_unit_test(core_schema),
        cmocka_unit_test(yaml_1_1_words_are_strings),
        cmocka_unit_test(floats_are_refused),
        cmocka_unit_test(ambiguous_numbers_are_refused),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(keys_are_strings),
        cmocka_unit_test(syntax),
        cmocka_unit_test(utf16_is_refused),
        cmocka_unit_test(messages_name_file_and_line),
        cmocka_unit_test(lines_of_keys),
        cmocka_unit_test(depth_cap),
        cmocka_unit_test(size_cap),
        cmocka_unit_test(bracket_bombs_end_at_once),
        cmocka_unit_test(a_full_file_is_quick),
        cmocka_unit_test(brackets_in_text),
        cmocka_unit_test(long_keys_do_not_break_the_pointers),
        cmocka_unit_test(null_err_and_a_set_err),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
