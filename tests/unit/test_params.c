/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/yaml.h"
#include "workflows/workflow.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct allowlist *load(const char *params, const char *secrets)
{
    struct err e = ERR_INIT;
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "version: 1\nworkflows: {w: {template: a.sh, "
                     "resources: {}, params: %s, secrets: %s}}",
                     params, secrets);
    json_t *tree = yaml_parse(text, (size_t)n, "w.yaml", NULL, &e);
    struct allowlist *a = allowlist_new();
    if (tree == NULL || allowlist_add(a, tree, "w.yaml", NULL, &e) != 0)
        fail_msg("%s: %s\n%s", e.code, e.text, text);
    json_decref(tree);
    return a;
}

static json_t *value(const char *text)
{
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (v == NULL)
        fail_msg("%s: %s", text, why.text);
    return v;
}

/* {x: <param>} and {"x": <given>} */
static int check(const char *param, const char *given, json_t **out,
                 struct err *e)
{
    char params[2048];
    (void)snprintf(params, sizeof params, "{x: %s}", param);
    struct allowlist *a = load(params, "[]");
    json_t *in = json_object();
    json_object_set_new(in, "x", value(given));
    int r = params_validate(allowlist_at(a, 0), in, out, e);
    json_decref(in);
    allowlist_free(a);
    return r;
}

static void taken(const char *param, const char *given, const char *normal)
{
    struct err e = ERR_INIT;
    json_t *out = NULL, *again = NULL;
    if (check(param, given, &out, &e) != 0)
        fail_msg("%s of %s: %s %s", given, param, e.code, e.text);
    json_t *x = json_object_get(out, "x");
    char *text = json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL || strcmp(text, normal) != 0)
        fail_msg("%s of %s: %s, not %s", given, param, text, normal);
    /* No real in it, and its own normal form. */
    if (check(param, text, &again, &e) != 0 || !json_equal(out, again))
        fail_msg("%s of %s is not stable", text, param);
    char *canonical = json_canonical(out, NULL, &e);
    assert_non_null(canonical);
    free(canonical);
    free(text);
    json_decref(out);
    json_decref(again);
}

static void refused_at(const char *param, const char *given, const char *code,
                       const char *pointer)
{
    struct err e = ERR_INIT;
    json_t *out = NULL;
    if (check(param, given, &out, &e) == 0)
        fail_msg("%s of %s was taken", given, param);
    assert_null(out);
    assert_int_equal(e.class, ERR_INVALID);
    if (strcmp(e.code, code) != 0 || strcmp(e.pointer, pointer) != 0)
        fail_msg("%s of %s: %s at %s, not %s at %s", given, param, e.code,
                 e.pointer, code, pointer);
}

static void refused(const char *param, const char *given, const char *code)
{
    refused_at(param, given, code, "/params/x");
}

/* --- one table for the validator and the schema -------------------------- */

