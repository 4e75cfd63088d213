/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/crew.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/spawn/answer.h"
#include "broker/spawn/brake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIES_MAX = 2, FRAMES_MAX = 16, SWEEP_MS = 250 };

struct task {
    struct task *next; /* in the queue */
    struct task_spec spec;
    enum proto_stage stage;
    int tries;
};

enum worker_state { IDLE, BUSY, ENDING };

struct worker {
    struct worker *next, *prev;
    struct crew *crew;
    enum crew_kind kind;
    uid_t uid;
    struct accounts *table;
    const struct account *account;
    struct generation *generation;
    struct child *child; /* never NULL: it goes with the child's end */
    int sock;
    struct loop_fd *watch;
    enum worker_state state;
    bool retire;     /* ends after its task */
    bool killed;     /* ENDING: SIGKILL was sent */
    bool stuck;      /* and did not help in time */
    const char *why; /* code for its task's failure, when we ended it */
    int64_t served;
    struct task *task;
    struct loop_timer timer; /* IDLE: idle; BUSY: deadline; ENDING: next step */
};

struct program {
    char path[256];
    const char *argv[16];
};

struct crew {
    struct loop *loop;
    struct children *children;
    const struct config *config;
    struct program programs[CREW_KINDS];
    struct worker *workers;
    size_t count, stuck;
    struct task *queue, **queue_end;
    struct loop_timer sweep; /* of the queue: start_by, and late dispatch */
    struct brakes brakes;
};

static void dispatch(struct crew *c);

/* --- tasks ---------------------------------------------------------------- */

static void task_free(struct task *t)
{
    if (t == NULL)
        return;
    json_decref(t->spec.frame);
    if (t->spec.fd >= 0)
        (void)close(t->spec.fd);
    accounts_unref(t->spec.table);
    generation_unref(t->spec.generation);
    free(t);
}

static void task_done(struct task *t, const json_t *result,
                      const struct err *why)
{
    if (t->spec.done != NULL)
        t->spec.done(t->spec.arg, result, t->stage, why);
    task_free(t);
}

void crew_forget(struct task *t)
{
    t->spec.done = NULL;
    t->spec.staged = NULL;
}

static const struct {
    const char *code, *text;
} endings[] = {
    {"worker_timeout", "the worker did not answer in time"},
    {"worker_garbage", "the worker's answer was not one"},
    {"worker_died", "the worker ended before it answered"},
    {"worker_start", "the worker could not be started"},
};

static void task_lost(struct task *t, const char *code)
{
    struct err why = ERR_INIT;

    if (t->stage == STAGE_SENDING)
        (void)err_set(&why, ERR_UNKNOWN, "outcome_unknown",
                      "the request was sent, and its answer was lost");
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (strcmp(endings[i].code, code) == 0)
            (void)err_set(&why, ERR_UNAVAILABLE, code, "%s", endings[i].text);
    }
    task_done(t, NULL, &why);
}

/* --- a worker's end ------------------------------------------------------- */

static void close_sock(struct worker *w)
{
    loop_unwatch(w->crew->loop, w->watch);
    w->watch = NULL;
    if (w->sock >= 0)
        (void)close(w->sock);
    w->sock = -1;
}

static void set_stuck(struct worker *w, bool stuck)
{
    if (w->stuck == stuck)
        return;
    w->stuck = stuck;
    if (w->kind == CREW_FILES)
        w->crew->stuck += stuck ? 1 : (size_t)-1;
}

/* SIGKILL. The task is answered when the process is gone (all that it sent is
 * then in the socket), or when it is stuck. */
static void end_now(struct worker *w, const char *why)
{
    w->state = ENDING;
    if (w->killed)
        return;
    w->killed = true;
    w->why = why;
    child_kill(w->child);
    loop_timer_set(w->crew->loop, &w->timer, CREW_GRACE_MS);
}

/* An idle one sees the end of its socket and goes; else it is killed. */
static void end_gently(struct worker *w)
{
    w->state = ENDING;
    close_sock(w);
    loop_timer_set(w->crew->loop, &w->timer, CREW_GRACE_MS);
}

static void unlink_worker(struct worker *w)
{
    struct crew *c = w->crew;

    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        c->workers = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    c->count--;
}

static void worker_free(struct worker *w)
{
    set_stuck(w, false);
    loop_timer_stop(w->crew->loop, &w->timer);
    close_sock(w);
    accounts_unref(w->table);
    generation_unref(w->generation);
    free(w);
}

