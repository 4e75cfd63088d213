/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "templates/render.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

static const char shebang[] = "#!/bin/bash\n";

/* Appends are tested once, at the end: buf.h. */

/* --- the #SBATCH lines --------------------------------------------------- */

/* Limits are checked where they are made; this is the last look before a word
 * stands in a script, and the only one at account and qos. */
static bool plain(const char *s)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_.,:&|*()[]@-";
    return s[0] != '\0' && s[0] != '-' && s[strspn(s, good)] == '\0';
}

static int word(struct buf *out, const char *option, const char *s,
                struct err *e)
{
    if (s == NULL)
        return 0;
    if (!plain(s))
        return err_set(e, ERR_INTERNAL, "render_word",
                       "the value of --%s has characters that a script must "
                       "not hold",
                       option);
    (void)buf_printf(out, "#SBATCH --%s=%s\n", option, s);
    return 0;
}

static void count(struct buf *out, const char *option, int64_t n,
                  const char *unit)
{
    if (n > 0)
        (void)buf_printf(out, "#SBATCH --%s=%lld%s\n", option, (long long)n,
                         unit);
}

static void duration(struct buf *out, int64_t s)
{
    if (s > 0)
        (void)buf_printf(out, "#SBATCH --time=%lld-%02d:%02d:%02d\n",
                         (long long)(s / 86400), (int)(s / 3600 % 24),
                         (int)(s / 60 % 60), (int)(s % 60));
}

static int gpus(struct buf *out, const struct limits *l, struct err *e)
{
    if (l->gpus_per_node <= 0)
        return 0;
    if (l->gpu_type == NULL) {
        count(out, "gpus-per-node", l->gpus_per_node, "");
        return 0;
    }
    if (!plain(l->gpu_type))
        return err_set(e, ERR_INTERNAL, "render_word",
                       "the GPU type has characters that a script must not "
                       "hold");
    (void)buf_printf(out, "#SBATCH --gpus-per-node=%s:%lld\n", l->gpu_type,
                     (long long)l->gpus_per_node);
    return 0;
}

static int words(struct buf *out, const struct limits *l, struct err *e)
{
    const struct {
        const char *option, *s;
    } rows[] = {
        {"partition", l->partition},
        {"account", l->account},
        {"qos", l->qos},
        {"constraint", l->constraint},
        {"exclude", l->exclude},
        {"licenses", l->licenses},
        {"reservation", l->reservation},
        {"signal", l->signal},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (word(out, rows[i].option, rows[i].s, e) != 0)
            return -1;
    }
    return 0;
}

static int sbatch_lines(struct buf *out, const struct limits *l,
                        const char *name, struct err *e)
{
    if (word(out, "job-name", name, e) != 0 || words(out, l, e) != 0)
        return -1;
    count(out, "nodes", l->nodes, "");
    count(out, "ntasks", l->tasks, "");
    count(out, "ntasks-per-node", l->tasks_per_node, "");
    count(out, "cpus-per-task", l->cpus_per_task, "");
    count(out, "mem", l->mem_per_node_mib, "M");
    count(out, "mem-per-cpu", l->mem_per_cpu_mib, "M");
    duration(out, l->time_limit_seconds);
    count(out, "nice", l->nice, "");
    if (l->exclusive)
        (void)buf_puts(out, "#SBATCH --exclusive\n");
    (void)buf_puts(out, l->requeue ? "#SBATCH --requeue\n"
                                   : "#SBATCH --no-requeue\n");
    return gpus(out, l, e);
}

/* --- the files ----------------------------------------------------------- */

int render_check(const char *text, size_t n, const char *name, struct err *e)
{
    if (n == 0)
        return err_set(e, ERR_CONFIG, "template_missing", "%s is empty", name);
    if (memchr(text, '\0', n) != NULL)
        return err_set(e, ERR_CONFIG, "template_nul", "%s holds a NUL", name);
    if (memchr(text, '\r', n) != NULL)
        return err_set(e, ERR_CONFIG, "template_crlf",
                       "%s holds a carriage return", name);
    if (n >= 2 && memcmp(text, "#!", 2) == 0)
        return err_set(e, ERR_CONFIG, "template_shebang",
                       "%s begins with a shebang, which the script has already",
                       name);
    return 0;
}

/* file_read's errors, in a template's words; ENOMEM stays what it is. */
static int read_error(struct err *e, const char *name, struct err *why)
{
    if (why->class != ERR_CONFIG) {
        if (e != NULL && !err_is_set(e))
            *e = *why;
        return -1;
    }
    bool large = strcmp(why->code, "file_too_large") == 0;
    return err_set(e, ERR_CONFIG,
                   large ? "template_too_large" : "template_missing",
                   large ? "%s is too large" : "%s can't be read", name);
}

static int add_file(int dirfd, const char *name, struct buf *out, struct err *e)
{
    struct err why = ERR_INIT;
    size_t n = 0;
    char *text = file_read(dirfd, name, RENDER_SCRIPT_MAX, &n, &why);
    if (text == NULL)
        return read_error(e, name, &why);
    int r = render_check(text, n, name, e);
    if (r == 0 && n + 1 > RENDER_SCRIPT_MAX - out->len)
        r = err_set(e, ERR_CONFIG, "template_too_large",
                    "the script is larger than %d bytes", RENDER_SCRIPT_MAX);
    if (r == 0) {
        (void)buf_add(out, text, n);
        if (text[n - 1] != '\n')
            (void)buf_putc(out, '\n');
    }
    free(text);
    return r;
}

int render_script(int templates_dirfd, const struct workflow *w,
                  const struct limits *l, const struct render_job *job,
                  struct buf *out, struct err *e)
{
    buf_reset(out);
    (void)buf_puts(out, shebang);
    int r = sbatch_lines(out, l, job->slurm_name, e);
    if (r == 0)
        r = add_file(templates_dirfd, "prelude.sh", out, e);
    if (r == 0)
        r = add_file(templates_dirfd, w->template_name, out, e);
    if (r == 0 && !buf_ok(out))
        r = err_nomem(e);
    if (r != 0)
        buf_reset(out);
    return r;
}
