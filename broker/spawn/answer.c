/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/answer.h"

#include "base/crypto.h"
#include "base/id.h"
#include "base/json.h"
#include "base/wire.h"

#include <string.h>

/* The record wraps a frame once more, and reads with JSON_DEPTH_MAX. */
enum { RESULT_DEPTH_MAX = JSON_DEPTH_MAX - 4, STRING_MAX = 8192 };

/* It goes on in frames of our own, with more around it (the record's line, an
 * outcome's answer): one worker's long answer must not fill those. */
enum { RESULT_BYTES_MAX = WIRE_FRAME_MAX - 8192 };

/* types: s string, h SHA-256 in hex, i integer >= 0, j job id, b bool,
 * o object, a array, n null. Each key is required; a nullable one may be
 * absent, and is null then. */
static const struct field {
    enum proto_verb verb;
    const char *key, *types;
} fields[] = {
    {VERB_CHECK, "paths", "a"},
    {VERB_PREPARE, "script_sha256", "h"},
    {VERB_PREPARE, "paths", "a"},
    {VERB_PREPARE, "has_sidecar", "b"},
    {VERB_PLAN, "script_sha256", "h"},
    {VERB_PLAN, "limits", "o"},
    {VERB_PLAN, "account", "sn"},
    {VERB_PLAN, "qos", "sn"},
    {VERB_PLAN, "start_estimate", "isn"},
    {VERB_PLAN, "will_run", "b"},
    {VERB_PLAN, "slurm_error", "on"},
    {VERB_SUBMIT, "job_id", "j"},
    {VERB_SUBMIT, "script_sha256", "h"},
    {VERB_SUBMIT, "limits", "o"},
    {VERB_SUBMIT, "warning", "on"},
    {VERB_SUBMIT, "message", "sn"},
    {VERB_FINISH, "sidecar", "s"},
    {VERB_FINISH, "receipts", "a"},
    {VERB_FINISH, "missing", "a"},
    {VERB_FINISH, "failure", "on"},
    {VERB_CANCEL, "already", "b"},
    {VERB_HOLD, "already", "b"},
    {VERB_RELEASE, "already", "b"},
    {VERB_LOG, "size", "i"},
    {VERB_LOG, "offset", "i"},
    {VERB_LOG, "bytes", "i"},
    {VERB_LOG, "attempt", "i"},
    {VERB_ARTIFACTS, "count", "i"},
    {VERB_ARTIFACT, "size", "i"},
    {VERB_ARTIFACT, "offset", "i"},
    {VERB_ARTIFACT, "bytes", "i"},
};

static int garbage(struct err *why, const char *what)
{
    return err_set(why, ERR_UNAVAILABLE, "worker_garbage",
                   "the worker's answer is not one: %s", what);
}

void answer_clear(struct answer *a)
{
    json_decref(a->result);
    a->result = NULL;
}

static bool is_hex_digest(const json_t *v)
{
    uint8_t sum[SHA256_LEN];

    return json_string_length(v) == SHA256_HEX_LEN &&
           crypto_unhex(json_string_value(v), sum, sizeof(sum)) == 0;
}

static bool is_type(const json_t *v, char type)
{
    switch (type) {
    case 's':
        return json_is_string(v) && json_string_length(v) <= STRING_MAX;
    case 'h':
        return json_is_string(v) && is_hex_digest(v);
    case 'i':
        return json_is_integer(v) && json_integer_value(v) >= 0;
    case 'j':
        return json_is_integer(v) && json_integer_value(v) > 0 &&
               json_integer_value(v) < UINT32_MAX - 1;
    case 'b':
        return json_is_boolean(v);
    case 'o':
        return json_is_object(v);
    case 'a':
        return json_is_array(v);
    case 'n':
        return v == NULL || json_is_null(v);
    default:
        return false;
    }
}

static bool is_one_of(const json_t *v, const char *types)
{
    for (; *types != '\0'; types++) {
        if (is_type(v, *types))
            return true;
    }
    return false;
}

