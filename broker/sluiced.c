/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluiced: HTTP, identity, policy, jobs, audit and ledger. No privilege, no
 * libslurm, nothing of munge in its reach.
 */
#include "base/log.h"
#include "broker/config.h"
#include "broker/http/server.h"
#include "broker/isolation.h"
#include "broker/jobs/service.h"

#include <argp.h>
#include <signal.h>
#include <stdlib.h>

/* glibc looks for this name: it must be seen outside of the program. */
__attribute__((visibility("default"))) const char *argp_program_version =
    "sluiced " SLUICE_VERSION;

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "Configuration file", 0}, {0}};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    const char **file = state->input;

    if (key != 'c')
        return ARGP_ERR_UNKNOWN;
    *file = arg;
    return 0;
}

static const struct argp parser = {
    options, parse_option,
    NULL,    "The HTTP side of Sluice: lets named workflows through to Slurm.",
    NULL,    NULL,
    NULL};

/* SIGTERM and SIGINT end, SIGHUP looks at the current generation again. */
static void serve(struct service *s, const sigset_t *signals)
{
    int sig;

    while (sigwait(signals, &sig) == 0 && sig == SIGHUP) {
        struct err e = ERR_INIT;

        if (service_reload(s, &e) < 0)
            log_err("reload_failed", NULL, &e);
    }
    log_event(LOG_INFO_, "stopping", NULL, NULL);
}

static int run(const struct config *c, const sigset_t *signals, struct err *e)
{
    struct service *service = NULL;
    struct server *server = NULL;
    int rc = -1;

    if (isolation_check(c, e) < 0 || service_new(c, &service, e) < 0 ||
        service_start(service, e) < 0 || server_start(service, &server, e) < 0)
        goto out;
    log_event(LOG_INFO_, "started", NULL, "mode", c->mode, "listen",
              c->listen.loopback != NULL ? c->listen.loopback : "", NULL);
    serve(service, signals);
    rc = 0;
out:
    server_stop(server);
    if (service != NULL)
        service_stop(service);
    service_free(service);
    return rc;
}

int main(int argc, char **argv)
{
    const char *file = "/etc/sluice/sluice.yaml";
    struct config config = {0};
    struct err e = ERR_INIT;
    sigset_t signals;
    int rc = -1;

    log_init("sluiced", LOG_INFO_);
    argp_parse(&parser, argc, argv, 0, NULL, &file);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    /* Blocked before any thread exists, so that all inherit it. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (config_load(file, &config, &e) == 0 &&
        config_resolve_accounts(&config, &e) == 0)
        rc = run(&config, &signals, &e);
    if (rc < 0)
        log_err("start_failed", NULL, &e);
    config_clear(&config);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
