/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/types.h"

#include "base/json.h"
#include "workflows/decimal.h"

#include <stdio.h>
#include <string.h>

static int64_t bytes_integer(const struct param *p)
{
    (void)p;
    return 20; /* "-9223372036854775808" */
}

static int64_t bytes_number(const struct param *p)
{
    (void)p;
    return DECIMAL_MAX;
}

static int64_t bytes_boolean(const struct param *p)
{
    (void)p;
    return 5; /* "false" */
}

static int64_t bytes_enum(const struct param *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->values.n; i++) {
        size_t n = strlen(p->values.v[i]);
        most = n > most ? n : most;
    }
    return (int64_t)most;
}

static int64_t bytes_text(const struct param *p)
{
    return p->max_bytes;
}

/* Absolute in the environment: below `under`, which for "inputs" is the
 * site's and known later. */
static int64_t bytes_path(const struct param *p)
{
    size_t under = p->under == NULL || p->under[0] != '/' ? TYPES_UNDER_MAX
                                                          : strlen(p->under);
    return (int64_t)under + 1 + p->max_bytes;
}

static const struct type rows[TYPES_COUNT] = {
    [PARAM_INTEGER] = {"integer", INT64_MIN, INT64_MAX, 0, value_integer,
                       schema_integer, bytes_integer},
    [PARAM_NUMBER] = {"number", 0, 0, 0, value_number, schema_number,
                      bytes_number},
    [PARAM_BOOLEAN] = {"boolean", 0, 0, 0, value_boolean, schema_boolean,
                       bytes_boolean},
    [PARAM_ENUM] = {"enum", 0, 0, 0, value_enum, schema_enum, bytes_enum},
    [PARAM_STRING] = {"string", 0, 0, 256, value_string, schema_string,
                      bytes_text},
    [PARAM_TEXT] = {"text", 0, 0, 4096, value_text, schema_text, bytes_text},
    [PARAM_PATH] = {"path", 0, 0, 512, value_path, schema_path, bytes_path},
    [PARAM_DURATION] = {"duration", 0, TYPES_SECONDS_MAX, 0, value_duration,
                        schema_duration, bytes_integer},
    [PARAM_BYTES] = {"bytes", 0, TYPES_BYTES_MAX, 0, value_bytes, schema_bytes,
                     bytes_integer},
};

const struct type *types_of(enum param_type t)
{
    return &rows[t];
}

static int one(const struct param *p, const json_t *v, const char *pointer,
               json_t **out, struct err *e)
{
    if (types_of(p->type)->check(p, v, out, e) != 0)
        return err_at(e, pointer);
    return 0;
}

static int list(const struct param *p, const json_t *v, const char *pointer,
                json_t *out, struct err *e)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        char at[ERR_POINTER_MAX], index[24];
        json_t *item = NULL;
        (void)snprintf(index, sizeof index, "%zu", i);
        json_pointer(at, sizeof at, pointer, index);
        if (one(p, json_array_get(v, i), at, &item, e) != 0)
            return -1;
        if (json_array_append_new(out, item) != 0)
            return err_nomem(e);
    }
    return 0;
}

static int list_size(const struct param *p, const json_t *v,
                     const char *pointer, struct err *e)
{
    if (!json_is_array(v)) {
        (void)err_set(e, ERR_INVALID, "param_type", "must be a list");
        return err_at(e, pointer);
    }
    int64_t n = (int64_t)json_array_size(v);
    if (n >= p->list_min && n <= p->list_max)
        return 0;
    (void)err_set(e, ERR_INVALID, "param_list",
                  "must have %lld to %lld entries", (long long)p->list_min,
                  (long long)p->list_max);
    return err_at(e, pointer);
}

int types_value(const struct param *p, const json_t *v, const char *pointer,
                json_t **out, struct err *e)
{
    if (!p->list)
        return one(p, v, pointer, out, e);
    if (list_size(p, v, pointer, e) != 0)
        return -1;
    json_t *items = json_array();
    if (items == NULL)
        return err_nomem(e);
    if (list(p, v, pointer, items, e) != 0) {
        json_decref(items);
        return -1;
    }
    *out = items;
    return 0;
}

int64_t types_env_bytes(const struct param *p)
{
    int64_t name = (int64_t)strlen("SLUICE_P_") + (int64_t)strlen(p->name);
    int64_t count = p->list ? p->list_max : 1;
    int64_t index = p->list ? 4 : 0; /* "_255" */
    int64_t each = name + index + 2 + types_of(p->type)->bytes(p);
    if (p->sha256_required)
        each +=
            name + index + (int64_t)strlen("_SHA256=") + 1 + TYPES_SHA256_LEN;
    int64_t sum = count * each; /* <= 256 x 33 KiB */
    if (p->list)
        sum += name + (int64_t)strlen("_COUNT=256") + 1;
    return sum;
}
