/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/param.h"

#include "base/json.h"
#include "workflows/decimal.h"
#include "workflows/text.h"
#include "workflows/types.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { ENUM_VALUES_MAX = 256 };

static int key_type(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    const char *words[TYPES_COUNT];
    size_t i = 0;
    for (i = 0; i < TYPES_COUNT; i++)
        words[i] = types_of((enum param_type)i)->word;
    if (parse_word(p, v, pointer, words, TYPES_COUNT, &i) != 0)
        return -1;
    ((struct param *)out)->type = (enum param_type)i;
    return 0;
}

static int key_title(const struct parse *p, const json_t *v,
                     const char *pointer, void *out)
{
    struct param *q = out;
    return parse_title(p, v, pointer, &q->title_en, &q->title_zh);
}

static int list_min(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    return parse_integer(p, v, pointer, 0, WORKFLOW_LIST_MAX,
                         &((struct param *)out)->list_min);
}

static int list_max(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    return parse_integer(p, v, pointer, 1, WORKFLOW_LIST_MAX,
                         &((struct param *)out)->list_max);
}

static int key_list(const struct parse *p, const json_t *v, const char *pointer,
                    void *out)
{
    static const struct parse_key keys[] = {
        {"min", list_min, true},
        {"max", list_max, true},
    };
    struct param *q = out;
    q->list = true;
    if (parse_object(p, v, pointer, keys, COUNT(keys), q) != 0)
        return -1;
    if (q->list_min <= q->list_max)
        return 0;
    return parse_fail(p, pointer, "workflow_range", "min is above max");
}

/* A bound is a value of the type, written as a client would write it. */
static int bound(const struct parse *p, const json_t *v, const char *pointer,
                 const struct param *q, int64_t *n, char **decimal)
{
    struct err why = ERR_INIT;
    struct param bare = {.type = q->type};
    json_t *normal = NULL;
    if (types_of(q->type)->check(&bare, v, &normal, &why) != 0)
        return parse_because(p, pointer, "workflow_type", "", &why);
    int r = 0;
    *n = json_integer_value(normal);
    if (json_is_string(normal)) {
        *decimal = strdup(json_string_value(normal));
        r = *decimal != NULL ? 0 : parse_nomem(p);
    }
    json_decref(normal);
    return r;
}

static int key_min(const struct parse *p, const json_t *v, const char *pointer,
                   void *out)
{
    struct param *q = out;
    q->has_min = true;
    return bound(p, v, pointer, q, &q->min, &q->number_min);
}

static int key_max(const struct parse *p, const json_t *v, const char *pointer,
                   void *out)
{
    struct param *q = out;
    q->has_max = true;
    return bound(p, v, pointer, q, &q->max, &q->number_max);
}

static int key_values(const struct parse *p, const json_t *v,
                      const char *pointer, void *out)
{
    return parse_strings(p, v, pointer, ENUM_VALUES_MAX, text_title,
                         "1 to 200 bytes, one line",
                         &((struct param *)out)->values);
}

static int key_max_bytes(const struct parse *p, const json_t *v,
                         const char *pointer, void *out)
{
    return parse_integer(p, v, pointer, 1, WORKFLOW_TEXT_BYTES_MAX,
                         &((struct param *)out)->max_bytes);
}

static int key_leading_dash(const struct parse *p, const json_t *v,
                            const char *pointer, void *out)
{
    return parse_boolean(p, v, pointer, &((struct param *)out)->leading_dash);
}

static bool under_value(const char *s)
{
    return strcmp(s, "inputs") == 0 || text_absolute(s);
}

static int key_under(const struct parse *p, const json_t *v,
                     const char *pointer, void *out)
{
    return parse_string(p, v, pointer, under_value,
                        "\"inputs\" or an absolute path",
                        &((struct param *)out)->under);
}

static int key_exists(const struct parse *p, const json_t *v,
                      const char *pointer, void *out)
{
    static const char *const words[] = {"file", "dir"};
    struct param *q = out;
    size_t i = 0;
    if (parse_word(p, v, pointer, words, COUNT(words), &i) != 0)
        return -1;
    q->exists_file = i == 0;
    q->exists_dir = i == 1;
    return 0;
}

