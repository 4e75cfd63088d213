/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-resolve: looks the accounts of a generation's people up for the
 * spawner (broker/proto.h 6), which itself never calls NSS: LDAP may hang, and
 * its modules are not code that should run beside CAP_SETUID. Accounts that
 * must never run a job are refused here, each with its reason.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/config.h"
#include "broker/generation.h"
#include "broker/proto.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <shadow.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { NSS_BYTES = 64 * 1024, GROUPS_MAX = 1024, DAY_SECONDS = 86400 };

/* Who is in one of these can become root, or read root's or everybody's data.
 */
static const char *const privileged[] = {
    "root", "sudo", "wheel", "shadow", "disk", "docker", "adm", "kmem", "lxd"};
enum { PRIVILEGED = sizeof(privileged) / sizeof(privileged[0]) };

/* The shells of accounts that nobody logs in to. */
static const char *const system_shells[] = {
    "nologin", "false", "true", "sync", "halt", "shutdown", NULL};

struct resolver {
    struct config cfg;
    gid_t refused[PRIVILEGED];
    size_t nrefused;
    bool expiry_unknown; /* shadow can't be read: said once */
    char buf[NSS_BYTES];
};

struct account {
    struct passwd pw;
    gid_t groups[GROUPS_MAX];
    int ngroups;
};

/* The privileged groups that exist here, by number. */
static int find_privileged(struct resolver *r, struct err *e)
{
    for (size_t i = 0; i < PRIVILEGED; i++) {
        struct group gr, *found = NULL;
        int rc = getgrnam_r(privileged[i], &gr, r->buf, sizeof(r->buf), &found);
        if (rc != 0 && rc != ENOENT)
            return err_sys(e, ERR_UNAVAILABLE, rc, "account_lookup", "group %s",
                           privileged[i]);
        if (found != NULL)
            r->refused[r->nrefused++] = gr.gr_gid;
    }
    return 0;
}

/* Whoever is in a service account's group reads people and public keys. */
static bool group_refused(const struct resolver *r, gid_t gid)
{
    for (size_t i = 0; i < r->nrefused; i++)
        if (r->refused[i] == gid)
            return true;
    return gid == 0 || gid == r->cfg.accounts.sluice_gid ||
           gid == r->cfg.accounts.spawn_gid || gid == r->cfg.accounts.watch_gid;
}

/* Each check returns NULL, or the stable word of what is wrong. */
static const char *check_uid(struct resolver *r, const struct account *a)
{
    return a->pw.pw_uid == 0 || (int64_t)a->pw.pw_uid < r->cfg.accounts.min_uid
               ? "account_uid"
               : NULL;
}

/* sluice-watch is a Slurm operator; the spawner's uid could reach its table. */
static const char *check_service(struct resolver *r, const struct account *a)
{
    uid_t u = a->pw.pw_uid;

    return u == r->cfg.accounts.sluice_uid || u == r->cfg.accounts.spawn_uid ||
                   u == r->cfg.accounts.watch_uid
               ? "account_service"
               : NULL;
}

static const char *check_shell(struct resolver *r, const struct account *a)
{
    const char *shell = a->pw.pw_shell, *base = strrchr(shell, '/');

    (void)r;
    if (base == NULL || shell[0] != '/')
        return "account_shell";
    for (size_t i = 0; system_shells[i] != NULL; i++)
        if (strcmp(base + 1, system_shells[i]) == 0)
            return "account_shell";
    return NULL;
}

static const char *check_home(struct resolver *r, const struct account *a)
{
    const char *h = a->pw.pw_dir;

    (void)r;
    if (h[0] != '/' || !json_utf8_valid(h, strlen(h)))
        return "account_home";
    for (; *h != '\0'; h++)
        if ((unsigned char)*h < 0x20 || *h == 0x7f)
            return "account_home";
    return NULL;
}

static const char *check_groups(struct resolver *r, const struct account *a)
{
    if (group_refused(r, a->pw.pw_gid))
        return "account_group";
    for (int i = 0; i < a->ngroups; i++)
        if (group_refused(r, a->groups[i]))
            return "account_group";
    return NULL;
}

/* What the spawner's table has no room for. */
static const char *check_size(struct resolver *r, const struct account *a)
{
    (void)r;
    return a->ngroups > PROTO_ACCOUNT_GROUPS_MAX ||
                   strlen(a->pw.pw_dir) > PROTO_ACCOUNT_TEXT_MAX ||
                   strlen(a->pw.pw_shell) > PROTO_ACCOUNT_TEXT_MAX
               ? "account_too_large"
               : NULL;
}

/* Root alone, and group shadow, can read when an account expires; for anybody
 * else getspnam_r(3) finds nothing. `sluice-admin check` looks as root. */
static const char *check_expired(struct resolver *r, const struct account *a)
{
    struct spwd sp, *found = NULL;
    char buf[4096];

    (void)getspnam_r(a->pw.pw_name, &sp, buf, sizeof(buf), &found);
    if (found == NULL) {
        r->expiry_unknown = true;
        return NULL;
    }
    return sp.sp_expire > 0 && clock_now() / DAY_SECONDS >= sp.sp_expire
               ? "account_expired"
               : NULL;
}

/* Self mode: the one account runs everything itself, whatever its groups. */
static const char *check_self(struct resolver *r, const struct account *a)
{
    (void)r;
    return a->pw.pw_uid != geteuid() ? "account_self"
           : a->pw.pw_uid == 0       ? "account_uid"
                                     : NULL;
}

