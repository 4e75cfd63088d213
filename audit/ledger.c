/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "audit/ledger.h"

#include "base/crypto.h"
#include "base/json.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DENY(table)                                                            \
    "CREATE TRIGGER " table "_u BEFORE UPDATE ON " table                       \
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"                          \
    "CREATE TRIGGER " table "_d BEFORE DELETE ON " table                       \
    " BEGIN SELECT RAISE(ABORT, 'append-only'); END;"

/* hold_open and usage_month are derived: sums stay quick when the history has a
 * million rows. hold_open follows by trigger, usage_month by apply_usage().
 * A hold gets its money account by ALTER TABLE when prices come. */
const char ledger_schema[] =
    "CREATE TABLE hold("
    " id INTEGER PRIMARY KEY, idem TEXT NOT NULL UNIQUE,"
    " principal INTEGER NOT NULL, gpus INTEGER NOT NULL CHECK(gpus >= 0),"
    " gpu_type TEXT NOT NULL, seconds INTEGER NOT NULL CHECK(seconds >= 0),"
    " amount INTEGER NOT NULL CHECK(amount >= 0),"
    " created_at INTEGER NOT NULL) STRICT;"
    "CREATE TABLE hold_event("
    " hold_id INTEGER NOT NULL REFERENCES hold(id), seq INTEGER NOT NULL,"
    " kind TEXT NOT NULL CHECK(kind IN"
    "  ('attach','extend','settle','release','expire')),"
    " amount INTEGER NOT NULL DEFAULT 0, ref TEXT, at INTEGER NOT NULL,"
    " PRIMARY KEY(hold_id, seq)) STRICT;"
    "CREATE UNIQUE INDEX hold_ends_once ON hold_event(hold_id)"
    " WHERE kind IN('settle','release','expire');"
    "CREATE TABLE hold_open("
    " hold_id INTEGER PRIMARY KEY REFERENCES hold(id),"
    " principal INTEGER NOT NULL, gpus INTEGER NOT NULL,"
    " seconds INTEGER NOT NULL) STRICT;"
    "CREATE INDEX hold_open_principal ON hold_open(principal);"
    "CREATE TRIGGER hold_opens AFTER INSERT ON hold BEGIN"
    " INSERT INTO hold_open VALUES(NEW.id, NEW.principal, NEW.gpus,"
    " NEW.seconds); END;"
    "CREATE TRIGGER hold_ends AFTER INSERT ON hold_event"
    " WHEN NEW.kind IN('settle','release','expire') BEGIN"
    " DELETE FROM hold_open WHERE hold_id = NEW.hold_id; END;"
    "CREATE TRIGGER hold_r BEFORE INSERT ON hold WHEN EXISTS"
    " (SELECT 1 FROM hold h WHERE h.id = NEW.id OR h.idem = NEW.idem)"
    " BEGIN SELECT RAISE(ABORT, 'duplicate hold'); END;"
    "CREATE TRIGGER hold_event_r BEFORE INSERT ON hold_event WHEN EXISTS"
    " (SELECT 1 FROM hold_event h WHERE h.hold_id = NEW.hold_id"
    "  AND h.seq = NEW.seq)"
    " BEGIN SELECT RAISE(ABORT, 'duplicate hold event'); END;" DENY("hold")
        DENY("hold_event") "CREATE TABLE run("
                           " id INTEGER PRIMARY KEY, job TEXT NOT NULL, "
                           "principal INTEGER NOT NULL,"
                           " workflow TEXT NOT NULL, cluster TEXT NOT NULL,"
                           " job_id INTEGER NOT NULL, submit_time INTEGER NOT "
                           "NULL,"
                           " created_at INTEGER NOT NULL,"
                           " UNIQUE(cluster, job_id, submit_time)) STRICT;"
                           "CREATE INDEX run_job ON run(job, submit_time);"
                           "CREATE TABLE run_alias("
                           " kind TEXT NOT NULL CHECK(kind "
                           "IN('slurm','dbindex','sluid')),"
                           " value TEXT NOT NULL, run_id INTEGER NOT NULL "
                           "REFERENCES run(id),"
                           " at INTEGER NOT NULL, PRIMARY KEY(kind, value)) "
                           "STRICT;"
                           "CREATE INDEX run_alias_run ON run_alias(run_id);"
                           "CREATE TABLE raw_record("
                           " id INTEGER PRIMARY KEY, source TEXT NOT NULL, "
                           "cluster TEXT NOT NULL,"
                           " run_key TEXT NOT NULL, rev INTEGER NOT NULL,"
                           " observed_at INTEGER NOT NULL, sha256 TEXT NOT "
                           "NULL, body TEXT NOT NULL,"
                           " UNIQUE(cluster, run_key, rev),"
                           " UNIQUE(cluster, run_key, sha256)) STRICT;"
                           "CREATE TABLE run_figure("
                           " run_id INTEGER NOT NULL REFERENCES run(id), rev "
                           "INTEGER NOT NULL,"
                           " source TEXT NOT NULL CHECK(source "
                           "IN('slurmdbd','slurmctld')),"
                           " raw_id INTEGER NOT NULL REFERENCES raw_record(id),"
                           " state TEXT NOT NULL, started_at INTEGER, ended_at "
                           "INTEGER NOT NULL,"
                           " nodes INTEGER NOT NULL, gpus INTEGER NOT NULL,"
                           " gpu_types TEXT NOT NULL, gpu_seconds INTEGER NOT "
                           "NULL,"
                           " at INTEGER NOT NULL, PRIMARY KEY(run_id, rev)) "
                           "STRICT;"
                           "CREATE VIEW run_current AS SELECT r.id, r.job, "
                           "r.principal, r.workflow,"
                           " r.cluster, r.job_id, r.submit_time, f.rev, "
                           "f.source, f.raw_id, f.state,"
                           " f.started_at, f.ended_at, f.nodes, f.gpus, "
                           "f.gpu_types, f.gpu_seconds"
                           " FROM run r JOIN run_figure f ON f.run_id = r.id "
                           "AND f.rev ="
                           " (SELECT MAX(x.rev) FROM run_figure x WHERE "
                           "x.run_id = r.id);"
                           "CREATE TABLE usage_month("
                           " principal INTEGER NOT NULL, month TEXT NOT NULL,"
                           " workflow TEXT NOT NULL, gpu_type TEXT NOT NULL,"
                           " gpu_seconds INTEGER NOT NULL, runs INTEGER NOT "
                           "NULL,"
                           " PRIMARY KEY(principal, month, workflow, "
                           "gpu_type)) STRICT;"
                           "CREATE INDEX usage_month_month ON "
                           "usage_month(month);" DENY("run") DENY("run_alias")
                               DENY("raw_record") DENY("run_figure");

