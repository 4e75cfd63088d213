/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/runs.h"

#include "audit/ledger.h"
#include "base/log.h"

#include <string.h>

/* The next row of this job after `from`; json_array_size at the end. */
static size_t next_row(const json_t *rows, size_t from, const struct job_row *j,
                       struct row_view *out)
{
    for (size_t i = from; i < json_array_size(rows); i++) {
        struct err bad = ERR_INIT;
        if (view_row(json_array_get(rows, i), out, &bad)) {
            log_err("accounting_row", j->request, &bad);
            continue;
        }
        if (view_row_is_of(out, j))
            return i;
    }
    return json_array_size(rows);
}

bool runs_closed(const json_t *rows, const struct job_row *j,
                 struct row_view *last)
{
    struct row_view r;
    bool any = false;

    for (size_t i = next_row(rows, 0, j, &r); i < json_array_size(rows);
         i = next_row(rows, i + 1, j, &r)) {
        if (!any || r.submit >= last->submit)
            *last = r;
        any = true;
    }
    return any && last->end > 0 && !states_row_requeued(last->state, NULL);
}

static int book(struct db *d, const struct job_row *j,
                const struct ledger_run *run, struct err *e)
{
    struct ledger_recorded done;

    if (ledger_run_record(d, run, &done, e))
        return -1;
    if (run->gpus->mismatch)
        log_event(LOG_WARN_, "gpu_count_mismatch", j->request, "job", j->ulid,
                  NULL);
    return 0;
}

static int book_row(struct db *d, const struct job_row *j,
                    const struct row_view *r, int64_t start, int64_t now,
                    struct err *e)
{
    const struct ledger_run run = {.job = j->ulid,
                                   .principal = j->principal,
                                   .workflow = j->workflow,
                                   .cluster = j->cluster,
                                   .job_id = r->job_id,
                                   .submit_time = r->submit,
                                   .db_index = r->db_index,
                                   .source = LEDGER_SLURMDBD,
                                   .state = r->state,
                                   .started_at = start,
                                   .ended_at = r->end,
                                   .gpus = &r->alloc,
                                   .nodes = r->nodes,
                                   .raw = r->raw,
                                   .observed_at = now};

    return book(d, j, &run, e);
}

/* A resized job's next row keeps the original start: what came before the
 * resize is in the row before. */
int runs_book_rows(struct db *d, const struct job_row *j, const json_t *rows,
                   int64_t now, struct err *e)
{
    int64_t resized_at = 0;
    struct row_view r;

    for (size_t i = next_row(rows, 0, j, &r); i < json_array_size(rows);
         i = next_row(rows, i + 1, j, &r)) {
        int64_t start = resized_at > r.start ? resized_at : r.start;
        resized_at = r.end > 0 && !strcmp(r.state, "RESIZING") ? r.end : 0;
        if (r.end > 0 && book_row(d, j, &r, start, now, e))
            return -1;
    }
    return 0;
}

int runs_book_job(struct db *d, const struct job_row *j, const json_t *job,
                  int64_t now, struct err *e)
{
    struct job_view v;
    struct ledger_run run;

    if (view_job(job, &v, e))
        return -1;
    run = (struct ledger_run){.job = j->ulid,
                              .principal = j->principal,
                              .workflow = j->workflow,
                              .cluster = j->cluster,
                              .job_id = v.job_id,
                              .submit_time = v.submit_time,
                              .source = LEDGER_SLURMCTLD,
                              .state = v.slurm.state,
                              .started_at = v.start_time,
                              .ended_at = v.end_time,
                              .gpus = &v.alloc,
                              .nodes = v.nodes,
                              .raw = job,
                              .observed_at = now};
    return book(d, j, &run, e);
}
