/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "audit/audit.h"

#include "audit/tree.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/json.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* seq is the leaf's place in the tree, so it is given by us, never by SQLite.
 * The *_r trigger stops INSERT OR REPLACE and ON CONFLICT DO UPDATE whatever
 * the pragmas are. */
const char audit_schema[] =
    "CREATE TABLE audit("
    " seq INTEGER PRIMARY KEY CHECK(seq > 0),"
    " at_ms INTEGER NOT NULL,"
    " kind TEXT NOT NULL CHECK(kind IN"
    "  ('decided','outcome','read','refused','noticed')),"
    " request TEXT, principal INTEGER, job TEXT, action TEXT NOT NULL,"
    " code TEXT,"
    " leaf BLOB NOT NULL,"
    " leaf_hash BLOB NOT NULL CHECK(length(leaf_hash) = 32)) STRICT;"
    "CREATE INDEX audit_job ON audit(job, seq) WHERE job IS NOT NULL;"
    "CREATE INDEX audit_principal ON audit(principal, seq)"
    " WHERE principal IS NOT NULL;"
    "CREATE TRIGGER audit_u BEFORE UPDATE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
    "CREATE TRIGGER audit_d BEFORE DELETE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
    "CREATE TRIGGER audit_r BEFORE INSERT ON audit"
    " WHEN EXISTS(SELECT 1 FROM audit a WHERE a.seq = NEW.seq)"
    " BEGIN SELECT RAISE(ABORT, 'duplicate audit row'); END;"
    "CREATE TABLE audit_tree("
    " id INTEGER PRIMARY KEY CHECK(id = 1),"
    " size INTEGER NOT NULL, frontier BLOB NOT NULL) STRICT;";

const char *const audit_append_only[] = {"audit", NULL};

static const char *const kind_names[] = {[AUDIT_DECIDED] = "decided",
                                         [AUDIT_OUTCOME] = "outcome",
                                         [AUDIT_READ] = "read",
                                         [AUDIT_REFUSED] = "refused",
                                         [AUDIT_NOTICED] = "noticed"};

/* --- append --- */

static const char sql_insert[] =
    "INSERT INTO audit(seq, at_ms, kind, request, principal, job, action, code,"
    " leaf, leaf_hash) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)";

static json_t *int_or_null(int64_t v)
{
    return v ? json_integer(v) : json_null();
}

static json_t *detail_copy(const json_t *detail)
{
    return detail ? json_deep_copy(detail) : json_object();
}

static char *leaf_text(const struct audit_row *r, int64_t at_ms, size_t *n,
                       struct err *e)
{
    json_t *o = json_object();
    char *text = NULL;
    int rc = 0;

    rc |= json_put_int(o, "v", 1);
    rc |= json_put_str(o, "kind", kind_names[r->kind]);
    rc |= json_put_int(o, "at_ms", at_ms);
    rc |= json_put_str(o, "request", r->request);
    rc |= json_put(o, "principal", int_or_null(r->principal));
    rc |= json_put_str(o, "token", r->token_id);
    rc |= json_put_str(o, "client", r->client);
    rc |= json_put_str(o, "action", r->action);
    rc |= json_put_str(o, "job", r->job);
    rc |= json_put_str(o, "code", r->code);
    rc |= json_put(o, "detail", detail_copy(r->detail));
    if (rc)
        err_nomem(e);
    else
        text = json_canonical(o, n, e);
    json_decref(o);
    return text;
}

static int insert_leaf(struct db *d, const struct audit_row *r, int64_t seq,
                       int64_t at_ms, const char *leaf, size_t n,
                       const uint8_t *hash, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_insert, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, seq);
    db_bind_int(s, 2, at_ms);
    db_bind_text(s, 3, kind_names[r->kind]);
    db_bind_text(s, 4, r->request);
    if (r->principal)
        db_bind_int(s, 5, r->principal);
    else
        db_bind_null(s, 5);
    db_bind_text(s, 6, r->job);
    db_bind_text(s, 7, r->action);
    db_bind_text(s, 8, r->code);
    db_bind_blob(s, 9, leaf, n);
    db_bind_blob(s, 10, hash, TREE_HASH_LEN);
    return db_run(s, e);
}

int audit_append(struct db *d, const struct audit_row *r, int64_t *seq,
                 struct err *e)
{
    int64_t at_ms = r->at_ms ? r->at_ms : clock_now_ms();
    uint8_t hash[TREE_HASH_LEN];
    struct tree t;
    size_t n = 0;
    char *leaf = leaf_text(r, at_ms, &n, e);
    int rc = -1;

