/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/words.h"

#include "base/json.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- states ----------------------------------------------------------------
 */

enum { BASE_BITS = 0xff, BASE_COMPLETE = 3 };

/* slurm.h enum job_states, the same in 22.05, 24.11 and 26.05. */
static const char *const bases[] = {
    "PENDING",   "RUNNING",   "SUSPENDED", "COMPLETED",
    "CANCELLED", "FAILED",    "TIMEOUT",   "NODE_FAIL",
    "PREEMPTED", "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY",
};

enum {
    FLAG_REQUEUE = 1 << 10,
    FLAG_RESIZING = 1 << 13,
    FLAG_REVOKED = 1 << 19
};

/* Bit 9 is UPDATE_DB up to 24.05 (of no meaning to us), GETENV_FAILED later. */
static const struct {
    unsigned bit;
    const char *word;
} flags[] = {
    {8, "LAUNCH_FAILED"},  {10, "REQUEUED"},  {11, "REQUEUE_HOLD"},
    {12, "SPECIAL_EXIT"},  {13, "RESIZING"},  {14, "CONFIGURING"},
    {15, "COMPLETING"},    {16, "STOPPED"},   {17, "RECONFIG_FAIL"},
    {18, "POWER_UP_NODE"}, {19, "REVOKED"},   {20, "REQUEUE_FED"},
    {21, "RESV_DEL_HOLD"}, {22, "SIGNALING"}, {23, "STAGE_OUT"},
    {24, "EXPEDITING"},
};

const char *words_state(uint32_t state)
{
    uint32_t base = state & BASE_BITS;

    return base < sizeof(bases) / sizeof(bases[0]) ? bases[base] : "UNKNOWN";
}

