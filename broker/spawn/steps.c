/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The verbs, each a list of steps; a step goes on, waits, or refuses. At the
 * bottom of the file are the lists: read those first.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/spawn/args.h"
#include "broker/spawn/frame.h"
#include "broker/spawn/gens.h"
#include "broker/spawn/ops.h"
#include "broker/spawn/support.h"
#include "broker/spawn/verify.h"
#include "broker/spawn/watch.h"

#include <stdlib.h>
#include <string.h>

enum { SUBMIT_SPARE_MS = 2000, TIMEOUTS_A_SUBMIT = 3 };
enum { OUTCOME_ANSWER_MAX = WIRE_FRAME_MAX - 1024 };

static enum step refuse(struct op *o, enum err_class class, const char *code,
                        const char *text)
{
    (void)err_set(&o->err, class, code, "%s", text);
    return STEP_FAIL;
}

/* --- who, and may he ------------------------------------------------------ */

static enum step step_gate(struct op *o)
{
    struct generation *now = gens_current(o->spawnd->gens);

    if (o->spawnd->stopping)
        return refuse(o, ERR_UNAVAILABLE, "spawner_stopping",
                      "the spawner is being restarted");
    if (now == NULL || strcmp(now->id, o->generation_id) != 0)
        return refuse(o, ERR_CONFLICT, "generation_mismatch",
                      "another generation is current");
    o->current = generation_ref(now);
    if ((o->rule->flags & (o->is_system ? VERB_BY_SYSTEM : VERB_BY_PERSON)) ==
        0)
        return refuse(o, ERR_DENIED, "verb_forbidden",
                      "this actor may not ask that");
    return args_keys(o->rule->verb, o->args, &o->err) == 0 ? STEP_NEXT
                                                           : STEP_FAIL;
}

static void on_claims(void *arg, const struct claims *c, const struct err *why)
{
    struct op *o = arg;

    if (c == NULL)
        o->err = *why;
    else
        o->has_claims = claims_copy(&o->claims, c, &o->err) == 0;
    op_resume(o);
}

static enum step step_verify(struct op *o)
{
    if (o->token == NULL)
        return STEP_NEXT;
    verify_ask(o->spawnd->verify, o->token, on_claims, o);
    return STEP_WAIT;
}

static const struct claims *claims_of(const struct op *o)
{
    return o->has_claims ? &o->claims : NULL;
}

static enum step step_authorise(struct op *o)
{
    const char *owner = o->rec != NULL ? o->rec->actor : NULL;

    if (o->is_system)
        return STEP_NEXT;
    if (verbs_authorise(o->rule, o->current->people, o->actor, claims_of(o),
                        owner, &o->grant, &o->err) != 0)
        return STEP_FAIL;
    if (o->rec != NULL && !claims_workflow(claims_of(o), o->rec->workflow))
        return refuse(o, ERR_NOT_FOUND, "job_unknown", "there is no such job");
    return STEP_NEXT;
}

/* --- a new job ------------------------------------------------------------ */

static enum step step_args(struct op *o)
{
    const char *name;

    if (args_workflow(o->args, &name, &o->err) != 0)
        return STEP_FAIL;
    o->workflow = verbs_workflow(o->current->allowlist, &o->grant, claims_of(o),
                                 name, &o->err);
    if (o->workflow == NULL ||
        args_check(o->rule->verb, o->workflow, o->args, &o->params,
                   &o->secret_names, &o->gpus, &o->err) != 0)
        return STEP_FAIL;
    o->has_sidecar = json_array_size(o->secret_names) > 0;
    return STEP_NEXT;
}

/* The kept answer, under this request's name. */
static enum step answer_again(struct op *o, const struct rec *x)
{
    json_t *frame;

    o->stage = STAGE_SENDING;
    if (x->run.running)
        return refuse(o, ERR_UNKNOWN, "submit_running",
                      "this job is being submitted: ask for its outcome");
    frame = record_answer(o->spawnd->record, x, &o->err);
    if (frame == NULL)
        return refuse(o, ERR_UNKNOWN, "submit_unknown",
                      "this job was submitted, and its answer was lost");
    if (json_put_str(frame, "request", o->request) != 0) {
        json_decref(frame);
        (void)err_nomem(&o->err);
        return STEP_FAIL;
    }
    o->answer = frame;
    return STEP_ANSWERED;
}

/* A second submit of a ULID is answered from the record, never sent. */
static enum step step_known(struct op *o)
{
    const struct rec *x = record_find(o->spawnd->record, o->ulid);
    uint8_t sum[SHA256_LEN];

