/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Long polls: who waits for a job's version to pass a number.
 * Thread rule: any thread. A callback runs exactly once for each registration,
 * on whichever thread committed the change or on the waiters' timer thread; it
 * must not block and must not call back into this module.
 */
#ifndef BROKER_JOBS_WAITERS_H
#define BROKER_JOBS_WAITERS_H

#include "base/db.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct waiters;
int waiters_start(struct waiters **out, struct err *e);
/* Every waiter is called (changed: false); then the thread ends. */
void waiters_stop(struct waiters *w);

typedef void waiters_fn(void *arg, bool changed);

/* Registers first and looks at the job's version after, so no change between
 * the two is missed. 0: fn will be called, once; 1: version is already past
 * `seen`, fn won't be called; -1: error (ERR_LIMITED waiters_full), fn won't
 * be called. reader: the calling thread's connection. */
int waiters_register(struct waiters *w, struct db *reader, const char *ulid,
                     int64_t seen, int64_t deadline_mono_ms, waiters_fn *fn,
                     void *arg, struct err *e);
/* Every waiter is called now (changed: false), and whoever registers later is
 * told 1 at once: for a server that stops. */
void waiters_wake_all(struct waiters *w);

/* A committed change. */
void waiters_notify(struct waiters *w, const char *ulid, int64_t version);

#endif
