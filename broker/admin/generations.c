/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/clock.h"
#include "broker/admin/admin.h"
#include "broker/generation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_generation(const struct dirent *d)
{
    return generation_id_valid(d->d_name) ? 1 : 0;
}

static void print_one(const char *store, const char *id, bool current)
{
    const char *state = generation_state(store, id, NULL);
    char at[CLOCK_TEXT_MAX] = "?", *path = NULL;
    struct stat st;

    if (asprintf(&path, "%s/%s", store, id) >= 0) {
        if (stat(path, &st) == 0)
            clock_format(st.st_mtime, at);
        free(path);
    }
    printf("%s %s  %s  %s\n", current ? "*" : " ", id, at,
           state != NULL ? state : "broken");
}

static int list(const struct admin *a, struct err *e)
{
    char current[GENERATION_ID_LEN + 1] = "";
    const char *store = a->cfg.paths.store;
    struct dirent **all = NULL;
    int n;

    if (generation_current(store, current, e) < 0)
        return -1;
    n = scandir(store, &all, is_generation, alphasort);
    if (n < 0 && errno != ENOENT)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing", "%s", store);
    for (int i = 0; i < n; i++) {
        print_one(store, all[i]->d_name, strcmp(all[i]->d_name, current) == 0);
        free(all[i]);
    }
    free(all);
    return 0;
}

int admin_generation_list(struct admin *a, int argc, char **argv)
{
    struct err e = ERR_INIT;

    if (argc != 1) {
        (void)fprintf(stderr, "usage: %s\n", argv[0]);
        return ADMIN_USAGE;
    }
    if (admin_load(a, false, &e) != 0 || list(a, &e) != 0)
        return admin_fail(&e);
    return ADMIN_DONE;
}
