/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/progress.h"

#include "audit/audit.h"
#include "audit/ledger.h"
#include "base/clock.h"
#include "base/json.h"
#include "broker/jobs/doc.h"
#include "broker/jobs/outcome.h"
#include "broker/jobs/runs.h"
#include "broker/jobs/view.h"

#include <stdlib.h>
#include <string.h>

struct progress *progress_new(enum progress_kind kind, const char *ulid)
{
    struct progress *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->kind = kind;
    p->now = clock_now();
    memcpy(p->ulid, ulid, ULID_LEN + 1);
    return p;
}

void progress_free(struct progress *p)
{
    if (!p)
        return;
    json_decref(p->what);
    store_job_clear(&p->job);
    free(p);
}

/* --- small setters --- */

static int set_str(char **field, const char *v, struct err *e)
{
    char *copy;

    if (*field && v && !strcmp(*field, v))
        return 0;
    copy = v ? strdup(v) : NULL;
    if (v && !copy)
        return err_nomem(e);
    free(*field);
    *field = copy;
    return 0;
}

static int set_json(char **field, json_t *v, struct err *e)
{
    char *text = v ? json_text(v) : NULL;

    json_decref(v);
    if (!text)
        return err_nomem(e);
    free(*field);
    *field = text;
    return 0;
}

static int set_reason(struct job_row *j, const char *code, const char *en,
                      const char *zh, struct err *e)
{
    return set_str(&j->reason, code, e) || set_str(&j->reason_en, en, e) ||
                   set_str(&j->reason_zh, zh, e)
               ? -1
               : 0;
}

static bool is_mismatch(const struct job_row *j)
{
    return j->reason && !strcmp(j->reason, "claim_mismatch");
}

static int notice(struct db *d, const struct job_row *j, const char *action,
                  const char *code, json_t *detail, struct err *e)
{
    struct audit_row row = {.kind = AUDIT_NOTICED,
                            .request = j->request,
                            .principal = j->principal,
                            .action = action,
                            .job = j->ulid,
                            .code = code,
                            .detail = detail};
    int rc = detail ? audit_append(d, &row, NULL, e) : err_nomem(e);

    json_decref(detail);
    return rc;
}

/* --- VIEW: confirmation --- */

