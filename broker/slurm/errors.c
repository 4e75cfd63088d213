/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/errors.h"

#include <slurm/slurm_errno.h>
#include <stddef.h>
#include <string.h>

/* Compared by enum name: the numbers are positions. Each name exists in 22.05,
 * 24.11 and 26.05. `wait`: slurmctld is there, but not ready. */
static const struct row {
    int number;
    const char *code;
    bool wait;
} rows[] = {
    {ESLURM_INVALID_PARTITION_NAME, "slurm_invalid_partition", false},
    {ESLURM_DEFAULT_PARTITION_NOT_SET, "slurm_invalid_partition", false},
    {ESLURM_ACCESS_DENIED, "slurm_access_denied", false},
    {ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP, "slurm_partition_denied",
     false},
    {ESLURM_REQUESTED_NODES_NOT_IN_PARTITION, "slurm_nodes_not_in_partition",
     false},
    {ESLURM_TOO_MANY_REQUESTED_CPUS, "slurm_too_many_cpus", false},
    {ESLURM_INVALID_NODE_COUNT, "slurm_invalid_node_count", false},
    {ESLURM_JOB_SCRIPT_MISSING, "slurm_script_missing", false},
    {ESLURM_USER_ID_MISSING, "slurm_invalid_user", false},
    {ESLURM_PATHNAME_TOO_LONG, "slurm_path_too_long", false},
    {ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, "slurm_node_unavailable", false},
    {ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE, "slurm_partition_limits", false},
    {ESLURM_NODES_BUSY, "slurm_nodes_busy", false},
    {ESLURM_INVALID_JOB_ID, "slurm_invalid_job", false},
    {ESLURM_INVALID_NODE_NAME, "slurm_invalid_node", false},
    {ESLURM_WRITING_TO_FILE, "slurm_state_write", true},
    {ESLURM_TRANSITION_STATE_NO_UPDATE, "slurm_job_in_transition", false},
    {ESLURM_ALREADY_DONE, "slurm_already_done", false},
    {ESLURM_JOB_PENDING, "slurm_job_pending", false},
    {ESLURM_BAD_TASK_COUNT, "slurm_bad_task_count", false},
    {ESLURM_IN_STANDBY_MODE, "slurm_standby", true},
    {ESLURM_INVALID_FEATURE, "slurm_invalid_constraint", false},
    {ESLURM_FRAGMENTATION, "slurm_fragmentation", false},
    {ESLURM_NOT_SUPPORTED, "slurm_not_supported", false},
    {ESLURM_DISABLED, "slurm_disabled", false},
    {ESLURM_DEPENDENCY, "slurm_dependency", false},
    {ESLURM_JOB_HELD, "slurm_job_held", false},
    {ESLURM_INVALID_TASK_MEMORY, "slurm_invalid_memory", false},
    {ESLURM_INVALID_ACCOUNT, "slurm_invalid_account", false},
    {ESLURM_INVALID_LICENSES, "slurm_invalid_licenses", false},
    {ESLURM_ACCOUNTING_POLICY, "slurm_accounting_policy", false},
    {ESLURM_INVALID_TIME_LIMIT, "slurm_time_limit", false},
    {ESLURM_RESERVATION_ACCESS, "slurm_reservation_denied", false},
    {ESLURM_RESERVATION_INVALID, "slurm_invalid_reservation", false},
    {ESLURM_RESERVATION_NOT_USABLE, "slurm_reservation_unusable", false},
    {ESLURM_INVALID_WCKEY, "slurm_invalid_wckey", false},
    {ESLURM_INVALID_QOS, "slurm_invalid_qos", false},
    {ESLURM_NODE_NOT_AVAIL, "slurm_node_not_available", false},
    {ESLURM_INVALID_CPU_COUNT, "slurm_invalid_cpu_count", false},
    {ESLURM_PARTITION_NOT_AVAIL, "slurm_partition_unavailable", false},
    {ESLURM_INVALID_GRES, "slurm_invalid_gres", false},
    {ESLURM_JOB_NOT_PENDING, "slurm_job_not_pending", false},
    {ESLURM_QOS_THRES, "slurm_qos_threshold", false},
    {ESLURM_JOB_SUSPENDED, "slurm_job_suspended", false},
    {ESLURM_CAN_NOT_START_IMMEDIATELY, "slurm_cannot_start", false},
    {ESLURM_JOB_FINISHED, "slurm_job_finished", false},
    {ESLURM_JOB_NOT_RUNNING, "slurm_job_not_running", false},
    {ESLURM_INTERNAL, "slurm_internal", false},
    {ESLURM_PARTITION_DOWN, "slurm_partition_down", false},
    {ESLURM_SUBMISSIONS_DISABLED, "slurm_submissions_disabled", true},
    {ESLURM_GROUP_ID_MISSING, "slurm_invalid_group", false},
    {ESLURM_BATCH_CONSTRAINT, "slurm_invalid_constraint", false},
    {ESLURM_INVALID_TRES, "slurm_invalid_tres", false},
    {ESLURM_RESERVATION_MAINT, "slurm_reservation_maintenance", false},
    {ESLURM_INVALID_GRES_TYPE, "slurm_invalid_gres_type", false},
    {ESLURM_UNSUPPORTED_GRES, "slurm_unsupported_gres", false},
    {ESLURM_INVALID_NICE, "slurm_invalid_nice", false},
    {ESLURM_ENVIRONMENT_MISSING, "slurm_environment_missing", false},
    {ESLURM_PARTITION_ASSOC, "slurm_partition_denied", false},
    {ESLURM_IN_STANDBY_USE_BACKUP, "slurm_standby", true},
    {ESLURM_BAD_THREAD_PER_CORE, "slurm_bad_threads_per_core", false},
    {ESLURM_INSUFFICIENT_GRES, "slurm_insufficient_gres", false},
    {ESLURM_DB_CONNECTION, "slurm_accounting_down", true},
    {ESLURM_RESULT_TOO_LARGE, "slurm_result_too_large", false},
    {ESLURM_DB_QUERY_TOO_WIDE, "slurm_query_too_wide", false},
    {ESLURM_MISSING_TIME_LIMIT, "slurm_missing_time_limit", false},
};

