/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/pipeline.h"

#include "audit/audit.h"
#include "audit/ledger.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/jobs/access.h"
#include "broker/jobs/fingerprint.h"
#include "broker/jobs/outcome.h"
#include "broker/jobs/script.h"
#include "broker/jobs/service.h"
#include "broker/jobs/store.h"
#include "templates/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUTE "POST /v1/jobs"

/* Four times the longest submit: nobody is at work on such a one. */
enum { UNWRITTEN_AFTER_SECONDS = 60 };

/* One submit on its way through the steps. */
struct submit {
    struct service *s;
    struct db *reader;
    const struct submit_request *r;
    struct submit_answer *out;
    int64_t now, deadline;
    const char *name;                           /* of the workflow */
    const json_t *params_in, *secrets, *labels; /* borrowed; may be NULL */
    const struct workflow *workflow;
    json_t *params; /* validated, owned */
    struct limits limits;
    char args_sha256[SHA256_HEX_LEN + 1];
    char fingerprint[SHA256_HEX_LEN + 1];
    char generation[GENERATION_ID_LEN + 1]; /* that the frame named */
    struct job_row job;                     /* owned */
    struct idem_answer first; /* somebody was first with this key */
    bool claimed_before, answered;
    json_t *result;   /* of the spawner, owned */
    struct err error; /* of the spawner */
    enum outcome_kind kind;
};

typedef int step_fn(struct submit *p, struct err *e);

void submit_answer_clear(struct submit_answer *a)
{
    free(a->body);
    *a = (struct submit_answer){0};
}

/* --- parse --- */

static int parse_label(const char *key, const json_t *v, struct err *e)
{
    char at[ERR_POINTER_MAX];
    const char *text = json_string_value(v);

    if (store_label_key_valid(key) && text && strlen(text) <= LABEL_VALUE_MAX)
        return 0;
    json_pointer(at, sizeof at, "/labels", key);
    err_at(e, at);
    return err_set(e, ERR_INVALID, "label_invalid",
                   "a label is a name of letters, digits and . _ / - and a "
                   "short text");
}

static int parse_labels(const json_t *labels, struct err *e)
{
    json_t *obj = json_incref((json_t *)(uintptr_t)labels), *v;
    const char *key;
    int rc = 0;

    if (json_object_size(labels) > LABELS_MAX)
        rc = err_set(e, ERR_INVALID, "label_invalid", "too many labels");
    json_object_foreach(obj, key, v)
    {
        if (rc == 0)
            rc = parse_label(key, v, e);
    }
    json_decref(obj);
    return rc;
}

/* RFC draft's key is a string; ours is 1..255 visible ASCII characters. */
static int parse_key(const char *key, struct err *e)
{
    size_t n = key ? strlen(key) : 1;

    for (const char *c = key; c && *c; c++) {
        if (*c < 0x21 || *c > 0x7e)
            n = 0;
    }
    if (n >= 1 && n <= STORE_KEY_MAX)
        return 0;
    return err_set(e, ERR_INVALID, "idempotency_key",
                   "Idempotency-Key takes 1 to 255 visible ASCII characters");
}

static int step_parse(struct submit *p, struct err *e)
{
    static const char *const keys[] = {"workflow", "params", "secrets",
                                       "labels", NULL};
    const json_t *body = p->r->body;
    json_t *params = NULL, *secrets = NULL, *labels = NULL;

    if (!json_is_object(body))
        return err_set(e, ERR_INVALID, "body_type", "not a JSON object");
    if (json_only(body, keys, "", e) ||
        json_get_str(body, "workflow", true, WORKFLOW_NAME_MAX, &p->name, "",
                     e) ||
        json_get_obj(body, "params", false, &params, "", e) ||
        json_get_obj(body, "secrets", false, &secrets, "", e) ||
        json_get_obj(body, "labels", false, &labels, "", e) ||
        parse_labels(labels, e) || parse_key(p->r->idempotency_key, e))
        return -1;
    p->params_in = params;
    p->secrets = secrets;
    p->labels = labels;
    return 0;
}

/* --- replay --- */

static struct idem_claim claim_of(const struct submit *p)
{
    return (struct idem_claim){.principal = p->r->who->principal,
                               .route = ROUTE,
                               .key = p->r->idempotency_key,
                               .fingerprint = p->fingerprint,
                               .ulid = p->job.ulid,
                               .now = p->now};
}

