/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/client.h"

#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/proto.h"
#include "broker/spawn/admin.h"
#include "broker/spawn/frame.h"
#include "broker/spawn/gens.h"
#include "broker/spawn/ops.h"
#include "broker/spawn/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRAMES_A_TURN = 64, ACCEPT_PAUSE_MS = 200 };

struct waiting { /* a frame that found no room */
    struct waiting *next;
    json_t *frame;
    int fd;
};

struct client {
    struct client *next;
    struct clients *set;
    int sock;
    struct loop_fd *watch;
    bool may_verbs, may_admin;
    bool broken; /* ends when the loop comes to it */
    struct loop_timer end;
    struct waiting *queue, **queue_end;
    size_t queued;
};

struct clients {
    struct spawnd *spawnd;
    int listener;
    struct loop_fd *watch;
    struct loop_timer pause; /* accept failed: the listener rests until then */
    struct client *first;
    size_t count;
};

/* --- sending -------------------------------------------------------------- */

static void waiting_free(struct waiting *q)
{
    json_decref(q->frame);
    if (q->fd >= 0)
        (void)close(q->fd);
    free(q);
}

static void set_broken(struct client *c)
{
    c->broken = true;
    loop_timer_set(c->set->spawnd->loop, &c->end, 0);
}

/* 0: sent; 1: no room now; -1: never. */
static int try_send(struct client *c, const json_t *frame, int fd)
{
    struct err e = ERR_INIT;

    if (wire_send(c->sock, frame, &fd, fd >= 0 ? 1 : 0, 0, &e) == 0)
        return 0;
    return strcmp(e.code, "wire_full") == 0 ? 1 : -1;
}

/* Consumes frame and fd. */
static void enqueue(struct client *c, json_t *frame, int fd)
{
    struct waiting *q = calloc(1, sizeof(*q));

    if (q == NULL || c->queued >= CLIENT_QUEUE_MAX) {
        free(q);
        json_decref(frame);
        if (fd >= 0)
            (void)close(fd);
        set_broken(c);
        return;
    }
    *q = (struct waiting){NULL, frame, fd};
    *c->queue_end = q;
    c->queue_end = &q->next;
    c->queued++;
    loop_change(c->set->spawnd->loop, c->watch, EPOLLIN | EPOLLOUT);
}

static void send_with_fd(struct client *c, json_t *frame, int fd)
{
    int r = frame == NULL || c->broken ? -1
            : c->queue != NULL         ? 1
                                       : try_send(c, frame, fd);

    if (r == 1) {
        enqueue(c, frame, fd);
        return;
    }
    json_decref(frame);
    if (fd >= 0)
        (void)close(fd);
    if (r != 0)
        set_broken(c);
}

void client_send(struct client *c, json_t *frame)
{
    send_with_fd(c, frame, -1);
}

static void drain(struct client *c)
{
    struct waiting *q;
    int r = 0;

    while ((q = c->queue) != NULL && (r = try_send(c, q->frame, q->fd)) == 0) {
        c->queue = q->next;
        c->queued--;
        waiting_free(q);
    }
    if (c->queue == NULL) {
        c->queue_end = &c->queue;
        loop_change(c->set->spawnd->loop, c->watch, EPOLLIN);
    }
    if (r < 0)
        set_broken(c);
}

/* --- greeting ------------------------------------------------------------- */

static void send_hello(struct client *c)
{
    struct spawnd *d = c->set->spawnd;
    const struct generation *g = gens_current(d->gens);
    json_t *f = frame_event("hello");
    int r = json_put_str(f, "generation", g != NULL ? g->id : NULL);

    r |= json_put_str(f, "mode", d->config.mode);
    if (r != 0) {
        json_decref(f);
        f = NULL;
    }
    client_send(c, f);
}

static void send_watch(struct client *c)
{
    struct err e = ERR_INIT;
    int fd = watch_peer(c->set->spawnd->watch, &e);

    if (fd >= 0)
        send_with_fd(c, frame_event("watch"), fd);
    else
        log_err("watch_peer", NULL, &e); /* it comes when watch does */
}

void clients_new_watch(struct clients *s)
{
    for (struct client *c = s->first; c != NULL; c = c->next) {
        if (c->may_verbs && !c->broken)
            send_watch(c);
    }
}

/* --- ending --------------------------------------------------------------- */

static void client_free(struct client *c)
{
    struct loop *l = c->set->spawnd->loop;
    struct client **p = &c->set->first;
    struct waiting *q;

    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    c->set->count--;
    loop_timer_stop(l, &c->end);
    loop_unwatch(l, c->watch);
    (void)close(c->sock);
    while ((q = c->queue) != NULL) {
        c->queue = q->next;
        waiting_free(q);
    }
    free(c);
}

static void on_end(void *arg)
{
    struct client *c = arg;
    struct spawnd *d = c->set->spawnd;

    ops_client_gone(d->ops, c);
    admin_client_gone(d, c);
    client_free(c);
}

/* --- hearing -------------------------------------------------------------- */

/* {"v":1,"watch":true}: its peer socket was lost. */
static int watch_frame(struct client *c, const json_t *body, struct err *e)
{
    static const char *const keys[] = {"v", "watch", NULL};
    bool yes = false;
    int64_t v = 0;

    if (json_only(body, keys, "", e) != 0 ||
        json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                     e) != 0 ||
        json_get_bool(body, "watch", true, &yes, "", e) != 0)
        return -1;
    if (yes && watch_up(c->set->spawnd->watch))
        send_watch(c); /* else clients_new_watch() does, when it is up */
    return 0;
}

