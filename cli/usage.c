/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The one table of commands: dispatch, usage, help.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct command commands[] = {
    {"me", cmd_me, "", "who you are to the server, and what you may run",
     "服务器眼中的你，以及你可以运行什么"},
    {"workflows", cmd_workflows, "", "the workflows you may run",
     "你可以运行的工作流"},
    {"describe", cmd_describe, "WORKFLOW", "a workflow's parameters",
     "工作流的参数"},
    {"submit", cmd_submit,
     "WORKFLOW [KEY=VALUE | KEY:=JSON | KEY=@FILE]... [--params FILE]\n"
     "         [--secret NAME=@FILE]... [--label KEY=VALUE]... [--dry-run]\n"
     "         [--wait] [--idempotency-key KEY]",
     "submit a job", "提交作业"},
    {"list", cmd_list,
     "[--state S] [--workflow W] [--owner P] [--label K=V]\n"
     "         [--since T] [--until T] [--limit N] [--cursor C]",
     "your jobs, newest first", "你的作业，最新的在前"},
    {"status", cmd_status, "JOB [--wait]", "a job's state", "作业的状态"},
    {"logs", cmd_logs, "JOB [-f] [--stderr] [--attempt N] [--offset N]",
     "what a job printed", "作业的输出"},
    {"cancel", cmd_act, "JOB", "cancel a job", "取消作业"},
    {"hold", cmd_act, "JOB", "keep a pending job from starting",
     "暂缓排队中的作业"},
    {"release", cmd_act, "JOB", "let a held job start", "放行被暂缓的作业"},
    {"script", cmd_script, "JOB", "the script that ran", "实际运行的脚本"},
    {"artifacts", cmd_artifacts, "JOB [PATH [-o FILE]]",
     "list or fetch what a job wrote", "列出或取回作业的产物"},
    {"usage", cmd_usage, "[--all]", "GPU-seconds by month and workflow",
     "按月份和工作流统计的 GPU 秒"},
    {"audit", cmd_audit,
     "[--job JOB] [--all] [--since T] [--until T] "
     "[--limit N]",
     "who decided what", "谁做了什么决定"},
};

const struct command *command_all(size_t *count)
{
    *count = sizeof(commands) / sizeof(commands[0]);
    return commands;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

void usage_print(const struct cli *c, FILE *out, const struct command *k)
{
    fprintf(out, "usage: sluice %s %s\n  %s\n", k->name, k->usage,
            c->chinese ? k->zh : k->en);
}

int usage_error(const struct cli *c, const char *command, const char *why)
{
    const struct command *k = command_find(command);

    if (why != NULL)
        fprintf(stderr, "sluice %s: %s\n", command, why);
    if (k != NULL)
        usage_print(c, stderr, k);
    return EXIT_USAGE;
}
