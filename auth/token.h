/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Bearer tokens: ES256 JWTs (RFC 7515, 7519) issued by sluice-admin. libjwt is
 * named in token.c only, and called only after the three parts passed the
 * strict unpadded base64url alphabet, with a key present and the algorithm
 * fixed; every claim is then checked by JSON type.
 * Thread rule: verify is safe from any thread on one struct token_keys.
 */
#ifndef AUTH_TOKEN_H
#define AUTH_TOKEN_H

#include "base/err.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKEN_BYTES_MAX = 4096,
    TOKEN_ID_MAX = 40,
    TOKEN_SKEW_SECONDS = 30,
    TOKEN_LIFE_MAX_SECONDS = 400 * 86400
};
#define TOKEN_ISSUER "sluice"

struct token_claims {
    char id[TOKEN_ID_MAX + 1]; /* jti */
    char person[33];           /* sub: name in the people map */
    unsigned roles;            /* 0: all that the map gives */
    struct strs workflows;     /* globs; empty: all */
    int64_t gpus_max;          /* 0: none named */
    int64_t issued_at, expires_at;
};
void token_claims_clear(struct token_claims *c);
bool token_claims_workflow(const struct token_claims *c, const char *name);

struct token_keys; /* public keys by kid */
/* tree: {"<kid>": "<PEM>", ...} (a generation's keys.json). */
int token_keys_load(const json_t *tree, struct token_keys **out, struct err *e);
void token_keys_free(struct token_keys *k);

/* Revocations: a root-owned JSON file {"<jti>": revoked_at, ...}, looked at
 * again (stat) at every check, so a revocation holds for the next request.
 * A missing file means none; an unreadable or broken one refuses everything. */
struct token_revoked;
struct token_revoked *token_revoked_new(const char *path);
void token_revoked_free(struct token_revoked *r);

/* Verify signature, alg, iss, aud (cluster name), exp, nbf/iat, revocation.
 * ERR_UNAUTHENTIC: token_malformed token_algorithm token_key token_signature
 * token_expired token_not_yet token_claims token_audience token_revoked. */
int token_verify(const struct token_keys *k, struct token_revoked *r,
                 const char *audience, const char *text, size_t len,
                 int64_t now, struct token_claims *out, struct err *e);

/* Sign. private_pem is P-256. Owned text (free()), or NULL. */
char *token_issue(const char *private_pem, const char *kid,
                  const char *audience, const struct token_claims *c,
                  struct err *e);

/* Remembers verified tokens by SHA-256 and the keys that verified them, until
 * expiry; revocation is still checked at every use. Bounded; thread-safe. */
struct token_cache;
struct token_cache *token_cache_new(size_t entries);
void token_cache_free(struct token_cache *c);
int token_verify_cached(struct token_cache *c, const struct token_keys *k,
                        struct token_revoked *r, const char *audience,
                        const char *text, size_t len, int64_t now,
                        struct token_claims *out, struct err *e);
void token_cache_drop(struct token_cache *c); /* room, when keys changed */

#endif
