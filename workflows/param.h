/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One entry of `params:`. Thread rule: as workflow.h.
 */
#ifndef WORKFLOWS_PARAM_H
#define WORKFLOWS_PARAM_H

#include "workflows/parse.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdbool.h>

/* out is zeroed, its name set by the caller; param_clear it on failure too. */
int param_parse(const struct parse *p, const json_t *v, const char *pointer,
                struct param *out);
void param_clear(struct param *p);
/* The entry that param_parse reads back; or, named, the same with "name" and
 * "required" in front: the API's form. Owned, or NULL. */
json_t *param_json(const struct param *p, bool named);

#endif
