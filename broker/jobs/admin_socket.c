/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/admin_socket.h"

#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/jobs/service.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A load reads and hashes every file of a generation. */
enum { PEER_WAIT_MS = 30000, ACCEPT_PAUSE_MS = 200 };

struct admin_socket {
    struct service *service;
    pthread_t thread;
    int listen_fd, wake;
};

/* --- verbs --- */

static int do_load(struct service *s, const char *id, json_t *answer,
                   struct err *e)
{
    (void)answer;
    return service_load(s, id, e);
}

static int do_switch(struct service *s, const char *id, json_t *answer,
                     struct err *e)
{
    (void)answer;
    return service_switch(s, id, e);
}

static int do_status(struct service *s, const char *id, json_t *answer,
                     struct err *e)
{
    struct service_status st;
    int rc = 0;

    (void)id;
    service_status(s, &st);
    rc |= json_put_str(answer, "generation", st.generation);
    rc |= json_put_bool(answer, "spawner", st.spawn_up);
    rc |= json_put_bool(answer, "watch", st.follow.watch_up);
    rc |= json_put_bool(answer, "slurmctld", st.follow.slurmctld);
    rc |= json_put_bool(answer, "slurmdbd", st.follow.slurmdbd);
    rc |= json_put_int(answer, "jobs", st.follow.jobs);
    rc |= json_put_time(answer, "observed_at", st.follow.polled_at_ms / 1000);
    return rc ? err_nomem(e) : 0;
}

static const struct {
    const char *name;
    bool needs_id;
    int (*run)(struct service *s, const char *id, json_t *answer,
               struct err *e);
} verbs[] = {
    {"load", true, do_load},
    {"switch", true, do_switch},
    {"status", false, do_status},
};

static int dispatch(struct service *s, const json_t *m, json_t *answer,
                    struct err *e)
{
    static const char *const keys[] = {"v", "admin", "id", NULL};
    const char *verb = NULL, *id = NULL;
    int64_t v = 0;

    if (json_only(m, keys, "", e) ||
        json_get_int(m, "v", true, 1, 1, &v, "", e) ||
        json_get_str(m, "admin", true, 16, &verb, "", e) ||
        json_get_str(m, "id", false, GENERATION_ID_LEN, &id, "", e))
        return -1;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, verb))
            continue;
        if (verbs[i].needs_id && !id)
            return err_set(e, ERR_INVALID, "json_missing", "id is missing");
        return verbs[i].run(s, id, answer, e);
    }
    return err_set(e, ERR_INVALID, "admin_verb", "no such verb");
}

/* --- connections --- */

static int allowed(struct admin_socket *a, int fd, struct err *e)
{
    uid_t uid = (uid_t)-1;

    if (wire_peer(fd, NULL, &uid, NULL, e))
        return -1;
    if (uid == 0 || (a->service->config->self_mode && uid == geteuid()))
        return 0;
    return err_set(e, ERR_DENIED, "admin_peer", "only root may ask here");
}

static int answer_one(struct admin_socket *a, int fd, const json_t *m,
                      struct err *e)
{
    struct err failed = ERR_INIT;
    json_t *o = json_object();
    int rc = json_put_int(o, "v", 1), bad;

    bad = dispatch(a->service, m, o, &failed);
    rc |= json_put_bool(o, "ok", !bad);
    if (bad)
        rc |= wire_err_put(o, "error", &failed);
    rc = rc ? err_nomem(e) : wire_send(fd, o, NULL, 0, PEER_WAIT_MS, e);
    json_decref(o);
    return rc;
}

/* A message or the peer's end; false: time is over, or we stop. */
static bool await(struct admin_socket *a, int fd)
{
    struct pollfd v[] = {{fd, POLLIN, 0}, {a->wake, POLLIN, 0}};

    return poll(v, 2, PEER_WAIT_MS) > 0 && v[0].revents && !v[1].revents;
}

static void serve(struct admin_socket *a, int fd)
{
    struct err e = ERR_INIT;
    struct wire_msg m;

    wire_msg_init(&m);
    if (allowed(a, fd, &e) == 0) {
        while (await(a, fd) && wire_recv(fd, &m, 0, &e) == 1) {
            if (answer_one(a, fd, m.body, &e))
                break;
            wire_msg_clear(&m);
            wire_msg_init(&m);
        }
    }
    wire_msg_clear(&m);
    if (err_is_set(&e))
        log_err("admin_peer", NULL, &e);
}

/* Without a free descriptor the connection stays in the queue and the listener
 * readable: don't spin. */
static void pause_after(struct admin_socket *a, int sys)
{
    struct pollfd wake = {a->wake, POLLIN, 0};
    struct err e = ERR_INIT;

    if (sys == EAGAIN || sys == EINTR || sys == ECONNABORTED)
        return;
    err_sys(&e, ERR_UNAVAILABLE, sys, "accept", "accept");
    log_err("accept_failed", NULL, &e);
    poll(&wake, 1, ACCEPT_PAUSE_MS);
}

static void *admin_main(void *arg)
{
    struct admin_socket *a = arg;

    for (;;) {
        struct pollfd v[] = {{a->listen_fd, POLLIN, 0}, {a->wake, POLLIN, 0}};
        int fd;
        if (poll(v, 2, -1) < 0 && errno != EINTR)
            break;
        if (v[1].revents)
            break;
        fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            pause_after(a, errno);
            continue;
        }
        serve(a, fd);
        close(fd);
    }
    return NULL;
}

int admin_socket_start(struct service *s, struct admin_socket **out,
                       struct err *e)
{
    struct admin_socket *a = calloc(1, sizeof *a);

    if (!a)
        return err_nomem(e);
    a->service = s;
    a->wake = eventfd(0, EFD_CLOEXEC);
    a->listen_fd = wire_listen(s->paths.admin_sock, SOCK_SEQPACKET, 0600, e);
    if (a->listen_fd >= 0 && a->wake >= 0 &&
        pthread_create(&a->thread, NULL, admin_main, a) == 0) {
        *out = a;
        return 0;
    }
    if (a->listen_fd >= 0)
        close(a->listen_fd);
    if (a->wake >= 0)
        close(a->wake);
    free(a);
    return err_set(e, ERR_INTERNAL, "no_thread", "no admin socket");
}

void admin_socket_stop(struct admin_socket *a)
{
    static const uint64_t one = 1;

    if (!a)
        return;
    if (write(a->wake, &one, sizeof one) != (ssize_t)sizeof one)
        log_event(LOG_WARN_, "admin_wake_failed", NULL, NULL);
    pthread_join(a->thread, NULL);
    unlink(a->service->paths.admin_sock);
    close(a->listen_fd);
    close(a->wake);
    free(a);
}