    if (x == NULL)
        return STEP_NEXT;
    if (args_digest(o->workflow->name, o->params, o->secret_names, sum,
                    &o->err) != 0)
        return STEP_FAIL;
    if (strcmp(x->actor, o->actor) != 0 ||
        memcmp(sum, x->args_sha256, sizeof(sum)) != 0)
        return refuse(o, ERR_CONFLICT, "ulid_reused",
                      "this job's number was used for another request");
    return answer_again(o, x);
}

static enum step take_account(struct op *o, const char *name)
{
    o->table = accounts_ref(gens_table(o->spawnd->gens));
    if (o->table == NULL)
        return refuse(o, ERR_UNAVAILABLE, "accounts_unknown",
                      "the accounts have not been looked up yet");
    o->account = name != NULL ? accounts_find(o->table, name) : NULL;
    if (o->account == NULL)
        return refuse(o, ERR_DENIED, "account_unknown",
                      "this person has no account here");
    if (o->account->error != NULL) {
        (void)err_set(&o->err, ERR_DENIED, "account_refused",
                      "the account may not run jobs: %s", o->account->error);
        return STEP_FAIL;
    }
    return STEP_NEXT;
}

static enum step step_own_account(struct op *o)
{
    o->generation = generation_ref(o->current);
    return take_account(o, o->grant.person->account);
}

