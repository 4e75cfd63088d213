/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/parse.h"

#include "base/json.h"
#include "workflows/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int parse_fail(const struct parse *p, const char *pointer, const char *code,
               const char *fmt, ...)
{
    char text[ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int line = p->lines != NULL ? yaml_line(p->lines, pointer) : 0;
    const char *file = p->file != NULL ? p->file : "workflows";
    if (line > 0)
        (void)err_set(p->e, ERR_CONFIG, code, "%s:%d: %s: %s", file, line,
                      pointer, text);
    else
        (void)err_set(p->e, ERR_CONFIG, code, "%s: %s: %s", file, pointer,
                      text);
    return err_at(p->e, pointer);
}

int parse_nomem(const struct parse *p)
{
    return err_nomem(p->e);
}

int parse_because(const struct parse *p, const char *pointer, const char *code,
                  const char *subject, const struct err *why)
{
    if (why->class == ERR_INTERNAL)
        return parse_nomem(p);
    return parse_fail(p, pointer, code, "%s%s", subject, why->text);
}

json_t *parse_iterable(const json_t *v)
{
    return (json_t *)(uintptr_t)v;
}

json_t *parse_copy(const json_t *v)
{
    json_t *copy = json_deep_copy(v);
    if (copy != NULL && !json_equal(copy, v)) {
        json_decref(copy);
        copy = NULL;
    }
    return copy;
}

static bool known(const struct parse_key *keys, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(keys[i].key, key) == 0)
            return true;
    }
    return false;
}

static int only_known(const struct parse *p, const json_t *v,
                      const char *pointer, const struct parse_key *keys,
                      size_t n)
{
    const char *key = NULL;
    json_t *member = NULL;
    json_object_foreach(parse_iterable(v), key, member)
    {
        char at[PARSE_POINTER_MAX];
        if (known(keys, n, key))
            continue;
        json_pointer(at, sizeof at, pointer, key);
        return parse_fail(p, at, "workflow_unknown_key", "unknown key");
    }
    return 0;
}

int parse_object(const struct parse *p, const json_t *v, const char *pointer,
                 const struct parse_key *keys, size_t n, void *out)
{
    if (!json_is_object(v))
        return parse_fail(p, pointer, "workflow_type", "must be a mapping");
    if (only_known(p, v, pointer, keys, n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        char at[PARSE_POINTER_MAX];
        const json_t *member = json_object_get(v, keys[i].key);
        if (member == NULL && keys[i].required)
            return parse_fail(p, pointer, "workflow_missing",
                              "the key \"%s\" is missing", keys[i].key);
        if (member == NULL)
            continue;
        json_pointer(at, sizeof at, pointer, keys[i].key);
        if (keys[i].fn(p, member, at, out) != 0)
            return -1;
    }
    return 0;
}

int parse_later(const struct parse *p, const json_t *v, const char *pointer,
                void *out)
{
    const char *name = strrchr(pointer, '/');
    (void)v;
    (void)out;
    return parse_fail(p, pointer, "workflow_later",
                      "\"%s\" is not supported by this version",
                      name != NULL ? name + 1 : pointer);
}

/* The text of a string without NUL bytes, or NULL. */
static const char *string_of(const json_t *v)
{
    const char *s = json_string_value(v);
    return s != NULL && strlen(s) == json_string_length(v) ? s : NULL;
}

int parse_string(const struct parse *p, const json_t *v, const char *pointer,
                 bool (*check)(const char *), const char *what, char **out)
{
    const char *s = string_of(v);
    if (s == NULL)
        return parse_fail(p, pointer, "workflow_type",
                          "must be text (numbers and words like true need "
                          "quotes): %s",
                          what);
    if (!check(s))
        return parse_fail(p, pointer, "workflow_name", "must be %s", what);
    *out = strdup(s);
    return *out != NULL ? 0 : parse_nomem(p);
}

int parse_strings(const struct parse *p, const json_t *v, const char *pointer,
                  size_t max, bool (*check)(const char *), const char *what,
                  struct strs *out)
{
    if (!json_is_array(v))
        return parse_fail(p, pointer, "workflow_type", "must be a list");
    if (json_array_size(v) > max)
        return parse_fail(p, pointer, "workflow_range", "more than %zu entries",
                          max);
    for (size_t i = 0; i < json_array_size(v); i++) {
        char at[PARSE_POINTER_MAX], index[24], *s = NULL;
        (void)snprintf(index, sizeof index, "%zu", i);
        json_pointer(at, sizeof at, pointer, index);
        if (parse_string(p, json_array_get(v, i), at, check, what, &s) != 0)
            return -1;
        if (strs_has(out, s)) {
            free(s);
            return parse_fail(p, at, "workflow_duplicate", "named twice");
        }
        if (strs_add_take(out, s) != 0)
            return parse_nomem(p);
    }
    return 0;
}

int parse_integer(const struct parse *p, const json_t *v, const char *pointer,
                  int64_t min, int64_t max, int64_t *out)
{
    if (!json_is_integer(v))
        return parse_fail(p, pointer, "workflow_type", "must be an integer");
    int64_t n = json_integer_value(v);
    if (n < min || n > max)
        return parse_fail(p, pointer, "workflow_range",
                          "must be between %lld and %lld", (long long)min,
                          (long long)max);
    *out = n;
    return 0;
}

int parse_boolean(const struct parse *p, const json_t *v, const char *pointer,
                  bool *out)
{
    if (!json_is_boolean(v))
        return parse_fail(p, pointer, "workflow_type", "must be true or false");
    *out = json_is_true(v);
    return 0;
}

int parse_word(const struct parse *p, const json_t *v, const char *pointer,
               const char *const *words, size_t n, size_t *out)
{
    char list[160] = "";
    const char *s = string_of(v);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(list);
        if (s != NULL && strcmp(s, words[i]) == 0) {
            *out = i;
            return 0;
        }
        (void)snprintf(list + used, sizeof list - used, "%s%s",
                       i == 0 ? "" : ", ", words[i]);
    }
    return parse_fail(p, pointer, "workflow_type", "must be one of: %s", list);
}

struct title {
    char **en, **zh;
};

static int title_en(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    return parse_string(p, v, pointer, text_title, "1 to 200 bytes, one line",
                        ((struct title *)out)->en);
}

static int title_zh(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    return parse_string(p, v, pointer, text_title, "1 to 200 bytes, one line",
                        ((struct title *)out)->zh);
}

int parse_title(const struct parse *p, const json_t *v, const char *pointer,
                char **en, char **zh)
{
    static const struct parse_key keys[] = {
        {"en", title_en, false},
        {"zh", title_zh, false},
    };
    struct title t = {en, zh};
    return parse_object(p, v, pointer, keys, sizeof keys / sizeof keys[0], &t);
}

int parse_put_strs(json_t *obj, const char *key, const struct strs *s)
{
    json_t *list = json_array();
    int r = list == NULL ? -1 : 0;
    for (size_t i = 0; i < s->n && r == 0; i++)
        r |= json_array_append_new(list, json_string(s->v[i]));
    if (r != 0) {
        json_decref(list);
        list = NULL;
    }
    return json_put(obj, key, list);
}
