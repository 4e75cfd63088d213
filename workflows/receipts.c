/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/receipts.h"

#include "workflows/text.h"
#include "workflows/workflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool receipts_char(const char *pattern)
{
    return text_chars(pattern, RECEIPTS_BYTES_MAX, "_.-/*{}");
}

static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_CONFIG, "workflow_receipt", ": %s", what);
}

/* {from..to}: at points behind the '{'. Returns what follows the '}', or NULL.
 * At most five digits each, as in the prelude. */
static const char *braces(const char *at, int *from, int *to, int *width)
{
    static const char digits[] = "0123456789";
    size_t a = strspn(at, digits);
    const char *second = at + a + 2;
    if (a < 1 || a > 5 || strncmp(at + a, "..", 2) != 0)
        return NULL;
    size_t b = strspn(second, digits);
    if (b < 1 || b > 5 || second[b] != '}')
        return NULL;
    *from = (int)strtol(at, NULL, 10);
    *to = (int)strtol(second, NULL, 10);
    bool padded = (a > 1 && at[0] == '0') || (b > 1 && second[0] == '0');
    *width = !padded ? 1 : (int)(a > b ? a : b);
    return *from <= *to ? second + b + 1 : NULL;
}

static int add_plain(const char *path, struct strs *out, struct err *e)
{
    const char *star = strchr(path, '*');
    if (!text_relative(path, strlen(path)) || path[0] == '-')
        return refuse(e, "must be a relative path without empty, \".\" or "
                         "\"..\" parts");
    if (star != NULL && strchr(star, '/') != NULL)
        return refuse(e, "* may stand in the last component only");
    if (strs_has(out, path))
        return 0;
    if (out->n >= RECEIPTS_MAX)
        return refuse(e, "too many receipts");
    return strs_add(out, path) == 0 ? 0 : err_nomem(e);
}

/* Depth: one a pair of braces, at least six bytes each. */
int receipts_expand(const char *pattern, struct strs *out, struct err *e)
{
    char path[RECEIPTS_BYTES_MAX + 1];
    size_t head = strcspn(pattern, "{}");
    int from = 0, to = 0, width = 0;
    if (pattern[head] == '\0')
        return add_plain(pattern, out, e);
    const char *tail = pattern[head] == '{'
                           ? braces(pattern + head + 1, &from, &to, &width)
                           : NULL;
    if (tail == NULL)
        return refuse(e, "braces must be {a..b} with a <= b, up to 5 digits");
    for (int i = from; i <= to; i++) {
        int n = snprintf(path, sizeof path, "%.*s%0*d%s", (int)head, pattern,
                         width, i, tail);
        if (n < 0 || (size_t)n >= sizeof path)
            return refuse(e, "is too long");
        if (receipts_expand(path, out, e) != 0)
            return -1;
    }
    return 0;
}

json_t *workflow_receipts(const struct workflow *w)
{
    struct strs all = {NULL, 0};
    json_t *list = json_array();
    int r = list == NULL ? -1 : 0;
    for (size_t i = 0; i < w->receipts.n && r == 0; i++)
        r = receipts_expand(w->receipts.v[i], &all, NULL);
    for (size_t i = 0; i < all.n && r == 0; i++)
        r = json_array_append_new(list, json_string(all.v[i]));
    strs_clear(&all);
    if (r == 0)
        return list;
    json_decref(list);
    return NULL;
}
