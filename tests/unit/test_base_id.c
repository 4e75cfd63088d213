/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/id.h"

#include <string.h>

#define SAMPLE "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define SAMPLE_LOWER "01arz3ndektsv4rrffq69g5fav"
#define MS_MAX INT64_C(281474976710655) /* 2^48 - 1 */

static void ulid_carries_its_time(void **state)
{
    static const int64_t times[] = {0, 1, 31, 32, 1469918176385, MS_MAX};
    char u[ULID_LEN + 1];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        assert_int_equal(id_ulid(times[i], u), 0);
        assert_int_equal(strlen(u), ULID_LEN);
        assert_true(id_ulid_valid(u));
        assert_true(id_ulid_ms(u) == times[i]);
    }
    assert_memory_equal(u, "7ZZZZZZZZZ", 10);
    assert_true(id_ulid_ms(SAMPLE) == 1469922850259);
}

static void times_over_48_bits_are_refused(void **state)
{
    char u[ULID_LEN + 1] = "untouched";

    (void)state;
    assert_int_equal(id_ulid(-1, u), -1);
    assert_int_equal(id_ulid(MS_MAX + 1, u), -1);
    assert_int_equal(id_ulid(INT64_MAX, u), -1);
    assert_string_equal(u, "untouched");
}

static void ulids_differ_and_sort(void **state)
{
    char a[ULID_LEN + 1], b[ULID_LEN + 1];
    int i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        assert_int_equal(id_ulid(1000 + i, a), 0);
        assert_int_equal(id_ulid(1000 + i, b), 0);
        assert_string_not_equal(a, b);
        assert_int_equal(id_ulid(1001 + i, b), 0);
        assert_true(strcmp(a, b) < 0);
    }
}

/* Every one of the 80 random bits moves: each character takes many values. */
static void randomness_reaches_every_character(void **state)
{
    unsigned seen[ULID_LEN] = {0};
    char u[ULID_LEN + 1];
    int i, c;

    (void)state;
    for (i = 0; i < 2000; i++) {
        assert_int_equal(id_ulid(0, u), 0);
        for (c = 10; c < ULID_LEN; c++)
            seen[c] |= 1U << (strchr("0123456789ABCDEFGHJKMNPQRSTVWXYZ", u[c]) -
                              "0123456789ABCDEFGHJKMNPQRSTVWXYZ") %
                                 32;
    }
    for (c = 10; c < ULID_LEN; c++)
        assert_true(__builtin_popcount(seen[c]) == 32);
}

static void canonical_ulids_only(void **state)
{
    static const char *const bad[] = {
        "",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",   /* short */
        "01ARZ3NDEKTSV4RRFFQ69G5FAVV", /* long */
        SAMPLE_LOWER,
        "01ARZ3NDEKTSV4RRFFQ69G5FAI", /* I, L, O, U are not in the set */
        "01ARZ3NDEKTSV4RRFFQ69G5FAL",
        "01ARZ3NDEKTSV4RRFFQ69G5FAO",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "01ARZ3NDEKTSV4RRFFQ69G5FA-",
        "01ARZ3NDEKTSV4RRFFQ69G5FA\n",
        "80000000000000000000000000", /* more than 128 bits */
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    };
    size_t i;

    (void)state;
    assert_true(id_ulid_valid(SAMPLE));
    assert_true(id_ulid_valid("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"));
    assert_true(id_ulid_valid("00000000000000000000000000"));
    assert_false(id_ulid_valid(NULL));
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(id_ulid_valid(bad[i]));
        assert_true(id_ulid_ms(bad[i]) == -1);
    }
}

static void job_ids(void **state)
{
    char job[JOB_ID_LEN + 1], u[ULID_LEN + 1] = "untouched";

    (void)state;
    id_job(SAMPLE, job);
    assert_string_equal(job, "job_" SAMPLE);
    assert_int_equal(id_job_parse(job, NULL), 0);
    assert_int_equal(id_job_parse("JOB_" SAMPLE, u), -1);
    assert_int_equal(id_job_parse(SAMPLE, u), -1);
    assert_int_equal(id_job_parse("job_" SAMPLE_LOWER, u), -1);
    assert_int_equal(id_job_parse("job_" SAMPLE " ", u), -1);
    assert_int_equal(id_job_parse("job_", u), -1);
    assert_int_equal(id_job_parse("job_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", u), -1);
    assert_int_equal(id_job_parse(NULL, u), -1);
    assert_string_equal(u, "untouched");
    assert_int_equal(id_job_parse(job, u), 0);
    assert_string_equal(u, SAMPLE);
}