const char *const ledger_append_only[] = {
    "hold", "hold_event", "run", "run_alias", "raw_record", "run_figure", NULL};

/* --- holds --- */

static const char sql_hold_take[] =
    "INSERT INTO hold(idem, principal, gpus, gpu_type, seconds, amount,"
    " created_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE ?8 = 0 OR"
    " (SELECT COALESCE(SUM(gpus), 0) FROM hold_open WHERE principal = ?2)"
    " + ?3 <= ?8";
static const char sql_hold_id[] = "SELECT id FROM hold WHERE idem = ?1";
static const char sql_hold_event[] =
    "INSERT INTO hold_event(hold_id, seq, kind, ref, at) SELECT ?1,"
    " COALESCE(MAX(seq), 0) + 1, ?2, ?3, ?4 FROM hold_event WHERE hold_id = ?1";
static const char sql_hold_open[] =
    "SELECT EXISTS(SELECT 1 FROM hold_open WHERE hold_id = ?1)";
static const char sql_open_gpus[] =
    "SELECT COALESCE(SUM(gpus), 0) FROM hold_open WHERE principal = ?1";

/* 1 found, 0 not, -1 error. */
static int hold_id(struct db *d, const char *idem, int64_t *id, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_hold_id, e);
    int rc;

    if (!s)
        return -1;
    db_bind_text(s, 1, idem);
    rc = db_step(s, e);
    if (rc == 1) {
        *id = db_col_int(s, 0);
        db_reset(s);
    }
    return rc;
}

static int hold_must(struct db *d, const char *idem, int64_t *id, struct err *e)
{
    int rc = hold_id(d, idem, id, e);

    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "hold_missing", "no such hold");
    return rc < 0 ? -1 : 0;
}

int ledger_hold_take(struct db *d, const struct ledger_hold *h,
                     int64_t gpus_max, int64_t now, struct err *e)
{
    int64_t id;
    int rc = hold_id(d, h->idem, &id, e);
    struct db_stmt *s;

    if (rc)
        return rc < 0 ? -1
                      : err_set(e, ERR_CONFLICT, "hold_exists",
                                "this hold was taken before");
    s = db_prepare(d, sql_hold_take, e);
    if (!s)
        return -1;
    db_bind_text(s, 1, h->idem);
    db_bind_int(s, 2, h->principal);
    db_bind_int(s, 3, h->gpus);
    db_bind_text(s, 4, h->gpu_type ? h->gpu_type : "");
    db_bind_int(s, 5, h->seconds);
    db_bind_int(s, 6, h->amount_nano);
    db_bind_int(s, 7, now);
    db_bind_int(s, 8, gpus_max);
    if (db_run(s, e))
        return -1;
    if (db_changes(d) == 1)
        return 0;
    return err_set(e, ERR_LIMITED, "quota_gpus",
                   "with this job more than %lld GPUs would be in use or "
                   "waiting",
                   (long long)gpus_max);
}

static int hold_event(struct db *d, int64_t id, const char *kind,
                      const char *ref, int64_t now, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_hold_event, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, id);
    db_bind_text(s, 2, kind);
    db_bind_text(s, 3, ref);
    db_bind_int(s, 4, now);
    return db_run(s, e);
}

