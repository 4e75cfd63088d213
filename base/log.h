/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One JSON line an event on stderr: {"at","level","program","event",
 * "request", ...}. Control bytes and invalid UTF-8 are cleaned in one place.
 * Control bytes become '?'. A line has at most PIPE_BUF (4096) bytes, so that
 * lines in one pipe never mix; a value over 1500 bytes is cut and what does not
 * fit is left out, then "cut":true ends the line. errno is kept.
 * Never pass a secret. Thread rule: any thread; one write(2) a line.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

#include <stdint.h>

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };

/* program: a static string. Events below `least` are dropped. */
void log_init(const char *program, enum log_level least);

/* Pairs of key, value end with NULL: log_event(LOG_INFO_, "started", rid,
 * "listen", text, NULL). request may be NULL, a value too (it reads ""). A key
 * has at most 64 bytes. Integers: format them first. */
void log_event(enum log_level level, const char *event, const char *request,
               ...) __attribute__((sentinel));

/* An error with its class, code, sys and text, plus `what` was being done. */
void log_err(const char *event, const char *request, const struct err *e);

/* Rate limit of repeats: true at most once per `every_ms` for one static
 * state. `dropped` counts all that were ever held back by this gate. */
struct log_gate {
    int64_t next_ms;
    int64_t dropped;
};
int log_gate_open(struct log_gate *g, int64_t every_ms);

#endif
