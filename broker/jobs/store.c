/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/store.h"

#include "base/crypto.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The schema and sql_open say "phase < 5" for "not final". */
_Static_assert(PHASE_FINAL == 5, "the schema names the number");

/* The indexes are the lists' orders: ulid is the time of creation, so keyset
 * paging needs no other column. job_open is small: only what is followed. */
const char store_schema[] =
    "CREATE TABLE job("
    " ulid TEXT PRIMARY KEY CHECK(length(ulid) = 26),"
    " version INTEGER NOT NULL, principal INTEGER NOT NULL,"
    " uid INTEGER NOT NULL, phase INTEGER NOT NULL, state TEXT NOT NULL,"
    " person TEXT NOT NULL, account TEXT NOT NULL, cluster TEXT NOT NULL,"
    " workflow TEXT NOT NULL, generation TEXT NOT NULL,"
    " request TEXT NOT NULL, params TEXT NOT NULL, labels TEXT NOT NULL,"
    " detail TEXT NOT NULL, reason TEXT, reason_en TEXT, reason_zh TEXT,"
    " error_class TEXT, slurm_name TEXT NOT NULL UNIQUE,"
    " slurm_job_id INTEGER NOT NULL, slurm_submit INTEGER NOT NULL,"
    " sluid TEXT, slurm_state TEXT, slurm_flags TEXT, slurm_reason TEXT,"
    " script_sha256 TEXT, created_at INTEGER NOT NULL,"
    " submitted_at INTEGER NOT NULL, started_at INTEGER NOT NULL,"
    " ended_at INTEGER NOT NULL, observed_at INTEGER NOT NULL,"
    " has_exit INTEGER NOT NULL, exit_code INTEGER NOT NULL,"
    " exit_signal INTEGER NOT NULL, requested TEXT NOT NULL, effective TEXT,"
    " limits TEXT, attempts INTEGER NOT NULL,"
    " has_gpu_seconds INTEGER NOT NULL, gpu_seconds INTEGER NOT NULL,"
    " source TEXT, receipts TEXT NOT NULL, has_sidecar INTEGER NOT NULL,"
    " ended_seen_at INTEGER NOT NULL, sidecar_left INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX job_principal ON job(principal, ulid);"
    "CREATE INDEX job_state ON job(state, ulid);"
    "CREATE INDEX job_workflow ON job(workflow, ulid);"
    "CREATE INDEX job_followed ON job(ulid)"
    " WHERE phase < 5 OR source = 'slurmctld' OR sidecar_left;"
    "CREATE TABLE intent("
    " ulid TEXT PRIMARY KEY, request TEXT NOT NULL,"
    " principal INTEGER NOT NULL, uid INTEGER NOT NULL,"
    " workflow TEXT NOT NULL, generation TEXT NOT NULL,"
    " args_sha256 TEXT NOT NULL, slurm_name TEXT NOT NULL UNIQUE,"
    " created_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TRIGGER intent_u BEFORE UPDATE ON intent"
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
    "CREATE TRIGGER intent_d BEFORE DELETE ON intent"
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"
    "CREATE TABLE idempotency("
    " principal INTEGER NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL,"
    " fingerprint TEXT NOT NULL, ulid TEXT NOT NULL UNIQUE,"
    " created_at INTEGER NOT NULL, status INTEGER NOT NULL,"
    " body TEXT, error TEXT,"
    " PRIMARY KEY(principal, route, key)) STRICT;"
    "CREATE TABLE secret_key("
    " id INTEGER PRIMARY KEY CHECK(id = 1),"
    " key BLOB NOT NULL CHECK(length(key) = 32)) STRICT;";

const char *const store_append_only[] = {"intent", NULL};

/* --- one row, by table --- */

enum column_type { COL_INT, COL_TEXT, COL_BOOL, COL_PHASE, COL_STATE };

#define C_INT(f)                                                               \
    {                                                                          \
#f, COL_INT, offsetof(struct job_row, f)                               \
    }
#define C_TEXT(f)                                                              \
    {                                                                          \
#f, COL_TEXT, offsetof(struct job_row, f)                              \
    }
#define C_BOOL(f)                                                              \
    {                                                                          \
#f, COL_BOOL, offsetof(struct job_row, f)                              \
    }