/* What the schema can't say has SCHEMA_TAKES beside its code. */
static const struct row {
    const char *param, *given, *code, *normal;
    int schema_takes;
} rows[] = {
#define OK(p, g, n)                                                            \
    {                                                                          \
        p, g, NULL, n, 1                                                       \
    }
#define NO(p, g, c)                                                            \
    {                                                                          \
        p, g, c, NULL, 0                                                       \
    }
#define NO_BUT(p, g, c)                                                        \
    {                                                                          \
        p, g, c, NULL, 1                                                       \
    }
#define INT "{type: integer, min: 1, max: 8}"
    OK(INT, "1", "1"),
    OK(INT, "8", "8"),
    NO(INT, "0", "param_range"),
    NO(INT, "9", "param_range"),
    NO(INT, "\"1\"", "param_type"),
    NO(INT, "true", "param_type"),
    NO(INT, "null", "param_type"),
    NO(INT, "[1]", "param_type"),
    NO(INT, "1.5", "param_type"),
    NO_BUT(INT, "1.0", "param_type"), /* an integer to JSON Schema */
    OK("{type: integer}", "-9223372036854775808", "-9223372036854775808"),
    OK("{type: integer}", "9223372036854775807", "9223372036854775807"),
#define NUM "{type: number, min: \"-0.5\", max: 2}"
    OK(NUM, "1", "\"1\""),
    OK(NUM, "0.1", "\"0.1\""),
    OK(NUM, "1e-5", "\"0.00001\""),
    OK(NUM, "\"1.50\"", "\"1.50\""),
    OK(NUM, "\"-0\"", "\"-0\""),
    OK(NUM, "\"2.000\"", "\"2.000\""),
    OK(NUM, "\"-0.50\"", "\"-0.50\""),
    NO(NUM, "3", "param_range"),
    NO(NUM, "2.0000001", "param_range"),
    NO_BUT(NUM, "\"2.0000000000000000001\"", "param_range"),
    NO_BUT(NUM, "\"-0.51\"", "param_range"),
    NO_BUT(NUM, "-0.51", "param_range"), /* no exact way to say -0.5 */
    NO(NUM, "\"1e1\"", "param_type"),
    NO(NUM, "\"+1\"", "param_type"),
    NO(NUM, "\"01\"", "param_type"),
    NO(NUM, "\"1.\"", "param_type"),
    NO(NUM, "\".5\"", "param_type"),
    NO(NUM, "\"\"", "param_type"),
    NO(NUM, "\"-\"", "param_type"),
    NO(NUM, "\"1 \"", "param_type"),
    NO(NUM, "\"0x1\"", "param_type"),
    NO(NUM, "\"nan\"", "param_type"),
    NO(NUM, "\"0.00000000000000000000000000000000000000001\"", "param_type"),
    NO(NUM, "true", "param_type"),
    OK("{type: number}", "1e20", "\"100000000000000000000\""),
    NO_BUT("{type: number}", "1e300", "param_type"),
    OK("{type: boolean}", "true", "true"),
    OK("{type: boolean}", "false", "false"),
    NO("{type: boolean}", "1", "param_type"),
    NO("{type: boolean}", "\"true\"", "param_type"),
#define ENUM "{type: enum, values: [\"640x384\", \"a b\"]}"
    OK(ENUM, "\"640x384\"", "\"640x384\""),
    OK(ENUM, "\"a b\"", "\"a b\""),
    NO(ENUM, "\"640X384\"", "param_enum"),
    NO(ENUM, "\"640x384 \"", "param_enum"),
    NO(ENUM, "\"\"", "param_enum"),
    NO(ENUM, "640", "param_type"),
#define STR "{type: string, max_bytes: 6}"
    OK(STR, "\"\"", "\"\""),
    OK(STR, "\"abcdef\"", "\"abcdef\""),
    OK(STR, "\"$(id)\"", "\"$(id)\""),
    OK(STR, "\"\xe4\xb8\x89\xe6\xae\xb5\"", "\"\xe4\xb8\x89\xe6\xae\xb5\""),
    NO(STR, "\"abcdefg\"", "param_length"),
    NO_BUT(STR, "\"\xe4\xb8\x89\xe6\xae\xb5.\"", "param_length"), /* bytes */
    NO(STR, "\"-n\"", "param_leading_dash"),
    OK(STR, "\"a-n\"", "\"a-n\""),
    NO(STR, "\"a\\nb\"", "param_control"),
    NO(STR, "\"a\\tb\"", "param_control"),
    NO(STR, "\"a\\u0001\"", "param_control"),
    NO(STR, "\"a\\u001b\"", "param_control"),
    NO(STR, "\"a\\u007f\"", "param_control"),
    NO(STR, "\"a\\u0085\"", "param_control"),
    NO(STR, "\"a\\u009f\"", "param_control"),
    OK(STR, "\"a\\u00a0\"", "\"a\xc2\xa0\""),
    NO(STR, "\"a\\u061c\"", "param_control"),
    NO(STR, "\"a\\u200e\"", "param_control"),
    NO(STR, "\"a\\u200f\"", "param_control"),
    OK(STR, "\"a\\u200d\"", "\"a\xe2\x80\x8d\""), /* joiner: emoji */
    NO(STR, "\"a\\u2028\"", "param_control"),
    NO(STR, "\"a\\u202a\"", "param_control"),
    NO(STR, "\"a\\u202e\"", "param_control"),
    NO(STR, "\"a\\u2066\"", "param_control"),
    NO(STR, "\"a\\u2069\"", "param_control"),
    OK(STR, "\"a\\u206a\"", "\"a\xe2\x81\xaa\""),
    OK(STR, "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""),
    NO(STR, "7", "param_type"),
#define DASH "{type: string, leading_dash: true}"
    OK(DASH, "\"-n\"", "\"-n\""),
#define TXT "{type: text, max_bytes: 20}"
    OK(TXT, "\"a\\n\\tb\\n\"", "\"a\\n\\tb\\n\""),
    NO(TXT, "\"a\\rb\"", "param_control"),
    NO(TXT, "\"a\\u000bb\"", "param_control"),
    NO(TXT, "\"a\\u202eb\"", "param_control"),
    NO(TXT, "\"-a\"", "param_leading_dash"),
    NO(TXT, "\"aaaaaaaaaaaaaaaaaaaaa\"", "param_length"),
#define PATH "{type: path, under: inputs, max_bytes: 12}"
    OK(PATH, "\"a/b.mp4\"", "\"a/b.mp4\""),
    OK(PATH, "\"...\"", "\"...\""),
    OK(PATH, "\".a\"", "\".a\""),
    OK(PATH, "\"a b\"", "\"a b\""),
    OK(PATH, "\"a/-b\"", "\"a/-b\""),
    NO(PATH, "\"\"", "param_path"),
    NO(PATH, "\"/a\"", "param_path"),
    NO(PATH, "\"a/\"", "param_path"),
    NO(PATH, "\"a//b\"", "param_path"),
    NO(PATH, "\".\"", "param_path"),
    NO(PATH, "\"..\"", "param_path"),
    NO(PATH, "\"./a\"", "param_path"),
    NO(PATH, "\"a/..\"", "param_path"),
    NO(PATH, "\"a/../b\"", "param_path"),
    NO(PATH, "\"lustre:///a\"", "param_path"),
    NO(PATH, "\"-a\"", "param_leading_dash"),
    NO(PATH, "\"a\\nb\"", "param_control"),
    NO(PATH, "\"abcdefghijklm\"", "param_length"),
    NO(PATH, "{\"path\": \"a\"}", "param_type"),
#define SHA "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb00000000000000001111111111111111"
#define HASHED "{type: path, under: /in, sha256: required}"
    OK(HASHED, "{\"path\": \"a/b\", \"sha256\": \"" SHA "\"}",
       "{\"path\":\"a/b\",\"sha256\":\"" SHA "\"}"),
    NO(HASHED, "\"a/b\"", "param_sha256"),
    NO(HASHED, "{\"path\": \"a/b\"}", "param_sha256"),
    NO(HASHED, "{\"path\": \"a\", \"sha256\": \"abc\"}", "param_sha256"),
    NO(HASHED, "{\"path\": \"a\", \"sha256\": \"A" SHA "\"}", "param_sha256"),
    NO(HASHED, "{\"path\": \"a\", \"sha256\": 1}", "param_sha256"),
    NO(HASHED, "{\"sha256\": \"" SHA "\"}", "param_type"),
    NO(HASHED, "{\"path\": 5, \"sha256\": \"" SHA "\"}", "param_type"),
    NO(HASHED, "{\"path\": \"../a\", \"sha256\": \"" SHA "\"}", "param_path"),
    NO(HASHED, "{\"path\": \"a\", \"sha256\": \"" SHA "\", \"x\": 1}",
       "param_type"),
    NO(HASHED, "5", "param_type"),
#define DUR "{type: duration, min: 30, max: \"1-00:00:00\"}"
    OK(DUR, "30", "30"),
    OK(DUR, "\"01:30:00\"", "5400"),
    OK(DUR, "\"90:00\"", "5400"),
    OK(DUR, "\"00000001:30\"", "90"),
    OK(DUR, "\"0-12\"", "43200"),
    OK(DUR, "\"0-012:000059\"", "46740"),
    OK(DUR, "\"1-00:00:00\"", "86400"),
    NO(DUR, "29", "param_range"),
    NO_BUT(DUR, "\"1-00:00:01\"", "param_range"),
    NO_BUT(DUR, "\"00:29\"", "param_range"),
    NO(DUR, "\"90\"", "param_type"), /* minutes or seconds? */
    NO(DUR, "\"1:2:3:4\"", "param_type"),
    NO(DUR, "\"1-24\"", "param_type"),
    NO(DUR, "\"1:60\"", "param_type"),
    NO(DUR, "\"1:\"", "param_type"),
    NO(DUR, "\"-1:00\"", "param_type"),
    NO(DUR, "\"1h\"", "param_type"),
    NO(DUR, "\"UNLIMITED\"", "param_type"),
    NO(DUR, "1.5", "param_type"),
    NO("{type: duration}", "-1", "param_range"),
    NO("{type: duration}", "4294967295", "param_range"),
#define BYTES "{type: bytes, min: 1K, max: 4G}"
    OK(BYTES, "1024", "1024"),
    OK(BYTES, "\"4G\"", "4294967296"),
    OK(BYTES, "\"2048\"", "2048"),
    NO(BYTES, "1023", "param_range"),
    NO_BUT(BYTES, "\"5G\"", "param_range"),
    NO(BYTES, "\"4g\"", "param_type"),
    NO(BYTES, "\"4GB\"", "param_type"),
    NO(BYTES, "\"1.5G\"", "param_type"),
    NO(BYTES, "\"-1K\"", "param_type"),
    NO(BYTES, "\"01K\"", "param_type"),
    NO(BYTES, "true", "param_type"),
    NO_BUT("{type: bytes}", "\"9999999999T\"", "param_type"),
#define LIST "{type: integer, min: 1, max: 8, list: {min: 1, max: 3}}"
    OK(LIST, "[1]", "[1]"),
    OK(LIST, "[1, 2, 3]", "[1,2,3]"),
    NO(LIST, "[]", "param_list"),
    NO(LIST, "[1, 2, 3, 4]", "param_list"),
    NO(LIST, "1", "param_type"),
    NO(LIST, "{}", "param_type"),
};

static void validator(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].code == NULL)
            taken(rows[i].param, rows[i].given, rows[i].normal);
        else
            refused(rows[i].param, rows[i].given, rows[i].code);
    }
}

