/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/record.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/spawn/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* A line holds a result frame of at most WIRE_FRAME_MAX bytes, whose text may
 * not grow in it (the same JSON), and about 600 bytes of its own. */
enum {
    LINE_MAX_BYTES = WIRE_FRAME_MAX + 4096,
    PENDING_MAX = 16 * 1024 * 1024,
    READ_BYTES = 256 * 1024
};
#define HASH_KEY ",\"hash\":\""
enum { TAIL_LEN = sizeof(HASH_KEY) - 1 + SHA256_HEX_LEN + 2 }; /* ...","} */

struct record {
    int fd;
    struct index *index;
    struct buf pending;
    char prev[SHA256_HEX_LEN + 1];
    int64_t seq;  /* of the next line */
    int64_t size; /* bytes in the file */
    bool failed, unsynced;
};

static int broken(struct err *e, int64_t seq, const char *why)
{
    return err_set(e, ERR_CONFIG, "record_broken",
                   "the spawner's record is broken at line %lld: %s",
                   (long long)seq + 1, why);
}

/* --- reading -------------------------------------------------------------- */

/* body = the line without its hash; checked against it. */
static int check_hash(const struct record *r, const char *line, size_t n,
                      char *hash, struct err *e)
{
    const struct crypto_piece v[] = {{line, n - TAIL_LEN}, {"}", 1}};
    const char *tail = line + n - TAIL_LEN;
    uint8_t sum[SHA256_LEN];

    if (memcmp(tail, HASH_KEY, sizeof(HASH_KEY) - 1) != 0 ||
        memcmp(line + n - 2, "\"}", 2) != 0)
        return broken(e, r->seq, "no hash");
    if (crypto_sha256_pieces(v, 2, sum, e) != 0)
        return -1;
    crypto_hex(sum, sizeof(sum), hash);
    if (memcmp(hash, tail + sizeof(HASH_KEY) - 1, SHA256_HEX_LEN) != 0)
        return broken(e, r->seq, "the hash does not fit the text");
    return 0;
}

static int check_order(const struct record *r, const json_t *line,
                       struct err *e)
{
    struct err inner = ERR_INIT;
    const char *prev;
    int64_t seq;

    if (json_get_str(line, "prev", true, SHA256_HEX_LEN, &prev, "", &inner) !=
            0 ||
        json_get_int(line, "seq", true, 0, INT64_MAX, &seq, "", &inner) != 0)
        return broken(e, r->seq, inner.text);
    if (seq != r->seq || strcmp(prev, r->prev) != 0)
        return broken(e, r->seq, "it does not follow the line before");
    return 0;
}

static int replay_line(struct record *r, const char *text, size_t n,
                       struct err *e)
{
    struct err inner = ERR_INIT;
    char hash[SHA256_HEX_LEN + 1];
    json_t *line;
    int rc = -1;

    if (n <= TAIL_LEN || n > LINE_MAX_BYTES)
        return broken(e, r->seq, "its length");
    if (check_hash(r, text, n, hash, e) != 0)
        return -1;
    line = json_parse(text, n, LINE_MAX_BYTES, &inner);
    if (line == NULL)
        return broken(e, r->seq, inner.text);
    if (check_order(r, line, e) != 0)
        goto out;
    if (index_apply(r->index, line, r->size, n, &inner) != 0) {
        (void)broken(e, r->seq, inner.text);
        goto out;
    }
    memcpy(r->prev, hash, sizeof(r->prev));
    r->seq++;
    r->size += (int64_t)n + 1;
    rc = 0;
out:
    json_decref(line);
    return rc;
}

/* Whole lines in [p, p+n); *used is where the last whole one ends. */
static int replay_block(struct record *r, const char *p, size_t n, size_t *used,
                        struct err *e)
{
    const char *nl;

    *used = 0;
    while ((nl = memchr(p + *used, '\n', n - *used)) != NULL) {
        if (replay_line(r, p + *used, (size_t)(nl - p) - *used, e) != 0)
            return -1;
        *used = (size_t)(nl - p) + 1;
    }
    if (n - *used > LINE_MAX_BYTES)
        return broken(e, r->seq, "its length");
    return 0;
}

/* *left: bytes after the last newline. */
static int replay(struct record *r, size_t *left, struct err *e)
{
    char *text = malloc(READ_BYTES);
    size_t have = 0, used;
    ssize_t n;
    int rc = -1;

    if (text == NULL)
        return err_nomem(e);
    while ((n = read(r->fd, text + have, READ_BYTES - have)) > 0) {
        have += (size_t)n;
        if (replay_block(r, text, have, &used, e) != 0)
            goto out;
        memmove(text, text + used, have - used);
        have -= used;
    }
    if (n < 0) {
        (void)err_sys(e, ERR_CONFIG, errno, "record_open", "read");
        goto out;
    }
    *left = have;
    rc = 0;
out:
    free(text);
    return rc;
}

/* --- appending ------------------------------------------------------------ */

