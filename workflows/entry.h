/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One workflow of the allowlist, read and written back. Thread rule: as
 * workflow.h.
 */
#ifndef WORKFLOWS_ENTRY_H
#define WORKFLOWS_ENTRY_H

#include "workflows/parse.h"
#include "workflows/workflow.h"

#include <jansson.h>

/* *out is owned (entry_free). */
int entry_parse(const struct parse *p, const char *name, const json_t *v,
                const char *pointer, struct workflow **out);
void entry_free(struct workflow *w);
/* What entry_parse reads back: keys in a fixed order, defaults left out, params
 * in the order in which they were written. Owned, or NULL. */
json_t *entry_json(const struct workflow *w);

#endif
