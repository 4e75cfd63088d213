/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The ledger: holds that end exactly once, runs with their GPU-seconds, and the
 * evidence for each figure. Quantities are checked integers. Prices come later:
 * until then a hold's amount is 0 and it counts for quotas only.
 * A run is one attempt as Slurm knows it: own row id; (cluster, job id, submit
 * time), DBIndex and SLUID are aliases, each unique. A figure is never changed:
 * a later, different one is a new revision, and usage_month follows by the
 * difference.
 * Thread rule: writes in the caller's transaction; sums on any connection.
 */
#ifndef AUDIT_LEDGER_H
#define AUDIT_LEDGER_H

#include "base/db.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

extern const char ledger_schema[];
extern const char *const ledger_append_only[]; /* NULL-terminated names */

/* --- holds --- */

/* Slurm ends a job up to KillWait (30 s by default) after its limit, plus
 * OverTimeLimit (0) plus its own slack: a limit of 60 s ran 67 s. */
enum { LEDGER_HOLD_SLACK_SECONDS = 60 };

struct ledger_hold {
    const char *idem; /* the intent's ULID */
    int64_t principal;
    const char *gpu_type; /* NULL or "": untyped or none */
    int64_t gpus;
    int64_t seconds;     /* time limit + slack; 0: no limit is known */
    int64_t amount_nano; /* 0 until prices exist */
};

/* Take the hold if the principal's open holds of all types plus this one stay
 * within gpus_max (0: no cap): one conditional INSERT ... SELECT.
 * Errors: ERR_LIMITED quota_gpus, ERR_CONFLICT hold_exists. */
int ledger_hold_take(struct db *d, const struct ledger_hold *h,
                     int64_t gpus_max, int64_t now, struct err *e);
/* Slurm's id became known. ref: "<cluster>/<job id>". */
int ledger_hold_attach(struct db *d, const char *idem, const char *ref,
                       int64_t now, struct err *e);
enum ledger_end { LEDGER_SETTLE, LEDGER_RELEASE, LEDGER_EXPIRE };
/* Ends it. A second end, of whichever kind: ERR_CONFLICT hold_ended, and the
 * caller's transaction decides. ERR_NOT_FOUND hold_missing. ref may be NULL. */
int ledger_hold_end(struct db *d, const char *idem, enum ledger_end kind,
                    const char *ref, int64_t now, struct err *e);
int ledger_hold_is_open(struct db *d, const char *idem, bool *open,
                        struct err *e);
/* Sum of the GPUs of the principal's open holds. */
int ledger_open_gpus(struct db *d, int64_t principal, int64_t *gpus,
                     struct err *e);

/* --- GPUs of a run --- */

enum { LEDGER_TYPES_MAX = 16, LEDGER_TYPE_LEN = 31 };
struct ledger_gpus {
    int n;
    struct {
        char type[LEDGER_TYPE_LEN + 1]; /* "" : untyped */
        int64_t count;
    } v[LEDGER_TYPES_MAX];
    bool mismatch; /* more typed than untyped GPUs were told */
};
/* Typed TRES "gres/gpu:<type>" are counted; "gres/gpu" is their checksum, and
 * what it has more than they is counted as untyped. gpumem, gpuutil, shard are
 * other things. Errors: ERR_INVALID ledger_tres (malformed, negative, too
 * many types). From {"gres/gpu": 2, ...} and from "cpu=1,gres/gpu:v100=2".
 * NULL and "" are no GPUs. */
int ledger_gpus_json(const json_t *tres, struct ledger_gpus *out,
                     struct err *e);
int ledger_gpus_text(const char *tres, struct ledger_gpus *out, struct err *e);
int ledger_gpus_total(const struct ledger_gpus *g, int64_t *total,
                      struct err *e);

/* GPU-seconds of count GPUs within [from, to) of a run that lasted [start,
 * end): count x overlap; suspended time counts (the card stays allocated).
 * 0 when it never started (start 0, or end < start). ERR_INTERNAL
 * ledger_overflow. */
int ledger_gpu_seconds(int64_t count, int64_t start, int64_t end, int64_t from,
                       int64_t to, int64_t *out, struct err *e);
/* Bounds of the UTC month that t lies in, and its name "YYYY-MM" (8 bytes). */
void ledger_month(int64_t t, int64_t *start, int64_t *stop, char *name);

/* --- runs --- */

enum ledger_source { LEDGER_SLURMCTLD, LEDGER_SLURMDBD };

struct ledger_run {  /* all borrowed */
    const char *job; /* ULID */
    int64_t principal;
    const char *workflow;
    const char *cluster;
    int64_t job_id, submit_time;
    const char *db_index, *sluid; /* NULL: not known */
    enum ledger_source source;
    const char *state;            /* Slurm's word */
    int64_t started_at, ended_at; /* 0: not started; ended is required */
    const struct ledger_gpus *gpus;
    int64_t nodes;
    const json_t *raw; /* what the source said: object, integers only */
    int64_t observed_at;
};
struct ledger_recorded {
    int64_t run_id, rev, gpu_seconds;
    bool changed; /* the figures are new or differ from what was booked */
};
/* Find the run by its aliases or make it, add new aliases, store the raw record
 * (once by SHA-256), and a new revision when the figures differ from the
 * current ones. A slurmctld figure never follows a slurmdbd one. Errors:
 * ERR_CONFLICT ledger_alias (an alias belongs to another job or run),
 * ERR_INVALID ledger_time, ERR_INTERNAL ledger_overflow. */
int ledger_run_record(struct db *d, const struct ledger_run *r,
                      struct ledger_recorded *out, struct err *e);

/* Sum of the current figures of one job's runs. runs 0: nothing is booked.
 * from_slurmdbd: every one of them names slurmdbd as its source. */
struct ledger_job_sum {
    int64_t runs, gpu_seconds;
    bool from_slurmdbd;
};
int ledger_job_sum(struct db *d, const char *job, struct ledger_job_sum *out,
                   struct err *e);
/* Owned array of {attempt, slurm{job_id, sluid}, state, submitted_at,
 * started_at, ended_at, nodes, gpus, gpu_types, gpu_seconds, source, revision};
 * attempts are numbered from 1 in order of Slurm's submit time. */
int ledger_attempts(struct db *d, const char *job, json_t **out, struct err *e);

/* Booked GPU-seconds by month, workflow and GPU type; principal 0: everybody's
 * (each row then names its principal). since/until: "YYYY-MM" or NULL, both
 * inclusive. Owned array [{month, principal, workflow, gpu_type, gpu_seconds,
 * runs}]; at most `limit` rows (months descending). */
int ledger_usage(struct db *d, int64_t principal, const char *since,
                 const char *until, int limit, json_t **out, struct err *e);
/* Booked in the month of `now` plus open holds (gpus x seconds). */
int ledger_month_used(struct db *d, int64_t principal, int64_t now,
                      int64_t *gpu_seconds, struct err *e);

#endif