/* --- enough of JSON Schema for our own schemas --------------------------- */

static bool accepts(const json_t *schema, const json_t *v);

/* POSIX regexes know bytes. Every code point that our patterns tell apart gets
 * one of its own; in each range of theirs the order is kept. */
static char squeeze(unsigned c)
{
    static const struct {
        unsigned first, last, byte;
    } map[] = {
        {0x0000, 0x0000, 0x01}, /* no NUL in a C string */
        {0x0001, 0x009f, 0x01}, {0x061c, 0x061c, 0xc0}, {0x200e, 0x200f, 0xc1},
        {0x2028, 0x202e, 0xd0}, {0x2066, 0x2069, 0xe0},
    };
    for (size_t i = 0; i < COUNT(map); i++) {
        if (c >= map[i].first && c <= map[i].last)
            return (char)(map[i].byte + (c - map[i].first));
    }
    return (char)0xff;
}

/* One code point: \uXXXX where escapes count, else UTF-8. */
static unsigned next(const char **in, bool escapes)
{
    unsigned c = 0;
    if (escapes && sscanf(*in, "\\u%4x", &c) == 1) {
        *in += 6;
        return c;
    }
    c = (unsigned char)*(*in)++;
    if (c < 0x80)
        return c;
    c &= c >= 0xf0 ? 0x07 : c >= 0xe0 ? 0x0f : 0x1f;
    while (((unsigned char)**in & 0xc0) == 0x80)
        c = c << 6 | ((unsigned char)*(*in)++ & 0x3f);
    return c;
}