    if (!leaf)
        return -1;
    if (n > AUDIT_LEAF_MAX) {
        err_set(e, ERR_TOO_LARGE, "audit_leaf", "audit row of %zu bytes", n);
        goto out;
    }
    if (tree_load(d, &t, e) || tree_leaf_hash(leaf, n, hash, e) ||
        tree_append(&t, hash, e))
        goto out;
    if (insert_leaf(d, r, t.size, at_ms, leaf, n, hash, e) ||
        tree_store(d, &t, e))
        goto out;
    if (seq)
        *seq = t.size;
    rc = 0;
out:
    free(leaf);
    return rc;
}

/* --- list --- */

/* One statement a kind of filter, so that each uses its own index. */
#define LIST_HEAD "SELECT seq, at_ms, leaf, leaf_hash FROM audit WHERE "
#define LIST_TAIL                                                              \
    "at_ms >= ?1 AND at_ms < ?2 AND seq < ?3 ORDER BY seq DESC LIMIT ?4"
static const char sql_list_all[] = LIST_HEAD LIST_TAIL;
static const char sql_list_job[] = LIST_HEAD "job = ?5 AND " LIST_TAIL;
static const char sql_list_principal[] =
    LIST_HEAD "principal = ?6 AND " LIST_TAIL;
static const char sql_list_both[] =
    LIST_HEAD "job = ?5 AND principal = ?6 AND " LIST_TAIL;

static const char *list_sql(const struct audit_filter *f)
{
    if (f->job)
        return f->principal ? sql_list_both : sql_list_job;
    return f->principal ? sql_list_principal : sql_list_all;
}

static struct db_stmt *list_prepare(struct db *d, const struct audit_filter *f,
                                    struct err *e)
{
    struct db_stmt *s = db_prepare(d, list_sql(f), e);

    if (!s)
        return NULL;
    db_bind_int(s, 1, f->since_ms);
    db_bind_int(s, 2, f->until_ms ? f->until_ms : INT64_MAX);
    db_bind_int(s, 3, f->before ? f->before : INT64_MAX);
    db_bind_int(s, 4, (int64_t)f->limit + 1); /* one more: is there a next? */
    if (f->job)
        db_bind_text(s, 5, f->job);
    if (f->principal)
        db_bind_int(s, 6, f->principal);
    return s;
}

static json_t *list_row(struct db_stmt *s, struct err *e)
{
    char hex[2 * TREE_HASH_LEN + 1] = "";
    size_t n = 0, hn = 0;
    const char *leaf = db_col_blob(s, 2, &n);
    json_t *o = json_parse(leaf ? leaf : "", n, AUDIT_LEAF_MAX, e);
    const uint8_t *h = db_col_blob(s, 3, &hn);
    int rc = 0;

    if (!o)
        return NULL;
    if (h && hn == TREE_HASH_LEN)
        crypto_hex(h, hn, hex);
    rc |= json_put_int(o, "seq", db_col_int(s, 0));
    rc |= json_put_time(o, "at", db_col_int(s, 1) / 1000);
    rc |= json_put_str(o, "leaf_hash", hex);
    if (rc == 0)
        return o;
    err_nomem(e);
    json_decref(o);
    return NULL;
}

int audit_list(struct db *d, const struct audit_filter *f, json_t **rows,
               int64_t *next, struct err *e)
{
    struct db_stmt *s = list_prepare(d, f, e);
    json_t *out = json_array();
    int64_t last = 0;
    int rc = -1, n = 0;

    *next = 0;
    if (!s || !out)
        goto out;
    while ((rc = db_step(s, e)) == 1) {
        if (n++ == f->limit) {
            *next = last;
            db_reset(s);
            rc = 0;
            break;
        }
        last = db_col_int(s, 0);
        json_t *row = list_row(s, e);
        if (!row || json_array_append_new(out, row)) {
            db_reset(s);
            rc = -1;
            break;
        }
    }
out:
    if (rc < 0) {
        json_decref(out);
        return err_nomem(e); /* keeps an earlier error */
    }
    *rows = out;
    return 0;
}

/* --- refusals before identity --- */

enum { SOURCE_MAX = 63, CODE_MAX = 47 };

struct refusal {
    char source[SOURCE_MAX + 1], code[CODE_MAX + 1];
    int64_t minute, first_ms, last_ms, count;
    bool used, flushed;
};

/* Two minutes may be open at once: the one that just ended, and this one. */
struct audit_refusals {
    pthread_mutex_t lock;
    struct refusal v[2 * AUDIT_REFUSALS_MAX];
};