static int take_body(struct submit *p, char *body, struct err *e)
{
    if (!body)
        return err_nomem(e);
    p->out->body = body;
    p->out->body_len = strlen(body);
    p->answered = true;
    return 0;
}

static int replay_error(struct submit *p, struct err *e)
{
    const char *text = p->first.error;
    json_t *o = json_parse(text, strlen(text), DOC_BYTES_MAX, e);
    int rc = o ? wire_err_get(o, "error", e) : -1;

    json_decref(o);
    p->answered = true;
    return rc ? err_nomem(e) : -1;
}

static int row_text(struct submit *p, const char *ulid, char **text,
                    struct doc_version *v, struct err *e)
{
    struct doc_fresh fresh;
    struct job_row row;
    struct buf b;
    int rc;

    if (store_job_get(p->reader, ulid, &row, e))
        return -1;
    follow_freshness(p->s->follow, &fresh);
    buf_init(&b, DOC_BYTES_MAX);
    rc = doc_job(&b, &row, &fresh, v);
    *text = rc == 0 ? buf_take(&b, NULL) : NULL;
    buf_clear(&b);
    store_job_clear(&row);
    return *text ? 0 : err_nomem(e);
}

/* Its answer couldn't be written down (unwritten_answer): it is known by the
 * row, which the follower brings on. */
static bool first_is_unwritten(struct submit *p)
{
    struct err ignored = ERR_INIT;
    struct job_row row;
    bool unwritten;

    if (store_job_get(p->reader, p->first.ulid, &row, &ignored))
        return false;
    unwritten = row.state == JOB_UNKNOWN ||
                p->now - row.created_at > UNWRITTEN_AFTER_SECONDS;
    store_job_clear(&row);
    return unwritten;
}

/* The first answer again, byte for byte; after a restart of ours in the middle
 * of it: the job as it is now. */
static int replay(struct submit *p, struct err *e)
{
    char *text = NULL;

    if (p->first.status == 0 && first_is_unwritten(p))
        p->first.status = 202;
    if (p->first.status == 0)
        return err_set(e, ERR_CONFLICT, "idempotency_in_flight",
                       "the first request with this key is under way");
    p->out->replayed = true;
    if (p->first.error)
        return replay_error(p, e);
    p->out->status = p->first.status;
    id_job(p->first.ulid, p->out->job);
    if (p->first.body) {
        text = p->first.body;
        p->first.body = NULL;
    } else if (row_text(p, p->first.ulid, &text, NULL, e)) {
        return -1;
    }
    return take_body(p, text, e);
}

static int step_replay(struct submit *p, struct err *e)
{
    struct idem_claim c;
    int rc;

    if (!p->r->idempotency_key || p->r->dry_run)
        return 0;
    if (fingerprint_body(p->r->body, p->s->secret_key, p->fingerprint, e))
        return -1;
    c = claim_of(p);
    rc = store_idem_find(p->reader, &c, &p->first, e);
    if (rc <= 0)
        return rc;
    return replay(p, e);
}

/* --- authorise --- */

static int step_authorise(struct submit *p, struct err *e)
{
    const struct identity *who = p->r->who;
    const struct workflow *w;

    if (!identity_has(who, ROLE_RESEARCHER))
        return err_set(e, ERR_DENIED, "role_missing",
                       "the role researcher is needed");
    if (!who->person_entry->account)
        return err_set(e, ERR_DENIED, "no_account",
                       "no account belongs to this person");
    if (who->proof != PROOF_TOKEN &&
        people_proof(who->person_entry, ROLE_RESEARCHER) == PROOF_TOKEN)
        return err_set(e, ERR_UNAUTHENTIC, "token_required",
                       "this person's jobs need a token");
    w = allowlist_find(who->generation->allowlist, p->name);
    if (!w || !identity_may_run(who, w))
        return err_set(e, ERR_NOT_FOUND, "workflow_not_found",
                       "there is no such workflow");
    p->workflow = w;
    return 0;
}

/* --- validate --- */

