/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Is the jobs root what the site says it is? A share that is not mounted leaves
 * an ordinary folder underneath, which would take everything that is written.
 * Thread rule: any thread.
 */
#ifndef BROKER_FILES_STORAGE_H
#define BROKER_FILES_STORAGE_H

#include "base/err.h"

/* kind: "directory" (anything) or "mount:TYPE:SOURCE": the mount that fd lies
 * on has this file system type and this source (proc(5), mountinfo).
 * ERR_UNAVAILABLE storage_kind. */
int storage_check(int fd, const char *kind, struct err *e);

/* The pure part: does this text of /proc/self/mountinfo say that mount `id` has
 * type and source? */
int storage_matches(const char *mountinfo, unsigned long id, const char *type,
                    size_t type_len, const char *source);

#endif
