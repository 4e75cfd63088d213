/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/entry.h"

#include "base/id.h"
#include "base/json.h"
#include "workflows/param.h"
#include "workflows/receipts.h"
#include "workflows/resource.h"
#include "workflows/text.h"
#include "workflows/types.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
    ALLOW_MAX = 256,
    MODULES_MAX = 32,
    RECEIPTS_WRITTEN_MAX = 64,
    ENVIRONMENT_MAX = 64
};

static int key_title(const struct parse *p, const json_t *v,
                     const char *pointer, void *out)
{
    struct workflow *w = out;
    return parse_title(p, v, pointer, &w->title_en, &w->title_zh);
}

static int key_template(const struct parse *p, const json_t *v,
                        const char *pointer, void *out)
{
    return parse_string(p, v, pointer, text_template,
                        "a file name like h3-render.sh",
                        &((struct workflow *)out)->template_name);
}

static int allow_groups(const struct parse *p, const json_t *v,
                        const char *pointer, void *out)
{
    return parse_strings(p, v, pointer, ALLOW_MAX, text_subject, "a group",
                         &((struct workflow *)out)->allow_groups);
}

static int allow_users(const struct parse *p, const json_t *v,
                       const char *pointer, void *out)
{
    return parse_strings(p, v, pointer, ALLOW_MAX, text_subject, "a person",
                         &((struct workflow *)out)->allow_users);
}

static int allow_tags(const struct parse *p, const json_t *v,
                      const char *pointer, void *out)
{
    return parse_strings(p, v, pointer, ALLOW_MAX, text_subject, "a tag",
                         &((struct workflow *)out)->allow_tags);
}

static int key_allow(const struct parse *p, const json_t *v,
                     const char *pointer, void *out)
{
    static const struct parse_key keys[] = {
        {"groups", allow_groups, false},
        {"users", allow_users, false},
        {"tags", allow_tags, false},
    };
    return parse_object(p, v, pointer, keys, COUNT(keys), out);
}

static int one_param(const struct parse *p, const char *name, const json_t *v,
                     const char *pointer, struct workflow *w)
{
    struct param *q = &w->params[w->nparams];
    if (!text_param_name(name))
        return parse_fail(p, pointer, "workflow_name",
                          "must match ^[a-z][a-z0-9_]{0,30}$");
    w->nparams++; /* entry_free clears it from here on */
    q->name = strdup(name);
    return q->name != NULL ? param_parse(p, v, pointer, q) : parse_nomem(p);
}

static int key_params(const struct parse *p, const json_t *v,
                      const char *pointer, void *out)
{
    struct workflow *w = out;
    const char *name = NULL;
    json_t *entry = NULL;
    if (!json_is_object(v))
        return parse_fail(p, pointer, "workflow_type", "must be a mapping");
    if (json_object_size(v) > WORKFLOW_PARAMS_MAX)
        return parse_fail(p, pointer, "workflow_range",
                          "more than %d parameters", WORKFLOW_PARAMS_MAX);
    w->params = calloc(json_object_size(v) + 1, sizeof *w->params);
    if (w->params == NULL)
        return parse_nomem(p);
    json_object_foreach(parse_iterable(v), name, entry)
    {
        char at[PARSE_POINTER_MAX];
        json_pointer(at, sizeof at, pointer, name);
        if (one_param(p, name, entry, at, w) != 0)
            return -1;
    }
    return 0;
}

static int key_resources(const struct parse *p, const json_t *v,
                         const char *pointer, void *out)
{
    struct workflow *w = out;
    if (resources_check(p, v, pointer, w) != 0)
        return -1;
    w->resources = parse_copy(v);
    const json_t *requeue = json_object_get(v, "requeue");
    w->requeue = json_is_true(requeue) || json_is_object(requeue);
    return w->resources != NULL ? 0 : parse_nomem(p);
}

static int key_secrets(const struct parse *p, const json_t *v,
                       const char *pointer, void *out)
{
    struct strs *secrets = &((struct workflow *)out)->secrets;
    if (parse_strings(p, v, pointer, WORKFLOW_SECRETS_MAX, text_secret_name,
                      "a name like HF_TOKEN", secrets) != 0)
        return -1;
    for (size_t i = 0; i < secrets->n; i++) {
        const char *s = secrets->v[i];
        if (text_env_reserved(s) || strcmp(s, "PATH") == 0)
            return parse_fail(p, pointer, "workflow_reserved_env",
                              "no secret may be called %s", s);
    }
    return 0;
}

static int key_modules(const struct parse *p, const json_t *v,
                       const char *pointer, void *out)
{
    return parse_strings(p, v, pointer, MODULES_MAX, text_module,
                         "a module's name", &((struct workflow *)out)->modules);
}

