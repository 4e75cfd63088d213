/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif

enum { TMP_NAME_MAX = NAME_MAX + 1, LINKS_MAX = 40 };

static int read_fully(int fd, char *p, size_t want, size_t *got)
{
    ssize_t r;

    *got = 0;
    while (*got < want) {
        r = pread(fd, p + *got, want - *got, (off_t)*got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -1;
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return 0;
}

static int too_large(size_t max_bytes, struct err *e)
{
    return err_set(e, ERR_CONFIG, "file_too_large",
                   "the file has more than %zu bytes", max_bytes);
}

/* The bytes that a regular file may have: its size, or the maximum where no
 * size is told (/proc says 0). */
static int check_size(int fd, size_t max_bytes, size_t *room, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return err_sys(e, ERR_CONFIG, errno, "file_read", "fstat");
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_CONFIG, "file_type", "not a regular file");
    if ((uintmax_t)st.st_size > max_bytes)
        return too_large(max_bytes, e);
    *room = st.st_size > 0 ? (size_t)st.st_size : max_bytes;
    return 0;
}

char *file_read_fd(int fd, size_t max_bytes, size_t *len, struct err *e)
{
    size_t room = 0, got = 0;
    char *p;

    if (check_size(fd, max_bytes, &room, e) != 0)
        return NULL;
    p = malloc(room + 1);
    if (p == NULL)
        (void)err_nomem(e);
    else if (read_fully(fd, p, room + 1, &got) != 0)
        (void)err_sys(e, ERR_CONFIG, errno, "file_read", "read");
    else if (got > room && room == max_bytes)
        (void)too_large(max_bytes, e);
    else if (got > room) /* the byte too many tells */
        (void)err_set(e, ERR_CONFIG, "file_read", "it grew meanwhile");
    else
        goto done;
    free(p);
    return NULL;
done:
    p[got] = '\0';
    if (len != NULL)
        *len = got;
    return p;
}

char *file_read(int dirfd, const char *path, size_t max_bytes, size_t *len,
                struct err *e)
{
    struct err inner = ERR_INIT;
    char *p;
    /* O_NONBLOCK: a FIFO must not hang us before its type is seen. */
    int fd = openat(dirfd, path,
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        (void)err_sys(e, ERR_CONFIG, errno, "file_open", "%s", path);
        return NULL;
    }
    p = file_read_fd(fd, max_bytes, len, &inner);
    (void)close(fd);
    if (p == NULL && !err_is_set(e) && e != NULL) {
        (void)err_set(e, inner.class, inner.code, "%s: %s", path, inner.text);
        e->sys = inner.sys;
    }
    return p;
}

int file_write_all(int fd, const void *p, size_t n)
{
    const char *at = p;
    ssize_t w;

    while (n > 0) {
        w = write(fd, at, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -1;
        if (w == 0) {
            errno = EIO;
            return -1;
        }
        at += w;
        n -= (size_t)w;
    }
    return 0;
}

static int write_failed(struct err *e, int sys, const char *doing)
{
    bool full = sys == ENOSPC || sys == EDQUOT || sys == EROFS;

    return err_sys(e, full ? ERR_UNAVAILABLE : ERR_INTERNAL, sys, "file_write",
                   "%s", doing);
}

/* The directory that holds path; *base points into path. */
static int open_parent(int dirfd, const char *path, const char **base,
                       struct err *e)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    size_t n;
    int fd;

    *base = slash == NULL ? path : slash + 1;
    n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    if (**base == '\0' || n >= sizeof(dir) - 1)
        return write_failed(e, EINVAL, "file name");
    memcpy(dir, n == 0 ? "." : path, n == 0 ? 1 : n);
    dir[n == 0 ? 1 : n] = '\0';
    fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return write_failed(e, errno, "open the folder");
    return fd;
}

static int tmp_name(const char *base, char *tmp, struct err *e)
{
    uint64_t r = 0;
    int n;

    if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return write_failed(e, errno, "getrandom");
    n = snprintf(tmp, TMP_NAME_MAX, ".%s.%016" PRIx64 ".tmp", base, r);
    if (n < 0 || n >= TMP_NAME_MAX)
        return write_failed(e, ENAMETOOLONG, "file name");
    return 0;
}

/* chmod after chown (which clears set-id bits), both before the content can
 * be seen under its name. */
static int fill(int fd, const void *p, size_t n, mode_t mode, uid_t owner,
                gid_t group, struct err *e)
{
    if (file_write_all(fd, p, n) != 0)
        return write_failed(e, errno, "write");
    if ((owner != (uid_t)-1 || group != (gid_t)-1) &&
        fchown(fd, owner, group) != 0)
        return write_failed(e, errno, "chown");
    if (fchmod(fd, mode) != 0)
        return write_failed(e, errno, "chmod");
    if (fsync(fd) != 0)
        return write_failed(e, errno, "fsync");
    return 0;
}

int file_write(int dirfd, const char *path, const void *p, size_t n,
               mode_t mode, uid_t owner, gid_t group, struct err *e)
{
    char tmp[TMP_NAME_MAX] = "";
    int dir = -1, fd = -1, r = -1;
    const char *base;

    dir = open_parent(dirfd, path, &base, e);
    if (dir < 0 || tmp_name(base, tmp, e) != 0)
        goto out;
    fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0) {
        (void)write_failed(e, errno, "create");
        goto out;
    }
    if (fill(fd, p, n, mode, owner, group, e) != 0)
        goto out;
    if (renameat(dir, tmp, dir, base) != 0) {
        (void)write_failed(e, errno, "rename");
        goto out;
    }
    tmp[0] = '\0';
    if (fsync(dir) != 0)
        (void)write_failed(e, errno, "fsync of the folder");
    else
        r = 0;
out:
    if (fd >= 0) {
        if (tmp[0] != '\0')
            (void)unlinkat(dir, tmp, 0);
        (void)close(fd);
    }
    if (dir >= 0)
        (void)close(dir);
    return r;
}

