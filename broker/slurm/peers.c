/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/peers.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct peers_frame {
    size_t refs, len;
    char *text;
};

static struct peers_frame *frame_new(json_t *v)
{
    struct peers_frame *f = v != NULL ? calloc(1, sizeof(*f)) : NULL;

    if (f != NULL)
        f->text = json_text(v);
    json_decref(v);
    if (f == NULL || f->text == NULL ||
        (f->len = strlen(f->text)) > WIRE_FRAME_MAX) {
        if (f != NULL)
            free(f->text);
        free(f);
        return NULL;
    }
    f->refs = 1;
    return f;
}

static void frame_unref(struct peers_frame *f)
{
    if (f == NULL || --f->refs > 0)
        return;
    free(f->text);
    free(f);
}

void peers_init(struct peers *p)
{
    memset(p, 0, sizeof(*p));
}

static void peer_close(struct peer *one)
{
    if (one->fd >= 0)
        (void)close(one->fd);
    one->fd = -1;
}

static void peer_clear(struct peer *one)
{
    peer_close(one);
    for (size_t i = 0; i < one->count; i++)
        frame_unref(one->queue[(one->head + i) % one->room]);
    free(one->queue);
    memset(one, 0, sizeof(*one));
    one->fd = -1;
}

void peers_clear(struct peers *p)
{
    for (size_t i = 0; i < p->n; i++)
        peer_clear(&p->v[i]);
    p->n = 0;
}

int peers_add(struct peers *p, int fd)
{
    struct peer *one;

    if (p->n == PEERS_MAX) {
        (void)close(fd);
        return -1;
    }
    one = &p->v[p->n++];
    memset(one, 0, sizeof(*one));
    one->fd = fd;
    one->serial = ++p->serial;
    one->moved_ms = clock_mono_ms();
    return 0;
}

/* The last one takes its place. */
static void drop(struct peers *p, size_t i)
{
    log_event(LOG_WARN_, "peer_dropped", NULL, NULL);
    peer_clear(&p->v[i]);
    p->v[i] = p->v[--p->n];
}

struct peer *peers_find(struct peers *p, uint64_t serial)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].serial == serial)
            return &p->v[i];
    return NULL;
}

static int grow(struct peer *one)
{
    size_t room = one->room == 0 ? 64 : 2 * one->room;
    struct peers_frame **q = calloc(room, sizeof(*q));

    if (q == NULL)
        return -1;
    for (size_t i = 0; i < one->count; i++)
        q[i] = one->queue[(one->head + i) % one->room];
    free(one->queue);
    one->queue = q;
    one->room = room;
    one->head = 0;
    return 0;
}

static void enqueue(struct peer *one, struct peers_frame *f)
{
    if (one->fd < 0)
        return;
    if (one->bytes + f->len > PEERS_QUEUE_MAX ||
        (one->count == one->room && grow(one) != 0)) {
        peer_close(one); /* a hole in what it hears would be a lie */
        return;
    }
    if (one->count == 0)
        one->moved_ms = clock_mono_ms();
    one->queue[(one->head + one->count++) % one->room] = f;
    one->bytes += f->len;
    f->refs++;
}

void peers_tell(struct peers *p, json_t *v)
{
    struct peers_frame *f = frame_new(v);

    for (size_t i = 0; i < p->n; i++) {
        if (f != NULL)
            enqueue(&p->v[i], f);
        else
            peer_close(&p->v[i]);
    }
    frame_unref(f);
}

void peers_tell_one(struct peer *one, json_t *v)
{
    struct peers_frame *f = frame_new(v);

    if (f != NULL)
        enqueue(one, f);
    else
        peer_close(one);
    frame_unref(f);
}

/* As much as the socket takes now. */
static void send_queue(struct peer *one)
{
    while (one->fd >= 0 && one->count > 0) {
        struct peers_frame *f = one->queue[one->head];
        ssize_t n = send(one->fd, f->text, f->len,
                         MSG_NOSIGNAL | MSG_DONTWAIT | MSG_EOR);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
            break;
        if (n < 0) {
            peer_close(one);
            break;
        }
        one->head = (one->head + 1) % one->room;
        one->count--;
        one->bytes -= f->len;
        one->moved_ms = clock_mono_ms();
        frame_unref(f);
    }
    if (one->fd >= 0 && one->count > 0 &&
        clock_mono_ms() - one->moved_ms > PEERS_STALL_MS)
        peer_close(one);
}

bool peers_flush(struct peers *p)
{
    for (size_t i = 0; i < p->n; i++)
        send_queue(&p->v[i]);
    if (p->n == 0 || p->v[0].fd < 0)
        return false;
    for (size_t i = p->n; i-- > 1;)
        if (p->v[i].fd < 0)
            drop(p, i);
    return true;
}
