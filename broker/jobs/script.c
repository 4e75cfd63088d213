/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/script.h"

#include "base/crypto.h"
#include "base/json.h"
#include "base/log.h"
#include "broker/jobs/doc.h"
#include "broker/jobs/service.h"
#include "templates/render.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

int script_render(struct service *s, const struct script_of *o, struct buf *out,
                  char *sha256_hex, struct err *e)
{
    char dir[PATH_MAX];
    /* The text depends on limits and name only; the rest is the environment's,
     * which the worker makes as the person. */
    struct render_job job = {.ulid = o->ulid,
                             .slurm_name = o->slurm_name,
                             .run_dir = dir,
                             .user = o->account,
                             .home = "/",
                             .shell = "/bin/sh",
                             .inputs_dir = s->config->jobs.inputs,
                             .models_dir = s->config->jobs.models,
                             .submit_host = "",
                             .has_sidecar = o->has_sidecar};

    snprintf(dir, sizeof dir, "%s/%s/%s", s->config->jobs.root, o->account,
             o->ulid);
    if (render_script(o->generation->templates_fd, o->workflow, o->limits, &job,
                      out, e))
        return -1;
    return crypto_sha256_hex(out->data, out->len, sha256_hex, e);
}

static int unavailable(struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "script_unavailable",
                   "the workflow of this job is not there any more");
}

/* One reference is the caller's. */
static int generation_of(struct service *s, const char *id,
                         struct generation **out, struct err *e)
{
    struct service_allow *a = service_allow(s);
    struct err why = ERR_INIT;

    if (!strcmp(a->generation->id, id))
        *out = generation_ref(a->generation);
    else if (generation_load(s->config->paths.store, id, out, &why)) {
        log_err("generation_load", NULL, &why);
        *out = NULL;
    }
    service_unref(a);
    return *out ? 0 : unavailable(e);
}

static int render_row(struct service *s, const struct job_row *j,
                      const struct generation *g, struct buf *out,
                      char *sha256_hex, struct err *e)
{
    const struct workflow *w = allowlist_find(g->allowlist, j->workflow);
    struct limits limits = {0};
    struct script_of o = {.generation = g,
                          .workflow = w,
                          .limits = &limits,
                          .ulid = j->ulid,
                          .slurm_name = j->slurm_name,
                          .account = j->account,
                          .has_sidecar = j->has_sidecar};
    json_t *params;
    int rc = -1;

    if (!w)
        return unavailable(e);
    params = json_parse(j->params, strlen(j->params), DOC_BYTES_MAX, e);
    if (params && workflow_limits(w, params, &limits, e) == 0)
        rc = script_render(s, &o, out, sha256_hex, e);
    json_decref(params);
    limits_clear(&limits);
    return rc;
}

int script_of_job(struct service *s, const struct job_row *j, struct buf *out,
                  char *sha256_hex, struct err *e)
{
    struct generation *g = NULL;
    int rc;

    if (generation_of(s, j->generation, &g, e))
        return -1;
    rc = render_row(s, j, g, out, sha256_hex, e);
    generation_unref(g);
    return rc;
}