/* --- a worker's words ----------------------------------------------------- */

static void rest(struct worker *w)
{
    const struct config *f = w->crew->config;

    if (w->retire || w->served >= f->limits.worker_requests) {
        end_gently(w);
        return;
    }
    w->state = IDLE;
    loop_timer_set(w->crew->loop, &w->timer, f->limits.worker_idle_ms);
}

static void on_result(struct worker *w, const struct answer *a)
{
    struct crew *c = w->crew;
    struct task *t = w->task;

    w->task = NULL;
    w->served++;
    brakes_served(&c->brakes, w->uid);
    if (!a->ok && a->stage > t->stage)
        t->stage = a->stage;
    if (w->state == BUSY)
        rest(w);
    task_done(t, a->result, &a->error);
    dispatch(c);
}

/* Forward only: a stage that was reached stays reached. */
static void on_stage(struct worker *w, enum proto_stage stage)
{
    struct task *t = w->task;

    if (stage <= t->stage)
        return;
    t->stage = stage;
    if (t->spec.staged != NULL)
        t->spec.staged(t->spec.arg, stage);
}

static void log_garbage(const struct worker *w, const struct err *why)
{
    log_err("worker_garbage", w->task != NULL ? w->task->spec.request : NULL,
            why);
}

/* 0: more may come; -1: this worker is not listened to any more. */
static int on_frame(struct worker *w, const struct wire_msg *m)
{
    struct err why = ERR_INIT;
    struct answer a;

    if (w->task == NULL || m->fds[0] >= 0)
        (void)err_set(&why, ERR_UNAVAILABLE, "worker_garbage",
                      "a frame that nobody asked for");
    else if (answer_read(m->body, w->task->spec.request, w->task->spec.verb, &a,
                         &why) == 0) {
        if (a.is_result)
            on_result(w, &a);
        else
            on_stage(w, a.stage);
        answer_clear(&a);
        return 0;
    }
    log_garbage(w, &why);
    close_sock(w);
    end_now(w, "worker_garbage");
    return -1;
}

/* Its socket's end comes a moment before the process's: it is not killed at
 * once, so that its own exit status is what is logged. */
static void on_closed(struct worker *w)
{
    close_sock(w);
    if (w->state == ENDING)
        return;
    w->state = ENDING;
    w->why = "worker_died";
    loop_timer_set(w->crew->loop, &w->timer, CREW_GRACE_MS);
}

/* Whatever is in the socket, a bounded number of frames. The worker may be
 * idle, ending or its socket closed afterwards. */
static void listen_to(struct worker *w)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int r = 1;

    wire_msg_init(&m);
    for (int i = 0; r == 1 && i < FRAMES_MAX && w->sock >= 0; i++) {
        r = wire_recv(w->sock, &m, 0, &e);
        if (r == 1 && on_frame(w, &m) != 0)
            r = -1;
        wire_msg_clear(&m);
    }
    if (w->sock < 0 || r == 1 || strcmp(e.code, "wire_timeout") == 0)
        return;
    if (r == 0 || strcmp(e.code, "wire_closed") == 0) {
        on_closed(w);
        return;
    }
    close_sock(w);
    end_now(w, "worker_garbage");
}

static void on_sock(void *arg, uint32_t events)
{
    (void)events;
    listen_to(arg);
}

static void log_end(const struct worker *w, const struct child_end *end)
{
    char status[32];

    if (WIFSIGNALED(end->status))
        (void)snprintf(status, sizeof(status), "signal %d",
                       WTERMSIG(end->status));
    else
        (void)snprintf(status, sizeof(status), "exit %d",
                       WEXITSTATUS(end->status));
    log_event(LOG_WARN_, "worker_lost",
              w->task != NULL ? w->task->spec.request : NULL, "account",
              w->account->name, "status", status, "why",
              w->why != NULL ? w->why : "", "line", end->line, "step_errno",
              end->sys != 0 ? strerror(end->sys) : "", NULL);
}

/* What it had said is read first: a result that was sent counts. */
static void on_exit_(void *arg, const struct child_end *end)
{
    struct worker *w = arg;
    struct crew *c = w->crew;
    struct task *t;
    bool planned = w->state == ENDING && w->why == NULL;

    w->state = ENDING;
    w->killed = true; /* no signal to a pid that is gone */
    listen_to(w);
    t = w->task;
    if (t != NULL || (!planned && w->served == 0))
        log_end(w, end);
    if (w->served == 0 && !planned)
        brakes_death(&c->brakes, w->uid, end->identity_taken, clock_mono_ms());
    unlink_worker(w);
    if (t != NULL)
        task_lost(t, !end->started    ? "worker_start"
                     : w->why != NULL ? w->why
                                      : "worker_died");
    worker_free(w);
    dispatch(c);
}

