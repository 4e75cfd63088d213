/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/spawn.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECT_WAIT_MS = 2000, /* a spawner that restarts is back within this */
    SEND_WAIT_MS = 2000,
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    HELLO_WAIT_MS = 5000,
    PIPE_SLICE_MS = 100, /* looks for an early result this often */
    SWITCH_WAIT_MS = 300 /* for our own switch of generation */
};

struct spawn_pending {
    char request[ULID_LEN + 1];
    enum proto_verb verb;
    uint64_t epoch; /* of the connection it was sent on */
    int stage;      /* enum proto_stage, as far as told */
    bool done, lost;
    bool ok;
    json_t *result;   /* owned */
    struct err error; /* ok false */
    struct spawn_pending *next;
};

struct spawn {
    char *path;
    struct spawn_hooks hooks;
    pthread_t thread;
    pthread_mutex_t lock;      /* everything below but sock's sending */
    pthread_mutex_t send_lock; /* one sender; closing takes it too */
    pthread_cond_t change;
    struct spawn_pending *head;
    uint64_t epoch;
    int sock, wake;
    bool up, stopping;
};

/* --- the receive thread --- */

static struct spawn_pending *find_locked(struct spawn *s, const char *request)
{
    struct spawn_pending *p = s->head;

    while (p && strcmp(p->request, request))
        p = p->next;
    return p;
}

