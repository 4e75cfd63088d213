/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/wire.h"

#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    LISTEN_BACKLOG = 128,
    CONNECT_SECONDS = 5,
    /* More than we take, so that a frame with too many is seen whole and
     * closed whole (SCM_MAX_FD is 253; over this: MSG_CTRUNC). */
    FDS_SEEN_MAX = 16
};

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * FDS_SEEN_MAX)];
};

void wire_msg_init(struct wire_msg *m)
{
    int i;

    m->body = NULL;
    for (i = 0; i < WIRE_FDS_MAX; i++)
        m->fds[i] = -1;
}

void wire_msg_clear(struct wire_msg *m)
{
    int i;

    json_decref(m->body);
    for (i = 0; i < WIRE_FDS_MAX; i++) {
        if (m->fds[i] >= 0)
            (void)close(m->fds[i]);
    }
    wire_msg_init(m);
}

int wire_take_fd(struct wire_msg *m, int i)
{
    int fd;

    if (i < 0 || i >= WIRE_FDS_MAX)
        return -1;
    fd = m->fds[i];
    m->fds[i] = -1;
    return fd;
}

/* 1: ready; 0: the time is over; -1: errno. */
static int wait_for(int sock, short events, int timeout_ms, int64_t deadline)
{
    struct pollfd p = {.fd = sock, .events = events};
    int r, left;

    do {
        left = timeout_ms < 0 ? -1 : clock_left_ms(deadline);
        r = poll(&p, 1, left);
    } while (r < 0 && errno == EINTR);
    return r;
}

static int send_failed(int sys, struct err *e)
{
    if (sys == EMSGSIZE)
        return err_sys(e, ERR_TOO_LARGE, sys, "wire_too_large", "send");
    if (sys == ENOBUFS || sys == ENOMEM || sys == ETOOMANYREFS)
        return err_sys(e, ERR_UNAVAILABLE, sys, "wire_full", "send");
    return err_sys(e, ERR_UNAVAILABLE, sys, "wire_closed", "send");
}

static int send_loop(int sock, const struct msghdr *h, int timeout_ms,
                     struct err *e)
{
    int64_t deadline = clock_mono_ms() + (timeout_ms < 0 ? 0 : timeout_ms);
    int r;

    for (;;) {
        if (sendmsg(sock, h, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return send_failed(errno, e);
        r = wait_for(sock, POLLOUT, timeout_ms, deadline);
        if (r < 0)
            return send_failed(errno, e);
        if (r == 0)
            return err_set(e, ERR_UNAVAILABLE, "wire_full",
                           "no room on the socket in time");
    }
}

static void attach(struct msghdr *h, union control *c, const int *fds,
                   size_t nfds)
{
    memset(c, 0, sizeof(*c));
    c->align.cmsg_level = SOL_SOCKET;
    c->align.cmsg_type = SCM_RIGHTS;
    c->align.cmsg_len = CMSG_LEN(sizeof(int) * nfds);
    memcpy(CMSG_DATA(&c->align), fds, sizeof(int) * nfds);
    h->msg_control = c->bytes;
    h->msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
}

int wire_send(int sock, const json_t *body, const int *fds, size_t nfds,
              int timeout_ms, struct err *e)
{
    struct iovec v = {NULL, 0};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    union control c;
    char *text;
    int r = -1;

    if (!json_is_object(body) || nfds > WIRE_FDS_MAX)
        return err_set(e, ERR_INTERNAL, "wire_frame", "not a frame of ours");
    text = json_text(body);
    if (text == NULL)
        return err_nomem(e);
    v.iov_base = text;
    v.iov_len = strlen(text);
    if (nfds > 0)
        attach(&h, &c, fds, nfds);
    if (v.iov_len > WIRE_FRAME_MAX)
        (void)err_set(e, ERR_TOO_LARGE, "wire_too_large",
                      "a frame of more than %d bytes", WIRE_FRAME_MAX);
    else
        r = send_loop(sock, &h, timeout_ms, e);
    explicit_bzero(text, v.iov_len); /* a submit frame may carry secrets */
    free(text);
    return r;
}

static int bad_frame(struct err *e, const char *why)
{
    return err_set(e, ERR_INVALID, "wire_frame", "bad frame: %s", why);
}

/* Every received descriptor is owned by m or closed. Their number. */
static size_t collect_fds(struct msghdr *h, struct wire_msg *m)
{
    struct cmsghdr *c;
    size_t i, n, total = 0;
    int fd;

    for (c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (i = 0; i < n; i++, total++) {
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (total < WIRE_FDS_MAX)
                m->fds[total] = fd;
            else
                (void)close(fd);
        }
    }
    return total;
}

/* recvmsg(2) gives 0 for the end and for an empty frame. */
static int end_or_empty(int sock, struct err *e)
{
    struct pollfd p = {.fd = sock, .events = POLLRDHUP};

    if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP)) != 0)
        return 0;
    return bad_frame(e, "empty");
}