/* In the order of JOB_COLUMNS; ulid comes first there and isn't in here. */
static const struct {
    const char *name;
    enum column_type type;
    size_t offset;
} columns[] = {
    C_INT(version),
    C_INT(principal),
    C_INT(uid),
    {"phase", COL_PHASE, offsetof(struct job_row, phase)},
    {"state", COL_STATE, offsetof(struct job_row, state)},
    C_TEXT(person),
    C_TEXT(account),
    C_TEXT(cluster),
    C_TEXT(workflow),
    C_TEXT(generation),
    C_TEXT(request),
    C_TEXT(params),
    C_TEXT(labels),
    C_TEXT(detail),
    C_TEXT(reason),
    C_TEXT(reason_en),
    C_TEXT(reason_zh),
    C_TEXT(error_class),
    C_TEXT(slurm_name),
    C_INT(slurm_job_id),
    C_INT(slurm_submit),
    C_TEXT(sluid),
    C_TEXT(slurm_state),
    C_TEXT(slurm_flags),
    C_TEXT(slurm_reason),
    C_TEXT(script_sha256),
    C_INT(created_at),
    C_INT(submitted_at),
    C_INT(started_at),
    C_INT(ended_at),
    C_INT(observed_at),
    C_BOOL(has_exit),
    C_INT(exit_code),
    C_INT(exit_signal),
    C_TEXT(requested),
    C_TEXT(effective),
    C_TEXT(limits),
    C_INT(attempts),
    C_BOOL(has_gpu_seconds),
    C_INT(gpu_seconds),
    C_TEXT(source),
    C_TEXT(receipts),
    C_BOOL(has_sidecar),
    C_INT(ended_seen_at),
    C_BOOL(sidecar_left),
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

#define JOB_COLUMNS                                                            \
    "ulid, version, principal, uid, phase, state, person, account, cluster,"   \
    " workflow, generation, request, params, labels, detail, reason,"          \
    " reason_en, reason_zh, error_class, slurm_name, slurm_job_id,"            \
    " slurm_submit, sluid, slurm_state, slurm_flags, slurm_reason,"            \
    " script_sha256, created_at, submitted_at, started_at, ended_at,"          \
    " observed_at, has_exit, exit_code, exit_signal, requested, effective,"    \
    " limits, attempts, has_gpu_seconds, gpu_seconds, source, receipts,"       \
    " has_sidecar, ended_seen_at, sidecar_left"

static const char sql_get[] = "SELECT " JOB_COLUMNS " FROM job WHERE ulid = ?1";
static const char sql_version[] = "SELECT version FROM job WHERE ulid = ?1";
static const char sql_insert[] =
    "INSERT INTO job(" JOB_COLUMNS ") VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,"
    "?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,"
    "?29,?30,?31,?32,?33,?34,?35,?36,?37,?38,?39,?40,?41,?42,?43,?44,?45,?46)";
/* What a job was asked to be never changes; ?1 and ?2.. are as in insert. */
static const char sql_update[] =
    "UPDATE job SET version = ?2, uid = ?4, phase = ?5, state = ?6,"
    " generation = ?11, detail = ?15, reason = ?16, reason_en = ?17,"
    " reason_zh = ?18, error_class = ?19, slurm_job_id = ?21,"
    " slurm_submit = ?22, sluid = ?23, slurm_state = ?24, slurm_flags = ?25,"
    " slurm_reason = ?26, script_sha256 = ?27, submitted_at = ?29,"
    " started_at = ?30, ended_at = ?31, observed_at = ?32, has_exit = ?33,"
    " exit_code = ?34, exit_signal = ?35, effective = ?37, limits = ?38,"
    " attempts = ?39, has_gpu_seconds = ?40, gpu_seconds = ?41, source = ?42,"
    " receipts = ?43, has_sidecar = ?44, ended_seen_at = ?45,"
    " sidecar_left = ?46 WHERE ulid = ?1";
static const char sql_delete[] = "DELETE FROM job WHERE ulid = ?1";

static char **text_at(struct job_row *j, size_t i)
{
    return (char **)(void *)((char *)j + columns[i].offset);
}

void store_job_clear(struct job_row *j)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].type == COL_TEXT)
            free(*text_at(j, i));
    }
    memset(j, 0, sizeof *j);
}

static int load_text(struct db_stmt *s, int col, char **out, struct err *e)
{
    const char *v = db_col_text(s, col);

    *out = v ? strdup(v) : NULL;
    return v && !*out ? err_nomem(e) : 0;
}

