/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/child.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "broker/slurm/lib.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_init(struct child *c)
{
    c->pid = 0;
    c->fd = -1;
    c->deadline_ms = 0;
    buf_init(&c->out, CHILD_BYTES_MAX);
}

bool child_running(const struct child *c)
{
    return c->pid != 0;
}

/* fd becomes 3 and everything above it goes: control sockets, other pipes. */
static int keep_only(int fd)
{
    if (fd != 3 && dup2(fd, 3) < 0)
        return -1;
    return close_range(4, ~0U, 0);
}

static void run(void (*fn)(int, void *), void *context, int fd, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
        keep_only(fd) != 0)
        _exit(2);
    lib_forked();
    fn(3, context);
    _exit(0);
}

int child_start(struct child *c, void (*fn)(int fd, void *context),
                void *context, int timeout_ms, struct err *e)
{
    int p[2];
    pid_t parent = getpid();

    buf_reset(&c->out);
    if (pipe2(p, O_CLOEXEC) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "child_start", "pipe");
    c->pid = fork();
    if (c->pid == 0)
        run(fn, context, p[1], parent);
    (void)close(p[1]);
    if (c->pid < 0 || fcntl(p[0], F_SETFL, O_NONBLOCK) != 0) {
        (void)err_sys(e, ERR_INTERNAL, errno, "child_start", "fork");
        (void)close(p[0]);
        c->pid = c->pid < 0 ? 0 : c->pid;
        child_stop(c);
        return -1;
    }
    c->fd = p[0];
    c->deadline_ms = clock_mono_ms() + timeout_ms;
    return 0;
}

/* The exit status, or -1. */
static int reap(struct child *c)
{
    int status = -1;
    pid_t r;

    do
        r = waitpid(c->pid, &status, 0);
    while (r < 0 && errno == EINTR);
    c->pid = 0;
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
    return r > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void child_stop(struct child *c)
{
    if (c->pid != 0) {
        (void)kill(c->pid, SIGKILL);
        (void)reap(c);
    }
    buf_clear(&c->out);
    child_init(c);
}

static int give_up(struct child *c)
{
    (void)kill(c->pid, SIGKILL);
    (void)reap(c);
    return -1;
}

int child_read(struct child *c)
{
    char chunk[16384];
    ssize_t n;

    while ((n = read(c->fd, chunk, sizeof(chunk))) != 0) {
        if (n > 0 && buf_add(&c->out, chunk, (size_t)n) == 0)
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && clock_mono_ms() < c->deadline_ms)
            return 0;
        return give_up(c);
    }
    return reap(c) == 0 ? 1 : -1;
}

int child_wait(struct child *c, int wait_ms)
{
    int64_t until = clock_mono_ms() + wait_ms;
    int r;

    while ((r = child_read(c)) == 0 && clock_mono_ms() < until) {
        int64_t end = c->deadline_ms < until ? c->deadline_ms : until;
        struct pollfd p = {.fd = c->fd, .events = POLLIN};

        (void)poll(&p, 1, clock_left_ms(end) + 1);
    }
    return r;
}

void child_say(int fd, json_t *v)
{
    char *text = v != NULL ? json_text(v) : NULL;

    if (text == NULL || file_write_all(fd, text, strlen(text)) != 0 ||
        file_write_all(fd, "\n", 1) != 0)
        _exit(3);
    free(text);
    json_decref(v);
}

void child_lines(const struct child *c, void (*fn)(json_t *, void *),
                 void *context)
{
    const char *p = buf_str(&c->out), *end = p + c->out.len;

    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        struct err bad = ERR_INIT;
        json_t *v;

        if (stop == NULL)
            return;
        v = json_parse(p, (size_t)(stop - p), CHILD_BYTES_MAX, &bad);
        if (v != NULL)
            fn(v, context);
        json_decref(v);
        p = stop + 1;
    }
}
