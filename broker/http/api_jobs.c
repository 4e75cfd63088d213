/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * /v1/jobs: submit, list, get with ?wait=, script, attempts, cancel, hold,
 * release.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "broker/http/api.h"
#include "broker/jobs/access.h"
#include "broker/jobs/pipeline.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_SECONDS_MAX = 60 };

/* ---- submit ----------------------------------------------------------- */

static int answer_submit(struct http_request *r, const struct submit_answer *a,
                         struct err *e)
{
    char location[64];

    buf_reset(&r->out);
    buf_add(&r->out, a->body, a->body_len);
    if (a->replayed && answer_header(r, "Idempotency-Replayed", "true", e) < 0)
        return -1;
    if (a->job[0] != '\0') {
        snprintf(location, sizeof(location), "/v1/jobs/%s", a->job);
        if (answer_header(r, "Location", location, e) < 0)
            return -1;
    }
    return buf_ok(&r->out) ? api_answer_text(r, (unsigned)a->status)
                           : err_nomem(e);
}

static int query_dry_run(const struct http_request *r, bool *out, struct err *e)
{
    static const char *const names[] = {"dry_run", NULL};
    const char *v = request_query(r, "dry_run");

    if (request_query_only(r, names, e) < 0)
        return -1;
    *out = v != NULL && strcmp(v, "true") == 0;
    if (v == NULL || *out || strcmp(v, "false") == 0)
        return 0;
    return err_set(e, ERR_INVALID, "query_invalid",
                   "dry_run must be true or false");
}

/* The parser's copies of them; the request wipes its own body. */
static void wipe_secrets(json_t *body)
{
    json_t *secrets = json_object_get(body, "secrets"), *v;
    const char *name;

    json_object_foreach(secrets, name, v)
    {
        if (json_is_string(v))
            explicit_bzero((char *)(uintptr_t)json_string_value(v),
                           json_string_length(v));
    }
}

int api_submit(struct http_request *r, struct err *e)
{
    struct submit_answer answer = {0};
    struct submit_request ask = {.who = &r->identity, .request = r->id};
    struct service *service = server_service(r->server);
    struct db *reader = server_reader(r->server, e);
    json_t *body = NULL;
    int rc = -1;

    if (reader == NULL || query_dry_run(r, &ask.dry_run, e) < 0)
        return -1;
    body = json_parse(r->body.data == NULL ? "" : r->body.data, r->body.len,
                      r->body.max, e);
    if (body == NULL)
        return -1;
    ask.body = body;
    ask.idempotency_key = request_header(r, "Idempotency-Key");
    r->refusal_noted = true;
    if (pipeline_submit(service, reader, &ask, &answer, e) == 0)
        rc = answer_submit(r, &answer, e);
    else if (answer.replayed)
        answer_header(r, "Idempotency-Replayed", "true", NULL);
    submit_answer_clear(&answer);
    wipe_secrets(body);
    json_decref(body);
    return rc;
}

/* ---- list ------------------------------------------------------------- */

static int query_seconds(const struct http_request *r, const char *name,
                         int64_t *out, struct err *e)
{
    const char *text = request_query(r, name);

    if (text == NULL || clock_parse(text, out) == 0)
        return 0;
    return err_set(e, ERR_INVALID, "query_invalid",
                   "%s must be a time like 2026-11-30T10:00:00Z", name);
}

/* label=key:value or label=key%3Dvalue, or label=key. Neither sign can stand in
 * a key. */
static void query_label(struct http_request *r, struct job_filter *f)
{
    char *text = NULL, *colon;

    for (size_t i = 0; i < r->nquery; i++) {
        if (strcmp(r->query[i].name, "label") == 0)
            text = r->query[i].value;
    }
    if (text == NULL)
        return;
    colon = strpbrk(text, ":=");
    if (colon != NULL)
        *colon = '\0';
    f->label_key = text;
    f->label_value = colon == NULL ? NULL : colon + 1;
}

