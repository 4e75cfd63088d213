/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 128 };

void buf_init(struct buf *b, size_t max_bytes)
{
    memset(b, 0, sizeof(*b));
    b->max = max_bytes;
}

void buf_clear(struct buf *b)
{
    size_t max = b->max;

    free(b->data);
    buf_init(b, max);
}

void buf_wipe(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_clear(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data != NULL)
        b->data[0] = '\0';
}

/* The old copy is wiped, not handed to realloc(3): buf_wipe() could not reach
 * a secret that growth left behind on the heap. */
static int move(struct buf *b, size_t cap)
{
    char *p = malloc(cap);

    if (p == NULL)
        return -1;
    if (b->data != NULL) {
        memcpy(p, b->data, b->len);
        explicit_bzero(b->data, b->cap);
        free(b->data);
    }
    p[b->len] = '\0';
    b->data = p;
    b->cap = cap;
    return 0;
}

/* Room for n more bytes and the NUL. */
static int reserve(struct buf *b, size_t n)
{
    size_t need, cap;

    if (b->failed || b->len > b->max || n > b->max - b->len)
        goto fail;
    if (b->len > SIZE_MAX - 1 - n)
        goto fail;
    need = b->len + n + 1;
    if (b->data != NULL && need <= b->cap)
        return 0;
    cap = b->cap < FIRST_BYTES ? FIRST_BYTES : b->cap;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (move(b, cap) == 0)
        return 0;
fail:
    b->failed = true;
    return -1;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    if (reserve(b, n) != 0)
        return -1;
    if (n > 0)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_puts(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_putc(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        b->failed = true;
        return -1;
    }
    if (reserve(b, (size_t)n) != 0)
        return -1;
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
    return 0;
}

bool buf_ok(const struct buf *b)
{
    return !b->failed;
}

const char *buf_str(const struct buf *b)
{
    return b->data == NULL ? "" : b->data;
}

char *buf_take(struct buf *b, size_t *len)
{
    char *p;

    if (b->failed || reserve(b, 0) != 0)
        return NULL;
    p = b->data;
    if (len != NULL)
        *len = b->len;
    b->data = NULL;
    buf_clear(b);
    return p;
}
