/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/json.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Trees that we build ourselves stay far below; this ends a cycle. */
enum { BUILD_DEPTH_MAX = 64, PATH_MAX_BYTES = 512 };

/* jansson recurses once a level: counted before it sees the text. Brackets in
 * strings don't count; malformed text is jansson's to refuse. */
static bool too_deep(const char *s, size_t n)
{
    bool quoted = false;
    int depth = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
        else if (!quoted && (s[i] == '[' || s[i] == '{'))
            depth++;
        else if (!quoted && (s[i] == ']' || s[i] == '}') && depth > 0)
            depth--;
        if (depth > JSON_DEPTH_MAX)
            return true;
    }
    return false;
}

/* Without jansson's " near '<token>'": the token may be a secret. */
static size_t words_len(const char *text)
{
    const char *near = strstr(text, " near ");

    return near != NULL ? (size_t)(near - text) : strlen(text);
}

static int syntax_error(struct err *e, const json_error_t *je)
{
    const char *code = "json_syntax";

    switch (json_error_code(je)) {
    case json_error_out_of_memory:
        return err_nomem(e);
    case json_error_duplicate_key:
        code = "json_duplicate_key";
        break;
    case json_error_null_character:
    case json_error_null_byte_in_key:
        code = "json_nul";
        break;
    case json_error_numeric_overflow:
        code = "json_range";
        break;
    case json_error_stack_overflow:
        code = "json_too_deep";
        break;
    default:
        break;
    }
    return err_set(e, ERR_INVALID, code, "line %d, column %d: %.*s", je->line,
                   je->column, (int)words_len(je->text), je->text);
}

json_t *json_parse(const char *text, size_t len, size_t max_bytes,
                   struct err *e)
{
    json_error_t je;
    json_t *v;

