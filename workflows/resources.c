/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/resource.h"

#include "base/json.h"
#include "workflows/types.h"

#include <string.h>

static const struct param *param_of(const struct workflow *w, const char *name)
{
    for (size_t i = 0; i < w->nparams; i++) {
        if (strcmp(w->params[i].name, name) == 0)
            return &w->params[i];
    }
    return NULL;
}

static int try_json(const struct resource *r, json_t *v, struct err *e)
{
    struct limits l = {.nodes = 0};
    int rc = v == NULL ? err_nomem(e) : r->set(r, v, &l, e);
    limits_clear(&l);
    json_decref(v);
    return rc;
}

/* Can every value of the parameter be the resource's? */
static int try_extremes(const struct resource *r, const struct param *q,
                        struct err *e)
{
    if (q->type == PARAM_BOOLEAN)
        return 0;
    for (size_t i = 0; i < q->values.n; i++) {
        if (try_json(r, json_string(q->values.v[i]), e) != 0)
            return -1;
    }
    if (q->type == PARAM_ENUM)
        return 0;
    if (!q->has_min || !q->has_max)
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "needs min and max");
    if (try_json(r, json_integer(q->min), e) != 0)
        return -1;
    return try_json(r, json_integer(q->max), e);
}

static int check_opened(const struct parse *p, const struct resource *r,
                        const char *name, const char *pointer,
                        const struct workflow *w)
{
    struct err why = ERR_INIT;
    const struct param *q = param_of(w, name);
    if (q == NULL)
        return parse_fail(p, pointer, "workflow_resource",
                          "there is no parameter \"%s\"", name);
    if (q->type != r->opened_by || q->list)
        return parse_fail(p, pointer, "workflow_resource",
                          "must be opened by one %s, not a list",
                          types_of(r->opened_by)->word);
    if (q->optional)
        return parse_fail(p, pointer, "workflow_resource",
                          "the parameter \"%s\" may be absent", name);
    if (try_extremes(r, q, &why) != 0)
        return parse_because(p, pointer, "workflow_resource",
                             "its parameter's values: ", &why);
    return 0;
}

static bool fixed_type(const struct resource *r, const json_t *v)
{
    if (r->listed && json_is_array(v))
        return json_array_size(v) > 0;
    if (r->fixed == RESOURCE_FLAG)
        return json_is_boolean(v);
    return r->fixed == RESOURCE_TEXT ? json_is_string(v) : json_is_integer(v);
}

static int check_row(const struct parse *p, const struct resource *r,
                     const json_t *v, const char *pointer,
                     const struct workflow *w)
{
    struct err why = ERR_INIT;
    const char *name = resource_opened(v);
    if (name != NULL)
        return check_opened(p, r, name, pointer, w);
    if (!fixed_type(r, v))
        return parse_fail(p, pointer, "workflow_type",
                          "must be %s, or {param: NAME}",
                          r->fixed == RESOURCE_INTEGER ? "an integer"
                          : r->fixed == RESOURCE_TEXT  ? "text"
                                                       : "true or false");
    if (try_json(r, parse_copy(v), &why) != 0)
        return parse_because(p, pointer, "workflow_resource", "", &why);
    return 0;
}

static const struct resource *gpu_part(const char *key)
{
    for (size_t i = 0; i < RESOURCE_GPU_ROWS; i++) {
        if (strcmp(resource_gpu(i)->key, key) == 0)
            return resource_gpu(i);
    }
    return NULL;
}

static int check_gpus(const struct parse *p, const json_t *v,
                      const char *pointer, const struct workflow *w)
{
    const char *key = NULL;
    json_t *part = NULL;
    if (!json_is_object(v) || resource_opened(v) != NULL)
        return check_row(p, resource_gpu(RESOURCE_GPU_COUNT), v, pointer, w);
    json_object_foreach(parse_iterable(v), key, part)
    {
        char at[PARSE_POINTER_MAX];
        const struct resource *r = gpu_part(key);
        json_pointer(at, sizeof at, pointer, key);
        if (r == NULL)
            return parse_fail(p, at, "workflow_unknown_key", "unknown key");
        if (check_row(p, r, part, at, w) != 0)
            return -1;
    }
    if (json_object_get(v, "count") == NULL)
        return parse_fail(p, pointer, "workflow_missing",
                          "the key \"count\" is missing");
    return 0;
}

static int check_together(const struct parse *p, const json_t *v,
                          const char *pointer)
{
    if (json_object_get(v, "mem_per_node") != NULL &&
        json_object_get(v, "mem_per_cpu") != NULL)
        return parse_fail(p, pointer, "workflow_resource",
                          "mem_per_node and mem_per_cpu exclude each other");
    if (json_object_get(v, "gpus_per_node") != NULL &&
        json_object_get(v, "nodes") == NULL)
        return parse_fail(p, pointer, "workflow_resource",
                          "gpus_per_node needs nodes: else nobody knows how "
                          "many GPUs the job may take");
    return 0;
}

int resources_check(const struct parse *p, const json_t *v, const char *pointer,
                    const struct workflow *w)
{
    const char *key = NULL;
    json_t *part = NULL;
    if (!json_is_object(v))
        return parse_fail(p, pointer, "workflow_type", "must be a mapping");
    json_object_foreach(parse_iterable(v), key, part)
    {
        char at[PARSE_POINTER_MAX];
        const struct resource *r = resource_find(key);
        bool gpus = strcmp(key, "gpus_per_node") == 0;
        json_pointer(at, sizeof at, pointer, key);
        if (r == NULL && !gpus)
            return parse_fail(p, at, "workflow_unknown_key",
                              "unknown resource");
        if ((gpus ? check_gpus(p, part, at, w)
                  : check_row(p, r, part, at, w)) != 0)
            return -1;
    }
    return check_together(p, v, pointer);
}
