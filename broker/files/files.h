/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The verbs of sluice-files: everything that touches the share, as the person.
 * No libslurm. Thread rule: one thread.
 */
#ifndef BROKER_FILES_FILES_H
#define BROKER_FILES_FILES_H

#include "base/err.h"
#include "broker/generation.h"
#include "broker/worker.h"

#include <jansson.h>
#include <stddef.h>

struct files { /* the context of every verb; all borrowed */
    const struct worker_site *site;
    const struct generation *generation;
};

/* {verb, function} for worker_serve. */
const struct worker_verb *files_verbs(size_t *count);

int files_check(void *context, struct worker_request *r, json_t *result,
                struct err *e);
int files_prepare(void *context, struct worker_request *r, json_t *result,
                  struct err *e);
int files_finish(void *context, struct worker_request *r, json_t *result,
                 struct err *e);
int files_log(void *context, struct worker_request *r, json_t *result,
              struct err *e);
int files_artifacts(void *context, struct worker_request *r, json_t *result,
                    struct err *e);
int files_artifact(void *context, struct worker_request *r, json_t *result,
                   struct err *e);

/* Each path parameter of validated params: it is there, of the promised kind,
 * readable by this process, and below its folder (symlinks that lead out are
 * refused). Owned array [{param, index|null, bytes|null}]. ERR_INVALID
 * path_missing path_type path_unreadable path_outside, pointer /params/NAME. */
json_t *files_paths(const struct worker_work *k, struct err *e);

/* Receipts found for one pattern below results_fd: their names, sorted (owned
 * array of strings; empty: none). '*' only in the last component. */
json_t *files_match(int results_fd, const char *pattern, struct err *e);

/* results/sluice-error.json as {code,en,zh,error_class}, checked, bounded and
 * cleaned; JSON null when there is none. Owned. */
json_t *files_failure(int results_fd, struct err *e);

#endif