    if (len > max_bytes) {
        (void)err_set(e, ERR_INVALID, "json_too_large",
                      "more than %zu bytes of JSON", max_bytes);
        return NULL;
    }
    if (len > 0 && memchr(text, '\0', len) != NULL) {
        (void)err_set(e, ERR_INVALID, "json_nul", "a NUL byte in JSON");
        return NULL;
    }
    if (too_deep(text, len)) {
        (void)err_set(e, ERR_INVALID, "json_too_deep",
                      "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
        return NULL;
    }
    memset(&je, 0, sizeof(je));
    v = json_loadb(len > 0 ? text : "", len, JSON_REJECT_DUPLICATES, &je);
    if (v == NULL)
        (void)syntax_error(e, &je);
    return v;
}

char *json_text(const json_t *v)
{
    return json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* json_object_iter() and its kin want a json_t * even to read. */
static json_t *unconst(const json_t *v)
{
    union {
        const json_t *c;
        json_t *m;
    } u = {.c = v};

    return u.m;
}

static int no_reals(const json_t *v, int depth, struct err *e)
{
    json_t *obj = unconst(v), *item;
    const char *key;
    size_t i;
    int r = 0;

    if (json_is_real(v))
        return err_set(e, ERR_INTERNAL, "json_real",
                       "a real number in canonical JSON");
    if (depth > BUILD_DEPTH_MAX)
        return err_set(e, ERR_INTERNAL, "json_too_deep",
                       "canonical JSON nested too deep");
    json_object_foreach(obj, key, item)
    {
        r |= no_reals(item, depth + 1, e);
    }
    json_array_foreach(v, i, item)
    {
        r |= no_reals(item, depth + 1, e);
    }
    return r;
}

char *json_canonical(const json_t *v, size_t *len, struct err *e)
{
    char *s;

    if (v == NULL) {
        (void)err_nomem(e); /* what a builder's NULL means */
        return NULL;
    }
    if (no_reals(v, 1, e) != 0)
        return NULL;
    s = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    if (s == NULL)
        (void)err_nomem(e);
    else if (len != NULL)
        *len = strlen(s);
    return s;
}

/* The error of one key; an err that is set already keeps its pointer too. */
static int fail(struct err *e, const char *where, const char *key,
                const char *code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static int fail(struct err *e, const char *where, const char *key,
                const char *code, const char *fmt, ...)
{
    char pointer[PATH_MAX_BYTES], text[ERR_TEXT_MAX];
    va_list ap;

    if (e == NULL || err_is_set(e))
        return -1;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)err_set(e, ERR_INVALID, code, "%s", text);
    if (key == NULL)
        return err_at(e, where);
    json_pointer(pointer, sizeof(pointer), where, key);
    return err_at(e, pointer);
}

/* 1: *v is there; 0: absent or null, and that is fine; -1: error. */
static int find(const json_t *obj, const char *key, bool required, json_t **v,
                const char *where, struct err *e)
{
    if (!json_is_object(obj))
        return fail(e, where, NULL, "json_type", "an object is expected");
    *v = json_object_get(obj, key);
    if (*v != NULL && !json_is_null(*v))
        return 1;
    if (!required)
        return 0;
    return fail(e, where, key, "json_missing", "\"%.64s\" is missing", key);
}

static int wrong_type(struct err *e, const char *where, const char *key,
                      const char *wanted)
{
    return fail(e, where, key, "json_type", "\"%.64s\" must be %s", key,
                wanted);
}

int json_get_str(const json_t *obj, const char *key, bool required,
                 size_t max_bytes, const char **out, const char *where,
                 struct err *e)
{
    json_t *v = NULL;
    int r = find(obj, key, required, &v, where, e);

    if (r <= 0)
        return r;
    if (!json_is_string(v))
        return wrong_type(e, where, key, "a string");
    if (json_string_length(v) > max_bytes)
        return fail(e, where, key, "json_too_large",
                    "\"%.64s\" is longer than %zu bytes", key, max_bytes);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return fail(e, where, key, "json_nul", "\"%.64s\" has a NUL", key);
    *out = json_string_value(v);
    return 0;
}

int json_get_int(const json_t *obj, const char *key, bool required, int64_t min,
                 int64_t max, int64_t *out, const char *where, struct err *e)
{
    json_t *v = NULL;
    int64_t n;
    int r = find(obj, key, required, &v, where, e);

    if (r <= 0)
        return r;
    if (!json_is_integer(v))
        return wrong_type(e, where, key, "an integer");
    n = (int64_t)json_integer_value(v);
    if (n < min || n > max)
        return fail(e, where, key, "json_range",
                    "\"%.64s\" must be from %" PRId64 " to %" PRId64, key, min,
                    max);
    *out = n;
    return 0;
}

int json_get_bool(const json_t *obj, const char *key, bool required, bool *out,
                  const char *where, struct err *e)
{
    json_t *v = NULL;
    int r = find(obj, key, required, &v, where, e);

    if (r <= 0)
        return r;
    if (!json_is_boolean(v))
        return wrong_type(e, where, key, "true or false");
    *out = json_is_true(v);
    return 0;
}

int json_get_obj(const json_t *obj, const char *key, bool required,
                 json_t **out, const char *where, struct err *e)
{
    json_t *v = NULL;
    int r = find(obj, key, required, &v, where, e);

    if (r <= 0)
        return r;
    if (!json_is_object(v))
        return wrong_type(e, where, key, "an object");
    *out = v;
    return 0;
}

int json_get_arr(const json_t *obj, const char *key, bool required,
                 size_t max_items, json_t **out, const char *where,
                 struct err *e)
{
    json_t *v = NULL;
    int r = find(obj, key, required, &v, where, e);

    if (r <= 0)
        return r;
    if (!json_is_array(v))
        return wrong_type(e, where, key, "an array");
    if (json_array_size(v) > max_items)
        return fail(e, where, key, "json_too_large",
                    "\"%.64s\" has more than %zu items", key, max_items);
    *out = v;
    return 0;
}

static bool listed(const char *const *keys, const char *key)
{
    for (; *keys != NULL; keys++) {
        if (strcmp(*keys, key) == 0)
            return true;
    }
    return false;
}

int json_only(const json_t *obj, const char *const *keys, const char *where,
              struct err *e)
{
    json_t *o = unconst(obj), *v;
    const char *key;

    if (!json_is_object(obj))
        return fail(e, where, NULL, "json_type", "an object is expected");
    json_object_foreach(o, key, v)
    {
        if (!listed(keys, key))
            return fail(e, where, key, "json_unknown_key",
                        "\"%.64s\" is not known here", key);
    }
    return 0;
}

/* Bytes of the UTF-8 character at p, 0 when there is none (RFC 3629). */
static size_t utf8_len(const unsigned char *p, size_t left)
{
    size_t n, i;

    if (p[0] < 0x80)
        return 1;
    n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > left)
        return 0;
    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) ||  /* overlong */
        (p[0] == 0xed && p[1] >= 0xa0) || /* surrogate */
        (p[0] == 0xf0 && p[1] < 0x90) ||  /* overlong */
        (p[0] == 0xf4 && p[1] >= 0x90))   /* over U+10FFFF */
        return 0;
    return n;
}

