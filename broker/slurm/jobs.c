/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/jobs.h"

#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "broker/slurm/lib.h"
#include "broker/slurm/words.h"

#include <stdlib.h>

enum { ROWS_BY_NAME_MAX = 16 };
enum { TEXT_MAX = 4096 }; /* of any one string: names and comments are free */

bool jobs_is_ours(const char *name)
{
    char workflow[SLURM_NAME_MAX + 1], ulid[ULID_LEN + 1];

    return name != NULL && id_slurm_name_parse(name, workflow, ulid) == 0;
}

/* Slurm takes any byte in a name; NULL is "". */
static int put_text(json_t *o, const char *key, const char *s)
{
    struct buf b;
    int bad = -1;

    if (s == NULL)
        return json_put_str(o, key, "");
    if (json_utf8_valid(s, strnlen(s, TEXT_MAX)))
        return json_put(o, key, json_stringn(s, strnlen(s, TEXT_MAX)));
    buf_init(&b, 4 * TEXT_MAX);
    if (json_utf8_clean(&b, s, strnlen(s, TEXT_MAX)) == 0)
        bad = json_put_str(o, key, buf_str(&b));
    buf_clear(&b);
    return bad;
}

/* 0 and Slurm's sentinels mean: not known. */
static int put_when(json_t *o, const char *key, time_t t)
{
    bool known = t > 0 && t != (time_t)NO_VAL && t != (time_t)INFINITE;

    return json_put(o, key, known ? json_integer(t) : json_null());
}

/* A status of wait(2), in Slurm's own two parts ("1:0", "0:15"). */
static int put_exit(json_t *o, bool ended, uint32_t status)
{
    if (!ended || status == NO_VAL)
        return json_put(o, "exit_code", json_null()) |
               json_put(o, "exit_signal", json_null());
    return json_put_int(o, "exit_code", (status >> 8) & 0xff) |
           json_put_int(o, "exit_signal", status & 0x7f);
}

static int put_job_times(json_t *o, const slurm_job_info_t *j)
{
    uint32_t base = j->job_state & JOB_STATE_BASE;
    bool minutes = j->time_limit != NO_VAL && j->time_limit != INFINITE;
    int bad = put_when(o, "submit_time", j->submit_time);

    /* A pending job's start and a running one's end are forecasts. */
    bad |= put_when(o, "start_time", base == JOB_PENDING ? 0 : j->start_time);
    bad |= put_when(o, "end_time", words_ended(j->job_state) ? j->end_time : 0);
    bad |= put_when(o, "eligible_time", j->eligible_time);
    return bad | json_put(o, "time_limit_seconds",
                          minutes ? json_integer((json_int_t)j->time_limit * 60)
                                  : json_null());
}

static int put_job_words(json_t *o, const slurm_job_info_t *j)
{
    char reason[WORDS_REASON_MAX];
    int bad = json_put_str(o, "state", words_state(j->job_state));

    words_reason(j->state_reason, reason);
    bad |= json_put(o, "flags", words_flags(j->job_state));
    bad |= json_put_int(o, "state_number", j->job_state);
    bad |= json_put_str(o, "reason", reason);
    bad |= put_exit(o, words_ended(j->job_state), j->exit_code);
    return bad | json_put_bool(o, "priority_held", j->priority == 0);
}

