/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-slurm: the only program that links libslurm; it holds no capability.
 *   sluice-slurm worker --jobs-root D --inputs D --models D --cluster NAME
 *   sluice-slurm watch --poll-ms N --cluster NAME
 * sluice-spawnd starts both: fd 3 control, fd 4 (worker) the catalog folder.
 */
#include "base/log.h"
#include "base/num.h"
#include "broker/generation.h"
#include "broker/proto.h"
#include "broker/slurm/lib.h"
#include "broker/slurm/verbs.h"
#include "broker/slurm/watch.h"
#include "broker/worker.h"

#include <stdlib.h>
#include <string.h>

static int run_worker(const struct worker_site *site, struct err *e)
{
    struct slurm_context c = {.site = site};
    struct worker w = {
        .sock = PROTO_FD_CONTROL, .context = &c, .answered = slurm_answered};
    struct err later = ERR_INIT;
    struct generation *g = NULL;
    int rc;

    if (site->jobs_root == NULL || site->inputs == NULL || site->models == NULL)
        return err_set(e, ERR_CONFIG, "worker_option",
                       "--jobs-root, --inputs and --models are needed");
    if (generation_from_catalog(PROTO_FD_CATALOG, &g, e) != 0)
        return -1;
    c.generation = g;
    assoc_init(&c.assoc);
    /* Before the first request; what fails is answered to it. */
    (void)lib_init(&later);
    w.verbs = slurm_verbs(&w.count);
    rc = worker_serve(&w, e);
    assoc_clear(&c.assoc);
    generation_unref(g);
    return rc;
}

static int run_watch(const struct worker_site *site, struct err *e)
{
    int64_t poll_ms;

    if (site->cluster == NULL || site->poll_ms == NULL ||
        num_parse(site->poll_ms, 100, 60000, &poll_ms) != 0)
        return err_set(e, ERR_CONFIG, "worker_option",
                       "--cluster and --poll-ms (100 to 60000) are needed");
    return watch_run(PROTO_FD_CONTROL, poll_ms, site->cluster, e);
}

static const struct {
    const char *name;
    int (*run)(const struct worker_site *site, struct err *e);
} modes[] = {
    {"worker", run_worker},
    {"watch", run_watch},
};

static int start(int argc, char **argv, struct err *e)
{
    struct worker_site site;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (argc < 2 || strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (worker_options(argc, argv, 2, &site, e) != 0 ||
            worker_start(e) != 0)
            return -1;
        return modes[i].run(&site, e);
    }
    return err_set(e, ERR_CONFIG, "worker_option",
                   "the first argument is worker or watch");
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;

    log_init("sluice-slurm", LOG_INFO_);
    if (start(argc, argv, &e) == 0)
        return EXIT_SUCCESS;
    log_err("stopped", NULL, &e);
    return EXIT_FAILURE;
}
