/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/view.h"

#include "base/json.h"

#include <string.h>

enum { WORD_MAX = 255, TEXT_MAX = 4096 };

/* TRES as an object by name, or as slurmctld's own text. */
static int gpus_of(const json_t *v, struct ledger_gpus *out, struct err *e)
{
    if (json_is_string(v))
        return ledger_gpus_text(json_string_value(v), out, e);
    return ledger_gpus_json(v, out, e);
}

static int job_ids(const json_t *o, struct job_view *v, struct err *e)
{
    return json_get_int(o, "job_id", true, 1, UINT32_MAX, &v->job_id, "", e) ||
                   json_get_int(o, "uid", true, 0, UINT32_MAX, &v->uid, "",
                                e) ||
                   json_get_str(o, "name", true, TEXT_MAX, &v->name, "", e) ||
                   json_get_str(o, "script_sha256", false, 64,
                                &v->script_sha256, "", e)
               ? -1
               : 0;
}

static int job_times(const json_t *o, struct job_view *v, struct err *e)
{
    const struct {
        const char *key;
        int64_t *out;
    } list[] = {{"submit_time", &v->submit_time},
                {"start_time", &v->start_time},
                {"end_time", &v->end_time},
                {"restarts", &v->restarts},
                {"nodes", &v->nodes},
                {"time_limit_seconds", &v->time_limit_seconds}};

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (json_get_int(o, list[i].key, false, 0, INT64_MAX / 4, list[i].out,
                         "", e))
            return -1;
    }
    return 0;
}

static int job_words(const json_t *o, struct job_view *v, struct err *e)
{
    const struct {
        const char *key;
        const char **out;
    } list[] = {{"state", &v->slurm.state},
                {"reason", &v->slurm.reason},
                {"partition", &v->partition},
                {"account", &v->account},
                {"qos", &v->qos}};
    json_t *flags = NULL;

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (json_get_str(o, list[i].key, false, TEXT_MAX, list[i].out, "", e))
            return -1;
    }
    if (json_get_arr(o, "flags", false, 64, &flags, "", e))
        return -1;
    v->slurm.flags = flags;
    return json_get_bool(o, "priority_held", false, &v->slurm.priority_held, "",
                         e);
}

static int exit_of(const json_t *o, bool *has, int64_t *code, int64_t *signal,
                   struct err *e)
{
    *has = json_is_integer(json_object_get(o, "exit_code"));
    return json_get_int(o, "exit_code", false, 0, INT32_MAX, code, "", e) ||
                   json_get_int(o, "exit_signal", false, 0, INT32_MAX, signal,
                                "", e)
               ? -1
               : 0;
}

int view_job(const json_t *job, struct job_view *out, struct err *e)
{
    *out = (struct job_view){.raw = job};
    if (!json_is_object(job))
        return err_set(e, ERR_INVALID, "json_type", "a job is an object");
    if (job_ids(job, out, e) || job_times(job, out, e) ||
        job_words(job, out, e) ||
        exit_of(job, &out->has_exit, &out->slurm.exit_code,
                &out->slurm.exit_signal, e) ||
        gpus_of(json_object_get(job, "tres_alloc"), &out->alloc, e))
        return -1;
    return gpus_of(json_object_get(job, "tres_req"), &out->requested, e);
}

static int row_numbers(const json_t *o, struct row_view *v, struct err *e)
{
    const struct {
        const char *key;
        bool required;
        int64_t *out;
    } list[] = {{"job_id", true, &v->job_id},     {"uid", true, &v->uid},
                {"submit", true, &v->submit},     {"start", false, &v->start},
                {"end", false, &v->end},          {"nodes", false, &v->nodes},
                {"restarts", false, &v->restarts}};

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (json_get_int(o, list[i].key, list[i].required, 0, INT64_MAX / 4,
                         list[i].out, "", e))
            return -1;
    }
    return 0;
}

int view_row(const json_t *row, struct row_view *out, struct err *e)
{
    *out = (struct row_view){.raw = row};
    if (!json_is_object(row))
        return err_set(e, ERR_INVALID, "json_type", "a row is an object");
    if (row_numbers(row, out, e) ||
        json_get_str(row, "db_index", false, WORD_MAX, &out->db_index, "", e) ||
        json_get_str(row, "name", true, TEXT_MAX, &out->name, "", e) ||
        json_get_str(row, "state", true, WORD_MAX, &out->state, "", e) ||
        exit_of(row, &out->has_exit, &out->exit_code, &out->exit_signal, e))
        return -1;
    return gpus_of(json_object_get(row, "tres_alloc"), &out->alloc, e);
}

/* Clocks of two hosts: a job that slurmctld dates a little before our intent
 * is still ours; ids are used again much later than that. */
enum { CLOCK_SLACK_SECONDS = 60 };

bool view_row_is_of(const struct row_view *r, const struct job_row *j)
{
    bool same = (j->slurm_job_id > 0 && r->job_id == j->slurm_job_id) ||
                !strcmp(r->name, j->slurm_name);

    return same && r->uid == j->uid &&
           r->submit >= j->created_at - CLOCK_SLACK_SECONDS;
}