static void on_stuck(struct worker *w)
{
    struct task *t = w->task;

    set_stuck(w, true);
    log_event(LOG_ERROR_, "worker_stuck", t != NULL ? t->spec.request : NULL,
              "account", w->account->name, NULL);
    if (t == NULL)
        return;
    listen_to(w);
    t = w->task;
    w->task = NULL;
    if (t != NULL)
        task_lost(t, "worker_timeout");
}

static void on_timer(void *arg)
{
    struct worker *w = arg;

    if (w->state == IDLE)
        end_gently(w);
    else if (!w->killed)
        end_now(w, w->state == BUSY ? "worker_timeout" : w->why);
    else
        on_stuck(w);
}

/* --- a worker's start ----------------------------------------------------- */

static int start_child(struct worker *w, int theirs, struct err *e)
{
    const struct program *p = &w->crew->programs[w->kind];
    struct child_spec s = {.what = "worker",
                           .path = p->path,
                           .argv = p->argv,
                           .identity = true,
                           .uid = w->account->uid,
                           .gid = w->account->gid,
                           .groups = w->account->groups,
                           .ngroups = w->account->ngroups,
                           .in = -1,
                           .out = -1,
                           .control = theirs,
                           .catalog = w->generation->catalog_fd,
                           .on_exit = on_exit_,
                           .arg = w};

    w->watch = loop_watch(w->crew->loop, w->sock, EPOLLIN, on_sock, w, e);
    if (w->watch != NULL)
        w->child = child_start(w->crew->children, &s, e);
    return w->child != NULL ? 0 : -1;
}

static void link_worker(struct worker *w)
{
    struct crew *c = w->crew;

    w->next = c->workers;
    if (c->workers != NULL)
        c->workers->prev = w;
    c->workers = w;
    c->count++;
    loop_timer_set(c->loop, &w->timer, c->config->limits.worker_idle_ms);
}

static struct worker *start_worker(struct crew *c, const struct task *t,
                                   struct err *e)
{
    struct worker *w = calloc(1, sizeof(*w));
    int sv[2] = {-1, -1};

    if (w == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    w->crew = c;
    w->kind = t->spec.kind;
    w->uid = t->spec.account->uid;
    w->table = accounts_ref(t->spec.table);
    w->account = t->spec.account;
    w->generation = generation_ref(t->spec.generation);
    w->sock = -1;
    loop_timer_init(&w->timer, on_timer, w);
    if (wire_pair(sv, e) == 0) {
        w->sock = sv[0];
        (void)start_child(w, sv[1], e);
        (void)close(sv[1]);
    }
    if (w->child == NULL) {
        worker_free(w);
        return NULL;
    }
    link_worker(w);
    return w;
}

/* --- who does what -------------------------------------------------------- */

static bool fits(const struct worker *w, const struct task *t)
{
    return w->kind == t->spec.kind && w->uid == t->spec.account->uid;
}

static bool is_ready(const struct worker *w, const struct task *t)
{
    return w->state == IDLE && fits(w, t) &&
           strcmp(w->generation->id, t->spec.generation->id) == 0 &&
           account_equal(w->account, t->spec.account);
}

struct census {
    struct worker *ready, *idle;
    size_t all, bulk, stuck;
};

static struct census take_census(const struct crew *c, const struct task *t)
{
    struct census n = {NULL, NULL, 0, 0, 0};

    for (struct worker *w = c->workers; w != NULL; w = w->next) {
        if (!fits(w, t))
            continue;
        n.all++;
        n.stuck += w->stuck;
        n.bulk += w->task != NULL && w->task->spec.bulk;
        if (is_ready(w, t))
            n.ready = w;
        else if (w->state == IDLE)
            n.idle = w;
    }
    return n;
}

/* The last in the list is the oldest start. */
static void free_a_place(struct crew *c)
{
    struct worker *w, *oldest = NULL;

    for (w = c->workers; w != NULL; w = w->next) {
        if (w->state == IDLE)
            oldest = w;
    }
    if (oldest != NULL)
        end_gently(oldest);
}

/* NULL without an error: wait. */
static struct worker *find_worker(struct crew *c, const struct task *t,
                                  struct err *e)
{
    struct census n = take_census(c, t);

