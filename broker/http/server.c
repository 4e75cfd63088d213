/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/wire.h"
#include "broker/http/gate.h"
#include "broker/http/identify.h"
#include "broker/http/pool.h"
#include "broker/http/problem.h"
#include "broker/http/request.h"
#include "broker/http/route.h"
#include "broker/http/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    FAST_THREADS = 48,
    FAST_QUEUE = 256, /* submit, cancel: 15 s at worst */
    SLOW_THREADS = 16,
    SLOW_QUEUE = 128, /* logs, artifacts */
    IDLE_SECONDS = 120,
    QUIET_MS = 1000, /* at an end: for answers that are on their way */
    HEADER_MEMORY = 128 * 1024
};

struct listener {
    struct server *server;
    enum http_listener kind;
    struct MHD_Daemon *daemon;
};

struct server {
    struct service *service;
    struct listener loopback, local;
    int port;
    struct pool *fast, *slow;
    pthread_key_t reader;
    bool have_key;
    atomic_bool stopping;
    atomic_int requests; /* begun and not completed */
};

struct service *server_service(struct server *s)
{
    return s->service;
}

/* ---- readers ---------------------------------------------------------- */

static void close_reader(void *d)
{
    db_close(d);
}

struct db *server_reader(struct server *s, struct err *e)
{
    struct db *d = pthread_getspecific(s->reader);

    if (d != NULL)
        return d;
    if (db_open_reader(s->service->config->paths.db, &d, e) < 0)
        return NULL;
    if (pthread_setspecific(s->reader, d) == 0)
        return d;
    db_close(d); /* nobody would close it */
    err_nomem(e);
    return NULL;
}

/* ---- answering -------------------------------------------------------- */

static struct MHD_Response *make_response(struct http_request *r)
{
    struct MHD_Response *m;
    size_t n = 0;
    char *body;

    if (r->stream != NULL)
        return MHD_create_response_from_callback(r->stream_size, 64 * 1024,
                                                 stream_read, r->stream, NULL);
    body = buf_take(&r->out, &n);
    if (body == NULL)
        return NULL;
    m = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
    if (m == NULL)
        free(body);
    return m;
}

