/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/identity.h"

#include "auth/principal.h"
#include "base/clock.h"
#include "broker/jobs/service.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNT_MEMORY_MS = 60000, ACCOUNTS_MAX = 64, PASSWD_BYTES = 16384 };

struct person_known {
    char person[PERSON_NAME_MAX + 1];
    int64_t principal;
    struct person_known *next;
};

struct account_known {
    uid_t uid;
    char account[PERSON_NAME_MAX + 1];
    int64_t until_ms; /* 0: a free place */
};

struct identity_known {
    struct person_known *persons;
    struct account_known accounts[ACCOUNTS_MAX];
    size_t next; /* place that is taken over next */
};

struct identity_known *identity_known_new(void)
{
    return calloc(1, sizeof(struct identity_known));
}

void identity_known_free(struct identity_known *k)
{
    struct person_known *next;

    for (struct person_known *p = k ? k->persons : NULL; p; p = next) {
        next = p->next;
        free(p);
    }
    free(k);
}

void identity_init(struct identity *who)
{
    memset(who, 0, sizeof *who);
}

void identity_clear(struct identity *who)
{
    if (who->token) {
        explicit_bzero(who->token, strlen(who->token));
        free(who->token);
    }
    strs_clear(&who->token_workflows);
    generation_unref(who->generation);
    identity_init(who);
}

bool identity_has(const struct identity *who, unsigned role)
{
    return (who->roles & role) != 0;
}

/* The globs are the token's: '*' at the end only, as auth/token matches. */
bool identity_may_run(const struct identity *who, const struct workflow *w)
{
    struct token_claims c = {.workflows = who->token_workflows};

    return workflow_allows(w, who->person, &who->person_entry->groups) &&
           token_claims_workflow(&c, w->name);
}

/* --- principals --- */

static int64_t principal_known(struct service *s, const char *person)
{
    int64_t id = 0;

    pthread_mutex_lock(&s->known_lock);
    for (struct person_known *p = s->known->persons; p && !id; p = p->next) {
        if (!strcmp(p->person, person))
            id = p->principal;
    }
    pthread_mutex_unlock(&s->known_lock);
    return id;
}

static int remember_principal(struct service *s, const char *person, int64_t id,
                              struct err *e)
{
    struct person_known *p = calloc(1, sizeof *p);

    if (!p)
        return err_nomem(e);
    snprintf(p->person, sizeof p->person, "%s", person);
    p->principal = id;
    pthread_mutex_lock(&s->known_lock);
    p->next = s->known->persons;
    s->known->persons = p;
    pthread_mutex_unlock(&s->known_lock);
    return 0;
}

struct principal_unit {
    const char *person;
    int64_t id;
};

/* A person is one principal, however he proves who he is: the map binds the
 * name, so the map is the issuer. */
static int principal_run(struct db *d, void *arg, struct err *e)
{
    struct principal_unit *u = arg;

    return principal_id(d, TOKEN_ISSUER, u->person, u->person, &u->id, e);
}

static int principal_of(struct service *s, struct identity *who, bool may_wait,
                        struct err *e)
{
    struct principal_unit u = {.person = who->person};

    who->principal = principal_known(s, who->person);
    if (who->principal)
        return 0;
    if (!may_wait)
        return IDENTITY_LATER;
    if (writer_call(s->writer, principal_run, &u, e))
        return -1;
    who->principal = u.id;
    return remember_principal(s, who->person, u.id, e);
}

/* --- by proof --- */

static int unknown_person(struct err *e)
{
    return err_set(e, ERR_UNAUTHENTIC, "person_unknown",
                   "nobody of this name is in the people map");
}

static int64_t narrowest(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return a + b; /* 0 is "no cap" */
    return a < b ? a : b;
}

/* The person's entry in the generation that `who` already holds. */
static int set_person(struct service *s, struct identity *who,
                      const struct person *p, bool may_wait, struct err *e)
{
    if (!p)
        return unknown_person(e);
    who->person_entry = p;
    snprintf(who->person, sizeof who->person, "%s", p->name);
    return principal_of(s, who, may_wait, e);
}

