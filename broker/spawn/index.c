/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/index.h"

#include "base/json.h"
#include "base/wire.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_AT_FIRST = 1024, WORD_MAX = 256 };

/* Open addressing, a power of two of slots, at most half full. */
struct slots {
    void **v;
    size_t n, used;
};

struct index {
    struct slots recs;
    struct slots words;
    struct rec *open;
};

static uint64_t hash(const char *s)
{
    uint64_t h = 1469598103934665603ULL; /* FNV-1a */

    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211ULL;
    return h ^ (h >> 32);
}

/* Both kinds of entry begin with their text: a struct rec with its ULID. */
static void **slot_of(const struct slots *t, const char *key)
{
    size_t i = (size_t)hash(key) & (t->n - 1);

    while (t->v[i] != NULL && strcmp(t->v[i], key) != 0)
        i = (i + 1) & (t->n - 1);
    return &t->v[i];
}

static int grow(struct slots *t)
{
    struct slots next = {NULL, t->n == 0 ? SLOTS_AT_FIRST : t->n * 2, t->used};

    if (t->n != 0 && t->used < t->n / 2)
        return 0;
    next.v = calloc(next.n, sizeof(*next.v));
    if (next.v == NULL)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i] != NULL)
            *slot_of(&next, t->v[i]) = t->v[i];
    }
    free(t->v);
    *t = next;
    return 0;
}

static void clear(struct slots *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->v[i]);
    free(t->v);
}

struct index *index_new(void)
{
    struct index *x = calloc(1, sizeof(*x));

    if (x != NULL && grow(&x->recs) == 0 && grow(&x->words) == 0)
        return x;
    index_free(x);
    return NULL;
}

void index_free(struct index *x)
{
    if (x == NULL)
        return;
    clear(&x->recs);
    clear(&x->words);
    free(x);
}

struct rec *index_find(struct index *x, const char *ulid)
{
    return *slot_of(&x->recs, ulid);
}

struct rec *index_open_first(struct index *x)
{
    return x->open;
}

size_t index_count(const struct index *x)
{
    return x->recs.used;
}

/* A word is kept once; NULL on no memory. */
static const char *intern(struct index *x, const char *s)
{
    void **slot;

    if (grow(&x->words) != 0)
        return NULL;
    slot = slot_of(&x->words, s);
    if (*slot == NULL) {
        *slot = strdup(s);
        x->words.used += *slot != NULL;
    }
    return *slot;
}

static void set_open(struct index *x, struct rec *r, bool open)
{
    if (r->is_open == open)
        return;
    r->is_open = open;
    if (open) {
        r->open_prev = NULL;
        r->open_next = x->open;
        if (x->open != NULL)
            x->open->open_prev = r;
        x->open = r;
        return;
    }
    if (r->open_prev != NULL)
        r->open_prev->open_next = r->open_next;
    else
        x->open = r->open_next;
    if (r->open_next != NULL)
        r->open_next->open_prev = r->open_prev;
    r->open_next = r->open_prev = NULL;
}

static int get_word(struct index *x, const json_t *line, const char *key,
                    const char **out, struct err *e)
{
    const char *s;

    if (json_get_str(line, key, true, WORD_MAX, &s, "", e) != 0)
        return -1;
    *out = intern(x, s);
    return *out != NULL ? 0 : err_nomem(e);
}

static int get_hex(const json_t *obj, const char *key, uint8_t *out,
                   struct err *e)
{
    const char *s;

    if (json_get_str(obj, key, true, SHA256_HEX_LEN, &s, "", e) != 0)
        return -1;
    if (strlen(s) != SHA256_HEX_LEN || crypto_unhex(s, out, SHA256_LEN) != 0)
        return err_set(e, ERR_INVALID, "json_type", "%s is no digest", key);
    return 0;
}

static int read_intent(struct index *x, const json_t *line, struct rec *r,
                       struct err *e)
{
    int64_t uid = 0;

    if (get_word(x, line, "actor", &r->actor, e) != 0 ||
        get_word(x, line, "account", &r->account, e) != 0 ||
        get_word(x, line, "workflow", &r->workflow, e) != 0 ||
        get_word(x, line, "generation", &r->generation, e) != 0 ||
        get_hex(line, "args_sha256", r->args_sha256, e) != 0 ||
        json_get_int(line, "uid", true, 1, UINT32_MAX - 1, &uid, "", e) != 0 ||
        json_get_int(line, "gpus", true, 0, INT32_MAX, &r->gpus, "", e) != 0 ||
        json_get_int(line, "at", true, 0, INT64_MAX, &r->intent_ms, "", e) != 0)
        return -1;
    r->uid = (uid_t)uid;
    return 0;
}

