/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The part of actions.h that speaks to the spawner: cancel, hold, release,
 * script, logs, artifacts.
 */
#include "audit/audit.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/jobs/access.h"
#include "broker/jobs/actions.h"
#include "broker/jobs/script.h"
#include "broker/jobs/service.h"
#include "templates/render.h"

#include <stdlib.h>
#include <string.h>

/* --- the call --- */

/* A worker is the person's: what he says may be anything. That is no fault of
 * the request. */
static int garbage(const struct ask *a, const struct err *why, struct err *e)
{
    log_err("worker_garbage", a->request, why);
    return err_set(e, ERR_UNAVAILABLE, "worker_garbage",
                   "the worker's answer makes no sense");
}

/* Nothing that these verbs do is lost when the answer is: whoever asks again
 * sees how it stands. So a lost answer is "unavailable", not "unknown". */
static int call(const struct ask *a, const struct job_row *j,
                enum proto_verb verb, json_t *args, struct buf *pipe,
                json_t **result, struct err *e)
{
    const struct spawn_request r = {.verb = verb,
                                    .ulid = j->ulid,
                                    .actor = a->who->person,
                                    .token = a->who->token,
                                    .args = args,
                                    .pipe = pipe};
    int64_t deadline =
        clock_mono_ms() + a->service->config->limits.request_deadline_ms;
    struct err why = ERR_INIT;
    int rc;

    if (!args)
        return err_nomem(e);
    rc = spawn_call(a->service->spawn, &r, deadline, result, &why);
    json_decref(args);
    if (rc == 0)
        return 0;
    if (why.class == ERR_TOO_LARGE) /* our frame is small: his bytes are not */
        return garbage(a, &why, e);
    if (why.class == ERR_UNKNOWN)
        why.class = ERR_UNAVAILABLE;
    if (e && !err_is_set(e))
        *e = why;
    return -1;
}

/* The size of what he reads from; the bytes that came are in it, also when it
 * grew meanwhile. */
static int read_size(const struct ask *a, const json_t *result, int64_t offset,
                     int64_t limit, const struct buf *bytes, int64_t *size,
                     struct err *e)
{
    int64_t n = (int64_t)bytes->len;
    struct err why = ERR_INIT;

    if (json_get_int(result, "size", true, 0, INT64_MAX / 2, size, "", &why))
        return garbage(a, &why, e);
    if (n > limit) {
        err_set(&why, ERR_INVALID, "wire_frame", "more than was asked for");
        return garbage(a, &why, e);
    }
    if (n > 0 && offset + n > *size)
        *size = offset + n;
    return 0;
}

/* --- cancel, hold, release --- */

static const struct {
    const char *action;
    enum proto_verb verb;
} acts[] = {
    [ACT_CANCEL] = {"job.cancel", VERB_CANCEL},
    [ACT_HOLD] = {"job.hold", VERB_HOLD},
    [ACT_RELEASE] = {"job.release", VERB_RELEASE},
};

struct act_note {
    const struct ask *a;
    const char *action, *ulid, *code; /* code NULL: decided */
};

static int run_note(struct db *d, void *arg, struct err *e)
{
    const struct act_note *n = arg;
    const struct identity *who = n->a->who;
    struct audit_row row = {.kind = n->code ? AUDIT_OUTCOME : AUDIT_DECIDED,
                            .request = n->a->request,
                            .principal = who->principal,
                            .token_id = who->token_id[0] ? who->token_id : NULL,
                            .client = who->client,
                            .action = n->action,
                            .job = n->ulid,
                            .code = n->code};

    return audit_append(d, &row, NULL, e);
}

static int act_note(const struct ask *a, enum job_act act, const char *ulid,
                    const char *code, struct err *e)
{
    struct act_note n = {a, acts[act].action, ulid, code};

    return writer_call(a->service->writer, run_note, &n, e);
}