static void common_headers(struct http_request *r, struct MHD_Response *m)
{
    if (r->content_type != NULL)
        MHD_add_response_header(m, "Content-Type", r->content_type);
    MHD_add_response_header(m, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(m, "Cache-Control", "no-store");
    MHD_add_response_header(m, "X-Request-Id", r->id);
    if (r->close || atomic_load(&r->server->stopping))
        MHD_add_response_header(m, "Connection", "close");
    for (size_t i = 0; i < r->nheaders; i++)
        MHD_add_response_header(m, r->headers[i].name, r->headers[i].value);
}

static enum MHD_Result reply(struct http_request *r)
{
    struct MHD_Response *m = make_response(r);
    enum MHD_Result ok;

    if (m == NULL)
        return MHD_NO;
    common_headers(r, m);
    r->step = REQ_DONE;
    ok = MHD_queue_response(r->connection, r->status, m);
    MHD_destroy_response(m);
    return ok;
}

static enum MHD_Result refuse(struct http_request *r, const struct err *e,
                              bool close)
{
    r->close = close;
    identify_note_refusal(r, e);
    problem_answer(r, e);
    return reply(r);
}

/* ---- running a handler ------------------------------------------------ */

/* 0: there is an answer; else one of enum handler_later. */
static int run_handler(struct http_request *r)
{
    struct err e = ERR_INIT;
    int rc = r->route->handler(r, &e);

    if (rc >= 0)
        return rc;
    if (!r->pooled && identify_refusal_waits(r, &e)) {
        buf_reset(&r->out);
        return HANDLER_POOL; /* and is refused there */
    }
    if (e.class == ERR_INTERNAL)
        log_err("request_failed", r->id, &e);
    identify_note_refusal(r, &e);
    problem_answer(r, &e);
    return 0;
}

/* Some are identified here: NSS and a person's first commit may take long. */
static int run_identified(struct http_request *r)
{
    struct err e = ERR_INIT;

    if ((r->route->flags & ROUTE_OPEN) != 0 || r->identified ||
        identify(r, true, &e) == 0)
        return run_handler(r);
    identify_note_refusal(r, &e);
    problem_answer(r, &e);
    return 0;
}

static void run_pooled(void *arg)
{
    struct http_request *r = arg;

    /* Later: whoever wakes the connection may have it already. */
    if (run_identified(r) == 0)
        MHD_resume_connection(r->connection);
}

/* The connection sleeps while a pool thread runs the handler. */
static enum MHD_Result start_pooled(struct http_request *r)
{
    struct server *s = r->server;
    struct pool *p = (r->route->flags & ROUTE_SLOW) != 0 ? s->slow : s->fast;
    struct err e = ERR_INIT;

    r->pooled = true;
    r->step = REQ_RUNNING;
    MHD_suspend_connection(r->connection);
    if (pool_add(p, r->identity.principal, run_pooled, r, &e) == 0)
        return MHD_YES;
    problem_answer(r, &e);
    MHD_resume_connection(r->connection); /* the next call replies */
    return MHD_YES;
}

static enum MHD_Result run_inline(struct http_request *r)
{
    switch (run_handler(r)) {
    case HANDLER_WAIT:
        return MHD_YES;
    case HANDLER_POOL:
        return start_pooled(r);
    default:
        return reply(r);
    }
}

static enum MHD_Result run(struct http_request *r)
{
    if (r->pooled || (r->route->flags & ROUTE_INLINE) == 0)
        return start_pooled(r);
    return run_inline(r);
}

bool server_sleep(struct http_request *r)
{
    if (atomic_load(&r->server->stopping))
        return false;
    r->step = REQ_WAITING;
    if (!r->pooled) /* a pooled request's connection sleeps already */
        MHD_suspend_connection(r->connection);
    return true;
}

void server_wake(struct http_request *r)
{
    MHD_resume_connection(r->connection);
}

int server_stream_size(struct http_request *r, int64_t size, struct err *e)
{
    r->stream = stream_new(r->connection, &r->server->stopping);
    if (r->stream == NULL)
        return err_nomem(e);
    r->stream_size = (uint64_t)size;
    return 0;
}

int server_stream(struct http_request *r, int64_t size, struct err *e)
{
    if (server_stream_size(r, size, e) < 0)
        return -1;
    atomic_fetch_add(&r->refs, 1);
    MHD_resume_connection(r->connection); /* replies, and reads the stream */
    return 0;
}

static enum MHD_Result dispatch(struct http_request *r)
{
    char allow[64];
    struct err e = ERR_INIT;
    int rc = 0;

    if (request_parse_target(r, &e) < 0)
        return refuse(r, &e, false);
    if (route_find(r, allow, sizeof(allow), &e) < 0) {
        if (allow[0] != '\0')
            answer_header(r, "Allow", allow, NULL);
        return refuse(r, &e, false);
    }
    if ((r->route->flags & ROUTE_OPEN) == 0)
        rc = identify(r, false, &e);
    if (rc < 0)
        return refuse(r, &e, false);
    return rc == IDENTITY_LATER ? start_pooled(r) : run(r);
}

/* ---- libmicrohttpd's callbacks ---------------------------------------- */

/* The raw target, before any decoding: MHD's `url` argument is cut at %00. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct listener *l = cls;
    struct http_request *r = request_new(l->server);

    if (r == NULL)
        return NULL;
    r->listener = l->kind;
    r->connection = c;
    r->target = strdup(uri);
    if (r->target == NULL) {
        request_unref(r);
        return NULL;
    }
    atomic_fetch_add(&l->server->requests, 1);
    return r;
}

static size_t keep_escapes(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls;
    (void)c;
    return strlen(s);
}

static void set_client(struct http_request *r)
{
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(
        r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pid_t pid;
    gid_t gid;

    if (r->listener == LISTENER_LOOPBACK) {
        snprintf(r->client, sizeof(r->client), "loopback");
        return;
    }
    if (fd == NULL ||
        wire_peer(fd->connect_fd, &pid, &r->peer_uid, &gid, NULL) < 0)
        r->peer_uid = (uid_t)-1;
    snprintf(r->client, sizeof(r->client), "uid:%ld", (long)r->peer_uid);
}

static enum MHD_Result on_headers(struct http_request *r, const char *method)
{
    struct err e = ERR_INIT;
    int64_t cap = r->server->service->config->limits.body_bytes;

    r->method = strdup(method);
    if (r->method == NULL)
        return MHD_NO;
    set_client(r);
    r->step = REQ_READING;
    if (gate_check(r, r->server->port, cap, &e) < 0)
        return refuse(r, &e, true);
    return MHD_YES;
}

static enum MHD_Result on_body(struct http_request *r, const char *p, size_t *n)
{
    if (buf_add(&r->body, p, *n) < 0)
        return MHD_NO;
    *n = 0;
    return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c,
                                  const char *url, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct http_request *r = *state;

    (void)cls;
    (void)c;
    (void)url;
    (void)version;
    if (r == NULL)
        return MHD_NO;
    switch (r->step) {
    case REQ_NEW:
        return on_headers(r, method);
    case REQ_READING:
        return *upload_size > 0 ? on_body(r, upload, upload_size) : dispatch(r);
    case REQ_RUNNING:
        return reply(r);
    case REQ_WAITING:
        return run(r);
    case REQ_DONE:
        break;
    }
    return MHD_NO;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct http_request *r = *state;

    (void)cls;
    (void)c;
    (void)why;
    *state = NULL;
    if (r == NULL)
        return;
    if (r->stream != NULL)
        stream_reader_gone(r->stream);
    atomic_fetch_sub(&r->server->requests, 1);
    request_unref(r);
}

/* ---- start and stop --------------------------------------------------- */

static int start_daemon(struct listener *l, int fd, struct err *e)
{
    const struct config *c = l->server->service->config;
    unsigned per_peer = l->kind == LISTENER_LOOPBACK
                            ? (unsigned)c->limits.connections_per_peer
                            : 0;

    l->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC,
        0, NULL, NULL, on_request, l, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, l, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)c->limits.connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, per_peer,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (l->daemon != NULL)
        return 0;
    close(fd);
    return err_set(e, ERR_CONFIG, "listen_failed",
                   "libmicrohttpd did not start");
}

