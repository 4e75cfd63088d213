/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/crypto.h"
#include "templates/render.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A name is a key of the file's lines: nothing in it may end one. */
static bool plain(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    return name[0] != '\0' && name[strspn(name, good)] == '\0';
}

static int line(const char *name, const json_t *v, struct buf *out,
                struct err *e)
{
    const char *s = json_string_value(v);
    if (s == NULL || !plain(name))
        return err_set(e, ERR_INTERNAL, "render_word",
                       "a secret is not in the form that was checked");
    char *encoded = crypto_b64(s, json_string_length(v));
    if (encoded == NULL)
        return err_nomem(e);
    int r = buf_puts(out, name) | buf_putc(out, '=') | buf_puts(out, encoded) |
            buf_putc(out, '\n');
    explicit_bzero(encoded, strlen(encoded));
    free(encoded);
    return r == 0 ? 0 : err_nomem(e);
}

int render_sidecar(const json_t *secrets, struct buf *out, struct err *e)
{
    json_t *all = (json_t *)(uintptr_t)secrets; /* only to iterate */
    void *it = json_object_iter(all);
    for (; it != NULL; it = json_object_iter_next(all, it)) {
        if (line(json_object_iter_key(it), json_object_iter_value(it), out,
                 e) != 0)
            return -1;
    }
    return 0;
}
