/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What sluice-files and sluice-slurm worker share: the start, the options, the
 * request loop of broker/proto.h section 3, and the part of a request that
 * both render from. A worker belongs to one person for life.
 * Thread rule: one thread.
 */
#ifndef BROKER_WORKER_H
#define BROKER_WORKER_H

#include "base/err.h"
#include "base/id.h"
#include "broker/generation.h"
#include "templates/render.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* argv; all borrowed. NULL where not given. */
struct worker_site {
    const char *jobs_root, *inputs, *models, *cluster, *marker, *kind, *poll_ms;
};

/* Long options of argv[first...]; each given once, absolute folders. 0, or -1
 * (ERR_CONFIG worker_option). */
int worker_options(int argc, char **argv, int first, struct worker_site *out,
                   struct err *e);

/* Not dumpable, dies with its parent, SIGPIPE ignored, umask 077. Refused
 * (ERR_CONFIG): worker_identity (real, effective and saved ids differ),
 * worker_capable (a capability is left). */
int worker_start(struct err *e);

struct worker_person {
    const char *name, *account, *home, *shell;
    const char *slurm_account, *qos; /* NULL: not given */
};

struct worker_job { /* the spawner's record of a job */
    const char *workflow, *name;
    uint32_t job_id;     /* 0: no alias is known */
    int64_t submit_time; /* 0: not known */
};

/* One request; strings are borrowed from its frame. */
struct worker_request {
    struct worker *worker;
    const char *id, *ulid; /* ulid: NULL when none */
    const struct worker_verb *verb;
    json_t *args;
    struct worker_person person;
    struct worker_job job; /* workflow NULL: none was given */
    int fd;                /* the pipe's write end, or -1; the loop closes it */
    const char *stage;     /* "init", then "sending" */
};

enum { WORKER_WANTS_FD = 1, WORKER_WANTS_ULID = 2, WORKER_WANTS_JOB = 4 };

/* run fills result (an empty object) and returns 0, or -1 and e. */
struct worker_verb {
    const char *name;
    unsigned wants;
    int (*run)(void *context, struct worker_request *r, json_t *result,
               struct err *e);
};

struct worker {
    int sock;
    const struct worker_verb *verbs;
    size_t count;
    void *context;
    void (*answered)(void *context); /* after each answer; may be NULL */
};

/* Requests until the peer closes (0), or the socket fails (-1). A frame that
 * is no request ends it; a request that does not fit its verb is answered. */
int worker_serve(struct worker *w, struct err *e);
/* One frame's body (borrowed), its fd (taken): the answer frame (owned), or
 * NULL when it is no request of ours. For worker_serve and the tests. */
json_t *worker_answer(struct worker *w, const json_t *body, int fd,
                      struct err *e);

/* {"event":"stage"}; remembered for the result frame. A spawner that is gone
 * is an error: nothing is sent to Slurm for nobody. */
int worker_stage(struct worker_request *r, const char *stage, struct err *e);

/* A request that names a workflow, checked against the catalog once more. */
struct worker_work {
    const struct workflow *workflow;
    json_t *params; /* normal form, owned */
    struct limits limits;
    struct render_job job; /* points into this struct and the request */
    char run_dir[PATH_MAX], slurm_name[SLURM_NAME_MAX + 1], host[256];
};
/* args: {workflow, params, <extra>...}. ERR_NOT_FOUND workflow_unknown,
 * ERR_CONFIG run_dir, and what params_validate and workflow_limits say. */
int worker_work_init(struct worker_work *k, const struct generation *g,
                     const struct worker_site *site,
                     const struct worker_request *r, bool has_sidecar,
                     struct err *e);
void worker_work_clear(struct worker_work *k);

/* Everything to the request's pipe, however slowly it is read. ERR_UNAVAILABLE
 * pipe_closed when the reader has gone, pipe_stalled when it reads nothing for
 * a long time. */
int worker_pipe(const struct worker_request *r, const void *p, size_t n,
                struct err *e);

#endif
