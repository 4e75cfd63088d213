/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Logs and artifacts. What a job wrote is sent as an attachment that no browser
 * runs: nosniff, and a content security policy of "sandbox".
 */
#include "base/log.h"
#include "broker/http/api.h"
#include "broker/http/stream.h"
#include "broker/proto.h"

#include <string.h>

static int attachment_headers(struct http_request *r, struct err *e)
{
    if (answer_header(r, "Content-Security-Policy", "sandbox", e) < 0 ||
        answer_header(r, "Content-Disposition", "attachment", e) < 0)
        return -1;
    return 0;
}

/* ---- logs ------------------------------------------------------------- */

static int log_query_parse(const struct http_request *r, struct log_query *q,
                           struct err *e)
{
    static const char *const names[] = {"stream", "attempt", "offset", "limit",
                                        NULL};
    const char *stream = request_query(r, "stream");

    q->stream = stream == NULL ? "stdout" : stream;
    q->limit = 64 * 1024;
    if (request_query_only(r, names, e) < 0 ||
        request_query_int(r, "attempt", 0, 10000, &q->attempt, e) < 0 ||
        request_query_int(r, "offset", 0, INT64_MAX / 2, &q->offset, e) < 0 ||
        request_query_int(r, "limit", 1, PROTO_LOG_MAX, &q->limit, e) < 0)
        return -1;
    if (strcmp(q->stream, "stdout") == 0 || strcmp(q->stream, "stderr") == 0)
        return 0;
    return err_set(e, ERR_INVALID, "query_invalid",
                   "stream must be stdout or stderr");
}

static bool wants_text(const struct http_request *r)
{
    const char *accept = request_header(r, "Accept");

    return accept != NULL && strstr(accept, "text/plain") != NULL;
}

/* The exact bytes; where they stand is in headers. */
static int answer_log_text(struct http_request *r, struct buf *bytes,
                           const struct log_answer *n, struct err *e)
{
    if (answer_header_int(r, "X-Sluice-Offset", n->offset, e) < 0 ||
        answer_header_int(r, "X-Sluice-Next-Offset", n->next_offset, e) < 0 ||
        answer_header_int(r, "X-Sluice-Size", n->size, e) < 0 ||
        answer_header(r, "X-Sluice-Complete", n->complete ? "true" : "false",
                      e) < 0 ||
        attachment_headers(r, e) < 0)
        return -1;
    buf_clear(&r->out);
    r->out = *bytes;
    buf_init(bytes, 0);
    r->status = 200;
    r->content_type = "text/plain; charset=utf-8";
    return 0;
}

int api_logs(struct http_request *r, struct err *e)
{
    struct log_query q = {0};
    struct log_answer n = {0};
    struct buf bytes;
    struct ask a;
    int rc = -1;

    buf_init(&bytes, PROTO_LOG_MAX);
    if (log_query_parse(r, &q, e) < 0 || api_ask(r, &a, e) < 0 ||
        jobs_log(&a, r->args[0], &q, &bytes, &n, e) < 0)
        goto out;
    if (wants_text(r))
        rc = answer_log_text(r, &bytes, &n, e);
    else if (jobs_log_json(&q, &n, &bytes, &r->out, e) == 0)
        rc = api_answer_text(r, 200);
out:
    buf_clear(&bytes);
    return rc;
}

/* ---- artifacts -------------------------------------------------------- */

int api_artifacts(struct http_request *r, struct err *e)
{
    struct ask a;

    if (api_ask(r, &a, e) < 0 ||
        jobs_artifacts_text(&a, r->args[0], &r->out, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}

/* Add the pieces from `at` on; r stays (the pump's reference) although its
 * connection may end meanwhile. */
static int pump(struct http_request *r, const struct ask *a, int64_t size,
                struct buf *piece, struct err *e)
{
    struct artifact_answer n = {0};
    int64_t at = 0;

    for (;;) {
        if (stream_add(r->stream, piece->data, piece->len, e) < 0)
            return -1;
        at += (int64_t)piece->len;
        if (at >= size)
            return 0;
        buf_reset(piece);
        if (jobs_artifact(a, r->args[0], r->args[1], at,
                          size - at < PROTO_LOG_MAX ? size - at : PROTO_LOG_MAX,
                          piece, &n, e) < 0)
            return -1;
        if (piece->len == 0)
            return err_set(e, ERR_UNAVAILABLE, "artifact_shrank",
                           "the file became shorter while it was sent");
    }
}

static int stream_pieces(struct http_request *r, const struct ask *a,
                         int64_t size, struct buf *piece, struct err *e)
{
    struct err pump_error = ERR_INIT;
    int rc;

    if (server_stream(r, size, e) < 0)
        return -1;
    rc = pump(r, a, size, piece, &pump_error);
    if (rc < 0)
        log_err("artifact_cut", r->id, &pump_error);
    stream_end(r->stream, rc == 0);
    request_unref(r);
    return HANDLER_STREAMING;
}

/* One piece: it is the answer. More: a stream, and this thread feeds it. */
int api_artifact(struct http_request *r, struct err *e)
{
    struct artifact_answer n = {0};
    struct buf piece;
    struct ask a;
    int rc = -1;

    buf_init(&piece, PROTO_LOG_MAX);
    if (api_ask(r, &a, e) < 0 ||
        jobs_artifact(&a, r->args[0], r->args[1], 0, PROTO_LOG_MAX, &piece, &n,
                      e) < 0 ||
        attachment_headers(r, e) < 0)
        goto out;
    r->status = 200;
    r->content_type = "application/octet-stream";
    if (n.size > (int64_t)piece.len) {
        rc = stream_pieces(r, &a, n.size, &piece, e);
        goto out;
    }
    buf_clear(&r->out);
    r->out = piece;
    buf_init(&piece, 0);
    rc = 0;
out:
    buf_clear(&piece);
    return rc;
}
