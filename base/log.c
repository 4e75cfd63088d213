/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* PIPE_BUF: up to here the kernel never mixes two lines in one pipe. TAIL_ROOM
 * is kept back for a closing quote, ,"cut":true and the end (14 bytes). */
enum {
    LINE_MAX_BYTES = 4096,
    TAIL_ROOM = 16,
    BODY_MAX = LINE_MAX_BYTES - TAIL_ROOM,
    VALUE_MAX = 1500,
    KEY_MAX = 64
};

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
    bool cut;
};

static const char *program_name = "sluice";
static enum log_level least_level = LOG_INFO_;

void log_init(const char *program, enum log_level least)
{
    program_name = program;
    least_level = least;
}

static size_t room(const struct line *l)
{
    return l->len < BODY_MAX ? BODY_MAX - l->len : 0;
}

static bool put(struct line *l, const char *s, size_t n)
{
    if (n > room(l)) {
        l->cut = true;
        return false;
    }
    memcpy(l->text + l->len, s, n);
    l->len += n;
    return true;
}

static size_t char_len(const char *s, size_t left)
{
    size_t i;

    for (i = 1; i <= 4 && i <= left; i++) {
        if (json_utf8_valid(s, i))
            return i;
    }
    return 0;
}

/* C0, DEL and C1 (U+0080..U+009F, which a terminal obeys as well). */
static bool is_control(const char *s, size_t k)
{
    unsigned char c = (unsigned char)s[0];

    if (k == 1)
        return c < 0x20 || c == 0x7f;
    return k == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
}

/* The one place where text from outside is cleaned. */
static bool put_char(struct line *l, const char *s, size_t k)
{
    char escaped[2] = {'\\', s[0]};

    if (k == 0)
        return put(l, "\xef\xbf\xbd", 3);
    if (is_control(s, k))
        return put(l, "?", 1);
    if (k == 1 && (s[0] == '"' || s[0] == '\\'))
        return put(l, escaped, 2);
    return put(l, s, k);
}

static void put_quoted(struct line *l, const char *s)
{
    size_t left = strlen(s), k;

    if (left > VALUE_MAX) {
        left = VALUE_MAX;
        l->cut = true;
    }
    l->text[l->len++] = '"';
    while (left > 0) {
        k = char_len(s, left);
        if (!put_char(l, s, k))
            break;
        k = k == 0 ? 1 : k;
        s += k;
        left -= k;
    }
    l->text[l->len++] = '"';
}

/* A pair that has no room for even an empty value is left out whole. */
static void put_pair(struct line *l, const char *key, const char *value)
{
    size_t n = strlen(key);

    if (value == NULL)
        return;
    /* A byte becomes three at most; 6 are , : and four quotes. */
    if (n > KEY_MAX || n * 3 + 6 > room(l)) {
        l->cut = true;
        return;
    }
    (void)put(l, l->len == 0 ? "{" : ",", 1);
    put_quoted(l, key);
    (void)put(l, ":", 1);
    put_quoted(l, value);
}

static void emit(struct line *l)
{
    const char *end = l->cut ? ",\"cut\":true}\n" : "}\n";
    size_t n = strlen(end), done = 0;
    ssize_t w;

    memcpy(l->text + l->len, end, n);
    l->len += n;
    while (done < l->len) {
        w = write(STDERR_FILENO, l->text + done, l->len - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return; /* nobody is left to be told */
        done += (size_t)w;
    }
}

static void start(struct line *l, enum log_level level, const char *event,
                  const char *request)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char at[CLOCK_TEXT_MAX];

    l->len = 0;
    l->cut = false;
    clock_format(clock_now(), at);
    put_pair(l, "at", at);
    put_pair(l, "level", names[level]);
    put_pair(l, "program", program_name);
    put_pair(l, "event", event);
    put_pair(l, "request", request);
}

void log_event(enum log_level level, const char *event, const char *request,
               ...)
{
    const char *key, *value;
    int saved = errno;
    struct line l;
    va_list ap;

    if (level < least_level)
        return;
    start(&l, level, event, request);
    va_start(ap, request);
    while ((key = va_arg(ap, const char *)) != NULL) {
        value = va_arg(ap, const char *);
        put_pair(&l, key, value == NULL ? "" : value);
    }
    va_end(ap);
    emit(&l);
    errno = saved;
}

void log_err(const char *event, const char *request, const struct err *e)
{
    int saved = errno;
    char sys[16];
    struct line l;

    start(&l, LOG_ERROR_, event, request);
    (void)snprintf(sys, sizeof(sys), "%d", e->sys);
    put_pair(&l, "class", err_class_name(e->class));
    put_pair(&l, "code", e->code);
    put_pair(&l, "sys", sys);
    put_pair(&l, "text", e->text);
    put_pair(&l, "pointer", e->pointer[0] == '\0' ? NULL : e->pointer);
    emit(&l);
    errno = saved;
}

int log_gate_open(struct log_gate *g, int64_t every_ms)
{
    int64_t now = clock_mono_ms();
    int64_t next = __atomic_load_n(&g->next_ms, __ATOMIC_RELAXED);

    if (now >= next &&
        __atomic_compare_exchange_n(&g->next_ms, &next, now + every_ms, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 1;
    (void)__atomic_add_fetch(&g->dropped, 1, __ATOMIC_RELAXED);
    return 0;
}
