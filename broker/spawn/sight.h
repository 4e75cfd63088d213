/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What watch says about jobs, brought to the spawner's record: aliases, ends,
 * and whether a job is not what was intended. A name alone proves nothing: a
 * person may give his own job any name, so uid, name, time and the id that his
 * worker claimed must agree.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_SIGHT_H
#define BROKER_SPAWN_SIGHT_H

#include "broker/spawn/record.h"

#include <jansson.h>
#include <stdbool.h>

/* A JOB of proto.h 4. The job's rec, or NULL when it is not one of ours. */
struct rec *sight_job(struct record *r, const json_t *job, unsigned epoch);
/* The "gone" event: slurmctld forgot it. */
void sight_gone(struct record *r, const json_t *event);
/* slurmdbd's ROWs for one job: its last run ended? Then it is recorded.
 * *seen: how many rows are this job's. */
void sight_rows(struct record *r, struct rec *x, const json_t *rows,
                size_t *seen);
/* A whole poll of this life of watch went by: what it did not show is not
 * live. */
void sight_swept(struct record *r, unsigned epoch);

/* Did Slurm end it, as far as state and flags say? */
bool sight_state_ended(const char *state, const json_t *flags);

#endif
