/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * plan and submit: the allowlist once more, the script, the description, and
 * then either a question or the one call that makes a job.
 */
#include "broker/slurm/verbs.h"

#include "base/buf.h"
#include "base/crypto.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/desc.h"
#include "broker/slurm/errors.h"
#include "broker/slurm/lib.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 1000 };

struct order { /* one request, made ready for Slurm */
    struct worker_work work;
    struct buf script;
    char digest[SHA256_HEX_LEN + 1];
    char *account, *qos;
    struct desc desc;
};

static void order_init(struct order *o)
{
    memset(o, 0, sizeof(*o));
    buf_init(&o->script, RENDER_SCRIPT_MAX);
}

static void order_clear(struct order *o)
{
    desc_clear(&o->desc);
    free(o->account);
    free(o->qos);
    buf_clear(&o->script);
    worker_work_clear(&o->work);
}

static int read_args(const struct worker_request *r, bool *has_sidecar,
                     struct err *e)
{
    static const char *const keys[] = {"workflow", "params", "has_sidecar",
                                       NULL};

    if (json_only(r->args, keys, "/args", e) != 0)
        return -1;
    return json_get_bool(r->args, "has_sidecar", true, has_sidecar, "/args", e);
}

static int choose_account(struct order *o, struct slurm_context *c,
                          const struct worker_request *r, struct err *e)
{
    const struct limits *l = &o->work.limits;
    const char *account =
        l->account != NULL ? l->account : r->person.slurm_account;
    const char *qos = l->qos != NULL ? l->qos : r->person.qos;

    bool by_map = l->account == NULL && l->qos == NULL && account != NULL;

    (void)snprintf(c->account, sizeof(c->account), "%s", r->person.account);
    return assoc_resolve(&c->assoc, r->person.account, account, qos, by_map,
                         &o->account, &o->qos, e);
}

void slurm_answered(void *context)
{
    struct slurm_context *c = context;

    if (c->account[0] != '\0')
        assoc_refresh(&c->assoc, c->account);
}

/* The script is rendered from the workflow's own limits, so that everybody who
 * renders the same generation gets the same bytes. */
static int order_make(struct order *o, struct slurm_context *c,
                      const struct worker_request *r, struct err *e)
{
    bool has_sidecar;

    if (read_args(r, &has_sidecar, e) != 0 ||
        worker_work_init(&o->work, c->generation, c->site, r, has_sidecar, e) !=
            0 ||
        lib_init(e) != 0 || choose_account(o, c, r, e) != 0 ||
        render_script(c->generation->templates_fd, o->work.workflow,
                      &o->work.limits, &o->work.job, &o->script, e) != 0 ||
        crypto_sha256_hex(o->script.data, o->script.len, o->digest, e) != 0)
        return -1;
    return desc_fill(&o->desc, &o->work, o->script.data, o->account, o->qos, e);
}

/* The effective limits: with the account and QOS that are sent. */
static int put_limits(const struct order *o, json_t *result, struct err *e)
{
    json_t *limits = limits_json(&o->work.limits);
    int bad = json_put_str(limits, "account", o->account);

    bad |= json_put_str(limits, "qos", o->qos);
    bad |= json_put(result, "limits", limits);
    bad |= json_put_str(result, "script_sha256", o->digest);
    return bad == 0 ? 0 : err_nomem(e);
}

/* --- plan ---------------------------------------------------------------- */

struct forecast {
    bool will_run;
    int64_t start; /* 0: not known */
    struct err error;
};

static void ask_forecast(struct order *o, struct forecast *f)
{
    will_run_response_msg_t *resp = NULL;
    char said[LIB_SAID_MAX];
    int rc;

    lib_listen();
    errno = 0;
    rc = slurm_job_will_run2(&o->desc.msg, &resp);
    lib_heard(said);
    if (rc != 0)
        (void)lib_error(&f->error, sc_code(rc), false, said);
    f->will_run = rc == 0;
    if (rc == 0 && resp != NULL && resp->start_time > 0)
        f->start = resp->start_time;
    slurm_free_will_run_response_msg(resp);
}