/* 1: nothing to do, and that is fine; 0: go on; -1: it can't be done. */
static int act_needed(enum job_act act, const struct job_row *j, struct err *e)
{
    bool ended = j->phase >= PHASE_ENDED;

    if (ended && act == ACT_CANCEL)
        return 1;
    if (ended)
        return err_set(e, ERR_CONFLICT, "job_ended", "the job has ended");
    if (j->slurm_job_id == 0 && j->phase == PHASE_INTENT &&
        j->state != JOB_UNKNOWN)
        return err_set(e, ERR_CONFLICT, "job_submitting",
                       "the job is still being submitted");
    return 0;
}

static int act_send(const struct ask *a, enum job_act act,
                    const struct job_row *j, struct err *e)
{
    struct err why = ERR_INIT, ignored = ERR_INIT;
    json_t *result = NULL;
    int rc;

    if (act_note(a, act, j->ulid, NULL, e))
        return -1;
    rc = call(a, j, acts[act].verb, json_object(), NULL, &result, &why);
    json_decref(result);
    act_note(a, act, j->ulid, rc ? why.code : "ok", &ignored);
    if (rc && e && !err_is_set(e))
        *e = why;
    return rc;
}

/* Who may act and not read learns what his act did, and no more. */
static int act_receipt(const struct job_row *j, struct buf *out)
{
    char id[JOB_ID_LEN + 1];

    id_job(j->ulid, id);
    buf_puts(out, "{\"id\":");
    doc_str(out, id);
    buf_puts(out, ",\"state\":");
    doc_str(out, job_state_name(j->state));
    buf_puts(out, ",\"detail\":");
    doc_str(out, j->detail);
    return buf_putc(out, '}');
}

static int act_answer(const struct ask *a, const char *job_id, struct buf *out,
                      struct doc_version *v, struct err *e)
{
    struct doc_fresh fresh;
    struct job_row j;
    int rc;

    if (access_job(a, job_id, ACCESS_ACT, &j, e))
        return -1;
    follow_freshness(a->service->follow, &fresh);
    rc = access_may_read(a->who, &j) ? doc_job(out, &j, &fresh, v)
                                     : act_receipt(&j, out);
    store_job_clear(&j);
    return rc ? err_nomem(e) : 0;
}

/* 0: send it, 1: nothing to do; -1: refused, and that is in the audit. */
static int act_decide(const struct ask *a, enum job_act act, const char *job_id,
                      struct job_row *j, struct err *e)
{
    char ulid[ULID_LEN + 1];
    struct err why = ERR_INIT;
    int rc = access_job(a, job_id, ACCESS_ACT, j, &why);

    if (rc == 0)
        rc = act_needed(act, j, &why);
    if (rc >= 0)
        return rc;
    store_job_clear(j);
    access_note_refusal(a, acts[act].action,
                        id_job_parse(job_id, ulid) ? NULL : ulid, &why);
    if (e && !err_is_set(e))
        *e = why;
    return -1;
}

int jobs_act(const struct ask *a, enum job_act act, const char *job_id,
             struct buf *out, struct doc_version *v, struct err *e)
{
    struct job_row j;
    int rc = act_decide(a, act, job_id, &j, e);

    if (rc < 0)
        return -1;
    if (rc == 0)
        rc = act_send(a, act, &j, e);
    store_job_clear(&j);
    return rc < 0 ? -1 : act_answer(a, job_id, out, v, e);
}

/* --- script --- */

static int script_checked(const struct ask *a, const struct job_row *j,
                          struct buf *out, struct err *e)
{
    char sha256[65];

    if (access_note_read(a, j, "job.script", e) ||
        script_of_job(a->service, j, out, sha256, e))
        return -1;
    if (!j->script_sha256 || !strcmp(j->script_sha256, sha256))
        return 0;
    buf_reset(out);
    return err_set(e, ERR_INTERNAL, "script_mismatch",
                   "the script differs from what was submitted");
}

int jobs_script(const struct ask *a, const char *job_id, struct buf *out,
                struct err *e)
{
    struct job_row j;
    int rc;

    if (access_job(a, job_id, ACCESS_READ, &j, e))
        return -1;
    rc = script_checked(a, &j, out, e);
    store_job_clear(&j);
    return rc;
}

/* --- logs --- */