bool json_utf8_valid(const char *p, size_t n)
{
    size_t k;

    for (; n > 0; p += k, n -= k) {
        k = utf8_len((const unsigned char *)p, n);
        if (k == 0)
            return false;
    }
    return true;
}

int json_utf8_clean(struct buf *out, const char *p, size_t n)
{
    size_t k;
    int r = 0;

    for (; n > 0; p += k, n -= k) {
        k = utf8_len((const unsigned char *)p, n);
        if (k > 0) {
            r |= buf_add(out, p, k);
        } else {
            r |= buf_puts(out, "\xef\xbf\xbd");
            k = 1;
        }
    }
    return r;
}

/* One character or escape of a pointer; false when it no longer fits. */
static bool pointer_put(char *out, size_t n, size_t *used, const char *s,
                        size_t k)
{
    if (k >= n - *used)
        return false;
    memcpy(out + *used, s, k);
    *used += k;
    out[*used] = '\0';
    return true;
}

void json_pointer(char *out, size_t n, const char *where, const char *key)
{
    size_t used, k, left = strlen(key);
    bool ok;

    if (n == 0)
        return;
    used = strnlen(where, n - 1);
    memmove(out, where, used); /* where may be out itself */
    out[used] = '\0';
    ok = pointer_put(out, n, &used, "/", 1);
    for (; ok && left > 0; key += k, left -= k) {
        k = utf8_len((const unsigned char *)key, left);
        k = k == 0 ? 1 : k;
        if (*key == '~')
            ok = pointer_put(out, n, &used, "~0", 2);
        else if (*key == '/')
            ok = pointer_put(out, n, &used, "~1", 2);
        else
            ok = pointer_put(out, n, &used, key, k);
    }
}

int json_put(json_t *obj, const char *key, json_t *value)
{
    return json_object_set_new(obj, key, value) == 0 ? 0 : -1;
}

int json_put_str(json_t *obj, const char *key, const char *s)
{
    return json_put(obj, key, s == NULL ? json_null() : json_string(s));
}

int json_put_int(json_t *obj, const char *key, int64_t v)
{
    return json_put(obj, key, json_integer((json_int_t)v));
}

int json_put_bool(json_t *obj, const char *key, bool v)
{
    return json_put(obj, key, json_boolean(v));
}

int json_put_time(json_t *obj, const char *key, int64_t unix_seconds)
{
    char text[CLOCK_TEXT_MAX];

    if (unix_seconds <= 0)
        return json_put(obj, key, json_null());
    clock_format(unix_seconds, text);
    return json_put_str(obj, key, text);
}
