/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Questions to slurmdbd. Each batch is a child with a connection of its own: a
 * kept connection reads one frozen snapshot for ever.
 */
#include "broker/slurm/watch.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "broker/proto.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/lib.h"

#include <stdlib.h>
#include <string.h>

enum { CHILD_MS = 20000, LOOK_UP_MS = 10000, LOOK_DOWN_MS = 3000 };

/* --- in the child -----------------------------------------------------------
 */

struct names {
    json_t *tres, *qos;
    bool fresh; /* fetched by this child */
};

static int fetch_names(void *db, struct names *n)
{
    n->tres = jobs_tres_names(db);
    n->qos = n->tres != NULL ? jobs_qos_names(db) : NULL;
    n->fresh = true;
    return n->tres != NULL && n->qos != NULL ? 0 : -1;
}

/* An id that the names lack is a new one: fetch, and read again. */
static json_t *ask_rows(void *db, const struct ask *q, struct names *n)
{
    bool unknown = false;
    json_t *rows = jobs_rows(db, &q->query, n->tres, n->qos, &unknown);

    if (rows == NULL || !unknown || n->fresh || fetch_names(db, n) != 0)
        return rows;
    json_decref(rows);
    return jobs_rows(db, &q->query, n->tres, n->qos, &unknown);
}

static void say_rows(int fd, size_t i, json_t *rows)
{
    json_t *line = json_object();

    (void)json_put_int(line, "i", (int64_t)i);
    (void)json_put_bool(line, "ok", rows != NULL);
    (void)json_put(line, "rows", rows != NULL ? rows : json_array());
    child_say(fd, line);
}

static void say_names(int fd, const struct names *n)
{
    json_t *line = json_object();

    (void)json_put(line, "tres", json_incref(n->tres));
    (void)json_put(line, "qos", json_incref(n->qos));
    child_say(fd, line);
}

static void run_batch(int fd, void *context)
{
    const struct batch *b = context;
    struct names n = {b->accounting->tres, b->accounting->qos, false};
    char said[LIB_SAID_MAX];
    uint16_t flags = 0;
    void *db;

    lib_listen();
    db = slurmdb_connection_get(&flags);
    /* A look asks for something, for a connection alone proves nothing. */
    if (db != NULL && (b->n == 0 || n.tres == NULL || n.qos == NULL) &&
        fetch_names(db, &n) != 0)
        db = NULL;
    for (size_t i = 0; i < b->n; i++)
        say_rows(fd, i, db != NULL ? ask_rows(db, b->asks[i], &n) : NULL);
    if (db != NULL && n.fresh && n.qos != NULL)
        say_names(fd, &n);
    if (db != NULL)
        (void)slurmdb_connection_close(&db);
    lib_heard(said);
}

/* --- in watch
 * ----------------------------------------------------------------- */

void accounting_init(struct accounting *a, const char *cluster)
{
    memset(a, 0, sizeof(*a));
    a->cluster = cluster;
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        child_init(&a->batches[i].child);
}

static void ask_free(struct ask *q)
{
    if (q == NULL)
        return;
    json_decref(q->slurmctld);
    free(q);
}

void accounting_clear(struct accounting *a)
{
    for (size_t i = 0; i < a->n; i++)
        ask_free(a->waiting[i]);
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        struct batch *b = &a->batches[i];

        for (size_t k = 0; k < b->n; k++)
            ask_free(b->asks[k]);
        child_stop(&b->child);
    }
    json_decref(a->tres);
    json_decref(a->qos);
}

