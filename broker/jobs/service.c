/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "broker/jobs/admin_socket.h"
#include "broker/jobs/identity.h"
#include "broker/jobs/schema.h"
#include "broker/jobs/store.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_MEMORY = 4096, PASSWD_BYTES = 16384 };

/* --- generations --- */

static void allow_free(struct service_allow *a)
{
    generation_unref(a->generation);
    token_keys_free(a->keys);
    free(a);
}

void service_unref(struct service_allow *a)
{
    if (a && atomic_fetch_sub(&a->refs, 1) == 1)
        allow_free(a);
}

struct service_allow *service_allow(struct service *s)
{
    struct service_allow *a;

    pthread_mutex_lock(&s->lock);
    a = s->current;
    atomic_fetch_add(&a->refs, 1);
    pthread_mutex_unlock(&s->lock);
    return a;
}

static int allow_load(struct service *s, const char *id,
                      struct service_allow **out, struct err *e)
{
    struct service_allow *a = calloc(1, sizeof *a);

    if (!a)
        return err_nomem(e);
    atomic_init(&a->refs, 1);
    if (generation_load(s->config->paths.store, id, &a->generation, e) ||
        token_keys_load(a->generation->keys, &a->keys, e)) {
        allow_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

/* a's reference moves in. */
static void allow_switch(struct service *s, struct service_allow *a)
{
    struct service_allow *old;

    pthread_mutex_lock(&s->lock);
    old = s->current;
    s->current = a;
    pthread_mutex_unlock(&s->lock);
    token_cache_drop(s->cache); /* its keys may be gone */
    log_event(LOG_INFO_, "generation", NULL, "id", a->generation->id, NULL);
    service_unref(old);
}

int service_load(struct service *s, const char *id, struct err *e)
{
    struct service_allow *a = NULL, *old;

    if (allow_load(s, id, &a, e))
        return -1;
    pthread_mutex_lock(&s->lock);
    old = s->loaded;
    s->loaded = a;
    pthread_mutex_unlock(&s->lock);
    service_unref(old);
    return 0;
}

/* What was loaded before, if it is this one. */
static struct service_allow *take_loaded(struct service *s, const char *id)
{
    struct service_allow *a = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->loaded && !strcmp(s->loaded->generation->id, id)) {
        a = s->loaded;
        s->loaded = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return a;
}

int service_switch(struct service *s, const char *id, struct err *e)
{
    struct service_allow *a = take_loaded(s, id);

    if (!a && allow_load(s, id, &a, e))
        return -1;
    allow_switch(s, a);
    return 0;
}

int service_reload(struct service *s, struct err *e)
{
    struct service_allow *a = NULL;

    if (allow_load(s, NULL, &a, e))
        return -1;
    allow_switch(s, a);
    return 0;
}

/* --- hooks of the spawn client --- */

static void hook_generation(void *arg, char *out)
{
    struct service_allow *a = service_allow(arg);

    memcpy(out, a->generation->id, GENERATION_ID_LEN + 1);
    service_unref(a);
}

static void hook_watch(void *arg, int fd)
{
    struct service *s = arg;

    follow_set_watch(s->follow, fd);
}

static void hook_link(void *arg, bool up)
{
    struct service *s = arg;

    follow_spawn_link(s->follow, up);
}

/* --- life --- */

static int open_db(struct service *s, struct err *e)
{
    if (schema_open_writer(s->config->paths.db, &s->db, e) ||
        store_secret_key(s->db, s->secret_key, e))
        return -1;
    /* Whoever was in flight when we died asks again and gets his job. */
    return store_idem_sweep(s->db, e);
}

static int make_parts(struct service *s, struct err *e)
{
    s->cache = token_cache_new(TOKEN_MEMORY);
    s->revoked = token_revoked_new(s->paths.revoked);
    s->refusals = audit_refusals_new();
    s->known = identity_known_new();
    if (!s->cache || !s->revoked || !s->refusals || !s->known)
        return err_nomem(e);
    return 0;
}

int service_new(const struct config *c, struct service **out, struct err *e)
{
    struct service *s = calloc(1, sizeof *s);

    if (!s)
        return err_nomem(e);
    s->config = c;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->known_lock, NULL);
    if (config_paths(c, &s->paths, e) || make_parts(s, e) || open_db(s, e) ||
        allow_load(s, NULL, &s->current, e)) {
        service_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    service_unref(s->current);
    service_unref(s->loaded);
    db_close(s->db);
    token_cache_free(s->cache);
    token_revoked_free(s->revoked);
    audit_refusals_free(s->refusals);
    identity_known_free(s->known);
    explicit_bzero(s->secret_key, sizeof s->secret_key);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->known_lock);
    free(s);
}

int service_start(struct service *s, struct err *e)
{
    const struct spawn_hooks hooks = {.arg = s,
                                      .generation = hook_generation,
                                      .watch = hook_watch,
                                      .link = hook_link};
    struct db *d = s->db;

    s->db = NULL; /* the writer's from here on, also when it fails */
    if (writer_start(d, &s->writer, e) || waiters_start(&s->waiters, e) ||
        follow_start(s, &s->times, &s->follow, e) ||
        spawn_start(s->paths.spawn_sock, &hooks, &s->spawn, e))
        return -1;
    follow_use_spawn(s->follow, s->spawn);
    return admin_socket_start(s, &s->admin, e);
}

static int flush_all(struct db *d, void *arg, struct err *e)
{
    return audit_refusals_flush(arg, d, INT64_MAX, e);
}

void service_stop(struct service *s)
{
    struct err e = ERR_INIT;

    admin_socket_stop(s->admin);
    s->admin = NULL;
    spawn_stop(s->spawn); /* whoever waits for it returns */
    follow_stop(s->follow);
    spawn_free(s->spawn);
    waiters_stop(s->waiters);
    s->spawn = NULL;
    s->follow = NULL;
    s->waiters = NULL;
    if (s->writer && writer_call(s->writer, flush_all, s->refusals, &e))
        log_err("refusals_lost", NULL, &e);
    else
        audit_refusals_done(s->refusals);
    writer_stop(s->writer);
    s->writer = NULL;
}

int service_reader(struct service *s, struct db **out, struct err *e)
{
    return db_open_reader(s->config->paths.db, out, e);
}

/* --- small questions --- */

void service_status(struct service *s, struct service_status *out)
{
    memset(out, 0, sizeof *out);
    out->spawn_up = s->spawn && spawn_connected(s->spawn);
    if (s->follow)
        follow_status(s->follow, &out->follow);
    hook_generation(s, out->generation);
    out->self_mode = s->config->self_mode;
}

void service_refused(struct service *s, const char *source, const char *code)
{
    audit_refusals_add(s->refusals, source, code, clock_now_ms());
}

int service_account_uid(const char *account, int64_t *uid, struct err *e)
{
    char *room = malloc(PASSWD_BYTES);
    struct passwd pw, *found = NULL;
    int rc;

    if (!room)
        return err_nomem(e);
    rc = getpwnam_r(account, &pw, room, PASSWD_BYTES, &found);
    if (rc == 0 && found)
        *uid = (int64_t)pw.pw_uid;
    free(room);
    if (rc == 0 && found)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "account_missing",
                   "the account of this person is not known here");
}
