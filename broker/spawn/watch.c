/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/watch.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/wire.h"
#include "broker/proto.h"
#include "broker/spawn/sight.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

/* It tells a poll each second, or slower when slurmctld is slow (libslurm may
 * take 60 s for one call): two minutes without a word are a hang. */
enum {
    BRAKE_FIRST_MS = 1000,
    BRAKE_MAX_MS = 30000,
    SILENCE_MS = 120 * 1000,
    FRAMES_A_TURN = 256,
    ASKED_MAX = 1024
};

struct watch_ask {
    struct watch_ask *next;
    struct watch *watch;
    int64_t id;
    struct loop_timer deadline;
    watch_done *done; /* NULL: forgotten */
    void *arg;
};

struct watch {
    struct loop *loop;
    struct children *children;
    const struct config *config;
    const char *pid_file;
    struct record *record;
    void (*up)(void *arg);
    void *arg;
    char path[256], poll_ms[24];
    struct child *child;
    int sock;
    struct loop_fd *fd;
    struct loop_timer again, silence;
    int64_t brake_ms;
    unsigned epoch; /* of this life of it */
    bool swept;     /* a whole poll came since it started */
    int64_t message_timeout;
    struct watch_ask *asks;
    size_t asked;
    int64_t next_id;
};

/* --- asks ----------------------------------------------------------------- */

static void settle(struct watch_ask *a, const json_t *answer,
                   const struct err *why)
{
    struct watch *w = a->watch;
    struct watch_ask **p = &w->asks;

    while (*p != a)
        p = &(*p)->next;
    *p = a->next;
    w->asked--;
    loop_timer_stop(w->loop, &a->deadline);
    if (a->done != NULL)
        a->done(a->arg, answer, why);
    free(a);
}

static void down(struct err *e)
{
    (void)err_set(e, ERR_UNAVAILABLE, "watch_down",
                  "Slurm is not being watched at the moment");
}

static void fail_asks(struct watch *w)
{
    int64_t limit = w->next_id;
    struct err why = ERR_INIT;
    struct watch_ask *a;

    down(&why);
    for (;;) {
        for (a = w->asks; a != NULL && a->id >= limit; a = a->next)
            continue;
        if (a == NULL)
            return;
        settle(a, NULL, &why);
    }
}

static void on_late(void *arg)
{
    struct err why = ERR_INIT;

    (void)err_set(&why, ERR_UNAVAILABLE, "watch_timeout",
                  "Slurm did not answer in time");
    settle(arg, NULL, &why);
}

static int send_ask(struct watch *w, json_t *ask, int64_t id, struct err *e)
{
    char text[24];
    int r = 0;

    (void)snprintf(text, sizeof(text), "%lld", (long long)id);
    r |= json_put_int(ask, "v", PROTO_VERSION);
    r |= json_put_str(ask, "id", text);
    return r != 0 ? err_nomem(e) : wire_send(w->sock, ask, NULL, 0, 0, e);
}

int watch_ask(struct watch *w, json_t *ask, watch_done *done, void *arg,
              struct err *e)
{
    struct watch_ask *a = NULL;
    int r = -1;

    if (w->sock < 0 || w->asked >= ASKED_MAX)
        down(e);
    else if (ask == NULL || (a = calloc(1, sizeof(*a))) == NULL)
        (void)err_nomem(e);
    else
        r = send_ask(w, ask, w->next_id, e);
    json_decref(ask);
    if (r != 0) {
        free(a);
        return -1;
    }
    *a = (struct watch_ask){.next = w->asks,
                            .watch = w,
                            .id = w->next_id++,
                            .done = done,
                            .arg = arg};
    w->asks = a;
    w->asked++;
    loop_timer_init(&a->deadline, on_late, a);
    loop_timer_set(w->loop, &a->deadline, WATCH_ASK_MS);
    return 0;
}

void watch_forget(struct watch *w, const void *arg)
{
    for (struct watch_ask *a = w->asks; a != NULL; a = a->next) {
        if (a->arg == arg)
            a->done = NULL;
    }
}

/* --- its words ------------------------------------------------------------ */

static void on_poll(struct watch *w, const json_t *body)
{
    bool ctld = false;
    int64_t timeout = 0;

    w->brake_ms = 0;
    if (json_get_int(body, "message_timeout_seconds", false, 0, 86400, &timeout,
                     "", NULL) == 0 &&
        timeout > 0)
        w->message_timeout = timeout;
    if (json_get_bool(body, "slurmctld", true, &ctld, "", NULL) == 0 && ctld &&
        !w->swept) {
        w->swept = true;
        sight_swept(w->record, w->epoch);
    }
}

