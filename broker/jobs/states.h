/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Slurm's state words and flags to our six and details.
 * Pure functions; any thread.
 */
#ifndef BROKER_JOBS_STATES_H
#define BROKER_JOBS_STATES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum job_state {
    JOB_PENDING,
    JOB_RUNNING,
    JOB_COMPLETE,
    JOB_ERROR,
    JOB_CANCELED,
    JOB_UNKNOWN
};
const char *job_state_name(enum job_state s);
int job_state_parse(const char *name); /* enum job_state, or -1 */

/* What Slurm says of a job now. flags: array of words, or NULL. */
struct slurm_view {
    const char *state;
    const json_t *flags;
    const char *reason;
    bool priority_held;
    int64_t exit_code, exit_signal; /* 0 where not known */
};

struct state_map {
    enum job_state state;
    const char *detail;      /* static word */
    const char *reason;      /* a code of messages.h, or NULL */
    const char *error_class; /* infra program timeout memory, or NULL */
    bool ended;              /* Slurm ended it (for this attempt) */
};
/* Live record of slurmctld. An ended job maps to the state it will have when it
 * is final; callers show RUNNING/ended until then. */
void states_map(const struct slurm_view *v, struct state_map *out);
/* Accounting's base state and flags: REQUEUED and RESIZING rows are closed
 * attempts, not the job's end. */
bool states_row_requeued(const char *state, const json_t *flags);

#endif
