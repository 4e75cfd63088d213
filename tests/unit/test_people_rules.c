/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Rules of the people map, with Unix groups made up here.
 */
#include "auth/people.h"
#include "auth/rules.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int members(const char *unix_group, struct strs *out, struct err *e)
{
    static const char *const lab[] = {"ann", "bea", "x-carl", "Not_A_Name",
                                      NULL};
    static const char *const guests[] = {"bea", "dan", NULL};
    const char *const *v = strcmp(unix_group, "lab") == 0      ? lab
                           : strcmp(unix_group, "guests") == 0 ? guests
                                                               : NULL;

    if (v == NULL)
        return err_set(e, ERR_CONFIG, "people_group_unknown", "no %s",
                       unix_group);
    for (; *v != NULL; v++)
        assert_int_equal(strs_add(out, *v), 0);
    return 0;
}

static json_t *parse(const char *yaml)
{
    struct err e = ERR_INIT;
    json_t *t = yaml_parse(yaml, strlen(yaml), "f.yaml", NULL, &e);

    if (t == NULL)
        fail_msg("%s", e.text);
    return t;
}

static struct people *expand(const char *yaml)
{
    json_t *tree = parse(yaml), *out = NULL;
    struct people *p = NULL;
    struct err e = ERR_INIT;

    if (rules_expand(tree, "f.yaml", NULL, members, &out, &e) < 0 ||
        people_load(out, "f.yaml", NULL, &p, &e) < 0)
        fail_msg("%s %s", e.code, e.text);
    json_decref(out);
    json_decref(tree);
    return p;
}

static void a_rule_makes_an_entry_of_each_member(void **state)
{
    struct people *p = expand("rules:\n"
                              "  - {unix_group: lab, groups: [canary], "
                              "slurm_account: s, gpus: 4, proof: network}\n");
    const struct person *ann = people_find(p, "ann");

    (void)state;
    assert_int_equal(people_count(p), 3); /* Not_A_Name can't be one */
    assert_string_equal(ann->account, "ann");
    assert_string_equal(ann->unix_group, "lab");
    assert_string_equal(ann->slurm_account, "s");
    assert_int_equal(ann->roles, ROLE_RESEARCHER);
    assert_int_equal(ann->proof, PROOF_NETWORK);
    assert_int_equal(ann->gpus_max, 4);
    assert_true(strs_has(&ann->groups, "canary"));
    people_free(p);
}

static void what_is_not_said_is_the_stronger_proof(void **state)
{
    struct people *p = expand("rules:\n  - {unix_group: lab}\n");

    (void)state;
    assert_int_equal(people_find(p, "ann")->proof, PROOF_TOKEN);
    people_free(p);
}

static void explicit_entries_win_and_then_the_first_rule(void **state)
{
    struct people *p =
        expand("ann: {account: ann, roles: [researcher], groups: [own]}\n"
               "boss: {account: dan, roles: [researcher, operator]}\n"
               "rules:\n"
               "  - {unix_group: lab, groups: [one]}\n"
               "  - {unix_group: guests, groups: [two]}\n");

    (void)state;
    assert_true(strs_has(&people_find(p, "ann")->groups, "own"));
    assert_null(people_find(p, "ann")->unix_group);
    assert_true(strs_has(&people_find(p, "bea")->groups, "one"));
    assert_null(people_find(p, "dan")); /* his account is boss's */
    people_free(p);
}

static void a_login_pattern_narrows(void **state)
{
    struct people *p =
        expand("rules:\n  - {unix_group: lab, login: \"x-*\"}\n");

    (void)state;
    assert_int_equal(people_count(p), 1);
    assert_non_null(people_find(p, "x-carl"));
    people_free(p);
}

static void the_canonical_form_keeps_the_group(void **state)
{
    struct people *p = expand("rules:\n  - {unix_group: guests}\n"), *q = NULL;
    json_t *form = people_json(p);
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(people_load(form, "f", NULL, &q, &e), 0);
    assert_string_equal(people_find(q, "dan")->unix_group, "guests");
    json_decref(form);
    people_free(p);
    people_free(q);
}

static void bad_rules_are_refused(void **state)
{
    static const struct {
        const char *yaml, *code;
    } cases[] = {
        {"rules: {}\n", "people_type"},
        {"rules: [x]\n", "people_type"},
        {"rules: [{login: a}]\n", "people_missing"},
        {"rules: [{unix_group: 3}]\n", "people_type"},
        {"rules: [{unix_group: lab, roles: [admin]}]\n", "people_unknown_key"},
        {"rules: [{unix_group: lab, account: root}]\n", "people_unknown_key"},
        {"rules: [{unix_group: nobody-knows}]\n", "people_group_unknown"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *tree = parse(cases[i].yaml), *out = NULL;
        struct err e = ERR_INIT;

        assert_int_equal(rules_expand(tree, "f.yaml", NULL, members, &out, &e),
                         -1);
        assert_string_equal(e.code, cases[i].code);
        assert_int_equal(e.class, ERR_CONFIG);
        json_decref(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_makes_an_entry_of_each_member),
        cmocka_unit_test(what_is_not_said_is_the_stronger_proof),
        cmocka_unit_test(explicit_entries_win_and_then_the_first_rule),
        cmocka_unit_test(a_login_pattern_narrows),
        cmocka_unit_test(the_canonical_form_keeps_the_group),
        cmocka_unit_test(bad_rules_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
