/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/files/files.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One value of one path parameter. */
struct path_check {
    const struct param *param;
    const struct render_job *job;
    const char *root; /* the absolute folder the path lies in */
    char pointer[ERR_POINTER_MAX];
};

/* Symlinks are followed as long as they stay below: people link their data. */
static int open_below(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (__u64)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int refuse(struct err *e, const struct path_check *c, int sys)
{
    static const struct {
        int sys;
        const char *code, *text;
    } rows[] = {
        {ENOENT, "path_missing", "there is no such file below its folder"},
        {ENOTDIR, "path_missing", "there is no such file below its folder"},
        {EXDEV, "path_outside", "a symlink leads out of the folder"},
        {ELOOP, "path_outside", "too many symlinks, or a magic one"},
        {EACCES, "path_unreadable", "this account may not read it"},
        {EPERM, "path_unreadable", "this account may not read it"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].sys == sys) {
            (void)err_set(e, ERR_INVALID, rows[i].code, "%s", rows[i].text);
            return err_at(e, c->pointer);
        }
    (void)err_sys(e, ERR_UNAVAILABLE, sys, "path_unreadable",
                  "the file can't be opened");
    return err_at(e, c->pointer);
}

static int check_type(const struct path_check *c, const struct stat *st,
                      struct err *e)
{
    bool good =
        c->param->exists_file ? S_ISREG(st->st_mode) : S_ISDIR(st->st_mode);

    if (good)
        return 0;
    (void)err_set(e, ERR_INVALID, "path_type", "it is not a %s",
                  c->param->exists_file ? "file" : "folder");
    return err_at(e, c->pointer);
}

/* Opens and looks; *bytes stays -1 for what is no file. */
static int look(const struct path_check *c, const char *absolute,
                int64_t *bytes, struct err *e)
{
    size_t n = strlen(c->root);
    struct stat st;
    int root, fd, rc = -1;

    if (strncmp(absolute, c->root, n) != 0 || absolute[n] != '/')
        return refuse(e, c, EXDEV);
    root = open(c->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "path_root",
                       "the folder of the inputs can't be opened");
    absolute += n + strspn(absolute + n, "/");
    /* O_NONBLOCK: a FIFO must not hang us before its type is seen. */
    fd = open_below(root, absolute, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = refuse(e, c, errno);
    else
        rc = check_type(c, &st, e);
    if (rc == 0 && S_ISREG(st.st_mode))
        *bytes = st.st_size;
    if (fd >= 0)
        (void)close(fd);
    (void)close(root);
    return rc;
}

static int add_row(json_t *out, const struct param *p, int64_t index,
                   int64_t bytes, struct err *e)
{
    json_t *row = json_object();
    int bad = json_put_str(row, "param", p->name);

    bad |=
        json_put(row, "index", index < 0 ? json_null() : json_integer(index));
    bad |=
        json_put(row, "bytes", bytes < 0 ? json_null() : json_integer(bytes));
    if (bad != 0) {
        json_decref(row);
        return err_nomem(e);
    }
    return json_array_append_new(out, row) == 0 ? 0 : err_nomem(e);
}

/* value: "relative", or {path, sha256}. */
static int check_value(json_t *out, struct path_check *c, const json_t *value,
                       int64_t index, struct err *e)
{
    const json_t *text =
        json_is_object(value) ? json_object_get(value, "path") : value;
    int64_t bytes = -1;
    char *absolute;
    int rc;

    if (!json_is_string(text))
        return err_set(e, ERR_INTERNAL, "param_type", "not a path value");
    if (index < 0)
        (void)snprintf(c->pointer, sizeof(c->pointer), "/params/%s",
                       c->param->name);
    else
        (void)snprintf(c->pointer, sizeof(c->pointer), "/params/%s/%lld",
                       c->param->name, (long long)index);
    if (!c->param->exists_file && !c->param->exists_dir)
        return add_row(out, c->param, index, -1, e);
    absolute = render_path(c->param, json_string_value(text), c->job, e);
    if (absolute == NULL)
        return -1;
    rc = look(c, absolute, &bytes, e);
    free(absolute);
    return rc == 0 ? add_row(out, c->param, index, bytes, e) : -1;
}

static int check_param(json_t *out, struct path_check *c, const json_t *value,
                       struct err *e)
{
    size_t i;
    json_t *item;

    if (!c->param->list)
        return check_value(out, c, value, -1, e);
    json_array_foreach(value, i, item) if (check_value(out, c, item, (int64_t)i,
                                                       e) != 0) return -1;
    return 0;
}

json_t *files_paths(const struct worker_work *k, struct err *e)
{
    json_t *out = json_array();

    if (out == NULL)
        (void)err_nomem(e);
    for (size_t i = 0; out != NULL && i < k->workflow->nparams; i++) {
        struct path_check c = {&k->workflow->params[i], &k->job, NULL, ""};
        const json_t *value = json_object_get(k->params, c.param->name);

        if (c.param->type != PARAM_PATH || value == NULL)
            continue;
        c.root = c.param->under == NULL || c.param->under[0] != '/'
                     ? k->job.inputs_dir
                     : c.param->under;
        if (check_param(out, &c, value, e) == 0)
            continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}
