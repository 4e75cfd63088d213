/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/worker.h"

#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    NAME_BYTES_MAX = 256,
    SEND_TIMEOUT_MS = 10000, /* for a frame to the spawner */
    /* The spawner ends a request long before; this bounds a forgotten one. */
    PIPE_STALL_MS = 120000
};

/* --- start -----------------------------------------------------------------
 */

static const struct option_row {
    const char *name;
    size_t offset;
    bool folder;
} option_rows[] = {
    {"--jobs-root", offsetof(struct worker_site, jobs_root), true},
    {"--inputs", offsetof(struct worker_site, inputs), true},
    {"--models", offsetof(struct worker_site, models), true},
    {"--cluster", offsetof(struct worker_site, cluster), false},
    {"--marker", offsetof(struct worker_site, marker), false},
    {"--kind", offsetof(struct worker_site, kind), false},
    {"--poll-ms", offsetof(struct worker_site, poll_ms), false},
};

static const struct option_row *option_find(const char *name)
{
    for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++)
        if (strcmp(option_rows[i].name, name) == 0)
            return &option_rows[i];
    return NULL;
}

int worker_options(int argc, char **argv, int first, struct worker_site *out,
                   struct err *e)
{
    memset(out, 0, sizeof(*out));
    for (int i = first; i < argc; i += 2) {
        const struct option_row *o = option_find(argv[i]);
        const char **slot;

        if (o == NULL || i + 1 >= argc || argv[i + 1][0] == '\0')
            return err_set(e, ERR_CONFIG, "worker_option",
                           "option %s is unknown or has no value", argv[i]);
        slot = (const char **)(void *)((char *)out + o->offset);
        if (*slot != NULL || (o->folder && argv[i + 1][0] != '/'))
            return err_set(e, ERR_CONFIG, "worker_option",
                           "option %s is given twice, or not absolute",
                           argv[i]);
        *slot = argv[i + 1];
    }
    return 0;
}

static int check_ids(struct err *e)
{
    uid_t u[3];
    gid_t g[3];

    if (getresuid(&u[0], &u[1], &u[2]) != 0 ||
        getresgid(&g[0], &g[1], &g[2]) != 0 || u[0] != u[1] || u[1] != u[2] ||
        g[0] != g[1] || g[1] != g[2])
        return err_set(e, ERR_CONFIG, "worker_identity",
                       "the worker's ids are not all the same");
    return 0;
}

static int check_capabilities(struct err *e)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];

    memset(d, 0, sizeof(d));
    if (syscall(SYS_capget, &h, d) != 0)
        return err_sys(e, ERR_CONFIG, errno, "worker_capable", "capget");
    if ((d[0].permitted | d[1].permitted | d[0].effective | d[1].effective) !=
        0)
        return err_set(e, ERR_CONFIG, "worker_capable",
                       "a worker runs without any capability");
    return 0;
}

int worker_start(struct err *e)
{
    (void)umask(077);
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return err_sys(e, ERR_CONFIG, errno, "worker_identity", "start");
    if (check_ids(e) != 0)
        return -1;
    return check_capabilities(e);
}

/* --- a frame ---------------------------------------------------------------
 */

static int bad_frame(struct err *e, const char *why)
{
    return err_set(e, ERR_INVALID, "worker_frame", "bad request: %s", why);
}

static int read_person(const json_t *body, struct worker_person *p,
                       struct err *e)
{
    static const char *const keys[] = {
        "name", "account", "home", "shell", "slurm_account", "qos", NULL};
    const char *const at = "/person";
    json_t *o = NULL;

    if (json_get_obj(body, "person", true, &o, "", e) != 0 ||
        json_only(o, keys, at, e) != 0 ||
        json_get_str(o, "name", true, NAME_BYTES_MAX, &p->name, at, e) != 0 ||
        json_get_str(o, "account", true, NAME_BYTES_MAX, &p->account, at, e) !=
            0 ||
        json_get_str(o, "home", true, PATH_MAX, &p->home, at, e) != 0 ||
        json_get_str(o, "shell", true, PATH_MAX, &p->shell, at, e) != 0 ||
        json_get_str(o, "slurm_account", false, NAME_BYTES_MAX,
                     &p->slurm_account, at, e) != 0)
        return -1;
    return json_get_str(o, "qos", false, NAME_BYTES_MAX, &p->qos, at, e);
}

