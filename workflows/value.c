/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One function a type: a client's value to its normal form. The normal form of
 * a value is its own normal form, for every process checks it again. It holds
 * no JSON real: a number is its decimal text. */
#include "base/num.h"
#include "workflows/decimal.h"
#include "workflows/text.h"
#include "workflows/types.h"

#include <stdio.h>
#include <string.h>

static int give(json_t *v, json_t **out, struct err *e)
{
    if (v == NULL)
        return err_nomem(e);
    *out = v;
    return 0;
}

static int wrong_type(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "param_type", "must be %s", what);
}

/* The string, or NULL (with the error) where v is none or holds a NUL. */
static const char *string_of(const json_t *v, const char *what, struct err *e)
{
    const char *s = json_string_value(v);
    if (s == NULL) {
        (void)wrong_type(e, what);
        return NULL;
    }
    if (strlen(s) != json_string_length(v)) {
        (void)err_set(e, ERR_INVALID, "param_control",
                      "must not contain a NUL");
        return NULL;
    }
    return s;
}

/* Within the parameter's bounds, and the type's where it names none. */
static int in_range(const struct param *p, int64_t n, json_t **out,
                    struct err *e)
{
    const struct type *t = types_of(p->type);
    int64_t min = p->has_min ? p->min : t->least;
    int64_t max = p->has_max ? p->max : t->most;
    if (n < min || n > max)
        return err_set(e, ERR_INVALID, "param_range",
                       "must be between %lld and %lld", (long long)min,
                       (long long)max);
    return give(json_integer(n), out, e);
}

int value_integer(const struct param *p, const json_t *v, json_t **out,
                  struct err *e)
{
    if (!json_is_integer(v))
        return wrong_type(e, "an integer");
    return in_range(p, json_integer_value(v), out, e);
}

static int number_text(const json_t *v, char *out)
{
    if (json_is_integer(v)) {
        (void)snprintf(out, DECIMAL_MAX + 1, "%lld",
                       (long long)json_integer_value(v));
        return 0;
    }
    if (json_is_real(v))
        return decimal_of_real(json_real_value(v), out);
    const char *s = json_string_value(v);
    if (s == NULL || strlen(s) != json_string_length(v) || !decimal_valid(s))
        return -1;
    memcpy(out, s, strlen(s) + 1);
    return 0;
}

int value_number(const struct param *p, const json_t *v, json_t **out,
                 struct err *e)
{
    char text[DECIMAL_MAX + 1];
    if (number_text(v, text) != 0)
        return wrong_type(e, "a number, or its decimal text without exponent");
    const char *min = p->number_min, *max = p->number_max;
    if (min != NULL && decimal_cmp(text, min) < 0)
        return err_set(e, ERR_INVALID, "param_range", "must be at least %s",
                       min);
    if (max != NULL && decimal_cmp(text, max) > 0)
        return err_set(e, ERR_INVALID, "param_range", "must be at most %s",
                       max);
    return give(json_string(text), out, e);
}

int value_boolean(const struct param *p, const json_t *v, json_t **out,
                  struct err *e)
{
    (void)p;
    if (!json_is_boolean(v))
        return wrong_type(e, "true or false");
    return give(json_boolean(json_is_true(v)), out, e);
}

int value_enum(const struct param *p, const json_t *v, json_t **out,
               struct err *e)
{
    const char *s = string_of(v, "a string", e);
    if (s == NULL)
        return -1;
    if (!strs_has(&p->values, s))
        return err_set(e, ERR_INVALID, "param_enum",
                       "is none of the %zu values", p->values.n);
    return give(json_string(s), out, e);
}

static int check_text(const struct param *p, const char *s, bool lines,
                      struct err *e)
{
    size_t n = strlen(s);
    if ((int64_t)n > p->max_bytes)
        return err_set(e, ERR_INVALID, "param_length",
                       "must be at most %lld bytes of UTF-8",
                       (long long)p->max_bytes);
    if (!text_clean(s, n, lines))
        return err_set(e, ERR_INVALID, "param_control",
                       "must not contain control characters%s",
                       lines ? " other than newlines and tabs" : "");
    if (s[0] == '-' && !p->leading_dash)
        return err_set(e, ERR_INVALID, "param_leading_dash",
                       "must not begin with \"-\"");
    return 0;
}