    if (t->spec.bulk && n.bulk > 0)
        return NULL;
    if (n.ready != NULL)
        return n.ready;
    if (n.all >= CREW_PER_PERSON) {
        if (n.idle != NULL)
            end_gently(n.idle);
        return NULL;
    }
    if (c->count >= CREW_WORKERS_MAX) {
        free_a_place(c);
        return NULL;
    }
    return start_worker(c, t, e);
}

/* 0: the worker has it; -1: it can't be reached (or e: it never could). The
 * descriptor is closed on
 * our side as soon as the worker has it, so that its end is the pipe's end. */
static int hand_over(struct worker *w, struct task *t, struct err *e)
{
    struct err inner = ERR_INIT;
    size_t nfds = t->spec.fd >= 0 ? 1 : 0;

    t->tries++;
    if (wire_send(w->sock, t->spec.frame, &t->spec.fd, nfds, 0, &inner) != 0) {
        log_err("worker_send", t->spec.request, &inner);
        if (inner.class != ERR_UNAVAILABLE)
            return err_set(e, inner.class, inner.code, "%s", inner.text);
        end_now(w, "worker_died");
        return t->tries < TRIES_MAX
                   ? -1
                   : err_set(e, ERR_UNAVAILABLE, "worker_start",
                             "no worker could be reached");
    }
    if (t->spec.fd >= 0)
        (void)close(t->spec.fd);
    t->spec.fd = -1;
    json_decref(t->spec.frame); /* it may hold secrets */
    t->spec.frame = NULL;
    w->task = t;
    w->state = BUSY;
    on_stage(w, STAGE_INIT);
    loop_timer_set(w->crew->loop, &w->timer, t->spec.run_ms);
    return 0;
}

/* true: the task left the queue (given, or failed). */
static bool try_task(struct crew *c, struct task *t, struct task **failed,
                     struct err *e)
{
    struct worker *w = find_worker(c, t, e);

    *failed = NULL;
    if (w != NULL && hand_over(w, t, e) == 0)
        return true;
    if (!err_is_set(e))
        return false;
    *failed = t;
    return true;
}

static struct task *take_out(struct crew *c, struct task **at)
{
    struct task *t = *at;

    *at = t->next;
    if (*at == NULL)
        c->queue_end = at;
    t->next = NULL;
    return t;
}

/* From a timer, so that nothing is called from inside crew_give, and a failed
 * task may give the next one. */
static void dispatch(struct crew *c)
{
    if (c->queue != NULL)
        loop_timer_set(c->loop, &c->sweep, 0);
}

/* The first that must fail leaves the queue and is returned with its error. */
static struct task *walk(struct crew *c, struct err *why)
{
    struct task **at = &c->queue, *t, *failed;
    int64_t now = clock_mono_ms();

    while ((t = *at) != NULL) {
        err_clear(why);
        if (now >= t->spec.start_by_ms) {
            (void)err_set(why, ERR_LIMITED, "crew_busy",
                          "this person's workers are all busy");
            return take_out(c, at);
        }
        if (brakes_wait(&c->brakes, t->spec.account->uid, now) > 0) {
            t = take_out(c, at);
            (void)err_set(why, ERR_UNAVAILABLE, "worker_brake",
                          "this account's workers keep ending before they "
                          "serve");
            return t;
        }
        if (!try_task(c, t, &failed, why))
            at = &t->next;
        else {
            (void)take_out(c, at);
            if (failed != NULL)
                return failed;
        }
    }
    return NULL;
}

static void on_sweep(void *arg)
{
    struct crew *c = arg;
    struct err why = ERR_INIT;
    struct task *t;

    while ((t = walk(c, &why)) != NULL)
        task_done(t, NULL, &why);
    if (c->queue != NULL && !c->sweep.armed)
        loop_timer_set(c->loop, &c->sweep, SWEEP_MS);
}

static size_t queued_of(const struct crew *c, uid_t uid)
{
    size_t n = 0;

    for (const struct task *t = c->queue; t != NULL; t = t->next)
        n += t->spec.account->uid == uid;
    return n;
}

static int admit(struct crew *c, const struct task *t, struct err *e)
{
    uid_t uid = t->spec.account->uid;

    if (brakes_wait(&c->brakes, uid, clock_mono_ms()) > 0)
        return err_set(e, ERR_UNAVAILABLE, "worker_brake",
                       "this account's workers keep ending before they serve");
    if (t->spec.kind == CREW_FILES &&
        (c->stuck >= CREW_STUCK_MAX ||
         take_census(c, t).stuck >= CREW_PER_PERSON))
        return err_set(e, ERR_UNAVAILABLE, "storage_stalled",
                       "the shared filesystem does not answer");
    if (queued_of(c, uid) >= CREW_QUEUE_PERSON_MAX)
        return err_set(e, ERR_LIMITED, "crew_busy",
                       "too many requests of this person are waiting");
    return 0;
}

static struct task *task_new(const struct task_spec *s, struct err *e)
{
    struct task *t = calloc(1, sizeof(*t));

