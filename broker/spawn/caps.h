/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Capabilities (capabilities(7)), through libcap, named here only. The spawner
 * keeps CAP_SETUID, CAP_SETGID and CAP_KILL in permitted and effective, nothing
 * inheritable, nothing ambient, an empty bounding set: so no program that it
 * starts can have any of them.
 * Thread rule: the one thread; caps_drop_all also in a forked child.
 */
#ifndef BROKER_SPAWN_CAPS_H
#define BROKER_SPAWN_CAPS_H

#include "base/err.h"

#include <stdbool.h>

/* At start. people mode: the three are needed, and CAP_SETPCAP until the
 * bounding set is empty. Self mode: everything is dropped. Not dumpable and
 * no_new_privs from then on. Errors: ERR_CONFIG caps_missing caps_bounding
 * caps_failed. */
int caps_start(bool self_mode, struct err *e);

/* Ambient, inheritable, permitted, effective: all empty, and seen to be.
 * 0, or -1 and errno. */
int caps_drop_all(void);

#endif
