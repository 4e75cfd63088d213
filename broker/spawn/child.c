/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/child.h"

#include "base/log.h"
#include "broker/spawn/identity.h"
#include "broker/spawn/survivors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of one child's standard error: a line in the log at most this often. */
enum { LINE_EVERY_MS = 1000, READ_BYTES = 4096, READS_AT_END = 16 };

struct child {
    struct child *next, *prev;
    struct children *set;
    const char *what;
    pid_t pid;
    uint64_t starttime;
    int pidfd, err_fd, status_fd;
    struct loop_fd *watch_pid, *watch_err;
    char line[CHILD_LINE_MAX]; /* being collected */
    size_t line_len;
    struct log_gate gate;
    struct child_end end;
    void (*on_exit)(void *arg, const struct child_end *end);
    void *arg;
};

struct children {
    struct loop *loop;
    const char *file;
    char *slurm_conf; /* "SLURM_CONF=..." */
    const char *env[CHILD_ENV_MAX];
    struct child *first;
};

/* Children see UTC and no locale: times travel as numbers. */
int children_new(struct loop *l, const char *file, const char *slurm_conf,
                 struct children **out, struct err *e)
{
    struct children *cs = calloc(1, sizeof(*cs));

    if (cs == NULL)
        return err_nomem(e);
    cs->loop = l;
    cs->file = file;
    if (asprintf(&cs->slurm_conf, "SLURM_CONF=%s", slurm_conf) < 0) {
        free(cs);
        return err_nomem(e);
    }
    cs->env[0] = cs->slurm_conf;
    cs->env[1] = "PATH=/usr/local/bin:/usr/bin:/bin";
    cs->env[2] = "LANG=C.UTF-8";
    cs->env[3] = "TZ=UTC";
    *out = cs;
    return 0;
}

static void write_living(struct children *cs)
{
    struct survivors *s = survivors_begin(cs->file);

    for (struct child *c = cs->first; c != NULL; c = c->next)
        survivors_add(s, c->pid, c->starttime, c->what);
    survivors_commit(s);
}

static void say_line(struct child *c)
{
    char pid[24];

    c->line[c->line_len] = '\0';
    c->line_len = 0;
    if (c->line[0] == '\0')
        return;
    memcpy(c->end.line, c->line, sizeof(c->end.line));
    if (log_gate_open(&c->gate, LINE_EVERY_MS) == 0)
        return;
    (void)snprintf(pid, sizeof(pid), "%d", (int)c->pid);
    log_event(LOG_WARN_, "child_said", NULL, "what", c->what, "pid", pid,
              "line", c->line, NULL);
}

static void take_bytes(struct child *c, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n')
            say_line(c);
        else if (p[i] != '\0' && c->line_len < sizeof(c->line) - 1)
            c->line[c->line_len++] = p[i];
    }
}

static void close_err(struct child *c)
{
    loop_unwatch(c->set->loop, c->watch_err);
    c->watch_err = NULL;
    if (c->err_fd >= 0)
        (void)close(c->err_fd);
    c->err_fd = -1;
}

static ssize_t read_err(struct child *c)
{
    char text[READ_BYTES];
    ssize_t n;

    if (c->err_fd < 0)
        return 0;
    n = read(c->err_fd, text, sizeof(text));
    if (n > 0)
        take_bytes(c, text, (size_t)n);
    return n;
}

static void on_err(void *arg, uint32_t events)
{
    struct child *c = arg;
    ssize_t n = read_err(c);

    (void)events;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_err(c);
}

/* A process of the person could write for ever: so a bounded number of reads
 * at the end. */
static void drain_err(struct child *c)
{
    for (int i = 0; i < READS_AT_END && read_err(c) > 0; i++)
        continue;
    if (c->line_len > 0)
        say_line(c);
    close_err(c);
}

static void read_status(struct child *c)
{
    struct identity_report r;

    c->end.started = true;
    while (read(c->status_fd, &r, sizeof(r)) == (ssize_t)sizeof(r)) {
        if (r.step >= IDENTITY_TAKEN)
            c->end.identity_taken = true;
        if (r.step != IDENTITY_TAKEN) {
            c->end.started = false;
            c->end.sys = r.sys;
        }
    }
    if (!c->end.identity_taken)
        c->end.started = false;
    /* From setresuid(2) on the person can kill it, before it has said that it
     * is his: an end by signal without a failed step is his, too. */
    if (WIFSIGNALED(c->end.status) && c->end.sys == 0)
        c->end.identity_taken = true;
}

static void unlink_child(struct child *c)
{
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        c->set->first = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
}

