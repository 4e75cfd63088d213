/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* Crockford base 32: no I, L, O, U. */
static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

enum { TIME_CHARS = 10, RANDOM_BYTES = 10 };
#define MS_LIMIT (INT64_C(1) << 48)

static int random_fill(uint8_t *p, size_t n)
{
    ssize_t got;

    while (n > 0) {
        got = getrandom(p, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

/* 5 bytes are 8 characters. */
static void put_40_bits(const uint8_t *p, char *out)
{
    uint64_t v = 0;
    int i;

    for (i = 0; i < 5; i++)
        v = v << 8 | p[i];
    for (i = 7; i >= 0; i--) {
        out[i] = alphabet[v & 31];
        v >>= 5;
    }
}

int id_ulid(int64_t unix_ms, char *out)
{
    uint8_t r[RANDOM_BYTES];
    uint64_t t = (uint64_t)unix_ms;
    int i;

    if (unix_ms < 0 || unix_ms >= MS_LIMIT || random_fill(r, sizeof(r)) != 0)
        return -1;
    for (i = TIME_CHARS - 1; i >= 0; i--) {
        out[i] = alphabet[t & 31];
        t >>= 5;
    }
    put_40_bits(r, out + TIME_CHARS);
    put_40_bits(r + 5, out + TIME_CHARS + 8);
    out[ULID_LEN] = '\0';
    return 0;
}

static int char_value(char c)
{
    const char *at = c == '\0' ? NULL : strchr(alphabet, c);

    return at == NULL ? -1 : (int)(at - alphabet);
}

bool id_ulid_valid(const char *s)
{
    size_t i;

    if (s == NULL || strnlen(s, ULID_LEN + 1) != ULID_LEN)
        return false;
    for (i = 0; i < ULID_LEN; i++) {
        if (char_value(s[i]) < 0)
            return false;
    }
    return s[0] <= '7'; /* 26 * 5 = 130 bits: the first two must be 0 */
}

int64_t id_ulid_ms(const char *s)
{
    int64_t v = 0;
    int i;

    if (!id_ulid_valid(s))
        return -1;
    for (i = 0; i < TIME_CHARS; i++)
        v = v * 32 + char_value(s[i]);
    return v;
}

void id_job(const char *ulid, char *out)
{
    memcpy(out, "job_", 4);
    memcpy(out + 4, ulid, ULID_LEN);
    out[JOB_ID_LEN] = '\0';
}

int id_job_parse(const char *s, char *ulid)
{
    if (s == NULL || strncmp(s, "job_", 4) != 0 || !id_ulid_valid(s + 4))
        return -1;
    if (ulid != NULL)
        memcpy(ulid, s + 4, ULID_LEN + 1);
    return 0;
}

int id_slurm_name(const char *workflow, const char *ulid, char *out)
{
    size_t n, i;

    if (!id_name_valid(workflow, SLURM_NAME_MAX - 1 - ULID_LEN))
        return -1;
    if (!id_ulid_valid(ulid))
        return -1;
    n = strlen(workflow);
    memcpy(out, workflow, n);
    out[n++] = '.';
    for (i = 0; i < ULID_LEN; i++) {
        if (ulid[i] >= 'A' && ulid[i] <= 'Z')
            out[n++] = (char)(ulid[i] + ('a' - 'A'));
        else
            out[n++] = ulid[i];
    }
    out[n] = '\0';
    return 0;
}

/* The lower-case form only: an upper-case letter is not one of ours. */
static int upper_ulid(const char *s, char *up)
{
    size_t i;

    for (i = 0; i < ULID_LEN; i++) {
        if (s[i] >= 'A' && s[i] <= 'Z')
            return -1;
        if (s[i] >= 'a' && s[i] <= 'z')
            up[i] = (char)(s[i] - ('a' - 'A'));
        else
            up[i] = s[i];
    }
    up[ULID_LEN] = '\0';
    return id_ulid_valid(up) ? 0 : -1;
}

int id_slurm_name_parse(const char *name, char *workflow, char *ulid)
{
    size_t len = name == NULL ? 0 : strnlen(name, SLURM_NAME_MAX + 1);
    char flow[SLURM_NAME_MAX + 1], up[ULID_LEN + 1];
    size_t n;

    if (len < ULID_LEN + 2 || len > SLURM_NAME_MAX)
        return -1;
    n = len - ULID_LEN - 1;
    memcpy(flow, name, n);
    flow[n] = '\0';
    if (name[n] != '.' || !id_name_valid(flow, n))
        return -1;
    if (upper_ulid(name + n + 1, up) != 0)
        return -1;
    memcpy(workflow, flow, n + 1);
    memcpy(ulid, up, sizeof(up));
    return 0;
}

bool id_name_valid(const char *s, size_t max)
{
    size_t i;

    if (s == NULL || s[0] < 'a' || s[0] > 'z')
        return false;
    for (i = 0; s[i] != '\0'; i++) {
        if (i >= max)
            return false;
        if ((s[i] < 'a' || s[i] > 'z') && (s[i] < '0' || s[i] > '9') &&
            s[i] != '-')
            return false;
    }
    return i <= max;
}