static json_t *names_of(const json_t *secrets)
{
    json_t *out = json_array(), *v;
    json_t *obj = json_incref((json_t *)(uintptr_t)secrets);
    const char *name;
    int rc = 0;

    json_object_foreach(obj, name, v) rc |=
        json_array_append_new(out, json_string(name));
    json_decref(obj);
    if (rc == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* What is executed, by digest: workflow, params and the secrets' names. */
static int digest_args(struct submit *p, struct err *e)
{
    json_t *o = json_object();
    char *text = NULL;
    size_t n = 0;
    int rc = 0;

    rc |= json_put_str(o, "workflow", p->name);
    rc |= json_put(o, "params", json_incref(p->params));
    rc |= json_put(o, "secrets", names_of(p->secrets));
    if (rc == 0)
        text = json_canonical(o, &n, e);
    rc = text ? crypto_sha256_hex(text, n, p->args_sha256, e) : err_nomem(e);
    free(text);
    json_decref(o);
    return rc;
}

static int step_validate(struct submit *p, struct err *e)
{
    if (params_validate(p->workflow, p->params_in, &p->params, e) ||
        (p->secrets && secrets_validate(p->workflow, p->secrets, e)) ||
        workflow_limits(p->workflow, p->params, &p->limits, e))
        return -1;
    return digest_args(p, e);
}

/* --- prepare the row --- */

static int dup_to(char **field, const char *v, struct err *e)
{
    *field = v ? strdup(v) : NULL;
    return v && !*field ? err_nomem(e) : 0;
}

static int put_json(char **field, json_t *v, struct err *e)
{
    *field = v ? json_text(v) : NULL;
    json_decref(v);
    return *field ? 0 : err_nomem(e);
}

static int row_words(struct submit *p, struct err *e)
{
    const struct identity *who = p->r->who;
    struct job_row *j = &p->job;
    char name[SLURM_NAME_MAX + 1];

    if (id_slurm_name(p->name, j->ulid, name))
        return err_set(e, ERR_INTERNAL, "name_too_long", "workflow's name");
    return dup_to(&j->person, who->person, e) ||
                   dup_to(&j->account, who->person_entry->account, e) ||
                   dup_to(&j->cluster, p->s->config->cluster.name, e) ||
                   dup_to(&j->workflow, p->name, e) ||
                   dup_to(&j->generation, who->generation->id, e) ||
                   dup_to(&j->request, p->r->request, e) ||
                   dup_to(&j->detail, "submitting", e) ||
                   dup_to(&j->reason, "submitting", e) ||
                   dup_to(&j->slurm_name, name, e) ||
                   dup_to(&j->receipts, "[]", e)
               ? -1
               : 0;
}

static int row_documents(struct submit *p, struct err *e)
{
    struct job_row *j = &p->job;
    json_t *labels = p->labels ? json_deep_copy(p->labels) : json_object();

    return put_json(&j->labels, labels, e) ||
                   put_json(&j->params, json_incref(p->params), e) ||
                   put_json(&j->requested, limits_json(&p->limits), e)
               ? -1
               : 0;
}

/* The digest that watch must find is ours, not the worker's word. */
static int row_script(struct submit *p, struct err *e)
{
    const struct script_of o = {.generation = p->r->who->generation,
                                .workflow = p->workflow,
                                .limits = &p->limits,
                                .ulid = p->job.ulid,
                                .slurm_name = p->job.slurm_name,
                                .account = p->job.account,
                                .has_sidecar = p->job.has_sidecar};
    char sha256[SHA256_HEX_LEN + 1];
    struct buf b;
    int rc;

    buf_init(&b, RENDER_SCRIPT_MAX);
    rc = script_render(p->s, &o, &b, sha256, e);
    buf_clear(&b);
    return rc ? -1 : dup_to(&p->job.script_sha256, sha256, e);
}

static int step_prepare(struct submit *p, struct err *e)
{
    struct job_row *j = &p->job;

    if (p->r->dry_run)
        return 0;
    j->version = 1;
    j->principal = p->r->who->principal;
    j->phase = PHASE_INTENT;
    j->state = JOB_PENDING;
    j->created_at = p->now;
    j->has_sidecar = json_object_size(p->secrets) > 0;
    j->sidecar_left = false;
    if (service_account_uid(p->r->who->person_entry->account, &j->uid, e) ||
        row_words(p, e) || row_documents(p, e))
        return -1;
    return row_script(p, e);
}

/* --- record intent, with the hold: one transaction --- */

static int64_t hold_seconds(const struct limits *l)
{
    return l->time_limit_seconds > 0
               ? l->time_limit_seconds + LEDGER_HOLD_SLACK_SECONDS
               : 0;
}

static json_t *decided_detail(const struct submit *p)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "workflow", p->name);
    rc |= json_put_str(o, "generation", p->r->who->generation->id);
    rc |= json_put_str(o, "args_sha256", p->args_sha256);
    rc |= json_put_str(o, "script_sha256", p->job.script_sha256);
    rc |= json_put_str(o, "slurm_name", p->job.slurm_name);
    rc |= json_put_int(o, "uid", p->job.uid);
    rc |= json_put_int(o, "gpus", limits_gpus(&p->limits));
    rc |= json_put_str(o, "gpu_type", p->limits.gpu_type);
    rc |= json_put_int(o, "hold_seconds", hold_seconds(&p->limits));
    rc |= json_put_int(o, "hold_nano", 0);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int audit_submit(struct db *d, const struct submit *p, const char *code,
                        const char *job, json_t *detail, struct err *e)
{
    const struct identity *who = p->r->who;
    struct audit_row row = {.kind = AUDIT_DECIDED,
                            .request = p->r->request,
                            .principal = who->principal,
                            .token_id = who->token_id[0] ? who->token_id : NULL,
                            .client = who->client,
                            .action = "job.submit",
                            .job = job,
                            .code = code,
                            .detail = detail};

    return audit_append(d, &row, NULL, e);
}

static int intent_rows(struct db *d, struct submit *p, struct err *e)
{
    const struct intent_row intent = {.ulid = p->job.ulid,
                                      .request = p->r->request,
                                      .workflow = p->name,
                                      .generation = p->r->who->generation->id,
                                      .args_sha256 = p->args_sha256,
                                      .slurm_name = p->job.slurm_name,
                                      .principal = p->job.principal,
                                      .uid = p->job.uid,
                                      .created_at = p->now};
    const struct ledger_hold hold = {.idem = p->job.ulid,
                                     .principal = p->job.principal,
                                     .gpu_type = p->limits.gpu_type,
                                     .gpus = limits_gpus(&p->limits),
                                     .seconds = hold_seconds(&p->limits)};
    json_t *detail;
    int rc;

    if (ledger_hold_take(d, &hold, p->r->who->gpus_max, p->now, e) ||
        store_intent_insert(d, &intent, e) || store_job_insert(d, &p->job, e))
        return -1;
    detail = decided_detail(p);
    rc = detail ? audit_submit(d, p, NULL, p->job.ulid, detail, e)
                : err_nomem(e);
    json_decref(detail);
    return rc;
}

static int run_intent(struct db *d, void *arg, struct err *e)
{
    struct submit *p = arg;
    struct idem_claim c = claim_of(p);
    int rc = 0;

    if (c.key)
        rc = store_idem_claim(d, &c, &p->first, e);
    if (rc < 0)
        return -1;
    p->claimed_before = rc == 1;
    return p->claimed_before ? 0 : intent_rows(d, p, e);
}

static int step_record_intent(struct submit *p, struct err *e)
{
    if (p->r->dry_run)
        return 0;
    if (writer_call(p->s->writer, run_intent, p, e))
        return -1;
    return p->claimed_before ? replay(p, e) : 0;
}

/* --- submit --- */

static json_t *args_of(const struct submit *p, json_t *secrets)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "workflow", p->name);
    rc |= json_put(o, "params", json_incref(p->params));
    rc |= json_put(o, "secrets", secrets);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *secrets_copy(const struct submit *p)
{
    return p->secrets ? json_incref((json_t *)(uintptr_t)p->secrets)
                      : json_object();
}

