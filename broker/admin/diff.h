/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What a new generation changes, in words: people, roles, groups, who gains or
 * loses which workflow, workflows, templates, keys.
 * Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_DIFF_H
#define BROKER_ADMIN_DIFF_H

#include "base/err.h"
#include "broker/generation.h"

#include <stdio.h>

/* Lines that begin with +, - or ~. old NULL: there was none. The number of
 * lines, or -1. */
int diff_print(FILE *to, const struct generation *old,
               const struct generation *new, struct err *e);

#endif
