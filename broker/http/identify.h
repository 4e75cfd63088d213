/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who asks. On loopback TCP only a bearer token (RFC 6750) proves anything; on
 * local.sock the peer's uid does too (SO_PEERCRED), for a researcher.
 */
#ifndef BROKER_HTTP_IDENTIFY_H
#define BROKER_HTTP_IDENTIFY_H

#include "base/err.h"
#include "broker/http/request.h"

#include <stdbool.h>

/* Fills r->identity. IDENTITY_LATER: it would have to wait, and may_wait is
 * false: ask again on a pool thread. ERR_UNAUTHENTIC token_missing and those of
 * broker/jobs/identity.h; ERR_DENIED browser_header (a request whose identity
 * is ambient must say that no foreign page made it). */
int identify(struct http_request *r, bool may_wait, struct err *e);

/* Would noting this refusal wait for a commit (then: on a pool thread)? */
bool identify_refusal_waits(const struct http_request *r, const struct err *e);
/* Before an identity was known: counted (a row a minute in the audit). With
 * one: a row of its own, unless whoever refused wrote it (r->refusal_noted). */
void identify_note_refusal(const struct http_request *r, const struct err *e);

#endif
