/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Receipt patterns: paths below results/ of A-Z a-z 0-9 _ . - and '/', with
 * {a..b} anywhere (templates/prelude.sh expands it the same way: numbers as
 * wide as the wider end where one has a leading zero) and '*' in the last
 * component. Thread rule: pure functions.
 */
#ifndef WORKFLOWS_RECEIPTS_H
#define WORKFLOWS_RECEIPTS_H

#include "base/err.h"
#include "workflows/strs.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    RECEIPTS_BYTES_MAX = 255, /* of one, before and after expansion */
    RECEIPTS_MAX = 1024       /* of one workflow, expanded */
};

bool receipts_char(const char *pattern); /* only characters of a pattern */
/* Adds what the pattern means to out, each once. ERR_CONFIG
 * workflow_receipt. */
int receipts_expand(const char *pattern, struct strs *out, struct err *e);

#endif
