/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The people map of a generation: who there is, which account they have, which
 * roles and groups, and which proof each entry needs. Root's file; everything
 * else (tokens, grants) can only narrow it. No libjwt here (own link target
 * auth_people): sluice-spawnd reads this too.
 * Thread rule: immutable after load.
 */
#ifndef AUTH_PEOPLE_H
#define AUTH_PEOPLE_H

#include "base/err.h"
#include "base/yaml.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum role {
    ROLE_RESEARCHER = 1,
    ROLE_OPERATOR = 2,
    ROLE_AUDITOR = 4,
    ROLE_ADMIN = 8
};
enum { PERSON_NAME_MAX = 32 };

struct person {
    char *name;
    char *account;       /* Unix account; NULL: no jobs (operator, auditor) */
    char *slurm_account; /* Slurm account to charge; NULL: Slurm's default */
    char *qos;           /* NULL: Slurm's default */
    char *unix_group;    /* NULL: none; the account must be a member */
    unsigned roles;      /* bits of enum role */
    struct strs groups;  /* ours, what allow.groups means */
    enum proof proof;    /* what a researcher's act needs */
    int64_t gpus_max;    /* 0: no cap named */
};

struct people;
/* tree: {name: {account, unix_group, slurm_account, qos, roles, groups, proof,
 * gpus}, ...}, its rules expanded (auth/rules.h; people_rules otherwise). Two
 * people on one account are refused unless `shared_account: true`. Errors
 * ERR_CONFIG: people_unknown_key people_type people_missing people_name
 * people_role people_account_shared people_rules. */
int people_load(const json_t *tree, const char *file,
                const struct yaml_lines *lines, struct people **out,
                struct err *e);
void people_free(struct people *p);
size_t people_count(const struct people *p);
const struct person *people_at(const struct people *p, size_t i);
const struct person *people_find(const struct people *p, const char *name);
const struct person *people_by_account(const struct people *p,
                                       const char *account);
json_t *people_json(const struct people *p); /* canonical form, owned */

/* Bits <-> words. roles_parse: -1 on an unknown word. */
int roles_parse(const json_t *arr, unsigned *out);
json_t *roles_json(unsigned roles);

/* Which proof does this person need for an act in this role? Operator, auditor
 * and admin acts always a token. */
enum proof people_proof(const struct person *p, enum role acting);

#endif
