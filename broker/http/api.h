/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the handlers share.
 */
#ifndef BROKER_HTTP_API_H
#define BROKER_HTTP_API_H

#include "base/err.h"
#include "broker/http/request.h"
#include "broker/http/route.h"
#include "broker/http/server.h"
#include "broker/jobs/actions.h"

/* The context of broker/jobs/actions.h for this request. */
int api_ask(struct http_request *r, struct ask *out, struct err *e);
/* r->out is the answer, JSON as the jobs' functions wrote it. */
int api_answer_text(struct http_request *r, unsigned status);
int api_etag(struct http_request *r, const struct doc_version *v,
             struct err *e);

#endif
