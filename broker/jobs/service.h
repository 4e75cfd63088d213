/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What every request needs, tied together: configuration, the current
 * generation, the database, the spawner, the follower, tokens.
 * Thread rule: a started service may be used from any thread; fields are set by
 * service_new/service_start and read-only after.
 */
#ifndef BROKER_JOBS_SERVICE_H
#define BROKER_JOBS_SERVICE_H

#include "audit/audit.h"
#include "auth/token.h"
#include "base/db.h"
#include "base/err.h"
#include "broker/config.h"
#include "broker/generation.h"
#include "broker/jobs/follow.h"
#include "broker/jobs/spawn.h"
#include "broker/jobs/store.h"
#include "broker/jobs/waiters.h"
#include "broker/jobs/writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A generation and the token keys made from it, switched together. */
struct service_allow {
    struct generation *generation;
    struct token_keys *keys;
    atomic_int refs;
};

struct admin_socket;
struct identity_known;

struct service {
    const struct config *config; /* borrowed for the service's life */
    struct config_paths paths;
    struct db *db; /* for writing, until the writer thread has it */
    struct writer *writer;
    struct spawn *spawn;
    struct waiters *waiters;
    struct follow *follow;
    struct token_cache *cache;
    struct token_revoked *revoked;
    struct audit_refusals *refusals;
    struct admin_socket *admin;
    uint8_t secret_key[STORE_SECRET_KEY_LEN]; /* fingerprints of secrets */
    struct follow_times times;                /* zero: the defaults */
    pthread_mutex_t lock;                     /* current and loaded */
    struct service_allow *current, *loaded;
    pthread_mutex_t known_lock; /* identity.c's memory */
    struct identity_known *known;
};

/* Opens the database (migrations), loads `current` and the keys. config is
 * borrowed. Errors: base/db's, broker/generation.h's, auth/token.h's. */
int service_new(const struct config *c, struct service **out, struct err *e);
/* Threads: writer, waiters, spawn client, follower, admin socket. */
int service_start(struct service *s, struct err *e);
/* Ends them in the reverse order, what is queued is committed. */
void service_stop(struct service *s);
void service_free(struct service *s); /* after service_stop; NULL is fine */

/* A reader connection for the calling thread (db_close). */
int service_reader(struct service *s, struct db **out, struct err *e);

/* The current generation; one reference is the caller's (service_unref). */
struct service_allow *service_allow(struct service *s);
void service_unref(struct service_allow *a);

/* admin load / switch (proto.h 7), also SIGHUP: service_reload looks at
 * `current` again. A generation that doesn't load moves nothing. */
int service_load(struct service *s, const char *id, struct err *e);
int service_switch(struct service *s, const char *id, struct err *e);
int service_reload(struct service *s, struct err *e);

/* For readyz: what is up. */
struct service_status {
    bool spawn_up;
    struct follow_status follow;
    char generation[GENERATION_ID_LEN + 1];
    bool self_mode;
};
void service_status(struct service *s, struct service_status *out);

/* Uid of an account (NSS; pool threads). ERR_UNAVAILABLE account_missing. */
int service_account_uid(const char *account, int64_t *uid, struct err *e);

/* A refusal before identity (audit). Never blocks on the disk. */
void service_refused(struct service *s, const char *source, const char *code);

#endif
