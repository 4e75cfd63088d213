/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * token issue, list, revoke. What was issued is in tokens.json (no secrets:
 * the token itself goes to --out only); what is revoked in revoked.json, which
 * sluiced and sluice-verify look at again for each request.
 */
#include "auth/people.h"
#include "auth/token.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/json.h"
#include "base/num.h"
#include "broker/admin/admin.h"
#include "broker/admin/keys.h"
#include "broker/admin/map.h"

#include <argp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXPIRES_TEXT_MAX = 16, GPUS_MAX = 1000000 };

struct issue {
    const char *person, *out, *expires, *gpus;
    json_t *roles; /* array of words */
    struct strs workflows;
};

/* "30d", "12h", "90m": the last letter says what is counted. */
static int parse_life(const char *s, int64_t *seconds, struct err *e)
{
    static const struct {
        char letter;
        int64_t seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    char number[EXPIRES_TEXT_MAX];
    size_t n = strlen(s);
    int64_t count;

    if (n >= 2 && n < sizeof(number))
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
            if (s[n - 1] != units[i].letter)
                continue;
            memcpy(number, s, n - 1);
            number[n - 1] = '\0';
            if (num_parse(number, 1, TOKEN_LIFE_MAX_SECONDS / units[i].seconds,
                          &count) == 0) {
                *seconds = count * units[i].seconds;
                return 0;
            }
        }
    return err_set(e, ERR_INVALID, "token_expires",
                   "--expires takes 30d, 12h or 90m, at most %d days",
                   TOKEN_LIFE_MAX_SECONDS / 86400);
}

