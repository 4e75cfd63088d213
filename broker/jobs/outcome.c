/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/outcome.h"

#include "audit/audit.h"
#include "audit/ledger.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/jobs/doc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void outcome_clear(struct outcome *o)
{
    store_job_clear(&o->job);
    free(o->body);
    o->body = NULL;
}

/* May a refusal of this class be kept as the key's answer? */
static bool is_lasting(const struct err *e)
{
    switch (e->class) {
    case ERR_INVALID:
    case ERR_DENIED:
    case ERR_NOT_FOUND:
    case ERR_TOO_LARGE:
    case ERR_SLURM:
        return true;
    default: /* down, busy, full, a bug: the same request may work next time */
        return false;
    }
}

static int replace(char **field, const char *value, struct err *e)
{
    char *copy = value ? strdup(value) : NULL;

    if (value && !copy)
        return err_nomem(e);
    free(*field);
    *field = copy;
    return 0;
}

/* --- parts of every kind --- */

static int audit_outcome(struct db *d, const struct outcome *o,
                         const char *code, json_t *detail, struct err *e)
{
    struct audit_row row = {.kind = AUDIT_OUTCOME,
                            .request = o->job.request,
                            .principal = o->job.principal,
                            .action = "job.submit",
                            .job = o->ulid,
                            .code = code,
                            .detail = detail};

    return audit_append(d, &row, NULL, e);
}

/* The document of this moment is the answer, and the key's for later. */
static int answer_job(struct db *d, struct outcome *o, int status,
                      struct err *e)
{
    struct buf b;
    int rc;

    buf_init(&b, DOC_BYTES_MAX);
    rc = doc_job(&b, &o->job, &o->fresh, NULL);
    free(o->body);
    o->body = rc == 0 ? buf_take(&b, NULL) : NULL;
    buf_clear(&b);
    if (!o->body)
        return err_nomem(e);
    return store_idem_answer(d, o->ulid, status, o->body, NULL, e);
}

static int answer_error(struct db *d, const struct outcome *o, struct err *e)
{
    json_t *obj = json_object();
    char *text = NULL;
    int rc = -1;

    if (wire_err_put(obj, "error", o->error) == 0)
        text = json_text(obj);
    if (text)
        rc = store_idem_answer(d, o->ulid, 400, NULL, text, e);
    else
        err_nomem(e);
    free(text);
    json_decref(obj);
    return rc;
}

/* --- accepted --- */

static int read_claim(const struct outcome *o, int64_t *job_id,
                      const char **sha256, json_t **limits, struct err *e)
{
    if (json_get_int(o->result, "job_id", true, 1, UINT32_MAX, job_id, "", e) ||
        json_get_str(o->result, "script_sha256", true, SHA256_HEX_LEN, sha256,
                     "", e) ||
        json_get_obj(o->result, "limits", false, limits, "", e))
        return -1;
    return 0;
}

static int set_limits(struct job_row *j, const json_t *limits, struct err *e)
{
    char *text = limits ? json_text(limits) : NULL;

    if (!limits)
        return 0;
    if (!text)
        return err_nomem(e);
    free(j->limits);
    j->limits = text;
    /* What was sent is what is in force until slurmctld says otherwise. */
    return j->effective ? 0 : replace(&j->effective, text, e);
}

/* A switch of generation came between check and submit: the spawner checked
 * again, and the script to expect is the new generation's (the follower renders
 * it when the row has no digest). */
static int set_generation(struct outcome *o, struct err *e)
{
    struct job_row *j = &o->job;

    if (!o->generation || !strcmp(o->generation, j->generation))
        return 0;
    if (replace(&j->script_sha256, NULL, e))
        return -1;
    return replace(&j->generation, o->generation, e);
}

static int set_claimed(struct outcome *o, int64_t job_id, struct err *e)
{
    struct job_row *j = &o->job;

    if (set_generation(o, e))
        return -1;
    if (j->submitted_at == 0)
        j->submitted_at = o->now;
    if (j->phase != PHASE_INTENT) /* watch was faster */
        return 0;
    j->phase = PHASE_CLAIMED;
    j->state = JOB_PENDING;
    j->slurm_job_id = job_id;
    return replace(&j->reason, "submitting", e) ||
                   replace(&j->detail, "submitting", e)
               ? -1
               : 0;
}

