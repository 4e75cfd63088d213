/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What a client sends, checked: params and secrets. */
#include "base/json.h"
#include "workflows/parse.h"
#include "workflows/types.h"
#include "workflows/workflow.h"

#include <string.h>

static const struct param *find(const struct workflow *w, const char *name)
{
    for (size_t i = 0; i < w->nparams; i++) {
        if (strcmp(w->params[i].name, name) == 0)
            return &w->params[i];
    }
    return NULL;
}

static int at(struct err *e, const char *where, const char *key)
{
    char pointer[ERR_POINTER_MAX];
    json_pointer(pointer, sizeof pointer, where, key);
    return err_at(e, pointer);
}

static int only_declared(const struct workflow *w, const json_t *params,
                         struct err *e)
{
    const char *key = NULL;
    json_t *v = NULL;
    json_object_foreach(parse_iterable(params), key, v)
    {
        if (find(w, key) != NULL)
            continue;
        (void)err_set(e, ERR_INVALID, "param_unknown",
                      "the workflow has no such parameter");
        return at(e, "/params", key);
    }
    return 0;
}

/* Absent: the default, nothing where it may be absent, or an error. */
static int fill(const struct param *p, json_t *out, struct err *e)
{
    if (p->def != NULL)
        return json_put(out, p->name, parse_copy(p->def)) == 0 ? 0
                                                               : err_nomem(e);
    if (p->optional)
        return 0;
    (void)err_set(e, ERR_INVALID, "param_missing", "is required");
    return at(e, "/params", p->name);
}

static int take(const struct param *p, const json_t *params, json_t *out,
                struct err *e)
{
    char pointer[ERR_POINTER_MAX];
    json_t *normal = NULL;
    const json_t *v = json_object_get(params, p->name);
    if (v == NULL)
        return fill(p, out, e);
    json_pointer(pointer, sizeof pointer, "/params", p->name);
    if (types_value(p, v, pointer, &normal, e) != 0)
        return -1;
    return json_put(out, p->name, normal) == 0 ? 0 : err_nomem(e);
}

static int take_all(const struct workflow *w, const json_t *params, json_t *out,
                    struct err *e)
{
    if (params != NULL && only_declared(w, params, e) != 0)
        return -1;
    for (size_t i = 0; i < w->nparams; i++) {
        if (take(&w->params[i], params, out, e) != 0)
            return -1;
    }
    return 0;
}

int params_validate(const struct workflow *w, const json_t *params,
                    json_t **out, struct err *e)
{
    if (params != NULL && !json_is_object(params)) {
        (void)err_set(e, ERR_INVALID, "param_type", "must be an object");
        return err_at(e, "/params");
    }
    json_t *normal = json_object();
    if (normal == NULL)
        return err_nomem(e);
    if (take_all(w, params, normal, e) != 0) {
        json_decref(normal);
        return -1;
    }
    *out = normal;
    return 0;
}

/* Neither the value nor its length goes into an error. */
static int check_secret(const struct workflow *w, const char *name,
                        const json_t *v, struct err *e)
{
    size_t n = json_string_length(v);
    if (!strs_has(&w->secrets, name))
        return err_set(e, ERR_INVALID, "secret_unknown",
                       "the workflow declares no such secret");
    if (!json_is_string(v) || strlen(json_string_value(v)) != n)
        return err_set(e, ERR_INVALID, "secret_type",
                       "must be a string without NUL");
    if (n < 1 || n > WORKFLOW_SECRET_BYTES_MAX)
        return err_set(e, ERR_INVALID, "secret_length",
                       "must have 1 to %d bytes", WORKFLOW_SECRET_BYTES_MAX);
    return 0;
}

int secrets_validate(const struct workflow *w, const json_t *secrets,
                     struct err *e)
{
    const char *name = NULL;
    json_t *v = NULL;
    if (secrets == NULL)
        return 0;
    if (!json_is_object(secrets)) {
        (void)err_set(e, ERR_INVALID, "secret_type", "must be an object");
        return err_at(e, "/secrets");
    }
    json_object_foreach(parse_iterable(secrets), name, v)
    {
        if (check_secret(w, name, v, e) != 0)
            return at(e, "/secrets", name);
    }
    return 0;
}
