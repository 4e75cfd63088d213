/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reading an allowlist's tree by tables. Each function returns 0 or -1 with an
 * ERR_CONFIG error "file:line: /pointer: text".
 * Thread rule: one thread per struct parse.
 */
#ifndef WORKFLOWS_PARSE_H
#define WORKFLOWS_PARSE_H

#include "base/err.h"
#include "base/yaml.h"
#include "workflows/strs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARSE_POINTER_MAX = 256 };

struct parse {        /* where we are; all borrowed */
    const char *file; /* or NULL */
    const struct yaml_lines *lines;
    struct err *e;
};

/* One key of a mapping. fn fills `out`; pointer is the value's. */
struct parse_key {
    const char *key;
    int (*fn)(const struct parse *p, const json_t *v, const char *pointer,
              void *out);
    bool required;
};

int parse_fail(const struct parse *p, const char *pointer, const char *code,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int parse_nomem(const struct parse *p);
/* The same for what another check says: its text behind `subject` ("" or
 * "the default: "), under this code; ENOMEM stays no_memory. */
int parse_because(const struct parse *p, const char *pointer, const char *code,
                  const char *subject, const struct err *why);

/* Refuse keys that the table doesn't have, then run the rows in the table's
 * order. workflow_type workflow_unknown_key workflow_missing. */
int parse_object(const struct parse *p, const json_t *v, const char *pointer,
                 const struct parse_key *keys, size_t n, void *out);
/* A row for what a later version will have: workflow_later. */
int parse_later(const struct parse *p, const json_t *v, const char *pointer,
                void *out);

/* A string that `check` accepts; `what` describes it in the error, whose code
 * is workflow_name. *out is owned. */
int parse_string(const struct parse *p, const json_t *v, const char *pointer,
                 bool (*check)(const char *), const char *what, char **out);
/* A sequence of them, at most max, none twice (workflow_duplicate). */
int parse_strings(const struct parse *p, const json_t *v, const char *pointer,
                  size_t max, bool (*check)(const char *), const char *what,
                  struct strs *out);
int parse_integer(const struct parse *p, const json_t *v, const char *pointer,
                  int64_t min, int64_t max, int64_t *out);
int parse_boolean(const struct parse *p, const json_t *v, const char *pointer,
                  bool *out);
/* One of n words; *out is its index. */
int parse_word(const struct parse *p, const json_t *v, const char *pointer,
               const char *const *words, size_t n, size_t *out);
/* {en: ..., zh: ...}; a language that is absent stays NULL. */
int parse_title(const struct parse *p, const json_t *v, const char *pointer,
                char **en, char **zh);

/* Only to iterate: jansson's iterators take no const tree. */
json_t *parse_iterable(const json_t *v);
/* Owned, or NULL. jansson's own deep copy, before 2.14, leaves out what it has
 * no memory for and says nothing: a workflow would lose a limit. */
json_t *parse_copy(const json_t *v);
/* obj[key] = an array of the strings; json_put rules. */
int parse_put_strs(json_t *obj, const char *key, const struct strs *s);

#endif
