/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * apply: lint, compile, show what changes, and move to it in two phases:
 * both daemons load the whole; only then `current` moves
 * and both switch. If one refuses, nothing moves.
 */
#include "broker/admin/admin.h"
#include "broker/admin/diff.h"
#include "broker/admin/lint.h"
#include "broker/admin/map.h"
#include "broker/admin/push.h"
#include "broker/generation.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct apply {
    const struct admin *a;
    char before[GENERATION_ID_LEN + 1]; /* "": none */
    char id[GENERATION_ID_LEN + 1];
};

struct daemon {
    const char *name, *socket_path;
};

static int compile(struct apply *p, struct err *e)
{
    const struct config *c = &p->a->cfg;
    json_t *people = NULL, *keys = NULL;
    int r = -1;

    keys = admin_read_json(p->a->paths.public_keys, e);
    if (keys == NULL || map_read(p->a, &people, e) != 0)
        goto out;
    r = generation_install(c->paths.store, c->paths.workflows,
                           c->paths.templates, people, keys, p->a->group, p->id,
                           e);
out:
    json_decref(people);
    json_decref(keys);
    return r;
}

/* A current one that can't be read any more (revoked, damaged) is no reason
 * not to move on: then everything counts as new. */
static int show(const struct apply *p, struct err *e)
{
    struct generation *old = NULL, *new = NULL;
    const char *store = p->a->cfg.paths.store;
    struct err ignored = ERR_INIT;
    int n = -1;

    if (generation_load(store, p->id, &new, e) != 0)
        return -1;
    if (p->before[0] != '\0' &&
        generation_load(store, p->before, &old, &ignored) != 0)
        printf("the current generation can't be read: %s\n", ignored.text);
    printf("generation %.12s, current %.12s\n", p->id,
           p->before[0] != '\0' ? p->before : "none");
    n = diff_print(stdout, old, new, e);
    if (n == 0)
        printf("nothing changes\n");
    generation_unref(old);
    generation_unref(new);
    return n;
}

static bool agreed(void)
{
    char *line = NULL;
    size_t n = 0;
    bool yes;

    if (!isatty(STDIN_FILENO)) {
        (void)fputs("sluice-admin: not applied; say --yes where nobody can be "
                    "asked [apply_not_confirmed]\n",
                    stderr);
        return false;
    }
    printf("Apply? [y/N] ");
    (void)fflush(stdout);
    yes = getline(&line, &n, stdin) > 0 &&
          (strcmp(line, "y\n") == 0 || strcmp(line, "yes\n") == 0);
    free(line);
    if (!yes)
        printf("not applied\n");
    return yes;
}

/* Ask each in turn; the first that refuses ends it. *done: who did it. */
static int ask_all(const struct daemon *d, size_t count, const char *verb,
                   const char *id, size_t *done, struct err *e)
{
    for (*done = 0; *done < count; (*done)++) {
        struct err inner = ERR_INIT;
        const struct daemon *one = &d[*done];
        int r = push_ask(one->socket_path, verb, id, &inner);

        if (r < 0)
            return err_set(e, inner.class, inner.code, "%s did not %s: %s",
                           one->name, verb, inner.text);
        printf("%s: %s %s\n", one->name, verb,
               r == 1 ? "done" : "(not running)");
    }
    return 0;
}

/* A switch that fails after `current` moved: back, as far as it came. */
static void go_back(const struct apply *p, const struct daemon *d, size_t done)
{
    struct err e = ERR_INIT;

    if (p->before[0] == '\0' || strcmp(p->before, p->id) == 0)
        return;
    if (generation_switch(p->a->cfg.paths.store, p->before, &e) != 0)
        (void)admin_fail(&e);
    for (size_t i = 0; i < done; i++) {
        err_clear(&e);
        if (push_ask(d[i].socket_path, "load", p->before, &e) < 0 ||
            push_ask(d[i].socket_path, "switch", p->before, &e) < 0)
            (void)admin_fail(&e);
    }
}

static int move(const struct apply *p, struct err *e)
{
    const struct daemon daemons[] = {{"sluice-spawnd", p->a->paths.spawn_sock},
                                     {"sluiced", p->a->paths.admin_sock}};
    const size_t count = sizeof(daemons) / sizeof(daemons[0]);
    size_t done;

    if (ask_all(daemons, count, "load", p->id, &done, e) != 0 ||
        generation_switch(p->a->cfg.paths.store, p->id, e) != 0)
        return -1;
    if (ask_all(daemons, count, "switch", p->id, &done, e) == 0)
        return 0;
    go_back(p, daemons, done);
    return -1;
}

static int apply(struct admin *a, bool yes, struct err *e)
{
    struct apply p = {.a = a};
    int changes;

    if (generation_current(a->cfg.paths.store, p.before, e) < 0 ||
        compile(&p, e) != 0)
        return ADMIN_REFUSED;
    changes = show(&p, e);
    if (changes < 0)
        return ADMIN_REFUSED;
    (void)fflush(stdout);
    /* Nothing new is still told: a daemon may have missed it. */
    if (changes > 0 && !yes && !agreed())
        return ADMIN_REFUSED;
    if (move(&p, e) != 0)
        return ADMIN_REFUSED;
    printf("current is %.12s\n", p.id);
    return ADMIN_DONE;
}

static error_t apply_word(int key, char *arg, struct argp_state *state)
{
    bool *yes = state->input;

    (void)arg;
    if (key != 'y')
        return ARGP_ERR_UNKNOWN;
    *yes = true;
    return 0;
}

int admin_apply(struct admin *a, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"yes", 'y', NULL, 0, "do not ask", 0}, {0}};
    static const struct argp argp = {
        options, apply_word,
        "",      "Make people, workflows, templates and keys take effect.",
        NULL,    NULL,
        NULL};
    struct err e = ERR_INIT;
    struct lint l = {stderr, 0};
    bool yes = false;
    int status;

    if (argp_parse(&argp, argc, argv, 0, NULL, &yes) != 0)
        return ADMIN_USAGE;
    if (admin_load(a, true, &e) != 0)
        return admin_fail(&e);
    admin_clear(a); /* the lint reads it again */
    lint_config(&l, a);
    if (l.findings > 0) {
        (void)fprintf(stderr, "sluice-admin: %d findings, nothing applied\n",
                      l.findings);
        return ADMIN_REFUSED;
    }
    status = apply(a, yes, &e);
    return err_is_set(&e) ? admin_fail(&e) : status;
}
