/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_A_TURN = 64 };

struct loop_fd {
    struct loop_fd *next; /* in the list of the dead */
    int fd;
    void (*fn)(void *arg, uint32_t events); /* NULL: dead */
    void *arg;
};

struct loop {
    int epoll;
    struct loop_timer *timers; /* unsorted: a few hundred at most */
    uint64_t seq;              /* of the last one set */
    struct loop_fd *dead;      /* freed at the end of the turn */
    void (*turn)(void *arg);
    void *turn_arg;
    bool stopped;
};

int loop_new(struct loop **out, struct err *e)
{
    struct loop *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return err_nomem(e);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll < 0) {
        (void)err_sys(e, ERR_INTERNAL, errno, "loop_epoll", "epoll");
        free(l);
        return -1;
    }
    *out = l;
    return 0;
}

static void bury(struct loop *l)
{
    struct loop_fd *f;

    while ((f = l->dead) != NULL) {
        l->dead = f->next;
        free(f);
    }
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    bury(l);
    (void)close(l->epoll);
    free(l);
}

struct loop_fd *loop_watch(struct loop *l, int fd, uint32_t events,
                           void (*fn)(void *arg, uint32_t events), void *arg,
                           struct err *e)
{
    struct epoll_event ev = {.events = events};
    struct loop_fd *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    f->fd = fd;
    f->fn = fn;
    f->arg = arg;
    ev.data.ptr = f;
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) != 0) {
        (void)err_sys(e, ERR_INTERNAL, errno, "loop_epoll", "epoll_ctl");
        free(f);
        return NULL;
    }
    return f;
}

void loop_change(struct loop *l, struct loop_fd *f, uint32_t events)
{
    struct epoll_event ev = {.events = events};

    ev.data.ptr = f;
    (void)epoll_ctl(l->epoll, EPOLL_CTL_MOD, f->fd, &ev);
}

void loop_unwatch(struct loop *l, struct loop_fd *f)
{
    if (f == NULL)
        return;
    (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, f->fd, NULL);
    f->fn = NULL;
    f->next = l->dead;
    l->dead = f;
}

void loop_timer_init(struct loop_timer *t, void (*fn)(void *arg), void *arg)
{
    *t = (struct loop_timer){.fn = fn, .arg = arg};
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
    if (!t->armed)
        return;
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        l->timers = t->next;
    if (t->next != NULL)
        t->next->prev = t->prev;
    t->next = t->prev = NULL;
    t->armed = false;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, int64_t delay_ms)
{
    loop_timer_stop(l, t);
    t->seq = ++l->seq;
    t->due_ms = clock_mono_ms() + (delay_ms > 0 ? delay_ms : 0);
    t->next = l->timers;
    t->prev = NULL;
    if (l->timers != NULL)
        l->timers->prev = t;
    l->timers = t;
    t->armed = true;
}

void loop_on_turn(struct loop *l, void (*fn)(void *arg), void *arg)
{
    l->turn = fn;
    l->turn_arg = arg;
}

/* Among those set no later than `seq`. */
static struct loop_timer *earliest(const struct loop *l, uint64_t seq)
{
    struct loop_timer *t, *best = NULL;

    for (t = l->timers; t != NULL; t = t->next) {
        if (t->seq <= seq && (best == NULL || t->due_ms < best->due_ms))
            best = t;
    }
    return best;
}

/* Those that were set when it began: one that is set in a callback waits for
 * the next turn, so that descriptors get theirs. */
static void fire_timers(struct loop *l)
{
    int64_t now = clock_mono_ms();
    uint64_t seq = l->seq;
    struct loop_timer *t;

    while ((t = earliest(l, seq)) != NULL && t->due_ms <= now) {
        loop_timer_stop(l, t);
        t->fn(t->arg);
    }
}

static int sleep_ms(const struct loop *l)
{
    const struct loop_timer *t = earliest(l, l->seq);

    return t == NULL ? -1 : clock_left_ms(t->due_ms);
}

static int turn(struct loop *l, struct err *e)
{
    struct epoll_event ev[EVENTS_A_TURN];
    int n = epoll_wait(l->epoll, ev, EVENTS_A_TURN, sleep_ms(l));

    if (n < 0 && errno != EINTR)
        return err_sys(e, ERR_INTERNAL, errno, "loop_epoll", "epoll_wait");
    for (int i = 0; i < n; i++) {
        struct loop_fd *f = ev[i].data.ptr;

        if (f->fn != NULL)
            f->fn(f->arg, ev[i].events);
    }
    fire_timers(l);
    if (l->turn != NULL)
        l->turn(l->turn_arg);
    bury(l);
    return 0;
}

int loop_run(struct loop *l, struct err *e)
{
    while (!l->stopped) {
        if (turn(l, e) != 0)
            return -1;
    }
    return 0;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}
