/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What an Idempotency-Key stands for: SHA-256 of the canonical body, in which
 * each secret is replaced by its HMAC under a key of this database, so that a
 * stored fingerprint tells nobody which of two secrets it was.
 * Thread rule: pure functions.
 */
#ifndef BROKER_JOBS_FINGERPRINT_H
#define BROKER_JOBS_FINGERPRINT_H

#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

/* key: STORE_SECRET_KEY_LEN bytes. body: {"workflow", "params"?, "secrets"?,
 * "labels"?}; an absent object and an empty one mean the same. out has
 * SHA256_HEX_LEN + 1 bytes. */
int fingerprint_body(const json_t *body, const uint8_t *key, char *out,
                     struct err *e);

#endif
