/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A sluiced without HTTP for a test: a site in self mode, one generation, a
 * started service, and a stand-in for sluice-spawnd that answers by script. The
 * test itself plays watch on lab.watch.
 */
#ifndef TESTS_UNIT_TEST_JOBS_LAB_H
#define TESTS_UNIT_TEST_JOBS_LAB_H

#include "auth/token.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/jobs/actions.h"
#include "broker/jobs/identity.h"
#include "broker/jobs/pipeline.h"
#include "broker/jobs/service.h"
#include "broker/proto.h"
#include "tests/unit/test_config_site.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define must(call)                                                             \
    do {                                                                       \
        struct err err_ = ERR_INIT;                                            \
        struct err *e = &err_;                                                 \
        if ((call) != 0)                                                       \
            fail_msg("%s: %s (%s)", #call, err_.code, err_.text);              \
    } while (0)

enum standin_mode {
    STANDIN_ACCEPT,
    STANDIN_REFUSE, /* Slurm's own no, at stage sending */
    STANDIN_DOWN,   /* stage none, unavailable */
    STANDIN_LOSE,   /* stage sending, then the connection ends */
    STANDIN_SILENT  /* stage sending, and nothing more */
};

/* Every artifact of the stand-in: three pieces and a bit, bytes by place. */
enum { LAB_ARTIFACT = 3 * PROTO_LOG_MAX + 5 };
static inline char lab_byte(int64_t at)
{
    return (char)('a' + at % 23);
}

struct lab {
    struct site site;
    struct config config;
    struct service *service;
    struct db *reader;
    char generation[GENERATION_ID_LEN + 1];
    char *key, *token;
    struct identity alice;
    int watch;         /* our end: we are watch */
    int old[16], nold; /* earlier ones; another thread may still read them */
    /* the stand-in */
    pthread_t thread;
    int listen_fd;
    atomic_int mode, submits, finishes, next_id, stop;
    atomic_int no_watch; /* asked for in vain */
    atomic_int pieces;   /* of artifacts that were asked for */
    atomic_int garbage;  /* what workers answer makes no sense */
    atomic_int full;     /* the disk fills up while the next submit is sent */
    pthread_mutex_t lock;
    json_t *outcome; /* answer of verb outcome */
    json_t *finish;  /* answer of verb finish */
    char last[64];   /* the last verb's name */
    char receipt[256];
};

static inline void lab_send(int fd, json_t *frame)
{
    struct err e = ERR_INIT;

    if (wire_send(fd, frame, NULL, 0, 1000, &e))
        (void)fprintf(stderr, "lab_send: %s\n", e.text);
    json_decref(frame);
}

static inline void lab_result(int fd, const char *request, json_t *result)
{
    lab_send(fd,
             json_pack("{s:i, s:s, s:s, s:b, s:o}", "v", 1, "event", "result",
                       "request", request, "ok", 1, "result", result));
}

static inline void lab_refuse(int fd, const char *request, const char *stage,
                              enum err_class class, const char *code, int sys)
{
    struct err e = ERR_INIT;
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:b, s:s}", "v", 1, "event", "result",
                  "request", request, "ok", 0, "stage", stage);

    err_set(&e, class, code, "said the stand-in");
    e.sys = sys;
    wire_err_put(o, "error", &e);
    lab_send(fd, o);
}

static inline void lab_stage(int fd, const char *request, const char *stage)
{
    lab_send(fd, json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "event", "stage",
                           "request", request, "stage", stage));
}

/* From here on no file of this process grows: COMMIT fails. */
static inline void lab_disk(bool full)
{
    struct rlimit r;

    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = full ? 0 : r.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &r);
}

/* false: the connection is to end. */
static inline bool lab_submit(struct lab *l, int fd, const char *request)
{
    int mode = atomic_load(&l->mode);

    if (mode == STANDIN_DOWN) {
        lab_refuse(fd, request, "none", ERR_UNAVAILABLE, "storage_stalled", 0);
        return true;
    }
    atomic_fetch_add(&l->submits, 1);
    if (atomic_exchange(&l->full, 0))
        lab_disk(true);
    lab_stage(fd, request, "init");
    lab_stage(fd, request, "sending");
    if (mode == STANDIN_REFUSE)
        lab_refuse(fd, request, "sending", ERR_SLURM, "slurm_invalid_qos",
                   2066);
    else if (atomic_load(&l->garbage))
        lab_result(fd, request, json_pack("{s:s}", "job_id", "one"));
    else if (mode == STANDIN_ACCEPT)
        lab_result(fd, request,
                   json_pack("{s:i, s:s, s:{s:s}, s:b}", "job_id",
                             atomic_fetch_add(&l->next_id, 1), "script_sha256",
                             "00", "limits", "account", "acct",
                             "run_dir_created", 1));
    return mode != STANDIN_LOSE;
}

