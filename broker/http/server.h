/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The HTTP server: two libmicrohttpd daemons (loopback TCP, local.sock) with
 * one event thread each, and two lanes of pool threads for requests that wait.
 * The event threads run the gate, identification and reads of SQLite; they
 * never wait on Slurm, on the spawner or on a disk that may hang.
 */
#ifndef BROKER_HTTP_SERVER_H
#define BROKER_HTTP_SERVER_H

#include "base/db.h"
#include "base/err.h"
#include "broker/http/request.h"
#include "broker/jobs/service.h"

#include <stdbool.h>
#include <stdint.h>

struct server;

/* Listens at config's `listen`; a loopback port that is taken is ERR_CONFIG
 * listen_in_use. The service is borrowed and must outlive the server. */
int server_start(struct service *service, struct server **out, struct err *e);
/* No new connections; requests in flight are answered, streams are cut after
 * STREAM_STOP_MS; then ends. */
void server_stop(struct server *s);

struct service *server_service(struct server *s);
/* This thread's own reading connection, opened at first use. Borrowed. */
struct db *server_reader(struct server *s, struct err *e);

/* What a handler may return beside 0 and -1. */
enum handler_later {
    HANDLER_WAIT = 1, /* server_sleep() was true; server_wake() will come */
    HANDLER_POOL,     /* run me again on a pool thread (r->pooled is set) */
    HANDLER_STREAMING /* server_stream() took over; the body was added */
};

/* The connection sleeps until server_wake(r), from any thread; then the
 * handler runs again. False while the server stops: answer now. */
bool server_sleep(struct http_request *r);
void server_wake(struct http_request *r);

/* From a pool thread: r's answer (status, headers) goes out now, its body of
 * `size` bytes follows through r->stream, which the caller feeds and ends. The
 * caller holds a reference to r after success: request_unref. */
int server_stream(struct http_request *r, int64_t size, struct err *e);
/* For HEAD: the answer only says that its body would have `size` bytes. */
int server_stream_size(struct http_request *r, int64_t size, struct err *e);

#endif