static void slurm_names_come_back(void **state)
{
    char name[SLURM_NAME_MAX + 1], flow[SLURM_NAME_MAX + 1];
    char u[ULID_LEN + 1];

    (void)state;
    assert_int_equal(id_slurm_name("wan-render2", SAMPLE, name), 0);
    assert_string_equal(name, "wan-render2." SAMPLE_LOWER);
    assert_int_equal(id_slurm_name_parse(name, flow, u), 0);
    assert_string_equal(flow, "wan-render2");
    assert_string_equal(u, SAMPLE);
}

static void slurm_name_length(void **state)
{
    char flow[SLURM_NAME_MAX], name[SLURM_NAME_MAX + 1];
    char back[SLURM_NAME_MAX + 1], u[ULID_LEN + 1];

    (void)state;
    memset(flow, 'a', sizeof(flow));
    flow[37] = '\0'; /* 37 + 1 + 26 = 64 */
    assert_int_equal(id_slurm_name(flow, SAMPLE, name), 0);
    assert_int_equal(strlen(name), SLURM_NAME_MAX);
    assert_int_equal(id_slurm_name_parse(name, back, u), 0);
    assert_string_equal(back, flow);
    flow[37] = 'a';
    flow[38] = '\0';
    assert_int_equal(id_slurm_name(flow, SAMPLE, name), -1);
}

static void foreign_slurm_names(void **state)
{
    static const char *const bad[] = {
        "",
        ".",
        "." SAMPLE_LOWER,
        SAMPLE_LOWER,
        "a" SAMPLE_LOWER,
        "a.b." SAMPLE_LOWER,
        "A." SAMPLE_LOWER,
        "9a." SAMPLE_LOWER,
        "a_b." SAMPLE_LOWER,
        "a." SAMPLE, /* upper case is not how we write it */
        "a." SAMPLE_LOWER "x",
        "a.8zzzzzzzzzzzzzzzzzzzzzzzzz",
        "a.01arz3ndektsv4rrffq69g5fai",
        "a\n." SAMPLE_LOWER,
        "wrap",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa." SAMPLE_LOWER, /* 65 */
    };
    char flow[SLURM_NAME_MAX + 1] = "untouched", u[ULID_LEN + 1] = "untouched";
    size_t i;

    (void)state;
    assert_int_equal(id_slurm_name_parse(NULL, flow, u), -1);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (id_slurm_name_parse(bad[i], flow, u) != -1)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_string_equal(flow, "untouched");
    assert_string_equal(u, "untouched");
}

static void bad_parts_make_no_slurm_name(void **state)
{
    char name[SLURM_NAME_MAX + 1];

    (void)state;
    assert_int_equal(id_slurm_name("", SAMPLE, name), -1);
    assert_int_equal(id_slurm_name("a.b", SAMPLE, name), -1);
    assert_int_equal(id_slurm_name("A", SAMPLE, name), -1);
    assert_int_equal(id_slurm_name("a", SAMPLE_LOWER, name), -1);
    assert_int_equal(id_slurm_name("a", "", name), -1);
}

static void names(void **state)
{
    (void)state;
    assert_true(id_name_valid("a", 1));
    assert_true(id_name_valid("a-9", 3));
    assert_true(id_name_valid("abc", 3));
    assert_false(id_name_valid("abcd", 3));
    assert_false(id_name_valid("", 3));
    assert_false(id_name_valid(NULL, 3));
    assert_false(id_name_valid("-a", 3));
    assert_false(id_name_valid("9a", 3));
    assert_false(id_name_valid("aB", 3));
    assert_false(id_name_valid("a_b", 3));
    assert_false(id_name_valid("a.b", 3));
    assert_false(id_name_valid("a b", 3));
    assert_false(id_name_valid("a\n", 3));
    assert_false(id_name_valid("../", 3));
    assert_false(id_name_valid("\xc3\xa9", 3));
    assert_false(id_name_valid("a", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulid_carries_its_time),
        cmocka_unit_test(times_over_48_bits_are_refused),
        cmocka_unit_test(ulids_differ_and_sort),
        cmocka_unit_test(randomness_reaches_every_character),
        cmocka_unit_test(canonical_ulids_only),
        cmocka_unit_test(job_ids),
        cmocka_unit_test(slurm_names_come_back),
        cmocka_unit_test(slurm_name_length),
        cmocka_unit_test(foreign_slurm_names),
        cmocka_unit_test(bad_parts_make_no_slurm_name),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
