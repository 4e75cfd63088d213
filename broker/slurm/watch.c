/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/watch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/proto.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/lib.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DUTY = 5, /* a poll takes at most a fifth of the time */
    INTERVAL_MAX_MS = 60000,
    COST_STEP_MS = 200,
    FAILED_WAIT_MS = 2000, /* a call that failed cost slurmctld nothing */
    CONF_AGE_MS = 60000,
    JOBS_TOLD_BYTES = 24 * 1024, /* of an answer, and one job more */
    FRAMES_A_TURN = 16,          /* of one peer, before the others are heard */
    CHILD_TICK_MS = 500
};

/* --- slurmctld ---------------------------------------------------------------
 */

static json_t *poll_event(const struct watch *w, const struct err *failure,
                          int64_t took_ms)
{
    json_t *o = json_object();
    int bad = json_put_int(o, "v", PROTO_VERSION);

    bad |= json_put_str(o, "event", "poll");
    bad |= json_put_int(o, "at_ms", clock_now_ms());
    bad |= json_put_bool(o, "slurmctld", w->up);
    bad |= json_put_bool(o, "slurmdbd", w->accounting.up);
    bad |= wire_err_put(o, "error", failure);
    bad |= json_put_int(o, "jobs", (int64_t)w->table.n);
    bad |= json_put_int(o, "took_ms", took_ms);
    bad |= json_put_int(o, "message_timeout_seconds", w->message_timeout);
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static void sync_peers(struct watch *w)
{
    for (size_t i = 0; i < w->peers.n; i++) {
        struct peer *one = &w->peers.v[i];
        json_t *o;

        if (one->synced)
            continue;
        one->synced = true;
        o = json_object();
        (void)json_put_int(o, "v", PROTO_VERSION);
        (void)json_put_str(o, "event", "synced");
        peers_tell_one(one, o);
    }
}

/* 0, or -1 and e. A transport failure means that slurmctld is down for us. */
static int call_result(struct watch *w, int rc, const char *said, struct err *e)
{
    if (rc == 0)
        return 0;
    (void)lib_error(e, sc_code(rc), false, said);
    if (e->class == ERR_UNAVAILABLE)
        w->up = false;
    return -1;
}

static int load_list(struct watch *w, struct err *e)
{
    job_info_msg_t *m = NULL;
    char said[LIB_SAID_MAX];
    int rc;

    if (lib_init(e) != 0)
        return -1;
    lib_listen();
    errno = 0;
    rc = slurm_load_jobs(w->table.unfinished ? 0 : w->last_update, &m,
                         SHOW_ALL | SHOW_LOCAL);
    lib_heard(said);
    if (rc != 0 && sc_code(rc) == SLURM_NO_CHANGE_IN_DATA)
        return 0;
    if (call_result(w, rc, said, e) != 0 || m == NULL)
        return m == NULL && !err_is_set(e)
                   ? err_set(e, ERR_UNAVAILABLE, "slurm_no_answer",
                             "Slurm gave no list")
                   : -1;
    table_begin(&w->table);
    for (uint32_t i = 0; i < m->record_count; i++)
        (void)table_see(&w->table, &m->job_array[i], &w->peers);
    table_sweep(&w->table, &w->peers);
    w->last_update = m->last_update;
    slurm_free_job_info_msg(m);
    return 0;
}

/* How long a call may hang: the spawner reckons its deadlines from it. */
static void load_conf(struct watch *w)
{
    slurm_conf_t *c = NULL;
    char said[LIB_SAID_MAX];

    if (clock_mono_ms() < w->conf_ms)
        return;
    lib_listen();
    if (slurm_load_ctl_conf(0, &c) == 0 && c != NULL) {
        w->message_timeout = c->msg_timeout;
        sc_free_conf(c);
    }
    lib_heard(said);
    w->conf_ms = clock_mono_ms() + CONF_AGE_MS;
}

/* One slow call may be an accident (a controller that was stopped for a
 * moment); a slow controller is slow again. So what a call is taken to cost at
 * most doubles from poll to poll. */
static int64_t cost(struct watch *w, int64_t took_ms)
{
    int64_t most = 2 * w->cost_ms + COST_STEP_MS;

    w->cost_ms = took_ms < most ? took_ms : most;
    return w->cost_ms;
}

static int64_t interval(struct watch *w, int64_t took_ms)
{
    int64_t ms = DUTY * cost(w, took_ms);

    if (!w->up)
        ms = FAILED_WAIT_MS;
    if (ms < w->poll_ms)
        ms = w->poll_ms;
    return ms < INTERVAL_MAX_MS ? ms : INTERVAL_MAX_MS;
}

static void poll_jobs(struct watch *w)
{
    static struct log_gate gate;
    struct err e = ERR_INIT;
    int64_t start = clock_mono_ms(), took;
    bool good = load_list(w, &e) == 0;

    took = clock_mono_ms() - start;
    w->up = good;
    if (good) {
        w->polled = true;
        sync_peers(w);
        load_conf(w);
    } else {
        w->last_update = 0; /* whatever came back knows what it knows */
        if (log_gate_open(&gate, 60000) != 0)
            log_err("poll_failed", NULL, &e);
    }
    peers_tell(&w->peers, poll_event(w, &e, took));
    w->next_ms = start + took + interval(w, took);
}

/* --- asks
 * ----------------------------------------------------------------------- */

struct wanted { /* what an ask names */
    const char *ask, *id, *name;
    int64_t job_id, uid, since, until;
};

/* Which fields an ask has, besides v, ask and id. */
enum { HAS_JOB = 1, HAS_OWNER = 2 };
static const struct {
    const char *ask;
    unsigned has;
    bool slurmctld, slurmdbd;
} ask_rows[] = {
    {"job", HAS_JOB, true, false},
    {"find", HAS_OWNER, true, true},
    {"accounting", HAS_JOB | HAS_OWNER, false, true},
};
enum { ASK_KINDS = sizeof(ask_rows) / sizeof(ask_rows[0]) };

static int find_kind(const char *ask, size_t *kind)
{
    for (*kind = 0; *kind < ASK_KINDS; ++*kind)
        if (strcmp(ask_rows[*kind].ask, ask) == 0)
            return 0;
    return -1;
}

static int read_wanted(const json_t *body, struct wanted *q, size_t *kind,
                       struct err *e)
{
    static const char *const keys[] = {
        "v", "ask", "id", "job_id", "uid", "name", "since", "until", NULL};
    int64_t v;

    if (json_only(body, keys, "", e) != 0 ||
        json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                     e) != 0 ||
        json_get_str(body, "ask", true, 16, &q->ask, "", e) != 0 ||
        json_get_str(body, "id", true, ASK_ID_MAX, &q->id, "", e) != 0)
        return -1;
    if (find_kind(q->ask, kind) != 0)
        return err_set(e, ERR_INVALID, "watch_ask", "unknown ask");
    if ((ask_rows[*kind].has & HAS_JOB) != 0 &&
        json_get_int(body, "job_id", true, 1, UINT32_MAX - 16, &q->job_id, "",
                     e) != 0)
        return -1;
    if ((ask_rows[*kind].has & HAS_OWNER) == 0)
        return 0;
    if (json_get_int(body, "uid", true, 0, UINT32_MAX - 1, &q->uid, "", e) !=
            0 ||
        json_get_str(body, "name", true, SLURM_NAME_MAX, &q->name, "", e) != 0)
        return -1;
    if (json_get_int(body, "until", false, 0, INT64_MAX / 2, &q->until, "",
                     e) != 0)
        return -1;
    return json_get_int(body, "since", true, 0, INT64_MAX / 2, &q->since, "",
                        e);
}

