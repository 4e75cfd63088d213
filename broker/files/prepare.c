/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * check and prepare: the run folder <account>/<ULID>/ with params.json,
 * script.sh, results/ and, only when secrets were given, secrets.env.
 */
#include "broker/files/files.h"

#include "base/buf.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "broker/files/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A secret is at most WORKFLOW_SECRET_BYTES_MAX; base64 makes 4/3 of it, and
 * its name and '=' and '\n' take at most 66 bytes more. */
enum {
    SIDECAR_MAX =
        WORKFLOW_SECRETS_MAX * (WORKFLOW_SECRET_BYTES_MAX / 3 * 4 + 4 + 66)
};

static const char *const made_files[] = {"params.json", "script.sh",
                                         "secrets.env"};

struct prepare { /* one run folder in the making */
    struct run run;
    struct worker_work work;
    struct buf script, sidecar;
    char digest[SHA256_HEX_LEN + 1];
    bool has_sidecar;
    bool made; /* the folder is ours to remove */
};

int files_check(void *context, struct worker_request *r, json_t *result,
                struct err *e)
{
    static const char *const keys[] = {"workflow", "params", NULL};
    const struct files *f = context;
    struct worker_work k;
    json_t *paths = NULL;
    int rc = -1;

    memset(&k, 0, sizeof(k));
    if (json_only(r->args, keys, "/args", e) == 0 &&
        worker_work_init(&k, f->generation, f->site, r, false, e) == 0)
        paths = files_paths(&k, e);
    if (paths != NULL)
        rc = json_put(result, "paths", paths) == 0 ? 0 : err_nomem(e);
    worker_work_clear(&k);
    return rc;
}

static int storage_failed(struct err *e, int sys, const char *doing)
{
    const char *code = sys == ENOSPC || sys == EDQUOT || sys == EROFS
                           ? "storage_full"
                           : "storage_failed";

    return err_sys(e, ERR_UNAVAILABLE, sys, code, "%s", doing);
}

/* Exact modes, whatever the umask; exclusive, so that a second submit of the
 * same ULID finds the first one's. */
