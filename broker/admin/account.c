/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * account add: the folder below jobs_root that an account's run folders lie in
 *. A worker refuses any other owner or mode, and so do we:
 * nothing that is already there is changed.
 */
#include "base/file.h"
#include "broker/admin/admin.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct words {
    const char *user;
    bool group;
};

struct folder {
    const char *name;
    uid_t uid;
    gid_t gid;
    mode_t mode; /* 0700, or 2750 with --group */
};

static error_t parse_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;

    switch (key) {
    case 'g':
        w->group = true;
        return 0;
    case ARGP_KEY_ARG:
        if (w->user != NULL)
            argp_usage(state);
        w->user = arg;
        return 0;
    case ARGP_KEY_END:
        if (w->user == NULL)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int find_user(const struct admin *a, const struct words *w,
                     struct folder *f, struct err *e)
{
    const struct passwd *pw = getpwnam(w->user);
    const struct config *c = &a->cfg;

    if (pw == NULL || strcmp(pw->pw_name, w->user) != 0 ||
        strchr(w->user, '/') != NULL || w->user[0] == '.')
        return err_set(e, ERR_CONFIG, "account_unknown",
                       "there is no account %s", w->user);
    if (c->self_mode && pw->pw_uid != geteuid())
        return err_set(e, ERR_CONFIG, "account_self",
                       "in self mode the one account is the running one");
    if (!c->self_mode &&
        (pw->pw_uid == 0 || (int64_t)pw->pw_uid < c->accounts.min_uid))
        return err_set(e, ERR_CONFIG, "account_uid",
                       "%s has a uid below min_uid", w->user);
    if (!c->self_mode && (pw->pw_uid == c->accounts.sluice_uid ||
                          pw->pw_uid == c->accounts.spawn_uid ||
                          pw->pw_uid == c->accounts.watch_uid))
        return err_set(e, ERR_CONFIG, "account_service",
                       "%s is a service account", w->user);
    *f = (struct folder){w->user, pw->pw_uid, pw->pw_gid,
                         w->group ? 02750 : 0700};
    return 0;
}

/* Root-owned, 0755, and really there: without its marker it may be the empty
 * folder below a share that is not mounted. */
static int open_root(const struct admin *a, struct err *e)
{
    const char *path = a->cfg.jobs.root;
    struct stat st;
    int fd;

    if (file_check_trusted(path, a->cfg.self_mode ? a->owner : (uid_t)-1, false,
                           false, e) != 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        err_sys(e, ERR_CONFIG, errno, "account_root", "folder %s", path);
    else if ((st.st_mode & 07777) != 0755)
        err_set(e, ERR_CONFIG, "account_root", "%s must have mode 0755", path);
    else if (faccessat(fd, a->cfg.jobs.marker, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        err_set(e, ERR_CONFIG, "account_marker",
                "%s has no marker file %s: is the share mounted?", path,
                a->cfg.jobs.marker);
    else
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* 1: as it should be; 0: not there; -1: something else is. */
static int look_at(int root, const struct folder *f, struct err *e)
{
    struct stat st;

    if (fstatat(root, f->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0
                               : err_sys(e, ERR_CONFIG, errno, "account_folder",
                                         "%s", f->name);
    if (!S_ISDIR(st.st_mode) || st.st_uid != f->uid || st.st_gid != f->gid ||
        (st.st_mode & 07777) != f->mode)
        return err_set(e, ERR_CONFIG, "account_folder",
                       "%s is there with another owner, group, mode or type; "
                       "wanted: a folder of its account, mode %04o",
                       f->name, (unsigned)f->mode);
    return 1;
}

/* chmod after chown, which clears set-id bits. */
static int make(int root, const struct folder *f, struct err *e)
{
    int fd, r = 0;

    if (mkdirat(root, f->name, 0700) != 0)
        return err_sys(e, ERR_CONFIG, errno, "account_folder", "%s", f->name);
    fd = openat(root, f->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, f->uid, f->gid) != 0 || fchmod(fd, f->mode) != 0 ||
        fsync(fd) != 0) {
        r = err_sys(e, ERR_CONFIG, errno, "account_folder", "%s", f->name);
        (void)unlinkat(root, f->name, AT_REMOVEDIR);
    }
    if (fd >= 0)
        (void)close(fd);
    return r;
}

static int add(const struct admin *a, const struct words *w, bool *made,
               struct err *e)
{
    struct folder f = {0};
    int root, r;

    if (find_user(a, w, &f, e) != 0)
        return -1;
    root = open_root(a, e);
    if (root < 0)
        return -1;
    r = look_at(root, &f, e);
    *made = r == 0;
    if (r == 0)
        r = make(root, &f, e);
    (void)close(root);
    return r < 0 ? -1 : 0;
}

int admin_account_add(struct admin *a, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"group", 'g', NULL, 0, "mode 2750, readable for the account's group",
         0},
        {0}};
    static const struct argp argp = {
        options,    parse_word,
        "UNIXUSER", "Make the folder that an account's run folders lie in.",
        NULL,       NULL,
        NULL};
    struct err e = ERR_INIT;
    struct words w = {NULL, false};
    bool made = false;

    if (argp_parse(&argp, argc, argv, 0, NULL, &w) != 0)
        return ADMIN_USAGE;
    if (admin_load(a, true, &e) != 0 || add(a, &w, &made, &e) != 0)
        return admin_fail(&e);
    printf("%s/%s %s\n", a->cfg.jobs.root, w.user, made ? "made" : "is there");
    return ADMIN_DONE;
}
