/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A body that is still coming while it is being sent: a pool thread adds
 * pieces to a bounded ring, the HTTP thread takes from it, and the connection
 * sleeps (suspended) while the ring is empty. Nobody holds the whole body.
 * Thread rule: one adding thread, one HTTP thread; the request owns it and
 * frees it when both are done.
 */
#ifndef BROKER_HTTP_STREAM_H
#define BROKER_HTTP_STREAM_H

#include "base/err.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STREAM_RING = 256 * 1024,
    STREAM_STALL_SECONDS = 30,
    STREAM_STOP_MS = 2000 /* what a stream gets once the server stops */
};

struct http_stream;

/* stopping is borrowed and outlives the stream. NULL: ENOMEM. */
struct http_stream *stream_new(struct MHD_Connection *c,
                               const atomic_bool *stopping);
void stream_free(struct http_stream *s);

/* The adding side. Waits for room; -1 ERR_UNAVAILABLE stream_gone when the
 * client left or took nothing for STREAM_STALL_SECONDS, or the server stops
 * since STREAM_STOP_MS. */
int stream_add(struct http_stream *s, const char *p, size_t n, struct err *e);
/* No more will come. whole: every byte was added; otherwise the connection is
 * broken off, so that a cut body never looks complete. */
void stream_end(struct http_stream *s, bool whole);

/* The HTTP side lets go (the request is completed). */
void stream_reader_gone(struct http_stream *s);

/* MHD_ContentReaderCallback; cls is the stream. */
ssize_t stream_read(void *cls, uint64_t pos, char *out, size_t max);

#endif
