/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/problem.h"

#include "base/json.h"
#include "broker/jobs/messages.h"

#include <stdlib.h>
#include <string.h>

static const unsigned by_class[] = {
    [ERR_NONE] = 500,      [ERR_INVALID] = 400,     [ERR_UNAUTHENTIC] = 401,
    [ERR_DENIED] = 403,    [ERR_NOT_FOUND] = 404,   [ERR_CONFLICT] = 409,
    [ERR_TOO_LARGE] = 413, [ERR_UNSUPPORTED] = 415, [ERR_LIMITED] = 429,
    [ERR_SLURM] = 422,     [ERR_UNAVAILABLE] = 503, [ERR_UNKNOWN] = 503,
    [ERR_CONFIG] = 500,    [ERR_INTERNAL] = 500};

static const struct {
    const char *code;
    unsigned status;
} by_code[] = {
    {"http_chunked", 411},
    {"method_not_allowed", 405},
    {"http_method", 501},
    {"http_host", 421},
    {"http_target_too_long", 414},
    {"range_not_satisfiable", 416},
    {"idempotency_key_reused", 422},
};

/* A prefix of codes that means: understood, and its values are wrong. */
static const char *const unprocessable[] = {"param_", "secret_", "path_",
                                            "workflow_"};

static unsigned status_of(const struct err *e)
{
    for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++) {
        if (strcmp(by_code[i].code, e->code) == 0)
            return by_code[i].status;
    }
    for (size_t i = 0; e->class == ERR_INVALID &&
                       i < sizeof(unprocessable) / sizeof(unprocessable[0]);
         i++) {
        if (strncmp(e->code, unprocessable[i], strlen(unprocessable[i])) == 0)
            return 422;
    }
    return by_class[e->class];
}

static bool wants_chinese(const struct http_request *r)
{
    const char *v = request_header(r, "Accept-Language");

    return v != NULL && strncmp(v, "zh", 2) == 0;
}

static const char *title_of(const struct err *e, bool chinese)
{
    const struct message *m = message_find(e->code);

    if (m == NULL)
        m = message_find(err_class_name(e->class));
    if (m == NULL)
        return err_class_name(e->class);
    return chinese ? m->zh : m->en;
}

static json_t *slurm_member(const struct err *e)
{
    json_t *o = json_object();
    int bad = json_put_int(o, "errno", e->sys) |
              json_put_str(o, "name", e->code) |
              json_put_str(o, "message", e->text);

    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *errors_member(const struct err *e)
{
    json_t *a = json_array();
    json_t *o = json_object();
    int bad = json_put_str(o, "pointer", e->pointer) |
              json_put_str(o, "code", e->code) |
              json_put_str(o, "detail", e->text);

    if (bad == 0 && json_array_append_new(a, o) == 0)
        return a;
    json_decref(a);
    return NULL;
}

static json_t *document(const struct http_request *r, const struct err *e,
                        unsigned status)
{
    json_t *o = json_object();
    int bad =
        json_put_str(o, "type", "about:blank") |
        json_put_str(o, "title", title_of(e, wants_chinese(r))) |
        json_put_int(o, "status", status) | json_put_str(o, "detail", e->text) |
        json_put_str(o, "code", e->code) | json_put_str(o, "request_id", r->id);

    if (e->pointer[0] != '\0')
        bad |= json_put(o, "errors", errors_member(e));
    if (e->class == ERR_SLURM)
        bad |= json_put(o, "slurm", slurm_member(e));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static void add_headers(struct http_request *r, unsigned status)
{
    if (status == 401)
        answer_header(r, "WWW-Authenticate", "Bearer realm=\"sluice\"", NULL);
    if (status == 409 || status == 429 || status == 503)
        answer_header(r, "Retry-After", "2", NULL);
    if (wants_chinese(r))
        answer_header(r, "Content-Language", "zh", NULL);
}

void problem_answer(struct http_request *r, const struct err *e)
{
    unsigned status = status_of(e);

    if (answer_json(r, status, document(r, e, status), NULL) < 0) {
        buf_reset(&r->out);
        buf_puts(&r->out, "{\"status\":500,\"code\":\"no_memory\"}\n");
        r->status = 500;
    }
    r->content_type = "application/problem+json";
    add_headers(r, status);
}