/* No reals (their text may grow), no deep nesting. */
static bool is_tame(const json_t *v, int depth)
{
    const char *key;
    const json_t *item;
    size_t i;

    if (depth == 0 || json_is_real(v))
        return false;
    if (json_is_array(v)) {
        for (i = 0; i < json_array_size(v); i++) {
            if (!is_tame(json_array_get(v, i), depth - 1))
                return false;
        }
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            if (!is_tame(item, depth - 1))
                return false;
        }
    }
    return true;
}

static bool is_short(const json_t *v)
{
    return json_dumpb(v, NULL, 0, JSON_COMPACT) <= RESULT_BYTES_MAX;
}

static int copy_fields(const json_t *from, enum proto_verb verb, json_t *to,
                       struct err *why)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct field *f = &fields[i];
        json_t *v;

        if (f->verb != verb)
            continue;
        v = json_object_get(from, f->key);
        if (!is_one_of(v, f->types))
            return garbage(why, f->key);
        if (json_put(to, f->key, v == NULL ? json_null() : json_incref(v)) != 0)
            return err_nomem(why);
    }
    return 0;
}

static int read_ok(const json_t *body, enum proto_verb verb, struct answer *out,
                   struct err *why)
{
    static const char *const keys[] = {"v",  "event",  "request",
                                       "ok", "result", NULL};
    json_t *result = NULL;

    if (json_only(body, keys, "", NULL) != 0 ||
        json_get_obj(body, "result", true, &result, "", NULL) != 0 ||
        !is_tame(result, RESULT_DEPTH_MAX) || !is_short(result))
        return garbage(why, "result");
    out->result = json_object();
    if (out->result == NULL)
        return err_nomem(why);
    return copy_fields(result, verb, out->result, why);
}

static int read_stage(const json_t *body, struct answer *out, struct err *why)
{
    const char *word;
    int stage;

    if (json_get_str(body, "stage", true, 16, &word, "", NULL) != 0)
        return garbage(why, "stage");
    stage = proto_stage_parse(word);
    if (stage != STAGE_INIT && stage != STAGE_SENDING)
        return garbage(why, "stage");
    out->stage = (enum proto_stage)stage;
    return 0;
}

static int read_failed(const json_t *body, struct answer *out, struct err *why)
{
    static const char *const keys[] = {"v",     "event", "request", "ok",
                                       "stage", "error", NULL};

    if (json_only(body, keys, "", NULL) != 0)
        return garbage(why, "a key");
    if (read_stage(body, out, why) != 0)
        return -1;
    if (wire_err_get(body, "error", &out->error) != 0 ||
        !err_is_set(&out->error))
        return garbage(why, "error");
    return 0;
}

static int read_result(const json_t *body, enum proto_verb verb,
                       struct answer *out, struct err *why)
{
    out->is_result = true;
    if (json_get_bool(body, "ok", true, &out->ok, "", NULL) != 0)
        return garbage(why, "ok");
    return out->ok ? read_ok(body, verb, out, why)
                   : read_failed(body, out, why);
}

static int read_body(const json_t *body, const char *request,
                     enum proto_verb verb, struct answer *out, struct err *why)
{
    static const char *const keys[] = {"v", "event", "request", "stage", NULL};
    const char *event, *named;
    int64_t v;

    if (json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                     NULL) != 0 ||
        json_get_str(body, "event", true, 16, &event, "", NULL) != 0 ||
        json_get_str(body, "request", true, ULID_LEN, &named, "", NULL) != 0)
        return garbage(why, "its head");
    if (strcmp(named, request) != 0)
        return garbage(why, "another request");
    if (strcmp(event, "result") == 0)
        return read_result(body, verb, out, why);
    if (strcmp(event, "stage") != 0 || json_only(body, keys, "", NULL) != 0)
        return garbage(why, "event");
    return read_stage(body, out, why);
}

int answer_read(const json_t *body, const char *request, enum proto_verb verb,
                struct answer *out, struct err *why)
{
    *out = (struct answer){.stage = STAGE_NONE, .error = ERR_INIT};
    if (read_body(body, request, verb, out, why) == 0)
        return 0;
    answer_clear(out);
    return -1;
}