static error_t issue_word(int key, char *arg, struct argp_state *state)
{
    struct issue *w = state->input;

    switch (key) {
    case 'p':
        w->person = arg;
        return 0;
    case 'o':
        w->out = arg;
        return 0;
    case 'e':
        w->expires = arg;
        return 0;
    case 'g':
        w->gpus = arg;
        return 0;
    case 'r':
        return json_array_append_new(w->roles, json_string(arg)) != 0 ? ENOMEM
                                                                      : 0;
    case 'w':
        return strs_add(&w->workflows, arg) != 0 ? ENOMEM : 0;
    case ARGP_KEY_END:
        if (w->person == NULL || w->out == NULL)
            argp_error(state, "--person and --out are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option issue_options[] = {
    {"person", 'p', "NAME", 0, "who the token is for (as in sluice.yaml)", 0},
    {"role", 'r', "ROLE", 0, "only this role of his; may be repeated", 0},
    {"workflow", 'w', "GLOB", 0, "only these workflows; may be repeated", 0},
    {"gpus", 'g', "N", 0, "at most so many GPUs at once", 0},
    {"expires", 'e', "30d", 0, "how long it lives (default 30d)", 0},
    {"out", 'o', "FILE", 0, "where the token goes, 0600 (- is stdout)", 0},
    {0}};

/* The map decides; a token can only narrow it. */
static int check_person(const struct admin *a, const struct issue *w,
                        unsigned roles, struct err *e)
{
    const struct person *p;
    struct people *people = NULL;
    json_t *tree = NULL;
    int r = -1;

    if (map_read(a, &tree, e) != 0)
        return -1;
    if (people_load(tree, a->config_file, NULL, &people, e) != 0)
        goto out;
    p = people_find(people, w->person);
    if (p == NULL)
        err_set(e, ERR_NOT_FOUND, "person_unknown",
                "there is no %s under people: in %s", w->person,
                a->config_file);
    else if ((roles & ~p->roles) != 0)
        err_set(e, ERR_DENIED, "person_role",
                "%s does not have each of these roles", w->person);
    else
        r = 0;
out:
    people_free(people);
    json_decref(tree);
    return r;
}

static int fill_claims(const struct issue *w, struct token_claims *c,
                       struct err *e)
{
    char ulid[ULID_LEN + 1];
    int64_t life = 0, now = clock_now();

    if (parse_life(w->expires != NULL ? w->expires : "30d", &life, e) != 0)
        return -1;
    if (json_array_size(w->roles) > 0 && roles_parse(w->roles, &c->roles) != 0)
        return err_set(e, ERR_INVALID, "person_role",
                       "--role takes researcher, operator, auditor or admin");
    if (w->gpus != NULL && num_parse(w->gpus, 1, GPUS_MAX, &c->gpus_max) != 0)
        return err_set(e, ERR_INVALID, "token_gpus",
                       "--gpus takes a number from 1 to %d", GPUS_MAX);
    if (!id_name_valid(w->person, PERSON_NAME_MAX))
        return err_set(e, ERR_INVALID, "person_unknown",
                       "--person is not a valid name");
    if (id_ulid(clock_now_ms(), ulid) != 0)
        return err_set(e, ERR_INTERNAL, "random", "no random bytes");
    (void)snprintf(c->id, sizeof(c->id), "tok_%s", ulid);
    (void)snprintf(c->person, sizeof(c->person), "%s", w->person);
    c->workflows = w->workflows; /* borrowed */
    c->issued_at = now;
    c->expires_at = now + life;
    return 0;
}

static json_t *claims_record(const struct token_claims *c)
{
    json_t *o = json_object();
    int r = 0;

    r |= json_put_str(o, "person", c->person);
    r |= json_put(o, "roles", roles_json(c->roles));
    r |= json_put(o, "workflows", strs_json(&c->workflows));
    r |= json_put_int(o, "gpus", c->gpus_max);
    r |= json_put_int(o, "issued_at", c->issued_at);
    r |= json_put_int(o, "expires_at", c->expires_at);
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Set path[key] = value (consumed), atomically, under the lock of keys. */
static int record(const struct admin *a, const char *path, gid_t group,
                  const char *key, json_t *value, struct err *e)
{
    json_t *all = NULL;
    int lock, r = -1;

    lock = admin_lock_keys(a, e);
    if (lock >= 0)
        all = admin_read_json(path, e);
    if (all == NULL)
        json_decref(value);
    else if (json_put(all, key, value) != 0)
        err_nomem(e);
    else
        r = admin_write_json(a, path, all, group, e);
    json_decref(all);
    if (lock >= 0)
        (void)close(lock);
    return r;
}

/* A record whose token could not be written is a token that nobody has. */
static int put_out(const struct admin *a, const char *out, const char *token,
                   struct err *e)
{
    char line[TOKEN_BYTES_MAX + 2];
    int n = snprintf(line, sizeof(line), "%s\n", token);
    int r;

    if (strcmp(out, "-") == 0)
        r = file_write_all(STDOUT_FILENO, line, (size_t)n) == 0
                ? 0
                : err_set(e, ERR_INTERNAL, "file_write", "standard output");
    else
        r = file_write(AT_FDCWD, out, line, (size_t)n, 0600, a->owner,
                       (gid_t)-1, e);
    explicit_bzero(line, sizeof(line));
    return r;
}

static int issue(const struct admin *a, const struct issue *w,
                 struct token_claims *c, struct err *e)
{
    struct signing_key k = {0};
    char *token = NULL;
    int r = -1;

    if (fill_claims(w, c, e) != 0 || check_person(a, w, c->roles, e) != 0 ||
        signing_key_read(a, &k, e) != 0)
        return -1;
    token = token_issue(k.pem, k.kid, a->cfg.cluster.name, c, e);
    signing_key_clear(&k);
    if (token == NULL)
        return -1;
    if (record(a, a->paths.tokens, (gid_t)-1, c->id, claims_record(c), e) == 0)
        r = put_out(a, w->out, token, e);
    explicit_bzero(token, strlen(token));
    free(token);
    return r;
}

int admin_token_issue(struct admin *a, int argc, char **argv)
{
    static const struct argp argp = {
        issue_options,
        issue_word,
        "",
        "Issue a bearer token. It can only narrow what the map gives.",
        NULL,
        NULL,
        NULL};
    struct issue w = {.roles = json_array()};
    struct token_claims c = {0};
    struct err e = ERR_INIT;
    char until[CLOCK_TEXT_MAX];
    int status = ADMIN_DONE;

    if (w.roles == NULL || argp_parse(&argp, argc, argv, 0, NULL, &w) != 0)
        status = ADMIN_USAGE;
    else if (admin_load(a, true, &e) != 0 || issue(a, &w, &c, &e) != 0)
        status = admin_fail(&e);
    else if (strcmp(w.out, "-") != 0) {
        clock_format(c.expires_at, until);
        printf("%s for %s until %s in %s\n", c.id, c.person, until, w.out);
    }
    json_decref(w.roles);
    strs_clear(&w.workflows);
    return status;
}

/* --- list --------------------------------------------------------------- */

static const char *token_state(const json_t *t, const char *id,
                               const json_t *revoked)
{
    if (json_object_get(revoked, id) != NULL)
        return "revoked";
    return json_integer_value(json_object_get(t, "expires_at")) <= clock_now()
               ? "expired"
               : "valid";
}

/* An array of words as "a,b", or `none`. */
static void print_words(const json_t *arr, const char *none)
{
    size_t i;
    json_t *v;

    json_array_foreach((json_t *)(uintptr_t)arr, i, v)
        printf("%s%s", i > 0 ? "," : "", json_string_value(v));
    if (json_array_size(arr) == 0)
        printf("%s", none);
}

static void print_token(const char *id, const json_t *t, const char *state)
{
    char until[CLOCK_TEXT_MAX];

    clock_format(json_integer_value(json_object_get(t, "expires_at")), until);
    printf("%s  %-7s  %s  %s  roles ", id, state, until,
           json_string_value(json_object_get(t, "person")));
    print_words(json_object_get(t, "roles"), "all");
    printf("  workflows ");
    print_words(json_object_get(t, "workflows"), "all");
    if (json_integer_value(json_object_get(t, "gpus")) == 0)
        printf("  gpus all\n");
    else
        printf("  gpus %lld\n",
               (long long)json_integer_value(json_object_get(t, "gpus")));
}

/* {"tokens": [{id, state, person, ...}]}, in the order of issue. */
static int print_json(json_t *all, const json_t *revoked, struct err *e)
{
    json_t *list = json_array(), *root = json_object(), *t;
    const char *id;
    char *text;
    int r = 0;

    json_object_foreach(all, id, t)
    {
        json_t *row = json_copy(t);
        r |= json_put_str(row, "id", id);
        r |= json_put_str(row, "state", token_state(t, id, revoked));
        r |= json_array_append_new(list, row);
    }
    r |= json_put(root, "tokens", list);
    text = r == 0 ? json_text(root) : NULL;
    json_decref(root);
    if (text == NULL)
        return err_nomem(e);
    printf("%s\n", text);
    free(text);
    return 0;
}

static int list(const struct admin *a, bool json, struct err *e)
{
    json_t *all = admin_read_json(a->paths.tokens, e), *revoked = NULL, *t;
    const char *id;
    int r = -1;

    if (all != NULL)
        revoked = admin_read_json(a->paths.revoked, e);
    if (revoked == NULL)
        goto out;
    r = 0;
    if (json)
        r = print_json(all, revoked, e);
    else
        json_object_foreach(all, id, t)
            print_token(id, t, token_state(t, id, revoked));
out:
    json_decref(all);
    json_decref(revoked);
    return r;
}

static error_t list_word(int key, char *arg, struct argp_state *state)
{
    bool *json = state->input;

    (void)arg;
    if (key != 'j')
        return ARGP_ERR_UNKNOWN;
    *json = true;
    return 0;
}

int admin_token_list(struct admin *a, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "one JSON document", 0}, {0}};
    static const struct argp argp = {
        options, list_word, "",  "The tokens that were issued.",
        NULL,    NULL,      NULL};
    struct err e = ERR_INIT;
    bool json = false;

    if (argp_parse(&argp, argc, argv, 0, NULL, &json) != 0)
        return ADMIN_USAGE;
    if (admin_load(a, true, &e) != 0 || list(a, json, &e) != 0)
        return admin_fail(&e);
    return ADMIN_DONE;
}

/* --- revoke ------------------------------------------------------------- */

static int revoke_one(const struct admin *a, const char *id, struct err *e)
{
    json_t *all = admin_read_json(a->paths.tokens, e);
    bool known = json_object_get(all, id) != NULL;

    if (all == NULL)
        return -1;
    json_decref(all);
    if (!known)
        return err_set(e, ERR_NOT_FOUND, "token_unknown",
                       "no token %.40s was issued here", id);
    return record(a, a->paths.revoked, a->group, id, json_integer(clock_now()),
                  e);
}

int admin_token_revoke(struct admin *a, int argc, char **argv)
{
    struct err e = ERR_INIT;

    if (argc != 2 || argv[1][0] == '-') {
        (void)fprintf(stderr, "usage: %s ID\n", argv[0]);
        return ADMIN_USAGE;
    }
    if (admin_load(a, true, &e) != 0 || revoke_one(a, argv[1], &e) != 0)
        return admin_fail(&e);
    printf("%s revoked, from the next request on\n", argv[1]);
    return ADMIN_DONE;
}
