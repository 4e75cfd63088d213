/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/jobs/messages.h"
#include "broker/jobs/states.h"

#include <string.h>

static const char *none(const char *s)
{
    return s ? s : "";
}

/* The mapping, line by line. */
static void slurms_states_map_to_our_six(void **state)
{
    static const struct {
        const char *base, *flag, *reason;
        bool held;
        int64_t code, signal;
        const char *state, *detail, *why, *error_class;
        bool ended;
    } rows[] = {
        {"PENDING", 0, "Priority", 0, 0, 0, "PENDING", "queued",
         "slurm_priority", 0, 0},
        {"PENDING", 0, "Resources", 0, 0, 0, "PENDING", "queued",
         "slurm_resources", 0, 0},
        {"PENDING", 0, "JobHeldUser", 0, 0, 0, "PENDING", "held",
         "slurm_held_user", 0, 0},
        {"PENDING", 0, "JobHeldAdmin", 0, 0, 0, "PENDING", "held",
         "slurm_held_admin", 0, 0},
        {"PENDING", 0, "None", true, 0, 0, "PENDING", "held", "slurm_held_user",
         0, 0},
        {"PENDING", 0, "QOSMaxGRESPerUser", 0, 0, 0, "PENDING", "queued",
         "slurm_limit", 0, 0},
        {"PENDING", 0, "SomethingNew", 0, 0, 0, "PENDING", "queued",
         "slurm_waiting", 0, 0},
        {"RUNNING", 0, 0, 0, 0, 0, "RUNNING", "running", 0, 0, 0},
        {"RUNNING", "CONFIGURING", 0, 0, 0, 0, "RUNNING", "configuring", 0, 0,
         0},
        {"RUNNING", "STOPPED", 0, 0, 0, 0, "RUNNING", "suspended", 0, 0, 0},
        {"SUSPENDED", 0, 0, 0, 0, 0, "RUNNING", "suspended", 0, 0, 0},
        {"COMPLETED", 0, 0, 0, 0, 0, "COMPLETE", "ended", 0, 0, true},
        {"COMPLETED", "COMPLETING", 0, 0, 0, 0, "RUNNING", "completing", 0, 0,
         0},
        {"FAILED", "COMPLETING", 0, 0, 1, 0, "RUNNING", "completing", 0, 0, 0},
        {"FAILED", 0, 0, 0, 1, 0, "ERROR", "ended", "program_failed", "program",
         true},
        {"FAILED", 0, 0, 0, 0, 9, "ERROR", "ended", "program_signal", "program",
         true},
        {"FAILED", 0, 0, 0, 0, 53, "ERROR", "ended", "output_failed", "infra",
         true},
        {"FAILED", "LAUNCH_FAILED", 0, 0, 1, 0, "ERROR", "ended",
         "launch_failed", "infra", true},
        {"TIMEOUT", 0, 0, 0, 0, 15, "ERROR", "ended", "timeout", "timeout",
         true},
        {"DEADLINE", 0, 0, 0, 0, 0, "ERROR", "ended", "deadline", "timeout",
         true},
        {"OUT_OF_MEMORY", 0, 0, 0, 0, 125, "ERROR", "ended", "memory", "memory",
         true},
        {"NODE_FAIL", 0, 0, 0, 0, 0, "ERROR", "ended", "node_failed", "infra",
         true},
        {"BOOT_FAIL", 0, 0, 0, 0, 0, "ERROR", "ended", "boot_failed", "infra",
         true},
        {"CANCELLED", 0, 0, 0, 0, 15, "CANCELED", "ended", "canceled", 0, true},
        {"PREEMPTED", 0, 0, 0, 0, 0, "CANCELED", "ended", "preempted", 0, true},
        {"PREEMPTED", "REQUEUED", 0, 0, 0, 0, "PENDING", "queued",
         "slurm_requeued", 0, 0},
        {"NODE_FAIL", "REQUEUED", 0, 0, 0, 0, "PENDING", "queued",
         "slurm_requeued", 0, 0},
        {"PENDING", "REQUEUE_HOLD", 0, 0, 0, 0, "PENDING", "held",
         "slurm_launch_held", 0, 0},
        {"PENDING", "SPECIAL_EXIT", 0, 0, 0, 0, "PENDING", "held",
         "slurm_launch_held", 0, 0},
        {"CANCELLED", "REVOKED", 0, 0, 0, 0, "CANCELED", "ended", "revoked", 0,
         true},
        {"SOMETHING", 0, 0, 0, 0, 0, "UNKNOWN", "unknown", "state_unknown", 0,
         0},
        {0, 0, 0, 0, 0, 0, "UNKNOWN", "unknown", "state_unknown", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *flags =
            rows[i].flag ? json_pack("[s]", rows[i].flag) : json_array();
        struct slurm_view v = {.state = rows[i].base,
                               .flags = flags,
                               .reason = rows[i].reason,
                               .priority_held = rows[i].held,
                               .exit_code = rows[i].code,
                               .exit_signal = rows[i].signal};
        struct state_map m;
        states_map(&v, &m);
        assert_string_equal(job_state_name(m.state), rows[i].state);
        assert_string_equal(m.detail, rows[i].detail);
        assert_string_equal(none(m.reason), none(rows[i].why));
        assert_string_equal(none(m.error_class), none(rows[i].error_class));
        assert_int_equal(m.ended, rows[i].ended);
        json_decref(flags);
    }
}

static void requeued_rows_are_not_the_end(void **state)
{
    (void)state;
    assert_true(states_row_requeued("REQUEUED", NULL));
    assert_true(states_row_requeued("RESIZING", NULL));
    assert_false(states_row_requeued("COMPLETED", NULL));
    assert_false(states_row_requeued(NULL, NULL));
}

static void state_names_are_read_back(void **state)
{
    (void)state;
    for (int i = JOB_PENDING; i <= JOB_UNKNOWN; i++)
        assert_int_equal(job_state_parse(job_state_name((enum job_state)i)), i);
    assert_int_equal(job_state_parse("RUNNING "), -1);
    assert_int_equal(job_state_parse(""), -1);
}

static void every_sentence_is_there_twice_and_in_order(void **state)
{
    size_t n;
    const struct message *m = message_all(&n);

    (void)state;
    assert_true(n > 60);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(message_find(m[i].code), &m[i]);
        assert_true(strlen(m[i].en) > 3 && strlen(m[i].zh) > 3);
        assert_null(strchr(m[i].en, '%'));
        if (i > 0)
            assert_true(strcmp(m[i - 1].code, m[i].code) < 0);
    }
    assert_null(message_find("no_such_code"));
    assert_null(message_find(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurms_states_map_to_our_six),
        cmocka_unit_test(requeued_rows_are_not_the_end),
        cmocka_unit_test(state_names_are_read_back),
        cmocka_unit_test(every_sentence_is_there_twice_and_in_order)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