static bool is_wanted(const slurm_job_info_t *j, const struct wanted *q)
{
    if (q->job_id != 0)
        return j->job_id == (uint32_t)q->job_id;
    return j->user_id == (uint32_t)q->uid && j->name != NULL &&
           strcmp(j->name, q->name) == 0 && j->submit_time >= (time_t)q->since;
}

/* Jobs whose name is ours, or that we follow; each with its script's digest.
 * The oldest first, and no more than goes into one frame: anybody can make a
 * thousand under one name. */
static json_t *matching(struct watch *w, const job_info_msg_t *m,
                        const struct wanted *q)
{
    json_t *jobs = json_array();
    size_t bytes = 0;

    for (uint32_t i = 0;
         m != NULL && i < m->record_count && bytes < JOBS_TOLD_BYTES; i++) {
        const json_t *job;

        if (!is_wanted(&m->job_array[i], q))
            continue;
        w->table.digests_left++;
        job = table_see(&w->table, &m->job_array[i], &w->peers);
        if (job == NULL)
            continue;
        bytes += json_dumpb(job, NULL, 0, JSON_COMPACT);
        (void)json_array_append_new(jobs, json_deep_copy(job));
    }
    return jobs;
}

/* {"ok","jobs"}. While slurmctld is down a call would hang for its timeout, and
 * the next poll behind it: not ok, at once. */
