/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The brake against workers that die before they served (postfix's
 * master_spawn): the second such death of an account in a row costs it 1 s,
 * then 2, 4 .. 30 s. A person can kill his own workers as he likes: that must
 * not slow anybody else down. Only a death before the identity was taken, which
 * is nobody's doing but the host's, counts for all.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_BRAKE_H
#define BROKER_SPAWN_BRAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { BRAKE_STEP_MS = 1000, BRAKE_LONGEST_MS = 30000 };

struct brake {
    uid_t uid;
    unsigned deaths;
    int64_t until_ms; /* CLOCK_MONOTONIC */
};

struct brakes {
    struct brake all;
    struct brake *v;
    size_t n, cap;
};

void brakes_clear(struct brakes *b);
/* Milliseconds to wait, 0: free. */
int64_t brakes_wait(const struct brakes *b, uid_t uid, int64_t now_ms);
void brakes_death(struct brakes *b, uid_t uid, bool identity_taken,
                  int64_t now_ms);
void brakes_served(struct brakes *b, uid_t uid);

#endif