static inline void lab_finish(struct lab *l, int fd, const char *request,
                              int pipe)
{
    json_t *answer;

    atomic_fetch_add(&l->finishes, 1);
    pthread_mutex_lock(&l->lock);
    answer = json_deep_copy(l->finish);
    if (pipe >= 0)
        (void)!write(pipe, l->receipt, strlen(l->receipt));
    pthread_mutex_unlock(&l->lock);
    if (pipe >= 0)
        (void)close(pipe);
    lab_result(fd, request, answer);
}

static inline void lab_plan(int fd, const char *request, int pipe)
{
    static const char script[] = "#!/bin/bash\n";

    (void)!write(pipe, script, sizeof script - 1);
    (void)close(pipe);
    lab_result(fd, request,
               json_pack("{s:s, s:{s:i}, s:s, s:n, s:i, s:b, s:n}",
                         "script_sha256", "ab", "limits", "gpus", 2, "account",
                         "acct", "qos", "start_estimate", 1796083200,
                         "will_run", 1, "slurm_error"));
}

/* A worker is the person's: it may say anything. */
static inline void lab_garbage(int fd, const char *request, int pipe)
{
    (void)!write(pipe, "{", 1);
    (void)close(pipe);
    lab_result(fd, request, json_pack("{s:s}", "size", "big"));
}