int api_jobs(struct http_request *r, struct err *e)
{
    static const char *const names[] = {"state", "workflow", "owner",
                                        "label", "since",    "until",
                                        "limit", "cursor",   NULL};
    struct job_filter f = {0};
    struct ask a;
    int64_t limit = 50;

    if (!r->pooled && identity_has(&r->identity, ACCESS_READ_ALL))
        return HANDLER_POOL; /* others' jobs: an audit commit comes first */
    if (request_query_only(r, names, e) < 0 ||
        request_query_int(r, "limit", 1, STORE_LIST_MAX, &limit, e) < 0 ||
        query_seconds(r, "since", &f.since, e) < 0 ||
        query_seconds(r, "until", &f.until, e) < 0 || api_ask(r, &a, e) < 0)
        return -1;
    f.state = request_query(r, "state");
    f.workflow = request_query(r, "workflow");
    f.owner = request_query(r, "owner");
    f.limit = (int)limit;
    query_label(r, &f);
    if (jobs_list_text(&a, &f, request_query(r, "cursor"), &r->out, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}

/* ---- get, with long poll ---------------------------------------------- */

static void on_change(void *arg, bool changed)
{
    (void)changed;
    server_wake(arg);
}

/* "<version>.<observed>.<stale>" in quotes: the version. -1: not ours. */
static int64_t etag_version(const char *etag)
{
    char text[24];
    size_t n;
    int64_t v;

    if (etag[0] != '"')
        return -1;
    n = strcspn(etag + 1, ".");
    if (n >= sizeof(text))
        return -1;
    memcpy(text, etag + 1, n);
    text[n] = '\0';
    return num_parse(text, 0, INT64_MAX, &v) == 0 ? v : -1;
}

/* Should this answer wait? Only while the client already has this version: it
 * named it in If-None-Match, or it asked without one (then: the next change).
 */
static bool should_wait(struct http_request *r, const struct doc_version *v,
                        int64_t wait_seconds)
{
    const char *have = request_header(r, "If-None-Match");

    if (wait_seconds == 0 || v->final)
        return false;
    if (r->wait_until_ms == 0) {
        r->wait_until_ms = clock_mono_ms() + wait_seconds * 1000;
        r->seen_version = have == NULL ? v->version : etag_version(have);
    }
    return v->version == r->seen_version && clock_left_ms(r->wait_until_ms) > 0;
}

/* HANDLER_WAIT: api_job runs again when the version passes v or the time is
 * over. 0: answer now. */
static int sleep_until_changed(struct http_request *r, const struct ask *a,
                               const struct doc_version *v)
{
    char ulid[ULID_LEN + 1];
    int rc;

    if (id_job_parse(r->args[0], ulid) < 0 || !server_sleep(r))
        return 0;
    rc = waiters_register(a->service->waiters, a->reader, ulid, v->version,
                          r->wait_until_ms, on_change, r, NULL);
    if (rc < 0)
        r->wait_until_ms = 1; /* no room to wait: answered as it is now */
    if (rc != 0)
        server_wake(r); /* else it may be another thread's already */
    return HANDLER_WAIT;
}

static int answer_job(struct http_request *r, const struct doc_version *v,
                      struct err *e)
{
    const char *have = request_header(r, "If-None-Match");
    char etag[DOC_ETAG_MAX];

    doc_etag(v, etag);
    if (api_etag(r, v, e) < 0)
        return -1;
    if (have == NULL || strcmp(have, etag) != 0)
        return api_answer_text(r, 200);
    buf_reset(&r->out);
    r->status = 304;
    return 0;
}

int api_job(struct http_request *r, struct err *e)
{
    static const char *const names[] = {"wait", NULL};
    struct doc_version v = {0};
    struct ask a;
    int64_t wait = 0;

    if (request_query_only(r, names, e) < 0 ||
        request_query_int(r, "wait", 0, WAIT_SECONDS_MAX, &wait, e) < 0 ||
        api_ask(r, &a, e) < 0)
        return -1;
    if (!r->pooled && jobs_read_is_foreign(&a, r->args[0]))
        return HANDLER_POOL;
    buf_reset(&r->out);
    if (jobs_get_text(&a, r->args[0], &r->out, &v, e) < 0)
        return -1;
    r->read_noted = true; /* each wake comes by here again */
    if (should_wait(r, &v, wait) && sleep_until_changed(r, &a, &v) != 0)
        return HANDLER_WAIT;
    return answer_job(r, &v, e);
}

int api_attempts(struct http_request *r, struct err *e)
{
    struct ask a;

    if (api_ask(r, &a, e) < 0)
        return -1;
    if (!r->pooled && jobs_read_is_foreign(&a, r->args[0]))
        return HANDLER_POOL;
    if (jobs_attempts_text(&a, r->args[0], &r->out, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}

/* ---- acts ------------------------------------------------------------- */

static int act(struct http_request *r, enum job_act what, struct err *e)
{
    struct doc_version v = {0};
    struct ask a;

    if (api_ask(r, &a, e) < 0)
        return -1;
    r->refusal_noted = true;
    if (jobs_act(&a, what, r->args[0], &r->out, &v, e) < 0)
        return -1;
    if (v.version > 0 && api_etag(r, &v, e) < 0)
        return -1;
    return api_answer_text(r, 200);
}

int api_cancel(struct http_request *r, struct err *e)
{
    return act(r, ACT_CANCEL, e);
}

int api_hold(struct http_request *r, struct err *e)
{
    return act(r, ACT_HOLD, e);
}

int api_release(struct http_request *r, struct err *e)
{
    return act(r, ACT_RELEASE, e);
}

int api_script(struct http_request *r, struct err *e)
{
    struct ask a;

    if (api_ask(r, &a, e) < 0 || jobs_script(&a, r->args[0], &r->out, e) < 0)
        return -1;
    r->status = 200;
    r->content_type = "text/x-shellscript; charset=utf-8";
    return 0;
}
