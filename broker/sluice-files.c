/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-files: a worker that has become one person, for what touches the
 * share. sluice-spawnd starts it: fd 3 control, fd 4 the catalog folder.
 */
#include "base/file.h"
#include "base/log.h"
#include "broker/files/files.h"
#include "broker/proto.h"
#include "broker/worker.h"

#include <stdio.h>
#include <stdlib.h>

static int run(const struct worker_site *site, struct err *e)
{
    struct files f = {.site = site};
    struct worker w = {.sock = PROTO_FD_CONTROL, .context = &f};
    struct generation *g = NULL;
    int rc;

    if (site->jobs_root == NULL || site->inputs == NULL || site->models == NULL)
        return err_set(e, ERR_CONFIG, "worker_option",
                       "--jobs-root, --inputs and --models are needed");
    if (generation_from_catalog(PROTO_FD_CATALOG, &g, e) != 0)
        return -1;
    f.generation = g;
    w.verbs = files_verbs(&w.count);
    rc = worker_serve(&w, e);
    generation_unref(g);
    return rc;
}

int main(int argc, char **argv)
{
    struct worker_site site;
    struct err e = ERR_INIT;

    log_init("sluice-files", LOG_INFO_);
    if (worker_options(argc, argv, 1, &site, &e) == 0 &&
        worker_start(&e) == 0 && run(&site, &e) == 0)
        return EXIT_SUCCESS;
    log_err("worker_stopped", NULL, &e);
    return EXIT_FAILURE;
}
