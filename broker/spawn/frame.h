/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Frames of the spawner: a client's request read to its last key, and what is
 * sent to clients and workers.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_FRAME_H
#define BROKER_SPAWN_FRAME_H

#include "broker/spawn/ops.h"

/* Fills request, ulid, actor, token, verb, args, generation and fd of o from m
 * (what is taken is gone from m). -1: not a frame of ours. */
int frame_read(struct op *o, struct wire_msg *m, struct err *e);

/* Owned; NULL: no memory. */
json_t *frame_event(const char *event);
json_t *frame_stage(const struct op *o);
/* The result frame: o->result when o->err is not set. */
json_t *frame_result(const struct op *o);
/* For a worker: verb and args (consumed; NULL: no memory), the person whose
 * worker it is, the job where the record knows it and with_job. */
json_t *frame_task(const struct op *o, enum proto_verb verb, json_t *args,
                   bool with_job);

/* Overwrite every string of v: it may hold secrets. */
void frame_wipe(json_t *v);

#endif
