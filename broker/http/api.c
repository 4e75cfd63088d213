/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/api.h"

int api_ask(struct http_request *r, struct ask *out, struct err *e)
{
    *out = (struct ask){.service = server_service(r->server),
                        .reader = server_reader(r->server, e),
                        .who = &r->identity,
                        .request = r->id,
                        .noted = r->read_noted};
    return out->reader == NULL ? -1 : 0;
}

int api_answer_text(struct http_request *r, unsigned status)
{
    r->status = status;
    r->content_type = "application/json";
    return 0;
}

int api_etag(struct http_request *r, const struct doc_version *v, struct err *e)
{
    char etag[DOC_ETAG_MAX];

    doc_etag(v, etag);
    return answer_header(r, "ETag", etag, e);
}
