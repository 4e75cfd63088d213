/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * `resources:` of a workflow: one row each. A resource that a parameter opens
 * is tried at load with the parameter's extreme values (resources.c), by the
 * same function that later takes the real one (limits.c).
 * Thread rule: as workflow.h.
 */
#ifndef WORKFLOWS_RESOURCE_H
#define WORKFLOWS_RESOURCE_H

#include "workflows/parse.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { RESOURCE_GPU_TYPE, RESOURCE_GPU_COUNT, RESOURCE_GPU_ROWS };

struct resource;
/* Sets the row's field of l from a fixed value, or a parameter's in normal
 * form. On failure l is unchanged. ERR_INVALID workflow_resource. */
typedef int resource_set_fn(const struct resource *r, const json_t *v,
                            struct limits *l, struct err *e);

enum resource_kind { RESOURCE_INTEGER, RESOURCE_TEXT, RESOURCE_FLAG };

struct resource {
    const char *key;
    resource_set_fn *set;
    enum resource_kind fixed; /* JSON type of a fixed value */
    enum param_type opened_by;
    bool listed;       /* may be a list of words */
    size_t offset;     /* in struct limits */
    int64_t min, max;  /* integers; bytes of text */
    const char *extra; /* text: besides A-Z a-z 0-9 */
    bool text;         /* the field is a char * */
};

/* All rows but gpus_per_node's; NULL behind the last one. */
const struct resource *resource_at(size_t i);
const struct resource *resource_find(const char *key); /* or NULL */
/* gpus_per_node: {type, count}, or the count alone. */
const struct resource *resource_gpu(size_t i); /* < RESOURCE_GPU_ROWS */
/* The name in {param: NAME}; NULL: v is something else. */
const char *resource_opened(const json_t *v);
char **resource_text(const struct resource *r, struct limits *l);

/* At load; w's params are read already. workflow_type workflow_unknown_key
 * workflow_missing workflow_resource. */
int resources_check(const struct parse *p, const json_t *v, const char *pointer,
                    const struct workflow *w);

#endif
