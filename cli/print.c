/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_SLOTS = 8, FIELD_MAX = 512, COLUMNS_MAX = 12 };

/* How many bytes at s are one control character: C0 and DEL are one byte, C1
 * (U+0080 to U+009F, among them CSI) two in UTF-8. 0: none. A bare byte of C1,
 * as a cut character may leave one, counts for terminals that aren't UTF-8. */
static size_t control_at(const char *s, size_t expected)
{
    unsigned char a = (unsigned char)s[0], b = a == 0 ? 0 : (unsigned char)s[1];

    if (a < 0x20 || a == 0x7f)
        return 1;
    if (a == 0xc2 && b >= 0x80 && b <= 0x9f)
        return 2;
    return expected == 0 && a >= 0x80 && a <= 0x9f ? 1 : 0;
}

/* What is in strings beyond C0 (which JSON escapes) is escaped too: it stays
 * the same document, and a terminal obeys nothing of it. */
void print_json(const json_t *v)
{
    char *text = json_dumps(v, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

    for (const char *s = text; s != NULL && *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == 0x7f)
            fputs("\\u007f", stdout);
        else if (c == 0xc2 && control_at(s, 0) == 2)
            printf("\\u%04x", (unsigned)(unsigned char)*++s);
        else
            putchar(c);
    }
    if (text != NULL)
        putchar('\n');
    free(text);
}

/* Bytes that follow a first byte of UTF-8. */
static size_t following(unsigned char c)
{
    return c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
}

/* A terminal must not obey what a job or a name contains. */
static void clean(char *s)
{
    size_t expected = 0; /* bytes of a character that has begun */
    char *to = s;

    while (*s != '\0') {
        size_t n = control_at(s, expected);
        unsigned char c = (unsigned char)*s;

        *to++ = n > 0 ? '?' : *s;
        expected = n == 0 && expected > 0 && (c & 0xc0) == 0x80
                       ? expected - 1
                       : following(n > 0 ? 0 : c);
        s += n > 0 ? n : 1;
    }
    *to = '\0';
}

static const char *text_of(const json_t *v)
{
    static char slots[FIELD_SLOTS][FIELD_MAX];
    static unsigned next;
    char *out = slots[next++ % FIELD_SLOTS];

    if (v == NULL || json_is_null(v))
        snprintf(out, FIELD_MAX, "-");
    else if (json_is_string(v))
        snprintf(out, FIELD_MAX, "%s", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(out, FIELD_MAX, "%lld", (long long)json_integer_value(v));
    else if (json_is_boolean(v))
        snprintf(out, FIELD_MAX, "%s", json_is_true(v) ? "true" : "false");
    else {
        char *text = json_text(v);

        snprintf(out, FIELD_MAX, "%s", text != NULL ? text : "?");
        free(text);
    }
    clean(out);
    return out;
}

static const json_t *descend(const json_t *o, const char *key)
{
    char part[64];
    const char *dot;

    while ((dot = strchr(key, '.')) != NULL) {
        size_t n = (size_t)(dot - key);

        if (n >= sizeof(part))
            return NULL;
        memcpy(part, key, n);
        part[n] = '\0';
        o = json_object_get(o, part);
        key = dot + 1;
    }
    return json_object_get(o, key);
}

const char *field(const json_t *o, const char *key)
{
    return text_of(descend(o, key));
}

const char *sentence(const struct cli *c, const json_t *both)
{
    return json_is_object(both) ? field(both, c->chinese ? "zh" : "en") : "-";
}

static const char *state_color(const struct cli *c, const char *state)
{
    static const char *const colors[][2] = {{"COMPLETE", "\033[32m"},
                                            {"ERROR", "\033[31m"},
                                            {"RUNNING", "\033[36m"},
                                            {"PENDING", "\033[33m"},
                                            {"UNKNOWN", "\033[35m"}};

    for (size_t i = 0; c->color && i < sizeof(colors) / sizeof(colors[0]);
         i++) {
        if (strcmp(colors[i][0], state) == 0)
            return colors[i][1];
    }
    return "";
}

static void print_receipts(const json_t *job)
{
    size_t i;
    json_t *r;

    json_array_foreach(json_object_get(job, "receipts"), i, r)
    {
        printf("%-12s %s (%s bytes)\n", i == 0 ? "receipts" : "",
               field(r, "path"), field(r, "bytes"));
    }
}

void print_job(const struct cli *c, const json_t *job)
{
    static const struct column rows[] = {{"workflow", "workflow"},
                                         {"owner", "owner.principal"},
                                         {"account", "owner.account"},
                                         {"slurm job", "slurm.job_id"},
                                         {"slurm state", "slurm.state"},
                                         {"created", "created_at"},
                                         {"started", "started_at"},
                                         {"ended", "ended_at"},
                                         {"exit code", "exit.code"},
                                         {"error class", "error_class"},
                                         {"attempts", "attempts"},
                                         {"gpu seconds", "gpu_seconds"},
                                         {"source", "source"}};
    const char *state = field(job, "state");

    printf("%s  %s%s%s  %s%s\n", field(job, "id"), state_color(c, state), state,
           c->color ? "\033[0m" : "", field(job, "detail"),
           json_is_true(json_object_get(job, "stale")) ? "  (stale)" : "");
    if (json_is_object(json_object_get(job, "reason")))
        printf("%-12s %s\n", "reason",
               sentence(c, json_object_get(job, "reason")));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const json_t *v = descend(job, rows[i].key);

        if (v != NULL && !json_is_null(v))
            printf("%-12s %s\n", rows[i].title, text_of(v));
    }
    print_receipts(job);
}

void print_state_line(const struct cli *c, const json_t *job)
{
    const json_t *reason = json_object_get(job, "reason");

    fprintf(stderr, "%s%s  %s  %s  slurm %s%s%s%s", c->live ? "\r\033[K" : "",
            field(job, "id"), field(job, "state"), field(job, "detail"),
            field(job, "slurm.job_id"), json_is_object(reason) ? "  " : "",
            json_is_object(reason) ? sentence(c, reason) : "",
            c->live ? "" : "\n");
    fflush(stderr);
}

void end_state_line(const struct cli *c)
{
    if (c->live)
        fputs("\r\033[K", stderr);
}

void print_table(const struct cli *c, const json_t *rows,
                 const struct column *columns, size_t n)
{
    int width[COLUMNS_MAX];
    size_t i;
    json_t *row;

    (void)c;
    for (size_t k = 0; k < n && k < COLUMNS_MAX; k++) {
        width[k] = (int)strlen(columns[k].title);
        json_array_foreach(rows, i, row)
        {
            int len = (int)strlen(field(row, columns[k].key));

            width[k] = len > width[k] ? len : width[k];
        }
        printf("%s%-*s", k > 0 ? "  " : "", k + 1 < n ? width[k] : 0,
               columns[k].title);
    }
    putchar('\n');
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; k < n && k < COLUMNS_MAX; k++)
            printf("%s%-*s", k > 0 ? "  " : "", k + 1 < n ? width[k] : 0,
                   field(row, columns[k].key));
        putchar('\n');
    }
}
