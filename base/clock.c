/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/clock.h"

#include <limits.h>
#include <string.h>
#include <time.h>

/* RFC 3339 has years 0000 to 9999. */
#define FIRST_SECOND INT64_C(-62167219200)
#define LAST_SECOND INT64_C(253402300799)

enum { TEXT_LEN = 20 };

static int64_t read_ms(clockid_t which)
{
    struct timespec t = {0, 0};

    (void)clock_gettime(which, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t clock_now(void)
{
    return clock_now_ms() / 1000;
}

int64_t clock_now_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

int64_t clock_mono_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

int clock_left_ms(int64_t deadline_mono_ms)
{
    int64_t now = clock_mono_ms();

    if (deadline_mono_ms <= now)
        return 0;
    if (deadline_mono_ms - now > INT_MAX)
        return INT_MAX;
    return (int)(deadline_mono_ms - now);
}

/* `width` digits and what follows them. */
static char *put(char *out, int v, int width, char end)
{
    int i;

    for (i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + v % 10);
        v /= 10;
    }
    out[width] = end;
    return out + width + 1;
}

void clock_format(int64_t unix_seconds, char *out)
{
    struct tm tm;
    time_t t;

    if (unix_seconds < FIRST_SECOND)
        unix_seconds = FIRST_SECOND;
    if (unix_seconds > LAST_SECOND)
        unix_seconds = LAST_SECOND;
    t = (time_t)unix_seconds;
    memset(&tm, 0, sizeof(tm));
    (void)gmtime_r(&t, &tm);
    out = put(out, tm.tm_year + 1900, 4, '-');
    out = put(out, tm.tm_mon + 1, 2, '-');
    out = put(out, tm.tm_mday, 2, 'T');
    out = put(out, tm.tm_hour, 2, ':');
    out = put(out, tm.tm_min, 2, ':');
    out = put(out, tm.tm_sec, 2, 'Z');
    *out = '\0';
}

static int digits(const char *s, int n)
{
    int v = 0;

    while (n-- > 0)
        v = v * 10 + (*s++ - '0');
    return v;
}

static int shape_ok(const char *s)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
    size_t i;

    for (i = 0; i < TEXT_LEN; i++) {
        if (shape[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != shape[i])
            return 0;
    }
    return s[TEXT_LEN] == '\0';
}

int clock_parse(const char *s, int64_t *unix_seconds)
{
    char back[CLOCK_TEXT_MAX];
    struct tm tm;
    int64_t t;

    if (s == NULL || !shape_ok(s))
        return -1;
    memset(&tm, 0, sizeof(tm));
    tm.tm_year = digits(s, 4) - 1900;
    tm.tm_mon = digits(s + 5, 2) - 1;
    tm.tm_mday = digits(s + 8, 2);
    tm.tm_hour = digits(s + 11, 2);
    tm.tm_min = digits(s + 14, 2);
    tm.tm_sec = digits(s + 17, 2);
    t = (int64_t)timegm(&tm);
    /* timegm(3) carries 31 February into March: what comes back differs. */
    clock_format(t, back);
    if (memcmp(back, s, TEXT_LEN) != 0)
        return -1;
    *unix_seconds = t;
    return 0;
}