/* How many bytes at the end begin a UTF-8 character that isn't whole: 0..3. */
static size_t cut_character(const char *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)p[n - back];
        size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if ((c & 0xc0) == 0x80)
            continue; /* a following byte: look further back */
        return want > back ? back : 0;
    }
    return 0;
}

static json_t *log_args(const struct log_query *q)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "stream", q->stream);
    rc |= json_put_int(o, "attempt", q->attempt - 1); /* the wire's from 0 */
    rc |= json_put_int(o, "offset", q->offset);
    rc |= json_put_int(o, "limit", q->limit);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static void log_cut(struct buf *bytes, bool final, struct log_answer *out)
{
    int64_t next = out->offset + (int64_t)bytes->len;
    bool at_end = next >= out->size;
    size_t cut = bytes->len ? cut_character(bytes->data, bytes->len) : 0;

    /* A file that ends in the middle of a character is not split by us; and a
     * piece must move on, or its reader would ask for it for ever. */
    if (cut && cut < bytes->len && !(final && at_end)) {
        bytes->len -= cut;
        bytes->data[bytes->len] = '\0';
        next -= (int64_t)cut;
    }
    out->next_offset = next;
    out->complete = final && next >= out->size;
}

static int log_read(const struct ask *a, const struct job_row *j,
                    const struct log_query *q, struct buf *bytes,
                    struct log_answer *out, struct err *e)
{
    json_t *result = NULL;
    int rc;

    if (access_note_read(a, j, "job.log", e) ||
        call(a, j, VERB_LOG, log_args(q), bytes, &result, e))
        return -1;
    out->offset = q->offset;
    out->attempt = q->attempt;
    rc = read_size(a, result, q->offset, q->limit, bytes, &out->size, e);
    json_decref(result);
    if (rc == 0)
        log_cut(bytes, j->phase == PHASE_FINAL, out);
    return rc;
}

int jobs_log(const struct ask *a, const char *job_id, const struct log_query *q,
             struct buf *bytes, struct log_answer *out, struct err *e)
{
    struct log_query named = *q;
    struct job_row j;
    int rc;

    *out = (struct log_answer){0};
    if (access_job(a, job_id, ACCESS_READ, &j, e))
        return -1;
    if (named.attempt == 0)
        named.attempt = j.attempts > 0 ? j.attempts : 1;
    rc = log_read(a, &j, &named, bytes, out, e);
    store_job_clear(&j);
    return rc;
}

int jobs_log_json(const struct log_query *q, const struct log_answer *n,
                  const struct buf *bytes, struct buf *out, struct err *e)
{
    struct buf clean;
    int rc;

    buf_init(&clean, 4 * (size_t)PROTO_LOG_MAX); /* U+FFFD is three bytes */
    rc = json_utf8_clean(&clean, bytes->data ? bytes->data : "", bytes->len);
    buf_puts(out, "{\"stream\":");
    doc_str(out, q->stream);
    buf_printf(out,
               ",\"attempt\":%lld,\"offset\":%lld,\"next_offset\":%lld,"
               "\"size\":%lld,\"complete\":%s,\"text\":",
               (long long)n->attempt, (long long)n->offset,
               (long long)n->next_offset, (long long)n->size,
               n->complete ? "true" : "false");
    doc_text(out, buf_str(&clean), clean.len);
    buf_putc(out, '}');
    buf_clear(&clean);
    return rc || !buf_ok(out) ? err_nomem(e) : 0;
}

/* --- artifacts --- */

enum { ARTIFACTS_BYTES_MAX = 4 * 1024 * 1024, ARTIFACT_PATH_MAX = 1024 };

/* Percent-encode all but unreserved characters and '/', RFC 3986. */
static void put_url_path(struct buf *out, const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                                "tuvwxyz0123456789-._~/";

    for (; *path; path++) {
        if (strchr(plain, *path))
            buf_putc(out, *path);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*path);
    }
}

static int put_artifact(struct buf *out, const char *job_id, const json_t *row,
                        struct err *e)
{
    const char *path = NULL;
    int64_t bytes = 0, mtime = 0;