typedef const char *check_fn(struct resolver *, const struct account *);
static check_fn *const people_checks[] = {
    check_uid,    check_service, check_shell, check_home,
    check_groups, check_expired, check_size,  NULL};
static check_fn *const self_checks[] = {check_self, check_home, check_size,
                                        NULL};

/* The group that an entry asks for: who left it is refused from now on. */
static const char *check_member(const struct account *a, const char *unix_group)
{
    const struct group *g;

    if (unix_group == NULL)
        return NULL;
    g = getgrnam(unix_group);
    for (int i = 0; g != NULL && i < a->ngroups; i++)
        if (a->groups[i] == g->gr_gid)
            return NULL;
    return "account_not_member";
}

static const char *look_up(struct resolver *r, const char *name,
                           struct account *a)
{
    struct passwd *found = NULL;
    int rc = getpwnam_r(name, &a->pw, r->buf, sizeof(r->buf), &found);

    if (found == NULL)
        return rc == 0 || rc == ENOENT ? "account_unknown" : "account_lookup";
    a->ngroups = GROUPS_MAX;
    if (getgrouplist(name, a->pw.pw_gid, a->groups, &a->ngroups) < 0)
        return "account_lookup";
    return NULL;
}

static json_t *numbers(const gid_t *v, int n)
{
    json_t *arr = json_array();

    for (int i = 0; arr != NULL && i < n; i++)
        if (json_array_append_new(arr, json_integer(v[i])) != 0) {
            json_decref(arr);
            arr = NULL;
        }
    return arr;
}

static json_t *account_json(const struct account *a, const char *wrong)
{
    json_t *o = json_object();
    int r = 0;

    if (wrong != NULL) {
        r |= json_put_str(o, "error", wrong);
    } else {
        r |= json_put_int(o, "uid", a->pw.pw_uid);
        r |= json_put_int(o, "gid", a->pw.pw_gid);
        r |= json_put(o, "groups", numbers(a->groups, a->ngroups));
        r |= json_put_str(o, "home", a->pw.pw_dir);
        r |= json_put_str(o, "shell", a->pw.pw_shell);
    }
    if (r != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *resolve_one(struct resolver *r, const struct person *p)
{
    const char *name = p->account;
    check_fn *const *checks = r->cfg.self_mode ? self_checks : people_checks;
    struct account a;
    const char *wrong;

    memset(&a, 0, sizeof(a));
    wrong = look_up(r, name, &a);
    for (size_t i = 0; wrong == NULL && checks[i] != NULL; i++)
        wrong = checks[i](r, &a);
    if (wrong == NULL)
        wrong = check_member(&a, p->unix_group);
    if (wrong != NULL)
        log_event(LOG_WARN_, "account_refused", NULL, "account", name, "code",
                  wrong, NULL);
    return account_json(&a, wrong);
}

static json_t *resolve_all(struct resolver *r, const struct people *people)
{
    json_t *accounts = json_object();

    for (size_t i = 0; accounts != NULL && i < people_count(people); i++) {
        const char *name = people_at(people, i)->account;
        if (name == NULL || json_object_get(accounts, name) != NULL)
            continue;
        if (json_put(accounts, name, resolve_one(r, people_at(people, i))) !=
            0) {
            json_decref(accounts);
            accounts = NULL;
        }
    }
    if (r->expiry_unknown)
        log_event(LOG_INFO_, "expiry_not_checked", NULL, "why",
                  "the shadow file is not readable for this account", NULL);
    return accounts;
}

static int print_answer(json_t *accounts, struct err *e)
{
    json_t *answer = json_object();
    char *text = NULL;
    int r = 0;

    r |= json_put_int(answer, "v", PROTO_VERSION);
    r |= json_put(answer, "accounts", accounts);
    text = r == 0 ? json_text(answer) : NULL;
    json_decref(answer);
    if (text == NULL)
        return err_nomem(e);
    if (strlen(text) > WIRE_FRAME_MAX)
        r = err_set(e, ERR_TOO_LARGE, "wire_too_large",
                    "the accounts do not fit one frame");
    else if (file_write_all(STDOUT_FILENO, text, strlen(text)) != 0)
        r = err_sys(e, ERR_INTERNAL, errno, "file_write", "standard output");
    free(text);
    return r;
}

static int run(struct resolver *r, const char *file, const char *id,
               struct err *e)
{
    struct generation *g = NULL;
    int rc = -1;

    if (config_load(file, &r->cfg, e) != 0 ||
        config_resolve_accounts(&r->cfg, e) != 0 ||
        generation_load(r->cfg.paths.store, id, &g, e) != 0)
        return -1;
    if (find_privileged(r, e) == 0)
        rc = print_answer(resolve_all(r, g->people), e);
    generation_unref(g);
    return rc;
}

int main(int argc, char **argv)
{
    static struct resolver r;
    struct err e = ERR_INIT;
    int rc;

    log_init("sluice-resolve", LOG_INFO_);
    if (argc != 4 || strcmp(argv[1], "--config") != 0) {
        (void)fputs("usage: sluice-resolve --config FILE GENERATION\n", stderr);
        return 2;
    }
    if (prctl(PR_SET_DUMPABLE, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 1;
    rc = run(&r, argv[2], argv[3], &e);
    if (rc != 0)
        log_err("resolve_stopped", NULL, &e);
    config_clear(&r.cfg);
    return rc == 0 ? 0 : 1;
}