/* What the spawner said is kept for the next step: a refusal is recorded
 * before it is answered. */
static int step_submit(struct submit *p, struct err *e)
{
    struct spawn_request r = {.verb = VERB_SUBMIT,
                              .request = p->r->request,
                              .ulid = p->job.ulid,
                              .actor = p->r->who->person,
                              .token = p->r->who->token,
                              .generation = p->generation};
    json_t *args;

    if (p->r->dry_run)
        return 0;
    args = args_of(p, secrets_copy(p));
    if (!args)
        err_nomem(&p->error);
    r.args = args;
    if (args &&
        spawn_call(p->s->spawn, &r, p->deadline, &p->result, &p->error) == 0)
        p->kind = OUTCOME_ACCEPTED;
    else if (p->error.class == ERR_UNKNOWN)
        p->kind = OUTCOME_UNKNOWN;
    else
        p->kind = OUTCOME_REFUSED;
    json_decref(args);
    (void)e;
    return 0;
}

/* --- record outcome --- */

static int run_outcome(struct db *d, void *arg, struct err *e)
{
    struct outcome *o = arg;
    struct err bad = ERR_INIT;

    if (outcome_record(d, o, &bad) == 0)
        return 0;
    if (e && !err_is_set(e))
        *e = bad;
    return -1;
}

