/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who asks. On loopback TCP only a bearer token (RFC 6750) proves anything; on
 * local.sock the peer's uid does too (SO_PEERCRED), for a researcher.
 */
#ifndef BROKER_HTTP_IDENTIFY_H
#define BROKER_HTTP_IDENTIFY_H

#include "base/err.h"
#include "broker/http/request.h"

/* Fills r->identity. ERR_UNAUTHENTIC token_missing and those of
 * broker/jobs/identity.h; ERR_DENIED browser_header (a request whose identity
 * is ambient must say that no foreign page made it). */
int identify(struct http_request *r, struct err *e);

/* Count a refusal that came before an identity was known (a row a minute in
 * the audit). With an identity it does nothing: the step that refused wrote
 * its own row. */
void identify_note_refusal(const struct http_request *r, const struct err *e);

#endif