static int load_state(struct db_stmt *s, int col, struct job_row *j,
                      struct err *e)
{
    const char *word = db_col_text(s, col);
    int state = word ? job_state_parse(word) : -1;

    if (state < 0)
        return err_set(e, ERR_INTERNAL, "db_error", "a job has no state");
    j->state = (enum job_state)state;
    return 0;
}

static int load_column(struct db_stmt *s, size_t i, struct job_row *j,
                       struct err *e)
{
    void *at = (char *)j + columns[i].offset;
    int col = (int)i + 1;

    switch (columns[i].type) {
    case COL_INT:
        *(int64_t *)at = db_col_int(s, col);
        return 0;
    case COL_BOOL:
        *(bool *)at = db_col_int(s, col) != 0;
        return 0;
    case COL_PHASE:
        j->phase = (enum job_phase)db_col_int(s, col);
        return 0;
    case COL_STATE:
        return load_state(s, col, j, e);
    case COL_TEXT:
        return load_text(s, col, text_at(j, i), e);
    }
    return -1;
}

static int load_row(struct db_stmt *s, struct job_row *j, struct err *e)
{
    const char *ulid = db_col_text(s, 0);

    memset(j, 0, sizeof *j);
    snprintf(j->ulid, sizeof j->ulid, "%s", ulid ? ulid : "");
    for (size_t i = 0; i < COLUMNS; i++) {
        if (load_column(s, i, j, e)) {
            store_job_clear(j);
            return -1;
        }
    }
    return 0;
}

static void bind_column(struct db_stmt *s, size_t i, const struct job_row *j)
{
    const void *at = (const char *)j + columns[i].offset;
    int n = (int)i + 2;

    switch (columns[i].type) {
    case COL_INT:
        db_bind_int(s, n, *(const int64_t *)at);
        break;
    case COL_BOOL:
        db_bind_int(s, n, *(const bool *)at);
        break;
    case COL_PHASE:
        db_bind_int(s, n, (int64_t)j->phase);
        break;
    case COL_STATE:
        db_bind_text(s, n, job_state_name(j->state));
        break;
    case COL_TEXT:
        db_bind_text(s, n, *(char *const *)at);
        break;
    }
}

int store_job_get(struct db *d, const char *ulid, struct job_row *out,
                  struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_get, e);
    int rc;

    memset(out, 0, sizeof *out);
    if (!s)
        return -1;
    db_bind_text(s, 1, ulid);
    rc = db_step(s, e);
    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "job_not_found", "no such job");
    if (rc < 0)
        return -1;
    rc = load_row(s, out, e);
    db_reset(s);
    return rc;
}

int store_job_version(struct db *d, const char *ulid, int64_t *version,
                      struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_version, e);
    int rc;

    if (!s)
        return -1;
    db_bind_text(s, 1, ulid);
    rc = db_step(s, e);
    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "job_not_found", "no such job");
    if (rc < 0)
        return -1;
    *version = db_col_int(s, 0);
    db_reset(s);
    return 0;
}

int store_job_insert(struct db *d, const struct job_row *j, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_insert, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, j->ulid);
    for (size_t i = 0; i < COLUMNS; i++)
        bind_column(s, i, j);
    return db_run(s, e);
}

int store_job_update(struct db *d, struct job_row *j, struct err *e)
{
    int64_t version;
    struct db_stmt *s;

    if (store_job_version(d, j->ulid, &version, e))
        return -1;
    j->version = version + 1;
    s = db_prepare(d, sql_update, e);
    if (!s)
        return -1;
    db_bind_text(s, 1, j->ulid);
    for (size_t i = 0; i < COLUMNS; i++)
        bind_column(s, i, j); /* by the same numbers; some aren't used */
    return db_run(s, e);
}

int store_job_delete(struct db *d, const char *ulid, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_delete, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, ulid);
    return db_run(s, e);
}

/* --- lists --- */

/* One statement a leading index; what is NULL or 0 there filters nothing.
 * ?7 is a path into the row's labels, $."key": store_label_key_valid() keeps
 * whatever could end the quotes out of keys. */
#define LIST_REST                                                              \
    "ulid < ?1 AND (?2 IS NULL OR state = ?2) AND"                             \
    " (?3 IS NULL OR workflow = ?3) AND (?4 IS NULL OR person = ?4) AND"       \
    " created_at >= ?5 AND created_at < ?6 AND (?7 IS NULL OR"                 \
    " (json_type(labels, ?7) IS NOT NULL AND"                                  \
    " (?8 IS NULL OR json_extract(labels, ?7) = ?8)))"                         \
    " ORDER BY ulid DESC LIMIT ?9"
