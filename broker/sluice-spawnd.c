/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-spawnd: becomes the people of its table, and offers verbs for that,
 * never "run this". CAP_SETUID, CAP_SETGID, CAP_KILL; one thread; no libslurm,
 * no HTTP, no NSS after its start. SIGTERM ends it in order, SIGHUP makes it
 * look at the store's `current` again.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/config.h"
#include "broker/spawn/caps.h"
#include "broker/spawn/child.h"
#include "broker/spawn/client.h"
#include "broker/spawn/crew.h"
#include "broker/spawn/gens.h"
#include "broker/spawn/loop.h"
#include "broker/spawn/ops.h"
#include "broker/spawn/record.h"
#include "broker/spawn/spawnd.h"
#include "broker/spawn/survivors.h"
#include "broker/spawn/verify.h"
#include "broker/spawn/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* What waits for a disk's sync although nobody asked for one: at most this. */
enum { LAZY_SYNC_MS = 1000, SURVIVORS_WAIT_MS = 5000, STOP_LOOK_MS = 50 };

struct daemon {
    struct spawnd d;
    int signals;
    struct loop_fd *watch_signals;
    struct loop_timer lazy_sync, stop;
    struct err fatal; /* from inside the loop */
};

/* --- what the parts tell each other --------------------------------------- */

static void on_switched(void *arg, const char *id)
{
    struct daemon *m = arg;

    verify_use(m->d.verify, id);
    crew_retire_generations(m->d.crew, id);
}

static void on_account(void *arg, uid_t uid)
{
    struct daemon *m = arg;

    crew_retire_account(m->d.crew, uid);
}

/* Now requests can be answered: the door opens. */
static void on_ready(void *arg)
{
    struct daemon *m = arg;

    if (m->d.stopping)
        return;
    if (clients_listen(m->d.clients, &m->fatal) != 0)
        loop_stop(m->d.loop);
    else
        log_event(LOG_INFO_, "listening", NULL, "mode", m->d.config.mode, NULL);
}

static void on_watch_up(void *arg)
{
    struct spawnd *d = arg;

    clients_new_watch(d->clients);
}

static void on_turn(void *arg)
{
    struct daemon *m = arg;

    ops_turn(m->d.ops);
    if (record_unsynced(m->d.record) && !m->lazy_sync.armed)
        loop_timer_set(m->d.loop, &m->lazy_sync, LAZY_SYNC_MS);
}

static void on_lazy_sync(void *arg)
{
    struct daemon *m = arg;
    struct err e = ERR_INIT;

    if (record_flush(m->d.record, true, &e) != 0)
        log_err("record_sync", NULL, &e);
}

/* --- signals -------------------------------------------------------------- */

/* Submits that run get their time; then the loop ends. */
static void on_stop(void *arg)
{
    struct daemon *m = arg;

    if (ops_count(m->d.ops) == 0)
        loop_stop(m->d.loop);
    else
        loop_timer_set(m->d.loop, &m->stop, STOP_LOOK_MS);
}

static void begin_stop(struct daemon *m)
{
    if (m->d.stopping)
        return;
    log_event(LOG_INFO_, "stopping", NULL, NULL);
    m->d.stopping = true;
    clients_stop_accepting(m->d.clients);
    on_stop(m);
}

static void on_signal(void *arg, uint32_t events)
{
    struct daemon *m = arg;
    struct signalfd_siginfo s;

    (void)events;
    if (read(m->signals, &s, sizeof(s)) != (ssize_t)sizeof(s))
        return;
    if (s.ssi_signo == SIGHUP)
        gens_look_again(m->d.gens);
    else
        begin_stop(m);
}

static int watch_signals(struct daemon *m, struct err *e)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        (m->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "signals", "signalfd");
    m->watch_signals =
        loop_watch(m->d.loop, m->signals, EPOLLIN, on_signal, m, e);
    return m->watch_signals != NULL ? 0 : -1;
}

/* --- start ---------------------------------------------------------------- */

static void make_rule(struct spawnd *d)
{
    const struct config *f = &d->config;

    d->rule = (struct accounts_rule){
        .self = f->self_mode,
        .self_uid = geteuid(),
        .min_uid = f->accounts.min_uid,
        .service_uids = {f->accounts.sluice_uid, f->accounts.spawn_uid,
                         f->accounts.watch_uid},
        .service_gids = {f->accounts.sluice_gid, f->accounts.spawn_gid,
                         f->accounts.watch_gid}};
}

/* No daemon of ours runs as root, and each as the account that its config
 * names. */
