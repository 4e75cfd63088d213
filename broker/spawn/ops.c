/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/ops.h"

#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/spawn/client.h"
#include "broker/spawn/frame.h"
#include "broker/spawn/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ops {
    struct spawnd *spawnd;
    struct op *first;
    size_t count;
};

int ops_new(struct spawnd *d, struct ops **out, struct err *e)
{
    struct ops *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return err_nomem(e);
    s->spawnd = d;
    *out = s;
    return 0;
}

static void op_clear(struct op *o)
{
    if (o->token != NULL)
        explicit_bzero(o->token, strlen(o->token));
    free(o->token);
    frame_wipe(o->args);
    json_decref(o->args);
    if (o->fd >= 0)
        (void)close(o->fd);
    claims_clear(&o->claims);
    generation_unref(o->current);
    generation_unref(o->generation);
    accounts_unref(o->table);
    json_decref(o->params);
    json_decref(o->secret_names);
    json_decref(o->prepared);
    json_decref(o->result);
    json_decref(o->answer);
}

static void unlink_op(struct ops *s, struct op *o)
{
    if (o->prev != NULL)
        o->prev->next = o->next;
    else
        s->first = o->next;
    if (o->next != NULL)
        o->next->prev = o->prev;
    s->count--;
}

static void link_op(struct ops *s, struct op *o)
{
    o->next = s->first;
    if (s->first != NULL)
        s->first->prev = o;
    s->first = o;
    s->count++;
}

void ops_free(struct ops *s)
{
    struct op *o;

    if (s == NULL)
        return;
    while ((o = s->first) != NULL) {
        unlink_op(s, o);
        op_clear(o);
        free(o);
    }
    free(s);
}

/* --- the end of one ------------------------------------------------------- */

/* A submit whose intent is on record: its end is, too. What can't be written
 * is still told; the record then says "sent, perhaps", which is safe. */
static void keep_result(struct op *o, const json_t *frame)
{
    struct err e = ERR_INIT;

    if (o->rule->verb != VERB_SUBMIT || o->rec == NULL || !o->rec->run.running)
        return;
    o->rec->run.running = false;
    if (frame == NULL ||
        record_result(o->spawnd->record, o->rec, frame, &e) != 0)
        log_err("result_not_kept", o->request, &e);
}

static void log_refusal(const struct op *o)
{
    if (o->err.class == ERR_INTERNAL)
        log_err("failed", o->request, &o->err);
    else
        log_event(LOG_INFO_, "refused", o->request, "verb",
                  proto_verb_name(o->rule->verb), "actor", o->actor, "code",
                  o->err.code, "text", o->err.text, NULL);
}

static bool fits(const json_t *frame)
{
    return json_dumpb(frame, NULL, 0, JSON_COMPACT) <= WIRE_FRAME_MAX;
}

/* A frame that is too long would cost the connection, and with it everybody's
 * requests: it becomes an error, of this request alone. */
static json_t *last_frame(struct op *o)
{
    json_t *frame =
        o->answer != NULL ? json_incref(o->answer) : frame_result(o);

    if (frame == NULL || fits(frame))
        return frame;
    json_decref(frame);
    err_clear(&o->err);
    (void)err_set(&o->err,
                  o->stage == STAGE_SENDING ? ERR_UNKNOWN : ERR_UNAVAILABLE,
                  "answer_too_long", "the answer is too long for a frame");
    return frame_result(o);
}

static void op_end(struct op *o)
{
    struct ops *s = o->spawnd->ops;
    json_t *frame = last_frame(o);

    keep_result(o, frame);
    if (err_is_set(&o->err))
        log_refusal(o);
    if (o->client != NULL)
        client_send(o->client, frame);
    else
        json_decref(frame);
    if (o->task != NULL)
        crew_forget(o->task);
    watch_forget(o->spawnd->watch, o);
    unlink_op(s, o);
    op_clear(o);
    free(o);
}

/* --- going on ------------------------------------------------------------- */