static void squeezed(const char *in, bool escapes, char *out)
{
    while (*in != '\0')
        *out++ = squeeze(next(&in, escapes));
    *out = '\0';
}

static bool matches(const char *pattern, const char *s)
{
    char text[1024], value_text[1024];
    regex_t re;
    assert_true(strlen(s) < sizeof value_text);
    squeezed(pattern, true, text);
    squeezed(s, false, value_text);
    assert_int_equal(regcomp(&re, text, REG_EXTENDED | REG_NOSUB), 0);
    int r = regexec(&re, value_text, 0, NULL, 0);
    regfree(&re);
    return r == 0;
}

static size_t code_points(const char *s)
{
    size_t n = 0;
    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static bool type_fits(const char *type, const json_t *v)
{
    double real = json_real_value(v);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(v) ||
               (json_is_real(v) && real >= -1e15 && real <= 1e15 &&
                !((double)(int64_t)real < real) &&
                !((double)(int64_t)real > real));
    return strcmp(type, "number") == 0    ? json_is_number(v)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(v)
           : strcmp(type, "string") == 0  ? json_is_string(v)
           : strcmp(type, "array") == 0   ? json_is_array(v)
           : strcmp(type, "object") == 0  ? json_is_object(v)
                                          : false;
}

static bool has(const json_t *list, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_equal(json_array_get(list, i), v))
            return true;
    }
    return false;
}

