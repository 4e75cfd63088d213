/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The numeric table of accounts, as sluice-resolve writes it (proto.h 6). The
 * spawner never asks NSS: it checks the numbers again, and remembers them.
 * Reference-counted: a table lives as long as a task that names one of its
 * entries. Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_ACCOUNTS_H
#define BROKER_SPAWN_ACCOUNTS_H

#include "base/err.h"
#include "broker/proto.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct account {
    char *name, *home, *shell;
    char *error; /* why it is refused; NULL: usable */
    uid_t uid;
    gid_t gid;
    gid_t groups[PROTO_ACCOUNT_GROUPS_MAX];
    size_t ngroups;
};

struct accounts {
    struct account *v;
    size_t n;
    int refs;
};

/* What no person's account may be. self: only self_uid is possible, and the
 * rest of the rule is not applied. */
struct accounts_rule {
    bool self;
    uid_t self_uid;
    int64_t min_uid;
    uid_t service_uids[3];
    gid_t service_gids[3];
};

/* tree: {"v":1,"accounts":{...}}. An entry that breaks the rule, or can't be
 * read, becomes one with an error; a malformed tree is ERR_UNAVAILABLE
 * resolve_answer. */
int accounts_parse(const json_t *tree, const struct accounts_rule *rule,
                   struct accounts **out, struct err *e);
struct accounts *accounts_ref(struct accounts *a); /* NULL is fine */
void accounts_unref(struct accounts *a);           /* NULL is fine */

const struct account *accounts_find(const struct accounts *a,
                                    const char *name); /* or NULL */
bool account_equal(const struct account *a, const struct account *b);

#endif
