/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/lint.h"

#include <argp.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct words {
    struct admin *admin;
    struct lint lint;
    int files;
};

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n > k && strcmp(s + n - k, end) == 0;
}

static void check_file(struct words *w, const char *file)
{
    struct lint *l = &w->lint;

    if (strcmp(file, w->admin->config_file) == 0)
        lint_config(l, w->admin);
    else if (ends_with(file, ".sh"))
        lint_template(l, file);
    else if (ends_with(file, ".yaml"))
        lint_workflows(l, file, NULL);
    else
        lint_say(l, file, 0, "check_kind",
                 "neither a workflow file (.yaml) nor a template (.sh)");
}

static error_t check_word(int key, char *arg, struct argp_state *state)
{
    struct words *w = state->input;

    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    w->files++;
    check_file(w, arg);
    return 0;
}

int admin_check(struct admin *a, int argc, char **argv)
{
    static const struct argp argp = {
        NULL,
        check_word,
        "[FILE...]",
        "Lint workflow files and templates; without FILE the configuration, "
        "its people and all that it names. Prints file:line: rule: text.",
        NULL,
        NULL,
        NULL};
    struct words w = {a, {stdout, 0}, 0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &w) != 0)
        return ADMIN_USAGE;
    if (w.files == 0)
        lint_config(&w.lint, a);
    return w.lint.findings == 0 ? ADMIN_DONE : ADMIN_REFUSED;
}
