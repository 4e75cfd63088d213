/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/conf.h"

#include <string.h>

struct sample {
    char *name, *note;
    int64_t port, count;
    bool on, off;
};

static const struct conf_key table[] = {
    {"name", CONF_STR, offsetof(struct sample, name), true, 1, 8, NULL},
    {"note", CONF_STR, offsetof(struct sample, note), false, 0, 0, "none"},
    {"port", CONF_INT, offsetof(struct sample, port), false, 1, 65535, "80"},
    {"count", CONF_INT, offsetof(struct sample, count), false, 0, 0, NULL},
    {"on", CONF_BOOL, offsetof(struct sample, on), false, 0, 0, "true"},
    {"off", CONF_BOOL, offsetof(struct sample, off), false, 0, 0, NULL},
};

enum { KEYS = sizeof(table) / sizeof(table[0]) };

/* Parse text, fill s from its member "top". */
static int fill(const char *text, struct sample *s, struct err *e)
{
    struct yaml_lines *lines = NULL;
    json_t *v = yaml_parse(text, strlen(text), "c.yaml", &lines, e);
    int r;

    if (v == NULL)
        fail_msg("%s", e->text);
    memset(s, 0xa5, sizeof(*s)); /* fields are overwritten, not freed */
    r = conf_fill(json_object_get(v, "top"), table, KEYS, s, "/top", "c.yaml",
                  lines, e);
    json_decref(v);
    yaml_lines_free(lines);
    return r;
}

static void bad(const char *text, const char *code, const char *pointer,
                const char *start)
{
    struct err e = ERR_INIT;
    struct sample s, zero;

    memset(&zero, 0, sizeof(zero));
    if (fill(text, &s, &e) != -1)
        fail_msg("\"%s\" was taken", text);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, code);
    assert_string_equal(e.pointer, pointer);
    if (strncmp(e.text, start, strlen(start)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", e.text, start);
    assert_null(s.name);
    assert_null(s.note);
    assert_true(s.port == 0 && s.count == 0 && !s.on && !s.off);
}

static void all_keys(void **state)
{
    struct err e = ERR_INIT;
    struct sample s;

    (void)state;
    assert_int_equal(fill("top:\n  name: x\n  note: ''\n  port: 65535\n"
                          "  count: -5\n  on: false\n  off: true\n",
                          &s, &e),
                     0);
    assert_string_equal(s.name, "x");
    assert_string_equal(s.note, "");
    assert_true(s.port == 65535 && s.count == -5 && !s.on && s.off);
    conf_free(table, KEYS, &s);
    assert_null(s.name);
    conf_free(table, KEYS, &s);
}

static void defaults(void **state)
{
    struct err e = ERR_INIT;
    struct sample s;

    (void)state;
    assert_int_equal(fill("top:\n  name: x\n  port:\n", &s, &e), 0);
    assert_string_equal(s.note, "none");
    assert_true(s.port == 80 && s.count == 0 && s.on && !s.off);
    conf_free(table, KEYS, &s);
}

static void absent_section(void **state)
{
    struct err e = ERR_INIT;
    struct sample s;

    (void)state;
    assert_int_equal(
        conf_fill(NULL, table + 1, KEYS - 1, &s, "/top", "c.yaml", NULL, &e),
        0);
    assert_string_equal(s.note, "none");
    conf_free(table + 1, KEYS - 1, &s);
    assert_int_equal(conf_fill(json_null(), table + 1, KEYS - 1, &s, "/top",
                               "c.yaml", NULL, &e),
                     0);
    assert_true(s.port == 80);
    conf_free(table + 1, KEYS - 1, &s);
    assert_int_equal(
        conf_fill(NULL, table, KEYS, &s, "/top", "c.yaml", NULL, &e), -1);
    assert_string_equal(e.code, "config_missing");
    assert_string_equal(e.text, "c.yaml: \"name\" is missing");
}

static void unknown_key(void **state)
{
    (void)state;
    bad("top:\n  name: x\n  prot: 1\n", "config_unknown_key", "/top/prot",
        "c.yaml:3: \"prot\"");
    bad("top:\n  Name: x\n", "config_unknown_key", "/top/Name", "c.yaml:2: ");
}

static void wrong_types(void **state)
{
    (void)state;
    bad("top:\n  name: 123\n", "config_type", "/top/name", "c.yaml:2: ");
    bad("top:\n  name: true\n", "config_type", "/top/name", "c.yaml:2: ");
    bad("top:\n  name: [x]\n", "config_type", "/top/name", "c.yaml:2: ");
    bad("top:\n  name: x\n  port: '80'\n", "config_type", "/top/port",
        "c.yaml:3: ");
    bad("top:\n  name: x\n  on: 1\n", "config_type", "/top/on", "c.yaml:3: ");
    bad("top:\n  name: x\n  on: yes\n", "config_type", "/top/on", "c.yaml:3: ");
    bad("top: [x]\n", "config_type", "/top", "c.yaml:1: ");
    bad("top: text\n", "config_type", "/top", "c.yaml:1: ");
}

static void ranges(void **state)
{
    (void)state;
    bad("top:\n  name: ''\n", "config_range", "/top/name", "c.yaml:2: ");
    bad("top:\n  name: 123456789a\n", "config_range", "/top/name",
        "c.yaml:2: ");
    bad("top:\n  name: x\n  note: n\n  port: 0\n", "config_range", "/top/port",
        "c.yaml:4: \"port\" must be from 1 to 65535");
    bad("top:\n  name: x\n  port: 65536\n", "config_range", "/top/port",
        "c.yaml:3: ");
}

static void missing(void **state)
{
    (void)state;
    bad("a: 1\ntop:\n  note: n\n", "config_missing", "/top", "c.yaml:2: ");
    bad("top:\n  note: n\n  name:\n", "config_missing", "/top/name",
        "c.yaml:3: ");
}

static void a_bad_default_is_found(void **state)
{
    static const struct conf_key wrong[] = {
        {"note", CONF_STR, offsetof(struct sample, note), false, 0, 0, "x"},
        {"port", CONF_INT, offsetof(struct sample, port), false, 1, 9, "80"},
    };
    struct err e = ERR_INIT;
    struct sample s;

    (void)state;
    assert_int_equal(conf_fill(NULL, wrong, 2, &s, "", "c.yaml", NULL, &e), -1);
    assert_string_equal(e.code, "config_range");
    assert_null(s.note);
}

static void first_error_stays(void **state)
{
    struct err e = ERR_INIT;
    struct sample s;

    (void)state;
    (void)err_set(&e, ERR_DENIED, "first", "first");
    assert_int_equal(fill("top: {}\n", &s, &e), -1);
    assert_string_equal(e.code, "first");
    assert_string_equal(e.pointer, "");
    assert_int_equal(conf_fill(NULL, table, KEYS, &s, "", "f", NULL, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys),
        cmocka_unit_test(defaults),
        cmocka_unit_test(absent_section),
        cmocka_unit_test(unknown_key),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(ranges),
        cmocka_unit_test(missing),
        cmocka_unit_test(a_bad_default_is_found),
        cmocka_unit_test(first_error_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