static int outcome_answer(struct submit *p, struct outcome *o, struct err *e)
{
    char *body = o->body;

    o->body = NULL;
    p->out->status = o->kind == OUTCOME_UNKNOWN ? 202 : 201;
    id_job(o->ulid, p->out->job);
    return take_body(p, body, e);
}

/* The row as it can be read now; else as it was inserted. */
static void row_again(struct submit *p)
{
    struct err ignored = ERR_INIT;
    struct job_row row;

    if (store_job_get(p->reader, p->job.ulid, &row, &ignored))
        return;
    store_job_clear(&p->job);
    p->job = row;
}

static int set_unknown(struct job_row *j, struct err *e)
{
    if (j->phase != PHASE_INTENT)
        return 0;
    j->state = JOB_UNKNOWN;
    free(j->reason);
    return dup_to(&j->reason, "submit_unknown", e);
}

/* It was sent, and what came of it couldn't be written down (disk, commit): an
 * error would say that nothing was started. The follower asks the spawner. */
static int unwritten_answer(struct submit *p, const struct doc_fresh *fresh,
                            struct err *e)
{
    struct buf b;
    int rc;

    buf_init(&b, DOC_BYTES_MAX);
    rc = set_unknown(&p->job, e);
    if (rc == 0)
        rc = doc_job(&b, &p->job, fresh, NULL) ? err_nomem(e) : 0;
    if (rc == 0) {
        p->out->status = 202;
        id_job(p->job.ulid, p->out->job);
        rc = take_body(p, buf_take(&b, NULL), e);
    }
    buf_clear(&b);
    return rc;
}

/* Nothing was started, and watch hasn't seen that it was. */
static bool is_refused(struct submit *p, enum outcome_kind kind)
{
    row_again(p);
    return kind == OUTCOME_REFUSED && p->job.phase == PHASE_INTENT;
}

static int refused_answer(const struct submit *p, struct err *e)
{
    if (e && !err_is_set(e))
        *e = p->error;
    return -1;
}

static int step_record_outcome(struct submit *p, struct err *e)
{
    struct outcome o = {.ulid = p->job.ulid,
                        .kind = p->kind,
                        .result = p->result,
                        .error = &p->error,
                        .generation = p->generation[0] ? p->generation : NULL,
                        .now = clock_now()};
    struct err why = ERR_INIT;
    int rc;

    if (p->r->dry_run)
        return 0;
    follow_freshness(p->s->follow, &o.fresh);
    rc = writer_call(p->s->writer, run_outcome, &o, &why);
    if (rc)
        log_err("outcome_unwritten", p->r->request, &why);
    if (rc || !o.gone)
        follow_add(p->s->follow, p->job.ulid);
    if (rc == 0 && !o.gone) {
        waiters_notify(p->s->waiters, o.ulid, o.job.version);
        rc = outcome_answer(p, &o, e);
    } else if (rc && !is_refused(p, o.kind)) {
        rc = unwritten_answer(p, &o.fresh, e);
    } else {
        rc = refused_answer(p, e);
    }
    outcome_clear(&o);
    return rc;
}

/* --- dry run --- */

static json_t *time_or_null(const json_t *v)
{
    char text[CLOCK_TEXT_MAX];

    if (!json_is_integer(v) || json_integer_value(v) <= 0)
        return json_null();
    clock_format(json_integer_value(v), text);
    return json_string(text);
}

static json_t *copy_of(const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);

    return v ? json_incref(v) : json_null();
}

static json_t *plan_document(const struct submit *p, const struct buf *script)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "workflow", p->name);
    rc |= json_put(o, "params", json_incref(p->params));
    rc |= json_put(o, "script", json_stringn(buf_str(script), script->len));
    rc |= json_put(o, "script_sha256", copy_of(p->result, "script_sha256"));
    rc |= json_put(o, "resources", copy_of(p->result, "limits"));
    rc |= json_put(o, "account", copy_of(p->result, "account"));
    rc |= json_put(o, "qos", copy_of(p->result, "qos"));
    rc |= json_put(o, "will_run", copy_of(p->result, "will_run"));
    rc |= json_put(o, "start_estimate",
                   time_or_null(json_object_get(p->result, "start_estimate")));
    rc |= json_put(o, "slurm_error", copy_of(p->result, "slurm_error"));
    rc |= json_put(o, "price", json_null());
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int plan_answer(struct submit *p, const struct buf *script,
                       struct err *e)
{
    json_t *doc = plan_document(p, script);
    char *text = doc ? json_text(doc) : NULL;