static int on_stage(struct spawn *s, const json_t *m, struct err *e)
{
    static const char *const keys[] = {"v", "event", "request", "stage", NULL};
    const char *request = NULL, *word = NULL;
    struct spawn_pending *p;
    int stage;

    if (json_only(m, keys, "", e) ||
        json_get_str(m, "request", true, ULID_LEN, &request, "", e) ||
        json_get_str(m, "stage", true, 16, &word, "", e))
        return -1;
    stage = proto_stage_parse(word);
    if (stage < 0)
        return err_set(e, ERR_INVALID, "wire_frame", "unknown stage");
    pthread_mutex_lock(&s->lock);
    p = find_locked(s, request);
    if (p && stage > p->stage)
        p->stage = stage;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Takes result. */
static void settle_locked(struct spawn *s, const char *request, bool ok,
                          json_t *result, int stage, const struct err *error)
{
    struct spawn_pending *p = find_locked(s, request);

    if (!p || p->done) {
        json_decref(result);
        return; /* the caller's deadline passed: `outcome` will tell */
    }
    p->done = true;
    p->ok = ok;
    p->result = result;
    p->error = *error;
    if (stage >= 0)
        p->stage = stage;
    pthread_cond_broadcast(&s->change);
}

static int on_result(struct spawn *s, json_t *m, struct err *e)
{
    static const char *const keys[] = {"v",     "event",  "request", "ok",
                                       "stage", "result", "error",   NULL};
    const char *request = NULL, *word = NULL;
    struct err error = ERR_INIT;
    json_t *result = NULL;
    bool ok = false;

    if (json_only(m, keys, "", e) ||
        json_get_str(m, "request", true, ULID_LEN, &request, "", e) ||
        json_get_bool(m, "ok", true, &ok, "", e) ||
        json_get_str(m, "stage", !ok, 16, &word, "", e) ||
        json_get_obj(m, "result", ok, &result, "", e))
        return -1;
    if (!ok && wire_err_get(m, "error", &error))
        return err_set(e, ERR_INVALID, "wire_frame", "no error in a refusal");
    /* Out of the message: a tree belongs to one thread at a time. */
    json_incref(result);
    json_object_del(m, "result");
    pthread_mutex_lock(&s->lock);
    settle_locked(s, request, ok, result, word ? proto_stage_parse(word) : -1,
                  &error);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int on_hello(struct spawn *s, const json_t *m, struct err *e)
{
    int64_t v = 0;

    if (json_get_int(m, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "", e))
        return -1;
    pthread_mutex_lock(&s->lock);
    s->up = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    if (s->hooks.link)
        s->hooks.link(s->hooks.arg, true);
    log_event(LOG_INFO_, "spawner_connected", NULL, NULL);
    return 0;
}

static int on_message(struct spawn *s, struct wire_msg *m, struct err *e)
{
    const char *event = NULL;
    int fd;

    if (json_get_str(m->body, "event", true, 16, &event, "", e))
        return -1;
    if (!strcmp(event, "stage"))
        return on_stage(s, m->body, e);
    if (!strcmp(event, "result"))
        return on_result(s, m->body, e);
    if (!strcmp(event, "hello"))
        return on_hello(s, m->body, e);
    if (strcmp(event, "watch"))
        return err_set(e, ERR_INVALID, "wire_frame", "unknown event");
    fd = wire_take_fd(m, 0);
    if (fd < 0)
        return err_set(e, ERR_INVALID, "wire_frame", "watch without a socket");
    s->hooks.watch(s->hooks.arg, fd);
    return 0;
}

static bool stopping(struct spawn *s)
{
    bool v;

    pthread_mutex_lock(&s->lock);
    v = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return v;
}

/* Until the connection ends, a frame is bad, or we stop. */
static void receive(struct spawn *s, int sock, struct err *e)
{
    int64_t hello = clock_mono_ms() + HELLO_WAIT_MS;

    while (!stopping(s)) {
        struct pollfd v[] = {{sock, POLLIN, 0}, {s->wake, POLLIN, 0}};
        struct wire_msg m;
        int rc;

        if (poll(v, 2, s->up ? -1 : clock_left_ms(hello)) == 0) {
            err_set(e, ERR_UNAVAILABLE, "wire_timeout", "no hello");
            return;
        }
        if (v[1].revents || !v[0].revents)
            continue;
        wire_msg_init(&m);
        rc = wire_recv(sock, &m, 0, e);
        if (rc == 1)
            rc = on_message(s, &m, e) ? -1 : 1;
        wire_msg_clear(&m);
        if (rc <= 0)
            return;
    }
}

static void link_open(struct spawn *s, int sock)
{
    pthread_mutex_lock(&s->lock);
    s->sock = sock;
    s->epoch++;
    pthread_mutex_unlock(&s->lock);
}

/* Everybody who waits on this connection learns that it is lost. */
static void link_close(struct spawn *s)
{
    bool was_up;
    int sock;

    pthread_mutex_lock(&s->send_lock); /* nobody sends on a closed number */
    pthread_mutex_lock(&s->lock);
    sock = s->sock;
    s->sock = -1;
    was_up = s->up;
    s->up = false;
    for (struct spawn_pending *p = s->head; p; p = p->next)
        p->lost = p->lost || p->epoch == s->epoch;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&s->send_lock);
    if (sock >= 0)
        close(sock);
    if (was_up && s->hooks.link)
        s->hooks.link(s->hooks.arg, false);
}

static void *spawn_main(void *arg)
{
    struct log_gate gate = {0};
    struct spawn *s = arg;
    int backoff = BACKOFF_MIN_MS;

    while (!stopping(s)) {
        struct pollfd wake = {s->wake, POLLIN, 0};
        struct err e = ERR_INIT;
        int sock = wire_connect(s->path, SOCK_SEQPACKET, &e);
        if (sock >= 0) {
            link_open(s, sock);
            receive(s, sock, &e);
            if (s->up)
                backoff = BACKOFF_MIN_MS;
            link_close(s);
        }
        if (err_is_set(&e) && log_gate_open(&gate, 10000))
            log_err("spawner_lost", NULL, &e);
        poll(&wake, 1, backoff);
        backoff = backoff * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : backoff * 2;
    }
    return NULL;
}

/* --- life --- */

int spawn_start(const char *socket_path, const struct spawn_hooks *h,
                struct spawn **out, struct err *e)
{
    struct spawn *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;

    if (!s)
        return err_nomem(e);
    s->hooks = *h;
    s->sock = -1;
    s->path = strdup(socket_path);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->send_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->change, &attr);
    pthread_condattr_destroy(&attr);
    if (!s->path || s->wake < 0 ||
        pthread_create(&s->thread, NULL, spawn_main, s)) {
        if (s->wake >= 0)
            close(s->wake);
        free(s->path);
        free(s);
        return err_set(e, ERR_INTERNAL, "no_thread", "no spawn thread");
    }
    *out = s;
    return 0;
}

