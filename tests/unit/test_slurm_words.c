/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Slurm's numbers as words, its errors as codes and proofs, and the choice of
 * account and QOS. No Slurm is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "broker/slurm/assoc.h"
#include "broker/slurm/errors.h"
#include "broker/slurm/words.h"

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void same_json(json_t *got, const char *want)
{
    char *text = json_text(got);

    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
    json_decref(got);
}

static void states_have_slurms_words(void **state)
{
    (void)state;
    assert_string_equal(words_state(JOB_PENDING), "PENDING");
    assert_string_equal(words_state(JOB_COMPLETE), "COMPLETED");
    assert_string_equal(words_state(JOB_OOM | JOB_COMPLETING), "OUT_OF_MEMORY");
    assert_string_equal(words_state(JOB_END), "UNKNOWN");
    assert_string_equal(words_state(0xff), "UNKNOWN");
    assert_false(words_ended(JOB_SUSPENDED));
    assert_true(words_ended(JOB_COMPLETE | JOB_COMPLETING));
    assert_true(words_ended(JOB_BOOT_FAIL));
}

static void flags_are_listed_lowest_first(void **state)
{
    (void)state;
    same_json(words_flags(JOB_RUNNING), "[]");
    same_json(words_flags(JOB_CANCELLED | JOB_COMPLETING | JOB_REQUEUE),
              "[\"REQUEUED\",\"COMPLETING\"]");
    same_json(words_flags(JOB_CONFIGURING | JOB_RUNNING | JOB_STAGE_OUT),
              "[\"CONFIGURING\",\"STAGE_OUT\"]");
}

/* Base 0 would read as PENDING. */
static void a_requeued_row_is_not_pending(void **state)
{
    (void)state;
    assert_string_equal(words_row_state(0x400), "REQUEUED");
    assert_string_equal(words_row_state(0x2000), "RESIZING");
    assert_string_equal(words_row_state(0x80000), "REVOKED");
    assert_string_equal(words_row_state(JOB_TIMEOUT), "TIMEOUT");
    assert_string_equal(words_row_state(JOB_PENDING), "PENDING");
}

static void reasons_are_by_number(void **state)
{
    char text[WORDS_REASON_MAX];

    (void)state;
    words_reason(WAIT_NO_REASON, text);
    assert_string_equal(text, "None");
    words_reason(WAIT_RESOURCES, text);
    assert_string_equal(text, "Resources");
    words_reason(WAIT_HELD_USER, text);
    assert_string_equal(text, "JobHeldUser");
    words_reason(WAIT_ASSOC_GRP_GRES, text);
    assert_string_equal(text, "AssocGrpGRES");
    words_reason(17, text); /* another one in each version */
    assert_string_equal(text, "Reason17");
    words_reason(4000000000U, text);
    assert_string_equal(text, "Reason4000000000");
}

static void tres_of_slurmctld(void **state)
{
    (void)state;
    same_json(words_tres("cpu=1,mem=20000M,node=1,billing=1,gres/gpu=2,"
                         "gres/gpu:v100=2"),
              "{\"cpu\":1,\"mem\":20000,\"node\":1,\"billing\":1,"
              "\"gres/gpu\":2,\"gres/gpu:v100\":2}");
    same_json(words_tres("mem=1.50G,cpu=3"), "{\"mem\":1536,\"cpu\":3}");
    same_json(words_tres("mem=2T"), "{\"mem\":2097152}");
    same_json(words_tres("mem=4096K"), "{\"mem\":4}");
    same_json(words_tres(NULL), "{}");
    same_json(words_tres(""), "{}");
    same_json(words_tres("cpu=,mem=x,gpu,node=-1,a=1Mx"), "{}");
    same_json(words_tres("cpu=99999999999999999999"), "{}");
}

