/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Configuration by table: one table per struct, {key, type, offset, bounds,
 * required, default}. An unknown key is an error. Strings are strdup'ed into
 * the struct (conf_free frees them by the same table).
 * Thread rule: any thread.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/err.h"
#include "base/yaml.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum conf_type { CONF_STR, CONF_INT, CONF_BOOL };

struct conf_key {
    const char *key;
    enum conf_type type;
    size_t offset; /* of a char *, int64_t or bool */
    bool required;
    int64_t min, max; /* of an integer; of a string's length in bytes;
                         both 0: no bounds */
    const char *def;  /* text of the default; NULL: zero value */
};

/* Fill `out` from section obj (NULL or JSON null: defaults only). The table's
 * fields are overwritten, not freed. A null value counts as absent. `where` is
 * the section's JSON pointer, used for texts "file:line: ..." with lines.
 * Errors: ERR_CONFIG config_unknown_key config_type config_range
 * config_missing; the table's fields are zero then. */
int conf_fill(const json_t *obj, const struct conf_key *table, size_t count,
              void *out, const char *where, const char *file,
              const struct yaml_lines *lines, struct err *e);
/* Frees the strings and zeroes the table's fields: twice is fine. */
void conf_free(const struct conf_key *table, size_t count, void *out);

#endif
