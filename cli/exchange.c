/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

int say_error(const struct cli *c, const struct err *e)
{
    (void)c;
    fprintf(stderr, "sluice: %s [%s]\n", e->text, e->code);
    return e->class == ERR_UNAVAILABLE || e->class == ERR_UNAUTHENTIC
               ? EXIT_UNREACHABLE
               : EXIT_USAGE;
}

static void say_pointers(const json_t *errors)
{
    size_t i;
    json_t *o;

    json_array_foreach(errors, i, o)
    {
        fprintf(stderr, "  at %s\n", field(o, "pointer"));
    }
}

int say_problem(const struct cli *c, const struct reply *r)
{
    const json_t *p = r->json;
    const json_t *slurm = json_object_get(p, "slurm");

    if (c->json && p != NULL)
        print_json(p);
    if (p == NULL)
        fprintf(stderr, "sluice: HTTP %ld\n", r->status);
    else
        fprintf(stderr, "sluice: %s (%s) [%s]\n", field(p, "title"),
                field(p, "detail"), field(p, "code"));
    say_pointers(json_object_get(p, "errors"));
    if (json_is_object(slurm))
        fprintf(stderr, "  Slurm %s: %s\n", field(slurm, "errno"),
                field(slurm, "name"));
    return r->status >= 500 ? EXIT_UNREACHABLE : EXIT_REFUSED;
}

int exchange(struct cli *c, const struct call *call, struct reply *r)
{
    struct err e = ERR_INIT;

    if (client_call(c->client, call, r, &e) < 0)
        return say_error(c, &e);
    return r->status < 400 ? 0 : say_problem(c, r);
}

int fetch(struct cli *c, const char *path, struct reply *r)
{
    const struct call call = {.method = "GET", .path = path};

    return exchange(c, &call, r);
}

int post(struct cli *c, const char *path, struct reply *r)
{
    const struct call call = {.method = "POST", .path = path};

    return exchange(c, &call, r);
}