int ledger_hold_attach(struct db *d, const char *idem, const char *ref,
                       int64_t now, struct err *e)
{
    int64_t id;

    if (hold_must(d, idem, &id, e))
        return -1;
    return hold_event(d, id, "attach", ref, now, e);
}

static int hold_open(struct db *d, int64_t id, bool *open, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_hold_open, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, id);
    if (db_step(s, e) != 1)
        return err_set(e, ERR_INTERNAL, "db_error", "no row");
    *open = db_col_int(s, 0) != 0;
    db_reset(s);
    return 0;
}

int ledger_hold_is_open(struct db *d, const char *idem, bool *open,
                        struct err *e)
{
    int64_t id;

    if (hold_must(d, idem, &id, e))
        return -1;
    return hold_open(d, id, open, e);
}

int ledger_hold_end(struct db *d, const char *idem, enum ledger_end kind,
                    const char *ref, int64_t now, struct err *e)
{
    static const char *const words[] = {[LEDGER_SETTLE] = "settle",
                                        [LEDGER_RELEASE] = "release",
                                        [LEDGER_EXPIRE] = "expire"};
    bool open = false;
    int64_t id;

    if (hold_must(d, idem, &id, e) || hold_open(d, id, &open, e))
        return -1;
    /* The unique index hold_ends_once says the same; this names it. */
    if (!open)
        return err_set(e, ERR_CONFLICT, "hold_ended", "this hold has ended");
    return hold_event(d, id, words[kind], ref, now, e);
}

int ledger_open_gpus(struct db *d, int64_t principal, int64_t *gpus,
                     struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_open_gpus, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, principal);
    if (db_step(s, e) != 1)
        return err_set(e, ERR_INTERNAL, "db_error", "no row");
    *gpus = db_col_int(s, 0);
    db_reset(s);
    return 0;
}

/* --- GPUs from TRES --- */

/* A count over this is not a machine, it is one of Slurm's sentinels. */
enum { GPUS_MAX = 1000000 };

static int tres_error(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "ledger_tres", "TRES: %s", what);
}

/* name is what follows "gres/gpu:". */
static int gpus_add(struct ledger_gpus *g, const char *name, int64_t count,
                    struct err *e)
{
    size_t n = strlen(name);

    if (n > LEDGER_TYPE_LEN || g->n == LEDGER_TYPES_MAX)
        return tres_error(e, "too many or too long GPU types");
    memcpy(g->v[g->n].type, name, n + 1);
    g->v[g->n++].count = count;
    return 0;
}

/* One pair. generic keeps gres/gpu, -1 when there was none. */
static int gpus_pair(struct ledger_gpus *g, int64_t *generic, const char *name,
                     int64_t count, struct err *e)
{
    if (strncmp(name, "gres/gpu", 8) || (name[8] && name[8] != ':'))
        return 0; /* cpu, mem, gres/gpumem, gres/shard: not counted here */
    if (count < 0 || count > GPUS_MAX)
        return tres_error(e, "GPU count out of range");
    if (name[8] == ':')
        return count ? gpus_add(g, name + 9, count, e) : 0;
    *generic = count;
    return 0;
}

static int type_cmp(const void *a, const void *b)
{
    const char *x = a, *y = b; /* type is the first member */

    return strcmp(x, y);
}

/* Compare the typed sum with its checksum; sort, so that the figure's text is
 * the same whatever order the source told them in. */
static int gpus_close(struct ledger_gpus *g, int64_t generic, struct err *e)
{
    int64_t typed = 0;

    for (int i = 0; i < g->n; i++)
        typed += g->v[i].count;
    if (generic > typed && gpus_add(g, "", generic - typed, e))
        return -1;
    g->mismatch = generic >= 0 && typed > generic;
    qsort(g->v, (size_t)g->n, sizeof g->v[0], type_cmp);
    return 0;
}

int ledger_gpus_json(const json_t *tres, struct ledger_gpus *out, struct err *e)
{
    const char *name;
    json_t *v, *obj = json_incref((json_t *)(uintptr_t)tres);
    int64_t generic = -1;
    int rc = 0;

    *out = (struct ledger_gpus){0};
    if (tres && !json_is_object(tres) && !json_is_null(tres))
        rc = tres_error(e, "not an object");
    json_object_foreach(obj, name, v)
    {
        if (rc)
            break;
        if (!json_is_integer(v))
            rc = tres_error(e, "a count is not an integer");
        else
            rc = gpus_pair(out, &generic, name, json_integer_value(v), e);
    }
    json_decref(obj);
    return rc ? -1 : gpus_close(out, generic, e);
}

/* One "name=count" of Slurm's text. Counts of other TRES have unit suffixes
 * (mem=20000M), so only GPU counts are parsed. */
