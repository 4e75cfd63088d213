/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/identity.h"

#include "broker/proto.h"
#include "broker/spawn/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors are first moved above this, then down to their places, so that
 * no dup2 hits one that is still needed. */
enum { FD_ASIDE = 64, FD_STATUS = 5, EXIT_NOT_STARTED = 127 };

static int become(const struct child_spec *s)
{
    if (!s->identity || (s->uid == geteuid() && s->gid == getegid()))
        return 0;
    if (setgroups(s->ngroups, s->groups) != 0)
        return IDENTITY_GROUPS;
    if (setresgid(s->gid, s->gid, s->gid) != 0)
        return IDENTITY_GID;
    if (setresuid(s->uid, s->uid, s->uid) != 0)
        return IDENTITY_UID;
    return 0;
}

static bool ids_are(uid_t uid, gid_t gid)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;

    return getresuid(&r, &e, &s) == 0 && r == uid && e == uid && s == uid &&
           getresgid(&rg, &eg, &sg) == 0 && rg == gid && eg == gid && sg == gid;
}

/* Regaining is tried, and must fail. back: the spawner's own ids. */
static bool is_irreversible(uid_t back, gid_t back_gid)
{
    uid_t uid = getuid();
    gid_t gid = getgid();

    if (uid == 0 || gid == 0 || !ids_are(uid, gid))
        return false;
    if (back != uid && setresuid(back, back, back) == 0)
        return false;
    if (back_gid != gid && setresgid(back_gid, back_gid, back_gid) == 0)
        return false;
    if (setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0 ||
        setgroups(0, NULL) == 0)
        return false;
    return ids_are(uid, gid);
}

/* PDEATHSIG is cleared by a change of uid, so it comes after it; the parent may
 * have died before it was set. */
static bool dies_with(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           getppid() == parent;
}

static int take_identity(const struct child_spec *s, pid_t parent)
{
    uid_t back = geteuid();
    gid_t back_gid = getegid();
    int failed = become(s);

    if (failed != 0)
        return failed;
    if (caps_drop_all() != 0)
        return IDENTITY_CAPS;
    if ((s->identity && !ids_are(s->uid, s->gid)) ||
        !is_irreversible(back, back_gid) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return IDENTITY_PROOF;
    return dies_with(parent) ? 0 : IDENTITY_PARENT;
}

static void default_signals(void)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &dfl, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int surroundings(void)
{
    static const struct rlimit no_core = {0, 0};

    default_signals();
    (void)umask(077);
    if (setsid() < 0 || chdir("/") != 0 ||
        setrlimit(RLIMIT_CORE, &no_core) != 0)
        return -1;
    return 0;
}

struct move {
    int from, to, flags;
};

static int place(struct move *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (v[i].from < 0)
            continue;
        v[i].from = fcntl(v[i].from, F_DUPFD_CLOEXEC, FD_ASIDE);
        if (v[i].from < 0)
            return -1;
    }
    for (i = 0; i < n; i++) {
        if (v[i].from < 0)
            (void)close(v[i].to);
        else if (dup3(v[i].from, v[i].to, v[i].flags) < 0)
            return -1;
    }
    return 0;
}

/* The status pipe is at FD_STATUS after this, even where it failed: *status. */
static int descriptors(const struct child_spec *s, int *status, int err_fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct move v[] = {
        {s->in >= 0 ? s->in : null, STDIN_FILENO, 0},
        {s->out >= 0 ? s->out : null, STDOUT_FILENO, 0},
        {err_fd, STDERR_FILENO, 0},
        {s->control, PROTO_FD_CONTROL, 0},
        {s->catalog, PROTO_FD_CATALOG, 0},
        {*status, FD_STATUS, O_CLOEXEC},
    };
    size_t n = sizeof(v) / sizeof(v[0]);

    if (null < 0)
        return -1;
    if (place(v, n) != 0) {
        *status = v[n - 1].from >= 0 ? v[n - 1].from : *status;
        return -1;
    }
    *status = FD_STATUS;
    return close_range(FD_STATUS + 1, ~0U, 0);
}

static void report(int status, int step, int sys)
{
    struct identity_report r = {step, sys};

    (void)!write(status, &r, sizeof(r));
}

static void give_up(int status, int step) __attribute__((noreturn));
static void give_up(int status, int step)
{
    report(status, step, errno);
    _exit(EXIT_NOT_STARTED);
}

/* execve(2) takes char *const *, and changes nothing. */
union words {
    const char *const *given;
    char *const *wanted;
};

void identity_exec(const struct child_spec *s, const char *const *env,
                   pid_t parent, int status, int err_fd)
{
    union words argv = {s->argv}, envp = {env};
    int failed;

    if (surroundings() != 0)
        give_up(status, IDENTITY_BEGIN);
    failed = take_identity(s, parent);
    if (failed != 0)
        give_up(status, failed);
    report(status, IDENTITY_TAKEN, 0);
    if (descriptors(s, &status, err_fd) != 0)
        give_up(status, IDENTITY_FDS);
    (void)execve(s->path, argv.wanted, envp.wanted);
    give_up(status, IDENTITY_EXEC);
}
