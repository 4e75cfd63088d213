/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * /v1/audit and /v1/usage.
 */
#include "base/clock.h"
#include "broker/http/api.h"

#include <string.h>

/* RFC 3339 query parameter to Unix milliseconds; absent: untouched. */
static int query_time_ms(const struct http_request *r, const char *name,
                         int64_t *out, struct err *e)
{
    const char *text = request_query(r, name);
    int64_t t;

    if (text == NULL)
        return 0;
    if (clock_parse(text, &t) < 0)
        return err_set(e, ERR_INVALID, "query_invalid",
                       "%s must be a time like 2026-11-30T10:00:00Z", name);
    *out = t * 1000;
    return 0;
}

static bool asks_all(const struct http_request *r)
{
    const char *all = request_query(r, "all");

    return all != NULL && strcmp(all, "true") == 0;
}

int api_audit(struct http_request *r, struct err *e)
{
    static const char *const names[] = {"job",    "since", "until", "limit",
                                        "cursor", "all",   NULL};
    struct audit_query q = {.limit = 100};
    struct ask a;
    int64_t limit = 100;

    if (request_query_only(r, names, e) < 0 ||
        request_query_int(r, "limit", 1, AUDIT_LIST_MAX, &limit, e) < 0 ||
        query_time_ms(r, "since", &q.since_ms, e) < 0 ||
        query_time_ms(r, "until", &q.until_ms, e) < 0 || api_ask(r, &a, e) < 0)
        return -1;
    q.limit = (int)limit;
    q.job_id = request_query(r, "job");
    q.cursor = request_query(r, "cursor");
    q.all = asks_all(r);
    r->refusal_noted = true;
    if (jobs_audit_text(&a, &q, &r->out, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}

int api_usage(struct http_request *r, struct err *e)
{
    static const char *const names[] = {"all",   "since",  "until",
                                        "limit", "cursor", NULL};
    struct usage_query q = {.all = asks_all(r)};
    int64_t limit = USAGE_LIST_MAX;
    struct ask a;

    if (!r->pooled && q.all)
        return HANDLER_POOL; /* others' figures: an audit commit comes first */
    if (request_query_only(r, names, e) < 0 ||
        request_query_int(r, "limit", 1, USAGE_LIST_MAX, &limit, e) < 0 ||
        api_ask(r, &a, e) < 0)
        return -1;
    q.since = request_query(r, "since");
    q.until = request_query(r, "until");
    q.cursor = request_query(r, "cursor");
    q.limit = (int)limit;
    r->refusal_noted = true;
    if (jobs_usage_text(&a, &q, &r->out, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}
