/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What is due: for each followed job by its phase, and the house's own chores.
 */
#include "audit/audit.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/jobs/follow_int.h"
#include "broker/jobs/service.h"
#include "broker/jobs/store.h"

#include <string.h>

enum {
    HOUSE_MS = 5000,
    EXPIRE_MS = 3600 * 1000,
    KEY_LIFE_SECONDS = 7 * 86400, /* of an Idempotency-Key */
    SIDECAR_RETRY_MS = 60000,
    FINISH_GAP_MAX_MS = 5000
};

static void queue_lost(struct follow *f, const struct tracked *k,
                       const char *code)
{
    struct progress *p = progress_new(PROGRESS_LOST, k->ulid);

    if (p)
        p->code = code;
    follow_queue(f, p);
}

/* Due now? Then the next time is a little later than the last one was. */
static bool ask_due(const struct follow *f, struct tracked *k, int64_t now,
                    int64_t most)
{
    if (now < k->next_ask)
        return false;
    k->gap = k->next_ask == 0 ? f->times.retry_ms : k->gap * 2;
    if (k->gap > most)
        k->gap = most;
    k->next_ask = now + k->gap;
    return true;
}

static void start_task(struct follow *f, struct tracked *k, enum task_kind kind,
                       int64_t now, int64_t gap)
{
    if (k->tasked || now < k->next_task)
        return;
    k->next_task = now + gap;
    k->tasked = tasks_add(f->tasks, kind, k->ulid) == 0;
}

/* The POST's answer was lost, or we were ended in the middle of it: the
 * spawner's record is asked, and Slurm itself. */
static void due_intent(struct follow *f, struct tracked *k, int64_t now)
{
    if (!k->unknown)
        queue_lost(f, k, "submit_unknown"); /* found at our start */
    if (!k->outcome_told)
        start_task(f, k, TASK_OUTCOME, now, f->times.retry_ms);
    if (ask_due(f, k, now, FOLLOW_GAP_MAX_MS))
        follow_ask_find(f, k);
}

/* The worker's claim: watch is asked by id at once, and again until it has seen
 * the job. A claim that nobody can see for long is said to be lost. */
static void due_claimed(struct follow *f, struct tracked *k, int64_t now)
{
    bool late = now - k->born > f->times.accounting_ms;

    if (!ask_due(f, k, now, late ? FOLLOW_GAP_MAX_MS : f->times.retry_ms))
        return;
    follow_ask_job(f, k);
    if (!k->gone)
        return;
    follow_ask_find(f, k); /* it may be over, and only accounting knows */
    if (late && !k->unknown)
        queue_lost(f, k, "slurm_lost");
}

/* Slurmctld forgot it before we saw its end (we were away, or it lost its
 * state): accounting decides. */
static void due_confirmed(struct follow *f, struct tracked *k, int64_t now)
{
    bool late;

    if (k->dirty && now >= k->next_ask) {
        k->next_ask = now + f->times.retry_ms;
        follow_view(f, k);
    }
    if (!k->gone)
        return;
    if (k->ended == 0)
        k->ended = now;
    late = now - k->ended > f->times.accounting_ms;
    if (k->asked == 0 &&
        ask_due(f, k, now, late ? FOLLOW_GAP_MAX_MS : f->times.retry_ms) &&
        follow_ask_accounting(f, k))
        k->next_ask = now;
    if (late && !k->unknown)
        queue_lost(f, k, "slurm_lost");
}

static void queue_job(struct follow *f, struct tracked *k)
{
    struct progress *p = progress_new(PROGRESS_JOB, k->ulid);

    if (p)
        p->what = json_incref(k->view);
    follow_queue(f, p);
}

static void finish_soon(struct follow *f, struct tracked *k, int64_t now)
{
    int64_t gap = (now - k->ended) / 4; /* fresh ends are looked at oftener */

    if (k->finish && !k->finish_used)
        return;
    if (gap < f->times.retry_ms)
        gap = f->times.retry_ms;
    start_task(f, k, TASK_FINISH, now,
               gap < FINISH_GAP_MAX_MS ? gap : FINISH_GAP_MAX_MS);
}

