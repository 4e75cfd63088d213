/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The workflows that this person may run; a forbidden one answers like an
 * unknown one.
 */
#include "base/json.h"
#include "broker/http/api.h"

static const struct workflow *find_allowed(struct http_request *r,
                                           struct err *e)
{
    const struct workflow *w =
        allowlist_find(r->identity.generation->allowlist, r->args[0]);

    if (w != NULL && identity_may_run(&r->identity, w))
        return w;
    err_set(e, ERR_NOT_FOUND, "workflow_not_found",
            "there is no such workflow for you");
    return NULL;
}

int api_workflows(struct http_request *r, struct err *e)
{
    const struct allowlist *list = r->identity.generation->allowlist;
    json_t *o = json_object(), *a = json_array();
    int bad = 0;

    for (size_t i = 0; i < allowlist_count(list); i++) {
        const struct workflow *w = allowlist_at(list, i);

        if (identity_may_run(&r->identity, w))
            bad |= json_array_append_new(a, workflow_json(w));
    }
    bad |= json_put(o, "workflows", a) | json_put(o, "next", json_null());
    if (bad == 0)
        return answer_json(r, 200, o, e);
    json_decref(o);
    return err_nomem(e);
}

int api_workflow(struct http_request *r, struct err *e)
{
    const struct workflow *w = find_allowed(r, e);

    return w == NULL ? -1 : answer_json(r, 200, workflow_json(w), e);
}

int api_schema(struct http_request *r, struct err *e)
{
    const struct workflow *w = find_allowed(r, e);

    if (w == NULL || answer_json(r, 200, workflow_schema(w), e) < 0)
        return -1;
    r->content_type = "application/schema+json";
    return 0;
}
