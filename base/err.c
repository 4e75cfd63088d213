/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/err.h"

#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const class_names[] = {
    [ERR_NONE] = "none",
    [ERR_INVALID] = "invalid",
    [ERR_UNAUTHENTIC] = "unauthentic",
    [ERR_DENIED] = "denied",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_CONFLICT] = "conflict",
    [ERR_TOO_LARGE] = "too_large",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_LIMITED] = "limited",
    [ERR_SLURM] = "slurm",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_UNKNOWN] = "unknown",
    [ERR_CONFIG] = "config",
    [ERR_INTERNAL] = "internal",
};

enum { CLASS_COUNT = sizeof(class_names) / sizeof(class_names[0]) };

/* Length of the UTF-8 character at p, or 0 when there is none. */
static size_t char_len(const char *p, size_t left)
{
    size_t i;

    for (i = 1; i <= 4 && i <= left; i++) {
        if (json_utf8_valid(p, i))
            return i;
    }
    return 0;
}

/* Text that snprintf cut is cut again before the split character; a byte that
 * came in from outside and is not UTF-8 becomes '?'. */
static void clean(char *s, size_t size, int wanted)
{
    size_t n = strlen(s), i = 0, k;

    while (i < n) {
        k = char_len(s + i, n - i);
        if (k == 0 && wanted >= (int)size && n - i < 4) {
            s[i] = '\0';
            return;
        }
        if (k == 0)
            s[i] = '?';
        i += k == 0 ? 1 : k;
    }
}

static int format(char *out, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static int format(char *out, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(out, size, fmt, ap);

    if (n < 0) {
        out[0] = '\0';
        return 0;
    }
    clean(out, size, n);
    return n;
}

static void fill(struct err *e, enum err_class class, const char *code)
{
    e->class = class == ERR_NONE ? ERR_INTERNAL : class;
    (void)snprintf(e->code, sizeof(e->code), "%s", code);
}

int err_set(struct err *e, enum err_class class, const char *code,
            const char *fmt, ...)
{
    va_list ap;

    if (e == NULL || err_is_set(e))
        return -1;
    fill(e, class, code);
    va_start(ap, fmt);
    (void)format(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    return -1;
}

static void append(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct err *e, const char *fmt, ...)
{
    size_t used = strlen(e->text);
    va_list ap;

    va_start(ap, fmt);
    (void)format(e->text + used, sizeof(e->text) - used, fmt, ap);
    va_end(ap);
}

int err_sys(struct err *e, enum err_class class, int sys, const char *code,
            const char *fmt, ...)
{
    const char *why = strerrordesc_np(sys);
    va_list ap;

    if (e == NULL || err_is_set(e))
        return -1;
    fill(e, class, code);
    e->sys = sys;
    va_start(ap, fmt);
    (void)format(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    if (why != NULL)
        append(e, ": %s", why);
    else
        append(e, ": error %d", sys);
    return -1;
}

int err_nomem(struct err *e)
{
    return err_set(e, ERR_INTERNAL, "no_memory", "out of memory");
}

int err_at(struct err *e, const char *pointer)
{
    int n;

    if (e == NULL || e->pointer[0] != '\0')
        return -1;
    n = snprintf(e->pointer, sizeof(e->pointer), "%s", pointer);
    clean(e->pointer, sizeof(e->pointer), n);
    return -1;
}

void err_clear(struct err *e)
{
    if (e != NULL)
        *e = (struct err)ERR_INIT;
}

bool err_is_set(const struct err *e)
{
    return e != NULL && e->class != ERR_NONE;
}

const char *err_class_name(enum err_class class)
{
    int i = (int)class;

    if (i < 0 || i >= CLASS_COUNT)
        return class_names[ERR_INTERNAL];
    return class_names[i];
}

enum err_class err_class_parse(const char *name)
{
    int i;

    for (i = 0; name != NULL && i < CLASS_COUNT; i++) {
        if (strcmp(name, class_names[i]) == 0)
            return (enum err_class)i;
    }
    return ERR_INTERNAL;
}
