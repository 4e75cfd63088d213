/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the follower hears: watch's events and answers, and the spawner's
 * answers to its own tasks.
 */
#include "audit/audit.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/jobs/follow_int.h"
#include "broker/jobs/runs.h"
#include "broker/jobs/script.h"
#include "broker/jobs/service.h"
#include "broker/jobs/view.h"
#include "templates/render.h"

#include <string.h>

/* --- jobs --- */

/* A job of a lost submit under a newer generation has no digest in its row:
 * render what it must be. Left empty where that's not possible: the claim is
 * then not confirmed. */
static void render_digest(struct follow *f, const char *ulid, char *digest)
{
    struct err e = ERR_INIT;
    struct job_row j;
    struct buf b;

    if (store_job_get(f->reader, ulid, &j, &e))
        return;
    buf_init(&b, RENDER_SCRIPT_MAX);
    if (script_of_job(f->service, &j, &b, digest, &e)) {
        digest[0] = '\0';
        log_err("script_of_job", j.request, &e);
    }
    buf_clear(&b);
    store_job_clear(&j);
}

void follow_view(struct follow *f, struct tracked *k)
{
    struct progress *p = progress_new(PROGRESS_VIEW, k->ulid);

    if (!p)
        return;
    p->what = json_incref(k->view);
    if (!k->has_digest && k->phase < PHASE_CONFIRMED)
        render_digest(f, k->ulid, p->digest);
    k->dirty = true; /* until the commit holds */
    follow_queue(f, p);
}

struct strange {
    int64_t job_id, uid;
    const char *ulid, *code;
};

static int run_strange(struct db *d, void *arg, struct err *e)
{
    const struct strange *x = arg;
    json_t *detail = json_object();
    struct audit_row row = {.kind = AUDIT_NOTICED,
                            .action = "slurm.job",
                            .job = x->ulid,
                            .code = x->code,
                            .detail = detail};
    int rc = json_put_int(detail, "slurm_job_id", x->job_id) |
             json_put_int(detail, "uid", x->uid);

    rc = rc ? err_nomem(e) : audit_append(d, &row, NULL, e);
    json_decref(detail);
    return rc;
}

/* Jobs under our names that aren't ours are seen, and said once. Anybody can
 * make them by the thousand, so the gate is narrow. */
static void note_strange(struct follow *f, const struct job_view *v,
                         const char *ulid, const char *code)
{
    struct strange x = {v->job_id, v->uid, ulid, code};
    struct err e = ERR_INIT;

    for (size_t i = 0; i < FOLLOW_SEEN_MAX; i++) {
        if (f->strange[i] == v->job_id)
            return;
    }
    if (!log_gate_open(&f->strange_gate, 1000))
        return; /* told again at watch's next change of it */
    f->strange[f->strange_next++ % FOLLOW_SEEN_MAX] = v->job_id;
    log_event(LOG_WARN_, "strange_job", NULL, "job", ulid, "code", code, NULL);
    if (writer_call(f->service->writer, run_strange, &x, &e))
        log_err("strange_job", NULL, &e);
}

/* Requeued after we called it final: its state stays, but it is noticed, and
 * the new attempt's GPU time is booked when it has ended. */
static void see_again(struct follow *f, const struct job_view *v,
                      const struct job_row *j)
{
    struct tracked *k;
    struct state_map m;

    note_strange(f, v, j->ulid, "requeued_after_end");
    states_map(&v->slurm, &m);
    if (!m.ended)
        return;
    k = track_put(&f->track, j, clock_mono_ms(), clock_now());
    if (k)
        k->again = v->submit_time;
}

/* Not followed: done with, on its way (the POST adds it), or nobody's. */
static void see_untracked(struct follow *f, const struct job_view *v,
                          const char *ulid)
{
    struct err e = ERR_INIT;
    struct job_row j;

    if (store_job_get(f->reader, ulid, &j, &e) == 0) {
        if (j.slurm_job_id > 0 && j.slurm_job_id != v->job_id)
            note_strange(f, v, ulid, "duplicate_name");
        else if (j.phase == PHASE_FINAL && j.uid == v->uid &&
                 j.slurm_submit > 0 && v->submit_time > j.slurm_submit)
            see_again(f, v, &j);
        store_job_clear(&j);
    } else if (!strcmp(e.code, "job_not_found")) {
        note_strange(f, v, ulid, "unknown_name");
    }
}

