/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * JSON through jansson, the strict way: one parse function with a byte cap and
 * JSON_REJECT_DUPLICATES, typed getters that name the key in the error, unknown
 * keys refused. jansson types stay visible: json_t is the tree.
 * Ownership: as jansson says; getters return borrowed values that live as long
 * as the object. Thread rule: a tree belongs to one thread at a time.
 * Errors: ERR_INVALID with codes json_syntax json_too_large json_too_deep
 * json_duplicate_key json_type json_missing json_unknown_key json_range
 * json_nul; err.pointer is the JSON pointer.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 16 };

/* Owned tree, or NULL: an object or an array. UTF-8 only, no NUL in strings
 * (nor as \u0000), depth <= JSON_DEPTH_MAX, no trailing bytes, integers within
 * int64 (json_range). Reals are kept as JSON reals (getters refuse them). */
json_t *json_parse(const char *text, size_t len, size_t max_bytes,
                   struct err *e);

/* Compact, keys in insertion order. Owned (free()). NULL on ENOMEM. */
char *json_text(const json_t *v);
/* Canonical: sorted keys, compact, integers only (a real anywhere is
 * ERR_INTERNAL "json_real"). Owned (free()). */
char *json_canonical(const json_t *v, size_t *len, struct err *e);

/* Each: 0 or -1; `where` is the pointer of obj ("" for the root). `required`
 * false: an absent or null key leaves *out untouched and returns 0. An obj that
 * is no object (NULL included) is json_type. Too long a string and too many
 * items are json_too_large. On -1 *out is untouched. */
int json_get_str(const json_t *obj, const char *key, bool required,
                 size_t max_bytes, const char **out, const char *where,
                 struct err *e);
int json_get_int(const json_t *obj, const char *key, bool required, int64_t min,
                 int64_t max, int64_t *out, const char *where, struct err *e);
int json_get_bool(const json_t *obj, const char *key, bool required, bool *out,
                  const char *where, struct err *e);
int json_get_obj(const json_t *obj, const char *key, bool required,
                 json_t **out, const char *where, struct err *e);
int json_get_arr(const json_t *obj, const char *key, bool required,
                 size_t max_items, json_t **out, const char *where,
                 struct err *e);

/* Refuse keys of obj that are not in the NULL-terminated list. */
int json_only(const json_t *obj, const char *const *keys, const char *where,
              struct err *e);

/* Append "/key" with RFC 6901 escapes; out is cut safely at n bytes (never
 * within an escape or a character). where may be out itself. */
void json_pointer(char *out, size_t n, const char *where, const char *key);

/* Building: set and consume value; -1 when value is NULL or ENOMEM, so a chain
 * of calls can be tested once:  r |= json_put(o, "a", json_integer(1)); */
int json_put(json_t *obj, const char *key, json_t *value);
int json_put_str(json_t *obj, const char *key, const char *s); /* NULL: null */
int json_put_int(json_t *obj, const char *key, int64_t v);
int json_put_bool(json_t *obj, const char *key, bool v);
/* RFC 3339 text, or null when unix_seconds <= 0. */
int json_put_time(json_t *obj, const char *key, int64_t unix_seconds);

/* Replace bytes that are not UTF-8 by U+FFFD, one a bad byte. */
int json_utf8_clean(struct buf *out, const char *p, size_t n);
/* Is [p, n) valid UTF-8 (RFC 3629)? */
bool json_utf8_valid(const char *p, size_t n);

#endif
