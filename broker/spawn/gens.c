/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/gens.h"

#include "base/log.h"
#include "broker/spawn/resolve.h"

#include <stdlib.h>
#include <string.h>

enum { OLD_MAX = 8, RETRY_MS = 10000 };

struct gens {
    struct loop *loop;
    struct children *children;
    const struct config *config;
    const struct accounts_rule *rule;
    struct gens_hooks hooks;
    struct generation *current, *staged;
    struct accounts *table, *staged_table;
    struct generation *old[OLD_MAX];
    size_t next_old;
    struct loop_timer refresh;
    bool is_ready;
};

enum look_why { LOOK_REFRESH, LOOK_LOAD, LOOK_ADOPT };

/* One look at the accounts of one generation. */
struct look {
    struct gens *gens;
    struct generation *generation;
    enum look_why why;
    gens_done *done;
    void *arg;
};

static void ready(struct gens *g)
{
    if (!g->is_ready)
        g->hooks.ready(g->hooks.arg);
    g->is_ready = true;
}

/* Takes the reference to `table`. */
static void replace_table(struct gens *g, struct accounts *table)
{
    struct accounts *old = g->table;

    g->table = table;
    for (size_t i = 0; old != NULL && i < old->n; i++) {
        const struct account *now = accounts_find(table, old->v[i].name);

        if (old->v[i].error == NULL && !account_equal(&old->v[i], now))
            g->hooks.account_changed(g->hooks.arg, old->v[i].uid);
    }
    accounts_unref(old);
}

static void keep_old(struct gens *g, struct generation *gen)
{
    struct generation **slot = &g->old[g->next_old++ % OLD_MAX];

    generation_unref(*slot);
    *slot = gen;
}

static void drop_staged(struct gens *g)
{
    generation_unref(g->staged);
    accounts_unref(g->staged_table);
    g->staged = NULL;
    g->staged_table = NULL;
}

static void make_current(struct gens *g)
{
    struct accounts *table = g->staged_table;

    if (g->current != NULL)
        keep_old(g, g->current);
    g->current = g->staged;
    g->staged = NULL;
    g->staged_table = NULL;
    replace_table(g, table);
    loop_timer_set(g->loop, &g->refresh, RESOLVE_EVERY_MS);
    log_event(LOG_INFO_, "generation_switched", NULL, "generation",
              g->current->id, NULL);
    g->hooks.switched(g->hooks.arg, g->current->id);
}

static void stage(struct gens *g, struct generation *gen,
                  struct accounts *table)
{
    drop_staged(g);
    g->staged = generation_ref(gen);
    g->staged_table = table;
}

/* table is ours. */
static void use_look(const struct look *k, struct accounts *table)
{
    struct gens *g = k->gens;

    if (k->why == LOOK_REFRESH) {
        if (g->current == k->generation)
            replace_table(g, table);
        else
            accounts_unref(table); /* switched meanwhile */
        return;
    }
    stage(g, k->generation, table);
    if (k->why == LOOK_ADOPT)
        make_current(g);
}

static void on_look(void *arg, struct accounts *table, const struct err *why)
{
    struct look *k = arg;
    struct gens *g = k->gens;
    int64_t again = table != NULL ? RESOLVE_EVERY_MS : RETRY_MS;

    if (table != NULL)
        use_look(k, table);
    else
        log_err("accounts_unknown", NULL, why);
    if (k->why != LOOK_LOAD)
        loop_timer_set(g->loop, &g->refresh, again);
    if (k->done != NULL)
        k->done(k->arg, why);
    generation_unref(k->generation);
    free(k);
    ready(g);
}

/* Takes no reference of the caller's. */
static int look_start(struct gens *g, struct generation *gen, enum look_why why,
                      gens_done *done, void *arg, struct err *e)
{
    struct look *k = calloc(1, sizeof(*k));

    if (k == NULL)
        return err_nomem(e);
    k->gens = g;
    k->generation = generation_ref(gen);
    k->why = why;
    k->done = done;
    k->arg = arg;
    if (resolve_start(g->loop, g->children, g->config->paths.libexec,
                      g->config->file, gen->id, g->rule, on_look, k, e) == 0)
        return 0;
    generation_unref(k->generation);
    free(k);
    return -1;
}