static int put_forecast(const struct order *o, const struct forecast *f,
                        json_t *result, struct err *e)
{
    int bad = json_put_str(result, "account", o->account);

    bad |= json_put_str(result, "qos", o->qos);
    bad |= json_put(result, "start_estimate",
                    f->start > 0 ? json_integer(f->start) : json_null());
    bad |= json_put_bool(result, "will_run", f->will_run);
    bad |= wire_err_put(result, "slurm_error", &f->error);
    return bad == 0 ? 0 : err_nomem(e);
}

/* That Slurm would refuse, or is away, is an answer of a plan, not its end. */
int verb_plan(void *context, struct worker_request *r, json_t *result,
              struct err *e)
{
    struct forecast f = {.error = ERR_INIT};
    struct order o;
    int rc = -1;

    order_init(&o);
    if (order_make(&o, context, r, e) != 0 ||
        worker_pipe(r, o.script.data, o.script.len, e) != 0)
        goto out;
    ask_forecast(&o, &f);
    if (put_limits(&o, result, e) == 0)
        rc = put_forecast(&o, &f, result, e);
out:
    order_clear(&o);
    return rc;
}

/* --- submit ----------------------------------------------------------------
 */

/* A non-zero error_code on an accepted job is a warning: the job exists. */
static int put_warning(json_t *result, uint32_t code)
{
    json_t *w;
    int bad;

    if (code == 0)
        return json_put(result, "warning", json_null());
    w = json_object();
    bad = json_put_int(w, "code", code);
    bad |= json_put_str(w, "name", errors_code((int)code));
    bad |= json_put_str(w, "text", slurm_strerror((int)code));
    return json_put(result, "warning", w) | bad;
}

static json_t *clean_message(const char *s)
{
    struct buf b;
    json_t *v = NULL;

    if (s == NULL || s[0] == '\0')
        return json_null();
    buf_init(&b, 4 * MESSAGE_MAX);
    if (json_utf8_clean(&b, s, strnlen(s, MESSAGE_MAX)) == 0)
        v = json_string(buf_str(&b));
    buf_clear(&b);
    return v;
}

static int put_submitted(const struct order *o, submit_response_msg_t *resp,
                         json_t *result, struct err *e)
{
    int bad = json_put_int(result, "job_id", sc_submit_id(resp));

    bad |= put_warning(result, resp->error_code);
    bad |=
        json_put(result, "message", clean_message(resp->job_submit_user_msg));
    if (bad != 0)
        return err_nomem(e);
    return put_limits(o, result, e);
}

/* Any id that came means a job, whatever the codes say. No id: a reply of
 * slurmctld's own is a no, everything else (rc 0 without a reply too) is
 * unknown. */
static int send_order(struct order *o, struct worker_request *r, json_t *result,
                      struct err *e)
{
    submit_response_msg_t *resp = NULL;
    char said[LIB_SAID_MAX];
    int rc, code, failed;

    lib_listen();
    errno = 0;
    rc = slurm_submit_batch_job(&o->desc.msg, &resp);
    lib_heard(said);
    code = rc != 0 ? sc_code(rc) : 0;
    if (resp != NULL && sc_submit_id(resp) != 0)
        failed = put_submitted(o, resp, result, e);
    else if (rc == 0 && resp != NULL && resp->error_code != 0)
        failed = lib_error(e, (int)resp->error_code, true, said);
    else
        failed = lib_error(e, code, true, said);
    if (resp != NULL)
        slurm_free_submit_response_response_msg(resp);
    /* Never connected, or turned away at the door: nothing is there. */
    if (failed != 0 && e->class == ERR_UNAVAILABLE)
        r->stage = "init";
    return failed;
}

int verb_submit(void *context, struct worker_request *r, json_t *result,
                struct err *e)
{
    struct order o;
    int rc = -1;

    order_init(&o);
    if (order_make(&o, context, r, e) == 0 && worker_stage(r, "init", e) == 0 &&
        worker_stage(r, "sending", e) == 0)
        rc = send_order(&o, r, result, e);
    order_clear(&o);
    return rc;
}
