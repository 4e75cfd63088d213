/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * cancel, hold, release: of this person's own job, found by the spawner's
 * alias or by its exact name, and never by a bare id (ids are used again).
 */
#include "broker/slurm/verbs.h"

#include "base/json.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/lib.h"
#include "broker/slurm/words.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum found { FOUND_NOT = 0, FOUND_LIVE = 1, FOUND_ENDED = 2 };

struct target {
    enum found found;
    uint32_t id, state, priority;
};

/* A job that its owner has renamed is still known by its submit time. */
static bool is_it(const struct worker_job *want, const slurm_job_info_t *j)
{
    if (j->user_id != geteuid() ||
        (want->job_id != 0 && j->job_id != want->job_id))
        return false;
    if (j->name != NULL && strcmp(j->name, want->name) == 0)
        return true;
    return want->job_id != 0 && want->submit_time != 0 &&
           j->submit_time == (time_t)want->submit_time;
}

/* Of several (a lost answer may have left two) the lowest live one. */
static void pick(const struct worker_job *want, const job_info_msg_t *m,
                 struct target *t)
{
    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        enum found f = words_ended(j->job_state) ? FOUND_ENDED : FOUND_LIVE;

        if (!is_it(want, j) || (t->found == FOUND_LIVE && f == FOUND_ENDED) ||
            (t->found == f && t->id < j->job_id))
            continue;
        *t = (struct target){f, j->job_id, j->job_state, j->priority};
    }
}

static int find(const struct worker_job *want, struct target *t, struct err *e)
{
    job_info_msg_t *m = NULL;
    char said[LIB_SAID_MAX];
    int rc;

    lib_listen();
    errno = 0;
    rc = want->job_id != 0
             ? sc_load_job(&m, want->job_id)
             : slurm_load_job_user(&m, geteuid(), SHOW_LOCAL | SHOW_ALL);
    lib_heard(said);
    *t = (struct target){FOUND_NOT, 0, 0, 0};
    if (rc != 0 && sc_code(rc) != ESLURM_INVALID_JOB_ID)
        return lib_error(e, sc_code(rc), false, said);
    if (rc == 0 && m != NULL)
        pick(want, m, t);
    if (m != NULL)
        slurm_free_job_info_msg(m);
    return 0;
}

static int put_already(json_t *result, bool already, struct err *e)
{
    return json_put_bool(result, "already", already) == 0 ? 0 : err_nomem(e);
}

static int not_found(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "slurm_job_not_found",
                   "Slurm knows no such job of this person");
}

static int check_args(const struct worker_request *r, struct err *e)
{
    static const char *const keys[] = {NULL};

    if (json_only(r->args, keys, "/args", e) != 0)
        return -1;
    return lib_init(e);
}

int verb_cancel(void *context, struct worker_request *r, json_t *result,
                struct err *e)
{
    char id[16], said[LIB_SAID_MAX];
    struct target t;
    int rc, code;

    (void)context;
    if (check_args(r, e) != 0 || find(&r->job, &t, e) != 0)
        return -1;
    /* What was once confirmed and is forgotten has ended. */
    if (t.found == FOUND_ENDED || (t.found == FOUND_NOT && r->job.job_id != 0))
        return put_already(result, true, e);
    if (t.found == FOUND_NOT)
        return not_found(e);
    if (worker_stage(r, "sending", e) != 0)
        return -1;
    (void)snprintf(id, sizeof(id), "%u", (unsigned)t.id);
    lib_listen();
    errno = 0;
    rc = slurm_kill_job2(id, SIGKILL, 0, NULL);
    lib_heard(said);
    code = rc != 0 ? sc_code(rc) : 0;
    if (rc != 0 && code != ESLURM_ALREADY_DONE)
        return lib_error(e, code, true, said);
    return put_already(result, rc != 0, e);
}

/* priority 0 holds; INFINITE lets slurmctld reckon a new one. */
static int update(struct target *t, bool hold, struct err *e)
{
    job_array_resp_msg_t *resp = NULL;
    char id[16], said[LIB_SAID_MAX];
    job_desc_msg_t m;
    int rc, code;

    slurm_init_job_desc_msg(&m);
    (void)snprintf(id, sizeof(id), "%u", (unsigned)t->id);
    m.job_id_str = id;
    m.priority = hold ? 0 : INFINITE;
    m.alloc_sid = hold ? ALLOC_SID_USER_HOLD : 0;
    lib_listen();
    errno = 0;
    rc = slurm_update_job2(&m, &resp);
    lib_heard(said);
    code = rc != 0 ? sc_code(rc) : 0;
    if (rc == 0 && resp != NULL && resp->job_array_count > 0)
        code = (int)resp->error_code[0];
    if (resp != NULL)
        slurm_free_job_array_resp(resp);
    return rc == 0 && code == 0 ? 0 : lib_error(e, code, true, said);
}

static int set_held(struct worker_request *r, bool hold, json_t *result,
                    struct err *e)
{
    struct target t;

    if (check_args(r, e) != 0 || find(&r->job, &t, e) != 0)
        return -1;
    if (t.found == FOUND_NOT && r->job.job_id == 0)
        return not_found(e);
    if (t.found != FOUND_LIVE || (t.state & JOB_STATE_BASE) != JOB_PENDING)
        return err_set(e, ERR_CONFLICT, "job_not_pending",
                       "only a job that waits can be held or released");
    if ((t.priority == 0) == hold)
        return put_already(result, true, e);
    if (worker_stage(r, "sending", e) != 0 || update(&t, hold, e) != 0)
        return -1;
    return put_already(result, false, e);
}

int verb_hold(void *context, struct worker_request *r, json_t *result,
              struct err *e)
{
    (void)context;
    return set_held(r, true, result, e);
}

int verb_release(void *context, struct worker_request *r, json_t *result,
                 struct err *e)
{
    (void)context;
    return set_held(r, false, result, e);
}

const struct worker_verb *slurm_verbs(size_t *count)
{
    enum { JOB = WORKER_WANTS_ULID | WORKER_WANTS_JOB };
    static const struct worker_verb verbs[] = {
        {"plan", WORKER_WANTS_FD, verb_plan},
        {"submit", WORKER_WANTS_ULID, verb_submit},
        {"cancel", JOB, verb_cancel},
        {"hold", JOB, verb_hold},
        {"release", JOB, verb_release},
    };

    *count = sizeof(verbs) / sizeof(verbs[0]);
    return verbs;
}
