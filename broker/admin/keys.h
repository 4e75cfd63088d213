/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The token-signing key. token.key is "kid: <kid>" and the private key's PEM,
 * 0600 and read by sluice-admin only; public.json is {"<kid>": "<PEM>"}, which
 * a generation takes over.
 * Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_KEYS_H
#define BROKER_ADMIN_KEYS_H

#include "broker/admin/admin.h"

enum { KEYS_KID_LEN = 16 };

struct signing_key {
    char kid[KEYS_KID_LEN + 1];
    char *text;      /* the file's bytes; wiped by signing_key_clear */
    const char *pem; /* within text */
};

int signing_key_read(const struct admin *a, struct signing_key *k,
                     struct err *e);
void signing_key_clear(struct signing_key *k);

#endif