static void see_tracked(struct follow *f, struct tracked *k,
                        const struct job_view *v)
{
    if (v->uid != k->uid) {
        note_strange(f, v, k->ulid, "foreign_name");
        return;
    }
    if (k->job_id > 0 && k->job_id != v->job_id) {
        note_strange(f, v, k->ulid, "duplicate_name");
        return;
    }
    k->seen = f->connection;
    k->gone = false;
    json_decref(k->view);
    k->view = json_incref((json_t *)(uintptr_t)v->raw);
    follow_view(f, k);
}

struct by_id {
    int64_t job_id;
    struct tracked *found;
};

static void match_id(struct tracked *k, void *arg)
{
    struct by_id *b = arg;

    if (k->job_id == b->job_id && k->phase >= PHASE_CONFIRMED &&
        k->phase < PHASE_FINAL)
        b->found = k;
}

/* Its owner renamed a job that we follow: by id it is still the same. ours: the
 * new name looks like one of ours, so the submit time must agree as well (an id
 * that was used again is another job). */
static bool see_renamed(struct follow *f, const struct job_view *v, bool ours)
{
    struct by_id b = {.job_id = v->job_id};

    track_each(&f->track, match_id, &b);
    if (!b.found || b.found->uid != v->uid ||
        (ours && b.found->submit != v->submit_time))
        return false;
    note_strange(f, v, b.found->ulid, "renamed");
    see_tracked(f, b.found, v);
    return true;
}

static void see_job(struct follow *f, const json_t *job)
{
    char workflow[SLURM_NAME_MAX + 1], ulid[ULID_LEN + 1];
    struct err e = ERR_INIT;
    struct tracked *k;
    struct job_view v;

    if (view_job(job, &v, &e)) {
        log_err("watch_job", NULL, &e);
        return;
    }
    if (id_slurm_name_parse(v.name, workflow, ulid)) {
        see_renamed(f, &v, false);
        return;
    }
    k = track_find(&f->track, ulid);
    if ((!k || k->job_id != v.job_id) && see_renamed(f, &v, true))
        return;
    if (!k || k->phase == PHASE_FINAL)
        see_untracked(f, &v, ulid);
    else if (k->phase < PHASE_FINAL && !strcmp(k->name, v.name))
        see_tracked(f, k, &v);
}

/* --- events --- */

static int on_job(struct follow *f, const json_t *m, struct err *e)
{
    json_t *job = NULL;

    if (json_get_obj(m, "job", true, &job, "", e))
        return -1;
    see_job(f, job);
    return 0;
}

static int on_poll(struct follow *f, const json_t *m, struct err *e)
{
    int64_t at = 0, took = 0;
    bool ctld = false, dbd = false;

    if (json_get_int(m, "at_ms", true, 0, INT64_MAX / 2, &at, "", e) ||
        json_get_bool(m, "slurmctld", true, &ctld, "", e) ||
        json_get_bool(m, "slurmdbd", true, &dbd, "", e) ||
        json_get_int(m, "took_ms", false, 0, INT32_MAX, &took, "", e))
        return -1;
    pthread_mutex_lock(&f->lock);
    f->poll_ok = ctld;
    f->poll_took_ms = ctld ? took : 0;
    f->status.slurmctld = ctld;
    f->status.slurmdbd = dbd;
    if (ctld)
        f->status.polled_at_ms = at;
    pthread_mutex_unlock(&f->lock);
    return 0;
}

static void lose(struct tracked *k)
{
    if (k->phase == PHASE_CONFIRMED || k->phase == PHASE_ENDED)
        k->gone = true;
}

static int on_gone(struct follow *f, const json_t *m, struct err *e)
{
    char workflow[SLURM_NAME_MAX + 1], ulid[ULID_LEN + 1];
    struct tracked *k = NULL;
    const char *name = NULL;
    int64_t job_id = 0;

    if (json_get_str(m, "name", true, 4096, &name, "", e) ||
        json_get_int(m, "job_id", true, 0, UINT32_MAX, &job_id, "", e))
        return -1;
    if (id_slurm_name_parse(name, workflow, ulid) == 0)
        k = track_find(&f->track, ulid);
    if (k && k->job_id == job_id)
        lose(k);
    return 0;
}

static void check_seen(struct tracked *k, void *arg)
{
    const struct follow *f = arg;

    if (k->seen != f->connection)
        lose(k);
}

/* A full snapshot came: what wasn't in it isn't there. */
static int on_synced(struct follow *f, const json_t *m, struct err *e)
{
    (void)m;
    (void)e;
    track_each(&f->track, check_seen, f);
    return 0;
}

/* --- answers --- */

struct told { /* one source of an answer */
    bool asked, ok;
    json_t *list;
};

static int told_of(const json_t *m, const char *key, const char *list_key,
                   struct told *out, struct err *e)
{
    json_t *o = NULL;