static int decode(const char *text, size_t n, struct wire_msg *m, struct err *e)
{
    struct err inner = ERR_INIT;
    json_t *v = json_parse(text, n, WIRE_FRAME_MAX, &inner);

    if (v == NULL && inner.class == ERR_INTERNAL)
        return err_nomem(e);
    if (v == NULL)
        return bad_frame(e, inner.text);
    if (!json_is_object(v)) {
        json_decref(v);
        return bad_frame(e, "not an object");
    }
    m->body = v;
    return 1;
}

static int recv_failed(int sys, struct err *e)
{
    return err_sys(e, ERR_UNAVAILABLE, sys, "wire_closed", "receive");
}

/* recvmsg(2) with patience. Bytes, or -1. */
static ssize_t recv_loop(int sock, struct msghdr *h, int timeout_ms,
                         struct err *e)
{
    int64_t deadline = clock_mono_ms() + (timeout_ms < 0 ? 0 : timeout_ms);
    ssize_t n;
    int r;

    for (;;) {
        n = recvmsg(sock, h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n >= 0)
            return n;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return recv_failed(errno, e);
        r = wait_for(sock, POLLIN, timeout_ms, deadline);
        if (r < 0)
            return recv_failed(errno, e);
        if (r == 0)
            return err_set(e, ERR_UNAVAILABLE, "wire_timeout",
                           "no answer in time");
    }
}

int wire_recv(int sock, struct wire_msg *m, int timeout_ms, struct err *e)
{
    char *text = malloc(WIRE_FRAME_MAX);
    struct iovec v = {text, WIRE_FRAME_MAX};
    union control c;
    struct msghdr h = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = c.bytes,
                       .msg_controllen = sizeof(c.bytes)};
    size_t nfds;
    ssize_t n;
    int r = -1;

    wire_msg_clear(m);
    if (text == NULL)
        return err_nomem(e);
    n = recv_loop(sock, &h, timeout_ms, e);
    if (n < 0)
        goto out;
    nfds = collect_fds(&h, m);
    if ((h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || nfds > WIRE_FDS_MAX)
        (void)bad_frame(e, "cut, or too many descriptors");
    else if (n == 0)
        r = end_or_empty(sock, e);
    else
        r = decode(text, (size_t)n, m, e);
    explicit_bzero(text, (size_t)n);
out:
    if (r != 1)
        wire_msg_clear(m);
    free(text);
    return r;
}

int wire_pair(int sv[2], struct err *e)
{
    int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       0, sv);

    if (r != 0)
        return err_sys(e, ERR_INTERNAL, errno, "wire_socket", "socketpair");
    return 0;
}

static int address(const char *path, struct sockaddr_un *a, struct err *e)
{
    size_t n = strlen(path);

    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    if (n == 0 || n >= sizeof(a->sun_path))
        return err_set(e, ERR_CONFIG, "socket_path",
                       "a socket path has 1 to %zu bytes: %s",
                       sizeof(a->sun_path) - 1, path);
    memcpy(a->sun_path, path, n);
    return 0;
}

/* A connected, still blocking socket, or -1 and errno. */
static int dial(const struct sockaddr_un *a, int type)
{
    struct timeval limit = {.tv_sec = CONNECT_SECONDS};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0), sys;

    if (fd < 0)
        return -1;
    /* connect(2) to a full backlog waits for that long at most. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
        connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0)
        return fd;
    sys = errno;
    (void)close(fd);
    errno = sys;
    return -1;
}

/* Only a socket that nobody listens on is taken away. */
static int remove_dead(const struct sockaddr_un *a, int type, struct err *e)
{
    struct stat st;
    int fd;

    if (lstat(a->sun_path, &st) != 0)
        return errno == ENOENT ? 0
                               : err_sys(e, ERR_CONFIG, errno, "socket_path",
                                         "%s", a->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_CONFIG, "socket_path", "%s is not a socket",
                       a->sun_path);
    fd = dial(a, type);
    if (fd >= 0 || errno != ECONNREFUSED) {
        if (fd >= 0)
            (void)close(fd);
        return err_set(e, ERR_CONFIG, "socket_in_use",
                       "another process serves %s", a->sun_path);
    }
    if (unlink(a->sun_path) != 0 && errno != ENOENT)
        return err_sys(e, ERR_CONFIG, errno, "socket_path", "%s", a->sun_path);
    return 0;
}

