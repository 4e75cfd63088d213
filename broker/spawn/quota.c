/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MINUTE_MS = 60000, MILLI = 1000 };

void quota_clear(struct quota *q)
{
    free(q->v);
    *q = (struct quota){.per_minute = q->per_minute};
}

static struct quota_person *find(const struct quota *q, const char *name)
{
    for (size_t i = 0; i < q->n; i++) {
        if (strcmp(q->v[i].name, name) == 0)
            return &q->v[i];
    }
    return NULL;
}

static struct quota_person *add(struct quota *q, const char *name,
                                int64_t now_ms)
{
    size_t cap = q->cap == 0 ? 16 : q->cap * 2;
    struct quota_person *more;

    if (q->n == q->cap) {
        more = realloc(q->v, cap * sizeof(*more));
        if (more == NULL)
            return NULL;
        q->v = more;
        q->cap = cap;
    }
    more = &q->v[q->n++];
    (void)snprintf(more->name, sizeof(more->name), "%s", name);
    more->milli = q->per_minute * MILLI;
    more->last_ms = now_ms;
    return more;
}

/* A minute without submits fills it again. */
static void refill(const struct quota *q, struct quota_person *p,
                   int64_t now_ms)
{
    const int64_t full = q->per_minute * MILLI;
    int64_t passed = now_ms - p->last_ms;

    p->last_ms = now_ms;
    if (passed >= MINUTE_MS)
        p->milli = full;
    else if (passed > 0)
        p->milli += passed * full / MINUTE_MS;
    if (p->milli > full)
        p->milli = full;
}

int quota_submit(struct quota *q, const char *person, int64_t now_ms,
                 struct err *e)
{
    struct quota_person *p = find(q, person);

    if (p == NULL)
        p = add(q, person, now_ms);
    if (p == NULL)
        return err_nomem(e);
    refill(q, p, now_ms);
    if (p->milli < MILLI)
        return err_set(e, ERR_LIMITED, "submit_rate",
                       "more than %lld submits a minute",
                       (long long)q->per_minute);
    p->milli -= MILLI;
    return 0;
}

static bool holds(const struct rec *x, const char *person, int64_t now_ms)
{
    return strcmp(x->actor, person) == 0 &&
           (x->run.live || now_ms - x->intent_ms < QUOTA_UNSEEN_MS);
}

int64_t quota_gpus_held(struct record *r, const char *person, int64_t now_ms)
{
    int64_t sum = 0;

    for (const struct rec *x = record_open_first(r); x != NULL;
         x = x->open_next) {
        if (holds(x, person, now_ms))
            sum += x->gpus; /* each at most INT32_MAX: no overflow here */
    }
    return sum;
}

int quota_gpus(struct record *r, const char *person, int64_t max, int64_t want,
               int64_t now_ms, struct err *e)
{
    if (max == 0 || quota_gpus_held(r, person, now_ms) + want <= max)
        return 0;
    return err_set(e, ERR_LIMITED, "gpus_held",
                   "this person's jobs would hold more than %lld GPUs",
                   (long long)max);
}