static int make_folder(int dirfd, const char *name, mode_t mode, int *fd,
                       struct err *e)
{
    if (mkdirat(dirfd, name, 0700) != 0) {
        if (errno == EEXIST)
            return err_set(e, ERR_CONFLICT, "run_exists",
                           "this job has a folder already");
        return storage_failed(e, errno, "the job's folder can't be made");
    }
    *fd = file_openat_beneath(
        dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (*fd < 0 || fchmod(*fd, mode) != 0)
        return storage_failed(e, errno, "the job's folder can't be opened");
    return 0;
}

static int write_file(int dirfd, const char *name, const void *p, size_t n,
                      mode_t mode, bool durable, struct err *e)
{
    int fd = openat(dirfd, name,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int sys = 0;

    if (fd < 0)
        return storage_failed(e, errno, "a file of the job can't be made");
    if (file_write_all(fd, p, n) != 0 || fchmod(fd, mode) != 0 ||
        (durable && fsync(fd) != 0))
        sys = errno;
    if (close(fd) != 0 && sys == 0)
        sys = errno;
    if (sys == 0)
        return 0;
    return storage_failed(e, sys, "a file of the job can't be written");
}

static int write_params(const struct prepare *p, mode_t mode, struct err *e)
{
    size_t n;
    char *text = json_canonical(p->work.params, &n, e);
    int rc;

    if (text == NULL)
        return -1;
    rc = write_file(p->run.run_fd, "params.json", text, n, mode, false, e);
    free(text);
    return rc;
}

/* What only people read may be lost in a power cut (Slurm holds the script);
 * the sidecar may not: nobody could write it again. */
static int fill_folder(struct prepare *p, struct err *e)
{
    bool shared = p->work.workflow->share_group;
    mode_t mode = shared ? 0640 : 0600;
    struct run *n = &p->run;

    if (make_folder(n->run_fd, "results", shared ? 02750 : 0700, &n->results_fd,
                    e) != 0 ||
        write_params(p, mode, e) != 0 ||
        write_file(n->run_fd, "script.sh", p->script.data, p->script.len, mode,
                   false, e) != 0)
        return -1;
    if (!p->has_sidecar)
        return 0;
    if (write_file(n->run_fd, "secrets.env", p->sidecar.data, p->sidecar.len,
                   0600, true, e) != 0)
        return -1;
    if (fsync(n->run_fd) != 0 || fsync(n->account_fd) != 0)
        return storage_failed(e, errno, "the job's folder can't be synced");
    return 0;
}

static void remove_folder(struct prepare *p, const char *ulid)
{
    struct run *n = &p->run;

    if (!p->made)
        return;
    for (size_t i = 0; i < sizeof(made_files) / sizeof(made_files[0]); i++)
        (void)unlinkat(n->run_fd, made_files[i], 0);
    (void)unlinkat(n->run_fd, "results", AT_REMOVEDIR);
    (void)unlinkat(n->account_fd, ulid, AT_REMOVEDIR);
}

static int make_run(struct prepare *p, const struct files *f,
                    const struct worker_request *r, struct err *e)
{
    bool shared = p->work.workflow->share_group;

    if (run_open_account(&p->run, f->site, r->person.account, e) != 0)
        return -1;
    if (shared && !p->run.shared)
        return err_set(e, ERR_UNAVAILABLE, "account_folder",
                       "the workflow shares its results with a group, and "
                       "the account's folder is private (0700, not 2750)");
    if (make_folder(p->run.account_fd, r->ulid, shared ? 02750 : 0700,
                    &p->run.run_fd, e) != 0) {
        if (strcmp(e->code, "run_exists") != 0)
            (void)unlinkat(p->run.account_fd, r->ulid, AT_REMOVEDIR);
        return -1;
    }
    p->made = true;
    return fill_folder(p, e);
}

/* The worker lives on for other requests: the values do not. */
static void wipe(json_t *args, json_t *secrets)
{
    const char *name;
    json_t *value;

    json_object_foreach(secrets, name, value)
    {
        explicit_bzero((void *)(uintptr_t)json_string_value(value),
                       json_string_length(value));
    }
    (void)json_object_del(args, "secrets");
}

static int read_secrets(struct prepare *p, const struct files *f,
                        const struct worker_request *r, struct err *e)
{
    static const char *const keys[] = {"workflow", "params", "secrets", NULL};
    json_t *secrets = NULL;
    int rc;

    if (json_only(r->args, keys, "/args", e) != 0 ||
        json_get_obj(r->args, "secrets", false, &secrets, "/args", e) != 0)
        return -1;
    p->has_sidecar = json_object_size(secrets) > 0;
    if (worker_work_init(&p->work, f->generation, f->site, r, p->has_sidecar,
                         e) != 0)
        return -1;
    if (!p->has_sidecar)
        return 0;
    rc = secrets_validate(p->work.workflow, secrets, e);
    if (rc == 0)
        rc = render_sidecar(secrets, &p->sidecar, e);
    wipe(r->args, secrets);
    return rc;
}

static int render(struct prepare *p, const struct files *f, struct err *e)
{
    if (render_script(f->generation->templates_fd, p->work.workflow,
                      &p->work.limits, &p->work.job, &p->script, e) != 0)
        return -1;
    return crypto_sha256_hex(p->script.data, p->script.len, p->digest, e);
}

static int put_result(const struct prepare *p, json_t *result, json_t *paths,
                      struct err *e)
{
    int bad = json_put_str(result, "script_sha256", p->digest);

    bad |= json_put(result, "paths", paths);
    bad |= json_put_bool(result, "has_sidecar", p->has_sidecar);
    return bad == 0 ? 0 : err_nomem(e);
}

int files_prepare(void *context, struct worker_request *r, json_t *result,
                  struct err *e)
{
    const struct files *f = context;
    struct prepare p = {.made = false};
    json_t *paths = NULL;
    int rc = -1;

    run_init(&p.run);
    buf_init(&p.script, RENDER_SCRIPT_MAX);
    buf_init(&p.sidecar, SIDECAR_MAX);
    if (read_secrets(&p, f, r, e) == 0 && render(&p, f, e) == 0)
        paths = files_paths(&p.work, e);
    if (paths != NULL && make_run(&p, f, r, e) == 0)
        rc = 0;
    if (rc == 0)
        rc = put_result(&p, result, json_incref(paths), e);
    if (rc != 0)
        remove_folder(&p, r->ulid);
    json_decref(paths);
    buf_wipe(&p.sidecar);
    buf_clear(&p.script);
    worker_work_clear(&p.work);
    run_clear(&p.run);
    return rc;
}
