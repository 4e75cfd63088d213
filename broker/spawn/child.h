/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Starting a process: fork, take the identity, give up every power, prove it,
 * exec; and its end: a pidfd in the loop, its standard error as log lines, the
 * kill of process and group. Workers, watch, verify and resolve all start here.
 * A child is owned by its struct children: it is freed after on_exit returned.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_CHILD_H
#define BROKER_SPAWN_CHILD_H

#include "base/err.h"
#include "broker/spawn/loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CHILD_LINE_MAX = 256, CHILD_ENV_MAX = 5 };

struct children;

/* How it ended, for on_exit. */
struct child_end {
    int status;                /* as waitpid(2) */
    bool identity_taken;       /* false: died before it was the person */
    bool started;              /* exec succeeded */
    int sys;                   /* errno of the failed step, if !started */
    char line[CHILD_LINE_MAX]; /* last line of stderr, cleaned; or "" */
};

struct child;

struct child_spec {
    const char *what; /* for the log: "worker", "watch", ... */
    const char *path;
    const char *const *argv; /* NULL-terminated */
    bool identity;           /* become uid, gid, groups */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t ngroups;
    int in, out;          /* fd 0 and 1; -1: /dev/null */
    int control, catalog; /* fd 3 and 4; -1: closed */
    /* *end is valid in the call only; child after it is gone. */
    void (*on_exit)(void *arg, const struct child_end *end);
    void *arg;
};

/* file: where the living are written (survivors.h). slurm_conf goes into each
 * child's environment. file is borrowed for life. */
int children_new(struct loop *l, const char *file, const char *slurm_conf,
                 struct children **out, struct err *e);
/* Kills and reaps whatever lives, without calling on_exit. NULL is fine. */
void children_free(struct children *cs);

/* The spec's descriptors stay the caller's. NULL: error, nothing runs. Errors:
 * ERR_UNAVAILABLE child_start. */
struct child *child_start(struct children *cs, const struct child_spec *s,
                          struct err *e);
pid_t child_pid(const struct child *c);
/* SIGKILL to the process and its group; works on a stopped one. The end comes
 * through on_exit. */
void child_kill(struct child *c);
/* No on_exit any more: it is still reaped. */
void child_forget(struct child *c);

#endif
