/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * OpenSSL's libcrypto, named in this module only (auth/ uses libjwt besides).
 * Thread rule: any thread.
 */
#ifndef BASE_CRYPTO_H
#define BASE_CRYPTO_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_LEN = 32, SHA256_HEX_LEN = 64 };

/* 0 or -1 (crypto_failed). out has SHA256_LEN bytes. */
int crypto_sha256(const void *p, size_t n, uint8_t *out, struct err *e);
/* SHA-256 of several pieces, in order. */
struct crypto_piece {
    const void *p;
    size_t n;
};
int crypto_sha256_pieces(const struct crypto_piece *v, size_t count,
                         uint8_t *out, struct err *e);
/* Of everything that read(2) gives from fd's current position on. */
int crypto_sha256_fd(int fd, uint8_t *out, struct err *e);
/* Lower-case hex digest of a buffer; out has SHA256_HEX_LEN + 1 bytes. */
int crypto_sha256_hex(const void *p, size_t n, char *out, struct err *e);
/* HMAC-SHA-256 (RFC 2104). out has SHA256_LEN bytes. */
int crypto_hmac(const uint8_t *key, size_t key_len, const void *p, size_t n,
                uint8_t *out, struct err *e);

void crypto_hex(const uint8_t *p, size_t n, char *out /* 2n + 1 */);
/* Exactly 2n digits of either case; 0, or -1 and out is untouched. */
int crypto_unhex(const char *hex, uint8_t *out, size_t n);
bool crypto_equal(const void *a, const void *b, size_t n); /* constant time */
int crypto_random(void *p, size_t n, struct err *e);       /* getrandom(2) */

/* base64 (RFC 4648 section 4) and strict unpadded base64url (section 5).
 * Owned results (free()); decode returns NULL on any foreign byte (white space
 * too), absent padding in the plain form, padding in the url form, non-zero
 * trailing bits, or ENOMEM. A NUL follows the decoded bytes. */
char *crypto_b64(const void *p, size_t n);
uint8_t *crypto_unb64(const char *s, size_t *n);
uint8_t *crypto_unb64url(const char *s, size_t len, size_t *n);

/* A fresh P-256 key pair, PEM (PKCS#8 and SubjectPublicKeyInfo). Owned. */
int crypto_p256_new(char **private_pem, char **public_pem, struct err *e);

#endif
