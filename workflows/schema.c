/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * JSON Schema 2020-12. What it can't say (bytes of UTF-8, the range of a
 * decimal text, that 1.0 is no integer here) stands in x-sluice-* annotations
 * and is checked by the server. The patterns use only what ECMA-262 and POSIX
 * share, but for \uXXXX. */
#include "base/json.h"
#include "workflows/decimal.h"
#include "workflows/parse.h"
#include "workflows/types.h"

#include <string.h>

#define BIDI "\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"
#define LINE "[^\\u0000-\\u001f\\u007f-\\u009f" BIDI "]"
#define TEXT "[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f" BIDI "]"
/* Up to nine digits, as base/num reads them. */
#define HOURS "0{0,7}([01]?[0-9]|2[0-3])"
#define SIXTY "0{0,7}[0-5]?[0-9]"
#define PART "[^/\\u0000-\\u001f\\u007f-\\u009f" BIDI "]"

static int put_bounds(const struct param *p, json_t *o)
{
    const struct type *t = types_of(p->type);
    int64_t min = p->has_min ? p->min : t->least;
    int64_t max = p->has_max ? p->max : t->most;
    int r = json_put_str(o, "type", "integer");
    if (min != INT64_MIN)
        r |= json_put_int(o, "minimum", min);
    if (max != INT64_MAX)
        r |= json_put_int(o, "maximum", max);
    return r;
}

int schema_integer(const struct param *p, json_t *o)
{
    return put_bounds(p, o);
}

/* {"anyOf": [a, b]}; both are consumed. */
static int put_any(json_t *o, json_t *a, json_t *b)
{
    json_t *any = json_pack("[o, o]", a, b);
    return json_put(o, "anyOf", any);
}

static json_t *text_form(const char *pattern)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

/* Whole-number bounds only: JSON has no exact way to write the others. */
static int put_limit(json_t *o, const char *key, const char *decimal)
{
    if (decimal == NULL || strchr(decimal, '.') != NULL || strlen(decimal) > 18)
        return 0;
    return json_put(o, key, json_loads(decimal, JSON_DECODE_ANY, NULL));
}

int schema_number(const struct param *p, json_t *o)
{
    json_t *number = json_object();
    int r = json_put_str(number, "type", "number");
    r |= put_limit(number, "minimum", p->number_min);
    r |= put_limit(number, "maximum", p->number_max);
    json_t *text = text_form("^-?(0|[1-9][0-9]*)([.][0-9]+)?$");
    r |= json_put_int(text, "maxLength", DECIMAL_MAX);
    r |= put_any(o, number, text);
    if (p->number_min != NULL)
        r |= json_put_str(o, "x-sluice-minimum", p->number_min);
    if (p->number_max != NULL)
        r |= json_put_str(o, "x-sluice-maximum", p->number_max);
    return r;
}

int schema_boolean(const struct param *p, json_t *o)
{
    (void)p;
    return json_put_str(o, "type", "boolean");
}

int schema_enum(const struct param *p, json_t *o)
{
    return json_put_str(o, "type", "string") |
           parse_put_strs(o, "enum", &p->values);
}

static int put_not(json_t *o, const char *pattern)
{
    return json_put(o, "not", json_pack("{s:s}", "pattern", pattern));
}

/* A code point has at least one byte, so maxLength refuses nothing that the
 * server takes. */
static int put_text(const struct param *p, json_t *o, const char *pattern)
{
    return json_put_str(o, "type", "string") |
           json_put_int(o, "maxLength", p->max_bytes) |
           json_put_int(o, "x-sluice-max-bytes", p->max_bytes) |
           json_put_str(o, "pattern", pattern);
}

int schema_string(const struct param *p, json_t *o)
{
    int r = put_text(p, o, "^" LINE "*$");
    return p->leading_dash ? r : r | put_not(o, "^-");
}

