/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-slurm watch: the one poller (broker/proto.h section 4). slurmctld is
 * asked in this process, one call at a time; slurmdbd in forked children, so
 * that a hung accounting does not stop the jobs. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_WATCH_H
#define BROKER_SLURM_WATCH_H

#include "base/err.h"
#include "base/id.h"
#include "broker/slurm/child.h"
#include "broker/slurm/jobs.h"
#include "broker/slurm/peers.h"
#include "broker/slurm/table.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    ASK_ID_MAX = 64,
    ASKS_MAX = 1024, /* that wait for slurmdbd */
    BATCH_MAX = 32,  /* asks of one child, on one fresh connection */
    CHILDREN_MAX = 3
};

struct ask { /* one that slurmdbd has to answer */
    uint64_t peer;
    char id[ASK_ID_MAX + 1];
    char name[SLURM_NAME_MAX + 1];
    struct rows_query query;
    json_t *slurmctld; /* that part of the answer, owned, or NULL */
};

struct batch { /* one child and its asks; none: only a look at slurmdbd */
    struct child child;
    struct ask *asks[BATCH_MAX];
    size_t n;
    bool answered[BATCH_MAX];
    bool alive; /* the child has heard slurmdbd */
    const struct accounting *accounting;
};

struct accounting {
    const char *cluster;
    bool up;
    int64_t next_look_ms;
    json_t *tres, *qos; /* names by id, as slurmdbd has them; NULL: unasked */
    struct ask *waiting[ASKS_MAX];
    size_t n;
    struct batch batches[CHILDREN_MAX];
};

void accounting_init(struct accounting *a, const char *cluster);
void accounting_clear(struct accounting *a);
/* Takes the ask; answers at once where slurmdbd is known to be down. */
void accounting_ask(struct accounting *a, struct ask *q, struct peers *peers);
/* Read the children, tell answers, start new children. */
void accounting_turn(struct accounting *a, struct peers *peers);
/* {"v","event":"answer","id",...}; consumes both parts (NULL: null). */
json_t *accounting_answer(const char *id, json_t *slurmctld, json_t *slurmdbd);

struct watch {
    struct peers peers;
    struct table table;
    struct accounting accounting;
    int64_t poll_ms, next_ms; /* next_ms: CLOCK_MONOTONIC */
    int64_t cost_ms;          /* what a poll is taken to cost */
    time_t last_update;       /* slurmctld's own */
    bool up, polled;          /* slurmctld answered last; ever */
    int64_t message_timeout;  /* seconds */
    int64_t conf_ms;          /* when to ask for it again */
};

/* One frame from a peer; fd may carry a new peer (only from the spawner). -1:
 * drop that peer. */
int watch_frame(struct watch *w, struct peer *from, const json_t *body,
                int *fd);
/* Until the spawner's socket ends (0). Takes sock. */
int watch_run(int sock, int64_t poll_ms, const char *cluster, struct err *e);

#endif
