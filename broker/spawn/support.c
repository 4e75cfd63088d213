/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/support.h"

#include "base/clock.h"
#include "base/json.h"
#include "broker/proto.h"
#include "broker/spawn/gens.h"
#include "broker/spawn/sight.h"

/* Seconds: slurmctld's clock may be another host's. */
enum { SINCE_SPARE = 300 };

/* Absence is proof only when both sources answered, later than a credential
 * could still be redeemed (300 s), and when no worker of an earlier
 * spawner could have sent one since. */
static bool never_came(const struct op *o)
{
    const struct spawnd *d = o->spawnd;
    int64_t from =
        o->rec->intent_ms > d->started_ms ? o->rec->intent_ms : d->started_ms;

    return o->absent_ctld && o->absent_dbd && d->survivors == 0 &&
           clock_now_ms() - from >= QUOTA_UNSEEN_MS;
}

bool support_given(const struct op *o)
{
    const struct rec *x = o->rec;

    if (x->run.running)
        return false;
    if (x->ended || !x->maybe_sent)
        return true;
    if (o->rule->verb == VERB_FINISH)
        return never_came(o);
    return x->run.differs || gens_is_revoked(o->spawnd->gens, x->generation);
}

/* "find" asks slurmctld and slurmdbd, by uid and exact name. */
json_t *support_question(struct op *o)
{
    char name[SLURM_NAME_MAX + 1];
    json_t *q;
    int r;

    if (o->asked)
        return NULL;
    o->asked = true;
    q = json_object();
    r = id_slurm_name(o->rec->workflow, o->rec->ulid, name);
    r |= json_put_str(q, "ask", "find");
    r |= json_put_int(q, "uid", (int64_t)o->rec->uid);
    r |= json_put_str(q, "name", name);
    r |= json_put_int(q, "since", o->rec->intent_ms / 1000 - SINCE_SPARE);
    if (r == 0)
        return q;
    json_decref(q);
    return NULL;
}

static bool answered(const json_t *source)
{
    return json_is_true(json_object_get(source, "ok"));
}

/* Jobs were brought to the record by watch.c already: alive or ended. */
void support_note(struct op *o, const json_t *answer)
{
    const json_t *ctld = json_object_get(answer, "slurmctld");
    const json_t *dbd = json_object_get(answer, "slurmdbd");
    size_t rows = 0;

    if (answered(ctld))
        o->absent_ctld = json_array_size(json_object_get(ctld, "jobs")) == 0;
    if (!answered(dbd))
        return;
    sight_rows(o->spawnd->record, o->rec, json_object_get(dbd, "rows"), &rows);
    o->absent_dbd = rows == 0;
}
