/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/resource.h"

#include "base/num.h"
#include "workflows/text.h"
#include "workflows/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(field) offsetof(struct limits, field)

enum { MIB = 1024 * 1024, WORDS_MAX = 255 };

static int wrong(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "workflow_resource", "%s", what);
}

static int64_t *integer_of(const struct resource *r, struct limits *l)
{
    return (int64_t *)(void *)((char *)l + r->offset);
}

char **resource_text(const struct resource *r, struct limits *l)
{
    return (char **)(void *)((char *)l + r->offset);
}

static bool *flag_of(const struct resource *r, struct limits *l)
{
    return (bool *)(void *)((char *)l + r->offset);
}

static int store(const struct resource *r, int64_t n, struct limits *l,
                 struct err *e)
{
    if (n < r->min || n > r->max)
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "must be between %lld and %lld", (long long)r->min,
                       (long long)r->max);
    *integer_of(r, l) = n;
    return 0;
}

static int set_integer(const struct resource *r, const json_t *v,
                       struct limits *l, struct err *e)
{
    if (!json_is_integer(v))
        return wrong(e, "must be an integer");
    return store(r, json_integer_value(v), l, e);
}

static int set_flag(const struct resource *r, const json_t *v, struct limits *l,
                    struct err *e)
{
    if (!json_is_boolean(v))
        return wrong(e, "must be true or false");
    *flag_of(r, l) = json_is_true(v);
    return 0;
}

static int store_text(const struct resource *r, const char *s, struct limits *l,
                      struct err *e)
{
    if (s == NULL || !text_chars(s, (size_t)r->max, r->extra))
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "must be 1 to %lld of A-Z a-z 0-9 %s, not beginning "
                       "with -",
                       (long long)r->max, r->extra);
    char *copy = strdup(s);
    if (copy == NULL)
        return err_nomem(e);
    free(*resource_text(r, l));
    *resource_text(r, l) = copy;
    return 0;
}

static int set_text(const struct resource *r, const json_t *v, struct limits *l,
                    struct err *e)
{
    return store_text(r, json_string_value(v), l, e);
}

/* "a", or [a, b]: joined with commas. */
static int set_words(const struct resource *r, const json_t *v,
                     struct limits *l, struct err *e)
{
    char joined[WORDS_MAX + 1] = "";
    size_t used = 0;
    if (!json_is_array(v))
        return store_text(r, json_string_value(v), l, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *s = json_string_value(json_array_get(v, i));
        if (s == NULL || !text_chars(s, WORDS_MAX, r->extra))
            return wrong(e, "must be a word or a list of words");
        int n = snprintf(joined + used, sizeof joined - used, "%s%s",
                         i == 0 ? "" : ",", s);
        if (n < 0 || (size_t)n >= sizeof joined - used)
            return wrong(e, "is too long");
        used += (size_t)n;
    }
    struct resource listed = *r;
    char extra[16];
    (void)snprintf(extra, sizeof extra, "%s,", r->extra);
    listed.extra = extra;
    return store_text(&listed, joined, l, e);
}

/* [{R|B}:]SIGNAL[@seconds], as sbatch(1) --signal. */
static int set_signal(const struct resource *r, const json_t *v,
                      struct limits *l, struct err *e)
{
    const char *s = json_string_value(v);
    if (s == NULL)
        return wrong(e, "must be like \"B:USR1@60\"");
    const char *name = s;
    name += strspn(name, "RB");
    name = name > s && name - s <= 2 && *name == ':' ? name + 1 : s;
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    int64_t seconds = 0;
    if (n == 0 || n > 12 || (name[n] != '\0' && name[n] != '@') ||
        (name[n] == '@' && num_parse(name + n + 1, 0, 65535, &seconds) != 0))
        return wrong(e, "must be like \"B:USR1@60\"");
    return store_text(r, s, l, e);
}

/* Fixed: text with ':' or '-', for a bare number means minutes to Slurm and
 * seconds here. From a parameter: seconds. */
static int set_time(const struct resource *r, const json_t *v, struct limits *l,
                    struct err *e)
{
    int64_t n = json_integer_value(v);
    const char *s = json_string_value(v);
    if (s != NULL &&
        (strpbrk(s, ":-") == NULL || num_parse_duration(s, INT64_MAX, &n) != 0))
        return wrong(e, "must be like \"01:30:00\" or \"2-12:00:00\"");
    return store(r, n, l, e);
}

/* Fixed: text with a unit, for a bare number means MiB to Slurm. From a
 * parameter: bytes. Slurm counts MiB: a part of one is rounded up. */