    if (json_get_str(row, "path", true, ARTIFACT_PATH_MAX, &path, "", e) ||
        json_get_int(row, "bytes", true, 0, INT64_MAX, &bytes, "", e) ||
        json_get_int(row, "mtime", false, INT64_MIN, INT64_MAX, &mtime, "", e))
        return -1;
    buf_puts(out, "{\"path\":");
    doc_str(out, path);
    buf_printf(out, ",\"bytes\":%lld,\"modified_at\":", (long long)bytes);
    doc_time(out, mtime);
    buf_puts(out, ",\"links\":{\"self\":\"/v1/jobs/");
    buf_puts(out, job_id);
    buf_puts(out, "/artifacts/");
    put_url_path(out, path);
    return buf_puts(out, "\"}}") ? err_nomem(e) : 0;
}

static int put_artifacts(struct buf *out, const char *job_id,
                         const struct buf *pipe, struct err *e)
{
    json_t *rows = json_parse(buf_str(pipe), pipe->len, ARTIFACTS_BYTES_MAX, e);
    int rc = json_is_array(rows) ? 0
                                 : err_set(e, ERR_INVALID, "wire_frame",
                                           "no list of artifacts came");

    buf_puts(out, "{\"artifacts\":[");
    for (size_t i = 0; rc == 0 && i < json_array_size(rows); i++) {
        if (i > 0)
            buf_putc(out, ',');
        rc = put_artifact(out, job_id, json_array_get(rows, i), e);
    }
    json_decref(rows);
    return rc == 0 && buf_puts(out, "]}") ? err_nomem(e) : rc;
}

int jobs_artifacts_text(const struct ask *a, const char *job_id,
                        struct buf *out, struct err *e)
{
    json_t *result = NULL;
    struct err why = ERR_INIT;
    struct job_row j;
    struct buf pipe;
    int rc;

    if (access_job(a, job_id, ACCESS_READ, &j, e))
        return -1;
    buf_init(&pipe, ARTIFACTS_BYTES_MAX);
    rc = access_note_read(a, &j, "job.artifacts", e);
    if (rc == 0)
        rc = call(a, &j, VERB_ARTIFACTS, json_object(), &pipe, &result, e);
    if (rc == 0 && put_artifacts(out, job_id, &pipe, &why))
        rc = garbage(a, &why, e);
    json_decref(result);
    buf_clear(&pipe);
    store_job_clear(&j);
    return rc;
}

/* The worker checks the path again, with openat2; this refuses what can't be
 * one before anybody is asked. */
static int check_path(const char *path, struct err *e)
{
    size_t n = strlen(path);

    if (n >= 1 && n <= ARTIFACT_PATH_MAX && path[0] != '/' &&
        json_utf8_valid(path, n) && !strstr(path, "//"))
        return 0;
    return err_set(e, ERR_INVALID, "artifact_path", "not an artifact's path");
}

static json_t *artifact_args(const char *path, int64_t offset, int64_t limit)
{
    json_t *o = json_object();

    if ((json_put_str(o, "path", path) | json_put_int(o, "offset", offset) |
         json_put_int(o, "limit", limit)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int artifact_read(const struct ask *a, const struct job_row *j,
                         const char *path, int64_t limit, struct buf *bytes,
                         struct artifact_answer *out, struct err *e)
{
    json_t *args = artifact_args(path, out->offset, limit), *result = NULL;
    int rc = call(a, j, VERB_ARTIFACT, args, bytes, &result, e);

    if (rc == 0)
        rc = read_size(a, result, out->offset, limit, bytes, &out->size, e);
    json_decref(result);
    out->bytes = (int64_t)bytes->len;
    return rc;
}

int jobs_artifact(const struct ask *a, const char *job_id, const char *path,
                  int64_t offset, int64_t limit, struct buf *bytes,
                  struct artifact_answer *out, struct err *e)
{
    struct job_row j;
    int rc;

    *out = (struct artifact_answer){.offset = offset};
    if (check_path(path, e) || access_job(a, job_id, ACCESS_READ, &j, e))
        return -1;
    rc = access_note_read(a, &j, "job.artifact", e);
    if (rc == 0)
        rc = artifact_read(a, &j, path, limit, bytes, out, e);
    store_job_clear(&j);
    return rc;
}