static void on_job(struct watch *w, const json_t *body)
{
    (void)sight_job(w->record, json_object_get(body, "job"), w->epoch);
}

static void on_gone(struct watch *w, const json_t *body)
{
    sight_gone(w->record, body);
}

static void on_answer(struct watch *w, const json_t *body)
{
    const json_t *jobs =
        json_object_get(json_object_get(body, "slurmctld"), "jobs");
    struct err none = ERR_INIT;
    struct watch_ask *a;
    const char *text;
    int64_t id;

    for (size_t i = 0; i < json_array_size(jobs); i++)
        (void)sight_job(w->record, json_array_get(jobs, i), w->epoch);
    if (json_get_str(body, "id", true, 24, &text, "", NULL) != 0 ||
        num_parse(text, 1, INT64_MAX, &id) != 0)
        return;
    for (a = w->asks; a != NULL && a->id != id; a = a->next)
        continue;
    if (a != NULL)
        settle(a, body, &none);
}

static void on_nothing(struct watch *w, const json_t *body)
{
    (void)w;
    (void)body;
}

static const struct {
    const char *event;
    void (*fn)(struct watch *w, const json_t *body);
} events_of_watch[] = {
    {"poll", on_poll},     {"job", on_job},        {"gone", on_gone},
    {"answer", on_answer}, {"synced", on_nothing},
};