/* --- trusted paths ------------------------------------------------------ */

struct rule {
    uid_t also;
    bool secret, group_read;
    struct err *e;
};

/* A path on its way to the root-to-leaf check: `done` has no links any more,
 * `rest` is still to be walked. */
struct walk {
    char done[PATH_MAX], rest[PATH_MAX];
    int links;
};

static int refuse(const struct rule *r, const char *code, const char *path,
                  const char *why)
{
    return err_set(r->e, ERR_CONFIG, code, "%s: %s", path, why);
}

static bool owner_ok(const struct rule *r, const struct stat *st)
{
    return st->st_uid == 0 || (r->also != (uid_t)-1 && st->st_uid == r->also);
}

static int check_parent(const struct rule *r, const char *path,
                        const struct stat *st)
{
    bool sticky = st->st_uid == 0 && (st->st_mode & S_ISVTX) != 0;

    if (!S_ISDIR(st->st_mode))
        return refuse(r, "config_parent", path, "not a folder");
    if (!owner_ok(r, st))
        return refuse(r, "config_parent", path, "a folder of a wrong owner");
    if ((st->st_mode & 022) != 0 && !sticky)
        return refuse(r, "config_parent", path,
                      "a folder that others may write");
    return 0;
}

static int check_leaf(const struct rule *r, const char *path,
                      const struct stat *st)
{
    mode_t hidden = r->group_read ? 037 : 077;

    if (!owner_ok(r, st))
        return refuse(r, "config_owner", path, "a wrong owner");
    if ((st->st_mode & 022) != 0)
        return refuse(r, "config_mode", path, "others may write it");
    if (r->secret && (st->st_mode & hidden) != 0)
        return refuse(r, "config_mode", path, "others may read it");
    return 0;
}

/* Cut the first component of w->rest off into name. false: none is left. */
static bool next_name(struct walk *w, char *name)
{
    char *p = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(p, "/");

    if (n == 0 || n > NAME_MAX)
        return false;
    memcpy(name, p, n);
    name[n] = '\0';
    p += n;
    p += strspn(p, "/");
    memmove(w->rest, p, strlen(p) + 1);
    return true;
}

/* A link: whoever owns it or its folder says where it goes; its folder has
 * been checked, so its owner remains. */
static int follow(const struct rule *r, struct walk *w, const char *link,
                  const struct stat *st)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n;
    int k;

    if (!owner_ok(r, st))
        return refuse(r, "config_parent", link, "a link of a wrong owner");
    n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0 || ++w->links > LINKS_MAX)
        return refuse(r, "config_parent", link, "a link that can't be read");
    target[n] = '\0';
    if (target[0] == '/')
        w->done[0] = '\0';
    k = snprintf(rest, sizeof(rest), "%s/%s", target, w->rest);
    if (k < 0 || (size_t)k >= sizeof(rest))
        return refuse(r, "config_parent", link, "the path is too long");
    memcpy(w->rest, rest, (size_t)k + 1);
    return 0;
}

static void drop_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

/* 1: more to walk; 0: the end was reached and is fine; -1: refused. */
static int step(const struct rule *r, struct walk *w, const char *name)
{
    char here[PATH_MAX];
    struct stat st;
    int k;

    if (strcmp(name, ".") == 0)
        return 1;
    if (strcmp(name, "..") == 0) {
        drop_last(w->done);
        return 1;
    }
    k = snprintf(here, sizeof(here), "%s/%s", w->done, name);
    if (k < 0 || (size_t)k >= sizeof(here))
        return refuse(r, "config_parent", name, "the path is too long");
    if (lstat(here, &st) != 0)
        return err_sys(r->e, ERR_CONFIG, errno, "file_open", "%s", here);
    if (S_ISLNK(st.st_mode))
        return follow(r, w, here, &st) == 0 ? 1 : -1;
    if (w->rest[0] == '\0')
        return check_leaf(r, here, &st);
    memcpy(w->done, here, (size_t)k + 1);
    return check_parent(r, here, &st) == 0 ? 1 : -1;
}

static int start_walk(struct walk *w, const char *path)
{
    char cwd[PATH_MAX] = "";
    int k;

    memset(w, 0, sizeof(*w));
    if (path[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
        return -1;
    k = snprintf(w->rest, sizeof(w->rest), "%s/%s", cwd, path);
    return k < 0 || (size_t)k >= sizeof(w->rest) ? -1 : 0;
}

int file_check_trusted(const char *path, uid_t also, bool secret,
                       bool group_read, struct err *e)
{
    struct rule r = {also, secret, group_read, e};
    char name[NAME_MAX + 1];
    struct stat root;
    struct walk w;
    int more = 1;

    if (start_walk(&w, path) != 0)
        return refuse(&r, "config_parent", path, "no usable path");
    if (stat("/", &root) != 0)
        return err_sys(e, ERR_CONFIG, errno, "file_open", "/");
    if (check_parent(&r, "/", &root) != 0)
        return -1;
    while (more == 1) {
        if (!next_name(&w, name))
            return refuse(&r, "config_parent", path, "no file is named");
        more = step(&r, &w, name);
    }
    return more;
}

int file_openat_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
    struct open_how how;

    memset(&how, 0, sizeof(how));
    how.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC);
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
        how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                  RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

int file_cloexec_others(int lowest_fd)
{
    return (int)syscall(SYS_close_range, (unsigned)lowest_fd, ~0U,
                        CLOSE_RANGE_CLOEXEC);
}
