/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice: the client. `admin`, `apply` and `check` are sluice-admin's.
 */
#include "cli/cli.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_URL = 256, OPTION_TOKEN };

/* glibc looks for this name: it must be seen outside of the program. */
__attribute__((visibility("default"))) const char *argp_program_version =
    "sluice " SLUICE_VERSION;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print the API's JSON documents", 0},
    {"url", OPTION_URL, "URL", 0,
     "http://127.0.0.1:PORT or unix:PATH (SLUICE_URL)", 0},
    {"token-file", OPTION_TOKEN, "FILE", 0,
     "File with a bearer token (SLUICE_TOKEN_FILE)", 0},
    {0}};

struct arguments {
    struct cli *cli;
    int first; /* index of the command in argv; 0: none */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct arguments *a = state->input;

    switch (key) {
    case 'j':
        a->cli->json = true;
        return 0;
    case OPTION_URL:
        a->cli->url = arg;
        return 0;
    case OPTION_TOKEN:
        a->cli->token_file = arg;
        return 0;
    case ARGP_KEY_ARG:
        a->first = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Text after the options in --help: the table of commands. */
static char *help_filter(int key, const char *text, void *input)
{
    struct buf b;
    size_t n;
    const struct command *all = command_all(&n);

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    buf_init(&b, 8192);
    buf_puts(&b, "Commands:\n");
    for (size_t i = 0; i < n; i++)
        buf_printf(&b, "  %-10s %s\n", all[i].name, all[i].en);
    buf_puts(&b, "  admin      sluice-admin's commands (also: apply, check)\n"
                 "\nExit status: 0 done, 1 the job ended in error, 2 usage, "
                 "3 refused, 4 unreachable.");
    return buf_take(&b, NULL);
}

static const struct argp parser = {options,
                                   parse_option,
                                   "COMMAND [ARGUMENT...]",
                                   "Runs named workflows on a Slurm cluster.\v",
                                   NULL,
                                   help_filter,
                                   NULL};

static int run_admin(int argc, char **argv)
{
    bool admin = strcmp(argv[0], "admin") == 0;
    char **args = calloc((size_t)argc + 2, sizeof(*args));
    int n = 0;

    if (args == NULL)
        return EXIT_USAGE;
    args[n++] = (char *)(uintptr_t) "sluice-admin";
    for (int i = admin ? 1 : 0; i < argc; i++)
        args[n++] = argv[i];
    execvp(args[0], args);
    fprintf(stderr, "sluice: sluice-admin: %s\n", strerror(errno));
    free(args);
    return EXIT_USAGE;
}

static bool is_admin(const char *name)
{
    return strcmp(name, "admin") == 0 || strcmp(name, "apply") == 0 ||
           strcmp(name, "check") == 0;
}

static void from_environment(struct cli *c)
{
    const char *lang = getenv("LC_ALL");

    if (lang == NULL || lang[0] == '\0')
        lang = getenv("LANG");
    if (c->url == NULL)
        c->url = getenv("SLUICE_URL");
    if (c->url == NULL)
        c->url = "unix:/run/sluice/local.sock";
    if (c->token_file == NULL)
        c->token_file = getenv("SLUICE_TOKEN_FILE");
    c->color = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
    c->live = isatty(STDERR_FILENO) && !c->json;
    c->chinese = lang != NULL && strncmp(lang, "zh", 2) == 0;
}

static int run_command(struct cli *c, int argc, char **argv)
{
    const struct command *k = command_find(argv[0]);
    struct err e = ERR_INIT;
    int rc;

    if (k == NULL) {
        fprintf(stderr, "sluice: there is no command %s; see sluice --help\n",
                argv[0]);
        return EXIT_USAGE;
    }
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage_print(c, stdout, k);
        return EXIT_DONE;
    }
    if (client_new(c->url, c->token_file, &c->client, &e) < 0)
        return say_error(c, &e);
    optind = 0; /* glibc: start over, for the command's own options */
    rc = k->run(c, argc, argv);
    client_free(c->client);
    return rc;
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    struct arguments a = {&cli, 0};

    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &a);
    if (a.first == 0) {
        argp_help(&parser, stderr, ARGP_HELP_STD_HELP, argv[0]);
        return EXIT_USAGE;
    }
    if (is_admin(argv[a.first]))
        return run_admin(argc - a.first, argv + a.first);
    from_environment(&cli);
    return run_command(&cli, argc - a.first, argv + a.first);
}