json_t *jobs_json(const slurm_job_info_t *j, const char *sha256)
{
    json_t *o = json_object();
    int bad = json_put_int(o, "job_id", j->job_id);

    bad |= put_text(o, "name", j->name);
    bad |= json_put_int(o, "uid", j->user_id);
    bad |= put_job_words(o, j);
    bad |= put_job_times(o, j);
    bad |= json_put_int(o, "restarts", j->restart_cnt);
    bad |= put_text(o, "partition", j->partition);
    bad |= put_text(o, "account", j->account);
    bad |= put_text(o, "qos", j->qos);
    bad |= json_put_int(o, "nodes", j->num_nodes);
    bad |= put_text(o, "node_list", j->nodes);
    bad |= json_put(o, "tres_alloc", words_tres(j->tres_alloc_str));
    bad |= json_put(o, "tres_req", words_tres(j->tres_req_str));
    bad |= json_put_str(o, "script_sha256", sha256);
    bad |= put_text(o, "comment", j->comment);
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

int jobs_script_digest(uint32_t job_id, char *out)
{
    char said[LIB_SAID_MAX], *text = NULL;
    struct err ignored = ERR_INIT;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int rc;

    if (f == NULL)
        return -1;
    lib_listen();
    rc = sc_batch_script(f, job_id);
    lib_heard(said);
    if (fclose(f) != 0 || n == 0)
        rc = -1;
    if (rc == 0)
        rc = crypto_sha256_hex(text, n, out, &ignored);
    free(text);
    return rc == 0 ? 0 : -1;
}

/* --- accounting -------------------------------------------------------------
 */

static int add_name(json_t *names, uint32_t id, const char *type,
                    const char *name)
{
    char key[16], full[256];

    (void)snprintf(key, sizeof(key), "%u", (unsigned)id);
    (void)snprintf(full, sizeof(full), "%s%s%s", type,
                   type[0] != '\0' && name[0] != '\0' ? "/" : "", name);
    return json_put_str(names, key, full);
}

json_t *jobs_tres_names(void *db)
{
    slurmdb_tres_cond_t q;
    slurmdb_tres_rec_t *t;
    json_t *names = NULL;
    sc_list list;
    sc_iter it;

    memset(&q, 0, sizeof(q));
    q.count = NO_VAL; /* any: slurmdb_init_tres_cond of all versions */
    list = slurmdb_tres_get(db, &q);
    if (list == NULL)
        return NULL;
    names = json_object();
    it = slurm_list_iterator_create(list);
    while ((t = slurm_list_next(it)) != NULL)
        (void)add_name(names, t->id, t->type != NULL ? t->type : "",
                       t->name != NULL ? t->name : "");
    slurm_list_iterator_destroy(it);
    slurm_list_destroy(list);
    return names;
}

json_t *jobs_qos_names(void *db)
{
    slurmdb_qos_cond_t q;
    slurmdb_qos_rec_t *r;
    json_t *names = NULL;
    sc_list list;
    sc_iter it;

    memset(&q, 0, sizeof(q));
    list = slurmdb_qos_get(db, &q);
    if (list == NULL)
        return NULL;
    names = json_object();
    it = slurm_list_iterator_create(list);
    while ((r = slurm_list_next(it)) != NULL)
        (void)add_name(names, r->id, "", r->name != NULL ? r->name : "");
    slurm_list_iterator_destroy(it);
    slurm_list_destroy(list);
    return names;
}

/* NO_DEFAULT_USAGE: any time window hides held jobs. NOTSET: 0 would add
 * "flags = 0" and find nothing. */
static void condition_init(slurmdb_job_cond_t *q, const char *cluster)
{
    memset(q, 0, sizeof(*q));
    q->db_flags = SLURMDB_JOB_FLAG_NOTSET;
    q->flags = JOBCOND_FLAG_DUP | JOBCOND_FLAG_NO_TRUNC | JOBCOND_FLAG_NO_STEP |
               JOBCOND_FLAG_NO_DEFAULT_USAGE;
    q->cluster_list = slurm_list_create(NULL);
    slurm_list_append(q->cluster_list, (void *)(uintptr_t)cluster);
}

static void condition_clear(slurmdb_job_cond_t *q)
{
    sc_list *lists[] = {&q->cluster_list, &q->userid_list, &q->jobname_list,
                        &q->step_list};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (*lists[i] != NULL)
            slurm_list_destroy(*lists[i]);
        *lists[i] = NULL;
    }
}

/* Ids are used again and names can be changed by the owner; slurmdbd compares
 * names without case. A renamed row of the same id stays, and its name is told:
 * a name that is none of ours, or a submit that was seen to be this job's. Rows
 * that a step's message made before the job's own ("allocation", no TRES) are
 * not a fact yet. */
static bool row_wanted(const slurmdb_job_rec_t *r, const struct rows_query *q)
{
    const char *name = r->jobname != NULL ? r->jobname : "";
    bool bare = r->tres_alloc_str == NULL || r->tres_alloc_str[0] == '\0';

    if (r->uid != q->uid || r->submit < (time_t)q->since ||
        (q->job_id != 0 && r->jobid != q->job_id))
        return false;
    if (strcmp(name, "allocation") == 0 && bare && r->end == 0)
        return false;
    return strcmp(name, q->name) == 0 ||
           (q->job_id != 0 &&
            (!jobs_is_ours(name) || r->submit <= (time_t)q->until));
}

static int put_row_qos(json_t *o, uint32_t id, const json_t *qos, bool *unknown)
{
    char key[16];
    const char *name;

    (void)snprintf(key, sizeof(key), "%u", (unsigned)id);
    name = json_string_value(json_object_get(qos, key));
    if (name == NULL && id != 0)
        *unknown = true;
    return put_text(o, "qos", name);
}

