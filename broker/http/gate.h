/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What is refused before a byte of a body is read: in libmicrohttpd's first
 * call for a request, where a queued answer with "Connection: close" ends the
 * connection, so that nothing behind a doubtful request is parsed.
 * libmicrohttpd 0.9.75 returns the first of two equal headers, decodes %2f and
 * cuts at %00, and lets chunked win over Content-Length: so the raw target and
 * all header lines are looked at here.
 */
#ifndef BROKER_HTTP_GATE_H
#define BROKER_HTTP_GATE_H

#include "base/err.h"
#include "broker/http/request.h"

/* 0, or -1 with e. Codes: http_target http_header_twice http_length
 * http_chunked http_too_large http_host http_origin http_identity_header
 * http_content_type http_method. port: of the loopback listener, for Host. */
int gate_check(const struct http_request *r, int port, int64_t body_bytes,
               struct err *e);

#endif
