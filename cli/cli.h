/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The client's commands and what they share. Exit codes: 0 done, 1 the job
 * ended in error, 2 usage, 3 refused, 4 unreachable.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/err.h"
#include "cli/client.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    EXIT_DONE = 0,
    EXIT_JOB_ERROR,
    EXIT_USAGE,
    EXIT_REFUSED,
    EXIT_UNREACHABLE
};

struct cli {
    const char *url, *token_file;
    bool json;    /* print the API's document */
    bool color;   /* stdout is a terminal, NO_COLOR is not set */
    bool live;    /* stderr is a terminal: a live state line */
    bool chinese; /* LANG says so */
    struct client *client;
};

struct command {
    const char *name;
    int (*run)(struct cli *c, int argc, char **argv);
    const char *usage; /* after the name */
    const char *en, *zh;
};
const struct command *command_find(const char *name);
const struct command *command_all(size_t *count);

int cmd_me(struct cli *c, int argc, char **argv);
int cmd_workflows(struct cli *c, int argc, char **argv);
int cmd_describe(struct cli *c, int argc, char **argv);
int cmd_submit(struct cli *c, int argc, char **argv);
int cmd_list(struct cli *c, int argc, char **argv);
int cmd_status(struct cli *c, int argc, char **argv);
int cmd_logs(struct cli *c, int argc, char **argv);
int cmd_act(struct cli *c, int argc, char **argv); /* cancel hold release */
int cmd_script(struct cli *c, int argc, char **argv);
int cmd_artifacts(struct cli *c, int argc, char **argv);
int cmd_usage(struct cli *c, int argc, char **argv);
int cmd_audit(struct cli *c, int argc, char **argv);

/* usage.c */
void usage_print(const struct cli *c, FILE *out, const struct command *k);
/* Prints the command's usage to stderr. EXIT_USAGE. */
int usage_error(const struct cli *c, const char *command, const char *why);

/* exchange.c */
/* GET path. 0 with a 200/304 in r; else an exit code, and the problem has been
 * said on stderr. */
int fetch(struct cli *c, const char *path, struct reply *r);
int post(struct cli *c, const char *path, struct reply *r);
/* Any call. The same rule: statuses under 400 are 0. */
int exchange(struct cli *c, const struct call *call, struct reply *r);
/* Say an answer that is a refusal, or an err. Return the exit code. */
int say_problem(const struct cli *c, const struct reply *r);
int say_error(const struct cli *c, const struct err *e);

/* print.c */
void print_json(const json_t *v);
/* Field of an object as text; "-" when null or absent. Buffer is static, per
 * call site of at most 8 live results. */
const char *field(const json_t *o, const char *key);
const char *sentence(const struct cli *c, const json_t *both); /* {en, zh} */
void print_job(const struct cli *c, const json_t *job);
void print_state_line(const struct cli *c, const json_t *job); /* live */
void end_state_line(const struct cli *c);
/* Columns: keys of each row's object ("slurm.job_id" descends). */
struct column {
    const char *title, *key;
};
void print_table(const struct cli *c, const json_t *rows,
                 const struct column *columns, size_t n);

/* follow.c: until the job is final. *job is replaced by the last document
 * (owned). 0 or an exit code. */
int follow_job(struct cli *c, const char *id, json_t **job);
int job_exit_code(const json_t *job);
bool job_is_final(const json_t *job);

/* params.c: key=value, key:=json, key=@file by the workflow's document into
 * params (an object). 0, or -1 with e. */
int param_add(json_t *params, const json_t *workflow, const char *arg,
              struct err *e);
int secret_add(json_t *secrets, const char *arg, struct err *e);

#endif
