/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[64];

static const char *at(const char *name)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];

    (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
    return p;
}

static int set_up(void **state)
{
    (void)state;
    (void)umask(027);
    (void)snprintf(dir, sizeof(dir), "/tmp/test_base_wire.XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    DIR *d = opendir(dir);
    struct dirent *de;

    (void)state;
    while (d != NULL && (de = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), de->d_name, 0);
    (void)closedir(d);
    return rmdir(dir);
}

static int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

static void pair(int sv[2])
{
    struct err e = ERR_INIT;

    assert_int_equal(wire_pair(sv, &e), 0);
}

static void close_pair(int sv[2])
{
    (void)close(sv[0]);
    (void)close(sv[1]);
}

static json_t *sample(void)
{
    json_t *v = json_object();

    assert_int_equal(json_put_str(v, "op", "submit"), 0);
    return v;
}

/* Raw bytes and descriptors, as a peer that is not ours would send them. */
static void send_raw(int sock, const void *p, size_t n, const int *fds,
                     size_t nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
    } c;
    struct iovec v;
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    char *copy = malloc(n + 1);

    assert_non_null(copy);
    if (n > 0)
        memcpy(copy, p, n);
    v.iov_base = copy;
    v.iov_len = n;
    if (nfds > 0) {
        memset(&c, 0, sizeof(c));
        c.align.cmsg_level = SOL_SOCKET;
        c.align.cmsg_type = SCM_RIGHTS;
        c.align.cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(&c.align), fds, sizeof(int) * nfds);
        h.msg_control = c.bytes;
        h.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
    }
    assert_int_equal(sendmsg(sock, &h, MSG_NOSIGNAL), n);
    free(copy);
}

static void there_and_back(void **state)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    json_t *v = sample();
    int sv[2];

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 0, &e), 0);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, -1, &e), 0);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), 1);
    assert_true(json_equal(m.body, v));
    assert_int_equal(m.fds[0], -1);
    assert_int_equal(wire_recv(sv[1], &m, -1, &e), 1); /* cleared by itself */
    wire_msg_clear(&m);
    assert_null(m.body);
    wire_msg_clear(&m);
    json_decref(v);
    close_pair(sv);
}

static void pair_is_cloexec_and_nonblocking(void **state)
{
    int sv[2], i;

    (void)state;
    pair(sv);
    for (i = 0; i < 2; i++) {
        assert_int_equal(fcntl(sv[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(sv[i], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    }
    close_pair(sv);
}

static void descriptors_travel(void **state)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    json_t *v = sample();
    int sv[2], p[2], before, fd;
    char c = 0;

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(pipe(p), 0);
    before = open_fds();
    assert_int_equal(wire_send(sv[0], v, p, 2, 0, &e), 0);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), 1);
    assert_int_equal(open_fds(), before + 2);
    assert_int_equal(fcntl(m.fds[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(m.fds[1], F_GETFD), FD_CLOEXEC);
    fd = wire_take_fd(&m, 1);
    assert_true(fd >= 0);
    assert_int_equal(wire_take_fd(&m, 1), -1);
    assert_int_equal(wire_take_fd(&m, 2), -1);
    assert_int_equal(wire_take_fd(&m, -1), -1);
    wire_msg_clear(&m); /* closes the one that was not taken */
    assert_int_equal(open_fds(), before + 1);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(p[0], &c, 1), 1);
    assert_int_equal(c, 'x');
    (void)close(fd);
    (void)close(p[0]);
    (void)close(p[1]);
    json_decref(v);
    close_pair(sv);
}

/* After a bad frame no descriptor stays open and m is empty. */
static void bad_frame(const void *p, size_t n, size_t nfds)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int sv[2], fds[64], before;
    size_t i;

    wire_msg_init(&m);
    pair(sv);
    for (i = 0; i < nfds; i++)
        fds[i] = sv[0];
    before = open_fds();
    send_raw(sv[0], p, n, fds, nfds);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), -1);
    assert_int_equal(e.class, ERR_INVALID);
    assert_string_equal(e.code, "wire_frame");
    assert_null(m.body);
    for (i = 0; i < WIRE_FDS_MAX; i++)
        assert_int_equal(m.fds[i], -1);
    assert_int_equal(open_fds(), before);
    close_pair(sv);
}

