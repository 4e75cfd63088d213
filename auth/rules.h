/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Rules of the people map: "everybody in this Unix group". They are written
 * under `people: rules:` and expanded into entries when a generation is made,
 * so that what takes effect is a list of names that can be shown, compared and
 * recalled. An entry that a rule made carries the group (`unix_group`), and
 * sluice-resolve refuses its account as soon as it is not a member any more.
 *
 *   rules:
 *     - {unix_group: research, login: "*", groups: [canary], proof: token,
 *        slurm_account: research}
 *
 * A rule gives the role researcher and the account of the member's own name;
 * other roles need an entry. An explicit entry wins, then the first rule.
 * Thread rule: any thread.
 */
#ifndef AUTH_RULES_H
#define AUTH_RULES_H

#include "base/err.h"
#include "base/yaml.h"
#include "workflows/strs.h"

#include <jansson.h>

/* Append the logins of a Unix group (strs_add). ERR_CONFIG
 * people_group_unknown, ERR_UNAVAILABLE people_group. */
typedef int rules_members_fn(const char *unix_group, struct strs *out,
                             struct err *e);

/* The tree without `rules`, with the entries that they make. *out is owned.
 * Logins that are no valid names of persons are left out. Errors ERR_CONFIG:
 * people_unknown_key people_type people_missing, and those of `members`;
 * what the entries themselves hold is checked by people_load. */
int rules_expand(const json_t *tree, const char *file,
                 const struct yaml_lines *lines, rules_members_fn *members,
                 json_t **out, struct err *e);

#endif
