/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/json.h"
#include "workflows/entry.h"
#include "workflows/parse.h"
#include "workflows/workflow.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct allowlist {
    struct workflow **v; /* sorted by name */
    size_t n;
};

struct allowlist *allowlist_new(void)
{
    return calloc(1, sizeof(struct allowlist));
}

static void clear(struct allowlist *a)
{
    for (size_t i = 0; i < a->n; i++)
        entry_free(a->v[i]);
    free(a->v);
    *a = (struct allowlist){NULL, 0};
}

void allowlist_free(struct allowlist *a)
{
    if (a == NULL)
        return;
    clear(a);
    free(a);
}

size_t allowlist_count(const struct allowlist *a)
{
    return a->n;
}

const struct workflow *allowlist_at(const struct allowlist *a, size_t i)
{
    return i < a->n ? a->v[i] : NULL;
}

static int by_name(const void *key, const void *member)
{
    const struct workflow *const *w = member;
    return strcmp(key, (*w)->name);
}

static int by_names(const void *a, const void *b)
{
    const struct workflow *const *x = a;
    return by_name((*x)->name, b);
}

const struct workflow *allowlist_find(const struct allowlist *a,
                                      const char *name)
{
    if (a->n == 0)
        return NULL;
    struct workflow **w = bsearch(name, a->v, a->n, sizeof(*a->v), by_name);
    return w != NULL ? *w : NULL;
}

/* --- reading ------------------------------------------------------------- */

struct reading {
    const struct allowlist *old;
    struct allowlist added;
};

static int key_version(const struct parse *p, const json_t *v,
                       const char *pointer, void *out)
{
    int64_t version = 0;
    (void)out;
    return parse_integer(p, v, pointer, 1, 1, &version);
}

static int one_workflow(const struct parse *p, const char *name,
                        const json_t *v, const char *pointer, struct reading *r)
{
    if (allowlist_find(r->old, name) != NULL)
        return parse_fail(p, pointer, "workflow_duplicate",
                          "the workflow is there already");
    if (entry_parse(p, name, v, pointer, &r->added.v[r->added.n]) != 0)
        return -1;
    r->added.n++;
    return 0;
}

static int key_workflows(const struct parse *p, const json_t *v,
                         const char *pointer, void *out)
{
    struct reading *r = out;
    const char *name = NULL;
    json_t *entry = NULL;
    if (!json_is_object(v))
        return parse_fail(p, pointer, "workflow_type", "must be a mapping");
    r->added.v = calloc(json_object_size(v) + 1, sizeof(*r->added.v));
    if (r->added.v == NULL)
        return parse_nomem(p);
    json_object_foreach(parse_iterable(v), name, entry)
    {
        char at[PARSE_POINTER_MAX];
        json_pointer(at, sizeof at, pointer, name);
        if (one_workflow(p, name, entry, at, r) != 0)
            return -1;
    }
    return 0;
}

static int merge(struct allowlist *a, struct allowlist *added, struct err *e)
{
    size_t n = a->n + added->n;
    struct workflow **v = reallocarray(a->v, n + 1, sizeof(*v));
    if (v == NULL)
        return err_nomem(e);
    for (size_t i = 0; i < added->n; i++)
        v[a->n + i] = added->v[i];
    a->v = v;
    a->n = n;
    added->n = 0; /* a owns them now */
    qsort(a->v, a->n, sizeof(*a->v), by_names);
    return 0;
}

int allowlist_add(struct allowlist *a, const json_t *tree, const char *file,
                  const struct yaml_lines *lines, struct err *e)
{
    static const struct parse_key keys[] = {
        {"version", key_version, true},
        {"workflows", key_workflows, true},
    };
    struct parse p = {file, lines, e};
    struct reading r = {a, {NULL, 0}};
    int rc = parse_object(&p, tree, "", keys, COUNT(keys), &r);
    if (rc == 0)
        rc = merge(a, &r.added, e);
    clear(&r.added);
    return rc;
}

json_t *allowlist_json(const struct allowlist *a)
{
    json_t *o = json_object(), *all = json_object();
    int r = all == NULL ? -1 : 0;
    for (size_t i = 0; i < a->n; i++)
        r |= json_put(all, a->v[i]->name, entry_json(a->v[i]));
    r |= json_put_int(o, "version", 1);
    r |= json_put(o, "workflows", all);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

bool workflow_allows(const struct workflow *w, const char *person,
                     const struct strs *groups)
{
    if (person != NULL && strs_has(&w->allow_users, person))
        return true;
    for (size_t i = 0; groups != NULL && i < groups->n; i++) {
        if (strs_has(&w->allow_groups, groups->v[i]))
            return true;
    }
    return false;
}
