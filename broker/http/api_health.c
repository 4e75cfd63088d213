/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * healthz: this process answers. readyz: what a submit needs is there.
 */
#include "base/json.h"
#include "broker/http/api.h"

#include <string.h>

int api_healthz(struct http_request *r, struct err *e)
{
    json_t *o = json_object();

    if (json_put_str(o, "status", "ok") < 0) {
        json_decref(o);
        return err_nomem(e);
    }
    return answer_json(r, 200, o, e);
}

static json_t *ready_document(const struct service_status *s, bool ready)
{
    json_t *o = json_object();
    int bad =
        json_put_bool(o, "ready", ready) |
        json_put_str(o, "mode", s->self_mode ? "self" : "people") |
        json_put_str(o, "boundary",
                     s->self_mode
                         ? "one account: the boundary contains bugs, not this "
                           "person's own jobs"
                         : "three service accounts") |
        json_put_str(o, "generation", s->generation) |
        json_put_bool(o, "spawner", s->spawn_up) |
        json_put_bool(o, "watch", s->follow.watch_up) |
        json_put_bool(o, "slurmctld", s->follow.slurmctld) |
        json_put_bool(o, "slurmdbd", s->follow.slurmdbd) |
        json_put_time(o, "observed_at", s->follow.polled_at_ms / 1000);

    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

int api_readyz(struct http_request *r, struct err *e)
{
    struct service_status s;
    bool ready;

    service_status(server_service(r->server), &s);
    ready = s.spawn_up && s.follow.watch_up && s.follow.slurmctld;
    return answer_json(r, ready ? 200 : 503, ready_document(&s, ready), e);
}
