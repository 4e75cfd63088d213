/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/proto.h"

static void verbs_go_there_and_back(void **state)
{
    (void)state;
    for (int v = 0; v < VERB_COUNT; v++)
        assert_int_equal(proto_verb_parse(proto_verb_name((enum proto_verb)v)),
                         v);
    assert_string_equal(proto_verb_name(VERB_SUBMIT), "submit");
    assert_int_equal(proto_verb_parse("run"), -1);
    assert_int_equal(proto_verb_parse(""), -1);
    assert_int_equal(proto_verb_parse(NULL), -1);
    assert_string_equal(proto_verb_name(VERB_COUNT), "?");
}

static void stages_go_there_and_back(void **state)
{
    (void)state;
    for (int s = STAGE_NONE; s <= STAGE_SENDING; s++)
        assert_int_equal(
            proto_stage_parse(proto_stage_name((enum proto_stage)s)), s);
    assert_int_equal(proto_stage_parse("sent"), -1);
    assert_int_equal(proto_stage_parse(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verbs_go_there_and_back),
        cmocka_unit_test(stages_go_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