    *out = (struct told){0};
    if (json_get_obj(m, key, false, &o, "", e))
        return -1;
    if (!o)
        return 0;
    out->asked = true;
    return json_get_bool(o, "ok", true, &out->ok, "", e) ||
                   json_get_arr(o, list_key, true, SIZE_MAX, &out->list, "", e)
               ? -1
               : 0;
}

static void queue_lost(struct follow *f, struct tracked *k, const char *code)
{
    struct progress *p = progress_new(PROGRESS_LOST, k->ulid);

    if (p)
        p->code = code;
    follow_queue(f, p);
}

/* The row's own test whether these close the job runs in the transaction. */
static void queue_rows(struct follow *f, struct tracked *k, json_t *rows)
{
    struct progress *p = progress_new(PROGRESS_ROWS, k->ulid);

    if (p)
        p->what = json_incref(rows);
    follow_queue(f, p);
}

static void answer_job(struct follow *f, struct tracked *k,
                       const struct told *ctld, const struct told *dbd)
{
    (void)dbd;
    if (!ctld->ok)
        return;
    for (size_t i = 0; i < json_array_size(ctld->list); i++)
        see_job(f, json_array_get(ctld->list, i));
    if (json_array_size(ctld->list) == 0 && k->phase == PHASE_CLAIMED)
        k->gone = true; /* a claim without a job: follow_due decides */
}

/* One that goes by the name of a job of ours. */
struct namesake {
    int64_t job_id, submit;
};

/* Slurm's ids come round again some day, so the time counts first. */
static void take_older(struct namesake *oldest, int64_t job_id, int64_t submit)
{
    if (oldest->job_id == 0 || submit < oldest->submit ||
        (submit == oldest->submit && job_id < oldest->job_id))
        *oldest = (struct namesake){job_id, submit};
}

/* Whose id is it? What is known of it, else the oldest: its owner can use the
 * name again once he has seen it. (An older one made of it by a worker holds
 * another script, and is not confirmed.) */
static int64_t id_by_jobs(const struct tracked *k, const json_t *jobs)
{
    struct namesake oldest = {k->job_id, INT64_MIN};
    struct job_view v;

    for (size_t i = 0; i < json_array_size(jobs); i++) {
        struct err e = ERR_INIT;
        if (view_job(json_array_get(jobs, i), &v, &e) == 0 && v.uid == k->uid &&
            !strcmp(v.name, k->name))
            take_older(&oldest, v.job_id, v.submit_time);
    }
    return oldest.job_id;
}

static int64_t id_by_rows(const struct tracked *k, const json_t *rows)
{
    struct namesake oldest = {k->job_id, INT64_MIN};
    struct row_view r;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        struct err e = ERR_INIT;
        if (view_row(json_array_get(rows, i), &r, &e) == 0 && r.uid == k->uid &&
            !strcmp(r.name, k->name))
            take_older(&oldest, r.job_id, r.submit);
    }
    return oldest.job_id;
}

static void see_found(struct follow *f, struct tracked *k, const json_t *jobs)
{
    int64_t id = id_by_jobs(k, jobs);
    struct job_view v;

    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        struct err e = ERR_INIT;
        if (view_job(job, &v, &e) == 0 && v.job_id != id && v.uid == k->uid)
            note_strange(f, &v, k->ulid, "duplicate_name");
        else
            see_job(f, job);
    }
}

static void queue_found(struct follow *f, struct tracked *k, json_t *rows)
{
    int64_t id = id_by_rows(k, rows);
    json_t *ours = json_array();
    struct row_view r;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        struct err e = ERR_INIT;
        if (view_row(row, &r, &e) == 0 && r.job_id == id)
            (void)json_array_append(ours, row);
    }
    if (json_array_size(ours) > 0)
        queue_rows(f, k, ours);
    json_decref(ours);
}

/* For a submit whose answer was lost. Several under one name: the oldest is
 * the one that we sent, and note_strange tells of the others. */
static void answer_find(struct follow *f, struct tracked *k,
                        const struct told *ctld, const struct told *dbd)
{
    if (ctld->ok && json_array_size(ctld->list) > 0)
        see_found(f, k, ctld->list);
    else if (dbd->ok && json_array_size(dbd->list) > 0)
        queue_found(f, k, dbd->list);
    else if (ctld->ok && k->phase == PHASE_INTENT && k->outcome_told)
        queue_lost(f, k, "submit_not_found");
}

static void answer_accounting(struct follow *f, struct tracked *k,
                              const struct told *ctld, const struct told *dbd)
{
    (void)ctld;
    follow_ask_closed(f, k);
    if (dbd->ok && json_array_size(dbd->list) > 0)
        queue_rows(f, k, dbd->list);
}