static int failed(struct record *r, struct err *e, const char *what, int sys)
{
    r->failed = true;
    return err_sys(e, ERR_UNAVAILABLE, sys, "record_failed", "%s", what);
}

static json_t *line_new(struct record *r, const char *kind, const char *ulid)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_int(o, "seq", r->seq);
    rc |= json_put_int(o, "at", clock_now_ms());
    rc |= json_put_str(o, "kind", kind);
    if (ulid != NULL)
        rc |= json_put_str(o, "ulid", ulid);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* The line's text with its hash and a newline goes to r->pending. */
static int put_text(struct record *r, const char *text, size_t n, char *hash,
                    struct err *e)
{
    if (n + TAIL_LEN > LINE_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "record_line", "a line too long");
    if (crypto_sha256_hex(text, n, hash, e) != 0)
        return -1;
    if (r->pending.len + n + TAIL_LEN + 1 > PENDING_MAX ||
        buf_printf(&r->pending, "%.*s" HASH_KEY "%s\"}\n", (int)(n - 1), text,
                   hash) != 0)
        return err_nomem(e);
    return 0;
}

static int apply_own(struct record *r, const json_t *line, int64_t at,
                     size_t len, struct err *e)
{
    struct err inner = ERR_INIT;

    if (index_apply(r->index, line, at, len, &inner) == 0)
        return 0;
    return err_set(e, inner.class, inner.code, "%s", inner.text);
}

/* Consumes line (NULL: no memory); bad: an earlier json_put failed. */
static int append(struct record *r, json_t *line, int bad, struct err *e)
{
    int64_t at = r->size + (int64_t)r->pending.len;
    size_t before = r->pending.len;
    char hash[SHA256_HEX_LEN + 1];
    char *text = NULL;
    int rc = -1;

    if (r->failed) {
        (void)err_set(e, ERR_UNAVAILABLE, "record_failed",
                      "the record can't be written");
        goto out;
    }
    if (line == NULL || bad != 0 || json_put_str(line, "prev", r->prev) != 0 ||
        (text = json_text(line)) == NULL) {
        (void)err_nomem(e);
        goto out;
    }
    if (put_text(r, text, strlen(text), hash, e) != 0)
        goto out;
    if (apply_own(r, line, at, r->pending.len - before - 1, e) != 0) {
        r->pending.len = before;
        goto out;
    }
    memcpy(r->prev, hash, sizeof(r->prev));
    r->seq++;
    rc = 0;
out:
    free(text);
    json_decref(line);
    return rc;
}

/* --- the kinds ------------------------------------------------------------ */

int record_start(struct record *r, const char *mode, struct err *e)
{
    json_t *o = line_new(r, "start", NULL);
    int bad = json_put_str(o, "mode", mode);

    bad |= json_put_int(o, "pid", getpid());
    return append(r, o, bad, e);
}

static int record_cut(struct record *r, size_t bytes, struct err *e)
{
    json_t *o = line_new(r, "cut", NULL);

    return append(r, o, json_put_int(o, "bytes", (int64_t)bytes), e);
}

int record_intent(struct record *r, const struct rec_intent *in,
                  struct rec **out, struct err *e)
{
    json_t *o = line_new(r, "intent", in->ulid);
    char hex[SHA256_HEX_LEN + 1];
    int bad = 0;

    crypto_hex(in->args_sha256, SHA256_LEN, hex);
    bad |= json_put_str(o, "request", in->request);
    bad |= json_put_str(o, "actor", in->actor);
    bad |= json_put_str(o, "account", in->account);
    bad |= json_put_int(o, "uid", (int64_t)in->uid);
    bad |= json_put_str(o, "workflow", in->workflow);
    bad |= json_put_str(o, "generation", in->generation);
    bad |= json_put_str(o, "args_sha256", hex);
    bad |= json_put(o, "secrets", json_deep_copy(in->secret_names));
    bad |= json_put_int(o, "gpus", in->gpus);
    if (append(r, o, bad, e) != 0)
        return -1;
    *out = index_find(r->index, in->ulid);
    return 0;
}

int record_sending(struct record *r, struct rec *x, struct err *e)
{
    return append(r, line_new(r, "sending", x->ulid), 0, e);
}

int record_result(struct record *r, struct rec *x, const json_t *frame,
                  struct err *e)
{
    json_t *o = line_new(r, "result", x->ulid);

    return append(r, o, json_put(o, "frame", json_deep_copy(frame)), e);
}

int record_alias(struct record *r, struct rec *x, int64_t job_id,
                 int64_t submit_time, struct err *e)
{
    json_t *o = line_new(r, "alias", x->ulid);
    int bad = json_put_int(o, "job_id", job_id);

    bad |= json_put_int(o, "submit_time", submit_time);
    return append(r, o, bad, e);
}

int record_ended(struct record *r, struct rec *x, const char *state,
                 struct err *e)
{
    json_t *o = line_new(r, "ended", x->ulid);

    return append(r, o, json_put_str(o, "state", state), e);
}

