/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/survivors.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 1,024 workers of at most 64 bytes a line. */
enum { FILE_MAX = 64 * 1024, BOOT_LEN = 36, STAT_MAX = 1024 };

struct survivors {
    const char *file;
    struct buf text;
};

static ssize_t read_small(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t r;

    if (fd < 0)
        return -1;
    r = read(fd, out, n - 1);
    (void)close(fd);
    out[r > 0 ? r : 0] = '\0';
    return r;
}

static void boot_id(char *out /* BOOT_LEN + 1 */)
{
    char text[64];

    (void)memset(out, '-', BOOT_LEN);
    out[BOOT_LEN] = '\0';
    if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)) >=
        BOOT_LEN)
        memcpy(out, text, BOOT_LEN);
}

/* The name in field 2 may hold anything: fields are counted after its last
 * parenthesis. */
uint64_t survivors_starttime(pid_t pid)
{
    char path[32], text[STAT_MAX], *p, *end;
    int64_t v;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (read_small(path, text, sizeof(text)) <= 0)
        return 0;
    p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p == NULL)
        return 0;
    end = strchr(++p, ' ');
    if (end != NULL)
        *end = '\0';
    return num_parse(p, 0, INT64_MAX, &v) == 0 ? (uint64_t)v : 0;
}

struct survivors *survivors_begin(const char *file)
{
    struct survivors *s = calloc(1, sizeof(*s));
    char boot[BOOT_LEN + 1];

    if (s == NULL)
        return NULL;
    s->file = file;
    buf_init(&s->text, FILE_MAX);
    boot_id(boot);
    (void)buf_printf(&s->text, "%s\n", boot);
    return s;
}

void survivors_add(struct survivors *s, pid_t pid, uint64_t starttime,
                   const char *what)
{
    if (s != NULL)
        (void)buf_printf(&s->text, "%d %llu %s\n", (int)pid,
                         (unsigned long long)starttime, what);
}

static int replace_file(const struct survivors *s)
{
    char tmp[300];
    int fd, r, k = snprintf(tmp, sizeof(tmp), "%s.new", s->file);

    if (k < 0 || (size_t)k >= sizeof(tmp) || !buf_ok(&s->text)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    r = file_write_all(fd, s->text.data, s->text.len);
    if (close(fd) != 0 || r != 0)
        return -1;
    return rename(tmp, s->file);
}

void survivors_commit(struct survivors *s)
{
    struct err e = ERR_INIT;

    if (s == NULL || replace_file(s) != 0) {
        (void)err_sys(&e, ERR_UNAVAILABLE, errno, "survivors_file",
                      "the list of workers can't be written");
        log_err("workers_file", NULL, &e);
    }
    if (s != NULL)
        buf_clear(&s->text);
    free(s);
}

/* pidfd of a process that is still the one that was written, or -1. */
static int open_same(pid_t pid, uint64_t starttime)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0)
        return -1;
    if (starttime == 0 || survivors_starttime(pid) != starttime) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static bool end_one(pid_t pid, uint64_t starttime, int64_t deadline)
{
    int fd = open_same(pid, starttime);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool gone;

    if (fd < 0)
        return true;
    log_event(LOG_WARN_, "survivor_killed", NULL, NULL);
    (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    (void)kill(-pid, SIGKILL);
    gone = poll(&p, 1, clock_left_ms(deadline)) > 0;
    (void)close(fd);
    return gone;
}

/* One line "pid starttime what"; anything else is skipped. */
static bool end_line(char *line, int64_t deadline)
{
    char *second = strchr(line, ' '), *third;
    int64_t pid, start;

    if (second == NULL)
        return true;
    *second++ = '\0';
    third = strchr(second, ' ');
    if (third != NULL)
        *third = '\0';
    if (num_parse(line, 2, INT32_MAX, &pid) != 0 ||
        num_parse(second, 0, INT64_MAX, &start) != 0)
        return true;
    return end_one((pid_t)pid, (uint64_t)start, deadline);
}

int survivors_end(const char *file, int wait_ms, size_t *left, struct err *e)
{
    int64_t deadline = clock_mono_ms() + wait_ms;
    char boot[BOOT_LEN + 1], *text, *line, *next;
    size_t len;

    *left = 0;
    if (access(file, F_OK) != 0)
        return 0;
    text = file_read(AT_FDCWD, file, FILE_MAX, &len, e);
    if (text == NULL)
        return -1;
    boot_id(boot);
    if (strncmp(text, boot, BOOT_LEN) == 0) {
        for (line = strchr(text, '\n'); line != NULL; line = next) {
            next = strchr(++line, '\n');
            if (next != NULL)
                *next = '\0';
            if (!end_line(line, deadline))
                (*left)++;
        }
    }
    free(text);
    return 0;
}
