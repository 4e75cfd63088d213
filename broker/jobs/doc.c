/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/doc.h"

#include "base/clock.h"
#include "broker/jobs/messages.h"

#include <stdio.h>
#include <string.h>

void doc_etag(const struct doc_version *v, char *out)
{
    snprintf(out, DOC_ETAG_MAX, "\"%lld.%lld.%d\"", (long long)v->version,
             (long long)v->observed_at, v->stale);
}

/* The escape of one byte below 0x20, or of '"' and '\\'; NULL: none needed. */
static const char *escape(unsigned char c, char *room)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\t':
        return "\\t";
    case '\r':
        return "\\r";
    default:
        break;
    }
    if (c >= 0x20 && c != 0x7f)
        return NULL;
    snprintf(room, 8, "\\u%04x", (unsigned)c);
    return room;
}

int doc_text(struct buf *out, const char *s, size_t n)
{
    const char *from = s, *end = s + n;
    char room[8];

    buf_putc(out, '"');
    for (; s < end; s++) {
        const char *esc = escape((unsigned char)*s, room);
        if (!esc)
            continue;
        buf_add(out, from, (size_t)(s - from));
        buf_puts(out, esc);
        from = s + 1;
    }
    buf_add(out, from, (size_t)(s - from));
    return buf_putc(out, '"');
}

int doc_str(struct buf *out, const char *s)
{
    return s ? doc_text(out, s, strlen(s)) : buf_puts(out, "null");
}

int doc_time(struct buf *out, int64_t t)
{
    char text[CLOCK_TEXT_MAX];

    if (t <= 0)
        return buf_puts(out, "null");
    clock_format(t, text);
    buf_putc(out, '"');
    buf_puts(out, text);
    return buf_putc(out, '"');
}

/* Each of these adds `,"key":value`. */
static void put_str(struct buf *out, const char *key, const char *v)
{
    buf_puts(out, key);
    doc_str(out, v);
}

static void put_raw(struct buf *out, const char *key, const char *json)
{
    buf_puts(out, key);
    buf_puts(out, json ? json : "null");
}

static void put_time(struct buf *out, const char *key, int64_t t)
{
    buf_puts(out, key);
    doc_time(out, t);
}

static void put_int(struct buf *out, const char *key, bool have, int64_t v)
{
    char text[24];

    buf_puts(out, key);
    if (!have) {
        buf_puts(out, "null");
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)v);
    buf_puts(out, text);
}

/* Own sentences (from a receipt) go before the table's. */
static void put_reason(struct buf *out, const struct job_row *j)
{
    const struct message *m = message_find(j->reason);

    buf_puts(out, ",\"reason\":");
    if (!j->reason) {
        buf_puts(out, "null");
        return;
    }
    put_str(out, "{\"code\":", j->reason);
    put_str(out, ",\"en\":", j->reason_en ? j->reason_en : m ? m->en : NULL);
    put_str(out, ",\"zh\":", j->reason_zh ? j->reason_zh : m ? m->zh : NULL);
    buf_putc(out, '}');
}

static void put_slurm(struct buf *out, const struct job_row *j)
{
    put_int(out, ",\"slurm\":{\"job_id\":", j->slurm_job_id > 0,
            j->slurm_job_id);
    put_str(out, ",\"sluid\":", j->sluid);
    put_str(out, ",\"state\":", j->slurm_state);
    put_raw(out, ",\"flags\":", j->slurm_flags);
    put_str(out, ",\"reason\":", j->slurm_reason);
    buf_putc(out, '}');
}

static void put_times(struct buf *out, const struct job_row *j,
                      const struct doc_version *v)
{
    put_time(out, ",\"created_at\":", j->created_at);
    put_time(out, ",\"submitted_at\":", j->submitted_at);
    put_time(out, ",\"started_at\":", j->started_at);
    put_time(out, ",\"ended_at\":", j->ended_at);
    put_time(out, ",\"observed_at\":", v->observed_at);
    buf_puts(out, v->stale ? ",\"stale\":true" : ",\"stale\":false");
    buf_puts(out, ",\"exit\":");
    if (!j->has_exit) {
        buf_puts(out, "null");
        return;
    }
    put_int(out, "{\"code\":", true, j->exit_code);
    put_int(out, ",\"signal\":", j->exit_signal > 0, j->exit_signal);
    buf_putc(out, '}');
}

static void put_links(struct buf *out, const char *id)
{
    static const char *const names[] = {"logs", "script", "artifacts"};

    buf_puts(out, ",\"links\":{\"self\":\"/v1/jobs/");
    buf_puts(out, id);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        buf_puts(out, "\",\"");
        buf_puts(out, names[i]);
        buf_puts(out, "\":\"/v1/jobs/");
        buf_puts(out, id);
        buf_putc(out, '/');
        buf_puts(out, names[i]);
    }
    buf_puts(out, "\"}");
}

/* A job that watch sees is as fresh as the last poll that went well. One that
 * is over stays as it was seen; one that was never seen has no time. */
static struct doc_version version_of(const struct job_row *j,
                                     const struct doc_fresh *f)
{
    struct doc_version v = {.version = j->version,
                            .observed_at = j->observed_at,
                            .final = j->phase == PHASE_FINAL};

    if (v.final)
        return v;
    v.stale = f->stale;
    if (j->observed_at > 0 && f->polled_at > j->observed_at)
        v.observed_at = f->polled_at;
    return v;
}

int doc_job(struct buf *out, const struct job_row *j, const struct doc_fresh *f,
            struct doc_version *v)
{
    struct doc_version now = version_of(j, f);
    char id[JOB_ID_LEN + 1];

    id_job(j->ulid, id);
    put_str(out, "{\"id\":", id);
    put_str(out, ",\"workflow\":", j->workflow);
    put_raw(out, ",\"params\":", j->params);
    put_raw(out, ",\"labels\":", j->labels);
    put_str(out, ",\"state\":", job_state_name(j->state));
    put_str(out, ",\"detail\":", j->detail);
    put_reason(out, j);
    put_str(out, ",\"error_class\":", j->error_class);
    put_str(out, ",\"owner\":{\"principal\":", j->person);
    put_str(out, ",\"account\":", j->account);
    put_str(out, "},\"cluster\":", j->cluster);
    put_slurm(out, j);
    put_times(out, j, &now);
    put_raw(out, ",\"resources\":{\"requested\":", j->requested);
    put_raw(out, ",\"effective\":", j->effective);
    put_int(out, "},\"attempts\":", true, j->attempts);
    put_int(out, ",\"gpu_seconds\":", j->has_gpu_seconds, j->gpu_seconds);
    put_str(out, ",\"source\":", j->source);
    put_raw(out, ",\"receipts\":", j->receipts);
    put_links(out, id);
    if (v)
        *v = now;
    buf_putc(out, '}');
    return buf_ok(out) ? 0 : -1;
}