/* The file is born with mode 0 (it takes the socket's own), so that nobody
 * gets in between bind and chmod, whatever the umask. */
static int bind_mode(int fd, const struct sockaddr_un *a, mode_t mode)
{
    (void)fchmod(fd, 0);
    if (bind(fd, (const struct sockaddr *)a, sizeof(*a)) != 0)
        return -1;
    if (chmod(a->sun_path, mode) != 0)
        return -1;
    return listen(fd, LISTEN_BACKLOG);
}

int wire_listen(const char *path, int type, mode_t mode, struct err *e)
{
    struct sockaddr_un a;
    int fd;

    if (address(path, &a, e) != 0 || remove_dead(&a, type, e) != 0)
        return -1;
    fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "wire_socket", "socket");
    if (bind_mode(fd, &a, mode) != 0) {
        (void)err_sys(e, ERR_CONFIG, errno, "socket_path", "%s", path);
        (void)close(fd);
        return -1;
    }
    return fd;
}

int wire_connect(const char *path, int type, struct err *e)
{
    struct sockaddr_un a;
    int fd;

    if (address(path, &a, e) != 0)
        return -1;
    fd = dial(&a, type);
    if (fd < 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "wire_connect", "connect");
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        (void)err_sys(e, ERR_INTERNAL, errno, "wire_socket", "fcntl");
        (void)close(fd);
        return -1;
    }
    return fd;
}

int wire_peer(int sock, pid_t *pid, uid_t *uid, gid_t *gid, struct err *e)
{
    struct ucred c = {0, (uid_t)-1, (gid_t)-1};
    socklen_t n = sizeof(c);

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "wire_peer", "SO_PEERCRED");
    if (n != sizeof(c) || c.uid == (uid_t)-1)
        return err_set(e, ERR_INTERNAL, "wire_peer", "the peer is not known");
    if (pid != NULL)
        *pid = c.pid;
    if (uid != NULL)
        *uid = c.uid;
    if (gid != NULL)
        *gid = c.gid;
    return 0;
}

int wire_err_put(json_t *obj, const char *key, const struct err *e)
{
    json_t *o;
    int r = 0;

    if (!err_is_set(e))
        return json_put(obj, key, json_null());
    o = json_object();
    r |= json_put_str(o, "class", err_class_name(e->class));
    r |= json_put_str(o, "code", e->code);
    r |= json_put_str(o, "text", e->text);
    r |= json_put_str(o, "pointer", e->pointer);
    r |= json_put_int(o, "sys", e->sys);
    if (r != 0) {
        json_decref(o);
        return -1;
    }
    return json_put(obj, key, o);
}

static int read_err(const json_t *o, struct err *out, struct err *bad)
{
    static const char *const keys[] = {"class",   "code", "text",
                                       "pointer", "sys",  NULL};
    const char *class, *code, *text, *pointer;
    int64_t sys;

    if (json_only(o, keys, "", bad) != 0 ||
        json_get_str(o, "class", true, 32, &class, "", bad) != 0 ||
        json_get_str(o, "code", true, ERR_CODE_MAX - 1, &code, "", bad) != 0 ||
        json_get_str(o, "text", true, ERR_TEXT_MAX - 1, &text, "", bad) != 0 ||
        json_get_str(o, "pointer", true, ERR_POINTER_MAX - 1, &pointer, "",
                     bad) != 0 ||
        json_get_int(o, "sys", true, INT32_MIN, INT32_MAX, &sys, "", bad) != 0)
        return -1;
    (void)err_set(out, err_class_parse(class), code, "%s", text);
    (void)err_at(out, pointer);
    out->sys = (int)sys;
    return 0;
}

int wire_err_get(const json_t *obj, const char *key, struct err *out)
{
    struct err bad = ERR_INIT;
    json_t *o = NULL;

    err_clear(out);
    if (json_get_obj(obj, key, false, &o, "", &bad) == 0 &&
        (o == NULL || read_err(o, out, &bad) == 0))
        return 0;
    err_clear(out);
    return err_set(out, ERR_INTERNAL, "wire_frame", "bad error in a frame: %s",
                   bad.text);
}