static void on_refresh(void *arg)
{
    struct gens *g = arg;
    struct err e = ERR_INIT;

    if (g->current == NULL) {
        gens_look_again(g);
        return;
    }
    if (look_start(g, g->current, LOOK_REFRESH, NULL, NULL, &e) == 0)
        return;
    log_err("accounts_unknown", NULL, &e);
    loop_timer_set(g->loop, &g->refresh, RETRY_MS);
    ready(g);
}

int gens_load(struct gens *g, const char *id, gens_done *done, void *arg,
              struct err *e)
{
    struct generation *gen = NULL;
    int r;

    if (generation_load(g->config->paths.store, id, &gen, e) != 0)
        return -1;
    r = look_start(g, gen, LOOK_LOAD, done, arg, e);
    generation_unref(gen);
    return r;
}

int gens_switch(struct gens *g, const char *id, struct err *e)
{
    if (g->current != NULL && strcmp(g->current->id, id) == 0)
        return 0;
    if (g->staged == NULL || strcmp(g->staged->id, id) != 0)
        return err_set(e, ERR_CONFLICT, "generation_not_loaded",
                       "this generation was not loaded before");
    make_current(g);
    return 0;
}

void gens_look_again(struct gens *g)
{
    struct generation *gen = NULL;
    struct err e = ERR_INIT;

    if (generation_load(g->config->paths.store, NULL, &gen, &e) != 0 ||
        ((g->current == NULL || strcmp(gen->id, g->current->id) != 0) &&
         look_start(g, gen, LOOK_ADOPT, NULL, NULL, &e) != 0))
        log_err("generation_refused", NULL, &e);
    generation_unref(gen);
}

struct generation *gens_current(struct gens *g)
{
    return g->current;
}

struct accounts *gens_table(struct gens *g)
{
    return g->table;
}

const char *gens_staged_id(const struct gens *g)
{
    return g->staged != NULL ? g->staged->id : NULL;
}

bool gens_is_revoked(struct gens *g, const char *id)
{
    const char *state = generation_state(g->config->paths.store, id, NULL);

    return state != NULL && strcmp(state, "revoked") == 0;
}

struct generation *gens_get(struct gens *g, const char *id, struct err *e)
{
    struct generation *gen = NULL;

    if (g->current != NULL && strcmp(g->current->id, id) == 0)
        return generation_ref(g->current);
    for (size_t i = 0; i < OLD_MAX; i++) {
        if (g->old[i] != NULL && strcmp(g->old[i]->id, id) == 0)
            return generation_ref(g->old[i]);
    }
    if (generation_load(g->config->paths.store, id, &gen, e) != 0)
        return NULL;
    keep_old(g, generation_ref(gen));
    return gen;
}

static int load_first(struct gens *g, struct err *e)
{
    struct err inner = ERR_INIT;

    if (generation_load(g->config->paths.store, NULL, &g->current, &inner) == 0)
        return 0;
    if (strcmp(inner.code, "generation_missing") != 0)
        return err_set(e, inner.class, inner.code, "%s", inner.text);
    log_err("generation_none", NULL, &inner);
    return 0;
}

int gens_new(struct loop *l, struct children *cs, const struct config *config,
             const struct accounts_rule *rule, const struct gens_hooks *hooks,
             struct gens **out, struct err *e)
{
    struct gens *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return err_nomem(e);
    g->loop = l;
    g->children = cs;
    g->config = config;
    g->rule = rule;
    g->hooks = *hooks;
    loop_timer_init(&g->refresh, on_refresh, g);
    if (load_first(g, e) != 0) {
        gens_free(g);
        return -1;
    }
    *out = g;
    if (g->current == NULL)
        ready(g);
    else
        on_refresh(g);
    return 0;
}

void gens_free(struct gens *g)
{
    if (g == NULL)
        return;
    loop_timer_stop(g->loop, &g->refresh);
    drop_staged(g);
    generation_unref(g->current);
    accounts_unref(g->table);
    for (size_t i = 0; i < OLD_MAX; i++)
        generation_unref(g->old[i]);
    free(g);
}