int record_finished(struct record *r, struct rec *x, struct err *e)
{
    return append(r, line_new(r, "finished", x->ulid), 0, e);
}

int record_act(struct record *r, const struct rec *x, const char *request,
               const char *actor, const char *verb, struct err *e)
{
    json_t *o = line_new(r, "act", x->ulid);
    int bad = json_put_str(o, "request", request);

    bad |= json_put_str(o, "actor", actor);
    bad |= json_put_str(o, "verb", verb);
    return append(r, o, bad, e);
}

/* --- to the disk ---------------------------------------------------------- */

bool record_pending(const struct record *r)
{
    return r->pending.len > 0;
}

bool record_unsynced(const struct record *r)
{
    return r->unsynced && !r->failed;
}

static int write_pending(struct record *r, struct err *e)
{
    if (r->pending.len == 0)
        return 0;
    if (file_write_all(r->fd, r->pending.data, r->pending.len) != 0) {
        (void)failed(r, e, "write", errno);
        /* A half line would be cut off at the next start anyway. */
        (void)!ftruncate(r->fd, (off_t)r->size);
        return -1;
    }
    r->size += (int64_t)r->pending.len;
    buf_reset(&r->pending);
    r->unsynced = true;
    return 0;
}

int record_flush(struct record *r, bool sync, struct err *e)
{
    if (r->failed)
        return err_set(e, ERR_UNAVAILABLE, "record_failed",
                       "the record can't be written");
    if (write_pending(r, e) != 0)
        return -1;
    if (!sync || !r->unsynced)
        return 0;
    /* A failed fdatasync may have dropped the pages: never tried again. */
    if (fdatasync(r->fd) != 0)
        return failed(r, e, "fdatasync", errno);
    r->unsynced = false;
    return 0;
}

/* --- open and ask --------------------------------------------------------- */

/* flock: a second spawner on one record would break the chain. */
static int open_file(struct record *r, const char *path, struct err *e)
{
    r->fd = open(
        path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
        0600);
    if (r->fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "record_open", "%s", path);
    if (flock(r->fd, LOCK_EX | LOCK_NB) != 0)
        return err_sys(e, ERR_CONFIG, errno, "record_in_use",
                       "another spawner holds %s", path);
    return 0;
}

static int cut_tail(struct record *r, size_t left, struct err *e)
{
    char bytes[24];

    if (left == 0)
        return 0;
    (void)snprintf(bytes, sizeof(bytes), "%zu", left);
    log_event(LOG_WARN_, "record_tail_cut", NULL, "bytes", bytes, NULL);
    if (ftruncate(r->fd, (off_t)r->size) != 0)
        return err_sys(e, ERR_CONFIG, errno, "record_open", "ftruncate");
    return record_cut(r, left, e);
}

int record_open(const char *path, struct record **out, struct err *e)
{
    struct record *r = calloc(1, sizeof(*r));
    size_t left = 0;

    if (r == NULL)
        return err_nomem(e);
    r->fd = -1;
    buf_init(&r->pending, PENDING_MAX);
    memset(r->prev, '0', SHA256_HEX_LEN);
    r->index = index_new();
    if (r->index == NULL) {
        (void)err_nomem(e);
        goto fail;
    }
    if (open_file(r, path, e) != 0 || replay(r, &left, e) != 0 ||
        cut_tail(r, left, e) != 0 || record_flush(r, true, e) != 0)
        goto fail;
    *out = r;
    return 0;
fail:
    record_close(r);
    return -1;
}

void record_close(struct record *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0) {
        (void)record_flush(r, true, NULL);
        (void)close(r->fd);
    }
    buf_clear(&r->pending);
    index_free(r->index);
    free(r);
}

struct rec *record_find(struct record *r, const char *ulid)
{
    return index_find(r->index, ulid);
}

struct rec *record_open_first(struct record *r)
{
    return index_open_first(r->index);
}

size_t record_count(const struct record *r)
{
    return index_count(r->index);
}

static json_t *frame_of(const char *text, size_t n, struct err *e)
{
    json_t *line = json_parse(text, n, LINE_MAX_BYTES, e), *frame = NULL;

    if (line == NULL)
        return NULL;
    if (json_get_obj(line, "frame", true, &frame, "", e) == 0)
        json_incref(frame);
    json_decref(line);
    return frame;
}

json_t *record_answer(struct record *r, const struct rec *x, struct err *e)
{
    json_t *frame = NULL;
    char *text;
    ssize_t n;

    if (x->result_at < 0)
        return NULL;
    if (x->result_at >= r->size && record_flush(r, false, e) != 0)
        return NULL;
    text = malloc(x->result_len + 1);
    if (text == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    n = pread(r->fd, text, x->result_len, (off_t)x->result_at);
    if (n == (ssize_t)x->result_len)
        frame = frame_of(text, x->result_len, e);
    else
        (void)err_sys(e, ERR_UNAVAILABLE, errno, "record_failed", "read");
    free(text);
    return frame;
}
