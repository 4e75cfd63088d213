/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/identify.h"

#include "broker/http/server.h"

#include <string.h>
#include <strings.h>

static int by_token(struct http_request *r, const char *header, struct err *e)
{
    const char *text;

    if (strncasecmp(header, "Bearer ", strlen("Bearer ")) != 0)
        return err_set(e, ERR_UNAUTHENTIC, "token_missing",
                       "the Authorization header is not a bearer token");
    text = header + strlen("Bearer ");
    return identity_by_token(server_service(r->server), text, strlen(text),
                             r->client, &r->identity, e);
}

static int by_uid(struct http_request *r, struct err *e)
{
    const char *mark = request_header(r, "X-Sluice");

    if (request_header(r, "Sec-Fetch-Site") == NULL &&
        (mark == NULL || strcmp(mark, "1") != 0))
        return err_set(e, ERR_DENIED, "browser_header",
                       "a request without a token must carry X-Sluice: 1");
    return identity_by_uid(server_service(r->server), r->peer_uid, &r->identity,
                           e);
}

int identify(struct http_request *r, struct err *e)
{
    const char *header = request_header(r, "Authorization");
    int rc;

    identity_init(&r->identity);
    if (header != NULL)
        rc = by_token(r, header, e);
    else if (r->listener == LISTENER_LOCAL && r->peer_uid != (uid_t)-1)
        rc = by_uid(r, e);
    else
        rc = err_set(e, ERR_UNAUTHENTIC, "token_missing",
                     "a bearer token is needed");
    r->identified = rc == 0;
    return rc;
}

void identify_note_refusal(const struct http_request *r, const struct err *e)
{
    if (!r->identified)
        service_refused(server_service(r->server), r->client, e->code);
}
