/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/sight.h"

#include "base/id.h"
#include "base/json.h"
#include "base/log.h"

#include <string.h>

/* slurmctld's clock may be another host's. */
enum { SKEW_SECONDS = 300, WORD_MAX = 64, NAME_SEEN_MAX = 16384 };

struct seen { /* of one job or row */
    const char *name, *state;
    int64_t job_id, uid, submit_time;
};

static int read_seen(const json_t *o, const char *time_key, struct seen *s)
{
    return json_get_str(o, "name", true, NAME_SEEN_MAX, &s->name, "", NULL) |
           json_get_str(o, "state", true, WORD_MAX, &s->state, "", NULL) |
           json_get_int(o, "job_id", true, 1, UINT32_MAX, &s->job_id, "",
                        NULL) |
           json_get_int(o, "uid", true, 0, UINT32_MAX, &s->uid, "", NULL) |
           json_get_int(o, time_key, true, 0, INT64_MAX, &s->submit_time, "",
                        NULL);
}

static struct rec *by_name(struct record *r, const char *name)
{
    char workflow[SLURM_NAME_MAX + 1], ulid[ULID_LEN + 1];
    struct rec *x;

    if (id_slurm_name_parse(name, workflow, ulid) != 0)
        return NULL;
    x = record_find(r, ulid);
    return x != NULL && strcmp(x->workflow, workflow) == 0 ? x : NULL;
}

/* The first job seen with uid and name is the one, unless the worker's claim
 * names another: a second with the same name is the person's imitation. */
static bool is_the_job(const struct rec *x, const struct seen *s)
{
    if ((uid_t)s->uid != x->uid ||
        s->submit_time < x->intent_ms / 1000 - SKEW_SECONDS)
        return false;
    if (x->claimed_id != 0)
        return s->job_id == x->claimed_id;
    return x->job_id == 0 || s->job_id == x->job_id;
}

/* Its owner gave it another name: an alias that watch told is still it. */
static struct rec *by_alias(struct record *r, const struct seen *s)
{
    for (struct rec *x = record_open_first(r); x != NULL; x = x->open_next) {
        if (x->job_id == s->job_id && x->submit_time == s->submit_time &&
            x->uid == (uid_t)s->uid)
            return x;
    }
    return NULL;
}

bool sight_state_ended(const char *state, const json_t *flags)
{
    static const char *const ended[] = {
        "COMPLETED", "CANCELLED", "FAILED",   "TIMEOUT",       "NODE_FAIL",
        "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", NULL};
    size_t i;

    for (i = 0; i < json_array_size(flags); i++) {
        const char *f = json_string_value(json_array_get(flags, i));

        if (f == NULL || strncmp(f, "REQUEUE", strlen("REQUEUE")) == 0 ||
            strcmp(f, "COMPLETING") == 0 || strcmp(f, "SPECIAL_EXIT") == 0)
            return false;
    }
    for (i = 0; ended[i] != NULL; i++) {
        if (strcmp(ended[i], state) == 0)
            return true;
    }
    return false;
}

static bool differs(const struct rec *x, const json_t *job)
{
    uint8_t sum[SHA256_LEN];
    const char *hex = NULL;

    if (!x->has_script ||
        json_get_str(job, "script_sha256", false, SHA256_HEX_LEN, &hex, "",
                     NULL) != 0 ||
        hex == NULL || crypto_unhex(hex, sum, sizeof(sum)) != 0)
        return false;
    return memcmp(sum, x->script_sha256, sizeof(sum)) != 0;
}

/* A new alias, a new run of it, or life after an end: each is written. */
static void note(struct record *r, struct rec *x, const struct seen *s,
                 bool ended)
{
    struct err e = ERR_INIT;

    if ((x->job_id != s->job_id || x->submit_time != s->submit_time ||
         (x->ended && !ended)) &&
        record_alias(r, x, s->job_id, s->submit_time, &e) != 0)
        log_err("record_alias", x->ulid, &e);
    if (ended && !x->ended && record_ended(r, x, s->state, &e) != 0)
        log_err("record_ended", x->ulid, &e);
}

struct rec *sight_job(struct record *r, const json_t *job, unsigned epoch)
{
    struct seen s;
    struct rec *x;
    bool ended;

    if (read_seen(job, "submit_time", &s) != 0)
        return NULL;
    x = by_name(r, s.name);
    if (x == NULL || !is_the_job(x, &s))
        x = by_alias(r, &s);
    if (x == NULL)
        return NULL;
    ended = sight_state_ended(s.state, json_object_get(job, "flags"));
    note(r, x, &s, ended);
    x->run.live = !ended;
    x->run.epoch = epoch;
    x->run.differs = differs(x, job);
    return x;
}

void sight_gone(struct record *r, const json_t *event)
{
    const char *name;
    int64_t id;
    struct rec *x;

    if (json_get_str(event, "name", true, SLURM_NAME_MAX, &name, "", NULL) !=
            0 ||
        json_get_int(event, "job_id", true, 1, UINT32_MAX, &id, "", NULL) != 0)
        return;
    x = by_name(r, name);
    if (x != NULL && x->job_id == id)
        x->run.live = false;
}

static bool row_is_ended(const json_t *row, const char *state)
{
    return json_is_integer(json_object_get(row, "end")) &&
           json_integer_value(json_object_get(row, "end")) > 0 &&
           sight_state_ended(state, NULL);
}

void sight_rows(struct record *r, struct rec *x, const json_t *rows,
                size_t *seen)
{
    const json_t *last = NULL;
    struct seen s, best = {.submit_time = -1};

    *seen = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);

        if (read_seen(row, "submit", &s) != 0 || by_name(r, s.name) != x ||
            !is_the_job(x, &s))
            continue;
        (*seen)++;
        if (s.submit_time > best.submit_time) {
            best = s;
            last = row;
        }
    }
    if (last != NULL && row_is_ended(last, best.state))
        note(r, x, &best, true);
}

void sight_swept(struct record *r, unsigned epoch)
{
    for (struct rec *x = record_open_first(r); x != NULL; x = x->open_next) {
        if (x->run.epoch != epoch)
            x->run.live = false;
    }
}
