/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The child's half of child_start(), between fork and exec: who it becomes,
 * what it gives up, and the proof that there is no way back.
 * Thread rule: in a freshly forked child of a single-threaded process.
 */
#ifndef BROKER_SPAWN_IDENTITY_H
#define BROKER_SPAWN_IDENTITY_H

#include "broker/spawn/child.h"

enum identity_step {
    IDENTITY_BEGIN = 1,
    IDENTITY_GROUPS,
    IDENTITY_GID,
    IDENTITY_UID,
    IDENTITY_CAPS,
    IDENTITY_PROOF,
    IDENTITY_PARENT,
    IDENTITY_TAKEN,
    IDENTITY_FDS,
    IDENTITY_EXEC
};

/* What the child tells its parent through the status pipe, one each step that
 * matters: {IDENTITY_TAKEN, 0}, or {step, errno} before it ends. */
struct identity_report {
    int step, sys;
};

/* Never returns. parent: the spawner's pid; status: write end of a close-on-
 * exec pipe; err_fd becomes fd 2. */
void identity_exec(const struct child_spec *s, const char *const *env,
                   pid_t parent, int status, int err_fd)
    __attribute__((noreturn));

#endif
