/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * /v1/me: who the server thinks asks, and what that gives.
 */
#include "audit/ledger.h"
#include "base/clock.h"
#include "base/json.h"
#include "broker/http/api.h"

static json_t *allowed_workflows(const struct identity *who)
{
    const struct allowlist *list = who->generation->allowlist;
    json_t *a = json_array();

    for (size_t i = 0; a != NULL && i < allowlist_count(list); i++) {
        const struct workflow *w = allowlist_at(list, i);

        if (identity_may_run(who, w) &&
            json_array_append_new(a, json_string(w->name)) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

static json_t *quotas(const struct identity *who, struct db *reader,
                      struct err *e)
{
    json_t *o;
    int64_t gpus = 0, month = 0;
    int bad;

    if (ledger_open_gpus(reader, who->principal, &gpus, e) < 0 ||
        ledger_month_used(reader, who->principal, clock_now(), &month, e) < 0)
        return NULL;
    o = json_object();
    bad = json_put_int(o, "gpus_used", gpus);
    if (who->gpus_max > 0)
        bad |= json_put_int(o, "gpus_limit", who->gpus_max);
    else
        bad |= json_put(o, "gpus_limit", json_null());
    bad |= json_put_int(o, "gpu_seconds_month", month);
    if (bad == 0)
        return o;
    json_decref(o);
    err_nomem(e);
    return NULL;
}

static int put_person(json_t *o, const struct identity *who)
{
    const struct person *p = who->person_entry;

    return json_put_str(o, "principal", who->person) |
           json_put_int(o, "principal_id", who->principal) |
           json_put(o, "roles", roles_json(who->roles)) |
           json_put(o, "groups", strs_json(&p->groups)) |
           json_put_str(o, "proof",
                        who->proof == PROOF_TOKEN ? "token" : "network") |
           json_put_str(o, "token_id",
                        who->token_id[0] != '\0' ? who->token_id : NULL) |
           json_put_str(o, "account", p->account) |
           json_put_str(o, "slurm_account", p->slurm_account) |
           json_put(o, "workflows", allowed_workflows(who));
}

int api_me(struct http_request *r, struct err *e)
{
    const struct config *c = server_service(r->server)->config;
    struct db *reader = server_reader(r->server, e);
    json_t *o, *q;

    if (reader == NULL)
        return -1;
    q = quotas(&r->identity, reader, e);
    if (q == NULL)
        return -1;
    o = json_object();
    if ((put_person(o, &r->identity) | json_put(o, "quotas", q) |
         json_put(o, "balance", json_null()) |
         json_put_str(o, "cluster", c->cluster.name) |
         json_put_str(o, "mode", c->mode) |
         json_put_str(o, "generation", r->identity.generation->id)) != 0) {
        json_decref(o);
        return err_nomem(e);
    }
    return answer_json(r, 200, o, e);
}
