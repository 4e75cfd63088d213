/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-slurm watch: kept running (uid sluice-watch, a brake between its
 * deaths, silence ends it), its words read, its peers made. Its word comes here
 * directly, never through sluiced.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_WATCH_H
#define BROKER_SPAWN_WATCH_H

#include "base/err.h"
#include "broker/config.h"
#include "broker/spawn/child.h"
#include "broker/spawn/loop.h"
#include "broker/spawn/record.h"

#include <jansson.h>
#include <stdbool.h>

struct watch;

/* answer: the "answer" frame (borrowed); NULL and why. */
typedef void watch_done(void *arg, const json_t *answer, const struct err *why);

enum { WATCH_ASK_MS = 15000 };

/* up: a new watch runs, its peers must be made again. All borrowed for life. */
int watch_new(struct loop *l, struct children *cs, const struct config *config,
              const char *pid_file, struct record *record,
              void (*up)(void *arg), void *arg, struct watch **out,
              struct err *e);
void watch_start(struct watch *w);
void watch_free(struct watch *w); /* kills it; no callbacks; NULL is fine */

/* A new peer: the end to give away, owned by the caller; -1: no watch now. */
int watch_peer(struct watch *w, struct err *e);
/* ask: {"ask":...,...} without v and id; consumed (NULL: no memory). -1:
 * nothing was asked (ERR_UNAVAILABLE watch_down) and done is not called. */
int watch_ask(struct watch *w, json_t *ask, watch_done *done, void *arg,
              struct err *e);
void watch_forget(struct watch *w, const void *arg); /* its asks */

bool watch_up(const struct watch *w);
/* Slurm's MessageTimeout as last told, seconds; 0: not told. */
int64_t watch_message_timeout(const struct watch *w);

#endif
