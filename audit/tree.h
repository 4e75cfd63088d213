/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The audit's Merkle tree (RFC 9162 section 2.1: leaf 0x00, node 0x01, SHA-256)
 * as a frontier: the roots of the full subtrees that a list of `size` leaves is
 * made of. An append costs two hashes on average, a root at most 63.
 * The frontier is derived data: it is kept in table audit_tree so that a start
 * needn't read every leaf, and tree_rebuild() makes it again from the leaves.
 * Thread rule: one thread at a time per struct tree.
 */
#ifndef AUDIT_TREE_H
#define AUDIT_TREE_H

#include "base/db.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { TREE_HASH_LEN = 32, TREE_LEVELS = 63 };

struct tree {
    int64_t size;
    /* node[i] counts when bit i of size is set: a subtree of 2^i leaves. */
    uint8_t node[TREE_LEVELS][TREE_HASH_LEN];
};

void tree_init(struct tree *t); /* the empty tree */

/* SHA-256(0x00 || leaf) and SHA-256(0x01 || left || right). out has
 * TREE_HASH_LEN bytes. 0, or -1 (crypto_failed). */
int tree_leaf_hash(const void *leaf, size_t n, uint8_t *out, struct err *e);
int tree_node_hash(const uint8_t *left, const uint8_t *right, uint8_t *out,
                   struct err *e);

/* Add one leaf hash. On failure the tree is as before. */
int tree_append(struct tree *t, const uint8_t *leaf_hash, struct err *e);
/* Root of all leaves so far; of none: SHA-256 of nothing. */
int tree_root(const struct tree *t, uint8_t *out, struct err *e);

/* From and to table audit_tree, inside the caller's transaction. A missing row
 * loads as the empty tree. ERR_INTERNAL audit_tree: the row is damaged. */
int tree_load(struct db *d, struct tree *t, struct err *e);
int tree_store(struct db *d, const struct tree *t, struct err *e);
/* From the leaf hashes of table audit, in order of seq; ERR_INTERNAL
 * audit_gap when seq is not 1..n. */
int tree_rebuild(struct db *d, struct tree *t, struct err *e);

#endif
