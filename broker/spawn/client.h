/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who connects to spawn.sock: sluiced (its uid, by SO_PEERCRED) with verbs,
 * root (or the one account in self mode) with admin frames. One bad frame ends
 * a connection. What a slow reader leaves is queued up to a bound.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_CLIENT_H
#define BROKER_SPAWN_CLIENT_H

#include "base/err.h"
#include "broker/spawn/spawnd.h"

#include <jansson.h>

struct client;
struct clients;

/* Each sluiced is a peer of watch, which takes 16. */
enum { CLIENTS_MAX = 12, CLIENT_QUEUE_MAX = 1024 };

int clients_new(struct spawnd *d, struct clients **out, struct err *e);
/* Listens on paths.spawn_sock (0660, group sluice). */
int clients_listen(struct clients *s, struct err *e);
void clients_stop_accepting(struct clients *s);
void clients_free(struct clients *s); /* NULL is fine */

/* Consumes frame (NULL: it could not be made: the connection ends soon). Never
 * frees c: a client that can't be written to ends from the loop. */
void client_send(struct client *c, json_t *frame);

/* A new watch runs: give every sluiced its end. */
void clients_new_watch(struct clients *s);

#endif
