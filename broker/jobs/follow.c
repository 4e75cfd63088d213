/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/follow.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/jobs/follow_int.h"
#include "broker/jobs/service.h"
#include "broker/jobs/store.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MESSAGES_A_TURN = 256, /* of watch, before the clock is looked at */
    BATCH_MAX = 64,
    TICKS_A_RETRY = 4,
    WATCH_MISSED_RETRIES = 5 /* then a new peer socket is asked for */
};

static void wake(struct follow *f)
{
    static const uint64_t one = 1;

    if (write(f->wake, &one, sizeof one) != (ssize_t)sizeof one)
        return; /* EAGAIN: it is awake already */
}

/* --- from other threads --- */

void follow_set_watch(struct follow *f, int fd)
{
    int old;

    pthread_mutex_lock(&f->lock);
    old = f->new_watch;
    f->new_watch = fd;
    pthread_mutex_unlock(&f->lock);
    if (old >= 0)
        close(old);
    wake(f);
}

void follow_spawn_link(struct follow *f, bool up)
{
    pthread_mutex_lock(&f->lock);
    f->spawn_up = up;
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

void follow_add(struct follow *f, const char *ulid)
{
    struct added *a = calloc(1, sizeof *a);

    if (!a) {
        log_event(LOG_ERROR_, "follow_no_memory", NULL, "job", ulid, NULL);
        return; /* found again at the next start */
    }
    memcpy(a->ulid, ulid, sizeof a->ulid);
    pthread_mutex_lock(&f->lock);
    a->next = f->added;
    f->added = a;
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

static void on_task(void *arg, struct task_answer *a)
{
    struct follow *f = arg;

    pthread_mutex_lock(&f->lock);
    a->next = f->answers;
    f->answers = a;
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

void follow_status(struct follow *f, struct follow_status *out)
{
    pthread_mutex_lock(&f->lock);
    *out = f->status;
    pthread_mutex_unlock(&f->lock);
}

/* A poller that slows down because slurmctld is slow isn't stale yet: it polls
 * at a fifth of the time. */
void follow_freshness(struct follow *f, struct doc_fresh *out)
{
    int64_t age, most;

    pthread_mutex_lock(&f->lock);
    age = clock_now_ms() - f->status.polled_at_ms;
    most = f->times.stale_ms + 6 * f->poll_took_ms;
    out->polled_at = f->status.polled_at_ms / 1000;
    out->stale = !f->status.watch_up || !f->poll_ok || age > most;
    pthread_mutex_unlock(&f->lock);
}

/* --- asks --- */

static int ask_send(struct follow *f, const char *ask, char mark,
                    const struct tracked *k, bool job, bool owner)
{
    char id[ULID_LEN + 3] = {mark, '.'};
    struct err e = ERR_INIT;
    json_t *o = json_object();
    int rc = 0;

    if (job && k->job_id <= 0) {
        json_decref(o);
        return -1;
    }
    memcpy(id + 2, k->ulid, ULID_LEN + 1);
    rc |= json_put_int(o, "v", 1);
    rc |= json_put_str(o, "ask", ask);
    rc |= json_put_str(o, "id", id);
    if (job)
        rc |= json_put_int(o, "job_id", k->job_id);
    if (owner) {
        rc |= json_put_int(o, "uid", k->uid);
        rc |= json_put_str(o, "name", k->name);
        /* Two hosts' clocks may differ by a little. */
        rc |= json_put_int(o, "since", k->created_at - 60);
        rc |= json_put_int(o, "until", k->again ? k->again : k->submit);
    }
    if (rc == 0 && f->watch >= 0)
        rc = wire_send(f->watch, o, NULL, 0, 0, &e);
    else
        rc = -1;
    json_decref(o);
    return rc;
}

int follow_ask_job(struct follow *f, const struct tracked *k)
{
    return ask_send(f, "job", 'j', k, true, false);
}

int follow_ask_find(struct follow *f, const struct tracked *k)
{
    return ask_send(f, "find", 'f', k, false, true);
}

int follow_ask_accounting(struct follow *f, struct tracked *k)
{
    if (f->asks >= FOLLOW_ASKS_MAX ||
        ask_send(f, "accounting", 'a', k, true, true))
        return -1;
    f->asks++;
    k->asked = clock_mono_ms();
    return 0;
}

void follow_ask_closed(struct follow *f, struct tracked *k)
{
    if (k->asked == 0)
        return;
    k->asked = 0;
    f->asks--;
}

/* --- commits --- */

void follow_queue(struct follow *f, struct progress *p)
{
    if (!p)
        return;
    p->next = NULL;
    *f->tail = p;
    f->tail = &p->next;
}

/* Each step has a savepoint of its own: one bad row must not hold up others. */
static int run_batch(struct db *d, void *arg, struct err *e)
{
    for (struct progress *p = arg; p; p = p->next) {
        struct err why = ERR_INIT;
        if (db_savepoint(d, e))
            return -1;
        if (progress_apply(d, p, &why) == 0) {
            if (db_release(d, e))
                return -1;
            continue;
        }
        db_rollback_to(d);
        log_err("job_progress", p->job.request, &why);
        p->failed = true;
        p->unreadable = why.class == ERR_INVALID;
    }
    return 0;
}

/* A secret that is still on the disk: somebody has to look. */
static void alarm_sidecar(const struct job_row *j)
{
    char uid[24];

    snprintf(uid, sizeof uid, "%lld", (long long)j->uid);
    log_event(LOG_ERROR_, "secret_left", j->request, "job", j->ulid, "account",
              j->account, "uid", uid, "file", "secrets.env", NULL);
}

/* It isn't in the database, so it isn't known. What came of a submit is asked
 * again; unless the answer itself is what can't be read. */
static void failed(struct tracked *k, const struct progress *p, int64_t now)
{
    bool outcome = p->kind == PROGRESS_ACCEPTED || p->kind == PROGRESS_REFUSED;

    k->pause = now + FOLLOW_PAUSE_MS;
    if (outcome && !p->unreadable)
        k->outcome_told = false;
}

/* What the transaction did to one job, told to whoever waits for it. */
static void applied(struct follow *f, struct progress *p)
{
    struct tracked *k = track_find(&f->track, p->ulid);
    int64_t now = clock_mono_ms();

    if (p->failed) {
        if (k)
            failed(k, p, now);
        return;
    }
    if (p->changed && !p->gone)
        waiters_notify(f->service->waiters, p->ulid, p->job.version);
    if (!k)
        return;
    if (p->gone) {
        waiters_notify(f->service->waiters, p->ulid, INT64_MAX);
        follow_ask_closed(f, k);
        track_remove(&f->track, p->ulid);
        return;
    }
    track_update(k, &p->job, now, p->now);
    if (p->kind == PROGRESS_FINISH && p->job.sidecar_left)
        alarm_sidecar(&p->job);
    if (p->kind == PROGRESS_VIEW && !p->waiting)
        k->dirty = false;
    if (p->kind == PROGRESS_FINISH && p->waiting)
        k->finish_used = true; /* and look again */
    if (p->changed)
        k->next_ask = 0; /* the next phase begins at once */
}

static void commit(struct follow *f)
{
    struct progress *batch = f->head, *next;
    struct err e = ERR_INIT;
    bool held, changed = false;

    if (!batch)
        return;
    f->head = NULL;
    f->tail = &f->head;
    held = writer_call(f->service->writer, run_batch, batch, &e) == 0;
    if (!held)
        log_err("follow_commit", NULL, &e);
    for (struct progress *p = batch; p; p = next) {
        next = p->next;
        changed = changed || p->changed;
        p->failed = p->failed || !held;
        applied(f, p);
        progress_free(p);
    }
    if (held && changed)
        f->next_tick = 0; /* the next step of somebody may be due */
}

/* --- watch's socket --- */

static void watch_close(struct follow *f)
{
    if (f->watch < 0)
        return;
    close(f->watch);
    f->watch = -1;
    f->watch_lost = clock_mono_ms();
    pthread_mutex_lock(&f->lock);
    f->status.watch_up = false;
    pthread_mutex_unlock(&f->lock);
    log_event(LOG_WARN_, "watch_lost", NULL, NULL);
}

static void forget_ask(struct tracked *k, void *arg)
{
    follow_ask_closed(arg, k);
}

static void watch_take(struct follow *f, int fd)
{
    watch_close(f);
    f->watch = fd;
    f->connection++;
    track_each(&f->track, forget_ask, f); /* their answers went with it */
    pthread_mutex_lock(&f->lock);
    f->status.watch_up = true;
    pthread_mutex_unlock(&f->lock);
    log_event(LOG_INFO_, "watch_connected", NULL, NULL);
}

static void watch_read(struct follow *f)
{
    for (int n = 0; n < MESSAGES_A_TURN && f->watch >= 0; n++) {
        struct err e = ERR_INIT;
        struct wire_msg m;
        int rc;

        wire_msg_init(&m);
        rc = wire_recv(f->watch, &m, 0, &e);
        if (rc == 1)
            rc = follow_news(f, m.body, &e) ? -1 : 1;
        wire_msg_clear(&m);
        if (rc == 1) {
            if ((n + 1) % BATCH_MAX == 0)
                commit(f);
            continue;
        }
        if (rc < 0 && !strcmp(e.code, "wire_timeout"))
            return;
        if (rc < 0)
            log_err("watch_frame", NULL, &e);
        watch_close(f);
    }
}

/* Watch drops a peer that is slow to read; one of a watch that died is replaced
 * by the spawner itself. */
static void watch_missed(struct follow *f, int64_t now)
{
    struct spawn *spawn;

    if (f->watch >= 0 ||
        now - f->watch_lost < WATCH_MISSED_RETRIES * f->times.retry_ms)
        return;
    f->watch_lost = now;
    pthread_mutex_lock(&f->lock);
    spawn = f->spawn_up ? f->spawn : NULL;
    pthread_mutex_unlock(&f->lock);
    if (spawn)
        spawn_ask_watch(spawn);
}

/* --- the inbox --- */

static int put_row(const struct job_row *j, void *arg, struct err *e)
{
    struct follow *f = arg;

    if (!track_put(&f->track, j, clock_mono_ms(), clock_now()))
        return err_nomem(e);
    return 0;
}

static void take_added(struct follow *f, struct added *list)
{
    struct added *next;

    for (; list; list = next) {
        struct err e = ERR_INIT;
        struct job_row j;
        next = list->next;
        if (store_job_get(f->reader, list->ulid, &j, &e) == 0) {
            put_row(&j, f, &e);
            store_job_clear(&j);
        } else {
            log_err("follow_add", NULL, &e);
        }
        free(list);
    }
}

static void take_inbox(struct follow *f)
{
    struct task_answer *answers, *next;
    struct added *added;
    int fd;

    pthread_mutex_lock(&f->lock);
    fd = f->new_watch;
    f->new_watch = -1;
    added = f->added;
    f->added = NULL;
    answers = f->answers;
    f->answers = NULL;
    pthread_mutex_unlock(&f->lock);
    if (fd >= 0)
        watch_take(f, fd);
    if (added)
        f->next_tick = 0;
    take_added(f, added);
    for (; answers; answers = next) {
        next = answers->next;
        follow_task_answer(f, answers);
        task_answer_free(answers);
    }
}

/* --- the loop --- */

struct tick {
    struct follow *f;
    int64_t now;
};

static void tick_one(struct tracked *k, void *arg)
{
    struct tick *t = arg;

    if (k->asked && t->now - k->asked > FOLLOW_ASK_LOST_MS)
        follow_ask_closed(t->f, k);
    follow_due(t->f, k, t->now);
}

static void tick(struct follow *f)
{
    struct tick t = {f, clock_mono_ms()};

    if (t.now < f->next_tick)
        return;
    f->next_tick = t.now + f->times.retry_ms / TICKS_A_RETRY;
    track_each(&f->track, tick_one, &t);
    watch_missed(f, t.now);
    follow_house(f, t.now);
    pthread_mutex_lock(&f->lock);
    f->status.jobs = (int64_t)f->track.n;
    pthread_mutex_unlock(&f->lock);
}

static void await(struct follow *f)
{
    struct pollfd v[] = {{f->wake, POLLIN, 0}, {f->watch, POLLIN, 0}};
    uint64_t count;

    if (poll(v, f->watch >= 0 ? 2 : 1, clock_left_ms(f->next_tick)) <= 0)
        return;
    if (v[0].revents && read(f->wake, &count, sizeof count) < 0)
        return;
}

static bool stopping(struct follow *f)
{
    bool v;

    pthread_mutex_lock(&f->lock);
    v = f->stopping;
    pthread_mutex_unlock(&f->lock);
    return v;
}

static void *follow_main(void *arg)
{
    struct follow *f = arg;

    while (!stopping(f)) {
        take_inbox(f);
        watch_read(f);
        tick(f);
        commit(f);
        await(f);
    }
    return NULL;
}

/* --- life --- */

static void set_times(struct follow *f, const struct follow_times *t)
{
    const struct follow_times def = {.accounting_ms = 30000,
                                     .receipts_ms = 120000,
                                     .stale_ms = 5000,
                                     .retry_ms = 1000,
                                     .finish_ms = 10000,
                                     .correct_ms = INT64_C(7) * 86400 * 1000,
                                     .forget_ms = 20000};

    f->times = t ? *t : (struct follow_times){0};
#define DEFAULT(x) f->times.x = f->times.x > 0 ? f->times.x : def.x
    DEFAULT(accounting_ms);
    DEFAULT(receipts_ms);
    DEFAULT(stale_ms);
    DEFAULT(retry_ms);
    DEFAULT(finish_ms);
    DEFAULT(correct_ms);
    DEFAULT(forget_ms);
#undef DEFAULT
}

static void follow_free(struct follow *f)
{
    struct task_answer *a, *anext;
    struct added *d, *dnext;
    struct progress *p, *pnext;

    for (p = f->head; p; p = pnext) {
        pnext = p->next;
        progress_free(p);
    }
    for (a = f->answers; a; a = anext) {
        anext = a->next;
        task_answer_free(a);
    }
    for (d = f->added; d; d = dnext) {
        dnext = d->next;
        free(d);
    }
    track_clear(&f->track);
    db_close(f->reader);
    if (f->watch >= 0)
        close(f->watch);
    if (f->new_watch >= 0)
        close(f->new_watch);
    if (f->wake >= 0)
        close(f->wake);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

int follow_start(struct service *s, const struct follow_times *t,
                 struct follow **out, struct err *e)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        return err_nomem(e);
    f->service = s;
    f->watch = f->new_watch = -1;
    f->tail = &f->head;
    set_times(f, t);
    pthread_mutex_init(&f->lock, NULL);
    f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->wake < 0)
        err_set(e, ERR_INTERNAL, "no_eventfd", "eventfd");
    else if (service_reader(s, &f->reader, e) == 0 &&
             store_job_open(f->reader, clock_now() - f->times.correct_ms / 1000,
                            put_row, f, e) == 0 &&
             tasks_start(f->times.finish_ms, on_task, f, &f->tasks, e) == 0) {
        if (pthread_create(&f->thread, NULL, follow_main, f) == 0) {
            *out = f;
            return 0;
        }
        tasks_stop(f->tasks);
        err_set(e, ERR_INTERNAL, "no_thread", "no follow thread");
    }
    follow_free(f);
    return -1;
}

void follow_use_spawn(struct follow *f, struct spawn *spawn)
{
    pthread_mutex_lock(&f->lock);
    f->spawn = spawn;
    pthread_mutex_unlock(&f->lock);
    tasks_use_spawn(f->tasks, spawn);
}

void follow_stop(struct follow *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->stopping = true;
    pthread_mutex_unlock(&f->lock);
    wake(f);
    pthread_join(f->thread, NULL);
    tasks_stop(f->tasks); /* its threads call on_task until here */
    follow_free(f);
}
