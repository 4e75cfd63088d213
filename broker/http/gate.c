/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/gate.h"

#include "base/num.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Headers of which a second line, or a second meaning, would matter. */
static const char *const once[] = {
    "Host",         "Content-Length", "Transfer-Encoding",
    "Content-Type", "Authorization",  "Idempotency-Key",
    "Origin",       "Sec-Fetch-Site", "Expect",
    "Connection",   "X-Sluice",       "If-None-Match",
    "Range"};

/* Identity headers: nothing on these listeners may claim one. */
static const char *const identity_prefixes[] = {"Tailscale-", "X-Forwarded-",
                                                "X-Real-IP",  "Forwarded",
                                                "X-Remote-",  "Remote-User"};

struct seen {
    unsigned count[sizeof(once) / sizeof(once[0])];
    bool identity;
};

static enum MHD_Result note_header(void *cls, enum MHD_ValueKind kind,
                                   const char *name, size_t name_len,
                                   const char *value, size_t value_len)
{
    struct seen *s = cls;

    (void)kind;
    (void)name_len;
    (void)value;
    (void)value_len;
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        s->count[i] += strcasecmp(name, once[i]) == 0 ? 1 : 0;
    for (size_t i = 0;
         i < sizeof(identity_prefixes) / sizeof(identity_prefixes[0]); i++) {
        const char *p = identity_prefixes[i];

        if (strncasecmp(name, p, strlen(p)) == 0)
            s->identity = true;
    }
    return MHD_YES;
}

static int check_headers(const struct http_request *r, struct err *e)
{
    struct seen s = {.identity = false};

    MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, note_header,
                                &s);
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
        if (s.count[i] > 1)
            return err_set(e, ERR_INVALID, "http_header_twice",
                           "the header %s was sent more than once", once[i]);
    }
    if (s.identity)
        return err_set(e, ERR_INVALID, "http_identity_header",
                       "identity headers are not taken on this listener");
    return 0;
}

static bool has_dot_segment(const char *path, size_t n)
{
    size_t start = 0;

    for (size_t i = 0; i <= n; i++) {
        size_t len = i - start;

        if (i < n && path[i] != '/')
            continue;
        if ((len == 1 && path[start] == '.') ||
            (len == 2 && memcmp(path + start, "..", 2) == 0) ||
            (len == 0 && start > 0 && i < n))
            return true;
        start = i + 1;
    }
    return false;
}

static int check_target(const char *t, struct err *e)
{
    size_t n = strlen(t), path_len = strcspn(t, "?");

    if (n > HTTP_TARGET_MAX)
        return err_set(e, ERR_TOO_LARGE, "http_target_too_long",
                       "the request target is longer than %d bytes",
                       HTTP_TARGET_MAX);
    if (t[0] != '/')
        return err_set(e, ERR_INVALID, "http_target",
                       "the request target must begin with '/'");
    for (size_t i = 0; i < n; i++) {
        const char *p = t + i;
        bool bad = (unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f ||
                   *p == '\\' || *p == '#' || strncmp(p, "%00", 3) == 0 ||
                   (i < path_len && (strncasecmp(p, "%2f", 3) == 0 ||
                                     strncasecmp(p, "%2e", 3) == 0 ||
                                     strncasecmp(p, "%5c", 3) == 0));

        if (bad)
            return err_set(e, ERR_INVALID, "http_target",
                           "the request target holds a byte or an escape "
                           "that is not taken");
    }
    if (has_dot_segment(t, path_len))
        return err_set(e, ERR_INVALID, "http_target",
                       "dot segments and empty segments are not taken");
    return 0;
}

static int check_length(const struct http_request *r, int64_t body_bytes,
                        struct err *e)
{
    const char *length = request_header(r, "Content-Length");
    const char *coding = request_header(r, "Transfer-Encoding");
    int64_t n = 0;

    if (coding != NULL && length != NULL)
        return err_set(e, ERR_INVALID, "http_length",
                       "Content-Length beside Transfer-Encoding");
    if (coding != NULL)
        return err_set(e, ERR_UNSUPPORTED, "http_chunked",
                       "send a Content-Length; chunked bodies are not taken");
    if (length == NULL)
        return 0;
    if (num_parse(length, 0, INT64_MAX, &n) < 0)
        return err_set(e, ERR_INVALID, "http_length",
                       "Content-Length is not a number");
    if (n > body_bytes)
        return err_set(e, ERR_TOO_LARGE, "http_too_large",
                       "the body is larger than %lld bytes",
                       (long long)body_bytes);
    return 0;
}

/* application/json, parameters allowed only if charset=utf-8. */
static bool is_json_type(const char *v)
{
    const char *json = "application/json";

    if (v == NULL || strncasecmp(v, json, strlen(json)) != 0)
        return false;
    v += strlen(json);
    v += strspn(v, " \t");
    if (*v == '\0')
        return true;
    if (*v++ != ';')
        return false;
    v += strspn(v, " \t");
    return strcasecmp(v, "charset=utf-8") == 0 ||
           strcasecmp(v, "charset=\"utf-8\"") == 0;
}

static int check_method(const struct http_request *r, struct err *e)
{
    const char *length = request_header(r, "Content-Length");
    bool body = length != NULL && strcmp(length, "0") != 0;

    if (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0) {
        if (body)
            return err_set(e, ERR_INVALID, "http_length",
                           "a %s with a body is not taken", r->method);
        return 0;
    }
    if (strcmp(r->method, "POST") != 0)
        return err_set(e, ERR_UNSUPPORTED, "http_method",
                       "this method is not known here");
    if (body && !is_json_type(request_header(r, "Content-Type")))
        return err_set(e, ERR_UNSUPPORTED, "http_content_type",
                       "bodies are application/json");
    return 0;
}

/* Host allowlist: the loopback listener answers to its own names only, so that
 * a page of another site that resolves to 127.0.0.1 gets nothing. */
static int check_host(const struct http_request *r, int port, struct err *e)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    const char *host = request_header(r, "Host");

    if (r->listener == LISTENER_LOCAL)
        return 0;
    for (size_t i = 0; host != NULL && i < sizeof(names) / sizeof(names[0]);
         i++) {
        char with_port[64];

        snprintf(with_port, sizeof(with_port), "%s:%d", names[i], port);
        if (strcasecmp(host, with_port) == 0 || strcasecmp(host, names[i]) == 0)
            return 0;
    }
    return err_set(e, ERR_UNSUPPORTED, "http_host",
                   "this server does not answer to that host name");
}

/* Browsers say where a request comes from; other sites' pages are refused. */
static int check_origin(const struct http_request *r, struct err *e)
{
    const char *origin = request_header(r, "Origin");
    const char *host = request_header(r, "Host");
    const char *site = request_header(r, "Sec-Fetch-Site");
    bool foreign = false;

    if (site != NULL)
        foreign = strcasecmp(site, "same-origin") != 0 &&
                  strcasecmp(site, "none") != 0;
    if (origin != NULL)
        foreign = foreign || host == NULL ||
                  strncasecmp(origin, "http://", 7) != 0 ||
                  strcasecmp(origin + 7, host) != 0;
    if (foreign)
        return err_set(e, ERR_DENIED, "http_origin",
                       "requests from another site's page are not taken");
    return 0;
}

int gate_check(const struct http_request *r, int port, int64_t body_bytes,
               struct err *e)
{
    if (check_target(r->target, e) < 0 || check_headers(r, e) < 0 ||
        check_length(r, body_bytes, e) < 0 || check_host(r, port, e) < 0 ||
        check_origin(r, e) < 0 || check_method(r, e) < 0)
        return -1;
    return 0;
}