static void bad_frames_are_refused(void **state)
{
    static const char *const texts[] = {
        "x",
        "[1]",
        "[]",
        "1",
        "\"s\"",
        "null",
        "{",
        "{}{}",
        "{} x",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\u0000\"}",
        "{\"a\":\"\xff\"}",
        " ",
        "{\"a\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        bad_frame(texts[i], strlen(texts[i]), 0);
        bad_frame(texts[i], strlen(texts[i]), 2);
    }
    bad_frame("{}\0", 3, 1);
    bad_frame("", 0, 0); /* an empty frame is not the end */
    bad_frame("", 0, 2);
}

static void too_many_descriptors(void **state)
{
    (void)state;
    bad_frame("{}", 2, WIRE_FDS_MAX + 1);
    bad_frame("{}", 2, 16);
    bad_frame("{}", 2, 17); /* more than the receiver has room for */
    bad_frame("{}", 2, 64);
}

/* One byte too many: SOCK_SEQPACKET cuts the frame, and what is left could
 * still be read as JSON. */
static void cut_frames_are_refused(void **state)
{
    size_t n = WIRE_FRAME_MAX + 1;
    char *text = malloc(n);

    (void)state;
    assert_non_null(text);
    memset(text, ' ', n);
    memcpy(text, "{}", 2);
    bad_frame(text, n, 0);
    bad_frame(text, n, 2);
    text[n - 1] = '}';
    bad_frame(text, n, 0);
    free(text);
}

/* A frame of exactly WIRE_FRAME_MAX bytes passes, one more does not. */
static void frame_maximum(void **state)
{
    size_t room = WIRE_FRAME_MAX - strlen("{\"s\":\"\"}");
    char *text = malloc(room + 2);
    struct err e = ERR_INIT;
    json_t *v = json_object();
    struct wire_msg m;
    int sv[2];

    (void)state;
    assert_non_null(text);
    memset(text, 'x', room + 1);
    text[room] = '\0';
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(json_put_str(v, "s", text), 0);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 0, &e), 0);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), 1);
    assert_true(json_equal(m.body, v));
    text[room] = 'x';
    text[room + 1] = '\0';
    assert_int_equal(json_put_str(v, "s", text), 0);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 0, &e), -1);
    assert_int_equal(e.class, ERR_TOO_LARGE);
    assert_string_equal(e.code, "wire_too_large");
    wire_msg_clear(&m);
    json_decref(v);
    free(text);
    close_pair(sv);
}

static void only_frames_of_ours_are_sent(void **state)
{
    struct err e = ERR_INIT;
    json_t *a = json_array(), *o = json_object();
    int sv[2], fds[3] = {0, 1, 2};

    (void)state;
    pair(sv);
    assert_int_equal(wire_send(sv[0], a, NULL, 0, 0, &e), -1);
    assert_int_equal(wire_send(sv[0], NULL, NULL, 0, 0, NULL), -1);
    assert_int_equal(wire_send(sv[0], o, fds, 3, 0, NULL), -1);
    assert_string_equal(e.code, "wire_frame");
    json_decref(a);
    json_decref(o);
    close_pair(sv);
}

static void orderly_end(void **state)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    json_t *v = sample();
    int sv[2];

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 0, &e), 0);
    (void)close(sv[0]);
    /* What was sent before the end is still there. */
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), 1);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), 0);
    assert_null(m.body);
    assert_int_equal(wire_recv(sv[1], &m, -1, &e), 0);
    assert_false(err_is_set(&e));
    (void)close(sv[1]);
    json_decref(v);
}

static void end_by_shutdown(void **state)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int sv[2];

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(shutdown(sv[0], SHUT_WR), 0);
    assert_int_equal(wire_recv(sv[1], &m, 100, &e), 0);
    close_pair(sv);
}

/* No SIGPIPE: the test would die. */
static void closed_peer(void **state)
{
    struct err e = ERR_INIT;
    json_t *v = sample();
    int sv[2];

    (void)state;
    pair(sv);
    (void)close(sv[1]);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, -1, &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "wire_closed");
    (void)close(sv[0]);
    err_clear(&e);
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 0, &e), -1);
    assert_string_equal(e.code, "wire_closed"); /* EBADF */
    json_decref(v);
}

