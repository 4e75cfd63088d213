/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/conf.h"

#include "base/json.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTER_BYTES = 512 };

struct section {
    const json_t *obj;
    const char *where, *file;
    const struct yaml_lines *lines;
    struct err *e;
};

/* "file:line: text" and the pointer of the key (NULL: of the section). */
static int fail(const struct section *s, const char *key, const char *code,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static int fail(const struct section *s, const char *key, const char *code,
                const char *fmt, ...)
{
    char pointer[POINTER_BYTES], text[ERR_TEXT_MAX];
    va_list ap;
    int line;

    if (s->e == NULL || err_is_set(s->e))
        return -1;
    (void)snprintf(pointer, sizeof(pointer), "%s", s->where);
    if (key != NULL)
        json_pointer(pointer, sizeof(pointer), s->where, key);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    line = yaml_line(s->lines, pointer);
    if (line == 0)
        line = yaml_line(s->lines, s->where);
    if (line > 0)
        (void)err_set(s->e, ERR_CONFIG, code, "%s:%d: %s", s->file, line, text);
    else
        (void)err_set(s->e, ERR_CONFIG, code, "%s: %s", s->file, text);
    return err_at(s->e, pointer);
}

/* min = max = 0 is a table line that names no bounds. */
static bool in_range(const struct conf_key *k, int64_t v)
{
    return (k->min == 0 && k->max == 0) || (v >= k->min && v <= k->max);
}

static int set_str(const struct section *s, const struct conf_key *k,
                   const char *v, char **slot)
{
    if (!in_range(k, (int64_t)strlen(v)))
        return fail(s, k->key, "config_range",
                    "\"%s\" must have from %" PRId64 " to %" PRId64 " bytes",
                    k->key, k->min, k->max);
    *slot = strdup(v);
    return *slot == NULL ? err_nomem(s->e) : 0;
}

static int set_int(const struct section *s, const struct conf_key *k, int64_t v,
                   int64_t *slot)
{
    if (!in_range(k, v))
        return fail(s, k->key, "config_range",
                    "\"%s\" must be from %" PRId64 " to %" PRId64, k->key,
                    k->min, k->max);
    *slot = v;
    return 0;
}

static void *slot_of(const struct conf_key *k, void *out)
{
    return (char *)out + k->offset;
}

static int set_default(const struct section *s, const struct conf_key *k,
                       void *slot)
{
    int64_t v = 0;

    if (k->def == NULL)
        return 0;
    if (k->type == CONF_STR)
        return set_str(s, k, k->def, slot);
    if (k->type == CONF_BOOL) {
        *(bool *)slot = strcmp(k->def, "true") == 0;
        return 0;
    }
    if (num_parse(k->def, INT64_MIN, INT64_MAX, &v) != 0)
        return fail(s, k->key, "config_type", "a bad default of \"%s\"",
                    k->key);
    return set_int(s, k, v, slot);
}

static int wrong_type(const struct section *s, const struct conf_key *k)
{
    static const char *const wanted[] = {
        [CONF_STR] = "a string (in quotes if it looks like a number)",
        [CONF_INT] = "an integer",
        [CONF_BOOL] = "true or false"};

    return fail(s, k->key, "config_type", "\"%s\" must be %s", k->key,
                wanted[k->type]);
}

static int set_value(const struct section *s, const struct conf_key *k,
                     const json_t *v, void *slot)
{
    if (k->type == CONF_STR && json_is_string(v))
        return set_str(s, k, json_string_value(v), slot);
    if (k->type == CONF_INT && json_is_integer(v))
        return set_int(s, k, (int64_t)json_integer_value(v), slot);
    if (k->type == CONF_BOOL && json_is_boolean(v)) {
        *(bool *)slot = json_is_true(v);
        return 0;
    }
    return wrong_type(s, k);
}

static int set_key(const struct section *s, const struct conf_key *k, void *out)
{
    const json_t *v = json_object_get(s->obj, k->key);

    if (v != NULL && !json_is_null(v))
        return set_value(s, k, v, slot_of(k, out));
    if (k->required)
        return fail(s, v == NULL ? NULL : k->key, "config_missing",
                    "\"%s\" is missing", k->key);
    return set_default(s, k, slot_of(k, out));
}

static bool known(const struct conf_key *table, size_t count, const char *key)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (strcmp(table[i].key, key) == 0)
            return true;
    }
    return false;
}

static int only_known(const struct section *s, const struct conf_key *table,
                      size_t count)
{
    const char *key;
    void *it;
    union {
        const json_t *c;
        json_t *m; /* jansson's iterators read through it */
    } obj = {.c = s->obj};

    for (it = json_object_iter(obj.m); it != NULL;
         it = json_object_iter_next(obj.m, it)) {
        key = json_object_iter_key(it);
        if (!known(table, count, key))
            return fail(s, key, "config_unknown_key",
                        "\"%.64s\" is not known here", key);
    }
    return 0;
}

static void zero(const struct conf_key *table, size_t count, void *out)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (table[i].type == CONF_STR)
            *(char **)slot_of(&table[i], out) = NULL;
        else if (table[i].type == CONF_INT)
            *(int64_t *)slot_of(&table[i], out) = 0;
        else
            *(bool *)slot_of(&table[i], out) = false;
    }
}

int conf_fill(const json_t *obj, const struct conf_key *table, size_t count,
              void *out, const char *where, const char *file,
              const struct yaml_lines *lines, struct err *e)
{
    struct section s = {obj, where, file, lines, e};
    size_t i;

    zero(table, count, out);
    if (json_is_null(obj))
        s.obj = NULL; /* "section:" with nothing below it */
    if (s.obj != NULL && !json_is_object(s.obj))
        return fail(&s, NULL, "config_type", "a mapping is expected");
    if (only_known(&s, table, count) != 0)
        return -1;
    for (i = 0; i < count; i++) {
        if (set_key(&s, &table[i], out) != 0) {
            conf_free(table, count, out);
            return -1;
        }
    }
    return 0;
}

void conf_free(const struct conf_key *table, size_t count, void *out)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (table[i].type == CONF_STR)
            free(*(char **)slot_of(&table[i], out));
    }
    zero(table, count, out);
}
