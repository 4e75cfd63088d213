/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "auth/rules.h"

#include "auth/people.h"
#include "base/id.h"
#include "base/json.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { RULES_MAX = 64, WORD_MAX = 64 };

static const char *const rule_keys[] = {"login", "unix_group", "slurm_account",
                                        "qos",   "groups",     "proof",
                                        "gpus",  NULL};
/* What an entry takes over from its rule as it is. */
static const char *const copied[] = {
    "slurm_account", "qos", "groups", "proof", "gpus", "unix_group", NULL};

struct rule {
    const json_t *obj;
    const char *login, *unix_group;
};

struct expand {
    const char *file;
    const struct yaml_lines *lines;
    rules_members_fn *members;
    json_t *out;
};

/* json's errors as the map's: config class, code and file:line. */
static int bad(const struct expand *x, const char *pointer,
               const struct err *why, struct err *e)
{
    const char *code =
        strcmp(why->code, "json_unknown_key") == 0 ? "people_unknown_key"
        : strcmp(why->code, "json_missing") == 0   ? "people_missing"
                                                   : "people_type";

    err_set(e, ERR_CONFIG, code, "%s:%d: %s: %s", x->file,
            yaml_line(x->lines, pointer), pointer, why->text);
    return err_at(e, pointer);
}

static int rule_read(const struct expand *x, const json_t *obj, size_t i,
                     struct rule *r, struct err *e)
{
    char pointer[ERR_POINTER_MAX];
    struct err why = ERR_INIT;

    (void)snprintf(pointer, sizeof(pointer), "/people/rules/%zu", i);
    *r = (struct rule){.obj = obj, .login = "*"};
    if (!json_is_object(obj))
        err_set(&why, ERR_CONFIG, "json_type", "must be a mapping");
    else if (json_only(obj, rule_keys, pointer, &why) == 0 &&
             json_get_str(obj, "unix_group", true, WORD_MAX, &r->unix_group,
                          pointer, &why) == 0)
        (void)json_get_str(obj, "login", false, WORD_MAX, &r->login, pointer,
                           &why);
    return err_is_set(&why) ? bad(x, pointer, &why, e) : 0;
}

static json_t *entry_of(const struct rule *r, const char *login)
{
    json_t *o = json_object();
    int bad_put = json_put_str(o, "account", login) |
                  json_put(o, "roles", json_pack("[s]", "researcher"));

    for (size_t i = 0; copied[i] != NULL; i++) {
        json_t *v = json_object_get(r->obj, copied[i]);

        if (v != NULL)
            bad_put |= json_put(o, copied[i], json_deep_copy(v));
    }
    if (bad_put == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* Somebody explicit may have this account under another name. */
static bool is_taken(const json_t *out, const char *login)
{
    const char *name;
    json_t *v;

    if (json_object_get(out, login) != NULL)
        return true;
    json_object_foreach((json_t *)(uintptr_t)out, name, v)
    {
        const char *a = json_string_value(json_object_get(v, "account"));

        if (a != NULL && strcmp(a, login) == 0)
            return true;
    }
    return false;
}

static int rule_apply(struct expand *x, const struct rule *r, struct err *e)
{
    struct strs logins = {0};
    int rc = x->members(r->unix_group, &logins, e);

    for (size_t i = 0; rc == 0 && i < logins.n; i++) {
        const char *login = logins.v[i];

        if (fnmatch(r->login, login, FNM_NOESCAPE) != 0 ||
            !id_name_valid(login, PERSON_NAME_MAX) || is_taken(x->out, login))
            continue;
        if (json_put(x->out, login, entry_of(r, login)) < 0)
            rc = err_nomem(e);
    }
    strs_clear(&logins);
    return rc;
}

static int apply_all(struct expand *x, const json_t *rules, struct err *e)
{
    struct err why = ERR_INIT;
    struct rule r;
    json_t *obj;
    size_t i;

    if (!json_is_array(rules) || json_array_size(rules) > RULES_MAX) {
        err_set(&why, ERR_CONFIG, "json_type", "must be a list of at most %d",
                RULES_MAX);
        return bad(x, "/people/rules", &why, e);
    }
    json_array_foreach(rules, i, obj)
    {
        if (rule_read(x, obj, i, &r, e) < 0 || rule_apply(x, &r, e) < 0)
            return -1;
    }
    return 0;
}

int rules_expand(const json_t *tree, const char *file,
                 const struct yaml_lines *lines, rules_members_fn *members,
                 json_t **out, struct err *e)
{
    struct expand x = {file, lines, members, NULL};
    const json_t *rules = json_object_get(tree, "rules");

    x.out = json_copy((json_t *)(uintptr_t)tree);
    if (x.out == NULL)
        return err_nomem(e);
    if (rules != NULL && json_is_object(x.out)) {
        (void)json_object_del(x.out, "rules");
        if (apply_all(&x, rules, e) < 0) {
            json_decref(x.out);
            return -1;
        }
    }
    *out = x.out;
    return 0;
}