#define LIST_HEAD "SELECT " JOB_COLUMNS " FROM job"
static const char sql_list_mine[] =
    LIST_HEAD " INDEXED BY job_principal WHERE principal = ?10 AND " LIST_REST;
static const char sql_list_state[] =
    LIST_HEAD " INDEXED BY job_state WHERE state = ?2 AND " LIST_REST;
static const char sql_list_workflow[] =
    LIST_HEAD " INDEXED BY job_workflow WHERE workflow = ?3 AND " LIST_REST;
static const char sql_list_all[] = LIST_HEAD " WHERE " LIST_REST;
static const char sql_open[] =
    "SELECT " JOB_COLUMNS " FROM job INDEXED BY job_followed"
    " WHERE (phase < 5 OR source = 'slurmctld' OR sidecar_left) AND"
    " (phase < 5 OR sidecar_left OR ended_at >= ?1) ORDER BY ulid";

static const char *list_sql(const struct job_filter *f)
{
    if (f->principal)
        return sql_list_mine;
    if (f->state)
        return sql_list_state;
    return f->workflow ? sql_list_workflow : sql_list_all;
}

static int each_row(struct db_stmt *s, store_each *fn, void *arg, struct err *e)
{
    struct job_row j;
    int rc;

    while ((rc = db_step(s, e)) == 1) {
        rc = load_row(s, &j, e);
        if (rc == 0) {
            rc = fn(&j, arg, e);
            store_job_clear(&j);
        }
        if (rc) {
            db_reset(s);
            return rc;
        }
    }
    return rc;
}

bool store_label_key_valid(const char *key)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-";
    size_t n = strlen(key);

    return n >= 1 && n <= STORE_LABEL_KEY_MAX && strspn(key, good) == n;
}

int store_job_list(struct db *d, const struct job_filter *f, store_each *fn,
                   void *arg, struct err *e)
{
    struct db_stmt *s = db_prepare(d, list_sql(f), e);
    char path[STORE_LABEL_KEY_MAX + 8] = "";

    if (f->label_key && store_label_key_valid(f->label_key))
        snprintf(path, sizeof path, "$.\"%s\"", f->label_key);
    if (!s)
        return -1;
    /* '[' is after every character of a ULID. */
    db_bind_text(s, 1, f->before[0] ? f->before : "[");
    db_bind_text(s, 2, f->state);
    db_bind_text(s, 3, f->workflow);
    db_bind_text(s, 4, f->owner);
    db_bind_int(s, 5, f->since);
    db_bind_int(s, 6, f->until ? f->until : INT64_MAX);
    db_bind_text(s, 7, path[0] ? path : NULL);
    db_bind_text(s, 8, f->label_value);
    db_bind_int(s, 9, f->limit);
    if (f->principal)
        db_bind_int(s, 10, f->principal);
    return each_row(s, fn, arg, e);
}

int store_job_open(struct db *d, int64_t corrected_since, store_each *fn,
                   void *arg, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_open, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, corrected_since);
    return each_row(s, fn, arg, e);
}

/* --- intent --- */

static const char sql_intent[] =
    "INSERT INTO intent(ulid, request, principal, uid, workflow, generation,"
    " args_sha256, slurm_name, created_at) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)";

int store_intent_insert(struct db *d, const struct intent_row *i, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_intent, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, i->ulid);
    db_bind_text(s, 2, i->request);
    db_bind_int(s, 3, i->principal);
    db_bind_int(s, 4, i->uid);
    db_bind_text(s, 5, i->workflow);
    db_bind_text(s, 6, i->generation);
    db_bind_text(s, 7, i->args_sha256);
    db_bind_text(s, 8, i->slurm_name);
    db_bind_int(s, 9, i->created_at);
    return db_run(s, e);
}

/* --- idempotency --- */

static const char sql_idem_find[] =
    "SELECT fingerprint, ulid, status, body, error FROM idempotency"
    " WHERE principal = ?1 AND route = ?2 AND key = ?3";
static const char sql_idem_add[] =
    "INSERT INTO idempotency(principal, route, key, fingerprint, ulid,"
    " created_at, status) VALUES(?1,?2,?3,?4,?5,?6,0)";
