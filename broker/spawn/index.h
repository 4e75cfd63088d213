/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The record's memory: ULID -> struct rec, and shared strings. Applying a line
 * is the same for one just appended and one replayed at start.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_INDEX_H
#define BROKER_SPAWN_INDEX_H

#include "broker/spawn/record.h"

struct index;

struct index *index_new(void); /* NULL: no memory */
void index_free(struct index *x);
struct rec *index_find(struct index *x, const char *ulid);
struct rec *index_open_first(struct index *x);
size_t index_count(const struct index *x);

/* One line's object; its place in the file. Errors for a line that doesn't fit
 * what went before: base/json's, ERR_CONFLICT record_known (a second intent);
 * no_memory. record.c makes record_broken of them when it replays. */
int index_apply(struct index *x, const json_t *line, int64_t at, size_t len,
                struct err *e);

#endif
