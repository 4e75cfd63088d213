/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/decimal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";

bool decimal_valid(const char *s)
{
    if (strlen(s) > DECIMAL_MAX)
        return false;
    s += *s == '-';
    size_t whole = strspn(s, digits);
    if (whole == 0 || (whole > 1 && s[0] == '0'))
        return false;
    s += whole;
    if (*s == '\0')
        return true;
    size_t part = *s == '.' ? strspn(s + 1, digits) : 0;
    return part > 0 && s[1 + part] == '\0';
}

static bool is_zero(const char *s)
{
    return s[strspn(s, "-0.")] == '\0';
}

/* Digits after the point; a missing one is '0'. */
static int cmp_fraction(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        int x = *a != '\0' ? *a++ : '0';
        int y = *b != '\0' ? *b++ : '0';
        if (x != y)
            return x - y;
    }
    return 0;
}

static int cmp_positive(const char *a, const char *b)
{
    size_t na = strspn(a, digits), nb = strspn(b, digits);
    if (na != nb)
        return na < nb ? -1 : 1;
    int c = strncmp(a, b, na);
    if (c != 0)
        return c;
    return cmp_fraction(a + na + (a[na] == '.'), b + nb + (b[nb] == '.'));
}

int decimal_cmp(const char *a, const char *b)
{
    bool minus_a = *a == '-' && !is_zero(a);
    bool minus_b = *b == '-' && !is_zero(b);
    if (minus_a != minus_b)
        return minus_a ? -1 : 1;
    int c = cmp_positive(a + (*a == '-'), b + (*b == '-'));
    return minus_a ? -c : c;
}

int decimal_of_real(double v, char *out)
{
    for (int places = 0; places <= DECIMAL_MAX - 2; places++) {
        char text[DECIMAL_MAX + 1];
        int n = snprintf(text, sizeof text, "%.*f", places, v);
        if (n < 0 || n > DECIMAL_MAX || !decimal_valid(text))
            return -1;
        double back = strtod(text, NULL);
        if (back >= v && back <= v) {
            memcpy(out, text, (size_t)n + 1);
            return 0;
        }
    }
    return -1;
}
