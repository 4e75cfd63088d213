/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/http/route.h"

#include <stdio.h>
#include <string.h>

static const struct route table[] = {
    {"GET", "/healthz", api_healthz, ROUTE_OPEN | ROUTE_INLINE, NULL},
    {"GET", "/readyz", api_readyz, ROUTE_OPEN | ROUTE_INLINE, NULL},
    {"GET", "/v1/me", api_me, ROUTE_INLINE, NULL},
    {"GET", "/v1/workflows", api_workflows, ROUTE_INLINE, NULL},
    {"GET", "/v1/workflows/{}", api_workflow, ROUTE_INLINE, "workflow.read"},
    {"GET", "/v1/workflows/{}/schema", api_schema, ROUTE_INLINE,
     "workflow.read"},
    {"POST", "/v1/jobs", api_submit, 0, "job.submit"},
    {"POST", "/v1/jobs/submit", api_submit, 0, "job.submit"},
    {"GET", "/v1/jobs", api_jobs, ROUTE_INLINE, "job.list"},
    {"GET", "/v1/jobs/{}", api_job, ROUTE_INLINE, "job.read"},
    {"GET", "/v1/jobs/{}/script", api_script, 0, "job.script"},
    {"GET", "/v1/jobs/{}/attempts", api_attempts, ROUTE_INLINE, "job.attempts"},
    {"GET", "/v1/jobs/{}/logs", api_logs, ROUTE_SLOW, "job.log"},
    {"GET", "/v1/jobs/{}/artifacts", api_artifacts, ROUTE_SLOW,
     "job.artifacts"},
    {"GET", "/v1/jobs/{}/artifacts/{*}", api_artifact, ROUTE_SLOW,
     "job.artifact"},
    {"POST", "/v1/jobs/{}/cancel", api_cancel, 0, "job.cancel"},
    {"POST", "/v1/jobs/{}/hold", api_hold, 0, "job.hold"},
    {"POST", "/v1/jobs/{}/release", api_release, 0, "job.release"},
    {"GET", "/v1/usage", api_usage, ROUTE_INLINE, "usage.read"},
    {"GET", "/v1/resources/usage", api_usage, ROUTE_INLINE, "usage.read"},
    {"GET", "/v1/audit", api_audit, 0, "audit.read"},
};

const struct route *route_table(size_t *count)
{
    *count = sizeof(table) / sizeof(table[0]);
    return table;
}

/* NULs are written into path only by take_args, after a full match. */
static bool matches(const char *pattern, const char *path)
{
    while (*pattern != '\0') {
        if (strcmp(pattern, "{*}") == 0)
            return *path != '\0';
        if (strncmp(pattern, "{}", 2) == 0) {
            size_t n = strcspn(path, "/");

            if (n == 0)
                return false;
            path += n;
            pattern += 2;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

static void take_args(const struct route *route, struct http_request *r)
{
    const char *pattern = route->pattern;
    char *path = r->path;
    size_t n = 0;

    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (*path == '/' && path > r->path && n > 0)
                *path = '\0'; /* ends the argument before it */
            pattern++;
            path++;
            continue;
        }
        r->args[n++] = path;
        if (strcmp(pattern, "{*}") == 0)
            return;
        path += strcspn(path, "/");
        pattern += 2;
    }
}

static bool method_is(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

int route_find(struct http_request *r, char *allow, size_t allow_size,
               struct err *e)
{
    bool known = false;

    allow[0] = '\0';
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        size_t used = strlen(allow);

        if (!matches(table[i].pattern, r->path))
            continue;
        if (method_is(&table[i], r->method)) {
            r->route = &table[i];
            take_args(r->route, r);
            return 0;
        }
        snprintf(allow + used, allow_size - used, "%s%s", known ? ", " : "",
                 table[i].method);
        known = true;
    }
    if (known)
        return err_set(e, ERR_UNSUPPORTED, "method_not_allowed",
                       "this path takes %s", allow);
    return err_set(e, ERR_NOT_FOUND, "route_unknown", "there is nothing here");
}