static void free_child(struct child *c)
{
    if (c == NULL)
        return;
    close_err(c);
    loop_unwatch(c->set->loop, c->watch_pid);
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    if (c->status_fd >= 0)
        (void)close(c->status_fd);
    free(c);
}

/* The leader is a zombie here, so its number still names this group only. */
static void reap(struct child *c)
{
    (void)kill(-c->pid, SIGKILL);
    while (waitpid(c->pid, &c->end.status, 0) < 0 && errno == EINTR)
        continue;
    drain_err(c);
    read_status(c);
    unlink_child(c);
}

static void on_pidfd(void *arg, uint32_t events)
{
    struct child *c = arg;
    struct children *cs = c->set;

    (void)events;
    reap(c);
    write_living(cs);
    if (c->on_exit != NULL)
        c->on_exit(c->arg, &c->end);
    free_child(c);
}

void child_kill(struct child *c)
{
    (void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
    (void)kill(-c->pid, SIGKILL);
}

void child_forget(struct child *c)
{
    c->on_exit = NULL;
}

pid_t child_pid(const struct child *c)
{
    return c->pid;
}

struct pipes {
    int err[2], status[2];
};

static void close_pair(int *p)
{
    for (int i = 0; i < 2; i++) {
        if (p[i] >= 0)
            (void)close(p[i]);
        p[i] = -1;
    }
}

/* Our ends don't block; the child's do. */
static int open_pipes(struct pipes *p, struct err *e)
{
    if (pipe2(p->err, O_CLOEXEC) != 0 || pipe2(p->status, O_CLOEXEC) != 0 ||
        fcntl(p->err[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(p->status[0], F_SETFL, O_NONBLOCK) != 0) {
        (void)err_sys(e, ERR_UNAVAILABLE, errno, "child_start", "pipe");
        close_pair(p->err);
        close_pair(p->status);
        return -1;
    }
    return 0;
}

static int do_fork(struct child *c, const struct child_spec *s, struct pipes *p,
                   struct err *e)
{
    pid_t self = getpid();

    c->pid = fork();
    if (c->pid < 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "child_start", "fork");
    if (c->pid == 0)
        identity_exec(s, c->set->env, self, p->status[1], p->err[1]);
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pidfd >= 0)
        return 0;
    (void)err_sys(e, ERR_UNAVAILABLE, errno, "child_start", "pidfd_open");
    (void)kill(c->pid, SIGKILL);
    (void)waitpid(c->pid, NULL, 0);
    return -1;
}

/* Takes our ends out of p. */
static int follow(struct child *c, struct pipes *p, struct err *e)
{
    struct loop *l = c->set->loop;

    c->err_fd = p->err[0];
    c->status_fd = p->status[0];
    p->err[0] = p->status[0] = -1;
    c->watch_err = loop_watch(l, c->err_fd, EPOLLIN, on_err, c, e);
    c->watch_pid = loop_watch(l, c->pidfd, EPOLLIN, on_pidfd, c, e);
    if (c->watch_err != NULL && c->watch_pid != NULL)
        return 0;
    child_kill(c);
    (void)waitpid(c->pid, NULL, 0);
    return -1;
}

static void link_child(struct child *c)
{
    struct children *cs = c->set;

    c->next = cs->first;
    if (cs->first != NULL)
        cs->first->prev = c;
    cs->first = c;
}

struct child *child_start(struct children *cs, const struct child_spec *s,
                          struct err *e)
{
    struct pipes p = {{-1, -1}, {-1, -1}};
    struct child *c = calloc(1, sizeof(*c));
    int r = -1;

    if (c == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    c->set = cs;
    c->what = s->what;
    c->pidfd = c->err_fd = c->status_fd = -1;
    c->on_exit = s->on_exit;
    c->arg = s->arg;
    if (open_pipes(&p, e) != 0 || do_fork(c, s, &p, e) != 0 ||
        follow(c, &p, e) != 0)
        goto out;
    c->starttime = survivors_starttime(c->pid);
    link_child(c);
    write_living(cs);
    r = 0;
out:
    close_pair(p.err);
    close_pair(p.status);
    if (r != 0) {
        free_child(c);
        return NULL;
    }
    return c;
}

void children_free(struct children *cs)
{
    struct child *c;

    if (cs == NULL)
        return;
    for (c = cs->first; c != NULL; c = c->next)
        child_kill(c);
    while ((c = cs->first) != NULL) {
        struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

        /* One in an uninterruptible wait is left to the control group and to
         * the next start (survivors.h), which reads the file. */
        if (poll(&p, 1, 1000) > 0)
            reap(c);
        else
            unlink_child(c);
        free_child(c);
    }
    free(cs->slurm_conf);
    free(cs);
}
