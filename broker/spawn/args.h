/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A request's args: which keys each verb takes, and for plan and submit the
 * allowlist's own judgement of workflow, parameters and secrets.
 * Thread rule: pure functions.
 */
#ifndef BROKER_SPAWN_ARGS_H
#define BROKER_SPAWN_ARGS_H

#include "base/err.h"
#include "broker/proto.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdint.h>

/* Only the verb's keys. ERR_INVALID json_unknown_key. */
int args_keys(enum proto_verb v, const json_t *args, struct err *e);

/* The workflow that plan or submit names, borrowed from args. */
int args_workflow(const json_t *args, const char **name, struct err *e);

/* Checks params and secrets against w. params: owned, normal form; names:
 * owned, sorted array of the secrets' names; gpus: nodes x gpus_per_node. */
int args_check(enum proto_verb v, const struct workflow *w, const json_t *args,
               json_t **params, json_t **names, int64_t *gpus, struct err *e);

/* SHA-256 of what was asked: workflow, params, the secrets' names. Not of their
 * values: a digest of a short secret could be guessed. out: SHA256_LEN. */
int args_digest(const char *workflow, const json_t *params, const json_t *names,
                uint8_t *out, struct err *e);

#endif
