/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Errors. A function that can fail returns 0 or -1 and fills a struct err.
 * The first error is kept: a later err_set() on a set err changes nothing, so
 * cleanup code can report freely. No allocation, safe on ENOMEM paths.
 * Thread rule: a struct err belongs to one thread at a time.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

/* About a dozen classes; broker/http maps each to one HTTP status. */
enum err_class {
    ERR_NONE = 0,
    ERR_INVALID,     /* 400/422: the request's content is wrong */
    ERR_UNAUTHENTIC, /* 401: no proof, or a proof that does not hold */
    ERR_DENIED,      /* 403: known, and not allowed */
    ERR_NOT_FOUND,   /* 404: absent, foreign, or forbidden to see */
    ERR_CONFLICT,    /* 409: another request or state is in the way */
    ERR_TOO_LARGE,   /* 413/414: over a named maximum */
    ERR_UNSUPPORTED, /* 405/411/415/421: a form this server does not take */
    ERR_LIMITED,     /* 429: too many, come again */
    ERR_SLURM,       /* 422: Slurm itself said no; nothing was started */
    ERR_UNAVAILABLE, /* 503: a part we need is down or slow; nothing started */
    ERR_UNKNOWN,     /* 202: sent, and the answer was lost */
    ERR_CONFIG,      /* start-up: configuration, ownership, modes */
    ERR_INTERNAL     /* 500: a bug or ENOMEM */
};

enum { ERR_CODE_MAX = 48, ERR_POINTER_MAX = 128, ERR_TEXT_MAX = 400 };

struct err {
    enum err_class class;
    int sys;                       /* errno, or Slurm's errno for ERR_SLURM */
    char code[ERR_CODE_MAX];       /* stable, snake_case; "" = no error */
    char pointer[ERR_POINTER_MAX]; /* JSON pointer (RFC 6901), or "" */
    char text[ERR_TEXT_MAX];       /* may be shown to the client: no paths, no
                                      secrets; UTF-8, cut at a character */
};

/* clang-format off */
#define ERR_INIT {ERR_NONE, 0, "", "", ""}
/* clang-format on */

/* Set class, code and text unless already set. Always returns -1, so that
 * `return err_set(e, ...)` reads well. e may be NULL. */
int err_set(struct err *e, enum err_class class, const char *code,
            const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* As err_set, and remembers errno value `sys`; its description (or the bare
 * number, for a Slurm errno) is appended after ": ". */
int err_sys(struct err *e, enum err_class class, int sys, const char *code,
            const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Out of memory: ERR_INTERNAL "no_memory". Returns -1. */
int err_nomem(struct err *e);

/* Record the JSON pointer of the bad value (only if none is set). -1. */
int err_at(struct err *e, const char *pointer); /* e may be NULL */

void err_clear(struct err *e);
bool err_is_set(const struct err *e);

/* Class <-> stable word ("invalid", "denied", ...), for the wire. An unknown
 * word is ERR_INTERNAL. */
const char *err_class_name(enum err_class class);
enum err_class err_class_parse(const char *name);

#endif
