/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who lives: a small file of "pid starttime what" lines below the boot id,
 * rewritten at each start and end of a child, so that a restarted spawner can
 * end what its predecessor left (PDEATHSIG should have; a process in an
 * uninterruptible wait is the exception). A number is believed only with the
 * same boot and start time (proc_pid_stat(5), field 22).
 * Not fsync'ed: after a crash of the host nothing lives.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_SURVIVORS_H
#define BROKER_SPAWN_SURVIVORS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct survivors;

/* Start time in clock ticks since boot, 0 when it can't be read. */
uint64_t survivors_starttime(pid_t pid);

/* Begin, add each, commit (frees; errors are logged). NULL passes through. */
struct survivors *survivors_begin(const char *file);
void survivors_add(struct survivors *s, pid_t pid, uint64_t starttime,
                   const char *what);
void survivors_commit(struct survivors *s);

/* Kill each that still lives and wait for its end, wait_ms at most in all.
 * *left: how many would not end. A missing file is nobody. */
int survivors_end(const char *file, int wait_ms, size_t *left, struct err *e);

#endif