static void tres_of_slurmdbd(void **state)
{
    json_t *names = json_pack("{s:s,s:s,s:s,s:s}", "1", "cpu", "2", "mem",
                              "1001", "gres/gpu", "1002", "gres/gpu:v100");
    bool unknown = false;

    (void)state;
    same_json(words_tres_ids("1=1,2=20000,3=18446744073709551614,1001=2,"
                             "1002=2",
                             names, &unknown),
              "{\"cpu\":1,\"mem\":20000,\"gres/gpu\":2,\"gres/gpu:v100\":2}");
    assert_false(unknown);
    same_json(words_tres_ids("1=1,1003=4", names, &unknown),
              "{\"cpu\":1,\"tres/1003\":4}");
    assert_true(unknown);
    unknown = false;
    same_json(words_tres_ids(NULL, names, &unknown), "{}");
    assert_false(unknown);
    json_decref(names);
}

static void signals_as_sbatch_takes_them(void **state)
{
    static const struct {
        const char *text;
        struct words_signal want;
    } good[] = {
        {"USR1", {10, 60, false, false}},
        {"SIGUSR2@120", {12, 120, false, false}},
        {"B:TERM@30", {15, 30, true, false}},
        {"RB:12@5", {12, 5, true, true}},
        {"9", {9, 60, false, false}},
    };
    static const char *const bad[] = {"",      "NOPE",    "X:TERM",
                                      "TERM@", "TERM@-1", "TERM@99999",
                                      "0",     "65",      "TERMTERMTERMTERM"};
    struct words_signal got;

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(words_signal(good[i].text, &got), 0);
        assert_int_equal(got.number, good[i].want.number);
        assert_int_equal(got.seconds, good[i].want.seconds);
        assert_int_equal(got.batch, good[i].want.batch);
        assert_int_equal(got.reservation, good[i].want.reservation);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(words_signal(bad[i], &got), -1);
}

static void said(const char *raw, const char *want)
{
    char out[64];

    words_said(raw, strlen(raw), out, sizeof(out));
    assert_string_equal(out, want);
}

static void stderr_is_fit_to_be_shown(void **state)
{
    char long_line[600], out[64];

    (void)state;
    said("", "");
    said("\n\n", "");
    said("sluice-slurm: error: invalid partition specified: nope\n",
         "invalid partition specified: nope");
    said("a\nb\nc\nd\n", "b; c; d");
    said("error: can't open /etc/slurm/secret.conf, really\n",
         "can't open (path), really");
    said("tab\there \x1b[31mred\n", "tab here  [31mred");
    said("half a character \xe4\xb8", "half a character ");
    memset(long_line, 'x', sizeof(long_line));
    words_said(long_line, sizeof(long_line), out, sizeof(out));
    assert_true(strlen(out) < sizeof(out) && strlen(out) > 40);
}

/* What is a definite no, and what may have happened. */
static void only_slurmctlds_own_word_is_a_refusal(void **state)
{
    static const int refused[] = {ESLURM_INVALID_PARTITION_NAME,
                                  ESLURM_INVALID_ACCOUNT,
                                  ESLURM_INVALID_QOS,
                                  2999,
                                  ESLURM_DB_CONNECTION,
                                  ESLURM_MISSING_TIME_LIMIT};
    static const int lost[] = {5003, 5004, 5005, 1000, 1002, 1801, 1007, 1802,
                               0,    -1,   4,    110,  6000, 9000, 1999};

    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++)
        assert_int_equal(errors_proof(refused[i]), ERRORS_REFUSED);
    for (size_t i = 0; i < COUNT(lost); i++)
        assert_int_equal(errors_proof(lost[i]), ERRORS_LOST);
    assert_int_equal(errors_proof(1800), ERRORS_UNREACHABLE);
}

static void set(int code, bool sent, enum err_class class, const char *word)
{
    struct err e = ERR_INIT;

    assert_int_equal(errors_set(&e, code, sent, "words", "said"), -1);
    assert_int_equal(e.class, class);
    assert_string_equal(e.code, word);
    assert_int_equal(e.sys, code);
}

