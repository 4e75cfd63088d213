/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/verify.h"

#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "base/wire.h"
#include "broker/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A child that answered is restarted at once; else after 1, 2, 4 .. 30 s.
 * An answer that waits longer than its deadline is an error to the asker. */
enum {
    BRAKE_FIRST_MS = 1000,
    BRAKE_MAX_MS = 30000,
    ASKED_MAX = 1024,
    GLOBS_MAX = 64,
    TEXT_MAX = 255
};

struct ask {
    struct ask *next;
    struct verify *verify;
    int64_t id;
    struct loop_timer deadline;
    verify_done *done;
    void *arg;
};

struct verify {
    struct loop *loop;
    struct children *children;
    char path[256];
    const char *config_file;
    char generation[GENERATION_ID_LEN + 1];
    struct child *child;
    int sock;
    struct loop_fd *watch;
    struct loop_timer again;
    int64_t brake_ms;
    int64_t next_id;
    struct ask *asks;
    size_t count;
};

static void start(void *arg);

static void answer(struct ask *a, const struct claims *c, const struct err *why)
{
    struct verify *v = a->verify;
    struct ask **p = &v->asks;

    while (*p != a)
        p = &(*p)->next;
    *p = a->next;
    v->count--;
    loop_timer_stop(v->loop, &a->deadline);
    a->done(a->arg, c, why);
    free(a);
}

static void unavailable(struct err *e)
{
    (void)err_set(e, ERR_UNAVAILABLE, "verify_unavailable",
                  "tokens can't be checked at the moment");
}

/* Those asked of a child that is gone; what their callbacks ask is new. */
static void fail_asks(struct verify *v)
{
    int64_t limit = v->next_id;
    struct err why = ERR_INIT;
    struct ask *a;

    unavailable(&why);
    for (;;) {
        for (a = v->asks; a != NULL && a->id >= limit; a = a->next)
            continue;
        if (a == NULL)
            return;
        answer(a, NULL, &why);
    }
}

static void close_sock(struct verify *v)
{
    loop_unwatch(v->loop, v->watch);
    v->watch = NULL;
    if (v->sock >= 0)
        (void)close(v->sock);
    v->sock = -1;
}

static void schedule(struct verify *v)
{
    if (v->again.armed || v->child != NULL)
        return;
    loop_timer_set(v->loop, &v->again, v->brake_ms);
    v->brake_ms = v->brake_ms == 0 ? BRAKE_FIRST_MS : v->brake_ms * 2;
    if (v->brake_ms > BRAKE_MAX_MS)
        v->brake_ms = BRAKE_MAX_MS;
}

static void on_end(void *arg, const struct child_end *end)
{
    struct verify *v = arg;

    log_event(LOG_WARN_, "verify_ended", NULL, "line", end->line, NULL);
    v->child = NULL;
    close_sock(v);
    schedule(v);
    fail_asks(v);
}

/* Its end comes through on_end, which tells of it; why: NULL where it ends by
 * itself. */
static void distrust(struct verify *v, const char *why)
{
    if (why != NULL)
        log_event(LOG_ERROR_, "verify_garbage", NULL, "why", why, NULL);
    close_sock(v);
    if (v->child != NULL)
        child_kill(v->child);
    fail_asks(v);
}

static int read_globs(const json_t *arr, struct claims *c, struct err *e)
{
    size_t i;
    json_t *s;

    json_array_foreach(arr, i, s)
    {
        const char *text = json_string_value(s);

        if (text == NULL || strlen(text) > TEXT_MAX)
            return err_set(e, ERR_INVALID, "json_type", "a glob is no text");
        if (strs_add(&c->workflows, text) != 0)
            return err_nomem(e);
    }
    return 0;
}

static int read_claims(const json_t *body, struct claims *c, struct err *e)
{
    json_t *roles = NULL, *globs = NULL;
    const char *person;

    if (json_get_str(body, "person", true, PERSON_NAME_MAX, &person, "", e) !=
            0 ||
        json_get_arr(body, "roles", true, 8, &roles, "", e) != 0 ||
        json_get_arr(body, "workflows", true, GLOBS_MAX, &globs, "", e) != 0 ||
        json_get_int(body, "gpus", false, 0, INT32_MAX, &c->gpus_max, "", e) !=
            0)
        return -1;
    if (roles_parse(roles, &c->roles) != 0)
        return err_set(e, ERR_INVALID, "json_range", "an unknown role");
    (void)snprintf(c->person, sizeof(c->person), "%s", person);
    return read_globs(globs, c, e);
}

static void deliver(struct verify *v, struct ask *a, const json_t *body)
{
    struct err why = ERR_INIT, bad = ERR_INIT;
    struct claims c = {.roles = 0};
    bool ok = false;

    if (json_get_bool(body, "ok", true, &ok, "", &bad) != 0 ||
        (ok && read_claims(body, &c, &bad) != 0) ||
        (!ok &&
         (wire_err_get(body, "error", &why) != 0 || !err_is_set(&why)))) {
        distrust(v, err_is_set(&bad) ? bad.text : "no error in a refusal");
    } else {
        v->brake_ms = 0; /* it works: the next restart is at once */
        answer(a, ok ? &c : NULL, &why);
    }
    claims_clear(&c);
}

