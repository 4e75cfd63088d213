/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/push.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/proto.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1 with *down: nobody listens there. */
static int connect_to(const char *path, bool *down, struct err *e)
{
    struct err inner = ERR_INIT;
    int fd;

    *down = access(path, F_OK) != 0 && errno == ENOENT;
    if (*down)
        return -1;
    fd = wire_connect(path, SOCK_SEQPACKET, &inner);
    if (fd < 0) {
        *down = inner.sys == ECONNREFUSED || inner.sys == ENOENT;
        if (!*down)
            err_set(e, inner.class, inner.code, "%s: %s", path, inner.text);
    }
    return fd;
}

static int send_ask(int fd, const char *verb, const char *id, struct err *e)
{
    json_t *ask = json_object();
    int r = 0;

    r |= json_put_int(ask, "v", PROTO_VERSION);
    r |= json_put_str(ask, "admin", verb);
    r |= json_put_str(ask, "id", id);
    r = r != 0 ? err_nomem(e) : wire_send(fd, ask, NULL, 0, PUSH_TIMEOUT_MS, e);
    json_decref(ask);
    return r;
}

/* The daemon's own error, or ours about its answer. */
static int read_answer(const json_t *answer, struct err *e)
{
    bool ok = false;

    if (json_get_bool(answer, "ok", true, &ok, "", e) != 0)
        return -1;
    if (ok)
        return 0;
    if (e != NULL && wire_err_get(answer, "error", e) == 0 && err_is_set(e))
        return -1;
    return err_set(e, ERR_CONFIG, "generation_refused",
                   "the daemon refused without a reason");
}

/* The spawner greets who connects; so events are passed over. */
static int wait_answer(int fd, const char *path, struct err *e)
{
    int64_t deadline = clock_mono_ms() + PUSH_TIMEOUT_MS;
    struct wire_msg m;
    int r;

    for (;;) {
        wire_msg_init(&m);
        r = wire_recv(fd, &m, clock_left_ms(deadline), e);
        if (r == 1 && json_object_get(m.body, "event") != NULL) {
            wire_msg_clear(&m);
            continue;
        }
        if (r == 1)
            r = read_answer(m.body, e);
        else if (r == 0)
            r = err_set(e, ERR_UNAVAILABLE, "wire_closed",
                        "%s closed without an answer", path);
        wire_msg_clear(&m);
        return r;
    }
}

int push_ask(const char *socket_path, const char *verb, const char *id,
             struct err *e)
{
    bool down = false;
    int r, fd = connect_to(socket_path, &down, e);

    if (fd < 0)
        return down ? 0 : -1;
    r = send_ask(fd, verb, id, e);
    if (r == 0)
        r = wait_answer(fd, socket_path, e);
    (void)close(fd);
    return r == 0 ? 1 : -1;
}
