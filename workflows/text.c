/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/text.h"

#include <stdint.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

/* First character of `first`, the others of `rest`, 1 to max in all. */
static bool shape(const char *s, size_t max, const char *first,
                  const char *rest)
{
    if (s[0] == '\0' || strchr(first, s[0]) == NULL)
        return false;
    size_t n = 1 + strspn(s + 1, rest);
    return s[n] == '\0' && n <= max;
}

bool text_chars(const char *s, size_t max, const char *extra)
{
    size_t n = 0;
    for (; s[n] != '\0'; n++) {
        if (strchr(LOWER UPPER DIGIT, s[n]) == NULL &&
            strchr(extra, s[n]) == NULL)
            return false;
    }
    return n >= 1 && n <= max && s[0] != '-';
}

/* One code point of valid UTF-8; bytes out of place count as themselves, and
 * only the lengths below are trusted. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *out)
{
    static const unsigned char lead[] = {0, 0x1f, 0x0f, 0x07};
    size_t more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    uint32_t c = s[0];
    if (more == 0 || more >= n) {
        *out = c;
        return 1;
    }
    c &= lead[more];
    for (size_t i = 1; i <= more; i++)
        c = c << 6 | (s[i] & 0x3fU);
    *out = c;
    return more + 1;
}

static bool forbidden(uint32_t c, bool lines)
{
    static const uint32_t ranges[][2] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0x061c, 0x061c},
        {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069},
    };
    if (lines && (c == '\n' || c == '\t'))
        return false;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    }
    return false;
}

bool text_clean(const char *s, size_t n, bool lines)
{
    const unsigned char *p = (const unsigned char *)s;
    while (n > 0) {
        uint32_t c = 0;
        size_t used = decode(p, n, &c);
        if (forbidden(c, lines))
            return false;
        p += used;
        n -= used;
    }
    return true;
}

bool text_relative(const char *s, size_t n)
{
    if (!text_clean(s, n, false))
        return false;
    for (const char *part = s;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part += len;
        if (*part == '\0')
            return true;
    }
}

bool text_absolute(const char *s)
{
    size_t n = strlen(s);
    return n >= 2 && n <= 200 && s[0] == '/' && text_relative(s + 1, n - 1);
}

bool text_param_name(const char *s)
{
    return shape(s, 31, LOWER, LOWER DIGIT "_");
}

bool text_env_name(const char *s)
{
    return shape(s, 64, LOWER UPPER "_", LOWER UPPER DIGIT "_");
}

bool text_secret_name(const char *s)
{
    return shape(s, 63, UPPER, UPPER DIGIT "_");
}

bool text_template(const char *s)
{
    size_t n = strlen(s);
    return shape(s, 64, LOWER DIGIT, LOWER DIGIT "._-") && n > 3 &&
           strcmp(s + n - 3, ".sh") == 0 && strcmp(s, "prelude.sh") != 0;
}

bool text_module(const char *s)
{
    return shape(s, 128, LOWER UPPER DIGIT, LOWER UPPER DIGIT "._+/-");
}

bool text_subject(const char *s)
{
    return shape(s, 64, LOWER UPPER DIGIT, LOWER UPPER DIGIT "._@:-");
}

bool text_title(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n <= 200 && text_clean(s, n, false);
}

bool text_env_value(const char *s)
{
    size_t n = strlen(s);
    return n <= 4096 && text_clean(s, n, false);
}

bool text_sha256(const char *s)
{
    return strspn(s, DIGIT "abcdef") == 64 && s[64] == '\0';
}

bool text_env_reserved(const char *s)
{
    static const char *const exact[] = {"ENV",  "SHELLOPTS", "BASHOPTS",
                                        "PS4",  "IFS",       "HOME",
                                        "USER", "LOGNAME",   "SHELL"};
    static const char *const prefix[] = {"BASH_", "LD_", "SLURM_", "SLUICE_"};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        if (strcmp(s, exact[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof prefix / sizeof prefix[0]; i++) {
        if (strncmp(s, prefix[i], strlen(prefix[i])) == 0)
            return true;
    }
    return false;
}