static int text_pair(struct ledger_gpus *g, int64_t *generic, char *pair,
                     struct err *e)
{
    char *eq = strchr(pair, '=');
    int64_t count;

    if (!eq)
        return tres_error(e, "no '='");
    *eq = '\0';
    if (strncmp(pair, "gres/gpu", 8) || (pair[8] && pair[8] != ':'))
        return 0;
    if (num_parse(eq + 1, 0, GPUS_MAX, &count))
        return tres_error(e, "a GPU count is not a number");
    return gpus_pair(g, generic, pair, count, e);
}

int ledger_gpus_text(const char *tres, struct ledger_gpus *out, struct err *e)
{
    int64_t generic = -1;
    char *copy, *p, *next;
    int rc = 0;

    *out = (struct ledger_gpus){0};
    if (!tres || !*tres)
        return 0;
    copy = strdup(tres);
    if (!copy)
        return err_nomem(e);
    for (p = copy; p && rc == 0; p = next) {
        next = strchr(p, ',');
        if (next)
            *next++ = '\0';
        rc = text_pair(out, &generic, p, e);
    }
    free(copy);
    return rc ? -1 : gpus_close(out, generic, e);
}

int ledger_gpus_total(const struct ledger_gpus *g, int64_t *total,
                      struct err *e)
{
    int64_t sum = 0;

    for (int i = 0; i < g->n; i++) {
        if (num_add(sum, g->v[i].count, &sum))
            return err_set(e, ERR_INTERNAL, "ledger_overflow", "GPUs");
    }
    *total = sum;
    return 0;
}

/* --- seconds and months --- */

int ledger_gpu_seconds(int64_t count, int64_t start, int64_t end, int64_t from,
                       int64_t to, int64_t *out, struct err *e)
{
    int64_t a = start > from ? start : from;
    int64_t b = end < to ? end : to;
    __int128 v = 0;

    if (start > 0 && end >= start && b > a)
        v = (__int128)count * ((__int128)b - a);
    if (v < 0 || v > INT64_MAX)
        return err_set(e, ERR_INTERNAL, "ledger_overflow", "GPU-seconds");
    *out = (int64_t)v;
    return 0;
}

void ledger_month(int64_t t, int64_t *start, int64_t *stop, char *name)
{
    time_t when = (time_t)t;
    struct tm tm = {0};

    gmtime_r(&when, &tm);
    if (name) {
        unsigned year = (unsigned)(tm.tm_year + 1900) % 10000u;
        unsigned month = (unsigned)(tm.tm_mon + 1) % 100u;
        snprintf(name, 8, "%04u-%02u", year, month);
    }
    tm = (struct tm){.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = 1};
    *start = (int64_t)timegm(&tm);
    tm = (struct tm){
        .tm_year = tm.tm_year, .tm_mon = tm.tm_mon + 1, .tm_mday = 1};
    *stop = (int64_t)timegm(&tm);
}

/* --- usage by month --- */

static const char sql_usage_add[] =
    "INSERT INTO usage_month(principal, month, workflow, gpu_type, gpu_seconds,"
    " runs) VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT DO UPDATE SET"
    " gpu_seconds = gpu_seconds + ?5, runs = runs + ?6";

struct figure {
    int64_t rev, started_at, ended_at, gpu_seconds;
    char source[16], state[32];
    struct ledger_gpus gpus;
};

struct whose {
    int64_t principal;
    const char *workflow;
};

static int usage_add(struct db *d, const struct whose *w, const char *month,
                     const char *type, int64_t seconds, int64_t runs,
                     struct err *e)
{
    struct db_stmt *s;

    if (seconds == 0 && runs == 0)
        return 0;
    s = db_prepare(d, sql_usage_add, e);
    if (!s)
        return -1;
    db_bind_int(s, 1, w->principal);
    db_bind_text(s, 2, month);
    db_bind_text(s, 3, w->workflow);
    db_bind_text(s, 4, type);
    db_bind_int(s, 5, seconds);
    db_bind_int(s, 6, runs);
    return db_run(s, e);
}

/* One type's slices, month by month; sign is +1 or -1. */
static int apply_type(struct db *d, const struct whose *w,
                      const struct figure *f, int i, int sign, struct err *e)
{
    int64_t from, to, secs = 0, at = f->started_at;
    char month[8];

    while (f->started_at > 0 && at < f->ended_at) {
        ledger_month(at, &from, &to, month);
        if (ledger_gpu_seconds(f->gpus.v[i].count, f->started_at, f->ended_at,
                               from, to, &secs, e) ||
            usage_add(d, w, month, f->gpus.v[i].type, sign * secs, 0, e))
            return -1;
        at = to;
    }
    return 0;
}

/* A run is counted once, in the month of its end, under its first type. */
static int apply_usage(struct db *d, const struct whose *w,
                       const struct figure *f, int sign, struct err *e)
{
    const char *first = f->gpus.n ? f->gpus.v[0].type : "";
    int64_t from, to;
    char month[8];

    for (int i = 0; i < f->gpus.n; i++) {
        if (apply_type(d, w, f, i, sign, e))
            return -1;
    }
    ledger_month(f->ended_at, &from, &to, month);
    return usage_add(d, w, month, first, 0, sign, e);
}