/* The spawner's record names the owner's uid: this worker must be it. */
static int read_job(const json_t *body, struct worker_job *j, struct err *e)
{
    static const char *const keys[] = {"workflow", "job_id", "submit_time",
                                       "name",     "uid",    NULL};
    const char *const at = "/job";
    json_t *o = NULL;
    int64_t id = 0, uid = -1;

    if (json_get_obj(body, "job", false, &o, "", e) != 0)
        return -1;
    if (o == NULL)
        return 0;
    if (json_only(o, keys, at, e) != 0 ||
        json_get_str(o, "workflow", true, NAME_BYTES_MAX, &j->workflow, at,
                     e) != 0 ||
        json_get_str(o, "name", true, NAME_BYTES_MAX, &j->name, at, e) != 0 ||
        json_get_int(o, "job_id", false, 0, UINT32_MAX - 16, &id, at, e) != 0 ||
        json_get_int(o, "submit_time", false, 0, INT64_MAX, &j->submit_time, at,
                     e) != 0 ||
        json_get_int(o, "uid", true, 0, UINT32_MAX - 1, &uid, at, e) != 0)
        return -1;
    if ((uid_t)uid != geteuid())
        return err_set(e, ERR_INTERNAL, "worker_identity",
                       "the job belongs to another account");
    j->job_id = (uint32_t)id;
    return 0;
}

static int check_pipe(int fd, struct err *e)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) != O_WRONLY || fstat(fd, &st) != 0 ||
        !S_ISFIFO(st.st_mode))
        return bad_frame(e, "the descriptor is no pipe's write end");
    return 0;
}

static const struct worker_verb *find_verb(const struct worker *w,
                                           const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->verbs[i].name, name) == 0)
            return &w->verbs[i];
    return NULL;
}

/* Does the request bring what its verb wants? */
static int check_wants(const struct worker_request *r, struct err *e)
{
    unsigned wants = r->verb->wants;

    if (((wants & WORKER_WANTS_FD) != 0) != (r->fd >= 0))
        return bad_frame(e, "the descriptor is missing, or not wanted");
    if (r->fd >= 0 && check_pipe(r->fd, e) != 0)
        return -1;
    if ((wants & WORKER_WANTS_ULID) != 0 && r->ulid == NULL)
        return bad_frame(e, "the job's ULID is missing");
    if (r->ulid != NULL && !id_ulid_valid(r->ulid))
        return bad_frame(e, "not a ULID");
    if ((wants & WORKER_WANTS_JOB) != 0 && r->job.workflow == NULL)
        return bad_frame(e, "the job's record is missing");
    return 0;
}

static int read_request(const json_t *body, struct worker_request *r,
                        struct err *e)
{
    static const char *const keys[] = {"v",    "request", "verb", "ulid",
                                       "args", "person",  "job",  NULL};
    const char *verb;
    int64_t version;

    if (json_only(body, keys, "", e) != 0 ||
        json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &version,
                     "", e) != 0 ||
        json_get_str(body, "verb", true, NAME_BYTES_MAX, &verb, "", e) != 0 ||
        json_get_str(body, "ulid", false, ULID_LEN, &r->ulid, "", e) != 0 ||
        json_get_obj(body, "args", true, &r->args, "", e) != 0 ||
        read_person(body, &r->person, e) != 0 ||
        read_job(body, &r->job, e) != 0)
        return -1;
    r->verb = find_verb(r->worker, verb);
    if (r->verb == NULL)
        return bad_frame(e, "unknown verb");
    return check_wants(r, e);
}

/* --- answers ---------------------------------------------------------------
 */

static json_t *frame_new(const char *event, const char *request)
{
    json_t *f = json_object();
    int bad = 0;

    bad |= json_put_int(f, "v", PROTO_VERSION);
    bad |= json_put_str(f, "event", event);
    bad |= json_put_str(f, "request", request);
    if (bad == 0)
        return f;
    json_decref(f);
    return NULL;
}