static int check_account(const struct config *f, struct err *e)
{
    if (geteuid() == 0 || getuid() != geteuid())
        return err_set(e, ERR_CONFIG, "spawn_account",
                       "sluice-spawnd does not run as root");
    if (!f->self_mode && geteuid() != f->accounts.spawn_uid)
        return err_set(e, ERR_CONFIG, "spawn_account",
                       "in people mode sluice-spawnd runs as %s",
                       f->accounts.spawn);
    return 0;
}

/* The only calls of NSS in this process. */
static int load_config(struct spawnd *d, const char *file, struct err *e)
{
    if (config_load(file, &d->config, e) != 0 ||
        config_resolve_accounts(&d->config, e) != 0 ||
        config_paths(&d->config, &d->paths, e) != 0 ||
        check_account(&d->config, e) != 0)
        return -1;
    make_rule(d);
    d->quota.per_minute = d->config.limits.submits_per_minute;
    return 0;
}

/* Before anything is served no worker of an earlier spawner may live: only
 * from then on can a job's absence mean anything. */
static int end_survivors(struct spawnd *d, struct err *e)
{
    char text[24];

    if (survivors_end(d->paths.workers, SURVIVORS_WAIT_MS, &d->survivors, e) !=
        0)
        return -1;
    if (d->survivors > 0) {
        (void)snprintf(text, sizeof(text), "%zu", d->survivors);
        log_event(LOG_ERROR_, "survivors_left", NULL, "count", text, NULL);
    }
    d->started_ms = clock_now_ms();
    return 0;
}

static int open_record(struct spawnd *d, struct err *e)
{
    if (record_open(d->paths.record, &d->record, e) != 0)
        return -1;
    return record_start(d->record, d->config.mode, e);
}

static int make_parts(struct daemon *m, struct err *e)
{
    struct spawnd *d = &m->d;
    const struct config *f = &d->config;

    if (loop_new(&d->loop, e) != 0 || watch_signals(m, e) != 0 ||
        children_new(d->loop, d->paths.workers, f->cluster.slurm_conf,
                     &d->children, e) != 0 ||
        ops_new(d, &d->ops, e) != 0 || clients_new(d, &d->clients, e) != 0 ||
        verify_new(d->loop, d->children, f->paths.libexec, f->file, &d->verify,
                   e) != 0 ||
        crew_new(d->loop, d->children, f, &d->crew, e) != 0)
        return -1;
    return watch_new(d->loop, d->children, f, d->paths.watch_pid, d->record,
                     on_watch_up, d, &d->watch, e);
}

static int start_parts(struct daemon *m, struct err *e)
{
    struct spawnd *d = &m->d;
    struct gens_hooks hooks = {m, on_switched, on_account, on_ready};

    loop_timer_init(&m->lazy_sync, on_lazy_sync, m);
    loop_timer_init(&m->stop, on_stop, m);
    loop_on_turn(d->loop, on_turn, m);
    watch_start(d->watch);
    if (gens_new(d->loop, d->children, &d->config, &d->rule, &hooks, &d->gens,
                 e) != 0)
        return -1;
    if (gens_current(d->gens) != NULL)
        verify_use(d->verify, gens_current(d->gens)->id);
    return 0;
}

static void clear(struct daemon *m)
{
    struct spawnd *d = &m->d;

    clients_free(d->clients);
    ops_free(d->ops);
    crew_free(d->crew);
    verify_free(d->verify);
    watch_free(d->watch);
    children_free(d->children);
    gens_free(d->gens);
    record_close(d->record);
    quota_clear(&d->quota);
    if (m->watch_signals != NULL)
        loop_unwatch(d->loop, m->watch_signals);
    loop_free(d->loop);
    config_clear(&d->config);
}

static int serve(struct daemon *m, const char *file, struct err *e)
{
    struct spawnd *d = &m->d;

    if (load_config(d, file, e) != 0 ||
        caps_start(d->config.self_mode, e) != 0 || open_record(d, e) != 0 ||
        end_survivors(d, e) != 0 || make_parts(m, e) != 0 ||
        start_parts(m, e) != 0 || loop_run(d->loop, e) != 0)
        return -1;
    if (err_is_set(&m->fatal)) {
        *e = m->fatal;
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct daemon m = {.signals = -1};
    struct err e = ERR_INIT;
    int r;

    log_init("sluice-spawnd", LOG_INFO_);
    (void)umask(077);
    if (argc != 3 || strcmp(argv[1], "--config") != 0) {
        (void)fputs("usage: sluice-spawnd --config FILE\n", stderr);
        return 2;
    }
    r = serve(&m, argv[2], &e);
    if (r != 0)
        log_err("spawnd_stopped", NULL, &e);
    clear(&m);
    return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