static void nothing_in_time(void **state)
{
    struct err e = ERR_INIT;
    struct wire_msg m;
    int64_t start = clock_mono_ms();
    int sv[2];

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(wire_recv(sv[1], &m, 0, &e), -1);
    assert_string_equal(e.code, "wire_timeout");
    assert_true(clock_mono_ms() - start < 1000);
    err_clear(&e);
    start = clock_mono_ms();
    assert_int_equal(wire_recv(sv[1], &m, 50, &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "wire_timeout");
    assert_in_range(clock_mono_ms() - start, 49, 5000);
    close_pair(sv);
}

static void full_socket(void **state)
{
    char text[30000];
    struct err e = ERR_INIT;
    json_t *v = json_object();
    struct wire_msg m;
    int sv[2], sent = 0;
    int64_t start;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(json_put_str(v, "s", text), 0);
    wire_msg_init(&m);
    pair(sv);
    while (sent < 10000 && wire_send(sv[0], v, NULL, 0, 0, &e) == 0)
        sent++;
    assert_in_range(sent, 1, 9999);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "wire_full");
    err_clear(&e);
    start = clock_mono_ms();
    assert_int_equal(wire_send(sv[0], v, NULL, 0, 60, &e), -1);
    assert_string_equal(e.code, "wire_full");
    assert_in_range(clock_mono_ms() - start, 59, 5000);
    while (sent-- > 0) /* nothing of it was lost or doubled */
        assert_int_equal(wire_recv(sv[1], &m, 0, NULL), 1);
    assert_int_equal(wire_recv(sv[1], &m, 0, NULL), -1);
    wire_msg_clear(&m);
    json_decref(v);
    close_pair(sv);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* A signal does not end the wait, and does not make it longer. */
static void signals_do_not_disturb(void **state)
{
    struct sigaction sa = {.sa_handler = on_alarm}, old;
    struct err e = ERR_INIT;
    struct wire_msg m;
    int64_t start = clock_mono_ms();
    int sv[2];

    (void)state;
    wire_msg_init(&m);
    pair(sv);
    assert_int_equal(sigaction(SIGALRM, &sa, &old), 0);
    (void)ualarm(10000, 10000);
    assert_int_equal(wire_recv(sv[1], &m, 100, &e), -1);
    (void)ualarm(0, 0);
    (void)sigaction(SIGALRM, &old, NULL);
    assert_string_equal(e.code, "wire_timeout");
    assert_in_range(clock_mono_ms() - start, 99, 5000);
    close_pair(sv);
}

static void listen_and_connect(void **state)
{
    struct err e = ERR_INIT;
    json_t *v = sample();
    struct wire_msg m;
    struct stat st;
    int l, c, s;
    uid_t uid = 99;
    gid_t gid = 99;
    pid_t pid = 0;

    (void)state;
    wire_msg_init(&m);
    l = wire_listen(at("s"), SOCK_SEQPACKET, 0666, &e);
    assert_true(l >= 0);
    assert_int_equal(lstat(at("s"), &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0666); /* in spite of umask 027 */
    assert_int_equal(fcntl(l, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(l, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(accept4(l, NULL, NULL, 0), -1);
    assert_int_equal(errno, EAGAIN);
    c = wire_connect(at("s"), SOCK_SEQPACKET, &e);
    assert_true(c >= 0);
    assert_int_equal(fcntl(c, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(c, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s >= 0);
    assert_int_equal(wire_peer(s, &pid, &uid, &gid, &e), 0);
    assert_int_equal(pid, getpid());
    assert_int_equal(uid, geteuid());
    assert_int_equal(gid, getegid());
    assert_int_equal(wire_peer(s, NULL, NULL, NULL, &e), 0);
    assert_int_equal(wire_send(c, v, NULL, 0, 0, &e), 0);
    assert_int_equal(wire_recv(s, &m, 0, &e), 1);
    wire_msg_clear(&m);
    json_decref(v);
    (void)close(s);
    (void)close(c);
    (void)close(l);
}

static void peer_of_nobody(void **state)
{
    struct err e = ERR_INIT;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uid_t uid = 77;

    (void)state;
    assert_int_equal(wire_peer(fd, NULL, &uid, NULL, &e), -1);
    assert_string_equal(e.code, "wire_peer");
    assert_int_equal(uid, 77);
    (void)close(fd);
    assert_int_equal(wire_peer(fd, NULL, &uid, NULL, NULL), -1);
}

static void live_socket_is_not_taken(void **state)
{
    struct err e = ERR_INIT;
    int l = wire_listen(at("live"), SOCK_STREAM, 0600, &e), c;

    (void)state;
    assert_true(l >= 0);
    assert_int_equal(wire_listen(at("live"), SOCK_STREAM, 0600, &e), -1);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, "socket_in_use");
    err_clear(&e);
    /* Of another type: still alive. */
    assert_int_equal(wire_listen(at("live"), SOCK_SEQPACKET, 0600, &e), -1);
    assert_string_equal(e.code, "socket_in_use");
    c = wire_connect(at("live"), SOCK_STREAM, NULL);
    assert_true(c >= 0);
    (void)close(c);
    (void)close(l);
}

static void dead_socket_is_replaced(void **state)
{
    struct err e = ERR_INIT;
    int l = wire_listen(at("dead"), SOCK_SEQPACKET, 0600, &e), c;

    (void)state;
    assert_true(l >= 0);
    (void)close(l);
    assert_int_equal(wire_connect(at("dead"), SOCK_SEQPACKET, &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "wire_connect");
    assert_int_equal(e.sys, ECONNREFUSED);
    err_clear(&e);
    l = wire_listen(at("dead"), SOCK_SEQPACKET, 0660, &e);
    assert_true(l >= 0);
    c = wire_connect(at("dead"), SOCK_SEQPACKET, &e);
    assert_true(c >= 0);
    (void)close(c);
    (void)close(l);
}

static void other_files_are_left_alone(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;
    int fd = open(at("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    (void)close(fd);
    assert_int_equal(wire_listen(at("file"), SOCK_STREAM, 0600, &e), -1);
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, "socket_path");
    assert_int_equal(lstat(at("file"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    /* Nor is a link to a socket a socket. */
    assert_int_equal(symlink("file", at("link")), 0);
    assert_int_equal(wire_listen(at("link"), SOCK_STREAM, 0600, NULL), -1);
    assert_int_equal(wire_listen(at("no/s"), SOCK_STREAM, 0600, NULL), -1);
}

/* Unix socket paths end at 107 bytes. */
static void path_length(void **state)
{
    struct err e = ERR_INIT;
    char path[120];
    size_t n = strlen(dir);
    int l;

    (void)state;
    memset(path, 'p', sizeof(path));
    memcpy(path, dir, n);
    path[n] = '/';
    path[107] = '\0';
    l = wire_listen(path, SOCK_STREAM, 0600, &e);
    assert_true(l >= 0);
    (void)close(l);
    path[107] = 'p';
    path[108] = '\0';
    assert_int_equal(wire_listen(path, SOCK_STREAM, 0600, &e), -1);
    assert_string_equal(e.code, "socket_path");
    assert_int_equal(wire_connect(path, SOCK_STREAM, NULL), -1);
    assert_int_equal(wire_listen("", SOCK_STREAM, 0600, NULL), -1);
    assert_int_equal(wire_connect("", SOCK_STREAM, NULL), -1);
}

static void errors_travel(void **state)
{
    struct err e = ERR_INIT, back = ERR_INIT;
    json_t *o = json_object();

    (void)state;
    (void)err_sys(&e, ERR_SLURM, 2015, "slurm_refused", "submit \xc3\xa9");
    (void)err_at(&e, "/params/x");
    assert_int_equal(wire_err_put(o, "error", &e), 0);
    assert_int_equal(wire_err_get(o, "error", &back), 0);
    assert_memory_equal(&back.class, &e.class, sizeof(e.class));
    assert_int_equal(back.sys, 2015);
    assert_string_equal(back.code, e.code);
    assert_string_equal(back.text, e.text);
    assert_string_equal(back.pointer, e.pointer);
    json_decref(o);
}

/* The fullest err must fit through the getters. */
static void the_fullest_error_travels(void **state)
{
    struct err e = ERR_INIT, back = ERR_INIT;
    json_t *o = json_object();
    char big[2 * ERR_TEXT_MAX];

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    (void)err_set(&e, ERR_LIMITED, big, "%s", big);
    (void)err_at(&e, big);
    e.sys = INT32_MIN;
    assert_int_equal(wire_err_put(o, "error", &e), 0);
    assert_int_equal(wire_err_get(o, "error", &back), 0);
    assert_string_equal(back.text, e.text);
    assert_string_equal(back.code, e.code);
    assert_string_equal(back.pointer, e.pointer);
    assert_int_equal(back.sys, INT32_MIN);
    json_decref(o);
}

static void no_error_is_null(void **state)
{
    struct err e = ERR_INIT, back = ERR_INIT;
    json_t *o = json_object();

    (void)state;
    assert_int_equal(wire_err_put(o, "error", &e), 0);
    assert_true(json_is_null(json_object_get(o, "error")));
    (void)err_nomem(&back);
    assert_int_equal(wire_err_get(o, "error", &back), 0);
    assert_false(err_is_set(&back));
    assert_int_equal(wire_err_get(o, "absent", &back), 0);
    assert_false(err_is_set(&back));
    json_decref(o);
}

static void malformed_errors(void **state)
{
    static const char *const texts[] = {
        "{\"e\":1}",
        "{\"e\":{}}",
        "{\"e\":{\"class\":\"denied\"}}",
        "{\"e\":{\"class\":1,\"code\":\"c\",\"text\":\"t\",\"pointer\":\"\","
        "\"sys\":0}}",
        "{\"e\":{\"class\":\"denied\",\"code\":\"c\",\"text\":\"t\","
        "\"pointer\":\"\",\"sys\":99999999999}}",
        "{\"e\":{\"class\":\"denied\",\"code\":\"c\",\"text\":\"t\","
        "\"pointer\":\"\",\"sys\":0,\"more\":1}}",
        "{\"e\":{\"class\":\"denied\",\"code\":\"0123456789012345678901234567"
        "8901234567890123456789\",\"text\":\"t\",\"pointer\":\"\",\"sys\":0}}",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *o = json_parse(texts[i], strlen(texts[i]), 4096, NULL);
        struct err out = ERR_INIT;

        assert_non_null(o);
        assert_int_equal(wire_err_get(o, "e", &out), -1);
        assert_int_equal(out.class, ERR_INTERNAL);
        assert_string_equal(out.code, "wire_frame");
        json_decref(o);
    }
}

/* An unknown class word is an error of the inside, never "no error". */
static void unknown_class_is_internal(void **state)
{
    static const char text[] = "{\"e\":{\"class\":\"none\",\"code\":\"c\","
                               "\"text\":\"t\",\"pointer\":\"\",\"sys\":0}}";
    json_t *o = json_parse(text, strlen(text), 4096, NULL);
    struct err out = ERR_INIT;

    (void)state;
    assert_int_equal(wire_err_get(o, "e", &out), 0);
    assert_true(err_is_set(&out));
    assert_int_equal(out.class, ERR_INTERNAL);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(pair_is_cloexec_and_nonblocking),
        cmocka_unit_test(descriptors_travel),
        cmocka_unit_test(bad_frames_are_refused),
        cmocka_unit_test(too_many_descriptors),
        cmocka_unit_test(cut_frames_are_refused),
        cmocka_unit_test(frame_maximum),
        cmocka_unit_test(only_frames_of_ours_are_sent),
        cmocka_unit_test(orderly_end),
        cmocka_unit_test(end_by_shutdown),
        cmocka_unit_test(closed_peer),
        cmocka_unit_test(nothing_in_time),
        cmocka_unit_test(full_socket),
        cmocka_unit_test(signals_do_not_disturb),
        cmocka_unit_test(listen_and_connect),
        cmocka_unit_test(peer_of_nobody),
        cmocka_unit_test(live_socket_is_not_taken),
        cmocka_unit_test(dead_socket_is_replaced),
        cmocka_unit_test(other_files_are_left_alone),
        cmocka_unit_test(path_length),
        cmocka_unit_test(errors_travel),
        cmocka_unit_test(the_fullest_error_travels),
        cmocka_unit_test(no_error_is_null),
        cmocka_unit_test(malformed_errors),
        cmocka_unit_test(unknown_class_is_internal),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
