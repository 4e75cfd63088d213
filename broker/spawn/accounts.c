/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/accounts.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

static void account_clear(struct account *a)
{
    free(a->name);
    free(a->home);
    free(a->shell);
    free(a->error);
}

static int keep(char **out, const char *s, struct err *e)
{
    *out = strdup(s);
    return *out != NULL ? 0 : err_nomem(e);
}

static int read_groups(const json_t *obj, struct account *a, struct err *e)
{
    json_t *arr = NULL, *v;
    size_t i;

    if (json_get_arr(obj, "groups", true, PROTO_ACCOUNT_GROUPS_MAX, &arr, "",
                     e) != 0)
        return -1;
    json_array_foreach(arr, i, v)
    {
        json_int_t g = json_integer_value(v);

        if (!json_is_integer(v) || g < 0 || g >= UINT32_MAX)
            return err_set(e, ERR_INVALID, "json_type", "a group is no id");
        a->groups[a->ngroups++] = (gid_t)g;
    }
    return 0;
}

static int read_usable(const json_t *obj, struct account *a, struct err *e)
{
    static const char *const keys[] = {"uid",  "gid",   "groups",
                                       "home", "shell", NULL};
    const char *home, *shell;
    int64_t uid = 0, gid = 0;

    if (json_only(obj, keys, "", e) != 0 ||
        json_get_int(obj, "uid", true, 0, UINT32_MAX - 1, &uid, "", e) != 0 ||
        json_get_int(obj, "gid", true, 0, UINT32_MAX - 1, &gid, "", e) != 0 ||
        json_get_str(obj, "home", true, PROTO_ACCOUNT_TEXT_MAX, &home, "", e) !=
            0 ||
        json_get_str(obj, "shell", true, PROTO_ACCOUNT_TEXT_MAX, &shell, "",
                     e) != 0 ||
        read_groups(obj, a, e) != 0)
        return -1;
    a->uid = (uid_t)uid;
    a->gid = (gid_t)gid;
    return keep(&a->home, home, e) != 0 ? -1 : keep(&a->shell, shell, e);
}

static int read_entry(const char *name, const json_t *obj, struct account *a,
                      struct err *e)
{
    const char *why = NULL;

    if (keep(&a->name, name, e) != 0)
        return -1;
    if (!json_is_object(obj))
        return err_set(e, ERR_INVALID, "json_type", "an account is no object");
    if (json_object_get(obj, "error") == NULL)
        return read_usable(obj, a, e);
    if (json_get_str(obj, "error", true, PROTO_ACCOUNT_TEXT_MAX, &why, "", e) !=
        0)
        return -1;
    return keep(&a->error, why, e);
}

static bool is_service(const struct accounts_rule *r, const struct account *a)
{
    for (size_t i = 0; i < 3; i++) {
        if (a->uid == r->service_uids[i] || a->gid == r->service_gids[i])
            return true;
        for (size_t g = 0; g < a->ngroups; g++) {
            if (a->groups[g] == r->service_gids[i])
                return true;
        }
    }
    return false;
}

static bool in_root_group(const struct account *a)
{
    for (size_t g = 0; g < a->ngroups; g++) {
        if (a->groups[g] == 0)
            return true;
    }
    return a->gid == 0;
}

/* NULL: fine. The helper has looked already; this is the far side's look. */
static const char *objection(const struct accounts_rule *r,
                             const struct account *a)
{
    if (r->self)
        return a->uid == r->self_uid ? NULL : "not this process's account";
    if (a->uid == 0 || a->uid < (uid_t)r->min_uid)
        return "its uid is below min_uid";
    if (is_service(r, a))
        return "it is a service account of Sluice, or in its group";
    return in_root_group(a) ? "it is in root's group" : NULL;
}

static int apply_rule(const struct accounts_rule *r, struct account *a,
                      struct err *e)
{
    const char *why = a->error == NULL ? objection(r, a) : NULL;

    return why == NULL ? 0 : keep(&a->error, why, e);
}

static int fill(const json_t *map, const struct accounts_rule *rule,
                struct accounts *out, struct err *e)
{
    const char *name;
    json_t *obj;

    json_object_foreach((json_t *)(uintptr_t)map, name, obj)
    {
        struct account *a = &out->v[out->n++];
        struct err inner = ERR_INIT;

        /* One entry that can't be read must not cost the others theirs. */
        if (read_entry(name, obj, a, &inner) != 0 &&
            (a->name == NULL || keep(&a->error, inner.text, e) != 0))
            return err_nomem(e);
        if (apply_rule(rule, a, e) != 0)
            return -1;
    }
    return 0;
}

int accounts_parse(const json_t *tree, const struct accounts_rule *rule,
                   struct accounts **out, struct err *e)
{
    static const char *const keys[] = {"v", "accounts", NULL};
    struct err inner = ERR_INIT;
    struct accounts *a;
    json_t *map = NULL;
    int64_t v;

    if (json_only(tree, keys, "", &inner) != 0 ||
        json_get_int(tree, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                     &inner) != 0 ||
        json_get_obj(tree, "accounts", true, &map, "", &inner) != 0)
        return err_set(e, ERR_UNAVAILABLE, "resolve_answer", "%s", inner.text);
    a = calloc(1, sizeof(*a));
    if (a == NULL)
        return err_nomem(e);
    a->refs = 1;
    a->v = calloc(json_object_size(map) + 1, sizeof(*a->v));
    if (a->v == NULL)
        (void)err_nomem(e);
    if (a->v == NULL || fill(map, rule, a, e) != 0) {
        accounts_unref(a);
        return -1;
    }
    *out = a;
    return 0;
}

struct accounts *accounts_ref(struct accounts *a)
{
    if (a != NULL)
        a->refs++;
    return a;
}

void accounts_unref(struct accounts *a)
{
    if (a == NULL || --a->refs > 0)
        return;
    for (size_t i = 0; i < a->n; i++)
        account_clear(&a->v[i]);
    free(a->v);
    free(a);
}

const struct account *accounts_find(const struct accounts *a, const char *name)
{
    for (size_t i = 0; a != NULL && i < a->n; i++) {
        if (strcmp(a->v[i].name, name) == 0)
            return &a->v[i];
    }
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return strcmp(a, b) == 0;
}

bool account_equal(const struct account *a, const struct account *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL)
        return false;
    return same_text(a->name, b->name) && same_text(a->error, b->error) &&
           same_text(a->home, b->home) && same_text(a->shell, b->shell) &&
           a->uid == b->uid && a->gid == b->gid && a->ngroups == b->ngroups &&
           memcmp(a->groups, b->groups, a->ngroups * sizeof(gid_t)) == 0;
}
