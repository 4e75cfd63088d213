/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/diff.h"

#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX = 1024 * 1024 };

struct diff {
    FILE *to;
    const struct generation *old, *new; /* old may be NULL */
    int lines;
};

static void say(struct diff *d, char sign, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct diff *d, char sign, const char *fmt, ...)
{
    va_list ap;

    d->lines++;
    (void)fprintf(d->to, "%c ", sign);
    va_start(ap, fmt);
    (void)vfprintf(d->to, fmt, ap);
    va_end(ap);
    (void)fputc('\n', d->to);
}

/* --- objects whose values are compared as a whole ------------------------ */

static void compare_objects(struct diff *d, const char *what, json_t *old,
                            json_t *new)
{
    const char *key;
    json_t *v;

    json_object_foreach(old, key, v) if (json_object_get(new, key) == NULL)
        say(d, '-', "%s %s", what, key);
    json_object_foreach(new, key, v)
    {
        const json_t *was = json_object_get(old, key);
        if (was == NULL)
            say(d, '+', "%s %s", what, key);
        else if (!json_equal(was, v))
            say(d, '~', "%s %s: changed", what, key);
    }
}

static int compare_workflows(struct diff *d, struct err *e)
{
    json_t *old =
        d->old != NULL ? allowlist_json(d->old->allowlist) : json_object();
    json_t *new = allowlist_json(d->new->allowlist);
    int r = 0;

    if (old == NULL || new == NULL)
        r = err_nomem(e);
    else
        compare_objects(d, "workflow", json_object_get(old, "workflows"),
                        json_object_get(new, "workflows"));
    json_decref(old);
    json_decref(new);
    return r;
}

/* --- templates ---------------------------------------------------------- */

static int add_text(json_t *o, const struct generation *g, const char *name,
                    struct err *e)
{
    size_t len = 0;
    char *text = file_read(g->templates_fd, name, TEMPLATE_MAX, &len, e);
    int r;

    if (text == NULL)
        return -1;
    /* Compared only, so bytes that are not UTF-8 may pass. */
    r = json_put(o, name, json_stringn_nocheck(text, len));
    free(text);
    return r == 0 ? 0 : err_nomem(e);
}

/* {name: text}. Owned. */
static json_t *templates(const struct generation *g, struct err *e)
{
    json_t *o = json_object();
    int r = o == NULL ? err_nomem(e) : 0;

    if (r == 0 && g != NULL) {
        r = add_text(o, g, "prelude.sh", e);
        for (size_t i = 0; r == 0 && i < allowlist_count(g->allowlist); i++)
            r = add_text(o, g, allowlist_at(g->allowlist, i)->template_name, e);
    }
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static int compare_templates(struct diff *d, struct err *e)
{
    json_t *old = templates(d->old, e), *new = templates(d->new, e);
    int r = old != NULL && new != NULL ? 0 : -1;

    if (r == 0)
        compare_objects(d, "template", old, new);
    json_decref(old);
    json_decref(new);
    return r;
}

/* --- people ------------------------------------------------------------- */

static const struct person *old_person(const struct diff *d, const char *name)
{
    return d->old != NULL ? people_find(d->old->people, name) : NULL;
}

static void compare_word(struct diff *d, const char *person, const char *what,
                         const char *old, const char *new)
{
    const char *none = "none";

    old = old != NULL ? old : none;
    new = new != NULL ? new : none;
    if (strcmp(old, new) != 0)
        say(d, '~', "person %s: %s %s, was %s", person, what, new, old);
}

static void compare_roles(struct diff *d, const char *person, unsigned old,
                          unsigned new)
{
    json_t *gains = roles_json(new & ~old), *loses = roles_json(old & ~new);
    json_t *v;
    size_t i;

    json_array_foreach(gains, i, v)
        say(d, '+', "person %s: role %s", person, json_string_value(v));
    json_array_foreach(loses, i, v)
        say(d, '-', "person %s: role %s", person, json_string_value(v));
    json_decref(gains);
    json_decref(loses);
}

static void compare_groups(struct diff *d, const char *person,
                           const struct strs *old, const struct strs *new)
{
    for (size_t i = 0; i < new->n; i++)
        if (!strs_has(old, new->v[i]))
            say(d, '+', "person %s: group %s", person, new->v[i]);
    for (size_t i = 0; i < old->n; i++)
        if (!strs_has(new, old->v[i]))
            say(d, '-', "person %s: group %s", person, old->v[i]);
}

static const char *proof_word(const struct person *p)
{
    return p->proof == PROOF_NETWORK ? "network" : "token";
}

/* old NULL: a new person, compared with one who has nothing. */
static void compare_person(struct diff *d, const struct person *old,
                           const struct person *new)
{
    static const struct person nobody = {.proof = PROOF_TOKEN};
    const char *n = new->name;

    if (old == NULL) {
        say(d, '+', "person %s", n);
        old = &nobody;
    }
    compare_word(d, n, "account", old->account, new->account);
    compare_word(d, n, "Slurm account", old->slurm_account, new->slurm_account);
    compare_word(d, n, "qos", old->qos, new->qos);
    compare_word(d, n, "proof", proof_word(old), proof_word(new));
    compare_roles(d, n, old->roles, new->roles);
    compare_groups(d, n, &old->groups, &new->groups);
    if (old->gpus_max != new->gpus_max)
        say(d, '~', "person %s: gpus %lld, was %lld (0: no cap)", n,
            (long long)new->gpus_max, (long long)old->gpus_max);
}

static void compare_people(struct diff *d)
{
    for (size_t i = 0; i < people_count(d->new->people); i++) {
        const struct person *p = people_at(d->new->people, i);
        compare_person(d, old_person(d, p->name), p);
    }
    for (size_t i = 0; d->old != NULL && i < people_count(d->old->people);
         i++) {
        const char *name = people_at(d->old->people, i)->name;
        if (people_find(d->new->people, name) == NULL)
            say(d, '-', "person %s", name);
    }
}

/* --- who may run what ---------------------------------------------------- */

static bool may(const struct generation *g, const char *person,
                const char *workflow)
{
    const struct person *p = g != NULL ? people_find(g->people, person) : NULL;
    const struct workflow *w =
        g != NULL ? allowlist_find(g->allowlist, workflow) : NULL;

    return p != NULL && w != NULL && (p->roles & ROLE_RESEARCHER) != 0 &&
           workflow_allows(w, p->name, &p->groups);
}

/* Each (person, workflow) of `in` that `out` does not allow. */
static void only_in(struct diff *d, char sign, const struct generation *in,
                    const struct generation *out)
{
    if (in == NULL)
        return;
    for (size_t i = 0; i < people_count(in->people); i++)
        for (size_t k = 0; k < allowlist_count(in->allowlist); k++) {
            const char *p = people_at(in->people, i)->name;
            const char *w = allowlist_at(in->allowlist, k)->name;
            if (may(in, p, w) && !may(out, p, w))
                say(d, sign, "%s may run %s", p, w);
        }
}

int diff_print(FILE *to, const struct generation *old,
               const struct generation *new, struct err *e)
{
    struct diff d = {to, old, new, 0};

    compare_people(&d);
    if (compare_workflows(&d, e) != 0 || compare_templates(&d, e) != 0)
        return -1;
    compare_objects(&d, "key", old != NULL ? old->keys : NULL, new->keys);
    only_in(&d, '+', new, old);
    only_in(&d, '-', old, new);
    return d.lines;
}