static int from_claims(struct service *s, struct token_claims *c,
                       const char *text, size_t len, bool may_wait,
                       struct identity *who, struct err *e)
{
    const struct person *p = people_find(who->generation->people, c->person);
    int rc = set_person(s, who, p, may_wait, e);

    if (rc)
        return rc;
    who->proof = PROOF_TOKEN;
    who->roles = who->person_entry->roles;
    if (c->roles)
        who->roles &= c->roles;
    who->gpus_max = narrowest(who->person_entry->gpus_max, c->gpus_max);
    snprintf(who->token_id, sizeof who->token_id, "%s", c->id);
    who->token_workflows = c->workflows; /* moves */
    c->workflows = (struct strs){NULL, 0};
    who->token = strndup(text, len);
    return who->token ? 0 : err_nomem(e);
}

int identity_by_token(struct service *s, const char *text, size_t len,
                      const char *client, bool may_wait, struct identity *out,
                      struct err *e)
{
    struct service_allow *allow = service_allow(s);
    struct token_claims claims = {0};
    int rc = -1;

    identity_init(out);
    snprintf(out->client, sizeof out->client, "%s", client ? client : "");
    out->generation = generation_ref(allow->generation);
    if (token_verify_cached(s->cache, allow->keys, s->revoked,
                            s->config->cluster.name, text, len, clock_now(),
                            &claims, e) == 0)
        rc = from_claims(s, &claims, text, len, may_wait, out, e);
    token_claims_clear(&claims);
    service_unref(allow);
    if (rc)
        identity_clear(out);
    return rc;
}

static bool account_known(struct service *s, uid_t uid, char *out)
{
    int64_t now = clock_mono_ms();
    bool found = false;

    pthread_mutex_lock(&s->known_lock);
    for (size_t i = 0; i < ACCOUNTS_MAX && !found; i++) {
        struct account_known *a = &s->known->accounts[i];
        if (a->until_ms > now && a->uid == uid) {
            memcpy(out, a->account, sizeof a->account);
            found = true;
        }
    }
    pthread_mutex_unlock(&s->known_lock);
    return found;
}

static void remember_account(struct service *s, uid_t uid, const char *account)
{
    struct account_known a = {.uid = uid,
                              .until_ms = clock_mono_ms() + ACCOUNT_MEMORY_MS};

    snprintf(a.account, sizeof a.account, "%s", account);
    pthread_mutex_lock(&s->known_lock);
    s->known->accounts[s->known->next++ % ACCOUNTS_MAX] = a;
    pthread_mutex_unlock(&s->known_lock);
}

static int account_of(struct service *s, uid_t uid, char *out, struct err *e)
{
    char *room = malloc(PASSWD_BYTES);
    struct passwd pw, *found = NULL;
    int rc;

    if (!room)
        return err_nomem(e);
    rc = getpwuid_r(uid, &pw, room, PASSWD_BYTES, &found);
    if (rc)
        rc =
            err_sys(e, ERR_UNAVAILABLE, rc, "account_lookup", "account lookup");
    else if (!found || strlen(pw.pw_name) > PERSON_NAME_MAX)
        rc = unknown_person(e);
    else
        snprintf(out, PERSON_NAME_MAX + 1, "%s", pw.pw_name);
    free(room);
    if (rc == 0)
        remember_account(s, uid, out);
    return rc;
}

int identity_by_uid(struct service *s, uid_t uid, bool may_wait,
                    struct identity *out, struct err *e)
{
    char account[PERSON_NAME_MAX + 1] = "";
    bool known = account_known(s, uid, account);
    struct service_allow *allow;
    int rc;

    identity_init(out);
    if (!known && !may_wait)
        return IDENTITY_LATER;
    if (!known && account_of(s, uid, account, e))
        return -1;
    allow = service_allow(s);
    out->generation = generation_ref(allow->generation);
    service_unref(allow);
    snprintf(out->client, sizeof out->client, "uid:%lu", (unsigned long)uid);
    rc = set_person(s, out, people_by_account(out->generation->people, account),
                    may_wait, e);
    if (rc) {
        identity_clear(out);
        return rc;
    }
    out->proof = PROOF_NETWORK;
    out->roles = out->person_entry->roles & ROLE_RESEARCHER;
    out->gpus_max = out->person_entry->gpus_max;
    return 0;
}
