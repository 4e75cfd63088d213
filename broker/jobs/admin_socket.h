/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluiced's admin socket (proto.h 7): root, or in self mode the one account,
 * may load and switch a generation and ask for the status. One connection at a
 * time, one thread, frames of base/wire.h.
 */
#ifndef BROKER_JOBS_ADMIN_SOCKET_H
#define BROKER_JOBS_ADMIN_SOCKET_H

#include "base/err.h"

struct service;
struct admin_socket;

/* Errors: base/wire.h's wire_listen. */
int admin_socket_start(struct service *s, struct admin_socket **out,
                       struct err *e);
void admin_socket_stop(struct admin_socket *a); /* NULL is fine */

#endif
