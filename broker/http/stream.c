/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct http_stream {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct MHD_Connection *connection;
    char ring[STREAM_RING];
    size_t head, len;
    bool asleep; /* the connection is suspended for want of bytes */
    bool reader_gone, ended, whole;
};

struct http_stream *stream_new(struct MHD_Connection *c)
{
    struct http_stream *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->room, NULL);
    s->connection = c;
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

/* Free space, 0 when the reader is gone or too slow. With the lock held. */
static size_t wait_room(struct http_stream *s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STREAM_STALL_SECONDS;
    while (s->len == STREAM_RING && !s->reader_gone) {
        if (pthread_cond_timedwait(&s->room, &s->lock, &until) == ETIMEDOUT)
            return 0;
    }
    return s->reader_gone ? 0 : STREAM_RING - s->len;
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
