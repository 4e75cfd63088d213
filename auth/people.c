/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "auth/people.h"

#include "base/id.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACCOUNT_MAX = 32, /* useradd's limit on Linux */
    SLURM_WORD_MAX = 64,
    GROUPS_MAX = 64,
    GPUS_MAX = 1000000
};

struct people {
    struct person *v; /* sorted by name */
    size_t n;
};

static const struct role_word {
    enum role role;
    const char *word;
} role_words[] = {
    {ROLE_RESEARCHER, "researcher"},
    {ROLE_OPERATOR, "operator"},
    {ROLE_AUDITOR, "auditor"},
    {ROLE_ADMIN, "admin"},
};
enum { ROLE_COUNT = sizeof(role_words) / sizeof(role_words[0]) };

/* Names whose meaning is taken: "system" is the spawner's actor without a
 * person (broker/proto.h), "rules" the key of the map itself. */
static const char *const reserved[] = {"system", "rules", NULL};

static const char *const person_keys[] = {
    "account", "slurm_account",  "qos",        "roles", "groups", "proof",
    "gpus",    "shared_account", "unix_group", NULL};

/* Where we are in the file, for "file:line: /people/alice/roles: ...". */
struct spot {
    const char *file;
    const struct yaml_lines *lines;
    char pointer[ERR_POINTER_MAX];
};

static int bad(const struct spot *at, const char *key, const char *code,
               struct err *e, const char *what)
{
    char pointer[ERR_POINTER_MAX];
    int line;

    if (key != NULL)
        json_pointer(pointer, sizeof(pointer), at->pointer, key);
    else
        (void)snprintf(pointer, sizeof(pointer), "%s", at->pointer);
    line = yaml_line(at->lines, pointer);
    if (line == 0)
        line = yaml_line(at->lines, at->pointer);
    if (at->lines != NULL)
        err_set(e, ERR_CONFIG, code, "%s:%d: %s %s", at->file, line, pointer,
                what);
    else
        err_set(e, ERR_CONFIG, code, "%s: %s %s",
                at->file != NULL ? at->file : "people", pointer, what);
    return err_at(e, pointer);
}

static bool all_of(const char *s, const char *ok)
{
    return s[strspn(s, ok)] == '\0';
}

/* A Unix account becomes a folder's name below jobs_root, so it is one plain
 * path component. */
static bool account_valid(const char *s)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz_0123456789.-";

    return s[0] != '\0' && strchr(first, s[0]) != NULL && all_of(s, rest);
}

static bool slurm_word_valid(const char *s)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    return s[0] != '\0' && s[0] != '-' && all_of(s, ok);
}

static bool name_valid(const char *s)
{
    for (size_t i = 0; reserved[i] != NULL; i++)
        if (strcmp(s, reserved[i]) == 0)
            return false;
    return id_name_valid(s, PERSON_NAME_MAX);
}

int roles_parse(const json_t *arr, unsigned *out)
{
    unsigned roles = 0;
    size_t i, r;
    json_t *v;

    if (!json_is_array(arr))
        return -1;
    json_array_foreach(arr, i, v)
    {
        const char *word = json_string_value(v);
        if (word == NULL)
            return -1;
        for (r = 0; r < ROLE_COUNT; r++)
            if (strcmp(word, role_words[r].word) == 0)
                break;
        if (r == ROLE_COUNT)
            return -1;
        roles |= (unsigned)role_words[r].role;
    }
    *out = roles;
    return 0;
}

json_t *roles_json(unsigned roles)
{
    json_t *arr = json_array();

    for (size_t r = 0; arr != NULL && r < ROLE_COUNT; r++)
        if ((roles & (unsigned)role_words[r].role) != 0 &&
            json_array_append_new(arr, json_string(role_words[r].word)) != 0) {
            json_decref(arr);
            arr = NULL;
        }
    return arr;
}

static void person_clear(struct person *p)
{
    free(p->name);
    free(p->account);
    free(p->slurm_account);
    free(p->qos);
    free(p->unix_group);
    strs_clear(&p->groups);
    memset(p, 0, sizeof(*p));
}

/* An optional word of at most max bytes that `valid` accepts. */
static int get_word(const json_t *obj, const char *key, size_t max,
                    bool (*valid)(const char *), const struct spot *at,
                    char **out, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    const char *s = json_string_value(v);

    if (v == NULL || json_is_null(v))
        return 0;
    if (s == NULL)
        return bad(at, key, "people_type", e, "must be a string");
    if (strlen(s) > max || !valid(s))
        return bad(at, key, "people_name", e, "is not a valid name");
    *out = strdup(s);
    return *out != NULL ? 0 : err_nomem(e);
}