static enum step next_step(struct op *o)
{
    enum step r;

    o->in_step = true;
    o->woken = false;
    r = o->steps[o->at++](o);
    o->in_step = false;
    if (r == STEP_WAIT && o->woken) /* its callback came at once */
        return err_is_set(&o->err) ? STEP_FAIL : STEP_NEXT;
    return r;
}

static void op_run(struct op *o)
{
    enum step r = STEP_NEXT;

    while (r == STEP_NEXT && o->steps[o->at] != NULL)
        r = next_step(o);
    if (r == STEP_FAIL && !err_is_set(&o->err))
        (void)err_set(&o->err, ERR_INTERNAL, "step_failed",
                      "a step failed without a reason");
    if (r != STEP_WAIT)
        op_end(o);
}

void op_resume(struct op *o)
{
    if (o->in_step) {
        o->woken = true;
        return;
    }
    if (err_is_set(&o->err))
        op_end(o);
    else
        op_run(o);
}

void op_tell_stage(struct op *o)
{
    if (o->client != NULL)
        client_send(o->client, frame_stage(o));
}

/* --- the beginning -------------------------------------------------------- */

static size_t of_client(const struct ops *s, const struct client *c,
                        const char *request, bool *twice)
{
    size_t n = 0;

    *twice = false;
    for (const struct op *o = s->first; o != NULL; o = o->next) {
        if (o->client != c)
            continue;
        n++;
        if (strcmp(o->request, request) == 0)
            *twice = true;
    }
    return n;
}

static int admit(struct ops *s, struct op *o, struct err *e)
{
    bool twice;
    size_t n = of_client(s, o->client, o->request, &twice);

    if (twice)
        return err_set(e, ERR_INVALID, "frame_bad",
                       "not a request: its name is in use");
    if (n >= OPS_CLIENT_MAX || s->count >= OPS_MAX)
        (void)err_set(&o->err, ERR_LIMITED, "spawner_busy",
                      "too many requests are in flight");
    return 0;
}

int ops_begin(struct ops *s, struct client *c, struct wire_msg *m,
              struct err *e)
{
    struct op *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return err_nomem(e);
    o->spawnd = s->spawnd;
    o->client = c;
    o->fd = -1;
    if (frame_read(o, m, e) != 0 || admit(s, o, e) != 0) {
        op_clear(o);
        free(o);
        return -1;
    }
    o->steps = steps_of(o->rule->verb);
    link_op(s, o);
    if (err_is_set(&o->err))
        op_end(o);
    else
        op_run(o);
    return 0;
}

void ops_client_gone(struct ops *s, const struct client *c)
{
    for (struct op *o = s->first; o != NULL; o = o->next) {
        if (o->client == c)
            o->client = NULL;
    }
}

size_t ops_count(const struct ops *s)
{
    return s->count;
}

static struct op *first_waiting(const struct ops *s)
{
    struct op *o;

    for (o = s->first; o != NULL && !o->wants_sync; o = o->next)
        continue;
    return o;
}

/* One fdatasync(2) for all who wait; those who then append wait for the next
 * round of the loop here. */
static void sync_round(struct ops *s, struct err *e)
{
    struct op *o, *done[64];
    size_t n = 0;

    for (o = s->first; o != NULL && n < 64; o = o->next) {
        if (!o->wants_sync)
            continue;
        o->wants_sync = false;
        if (err_is_set(e))
            (void)err_set(&o->err, e->class, e->code, "%s", e->text);
        done[n++] = o;
    }
    for (size_t i = 0; i < n; i++)
        op_resume(done[i]);
}

void ops_turn(struct ops *s)
{
    struct record *r = s->spawnd->record;

    while (first_waiting(s) != NULL) {
        struct err e = ERR_INIT;

        (void)record_flush(r, true, &e);
        sync_round(s, &e);
    }
    if (record_pending(r)) {
        struct err e = ERR_INIT;

        if (record_flush(r, false, &e) != 0)
            log_err("record_write", NULL, &e);
    }
}