json_t *words_flags(uint32_t state)
{
    json_t *a = json_array();

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if ((state & (1U << flags[i].bit)) != 0 &&
            json_array_append_new(a, json_string(flags[i].word)) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

const char *words_row_state(uint32_t state)
{
    if ((state & FLAG_REQUEUE) != 0)
        return "REQUEUED";
    if ((state & FLAG_RESIZING) != 0)
        return "RESIZING";
    if ((state & FLAG_REVOKED) != 0)
        return "REVOKED";
    return words_state(state);
}

bool words_ended(uint32_t state)
{
    return (state & BASE_BITS) >= BASE_COMPLETE;
}

/* --- TRES -------------------------------------------------------------------
 */

/* "20000M" in MiB; a fraction ("1.50G") as slurmctld may write it. -1: no
 * number. Without a unit it is a plain count. */
static int64_t tres_value(const char *s)
{
    static const char units[] = "KMGTP";
    int64_t whole = 0, hundredths = 0, scale = 10;
    const char *unit;

    if (*s < '0' || *s > '9')
        return -1;
    for (; *s >= '0' && *s <= '9'; s++)
        if (num_mul(whole, 10, &whole) != 0 ||
            num_add(whole, *s - '0', &whole) != 0)
            return -1;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
            hundredths += (*s - '0') * scale;
    if (*s == '\0')
        return whole;
    unit = strchr(units, *s);
    if (unit == NULL || s[1] != '\0' || num_mul(whole, 100, &whole) != 0 ||
        num_add(whole, hundredths, &whole) != 0)
        return -1;
    if (*unit == 'K')
        return whole / 100 / 1024;
    for (const char *u = units + 1; u < unit; u++)
        if (num_mul(whole, 1024, &whole) != 0)
            return -1;
    return whole / 100;
}

typedef int tres_item_fn(json_t *out, const char *key, const char *value,
                         void *context);

/* Calls item for each "key=value" of a comma list. Owned object. */
static json_t *tres_each(const char *text, tres_item_fn *item, void *context)
{
    json_t *out = json_object();
    char *copy = strdup(text != NULL ? text : ""), *rest = copy, *part;
    int bad = out == NULL || copy == NULL ? -1 : 0;

    while (bad == 0 && (part = strsep(&rest, ",")) != NULL) {
        char *value = strchr(part, '=');

        if (value == NULL)
            continue;
        *value++ = '\0';
        bad = item(out, part, value, context);
    }
    free(copy);
    if (bad == 0)
        return out;
    json_decref(out);
    return NULL;
}

static int item_by_name(json_t *out, const char *key, const char *value,
                        void *context)
{
    int64_t n = tres_value(value);

    (void)context;
    if (n < 0 || !json_utf8_valid(key, strlen(key)))
        return 0;
    return json_put_int(out, key, n);
}

json_t *words_tres(const char *text)
{
    return tres_each(text, item_by_name, NULL);
}

struct ids {
    const json_t *names;
    bool unknown;
};

static int item_by_id(json_t *out, const char *key, const char *value,
                      void *context)
{
    struct ids *ids = context;
    const char *name = json_string_value(json_object_get(ids->names, key));
    char other[32];
    int64_t n;

    if (num_parse(value, 0, INT64_MAX, &n) != 0)
        return 0;
    if (name == NULL) {
        ids->unknown = true;
        (void)snprintf(other, sizeof(other), "tres/%.20s", key);
        name = other;
    }
    return json_put_int(out, name, n);
}

json_t *words_tres_ids(const char *text, const json_t *names, bool *unknown)
{
    struct ids ids = {names, false};
    json_t *out = tres_each(text, item_by_id, &ids);

    if (ids.unknown)
        *unknown = true;
    return out;
}

/* --- signals
 * ------------------------------------------------------------------ */

static const struct {
    const char *name;
    uint16_t number;
} signals[] = {
    {"HUP", 1},   {"INT", 2},   {"QUIT", 3},  {"ABRT", 6},
    {"KILL", 9},  {"USR1", 10}, {"USR2", 12}, {"ALRM", 14},
    {"TERM", 15}, {"CONT", 18}, {"STOP", 19}, {"TSTP", 20},
    {"TTIN", 21}, {"TTOU", 22}, {"URG", 23},  {"XCPU", 24},
};

static int signal_number(const char *s, uint16_t *out)
{
    int64_t n;

    if (num_parse(s, 1, 64, &n) == 0) {
        *out = (uint16_t)n;
        return 0;
    }
    if (strncmp(s, "SIG", 3) == 0)
        s += 3;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcmp(signals[i].name, s) == 0) {
            *out = signals[i].number;
            return 0;
        }
    return -1;
}

int words_signal(const char *text, struct words_signal *out)
{
    struct words_signal r = {0, 60, false, false};
    const char *colon = strchr(text, ':');
    char name[16], *at;
    int64_t seconds;

    for (const char *p = text; colon != NULL && p < colon; p++) {
        if (*p != 'R' && *p != 'B')
            return -1;
        r.reservation = r.reservation || *p == 'R';
        r.batch = r.batch || *p == 'B';
    }
    if (colon != NULL)
        text = colon + 1;
    if (strlen(text) >= sizeof(name))
        return -1;
    memcpy(name, text, strlen(text) + 1);
    at = strchr(name, '@');
    if (at != NULL) {
        *at++ = '\0';
        if (num_parse(at, 0, UINT16_MAX - 2, &seconds) != 0)
            return -1;
        r.seconds = (uint16_t)seconds;
    }
    if (signal_number(name, &r.number) != 0)
        return -1;
    *out = r;
    return 0;
}

/* --- stderr
 * ------------------------------------------------------------------- */

enum { SAID_LINES = 3 };

/* "sluice-slurm: error: " and the like are noise. */
static const char *skip_prefix(const char *p, const char *end)
{
    static const char *const words[] = {"sluice-slurm: ", "error: ", "fatal: "};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(end - p) >= n && memcmp(p, words[i], n) == 0)
            p += n;
    }
    return p;
}

static const char *last_lines(const char *raw, const char *end)
{
    int lines = 0;

    while (end > raw && end[-1] == '\n')
        end--;
    while (end > raw && (end[-1] != '\n' || ++lines < SAID_LINES))
        end--;
    return end;
}

/* One line, appended to out at *at; a word that is a path becomes "(path)". */
static void said_line(const char *p, const char *end, char *out, size_t n,
                      size_t *at)
{
    bool word_start = true;

    for (p = skip_prefix(p, end); p < end && *at + 8 < n; p++) {
        if (word_start && *p == '/' && end - p > 1) {
            memcpy(out + *at, "(path)", 6);
            *at += 6;
            while (p + 1 < end && strchr(" ,:;)'\"", p[1]) == NULL)
                p++;
            word_start = false;
            continue;
        }
        word_start = strchr(" ('\"=:", *p) != NULL;
        out[(*at)++] = (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p;
    }
}

void words_said(const char *raw, size_t len, char *out, size_t n)
{
    const char *end = raw + len, *line = last_lines(raw, end);
    size_t at = 0;

    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));

        stop = stop != NULL ? stop : end;
        if (at > 0 && stop > line && at + 3 < n) {
            out[at++] = ';';
            out[at++] = ' ';
        }
        said_line(line, stop, out, n, &at);
        line = stop + 1;
    }
    while (at > 0 && !json_utf8_valid(out, at))
        at--;
    out[at] = '\0';
}