static int on_frame(struct client *c, struct wire_msg *m, struct err *e)
{
    struct spawnd *d = c->set->spawnd;

    if (json_object_get(m->body, "admin") != NULL) {
        if (!c->may_admin)
            return err_set(e, ERR_DENIED, "peer_refused", "not an admin");
        return admin_frame(d, c, m->body, e);
    }
    if (!c->may_verbs)
        return err_set(e, ERR_DENIED, "peer_refused", "not sluiced");
    if (json_object_get(m->body, "watch") != NULL)
        return watch_frame(c, m->body, e);
    return ops_begin(d->ops, c, m, e);
}

static void hear(struct client *c)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int r = 1;

    wire_msg_init(&m);
    for (int i = 0; r == 1 && i < FRAMES_A_TURN && !c->broken; i++) {
        r = wire_recv(c->sock, &m, 0, &e);
        if (r == 1 && on_frame(c, &m, &e) != 0)
            r = -1;
        wire_msg_clear(&m);
    }
    if (r == 1 || strcmp(e.code, "wire_timeout") == 0)
        return;
    if (r < 0)
        log_err("client_dropped", NULL, &e);
    set_broken(c);
}

static void on_sock(void *arg, uint32_t events)
{
    struct client *c = arg;

    if ((events & EPOLLOUT) != 0)
        drain(c);
    if ((events & (uint32_t)~EPOLLOUT) != 0 && !c->broken)
        hear(c);
}

/* --- accepting ------------------------------------------------------------ */

static int judge_peer(struct client *c, struct err *e)
{
    const struct config *f = &c->set->spawnd->config;
    uid_t uid;

    if (wire_peer(c->sock, NULL, &uid, NULL, e) != 0)
        return -1;
    c->may_verbs = uid == f->accounts.sluice_uid;
    c->may_admin = uid == 0 || (f->self_mode && uid == geteuid());
    /* Root always finds a place, whatever sluiced does. */
    if (!c->may_admin && c->set->count >= CLIENTS_MAX)
        return err_set(e, ERR_LIMITED, "clients_max", "too many connections");
    if (c->may_verbs || c->may_admin)
        return 0;
    return err_set(e, ERR_DENIED, "peer_refused", "uid %ld may not connect",
                   (long)uid);
}

static struct client *client_new(struct clients *s, int sock, struct err *e)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    c->set = s;
    c->sock = sock;
    c->queue_end = &c->queue;
    loop_timer_init(&c->end, on_end, c);
    if (judge_peer(c, e) == 0)
        c->watch = loop_watch(s->spawnd->loop, sock, EPOLLIN, on_sock, c, e);
    if (c->watch != NULL)
        return c;
    free(c);
    return NULL;
}

static void greet(struct clients *s, struct client *c)
{
    c->next = s->first;
    s->first = c;
    s->count++;
    if (!c->may_verbs)
        return;
    send_hello(c);
    if (watch_up(s->spawnd->watch))
        send_watch(c);
}

static void on_pause(void *arg)
{
    struct clients *s = arg;

    loop_change(s->spawnd->loop, s->watch, EPOLLIN);
}

/* Without a free descriptor the connection stays in the queue, and the listener
 * stays readable: it must not make the loop spin. */
static void accept_failed(struct clients *s, int sys)
{
    struct err e = ERR_INIT;

    if (sys == EAGAIN || sys == EINTR || sys == ECONNABORTED)
        return;
    err_sys(&e, ERR_UNAVAILABLE, sys, "accept", "accept");
    log_err("accept_failed", NULL, &e);
    loop_change(s->spawnd->loop, s->watch, 0);
    loop_timer_set(s->spawnd->loop, &s->pause, ACCEPT_PAUSE_MS);
}

static void on_accept(void *arg, uint32_t events)
{
    struct clients *s = arg;
    struct err e = ERR_INIT;
    struct client *c;
    int sock = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (sock < 0) {
        accept_failed(s, errno);
        return;
    }
    c = client_new(s, sock, &e);
    if (c != NULL) {
        greet(s, c);
        return;
    }
    log_err("client_refused", NULL, &e);
    (void)close(sock);
}

int clients_new(struct spawnd *d, struct clients **out, struct err *e)
{
    struct clients *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return err_nomem(e);
    s->spawnd = d;
    s->listener = -1;
    loop_timer_init(&s->pause, on_pause, s);
    *out = s;
    return 0;
}

/* The group is given away after the mode: until then sluiced just retries. */
int clients_listen(struct clients *s, struct err *e)
{
    const char *path = s->spawnd->paths.spawn_sock;
    const struct config *f = &s->spawnd->config;

    s->listener = wire_listen(path, SOCK_SEQPACKET, 0660, e);
    if (s->listener < 0)
        return -1;
    if (!f->self_mode && chown(path, (uid_t)-1, f->accounts.sluice_gid) != 0)
        return err_sys(e, ERR_CONFIG, errno, "socket_path",
                       "%s can't be given to the group of %s", path,
                       f->accounts.sluice);
    s->watch =
        loop_watch(s->spawnd->loop, s->listener, EPOLLIN, on_accept, s, e);
    return s->watch != NULL ? 0 : -1;
}

void clients_stop_accepting(struct clients *s)
{
    loop_timer_stop(s->spawnd->loop, &s->pause);
    loop_unwatch(s->spawnd->loop, s->watch);
    s->watch = NULL;
    if (s->listener < 0)
        return;
    (void)close(s->listener);
    (void)unlink(s->spawnd->paths.spawn_sock);
    s->listener = -1;
}

void clients_free(struct clients *s)
{
    if (s == NULL)
        return;
    clients_stop_accepting(s);
    while (s->first != NULL)
        client_free(s->first);
    free(s);
}