static bool object_fits(const json_t *schema, const json_t *v)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    void *it = json_object_iter((json_t *)(uintptr_t)v);
    if (properties == NULL || !json_is_object(v))
        return true;
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    for (; it != NULL; it = json_object_iter_next((json_t *)(uintptr_t)v, it)) {
        const json_t *p = json_object_get(properties, json_object_iter_key(it));
        if (p == NULL || !accepts(p, json_object_iter_value(it)))
            return false;
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        if (json_object_get(
                v, json_string_value(json_array_get(required, i))) == NULL)
            return false;
    }
    return true;
}

static bool string_fits(const json_t *schema, const json_t *v)
{
    const json_t *pattern = json_object_get(schema, "pattern");
    const json_t *max = json_object_get(schema, "maxLength");
    const char *s = json_string_value(v);
    if (s == NULL)
        return true;
    if (max != NULL && (json_int_t)code_points(s) > json_integer_value(max))
        return false;
    return pattern == NULL || matches(json_string_value(pattern), s);
}

static bool number_fits(const json_t *schema, const json_t *v)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    if (json_is_integer(v)) {
        json_int_t n = json_integer_value(v);
        return (min == NULL || n >= json_integer_value(min)) &&
               (max == NULL || n <= json_integer_value(max));
    }
    double n = json_number_value(v);
    return !json_is_real(v) || ((min == NULL || n >= json_number_value(min)) &&
                                (max == NULL || n <= json_number_value(max)));
}

static bool array_fits(const json_t *schema, const json_t *v)
{
    const json_t *items = json_object_get(schema, "items");
    json_int_t n = (json_int_t)json_array_size(v);
    if (!json_is_array(v) || items == NULL)
        return true;
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (!accepts(items, json_array_get(v, i)))
            return false;
    }
    return n >= json_integer_value(json_object_get(schema, "minItems")) &&
           n <= json_integer_value(json_object_get(schema, "maxItems"));
}

static bool any_fits(const json_t *any, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(any); i++) {
        if (accepts(json_array_get(any, i), v))
            return true;
    }
    return any == NULL;
}

static bool accepts(const json_t *schema, const json_t *v)
{
    const json_t *type = json_object_get(schema, "type");
    const json_t *values = json_object_get(schema, "enum");
    const json_t *not = json_object_get(schema, "not");
    if (type != NULL && !type_fits(json_string_value(type), v))
        return false;
    if (values != NULL && !has(values, v))
        return false;
    if (not != NULL && accepts(not, v))
        return false;
    return any_fits(json_object_get(schema, "anyOf"), v) &&
           object_fits(schema, v) && string_fits(schema, v) &&
           number_fits(schema, v) && array_fits(schema, v);
}