    json_decref(doc);
    p->out->status = 200;
    return take_body(p, text, e);
}

static int plan_call(struct submit *p, struct buf *script, struct err *e)
{
    json_t *args = args_of(p, names_of(p->secrets));
    const struct spawn_request r = {.verb = VERB_PLAN,
                                    .request = p->r->request,
                                    .actor = p->r->who->person,
                                    .token = p->r->who->token,
                                    .args = args,
                                    .pipe = script};
    struct err why = ERR_INIT;
    int rc;

    if (!args)
        return err_nomem(e);
    rc = spawn_call(p->s->spawn, &r, p->deadline, &p->result, &why);
    json_decref(args);
    if (rc == 0)
        return 0;
    if (why.class == ERR_UNKNOWN) /* a plan starts nothing */
        why.class = ERR_UNAVAILABLE;
    if (e && !err_is_set(e))
        *e = why;
    return -1;
}

static int step_plan(struct submit *p, struct err *e)
{
    struct buf script;
    int rc;

    if (!p->r->dry_run)
        return 0;
    buf_init(&script, RENDER_SCRIPT_MAX);
    rc = plan_call(p, &script, e);
    if (rc == 0)
        rc = plan_answer(p, &script, e);
    buf_clear(&script);
    return rc;
}

/* --- the pipeline --- */

static const struct {
    const char *name;
    step_fn *run;
} steps[] = {
    {"parse", step_parse},
    {"replay", step_replay},
    {"authorise", step_authorise},
    {"validate", step_validate},
    {"prepare", step_prepare},
    {"record_intent", step_record_intent}, /* with the hold */
    {"submit", step_submit},
    {"record_outcome", step_record_outcome},
    {"plan", step_plan},
};

struct denial {
    const struct submit *p;
    const char *code;
};

static int run_denial(struct db *d, void *arg, struct err *e)
{
    struct denial *x = arg;
    json_t *detail = json_object();
    int rc = 0;

    /* A name that the allowlist doesn't have is the client's text. */
    if (x->p->workflow)
        rc = json_put_str(detail, "workflow", x->p->name);
    rc = rc ? err_nomem(e) : audit_submit(d, x->p, x->code, NULL, detail, e);
    json_decref(detail);
    return rc;
}

/* A no is a decision too. What the spawner refused has its rows (decided,
 * outcome), and a replayed no has those of the first. */
static void audit_denial(struct submit *p, const struct err *e)
{
    struct denial x = {p, e->code};
    struct err why = ERR_INIT;

    if (!access_is_refusal(e) || p->kind == OUTCOME_REFUSED || p->answered)
        return;
    if (writer_call(p->s->writer, run_denial, &x, &why))
        log_err("refusal_unwritten", p->r->request, &why);
}

static void submit_clear(struct submit *p)
{
    json_decref(p->params);
    json_decref(p->result);
    limits_clear(&p->limits);
    store_job_clear(&p->job);
    store_idem_clear(&p->first);
}

static int run_steps(struct submit *p, struct err *e)
{
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (p->answered)
            return 0;
        if (steps[i].run(p, e))
            return -1;
    }
    return 0;
}

int pipeline_submit(struct service *s, struct db *reader,
                    const struct submit_request *r, struct submit_answer *out,
                    struct err *e)
{
    struct submit p = {.s = s,
                       .reader = reader,
                       .r = r,
                       .out = out,
                       .now = clock_now(),
                       .kind = OUTCOME_ACCEPTED,
                       .error = ERR_INIT};
    struct err why = ERR_INIT;
    int rc;

    *out = (struct submit_answer){0};
    p.deadline = clock_mono_ms() + s->config->limits.submit_deadline_ms;
    if (id_ulid(clock_now_ms(), p.job.ulid))
        return err_set(e, ERR_INTERNAL, "crypto_failed", "no random bytes");
    rc = run_steps(&p, &why);
    if (rc) {
        audit_denial(&p, &why);
        if (e && !err_is_set(e))
            *e = why;
    }
    submit_clear(&p);
    return rc;
}
