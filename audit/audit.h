/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The audit: who decided what, before it took effect, and what came of it.
 * A row's leaf is canonical JSON (sorted keys, integers, principal ids and no
 * names), stored as it is with its leaf hash; rows are leaves of the tree in
 * order of seq = 1, 2, 3, ... without a gap. Append-only.
 * Thread rule: appends run in the caller's write transaction (writer thread);
 * lists on any reader; struct audit_refusals is for any thread.
 */
#ifndef AUDIT_AUDIT_H
#define AUDIT_AUDIT_H

#include "base/db.h"
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

extern const char audit_schema[];             /* CREATE statements */
extern const char *const audit_append_only[]; /* NULL-terminated names */

enum audit_kind {
    AUDIT_DECIDED, /* before it takes effect */
    AUDIT_OUTCOME, /* after; same request id */
    AUDIT_READ,    /* somebody read what is not his, or exported */
    AUDIT_REFUSED, /* refused before an identity was known, a minute's sum */
    AUDIT_NOTICED  /* seen in Slurm, and not decided by us */
};

enum { AUDIT_LEAF_MAX = 16 * 1024, AUDIT_LIST_MAX = 500 };

/* All borrowed. A NULL or 0 is null in the leaf. */
struct audit_row {
    enum audit_kind kind;
    int64_t at_ms;       /* 0: now */
    const char *request; /* ULID of the request; joins decided and outcome */
    int64_t principal;   /* 0: Sluice itself */
    const char *token_id;
    const char *client;   /* address, or "uid:N" */
    const char *action;   /* "job.submit", "job.cancel", ... */
    const char *job;      /* ULID */
    const char *code;     /* outcome: "ok" or the error's stable code */
    const json_t *detail; /* object: ids, integers, digests; never a secret,
                             a script, a path or a name of a person */
};

/* Append in the caller's transaction; seq may be NULL. Errors: ERR_TOO_LARGE
 * audit_leaf, ERR_INTERNAL json_real, and base/db's. */
int audit_append(struct db *d, const struct audit_row *r, int64_t *seq,
                 struct err *e);

/* Filters: 0 or NULL is "any". Newest first; rows with seq < before only
 * (before 0: from the newest). limit is 1..AUDIT_LIST_MAX. */
struct audit_filter {
    const char *job;
    int64_t principal;
    int64_t since_ms, until_ms; /* since <= at < until */
    int64_t before;
    int limit;
};
/* rows: owned array of the leaves' objects, each with "seq", "at" (RFC 3339)
 * and "leaf_hash" (hex) added; next: the `before` of the next page, 0 at the
 * end. */
int audit_list(struct db *d, const struct audit_filter *f, json_t **rows,
               int64_t *next, struct err *e);

/* Refusals before identity: one row a source, code and minute with first, last
 * and count. Kept in memory until the minute is over, so that a flood of bad
 * requests costs no disk. The budget is AUDIT_REFUSALS_MAX pairs a minute;
 * what is over it is counted under the source "*". */
enum { AUDIT_REFUSALS_MAX = 256 };
struct audit_refusals;
struct audit_refusals *audit_refusals_new(void); /* NULL: ENOMEM */
void audit_refusals_free(struct audit_refusals *r);
void audit_refusals_add(struct audit_refusals *r, const char *source,
                        const char *code, int64_t at_ms);
/* Append what belongs to minutes that are over at now_ms (INT64_MAX: all).
 * Runs in a write transaction. The appended entries stay until
 * audit_refusals_done() says that the commit held, so a failed commit loses
 * nothing. One flusher at a time. */
int audit_refusals_flush(struct audit_refusals *r, struct db *d, int64_t now_ms,
                         struct err *e);
void audit_refusals_done(struct audit_refusals *r);
int audit_refusals_pending(struct audit_refusals *r, int64_t now_ms);

#endif