static int set_memory(const struct resource *r, const json_t *v,
                      struct limits *l, struct err *e)
{
    int64_t n = json_integer_value(v);
    const char *s = json_string_value(v);
    if (s != NULL && (strpbrk(s, "KMGT") == NULL ||
                      num_parse_bytes(s, TYPES_BYTES_MAX, &n) != 0))
        return wrong(e, "must be like \"512M\" or \"176G\"");
    return store(r, n / MIB + (n % MIB != 0), l, e);
}

/* The largest values stay below Slurm's sentinels (16 bits: 0xFFFE; nice: its
 * offset 2^31 less 3). 400 days and 1 PiB: types.h. */
#define INTEGER(k, field, lo, hi)                                              \
    {                                                                          \
        .key = (k), .set = set_integer, .fixed = RESOURCE_INTEGER,             \
        .opened_by = PARAM_INTEGER, .offset = OFFSET(field), .min = (lo),      \
        .max = (hi)                                                            \
    }
#define TEXT(k, field, hi, chars)                                              \
    {                                                                          \
        .key = (k), .set = set_text, .fixed = RESOURCE_TEXT,                   \
        .opened_by = PARAM_ENUM, .offset = OFFSET(field), .max = (hi),         \
        .extra = (chars), .text = true                                         \
    }
#define WORDS(k, field, chars)                                                 \
    {                                                                          \
        .key = (k), .set = set_words, .fixed = RESOURCE_TEXT,                  \
        .opened_by = PARAM_ENUM, .listed = true, .offset = OFFSET(field),      \
        .max = WORDS_MAX, .extra = (chars), .text = true                       \
    }
#define MEMORY(k, field)                                                       \
    {                                                                          \
        .key = (k), .set = set_memory, .fixed = RESOURCE_TEXT,                 \
        .opened_by = PARAM_BYTES, .offset = OFFSET(field), .min = 1,           \
        .max = TYPES_BYTES_MAX / MIB                                           \
    }
#define FLAG(k, field)                                                         \
    {                                                                          \
        .key = (k), .set = set_flag, .fixed = RESOURCE_FLAG,                   \
        .opened_by = PARAM_BOOLEAN, .offset = OFFSET(field)                    \
    }

static const struct resource rows[] = {
    WORDS("partition", partition, "_.-"),
    TEXT("account", account, 64, "_.-"),
    TEXT("qos", qos, 64, "_.-"),
    INTEGER("nodes", nodes, 1, 65000),
    INTEGER("tasks", tasks, 1, 1000000),
    INTEGER("tasks_per_node", tasks_per_node, 1, 65000),
    INTEGER("cpus_per_task", cpus_per_task, 1, 65000),
    MEMORY("mem_per_node", mem_per_node_mib),
    MEMORY("mem_per_cpu", mem_per_cpu_mib),
    {.key = "time",
     .set = set_time,
     .fixed = RESOURCE_TEXT,
     .opened_by = PARAM_DURATION,
     .offset = OFFSET(time_limit_seconds),
     .min = 1,
     .max = TYPES_SECONDS_MAX},
    TEXT("constraint", constraint, 255, "_.,:&|*()[]-"),
    WORDS("exclude", exclude, "_.,[]-"),
    WORDS("licenses", licenses, "_.:@-"),
    WORDS("reservation", reservation, "_.-"),
    FLAG("exclusive", exclusive),
    {.key = "signal",
     .set = set_signal,
     .fixed = RESOURCE_TEXT,
     .opened_by = PARAM_ENUM,
     .offset = OFFSET(signal),
     .max = 32,
     .extra = ":@",
     .text = true},
    INTEGER("nice", nice, 0, 2147483645),
    FLAG("requeue", requeue),
};

static const struct resource gpu_rows[RESOURCE_GPU_ROWS] = {
    [RESOURCE_GPU_TYPE] = TEXT("type", gpu_type, 63, "_.-"),
    [RESOURCE_GPU_COUNT] = INTEGER("count", gpus_per_node, 0, 1024),
};

const struct resource *resource_at(size_t i)
{
    return i < sizeof rows / sizeof rows[0] ? &rows[i] : NULL;
}

const struct resource *resource_gpu(size_t i)
{
    return &gpu_rows[i];
}

const struct resource *resource_find(const char *key)
{
    for (size_t i = 0; resource_at(i) != NULL; i++) {
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    }
    return NULL;
}

const char *resource_opened(const json_t *v)
{
    return json_object_size(v) == 1
               ? json_string_value(json_object_get(v, "param"))
               : NULL;
}
