/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What sluiced decides by itself (finish, and a cancel or hold of the system)
 * is done only where watch's own word supports it: the job has ended, or never
 * came, or is not what was intended; or root recalled its generation.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_SUPPORT_H
#define BROKER_SPAWN_SUPPORT_H

#include "broker/spawn/ops.h"

#include <jansson.h>
#include <stdbool.h>

/* Enough is known already. */
bool support_given(const struct op *o);
/* What to ask watch, owned; NULL: it was asked already. */
json_t *support_question(struct op *o);
/* Its answer. */
void support_note(struct op *o, const json_t *answer);

#endif
