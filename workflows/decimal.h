/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Decimal numbers as text: -?(0|[1-9][0-9]*)(\.[0-9]+)?, at most DECIMAL_MAX
 * characters, no exponent. They are kept and compared as text.
 * Thread rule: pure functions.
 */
#ifndef WORKFLOWS_DECIMAL_H
#define WORKFLOWS_DECIMAL_H

#include <stdbool.h>

enum { DECIMAL_MAX = 40 };

bool decimal_valid(const char *s);
/* <0, 0, >0, as the two valid numbers compare. 1.50 equals 1.5, -0 equals 0. */
int decimal_cmp(const char *a, const char *b);
/* The shortest such text that reads back as v; out has DECIMAL_MAX + 1 bytes.
 * -1 where there is none (infinite, too long). For JSON reals that a client
 * sent: from here on they are text. */
int decimal_of_real(double v, char *out);

#endif