struct audit_refusals *audit_refusals_new(void)
{
    struct audit_refusals *r = calloc(1, sizeof *r);

    if (r)
        pthread_mutex_init(&r->lock, NULL);
    return r;
}

void audit_refusals_free(struct audit_refusals *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void cut(char *out, size_t size, const char *s)
{
    size_t n = strnlen(s, size - 1);

    memcpy(out, s, n);
    out[n] = '\0';
}

static struct refusal *find(struct audit_refusals *r, const char *source,
                            const char *code, int64_t minute, size_t *of_minute)
{
    *of_minute = 0;
    for (size_t i = 0; i < 2 * AUDIT_REFUSALS_MAX; i++) {
        struct refusal *x = &r->v[i];
        if (!x->used || x->minute != minute || x->flushed)
            continue;
        ++*of_minute;
        if (!strcmp(x->source, source) && !strcmp(x->code, code))
            return x;
    }
    return NULL;
}

static struct refusal *fresh(struct audit_refusals *r)
{
    for (size_t i = 0; i < 2 * AUDIT_REFUSALS_MAX; i++) {
        if (!r->v[i].used)
            return &r->v[i];
    }
    return NULL;
}

static struct refusal *claim(struct audit_refusals *r, const char *source,
                             const char *code, int64_t at_ms)
{
    int64_t minute = at_ms / 60000;
    size_t n;
    struct refusal *x = find(r, source, code, minute, &n);

    if (x)
        return x;
    /* The last place of a minute is kept for the sum of everybody else. */
    if (n >= AUDIT_REFUSALS_MAX - 1) {
        source = "*";
        code = "*";
        x = find(r, source, code, minute, &n);
    }
    if (x || !(x = fresh(r)))
        return x;
    *x = (struct refusal){.minute = minute, .first_ms = at_ms, .used = true};
    cut(x->source, sizeof x->source, source);
    cut(x->code, sizeof x->code, code);
    return x;
}

void audit_refusals_add(struct audit_refusals *r, const char *source,
                        const char *code, int64_t at_ms)
{
    char src[SOURCE_MAX + 1], cod[CODE_MAX + 1];
    struct refusal *x;

    cut(src, sizeof src, source);
    cut(cod, sizeof cod, code);
    pthread_mutex_lock(&r->lock);
    x = claim(r, src, cod, at_ms);
    if (x) {
        x->last_ms = at_ms;
        x->count++;
    }
    pthread_mutex_unlock(&r->lock);
}

static bool is_due(const struct refusal *x, int64_t now_ms)
{
    return x->used && (x->minute + 1) * 60000 <= now_ms;
}

int audit_refusals_pending(struct audit_refusals *r, int64_t now_ms)
{
    int n = 0;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < 2 * AUDIT_REFUSALS_MAX; i++)
        n += is_due(&r->v[i], now_ms);
    pthread_mutex_unlock(&r->lock);
    return n;
}

static int flush_one(struct db *d, const struct refusal *x, struct err *e)
{
    json_t *detail = json_object();
    struct audit_row row = {.kind = AUDIT_REFUSED,
                            .at_ms = x->last_ms,
                            .client = x->source,
                            .action = "request.refuse",
                            .code = x->code,
                            .detail = detail};
    int rc = 0;

    rc |= json_put_int(detail, "first_ms", x->first_ms);
    rc |= json_put_int(detail, "last_ms", x->last_ms);
    rc |= json_put_int(detail, "count", x->count);
    rc = rc ? err_nomem(e) : audit_append(d, &row, NULL, e);
    json_decref(detail);
    return rc;
}

int audit_refusals_flush(struct audit_refusals *r, struct db *d, int64_t now_ms,
                         struct err *e)
{
    int rc = 0;

    for (size_t i = 0; i < 2 * AUDIT_REFUSALS_MAX && rc == 0; i++) {
        struct refusal x;
        pthread_mutex_lock(&r->lock);
        x = r->v[i];
        /* What comes late for this minute gets a row of its own. */
        r->v[i].flushed = is_due(&x, now_ms);
        pthread_mutex_unlock(&r->lock);
        if (is_due(&x, now_ms))
            rc = flush_one(d, &x, e);
    }
    return rc;
}

void audit_refusals_done(struct audit_refusals *r)
{
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < 2 * AUDIT_REFUSALS_MAX; i++) {
        if (r->v[i].flushed)
            r->v[i].used = r->v[i].flushed = false;
    }
    pthread_mutex_unlock(&r->lock);
}
