/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/resolve.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PATH_MAX_ = 256, CHUNK = 8192 };

struct resolve {
    struct loop *loop;
    const struct accounts_rule *rule;
    struct child *child; /* NULL: ended */
    int fd;
    struct loop_fd *watch;
    struct loop_timer deadline;
    struct buf text;
    bool over; /* EOF, or given up */
    struct err why;
    resolve_done *done;
    void *arg;
};

static void close_fd(struct resolve *r)
{
    loop_unwatch(r->loop, r->watch);
    r->watch = NULL;
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
}

static struct accounts *judge(struct resolve *r)
{
    struct accounts *table = NULL;
    json_t *tree;

    if (err_is_set(&r->why))
        return NULL;
    tree = json_parse(buf_str(&r->text), r->text.len, WIRE_FRAME_MAX, &r->why);
    if (tree == NULL)
        return NULL;
    (void)accounts_parse(tree, r->rule, &table, &r->why);
    json_decref(tree);
    return table;
}

/* When both are over: the output and the process. */
static void finish(struct resolve *r)
{
    struct accounts *table;

    if (!r->over || r->child != NULL)
        return;
    loop_timer_stop(r->loop, &r->deadline);
    table = judge(r);
    r->done(r->arg, table, &r->why);
    buf_clear(&r->text);
    free(r);
}

static void give_up(struct resolve *r, const char *code, const char *text)
{
    (void)err_set(&r->why, ERR_UNAVAILABLE, code, "%s", text);
    close_fd(r);
    r->over = true;
    if (r->child != NULL)
        child_kill(r->child);
}

static void on_read(void *arg, uint32_t events)
{
    struct resolve *r = arg;
    char chunk[CHUNK];
    ssize_t n = read(r->fd, chunk, sizeof(chunk));

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && buf_add(&r->text, chunk, (size_t)n) == 0)
        return;
    if (n > 0) {
        give_up(r, "resolve_answer", "the answer is too long");
    } else {
        close_fd(r);
        r->over = true;
    }
    finish(r);
}

/* A process in an uninterruptible wait is not waited for. */
static void on_deadline(void *arg)
{
    struct resolve *r = arg;

    give_up(r, "resolve_timeout",
            "the accounts could not be looked up in time");
    if (r->child != NULL)
        child_forget(r->child);
    r->child = NULL;
    finish(r);
}

static void on_exit_(void *arg, const struct child_end *end)
{
    struct resolve *r = arg;

    r->child = NULL;
    if (end->status != 0)
        (void)err_set(&r->why, ERR_UNAVAILABLE, "resolve_failed",
                      "the accounts could not be looked up");
    if (!r->over)
        on_read(r, 0);
    else
        finish(r);
}

static int run(struct resolve *r, struct children *cs, const char *path,
               const char *const *argv, struct err *e)
{
    struct child_spec spec = {.what = "resolve",
                              .path = path,
                              .argv = argv,
                              .in = -1,
                              .control = -1,
                              .catalog = -1,
                              .on_exit = on_exit_,
                              .arg = r};
    int p[2];

    if (pipe2(p, O_CLOEXEC) != 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "child_start", "pipe");
    r->fd = p[0];
    spec.out = p[1];
    (void)fcntl(r->fd, F_SETFL, O_NONBLOCK);
    r->watch = loop_watch(r->loop, r->fd, EPOLLIN, on_read, r, e);
    if (r->watch != NULL)
        r->child = child_start(cs, &spec, e);
    (void)close(p[1]);
    return r->child != NULL ? 0 : -1;
}

int resolve_start(struct loop *l, struct children *cs, const char *libexec,
                  const char *config_file, const char *generation,
                  const struct accounts_rule *rule, resolve_done *done,
                  void *arg, struct err *e)
{
    char path[PATH_MAX_];
    const char *const argv[] = {"sluice-resolve", "--config", config_file,
                                generation, NULL};
    struct resolve *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return err_nomem(e);
    (void)snprintf(path, sizeof(path), "%s/sluice-resolve", libexec);
    r->loop = l;
    r->rule = rule;
    r->fd = -1;
    r->done = done;
    r->arg = arg;
    buf_init(&r->text, WIRE_FRAME_MAX);
    loop_timer_init(&r->deadline, on_deadline, r);
    if (run(r, cs, path, argv, e) != 0) {
        close_fd(r);
        free(r);
        return -1;
    }
    loop_timer_set(l, &r->deadline, RESOLVE_DEADLINE_MS);
    return 0;
}