    if (t == NULL || s->frame == NULL) {
        json_decref(s->frame);
        if (s->fd >= 0)
            (void)close(s->fd);
        free(t);
        (void)err_nomem(e);
        return NULL;
    }
    t->spec = *s;
    t->spec.table = accounts_ref(s->table);
    t->spec.generation = generation_ref(s->generation);
    return t;
}

int crew_give(struct crew *c, const struct task_spec *s, struct task **out,
              struct err *e)
{
    struct task *t = task_new(s, e);

    if (t == NULL)
        return -1;
    if (admit(c, t, e) != 0) {
        task_free(t);
        return -1;
    }
    *c->queue_end = t;
    c->queue_end = &t->next;
    *out = t;
    dispatch(c);
    return 0;
}

void crew_warm(struct crew *c, const struct task_spec *s)
{
    struct task t = {.spec = *s};
    struct err e = ERR_INIT;

    if (brakes_wait(&c->brakes, s->account->uid, clock_mono_ms()) > 0 ||
        c->count >= CREW_WORKERS_MAX || take_census(c, &t).all > 0)
        return;
    if (start_worker(c, &t, &e) == NULL)
        log_err("worker_start", s->request, &e);
}

/* --- all of them ---------------------------------------------------------- */

static void retire(struct worker *w)
{
    w->retire = true;
    if (w->state == IDLE)
        end_gently(w);
}

void crew_retire_account(struct crew *c, uid_t uid)
{
    for (struct worker *w = c->workers; w != NULL; w = w->next) {
        if (w->uid == uid)
            retire(w);
    }
}

void crew_retire_generations(struct crew *c, const char *but_id)
{
    for (struct worker *w = c->workers; w != NULL; w = w->next) {
        if (strcmp(w->generation->id, but_id) != 0)
            retire(w);
    }
}

size_t crew_workers(const struct crew *c)
{
    return c->count;
}

size_t crew_stuck(const struct crew *c)
{
    return c->stuck;
}

static void set_program(struct program *p, const struct config *f,
                        const char *name, const char *mode)
{
    const char *const options[] = {
        "--jobs-root", f->jobs.root,   "--inputs",  f->jobs.inputs,
        "--models",    f->jobs.models, "--cluster", f->cluster.name,
        "--marker",    f->jobs.marker, "--kind",    f->jobs.kind};
    size_t n = 0;

    (void)snprintf(p->path, sizeof(p->path), "%s/%s", f->paths.libexec, name);
    p->argv[n++] = name;
    if (mode != NULL)
        p->argv[n++] = mode;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        p->argv[n++] = options[i];
    p->argv[n] = NULL;
}

int crew_new(struct loop *l, struct children *cs, const struct config *config,
             struct crew **out, struct err *e)
{
    struct crew *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return err_nomem(e);
    c->loop = l;
    c->children = cs;
    c->config = config;
    c->queue_end = &c->queue;
    loop_timer_init(&c->sweep, on_sweep, c);
    set_program(&c->programs[CREW_FILES], config, "sluice-files", NULL);
    set_program(&c->programs[CREW_SLURM], config, "sluice-slurm", "worker");
    *out = c;
    return 0;
}

void crew_free(struct crew *c)
{
    struct worker *w;
    struct task *t;

    if (c == NULL)
        return;
    while ((t = c->queue) != NULL) {
        c->queue = t->next;
        task_free(t);
    }
    loop_timer_stop(c->loop, &c->sweep);
    while ((w = c->workers) != NULL) {
        child_forget(w->child);
        child_kill(w->child);
        task_free(w->task);
        unlink_worker(w);
        worker_free(w);
    }
    brakes_clear(&c->brakes);
    free(c);
}
