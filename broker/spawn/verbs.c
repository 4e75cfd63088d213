/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/verbs.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWN = ROLE_RESEARCHER,
    ACT_ANY = ROLE_OPERATOR | ROLE_ADMIN,
    READ_ANY = ROLE_OPERATOR | ROLE_AUDITOR,
    BY_BOTH = VERB_BY_PERSON | VERB_BY_SYSTEM,
    READS = VERB_BY_PERSON | VERB_OF_JOB | VERB_PIPE | VERB_STORAGE | VERB_BULK
};

static const struct verb_rule rules[] = {
    {VERB_PLAN, VERB_BY_PERSON | VERB_PIPE | VERB_STORAGE | VERB_BULK, OWN, 0},
    {VERB_SUBMIT, VERB_BY_PERSON | VERB_NEW_JOB | VERB_STORAGE, OWN, 0},
    {VERB_FINISH,
     VERB_BY_SYSTEM | VERB_OF_JOB | VERB_PIPE | VERB_STORAGE | VERB_ACTS, 0, 0},
    {VERB_CANCEL, BY_BOTH | VERB_OF_JOB | VERB_ACTS, OWN, ACT_ANY},
    {VERB_HOLD, BY_BOTH | VERB_OF_JOB | VERB_ACTS, OWN, ACT_ANY},
    {VERB_RELEASE, VERB_BY_PERSON | VERB_OF_JOB | VERB_ACTS, OWN, ACT_ANY},
    {VERB_LOG, READS, OWN, READ_ANY},
    {VERB_ARTIFACTS, READS, OWN, READ_ANY},
    {VERB_ARTIFACT, READS, OWN, READ_ANY},
    {VERB_OUTCOME, VERB_BY_SYSTEM, 0, 0},
};

const struct verb_rule *verbs_rule(int verb)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if ((int)rules[i].verb == verb)
            return &rules[i];
    }
    return NULL;
}

void claims_clear(struct claims *c)
{
    strs_clear(&c->workflows);
    memset(c, 0, sizeof(*c));
}

int claims_copy(struct claims *to, const struct claims *from, struct err *e)
{
    *to = *from;
    to->workflows = (struct strs){NULL, 0};
    for (size_t i = 0; i < from->workflows.n; i++) {
        if (strs_add(&to->workflows, from->workflows.v[i]) != 0) {
            claims_clear(to);
            return err_nomem(e);
        }
    }
    return 0;
}

bool claims_workflow(const struct claims *c, const char *name)
{
    if (c == NULL || c->workflows.n == 0)
        return true;
    for (size_t i = 0; i < c->workflows.n; i++) {
        if (fnmatch(c->workflows.v[i], name, FNM_NOESCAPE) == 0)
            return true;
    }
    return false;
}

static int no_job(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "job_unknown", "there is no such job");
}

/* The role to act in, from what map and token leave: the lowest that does. */
static int choose_role(const struct verb_rule *r, unsigned roles, bool own,
                       bool of_job, enum role *out, struct err *e)
{
    unsigned fit = roles & (r->any_roles | (own ? r->own_roles : 0));

    if (fit == 0) {
        if (of_job && !own)
            return no_job(e);
        return err_set(e, ERR_DENIED, "role_required",
                       "the role for this is missing");
    }
    *out = (enum role)(fit & (~fit + 1U)); /* its lowest bit */
    return 0;
}

static int check_token(const struct person *p, const struct claims *c,
                       struct err *e)
{
    if (c == NULL || strcmp(c->person, p->name) == 0)
        return 0;
    return err_set(e, ERR_DENIED, "actor_mismatch",
                   "the token belongs to somebody else");
}

int verbs_authorise(const struct verb_rule *r, const struct people *map,
                    const char *actor, const struct claims *c,
                    const char *owner, struct grant *out, struct err *e)
{
    const struct person *p = people_find(map, actor);
    unsigned roles;

    if ((r->flags & VERB_BY_PERSON) == 0)
        return err_set(e, ERR_DENIED, "verb_forbidden",
                       "this is not for a person to ask");
    if (p == NULL)
        return err_set(e, ERR_DENIED, "actor_unknown",
                       "this person is not in the map");
    if (check_token(p, c, e) != 0)
        return -1;
    roles = p->roles & (c != NULL && c->roles != 0 ? c->roles : ~0U);
    out->person = p;
    out->own = owner == NULL || strcmp(owner, actor) == 0;
    if (choose_role(r, roles, out->own, owner != NULL, &out->acting, e) != 0)
        return -1;
    if (c == NULL && people_proof(p, out->acting) == PROOF_TOKEN)
        return err_set(e, ERR_UNAUTHENTIC, "token_required",
                       "this act needs a token");
    return 0;
}

const struct workflow *verbs_workflow(const struct allowlist *list,
                                      const struct grant *g,
                                      const struct claims *c, const char *name,
                                      struct err *e)
{
    const struct workflow *w = allowlist_find(list, name);

    if (w != NULL && claims_workflow(c, name) &&
        workflow_allows(w, g->person->name, &g->person->groups))
        return w;
    (void)err_set(e, ERR_NOT_FOUND, "workflow_unknown",
                  "there is no such workflow");
    return NULL;
}