static json_t *claim_detail(const struct job_view *v)
{
    json_t *o = json_object();

    if ((json_put_int(o, "slurm_job_id", v->job_id) |
         json_put_int(o, "uid", v->uid) |
         json_put_str(o, "script_sha256", v->script_sha256)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* What Slurm holds isn't what was decided. It stays UNKNOWN, is followed to its
 * end and booked: the GPU time is spent all the same. */
static int note_mismatch(struct db *d, struct job_row *j,
                         const struct job_view *v, struct err *e)
{
    if (is_mismatch(j))
        return 0;
    j->state = JOB_UNKNOWN;
    j->slurm_job_id = v->job_id;
    if (set_str(&j->detail, "unknown", e) ||
        set_reason(j, "claim_mismatch", NULL, NULL, e))
        return -1;
    return notice(d, j, "job.confirm", "claim_mismatch", claim_detail(v), e);
}

static int confirm(struct db *d, struct job_row *j, const struct job_view *v,
                   int64_t now, struct err *e)
{
    bool found = j->phase == PHASE_INTENT; /* by reconcile, not by a claim */
    char ref[160];

    j->phase = PHASE_CONFIRMED;
    j->slurm_job_id = v->job_id;
    if (j->submitted_at == 0)
        j->submitted_at = v->submit_time;
    if (!found)
        return 0;
    snprintf(ref, sizeof ref, "%s/%lld", j->cluster, (long long)v->job_id);
    if (ledger_hold_attach(d, j->ulid, ref, now, e))
        return -1;
    return notice(d, j, "job.submit", "found", claim_detail(v), e);
}

/* uid and name were compared by the caller. A script that slurmctld doesn't
 * give is waited for, unless the job is over already. */
static int check_claim(struct db *d, struct progress *p,
                       const struct job_view *v, bool ended, struct err *e)
{
    struct job_row *j = &p->job;
    const char *expected = j->script_sha256 ? j->script_sha256
                           : p->digest[0]   ? p->digest
                                            : NULL;

    if (j->phase > PHASE_CLAIMED || is_mismatch(j))
        return 0;
    if ((!v->script_sha256 || !expected) && !ended) {
        p->waiting = true;
        return 0;
    }
    if (v->script_sha256 && expected && strcmp(v->script_sha256, expected))
        return note_mismatch(d, j, v, e);
    if (!j->script_sha256 && set_str(&j->script_sha256, expected, e))
        return -1;
    return confirm(d, j, v, p->now, e);
}

/* --- VIEW: what Slurm says --- */

/* {"partition","account","qos","nodes","gpus","gpu_type",
 *  "time_limit_seconds"} in force. */
static json_t *effective_of(const struct job_view *v)
{
    const struct ledger_gpus *g = v->alloc.n ? &v->alloc : &v->requested;
    json_t *o = json_object();
    int64_t gpus = 0;
    int rc = ledger_gpus_total(g, &gpus, NULL);

    rc |= json_put_str(o, "partition", v->partition);
    rc |= json_put_str(o, "account", v->account);
    rc |= json_put_str(o, "qos", v->qos && v->qos[0] ? v->qos : NULL);
    rc |= json_put_int(o, "nodes", v->nodes);
    rc |= json_put_int(o, "gpus", gpus);
    rc |= json_put_str(o, "gpu_type",
                       g->n == 1 && g->v[0].type[0] ? g->v[0].type : NULL);
    rc |=
        json_put(o, "time_limit_seconds",
                 v->time_limit_seconds > 0 ? json_integer(v->time_limit_seconds)
                                           : json_null());
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *flags_of(const struct job_view *v)
{
    return v->slurm.flags ? json_incref((json_t *)(uintptr_t)v->slurm.flags)
                          : json_array();
}

static int set_slurm(struct job_row *j, const struct job_view *v,
                     const struct state_map *m, int64_t now, struct err *e)
{
    const char *reason = v->slurm.reason;
    bool runs = m->state != JOB_PENDING;

    j->observed_at = now;
    j->slurm_submit = v->submit_time;
    j->started_at = runs ? v->start_time : 0;
    j->ended_at = m->ended ? v->end_time : 0;
    if (j->attempts < v->restarts + 1)
        j->attempts = v->restarts + 1;
    j->has_exit = m->ended && v->has_exit;
    j->exit_code = j->has_exit ? v->slurm.exit_code : 0;
    j->exit_signal = j->has_exit ? v->slurm.exit_signal : 0;
    /* Cancelled while it waited: slurmctld sets both to the same moment. */
    if (m->ended && v->alloc.n == 0 && j->started_at == j->ended_at)
        j->started_at = 0;
    if (set_str(&j->slurm_state, v->slurm.state, e) ||
        set_json(&j->slurm_flags, flags_of(v), e) ||
        set_str(&j->slurm_reason,
                reason && strcmp(reason, "None") ? reason : NULL, e))
        return -1;
    return set_json(&j->effective, effective_of(v), e);
}

static int set_live(struct job_row *j, const struct state_map *m, int64_t now,
                    struct err *e)
{
    if (m->ended) {
        if (j->phase < PHASE_ENDED)
            j->ended_seen_at = now;
        if (j->phase < PHASE_ENDED)
            j->phase = PHASE_ENDED;
        if (is_mismatch(j))
            return 0;
        j->state = JOB_RUNNING;
        return set_str(&j->detail,
                       j->phase == PHASE_ENDED ? "ended" : "verifying", e) ||
                       set_reason(j, NULL, NULL, NULL, e)
                   ? -1
                   : 0;
    }
    if (j->phase > PHASE_CONFIRMED) { /* requeued: it lives again */
        j->phase = PHASE_CONFIRMED;
        j->ended_seen_at = 0;
        j->has_gpu_seconds = false;
        j->gpu_seconds = 0;
    }
    if (is_mismatch(j))
        return 0;
    j->state = m->state;
    return set_str(&j->detail, m->detail, e) ||
                   set_str(&j->error_class, NULL, e) ||
                   set_reason(j, m->reason, NULL, NULL, e)
               ? -1
               : 0;
}

/* --- did anything change that somebody could see? --- */

struct before {
    struct buf doc;
    enum job_phase phase;
    int64_t slurm_submit, ended_seen_at;
    bool sidecar_left, digest, limits;
};

/* Freshness isn't a change: one far in the future hides observed_at. */
static int doc_of(const struct job_row *j, struct buf *out, struct err *e)
{
    const struct doc_fresh fresh = {INT64_C(4102444800), false};

    buf_init(out, DOC_BYTES_MAX);
    return doc_job(out, j, &fresh, NULL) ? err_nomem(e) : 0;
}

static int remember(const struct job_row *j, struct before *b, struct err *e)
{
    b->phase = j->phase;
    b->slurm_submit = j->slurm_submit;
    b->ended_seen_at = j->ended_seen_at;
    b->sidecar_left = j->sidecar_left;
    b->digest = j->script_sha256 != NULL;
    b->limits = j->limits != NULL;
    return doc_of(j, &b->doc, e);
}

static int differs(const struct job_row *j, const struct before *b, bool *out,
                   struct err *e)
{
    struct buf now;
    int rc = doc_of(j, &now, e);

    *out = b->phase != j->phase || b->slurm_submit != j->slurm_submit ||
           b->ended_seen_at != j->ended_seen_at ||
           b->sidecar_left != j->sidecar_left ||
           b->digest != (j->script_sha256 != NULL) ||
           b->limits != (j->limits != NULL) ||
           strcmp(buf_str(&now), buf_str(&b->doc));
    buf_clear(&now);
    return rc;
}

/* --- the steps --- */

static int step_view(struct db *d, struct progress *p, struct err *e)
{
    struct job_row *j = &p->job;
    struct state_map m;
    struct job_view v;

    if (view_job(p->what, &v, e))
        return -1;
    if (j->phase == PHASE_FINAL || v.uid != j->uid ||
        (j->slurm_job_id > 0 && v.job_id != j->slurm_job_id) ||
        (j->phase < PHASE_CONFIRMED && strcmp(v.name, j->slurm_name)))
        return 0; /* another job under our name: the follower notices it */
    states_map(&v.slurm, &m);
    if (check_claim(d, p, &v, m.ended, e) || p->waiting)
        return p->waiting ? 0 : -1;
    if (set_slurm(j, &v, &m, p->now, e))
        return -1;
    return set_live(j, &m, p->now, e);
}

static int step_lost(struct db *d, struct progress *p, struct err *e)
{
    struct job_row *j = &p->job;

    (void)d;
    if (j->phase == PHASE_FINAL || is_mismatch(j))
        return 0;
    j->state = JOB_UNKNOWN;
    return set_str(&j->detail, "unknown", e) ||
                   set_reason(j, p->code, NULL, NULL, e)
               ? -1
               : 0;
}

/* The hold ends with the last figure, once: settled when GPUs were used or the
 * job ran, released when it never started. */
static int end_hold(struct db *d, const struct job_row *j, int64_t now,
                    struct err *e)
{
    bool open = false;

    if (ledger_hold_is_open(d, j->ulid, &open, e))
        return -1;
    if (!open)
        return 0;
    return ledger_hold_end(d, j->ulid,
                           j->started_at > 0 || j->gpu_seconds > 0
                               ? LEDGER_SETTLE
                               : LEDGER_RELEASE,
                           j->source, now, e);
}

static int set_sum(struct db *d, struct progress *p, struct err *e)
{
    struct ledger_job_sum sum = {0};
    struct job_row *j = &p->job;

    if (ledger_job_sum(d, j->ulid, &sum, e))
        return -1;
    j->has_gpu_seconds = sum.runs > 0;
    j->gpu_seconds = sum.gpu_seconds;
    if (j->attempts < sum.runs)
        j->attempts = sum.runs;
    if (set_str(&j->source, sum.from_slurmdbd ? "slurmdbd" : "slurmctld", e))
        return -1;
    if (j->phase == PHASE_FINAL)
        return 0; /* a correction: only figures change */
    j->phase = PHASE_VERIFYING;
    if (j->ended_seen_at == 0)
        j->ended_seen_at = p->now;
    if (!is_mismatch(j)) {
        j->state = JOB_RUNNING;
        if (set_str(&j->detail, "verifying", e) ||
            set_reason(j, NULL, NULL, NULL, e))
            return -1;
    }
    return end_hold(d, j, p->now, e);
}

static bool is_terminal(const struct job_row *j)
{
    const struct slurm_view v = {.state = j->slurm_state};
    struct state_map m;

    states_map(&v, &m);
    return m.ended;
}

/* Accounting's times go with accounting's seconds; its state and exit only
 * where slurmctld's last word wasn't an end. */
static int set_from_row(struct job_row *j, const struct row_view *last,
                        struct err *e)
{
    j->started_at = last->start > last->end ? 0 : last->start;
    j->ended_at = last->end;
    if (j->observed_at == 0)
        j->observed_at = last->end;
    if (j->slurm_job_id == 0)
        j->slurm_job_id = last->job_id;
    if (j->submitted_at == 0)
        j->submitted_at = last->submit;
    if (is_terminal(j))
        return 0;
    j->has_exit = last->has_exit;
    j->exit_code = last->exit_code;
    j->exit_signal = last->exit_signal;
    return set_str(&j->slurm_state, last->state, e);
}

static int step_rows(struct db *d, struct progress *p, struct err *e)
{
    struct row_view last;

    if (!runs_closed(p->what, &p->job, &last))
        return 0;
    if (runs_book_rows(d, &p->job, p->what, p->now, e) ||
        (p->job.phase != PHASE_FINAL && set_from_row(&p->job, &last, e)))
        return -1;
    if (p->job.phase == PHASE_FINAL && last.submit > p->job.slurm_submit)
        p->job.slurm_submit = last.submit; /* requeued after its end */
    return set_sum(d, p, e);
}

static int step_job(struct db *d, struct progress *p, struct err *e)
{
    if (p->job.phase != PHASE_ENDED)
        return 0;
    if (runs_book_job(d, &p->job, p->what, p->now, e))
        return -1;
    return set_sum(d, p, e);
}

/* --- FINISH: the final state --- */

static const char *const error_classes[] = {
    "infra", "program", "timeout", "memory", "receipt", "upstream", "denied"};

/* The receipt's word is its owner's; an unknown class is the program's. */
static const char *class_of(const json_t *failure)
{
    const char *word =
        json_string_value(json_object_get(failure, "error_class"));

    for (size_t i = 0; word && i < sizeof error_classes / sizeof *error_classes;
         i++) {
        if (!strcmp(error_classes[i], word))
            return error_classes[i];
    }
    return "program";
}

struct verdict {
    enum job_state state;
    const char *detail, *reason, *en, *zh, *error_class;
};

static void judge_slurm(const struct job_row *j, struct verdict *v)
{
    json_t *flags = j->slurm_flags ? json_loads(j->slurm_flags, 0, NULL) : NULL;
    const struct slurm_view view = {.state = j->slurm_state,
                                    .flags = flags,
                                    .exit_code = j->exit_code,
                                    .exit_signal = j->exit_signal};
    struct state_map m;

    states_map(&view, &m);
    *v = (struct verdict){
        .state = m.state, .reason = m.reason, .error_class = m.error_class};
    if (m.state == JOB_CANCELED && j->started_at == 0 &&
        !strcmp(m.reason, "canceled"))
        v->reason = "canceled_before_start";
    json_decref(flags);
}

static const char *failure_text(const json_t *failure, const char *key)
{
    const char *s = json_string_value(json_object_get(failure, key));

    return s && *s ? s : NULL;
}

/* A receipt may lower COMPLETE to ERROR and explain a FAILED; a limit that
 * Slurm enforced, a node's failure and a cancel stay Slurm's own. */
static void judge_receipts(const struct progress *p, struct verdict *v)
{
    const json_t *failure = json_object_get(p->what, "failure");
    bool failed = v->reason && !strcmp(v->reason, "program_failed");

    if (json_is_object(failure) && (v->state == JOB_COMPLETE || failed)) {
        const char *code = failure_text(failure, "code");
        v->state = JOB_ERROR;
        v->en = failure_text(failure, "en");
        v->zh = failure_text(failure, "zh");
        v->reason = code && v->en ? code : "failed_by_receipt";
        v->error_class = class_of(failure);
    } else if (v->state == JOB_COMPLETE &&
               json_array_size(json_object_get(p->what, "missing")) > 0) {
        v->state = JOB_ERROR;
        v->reason = p->code ? p->code : "receipts_missing";
        v->error_class = p->code ? "infra" : "receipt";
    }
}

static void judge_words(const struct job_row *j, struct verdict *v)
{
    if (is_mismatch(j))
        *v = (struct verdict){.state = JOB_ERROR,
                              .reason = "claim_mismatch",
                              .error_class = "denied"};
    switch (v->state) {
    case JOB_COMPLETE:
        v->detail = "done";
        break;
    case JOB_CANCELED:
        v->detail = "canceled";
        break;
    default:
        v->detail = "failed";
    }
}

static json_t *final_detail(const struct job_row *j)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "state", job_state_name(j->state));
    rc |= json_put_str(o, "error_class", j->error_class);
    rc |= json_put_int(o, "slurm_job_id", j->slurm_job_id);
    rc |= json_put_int(o, "gpu_seconds", j->gpu_seconds);
    rc |= json_put_str(o, "source", j->source);
    rc |= json_put_int(o, "attempts", j->attempts);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int set_receipts(struct job_row *j, const json_t *result, struct err *e)
{
    json_t *list = json_object_get(result, "receipts");

    return set_json(&j->receipts,
                    json_is_array(list) ? json_incref(list) : json_array(), e);
}

static bool sidecar_failed(const struct job_row *j, const json_t *result)
{
    const char *word = json_string_value(json_object_get(result, "sidecar"));

    return j->has_sidecar && word && !strcmp(word, "failed");
}

static int step_finish(struct db *d, struct progress *p, struct err *e)
{
    struct job_row *j = &p->job;
    struct verdict v;

    if (j->phase != PHASE_VERIFYING)
        return 0;
    judge_slurm(j, &v);
    p->waiting = v.state == JOB_COMPLETE && !p->give_up && !is_mismatch(j) &&
                 !json_is_object(json_object_get(p->what, "failure")) &&
                 json_array_size(json_object_get(p->what, "missing")) > 0;
    if (set_receipts(j, p->what, e))
        return -1;
    if (p->waiting)
        return 0;
    judge_receipts(p, &v);
    judge_words(j, &v);
    j->phase = PHASE_FINAL;
    j->state = v.state;
    j->observed_at = p->now;
    j->sidecar_left = sidecar_failed(j, p->what);
    if (set_str(&j->detail, v.detail, e) ||
        set_reason(j, v.reason, v.en, v.zh, e) ||
        set_str(&j->error_class, v.error_class, e))
        return -1;
    return notice(d, j, "job.end", v.error_class ? v.error_class : "ok",
                  final_detail(j), e);
}

static int step_sidecar(struct db *d, struct progress *p, struct err *e)
{
    (void)d;
    (void)e;
    p->job.sidecar_left = sidecar_failed(&p->job, p->what);
    return 0;
}

typedef int step_fn(struct db *d, struct progress *p, struct err *e);
static step_fn *const steps[] = {
    [PROGRESS_VIEW] = step_view, [PROGRESS_ROWS] = step_rows,
    [PROGRESS_JOB] = step_job,   [PROGRESS_FINISH] = step_finish,
    [PROGRESS_LOST] = step_lost, [PROGRESS_SIDECAR] = step_sidecar,
};

static int run_step(struct db *d, struct progress *p, struct err *e)
{
    struct before b;
    int rc;

    if (store_job_get(d, p->ulid, &p->job, e))
        return -1;
    rc = remember(&p->job, &b, e);
    if (rc == 0)
        rc = steps[p->kind](d, p, e);
    if (rc == 0)
        rc = differs(&p->job, &b, &p->changed, e);
    if (rc == 0 && p->changed)
        rc = store_job_update(d, &p->job, e);
    buf_clear(&b.doc);
    return rc;
}

static int run_outcome(struct db *d, struct progress *p, struct err *e)
{
    struct outcome o = {.ulid = p->ulid,
                        .result = p->what,
                        .error = &p->error,
                        .now = p->now,
                        .told = true,
                        .kind = p->kind == PROGRESS_ACCEPTED ? OUTCOME_ACCEPTED
                                                             : OUTCOME_REFUSED};
    int rc = outcome_record(d, &o, e);

    p->job = o.job; /* moves */
    free(o.body);
    p->gone = o.gone;
    p->changed = rc == 0;
    return rc;
}

int progress_apply(struct db *d, struct progress *p, struct err *e)
{
    struct err why = ERR_INIT;
    int rc;

    store_job_clear(&p->job);
    if (p->kind == PROGRESS_ACCEPTED || p->kind == PROGRESS_REFUSED)
        rc = run_outcome(d, p, &why);
    else
        rc = run_step(d, p, &why);
    if (rc && !strcmp(why.code, "job_not_found")) {
        p->gone = true;
        return 0;
    }
    if (rc && e && !err_is_set(e))
        *e = why;
    return rc;
}
