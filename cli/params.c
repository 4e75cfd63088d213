/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Arguments to JSON: the workflow's document says each parameter's type, so
 * that "gpus=2" becomes a number and "prompt=2" stays text.
 */
#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 64 * 1024 };

static const json_t *find_param(const json_t *workflow, const char *name)
{
    size_t i;
    json_t *p;

    json_array_foreach(json_object_get(workflow, "params"), i, p)
    {
        const char *n = json_string_value(json_object_get(p, "name"));

        if (n != NULL && strcmp(n, name) == 0)
            return p;
    }
    return NULL;
}

/* The text itself, or the file's content for "@FILE". Owned. */
static char *value_text(const char *value, struct err *e)
{
    size_t n = 0;
    char *text;

    if (value[0] != '@')
        return strdup(value);
    text = file_read(AT_FDCWD, value + 1, VALUE_MAX, &n, e);
    if (text != NULL && n > 0 && text[n - 1] == '\n')
        text[n - 1] = '\0';
    return text;
}

static json_t *typed(const char *type, const char *text)
{
    int64_t n;

    if (type != NULL && strcmp(type, "boolean") == 0) {
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
            return json_boolean(text[0] == 't');
    } else if (type != NULL &&
               (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)) {
        if (num_parse(text, INT64_MIN, INT64_MAX, &n) == 0)
            return json_integer(n);
    }
    return json_string(text); /* the server says what is wrong with it */
}

static int put_value(json_t *params, const char *name, const json_t *param,
                     json_t *value, struct err *e)
{
    bool list = json_is_object(json_object_get(param, "list"));
    json_t *have = json_object_get(params, name);

    if (value == NULL)
        return err_nomem(e);
    if (!list)
        return json_object_set_new(params, name, value) == 0 ? 0 : err_nomem(e);
    if (have == NULL) {
        have = json_array();
        if (json_object_set_new(params, name, have) < 0) {
            json_decref(value);
            return err_nomem(e);
        }
    }
    return json_array_append_new(have, value) == 0 ? 0 : err_nomem(e);
}

static int add_json(json_t *params, const char *name, const char *text,
                    struct err *e)
{
    struct buf wrapped;
    json_t *one;
    int rc = -1;

    buf_init(&wrapped, VALUE_MAX + 8);
    buf_printf(&wrapped, "[%s]", text);
    one = json_parse(buf_str(&wrapped), wrapped.len, VALUE_MAX + 8, e);
    if (one != NULL && json_array_size(one) == 1)
        rc = json_object_set(params, name, json_array_get(one, 0));
    if (rc < 0) {
        err_clear(e); /* the parser's columns count the bracket, too */
        err_set(e, ERR_INVALID, "param_json", "%s is not one JSON value", name);
    }
    json_decref(one);
    buf_clear(&wrapped);
    return rc;
}

int param_add(json_t *params, const json_t *workflow, const char *arg,
              struct err *e)
{
    const char *eq = strchr(arg, '=');
    const json_t *param;
    char name[64];
    size_t n;
    char *text;
    int rc;
    bool raw;

    if (eq == NULL || eq == arg)
        return err_set(e, ERR_INVALID, "param_form",
                       "parameters look like key=value");
    raw = eq[-1] == ':';
    n = (size_t)(eq - arg) - (raw ? 1 : 0);
    if (n == 0 || n >= sizeof(name))
        return err_set(e, ERR_INVALID, "param_form",
                       "parameters look like key=value");
    memcpy(name, arg, n);
    name[n] = '\0';
    if (raw)
        return add_json(params, name, eq + 1, e);
    text = value_text(eq + 1, e);
    if (text == NULL)
        return err_nomem(e);
    param = find_param(workflow, name);
    rc = put_value(
        params, name, param,
        typed(json_string_value(json_object_get(param, "type")), text), e);
    free(text);
    return rc;
}

int secret_add(json_t *secrets, const char *arg, struct err *e)
{
    const char *eq = strchr(arg, '=');
    char name[64];
    char *text;
    int rc;

    if (eq == NULL || eq == arg || eq[1] != '@' ||
        (size_t)(eq - arg) >= sizeof(name))
        return err_set(e, ERR_INVALID, "secret_form",
                       "secrets look like NAME=@FILE: an argument would be "
                       "seen by others on this machine");
    memcpy(name, arg, (size_t)(eq - arg));
    name[eq - arg] = '\0';
    text = value_text(eq + 1, e);
    if (text == NULL)
        return -1;
    rc = json_put_str(secrets, name, text);
    explicit_bzero(text, strlen(text));
    free(text);
    return rc < 0 ? err_nomem(e) : 0;
}
