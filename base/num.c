/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/num.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The magnitude is built below zero, where INT64_MIN has room. */
static int parse_magnitude(const char *s, int64_t *negated)
{
    int64_t v = 0;

    if (!is_digit(*s) || (s[0] == '0' && s[1] != '\0'))
        return -1;
    for (; is_digit(*s); s++) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_sub_overflow(v, *s - '0', &v))
            return -1;
    }
    *negated = v;
    return *s == '\0' ? 0 : -1;
}

int num_parse(const char *s, int64_t min, int64_t max, int64_t *out)
{
    bool minus = s != NULL && s[0] == '-';
    int64_t v;

    if (s == NULL || parse_magnitude(s + minus, &v) != 0)
        return -1;
    if (minus && v == 0)
        return -1; /* "-0" is a second spelling of 0 */
    if (!minus && __builtin_sub_overflow((int64_t)0, v, &v))
        return -1;
    if (v < min || v > max)
        return -1;
    *out = v;
    return 0;
}

int num_add(int64_t a, int64_t b, int64_t *out)
{
    int64_t v;

    if (__builtin_add_overflow(a, b, &v))
        return -1;
    *out = v;
    return 0;
}

int num_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t v;

    if (__builtin_mul_overflow(a, b, &v))
        return -1;
    *out = v;
    return 0;
}

/* One field of a duration: 1 to 9 digits, so that v[] sums can't overflow
 * (999,999,999 days are 8.64e13 seconds). */
static const char *duration_field(const char *s, int64_t *v)
{
    int digits = 0;

    *v = 0;
    for (; is_digit(*s); s++) {
        if (++digits > 9)
            return NULL;
        *v = *v * 10 + (*s - '0');
    }
    return digits == 0 ? NULL : s;
}

/* Up to three fields with ':' between them. Their count, or -1. */
static int duration_fields(const char *s, int64_t v[3])
{
    int n = 0;

    while (n < 3) {
        s = duration_field(s, &v[n++]);
        if (s == NULL)
            return -1;
        if (*s == '\0')
            return n;
        if (*s++ != ':')
            return -1;
    }
    return -1;
}

/* With days: HH[:MM[:SS]], each within its own unit. */
static int duration_days(const char *s, int64_t days, int64_t *sum)
{
    int64_t v[3] = {0, 0, 0};

    if (duration_fields(s, v) < 0 || v[0] > 23 || v[1] > 59 || v[2] > 59)
        return -1;
    *sum = ((days * 24 + v[0]) * 60 + v[1]) * 60 + v[2];
    return 0;
}

/* Without: MM, MM:SS or HH:MM:SS; only the first field may be large. */
static int duration_plain(const char *s, int64_t *sum)
{
    int64_t v[3] = {0, 0, 0};
    int n = duration_fields(s, v);

    if (n < 0 || v[1] > 59 || v[2] > 59)
        return -1;
    if (n == 3)
        *sum = (v[0] * 60 + v[1]) * 60 + v[2];
    else
        *sum = v[0] * 60 + v[1];
    return 0;
}

int num_parse_duration(const char *s, int64_t max_seconds, int64_t *seconds)
{
    const char *rest;
    int64_t first, sum = 0;
    int r;

    if (s == NULL)
        return -1;
    rest = duration_field(s, &first);
    if (rest == NULL)
        return -1;
    if (*rest == '-')
        r = duration_days(rest + 1, first, &sum);
    else
        r = duration_plain(s, &sum);
    if (r != 0 || sum > max_seconds)
        return -1;
    *seconds = sum;
    return 0;
}

static int64_t byte_unit(char c)
{
    static const char units[] = "KMGT";
    const char *at = c == '\0' ? NULL : strchr(units, c);

    return at == NULL ? 0 : (int64_t)1 << (10 * (at - units + 1));
}

int num_parse_bytes(const char *s, int64_t max_bytes, int64_t *bytes)
{
    char digits[24];
    size_t n = s == NULL ? 0 : strlen(s);
    int64_t unit, v;

    if (n == 0 || n >= sizeof(digits))
        return -1;
    unit = byte_unit(s[n - 1]);
    memcpy(digits, s, n + 1);
    if (unit > 0)
        digits[n - 1] = '\0';
    else
        unit = 1;
    if (num_parse(digits, 0, INT64_MAX, &v) != 0)
        return -1;
    if (num_mul(v, unit, &v) != 0 || v > max_bytes)
        return -1;
    *bytes = v;
    return 0;
}
