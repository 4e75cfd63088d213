/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice submit: a fresh idempotency key unless one is given, so that a try
 * whose answer was lost can be made again without a second job.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/json.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIES = 4, PARAMS_FILE_MAX = 64 * 1024 };

struct submit {
    const char *workflow, *params_file, *key;
    bool dry_run, wait;
    json_t *params, *secrets, *labels;
    char own_key[ULID_LEN + 1];
};

static const struct option options[] = {
    {"params", required_argument, NULL, 'p'},
    {"secret", required_argument, NULL, 's'},
    {"label", required_argument, NULL, 'l'},
    {"dry-run", no_argument, NULL, 'n'},
    {"wait", no_argument, NULL, 'w'},
    {"idempotency-key", required_argument, NULL, 'k'},
    {0}};

static int read_params(struct submit *s, struct err *e)
{
    size_t n = 0;
    char *text;

    if (s->params_file == NULL) {
        s->params = json_object();
        return s->params == NULL ? err_nomem(e) : 0;
    }
    text = file_read(AT_FDCWD, s->params_file, PARAMS_FILE_MAX, &n, e);
    if (text == NULL)
        return -1;
    s->params = json_parse(text, n, PARAMS_FILE_MAX, e);
    free(text);
    if (s->params == NULL || json_is_object(s->params))
        return s->params == NULL ? -1 : 0;
    return err_set(e, ERR_INVALID, "params_file",
                   "the parameter file must hold a JSON object");
}

static int add_label(struct submit *s, const char *arg, struct err *e)
{
    const char *eq = strchr(arg, '=');
    char name[64];

    if (eq == NULL || eq == arg || (size_t)(eq - arg) >= sizeof(name))
        return err_set(e, ERR_INVALID, "label_form",
                       "labels look like key=value");
    memcpy(name, arg, (size_t)(eq - arg));
    name[eq - arg] = '\0';
    return json_put_str(s->labels, name, eq + 1) < 0 ? err_nomem(e) : 0;
}

static int parse_option(struct submit *s, int option, struct err *e)
{
    switch (option) {
    case 'p':
        s->params_file = optarg;
        return 0;
    case 's':
        return secret_add(s->secrets, optarg, e);
    case 'l':
        return add_label(s, optarg, e);
    case 'n':
        s->dry_run = true;
        return 0;
    case 'w':
        s->wait = true;
        return 0;
    case 'k':
        s->key = optarg;
        return 0;
    default:
        return err_set(e, ERR_INVALID, "usage", "unknown option");
    }
}

static int parse_arguments(struct submit *s, int argc, char **argv,
                           struct err *e)
{
    int option;

    s->secrets = json_object();
    s->labels = json_object();
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (parse_option(s, option, e) < 0)
            return -1;
    }
    if (optind >= argc)
        return err_set(e, ERR_INVALID, "usage", "which workflow?");
    s->workflow = argv[optind++];
    if (s->key == NULL && id_ulid(clock_now_ms(), s->own_key) == 0)
        s->key = s->own_key;
    return 0;
}

/* The rest of the arguments are parameters; their types come from the
 * workflow's document. */
static int add_params(struct cli *c, struct submit *s, int argc, char **argv,
                      struct err *e)
{
    struct reply r = {0};
    char *name = client_escape(c->client, s->workflow);
    char path[256];
    struct call call = {.method = "GET", .path = path};
    int rc = 0;

    if (name == NULL)
        return err_nomem(e);
    snprintf(path, sizeof(path), "/v1/workflows/%s", name);
    free(name);
    if (optind < argc && client_call(c->client, &call, &r, e) < 0)
        return -1;
    for (int i = optind; rc == 0 && i < argc; i++)
        rc = param_add(s->params, r.json, argv[i], e);
    if (optind < argc)
        reply_clear(&r);
    return rc;
}

static json_t *make_body(const struct submit *s)
{
    json_t *o = json_object();
    int bad = json_put_str(o, "workflow", s->workflow) |
              json_put(o, "params", json_incref(s->params));

    if (json_object_size(s->secrets) > 0)
        bad |= json_put(o, "secrets", json_incref(s->secrets));
    if (json_object_size(s->labels) > 0)
        bad |= json_put(o, "labels", json_incref(s->labels));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* No answer, or "the first try is still in flight": the same key again. */
static bool worth_another_try(int rc, const struct reply *r)
{
    const char *code = r->json != NULL ? field(r->json, "code") : "";

    return rc < 0 || strcmp(code, "idempotency_in_flight") == 0 ||
           (r->status == 503 && strcmp(code, "busy") == 0);
}

static int send_submit(struct cli *c, const struct submit *s, struct reply *r)
{
    json_t *body = make_body(s);
    const struct call call = {.method = "POST",
                              .body = body,
                              .idempotency_key = s->key,
                              .path = s->dry_run ? "/v1/jobs?dry_run=true"
                                                 : "/v1/jobs"};
    struct err e = ERR_INIT;
    int rc = -1;

    for (int i = 0; i < TRIES; i++) {
        err_clear(&e);
        if (i > 0) {
            reply_clear(r);
            sleep(1);
        }
        rc = client_call(c->client, &call, r, &e);
        if (!worth_another_try(rc, r))
            break;
    }
    json_decref(body);
    if (rc < 0)
        return say_error(c, &e);
    return r->status < 400 ? 0 : say_problem(c, r);
}

static void print_dry_run(const json_t *o)
{
    const char *script = json_string_value(json_object_get(o, "script"));

    fputs(script != NULL ? script : "", stdout);
    fprintf(stderr, "will run: %s, start estimate: %s\n", field(o, "will_run"),
            field(o, "start_estimate"));
    if (json_is_object(json_object_get(o, "slurm_error")))
        fprintf(stderr, "Slurm: %s [%s]\n", field(o, "slurm_error.text"),
                field(o, "slurm_error.code"));
}

static int show(struct cli *c, const struct submit *s, const struct reply *r)
{
    json_t *job = json_incref(r->json);
    int rc = 0;

    if (s->wait && !s->dry_run)
        rc = follow_job(c, field(r->json, "id"), &job);
    if (rc == 0 && c->json)
        print_json(job);
    else if (rc == 0 && s->dry_run)
        print_dry_run(job);
    else if (rc == 0)
        print_job(c, job);
    if (rc == 0 && !s->dry_run)
        rc = job_exit_code(job);
    json_decref(job);
    return rc;
}

int cmd_submit(struct cli *c, int argc, char **argv)
{
    struct submit s = {0};
    struct reply r = {0};
    struct err e = ERR_INIT;
    int rc;

    if (parse_arguments(&s, argc, argv, &e) < 0 || read_params(&s, &e) < 0)
        rc = usage_error(c, "submit", e.text);
    else if (add_params(c, &s, argc, argv, &e) < 0)
        rc = say_error(c, &e);
    else {
        rc = send_submit(c, &s, &r);
        if (rc == 0)
            rc = show(c, &s, &r);
        reply_clear(&r);
    }
    json_decref(s.params);
    json_decref(s.secrets);
    json_decref(s.labels);
    return rc;
}
