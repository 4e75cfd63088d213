/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The table of routes: method, pattern, handler, and where it runs.
 */
#ifndef BROKER_HTTP_ROUTE_H
#define BROKER_HTTP_ROUTE_H

#include "base/err.h"
#include "broker/http/request.h"

#include <stdbool.h>

enum route_flags {
    ROUTE_OPEN = 1,   /* no identity asked (healthz, readyz) */
    ROUTE_INLINE = 2, /* runs on the HTTP thread: reads SQLite only */
    ROUTE_SLOW = 4    /* logs, artifacts: their own lane of the pool */
};

typedef int route_handler(struct http_request *r, struct err *e);

struct route {
    const char *method;
    const char *pattern; /* "/v1/jobs/{}/logs"; a last "{*}" takes the rest */
    route_handler *handler;
    unsigned flags;
    const char *action; /* the audit's word for it; NULL: nothing to refuse */
};

/* Find the route of r->method and r->path, and set r->route and r->args. HEAD
 * finds GET's. ERR_NOT_FOUND route_unknown, ERR_UNSUPPORTED method_not_allowed
 * (allow, the caller's, then names the methods there are; else it is ""). */
int route_find(struct http_request *r, char *allow, size_t allow_size,
               struct err *e);
/* The whole table, for tests. */
const struct route *route_table(size_t *count);

/* Handlers, one file a family: api_me.c api_workflows.c api_jobs.c
 * api_files.c api_audit.c api_health.c */
route_handler api_me, api_workflows, api_workflow, api_schema, api_submit,
    api_jobs, api_job, api_script, api_attempts, api_logs, api_artifacts,
    api_artifact, api_cancel, api_hold, api_release, api_usage, api_audit,
    api_healthz, api_readyz;

#endif
