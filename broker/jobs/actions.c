/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/actions.h"

#include "audit/audit.h"
#include "audit/ledger.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "broker/jobs/access.h"
#include "broker/jobs/service.h"

#include <stdlib.h>
#include <string.h>

static int fresh_doc(const struct ask *a, const struct job_row *j,
                     struct buf *out, struct doc_version *v, struct err *e)
{
    struct doc_fresh fresh;

    follow_freshness(a->service->follow, &fresh);
    return doc_job(out, j, &fresh, v) ? err_nomem(e) : 0;
}

/* Append a tree's text, which is consumed. */
static int put_tree(struct buf *out, json_t *tree, struct err *e)
{
    char *text = tree ? json_text(tree) : NULL;
    int rc = text ? buf_puts(out, text) : -1;

    free(text);
    json_decref(tree);
    return rc ? err_nomem(e) : 0;
}

/* --- one job --- */

bool jobs_read_is_foreign(const struct ask *a, const char *job_id)
{
    struct err ignored = ERR_INIT;
    struct job_row j;
    bool foreign;

    if (!identity_has(a->who, ACCESS_READ_ALL) ||
        access_job(a, job_id, ACCESS_READ, &j, &ignored))
        return false; /* his own, or refused at once */
    foreign = j.principal != a->who->principal;
    store_job_clear(&j);
    return foreign;
}

int jobs_get_text(const struct ask *a, const char *job_id, struct buf *out,
                  struct doc_version *v, struct err *e)
{
    struct job_row j;
    int rc;

    if (access_job(a, job_id, ACCESS_READ, &j, e))
        return -1;
    rc = access_note_read(a, &j, "job.read", e);
    if (rc == 0)
        rc = fresh_doc(a, &j, out, v, e);
    store_job_clear(&j);
    return rc;
}

int jobs_attempts_text(const struct ask *a, const char *job_id, struct buf *out,
                       struct err *e)
{
    json_t *list = NULL, *doc = json_object();
    struct job_row j;
    int rc = access_job(a, job_id, ACCESS_READ, &j, e);

    if (rc == 0) {
        rc = access_note_read(a, &j, "job.attempts", e);
        if (rc == 0)
            rc = ledger_attempts(a->reader, j.ulid, &list, e);
        store_job_clear(&j);
    }
    if (rc == 0 && json_put(doc, "attempts", list))
        rc = err_nomem(e);
    if (rc == 0)
        return put_tree(out, doc, e);
    json_decref(doc);
    return -1;
}

/* --- list --- */

struct page {
    const struct ask *a;
    struct doc_fresh fresh;
    struct buf *out;
    int limit, n;
    char last[ULID_LEN + 1];
    bool more;
};

static int page_row(const struct job_row *j, void *arg, struct err *e)
{
    struct page *p = arg;

    if (p->n == p->limit) { /* one more than asked for: there is a next page */
        p->more = true;
        return 1;
    }
    if (p->n++ > 0)
        buf_putc(p->out, ',');
    memcpy(p->last, j->ulid, sizeof p->last);
    return doc_job(p->out, j, &p->fresh, NULL) ? err_nomem(e) : 0;
}

/* An id as a job's is the cursor; its owner doesn't matter. */
static int list_cursor(struct job_filter *f, const char *cursor, struct err *e)
{
    f->before[0] = '\0';
    if (!cursor || id_job_parse(cursor, f->before) == 0)
        return 0;
    return err_set(e, ERR_INVALID, "cursor", "this is no cursor of a list");
}

static int list_words(const struct job_filter *f, struct err *e)
{
    if (f->label_key && !store_label_key_valid(f->label_key))
        return err_set(e, ERR_INVALID, "query_invalid",
                       "there can be no label of this name");
    if (!f->state || job_state_parse(f->state) >= 0)
        return 0;
    return err_set(e, ERR_INVALID, "query_invalid",
                   "state is one of PENDING RUNNING COMPLETE ERROR CANCELED "
                   "UNKNOWN");
}

/* Whose: everybody sees his own; who may read all sees all, and that is
 * audited unless he names himself. */
