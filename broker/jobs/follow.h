/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Follows every job of ours to its end: watch's events to job rows, freshness,
 * confirmation of a worker's claim, accounting, `finish`, receipts, run rows
 * and the hold's end; and the small reconcile of submits whose answer was lost.
 *
 * One thread reads watch and keeps the clock; whatever may block (the spawner's
 * `finish` and `outcome`) runs in a few threads of its own.
 * Thread rule: every function here from any thread.
 */
#ifndef BROKER_JOBS_FOLLOW_H
#define BROKER_JOBS_FOLLOW_H

#include "base/err.h"
#include "broker/jobs/doc.h"

#include <stdbool.h>
#include <stdint.h>

struct service;
struct spawn;
struct follow;

/* Tests make them short. Zero fields take the defaults. */
struct follow_times {
    int64_t accounting_ms; /* 30000: then slurmctld's figures */
    int64_t receipts_ms;   /* 120000: a receipt may be late on NFS */
    int64_t stale_ms;      /* 5000 without a good poll */
    int64_t retry_ms;      /* 1000: asks and reconciles again */
    int64_t finish_ms;     /* 10000: deadline of one finish */
    int64_t correct_ms;    /* 7 days: slurmdbd is still asked */
    int64_t forget_ms;     /* 20000: a submit that the spawner doesn't know
                              is then taken to have never arrived */
};

/* Loads what is open from the database and starts. Until follow_use_spawn
 * nothing is asked of the spawner (spawn_start calls our hooks, so it comes
 * after). follow_stop: after spawn_stop, before spawn_free; NULL is fine. */
int follow_start(struct service *s, const struct follow_times *t,
                 struct follow **out, struct err *e);
void follow_use_spawn(struct follow *f, struct spawn *spawn);
void follow_stop(struct follow *f);

/* The spawner handed us watch's peer socket; takes over fd. */
void follow_set_watch(struct follow *f, int fd);
/* The connection to the spawner came or went. */
void follow_spawn_link(struct follow *f, bool up);

/* A job was submitted (phase CLAIMED) or its answer was lost (phase INTENT):
 * follow it from now on. Borrowed strings. */
void follow_add(struct follow *f, const char *ulid);

struct follow_status {
    bool watch_up, slurmctld, slurmdbd;
    int64_t polled_at_ms; /* last good poll, Unix ms; 0: none */
    int64_t jobs;         /* that we follow */
};
void follow_status(struct follow *f, struct follow_status *out);
void follow_freshness(struct follow *f, struct doc_fresh *out);

#endif
