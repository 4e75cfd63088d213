/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice me, workflows, describe, usage, audit.
 */
#include "cli/cli.h"

#include "base/json.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cmd_me(struct cli *c, int argc, char **argv)
{
    static const struct column rows[] = {
        {"principal", "principal"}, {"account", "account"},
        {"roles", "roles"},         {"groups", "groups"},
        {"proof", "proof"},         {"workflows", "workflows"},
        {"cluster", "cluster"},     {"mode", "mode"},
        {"quotas", "quotas"}};
    struct reply r = {0};
    int rc;

    (void)argv;
    if (argc != 1)
        return usage_error(c, "me", NULL);
    rc = fetch(c, "/v1/me", &r);
    if (rc == 0 && c->json)
        print_json(r.json);
    for (size_t i = 0;
         rc == 0 && !c->json && i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%-10s %s\n", rows[i].title, field(r.json, rows[i].key));
    reply_clear(&r);
    return rc;
}

int cmd_workflows(struct cli *c, int argc, char **argv)
{
    const struct column columns[] = {
        {"NAME", "name"}, {"TITLE", c->chinese ? "title.zh" : "title.en"}};
    struct reply r = {0};
    int rc;

    (void)argv;
    if (argc != 1)
        return usage_error(c, "workflows", NULL);
    rc = fetch(c, "/v1/workflows", &r);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0)
        print_table(c, json_object_get(r.json, "workflows"), columns, 2);
    reply_clear(&r);
    return rc;
}

static void print_workflow(const struct cli *c, const json_t *w)
{
    const struct column columns[] = {
        {"PARAMETER", "name"},
        {"TYPE", "type"},
        {"REQUIRED", "required"},
        {"DEFAULT", "default"},
        {"MIN", "min"},
        {"MAX", "max"},
        {"VALUES", "values"},
        {"TITLE", c->chinese ? "title.zh" : "title.en"}};

    printf("%s: %s\n", field(w, "name"),
           sentence(c, json_object_get(w, "title")));
    printf("resources %s\n", field(w, "resources"));
    printf("secrets   %s\n\n", field(w, "secrets"));
    print_table(c, json_object_get(w, "params"), columns,
                sizeof(columns) / sizeof(columns[0]));
}

int cmd_describe(struct cli *c, int argc, char **argv)
{
    struct reply r = {0};
    char path[256], *name;
    int rc;

    if (argc != 2)
        return usage_error(c, "describe", NULL);
    name = client_escape(c->client, argv[1]);
    snprintf(path, sizeof(path), "/v1/workflows/%s", name != NULL ? name : "");
    free(name);
    rc = fetch(c, path, &r);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0)
        print_workflow(c, r.json);
    reply_clear(&r);
    return rc;
}

int cmd_usage(struct cli *c, int argc, char **argv)
{
    static const struct column columns[] = {
        {"MONTH", "month"},       {"OWNER", "owner"},
        {"WORKFLOW", "workflow"}, {"GPU TYPE", "gpu_type"},
        {"RUNS", "runs"},         {"GPU-SECONDS", "gpu_seconds"}};
    bool all = argc == 2 && strcmp(argv[1], "--all") == 0;
    struct reply r = {0};
    int rc;

    if (argc != (all ? 2 : 1))
        return usage_error(c, "usage", NULL);
    rc = fetch(c, all ? "/v1/usage?all=true" : "/v1/usage", &r);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0) {
        print_table(c, json_object_get(r.json, "usage"), columns, 6);
        printf("total %s GPU-seconds\n", field(r.json, "gpu_seconds"));
    }
    reply_clear(&r);
    return rc;
}

static const struct option audit_options[] = {
    {"job", required_argument, NULL, 'j'},
    {"since", required_argument, NULL, 's'},
    {"until", required_argument, NULL, 'u'},
    {"limit", required_argument, NULL, 'n'},
    {"all", no_argument, NULL, 'a'},
    {0}};

static int audit_path(struct cli *c, int argc, char **argv, struct buf *path)
{
    char mark = '?';
    int option;

    buf_puts(path, "/v1/audit");
    while ((option = getopt_long(argc, argv, "", audit_options, NULL)) != -1) {
        const struct option *o = audit_options;
        char *value;

        while (o->name != NULL && o->val != option)
            o++;
        if (o->name == NULL)
            return -1;
        value = client_escape(c->client, optarg != NULL ? optarg : "true");
        buf_printf(path, "%c%s=%s", mark, o->name, value != NULL ? value : "");
        free(value);
        mark = '&';
    }
    return optind < argc || !buf_ok(path) ? -1 : 0;
}

int cmd_audit(struct cli *c, int argc, char **argv)
{
    static const struct column columns[] = {
        {"SEQ", "seq"},         {"AT", "at"},     {"KIND", "kind"},
        {"ACTION", "action"},   {"CODE", "code"}, {"PRINCIPAL", "person"},
        {"REQUEST", "request"}, {"JOB", "job"}};
    struct reply r = {0};
    struct buf path;
    int rc;

    buf_init(&path, 4096);
    if (audit_path(c, argc, argv, &path) < 0) {
        buf_clear(&path);
        return usage_error(c, "audit", NULL);
    }
    rc = fetch(c, buf_str(&path), &r);
    buf_clear(&path);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0)
        print_table(c, json_object_get(r.json, "rows"), columns,
                    sizeof(columns) / sizeof(columns[0]));
    reply_clear(&r);
    return rc;
}