static int get_roles(const json_t *obj, const struct spot *at, unsigned *out,
                     struct err *e)
{
    const json_t *v = json_object_get(obj, "roles");

    if (v == NULL)
        return bad(at, NULL, "people_missing", e, "has no roles");
    if (!json_is_array(v))
        return bad(at, "roles", "people_type", e, "must be a list");
    if (roles_parse(v, out) != 0)
        return bad(at, "roles", "people_role", e,
                   "knows researcher, operator, auditor and admin only");
    if (*out == 0)
        return bad(at, "roles", "people_missing", e, "must name a role");
    return 0;
}

static bool group_valid(const char *s)
{
    return id_name_valid(s, PERSON_NAME_MAX);
}

static int get_groups(const json_t *obj, const struct spot *at,
                      struct strs *out, struct err *e)
{
    const json_t *v = json_object_get(obj, "groups");
    json_t *item;
    size_t i;

    if (v == NULL)
        return 0;
    if (!json_is_array(v) || json_array_size(v) > GROUPS_MAX)
        return bad(at, "groups", "people_type", e,
                   "must be a list of at most 64");
    json_array_foreach(v, i, item)
    {
        const char *s = json_string_value(item);
        if (s == NULL)
            return bad(at, "groups", "people_type", e, "must hold strings");
        if (!group_valid(s) || strs_has(out, s))
            return bad(at, "groups", "people_name", e,
                       "holds an invalid or repeated name");
        if (strs_add(out, s) != 0)
            return err_nomem(e);
    }
    return 0;
}

static int get_proof(const json_t *obj, const struct spot *at, enum proof *out,
                     struct err *e)
{
    const json_t *v = json_object_get(obj, "proof");
    const char *s = json_string_value(v);

    *out = PROOF_TOKEN; /* what is not said is the stronger one */
    if (v == NULL)
        return 0;
    if (s != NULL && strcmp(s, "network") == 0)
        *out = PROOF_NETWORK;
    else if (s == NULL || strcmp(s, "token") != 0)
        return bad(at, "proof", "people_type", e, "must be network or token");
    return 0;
}

static int get_gpus(const json_t *obj, const struct spot *at, int64_t *out,
                    struct err *e)
{
    const json_t *v = json_object_get(obj, "gpus");
    json_int_t n = json_integer_value(v);

    if (v == NULL)
        return 0;
    if (!json_is_integer(v) || n < 0 || n > GPUS_MAX)
        return bad(at, "gpus", "people_type", e,
                   "must be an integer from 0 to 1000000");
    *out = n;
    return 0;
}

static int check_keys(const json_t *obj, const struct spot *at, struct err *e)
{
    const char *key;
    json_t *v;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)obj, key, v)
    {
        (void)v;
        for (i = 0; person_keys[i] != NULL; i++)
            if (strcmp(person_keys[i], key) == 0)
                break;
        if (person_keys[i] == NULL)
            return bad(at, key, "people_unknown_key", e, "is not known");
    }
    v = json_object_get(obj, "shared_account");
    if (v != NULL && !json_is_boolean(v))
        return bad(at, "shared_account", "people_type", e,
                   "must be true or false");
    return 0;
}

static int person_load(const char *name, const json_t *obj, struct spot *at,
                       struct person *out, struct err *e)
{
    json_pointer(at->pointer, sizeof(at->pointer), "/people", name);
    if (strcmp(name, "rules") == 0)
        return bad(at, NULL, "people_rules", e,
                   "must have been expanded (auth/rules.h)");
    if (!name_valid(name))
        return bad(at, NULL, "people_name", e, "is not a valid name");
    if (!json_is_object(obj))
        return bad(at, NULL, "people_type", e, "must be a mapping");
    out->name = strdup(name);
    if (out->name == NULL)
        return err_nomem(e);
    if (check_keys(obj, at, e) != 0 ||
        get_word(obj, "account", ACCOUNT_MAX, account_valid, at, &out->account,
                 e) != 0 ||
        get_word(obj, "slurm_account", SLURM_WORD_MAX, slurm_word_valid, at,
                 &out->slurm_account, e) != 0 ||
        get_word(obj, "qos", SLURM_WORD_MAX, slurm_word_valid, at, &out->qos,
                 e) != 0 ||
        get_word(obj, "unix_group", ACCOUNT_MAX, account_valid, at,
                 &out->unix_group, e) != 0 ||
        get_roles(obj, at, &out->roles, e) != 0 ||
        get_groups(obj, at, &out->groups, e) != 0 ||
        get_proof(obj, at, &out->proof, e) != 0 ||
        get_gpus(obj, at, &out->gpus_max, e) != 0)
        return -1;
    if ((out->roles & ROLE_RESEARCHER) != 0 && out->account == NULL)
        return bad(at, "account", "people_missing", e,
                   "is needed by a researcher");
    return 0;
}