static int key_sha256(const struct parse *p, const json_t *v,
                      const char *pointer, void *out)
{
    static const char *const words[] = {"required"};
    size_t i = 0;
    if (parse_word(p, v, pointer, words, COUNT(words), &i) != 0)
        return -1;
    ((struct param *)out)->sha256_required = true;
    return 0;
}

static int key_default(const struct parse *p, const json_t *v,
                       const char *pointer, void *out)
{
    struct param *q = out;
    (void)pointer;
    q->def = parse_copy(v); /* checked when all keys are known */
    return q->def != NULL ? 0 : parse_nomem(p);
}

static int key_optional(const struct parse *p, const json_t *v,
                        const char *pointer, void *out)
{
    return parse_boolean(p, v, pointer, &((struct param *)out)->optional);
}

/* In the order in which they are read: the type comes first. */
static const struct parse_key keys[] = {
    {"type", key_type, true},
    {"title", key_title, false},
    {"list", key_list, false},
    {"min", key_min, false},
    {"max", key_max, false},
    {"values", key_values, false},
    {"max_bytes", key_max_bytes, false},
    {"leading_dash", key_leading_dash, false},
    {"under", key_under, false},
    {"exists", key_exists, false},
    {"sha256", key_sha256, false},
    {"default", key_default, false},
    {"optional", key_optional, false},
    {"when", parse_later, false},
};

#define BIT(t) (1U << (t))
#define SCALED                                                                 \
    (BIT(PARAM_INTEGER) | BIT(PARAM_NUMBER) | BIT(PARAM_DURATION) |            \
     BIT(PARAM_BYTES))
#define WRITTEN (BIT(PARAM_STRING) | BIT(PARAM_TEXT) | BIT(PARAM_PATH))

/* Which types a key is for, and needs to be there for; others: all types. */
static const struct {
    const char *key;
    unsigned types, needed;
} fits[] = {
    {"min", SCALED, 0},
    {"max", SCALED, 0},
    {"values", BIT(PARAM_ENUM), BIT(PARAM_ENUM)},
    {"max_bytes", WRITTEN, 0},
    {"leading_dash", WRITTEN | BIT(PARAM_ENUM), 0},
    {"under", BIT(PARAM_PATH), BIT(PARAM_PATH)},
    {"exists", BIT(PARAM_PATH), 0},
    {"sha256", BIT(PARAM_PATH), 0},
};

static int check_fits(const struct parse *p, const json_t *v,
                      const char *pointer, enum param_type t)
{
    for (size_t i = 0; i < COUNT(fits); i++) {
        char at[PARSE_POINTER_MAX];
        bool there = json_object_get(v, fits[i].key) != NULL;
        json_pointer(at, sizeof at, pointer, fits[i].key);
        if (there && (fits[i].types & BIT(t)) == 0)
            return parse_fail(p, at, "workflow_unknown_key",
                              "not a key of the type %s", types_of(t)->word);
        if (!there && (fits[i].needed & BIT(t)) != 0)
            return parse_fail(p, pointer, "workflow_missing",
                              "the type %s needs \"%s\"", types_of(t)->word,
                              fits[i].key);
    }
    return 0;
}

static int check_bounds(const struct parse *p, const char *pointer,
                        const struct param *q)
{
    bool wrong = q->has_min && q->has_max && q->min > q->max;
    if (q->number_min != NULL && q->number_max != NULL)
        wrong = decimal_cmp(q->number_min, q->number_max) > 0;
    if (wrong)
        return parse_fail(p, pointer, "workflow_range", "min is above max");
    if (q->type != PARAM_ENUM)
        return 0;
    if (q->values.n == 0)
        return parse_fail(p, pointer, "workflow_range", "values is empty");
    for (size_t i = 0; i < q->values.n && !q->leading_dash; i++) {
        if (q->values.v[i][0] == '-')
            return parse_fail(p, pointer, "workflow_range",
                              "the value \"%s\" needs leading_dash: true",
                              q->values.v[i]);
    }
    return 0;
}