static const struct {
    char mark;
    void (*run)(struct follow *f, struct tracked *k, const struct told *ctld,
                const struct told *dbd);
} answers[] = {{'j', answer_job}, {'f', answer_find}, {'a', answer_accounting}};

static int on_answer(struct follow *f, const json_t *m, struct err *e)
{
    struct told ctld, dbd;
    struct tracked *k;
    const char *id = NULL;

    if (json_get_str(m, "id", true, ULID_LEN + 2, &id, "", e) ||
        told_of(m, "slurmctld", "jobs", &ctld, e) ||
        told_of(m, "slurmdbd", "rows", &dbd, e))
        return -1;
    if (strlen(id) != ULID_LEN + 2 || !(k = track_find(&f->track, id + 2)))
        return 0; /* done with meanwhile */
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (answers[i].mark == id[0])
            answers[i].run(f, k, &ctld, &dbd);
    }
    return 0;
}

static const struct {
    const char *event;
    int (*run)(struct follow *f, const json_t *m, struct err *e);
} events[] = {
    {"job", on_job},       {"poll", on_poll},     {"gone", on_gone},
    {"synced", on_synced}, {"answer", on_answer},
};

int follow_news(struct follow *f, const json_t *message, struct err *e)
{
    const char *event = NULL;

    if (json_get_str(message, "event", true, 16, &event, "", e))
        return -1;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (!strcmp(events[i].event, event))
            return events[i].run(f, message, e);
    }
    return 0; /* nodes and the like: not for us */
}

/* --- the spawner's answers --- */

static void finish_answer(struct tracked *k, struct task_answer *a)
{
    if (!a->result) {
        log_err("finish", NULL, &a->error);
        return;
    }
    json_decref(k->finish);
    k->finish = a->result; /* moves */
    k->finish_used = false;
    a->result = NULL;
}

static void queue_outcome(struct follow *f, struct tracked *k,
                          enum progress_kind kind, json_t *result,
                          const struct err *error)
{
    struct progress *p = progress_new(kind, k->ulid);

    if (p && result)
        p->what = json_incref(result);
    if (p && error)
        p->error = *error;
    follow_queue(f, p);
}

/* The kept result frame of the submit. At stage "sending" only Slurm's own word
 * is a refusal (spawn.c says the same for a live answer). */
static void kept_answer(struct follow *f, struct tracked *k,
                        const json_t *answer)
{
    const char *stage = json_string_value(json_object_get(answer, "stage"));
    json_t *result = json_object_get(answer, "result");
    struct err error = ERR_INIT;
    bool sending = stage && !strcmp(stage, "sending");

    k->outcome_told = true;
    if (json_is_true(json_object_get(answer, "ok")) && json_is_object(result))
        queue_outcome(f, k, PROGRESS_ACCEPTED, result, NULL);
    else if (wire_err_get(answer, "error", &error) == 0 &&
             error.class != ERR_UNKNOWN &&
             (!sending || error.class == ERR_SLURM))
        queue_outcome(f, k, PROGRESS_REFUSED, NULL, &error);
}

/* A frame that was still in a socket when the connection went could arrive
 * after this answer, so "not known" counts only some time after the intent. */
static void never_arrived(struct follow *f, struct tracked *k)
{
    struct err error = ERR_INIT;
    int64_t age_ms = (clock_now() - k->created_at) * 1000;

    if (age_ms < f->times.forget_ms)
        return;
    err_set(&error, ERR_UNAVAILABLE, "spawn_not_sent",
            "the request never reached the part that speaks to Slurm");
    queue_outcome(f, k, PROGRESS_REFUSED, NULL, &error);
}

static void outcome_answer(struct follow *f, struct tracked *k,
                           const struct task_answer *a)
{
    const json_t *answer;

    if (!a->result || k->phase != PHASE_INTENT)
        return;
    if (!json_is_true(json_object_get(a->result, "known"))) {
        never_arrived(f, k);
        return;
    }
    if (json_is_true(json_object_get(a->result, "running")))
        return;
    answer = json_object_get(a->result, "answer");
    if (json_is_object(answer))
        kept_answer(f, k, answer);
    k->outcome_told = true;
}

void follow_task_answer(struct follow *f, struct task_answer *a)
{
    struct tracked *k = track_find(&f->track, a->ulid);

    if (!k)
        return;
    k->tasked = false;
    if (a->kind == TASK_FINISH)
        finish_answer(k, a);
    else
        outcome_answer(f, k, a);
    f->next_tick = 0;
}