void spawn_stop(struct spawn *s)
{
    static const uint64_t one = 1;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    if (write(s->wake, &one, sizeof one) != (ssize_t)sizeof one)
        log_event(LOG_WARN_, "spawn_wake_failed", NULL, NULL);
    pthread_join(s->thread, NULL);
}

void spawn_free(struct spawn *s)
{
    if (!s)
        return;
    close(s->wake);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->send_lock);
    free(s->path);
    free(s);
}

bool spawn_connected(struct spawn *s)
{
    bool up;

    pthread_mutex_lock(&s->lock);
    up = s->up;
    pthread_mutex_unlock(&s->lock);
    return up;
}

/* --- sending --- */

static void to_timespec(int64_t mono_ms, struct timespec *at)
{
    at->tv_sec = (time_t)(mono_ms / 1000);
    at->tv_nsec = (long)(mono_ms % 1000) * 1000000;
}

/* Wait for a connection and join its epoch. */
static int join_link(struct spawn *s, struct spawn_pending *p, int64_t deadline,
                     struct err *e)
{
    int64_t until = clock_mono_ms() + CONNECT_WAIT_MS;
    struct timespec at;
    bool up;

    to_timespec(until < deadline ? until : deadline, &at);
    pthread_mutex_lock(&s->lock);
    while (!s->up && !s->stopping) {
        if (pthread_cond_timedwait(&s->change, &s->lock, &at))
            break;
    }
    up = s->up && !s->stopping;
    if (up) {
        p->epoch = s->epoch;
        p->next = s->head;
        s->head = p;
    }
    pthread_mutex_unlock(&s->lock);
    if (up)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "spawn_down",
                   "the part that speaks to Slurm is not connected");
}