/* Consumes result (NULL: it failed as `failure` says). */
static json_t *result_frame(const struct worker_request *r, json_t *result,
                            const struct err *failure)
{
    json_t *f = frame_new("result", r->id);
    int bad = json_put_bool(f, "ok", result != NULL);

    if (result != NULL) {
        bad |= json_put(f, "result", result);
    } else {
        bad |= json_put_str(f, "stage", r->stage);
        bad |= wire_err_put(f, "error", failure);
    }
    if (bad == 0)
        return f;
    json_decref(f);
    return NULL;
}

static void close_fd(struct worker_request *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
}

/* The result, or NULL and failure. */
static json_t *perform(struct worker_request *r, const json_t *body,
                       struct err *failure)
{
    json_t *result = json_object();

    if (result == NULL)
        (void)err_nomem(failure);
    else if (read_request(body, r, failure) == 0 &&
             r->verb->run(r->worker->context, r, result, failure) == 0)
        return result;
    json_decref(result);
    if (!err_is_set(failure))
        (void)err_set(failure, ERR_INTERNAL, "worker_failed",
                      "the worker failed without a reason");
    return NULL;
}

json_t *worker_answer(struct worker *w, const json_t *body, int fd,
                      struct err *e)
{
    struct worker_request r = {.worker = w, .fd = fd, .stage = "init"};
    struct err failure = ERR_INIT;
    json_t *result, *frame;

    if (json_get_str(body, "request", true, NAME_BYTES_MAX, &r.id, "", e) !=
        0) {
        close_fd(&r);
        return NULL;
    }
    result = perform(&r, body, &failure);
    close_fd(&r); /* before the result: the reader sees the end first */
    if (result == NULL)
        log_err("request_failed", r.id, &failure);
    frame = result_frame(&r, result, &failure);
    if (frame == NULL)
        (void)err_nomem(e);
    return frame;
}

int worker_stage(struct worker_request *r, const char *stage, struct err *e)
{
    json_t *f = frame_new("stage", r->id);
    int rc = -1;

    if (f == NULL || json_put_str(f, "stage", stage) != 0)
        (void)err_nomem(e);
    else if (r->worker->sock < 0 ||
             wire_send(r->worker->sock, f, NULL, 0, SEND_TIMEOUT_MS, e) == 0)
        rc = 0;
    if (rc == 0)
        r->stage = stage;
    json_decref(f);
    return rc;
}

/* --- the loop --------------------------------------------------------------
 */

/* A result that is too large for a frame becomes an error that says so. */
static int send_answer(struct worker *w, const json_t *frame, struct err *e)
{
    struct err failure = ERR_INIT;
    struct worker_request r = {.worker = w, .fd = -1, .stage = "init"};
    json_t *small;
    int rc;

    if (wire_send(w->sock, frame, NULL, 0, SEND_TIMEOUT_MS, &failure) == 0)
        return 0;
    if (strcmp(failure.code, "wire_too_large") != 0)
        return err_set(e, failure.class, failure.code, "%s", failure.text);
    r.id = json_string_value(json_object_get(frame, "request"));
    small = result_frame(&r, NULL, &failure);
    if (small == NULL)
        return err_nomem(e);
    rc = wire_send(w->sock, small, NULL, 0, SEND_TIMEOUT_MS, e);
    json_decref(small);
    return rc;
}

static int serve_one(struct worker *w, struct wire_msg *m, struct err *e)
{
    json_t *frame = worker_answer(w, m->body, wire_take_fd(m, 0), e);
    int rc;

    wire_msg_clear(m);
    if (frame == NULL)
        return -1;
    rc = send_answer(w, frame, e);
    json_decref(frame);
    if (rc == 0 && w->answered != NULL)
        w->answered(w->context);
    return rc;
}