static json_t *ask_slurmctld(struct watch *w, const struct wanted *q)
{
    job_info_msg_t *m = NULL;
    struct err e = ERR_INIT;
    char said[LIB_SAID_MAX];
    json_t *o = json_object();
    bool ok = w->up && lib_init(&e) == 0;
    int rc = 0;

    if (ok) {
        lib_listen();
        errno = 0;
        rc = q->job_id != 0 ? sc_load_job(&m, (uint32_t)q->job_id)
                            : slurm_load_job_user(&m, (uint32_t)q->uid,
                                                  SHOW_LOCAL | SHOW_ALL);
        lib_heard(said);
        if (rc != 0 && sc_code(rc) == ESLURM_INVALID_JOB_ID)
            rc = 0; /* an answer: there is none */
        ok = call_result(w, rc, said, &e) == 0;
    }
    (void)json_put_bool(o, "ok", ok);
    (void)json_put(o, "jobs", matching(w, m, q));
    if (m != NULL)
        slurm_free_job_info_msg(m);
    return o;
}

static int ask_slurmdbd(struct watch *w, struct peer *from,
                        const struct wanted *q, json_t *slurmctld)
{
    struct ask *a = calloc(1, sizeof(*a));

    if (a == NULL) {
        json_decref(slurmctld);
        return -1;
    }
    a->peer = from->serial;
    memcpy(a->id, q->id, strlen(q->id) + 1);
    memcpy(a->name, q->name, strlen(q->name) + 1);
    a->query.job_id = (uint32_t)q->job_id;
    a->query.uid = (uid_t)q->uid;
    a->query.since = q->since;
    a->query.until = q->until;
    a->slurmctld = slurmctld;
    accounting_ask(&w->accounting, a, &w->peers);
    return 0;
}

static int handle_ask(struct watch *w, struct peer *from, const json_t *body)
{
    struct wanted q = {.job_id = 0};
    struct err e = ERR_INIT;
    json_t *slurmctld = NULL;
    size_t kind = 0;

    if (read_wanted(body, &q, &kind, &e) != 0) {
        log_err("bad_ask", NULL, &e);
        return -1;
    }
    if (ask_rows[kind].slurmctld)
        slurmctld = ask_slurmctld(w, &q);
    if (ask_rows[kind].slurmdbd)
        return ask_slurmdbd(w, from, &q, slurmctld);
    peers_tell_one(from, accounting_answer(q.id, slurmctld, NULL));
    return 0;
}

/* --- peers
 * ------------------------------------------------------------------------ */

static void add_peer(struct watch *w, int fd)
{
    struct peer *one;

    if (peers_add(&w->peers, fd) != 0)
        return;
    one = &w->peers.v[w->peers.n - 1];
    if (!w->polled)
        return; /* "synced" after the first list */
    table_snapshot(&w->table, one);
    sync_peers(w);
}