static const char sql_idem_answer[] =
    "UPDATE idempotency SET status = ?2, body = ?3, error = ?4"
    " WHERE ulid = ?1 AND (status = 0 OR ?4 IS NOT NULL)";
static const char sql_idem_drop[] = "DELETE FROM idempotency WHERE ulid = ?1";
static const char sql_idem_sweep[] =
    "UPDATE idempotency SET status = 202 WHERE status = 0";
static const char sql_idem_expire[] =
    "DELETE FROM idempotency WHERE created_at < ?1 AND status <> 0";

void store_idem_clear(struct idem_answer *a)
{
    free(a->body);
    free(a->error);
    memset(a, 0, sizeof *a);
}

static int load_answer(struct db_stmt *s, const char *fingerprint,
                       struct idem_answer *a, struct err *e)
{
    const char *have = db_col_text(s, 0), *ulid = db_col_text(s, 1);

    if (!have || strcmp(have, fingerprint))
        return err_set(e, ERR_INVALID, "idempotency_key_reused",
                       "this Idempotency-Key was used for another request");
    snprintf(a->ulid, sizeof a->ulid, "%s", ulid ? ulid : "");
    a->status = (int)db_col_int(s, 2);
    if (load_text(s, 3, &a->body, e) || load_text(s, 4, &a->error, e)) {
        store_idem_clear(a);
        return -1;
    }
    return 0;
}

int store_idem_find(struct db *d, const struct idem_claim *c,
                    struct idem_answer *first, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_idem_find, e);
    int rc;

    memset(first, 0, sizeof *first);
    if (!s)
        return -1;
    db_bind_int(s, 1, c->principal);
    db_bind_text(s, 2, c->route);
    db_bind_text(s, 3, c->key);
    rc = db_step(s, e);
    if (rc != 1)
        return rc;
    rc = load_answer(s, c->fingerprint, first, e);
    db_reset(s);
    return rc ? -1 : 1;
}

int store_idem_claim(struct db *d, const struct idem_claim *c,
                     struct idem_answer *first, struct err *e)
{
    int rc = store_idem_find(d, c, first, e);
    struct db_stmt *s;

    if (rc)
        return rc;
    s = db_prepare(d, sql_idem_add, e);
    if (!s)
        return -1;
    db_bind_int(s, 1, c->principal);
    db_bind_text(s, 2, c->route);
    db_bind_text(s, 3, c->key);
    db_bind_text(s, 4, c->fingerprint);
    db_bind_text(s, 5, c->ulid);
    db_bind_int(s, 6, c->now);
    return db_run(s, e);
}

int store_idem_answer(struct db *d, const char *ulid, int status,
                      const char *body, const char *error, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_idem_answer, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, ulid);
    db_bind_int(s, 2, status);
    db_bind_text(s, 3, body);
    db_bind_text(s, 4, error);
    return db_run(s, e);
}

int store_idem_drop(struct db *d, const char *ulid, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_idem_drop, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, ulid);
    return db_run(s, e);
}

int store_idem_sweep(struct db *d, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_idem_sweep, e);

    return s ? db_run(s, e) : -1;
}

int store_idem_expire(struct db *d, int64_t before, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_idem_expire, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, before);
    return db_run(s, e);
}

/* --- the key of secrets' fingerprints --- */

static const char sql_key_get[] = "SELECT key FROM secret_key WHERE id = 1";
static const char sql_key_set[] =
    "INSERT INTO secret_key(id, key) VALUES(1,?1)";

static int key_new(struct db *d, uint8_t *out, struct err *e)
{
    struct db_stmt *s;

    if (crypto_random(out, STORE_SECRET_KEY_LEN, e))
        return -1;
    s = db_prepare(d, sql_key_set, e);
    if (!s)
        return -1;
    db_bind_blob(s, 1, out, STORE_SECRET_KEY_LEN);
    return db_run(s, e);
}

int store_secret_key(struct db *d, uint8_t *out, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_key_get, e);
    const void *key;
    size_t n = 0;
    int rc;

    if (!s)
        return -1;
    rc = db_step(s, e);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return key_new(d, out, e);
    key = db_col_blob(s, 0, &n);
    if (!key || n != STORE_SECRET_KEY_LEN) {
        db_reset(s);
        return err_set(e, ERR_INTERNAL, "db_error", "the key is damaged");
    }
    memcpy(out, key, STORE_SECRET_KEY_LEN);
    db_reset(s);
    return 0;
}
