/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The documents: text straight from a row, without a tree in between (a job's
 * GET is the hottest path there is). Absent facts are null, never left out.
 * Thread rule: any thread.
 */
#ifndef BROKER_JOBS_DOC_H
#define BROKER_JOBS_DOC_H

#include "base/buf.h"
#include "base/db.h"
#include "base/err.h"
#include "broker/jobs/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { DOC_BYTES_MAX = 256 * 1024, DOC_ETAG_MAX = 64 };

/* How fresh what we know is: from follow_freshness(). */
struct doc_fresh {
    int64_t polled_at; /* Unix seconds of the last good poll; 0: none yet */
    bool stale;        /* watch gone, or its polls fail */
};

/* What a job document's text depends on: the strong ETag. */
struct doc_version {
    int64_t version, observed_at;
    bool stale;
    bool final; /* nothing but a later correction will change it */
};
/* "\"<version>.<observed>.<stale>\"", with the quotes; out DOC_ETAG_MAX. */
void doc_etag(const struct doc_version *v, char *out);

/* Append the job document. v may be NULL. 0, or -1 when the buf is full. */
int doc_job(struct buf *out, const struct job_row *j, const struct doc_fresh *f,
            struct doc_version *v);
/* Append s as a JSON string with its quotes; NULL: null. Bytes are UTF-8. */
int doc_str(struct buf *out, const char *s);
/* The same for n bytes, which may hold NUL bytes. */
int doc_text(struct buf *out, const char *s, size_t n);
/* RFC 3339 text in quotes, or null for 0. */
int doc_time(struct buf *out, int64_t t);

#endif
