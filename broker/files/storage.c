/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/files/storage.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOUNTINFO_MAX = 4 * 1024 * 1024, READ_BYTES = 16 * 1024 };

/* A file of /proc has no size to trust: read to its end. Owned, or NULL. */
static char *read_mountinfo(void)
{
    struct buf b;
    char piece[READ_BYTES];
    ssize_t n = 0;
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

    buf_init(&b, MOUNTINFO_MAX);
    while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
        (void)buf_add(&b, piece, (size_t)n);
    if (fd >= 0)
        (void)close(fd);
    if (fd >= 0 && n == 0 && buf_ok(&b))
        return buf_take(&b, NULL);
    buf_clear(&b);
    return NULL;
}

static bool word_is(const char *p, size_t n, const char *word, size_t word_len)
{
    return n == word_len && memcmp(p, word, n) == 0;
}

/* "ID PARENT MAJ:MIN ROOT POINT OPTIONS [OPTIONAL]... - TYPE SOURCE SUPER" */
static bool line_matches(const char *line, size_t len, unsigned long id,
                         const char *type, size_t type_len, const char *source)
{
    const char *end = line + len, *dash;
    size_t n;

    if (strtoul(line, NULL, 10) != id)
        return false;
    dash = memmem(line, len, " - ", 3);
    if (dash == NULL)
        return false;
    dash += 3;
    n = strcspn(dash, " \n");
    if (dash + n >= end || !word_is(dash, n, type, type_len))
        return false;
    dash += n + 1;
    return word_is(dash, strcspn(dash, " \n"), source, strlen(source));
}

int storage_matches(const char *mountinfo, unsigned long id, const char *type,
                    size_t type_len, const char *source)
{
    while (*mountinfo != '\0') {
        size_t n = strcspn(mountinfo, "\n");

        if (line_matches(mountinfo, n, id, type, type_len, source))
            return 1;
        mountinfo += n + (mountinfo[n] == '\n' ? 1 : 0);
    }
    return 0;
}

int storage_check(int fd, const char *kind, struct err *e)
{
    const char *type = kind == NULL ? NULL : strchr(kind, ':');
    const char *source = type == NULL ? NULL : strchr(type + 1, ':');
    struct statx st;
    char *text;
    int same;

    if (type == NULL || source == NULL)
        return 0; /* a directory: the marker is what proves it */
    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) != 0 ||
        (st.stx_mask & STATX_MNT_ID) == 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "storage_kind",
                       "this kernel does not tell mounts apart");
    text = read_mountinfo();
    same = text != NULL &&
           storage_matches(text, (unsigned long)st.stx_mnt_id, type + 1,
                           (size_t)(source - type - 1), source + 1);
    free(text);
    if (same)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "storage_kind",
                   "the jobs folder is not on the file system that it should "
                   "be on: is the share mounted?");
}
