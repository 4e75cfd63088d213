/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/people.h"

#include <stdlib.h>
#include <string.h>

static struct people *load(const char *yaml, struct err *e)
{
    struct yaml_lines *lines = NULL;
    struct people *p = NULL;
    json_t *root = yaml_parse(yaml, strlen(yaml), "f.yaml", &lines, e);

    if (root == NULL)
        fail_msg("%s", e->text);
    (void)people_load(json_object_get(root, "people"), "f.yaml", lines, &p, e);
    json_decref(root);
    yaml_lines_free(lines);
    return p;
}

static void refused(const char *yaml, const char *code, const char *place)
{
    struct err e = ERR_INIT;

    if (load(yaml, &e) != NULL)
        fail_msg("taken: %s", yaml);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s: %s (%s), not %s", yaml, e.code, e.text, code);
    if (place != NULL && strstr(e.text, place) == NULL)
        fail_msg("\"%s\" does not name %s", e.text, place);
}

static const char sample[] =
    "people:\n"
    "  operator: {roles: [operator], proof: token}\n"
    "  alice: {account: sluice-alice, roles: [researcher], groups: [canary, "
    "media], proof: network, slurm_account: research, qos: high, gpus: 16}\n"
    "  bob: {account: sluice-bob, roles: [researcher, auditor]}\n";

static void a_map_is_read(void **state)
{
    struct err e = ERR_INIT;
    struct people *p = load(sample, &e);
    const struct person *a;

    (void)state;
    assert_non_null(p);
    assert_int_equal(people_count(p), 3);
    assert_string_equal(people_at(p, 0)->name, "alice");
    assert_null(people_at(p, 3));
    a = people_find(p, "alice");
    assert_string_equal(a->account, "sluice-alice");
    assert_string_equal(a->slurm_account, "research");
    assert_string_equal(a->qos, "high");
    assert_int_equal(a->gpus_max, 16);
    assert_true(strs_has(&a->groups, "media"));
    assert_ptr_equal(people_by_account(p, "sluice-alice"), a);
    assert_null(people_by_account(p, "root"));
    assert_null(people_find(p, "mallory"));
    assert_null(people_find(p, "operator")->account);
    people_free(p);
}

/* What is not said is the stronger proof; power always needs a token. */
static void operators_auditors_and_admins_need_a_token(void **state)
{
    struct err e = ERR_INIT;
    struct people *p = load(sample, &e);
    const struct person *a = people_find(p, "alice");

    (void)state;
    assert_int_equal(people_proof(a, ROLE_RESEARCHER), PROOF_NETWORK);
    assert_int_equal(people_proof(a, ROLE_OPERATOR), PROOF_TOKEN);
    assert_int_equal(people_proof(a, ROLE_AUDITOR), PROOF_TOKEN);
    assert_int_equal(people_proof(a, ROLE_ADMIN), PROOF_TOKEN);
    assert_int_equal(people_proof(people_find(p, "bob"), ROLE_RESEARCHER),
                     PROOF_TOKEN);
    people_free(p);
}

static void the_canonical_form_reads_back_the_same(void **state)
{
    struct err e = ERR_INIT;
    struct people *p = load(sample, &e), *again = NULL;
    json_t *one = people_json(p), *two;

    (void)state;
    assert_int_equal(people_load(one, "people.json", NULL, &again, &e), 0);
    two = people_json(again);
    assert_true(json_equal(one, two));
    json_decref(one);
    json_decref(two);
    people_free(p);
    people_free(again);
}

#define ONE(rest)                                                              \
    "people:\n  alice: {account: a, roles: [researcher]" rest "}\n"

