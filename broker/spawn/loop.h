/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The spawner's one event loop: descriptors (epoll) and timers, and one hook
 * that runs at the end of each turn, before the loop sleeps.
 * A watch or timer may be ended from inside any callback.
 * Thread rule: one thread.
 */
#ifndef BROKER_SPAWN_LOOP_H
#define BROKER_SPAWN_LOOP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_fd; /* one watched descriptor; owned by the loop */

/* Lives in its owner; stop it before the owner goes. */
struct loop_timer {
    struct loop_timer *next, *prev;
    int64_t due_ms; /* CLOCK_MONOTONIC */
    uint64_t seq;   /* of its setting */
    void (*fn)(void *arg);
    void *arg;
    bool armed;
};

int loop_new(struct loop **out, struct err *e);
void loop_free(struct loop *l); /* NULL is fine; closes no watched fd */

/* events: EPOLLIN | EPOLLOUT (EPOLLHUP and EPOLLERR always come). NULL: error.
 * The descriptor stays the caller's, and open until loop_unwatch. */
struct loop_fd *loop_watch(struct loop *l, int fd, uint32_t events,
                           void (*fn)(void *arg, uint32_t events), void *arg,
                           struct err *e);
void loop_change(struct loop *l, struct loop_fd *f, uint32_t events);
void loop_unwatch(struct loop *l, struct loop_fd *f); /* NULL is fine */

void loop_timer_init(struct loop_timer *t, void (*fn)(void *arg), void *arg);
void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t delay_ms);
void loop_timer_stop(struct loop *l, struct loop_timer *t);

void loop_on_turn(struct loop *l, void (*fn)(void *arg), void *arg);

/* Until loop_stop(), which may come before it. -1: epoll failed. */
int loop_run(struct loop *l, struct err *e);
void loop_stop(struct loop *l);

#endif