static void on_frame(struct verify *v, const json_t *body)
{
    struct ask *a;
    const char *text;
    int64_t id;

    if (json_get_str(body, "id", true, 24, &text, "", NULL) != 0 ||
        num_parse(text, 1, INT64_MAX, &id) != 0) {
        distrust(v, "no id");
        return;
    }
    for (a = v->asks; a != NULL && a->id != id; a = a->next)
        continue;
    if (a != NULL) /* else its deadline has passed */
        deliver(v, a, body);
}

static void on_sock(void *arg, uint32_t events)
{
    struct verify *v = arg;
    struct err e = ERR_INIT;
    struct wire_msg m;
    int r;

    (void)events;
    wire_msg_init(&m);
    r = wire_recv(v->sock, &m, 0, &e);
    if (r == 1)
        on_frame(v, m.body);
    else if (r == 0 || strcmp(e.code, "wire_closed") == 0)
        distrust(v, NULL);
    else if (strcmp(e.code, "wire_timeout") != 0)
        distrust(v, e.text);
    wire_msg_clear(&m);
}

static int start_child(struct verify *v, int theirs, struct err *e)
{
    const char *const argv[] = {"sluice-verify", "--config", v->config_file,
                                v->generation, NULL};
    struct child_spec spec = {.what = "verify",
                              .path = v->path,
                              .argv = argv,
                              .in = theirs,
                              .out = theirs,
                              .control = -1,
                              .catalog = -1,
                              .on_exit = on_end,
                              .arg = v};

    v->watch = loop_watch(v->loop, v->sock, EPOLLIN, on_sock, v, e);
    if (v->watch != NULL)
        v->child = child_start(v->children, &spec, e);
    return v->child != NULL ? 0 : -1;
}

static void start(void *arg)
{
    struct verify *v = arg;
    struct err e = ERR_INIT;
    int sv[2] = {-1, -1};

    if (v->child != NULL)
        return;
    if (wire_pair(sv, &e) == 0) {
        v->sock = sv[0];
        if (start_child(v, sv[1], &e) == 0) {
            (void)close(sv[1]);
            return;
        }
        (void)close(sv[1]);
        close_sock(v);
    }
    log_err("verify_start", NULL, &e);
    schedule(v);
}

int verify_new(struct loop *l, struct children *cs, const char *libexec,
               const char *config_file, struct verify **out, struct err *e)
{
    struct verify *v = calloc(1, sizeof(*v));

    if (v == NULL)
        return err_nomem(e);
    v->loop = l;
    v->children = cs;
    v->config_file = config_file;
    v->sock = -1;
    v->next_id = 1;
    (void)snprintf(v->path, sizeof(v->path), "%s/sluice-verify", libexec);
    loop_timer_init(&v->again, start, v);
    *out = v;
    return 0;
}

void verify_free(struct verify *v)
{
    struct ask *a;

    if (v == NULL)
        return;
    loop_timer_stop(v->loop, &v->again);
    while ((a = v->asks) != NULL) {
        v->asks = a->next;
        loop_timer_stop(v->loop, &a->deadline);
        free(a);
    }
    close_sock(v);
    if (v->child != NULL) {
        child_forget(v->child);
        child_kill(v->child);
    }
    free(v);
}

static void on_late(void *arg)
{
    struct ask *a = arg;
    struct verify *v = a->verify;
    struct err why = ERR_INIT;

    (void)err_set(&why, ERR_UNAVAILABLE, "verify_timeout",
                  "the token could not be checked in time");
    answer(a, NULL, &why);
    distrust(v, "no answer in time"); /* hung or stopped: a new one */
}

static int send_ask(struct verify *v, int64_t id, const char *token,
                    struct err *e)
{
    json_t *o = json_object();
    char text[24];
    int r = 0;

    (void)snprintf(text, sizeof(text), "%lld", (long long)id);
    r |= json_put_int(o, "v", 1);
    r |= json_put_str(o, "id", text);
    r |= json_put_str(o, "token", token);
    if (r != 0)
        (void)err_nomem(e);
    else
        r = wire_send(v->sock, o, NULL, 0, 0, e);
    json_decref(o);
    return r;
}

void verify_ask(struct verify *v, const char *token, verify_done *done,
                void *arg)
{
    struct err e = ERR_INIT;
    struct ask *a = NULL;

    if (v->sock < 0 || v->count >= ASKED_MAX)
        unavailable(&e);
    else if ((a = calloc(1, sizeof(*a))) == NULL)
        (void)err_nomem(&e);
    else
        (void)send_ask(v, v->next_id, token, &e);
    if (err_is_set(&e)) {
        free(a);
        done(arg, NULL, &e);
        return;
    }
    *a = (struct ask){.next = v->asks,
                      .verify = v,
                      .id = v->next_id++,
                      .done = done,
                      .arg = arg};
    v->asks = a;
    v->count++;
    loop_timer_init(&a->deadline, on_late, a);
    loop_timer_set(v->loop, &a->deadline, VERIFY_DEADLINE_MS);
}

/* The old one finishes nothing: askers are told, and come again. */
void verify_use(struct verify *v, const char *generation)
{
    (void)snprintf(v->generation, sizeof(v->generation), "%s", generation);
    v->brake_ms = 0;
    loop_timer_stop(v->loop, &v->again);
    if (v->child != NULL) {
        child_forget(v->child);
        child_kill(v->child);
        v->child = NULL;
    }
    close_sock(v);
    start(v);
    fail_asks(v);
}

bool verify_up(const struct verify *v)
{
    return v->sock >= 0;
}
