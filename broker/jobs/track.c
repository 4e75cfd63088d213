/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The random half of a ULID hashes itself. */
static size_t hash(const char *ulid)
{
    size_t h = 0;

    for (int i = ULID_LEN - 6; i < ULID_LEN; i++)
        h = h * 33 + (unsigned char)ulid[i];
    return h % TRACK_BUCKETS;
}

struct tracked *track_find(const struct track *t, const char *ulid)
{
    struct tracked *k = t->bucket[hash(ulid)];

    while (k && strcmp(k->ulid, ulid))
        k = k->next;
    return k;
}

void track_update(struct tracked *k, const struct job_row *j, int64_t now_mono,
                  int64_t now)
{
    bool ended = j->phase >= PHASE_ENDED;

    k->phase = j->phase;
    k->unknown = j->state == JOB_UNKNOWN;
    k->job_id = j->slurm_job_id;
    k->submit = j->slurm_submit;
    if (j->slurm_submit >= k->again)
        k->again = 0;
    k->has_digest = j->script_sha256 != NULL;
    k->by_slurmctld = j->source && !strcmp(j->source, "slurmctld");
    k->sidecar_left = j->sidecar_left;
    if (!ended)
        k->ended = 0;
    else if (k->ended == 0) /* after a restart the clock goes on */
        k->ended = now_mono - (j->ended_seen_at > 0 && j->ended_seen_at < now
                                   ? (now - j->ended_seen_at) * 1000
                                   : 0);
}

struct tracked *track_put(struct track *t, const struct job_row *j,
                          int64_t now_mono, int64_t now)
{
    struct tracked *k = track_find(t, j->ulid);

    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return NULL;
        memcpy(k->ulid, j->ulid, sizeof k->ulid);
        snprintf(k->name, sizeof k->name, "%s", j->slurm_name);
        k->uid = j->uid;
        k->created_at = j->created_at;
        k->born = now_mono;
        k->next = t->bucket[hash(j->ulid)];
        t->bucket[hash(j->ulid)] = k;
        t->n++;
    }
    track_update(k, j, now_mono, now);
    return k;
}

static void tracked_free(struct tracked *k)
{
    json_decref(k->view);
    json_decref(k->finish);
    free(k);
}

void track_remove(struct track *t, const char *ulid)
{
    for (struct tracked **p = &t->bucket[hash(ulid)]; *p; p = &(*p)->next) {
        struct tracked *k = *p;
        if (strcmp(k->ulid, ulid))
            continue;
        *p = k->next;
        t->n--;
        tracked_free(k);
        return;
    }
}

void track_each(struct track *t, track_fn *fn, void *arg)
{
    for (size_t i = 0; i < TRACK_BUCKETS && t->n > 0; i++) {
        struct tracked *next;
        for (struct tracked *k = t->bucket[i]; k; k = next) {
            next = k->next; /* fn may remove k */
            fn(k, arg);
        }
    }
}

void track_clear(struct track *t)
{
    for (size_t i = 0; i < TRACK_BUCKETS; i++) {
        struct tracked *next;
        for (struct tracked *k = t->bucket[i]; k; k = next) {
            next = k->next;
            tracked_free(k);
        }
        t->bucket[i] = NULL;
    }
    t->n = 0;
}
