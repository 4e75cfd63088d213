/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What becomes of a job's row when something was learned about it: one step of
 * its life in one transaction. The follower decides when; this decides what.
 * Every step is idempotent: the same news twice changes nothing.
 * Thread rule: writer units.
 */
#ifndef BROKER_JOBS_PROGRESS_H
#define BROKER_JOBS_PROGRESS_H

#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/store.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum progress_kind {
    PROGRESS_VIEW,     /* what: JOB of watch */
    PROGRESS_ROWS,     /* what: array of ROW, the newest closed: book them */
    PROGRESS_JOB,      /* what: JOB that ended: book slurmctld's figures */
    PROGRESS_FINISH,   /* what: result of `finish`, contents put in */
    PROGRESS_LOST,     /* code: a reason; the state is UNKNOWN */
    PROGRESS_SIDECAR,  /* what: result of a later `finish` */
    PROGRESS_ACCEPTED, /* what: the kept result of a submit */
    PROGRESS_REFUSED   /* error: a submit that started nothing */
};

struct progress {
    enum progress_kind kind;
    char ulid[ULID_LEN + 1];
    json_t *what;     /* owned; may be NULL */
    const char *code; /* static */
    struct err error;
    char digest[65]; /* the script's, where the row has none yet; "" */
    bool give_up;    /* FINISH: missing receipts won't come any more */
    int64_t now;     /* Unix seconds */
    /* out */
    struct job_row job; /* as it is after; owned */
    bool failed;        /* set by the caller: progress_apply said -1, or the
                           commit did */
    bool unreadable;    /* set by the caller: failed by what it says */
    bool changed;       /* the row was written */
    bool gone;          /* the row was deleted, or there is none */
    bool waiting;       /* VIEW: the script's digest isn't known yet;
                           FINISH: a receipt is missing, ask again */
    struct progress *next;
};
struct progress *progress_new(enum progress_kind kind, const char *ulid);
void progress_free(struct progress *p);

/* 0, or -1 (this step's savepoint is to be rolled back). */
int progress_apply(struct db *d, struct progress *p, struct err *e);

#endif
