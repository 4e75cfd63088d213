/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A growing byte string with a hard maximum. Always NUL-terminated, so
 * buf_str() is a C string as long as no NUL was added. A failed append leaves
 * the content as it was and sets `failed`; a builder may append many times and
 * test once with buf_ok(): after a failure every append fails until
 * buf_reset() or buf_clear(). What is added must not lie in the buf itself.
 * Growth wipes the old copy, so that buf_wipe() leaves no secret behind.
 * Thread rule: one thread at a time.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* NULL until the first append */
    size_t len, cap, max;
    bool failed;
};

void buf_init(struct buf *b, size_t max_bytes); /* max without the NUL */
void buf_clear(struct buf *b);                  /* frees; wipes nothing */
void buf_wipe(struct buf *b);  /* explicit_bzero, then frees: for secrets */
void buf_reset(struct buf *b); /* length 0, memory kept, failed = false */

int buf_add(struct buf *b, const void *p, size_t n); /* 0, or -1 (failed) */
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

bool buf_ok(const struct buf *b);
const char *buf_str(const struct buf *b); /* borrowed until the next change */
/* The caller now owns the bytes (free()); the buf is empty after. NULL when
 * failed. An empty buf yields an allocated "". */
char *buf_take(struct buf *b, size_t *len);

#endif