static inline void lab_artifact(int fd, const char *request, json_t *args,
                                int pipe)
{
    json_int_t offset = json_integer_value(json_object_get(args, "offset"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    json_int_t n =
        LAB_ARTIFACT - offset < limit ? LAB_ARTIFACT - offset : limit;
    char piece[4096];

    for (json_int_t at = 0; at < n; at += (json_int_t)sizeof piece) {
        size_t k =
            n - at < (json_int_t)sizeof piece ? (size_t)(n - at) : sizeof piece;
        for (size_t i = 0; i < k; i++)
            piece[i] = lab_byte(offset + at + (json_int_t)i);
        if (write(pipe, piece, k) != (ssize_t)k)
            break;
    }
    (void)close(pipe);
    lab_result(fd, request,
               json_pack("{s:I, s:I, s:I}", "size", (json_int_t)LAB_ARTIFACT,
                         "offset", offset, "bytes", n));
}

static inline void lab_log(int fd, const char *request, int pipe)
{
    /* "é" is cut in the middle, as a limit may do it. */
    static const char text[] = "abc\xc3";

    (void)!write(pipe, text, sizeof text - 1);
    (void)close(pipe);
    lab_result(fd, request,
               json_pack("{s:i, s:i, s:i, s:i}", "size", 5, "offset", 0,
                         "bytes", 4, "attempt", 1));
}

/* A watch peer socket; its other end is lab.watch. */
static inline void lab_give_watch(struct lab *l, int fd)
{
    int sv[2];
    struct err e = ERR_INIT;
    json_t *o;

    if (wire_pair(sv, &e))
        return;
    o = json_pack("{s:i, s:s}", "v", 1, "event", "watch");
    (void)wire_send(fd, o, &sv[1], 1, 1000, &e);
    json_decref(o);
    (void)close(sv[1]);
    pthread_mutex_lock(&l->lock);
    if (l->watch >= 0 && l->nold < 16) {
        (void)shutdown(l->watch, SHUT_RDWR);
        l->old[l->nold++] = l->watch;
    }
    l->watch = sv[0];
    pthread_mutex_unlock(&l->lock);
}

static inline bool lab_answer(struct lab *l, int fd, struct wire_msg *m)
{
    const char *verb = json_string_value(json_object_get(m->body, "verb"));
    const char *request =
        json_string_value(json_object_get(m->body, "request"));
    const char *generation =
        json_string_value(json_object_get(m->body, "generation"));
    int pipe = wire_take_fd(m, 0);

    if (json_is_true(json_object_get(m->body, "watch"))) {
        if (!atomic_load(&l->no_watch))
            lab_give_watch(l, fd);
        return true;
    }
    pthread_mutex_lock(&l->lock);
    (void)snprintf(l->last, sizeof l->last, "%s", verb);
    pthread_mutex_unlock(&l->lock);
    if (strcmp(generation, l->generation) != 0) {
        lab_refuse(fd, request, "none", ERR_UNAVAILABLE, "generation_mismatch",
                   0);
    } else if (!strcmp(verb, "submit")) {
        return lab_submit(l, fd, request);
    } else if (!strcmp(verb, "finish")) {
        lab_finish(l, fd, request, pipe);
        return true;
    } else if (!strcmp(verb, "plan")) {
        lab_plan(fd, request, pipe);
        return true;
    } else if (pipe >= 0 && atomic_load(&l->garbage)) {
        lab_garbage(fd, request, pipe);
        return true;
    } else if (!strcmp(verb, "artifact")) {
        atomic_fetch_add(&l->pieces, 1);
        lab_artifact(fd, request, json_object_get(m->body, "args"), pipe);
        return true;
    } else if (!strcmp(verb, "log")) {
        lab_log(fd, request, pipe);
        return true;
    } else if (!strcmp(verb, "outcome")) {
        pthread_mutex_lock(&l->lock);
        lab_result(fd, request, json_deep_copy(l->outcome));
        pthread_mutex_unlock(&l->lock);
    } else {
        lab_result(fd, request, json_pack("{s:b}", "already", 0));
    }
    if (pipe >= 0)
        (void)close(pipe);
    return true;
}

static inline void lab_hello(struct lab *l, int fd)
{
    lab_send(fd, json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "event", "hello",
                           "generation", l->generation, "mode", "self"));
    lab_give_watch(l, fd);
}

static inline void lab_serve(struct lab *l, int fd)
{
    bool more = true;

    lab_hello(l, fd);
    while (more && !atomic_load(&l->stop)) {
        struct err e = ERR_INIT;
        struct wire_msg m;
        int rc;
        wire_msg_init(&m);
        rc = wire_recv(fd, &m, 50, &e);
        if (rc == 1)
            more = lab_answer(l, fd, &m);
        else if (rc == 0 || strcmp(e.code, "wire_timeout") != 0)
            more = false;
        wire_msg_clear(&m);
    }
}

static inline void *lab_main(void *arg)
{
    struct lab *l = arg;

    while (!atomic_load(&l->stop)) {
        struct pollfd v = {l->listen_fd, POLLIN, 0};
        int fd;
        if (poll(&v, 1, 50) <= 0)
            continue;
        fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        lab_serve(l, fd);
        (void)close(fd);
    }
    return NULL;
}

static inline void lab_install(struct lab *l)
{
    char store[128], workflows[128], templates[128], *public = NULL;
    json_t *people, *keys;

    must(crypto_p256_new(&l->key, &public, e));
    (void)snprintf(store, sizeof store, "%s/store", l->site.dir);
    (void)snprintf(workflows, sizeof workflows, "%s/share/sluice/workflows",
                   l->site.dir);
    (void)snprintf(templates, sizeof templates, "%s/share/sluice/templates",
                   l->site.dir);
    people = json_pack("{s{s:s, s:[s], s:[s,s,s], s:i}, s{s:[s]}, s{s:[s]},"
                       " s{s:[s]}, s{s:s, s:[s], s:s, s:[s], s:b}}",
                       "alice", "account", l->site.account, "roles",
                       "researcher", "groups", "canary", "fleet", "media",
                       "gpus", 16, "otto", "roles", "operator", "audrey",
                       "roles", "auditor", "ada", "roles", "admin", "tess",
                       "account", "daemon", "roles", "researcher", "proof",
                       "token", "groups", "canary", "shared_account", 0);
    keys = json_pack("{s:s}", "k1", public);
    must(generation_install(store, workflows, templates, people, keys,
                            getegid(), l->generation, e));
    must(generation_switch(store, l->generation, e));
    json_decref(people);
    json_decref(keys);
    free(public);
}

/* Who holds a token of `person`. */
static inline void lab_identity(struct lab *l, const char *person,
                                struct identity *out)
{
    struct token_claims c = {.issued_at = clock_now() - 10,
                             .expires_at = clock_now() + 3600};
    struct err bad = ERR_INIT;
    char *token;

    (void)snprintf(c.id, sizeof c.id, "t-%s", person);
    (void)snprintf(c.person, sizeof c.person, "%s", person);
    token = token_issue(l->key, "k1", l->config.cluster.name, &c, &bad);
    if (!token)
        fail_msg("%s", bad.text);
    must(identity_by_token(l->service, token, strlen(token), "127.0.0.1", true,
                           out, e));
    free(token);
}

static inline void lab_until(bool (*done)(struct lab *l), struct lab *l,
                             const char *what)
{
    int64_t end = clock_mono_ms() + 15000;

    while (!done(l)) {
        if (clock_left_ms(end) == 0)
            fail_msg("not in time: %s", what);
        (void)usleep(2000);
    }
}

static inline bool lab_is_up(struct lab *l)
{
    struct service_status st;
    bool mine;

    service_status(l->service, &st);
    pthread_mutex_lock(&l->lock);
    mine = l->watch >= 0;
    pthread_mutex_unlock(&l->lock);
    return mine && st.spawn_up && st.follow.watch_up;
}

static inline void lab_start_service(struct lab *l)
{
    must(service_new(&l->config, &l->service, e));
    l->service->times = (struct follow_times){.accounting_ms = 600,
                                              .receipts_ms = 1200,
                                              .stale_ms = 60000,
                                              .retry_ms = 40,
                                              .finish_ms = 2000,
                                              .correct_ms = 3600 * 1000,
                                              .forget_ms = 1};
    must(service_start(l->service, e));
    must(service_reader(l->service, &l->reader, e));
    lab_until(lab_is_up, l, "spawner and watch");
    lab_identity(l, "alice", &l->alice);
}

static inline void lab_stop_service(struct lab *l)
{
    identity_clear(&l->alice);
    db_close(l->reader);
    service_stop(l->service);
    service_free(l->service);
}

static inline void lab_make(struct lab *l)
{
    struct config_paths paths;

    memset(l, 0, sizeof *l);
    log_init("test", LOG_ERROR_ + 1);
    l->watch = -1;
    pthread_mutex_init(&l->lock, NULL);
    atomic_init(&l->next_id, 100);
    l->outcome = json_pack("{s:b}", "known", 0);
    l->finish = json_pack("{s:s, s:[], s:[], s:n}", "sidecar", "absent",
                          "receipts", "missing", "failure");
    site_make(&l->site);
    site_mkdir(&l->site, "db");
    lab_install(l);
    must(config_load(l->site.conf, &l->config, e));
    l->config.limits.submit_deadline_ms = 1500;
    must(config_paths(&l->config, &paths, e));
    l->listen_fd = wire_listen(paths.spawn_sock, SOCK_SEQPACKET, 0600, NULL);
    assert_true(l->listen_fd >= 0);
    assert_int_equal(pthread_create(&l->thread, NULL, lab_main, l), 0);
    lab_start_service(l);
}

static inline void lab_remove(struct lab *l)
{
    lab_stop_service(l);
    atomic_store(&l->stop, 1);
    (void)pthread_join(l->thread, NULL);
    (void)close(l->listen_fd);
    (void)close(l->watch);
    while (l->nold > 0)
        (void)close(l->old[--l->nold]);
    json_decref(l->outcome);
    json_decref(l->finish);
    free(l->key);
    config_clear(&l->config);
    site_remove(&l->site);
}

/* POST {"workflow": "gpu-canary", "params": {"gpus": gpus}}. 0, or -1 and e. */
static inline int lab_post(struct lab *l, struct db *reader, int gpus,
                           const char *key, struct submit_answer *out,
                           struct err *e)
{
    json_t *body = json_pack("{s:s, s:{s:i}}", "workflow", "gpu-canary",
                             "params", "gpus", gpus);
    char request[ULID_LEN + 1];
    struct submit_request r = {.who = &l->alice,
                               .body = body,
                               .idempotency_key = key,
                               .request = request};
    int rc;

    assert_int_equal(id_ulid(clock_now_ms(), request), 0);
    rc = pipeline_submit(l->service, reader, &r, out, e);
    json_decref(body);
    return rc;
}

static inline struct ask lab_ask(struct lab *l, const struct identity *who)
{
    return (struct ask){.service = l->service,
                        .reader = l->reader,
                        .who = who,
                        .request = "01ARZ3NDEKTSV4RRFFQ69G5FAV"};
}

/* The job document of job_id, as its owner sees it. Owned. */
static inline json_t *lab_get(struct lab *l, const char *job_id)
{
    struct ask a = lab_ask(l, &l->alice);
    struct err bad = ERR_INIT;
    struct buf b;
    json_t *doc = NULL;

    buf_init(&b, DOC_BYTES_MAX);
    if (jobs_get_text(&a, job_id, &b, NULL, &bad) == 0)
        doc = json_parse(buf_str(&b), b.len, DOC_BYTES_MAX, &bad);
    if (err_is_set(&bad) && strcmp(bad.code, "job_not_found") != 0)
        fail_msg("%s: %s", bad.code, bad.text);
    buf_clear(&b);
    return doc;
}

static inline const char *lab_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static inline int64_t lab_int(struct lab *l, const char *sql)
{
    struct err e = ERR_INIT;
    struct db_stmt *q = db_prepare(l->reader, sql, &e);
    int64_t v;

    if (!q || db_step(q, &e) != 1)
        fail_msg("%s: %s", sql, e.text);
    v = db_col_int(q, 0);
    db_reset(q);
    return v;
}

#endif
