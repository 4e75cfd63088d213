/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Our jobs as slurmctld told them last, by job id. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_TABLE_H
#define BROKER_SLURM_TABLE_H

#include "broker/slurm/jobs.h"
#include "broker/slurm/peers.h"

enum { TABLE_DIGEST_TRIES = 3 };

struct tracked {
    uint32_t job_id;
    time_t submit;
    char *name;
    char digest[SHA256_HEX_LEN + 1]; /* "": not known */
    int tries;
    unsigned round; /* of the last full list that had it */
    json_t *job;    /* as told */
};

struct table {
    struct tracked *v; /* sorted by job_id */
    size_t n, room;
    unsigned round;
    size_t digests_left; /* RPCs that this round may still spend */
    bool unfinished;     /* a digest is still to be fetched */
};

void table_init(struct table *t);
void table_clear(struct table *t);

/* One record of slurmctld's: told to the peers when it is ours and new or
 * different. Returns the JOB (borrowed until the next change), or NULL when it
 * is none of ours. */
const json_t *table_see(struct table *t, const slurm_job_info_t *j,
                        struct peers *peers);
/* A full list begins; table_sweep ends it: what it did not have is gone. */
void table_begin(struct table *t);
void table_sweep(struct table *t, struct peers *peers);
void table_snapshot(const struct table *t, struct peer *one);

#endif
