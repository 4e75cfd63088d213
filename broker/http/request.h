/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One HTTP exchange: what came, who asked, and the answer being made. Owned by
 * server.c from the first callback to the completed one; a handler borrows it
 * while it runs. Thread rule: exactly one thread holds it at a time (the MHD
 * thread, or a pool thread while the connection is suspended).
 */
#ifndef BROKER_HTTP_REQUEST_H
#define BROKER_HTTP_REQUEST_H

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/jobs/identity.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HTTP_TARGET_MAX = 2048,
    HTTP_ARGS_MAX = 2,              /* {placeholders} of a route */
    HTTP_QUERY_MAX = 16,            /* parameters of a query string */
    HTTP_OUT_MAX = 8 * 1024 * 1024, /* an answer held in memory */
    HTTP_HEADERS_MAX = 8
};

enum http_listener { LISTENER_LOOPBACK, LISTENER_LOCAL };

struct http_pair {
    char *name, *value; /* decoded; owned by the request */
};

struct http_stream; /* stream.h */

struct http_request {
    /* what came */
    char id[ULID_LEN + 1]; /* the request id of logs and audit */
    enum http_listener listener;
    uid_t peer_uid;        /* SO_PEERCRED on local.sock */
    char client[64];       /* address, or "uid:1001" */
    char *method, *target; /* as they came */
    char *path;            /* decoded path, owned */
    struct http_pair query[HTTP_QUERY_MAX];
    size_t nquery;
    const struct route *route;
    const char *args[HTTP_ARGS_MAX]; /* borrowed from path */
    struct buf body;
    struct MHD_Connection *connection;
    struct server *server;
    struct identity identity;
    bool identified;

    /* the answer */
    unsigned status;
    const char *content_type; /* static */
    struct buf out;
    struct http_pair headers[HTTP_HEADERS_MAX];
    size_t nheaders;
    struct http_stream *stream; /* owned; replaces out */
    uint64_t stream_size;
    bool close; /* Connection: close */

    /* progress, server.c's */
    atomic_int refs; /* the connection, and a pump */
    bool pooled;     /* runs on pool threads */
    enum { REQ_NEW, REQ_READING, REQ_RUNNING, REQ_WAITING, REQ_DONE } step;
    bool refusal_noted; /* whoever refuses writes the audit's row himself */
    bool read_noted;    /* the read of somebody else's job is in the audit */
    int64_t wait_until_ms;
    int64_t seen_version;
};

/* Header of the request, or NULL; borrowed. */
const char *request_header(const struct http_request *r, const char *name);
/* Query parameter, or NULL; borrowed. */
const char *request_query(const struct http_request *r, const char *name);
/* Integer query parameter: absent leaves *out; malformed or outside: -1
 * ERR_INVALID query_invalid. */
int request_query_int(const struct http_request *r, const char *name,
                      int64_t min, int64_t max, int64_t *out, struct err *e);
/* Refuse query parameters that are not in the NULL-terminated list. */
int request_query_only(const struct http_request *r, const char *const *names,
                       struct err *e);

/* Answers. Each returns 0, or -1 with e. The JSON value is consumed. */
int answer_json(struct http_request *r, unsigned status, json_t *doc,
                struct err *e);
int answer_header(struct http_request *r, const char *name, const char *value,
                  struct err *e);
int answer_header_int(struct http_request *r, const char *name, int64_t v,
                      struct err *e);

/* Split target into decoded path and query. ERR_INVALID http_target. */
int request_parse_target(struct http_request *r, struct err *e);

struct http_request *request_new(struct server *s);
void request_unref(struct http_request *r); /* NULL is fine */

#endif
