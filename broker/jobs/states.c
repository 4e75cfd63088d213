/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/states.h"

#include "broker/jobs/messages.h"

#include <string.h>

static const char *const names[] = {
    [JOB_PENDING] = "PENDING",   [JOB_RUNNING] = "RUNNING",
    [JOB_COMPLETE] = "COMPLETE", [JOB_ERROR] = "ERROR",
    [JOB_CANCELED] = "CANCELED", [JOB_UNKNOWN] = "UNKNOWN"};

const char *job_state_name(enum job_state s)
{
    return names[s];
}

int job_state_parse(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(names[i], name))
            return (int)i;
    }
    return -1;
}

static bool has_flag(const json_t *flags, const char *flag)
{
    for (size_t i = 0; i < json_array_size(flags); i++) {
        const char *f = json_string_value(json_array_get(flags, i));
        if (f && !strcmp(f, flag))
            return true;
    }
    return false;
}

/* Flags that win over the base state, in this order. */
static const struct {
    const char *flag;
    enum job_state state;
    const char *detail, *reason;
    bool ended;
} by_flag[] = {
    {"REVOKED", JOB_CANCELED, "ended", "revoked", true},
    {"COMPLETING", JOB_RUNNING, "completing", NULL, false},
    {"STAGE_OUT", JOB_RUNNING, "completing", NULL, false},
    {"REQUEUED", JOB_PENDING, "queued", "slurm_requeued", false},
    {"REQUEUE", JOB_PENDING, "queued", "slurm_requeued", false},
    {"REQUEUE_FED", JOB_PENDING, "queued", "slurm_requeued", false},
    {"REQUEUE_HOLD", JOB_PENDING, "held", "slurm_launch_held", false},
    {"SPECIAL_EXIT", JOB_PENDING, "held", "slurm_launch_held", false},
    {"EXPEDITING", JOB_PENDING, "queued", "slurm_requeued", false},
    {"GETENV_FAILED", JOB_PENDING, "held", "slurm_launch_held", false},
};

static const struct {
    const char *base;
    enum job_state state;
    const char *detail, *reason, *error_class;
    bool ended;
} by_base[] = {
    {"PENDING", JOB_PENDING, "queued", NULL, NULL, false},
    {"RUNNING", JOB_RUNNING, "running", NULL, NULL, false},
    {"SUSPENDED", JOB_RUNNING, "suspended", NULL, NULL, false},
    {"COMPLETED", JOB_COMPLETE, "ended", NULL, NULL, true},
    {"CANCELLED", JOB_CANCELED, "ended", "canceled", NULL, true},
    {"REVOKED", JOB_CANCELED, "ended", "revoked", NULL, true}, /* in a row */
    {"PREEMPTED", JOB_CANCELED, "ended", "preempted", NULL, true},
    {"FAILED", JOB_ERROR, "ended", "program_failed", "program", true},
    {"TIMEOUT", JOB_ERROR, "ended", "timeout", "timeout", true},
    {"DEADLINE", JOB_ERROR, "ended", "deadline", "timeout", true},
    {"OUT_OF_MEMORY", JOB_ERROR, "ended", "memory", "memory", true},
    {"NODE_FAIL", JOB_ERROR, "ended", "node_failed", "infra", true},
    {"BOOT_FAIL", JOB_ERROR, "ended", "boot_failed", "infra", true},
};

static bool map_flag(const struct slurm_view *v, struct state_map *out)
{
    for (size_t i = 0; i < sizeof by_flag / sizeof by_flag[0]; i++) {
        if (!has_flag(v->flags, by_flag[i].flag))
            continue;
        out->state = by_flag[i].state;
        out->detail = by_flag[i].detail;
        out->reason = by_flag[i].reason;
        out->ended = by_flag[i].ended;
        return true;
    }
    return false;
}

static bool map_base(const struct slurm_view *v, struct state_map *out)
{
    for (size_t i = 0; i < sizeof by_base / sizeof by_base[0]; i++) {
        if (!v->state || strcmp(v->state, by_base[i].base))
            continue;
        out->state = by_base[i].state;
        out->detail = by_base[i].detail;
        out->reason = by_base[i].reason;
        out->error_class = by_base[i].error_class;
        out->ended = by_base[i].ended;
        return true;
    }
    return false;
}

/* Exit 0:53 is slurmstepd that couldn't open the log:
 * ours or the share's fault, not the program's. */
enum { SIGNAL_OUTPUT = 53 };

static void refine_failed(const struct slurm_view *v, struct state_map *out)
{
    if (has_flag(v->flags, "LAUNCH_FAILED")) {
        out->reason = "launch_failed";
        out->error_class = "infra";
    } else if (v->exit_code == 0 && v->exit_signal == SIGNAL_OUTPUT) {
        out->reason = "output_failed";
        out->error_class = "infra";
    } else if (v->exit_signal > 0) {
        out->reason = "program_signal";
    }
}

static void refine_pending(const struct slurm_view *v, struct state_map *out)
{
    bool held =
        v->priority_held || (v->reason && !strncmp(v->reason, "JobHeld", 7));

    out->reason = message_for_slurm_reason(v->reason);
    if (!held)
        return;
    out->detail = "held";
    if (strcmp(out->reason, "slurm_held_admin"))
        out->reason = "slurm_held_user";
}

static void refine_running(const struct slurm_view *v, struct state_map *out)
{
    if (has_flag(v->flags, "CONFIGURING") ||
        has_flag(v->flags, "POWER_UP_NODE"))
        out->detail = "configuring";
    else if (has_flag(v->flags, "STOPPED"))
        out->detail = "suspended";
}

void states_map(const struct slurm_view *v, struct state_map *out)
{
    *out = (struct state_map){
        .state = JOB_UNKNOWN, .detail = "unknown", .reason = "state_unknown"};
    if (map_flag(v, out) || !map_base(v, out))
        return;
    if (out->state == JOB_PENDING)
        refine_pending(v, out);
    else if (!strcmp(out->detail, "running"))
        refine_running(v, out);
    else if (out->ended && !strcmp(v->state, "FAILED"))
        refine_failed(v, out);
}

bool states_row_requeued(const char *state, const json_t *flags)
{
    static const char *const words[] = {"REQUEUED", "REQUEUE", "RESIZING"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if ((state && !strcmp(state, words[i])) || has_flag(flags, words[i]))
            return true;
    }
    return false;
}