static int line_or_text(const struct param *p, const json_t *v, bool lines,
                        json_t **out, struct err *e)
{
    const char *s = string_of(v, "a string", e);
    if (s == NULL || check_text(p, s, lines, e) != 0)
        return -1;
    return give(json_string(s), out, e);
}

int value_string(const struct param *p, const json_t *v, json_t **out,
                 struct err *e)
{
    return line_or_text(p, v, false, out, e);
}

int value_text(const struct param *p, const json_t *v, json_t **out,
               struct err *e)
{
    return line_or_text(p, v, true, out, e);
}

static int check_path(const struct param *p, const char *s, struct err *e)
{
    if (check_text(p, s, false, e) != 0)
        return -1;
    if (!text_relative(s, strlen(s)))
        return err_set(e, ERR_INVALID, "param_path",
                       "must be a relative path without empty, \".\" or "
                       "\"..\" parts");
    return 0;
}

/* {path, sha256}: exactly these two. */
static int hashed_path(const struct param *p, const json_t *v, json_t **out,
                       struct err *e)
{
    const json_t *path = json_object_get(v, "path");
    const json_t *hash = json_object_get(v, "sha256");
    if (path == NULL || json_object_size(v) != (hash == NULL ? 1 : 2))
        return wrong_type(e, "{\"path\": ..., \"sha256\": ...}");
    const char *s = string_of(path, "a path", e);
    if (s == NULL || check_path(p, s, e) != 0)
        return -1;
    const char *h = json_string_value(hash);
    if (h == NULL || json_string_length(hash) != TYPES_SHA256_LEN ||
        !text_sha256(h))
        return err_set(e, ERR_INVALID, "param_sha256",
                       "needs \"sha256\": 64 lower-case hex digits");
    return give(json_pack("{s:s, s:s}", "path", s, "sha256", h), out, e);
}

int value_path(const struct param *p, const json_t *v, json_t **out,
               struct err *e)
{
    if (p->sha256_required && json_is_object(v))
        return hashed_path(p, v, out, e);
    const char *s = string_of(v, "a path", e);
    if (s == NULL)
        return -1;
    if (p->sha256_required)
        return err_set(e, ERR_INVALID, "param_sha256",
                       "must be {\"path\": ..., \"sha256\": ...}");
    if (check_path(p, s, e) != 0)
        return -1;
    return give(json_string(s), out, e);
}

/* Bare digits are minutes to Slurm and seconds to everybody else: as text they
 * are refused, as a JSON integer they are seconds. */
int value_duration(const struct param *p, const json_t *v, json_t **out,
                   struct err *e)
{
    static const char what[] =
        "seconds as an integer, or text like \"01:30:00\" or \"2-12:00:00\"";
    int64_t n = json_integer_value(v);
    if (json_is_integer(v))
        return in_range(p, n, out, e);
    const char *s = string_of(v, what, e);
    if (s == NULL)
        return -1;
    if (strpbrk(s, ":-") == NULL || num_parse_duration(s, INT64_MAX, &n) != 0)
        return wrong_type(e, what);
    return in_range(p, n, out, e);
}

int value_bytes(const struct param *p, const json_t *v, json_t **out,
                struct err *e)
{
    static const char what[] =
        "bytes as an integer, or text like \"512M\" or \"176G\"";
    int64_t n = json_integer_value(v);
    if (json_is_integer(v))
        return in_range(p, n, out, e);
    const char *s = string_of(v, what, e);
    if (s == NULL)
        return -1;
    if (num_parse_bytes(s, INT64_MAX, &n) != 0)
        return wrong_type(e, what);
    return in_range(p, n, out, e);
}
