/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/args.h"

#include "base/crypto.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const none[] = {NULL};
static const char *const work[] = {"workflow", "params", "secrets", NULL};
static const char *const log_[] = {"stream", "attempt", "offset", "limit",
                                   NULL};
static const char *const artifact[] = {"path", "offset", "limit", NULL};

static const char *const *const keys_of[VERB_COUNT] = {
    [VERB_PLAN] = work,    [VERB_SUBMIT] = work,    [VERB_FINISH] = none,
    [VERB_CANCEL] = none,  [VERB_HOLD] = none,      [VERB_RELEASE] = none,
    [VERB_LOG] = log_,     [VERB_ARTIFACTS] = none, [VERB_ARTIFACT] = artifact,
    [VERB_OUTCOME] = none,
};

int args_keys(enum proto_verb v, const json_t *args, struct err *e)
{
    return json_only(args, keys_of[v] != NULL ? keys_of[v] : none, "", e);
}

int args_workflow(const json_t *args, const char **name, struct err *e)
{
    return json_get_str(args, "workflow", true, WORKFLOW_NAME_MAX, name, "", e);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Owned array of the sorted words. */
static json_t *sorted(const char **v, size_t n)
{
    json_t *arr = json_array();

    qsort(v, n, sizeof(*v), compare);
    for (size_t i = 0; arr != NULL && i < n; i++) {
        if (json_array_append_new(arr, json_string(v[i])) != 0) {
            json_decref(arr);
            arr = NULL;
        }
    }
    return arr;
}

static int names_of_submit(const struct workflow *w, const json_t *args,
                           const char **v, size_t *n, struct err *e)
{
    json_t *secrets = NULL, *value;
    const char *name;

    if (json_get_obj(args, "secrets", false, &secrets, "", e) != 0)
        return -1;
    if (secrets == NULL)
        return 0;
    if (secrets_validate(w, secrets, e) != 0)
        return -1;
    if (json_object_size(secrets) > WORKFLOW_SECRETS_MAX)
        return err_set(e, ERR_INVALID, "secret_unknown", "too many secrets");
    json_object_foreach(secrets, name, value) v[(*n)++] = name;
    return 0;
}

/* A plan names its secrets and never has them. */
static int names_of_plan(const struct workflow *w, const json_t *args,
                         const char **v, size_t *n, struct err *e)
{
    json_t *arr = NULL, *item;
    size_t i;

    if (json_get_arr(args, "secrets", false, WORKFLOW_SECRETS_MAX, &arr, "",
                     e) != 0)
        return -1;
    json_array_foreach(arr, i, item)
    {
        const char *name = json_string_value(item);

        if (name == NULL || !strs_has(&w->secrets, name)) {
            (void)err_set(e, ERR_INVALID, "secret_unknown",
                          "a secret that the workflow does not take");
            return err_at(e, "/secrets");
        }
        v[(*n)++] = name;
    }
    return 0;
}

static json_t *secret_names(enum proto_verb verb, const struct workflow *w,
                            const json_t *args, struct err *e)
{
    const char *v[WORKFLOW_SECRETS_MAX];
    size_t n = 0;
    json_t *arr;
    int r = verb == VERB_PLAN ? names_of_plan(w, args, v, &n, e)
                              : names_of_submit(w, args, v, &n, e);

    if (r != 0)
        return NULL;
    arr = sorted(v, n);
    if (arr == NULL)
        (void)err_nomem(e);
    return arr;
}

int args_check(enum proto_verb v, const struct workflow *w, const json_t *args,
               json_t **params, json_t **names, int64_t *gpus, struct err *e)
{
    json_t *given = NULL;
    struct limits l;

    memset(&l, 0, sizeof(l));
    if (json_get_obj(args, "params", false, &given, "", e) != 0 ||
        params_validate(w, given, params, e) != 0 ||
        workflow_limits(w, *params, &l, e) != 0)
        return -1;
    *gpus = limits_gpus(&l);
    limits_clear(&l);
    if (*gpus < 0 || *gpus > INT32_MAX)
        return err_set(e, ERR_INVALID, "workflow_resource", "too many GPUs");
    *names = secret_names(v, w, args, e);
    return *names != NULL ? 0 : -1;
}

int args_digest(const char *workflow, const json_t *params, const json_t *names,
                uint8_t *out, struct err *e)
{
    json_t *o = json_object();
    char *text = NULL;
    int r = json_put_str(o, "workflow", workflow);

    r |= json_put(o, "params", json_deep_copy(params));
    r |= json_put(o, "secrets", json_deep_copy(names));
    if (r == 0)
        text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(o);
    if (text == NULL)
        return err_nomem(e);
    r = crypto_sha256(text, strlen(text), out, e);
    free(text);
    return r;
}
