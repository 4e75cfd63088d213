/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/stream.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 200 };

struct http_stream {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct MHD_Connection *connection;
    char ring[STREAM_RING];
    size_t head, len;
    bool asleep; /* the connection is suspended for want of bytes */
    bool reader_gone, ended, whole;
    const atomic_bool *stopping; /* borrowed */
    int64_t stop_at_ms;          /* 0: not stopping yet */
};

struct http_stream *stream_new(struct MHD_Connection *c,
                               const atomic_bool *stopping)
{
    struct http_stream *s = calloc(1, sizeof(*s));
    pthread_condattr_t attr;

    if (s == NULL)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->room, &attr);
    pthread_condattr_destroy(&attr);
    s->connection = c;
    s->stopping = stopping;
    return s;
}

void stream_free(struct http_stream *s)
{
    if (s == NULL)
        return;
    pthread_cond_destroy(&s->room);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void stream_reader_gone(struct http_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->reader_gone = true;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
}

/* With the lock held. */
static void wake(struct http_stream *s)
{
    if (s->asleep && !s->reader_gone) {
        s->asleep = false;
        MHD_resume_connection(s->connection);
    }
}

void stream_end(struct http_stream *s, bool whole)
{
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->whole = whole;
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* Does the server stop, and is what a stream gets after that over? A client
 * that reads a little now and then would hold up the end for ever. */
static bool is_cut(struct http_stream *s)
{
    if (!atomic_load(s->stopping))
        return false;
    if (s->stop_at_ms == 0)
        s->stop_at_ms = clock_mono_ms() + STREAM_STOP_MS;
    return clock_left_ms(s->stop_at_ms) == 0;
}

/* With the lock held, at most LOOK_MS: `stopping` has no condition. */
static void wait_a_little(struct http_stream *s)
{
    int64_t until = clock_mono_ms() + LOOK_MS;
    struct timespec at = {.tv_sec = (time_t)(until / 1000),
                          .tv_nsec = (long)(until % 1000) * 1000000};

    pthread_cond_timedwait(&s->room, &s->lock, &at);
}

/* Free space, 0 when the reader is gone or too slow. With the lock held. */
static size_t wait_room(struct http_stream *s)
{
    int64_t until = clock_mono_ms() + STREAM_STALL_SECONDS * 1000;

    while (s->len == STREAM_RING && !s->reader_gone && !is_cut(s) &&
           clock_left_ms(until) > 0)
        wait_a_little(s);
    return s->reader_gone || is_cut(s) ? 0 : STREAM_RING - s->len;
}

int stream_add(struct http_stream *s, const char *p, size_t n, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    while (n > 0) {
        size_t room = wait_room(s);
        size_t at = (s->head + s->len) % STREAM_RING;
        size_t take = n < room ? n : room;

        if (take > STREAM_RING - at)
            take = STREAM_RING - at;
        if (take == 0) {
            pthread_mutex_unlock(&s->lock);
            return err_set(e, ERR_UNAVAILABLE, "stream_gone",
                           "the client stopped reading");
        }
        memcpy(s->ring + at, p, take);
        s->len += take;
        p += take;
        n -= take;
        wake(s);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

ssize_t stream_read(void *cls, uint64_t pos, char *out, size_t max)
{
    struct http_stream *s = cls;
    size_t take;

    (void)pos;
    pthread_mutex_lock(&s->lock);
    take = s->len < max ? s->len : max;
    if (take > STREAM_RING - s->head)
        take = STREAM_RING - s->head;
    if (take == 0 && !s->ended) {
        s->asleep = true;
        MHD_suspend_connection(s->connection);
    }
    if (take == 0 && s->ended) {
        bool whole = s->whole;

        pthread_mutex_unlock(&s->lock);
        return whole ? MHD_CONTENT_READER_END_OF_STREAM
                     : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    memcpy(out, s->ring + s->head, take);
    s->head = (s->head + take) % STREAM_RING;
    s->len -= take;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    return (ssize_t)take;
}
