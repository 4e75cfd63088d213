/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Threads for requests that wait: two lanes, so that logs and artifacts of a
 * stuck mount never take the threads of submit and cancel.
 * Thread rule: pool_add from any thread.
 */
#ifndef BROKER_HTTP_POOL_H
#define BROKER_HTTP_POOL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool;

/* `threads` threads and at most `queue` waiting items. */
int pool_new(size_t threads, size_t queue, struct pool **out, struct err *e);
/* Runs what is queued, then ends the threads; pool_add still answers (busy).
 * NULL is fine in both. */
void pool_stop(struct pool *p);
void pool_free(struct pool *p); /* stops first */
/* fn(arg) will run on a pool thread; -1 ERR_UNAVAILABLE busy when full or
 * stopped. owner: a principal, who gets at most half of the threads and of the
 * queue; 0: no bound. */
int pool_add(struct pool *p, int64_t owner, void (*fn)(void *), void *arg,
             struct err *e);

#endif
