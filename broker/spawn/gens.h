/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Generations as the spawner holds them: the current one with its table of
 * accounts, one loaded and confirmed but not yet switched to, and a few older
 * ones for later verbs on their jobs. The table is looked up again every
 * RESOLVE_EVERY_MS, and sooner after a failure.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_GENS_H
#define BROKER_SPAWN_GENS_H

#include "base/err.h"
#include "broker/config.h"
#include "broker/generation.h"
#include "broker/spawn/accounts.h"
#include "broker/spawn/child.h"
#include "broker/spawn/loop.h"

#include <stdbool.h>

struct gens;

struct gens_hooks {
    void *arg;
    /* The current generation is another one now. */
    void (*switched)(void *arg, const char *id);
    /* This entry of the table changed, or went. */
    void (*account_changed)(void *arg, uid_t old_uid);
    /* The first look at the accounts is over, well or not. Once. */
    void (*ready)(void *arg);
};

/* Loads what `current` names; without one the spawner runs, and refuses. All
 * borrowed for life. Errors: generation_load's. */
int gens_new(struct loop *l, struct children *cs, const struct config *config,
             const struct accounts_rule *rule, const struct gens_hooks *hooks,
             struct gens **out, struct err *e);
void gens_free(struct gens *g); /* NULL is fine */

struct generation *gens_current(struct gens *g); /* borrowed; may be NULL */
struct accounts *gens_table(struct gens *g);     /* borrowed; may be NULL */
/* By id, owned by the caller; NULL and why. */
struct generation *gens_get(struct gens *g, const char *id, struct err *e);
bool gens_is_revoked(struct gens *g, const char *id);

typedef void gens_done(void *arg, const struct err *why); /* set: refused */
/* Load the whole, look its accounts up, hold it ready. done is called once,
 * later, unless -1. */
int gens_load(struct gens *g, const char *id, gens_done *done, void *arg,
              struct err *e);
/* To the one held ready. ERR_CONFLICT generation_not_loaded. */
int gens_switch(struct gens *g, const char *id, struct err *e);
/* SIGHUP: what does `current` name now? Loads and switches by itself. */
void gens_look_again(struct gens *g);
const char *gens_staged_id(const struct gens *g); /* NULL: none */

#endif
