/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/files/run.h"

#include "base/file.h"
#include "broker/files/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char default_marker[] = ".sluice-jobs-root";

enum {
    FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
    FILE_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC,
    MODE_BITS = 07777
};

void run_init(struct run *n)
{
    *n = (struct run){-1, -1, -1, -1, false};
}

static void shut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void run_clear(struct run *n)
{
    shut(&n->results_fd);
    shut(&n->run_fd);
    shut(&n->account_fd);
    shut(&n->root_fd);
}

/* Root's, or (self mode) ours; writable by nobody else. */
static bool trusted(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) &&
           (st->st_mode & 022) == 0;
}

static int open_root(struct run *n, const struct worker_site *site,
                     struct err *e)
{
    const char *marker = site->marker != NULL ? site->marker : default_marker;
    struct stat st;

    /* The configured path itself may contain a symlink: root wrote it. */
    n->root_fd = open(site->jobs_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (n->root_fd < 0 || fstat(n->root_fd, &st) != 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "storage_missing",
                       "the jobs folder can't be opened");
    if (!trusted(&st))
        return err_set(e, ERR_UNAVAILABLE, "storage_mode",
                       "the jobs folder can be written by others");
    if (fstatat(n->root_fd, marker, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode) || !trusted(&st))
        return err_set(e, ERR_UNAVAILABLE, "storage_missing",
                       "the jobs folder carries no marker: is the share "
                       "mounted?");
    return storage_check(n->root_fd, site->kind, e);
}

static bool is_component(const char *s)
{
    return s[0] != '\0' && s[0] != '.' && strchr(s, '/') == NULL;
}

int run_open_account(struct run *n, const struct worker_site *site,
                     const char *account, struct err *e)
{
    struct stat st;
    mode_t mode;

    if (open_root(n, site, e) != 0)
        return -1;
    if (!is_component(account))
        return err_set(e, ERR_INVALID, "account_folder",
                       "not an account's name");
    n->account_fd = file_openat_beneath(n->root_fd, account, FOLDER_FLAGS, 0);
    if (n->account_fd < 0 || fstat(n->account_fd, &st) != 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "account_folder",
                       "this account has no folder for its jobs");
    mode = st.st_mode & MODE_BITS;
    if (st.st_uid != geteuid() || (mode != 0700 && mode != 02750))
        return err_set(e, ERR_UNAVAILABLE, "account_folder",
                       "the account's folder has another owner, or a mode "
                       "that is neither 0700 nor 2750");
    n->shared = mode == 02750;
    return 0;
}

int run_open_folder(int dirfd, const char *path)
{
    struct stat st;
    int fd = file_openat_beneath(dirfd, path, FOLDER_FLAGS, 0);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & 02) == 0)
        return fd;
    shut(&fd);
    return -1;
}

int run_open(struct run *n, const struct worker_site *site, const char *account,
             const char *ulid, struct err *e)
{
    struct stat st;

    if (run_open_account(n, site, account, e) != 0)
        return -1;
    n->run_fd = file_openat_beneath(n->account_fd, ulid, FOLDER_FLAGS, 0);
    if (n->run_fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "run_missing",
                       "the job's folder is gone");
    if (n->run_fd < 0 || fstat(n->run_fd, &st) != 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "run_folder",
                       "the job's folder can't be opened");
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return err_set(e, ERR_UNAVAILABLE, "run_folder",
                       "the job's folder has another owner, or others can "
                       "write it");
    n->results_fd = run_open_folder(n->run_fd, "results");
    return 0;
}

int run_open_file(int dirfd, const char *path, struct stat *st, struct err *e)
{
    int fd = file_openat_beneath(dirfd, path, FILE_FLAGS, 0);

    if (fd < 0)
        return err_sys(e, ERR_NOT_FOUND, errno,
                       errno == ENOENT || errno == ENOTDIR ? "file_missing"
                                                           : "file_refused",
                       "the file can't be opened");
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_nlink == 1 &&
        st->st_uid == geteuid())
        return fd;
    (void)close(fd);
    return err_set(e, ERR_NOT_FOUND, "file_refused",
                   "not a plain file of the job's owner with one name");
}

void run_log_name(char *out, const char *stream, long attempt)
{
    if (attempt == 0)
        (void)snprintf(out, RUN_LOG_NAME_MAX, "%s.log", stream);
    else
        (void)snprintf(out, RUN_LOG_NAME_MAX, "%s.%ld.log", stream, attempt);
}

bool run_is_log_name(const char *name)
{
    size_t n;

    if (strncmp(name, "stdout.", 7) != 0 && strncmp(name, "stderr.", 7) != 0)
        return false;
    name += 7;
    n = strspn(name, "0123456789");
    if (n > 6 || (n > 0 && (name[0] == '0' || name[n] != '.')))
        return false;
    return strcmp(name + (n > 0 ? n + 1 : 0), "log") == 0;
}