/* --- runs --- */

static const char *const source_names[] = {
    [LEDGER_SLURMCTLD] = "slurmctld", [LEDGER_SLURMDBD] = "slurmdbd"};

static const char sql_alias_find[] =
    "SELECT a.run_id, r.job FROM run_alias a JOIN run r ON r.id = a.run_id"
    " WHERE a.kind = ?1 AND a.value = ?2";
static const char sql_alias_add[] =
    "INSERT INTO run_alias(kind, value, run_id, at) VALUES(?1,?2,?3,?4)";
static const char sql_run_add[] =
    "INSERT INTO run(job, principal, workflow, cluster, job_id, submit_time,"
    " created_at) VALUES(?1,?2,?3,?4,?5,?6,?7)";
static const char sql_raw_find[] =
    "SELECT id FROM raw_record WHERE cluster = ?1 AND run_key = ?2 AND"
    " sha256 = ?3";
static const char sql_raw_add[] =
    "INSERT INTO raw_record(source, cluster, run_key, rev, observed_at, sha256,"
    " body) SELECT ?1, ?2, ?3, COALESCE(MAX(rev), 0) + 1, ?4, ?5, ?6"
    " FROM raw_record WHERE cluster = ?2 AND run_key = ?3";
static const char sql_figure_now[] =
    "SELECT rev, source, state, started_at, ended_at, gpu_types, gpu_seconds"
    " FROM run_figure WHERE run_id = ?1 ORDER BY rev DESC LIMIT 1";
static const char sql_figure_add[] =
    "INSERT INTO run_figure(run_id, rev, source, raw_id, state, started_at,"
    " ended_at, nodes, gpus, gpu_types, gpu_seconds, at)"
    " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)";

enum { ALIAS_MAX = 192, ALIASES = 3 };
struct alias {
    const char *kind;
    char value[ALIAS_MAX];
    bool known;
};

static int alias_text(struct alias *a, const char *kind, const char *cluster,
                      const char *key, struct err *e)
{
    int n = snprintf(a->value, sizeof a->value, "%s/%s", cluster, key);

    a->kind = kind;
    if (n < 0 || (size_t)n >= sizeof a->value)
        return err_set(e, ERR_INVALID, "ledger_alias", "alias is too long");
    return 0;
}

/* Which aliases this record has; returns how many, or -1. */
static int aliases_of(const struct ledger_run *r, struct alias *v,
                      struct err *e)
{
    char key[64];
    int n = 0;

    snprintf(key, sizeof key, "%lld/%lld", (long long)r->job_id,
             (long long)r->submit_time);
    if (alias_text(&v[n++], "slurm", r->cluster, key, e))
        return -1;
    if (r->db_index &&
        alias_text(&v[n++], "dbindex", r->cluster, r->db_index, e))
        return -1;
    if (r->sluid && alias_text(&v[n++], "sluid", r->cluster, r->sluid, e))
        return -1;
    return n;
}

/* 1: known, *run is set; 0: not; -1: error or another job's. */
static int alias_find(struct db *d, const char *job, struct alias *a,
                      int64_t *run, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_alias_find, e);
    bool same;
    int64_t id;
    int rc;

    if (!s)
        return -1;
    db_bind_text(s, 1, a->kind);
    db_bind_text(s, 2, a->value);
    rc = db_step(s, e);
    if (rc != 1)
        return rc;
    id = db_col_int(s, 0);
    same = !strcmp(db_col_text(s, 1), job) && (*run == 0 || *run == id);
    db_reset(s);
    if (!same)
        return err_set(e, ERR_CONFLICT, "ledger_alias",
                       "%s alias belongs to another run", a->kind);
    a->known = true;
    *run = id;
    return 1;
}

static int alias_add(struct db *d, const struct alias *a, int64_t run,
                     int64_t now, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_alias_add, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, a->kind);
    db_bind_text(s, 2, a->value);
    db_bind_int(s, 3, run);
    db_bind_int(s, 4, now);
    return db_run(s, e);
}

static int run_add(struct db *d, const struct ledger_run *r, int64_t *id,
                   struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_run_add, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, r->job);
    db_bind_int(s, 2, r->principal);
    db_bind_text(s, 3, r->workflow);
    db_bind_text(s, 4, r->cluster);
    db_bind_int(s, 5, r->job_id);
    db_bind_int(s, 6, r->submit_time);
    db_bind_int(s, 7, r->observed_at);
    if (db_run(s, e))
        return -1;
    *id = db_last_id(d);
    return 0;
}

/* The run row of this record, with all its aliases. */
static int run_of(struct db *d, const struct ledger_run *r, int64_t *run,
                  struct err *e)
{
    struct alias v[ALIASES] = {0};
    int n = aliases_of(r, v, e);

