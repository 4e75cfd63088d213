/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/isolation.h"

#include "base/file.h"
#include "base/wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLURM_CONF_MAX = 4 * 1024 * 1024 };

static int check_no_capability(struct err *e)
{
    size_t n = 0;
    char *status = file_read(AT_FDCWD, "/proc/self/status", 64 * 1024, &n, e);
    const char *line = status == NULL ? NULL : strstr(status, "\nCapPrm:");
    int rc = 0;

    if (line == NULL || strspn(line + 8, " \t0") < strcspn(line + 8, "\n"))
        rc = err_set(e, ERR_CONFIG, "isolation_capability",
                     "sluiced must hold no capability");
    free(status);
    return rc;
}

static int check_uid(const struct config *c, struct err *e)
{
    uid_t want = c->accounts.sluice_uid;

    if (geteuid() == 0)
        return err_set(e, ERR_CONFIG, "isolation_uid",
                       "sluiced does not run as root");
    if (!c->self_mode && geteuid() != want)
        return err_set(e, ERR_CONFIG, "isolation_uid", "sluiced must run as %s",
                       c->accounts.sluice);
    return 0;
}

static int refuse_socket(const char *path, struct err *e)
{
    int fd = wire_connect(path, SOCK_STREAM, NULL);

    if (fd < 0)
        return 0;
    close(fd);
    return err_set(e, ERR_CONFIG, "isolation_munge",
                   "a munge socket can be reached: hide it from sluiced "
                   "(InaccessiblePaths= or a private mount namespace)");
}

/* The path after "socket=" in a line of slurm.conf. NULL at the end. */
static const char *next_socket(const char *text, char *path, size_t size)
{
    const char *p = strstr(text, "socket=");
    size_t n;

    if (p == NULL)
        return NULL;
    p += strlen("socket=");
    n = strcspn(p, ", \t\r\n\"");
    if (n < size) {
        memcpy(path, p, n);
        path[n] = '\0';
    } else {
        path[0] = '\0';
    }
    return p + n;
}

static int check_munge(const struct config *c, struct err *e)
{
    char path[108];
    size_t n = 0;
    char *text =
        file_read(AT_FDCWD, c->cluster.slurm_conf, SLURM_CONF_MAX, &n, NULL);
    const char *at = text;
    int rc = refuse_socket("/run/munge/munge.socket.2", e);

    while (rc == 0 && at != NULL) {
        at = next_socket(at, path, sizeof(path));
        if (at != NULL && path[0] == '/')
            rc = refuse_socket(path, e);
    }
    free(text);
    return rc;
}

static int no_core(struct err *e)
{
    const struct rlimit none = {0, 0};

    if (prctl(PR_SET_DUMPABLE, 0) == 0 && setrlimit(RLIMIT_CORE, &none) == 0 &&
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        return 0;
    return err_set(e, ERR_CONFIG, "isolation_core", "cannot forbid core dumps");
}

int isolation_check(const struct config *c, struct err *e)
{
    if (no_core(e) < 0 || check_uid(c, e) < 0)
        return -1;
    if (c->self_mode)
        return 0;
    if (check_no_capability(e) < 0)
        return -1;
    return check_munge(c, e);
}
