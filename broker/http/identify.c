/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/identify.h"

#include "broker/http/route.h"
#include "broker/http/server.h"
#include "broker/jobs/access.h"

#include <string.h>
#include <strings.h>

static int by_token(struct http_request *r, const char *header, bool may_wait,
                    struct err *e)
{
    const char *text;

    if (strncasecmp(header, "Bearer ", strlen("Bearer ")) != 0)
        return err_set(e, ERR_UNAUTHENTIC, "token_missing",
                       "the Authorization header is not a bearer token");
    text = header + strlen("Bearer ");
    return identity_by_token(server_service(r->server), text, strlen(text),
                             r->client, may_wait, &r->identity, e);
}

static int by_uid(struct http_request *r, bool may_wait, struct err *e)
{
    const char *mark = request_header(r, "X-Sluice");

    if (request_header(r, "Sec-Fetch-Site") == NULL &&
        (mark == NULL || strcmp(mark, "1") != 0))
        return err_set(e, ERR_DENIED, "browser_header",
                       "a request without a token must carry X-Sluice: 1");
    return identity_by_uid(server_service(r->server), r->peer_uid, may_wait,
                           &r->identity, e);
}

int identify(struct http_request *r, bool may_wait, struct err *e)
{
    const char *header = request_header(r, "Authorization");
    int rc;

    identity_init(&r->identity);
    if (header != NULL)
        rc = by_token(r, header, may_wait, e);
    else if (r->listener == LISTENER_LOCAL && r->peer_uid != (uid_t)-1)
        rc = by_uid(r, may_wait, e);
    else
        rc = err_set(e, ERR_UNAUTHENTIC, "token_missing",
                     "a bearer token is needed");
    r->identified = rc == 0;
    return rc;
}

/* What a reader may not do or see is a decision; that a file isn't there, or a
 * query malformed, is none. Of a POST every no is one. */
static bool leaves_row(const struct http_request *r, const struct err *e)
{
    if (r->route == NULL || r->route->action == NULL)
        return false;
    if (strcmp(r->method, "POST") == 0)
        return access_is_refusal(e);
    return e->class == ERR_DENIED || e->class == ERR_UNAUTHENTIC ||
           strcmp(e->code, "job_not_found") == 0 ||
           strcmp(e->code, "workflow_not_found") == 0;
}

bool identify_refusal_waits(const struct http_request *r, const struct err *e)
{
    return r->identified && !r->refusal_noted && leaves_row(r, e);
}

void identify_note_refusal(const struct http_request *r, const struct err *e)
{
    const struct ask a = {.service = server_service(r->server),
                          .who = &r->identity,
                          .request = r->id};
    char ulid[ULID_LEN + 1];
    bool job;

    if (!r->identified) {
        service_refused(a.service, r->client, e->code);
        return;
    }
    if (!identify_refusal_waits(r, e))
        return;
    job = r->args[0] != NULL && id_job_parse(r->args[0], ulid) == 0;
    access_note_refusal(&a, r->route->action, job ? ulid : NULL, e);
}