static int list_scope(const struct ask *a, struct job_filter *f, struct err *e)
{
    bool all = identity_has(a->who, ACCESS_READ_ALL);
    bool mine = f->owner && !strcmp(f->owner, a->who->person);

    f->principal = all && !mine ? 0 : a->who->principal;
    return f->principal ? 0 : access_note_all(a, "job.list", e);
}

int jobs_list_text(const struct ask *a, struct job_filter *f,
                   const char *cursor, struct buf *out, struct err *e)
{
    struct page p = {.a = a, .out = out, .limit = f->limit};
    char id[JOB_ID_LEN + 1];
    int rc;

    if (list_cursor(f, cursor, e) || list_words(f, e) || list_scope(a, f, e))
        return -1;
    follow_freshness(a->service->follow, &p.fresh);
    f->limit++;
    buf_puts(out, "{\"jobs\":[");
    rc = store_job_list(a->reader, f, page_row, &p, e);
    f->limit--;
    if (rc < 0)
        return -1;
    buf_puts(out, "],\"next\":");
    if (p.more)
        id_job(p.last, id);
    doc_str(out, p.more ? id : NULL);
    buf_putc(out, '}');
    return buf_ok(out) ? 0 : err_nomem(e);
}

static int move_err(struct err *e, const struct err *why)
{
    if (e && !err_is_set(e))
        *e = *why;
    return -1;
}

static int denied(const struct ask *a, const char *action, const char *text,
                  struct err *e)
{
    struct err why = ERR_INIT;

    err_set(&why, ERR_DENIED, "role_missing", "%s", text);
    access_note_refusal(a, action, NULL, &why);
    return move_err(e, &why);
}

/* --- usage --- */

enum { USAGE_CURSOR_MAX = 10 * 1000 * 1000 };

static int month_ok(const char *m, struct err *e)
{
    bool ok =
        !m || (strlen(m) == 7 && m[4] == '-' && strspn(m, "0123456789") == 4 &&
               strspn(m + 5, "0123456789") == 2);

    return ok ? 0
              : err_set(e, ERR_INVALID, "query_invalid",
                        "a month looks like 2026-11");
}

/* Of all pages: the table's own sum, not that of the rows that are shown. */
static const char sql_usage_total[] =
    "SELECT COALESCE(SUM(gpu_seconds), 0) FROM usage_month"
    " WHERE (?1 = 0 OR principal = ?1) AND month >= ?2 AND month <= ?3";

static int usage_total(const struct ask *a, const struct usage_query *q,
                       int64_t *total, struct err *e)
{
    struct db_stmt *s = db_prepare(a->reader, sql_usage_total, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, q->all ? 0 : a->who->principal);
    db_bind_text(s, 2, q->since ? q->since : "0000-00");
    db_bind_text(s, 3, q->until ? q->until : "9999-99");
    if (db_step(s, e) != 1)
        return -1;
    *total = db_col_int(s, 0);
    db_reset(s);
    return 0;
}

/* The ledger gives rows from the newest month on, so a page is what follows
 * the pages before: months change at their newest end only. */
static int usage_rows(const struct ask *a, const struct usage_query *q,
                      json_t **rows, int64_t *next, struct err *e)
{
    int64_t from = 0, n;
    json_t *all = NULL;
    int rc = 0;

    if (q->cursor && num_parse(q->cursor, 1, USAGE_CURSOR_MAX, &from))
        return err_set(e, ERR_INVALID, "cursor",
                       "this is no cursor of the usage");
    if (ledger_usage(a->reader, q->all ? 0 : a->who->principal, q->since,
                     q->until, (int)from + q->limit + 1, &all, e))
        return -1;
    n = (int64_t)json_array_size(all);
    *next = n > from + q->limit ? from + q->limit : 0;
    *rows = json_array();
    for (int64_t i = from; i < n && i < from + q->limit; i++)
        rc |= json_array_append(*rows, json_array_get(all, (size_t)i));
    json_decref(all);
    return rc || !*rows ? err_nomem(e) : 0;
}

static int usage_owners(const struct ask *a, json_t *rows, struct err *e)
{
    char label[ACCESS_LABEL_MAX];

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        int64_t id = json_integer_value(json_object_get(row, "principal"));
        if (access_label(a->reader, id, label, e))
            return -1;
        if (json_object_del(row, "principal") ||
            json_put_str(row, "owner", label[0] ? label : NULL))
            return err_nomem(e);
    }
    return 0;
}

