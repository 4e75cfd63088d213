/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The follower's memory: one entry a job that isn't done with, by ULID. What
 * matters after a restart is in the database; this holds timers and the last
 * view only.
 * Thread rule: the follow thread alone.
 */
#ifndef BROKER_JOBS_TRACK_H
#define BROKER_JOBS_TRACK_H

#include "base/id.h"
#include "broker/jobs/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All times are CLOCK_MONOTONIC milliseconds. */
struct tracked {
    char ulid[ULID_LEN + 1];
    char name[SLURM_NAME_MAX + 1];
    int64_t uid, created_at /* Unix seconds */, job_id;
    enum job_phase phase;
    bool unknown;      /* the row's state is UNKNOWN */
    bool has_digest;   /* the row knows the script's digest */
    bool by_slurmctld; /* final, and its figures aren't slurmdbd's */
    bool sidecar_left;
    json_t *view;   /* the last JOB; owned */
    bool dirty;     /* the view was not written yet */
    uint64_t seen;  /* the watch connection that told of it */
    bool gone;      /* slurmctld doesn't show it any more */
    int64_t born;   /* when we began to follow it */
    int64_t ended;  /* when its end was seen; 0 */
    int64_t submit; /* Slurm\'s submit time as last seen; Unix seconds, or 0 */
    int64_t again;  /* final, and requeued then: that submit is to be booked */
    int64_t next_ask, gap, asked; /* asked: 0, or since when one is open */
    int64_t next_task, pause;     /* pause: a step failed, not before this */
    bool tasked;                  /* a finish or outcome is under way */
    bool outcome_told; /* the spawner has no more to say of the submit */
    json_t *finish;    /* its last result; owned */
    bool finish_used;  /* the row has taken it, and a receipt was missing */
    struct tracked *next;
};

enum { TRACK_BUCKETS = 4096 };
struct track {
    struct tracked *bucket[TRACK_BUCKETS];
    size_t n;
};

struct tracked *track_find(const struct track *t, const char *ulid);
/* Add, or bring up to date, from the row. NULL: ENOMEM. */
struct tracked *track_put(struct track *t, const struct job_row *j,
                          int64_t now_mono, int64_t now);
void track_update(struct tracked *k, const struct job_row *j, int64_t now_mono,
                  int64_t now);
void track_remove(struct track *t, const char *ulid);
void track_clear(struct track *t);

typedef void track_fn(struct tracked *k, void *arg);
void track_each(struct track *t, track_fn *fn, void *arg);

#endif
