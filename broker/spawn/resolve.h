/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One run of sluice-resolve: a child without capabilities that asks NSS for a
 * generation's accounts and writes one frame's worth of JSON. LDAP may hang:
 * RESOLVE_DEADLINE_MS, then it is killed.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_RESOLVE_H
#define BROKER_SPAWN_RESOLVE_H

#include "base/err.h"
#include "broker/spawn/accounts.h"
#include "broker/spawn/child.h"
#include "broker/spawn/loop.h"

enum { RESOLVE_DEADLINE_MS = 10000, RESOLVE_EVERY_MS = 300 * 1000 };

struct resolve;

/* The answer: a table, whose reference goes to the callee, or NULL and why.
 * Called once, later, from the loop; the struct resolve is gone after it. */
typedef void resolve_done(void *arg, struct accounts *table,
                          const struct err *why);

/* argv: sluice-resolve --config <config_file> <generation>. rule is borrowed
 * for the run. -1: nothing was started and `done` is not called. */
int resolve_start(struct loop *l, struct children *cs, const char *libexec,
                  const char *config_file, const char *generation,
                  const struct accounts_rule *rule, resolve_done *done,
                  void *arg, struct err *e);

#endif
