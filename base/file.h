/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Files: whole reads with caps, atomic durable writes, and the ownership checks
 * for configuration, keys and templates. Thread rule: any thread.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Whole regular file below dirfd (AT_FDCWD allowed), O_NOFOLLOW; NUL is added
 * after the last byte. Owned (free()). Errors: ERR_CONFIG file_open file_type
 * file_too_large file_read; the text names the path (file_read only). */
char *file_read(int dirfd, const char *path, size_t max_bytes, size_t *len,
                struct err *e);
/* Same from an open descriptor, from offset 0. */
char *file_read_fd(int fd, size_t max_bytes, size_t *len, struct err *e);

/* tmp + fsync + rename + fsync(dir). mode exact; owner/group -1: as is. Errors:
 * "file_write", ERR_INTERNAL or (disk full, quota, read-only) ERR_UNAVAILABLE;
 * the old file then stands as it was and no tmp is left, except after a failed
 * fsync(dir): the new content is in place and may not survive a crash. */
int file_write(int dirfd, const char *path, const void *p, size_t n,
               mode_t mode, uid_t owner, gid_t group, struct err *e);

/* 0 or -1/errno (EAGAIN too: it does not wait). */
int file_write_all(int fd, const void *p, size_t n);

/* Config rule: the file, and every parent directory up to '/', must be owned
 * by root (or by `also`, (uid_t)-1 for none) and writable by nobody else; a
 * root-owned sticky directory is an acceptable parent. secret: no group/other
 * bits at all except group read when group_read. Links are walked by hand: the
 * link's owner and every folder it leads through are held to the same rule.
 * The leaf may be of any type. Errors: ERR_CONFIG config_owner config_mode
 * config_parent, file_open when a part is absent; text names the path. */
int file_check_trusted(const char *path, uid_t also, bool secret,
                       bool group_read, struct err *e);

/* openat2(2) with RESOLVE_BENEATH|NO_SYMLINKS|NO_MAGICLINKS|NO_XDEV; O_CLOEXEC
 * is always set; mode counts with O_CREAT and O_TMPFILE. -1 and errno. */
int file_openat_beneath(int dirfd, const char *path, int flags, mode_t mode);

int file_cloexec_others(int lowest_fd); /* close_range(lowest, ~0, CLOEXEC) */

#endif