static int one_variable(const struct parse *p, const char *name,
                        const json_t *v, const char *pointer)
{
    char *value = NULL;
    if (!text_env_name(name))
        return parse_fail(p, pointer, "workflow_name",
                          "must match ^[A-Za-z_][A-Za-z0-9_]{0,63}$");
    if (text_env_reserved(name))
        return parse_fail(p, pointer, "workflow_reserved_env",
                          "this variable is not the workflow's to set");
    int r = parse_string(p, v, pointer, text_env_value,
                         "at most 4096 bytes, one line", &value);
    free(value);
    return r;
}

static int key_environment(const struct parse *p, const json_t *v,
                           const char *pointer, void *out)
{
    struct workflow *w = out;
    const char *name = NULL;
    json_t *value = NULL;
    if (!json_is_object(v))
        return parse_fail(p, pointer, "workflow_type", "must be a mapping");
    if (json_object_size(v) > ENVIRONMENT_MAX)
        return parse_fail(p, pointer, "workflow_range",
                          "more than %d variables", ENVIRONMENT_MAX);
    json_object_foreach(parse_iterable(v), name, value)
    {
        char at[PARSE_POINTER_MAX];
        json_pointer(at, sizeof at, pointer, name);
        if (one_variable(p, name, value, at) != 0)
            return -1;
    }
    json_decref(w->environment); /* the empty one */
    w->environment = parse_copy(v);
    return w->environment != NULL ? 0 : parse_nomem(p);
}

static int key_share(const struct parse *p, const json_t *v,
                     const char *pointer, void *out)
{
    static const char *const words[] = {"none", "group"};
    size_t i = 0;
    if (parse_word(p, v, pointer, words, COUNT(words), &i) != 0)
        return -1;
    ((struct workflow *)out)->share_group = i == 1;
    return 0;
}

static int key_receipts(const struct parse *p, const json_t *v,
                        const char *pointer, void *out)
{
    struct strs *written = &((struct workflow *)out)->receipts;
    struct strs all = {NULL, 0};
    struct err why = ERR_INIT;
    int r = parse_strings(p, v, pointer, RECEIPTS_WRITTEN_MAX, receipts_char,
                          "a path below results/, of A-Z a-z 0-9 _ . - / * "
                          "and {a..b}",
                          written);
    for (size_t i = 0; i < written->n && r == 0; i++) {
        r = receipts_expand(written->v[i], &all, &why);
        if (r != 0)
            (void)parse_because(p, pointer, "workflow_receipt", written->v[i],
                                &why);
    }
    strs_clear(&all);
    return r;
}

/* In the order in which they are read: resources refer to params. */
static const struct parse_key keys[] = {
    {"title", key_title, false},        {"template", key_template, true},
    {"allow", key_allow, false},        {"params", key_params, false},
    {"resources", key_resources, true}, {"secrets", key_secrets, false},
    {"modules", key_modules, false},    {"environment", key_environment, false},
    {"share", key_share, false},        {"receipts", key_receipts, false},
    {"publish", parse_later, false},    {"retry", parse_later, false},
    {"when", parse_later, false},
};

/* Is name one of the variables that the list makes: <list>_<digits>? */
static bool collides(const char *list, const char *name)
{
    size_t n = strlen(list);
    if (strncmp(list, name, n) != 0 || name[n] != '_')
        return false;
    const char *rest = name + n + 1;
    return *rest != '\0' && rest[strspn(rest, "0123456789")] == '\0';
}

static int check_collisions(const struct parse *p, const char *pointer,
                            const struct workflow *w)
{
    for (size_t i = 0; i < w->nparams * w->nparams; i++) {
        const struct param *list = &w->params[i / w->nparams];
        const struct param *other = &w->params[i % w->nparams];
        if (list->list && collides(list->name, other->name))
            return parse_fail(p, pointer, "workflow_collision",
                              "the parameter %s and an entry of the list %s "
                              "are one variable",
                              other->name, list->name);
    }
    for (size_t i = 0; i < w->secrets.n; i++) {
        if (json_object_get(w->environment, w->secrets.v[i]) != NULL)
            return parse_fail(p, pointer, "workflow_collision",
                              "%s is a secret and a variable", w->secrets.v[i]);
    }
    return 0;
}

