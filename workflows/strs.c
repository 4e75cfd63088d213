/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "workflows/strs.h"

#include <stdlib.h>
#include <string.h>

bool strs_has(const struct strs *s, const char *v)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->v[i], v) == 0)
            return true;
    }
    return false;
}

/* The capacity is the next power of two, so n alone says when to grow. */
static int make_room(struct strs *s)
{
    if (s->n != 0 && (s->n & (s->n - 1)) != 0)
        return 0;
    size_t room = s->n == 0 ? 1 : s->n * 2;
    char **v = reallocarray(s->v, room, sizeof *v);
    if (v == NULL)
        return -1;
    s->v = v;
    return 0;
}

int strs_add_take(struct strs *s, char *v)
{
    if (v == NULL || make_room(s) != 0) {
        free(v);
        return -1;
    }
    s->v[s->n++] = v;
    return 0;
}

int strs_add(struct strs *s, const char *v)
{
    return strs_add_take(s, strdup(v));
}

json_t *strs_json(const struct strs *s)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < s->n; i++) {
        if (json_array_append_new(list, json_string(s->v[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

void strs_clear(struct strs *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
    *s = (struct strs){NULL, 0};
}