static int put_row_words(json_t *o, const slurmdb_job_rec_t *r)
{
    int64_t restarts = sc_row_restarts(r);
    int bad = json_put_str(o, "state", words_row_state(r->state));

    bad |= json_put_int(o, "state_number", r->state);
    bad |= put_exit(o, r->end != 0, r->exitcode);
    bad |= json_put_int(o, "suspended_seconds", r->suspended);
    return bad | json_put(o, "restarts",
                          restarts >= 0 ? json_integer(restarts) : json_null());
}

static int put_row_place(json_t *o, const slurmdb_job_rec_t *r)
{
    int bad = put_text(o, "account", r->account);

    bad |= put_text(o, "partition", r->partition);
    bad |= json_put_int(o, "nodes", r->alloc_nodes);
    bad |= put_text(o, "node_list", r->nodes);
    return bad | put_text(o, "cluster", r->cluster);
}

static json_t *row_json(const slurmdb_job_rec_t *r, const json_t *tres,
                        const json_t *qos, bool *unknown)
{
    char index[24]; /* over 2^63 from 24.11 on: text */
    json_t *o = json_object();
    int bad;

    (void)snprintf(index, sizeof(index), "%llu",
                   (unsigned long long)r->db_index);
    bad = json_put_str(o, "db_index", index);
    bad |= json_put_int(o, "job_id", r->jobid);
    bad |= put_text(o, "name", r->jobname);
    bad |= json_put_int(o, "uid", r->uid);
    bad |= put_when(o, "submit", r->submit);
    bad |= put_when(o, "start", r->start);
    bad |= put_when(o, "end", r->end);
    bad |= put_when(o, "eligible", r->eligible);
    bad |= put_row_words(o, r) | put_row_place(o, r);
    bad |= put_row_qos(o, r->qosid, qos, unknown);
    bad |= json_put(o, "tres_alloc",
                    words_tres_ids(r->tres_alloc_str, tres, unknown));
    bad |=
        json_put(o, "tres_req", words_tres_ids(r->tres_req_str, tres, unknown));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int64_t submit_of(const json_t *row)
{
    return json_integer_value(json_object_get(row, "submit"));
}

/* Oldest first. */
static int add_row(json_t *rows, json_t *row)
{
    size_t at = json_array_size(rows);

    while (at > 0 && submit_of(json_array_get(rows, at - 1)) > submit_of(row))
        at--;
    return json_array_insert_new(rows, at, row);
}

static json_t *rows_json(sc_list list, const struct rows_query *q,
                         const json_t *tres, const json_t *qos, bool *unknown)
{
    json_t *rows = json_array();
    sc_iter it = slurm_list_iterator_create(list);
    slurmdb_job_rec_t *r;
    int bad = 0;

    while (bad == 0 && (r = slurm_list_next(it)) != NULL) {
        if (row_wanted(r, q))
            bad = add_row(rows, row_json(r, tres, qos, unknown));
        /* By name anybody can make thousands: the oldest is the one. */
        if (q->job_id == 0 && json_array_size(rows) > ROWS_BY_NAME_MAX)
            (void)json_array_remove(rows, ROWS_BY_NAME_MAX);
    }
    slurm_list_iterator_destroy(it);
    if (bad == 0)
        return rows;
    json_decref(rows);
    return NULL;
}

json_t *jobs_rows(void *db, const struct rows_query *q, const json_t *tres,
                  const json_t *qos, bool *unknown)
{
    slurm_selected_step_t step;
    slurmdb_job_cond_t c;
    char uid[16];
    json_t *rows = NULL;
    sc_list list;

    condition_init(&c, q->cluster);
    (void)snprintf(uid, sizeof(uid), "%u", (unsigned)q->uid);
    c.userid_list = slurm_list_create(NULL);
    slurm_list_append(c.userid_list, uid);
    if (q->job_id != 0) {
        sc_select(&step, q->job_id);
        c.step_list = slurm_list_create(NULL);
        slurm_list_append(c.step_list, &step);
    } else {
        c.jobname_list = slurm_list_create(NULL);
        slurm_list_append(c.jobname_list, (void *)(uintptr_t)q->name);
    }
    list = slurmdb_jobs_get(db, &c);
    if (list != NULL) {
        rows = rows_json(list, q, tres, qos, unknown);
        slurm_list_destroy(list);
    }
    condition_clear(&c);
    return rows;
}
