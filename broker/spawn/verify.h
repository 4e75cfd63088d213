/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The spawner's own look at a token: one persistent sluice-verify child without
 * capabilities (proto.h 5), restarted with a brake. libjwt is in it, not here.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_VERIFY_H
#define BROKER_SPAWN_VERIFY_H

#include "base/err.h"
#include "broker/spawn/child.h"
#include "broker/spawn/loop.h"
#include "broker/spawn/verbs.h"

enum { VERIFY_DEADLINE_MS = 2000 };

struct verify;

/* claims (borrowed for the call), or NULL and why. Called once, from the loop
 * or, when nothing could be asked, from verify_ask itself. */
typedef void verify_done(void *arg, const struct claims *claims,
                         const struct err *why);

/* No child runs before the first verify_use(). argv: sluice-verify --config
 * <config_file> <generation>. */
int verify_new(struct loop *l, struct children *cs, const char *libexec,
               const char *config_file, struct verify **out, struct err *e);
void verify_free(struct verify *v); /* NULL is fine; no callbacks */
/* Errors for `why`: the child's own; ERR_UNAVAILABLE verify_unavailable
 * verify_timeout. */
void verify_ask(struct verify *v, const char *token, verify_done *done,
                void *arg);
/* The generation whose keys count from now on: a new child. */
void verify_use(struct verify *v, const char *generation);
bool verify_up(const struct verify *v);

#endif
