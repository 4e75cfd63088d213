/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-verify: checks bearer tokens for the spawner (broker/proto.h 5), in a
 * process without capabilities, with its own keys and revocations, so that no
 * parser of a stranger's bytes runs where CAP_SETUID is.
 */
#include "auth/people.h"
#include "auth/token.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/config.h"
#include "broker/generation.h"
#include "broker/proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CONTROL = STDIN_FILENO, ASK_ID_MAX = 64, REMEMBERED = 1024 };

struct verifier {
    struct config cfg;
    struct config_paths paths;
    struct token_keys *keys;
    struct token_revoked *revoked;
    struct token_cache *cache;
};

static void verifier_clear(struct verifier *v)
{
    token_cache_free(v->cache);
    token_revoked_free(v->revoked);
    token_keys_free(v->keys);
    config_clear(&v->cfg);
}

static int verifier_init(struct verifier *v, const char *file, const char *id,
                         struct err *e)
{
    struct generation *g = NULL;
    int r;

    memset(v, 0, sizeof(*v));
    if (config_load(file, &v->cfg, e) != 0 ||
        config_paths(&v->cfg, &v->paths, e) != 0 ||
        generation_load(v->cfg.paths.store, id, &g, e) != 0)
        return -1;
    r = token_keys_load(g->keys, &v->keys, e);
    generation_unref(g);
    if (r != 0)
        return -1;
    v->revoked = token_revoked_new(v->paths.revoked);
    v->cache = token_cache_new(REMEMBERED);
    return v->revoked != NULL && v->cache != NULL ? 0 : err_nomem(e);
}

static int put_claims(json_t *answer, const struct token_claims *c)
{
    int r = 0;

    r |= json_put_bool(answer, "ok", true);
    r |= json_put_str(answer, "person", c->person);
    r |= json_put_str(answer, "token_id", c->id);
    r |= json_put(answer, "roles", roles_json(c->roles));
    r |= json_put(answer, "workflows", strs_json(&c->workflows));
    r |= json_put_int(answer, "gpus", c->gpus_max);
    r |= json_put_int(answer, "expires_at", c->expires_at);
    return r;
}

static int answer_one(struct verifier *v, const char *id, const char *token,
                      struct err *e)
{
    struct err refused = ERR_INIT;
    struct token_claims claims = {0};
    json_t *answer = json_object();
    int r = 0;

    r |= json_put_int(answer, "v", PROTO_VERSION);
    r |= json_put_str(answer, "id", id);
    if (token_verify_cached(v->cache, v->keys, v->revoked, v->cfg.cluster.name,
                            token, strlen(token), clock_now(), &claims,
                            &refused) == 0) {
        r |= put_claims(answer, &claims);
    } else {
        r |= json_put_bool(answer, "ok", false);
        r |= wire_err_put(answer, "error", &refused);
    }
    token_claims_clear(&claims);
    if (r != 0)
        r = err_nomem(e);
    else
        r = wire_send(CONTROL, answer, NULL, 0, -1, e);
    json_decref(answer);
    return r;
}

static int serve_one(struct verifier *v, const json_t *ask, struct err *e)
{
    static const char *const keys[] = {"v", "id", "token", NULL};
    const char *id = NULL, *token = NULL;
    int64_t version = 0;

    if (json_only(ask, keys, "", e) != 0 ||
        json_get_int(ask, "v", true, PROTO_VERSION, PROTO_VERSION, &version, "",
                     e) != 0 ||
        json_get_str(ask, "id", true, ASK_ID_MAX, &id, "", e) != 0 ||
        json_get_str(ask, "token", true, WIRE_FRAME_MAX, &token, "", e) != 0)
        return -1;
    return answer_one(v, id, token, e);
}

/* Until the spawner is gone (0), or something is wrong with it (-1). */
static int serve(struct verifier *v, struct err *e)
{
    struct wire_msg m;
    int r;

    do {
        wire_msg_init(&m);
        r = wire_recv(CONTROL, &m, -1, e);
        if (r == 1 && serve_one(v, m.body, e) != 0)
            r = -1;
        wire_msg_clear(&m);
    } while (r == 1);
    return r;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct verifier v;
    int r = -1;

    log_init("sluice-verify", LOG_INFO_);
    if (argc != 4 || strcmp(argv[1], "--config") != 0) {
        (void)fputs("usage: sluice-verify --config FILE GENERATION\n", stderr);
        return 2;
    }
    if (prctl(PR_SET_DUMPABLE, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 1;
    if (verifier_init(&v, argv[2], argv[3], &e) == 0)
        r = serve(&v, &e);
    if (r != 0)
        log_err("verify_stopped", NULL, &e);
    verifier_clear(&v);
    return r == 0 ? 0 : 1;
}