int worker_serve(struct worker *w, struct err *e)
{
    struct wire_msg m;
    int rc;

    wire_msg_init(&m);
    do {
        rc = wire_recv(w->sock, &m, -1, e);
        if (rc == 1 && serve_one(w, &m, e) != 0)
            rc = -1;
    } while (rc == 1);
    wire_msg_clear(&m);
    return rc;
}

/* --- what both render from --------------------------------------------------
 */

static int fill_run_dir(struct worker_work *k, const struct worker_site *site,
                        const struct worker_request *r, const char *ulid,
                        struct err *e)
{
    int n = snprintf(k->run_dir, sizeof(k->run_dir), "%s/%s/%s",
                     site->jobs_root, r->person.account, ulid);

    /* slurmd expands % in an output path, and a backslash turns that off. */
    if (n < 0 || (size_t)n >= sizeof(k->run_dir) - NAME_BYTES_MAX ||
        strpbrk(k->run_dir, "%\\\n") != NULL)
        return err_set(e, ERR_CONFIG, "run_dir",
                       "the jobs root or the account's name can't be used");
    return 0;
}

static int fill_job(struct worker_work *k, const struct worker_site *site,
                    const struct worker_request *r, bool has_sidecar,
                    struct err *e)
{
    /* A plan has no job yet: the least ULID stands for it. */
    const char *ulid = r->ulid != NULL ? r->ulid : "00000000000000000000000000";

    if (fill_run_dir(k, site, r, ulid, e) != 0)
        return -1;
    if (id_slurm_name(k->workflow->name, ulid, k->slurm_name) != 0)
        return err_set(e, ERR_CONFIG, "workflow_name",
                       "the workflow's name is too long");
    if (gethostname(k->host, sizeof(k->host) - 1) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "hostname", "gethostname");
    k->job = (struct render_job){
        .ulid = ulid,
        .slurm_name = k->slurm_name,
        .run_dir = k->run_dir,
        .user = r->person.account,
        .home = r->person.home,
        .shell = r->person.shell,
        .inputs_dir = site->inputs,
        .models_dir = site->models,
        .submit_host = k->host,
        .has_sidecar = has_sidecar,
    };
    return 0;
}

int worker_work_init(struct worker_work *k, const struct generation *g,
                     const struct worker_site *site,
                     const struct worker_request *r, bool has_sidecar,
                     struct err *e)
{
    json_t *params = NULL;
    const char *name;

    memset(k, 0, sizeof(*k));
    if (json_get_str(r->args, "workflow", true, NAME_BYTES_MAX, &name, "/args",
                     e) != 0 ||
        json_get_obj(r->args, "params", false, &params, "/args", e) != 0)
        return -1;
    k->workflow = allowlist_find(g->allowlist, name);
    if (k->workflow == NULL)
        return err_set(e, ERR_NOT_FOUND, "workflow_unknown",
                       "there is no such workflow");
    if (params_validate(k->workflow, params, &k->params, e) != 0 ||
        workflow_limits(k->workflow, k->params, &k->limits, e) != 0)
        return -1;
    return fill_job(k, site, r, has_sidecar, e);
}

void worker_work_clear(struct worker_work *k)
{
    json_decref(k->params);
    k->params = NULL;
    limits_clear(&k->limits);
}

static int pipe_wait(int fd, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int n;

    do
        n = poll(&p, 1, PIPE_STALL_MS);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, ERR_INTERNAL, errno, "pipe_stalled", "poll");
    if (n == 0)
        return err_set(e, ERR_UNAVAILABLE, "pipe_stalled",
                       "the reader takes no more bytes");
    return 0;
}

int worker_pipe(const struct worker_request *r, const void *p, size_t n,
                struct err *e)
{
    const char *at = p;

    while (n > 0) {
        ssize_t w = write(r->fd, at, n);

        if (w > 0) {
            at += w;
            n -= (size_t)w;
        } else if (w < 0 && errno == EAGAIN) {
            if (pipe_wait(r->fd, e) != 0)
                return -1;
        } else if (w < 0 && errno != EINTR) {
            return err_sys(e, ERR_UNAVAILABLE, errno, "pipe_closed",
                           "the reader has gone");
        }
    }
    return 0;
}
