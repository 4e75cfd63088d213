/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/tree.h"
#include "base/crypto.h"
#include "tests/unit/test_ledger_db.h"

static void root_hex(const struct tree *t, char *hex)
{
    uint8_t h[TREE_HASH_LEN];

    must(tree_root(t, h, e));
    crypto_hex(h, sizeof h, hex);
}

static void add(struct tree *t, const char *leaf)
{
    uint8_t h[TREE_HASH_LEN];

    must(tree_leaf_hash(leaf, strlen(leaf), h, e));
    must(tree_append(t, h, e));
}

/* Checked with an independent script. */
static void roots_are_those_of_the_vectors(void **state)
{
    static const char *const one_empty = "6e340b9cffb37a989ca544e6bb780a2c789"
                                         "01d3fb33738768511a30617afa01d";
    static const char *const roots[] = {
        "022a6979e6dab7aa5ae4c3e5e45f7e977112a7e63593820dbec1ec738a24f93c",
        "b137985ff484fb600db93107c77b0365c80d78f5b429ded0fd97361d077999eb",
        "36642e73c2540ab121e3a6bf9545b0a24982cd830eb13d3cd19de3ce6c021ec1"};
    static const char *const leaves[] = {"a", "b", "c"};
    char hex[65];
    struct tree t;

    (void)state;
    tree_init(&t);
    root_hex(&t, hex);
    assert_memory_equal(hex, "e3b0c442", 8);
    assert_string_equal(hex + 60, "b855");
    for (int i = 0; i < 3; i++) {
        add(&t, leaves[i]);
        root_hex(&t, hex);
        assert_string_equal(hex, roots[i]);
    }
    tree_init(&t);
    add(&t, "");
    root_hex(&t, hex);
    assert_string_equal(hex, one_empty);
}

/* RFC 9162's definition by halves, as slow and plain as it is written. */
static void root_by_definition(uint8_t (*leaf)[TREE_HASH_LEN], int n,
                               uint8_t *out)
{
    uint8_t l[TREE_HASH_LEN], r[TREE_HASH_LEN];
    int k = 1;

    if (n == 1) {
        memcpy(out, leaf[0], TREE_HASH_LEN);
        return;
    }
    while (2 * k < n)
        k *= 2;
    root_by_definition(leaf, k, l);
    root_by_definition(leaf + k, n - k, r);
    must(tree_node_hash(l, r, out, e));
}

static void the_frontier_agrees_with_the_definition(void **state)
{
    enum { N = 130 };
    uint8_t leaf[N][TREE_HASH_LEN], want[TREE_HASH_LEN], got[TREE_HASH_LEN];
    char text[16];
    struct tree t;

    (void)state;
    tree_init(&t);
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof text, "leaf %d", i);
        must(tree_leaf_hash(text, strlen(text), leaf[i], e));
        must(tree_append(&t, leaf[i], e));
        root_by_definition(leaf, i + 1, want);
        must(tree_root(&t, got, e));
        assert_memory_equal(want, got, TREE_HASH_LEN);
    }
    assert_int_equal(t.size, N);
}

static void the_frontier_survives_the_database(void **state)
{
    uint8_t a[TREE_HASH_LEN], b[TREE_HASH_LEN];
    struct tree t, u;
    struct scratch s;

    (void)state;
    scratch_make(&s);
    must(tree_load(s.db, &t, e)); /* no row: empty */
    assert_int_equal(t.size, 0);
    for (int i = 0; i < 77; i++)
        add(&t, "x");
    must(tree_store(s.db, &t, e));
    must(tree_load(s.db, &u, e));
    must(tree_root(&t, a, e));
    must(tree_root(&u, b, e));
    assert_int_equal(u.size, 77);
    assert_memory_equal(a, b, TREE_HASH_LEN);
    must(db_exec(s.db, "UPDATE audit_tree SET size = 79", e));
    must_fail(tree_load(s.db, &u, e), "audit_tree");
    scratch_remove(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_those_of_the_vectors),
        cmocka_unit_test(the_frontier_agrees_with_the_definition),
        cmocka_unit_test(the_frontier_survives_the_database)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
