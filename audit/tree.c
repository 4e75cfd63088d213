/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "audit/tree.h"

#include "base/crypto.h"

#include <string.h>

void tree_init(struct tree *t)
{
    memset(t, 0, sizeof *t);
}

/* The prefixes keep a leaf from being passed off as a node (RFC 9162 2.1.1). */
int tree_leaf_hash(const void *leaf, size_t n, uint8_t *out, struct err *e)
{
    static const uint8_t prefix = 0x00;
    struct crypto_piece v[] = {{&prefix, 1}, {leaf, n}};

    return crypto_sha256_pieces(v, n > 0 ? 2 : 1, out, e);
}

int tree_node_hash(const uint8_t *left, const uint8_t *right, uint8_t *out,
                   struct err *e)
{
    static const uint8_t prefix = 0x01;
    struct crypto_piece v[] = {
        {&prefix, 1}, {left, TREE_HASH_LEN}, {right, TREE_HASH_LEN}};

    return crypto_sha256_pieces(v, 3, out, e);
}

int tree_append(struct tree *t, const uint8_t *leaf_hash, struct err *e)
{
    uint8_t h[TREE_HASH_LEN];
    int level = 0;

    memcpy(h, leaf_hash, sizeof h);
    /* Like a carry: each full subtree of the same height is merged. */
    for (; (t->size >> level) & 1; level++) {
        if (tree_node_hash(t->node[level], h, h, e))
            return -1;
    }
    if (level >= TREE_LEVELS)
        return err_set(e, ERR_INTERNAL, "audit_tree", "the tree is full");
    memcpy(t->node[level], h, sizeof h);
    t->size++;
    return 0;
}

int tree_root(const struct tree *t, uint8_t *out, struct err *e)
{
    uint8_t h[TREE_HASH_LEN];
    bool have = false;

    if (t->size == 0)
        return crypto_sha256("", 0, out, e);
    for (int level = 0; level < TREE_LEVELS; level++) {
        if (!((t->size >> level) & 1))
            continue;
        if (!have)
            memcpy(h, t->node[level], sizeof h);
        else if (tree_node_hash(t->node[level], h, h, e))
            return -1;
        have = true;
    }
    memcpy(out, h, sizeof h);
    return 0;
}

/* --- in the database --- */

static const char sql_load[] =
    "SELECT size, frontier FROM audit_tree WHERE id = 1";
static const char sql_store[] =
    "INSERT INTO audit_tree(id, size, frontier) VALUES(1, ?1, ?2) "
    "ON CONFLICT(id) DO UPDATE SET size = ?1, frontier = ?2";
static const char sql_leaves[] =
    "SELECT seq, leaf_hash FROM audit ORDER BY seq";

/* The frontier's blob holds the nodes of the set bits only, lowest first. */
static size_t pack(const struct tree *t, uint8_t *out)
{
    size_t n = 0;

    for (int level = 0; level < TREE_LEVELS; level++) {
        if ((t->size >> level) & 1) {
            memcpy(out + n, t->node[level], TREE_HASH_LEN);
            n += TREE_HASH_LEN;
        }
    }
    return n;
}

static int unpack(struct tree *t, int64_t size, const uint8_t *p, size_t n,
                  struct err *e)
{
    size_t at = 0;

    tree_init(t);
    if (size < 0)
        return err_set(e, ERR_INTERNAL, "audit_tree", "negative size");
    t->size = size;
    for (int level = 0; level < TREE_LEVELS; level++) {
        if (!((size >> level) & 1))
            continue;
        if (n - at < TREE_HASH_LEN)
            return err_set(e, ERR_INTERNAL, "audit_tree", "frontier is short");
        memcpy(t->node[level], p + at, TREE_HASH_LEN);
        at += TREE_HASH_LEN;
    }
    if (at != n)
        return err_set(e, ERR_INTERNAL, "audit_tree", "frontier is long");
    return 0;
}

int tree_load(struct db *d, struct tree *t, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_load, e);
    size_t n = 0;
    int rc;

    tree_init(t);
    if (!s)
        return -1;
    rc = db_step(s, e);
    if (rc <= 0)
        return rc;
    const uint8_t *p = db_col_blob(s, 1, &n);
    rc = unpack(t, db_col_int(s, 0), p, p ? n : 0, e);
    db_reset(s);
    return rc;
}

int tree_store(struct db *d, const struct tree *t, struct err *e)
{
    uint8_t blob[TREE_LEVELS * TREE_HASH_LEN];
    size_t n = pack(t, blob);
    struct db_stmt *s = db_prepare(d, sql_store, e);

    if (!s)
        return -1;
    db_bind_int(s, 1, t->size);
    db_bind_blob(s, 2, blob, n);
    return db_run(s, e);
}

static int rebuild_row(struct tree *t, struct db_stmt *s, struct err *e)
{
    size_t n = 0;
    const uint8_t *h = db_col_blob(s, 1, &n);

    if (db_col_int(s, 0) != t->size + 1 || !h || n != TREE_HASH_LEN)
        return err_set(e, ERR_INTERNAL, "audit_gap",
                       "the audit is not whole after row %lld",
                       (long long)t->size);
    return tree_append(t, h, e);
}

int tree_rebuild(struct db *d, struct tree *t, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_leaves, e);
    int rc;

    tree_init(t);
    if (!s)
        return -1;
    while ((rc = db_step(s, e)) == 1) {
        if (rebuild_row(t, s, e)) {
            db_reset(s);
            return -1;
        }
    }
    return rc;
}