static bool schema_takes(const struct row *r)
{
    char params[2048];
    (void)snprintf(params, sizeof params, "{x: %s}", r->param);
    struct allowlist *a = load(params, "[]");
    json_t *schema = workflow_schema(allowlist_at(a, 0));
    assert_non_null(schema);
    json_t *in = json_object();
    json_object_set_new(in, "x", value(r->given));
    bool is = accepts(schema, in);
    json_decref(in);
    json_decref(schema);
    allowlist_free(a);
    return is;
}

/* The schema never refuses what the server takes; where it takes more, the row
 * says so. */
static void schema_agrees_with_the_validator(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool takes = schema_takes(&rows[i]);
        if (takes != (rows[i].schema_takes == 1))
            fail_msg("the schema %s %s of %s", takes ? "takes" : "refuses",
                     rows[i].given, rows[i].param);
    }
}

static void schema_document(void **state)
{
    struct allowlist *a =
        load("{a: {type: integer, title: {en: A, zh: 甲}}, "
             "b: {type: integer, default: 3}, c: {type: text, optional: true}, "
             "d: {type: enum, values: [p, q], list: {min: 0, max: 2}}}",
             "[]");
    json_t *o = workflow_schema(allowlist_at(a, 0));
    (void)state;
    assert_string_equal(json_string_value(json_object_get(o, "$schema")),
                        "https://json-schema.org/draft/2020-12/schema");
    assert_true(json_is_false(json_object_get(o, "additionalProperties")));
    char *required = json_text(json_object_get(o, "required"));
    assert_string_equal(required, "[\"a\",\"d\"]");
    free(required);
    json_t *p = json_object_get(o, "properties");
    json_t *pa = json_object_get(p, "a");
    assert_string_equal(json_string_value(json_object_get(pa, "title")), "A");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(p, "b"), "default")),
        3);
    json_t *items = json_object_get(json_object_get(p, "d"), "items");
    assert_int_equal(json_array_size(json_object_get(items, "enum")), 2);
    json_decref(o);
    allowlist_free(a);
}

/* --- the object as a whole ----------------------------------------------- */

static int whole(const char *params, const char *given, json_t **out,
                 struct err *e)
{
    struct allowlist *a = load(params, "[]");
    json_t *in = given != NULL ? value(given) : NULL;
    int r = params_validate(allowlist_at(a, 0), in, out, e);
    json_decref(in);
    allowlist_free(a);
    return r;
}

static void defaults_are_filled_in(void **state)
{
    static const char params[] =
        "{b: {type: duration, default: \"01:00\"}, "
        "a: {type: bytes, default: 2K}, n: {type: number, default: \"0.5\"}, "
        "l: {type: integer, list: {min: 0, max: 2}, default: [1]}, "
        "o: {type: text, optional: true}}";
    static const char *const given[] = {NULL, "{}"};
    (void)state;
    for (size_t i = 0; i < COUNT(given); i++) {
        struct err e = ERR_INIT;
        json_t *out = NULL;
        assert_int_equal(whole(params, given[i], &out, &e), 0);
        char *text = json_text(out);
        assert_string_equal(text,
                            "{\"b\":60,\"a\":2048,\"n\":\"0.5\",\"l\":[1]}");
        free(text);
        json_decref(out);
    }
}

static void whole_refused(const char *params, const char *given,
                          const char *code, const char *pointer)
{
    struct err e = ERR_INIT;
    json_t *out = NULL;
    assert_int_equal(whole(params, given, &out, &e), -1);
    assert_null(out);
    assert_int_equal(e.class, ERR_INVALID);
    assert_string_equal(e.code, code);
    assert_string_equal(e.pointer, pointer);
}

static void the_object(void **state)
{
    (void)state;
    whole_refused("{}", "{\"y\": 1}", "param_unknown", "/params/y");
    whole_refused("{}", "{\"a/b~c\": 1}", "param_unknown", "/params/a~1b~0c");
    whole_refused("{x: {type: text}}", NULL, "param_missing", "/params/x");
    whole_refused("{x: {type: text}}", "{}", "param_missing", "/params/x");
    whole_refused("{x: {type: text, optional: true}}", "{\"x\": null}",
                  "param_type", "/params/x");
    whole_refused("{}", "[]", "param_type", "/params");
    whole_refused("{}", "5", "param_type", "/params");
}

