/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Time. Wall time is integer Unix seconds or milliseconds (UTC); deadlines are
 * CLOCK_MONOTONIC milliseconds. RFC 3339 text is made and read here only.
 * Thread rule: any thread.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_now(void);     /* Unix seconds */
int64_t clock_now_ms(void);  /* Unix milliseconds */
int64_t clock_mono_ms(void); /* CLOCK_MONOTONIC */

/* Milliseconds until a monotonic deadline, 0 when past, capped at INT_MAX;
 * fits poll(2). */
int clock_left_ms(int64_t deadline_mono_ms);

enum { CLOCK_TEXT_MAX = 32 };
/* "2026-11-30T10:00:00Z" (RFC 3339, seconds). out has CLOCK_TEXT_MAX bytes;
 * a time outside the years 0000 to 9999 is written as the nearest one. */
void clock_format(int64_t unix_seconds, char *out);
/* RFC 3339 with 'Z' only, seconds resolution, no leap second, real dates only.
 * 0 or -1; *unix_seconds is untouched then. */
int clock_parse(const char *s, int64_t *unix_seconds);

#endif
