/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What slurmctld and slurmdbd know of a job, as the JOB and ROW objects of
 * broker/proto.h section 4. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_JOBS_H
#define BROKER_SLURM_JOBS_H

#include "base/crypto.h"
#include "base/err.h"
#include "broker/slurm/compat.h"

#include <jansson.h>
#include <stdbool.h>

/* Owned JOB; sha256 NULL: not known (yet). NULL: no memory. */
json_t *jobs_json(const slurm_job_info_t *j, const char *sha256);
bool jobs_is_ours(const char *name); /* NULL: no */

/* SHA-256 (hex) of the batch script that slurmctld holds. 0, or -1: it gave
 * none. One RPC. */
int jobs_script_digest(uint32_t job_id, char *out /* SHA256_HEX_LEN + 1 */);

/* TRES and QOS ids by name, {"1":"cpu",...}; each a slurmdbd query. */
json_t *jobs_tres_names(void *db);
json_t *jobs_qos_names(void *db);

struct rows_query {
    uint32_t job_id;  /* 0: by name */
    const char *name; /* exact */
    uid_t uid;
    int64_t since; /* rows submitted before are another job's */
    int64_t until; /* the job's last submit that watch saw; 0: not known */
    const char *cluster;
};
/* Rows of all attempts, oldest first; owned array, NULL on failure (which
 * also an SQL error that looks like an empty list can't be told from).
 * *unknown: an id is missing from tres or qos. */
json_t *jobs_rows(void *db, const struct rows_query *q, const json_t *tres,
                  const json_t *qos, bool *unknown);

#endif