static void entries_are_checked(void **state)
{
    (void)state;
    refused("people: []\n", "people_type", NULL);
    refused("people:\n  alice: 1\n", "people_type", "f.yaml:2");
    refused(ONE(", role: x"), "people_unknown_key", "role");
    refused(ONE(", uid: 0"), "people_unknown_key", NULL);
    refused("people:\n  alice: {account: a}\n", "people_missing", NULL);
    refused("people:\n  alice: {account: a, roles: []}\n", "people_missing",
            NULL);
    refused("people:\n  alice: {roles: [researcher]}\n", "people_missing",
            NULL);
    refused("people:\n  alice: {account: a, roles: [root]}\n", "people_role",
            NULL);
    refused("people:\n  alice: {account: a, roles: researcher}\n",
            "people_type", NULL);
    refused(ONE(", proof: none"), "people_type", NULL);
    refused(ONE(", gpus: -1"), "people_type", NULL);
    refused(ONE(", gpus: \"8\""), "people_type", NULL);
    refused(ONE(", groups: [a, a]"), "people_name", NULL);
    refused(ONE(", groups: [\"A B\"]"), "people_name", NULL);
    refused(ONE(", groups: a"), "people_type", NULL);
    refused(ONE(", slurm_account: \"a b\""), "people_name", NULL);
    refused(ONE(", qos: 3"), "people_type", NULL);
    refused(ONE(", shared_account: 1"), "people_type", NULL);
}

static void names_that_mean_something_else_are_refused(void **state)
{
    (void)state;
    refused("people:\n  system: {roles: [operator]}\n", "people_name", NULL);
    refused("people:\n  Alice: {roles: [operator]}\n", "people_name", NULL);
    refused("people:\n  a.b: {roles: [operator]}\n", "people_name", NULL);
    refused("people:\n  a2345678901234567890123456789012x: "
            "{roles: [operator]}\n",
            "people_name", NULL);
    refused("people:\n  alice: {account: ../root, roles: [researcher]}\n",
            "people_name", NULL);
    refused("people:\n  alice: {account: .ssh, roles: [researcher]}\n",
            "people_name", NULL);
}

static void rules_must_have_been_expanded(void **state)
{
    (void)state;
    refused("people:\n  rules: [{login: x}]\n", "people_rules", "rules");
}

static void two_people_share_an_account_only_if_both_say_so(void **state)
{
    static const char both[] =
        "people:\n"
        "  ann: {account: a, roles: [researcher], shared_account: true}\n"
        "  bea: {account: a, roles: [researcher], shared_account: true}\n";
    struct err e = ERR_INIT;
    struct people *p, *again = NULL;
    json_t *tree;

    (void)state;
    refused("people:\n  ann: {account: a, roles: [researcher]}\n"
            "  bea: {account: a, roles: [researcher]}\n",
            "people_account_shared", "bea");
    refused("people:\n  ann: {account: a, roles: [researcher], "
            "shared_account: true}\n"
            "  bea: {account: a, roles: [researcher]}\n",
            "people_account_shared", NULL);
    p = load(both, &e);
    assert_non_null(p);
    /* A uid then names nobody. */
    assert_null(people_by_account(p, "a"));
    tree = people_json(p);
    assert_int_equal(people_load(tree, "x", NULL, &again, &e), 0);
    json_decref(tree);
    people_free(p);
    people_free(again);
}

static void roles_are_words_and_bits(void **state)
{
    json_t *all = roles_json(15), *bad = json_pack("[s]", "king");
    unsigned bits = 0;

    (void)state;
    assert_int_equal(json_array_size(all), 4);
    assert_int_equal(roles_parse(all, &bits), 0);
    assert_int_equal(bits, 15);
    assert_int_equal(roles_parse(bad, &bits), -1);
    assert_int_equal(roles_parse(NULL, &bits), -1);
    assert_int_equal(bits, 15);
    json_decref(all);
    json_decref(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_is_read),
        cmocka_unit_test(operators_auditors_and_admins_need_a_token),
        cmocka_unit_test(the_canonical_form_reads_back_the_same),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(names_that_mean_something_else_are_refused),
        cmocka_unit_test(rules_must_have_been_expanded),
        cmocka_unit_test(two_people_share_an_account_only_if_both_say_so),
        cmocka_unit_test(roles_are_words_and_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