static int check_default(const struct parse *p, const char *pointer,
                         struct param *q)
{
    struct err why = ERR_INIT;
    json_t *normal = NULL;
    if (q->def == NULL)
        return 0;
    if (q->optional)
        return parse_fail(p, pointer, "workflow_range",
                          "optional and default exclude each other");
    if (types_value(q, q->def, "", &normal, &why) != 0) {
        bool type = strcmp(why.code, "param_type") == 0;
        return parse_because(p, pointer,
                             type ? "workflow_type" : "workflow_range",
                             "the default: ", &why);
    }
    json_decref(q->def);
    q->def = normal;
    return 0;
}

int param_parse(const struct parse *p, const json_t *v, const char *pointer,
                struct param *out)
{
    if (parse_object(p, v, pointer, keys, COUNT(keys), out) != 0 ||
        check_fits(p, v, pointer, out->type) != 0 ||
        check_bounds(p, pointer, out) != 0)
        return -1;
    if (out->max_bytes == 0)
        out->max_bytes = types_of(out->type)->max_bytes;
    return check_default(p, pointer, out);
}

void param_clear(struct param *p)
{
    free(p->name);
    free(p->title_en);
    free(p->title_zh);
    free(p->number_min);
    free(p->number_max);
    free(p->under);
    strs_clear(&p->values);
    json_decref(p->def);
    *p = (struct param){.name = NULL};
}

/* --- and back ------------------------------------------------------------ */

static int put_limit(json_t *o, const char *key, bool has, int64_t n,
                     const char *decimal)
{
    if (!has)
        return 0;
    return decimal != NULL ? json_put_str(o, key, decimal)
                           : json_put_int(o, key, n);
}

static int put_title(json_t *o, const struct param *p)
{
    if (p->title_en == NULL && p->title_zh == NULL)
        return 0;
    json_t *title = json_object();
    int r = title == NULL ? -1 : 0;
    if (p->title_en != NULL)
        r |= json_put_str(title, "en", p->title_en);
    if (p->title_zh != NULL)
        r |= json_put_str(title, "zh", p->title_zh);
    return json_put(o, "title", title) | r;
}

static int put_bounds(json_t *o, const struct param *p)
{
    int r = 0;
    if (p->list)
        r |= json_put(o, "list",
                      json_pack("{s:I, s:I}", "min", (json_int_t)p->list_min,
                                "max", (json_int_t)p->list_max));
    r |= put_limit(o, "min", p->has_min, p->min, p->number_min);
    r |= put_limit(o, "max", p->has_max, p->max, p->number_max);
    if (p->type == PARAM_ENUM)
        r |= parse_put_strs(o, "values", &p->values);
    if (p->max_bytes > 0)
        r |= json_put_int(o, "max_bytes", p->max_bytes);
    return r;
}

static int put_flags(json_t *o, const struct param *p)
{
    int r = 0;
    if (p->leading_dash)
        r |= json_put_bool(o, "leading_dash", true);
    if (p->under != NULL)
        r |= json_put_str(o, "under", p->under);
    if (p->exists_file || p->exists_dir)
        r |= json_put_str(o, "exists", p->exists_file ? "file" : "dir");
    if (p->sha256_required)
        r |= json_put_str(o, "sha256", "required");
    if (p->def != NULL)
        r |= json_put(o, "default", parse_copy(p->def));
    if (p->optional)
        r |= json_put_bool(o, "optional", true);
    return r;
}

json_t *param_json(const struct param *p, bool named)
{
    json_t *o = json_object();
    int r = o == NULL ? -1 : 0;
    if (named) {
        r |= json_put_str(o, "name", p->name);
        r |= json_put_bool(o, "required", p->def == NULL && !p->optional);
    }
    r |= json_put_str(o, "type", types_of(p->type)->word);
    r |= put_title(o, p);
    r |= put_bounds(o, p);
    r |= put_flags(o, p);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}
