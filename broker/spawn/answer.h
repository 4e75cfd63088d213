/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reading a worker's frame. A worker belongs to the person: what it says is his
 * claim, and its form is checked to the last key. A result is copied key by key
 * from a table, so that nothing else of it travels on.
 * Thread rule: pure functions.
 */
#ifndef BROKER_SPAWN_ANSWER_H
#define BROKER_SPAWN_ANSWER_H

#include "base/err.h"
#include "broker/proto.h"

#include <jansson.h>
#include <stdbool.h>

struct answer {
    bool is_result;         /* else a stage */
    enum proto_stage stage; /* of the stage, or of a failed result */
    bool ok;
    json_t *result;   /* owned; of an ok result */
    struct err error; /* of a failed one */
};
void answer_clear(struct answer *a);

/* body: the frame; request: the one in flight; verb: what was asked. -1 and
 * why (ERR_UNAVAILABLE worker_garbage) when it is no answer to that. */
int answer_read(const json_t *body, const char *request, enum proto_verb verb,
                struct answer *out, struct err *why);

#endif
