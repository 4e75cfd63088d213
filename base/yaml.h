/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The YAML 1.2 subset of Sluice's files: mappings, sequences, plain and quoted
 * scalars. Refused by name: anchors, aliases, tags, merge keys, duplicate keys,
 * several documents, depth over JSON_DEPTH_MAX, files over the byte cap (both
 * checked before and while libyaml parses: 200 KB of '[' takes it 23 s).
 * The result is a json_t tree: plain scalars that are YAML 1.2 core-schema
 * null/bool/int become JSON null/true/false/integer, floats are refused
 * ("yaml_float": quote it); quoted scalars are strings. So are yes, no, on,
 * off, 01:30:00, 1_000 and integers with leading zeros; 0o17, 0x1f and integers
 * over 64 bits are refused. A key is a string: one that reads as a number,
 * boolean or null must be quoted. Directives (%YAML) and NUL in strings are
 * refused, and a file without content is yaml_syntax.
 * libyaml is named in this module only. Thread rule: any thread.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>

enum { YAML_BYTES_MAX = 256 * 1024 };

/* Line numbers of keys, for messages with file:line. Opaque. */
struct yaml_lines;

/* Owned tree or NULL. `name` is used in error texts ("file:line: ...").
 * lines may be NULL; else *lines is owned (yaml_lines_free). Errors:
 * ERR_CONFIG yaml_syntax yaml_refused yaml_duplicate_key yaml_float
 * yaml_too_large yaml_too_deep. */
json_t *yaml_parse(const char *text, size_t len, const char *name,
                   struct yaml_lines **lines, struct err *e);

/* Line (1-based) of the value at a JSON pointer (of its key, for a member of a
 * mapping); 0 when not known. */
int yaml_line(const struct yaml_lines *lines, const char *pointer);
void yaml_lines_free(struct yaml_lines *lines);

#endif