static void entries_have_pointers(void **state)
{
    (void)state;
    refused_at(LIST, "[1, 9]", "param_range", "/params/x/1");
    refused_at(LIST, "[1, 2, \"3\"]", "param_type", "/params/x/2");
    refused_at("{type: path, under: inputs, sha256: required, "
               "list: {min: 1, max: 4}}",
               "[{\"path\": \"a\", \"sha256\": \"" SHA "\"}, \"b\"]",
               "param_sha256", "/params/x/1");
}

static void nul_is_refused(void **state)
{
    (void)state;
    refused(STR, "\"a\\u0000b\"", "param_control");
    refused(TXT, "\"\\u0000\"", "param_control");
    refused(PATH, "\"a\\u0000\"", "param_control");
    refused(ENUM, "\"640x384\\u0000\"", "param_control");
    refused(NUM, "\"1\\u0000\"", "param_type");
    refused(DUR, "\"1:00\\u0000\"", "param_control");
    refused(HASHED, "{\"path\": \"a\", \"sha256\": \"" SHA "\\u0000\"}",
            "param_sha256");
}

/* No error text repeats what the client sent. */
static void errors_do_not_echo(void **state)
{
    static const char *const params[] = {INT, STR, PATH, ENUM, NUM, DUR};
    (void)state;
    for (size_t i = 0; i < COUNT(params); i++) {
        struct err e = ERR_INIT;
        json_t *out = NULL;
        assert_int_equal(check(params[i], "\"-swordfish-swordfish\"", &out, &e),
                         -1);
        assert_null(strstr(e.text, "swordfish"));
    }
}

/* --- secrets ------------------------------------------------------------- */

static void secret(const char *given, const char *code, const char *pointer)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load("{}", "[HF_TOKEN, B]");
    json_t *in = given != NULL ? value(given) : NULL;
    int r = secrets_validate(allowlist_at(a, 0), in, &e);
    if (code == NULL) {
        assert_int_equal(r, 0);
    } else {
        assert_int_equal(r, -1);
        assert_int_equal(e.class, ERR_INVALID);
        assert_string_equal(e.code, code);
        assert_string_equal(e.pointer, pointer);
        assert_null(strstr(e.text, "swordfish"));
    }
    json_decref(in);
    allowlist_free(a);
}

static void secrets(void **state)
{
    char *large = malloc(WORKFLOW_SECRET_BYTES_MAX + 64);
    (void)state;
    assert_non_null(large);
    secret(NULL, NULL, "");
    secret("{}", NULL, "");
    secret("{\"HF_TOKEN\": \"sword\\nfish\\u0001\"}", NULL, "");
    secret("{\"HF_TOKEN\": \"swordfish\", \"B\": \"x\"}", NULL, "");
    secret("{\"C\": \"swordfish\"}", "secret_unknown", "/secrets/C");
    secret("{\"hf_token\": \"swordfish\"}", "secret_unknown",
           "/secrets/hf_token");
    secret("{\"B\": 1}", "secret_type", "/secrets/B");
    secret("{\"B\": null}", "secret_type", "/secrets/B");
    secret("{\"B\": \"swordfish\\u0000\"}", "secret_type", "/secrets/B");
    secret("{\"B\": \"\"}", "secret_length", "/secrets/B");
    secret("[]", "secret_type", "/secrets");
    for (int over = 0; over <= 1; over++) {
        int n = WORKFLOW_SECRET_BYTES_MAX + over;
        (void)snprintf(large, (size_t)n + 32, "{\"B\": \"%0*d\"}", n, 7);
        secret(large, over == 1 ? "secret_length" : NULL, "/secrets/B");
    }
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validator),
        cmocka_unit_test(schema_agrees_with_the_validator),
        cmocka_unit_test(schema_document),
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(the_object),
        cmocka_unit_test(entries_have_pointers),
        cmocka_unit_test(nul_is_refused),
        cmocka_unit_test(errors_do_not_echo),
        cmocka_unit_test(secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
