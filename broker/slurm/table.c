/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/table.h"

#include "base/clock.h"
#include "base/json.h"
#include "broker/proto.h"

#include <stdlib.h>
#include <string.h>

/* 0.6 ms each: a first list of thousands must not hold up everybody. */
enum { DIGESTS_A_ROUND = 100 };

void table_init(struct table *t)
{
    memset(t, 0, sizeof(*t));
    t->digests_left = DIGESTS_A_ROUND;
}

static void tracked_clear(struct tracked *k)
{
    json_decref(k->job);
    free(k->name);
    memset(k, 0, sizeof(*k));
}

void table_clear(struct table *t)
{
    for (size_t i = 0; i < t->n; i++)
        tracked_clear(&t->v[i]);
    free(t->v);
    table_init(t);
}

/* The place of id, or where it would be. */
static size_t place(const struct table *t, uint32_t id)
{
    size_t lo = 0, hi = t->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (t->v[mid].job_id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct tracked *find(const struct table *t, uint32_t id)
{
    size_t i = place(t, id);

    return i < t->n && t->v[i].job_id == id ? &t->v[i] : NULL;
}

static struct tracked *insert(struct table *t, const slurm_job_info_t *j)
{
    size_t i = place(t, j->job_id), room = t->room == 0 ? 256 : 2 * t->room;
    char *name = strdup(j->name);

    if (name != NULL && t->n == t->room) {
        struct tracked *v = realloc(t->v, room * sizeof(*v));

        if (v == NULL) {
            free(name);
            return NULL;
        }
        t->v = v;
        t->room = room;
    }
    if (name == NULL)
        return NULL;
    memmove(&t->v[i + 1], &t->v[i], (t->n - i) * sizeof(t->v[0]));
    t->n++;
    memset(&t->v[i], 0, sizeof(t->v[i]));
    t->v[i].job_id = j->job_id;
    t->v[i].name = name;
    return &t->v[i];
}

static json_t *event(const char *name)
{
    json_t *o = json_object();
    int bad = json_put_int(o, "v", PROTO_VERSION);

    bad |= json_put_str(o, "event", name);
    bad |= json_put_int(o, "at_ms", clock_now_ms());
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *job_event(json_t *job)
{
    json_t *o = event("job");

    if (json_put(o, "job", json_incref(job)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static void tell_gone(const struct tracked *k, struct peers *peers)
{
    json_t *o = event("gone");
    int bad = json_put_int(o, "job_id", k->job_id);

    bad |= json_put_str(o, "name", k->name);
    bad |= json_put_int(o, "submit_time", k->submit);
    if (bad != 0) {
        json_decref(o);
        o = NULL;
    }
    peers_tell(peers, o);
}

static void drop(struct table *t, struct tracked *k)
{
    size_t i = (size_t)(k - t->v);

    tracked_clear(k);
    memmove(&t->v[i], &t->v[i + 1], (t->n - i - 1) * sizeof(t->v[0]));
    t->n--;
}

/* An id that was used again is another job. A renamed job of the same submit,
 * or one requeued since, is still the one we follow, whatever its new name:
 * what its owner does to it is to be seen. */
static bool is_same(const struct tracked *k, const slurm_job_info_t *j)
{
    const json_t *uid = json_object_get(k->job, "uid");
    const json_t *restarts = json_object_get(k->job, "restarts");

    if ((j->name != NULL && strcmp(j->name, k->name) == 0) ||
        j->submit_time == k->submit)
        return true;
    return json_integer_value(uid) == (json_int_t)j->user_id &&
           (json_int_t)j->restart_cnt > json_integer_value(restarts);
}

static struct tracked *match(struct table *t, const slurm_job_info_t *j,
                             struct peers *peers)
{
    struct tracked *k = find(t, j->job_id);
    bool ours = jobs_is_ours(j->name);

    if (k != NULL && !is_same(k, j)) {
        tell_gone(k, peers);
        drop(t, k);
        k = NULL;
    }
    return k == NULL && ours ? insert(t, j) : k;
}

/* Once a job; a script does not change while slurmctld holds it. */
static void fill_digest(struct table *t, struct tracked *k)
{
    if (k->digest[0] != '\0' || k->tries >= TABLE_DIGEST_TRIES ||
        t->digests_left == 0) {
        t->unfinished = t->unfinished ||
                        (k->digest[0] == '\0' && k->tries < TABLE_DIGEST_TRIES);
        return;
    }
    t->digests_left--;
    k->tries++;
    if (jobs_script_digest(k->job_id, k->digest) == 0)
        return;
    k->digest[0] = '\0';
    t->unfinished = true;
}

const json_t *table_see(struct table *t, const slurm_job_info_t *j,
                        struct peers *peers)
{
    struct tracked *k = match(t, j, peers);
    json_t *job;

    if (k == NULL)
        return NULL;
    k->round = t->round;
    k->submit = j->submit_time;
    fill_digest(t, k);
    job = jobs_json(j, k->digest[0] != '\0' ? k->digest : NULL);
    if (job != NULL && !json_equal(job, k->job)) {
        json_decref(k->job);
        k->job = json_incref(job);
        peers_tell(peers, job_event(k->job));
    }
    json_decref(job);
    return k->job;
}

void table_begin(struct table *t)
{
    t->round++;
    t->digests_left = DIGESTS_A_ROUND;
    t->unfinished = false;
}

void table_sweep(struct table *t, struct peers *peers)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].round == t->round) {
            t->v[kept++] = t->v[i];
            continue;
        }
        tell_gone(&t->v[i], peers);
        tracked_clear(&t->v[i]);
    }
    t->n = kept;
}

void table_snapshot(const struct table *t, struct peer *one)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].job != NULL)
            peers_tell_one(one, job_event(t->v[i].job));
}