static int on_frame(struct watch *w, const json_t *body, struct err *e)
{
    const char *event;

    if (json_get_str(body, "event", true, 16, &event, "", e) != 0)
        return -1;
    loop_timer_set(w->loop, &w->silence, SILENCE_MS);
    for (size_t i = 0; i < sizeof(events_of_watch) / sizeof(*events_of_watch);
         i++) {
        if (strcmp(events_of_watch[i].event, event) == 0) {
            events_of_watch[i].fn(w, body);
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "wire_frame", "unknown event");
}

/* --- its life ------------------------------------------------------------- */

static void close_sock(struct watch *w)
{
    loop_unwatch(w->loop, w->fd);
    w->fd = NULL;
    if (w->sock >= 0)
        (void)close(w->sock);
    w->sock = -1;
}

static void distrust(struct watch *w, const char *why)
{
    log_event(LOG_ERROR_, "watch_distrusted", NULL, "why", why, NULL);
    close_sock(w);
    loop_timer_stop(w->loop, &w->silence);
    if (w->child != NULL)
        child_kill(w->child);
    fail_asks(w);
}

static void on_sock(void *arg, uint32_t events)
{
    struct watch *w = arg;
    struct err e = ERR_INIT;
    struct wire_msg m;
    int r = 1;

    (void)events;
    wire_msg_init(&m);
    for (int i = 0; r == 1 && i < FRAMES_A_TURN && w->sock >= 0; i++) {
        r = wire_recv(w->sock, &m, 0, &e);
        if (r == 1 && on_frame(w, m.body, &e) != 0)
            r = -1;
        wire_msg_clear(&m);
    }
    if (w->sock < 0 || r == 1 || strcmp(e.code, "wire_timeout") == 0)
        return;
    if (r == 0 || strcmp(e.code, "wire_closed") == 0)
        close_sock(w); /* its process's end follows, or silence ends it */
    else
        distrust(w, e.text);
}

static void on_silence(void *arg)
{
    distrust(arg, "it says nothing any more");
}

static void schedule(struct watch *w)
{
    loop_timer_set(w->loop, &w->again, w->brake_ms);
    w->brake_ms = w->brake_ms == 0 ? BRAKE_FIRST_MS : w->brake_ms * 2;
    if (w->brake_ms > BRAKE_MAX_MS)
        w->brake_ms = BRAKE_MAX_MS;
}

static void on_end(void *arg, const struct child_end *end)
{
    struct watch *w = arg;
    char status[16];

    (void)snprintf(status, sizeof(status), "%d", end->status);
    log_event(LOG_WARN_, "watch_ended", NULL, "status", status, "line",
              end->line, "step_errno", end->sys != 0 ? strerror(end->sys) : "",
              NULL);
    w->child = NULL;
    close_sock(w);
    loop_timer_stop(w->loop, &w->silence);
    (void)unlink(w->pid_file);
    schedule(w);
    fail_asks(w);
}

static void write_pid(struct watch *w)
{
    struct err e = ERR_INIT;
    char text[24];
    int n = snprintf(text, sizeof(text), "%d\n", (int)child_pid(w->child));

    if (file_write(AT_FDCWD, w->pid_file, text, (size_t)n, 0644, (uid_t)-1,
                   (gid_t)-1, &e) != 0)
        log_err("watch_pid", NULL, &e);
}

static int start_child(struct watch *w, int theirs, struct err *e)
{
    const struct config *f = w->config;
    const char *const argv[] = {
        "sluice-slurm", "watch",    "--cluster", f->cluster.name,
        "--poll-ms",    w->poll_ms, NULL};
    struct child_spec s = {.what = "watch",
                           .path = w->path,
                           .argv = argv,
                           .identity = true,
                           .uid = f->accounts.watch_uid,
                           .gid = f->accounts.watch_gid,
                           .groups = &f->accounts.watch_gid,
                           .ngroups = 1,
                           .in = -1,
                           .out = -1,
                           .control = theirs,
                           .catalog = -1,
                           .on_exit = on_end,
                           .arg = w};

    w->fd = loop_watch(w->loop, w->sock, EPOLLIN, on_sock, w, e);
    if (w->fd != NULL)
        w->child = child_start(w->children, &s, e);
    return w->child != NULL ? 0 : -1;
}

static void start(void *arg)
{
    struct watch *w = arg;
    struct err e = ERR_INIT;
    int sv[2] = {-1, -1};

    if (wire_pair(sv, &e) == 0) {
        w->sock = sv[0];
        (void)start_child(w, sv[1], &e);
        (void)close(sv[1]);
    }
    if (w->child == NULL) {
        close_sock(w);
        log_err("watch_start", NULL, &e);
        schedule(w);
        return;
    }
    w->epoch++;
    w->swept = false;
    loop_timer_set(w->loop, &w->silence, SILENCE_MS);
    write_pid(w);
    w->up(w->arg);
}

int watch_new(struct loop *l, struct children *cs, const struct config *config,
              const char *pid_file, struct record *record,
              void (*up)(void *arg), void *arg, struct watch **out,
              struct err *e)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return err_nomem(e);
    *w = (struct watch){.loop = l,
                        .children = cs,
                        .config = config,
                        .pid_file = pid_file,
                        .record = record,
                        .up = up,
                        .arg = arg,
                        .sock = -1,
                        .next_id = 1};
    (void)snprintf(w->path, sizeof(w->path), "%s/sluice-slurm",
                   config->paths.libexec);
    (void)snprintf(w->poll_ms, sizeof(w->poll_ms), "%lld",
                   (long long)config->limits.poll_ms);
    loop_timer_init(&w->again, start, w);
    loop_timer_init(&w->silence, on_silence, w);
    *out = w;
    return 0;
}

void watch_start(struct watch *w)
{
    start(w);
}

void watch_free(struct watch *w)
{
    struct watch_ask *a;

    if (w == NULL)
        return;
    while ((a = w->asks) != NULL) {
        a->done = NULL;
        settle(a, NULL, NULL);
    }
    loop_timer_stop(w->loop, &w->again);
    loop_timer_stop(w->loop, &w->silence);
    close_sock(w);
    if (w->child != NULL) {
        child_forget(w->child);
        child_kill(w->child);
        (void)unlink(w->pid_file);
    }
    free(w);
}

static int send_peer(struct watch *w, int theirs, struct err *e)
{
    json_t *o = json_object();
    int r = json_put_int(o, "v", PROTO_VERSION);

    r |= json_put_str(o, "event", "peer");
    r = r != 0 ? err_nomem(e) : wire_send(w->sock, o, &theirs, 1, 0, e);
    json_decref(o);
    return r;
}

int watch_peer(struct watch *w, struct err *e)
{
    int sv[2];

    if (w->sock < 0) {
        down(e);
        return -1;
    }
    if (wire_pair(sv, e) != 0)
        return -1;
    if (send_peer(w, sv[1], e) != 0) {
        (void)close(sv[0]);
        sv[0] = -1;
    }
    (void)close(sv[1]);
    return sv[0];
}

bool watch_up(const struct watch *w)
{
    return w->sock >= 0;
}

int64_t watch_message_timeout(const struct watch *w)
{
    return w->message_timeout;
}
