/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * From resources and parameters to the limits of one request. */
#include "base/json.h"
#include "workflows/resource.h"

#include <stdlib.h>

static int fill_row(const struct resource *r, const json_t *v,
                    const json_t *params, struct limits *out, struct err *e)
{
    const char *name = resource_opened(v);
    if (name != NULL)
        v = json_object_get(params, name);
    if (v == NULL)
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "the resource %s has no value", r->key);
    return r->set(r, v, out, e);
}

static int fill_gpus(const json_t *v, const json_t *params, struct limits *out,
                     struct err *e)
{
    if (!json_is_object(v) || resource_opened(v) != NULL)
        return fill_row(resource_gpu(RESOURCE_GPU_COUNT), v, params, out, e);
    for (size_t i = 0; i < RESOURCE_GPU_ROWS; i++) {
        const struct resource *r = resource_gpu(i);
        const json_t *part = json_object_get(v, r->key);
        if (part != NULL && fill_row(r, part, params, out, e) != 0)
            return -1;
    }
    return 0;
}

static int fill_all(const json_t *resources, const json_t *params,
                    struct limits *out, struct err *e)
{
    const struct resource *r = NULL;
    for (size_t i = 0; (r = resource_at(i)) != NULL; i++) {
        const json_t *v = json_object_get(resources, r->key);
        if (v != NULL && fill_row(r, v, params, out, e) != 0)
            return -1;
    }
    const json_t *gpus = json_object_get(resources, "gpus_per_node");
    return gpus != NULL ? fill_gpus(gpus, params, out, e) : 0;
}

/* As sbatch does; at most 65000 x 65000. */
static int derive_tasks(struct limits *l, struct err *e)
{
    const struct resource *tasks = resource_find("tasks");
    if (l->tasks == 0)
        l->tasks = l->nodes * l->tasks_per_node;
    if (tasks == NULL || l->tasks > tasks->max)
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "nodes times tasks_per_node are too many tasks");
    return 0;
}

int workflow_limits(const struct workflow *w, const json_t *params,
                    struct limits *out, struct err *e)
{
    struct limits l = {.nodes = 0};
    if (fill_all(w->resources, params, &l, e) != 0 ||
        derive_tasks(&l, e) != 0) {
        limits_clear(&l);
        return -1;
    }
    *out = l;
    return 0;
}

void limits_clear(struct limits *l)
{
    const struct resource *r = NULL;
    for (size_t i = 0; (r = resource_at(i)) != NULL; i++) {
        if (r->text)
            free(*resource_text(r, l));
    }
    free(l->gpu_type);
    *l = (struct limits){.nodes = 0};
}

int64_t limits_gpus(const struct limits *l)
{
    return l->nodes * l->gpus_per_node;
}

/* Absent facts are null, but flags are facts, and so is no GPU. */
static int put_count(json_t *o, const char *key, int64_t n)
{
    return n > 0 ? json_put_int(o, key, n) : json_put(o, key, json_null());
}

json_t *limits_json(const struct limits *l)
{
    json_t *o = json_object();
    int r = json_put_str(o, "partition", l->partition);
    r |= json_put_str(o, "account", l->account);
    r |= json_put_str(o, "qos", l->qos);
    r |= put_count(o, "nodes", l->nodes);
    r |= put_count(o, "tasks", l->tasks);
    r |= put_count(o, "tasks_per_node", l->tasks_per_node);
    r |= put_count(o, "cpus_per_task", l->cpus_per_task);
    r |= put_count(o, "mem_per_node_mib", l->mem_per_node_mib);
    r |= put_count(o, "mem_per_cpu_mib", l->mem_per_cpu_mib);
    r |= json_put_int(o, "gpus", limits_gpus(l));
    r |= json_put_int(o, "gpus_per_node", l->gpus_per_node);
    r |= json_put_str(o, "gpu_type", l->gpu_type);
    r |= put_count(o, "time_limit_seconds", l->time_limit_seconds);
    r |= json_put_str(o, "constraint", l->constraint);
    r |= json_put_str(o, "exclude", l->exclude);
    r |= json_put_str(o, "licenses", l->licenses);
    r |= json_put_str(o, "reservation", l->reservation);
    r |= json_put_str(o, "signal", l->signal);
    r |= json_put_int(o, "nice", l->nice);
    r |= json_put_bool(o, "exclusive", l->exclusive);
    r |= json_put_bool(o, "requeue", l->requeue);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}
