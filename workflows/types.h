/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The types of parameters, one row each. What a YAML entry may say, how a value
 * is checked, what the JSON Schema says and how large it gets in the job's
 * environment all come from the row, so that they cannot disagree.
 * Thread rule: pure functions on immutable parameters.
 */
#ifndef WORKFLOWS_TYPES_H
#define WORKFLOWS_TYPES_H

#include "base/err.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TYPES_COUNT = PARAM_BYTES + 1,
    TYPES_SHA256_LEN = 64,
    TYPES_UNDER_MAX = 255 /* bytes allowed for the site's inputs folder */
};
/* Longest duration (400 days) and size (1 PiB) that anything may ask for. */
#define TYPES_SECONDS_MAX ((int64_t)400 * 86400)
#define TYPES_BYTES_MAX ((int64_t)1 << 50)

struct type {
    const char *word;
    int64_t least, most; /* of the integers behind it, without bounds */
    int64_t max_bytes;   /* default of max_bytes; 0: has none */
    /* One value to its normal form (*out owned). ERR_INVALID param_*; the
     * caller sets the pointer. */
    int (*check)(const struct param *p, const json_t *v, json_t **out,
                 struct err *e);
    /* Adds the type's keywords to schema o; json_put's results or'ed. */
    int (*schema)(const struct param *p, json_t *o);
    /* Most bytes of one value in the environment. */
    int64_t (*bytes)(const struct param *p);
};

const struct type *types_of(enum param_type t);

/* One value of p, or for a list all of them, to normal form. Error codes as
 * params_validate; `pointer` is the value's. *out is owned. */
int types_value(const struct param *p, const json_t *v, const char *pointer,
                json_t **out, struct err *e);
/* Most bytes of NAME=value and its NUL, for all variables of p. */
int64_t types_env_bytes(const struct param *p);

/* The rows' functions: value.c, schema.c. */
int value_integer(const struct param *p, const json_t *v, json_t **out,
                  struct err *e);
int value_number(const struct param *p, const json_t *v, json_t **out,
                 struct err *e);
int value_boolean(const struct param *p, const json_t *v, json_t **out,
                  struct err *e);
int value_enum(const struct param *p, const json_t *v, json_t **out,
               struct err *e);
int value_string(const struct param *p, const json_t *v, json_t **out,
                 struct err *e);
int value_text(const struct param *p, const json_t *v, json_t **out,
               struct err *e);
int value_path(const struct param *p, const json_t *v, json_t **out,
               struct err *e);
int value_duration(const struct param *p, const json_t *v, json_t **out,
                   struct err *e);
int value_bytes(const struct param *p, const json_t *v, json_t **out,
                struct err *e);
int schema_integer(const struct param *p, json_t *o);
int schema_number(const struct param *p, json_t *o);
int schema_boolean(const struct param *p, json_t *o);
int schema_enum(const struct param *p, json_t *o);
int schema_string(const struct param *p, json_t *o);
int schema_text(const struct param *p, json_t *o);
int schema_path(const struct param *p, json_t *o);
int schema_duration(const struct param *p, json_t *o);
int schema_bytes(const struct param *p, json_t *o);

#endif