int schema_text(const struct param *p, json_t *o)
{
    int r = put_text(p, o, "^" TEXT "*$");
    return p->leading_dash ? r : r | put_not(o, "^-");
}

static int put_path(const struct param *p, json_t *o)
{
    int r = put_text(p, o, "^" PART "+(/" PART "+)*$");
    return r | put_not(o, p->leading_dash ? "(^|/)[.][.]?(/|$)"
                                          : "(^|/)[.][.]?(/|$)|^-");
}

int schema_path(const struct param *p, json_t *o)
{
    if (!p->sha256_required)
        return put_path(p, o);
    json_t *path = json_object();
    int r = path == NULL ? -1 : put_path(p, path);
    json_t *both = json_object();
    r |= json_put(both, "path", path);
    r |= json_put(both, "sha256", text_form("^[0-9a-f]{64}$"));
    r |= json_put_str(o, "type", "object");
    r |= json_put(o, "properties", both);
    r |= json_put(o, "required", json_pack("[s, s]", "path", "sha256"));
    return r | json_put_bool(o, "additionalProperties", false);
}

static int put_scaled(const struct param *p, json_t *o, const char *pattern)
{
    json_t *number = json_object();
    int r = number == NULL ? -1 : put_bounds(p, number);
    return put_any(o, number, text_form(pattern)) | r;
}

int schema_duration(const struct param *p, json_t *o)
{
    return put_scaled(p, o,
                      "^([0-9]{1,9}-" HOURS "(:" SIXTY "){0,2}|"
                      "[0-9]{1,9}(:" SIXTY "){1,2})$");
}

int schema_bytes(const struct param *p, json_t *o)
{
    return put_scaled(p, o, "^(0|[1-9][0-9]*)[KMGT]?$");
}

/* --- one parameter ------------------------------------------------------- */

static json_t *wrap_list(const struct param *p, json_t *items)
{
    json_t *o = json_object();
    int r = json_put_str(o, "type", "array");
    r |= json_put(o, "items", items);
    r |= json_put_int(o, "minItems", p->list_min);
    r |= json_put_int(o, "maxItems", p->list_max);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int put_about(const struct param *p, json_t *o)
{
    int r = json_put_str(o, "x-sluice-type", types_of(p->type)->word);
    if (p->title_en != NULL)
        r |= json_put_str(o, "title", p->title_en);
    if (p->title_zh != NULL)
        r |= json_put_str(o, "x-sluice-title-zh", p->title_zh);
    if (p->def != NULL)
        r |= json_put(o, "default", parse_copy(p->def));
    return r;
}

static json_t *property(const struct param *p)
{
    json_t *o = json_object();
    if (o != NULL && types_of(p->type)->schema(p, o) != 0) {
        json_decref(o);
        o = NULL;
    }
    if (o != NULL && p->list)
        o = wrap_list(p, o);
    if (o != NULL && put_about(p, o) != 0) {
        json_decref(o);
        o = NULL;
    }
    return o;
}

static int put_properties(const struct workflow *w, json_t *properties,
                          json_t *required)
{
    int r = properties == NULL || required == NULL ? -1 : 0;
    for (size_t i = 0; i < w->nparams && r == 0; i++) {
        const struct param *p = &w->params[i];
        r |= json_put(properties, p->name, property(p));
        if (p->def == NULL && !p->optional)
            r |= json_array_append_new(required, json_string(p->name));
    }
    return r;
}

json_t *workflow_schema(const struct workflow *w)
{
    json_t *o = json_object(), *properties = json_object();
    json_t *required = json_array();
    int r = put_properties(w, properties, required);
    r |= json_put_str(o, "$schema",
                      "https://json-schema.org/draft/2020-12/schema");
    if (w->title_en != NULL)
        r |= json_put_str(o, "title", w->title_en);
    r |= json_put_str(o, "type", "object");
    r |= json_put(o, "properties", properties);
    r |= json_put(o, "required", required);
    r |= json_put_bool(o, "additionalProperties", false);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}
