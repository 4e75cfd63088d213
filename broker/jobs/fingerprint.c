/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/fingerprint.h"

#include "base/crypto.h"
#include "base/json.h"
#include "broker/jobs/store.h"

#include <stdlib.h>
#include <string.h>

static json_t *borrow(const json_t *v)
{
    return json_incref((json_t *)(uintptr_t)v);
}

/* Canonical JSON has no reals: a real becomes a marked text of itself, which
 * validation will refuse where numbers must be integers. */
static json_t *real_text(const json_t *v)
{
    json_t *list = json_pack("[O]", borrow(v)), *out = NULL;
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;

    if (text)
        out = json_pack("{s:s}", "real", text);
    free(text);
    json_decref(list);
    json_decref((json_t *)(uintptr_t)v);
    return out;
}

static json_t *plain(const json_t *v);

static json_t *plain_array(const json_t *v)
{
    json_t *out = json_array();

    for (size_t i = 0; i < json_array_size(v); i++) {
        if (json_array_append_new(out, plain(json_array_get(v, i)))) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *plain_object(const json_t *v)
{
    json_t *out = json_object(), *obj = borrow(v), *item;
    const char *key;
    int rc = 0;

    json_object_foreach(obj, key, item) rc |= json_put(out, key, plain(item));
    json_decref(obj);
    if (rc == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* A copy without reals. Depth is bounded by the parser (JSON_DEPTH_MAX). */
static json_t *plain(const json_t *v)
{
    if (json_is_array(v))
        return plain_array(v);
    if (json_is_object(v))
        return plain_object(v);
    return json_is_real(v) ? real_text(v) : borrow(v);
}

/* HMAC over name NUL value: the same value under two names differs. */
static int secret_mark(const uint8_t *key, const char *name, const char *value,
                       char *hex, struct err *e)
{
    size_t a = strlen(name) + 1, b = strlen(value);
    char *text = malloc(a + b + 1);
    uint8_t mac[SHA256_LEN];
    int rc = -1;

    if (!text)
        return err_nomem(e);
    memcpy(text, name, a);
    memcpy(text + a, value, b + 1);
    if (crypto_hmac(key, STORE_SECRET_KEY_LEN, text, a + b, mac, e) == 0) {
        crypto_hex(mac, sizeof mac, hex);
        rc = 0;
    }
    explicit_bzero(text, a + b + 1);
    free(text);
    return rc;
}

static json_t *secret_marks(const json_t *secrets, const uint8_t *key,
                            struct err *e)
{
    json_t *out = json_object(), *obj = borrow(secrets), *v;
    char hex[2 * SHA256_LEN + 1];
    const char *name;
    int rc = 0;

    json_object_foreach(obj, name, v)
    {
        const char *text = json_string_value(v);
        if (rc == 0)
            rc = secret_mark(key, name, text ? text : "", hex, e) ||
                 json_put_str(out, name, hex);
    }
    json_decref(obj);
    if (rc == 0)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *object_at(const json_t *body, const char *key)
{
    const json_t *v = json_object_get(body, key);

    return json_is_object(v) ? plain(v) : json_object();
}

int fingerprint_body(const json_t *body, const uint8_t *key, char *out,
                     struct err *e)
{
    json_t *o = json_object();
    char *text = NULL;
    size_t n = 0;
    int rc = 0;

    rc |= json_put_str(o, "workflow",
                       json_string_value(json_object_get(body, "workflow")));
    rc |= json_put(o, "params", object_at(body, "params"));
    rc |= json_put(o, "labels", object_at(body, "labels"));
    rc |= json_put(o, "secrets",
                   secret_marks(json_object_get(body, "secrets"), key, e));
    if (rc == 0)
        text = json_canonical(o, &n, e);
    rc = text ? crypto_sha256_hex(text, n, out, e) : err_nomem(e);
    free(text);
    json_decref(o);
    return rc;
}
