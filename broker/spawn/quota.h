/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The spawner's own caps per person, so that a sluiced in somebody else's hand
 * can't do as it likes: submits a minute, and GPUs of jobs that have not ended
 * by the spawner's own record.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_QUOTA_H
#define BROKER_SPAWN_QUOTA_H

#include "base/err.h"
#include "broker/spawn/record.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* An intent that watch never saw counts for as long as a late job could
     * still come: a munge credential's 300 s, twice. */
    QUOTA_UNSEEN_MS = 600 * 1000
};

struct quota_person {
    char name[33];
    int64_t milli; /* tokens left, thousandths of a submit */
    int64_t last_ms;
};
struct quota {
    int64_t per_minute; /* submits a person; also the burst */
    struct quota_person *v;
    size_t n, cap;
};
void quota_clear(struct quota *q);

/* Take one submit; now_ms is monotonic. ERR_LIMITED submit_rate. */
int quota_submit(struct quota *q, const char *person, int64_t now_ms,
                 struct err *e);
/* GPUs that this person's jobs hold; now_ms is wall clock. */
int64_t quota_gpus_held(struct record *r, const char *person, int64_t now_ms);
/* May `want` more be taken? max 0: no cap. ERR_LIMITED gpus_held. */
int quota_gpus(struct record *r, const char *person, int64_t max, int64_t want,
               int64_t now_ms, struct err *e);

#endif