static bool says_shared(const json_t *tree, const char *name)
{
    return json_is_true(
        json_object_get(json_object_get(tree, name), "shared_account"));
}

/* Two people on one account can kill and imitate each other's workers, so both
 * entries have to say that this is wanted. */
static int check_accounts(const struct people *p, const json_t *tree,
                          struct spot *at, struct err *e)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < i; k++) {
            const struct person *a = &p->v[k], *b = &p->v[i];
            if (a->account == NULL || b->account == NULL ||
                strcmp(a->account, b->account) != 0 ||
                (says_shared(tree, a->name) && says_shared(tree, b->name)))
                continue;
            json_pointer(at->pointer, sizeof(at->pointer), "/people", b->name);
            return bad(at, "account", "people_account_shared", e,
                       "is another person's too; say shared_account: true in "
                       "both");
        }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct person *x = a, *y = b;

    return strcmp(x->name, y->name);
}

int people_load(const json_t *tree, const char *file,
                const struct yaml_lines *lines, struct people **out,
                struct err *e)
{
    struct spot at = {file, lines, "/people"};
    struct people *p = NULL;
    const char *name;
    json_t *obj;

    *out = NULL;
    if (!json_is_object(tree))
        return bad(&at, NULL, "people_type", e, "must be a mapping");
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_nomem(e);
    p->v = calloc(json_object_size(tree) + 1, sizeof(*p->v));
    if (p->v == NULL) {
        err_nomem(e);
        goto fail;
    }
    json_object_foreach((json_t *)(uintptr_t)tree, name, obj)
    {
        struct person *next = &p->v[p->n++]; /* cleared on failure too */
        if (person_load(name, obj, &at, next, e) != 0)
            goto fail;
    }
    if (check_accounts(p, tree, &at, e) != 0)
        goto fail;
    qsort(p->v, p->n, sizeof(*p->v), by_name);
    *out = p;
    return 0;
fail:
    people_free(p);
    return -1;
}

void people_free(struct people *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n; i++)
        person_clear(&p->v[i]);
    free(p->v);
    free(p);
}

size_t people_count(const struct people *p)
{
    return p->n;
}

const struct person *people_at(const struct people *p, size_t i)
{
    return i < p->n ? &p->v[i] : NULL;
}

const struct person *people_find(const struct people *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return &p->v[i];
    return NULL;
}

static size_t on_account(const struct people *p, const char *account,
                         const struct person **first)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].account != NULL && strcmp(p->v[i].account, account) == 0 &&
            n++ == 0)
            *first = &p->v[i];
    return n;
}

/* A shared account names nobody: who it was can't be told from the uid. */
const struct person *people_by_account(const struct people *p,
                                       const char *account)
{
    const struct person *first = NULL;

    return on_account(p, account, &first) == 1 ? first : NULL;
}

static json_t *person_json(const struct people *all, const struct person *p)
{
    const struct person *first = NULL;
    json_t *o = json_object();
    int r = 0;

    if (o == NULL)
        return NULL;
    if (p->account != NULL)
        r |= json_put_str(o, "account", p->account);
    if (p->slurm_account != NULL)
        r |= json_put_str(o, "slurm_account", p->slurm_account);
    if (p->qos != NULL)
        r |= json_put_str(o, "qos", p->qos);
    if (p->unix_group != NULL)
        r |= json_put_str(o, "unix_group", p->unix_group);
    r |= json_put(o, "roles", roles_json(p->roles));
    r |= json_put(o, "groups", strs_json(&p->groups));
    r |= json_put_str(o, "proof",
                      p->proof == PROOF_NETWORK ? "network" : "token");
    r |= json_put_int(o, "gpus", p->gpus_max);
    if (p->account != NULL && on_account(all, p->account, &first) > 1)
        r |= json_put_bool(o, "shared_account", true);
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *people_json(const struct people *p)
{
    json_t *o = json_object();

    for (size_t i = 0; o != NULL && i < p->n; i++)
        if (json_put(o, p->v[i].name, person_json(p, &p->v[i])) != 0) {
            json_decref(o);
            o = NULL;
        }
    return o;
}

enum proof people_proof(const struct person *p, enum role acting)
{
    return acting == ROLE_RESEARCHER ? p->proof : PROOF_TOKEN;
}
