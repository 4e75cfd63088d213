/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The person's associations, as slurmctld itself holds them (they also answer
 * while slurmdbd is down, and cost 1 ms, not the 45 to 90 ms of slurmdbd on
 * 22.05). Asked in a child with a short deadline and kept for a minute: an
 * account is always sent explicitly, and a hung slurmctld must not eat the
 * submit's time. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_ASSOC_H
#define BROKER_SLURM_ASSOC_H

#include "base/err.h"
#include "broker/slurm/child.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct assoc {
    struct child child;
    /* {"visible":N,"default":S|null,
     *  "accounts":{A:{"qos":[S],"default_qos":S|null}}} */
    json_t *info;  /* owned; NULL: not known */
    int64_t at_ms; /* when info came, CLOCK_MONOTONIC */
};

void assoc_init(struct assoc *a);
void assoc_clear(struct assoc *a);

/* Which account and QOS to send. wanted: NULL for the defaults; `by_map`: the
 * account is the one of root's people map, so a worker's first request need
 * not wait for the answer (3 ms). Results are owned, NULL where nothing is
 * known (slurmctld then chooses and judges).
 * ERR_SLURM slurm_invalid_account, slurm_invalid_qos. */
int assoc_resolve(struct assoc *a, const char *account,
                  const char *wanted_account, const char *wanted_qos,
                  bool by_map, char **out_account, char **out_qos,
                  struct err *e);
/* After the request: ask for what the next one will want to know. */
void assoc_refresh(struct assoc *a, const char *account);

/* The choice alone, from info (may be NULL): no libslurm. */
int assoc_choose(const json_t *info, const char *wanted_account,
                 const char *wanted_qos, char **out_account, char **out_qos,
                 struct err *e);

#endif
