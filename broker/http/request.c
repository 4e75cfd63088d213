/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/request.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "broker/http/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *request_header(const struct http_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *request_query(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->nquery; i++) {
        if (strcmp(r->query[i].name, name) == 0)
            return r->query[i].value;
    }
    return NULL;
}

int request_query_int(const struct http_request *r, const char *name,
                      int64_t min, int64_t max, int64_t *out, struct err *e)
{
    const char *text = request_query(r, name);

    if (text == NULL)
        return 0;
    if (num_parse(text, min, max, out) == 0)
        return 0;
    return err_set(e, ERR_INVALID, "query_invalid",
                   "%s must be an integer from %lld to %lld", name,
                   (long long)min, (long long)max);
}

int request_query_only(const struct http_request *r, const char *const *names,
                       struct err *e)
{
    for (size_t i = 0; i < r->nquery; i++) {
        const char *const *n = names;

        while (*n != NULL && strcmp(*n, r->query[i].name) != 0)
            n++;
        if (*n == NULL)
            return err_set(e, ERR_INVALID, "query_unknown",
                           "there is no query parameter of that name here");
    }
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* One byte of [s, n) at *i, percent-decoded (RFC 3986 section 2.1); *i is left
 * on the last byte used. 0 for NUL and for an escape that is cut or not hex. */
static int decode_byte(const char *s, size_t n, size_t *i)
{
    int hi, lo;

    if (s[*i] != '%')
        return (unsigned char)s[*i];
    if (n - *i < 3)
        return 0;
    hi = hex_digit(s[*i + 1]);
    lo = hex_digit(s[*i + 2]);
    *i += 2;
    return hi < 0 || lo < 0 ? 0 : hi * 16 + lo;
}

/* Owned, or NULL when an escape is bad or the result is not UTF-8. */
static char *decode(const char *s, size_t n)
{
    char *out = malloc(n + 1);
    size_t len = 0;

    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        int c = decode_byte(s, n, &i);

        if (c == 0) {
            free(out);
            return NULL;
        }
        out[len++] = (char)c;
    }
    out[len] = '\0';
    if (json_utf8_valid(out, len))
        return out;
    free(out);
    return NULL;
}

static int add_query(struct http_request *r, const char *s, size_t n)
{
    const char *eq = memchr(s, '=', n);
    size_t name_len = eq == NULL ? n : (size_t)(eq - s);
    struct http_pair *p = &r->query[r->nquery];

    if (r->nquery == HTTP_QUERY_MAX)
        return -1;
    p->name = decode(s, name_len);
    p->value = eq == NULL ? strdup("") : decode(eq + 1, n - name_len - 1);
    r->nquery++;
    if (p->name == NULL || p->value == NULL)
        return -1;
    for (size_t i = 0; i + 1 < r->nquery; i++) {
        if (strcmp(r->query[i].name, p->name) == 0)
            return -1; /* given twice: which one is meant? */
    }
    return 0;
}

int request_parse_target(struct http_request *r, struct err *e)
{
    const char *q = strchr(r->target, '?');
    size_t path_len = q == NULL ? strlen(r->target) : (size_t)(q - r->target);

    r->path = decode(r->target, path_len);
    if (r->path == NULL)
        return err_set(e, ERR_INVALID, "http_target",
                       "the path has a bad escape or is not UTF-8");
    while (q != NULL && q[1] != '\0') {
        const char *start = q + 1;

        q = strchr(start, '&');
        if (add_query(r, start,
                      q == NULL ? strlen(start) : (size_t)(q - start)) < 0)
            return err_set(e, ERR_INVALID, "query_invalid",
                           "the query string has a bad escape, too many "
                           "parameters, or one of them twice");
    }
    return 0;
}

int answer_json(struct http_request *r, unsigned status, json_t *doc,
                struct err *e)
{
    char *text;

    if (doc == NULL)
        return err_nomem(e);
    text = json_text(doc);
    json_decref(doc);
    if (text == NULL)
        return err_nomem(e);
    buf_reset(&r->out);
    buf_puts(&r->out, text);
    buf_putc(&r->out, '\n');
    free(text);
    r->status = status;
    r->content_type = "application/json";
    return buf_ok(&r->out) ? 0 : err_nomem(e);
}

int answer_header(struct http_request *r, const char *name, const char *value,
                  struct err *e)
{
    struct http_pair *p = &r->headers[r->nheaders];

    if (r->nheaders == HTTP_HEADERS_MAX)
        return err_set(e, ERR_INTERNAL, "headers_full", "too many headers");
    p->name = strdup(name);
    p->value = strdup(value);
    r->nheaders++;
    return p->name != NULL && p->value != NULL ? 0 : err_nomem(e);
}

int answer_header_int(struct http_request *r, const char *name, int64_t v,
                      struct err *e)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)v);
    return answer_header(r, name, text, e);
}

struct http_request *request_new(struct server *s)
{
    struct http_request *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->server = s;
    r->step = REQ_NEW;
    atomic_store(&r->refs, 1);
    r->peer_uid = (uid_t)-1;
    buf_init(&r->body, 1024 * 1024); /* the gate's cap is lower */
    buf_init(&r->out, HTTP_OUT_MAX);
    if (id_ulid(clock_now_ms(), r->id) < 0) {
        free(r);
        return NULL;
    }
    return r;
}

static void pairs_clear(struct http_pair *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(p[i].name);
        free(p[i].value);
    }
}

void request_unref(struct http_request *r)
{
    if (r == NULL || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    free(r->method);
    free(r->target);
    free(r->path);
    pairs_clear(r->query, r->nquery);
    pairs_clear(r->headers, r->nheaders);
    buf_wipe(&r->body); /* it may hold secrets */
    buf_clear(&r->out);
    stream_free(r->stream);
    identity_clear(&r->identity);
    free(r);
}
