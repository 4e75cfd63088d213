/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Following one job by long polls.
 */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool job_is_final(const json_t *job)
{
    static const char *const final[] = {"COMPLETE", "ERROR", "CANCELED"};
    const char *state = field(job, "state");

    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++) {
        if (strcmp(final[i], state) == 0)
            return true;
    }
    return false;
}

int job_exit_code(const json_t *job)
{
    if (!job_is_final(job))
        return EXIT_DONE;
    return strcmp(field(job, "state"), "COMPLETE") == 0 ? EXIT_DONE
                                                        : EXIT_JOB_ERROR;
}

/* One long poll; a server that is away for a moment is waited for. */
static int poll_once(struct cli *c, const char *path, const char *etag,
                     struct reply *r, int *misses)
{
    const struct call call = {.method = "GET",
                              .path = path,
                              .if_none_match = etag[0] != '\0' ? etag : NULL,
                              .timeout_seconds = 60};
    struct err e = ERR_INIT;

    if (client_call(c->client, &call, r, &e) == 0 && r->status < 500) {
        *misses = 0;
        return r->status < 400 ? 0 : say_problem(c, r);
    }
    if (++*misses > 30)
        return err_is_set(&e) ? say_error(c, &e) : say_problem(c, r);
    sleep(1);
    return 0;
}

int follow_job(struct cli *c, const char *id, json_t **job)
{
    char path[128], etag[128] = "";
    int misses = 0, rc = 0;
    bool final = false;

    snprintf(path, sizeof(path), "/v1/jobs/%s?wait=30", id);
    while (rc == 0 && !final) {
        struct reply r;

        rc = poll_once(c, path, etag, &r, &misses);
        if (rc == 0 && r.status == 200 && r.json != NULL) {
            snprintf(etag, sizeof(etag), "%s", r.etag);
            json_decref(*job);
            *job = json_incref(r.json);
            final = job_is_final(*job);
            print_state_line(c, *job);
        }
        reply_clear(&r);
    }
    end_state_line(c);
    return rc;
}
