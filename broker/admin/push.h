/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Telling the daemons about a generation (broker/proto.h 7).
 * Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_PUSH_H
#define BROKER_ADMIN_PUSH_H

#include "base/err.h"

/* Both accounts may be looked up anew at a load, through a slow directory. */
enum { PUSH_TIMEOUT_MS = 30000 };

/* One question to one daemon. verb: "load", "switch". 1: done; 0: there is no
 * daemon; -1: refused, or no answer in time. */
int push_ask(const char *socket_path, const char *verb, const char *id,
             struct err *e);

#endif
