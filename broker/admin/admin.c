/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/admin.h"

#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

void admin_clear(struct admin *a)
{
    config_clear(&a->cfg);
}

int admin_load(struct admin *a, bool writing, struct err *e)
{
    if (config_load(a->config_file, &a->cfg, e) != 0 ||
        config_paths(&a->cfg, &a->paths, e) != 0 ||
        config_resolve_accounts(&a->cfg, e) != 0)
        return -1;
    a->owner = a->cfg.self_mode ? geteuid() : 0;
    a->group = a->cfg.accounts.sluice_gid;
    if (writing && geteuid() != a->owner)
        return err_set(e, ERR_DENIED, "admin_root", "this is root's to do");
    return 0;
}

int admin_fail(const struct err *e)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "sluice-admin: %s [%s]\n", e->text, e->code);
    return ADMIN_REFUSED;
}

json_t *admin_read_json(const char *path, struct err *e)
{
    struct err inner = ERR_INIT;
    json_t *v = NULL;
    size_t len = 0;
    char *text;

    if (access(path, F_OK) != 0 && errno == ENOENT) {
        v = json_object();
        if (v == NULL)
            err_nomem(e);
        return v;
    }
    if (file_check_trusted(path, geteuid(), true, true, e) != 0)
        return NULL;
    text = file_read(AT_FDCWD, path, ADMIN_FILE_MAX, &len, e);
    if (text == NULL)
        return NULL;
    v = json_parse(text, len, ADMIN_FILE_MAX, &inner);
    free(text);
    if (json_is_object(v))
        return v;
    json_decref(v);
    err_set(e, ERR_CONFIG, "admin_json", "%s is not a JSON object: %s", path,
            inner.text);
    return NULL;
}

int admin_write_json(const struct admin *a, const char *path, const json_t *v,
                     gid_t group, struct err *e)
{
    size_t len = 0;
    char *text = json_canonical(v, &len, e);
    int r;

    if (text == NULL)
        return -1;
    r = file_write(AT_FDCWD, path, text, len, group == (gid_t)-1 ? 0600 : 0640,
                   a->owner, group, e);
    free(text);
    return r;
}

int admin_lock_keys(const struct admin *a, struct err *e)
{
    int fd = open(a->cfg.paths.keys, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "admin_keys",
                       "folder %s (sluice-admin keys init makes it)",
                       a->cfg.paths.keys);
    if (flock(fd, LOCK_EX) != 0) {
        err_sys(e, ERR_INTERNAL, errno, "admin_keys", "locking %s",
                a->cfg.paths.keys);
        (void)close(fd);
        return -1;
    }
    return fd;
}