int watch_frame(struct watch *w, struct peer *from, const json_t *body, int *fd)
{
    const char *name = json_string_value(json_object_get(body, "event"));
    bool spawner = from == &w->peers.v[0];

    if (name == NULL)
        return handle_ask(w, from, body);
    if (!spawner || strcmp(name, "peer") != 0 || *fd < 0)
        return -1;
    add_peer(w, *fd);
    *fd = -1;
    return 0;
}

/* -1: drop it. */
static int hear(struct watch *w, struct peer *from)
{
    struct wire_msg m;
    struct err e = ERR_INIT;
    int rc = 1;

    wire_msg_init(&m);
    for (int i = 0; i < FRAMES_A_TURN && rc == 1; i++) {
        err_clear(&e);
        rc = wire_recv(from->fd, &m, 0, &e);
        if (rc == -1 && strcmp(e.code, "wire_timeout") == 0)
            break;
        if (rc == 1) {
            int fd = wire_take_fd(&m, 0);

            if (watch_frame(w, from, m.body, &fd) != 0)
                rc = -1;
            if (fd >= 0)
                (void)close(fd);
        } else {
            rc = -1;
        }
    }
    wire_msg_clear(&m);
    return rc == -1 && strcmp(e.code, "wire_timeout") != 0 ? -1 : 0;
}

static void hear_all(struct watch *w, const struct pollfd *p, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        struct peer *one = &w->peers.v[i];

        if ((p[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0 ||
            hear(w, one) == 0)
            continue;
        (void)close(one->fd);
        one->fd = -1; /* peers_flush drops it */
    }
}

/* --- the loop
 * ------------------------------------------------------------------------ */

static size_t fill_poll(const struct watch *w, struct pollfd *p,
                        int *timeout_ms)
{
    size_t n = 0;

    *timeout_ms = clock_left_ms(w->next_ms);
    for (size_t i = 0; i < w->peers.n; i++) {
        const struct peer *one = &w->peers.v[i];

        p[n].fd = one->fd;
        p[n].events = (short)(POLLIN | (one->count > 0 ? POLLOUT : 0));
        p[n++].revents = 0;
    }
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        const struct child *c = &w->accounting.batches[i].child;

        if (!child_running(c))
            continue;
        p[n].fd = c->fd;
        p[n].events = POLLIN;
        p[n++].revents = 0;
        if (*timeout_ms > CHILD_TICK_MS)
            *timeout_ms = CHILD_TICK_MS; /* its deadline */
    }
    return n;
}

static int turn(struct watch *w, struct err *e)
{
    struct pollfd p[PEERS_MAX + CHILDREN_MAX];
    size_t peers = w->peers.n, n;
    int timeout_ms;

    n = fill_poll(w, p, &timeout_ms);
    if (poll(p, n, timeout_ms) < 0 && errno != EINTR)
        return err_sys(e, ERR_INTERNAL, errno, "watch_poll", "poll");
    hear_all(w, p, peers);
    if (clock_mono_ms() >= w->next_ms)
        poll_jobs(w);
    accounting_turn(&w->accounting, &w->peers);
    return peers_flush(&w->peers) ? 1 : 0;
}

int watch_run(int sock, int64_t poll_ms, const char *cluster, struct err *e)
{
    struct watch *w = calloc(1, sizeof(*w));
    int rc;

    if (w == NULL)
        return err_nomem(e);
    peers_init(&w->peers);
    table_init(&w->table);
    accounting_init(&w->accounting, cluster);
    w->poll_ms = poll_ms;
    w->next_ms = clock_mono_ms();
    w->message_timeout = 10; /* Slurm's default, until it says otherwise */
    rc = peers_add(&w->peers, sock);
    if (rc == 0)
        (void)lib_init(e); /* before the first child; a failure is polled */
    err_clear(e);
    while (rc == 0 && (rc = turn(w, e)) == 1)
        rc = 0;
    accounting_clear(&w->accounting);
    table_clear(&w->table);
    peers_clear(&w->peers);
    free(w);
    return rc;
}