    *run = 0;
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        if (alias_find(d, r->job, &v[i], run, e) < 0)
            return -1;
    }
    if (*run == 0 && run_add(d, r, run, e))
        return -1;
    for (int i = 0; i < n; i++) {
        if (!v[i].known && alias_add(d, &v[i], *run, r->observed_at, e))
            return -1;
    }
    return 0;
}

static int raw_find(struct db *d, const struct ledger_run *r, const char *key,
                    const char *hex, int64_t *id, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_raw_find, e);
    int rc;

    if (!s)
        return -1;
    db_bind_text(s, 1, r->cluster);
    db_bind_text(s, 2, key);
    db_bind_text(s, 3, hex);
    rc = db_step(s, e);
    if (rc == 1) {
        *id = db_col_int(s, 0);
        db_reset(s);
    }
    return rc;
}

static int raw_add(struct db *d, const struct ledger_run *r, const char *key,
                   const char *hex, const char *body, int64_t *id,
                   struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_raw_add, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, source_names[r->source]);
    db_bind_text(s, 2, r->cluster);
    db_bind_text(s, 3, key);
    db_bind_int(s, 4, r->observed_at);
    db_bind_text(s, 5, hex);
    db_bind_text(s, 6, body);
    if (db_run(s, e))
        return -1;
    *id = db_last_id(d);
    return 0;
}

/* The evidence, stored once by content. run_key: DBIndex where there is one. */
static int raw_of(struct db *d, const struct ledger_run *r, int64_t *id,
                  struct err *e)
{
    char key[ALIAS_MAX], hex[SHA256_HEX_LEN + 1];
    size_t n = 0;
    char *body = json_canonical(r->raw, &n, e);
    int rc = -1;

    if (!body)
        return -1;
    if (r->db_index)
        snprintf(key, sizeof key, "%s", r->db_index);
    else
        snprintf(key, sizeof key, "%lld/%lld", (long long)r->job_id,
                 (long long)r->submit_time);
    if (crypto_sha256_hex(body, n, hex, e))
        goto out;
    rc = raw_find(d, r, key, hex, id, e);
    if (rc == 0)
        rc = raw_add(d, r, key, hex, body, id, e);
    else if (rc > 0)
        rc = 0;
out:
    free(body);
    return rc;
}

static json_t *gpus_json(const struct ledger_gpus *g)
{
    json_t *o = json_object();
    int rc = 0;

    for (int i = 0; i < g->n; i++)
        rc |= json_put_int(o, g->v[i].type, g->v[i].count);
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

static char *gpus_text(const struct ledger_gpus *g, struct err *e)
{
    json_t *o = gpus_json(g);
    size_t n;
    char *text = o ? json_canonical(o, &n, e) : NULL;

    json_decref(o);
    if (!text)
        err_nomem(e);
    return text;
}

static int gpus_back(const char *text, struct ledger_gpus *g, struct err *e)
{
    json_t *o = json_parse(text ? text : "", text ? strlen(text) : 0, 4096, e);
    const char *type;
    json_t *v;
    int rc = o ? 0 : -1;

    *g = (struct ledger_gpus){0};
    json_object_foreach(o, type, v)
    {
        if (rc == 0)
            rc = gpus_add(g, type, json_integer_value(v), e);
    }
    json_decref(o);
    return rc;
}

/* 1: there is one; 0: none; -1. */
static int figure_now(struct db *d, int64_t run, struct figure *f,
                      struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_figure_now, e);
    int rc;

    *f = (struct figure){0};
    if (!s)
        return -1;
    db_bind_int(s, 1, run);
    rc = db_step(s, e);
    if (rc != 1)
        return rc;
    f->rev = db_col_int(s, 0);
    snprintf(f->source, sizeof f->source, "%s", db_col_text(s, 1));
    snprintf(f->state, sizeof f->state, "%s", db_col_text(s, 2));
    f->started_at = db_col_int(s, 3);
    f->ended_at = db_col_int(s, 4);
    f->gpu_seconds = db_col_int(s, 6);
    rc = gpus_back(db_col_text(s, 5), &f->gpus, e);
    db_reset(s);
    return rc ? -1 : 1;
}

static bool gpus_same(const struct ledger_gpus *a, const struct ledger_gpus *b)
{
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++) {
        if (a->v[i].count != b->v[i].count ||
            strcmp(a->v[i].type, b->v[i].type))
            return false;
    }
    return true;
}

static bool figure_same(const struct figure *a, const struct figure *b)
{
    return a->started_at == b->started_at && a->ended_at == b->ended_at &&
           !strcmp(a->source, b->source) && !strcmp(a->state, b->state) &&
           gpus_same(&a->gpus, &b->gpus);
}

/* The latest end that a year of four digits can write. */
#define TIME_MAX INT64_C(253402300799)

static int figure_of(const struct ledger_run *r, struct figure *f,
                     struct err *e)
{
    int64_t secs = 0;