static void errors_have_stable_codes(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    set(ESLURM_INVALID_QOS, true, ERR_SLURM, "slurm_invalid_qos");
    set(ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, true, ERR_SLURM,
        "slurm_node_unavailable");
    set(2345, true, ERR_SLURM, "slurm_error");
    set(ESLURM_IN_STANDBY_MODE, true, ERR_UNAVAILABLE, "slurm_standby");
    set(1800, true, ERR_UNAVAILABLE, "slurm_unreachable");
    set(5004, true, ERR_UNKNOWN, "slurm_no_answer");
    set(5004, false, ERR_UNAVAILABLE, "slurm_no_answer");
    (void)errors_set(&e, ESLURM_INVALID_PARTITION_NAME, true, "Invalid", "x");
    assert_string_equal(e.text, "Slurm refused: Invalid: x");
    /* The first error is kept. */
    (void)errors_set(&e, 5004, true, "later", "");
    assert_string_equal(e.code, "slurm_invalid_partition");
    assert_int_equal(e.sys, ESLURM_INVALID_PARTITION_NAME);
}

/* --- account and QOS ------------------------------------------------------ */

static const char associations[] =
    "{\"visible\":3,\"default\":\"vid\",\"accounts\":{"
    "\"vid\":{\"qos\":[\"normal\",\"high\"],\"default_qos\":\"normal\"},"
    "\"bio\":{\"qos\":[\"low\"],\"default_qos\":null},"
    "\"any\":{\"qos\":[],\"default_qos\":null}}}";

/* want_account NULL: it is refused with `code`. "-": nothing is sent. */
static void choose(const char *info, const char *account, const char *qos,
                   const char *want_account, const char *want_qos)
{
    struct err e = ERR_INIT;
    json_t *tree = info ? json_parse(info, strlen(info), 4096, &e) : NULL;
    char *a = NULL, *q = NULL;
    int rc = assoc_choose(tree, account, qos, &a, &q, &e);

    if (want_account == NULL) {
        assert_int_equal(rc, -1);
        assert_int_equal(e.class, ERR_SLURM);
        assert_string_equal(e.code, want_qos);
    } else {
        assert_int_equal(rc, 0);
        assert_string_equal(a ? a : "-", want_account);
        assert_string_equal(q ? q : "-", want_qos);
    }
    free(a);
    free(q);
    json_decref(tree);
}

static void account_and_qos_are_chosen_and_checked(void **state)
{
    (void)state;
    choose(associations, NULL, NULL, "vid", "normal");
    choose(associations, "vid", "high", "vid", "high");
    choose(associations, "bio", NULL, "bio", "low"); /* the only one */
    choose(associations, "any", "special", "any", "special");
    choose(associations, "any", NULL, "any", "-");
    choose(associations, "nosuch", NULL, NULL, "slurm_invalid_account");
    choose(associations, "bio", "high", NULL, "slurm_invalid_qos");
    /* Accounting is there, and this person is not in it. */
    choose("{\"visible\":2,\"accounts\":{}}", NULL, NULL, NULL,
           "slurm_invalid_account");
    choose("{\"visible\":2,\"accounts\":{}}", "vid", NULL, NULL,
           "slurm_invalid_account");
    /* No accounting at all, or no answer: slurmctld judges. */
    choose("{\"visible\":0,\"accounts\":{}}", "vid", "q", "vid", "q");
    choose(NULL, "vid", NULL, "vid", "-");
    choose(NULL, NULL, NULL, "-", "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_have_slurms_words),
        cmocka_unit_test(flags_are_listed_lowest_first),
        cmocka_unit_test(a_requeued_row_is_not_pending),
        cmocka_unit_test(reasons_are_by_number),
        cmocka_unit_test(tres_of_slurmctld),
        cmocka_unit_test(tres_of_slurmdbd),
        cmocka_unit_test(signals_as_sbatch_takes_them),
        cmocka_unit_test(stderr_is_fit_to_be_shown),
        cmocka_unit_test(only_slurmctlds_own_word_is_a_refusal),
        cmocka_unit_test(errors_have_stable_codes),
        cmocka_unit_test(account_and_qos_are_chosen_and_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
