/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The tables job, intent, idempotency and secret_key, and all their SQL.
 * A job row is what the API's job document is made from; every change bumps
 * `version` (the ETag, and what ?wait= waits for).
 * Thread rule: writes on the writer thread, inside its transaction; reads on
 * any connection.
 */
#ifndef BROKER_JOBS_STORE_H
#define BROKER_JOBS_STORE_H

#include "auth/people.h"
#include "base/db.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/generation.h"
#include "broker/jobs/states.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

extern const char store_schema[];
extern const char *const store_append_only[]; /* NULL-terminated names */

/* Where a job stands on our side; survives a restart. */
enum job_phase {
    PHASE_INTENT,    /* intent durable, Slurm's answer not known */
    PHASE_CLAIMED,   /* the worker reported an id; watch hasn't seen it */
    PHASE_CONFIRMED, /* watch saw uid, name and script digest agree */
    PHASE_ENDED,     /* Slurm ended it; accounting is asked for */
    PHASE_VERIFYING, /* booked; receipts are looked for */
    PHASE_FINAL
};

/* One row. Strings are owned (store_job_clear); NULL = null. JSON columns are
 * text, put into the document as they are. Times: Unix seconds, 0 = null. */
struct job_row {
    char ulid[ULID_LEN + 1];
    int64_t version, principal, uid;
    enum job_phase phase;
    enum job_state state;
    char *person, *account, *cluster, *workflow, *generation, *request;
    char *params, *labels; /* JSON objects */
    char *detail;
    char *reason, *reason_en, *reason_zh; /* code; own sentences or NULL */
    char *error_class;
    char *slurm_name;
    int64_t slurm_job_id; /* 0: none */
    int64_t slurm_submit; /* Slurm's own submit time */
    char *sluid, *slurm_state, *slurm_flags /* JSON array */, *slurm_reason;
    char *script_sha256;
    int64_t created_at, submitted_at, started_at, ended_at, observed_at;
    bool has_exit;
    int64_t exit_code, exit_signal;
    char *requested, *effective, *limits; /* JSON objects */
    int64_t attempts;
    bool has_gpu_seconds;
    int64_t gpu_seconds;
    char *source;   /* slurmdbd | slurmctld */
    char *receipts; /* JSON array */
    bool has_sidecar;
    int64_t ended_seen_at; /* when we saw the end: 30 s, 120 s */
    bool sidecar_left;     /* finish must still remove it */
};
void store_job_clear(struct job_row *j);

/* Not found: ERR_NOT_FOUND job_not_found. out is cleared on failure. */
int store_job_get(struct db *d, const char *ulid, struct job_row *out,
                  struct err *e);
/* version of one job, for waiters. */
int store_job_version(struct db *d, const char *ulid, int64_t *version,
                      struct err *e);
int store_job_insert(struct db *d, const struct job_row *j, struct err *e);
/* Every mutable column from j where ulid matches; version becomes the stored
 * one + 1 and is put into j. */
int store_job_update(struct db *d, struct job_row *j, struct err *e);
/* A definite refusal: the job was never one. */
int store_job_delete(struct db *d, const char *ulid, struct err *e);

/* Newest first, keyset: created before (created_at, ulid). */
struct job_filter {
    int64_t principal; /* 0: everybody's */
    const char *state; /* one of the six words, or NULL */
    const char *workflow, *owner /* person */;
    const char *label_key, *label_value;
    int64_t since, until;      /* created_at; 0: any */
    char before[ULID_LEN + 1]; /* "" : from the newest */
    int limit;                 /* 1..STORE_LIST_MAX */
};
enum { STORE_LIST_MAX = 200, STORE_LABEL_KEY_MAX = 63 };
/* ^[A-Za-z0-9._/-]{1,63}$; a filter by another key filters nothing. */
bool store_label_key_valid(const char *key);
typedef int store_each(const struct job_row *j, void *arg, struct err *e);
/* Calls fn for each; a non-zero return ends the walk with it. */
int store_job_list(struct db *d, const struct job_filter *f, store_each *fn,
                   void *arg, struct err *e);
/* Everything that is not final, or final on slurmctld's figures since
 * `corrected_since`, or with a sidecar left. By ulid. */
int store_job_open(struct db *d, int64_t corrected_since, store_each *fn,
                   void *arg, struct err *e);

/* The durable intent (append-only). */
struct intent_row {
    const char *ulid, *request, *workflow, *generation, *args_sha256,
        *slurm_name;
    int64_t principal, uid, created_at;
};
int store_intent_insert(struct db *d, const struct intent_row *i,
                        struct err *e);

/* Idempotency: key per principal and route. */
enum { STORE_KEY_MAX = 255 };
struct idem_claim {
    int64_t principal;
    const char *route, *key;
    const char *fingerprint; /* hex */
    const char *ulid;
    int64_t now;
};
struct idem_answer { /* owned strings */
    int status;      /* 0: the first request is still in flight */
    char ulid[ULID_LEN + 1];
    char *body;  /* the first answer's text; NULL after a restart */
    char *error; /* a wire_err object, when it was an error */
};
void store_idem_clear(struct idem_answer *a);
/* 0: claimed by this call; 1: somebody was first, *first is filled. Errors:
 * ERR_INVALID idempotency_key_reused (other fingerprint). In flight is
 * 1 with status 0. */
int store_idem_claim(struct db *d, const struct idem_claim *c,
                     struct idem_answer *first, struct err *e);
/* Only look: 1 found, 0 not, -1 error or reused. */
int store_idem_find(struct db *d, const struct idem_claim *c,
                    struct idem_answer *first, struct err *e);
/* The first answer is kept; only a definite refusal (error) replaces a 202. */
int store_idem_answer(struct db *d, const char *ulid, int status,
                      const char *body, const char *error, struct err *e);
int store_idem_drop(struct db *d, const char *ulid, struct err *e);
/* At start: claims without an answer become 202 with no body (whoever comes
 * again gets the job as it is). */
int store_idem_sweep(struct db *d, struct err *e);
int store_idem_expire(struct db *d, int64_t before, struct err *e);

/* Random bytes made once: the key of the secrets' fingerprints. out has
 * STORE_SECRET_KEY_LEN. */
enum { STORE_SECRET_KEY_LEN = 32 }; /* the schema names the number */
int store_secret_key(struct db *d, uint8_t *out, struct err *e);

#endif