static int check_size(const struct parse *p, const char *pointer,
                      const struct workflow *w)
{
    int64_t sum = 0;
    const char *name = NULL;
    json_t *value = NULL;
    for (size_t i = 0; i < w->nparams; i++)
        sum += types_env_bytes(&w->params[i]);
    json_object_foreach(parse_iterable(w->environment), name, value) sum +=
        (int64_t)strlen(name) + 2 + (int64_t)json_string_length(value);
    if (sum > WORKFLOW_ENV_BYTES_MAX)
        return parse_fail(p, pointer, "workflow_env_too_large",
                          "the parameters may take %lld bytes of the job's "
                          "environment, more than %d",
                          (long long)sum, WORKFLOW_ENV_BYTES_MAX);
    return 0;
}

static int fill(const struct parse *p, const char *name, const json_t *v,
                const char *pointer, struct workflow *w)
{
    if (!id_name_valid(name, WORKFLOW_NAME_MAX))
        return parse_fail(p, pointer, "workflow_name",
                          "must match ^[a-z][a-z0-9-]*$, at most %d "
                          "characters",
                          WORKFLOW_NAME_MAX);
    w->name = strdup(name);
    w->environment = json_object();
    if (w->name == NULL || w->environment == NULL)
        return parse_nomem(p);
    if (parse_object(p, v, pointer, keys, COUNT(keys), w) != 0 ||
        check_collisions(p, pointer, w) != 0)
        return -1;
    return check_size(p, pointer, w);
}

int entry_parse(const struct parse *p, const char *name, const json_t *v,
                const char *pointer, struct workflow **out)
{
    struct workflow *w = calloc(1, sizeof *w);
    if (w == NULL)
        return parse_nomem(p);
    if (fill(p, name, v, pointer, w) != 0) {
        entry_free(w);
        return -1;
    }
    *out = w;
    return 0;
}

void entry_free(struct workflow *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->nparams; i++)
        param_clear(&w->params[i]);
    free(w->params);
    free(w->name);
    free(w->title_en);
    free(w->title_zh);
    free(w->template_name);
    strs_clear(&w->allow_groups);
    strs_clear(&w->allow_users);
    strs_clear(&w->allow_tags);
    strs_clear(&w->secrets);
    strs_clear(&w->modules);
    strs_clear(&w->receipts);
    json_decref(w->resources);
    json_decref(w->environment);
    free(w);
}

/* --- and back ------------------------------------------------------------ */

static json_t *title_json(const struct workflow *w, bool nulls)
{
    json_t *o = json_object();
    int r = o == NULL ? -1 : 0;
    if (w->title_en != NULL || nulls)
        r |= json_put_str(o, "en", w->title_en);
    if (w->title_zh != NULL || nulls)
        r |= json_put_str(o, "zh", w->title_zh);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *allow_json(const struct workflow *w)
{
    json_t *o = json_object();
    int r = o == NULL ? -1 : 0;
    r |= parse_put_strs(o, "groups", &w->allow_groups);
    r |= parse_put_strs(o, "users", &w->allow_users);
    r |= parse_put_strs(o, "tags", &w->allow_tags);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *params_object(const struct workflow *w)
{
    json_t *o = json_object();
    int r = o == NULL ? -1 : 0;
    for (size_t i = 0; i < w->nparams; i++)
        r |= json_put(o, w->params[i].name, param_json(&w->params[i], false));
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

json_t *entry_json(const struct workflow *w)
{
    json_t *o = json_object();
    int r = json_put(o, "title", title_json(w, false));
    r |= json_put_str(o, "template", w->template_name);
    r |= json_put(o, "allow", allow_json(w));
    r |= json_put(o, "resources", parse_copy(w->resources));
    r |= json_put(o, "params", params_object(w));
    r |= parse_put_strs(o, "secrets", &w->secrets);
    r |= parse_put_strs(o, "modules", &w->modules);
    r |= json_put(o, "environment", parse_copy(w->environment));
    r |= json_put_str(o, "share", w->share_group ? "group" : "none");
    r |= parse_put_strs(o, "receipts", &w->receipts);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *params_array(const struct workflow *w)
{
    json_t *list = json_array();
    int r = list == NULL ? -1 : 0;
    for (size_t i = 0; i < w->nparams; i++)
        r |= json_array_append_new(list, param_json(&w->params[i], true));
    if (r == 0)
        return list;
    json_decref(list);
    return NULL;
}

json_t *workflow_json(const struct workflow *w)
{
    json_t *o = json_object();
    int r = json_put_str(o, "name", w->name);
    r |= json_put(o, "title", title_json(w, true));
    r |= json_put(o, "params", params_array(w));
    r |= json_put(o, "resources", parse_copy(w->resources));
    r |= parse_put_strs(o, "secrets", &w->secrets);
    r |= parse_put_strs(o, "receipts", &w->receipts);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}
