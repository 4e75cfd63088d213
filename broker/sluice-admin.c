/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-admin: what root does. `sluice admin`, `sluice apply` and
 * `sluice check` exec this program.
 */
#include "base/log.h"
#include "broker/admin/admin.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define DEFAULT_CONFIG "/etc/sluice/sluice.yaml"

enum { COMMAND_MAX = 64 };

static const struct command {
    const char *word, *sub; /* sub NULL: one word */
    int (*run)(struct admin *a, int argc, char **argv);
} commands[] = {
    {"keys", "init", admin_keys_init},
    {"check", NULL, admin_check},
    {"apply", NULL, admin_apply},
    {"account", "add", admin_account_add},
    {"token", "issue", admin_token_issue},
    {"token", "list", admin_token_list},
    {"token", "revoke", admin_token_revoke},
    {"generation", "list", admin_generation_list},
};

static const char doc[] =
    "What root does for Sluice.\v"
    "Commands:\n"
    "  keys init                  make the token-signing key, once\n"
    "  check [FILE...]            lint configuration, workflows, templates\n"
    "  apply [--yes]              make people, workflows and keys take effect\n"
    "  account add UNIXUSER       make the folder of an account's runs\n"
    "  token issue --person NAME --out FILE   issue a bearer token\n"
    "  token list [--json]        the tokens that were issued\n"
    "  token revoke ID            revoke one, from the next request on\n"
    "  generation list            what is in the store\n"
    "\n"
    "Exit status: 0 done, 1 refused or findings, 2 usage.";

/* The first word that is no option begins the command. */
struct words {
    const char *config;
    int argc;
    char **argv;
};

static error_t parse_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;

    switch (key) {
    case 'c':
        w->config = arg;
        return 0;
    case ARGP_KEY_ARG:
        w->argc = state->argc - state->next + 1;
        w->argv = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (w->argc == 0)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct command *find(const struct words *w, int *used)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        const struct command *c = &commands[i];
        if (strcmp(c->word, w->argv[0]) != 0)
            continue;
        *used = c->sub == NULL ? 1 : 2;
        if (c->sub == NULL || (w->argc >= 2 && strcmp(c->sub, w->argv[1]) == 0))
            return c;
    }
    return NULL;
}

static int run(const struct words *w)
{
    struct admin a = {.config_file = w->config};
    char name[COMMAND_MAX];
    int status, used = 0;
    const struct command *c = find(w, &used);

    if (c == NULL) {
        (void)fprintf(stderr, "sluice-admin: no such command; --help tells "
                              "which there are\n");
        return ADMIN_USAGE;
    }
    (void)snprintf(name, sizeof(name), "sluice-admin %s%s%s", c->word,
                   c->sub != NULL ? " " : "", c->sub != NULL ? c->sub : "");
    w->argv[used - 1] = name;
    status = c->run(&a, w->argc - used + 1, w->argv + used - 1);
    admin_clear(&a);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"config", 'c', "FILE", 0,
         "the configuration (else SLUICE_CONFIG, else " DEFAULT_CONFIG ")", 0},
        {0}};
    static const struct argp argp = {
        options, parse_word, "COMMAND [WORD...]", doc, NULL, NULL, NULL};
    struct words w = {DEFAULT_CONFIG, 0, NULL};

    if (secure_getenv("SLUICE_CONFIG") != NULL)
        w.config = secure_getenv("SLUICE_CONFIG");
    log_init("sluice-admin", LOG_WARN_);
    argp_err_exit_status = ADMIN_USAGE;
    (void)umask(022);
    /* The signing key passes through here: no core, no ptrace by others. */
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        return ADMIN_REFUSED;
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &w) != 0)
        return ADMIN_USAGE;
    return run(&w);
}
