/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who asks: made once a request, by the listener's proof, and used by every
 * later step. Roles are what the map gives, narrowed by the token.
 * Ownership: identity_clear() drops the generation and wipes the token.
 * Thread rule: belongs to the request; the thread that runs it.
 */
#ifndef BROKER_JOBS_IDENTITY_H
#define BROKER_JOBS_IDENTITY_H

#include "auth/people.h"
#include "auth/token.h"
#include "base/db.h"
#include "base/err.h"
#include "broker/generation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct service;

enum { IDENTITY_CLIENT_MAX = 63 };

struct identity {
    int64_t principal;
    char person[PERSON_NAME_MAX + 1];
    struct generation *generation;     /* a reference: owned */
    const struct person *person_entry; /* in it: borrowed */
    unsigned roles;                    /* bits of enum role */
    enum proof proof;                  /* how it was proved */
    char token_id[TOKEN_ID_MAX + 1];   /* "" without a token */
    char *token;                       /* owned; passed on to the spawner */
    struct strs token_workflows;       /* owned globs; empty: all */
    int64_t gpus_max;                  /* narrowest of map and token; 0: none */
    char client[IDENTITY_CLIENT_MAX + 1]; /* address, or "uid:1000" */
};

void identity_init(struct identity *who);
void identity_clear(struct identity *who);

/* What a service remembers of identities: person -> principal, uid -> account
 * (60 s). identity_known_free: NULL is fine. */
struct identity_known;
struct identity_known *identity_known_new(void);
void identity_known_free(struct identity_known *k);

/* Beside 0 and -1: may_wait was false, and it would have to: NSS is to be
 * asked, or a person's first request commits his principal. Ask again in a pool
 * thread with may_wait; out is empty. */
enum { IDENTITY_LATER = 1 };

/* By bearer token: signature, claims, revocation (auth/token.h), then the
 * person of the current generation. Errors: auth/token.h's; ERR_UNAUTHENTIC
 * person_unknown; base/db's. */
int identity_by_token(struct service *s, const char *text, size_t len,
                      const char *client, bool may_wait, struct identity *out,
                      struct err *e);
/* By the peer's uid on local.sock: the person of that account, proof network,
 * role researcher only (other roles need a token). NSS is asked (getpwuid_r),
 * with a memory of 60 s. ERR_UNAUTHENTIC person_unknown, ERR_UNAVAILABLE
 * account_lookup. */
int identity_by_uid(struct service *s, uid_t uid, bool may_wait,
                    struct identity *out, struct err *e);

bool identity_has(const struct identity *who, unsigned role);
/* May this identity run the workflow: the allow list and the token's globs. */
bool identity_may_run(const struct identity *who, const struct workflow *w);

#endif