static void due_ended(struct follow *f, struct tracked *k, int64_t now)
{
    bool late = now - k->ended > f->times.accounting_ms;

    if (late && k->view) {
        queue_job(f, k);
        return;
    }
    if (late && k->gone && !k->unknown)
        queue_lost(f, k, "slurm_lost"); /* nobody has its end */
    if (k->asked == 0 && ask_due(f, k, now, f->times.retry_ms) &&
        follow_ask_accounting(f, k))
        k->next_ask = now;  /* no room: first thing next time */
    finish_soon(f, k, now); /* beside the accounting, not after it */
}

/* Nobody could look: a success can't be told from a failure then. */
static json_t *no_finish(void)
{
    return json_pack("{s:s, s:[], s:[s], s:n}", "sidecar", "failed", "receipts",
                     "missing", "*", "failure");
}

static void queue_finish(struct follow *f, struct tracked *k, json_t *result,
                         bool give_up, const char *code)
{
    struct progress *p = progress_new(PROGRESS_FINISH, k->ulid);

    if (!p) {
        json_decref(result);
        return;
    }
    p->what = result;
    p->give_up = give_up;
    p->code = code;
    follow_queue(f, p);
}

static void due_verifying(struct follow *f, struct tracked *k, int64_t now)
{
    bool late = now - k->ended > f->times.receipts_ms;

    if (k->finish && (late || !k->finish_used))
        queue_finish(f, k, json_incref(k->finish), late, NULL);
    else if (late && !k->tasked)
        queue_finish(f, k, no_finish(), true, "finish_failed");
    else
        finish_soon(f, k, now);
}

static void queue_sidecar(struct follow *f, struct tracked *k)
{
    struct progress *p = progress_new(PROGRESS_SIDECAR, k->ulid);

    if (!p)
        return;
    p->what = k->finish; /* moves */
    k->finish = NULL;
    follow_queue(f, p);
}

static void due_sidecar(struct follow *f, struct tracked *k, int64_t now)
{
    if (k->finish)
        queue_sidecar(f, k);
    start_task(f, k, TASK_FINISH, now, SIDECAR_RETRY_MS);
}

/* Final, but slurmdbd hasn't spoken, a secret is still there, or it was
 * requeued all the same. */
static void due_final(struct follow *f, struct tracked *k, int64_t now)
{
    bool correct = (k->by_slurmctld && now - k->ended < f->times.correct_ms) ||
                   k->again > 0;

    if (k->sidecar_left)
        due_sidecar(f, k, now);
    if (correct && k->asked == 0 &&
        ask_due(f, k, now, FOLLOW_CORRECT_GAP_MAX_MS))
        follow_ask_accounting(f, k);
    if (correct || k->sidecar_left)
        return;
    follow_ask_closed(f, k);
    track_remove(&f->track, k->ulid);
}

typedef void due_fn(struct follow *f, struct tracked *k, int64_t now);
static due_fn *const due[] = {
    [PHASE_INTENT] = due_intent,       [PHASE_CLAIMED] = due_claimed,
    [PHASE_CONFIRMED] = due_confirmed, [PHASE_ENDED] = due_ended,
    [PHASE_VERIFYING] = due_verifying, [PHASE_FINAL] = due_final};

void follow_due(struct follow *f, struct tracked *k, int64_t now)
{
    if (now >= k->pause)
        due[k->phase](f, k, now);
}

/* --- the house --- */

struct chores {
    struct audit_refusals *refusals;
    int64_t now_ms;
    bool expire;
};

static int run_chores(struct db *d, void *arg, struct err *e)
{
    struct chores *c = arg;

    if (c->expire &&
        store_idem_expire(d, c->now_ms / 1000 - KEY_LIFE_SECONDS, e))
        return -1;
    return audit_refusals_flush(c->refusals, d, c->now_ms, e);
}

void follow_house(struct follow *f, int64_t now)
{
    struct chores c = {f->service->refusals, clock_now_ms(), false};
    struct err e = ERR_INIT;

    if (now < f->next_house)
        return;
    f->next_house = now + HOUSE_MS;
    c.expire = now >= f->next_expire;
    if (c.expire)
        f->next_expire = now + EXPIRE_MS;
    if (!c.expire && !audit_refusals_pending(c.refusals, c.now_ms))
        return;
    if (writer_call(f->service->writer, run_chores, &c, &e))
        log_err("chores", NULL, &e);
    else
        audit_refusals_done(c.refusals);
}
