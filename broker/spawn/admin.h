/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Root's frames (proto.h 7): load, switch, status.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_ADMIN_H
#define BROKER_SPAWN_ADMIN_H

#include "base/err.h"
#include "broker/spawn/client.h"
#include "broker/spawn/spawnd.h"

#include <jansson.h>

/* -1: no frame of ours: the connection ends. */
int admin_frame(struct spawnd *d, struct client *c, const json_t *body,
                struct err *e);
/* Its answer is not wanted any more. */
void admin_client_gone(struct spawnd *d, const struct client *c);

#endif