static json_t *frame_of(const struct spawn_request *r, const char *request,
                        const char *generation)
{
    json_t *args =
        r->args ? json_incref((json_t *)(uintptr_t)r->args) : json_object();
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_int(o, "v", PROTO_VERSION);
    rc |= json_put_str(o, "request", request);
    rc |= json_put_str(o, "ulid", r->ulid);
    rc |= json_put_str(o, "actor", r->actor ? r->actor : "system");
    rc |= json_put_str(o, "token", r->token);
    rc |= json_put_str(o, "verb", proto_verb_name(r->verb));
    rc |= json_put(o, "args", args);
    rc |= json_put_str(o, "generation", generation);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* A SEQPACKET frame goes whole or not at all: a failed send left nothing. */
static int send_frame(struct spawn *s, const struct spawn_pending *p,
                      const json_t *frame, int fd, int64_t deadline,
                      struct err *e)
{
    struct err why = ERR_INIT;
    int left = clock_left_ms(deadline), rc = -1, sock;

    pthread_mutex_lock(&s->send_lock);
    pthread_mutex_lock(&s->lock);
    sock = s->up && s->epoch == p->epoch ? s->sock : -1;
    pthread_mutex_unlock(&s->lock);
    if (sock >= 0)
        rc = wire_send(sock, frame, &fd, fd >= 0 ? 1 : 0,
                       left < SEND_WAIT_MS ? left : SEND_WAIT_MS, &why);
    pthread_mutex_unlock(&s->send_lock);
    if (rc == 0)
        return 0;
    if (why.class == ERR_TOO_LARGE)
        return err_set(e, ERR_TOO_LARGE, "too_large",
                       "the request is too large for Slurm's side");
    return err_set(e, ERR_UNAVAILABLE, "spawn_not_sent",
                   "the part that speaks to Slurm took no request");
}

/* What can't be sent now is asked for again by the caller's clock, and a new
 * connection brings a socket of itself. */
void spawn_ask_watch(struct spawn *s)
{
    json_t *o = json_object();
    struct err e = ERR_INIT;
    int rc = json_put_int(o, "v", PROTO_VERSION), sock;

    rc |= json_put_bool(o, "watch", true);
    pthread_mutex_lock(&s->send_lock);
    pthread_mutex_lock(&s->lock);
    sock = s->up ? s->sock : -1;
    pthread_mutex_unlock(&s->lock);
    if (rc == 0 && sock >= 0 && wire_send(sock, o, NULL, 0, 0, &e))
        log_err("watch_ask", NULL, &e);
    pthread_mutex_unlock(&s->send_lock);
    json_decref(o);
}

static void forget(struct spawn *s, struct spawn_pending *p)
{
    pthread_mutex_lock(&s->lock);
    for (struct spawn_pending **q = &s->head; *q; q = &(*q)->next) {
        if (*q == p) {
            *q = p->next;
            break;
        }
    }
    pthread_mutex_unlock(&s->lock);
    json_decref(p->result);
    free(p);
}

static struct spawn_pending *pending_new(const struct spawn_request *r,
                                         struct err *e)
{
    struct spawn_pending *p = calloc(1, sizeof *p);

    if (!p) {
        err_nomem(e);
        return NULL;
    }
    p->verb = r->verb;
    if (r->request && strlen(r->request) == ULID_LEN)
        memcpy(p->request, r->request, ULID_LEN + 1);
    else if (id_ulid(clock_now_ms(), p->request)) {
        err_set(e, ERR_INTERNAL, "crypto_failed", "no random bytes");
        free(p);
        return NULL;
    }
    return p;
}

/* *read_fd (the caller's) ends with EOF before the result comes. */
static int begin(struct spawn *s, const struct spawn_request *r,
                 int64_t deadline, int *read_fd, struct spawn_pending **out,
                 struct err *e)
{
    char generation[GENERATION_ID_LEN + 1] = "";
    struct spawn_pending *p = pending_new(r, e);
    int fds[2] = {-1, -1}, rc = -1;
    json_t *frame = NULL;

    if (!p)
        return -1;
    if (join_link(s, p, deadline, e)) {
        free(p);
        return -1;
    }
    s->hooks.generation(s->hooks.arg, generation);
    if (r->generation)
        memcpy(r->generation, generation, sizeof generation);
    frame = frame_of(r, p->request, generation);
    if (!frame)
        err_nomem(e);
    else if (read_fd && pipe2(fds, O_CLOEXEC))
        err_sys(e, ERR_INTERNAL, errno, "no_pipe", "pipe");
    else
        rc = send_frame(s, p, frame, fds[1], deadline, e);
    json_decref(frame);
    if (fds[1] >= 0)
        close(fds[1]);
    if (rc == 0) {
        if (read_fd)
            *read_fd = fds[0];
        *out = p;
        return 0;
    }
    if (fds[0] >= 0)
        close(fds[0]);
    forget(s, p);
    return -1;
}

/* --- waiting --- */

static int answer_lost(struct err *e, const char *why)
{
    return err_set(e, ERR_UNKNOWN, "answer_lost",
                   "the request was sent, and %s", why);
}

/* Once a submit was being sent, only slurmctld's own word is a refusal; a
 * transport error, a dead worker or a full disk leave it open. */
static int judge(struct spawn_pending *p, json_t **result, struct err *e)
{
    if (p->ok) {
        *result = p->result; /* moves */
        p->result = NULL;
        return 0;
    }
    if (p->stage == STAGE_SENDING && p->error.class != ERR_SLURM &&
        p->verb == VERB_SUBMIT)
        return answer_lost(e, "its outcome is not known");
    if (e && !err_is_set(e))
        *e = p->error;
    return err_set(e, ERR_INTERNAL, "wire_frame", "a refusal without reason");
}

/* Frees p. */
static int wait_result(struct spawn *s, struct spawn_pending *p,
                       int64_t deadline_mono_ms, json_t **result, struct err *e)
{
    struct timespec at;
    bool done, lost;
    int rc;

    *result = NULL;
    to_timespec(deadline_mono_ms, &at);
    pthread_mutex_lock(&s->lock);
    while (!p->done && !p->lost && !s->stopping) {
        if (pthread_cond_timedwait(&s->change, &s->lock, &at))
            break;
    }
    done = p->done;
    lost = p->lost;
    pthread_mutex_unlock(&s->lock);
    if (done) /* nobody writes to p any more */
        rc = judge(p, result, e);
    else if (lost)
        rc = answer_lost(e, "the connection ended");
    else
        rc = answer_lost(e, "no answer came in time");
    forget(s, p);
    return rc;
}

static bool is_over(struct spawn *s, const struct spawn_pending *p)
{
    bool over;

    pthread_mutex_lock(&s->lock);
    over = (p->done && !p->ok) || s->stopping;
    pthread_mutex_unlock(&s->lock);
    return over;
}

/* Until EOF, a refusal, or the deadline. Closes fd. */
static int drain(struct spawn *s, struct spawn_pending *p, int fd,
                 struct buf *into, int64_t deadline, struct err *e)
{
    char piece[16384];
    ssize_t n = 1;

    while (n > 0 && clock_left_ms(deadline) > 0 && !is_over(s, p)) {
        struct pollfd v = {fd, POLLIN, 0};
        int left = clock_left_ms(deadline);
        if (poll(&v, 1, left < PIPE_SLICE_MS ? left : PIPE_SLICE_MS) <= 0)
            continue;
        n = read(fd, piece, sizeof piece);
        if (n > 0 && buf_add(into, piece, (size_t)n)) {
            err_set(e, ERR_TOO_LARGE, "too_large", "the answer is too large");
            break;
        }
        if (n < 0 && errno == EINTR)
            n = 1;
    }
    close(fd);
    return err_is_set(e) ? -1 : 0;
}

static int call_once(struct spawn *s, const struct spawn_request *r,
                     int64_t deadline, json_t **result, struct err *e)
{
    struct spawn_pending *p = NULL;
    int fd = -1;

    if (begin(s, r, deadline, r->pipe ? &fd : NULL, &p, e))
        return -1;
    if (r->pipe && drain(s, p, fd, r->pipe, deadline, e)) {
        forget(s, p);
        return -1;
    }
    return wait_result(s, p, deadline, result, e);
}

/* Both sides switch within moments of each other: wait for our own half. */
static void await_switch(struct spawn *s, const char *used, int64_t deadline)
{
    static const struct timespec tick = {0, 20 * 1000000};
    int64_t until = clock_mono_ms() + SWITCH_WAIT_MS;
    char now[GENERATION_ID_LEN + 1] = "";

    while (clock_left_ms(until) > 0 && clock_left_ms(deadline) > 0) {
        s->hooks.generation(s->hooks.arg, now);
        if (strcmp(now, used))
            return;
        nanosleep(&tick, NULL);
    }
}

int spawn_call(struct spawn *s, const struct spawn_request *r,
               int64_t deadline_mono_ms, json_t **result, struct err *e)
{
    char used[GENERATION_ID_LEN + 1] = "";
    struct spawn_request mine = *r;
    struct err first = ERR_INIT;
    int rc;

    *result = NULL;
    if (!mine.generation)
        mine.generation = used;
    rc = call_once(s, &mine, deadline_mono_ms, result, &first);
    if (rc && !strcmp(first.code, "generation_mismatch")) {
        await_switch(s, mine.generation, deadline_mono_ms);
        if (mine.pipe)
            buf_reset(mine.pipe);
        mine.request = NULL; /* a request id names one answer only */
        err_clear(&first);
        rc = call_once(s, &mine, deadline_mono_ms, result, &first);
    }
    if (rc && e && !err_is_set(e))
        *e = first;
    return rc;
}