static int64_t narrower(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

static enum step step_quota(struct op *o)
{
    struct spawnd *d = o->spawnd;
    int64_t max = narrower(o->grant.person->gpus_max,
                           o->has_claims ? o->claims.gpus_max : 0);

    if (quota_submit(&d->quota, o->actor, clock_mono_ms(), &o->err) != 0 ||
        quota_gpus(d->record, o->actor, max, o->gpus, clock_now_ms(),
                   &o->err) != 0)
        return STEP_FAIL;
    return STEP_NEXT;
}

static enum step step_intent(struct op *o)
{
    struct rec_intent in = {.ulid = o->ulid,
                            .request = o->request,
                            .actor = o->actor,
                            .account = o->account->name,
                            .workflow = o->workflow->name,
                            .generation = o->current->id,
                            .uid = o->account->uid,
                            .secret_names = o->secret_names,
                            .gpus = o->gpus};

    if (args_digest(o->workflow->name, o->params, o->secret_names,
                    in.args_sha256, &o->err) != 0 ||
        record_intent(o->spawnd->record, &in, &o->rec, &o->err) != 0)
        return STEP_FAIL;
    o->rec->run.running = true;
    return STEP_NEXT;
}

static enum step step_durable(struct op *o)
{
    o->wants_sync = true; /* ops_turn() goes on with it */
    return STEP_WAIT;
}

/* --- workers -------------------------------------------------------------- */

static void on_staged(void *arg, enum proto_stage stage)
{
    struct op *o = arg;
    struct err e = ERR_INIT;

    if (stage <= o->stage)
        return;
    o->stage = stage;
    if (stage == STAGE_SENDING && o->rule->verb == VERB_SUBMIT &&
        record_sending(o->spawnd->record, o->rec, &e) != 0)
        log_err("sending_not_kept", o->request, &e);
    op_tell_stage(o);
}

static void on_done(void *arg, const json_t *result, enum proto_stage stage,
                    const struct err *why)
{
    struct op *o = arg;

    o->task = NULL;
    if (result == NULL) {
        o->err = *why;
        if (stage > o->stage)
            o->stage = stage;
    } else {
        json_decref(o->result);
        o->result = json_deep_copy(result);
        if (o->result == NULL)
            (void)err_nomem(&o->err);
    }
    op_resume(o);
}

/* How long this request may wait for a worker, and a worker may take. sluiced
 * has long answered 202 when a submit runs into its own end: a late answer of
 * slurmctld is still worth having. */
static int64_t patience_ms(const struct op *o)
{
    const struct config *f = &o->spawnd->config;
    bool long_one = o->rule->verb == VERB_SUBMIT || o->rule->verb == VERB_PLAN;

    return long_one ? f->limits.submit_deadline_ms
                    : f->limits.request_deadline_ms;
}

static int64_t run_ms(const struct op *o, enum proto_verb verb)
{
    int64_t hard, live;

    if (verb != VERB_SUBMIT)
        return patience_ms(o);
    hard = 2 * o->spawnd->config.limits.submit_deadline_ms + SUBMIT_SPARE_MS;
    live = watch_message_timeout(o->spawnd->watch) * 1000 * TIMEOUTS_A_SUBMIT;
    return live > hard ? live : hard;
}

static enum crew_kind kind_of(enum proto_verb v)
{
    return v == VERB_PLAN || v == VERB_SUBMIT || v == VERB_CANCEL ||
                   v == VERB_HOLD || v == VERB_RELEASE
               ? CREW_SLURM
               : CREW_FILES;
}

/* Consumes args. The pipe goes with the task that wants it. */
static enum step give(struct op *o, enum proto_verb verb, json_t *args,
                      bool with_job)
{
    bool pipe = verb == o->rule->verb && o->fd >= 0;
    struct task_spec s = {.kind = kind_of(verb),
                          .verb = verb,
                          .bulk = (o->rule->flags & VERB_BULK) != 0,
                          .table = o->table,
                          .account = o->account,
                          .generation = o->generation,
                          .frame = frame_task(o, verb, args, with_job),
                          .fd = pipe ? o->fd : -1,
                          .start_by_ms = clock_mono_ms() + patience_ms(o),
                          .run_ms = run_ms(o, verb),
                          .staged = on_staged,
                          .done = on_done,
                          .arg = o};

    memcpy(s.request, o->request, sizeof(s.request));
    if (pipe)
        o->fd = -1;
    return crew_give(o->spawnd->crew, &s, &o->task, &o->err) == 0 ? STEP_WAIT
                                                                  : STEP_FAIL;
}

/* {workflow, params} as they were given: the worker makes its own judgement. */
static json_t *work_args(const struct op *o)
{
    json_t *params = json_object_get(o->args, "params"), *a = json_object();
    int r = json_put_str(a, "workflow", o->workflow->name);

    r |= json_put(a, "params",
                  json_is_object(params) ? json_incref(params) : json_object());
    if (r == 0)
        return a;
    json_decref(a);
    return NULL;
}

static json_t *work_args_sidecar(const struct op *o)
{
    json_t *a = work_args(o);

    if (a != NULL && json_put_bool(a, "has_sidecar", o->has_sidecar) == 0)
        return a;
    json_decref(a);
    return NULL;
}

static json_t *prepare_args(const struct op *o)
{
    json_t *secrets = json_object_get(o->args, "secrets"), *a = work_args(o);

    if (a == NULL || !json_is_object(secrets) ||
        json_put(a, "secrets", json_incref(secrets)) == 0)
        return a;
    json_decref(a);
    return NULL;
}

/* Its slurm_init takes milliseconds: they pass while the files worker works. */
static void warm_slurm(struct op *o)
{
    struct task_spec s = {.kind = CREW_SLURM,
                          .table = o->table,
                          .account = o->account,
                          .generation = o->generation};

    memcpy(s.request, o->request, sizeof(s.request));
    crew_warm(o->spawnd->crew, &s);
}

static enum step step_check(struct op *o)
{
    warm_slurm(o);
    return give(o, VERB_CHECK, work_args(o), false);
}

static enum step step_plan(struct op *o)
{
    return give(o, VERB_PLAN, work_args_sidecar(o), false);
}

static enum step step_prepare(struct op *o)
{
    warm_slurm(o);
    return give(o, VERB_PREPARE, prepare_args(o), false);
}

/* The sidecar is written: the secrets' values are not needed any more. */
static enum step step_submit(struct op *o)
{
    frame_wipe(json_object_get(o->args, "secrets"));
    (void)json_object_del(o->args, "secrets");
    o->prepared = json_incref(o->result);
    o->has_sidecar = json_is_true(json_object_get(o->prepared, "has_sidecar"));
    return give(o, VERB_SUBMIT, work_args_sidecar(o), false);
}

static enum step step_merge(struct op *o)
{
    json_t *paths = json_object_get(o->prepared, "paths");
    int r = json_put_bool(o->result, "run_dir_created", true);

    r |= json_put(o->result, "paths", json_deep_copy(paths));
    if (r != 0)
        (void)err_nomem(&o->err);
    return r == 0 ? STEP_NEXT : STEP_FAIL;
}

/* --- a job of the record -------------------------------------------------- */

static enum step step_job(struct op *o)
{
    o->rec = record_find(o->spawnd->record, o->ulid);
    if (o->rec != NULL)
        return STEP_NEXT;
    return refuse(o, ERR_NOT_FOUND, "job_unknown", "there is no such job");
}

/* A recalled generation's jobs can still be held, cancelled, read and
 * finished, with the current catalog; they can't be let go. */
static enum step step_generation(struct op *o)
{
    struct gens *g = o->spawnd->gens;
    struct err why = ERR_INIT;

    if (o->rule->verb == VERB_RELEASE && gens_is_revoked(g, o->rec->generation))
        return refuse(o, ERR_DENIED, "generation_revoked",
                      "this job's template was recalled");
    o->generation = gens_get(g, o->rec->generation, &why);
    if (o->generation == NULL) {
        log_err("generation_of_job", o->request, &why);
        o->generation = generation_ref(o->current);
    }
    return STEP_NEXT;
}

static enum step step_owner_account(struct op *o)
{
    enum step r = take_account(o, o->rec->account);

    if (r == STEP_NEXT && o->account->uid != o->rec->uid)
        return refuse(o, ERR_DENIED, "account_changed",
                      "the account has another uid than when it submitted");
    return r;
}

static void on_watch(void *arg, const json_t *answer, const struct err *why)
{
    struct op *o = arg;

    if (answer == NULL)
        o->err = *why;
    else
        support_note(o, answer);
    op_resume(o);
}

/* Does watch's own word support what the system wants? It is asked once, where
 * the record doesn't know. */
static enum step step_support(struct op *o)
{
    json_t *ask;

    if (!o->is_system || support_given(o))
        return STEP_NEXT;
    ask = o->rec->run.running ? NULL : support_question(o);
    if (ask == NULL)
        return refuse(o, ERR_CONFLICT, "not_ended",
                      "nothing that is known of this job supports that");
    if (watch_ask(o->spawnd->watch, ask, on_watch, o, &o->err) != 0)
        return STEP_FAIL;
    o->at--; /* this step again, with the answer */
    return STEP_WAIT;
}

/* What changes something, and what somebody reads of another's, is on record
 * before it is done. */
static enum step step_act(struct op *o)
{
    bool foreign = !o->is_system && !o->grant.own;

    if ((o->rule->flags & VERB_ACTS) == 0 && !foreign)
        return STEP_NEXT;
    if (record_act(o->spawnd->record, o->rec, o->request, o->actor,
                   proto_verb_name(o->rule->verb), &o->err) != 0)
        return STEP_FAIL;
    return step_durable(o);
}

static enum step step_do(struct op *o)
{
    return give(o, o->rule->verb, json_incref(o->args), true);
}

static enum step step_finished(struct op *o)
{
    struct err e = ERR_INIT;
    const char *sidecar =
        json_string_value(json_object_get(o->result, "sidecar"));

    if (sidecar != NULL && strcmp(sidecar, "failed") != 0 &&
        !o->rec->finished &&
        record_finished(o->spawnd->record, o->rec, &e) != 0)
        log_err("finished_not_kept", o->request, &e);
    return STEP_NEXT;
}

static enum step step_outcome(struct op *o)
{
    const struct rec *x = record_find(o->spawnd->record, o->ulid);
    json_t *v = json_object();
    int r = json_put_bool(v, "known", x != NULL);

    if (x != NULL) {
        json_t *frame = NULL;

        r |= json_put_bool(v, "running", x->run.running);
        if (!x->run.running) {
            frame = record_answer(o->spawnd->record, x, NULL);
            if (frame != NULL &&
                json_dumpb(frame, NULL, 0, JSON_COMPACT) > OUTCOME_ANSWER_MAX) {
                json_decref(
                    frame); /* an earlier version kept it: told as lost */
                frame = NULL;
            }
            r |= json_put(v, "answer", frame != NULL ? frame : json_null());
        }
    }
    o->result = v;
    if (r != 0)
        (void)err_nomem(&o->err);
    return r == 0 ? STEP_NEXT : STEP_FAIL;
}

static enum step step_system_only(struct op *o)
{
    return o->is_system ? STEP_NEXT
                        : refuse(o, ERR_DENIED, "verb_forbidden",
                                 "this actor may not ask that");
}

/* --- the lists ------------------------------------------------------------ */

typedef enum step step_fn(struct op *o);

static step_fn *const plan_steps[] = {
    step_gate,        step_verify, step_authorise, step_args,
    step_own_account, step_check,  step_plan,      NULL};

static step_fn *const submit_steps[] = {
    step_gate,    step_verify,      step_authorise, step_args,
    step_known,   step_own_account, step_quota,     step_intent,
    step_durable, step_prepare,     step_submit,    step_merge,
    NULL};

/* cancel hold release log artifacts artifact */
static step_fn *const job_steps[] = {
    step_gate,          step_verify,  step_job, step_authorise, step_generation,
    step_owner_account, step_support, step_act, step_do,        NULL};

static step_fn *const finish_steps[] = {
    step_gate,    step_job, step_generation, step_owner_account,
    step_support, step_act, step_do,         step_finished,
    NULL};

static step_fn *const outcome_steps[] = {step_system_only, step_outcome, NULL};

static step_fn *const *const lists[VERB_COUNT] = {
    [VERB_PLAN] = plan_steps,     [VERB_SUBMIT] = submit_steps,
    [VERB_FINISH] = finish_steps, [VERB_CANCEL] = job_steps,
    [VERB_HOLD] = job_steps,      [VERB_RELEASE] = job_steps,
    [VERB_LOG] = job_steps,       [VERB_ARTIFACTS] = job_steps,
    [VERB_ARTIFACT] = job_steps,  [VERB_OUTCOME] = outcome_steps,
};

enum step (*const *steps_of(enum proto_verb v))(struct op *o)
{
    return lists[v];
}
