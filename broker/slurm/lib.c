/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/lib.h"

#include "base/log.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/errors.h"
#include "broker/slurm/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RAW_MAX = 4096 };

static const char default_conf[] = "/etc/slurm/slurm.conf";

static int memory = -1; /* what libslurm writes */
static int real_stderr = -1;
static bool listening, ready;

static void capture_new(void)
{
    memory = memfd_create("libslurm-stderr", MFD_CLOEXEC);
}

void lib_listen(void)
{
    int sys = errno;

    if (memory < 0)
        capture_new();
    if (real_stderr < 0)
        real_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    if (memory >= 0 && real_stderr >= 0 && !listening &&
        ftruncate(memory, 0) == 0 && lseek(memory, 0, SEEK_SET) == 0 &&
        dup2(memory, STDERR_FILENO) >= 0)
        listening = true;
    errno = sys;
}

/* The end of what was written. */
static size_t read_raw(char *raw)
{
    off_t size = lseek(memory, 0, SEEK_END);
    off_t from = size > RAW_MAX ? size - RAW_MAX : 0;
    ssize_t n = pread(memory, raw, RAW_MAX, from);

    return n > 0 ? (size_t)n : 0;
}

void lib_heard(char *out)
{
    char raw[RAW_MAX];
    int sys = errno;

    out[0] = '\0';
    if (listening) {
        (void)dup2(real_stderr, STDERR_FILENO);
        listening = false;
        words_said(raw, read_raw(raw), out, LIB_SAID_MAX);
    }
    errno = sys;
}

/* fatal() inside libslurm is exit(1): its last words must not be lost. */
static void at_exit(void)
{
    char said[LIB_SAID_MAX];

    if (!listening)
        return;
    lib_heard(said);
    log_event(LOG_ERROR_, "libslurm_exit", NULL, "said", said, NULL);
}

void lib_forked(void)
{
    memory = -1; /* closed, or shared with the parent */
    real_stderr = -1;
    listening = false;
}

int lib_error(struct err *e, int code, bool sent, const char *said)
{
    return errors_set(e, code, sent, slurm_strerror(code), said);
}

static int check_conf(struct err *e)
{
    const char *path = getenv("SLURM_CONF");
    struct stat st;

    if (path == NULL || path[0] == '\0')
        path = default_conf;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_UNAVAILABLE, "slurm_conf_missing",
                       "slurm.conf can't be found");
    return 0;
}

static int check_version(struct err *e)
{
    long soname = slurm_api_version() >> 16;

    if (soname != SC_SONAME)
        return err_set(e, ERR_CONFIG, "slurm_version",
                       "this program was built for libslurm %d and finds %ld",
                       SC_SONAME, soname);
    return 0;
}

int lib_init(struct err *e)
{
    char said[LIB_SAID_MAX];

    if (ready)
        return 0;
    if (check_conf(e) != 0 || check_version(e) != 0)
        return -1;
    /* Any of these would switch identity or cluster behind our back. */
    (void)unsetenv("SLURM_JWT");
    (void)unsetenv("SLURM_CLUSTERS");
    (void)unsetenv("SLURM_WORKING_CLUSTER");
    if (atexit(at_exit) != 0)
        return err_nomem(e);
    lib_listen();
    slurm_init(NULL);
    lib_heard(said);
    ready = true;
    return 0;
}