    if (r->ended_at <= 0 || r->ended_at > TIME_MAX || r->started_at < 0)
        return err_set(e, ERR_INVALID, "ledger_time", "run without an end");
    *f = (struct figure){
        .started_at = r->started_at, .ended_at = r->ended_at, .gpus = *r->gpus};
    /* Slurm cancels before the start with start = NO_VAL or after the end. */
    if (f->started_at > f->ended_at)
        f->started_at = 0;
    snprintf(f->source, sizeof f->source, "%s", source_names[r->source]);
    snprintf(f->state, sizeof f->state, "%s", r->state ? r->state : "");
    for (int i = 0; i < f->gpus.n; i++) {
        if (ledger_gpu_seconds(f->gpus.v[i].count, f->started_at, f->ended_at,
                               0, TIME_MAX, &secs, e))
            return -1;
        if (num_add(f->gpu_seconds, secs, &f->gpu_seconds))
            return err_set(e, ERR_INTERNAL, "ledger_overflow", "GPU-seconds");
    }
    return 0;
}

static int figure_add(struct db *d, const struct ledger_run *r, int64_t run,
                      int64_t raw, const struct figure *f, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_figure_add, e);
    char *types = gpus_text(&f->gpus, e);
    int64_t total = 0;
    int rc = -1;

    if (!s || !types || ledger_gpus_total(&f->gpus, &total, e))
        goto out;
    db_bind_int(s, 1, run);
    db_bind_int(s, 2, f->rev);
    db_bind_text(s, 3, f->source);
    db_bind_int(s, 4, raw);
    db_bind_text(s, 5, f->state);
    if (f->started_at)
        db_bind_int(s, 6, f->started_at);
    else
        db_bind_null(s, 6);
    db_bind_int(s, 7, f->ended_at);
    db_bind_int(s, 8, r->nodes);
    db_bind_int(s, 9, total);
    db_bind_text(s, 10, types);
    db_bind_int(s, 11, f->gpu_seconds);
    db_bind_int(s, 12, r->observed_at);
    rc = db_run(s, e);
out:
    free(types);
    return rc;
}

/* The new figure and what it changes in the months. */
static int figure_book(struct db *d, const struct ledger_run *r, int64_t run,
                       const struct figure *old, struct figure *new,
                       struct err *e)
{
    struct whose w = {r->principal, r->workflow};
    int64_t raw;

    if (raw_of(d, r, &raw, e))
        return -1;
    if (old && figure_same(old, new)) {
        new->rev = old->rev;
        return 0;
    }
    new->rev = old ? old->rev + 1 : 1;
    if (figure_add(d, r, run, raw, new, e))
        return -1;
    if (old && apply_usage(d, &w, old, -1, e))
        return -1;
    return apply_usage(d, &w, new, 1, e);
}

int ledger_run_record(struct db *d, const struct ledger_run *r,
                      struct ledger_recorded *out, struct err *e)
{
    struct figure old, new;
    int64_t run;
    int have;

    *out = (struct ledger_recorded){0};
    if (figure_of(r, &new, e) || run_of(d, r, &run, e))
        return -1;
    have = figure_now(d, run, &old, e);
    if (have < 0)
        return -1;
    out->run_id = run;
    if (have && r->source == LEDGER_SLURMCTLD &&
        strcmp(old.source, "slurmctld")) {
        out->rev = old.rev;
        out->gpu_seconds = old.gpu_seconds;
        return 0;
    }
    if (figure_book(d, r, run, have ? &old : NULL, &new, e))
        return -1;
    out->rev = new.rev;
    out->gpu_seconds = new.gpu_seconds;
    out->changed = !have || new.rev != old.rev;
    return 0;
}

/* --- reading --- */

static const char sql_job_sum[] =
    "SELECT COUNT(*), COALESCE(SUM(gpu_seconds), 0),"
    " COALESCE(MIN(source = 'slurmdbd'), 0) FROM run_current WHERE job = ?1";
static const char sql_attempts[] =
    "SELECT c.job_id, c.state, c.submit_time, c.started_at, c.ended_at,"
    " c.nodes, c.gpus, c.gpu_types, c.gpu_seconds, c.source, c.rev,"
    " (SELECT value FROM run_alias a WHERE a.run_id = c.id AND"
    "  a.kind = 'sluid')"
    " FROM run_current c WHERE c.job = ?1 ORDER BY c.submit_time, c.id";
#define USAGE_HEAD                                                             \
    "SELECT month, principal, workflow, gpu_type, gpu_seconds, runs"           \
    " FROM usage_month WHERE (gpu_seconds <> 0 OR runs <> 0)"                  \
    " AND month >= ?2 AND month <= ?3 "
#define USAGE_TAIL "ORDER BY month DESC, principal, workflow, gpu_type LIMIT ?4"
static const char sql_usage_mine[] =
    USAGE_HEAD "AND principal = ?1 " USAGE_TAIL;