static const struct row *find(int code)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].number == code)
            return &rows[i];
    return NULL;
}

enum errors_proof errors_proof(int code)
{
    if (code == SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR)
        return ERRORS_UNREACHABLE;
    /* slurmctld's own replies; 5xxx, 1xxx and system errnos are transport. */
    if ((code >= 2000 && code < 3000) || (code >= 7000 && code < 9000))
        return ERRORS_REFUSED;
    return ERRORS_LOST;
}

const char *errors_code(int code)
{
    const struct row *r = find(code);

    return r != NULL ? r->code : "slurm_error";
}

int errors_set(struct err *e, int code, bool sent, const char *words,
               const char *said)
{
    enum errors_proof proof = errors_proof(code);
    const struct row *r = find(code);
    const char *colon = said[0] != '\0' ? ": " : "";
    bool fresh = !err_is_set(e);

    if (proof == ERRORS_REFUSED)
        (void)err_set(e, r != NULL && r->wait ? ERR_UNAVAILABLE : ERR_SLURM,
                      errors_code(code), "Slurm refused: %s%s%s", words, colon,
                      said);
    else if (proof == ERRORS_UNREACHABLE)
        (void)err_set(e, ERR_UNAVAILABLE, "slurm_unreachable",
                      "slurmctld can't be reached; nothing was sent");
    else
        (void)err_set(e, sent ? ERR_UNKNOWN : ERR_UNAVAILABLE,
                      "slurm_no_answer", "Slurm's answer did not come (%s%s%s)",
                      words, colon, said);
    if (e != NULL && fresh)
        e->sys = code;
    return -1;
}
