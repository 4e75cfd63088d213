/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Errors as RFC 9457 application/problem+json: one table from error class to
 * HTTP status, one for the codes that need another; titles in English or
 * Chinese (Accept-Language) from broker/jobs/messages.
 */
#ifndef BROKER_HTTP_PROBLEM_H
#define BROKER_HTTP_PROBLEM_H

#include "base/err.h"
#include "broker/http/request.h"

/* Make the request's answer from an error. Never fails: with no memory it is a
 * fixed text. Sets WWW-Authenticate (401), Retry-After (409, 429, 503). */
void problem_answer(struct http_request *r, const struct err *e);

#endif
