/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/admin.h"

#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/generation.h"
#include "broker/proto.h"
#include "broker/spawn/crew.h"
#include "broker/spawn/gens.h"
#include "broker/spawn/ops.h"
#include "broker/spawn/record.h"
#include "broker/spawn/verify.h"
#include "broker/spawn/watch.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 16 };

/* A load whose accounts are being looked up. */
struct loading {
    struct loading *next;
    struct client *client; /* NULL: gone */
};
static struct loading *loadings;

static json_t *answer_new(bool ok, const struct err *why)
{
    json_t *f = json_object();
    int r = json_put_int(f, "v", PROTO_VERSION);

    r |= json_put_bool(f, "ok", ok);
    r |= wire_err_put(f, "error", why);
    if (r == 0)
        return f;
    json_decref(f);
    return NULL;
}

static void answer(struct client *c, const struct err *why)
{
    client_send(c, answer_new(!err_is_set(why), why));
}

static void on_loaded(void *arg, const struct err *why)
{
    struct loading *l = arg, **p = &loadings;

    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    if (l->client != NULL)
        answer(l->client, why);
    free(l);
}

void admin_client_gone(struct spawnd *d, const struct client *c)
{
    (void)d;
    for (struct loading *l = loadings; l != NULL; l = l->next) {
        if (l->client == c)
            l->client = NULL;
    }
}

static void do_load(struct spawnd *d, struct client *c, const char *id)
{
    struct loading *l = calloc(1, sizeof(*l));
    struct err e = ERR_INIT;

    if (l == NULL) {
        (void)err_nomem(&e);
        answer(c, &e);
        return;
    }
    l->client = c;
    l->next = loadings;
    loadings = l;
    if (gens_load(d->gens, id, on_loaded, l, &e) != 0)
        on_loaded(l, &e);
}

static void do_switch(struct spawnd *d, struct client *c, const char *id)
{
    struct err e = ERR_INIT;

    (void)gens_switch(d->gens, id, &e);
    answer(c, &e);
}

static void do_status(struct spawnd *d, struct client *c, const char *id)
{
    const struct generation *g = gens_current(d->gens);
    struct err none = ERR_INIT;
    json_t *f = answer_new(true, &none);
    int r = json_put_str(f, "generation", g != NULL ? g->id : NULL);

    (void)id;
    r |= json_put_str(f, "staged", gens_staged_id(d->gens));
    r |= json_put_str(f, "mode", d->config.mode);
    r |= json_put_int(f, "jobs", (int64_t)record_count(d->record));
    r |= json_put_int(f, "requests", (int64_t)ops_count(d->ops));
    r |= json_put_int(f, "workers", (int64_t)crew_workers(d->crew));
    r |= json_put_int(f, "stuck", (int64_t)crew_stuck(d->crew));
    r |= json_put_int(f, "survivors", (int64_t)d->survivors);
    r |= json_put_bool(f, "watch", watch_up(d->watch));
    r |= json_put_bool(f, "verify", verify_up(d->verify));
    r |= json_put_bool(f, "accounts", gens_table(d->gens) != NULL);
    if (r != 0) {
        json_decref(f);
        f = NULL;
    }
    client_send(c, f);
}

static const struct {
    const char *word;
    bool wants_id;
    void (*fn)(struct spawnd *d, struct client *c, const char *id);
} verbs[] = {
    {"load", true, do_load},
    {"switch", true, do_switch},
    {"status", false, do_status},
};

int admin_frame(struct spawnd *d, struct client *c, const json_t *body,
                struct err *e)
{
    static const char *const keys[] = {"v", "admin", "id", NULL};
    const char *word, *id = NULL;
    int64_t v;

    if (json_only(body, keys, "", e) != 0 ||
        json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                     e) != 0 ||
        json_get_str(body, "admin", true, WORD_MAX, &word, "", e) != 0 ||
        json_get_str(body, "id", false, GENERATION_ID_LEN, &id, "", e) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].word, word) != 0)
            continue;
        if (verbs[i].wants_id && (id == NULL || !generation_id_valid(id)))
            return err_set(e, ERR_INVALID, "frame_bad", "no generation");
        log_event(LOG_INFO_, "admin", NULL, "verb", word, "generation",
                  id != NULL ? id : "", NULL);
        verbs[i].fn(d, c, id);
        return 0;
    }
    return err_set(e, ERR_INVALID, "frame_bad", "unknown admin verb");
}
