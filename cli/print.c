/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_SLOTS = 8, FIELD_MAX = 512, COLUMNS_MAX = 12 };

void print_json(const json_t *v)
{
    char *text = json_dumps(v, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

    if (text != NULL)
        puts(text);
    free(text);
}

/* A terminal must not obey what a job or a name contains. */
static void clean(char *s)
{
    for (; *s != '\0'; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
    }
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
