/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A question to Slurm asked in a forked child, so that a server that hangs
 * costs the child and not us: libslurm's calls have no deadline. (Forking
 * after slurm_init from one thread works on 22.05, 24.11 and
 * 26.05.) The child writes JSON, one text a line.
 * Thread rule: one thread.
 */
#ifndef BROKER_SLURM_CHILD_H
#define BROKER_SLURM_CHILD_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_BYTES_MAX = 4 * 1024 * 1024 };

struct child {
    pid_t pid;           /* 0: none */
    int fd;              /* to poll(2) for POLLIN; -1: none */
    int64_t deadline_ms; /* CLOCK_MONOTONIC */
    struct buf out;
};

void child_init(struct child *c);
/* fn runs in the child with context and the pipe; no other descriptor of ours
 * is open there. */
int child_start(struct child *c, void (*fn)(int fd, void *context),
                void *context, int timeout_ms, struct err *e);
bool child_running(const struct child *c);
/* Read what there is. 1: it has ended well (c->out is complete); 0: more may
 * come; -1: it failed, died or passed its deadline. The child is reaped and
 * gone for 1 and -1. */
int child_read(struct child *c);
/* child_read until it is over, but no longer than wait_ms: 0 then. */
int child_wait(struct child *c, int wait_ms);
void child_stop(struct child *c); /* SIGKILL, reap, free */

/* In the child: one line; consumes v. */
void child_say(int fd, json_t *v);
/* The lines of a finished child: calls fn for each; borrowed. */
void child_lines(const struct child *c, void (*fn)(json_t *line, void *context),
                 void *context);

#endif
