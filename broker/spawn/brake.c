/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/brake.h"

#include <stdlib.h>
#include <string.h>

enum { FREE_DEATHS = 1, DOUBLINGS_MAX = 5 };

void brakes_clear(struct brakes *b)
{
    free(b->v);
    memset(b, 0, sizeof(*b));
}

static struct brake *find(const struct brakes *b, uid_t uid)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].uid == uid)
            return &b->v[i];
    }
    return NULL;
}

static struct brake *find_or_add(struct brakes *b, uid_t uid)
{
    struct brake *x = find(b, uid), *more;
    size_t cap = b->cap == 0 ? 16 : b->cap * 2;

    if (x != NULL)
        return x;
    if (b->n == b->cap) {
        more = realloc(b->v, cap * sizeof(*more));
        if (more == NULL)
            return NULL;
        b->v = more;
        b->cap = cap;
    }
    x = &b->v[b->n++];
    *x = (struct brake){.uid = uid};
    return x;
}

static void count(struct brake *x, int64_t now_ms)
{
    int64_t wait = BRAKE_STEP_MS;

    if (++x->deaths <= FREE_DEATHS)
        return;
    for (unsigned i = FREE_DEATHS + 1; i < x->deaths && i < DOUBLINGS_MAX + 2;
         i++)
        wait *= 2;
    x->until_ms = now_ms + (wait < BRAKE_LONGEST_MS ? wait : BRAKE_LONGEST_MS);
}

int64_t brakes_wait(const struct brakes *b, uid_t uid, int64_t now_ms)
{
    const struct brake *x = find(b, uid);
    int64_t until = b->all.until_ms;

    if (x != NULL && x->until_ms > until)
        until = x->until_ms;
    return until > now_ms ? until - now_ms : 0;
}

void brakes_death(struct brakes *b, uid_t uid, bool identity_taken,
                  int64_t now_ms)
{
    struct brake *x = identity_taken ? find_or_add(b, uid) : &b->all;

    if (x != NULL)
        count(x, now_ms);
}

void brakes_served(struct brakes *b, uid_t uid)
{
    struct brake *x = find(b, uid);

    if (x != NULL)
        *x = (struct brake){.uid = uid};
    b->all = (struct brake){.deaths = 0};
}
