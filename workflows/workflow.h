/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The allowlist: named workflows, their parameters and limits. The same tables
 * parse the YAML (as a json_t tree from base/yaml), validate a request and make
 * the JSON Schema (2020-12), so that they cannot disagree.
 * Ownership: an allowlist owns its workflows; pointers into it live as long as
 * it does. Thread rule: immutable after load, any thread.
 */
#ifndef WORKFLOWS_WORKFLOW_H
#define WORKFLOWS_WORKFLOW_H

#include "base/buf.h"
#include "base/err.h"
#include "base/yaml.h"
#include "workflows/strs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WORKFLOW_NAME_MAX = 36, /* + '.' + 26 <= SLURM_NAME_MAX */
    WORKFLOW_PARAMS_MAX = 64,
    WORKFLOW_LIST_MAX = 256, /* items of a list parameter */
    WORKFLOW_SECRETS_MAX = 16,
    WORKFLOW_SECRET_BYTES_MAX = 8192,
    WORKFLOW_TEXT_BYTES_MAX = 16384,
    WORKFLOW_ENV_BYTES_MAX = 48 * 1024 /* sum of all parameter maxima */
};

enum param_type {
    PARAM_INTEGER,
    PARAM_NUMBER,
    PARAM_BOOLEAN,
    PARAM_ENUM,
    PARAM_STRING,
    PARAM_TEXT,
    PARAM_PATH,
    PARAM_DURATION,
    PARAM_BYTES
};

struct param {
    char *name; /* ^[a-z][a-z0-9_]{0,30}$ */
    enum param_type type;
    char *title_en, *title_zh; /* may be NULL */
    bool list;
    int64_t list_min, list_max;
    bool has_min, has_max;
    int64_t min, max;              /* integer, duration (seconds), bytes */
    char *number_min, *number_max; /* decimal text; numbers stay text */
    struct strs values;            /* enum */
    int64_t max_bytes;             /* string, text, path */
    bool leading_dash; /* values may begin with '-' (default refused) */
    char *under;       /* path: absolute, or "inputs" (the site's) */
    bool exists_file, exists_dir;
    bool sha256_required;
    json_t *def;   /* NULL: required */
    bool optional; /* absent stays absent (no default) */
};

enum proof { PROOF_NETWORK, PROOF_TOKEN };

struct workflow {
    char *name, *title_en, *title_zh, *template_name;
    struct strs allow_groups, allow_users, allow_tags;
    json_t *resources; /* as written, checked */
    struct param *params;
    size_t nparams;
    struct strs secrets, modules, receipts;
    json_t *environment; /* object of strings */
    bool share_group;    /* share: group */
    bool requeue; /* may be; what holds for one request is in its limits */
};

/* Limits of one request after parameters are put in. 0 or NULL: not given.
 * tasks: nodes x tasks_per_node where only these are given, as sbatch does.
 * Memory is in MiB, a part of one rounded up; partition, exclude, licenses and
 * reservation are lists with commas. Text is of A-Z a-z 0-9 and the marks that
 * its row in resource.c names, never blank, quote or newline. */
struct limits {
    char *partition, *account, *qos, *constraint, *exclude, *licenses,
        *reservation, *signal, *gpu_type;
    int64_t nodes, tasks, tasks_per_node, cpus_per_task;
    int64_t mem_per_node_mib, mem_per_cpu_mib;
    int64_t gpus_per_node, time_limit_seconds, nice;
    bool exclusive, requeue;
};
void limits_clear(struct limits *l);
int64_t limits_gpus(const struct limits *l); /* nodes x gpus_per_node */
/* Owned {"partition":..., "nodes":..., "gpus":..., "gpu_type":...,
 * "time_limit_seconds":..., ...}: the API's resources object. */
json_t *limits_json(const struct limits *l);

struct allowlist;

/* One file's tree ({version: 1, workflows: {...}}) is added to the list.
 * file/lines are for texts ("file:line: ..."). Errors ERR_CONFIG:
 * workflow_unknown_key workflow_type workflow_missing workflow_range
 * workflow_name workflow_duplicate workflow_collision workflow_reserved_env
 * workflow_env_too_large workflow_receipt workflow_resource workflow_later
 * (publish, retry, when: not supported yet, named in the text). */
struct allowlist *allowlist_new(void);
void allowlist_free(struct allowlist *a);
int allowlist_add(struct allowlist *a, const json_t *tree, const char *file,
                  const struct yaml_lines *lines, struct err *e);
size_t allowlist_count(const struct allowlist *a);
const struct workflow *allowlist_at(const struct allowlist *a, size_t i);
const struct workflow *allowlist_find(const struct allowlist *a,
                                      const char *name); /* or NULL */
/* The compiled form that a generation holds: {version, workflows: {...}} of
 * all files merged, canonical order. allowlist_add reads it back. Owned. */
json_t *allowlist_json(const struct allowlist *a);

/* Deny by default: named in users, or shares a group. */
bool workflow_allows(const struct workflow *w, const char *person,
                     const struct strs *groups);

/* Validate params (an object, NULL = {}): unknown, missing, wrong-typed,
 * out-of-range values are errors with a JSON pointer below "/params"; out is
 * the normal form with defaults filled in (owned). Codes, ERR_INVALID:
 * param_unknown param_missing param_type param_range param_enum param_length
 * param_control param_leading_dash param_path param_sha256 param_list.
 * The normal form is its own normal form and has no JSON real in it: number is
 * decimal text ("0.5"), duration is seconds, bytes is bytes.
 * number: a JSON number, or decimal text without exponent, which is exact.
 * duration: seconds, or text with ':' or '-' as sbatch --time takes it.
 * bytes: bytes, or text like "176G" (powers of 1024).
 * string, text: no C0 or C1 controls, bidi controls or U+2028/2029; text may
 * have newlines and tabs. No NUL anywhere. path: relative, no "..", no empty or
 * "." part ("lustre:///..." waits for a map of mounts: param_path); with
 * sha256 required {"path", "sha256"}. Integers only where integers are asked
 * (1.0 is refused); null is no value. */
int params_validate(const struct workflow *w, const json_t *params,
                    json_t **out, struct err *e);
/* secrets: object of strings; only declared names. ERR_INVALID
 * secret_unknown secret_type secret_length, pointer below "/secrets". */
int secrets_validate(const struct workflow *w, const json_t *secrets,
                     struct err *e);
/* Limits from validated params. ERR_INVALID workflow_resource. */
int workflow_limits(const struct workflow *w, const json_t *params,
                    struct limits *out, struct err *e);

/* JSON Schema 2020-12 of the params object. Owned. */
json_t *workflow_schema(const struct workflow *w);
/* {"name","title":{en,zh},"params":[...],"resources","secrets","receipts"}:
 * the API's workflow document. Owned. */
json_t *workflow_json(const struct workflow *w);

/* Receipt patterns: {a..b} expanded, '*' left in the last component. Owned
 * array of strings. */
json_t *workflow_receipts(const struct workflow *w);

#endif