/* "127.0.0.1:8080": loopback addresses only (bearer tokens only). */
static int parse_loopback(const char *text, struct sockaddr_in *a,
                          struct err *e)
{
    const char *colon = strrchr(text, ':');
    int64_t port;

    memset(a, 0, sizeof(*a));
    a->sin_family = AF_INET;
    if (colon != NULL && strncmp(text, "127.0.0.1:", 10) == 0 &&
        num_parse(colon + 1, 1, 65535, &port) == 0) {
        a->sin_port = htons((uint16_t)port);
        a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return 0;
    }
    return err_set(e, ERR_CONFIG, "listen_loopback",
                   "listen.loopback must be 127.0.0.1:PORT");
}

static int listen_loopback(struct server *s, const char *text, struct err *e)
{
    struct sockaddr_in a;
    int one = 1, fd;

    if (parse_loopback(text, &a, e) < 0)
        return -1;
    s->port = ntohs(a.sin_port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "listen_failed", "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0) {
        int sys = errno;

        close(fd);
        return err_sys(e, ERR_CONFIG, sys, "listen_in_use", "%s", text);
    }
    return fd;
}

static int start_listeners(struct server *s, struct err *e)
{
    const struct config *c = s->service->config;
    int fd;

    s->loopback = (struct listener){s, LISTENER_LOOPBACK, NULL};
    s->local = (struct listener){s, LISTENER_LOCAL, NULL};
    if (c->listen.loopback != NULL) {
        fd = listen_loopback(s, c->listen.loopback, e);
        if (fd < 0 || start_daemon(&s->loopback, fd, e) < 0)
            return -1;
    }
    if (c->listen.local != NULL) {
        /* 0666: who connects is known by SO_PEERCRED. */
        fd = wire_listen(c->listen.local, SOCK_STREAM, 0666, e);
        if (fd < 0 || start_daemon(&s->local, fd, e) < 0)
            return -1;
    }
    return 0;
}

int server_start(struct service *service, struct server **out, struct err *e)
{
    struct server *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return err_nomem(e);
    s->service = service;
    s->have_key = pthread_key_create(&s->reader, close_reader) == 0;
    if (!s->have_key) {
        server_stop(s);
        return err_nomem(e);
    }
    if (pool_new(FAST_THREADS, FAST_QUEUE, &s->fast, e) < 0 ||
        pool_new(SLOW_THREADS, SLOW_QUEUE, &s->slow, e) < 0 ||
        start_listeners(s, e) < 0) {
        server_stop(s);
        return -1;
    }
    *out = s;
    return 0;
}

static void quiesce(struct listener *l)
{
    MHD_socket fd = MHD_INVALID_SOCKET;

    if (l->daemon != NULL)
        fd = MHD_quiesce_daemon(l->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

/* Until every request is completed; one whose client doesn't go on is not
 * waited for. */
static void await_quiet(struct server *s)
{
    static const struct timespec tick = {0, 5 * 1000000};
    int64_t until = clock_mono_ms() + QUIET_MS;

    while (atomic_load(&s->requests) > 0 && clock_left_ms(until) > 0)
        nanosleep(&tick, NULL);
}

void server_stop(struct server *s)
{
    if (s == NULL)
        return;
    atomic_store(&s->stopping, true); /* nobody goes to sleep any more */
    quiesce(&s->loopback);
    quiesce(&s->local);
    waiters_wake_all(s->service->waiters);
    await_quiet(s);     /* some of them go through the pool again */
    pool_stop(s->fast); /* what is in flight finishes, then is answered */
    pool_stop(s->slow);
    await_quiet(s);
    if (s->loopback.daemon != NULL)
        MHD_stop_daemon(s->loopback.daemon);
    if (s->local.daemon != NULL)
        MHD_stop_daemon(s->local.daemon);
    pool_free(s->fast); /* not before: the HTTP threads add to them */
    pool_free(s->slow);
    if (s->have_key)
        pthread_key_delete(s->reader);
    free(s);
}
