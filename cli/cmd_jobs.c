/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice list, status, cancel, hold, release, script, artifacts.
 */
#include "cli/cli.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- list -------------------------------------------------------------- */

static const struct option list_options[] = {
    {"state", required_argument, NULL, 's'},
    {"workflow", required_argument, NULL, 'w'},
    {"owner", required_argument, NULL, 'o'},
    {"label", required_argument, NULL, 'l'},
    {"since", required_argument, NULL, 'f'},
    {"until", required_argument, NULL, 'u'},
    {"limit", required_argument, NULL, 'n'},
    {"cursor", required_argument, NULL, 'c'},
    {0}};

static const char *option_name(int value)
{
    for (const struct option *o = list_options; o->name != NULL; o++) {
        if (o->val == value)
            return o->name;
    }
    return NULL;
}

static int list_path(struct cli *c, int argc, char **argv, struct buf *path)
{
    int option;
    char mark = '?';

    buf_puts(path, "/v1/jobs");
    while ((option = getopt_long(argc, argv, "", list_options, NULL)) != -1) {
        char *value;

        if (option_name(option) == NULL)
            return -1;
        value = client_escape(c->client, optarg);
        buf_printf(path, "%c%s=%s", mark, option_name(option),
                   value != NULL ? value : "");
        free(value);
        mark = '&';
    }
    return optind < argc || !buf_ok(path) ? -1 : 0;
}

int cmd_list(struct cli *c, int argc, char **argv)
{
    static const struct column columns[] = {{"ID", "id"},
                                            {"WORKFLOW", "workflow"},
                                            {"STATE", "state"},
                                            {"DETAIL", "detail"},
                                            {"SLURM", "slurm.job_id"},
                                            {"OWNER", "owner.principal"},
                                            {"CREATED", "created_at"},
                                            {"GPU-S", "gpu_seconds"}};
    struct reply r = {0};
    struct buf path;
    int rc;

    buf_init(&path, 4096);
    if (list_path(c, argc, argv, &path) < 0) {
        buf_clear(&path);
        return usage_error(c, "list", NULL);
    }
    rc = fetch(c, buf_str(&path), &r);
    buf_clear(&path);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0)
        print_table(c, json_object_get(r.json, "jobs"), columns,
                    sizeof(columns) / sizeof(columns[0]));
    if (rc == 0 && !c->json && json_is_string(json_object_get(r.json, "next")))
        fprintf(stderr, "more: --cursor %s\n", field(r.json, "next"));
    reply_clear(&r);
    return rc;
}

/* ---- one job ----------------------------------------------------------- */

static int show_job(struct cli *c, const json_t *job)
{
    if (c->json)
        print_json(job);
    else
        print_job(c, job);
    return 0;
}

int cmd_status(struct cli *c, int argc, char **argv)
{
    bool wait = argc > 1 && strcmp(argv[1], "--wait") == 0;
    struct reply r = {0};
    json_t *job = NULL;
    char path[128];
    int rc;

    if (argc == 3 && strcmp(argv[2], "--wait") == 0) {
        wait = true;
        argv[2] = argv[1];
    }
    if (argc != (wait ? 3 : 2))
        return usage_error(c, "status", NULL);
    if (wait) {
        rc = follow_job(c, argv[2], &job);
    } else {
        snprintf(path, sizeof(path), "/v1/jobs/%s", argv[1]);
        rc = fetch(c, path, &r);
        job = json_incref(r.json);
    }
    if (rc == 0) {
        show_job(c, job);
        rc = wait ? job_exit_code(job) : 0;
    }
    json_decref(job);
    reply_clear(&r);
    return rc;
}

int cmd_act(struct cli *c, int argc, char **argv)
{
    struct reply r = {0};
    char path[160];
    int rc;

    if (argc != 2)
        return usage_error(c, argv[0], NULL);
    snprintf(path, sizeof(path), "/v1/jobs/%s/%s", argv[1], argv[0]);
    rc = post(c, path, &r);
    if (rc == 0)
        show_job(c, r.json);
    reply_clear(&r);
    return rc;
}

int cmd_script(struct cli *c, int argc, char **argv)
{
    char path[160];
    const struct call call = {
        .method = "GET", .path = path, .accept = "text/x-shellscript, */*"};
    struct reply r = {0};
    int rc;

    if (argc != 2)
        return usage_error(c, "script", NULL);
    snprintf(path, sizeof(path), "/v1/jobs/%s/script", argv[1]);
    rc = exchange(c, &call, &r);
    if (rc == 0)
        fwrite(buf_str(&r.body), 1, r.body.len, stdout);
    reply_clear(&r);
    return rc;
}

/* ---- artifacts --------------------------------------------------------- */

static int list_artifacts(struct cli *c, const char *id)
{
    static const struct column columns[] = {
        {"PATH", "path"}, {"BYTES", "bytes"}, {"MODIFIED", "modified_at"}};
    struct reply r = {0};
    char path[160];
    int rc;

    snprintf(path, sizeof(path), "/v1/jobs/%s/artifacts", id);
    rc = fetch(c, path, &r);
    if (rc == 0 && c->json)
        print_json(r.json);
    else if (rc == 0)
        print_table(c, json_object_get(r.json, "artifacts"), columns, 3);
    reply_clear(&r);
    return rc;
}

/* Escape each segment, keep the slashes. */
static void add_escaped_path(struct cli *c, struct buf *out, const char *path)
{
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        char *part = strndup(path, n);
        char *escaped = part != NULL ? client_escape(c->client, part) : NULL;

        buf_puts(out, escaped != NULL ? escaped : "");
        free(part);
        free(escaped);
        path += n;
        if (*path == '/') {
            buf_putc(out, '/');
            path++;
        }
    }
}

static int download(struct cli *c, const char *id, const char *name,
                    const char *to)
{
    struct buf path;
    struct reply r = {0};
    struct call call = {.method = "GET",
                        .accept = "*/*",
                        .timeout_seconds = 3600,
                        .out_fd = STDOUT_FILENO};
    int rc;

    if (to != NULL && strcmp(to, "-") == 0)
        to = NULL;
    if (to != NULL) {
        call.out_fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (call.out_fd < 0) {
            fprintf(stderr, "sluice: %s: %s\n", to, strerror(errno));
            return EXIT_USAGE;
        }
    }
    buf_init(&path, 4096);
    buf_printf(&path, "/v1/jobs/%s/artifacts/", id);
    add_escaped_path(c, &path, name);
    call.path = buf_str(&path);
    rc = exchange(c, &call, &r);
    if (to != NULL)
        close(call.out_fd);
    if (to != NULL && rc != 0)
        unlink(to); /* a cut download is no download */
    buf_clear(&path);
    reply_clear(&r);
    return rc;
}

int cmd_artifacts(struct cli *c, int argc, char **argv)
{
    if (argc == 2)
        return list_artifacts(c, argv[1]);
    if (argc == 3)
        return download(c, argv[1], argv[2], NULL);
    if (argc == 5 && strcmp(argv[3], "-o") == 0)
        return download(c, argv[1], argv[2], argv[4]);
    return usage_error(c, "artifacts", NULL);
}
