/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Logs and artifacts. What a job wrote is sent as an attachment that no browser
 * runs: nosniff, and a content security policy of "sandbox".
 */
#include "base/log.h"
#include "base/num.h"
#include "broker/http/api.h"
#include "broker/http/stream.h"
#include "broker/proto.h"

#include <stdio.h>
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

/* One range of bytes (RFC 9110 section 14.1.2). */
struct range {
    bool given, suffix;  /* suffix: the last `last` bytes */
    int64_t first, last; /* inclusive */
};

/* What is sent of a file of `size` bytes: [from, end). */
struct part {
    int64_t from, end, size;
};

static bool range_number(const char *s, size_t n, int64_t *out)
{
    char text[20];

    if (n == 0 || n >= sizeof(text))
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    return num_parse(text, 0, INT64_MAX / 2, out) == 0;
}

/* Another unit, several ranges, a malformed one and If-Range (there are no
 * validators here) are answered with the whole, as section 14.2 lets us. */
static struct range range_of(const struct http_request *r)
{
    static const char unit[] = "bytes=";
    const struct range whole = {.last = INT64_MAX / 2};
    struct range g = {.given = true, .last = INT64_MAX / 2};
    const char *text = request_header(r, "Range"), *dash;

    if (text == NULL || request_header(r, "If-Range") != NULL ||
        strcmp(r->method, "GET") != 0 || strncmp(text, unit, strlen(unit)) != 0)
        return whole;
    text += strlen(unit);
    dash = strchr(text, '-');
    if (dash == NULL)
        return whole;
    g.suffix = dash == text;
    if ((!g.suffix && !range_number(text, (size_t)(dash - text), &g.first)) ||
        ((g.suffix || dash[1] != '\0') &&
         !range_number(dash + 1, strlen(dash + 1), &g.last)) ||
        g.last < g.first)
        return whole;
    return g;
}

static int read_piece(struct http_request *r, struct ask *a, int64_t from,
                      int64_t len, struct buf *piece, int64_t *size,
                      struct err *e)
{
    struct artifact_answer n = {0};

    buf_reset(piece);
    if (jobs_artifact(a, r->args[0], r->args[1], from,
                      len < PROTO_LOG_MAX ? len : PROTO_LOG_MAX, piece, &n,
                      e) < 0)
        return -1;
    a->noted = true; /* one audit row a download, not one a piece */
    *size = n.size;
    return 0;
}

static int no_such_bytes(struct http_request *r, int64_t size, struct err *e)
{
    char text[40];

    snprintf(text, sizeof(text), "bytes */%lld", (long long)size);
    if (answer_header(r, "Content-Range", text, e) < 0)
        return -1;
    return err_set(e, ERR_INVALID, "range_not_satisfiable",
                   "the file has %lld bytes", (long long)size);
}

/* The first piece of what was asked for, and which part that is. */
static int begin_part(struct http_request *r, struct ask *a, struct range g,
                      struct part *p, struct buf *piece, struct err *e)
{
    if (g.suffix) { /* the size comes first */
        if (read_piece(r, a, 0, 1, piece, &p->size, e) < 0)
            return -1;
        g.first = g.last == 0        ? p->size
                  : g.last < p->size ? p->size - g.last
                                     : 0;
        g.last = INT64_MAX / 2;
    }
    if (read_piece(r, a, g.first,
                   strcmp(r->method, "HEAD") == 0 ? 1 : g.last - g.first + 1,
                   piece, &p->size, e) < 0)
        return -1;
    if (g.given && g.first >= p->size)
        return no_such_bytes(r, p->size, e);
    p->from = g.first;
    p->end = g.last < p->size ? g.last + 1 : p->size;
    return 0;
}

/* Add the pieces from the first on; r stays (the pump's reference) although its
 * connection may end meanwhile. */
static int pump(struct http_request *r, struct ask *a, const struct part *p,
                struct buf *piece, struct err *e)
{
    int64_t at = p->from, size;

    for (;;) {
        if (stream_add(r->stream, piece->data, piece->len, e) < 0)
            return -1;
        at += (int64_t)piece->len;
        if (at >= p->end)
            return 0;
        if (read_piece(r, a, at, p->end - at, piece, &size, e) < 0)
            return -1;
        if (piece->len == 0)
            return err_set(e, ERR_UNAVAILABLE, "artifact_shrank",
                           "the file became shorter while it was sent");
    }
}

static int stream_pieces(struct http_request *r, struct ask *a,
                         const struct part *p, struct buf *piece, struct err *e)
{
    struct err pump_error = ERR_INIT;
    int rc;

    if (server_stream(r, p->end - p->from, e) < 0)
        return -1;
    rc = pump(r, a, p, piece, &pump_error);
    if (rc < 0)
        log_err("artifact_cut", r->id, &pump_error);
    stream_end(r->stream, rc == 0);
    request_unref(r);
    return HANDLER_STREAMING;
}

static int part_headers(struct http_request *r, bool given,
                        const struct part *p, struct err *e)
{
    char text[80];

    r->status = given ? 206 : 200;
    r->content_type = "application/octet-stream";
    if (attachment_headers(r, e) < 0 ||
        answer_header(r, "Accept-Ranges", "bytes", e) < 0)
        return -1;
    if (!given)
        return 0;
    snprintf(text, sizeof(text), "bytes %lld-%lld/%lld", (long long)p->from,
             (long long)p->end - 1, (long long)p->size);
    return answer_header(r, "Content-Range", text, e);
}

/* One piece: it is the answer. More: a stream, and this thread feeds it. */
static int send_part(struct http_request *r, struct ask *a,
                     const struct part *p, struct buf *piece, struct err *e)
{
    if (strcmp(r->method, "HEAD") == 0)
        return server_stream_size(r, p->end - p->from, e);
    if (p->end - p->from > (int64_t)piece->len)
        return stream_pieces(r, a, p, piece, e);
    buf_clear(&r->out);
    r->out = *piece;
    buf_init(piece, 0);
    return 0;
}

int api_artifact(struct http_request *r, struct err *e)
{
    struct range g = range_of(r);
    struct part p = {0};
    struct buf piece;
    struct ask a;
    int rc = -1;

    buf_init(&piece, PROTO_LOG_MAX);
    if (api_ask(r, &a, e) == 0 && begin_part(r, &a, g, &p, &piece, e) == 0 &&
        part_headers(r, g.given, &p, e) == 0)
        rc = send_part(r, &a, &p, &piece, e);
    buf_clear(&piece);
    return rc;
}