static const char sql_usage_all[] = USAGE_HEAD "AND ?1 = 0 " USAGE_TAIL;
static const char sql_month_used[] =
    "SELECT (SELECT COALESCE(SUM(gpu_seconds), 0) FROM usage_month"
    "  WHERE principal = ?1 AND month = ?2) +"
    " (SELECT COALESCE(SUM(gpus * seconds), 0) FROM hold_open"
    "  WHERE principal = ?1)";

int ledger_job_sum(struct db *d, const char *job, struct ledger_job_sum *out,
                   struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_job_sum, e);

    if (!s)
        return -1;
    db_bind_text(s, 1, job);
    if (db_step(s, e) != 1)
        return err_set(e, ERR_INTERNAL, "db_error", "no row");
    out->runs = db_col_int(s, 0);
    out->gpu_seconds = db_col_int(s, 1);
    out->from_slurmdbd = db_col_int(s, 2) != 0;
    db_reset(s);
    return 0;
}

static json_t *attempt_slurm(struct db_stmt *s)
{
    json_t *o = json_object();

    if (json_put_int(o, "job_id", db_col_int(s, 0)) |
        json_put_str(o, "sluid", db_col_text(s, 11))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *attempt_row(struct db_stmt *s, int64_t attempt)
{
    const char *types = db_col_text(s, 7);
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_int(o, "attempt", attempt);
    rc |= json_put(o, "slurm", attempt_slurm(s));
    rc |= json_put_str(o, "state", db_col_text(s, 1));
    rc |= json_put_time(o, "submitted_at", db_col_int(s, 2));
    rc |= json_put_time(o, "started_at", db_col_int(s, 3));
    rc |= json_put_time(o, "ended_at", db_col_int(s, 4));
    rc |= json_put_int(o, "nodes", db_col_int(s, 5));
    rc |= json_put_int(o, "gpus", db_col_int(s, 6));
    rc |= json_put(o, "gpu_types",
                   json_parse(types ? types : "{}", types ? strlen(types) : 2,
                              4096, NULL));
    rc |= json_put_int(o, "gpu_seconds", db_col_int(s, 8));
    rc |= json_put_str(o, "source", db_col_text(s, 9));
    rc |= json_put_int(o, "revision", db_col_int(s, 10));
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

int ledger_attempts(struct db *d, const char *job, json_t **out, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_attempts, e);
    json_t *v = json_array();
    int rc = -1;

    if (!s || !v)
        goto out;
    db_bind_text(s, 1, job);
    while ((rc = db_step(s, e)) == 1) {
        int64_t n = (int64_t)json_array_size(v) + 1;
        if (json_array_append_new(v, attempt_row(s, n))) {
            db_reset(s);
            rc = -1;
            break;
        }
    }
out:
    if (rc) {
        json_decref(v);
        return err_nomem(e);
    }
    *out = v;
    return 0;
}

static json_t *usage_row(struct db_stmt *s)
{
    json_t *o = json_object();
    int rc = 0;

    rc |= json_put_str(o, "month", db_col_text(s, 0));
    rc |= json_put_int(o, "principal", db_col_int(s, 1));
    rc |= json_put_str(o, "workflow", db_col_text(s, 2));
    rc |= json_put_str(o, "gpu_type", db_col_text(s, 3));
    rc |= json_put_int(o, "gpu_seconds", db_col_int(s, 4));
    rc |= json_put_int(o, "runs", db_col_int(s, 5));
    if (rc == 0)
        return o;
    json_decref(o);
    return NULL;
}

int ledger_usage(struct db *d, int64_t principal, const char *since,
                 const char *until, int limit, json_t **out, struct err *e)
{
    struct db_stmt *s =
        db_prepare(d, principal ? sql_usage_mine : sql_usage_all, e);
    json_t *v = json_array();
    int rc = -1;

    if (!s || !v)
        goto out;
    db_bind_int(s, 1, principal);
    db_bind_text(s, 2, since ? since : "0000-00");
    db_bind_text(s, 3, until ? until : "9999-99");
    db_bind_int(s, 4, limit);
    while ((rc = db_step(s, e)) == 1) {
        if (json_array_append_new(v, usage_row(s))) {
            db_reset(s);
            rc = -1;
            break;
        }
    }
out:
    if (rc) {
        json_decref(v);
        return err_nomem(e);
    }
    *out = v;
    return 0;
}

int ledger_month_used(struct db *d, int64_t principal, int64_t now,
                      int64_t *gpu_seconds, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_month_used, e);
    int64_t from, to;
    char month[8];

    if (!s)
        return -1;
    ledger_month(now, &from, &to, month);
    db_bind_int(s, 1, principal);
    db_bind_text(s, 2, month);
    if (db_step(s, e) != 1)
        return err_set(e, ERR_INTERNAL, "db_error", "no row");
    *gpu_seconds = db_col_int(s, 0);
    db_reset(s);
    return 0;
}