static int apply_intent(struct index *x, const json_t *line, const char *ulid,
                        struct err *e)
{
    struct rec *r;
    void **slot;

    if (grow(&x->recs) != 0)
        return err_nomem(e);
    slot = slot_of(&x->recs, ulid);
    if (*slot != NULL)
        return err_set(e, ERR_CONFLICT, "record_known", "a second intent");
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return err_nomem(e);
    if (read_intent(x, line, r, e) != 0) {
        free(r);
        return -1;
    }
    memcpy(r->ulid, ulid, sizeof(r->ulid));
    r->result_at = -1;
    r->maybe_sent = true;
    *slot = r;
    x->recs.used++;
    set_open(x, r, true);
    return 0;
}

/* Where it is sure that Slurm has no job: refused before anything was sent, or
 * Slurm's own no. (Both by the word of the person's worker, about himself.) */
static bool surely_none(const json_t *frame)
{
    const char *stage = json_string_value(json_object_get(frame, "stage"));
    struct err why = ERR_INIT;

    if (json_is_true(json_object_get(frame, "ok")) || stage == NULL)
        return false;
    if (proto_stage_parse(stage) != STAGE_SENDING)
        return true;
    return wire_err_get(frame, "error", &why) == 0 && why.class == ERR_SLURM;
}

static int apply_result(struct index *x, struct rec *r, const json_t *line,
                        int64_t at, size_t len, struct err *e)
{
    json_t *frame = NULL, *result;

    if (json_get_obj(line, "frame", true, &frame, "", e) != 0)
        return -1;
    r->has_result = true;
    r->result_ok = json_is_true(json_object_get(frame, "ok"));
    r->maybe_sent = !surely_none(frame);
    r->result_at = at;
    r->result_len = len;
    result = json_object_get(frame, "result");
    if (r->result_ok) {
        r->claimed_id = json_integer_value(json_object_get(result, "job_id"));
        r->has_script =
            get_hex(result, "script_sha256", r->script_sha256, NULL) == 0;
    }
    if (!r->maybe_sent)
        set_open(x, r, false);
    return 0;
}

static int apply_alias(struct index *x, struct rec *r, const json_t *line,
                       struct err *e)
{
    if (json_get_int(line, "job_id", true, 1, UINT32_MAX, &r->job_id, "", e) !=
            0 ||
        json_get_int(line, "submit_time", true, 0, INT64_MAX, &r->submit_time,
                     "", e) != 0)
        return -1;
    r->ended = false; /* a requeue gives an ended job a new life */
    r->maybe_sent = true;
    set_open(x, r, true);
    return 0;
}

static int apply_known(struct index *x, const char *kind, struct rec *r,
                       const json_t *line, int64_t at, size_t len,
                       struct err *e)
{
    if (strcmp(kind, "result") == 0)
        return apply_result(x, r, line, at, len, e);
    if (strcmp(kind, "alias") == 0)
        return apply_alias(x, r, line, e);
    if (strcmp(kind, "ended") == 0) {
        r->ended = true;
        set_open(x, r, false);
        return 0;
    }
    if (strcmp(kind, "finished") == 0) {
        r->finished = true;
        return 0;
    }
    if (strcmp(kind, "sending") == 0 || strcmp(kind, "act") == 0)
        return 0;
    return err_set(e, ERR_INVALID, "json_range", "unknown kind");
}

int index_apply(struct index *x, const json_t *line, int64_t at, size_t len,
                struct err *e)
{
    const char *kind, *ulid;
    struct rec *r;

    if (json_get_str(line, "kind", true, 16, &kind, "", e) != 0)
        return -1;
    if (strcmp(kind, "start") == 0 || strcmp(kind, "cut") == 0)
        return 0;
    if (json_get_str(line, "ulid", true, ULID_LEN, &ulid, "", e) != 0)
        return -1;
    if (!id_ulid_valid(ulid))
        return err_set(e, ERR_INVALID, "json_range", "not a ULID");
    if (strcmp(kind, "intent") == 0)
        return apply_intent(x, line, ulid, e);
    r = index_find(x, ulid);
    if (r == NULL)
        return err_set(e, ERR_INVALID, "json_range", "no intent before it");
    return apply_known(x, kind, r, line, at, len, e);
}
