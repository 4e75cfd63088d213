/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-admin's subcommands. Each is one function that takes its own words
 * (argv[0] is "sluice-admin <command>") and returns an exit status: 0 done,
 * 1 refused or findings, 2 usage. Texts for people go to standard output,
 * errors to standard error. In self mode the running account stands for root.
 * Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_ADMIN_H
#define BROKER_ADMIN_ADMIN_H

#include "base/err.h"
#include "broker/config.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ADMIN_DONE = 0, ADMIN_REFUSED = 1, ADMIN_USAGE = 2 };
enum { ADMIN_FILE_MAX = 4 * 1024 * 1024 };

struct admin {
    const char *config_file; /* borrowed */
    struct config cfg;
    struct config_paths paths;
    uid_t owner; /* root, or in self mode the running account */
    gid_t group; /* who may read what is not for everybody */
};

void admin_clear(struct admin *a);
/* Read the configuration and who we are. writing: refused unless we are the
 * owner. Errors: config.h's, ERR_DENIED admin_root. */
int admin_load(struct admin *a, bool writing, struct err *e);

int admin_keys_init(struct admin *a, int argc, char **argv);
int admin_check(struct admin *a, int argc, char **argv);
int admin_apply(struct admin *a, int argc, char **argv);
int admin_account_add(struct admin *a, int argc, char **argv);
int admin_token_issue(struct admin *a, int argc, char **argv);
int admin_token_list(struct admin *a, int argc, char **argv);
int admin_token_revoke(struct admin *a, int argc, char **argv);
int admin_generation_list(struct admin *a, int argc, char **argv);

/* Say why not, on standard error; ADMIN_REFUSED. */
int admin_fail(const struct err *e);

/* JSON files below keys. A missing one is an empty object. Owned, or NULL. */
json_t *admin_read_json(const char *path, struct err *e);
/* Atomic and durable. group: 0640 for it, or (gid_t)-1: 0600. */
int admin_write_json(const struct admin *a, const char *path, const json_t *v,
                     gid_t group, struct err *e);
/* An exclusive lock on the keys folder until the descriptor is closed. */
int admin_lock_keys(const struct admin *a, struct err *e);

#endif