static json_t *next_text(int64_t next)
{
    return next ? json_sprintf("%lld", (long long)next) : json_null();
}

int jobs_usage_text(const struct ask *a, const struct usage_query *q,
                    struct buf *out, struct err *e)
{
    json_t *rows = NULL, *doc = json_object();
    int64_t total = 0, next = 0;
    int rc = -1;

    if (q->all && !identity_has(a->who, ACCESS_READ_ALL)) {
        denied(a, "usage.read",
               "the usage of others takes the role operator or auditor", e);
        goto out;
    }
    if (month_ok(q->since, e) || month_ok(q->until, e) ||
        (q->all && access_note_all(a, "usage.read", e)) ||
        usage_rows(a, q, &rows, &next, e) || usage_total(a, q, &total, e) ||
        usage_owners(a, rows, e))
        goto out;
    rc = json_put(doc, "usage", json_incref(rows)) |
         json_put_int(doc, "gpu_seconds", total) |
         json_put(doc, "next", next_text(next));
    rc = rc ? err_nomem(e) : put_tree(out, json_incref(doc), e);
out:
    json_decref(rows);
    json_decref(doc);
    return rc;
}

/* --- audit --- */

static int audit_scope(const struct ask *a, const struct audit_query *q,
                       struct audit_filter *f, char *ulid, struct err *e)
{
    bool reader_of_all = identity_has(a->who, ACCESS_READ_ALL);
    struct err why = ERR_INIT;
    struct job_row j;

    if (q->all && !reader_of_all)
        return denied(a, "audit.read",
                      "the whole audit takes the role auditor or operator", e);
    if (q->job_id) {
        /* A refused submit has audit rows and no job. */
        if (id_job_parse(q->job_id, ulid))
            return err_set(e, ERR_INVALID, "job_id", "this is no job id");
        f->job = ulid;
    }
    if (q->job_id && !reader_of_all) {
        if (access_job(a, q->job_id, ACCESS_READ, &j, &why) == 0)
            store_job_clear(&j);
        else if (why.class == ERR_NOT_FOUND)
            f->principal = a->who->principal;
        else
            return move_err(e, &why);
    } else if (!q->all && !q->job_id) {
        f->principal = a->who->principal;
    }
    return f->principal || !reader_of_all ? 0
                                          : access_note_all(a, "audit.read", e);
}

/* "person" is a label beside the row, never part of its leaf. */
static int audit_people(const struct ask *a, json_t *rows, struct err *e)
{
    char label[ACCESS_LABEL_MAX], id[JOB_ID_LEN + 1];

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        int64_t p = json_integer_value(json_object_get(row, "principal"));
        const char *job = json_string_value(json_object_get(row, "job"));
        label[0] = '\0';
        if (p && access_label(a->reader, p, label, e))
            return -1;
        if (job)
            id_job(job, id);
        if (json_put_str(row, "person", label[0] ? label : NULL) |
            json_put_str(row, "job_id", job ? id : NULL))
            return err_nomem(e);
    }
    return 0;
}

static int audit_cursor(const char *cursor, int64_t *before, struct err *e)
{
    if (!cursor || num_parse(cursor, 1, INT64_MAX, before) == 0)
        return 0;
    return err_set(e, ERR_INVALID, "cursor", "this is no cursor of the audit");
}

int jobs_audit_text(const struct ask *a, const struct audit_query *q,
                    struct buf *out, struct err *e)
{
    struct audit_filter f = {
        .since_ms = q->since_ms, .until_ms = q->until_ms, .limit = q->limit};
    json_t *rows = NULL, *doc = json_object();
    char ulid[ULID_LEN + 1];
    int64_t next = 0;
    int rc = -1;

    if (audit_cursor(q->cursor, &f.before, e) ||
        audit_scope(a, q, &f, ulid, e) ||
        audit_list(a->reader, &f, &rows, &next, e) || audit_people(a, rows, e))
        goto out;
    rc = json_put(doc, "rows", json_incref(rows)) |
         json_put(doc, "next", next_text(next));
    rc = rc ? err_nomem(e) : put_tree(out, json_incref(doc), e);
out:
    json_decref(rows);
    json_decref(doc);
    return rc;
}
