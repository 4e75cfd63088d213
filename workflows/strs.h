/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A list of strings. Thread rule: one thread at a time while it changes.
 */
#ifndef WORKFLOWS_STRS_H
#define WORKFLOWS_STRS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct strs {
    char **v; /* each owned; NULL when n is 0 */
    size_t n;
};

bool strs_has(const struct strs *s, const char *v);
/* A copy of v is added. 0, or -1 (no memory; the list is as before). */
int strs_add(struct strs *s, const char *v);
/* v (malloc'ed) is the list's, or freed on failure. NULL v: -1. */
int strs_add_take(struct strs *s, char *v);
/* A new array of the strings; NULL: no memory (or not UTF-8). */
json_t *strs_json(const struct strs *s);
/* Frees all; the list is empty and usable after. */
void strs_clear(struct strs *s);

#endif
