/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Everything else that one does with jobs. Who may: the owner, and the roles of
 * access.h. A stranger's job answers job_not_found, exactly like an absent one.
 * Reads of somebody else's job are audited (kind read) before they are
 * answered. What jobs_act refuses, and a role_missing of jobs_usage_text and
 * jobs_audit_text, has its audit row (kind decided, with the code); for the
 * other functions' refusals the caller writes it (access_note_refusal).
 *
 * `_text` functions are quick (one or two SELECTs) and may run in an MHD
 * thread; but where they read what is somebody else's they wait for an audit
 * commit, and jobs_artifacts_text asks the spawner: pool threads. The others
 * block on the spawner up to config limits.request_deadline_ms: pool threads.
 * reader: the calling thread's own connection. Errors everywhere: ERR_NOT_FOUND
 * job_not_found (also for what is no job id), and base/db's.
 */
#ifndef BROKER_JOBS_ACTIONS_H
#define BROKER_JOBS_ACTIONS_H

#include "base/buf.h"
#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/doc.h"
#include "broker/jobs/identity.h"
#include "broker/jobs/store.h"

#include <stdbool.h>
#include <stdint.h>

struct service;

/* One request's context. All borrowed. */
struct ask {
    struct service *service;
    struct db *reader;
    const struct identity *who;
    const char *request; /* ULID of the HTTP request */
    bool noted; /* an earlier turn of this request wrote its `read` row */
};

/* Job ids come as they stand in the URL ("job_..."). */

/* Would reading this job be somebody else's (then its GET waits for an audit
 * commit: run it in the pool)? */
bool jobs_read_is_foreign(const struct ask *a, const char *job_id);
/* The job document. v may be NULL. */
int jobs_get_text(const struct ask *a, const char *job_id, struct buf *out,
                  struct doc_version *v, struct err *e);
/* {"jobs": [...], "next": cursor|null}; filter.principal is set here. Somebody
 * who may read all and asks for others' is audited (blocks on a commit).
 * cursor: the `next` of the page before, or NULL. ERR_INVALID cursor. */
int jobs_list_text(const struct ask *a, struct job_filter *f,
                   const char *cursor, struct buf *out, struct err *e);
/* {"attempts": [...]} */
int jobs_attempts_text(const struct ask *a, const char *job_id, struct buf *out,
                       struct err *e);
/* {"usage": [{month, owner, workflow, gpu_type, gpu_seconds, runs}],
 *  "gpu_seconds": total of all pages, "next": cursor|null}. ERR_DENIED
 * role_missing; ERR_INVALID query_invalid cursor. */
enum { USAGE_LIST_MAX = 5000 };
struct usage_query {
    bool all;                  /* everybody's: operator, auditor */
    const char *since, *until; /* months "YYYY-MM", inclusive; or NULL */
    const char *cursor;        /* the `next` of the page before, or NULL */
    int limit;                 /* 1..USAGE_LIST_MAX */
};
int jobs_usage_text(const struct ask *a, const struct usage_query *q,
                    struct buf *out, struct err *e);
/* {"rows": [...], "next": cursor|null}: own rows; auditor and operator: all,
 * or one job's. ERR_INVALID job_id cursor, ERR_DENIED role_missing. */
struct audit_query {
    const char *job_id; /* NULL: any */
    bool all;           /* auditor, operator only */
    int64_t since_ms, until_ms;
    const char *cursor;
    int limit; /* 1..AUDIT_LIST_MAX */
};
int jobs_audit_text(const struct ask *a, const struct audit_query *q,
                    struct buf *out, struct err *e);

/* cancel, hold, release: out gets the job document as it is after; for an admin
 * who may not read the job {"id","state","detail"}, and v stays zero. A cancel
 * of an ended job changes nothing and is 0. Errors: ERR_CONFLICT job_ended
 * (hold, release), job_submitting (no id is known yet); ERR_UNAVAILABLE
 * answer_lost.
 */
enum job_act { ACT_CANCEL, ACT_HOLD, ACT_RELEASE };
int jobs_act(const struct ask *a, enum job_act act, const char *job_id,
             struct buf *out, struct doc_version *v, struct err *e);

/* The script, rendered from the job's pinned generation. ERR_UNAVAILABLE
 * script_unavailable (generation gone or revoked), ERR_INTERNAL
 * script_mismatch (digest differs from what was submitted). */
int jobs_script(const struct ask *a, const char *job_id, struct buf *out,
                struct err *e);

/* Log bytes [offset, offset + limit), cut back so that no UTF-8 character is
 * split. */
struct log_query {
    const char *stream;    /* "stdout" | "stderr" */
    int64_t attempt;       /* from 1, as /attempts; 0: the last */
    int64_t offset, limit; /* limit 1..PROTO_LOG_MAX */
};
struct log_answer {
    int64_t offset, next_offset, size, attempt;
    bool complete; /* the job is final and this reaches the end */
};
int jobs_log(const struct ask *a, const char *job_id, const struct log_query *q,
             struct buf *bytes, struct log_answer *out, struct err *e);
/* {"stream","attempt","offset","next_offset","size","complete","text"}. */
int jobs_log_json(const struct log_query *q, const struct log_answer *n,
                  const struct buf *bytes, struct buf *out, struct err *e);

/* {"artifacts": [{path, bytes, modified_at, links{self}}]} */
int jobs_artifacts_text(const struct ask *a, const char *job_id,
                        struct buf *out, struct err *e); /* blocks: pool */
/* A piece of one artifact, at most PROTO_LOG_MAX bytes: callers loop, and set
 * a->noted after the first. No bytes: offset is at or after the end. size is
 * the file's size at this read. ERR_INVALID artifact_path. */
struct artifact_answer {
    int64_t size, offset, bytes;
};
int jobs_artifact(const struct ask *a, const char *job_id, const char *path,
                  int64_t offset, int64_t limit, struct buf *bytes,
                  struct artifact_answer *out, struct err *e);

#endif
