/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The people map as it will take effect, rules expanded with this host's Unix
 * groups (NSS). Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_MAP_H
#define BROKER_ADMIN_MAP_H

#include "base/err.h"
#include "base/yaml.h"
#include "broker/admin/admin.h"

#include <jansson.h>

/* The people: tree of the configuration file, expanded. *out is owned. Errors:
 * config_people's and auth/rules.h's. */
int map_read(const struct admin *a, json_t **out, struct err *e);
/* The same from a tree that was read already; lines for file:line. */
int map_expand(const json_t *tree, const char *file,
               const struct yaml_lines *lines, json_t **out, struct err *e);

#endif