static int accepted_audit(struct db *d, const struct outcome *o, int64_t job_id,
                          const char *sha256, struct err *e)
{
    json_t *detail = json_object();
    int rc = 0;

    rc |= json_put_int(detail, "slurm_job_id", job_id);
    rc |= json_put_str(detail, "script_sha256", sha256);
    rc = rc ? err_nomem(e) : audit_outcome(d, o, "ok", detail, e);
    json_decref(detail);
    return rc;
}

static int attach(struct db *d, const struct outcome *o, int64_t job_id,
                  struct err *e)
{
    char ref[128];

    snprintf(ref, sizeof ref, "%s/%lld", o->job.cluster, (long long)job_id);
    return ledger_hold_attach(d, o->ulid, ref, o->now, e);
}

static int accept(struct db *d, struct outcome *o, struct err *e)
{
    const char *sha256 = NULL;
    json_t *limits = NULL;
    int64_t job_id = 0;

    if (o->result && read_claim(o, &job_id, &sha256, &limits, e))
        return -1;
    if (job_id == 0)
        job_id = o->job.slurm_job_id; /* watch's word, not a claim */
    if (set_limits(&o->job, limits, e) || set_claimed(o, job_id, e) ||
        store_job_update(d, &o->job, e) || attach(d, o, job_id, e))
        return -1;
    if (accepted_audit(d, o, job_id, sha256, e))
        return -1;
    return answer_job(d, o, 201, e);
}

/* --- refused, unknown --- */

/* Somebody may hold the id already (a 202, or his key sent again after a
 * restart): the job stays, as one that ended without having begun. */
static int close_told(struct db *d, struct outcome *o, struct err *e)
{
    struct job_row *j = &o->job;
    const char *class =
        o->error->class == ERR_UNAVAILABLE || o->error->class == ERR_NOT_FOUND
            ? "infra"
            : "denied";
    /* Slurm's own no, kept by the spawner, did reach it. */
    const char *reason =
        o->error->class == ERR_SLURM ? "slurm" : "submit_not_sent";

    j->state = JOB_ERROR;
    j->phase = PHASE_FINAL;
    j->ended_at = o->now;
    j->has_gpu_seconds = true;
    j->gpu_seconds = 0;
    if (replace(&j->detail, "done", e) || replace(&j->reason, reason, e) ||
        replace(&j->error_class, class, e) || store_job_update(d, j, e))
        return -1;
    return answer_job(d, o, 202, e);
}

static int refuse(struct db *d, struct outcome *o, struct err *e)
{
    json_t *detail = json_object();
    int rc = json_put_int(detail, "sys", o->error->sys);

    rc = rc ? err_nomem(e) : audit_outcome(d, o, o->error->code, detail, e);
    json_decref(detail);
    if (rc ||
        ledger_hold_end(d, o->ulid, LEDGER_RELEASE, o->error->code, o->now, e))
        return -1;
    if (o->told)
        return close_told(d, o, e);
    if (store_job_delete(d, o->ulid, e))
        return -1;
    o->gone = true;
    return is_lasting(o->error) ? answer_error(d, o, e)
                                : store_idem_drop(d, o->ulid, e);
}

static int leave_open(struct db *d, struct outcome *o, struct err *e)
{
    struct job_row *j = &o->job;

    if (j->phase == PHASE_INTENT) {
        j->state = JOB_UNKNOWN;
        if (replace(&j->reason, "submit_unknown", e))
            return -1;
    }
    if (set_generation(o, e) || store_job_update(d, j, e) ||
        audit_outcome(d, o, o->error->code, NULL, e))
        return -1;
    return answer_job(d, o, 202, e);
}

int outcome_record(struct db *d, struct outcome *o, struct err *e)
{
    if (store_job_get(d, o->ulid, &o->job, e))
        return -1;
    /* A worker is the person's: his refusal doesn't undo what watch saw. */
    if (o->kind == OUTCOME_REFUSED && o->job.phase != PHASE_INTENT)
        o->kind = OUTCOME_ACCEPTED;
    switch (o->kind) {
    case OUTCOME_ACCEPTED:
        return accept(d, o, e);
    case OUTCOME_REFUSED:
        return refuse(d, o, e);
    case OUTCOME_UNKNOWN:
        return leave_open(d, o, e);
    }
    return -1;
}