json_t *accounting_answer(const char *id, json_t *slurmctld, json_t *slurmdbd)
{
    json_t *o = json_object();
    int bad = json_put_int(o, "v", PROTO_VERSION);

    bad |= json_put_str(o, "event", "answer");
    bad |= json_put_str(o, "id", id);
    bad |=
        json_put(o, "slurmctld", slurmctld != NULL ? slurmctld : json_null());
    bad |= json_put(o, "slurmdbd", slurmdbd != NULL ? slurmdbd : json_null());
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* Consumes rows. */
static json_t *part(bool ok, json_t *rows)
{
    json_t *o = json_object();

    if ((json_put_bool(o, "ok", ok) |
         json_put(o, "rows", rows != NULL ? rows : json_array())) == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* Rows that don't fit into a frame are "not ok": the connection must not go
 * with them. */
static json_t *whole_answer(const struct ask *q, bool ok, json_t *rows)
{
    json_t *o =
        accounting_answer(q->id, json_incref(q->slurmctld), part(ok, rows));

    if (o == NULL || json_dumpb(o, NULL, 0, JSON_COMPACT) <= WIRE_FRAME_MAX)
        return o;
    json_decref(o);
    log_event(LOG_WARN_, "answer_too_long", NULL, "name", q->name, NULL);
    return accounting_answer(q->id, json_incref(q->slurmctld),
                             part(false, NULL));
}

/* Consumes rows, frees the ask. */
static void answer(struct ask *q, bool ok, json_t *rows, struct peers *peers)
{
    struct peer *to = peers_find(peers, q->peer);

    if (to == NULL)
        json_decref(rows);
    else
        peers_tell_one(to, whole_answer(q, ok, rows));
    ask_free(q);
}

void accounting_ask(struct accounting *a, struct ask *q, struct peers *peers)
{
    bool looked = a->next_look_ms != 0;

    q->query.cluster = a->cluster;
    q->query.name = q->name;
    if ((looked && !a->up) || a->n == ASKS_MAX)
        answer(q, false, NULL, peers);
    else
        a->waiting[a->n++] = q;
}

struct reading { /* a child's lines */
    struct accounting *a;
    struct batch *b;
    struct peers *peers;
};

static void read_line(json_t *line, void *context)
{
    struct reading *r = context;
    json_t *tres = json_object_get(line, "tres");
    size_t i = (size_t)json_integer_value(json_object_get(line, "i"));
    bool ok = json_is_true(json_object_get(line, "ok"));

    if (tres != NULL) {
        json_decref(r->a->tres);
        json_decref(r->a->qos);
        r->a->tres = json_incref(tres);
        r->a->qos = json_incref(json_object_get(line, "qos"));
        r->b->alive = true;
    } else if (i < r->b->n && !r->b->answered[i]) {
        r->b->answered[i] = true;
        r->b->alive = r->b->alive || ok;
        answer(r->b->asks[i], ok, json_incref(json_object_get(line, "rows")),
               r->peers);
    }
}

/* Whatever the child left unanswered is "not ok", never an empty list. */
static void end_batch(struct accounting *a, struct batch *b,
                      struct peers *peers)
{
    struct reading r = {a, b, peers};

    child_lines(&b->child, read_line, &r);
    for (size_t i = 0; i < b->n; i++)
        if (!b->answered[i])
            answer(b->asks[i], false, NULL, peers);
    b->n = 0;
    a->up = b->alive;
    a->next_look_ms = clock_mono_ms() + (a->up ? LOOK_UP_MS : LOOK_DOWN_MS);
    buf_clear(&b->child.out);
}

static void start_batch(struct accounting *a, struct batch *b,
                        struct peers *peers)
{
    struct err e = ERR_INIT;
    size_t n = a->n < BATCH_MAX ? a->n : BATCH_MAX;

    memcpy(b->asks, a->waiting, n * sizeof(b->asks[0]));
    memset(b->answered, 0, sizeof(b->answered));
    memmove(a->waiting, a->waiting + n, (a->n - n) * sizeof(a->waiting[0]));
    a->n -= n;
    b->n = n;
    b->alive = false;
    b->accounting = a;
    a->next_look_ms = clock_mono_ms() + CHILD_MS;
    /* Any call before slurm_init ends the process on newer versions. */
    if (lib_init(&e) != 0 ||
        child_start(&b->child, run_batch, b, CHILD_MS, &e) != 0)
        end_batch(a, b, peers);
}

void accounting_turn(struct accounting *a, struct peers *peers)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        struct batch *b = &a->batches[i];

        if (child_running(&b->child) && child_read(&b->child) != 0)
            end_batch(a, b, peers);
        if (!child_running(&b->child) &&
            (a->n > 0 || clock_mono_ms() >= a->next_look_ms))
            start_batch(a, b, peers);
    }
}
