/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "workflows/workflow.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The design's example, less what comes later. */
static const char h3[] =
    "version: 1\n"
    "workflows:\n"
    "  h3-render:\n"
    "    title: {en: \"MiniMax H3\", zh: \"MiniMax H3 三段\"}\n"
    "    template: h3-render.sh\n"
    "    allow: {groups: [video], users: [zoe], tags: [\"tag:gpu\"]}\n"
    "    resources: {partition: v100, nodes: 3, tasks: 3, tasks_per_node: 1,\n"
    "                cpus_per_task: 80, mem_per_node: 176G,\n"
    "                gpus_per_node: {type: v100, count: {param: gpus}},\n"
    "                time: \"01:30:00\", requeue: false}\n"
    "    params:\n"
    "      gpus:         {type: integer, min: 1, max: 8, default: 8}\n"
    "      target_shape: {type: enum, values: [\"640x384\", \"512x320\"],\n"
    "                     default: \"640x384\"}\n"
    "      frames:       {type: integer, min: 1, max: 243, default: 243}\n"
    "      prompt:       {type: text, max_bytes: 4000}\n"
    "      anchors:      {type: path, list: {min: 4, max: 4},\n"
    "                     under: /mnt/data/inputs, exists: file,\n"
    "                     sha256: required}\n"
    "      scale:        {type: number, min: \"0.5\", max: 2, default: "
    "\"1.0\"}\n"
    "      warmup:       {type: duration, min: \"00:30\", max: \"01:00:00\",\n"
    "                     default: 60}\n"
    "      cache:        {type: bytes, min: 0, max: 4G, optional: true}\n"
    "      fast:         {type: boolean, default: true}\n"
    "      note:         {type: string, leading_dash: true, default: \"\"}\n"
    "    secrets: [HF_TOKEN]\n"
    "    modules: [cuda/12.4]\n"
    "    environment: {PATH: \"/usr/local/bin:/usr/bin:/bin\"}\n"
    "    share: group\n"
    "    receipts: [\"segment-{0..2}/done.json\", \"*.mp4\"]\n";

static int add(struct allowlist *a, const char *text, struct err *e)
{
    struct yaml_lines *lines = NULL;
    json_t *tree = yaml_parse(text, strlen(text), "w.yaml", &lines, e);
    if (tree == NULL)
        fail_msg("%s: %s\n%s", e->code, e->text, text);
    int r = allowlist_add(a, tree, "w.yaml", lines, e);
    json_decref(tree);
    yaml_lines_free(lines);
    return r;
}

static struct allowlist *load(const char *text)
{
    struct err e = ERR_INIT;
    struct allowlist *a = allowlist_new();
    assert_non_null(a);
    if (add(a, text, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    return a;
}

static void refused(const char *text, const char *code, const char *pointer)
{
    struct err e = ERR_INIT;
    struct allowlist *a = allowlist_new();
    if (add(a, text, &e) == 0)
        fail_msg("taken:\n%s", text);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s, not %s (%s):\n%s", e.code, code, e.text, text);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.pointer, pointer) != 0)
        fail_msg("at %s, not %s:\n%s", e.pointer, pointer, text);
    assert_int_equal(allowlist_count(a), 0);
    allowlist_free(a);
}

/* A workflow "w" of these lines, each given without indentation. */
static char *entry(const char *body)
{
    static char text[32768];
    size_t n =
        (size_t)snprintf(text, sizeof text, "version: 1\nworkflows:\n  w:\n");
    while (*body != '\0') {
        size_t len = strcspn(body, "\n");
        n += (size_t)snprintf(text + n, sizeof text - n, "    %.*s\n", (int)len,
                              body);
        body += len + (body[len] == '\n');
    }
    return text;
}

static void example(void **state)
{
    struct allowlist *a = load(h3);
    const struct workflow *w = allowlist_find(a, "h3-render");
    (void)state;
    assert_non_null(w);
    assert_string_equal(w->title_zh, "MiniMax H3 三段");
    assert_string_equal(w->template_name, "h3-render.sh");
    assert_int_equal(w->nparams, 10);
    assert_string_equal(w->params[0].name, "gpus"); /* order as written */
    assert_int_equal(w->params[4].list_max, 4);
    assert_true(w->params[4].sha256_required && w->params[4].exists_file);
    assert_string_equal(w->params[5].number_min, "0.5");
    assert_string_equal(w->params[5].number_max, "2");
    assert_int_equal(w->params[6].min, 30);
    assert_int_equal(w->params[6].max, 3600);
    assert_true(w->params[7].max == INT64_C(4) << 30);
    assert_true(w->share_group);
    assert_false(w->requeue);
    assert_null(allowlist_find(a, "h3"));
    assert_ptr_equal(allowlist_at(a, 0), w);
    assert_null(allowlist_at(a, 1));
    allowlist_free(a);
}

static void deny_by_default(void **state)
{
    struct allowlist *a = load(h3);
    const struct workflow *w = allowlist_at(a, 0);
    char *in[] = {(char[]){"audio"}, (char[]){"video"}};
    struct strs both = {in, 2}, one = {in, 1};
    (void)state;
    assert_true(workflow_allows(w, "alice", &both));
    assert_false(workflow_allows(w, "alice", &one));
    assert_false(workflow_allows(w, "alice", NULL));
    assert_true(workflow_allows(w, "zoe", NULL));
    assert_false(workflow_allows(w, NULL, NULL));
    allowlist_free(a);
    a = load(entry("template: a.sh\nresources: {}\n"));
    assert_false(workflow_allows(allowlist_at(a, 0), "zoe", &both));
    allowlist_free(a);
}

/* What a generation holds reads back as what it was made from. */
static void compiled_form(void **state)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load(h3), *b = allowlist_new();
    (void)state;
    assert_int_equal(add(a, entry("template: a.sh\nresources: {}\n"), &e), 0);
    json_t *first = allowlist_json(a);
    char *text = json_text(first);
    json_t *parsed = json_parse(text, strlen(text), 65536, &e);
    assert_non_null(parsed);
    if (allowlist_add(b, parsed, NULL, NULL, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    json_t *second = allowlist_json(b);
    char *again = json_text(second);
    assert_string_equal(text, again);
    assert_true(strstr(text, "h3-render") < strstr(text, "\"w\""));
    assert_int_equal(allowlist_count(b), 2);
    free(text);
    free(again);
    json_decref(first);
    json_decref(parsed);
    json_decref(second);
    allowlist_free(a);
    allowlist_free(b);
}

static long allocations, fail_at;

static void *scarce_malloc(size_t n)
{
    return allocations++ == fail_at ? NULL : malloc(n);
}

/* All that is made of the allowlist; NULL where memory failed. */
static json_t *everything(const json_t *tree)
{
    struct err e = ERR_INIT;
    struct allowlist *a = allowlist_new();
    json_t *parts[4] = {NULL}, *all = NULL;
    if (allowlist_add(a, tree, "w.yaml", NULL, &e) == 0) {
        parts[0] = allowlist_json(a);
        parts[1] = workflow_json(allowlist_at(a, 0));
        parts[2] = workflow_schema(allowlist_at(a, 0));
        parts[3] = workflow_receipts(allowlist_at(a, 0));
        all = json_pack("[o, o, o, o]", parts[0], parts[1], parts[2], parts[3]);
    } else {
        assert_string_equal(e.code, "no_memory");
    }
    allowlist_free(a);
    return all;
}

/* With any one of jansson's allocations failing: all of it, or an error; never
 * a workflow or a document that has lost a key (json_deep_copy before 2.14 and
 * json_object_update_missing drop keys silently). */
static void no_memory_loses_nothing(void **state)
{
    struct err e = ERR_INIT;
    json_t *tree = yaml_parse(h3, strlen(h3), "w.yaml", NULL, &e);
    json_t *whole = everything(tree);
    bool survived = false;
    (void)state;
    assert_non_null(whole);
    for (long i = 0; !survived; i++) {
        fail_at = i;
        allocations = 0;
        json_set_alloc_funcs(scarce_malloc, free);
        json_t *got = everything(tree);
        survived = allocations <= i;
        json_set_alloc_funcs(malloc, free);
        if (got != NULL && !json_equal(got, whole))
            fail_msg("allocation %ld was missed", i);
        json_decref(got);
    }
    json_decref(whole);
    json_decref(tree);
}

static void workflows_are_sorted_and_unique(void **state)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load("version: 1\nworkflows:\n"
                               "  zz: {template: a.sh, resources: {}}\n"
                               "  aa: {template: a.sh, resources: {}}\n");
    (void)state;
    assert_string_equal(allowlist_at(a, 0)->name, "aa");
    assert_int_equal(add(a,
                         "version: 1\nworkflows:\n"
                         "  mm: {template: a.sh, resources: {}}\n"
                         "  aa: {template: b.sh, resources: {}}\n",
                         &e),
                     -1);
    assert_string_equal(e.code, "workflow_duplicate");
    assert_non_null(strstr(e.text, "w.yaml:4"));
    assert_int_equal(allowlist_count(a), 2); /* mm has not come either */
    assert_null(allowlist_find(a, "mm"));
    allowlist_free(a);
}

static void files_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"workflows: {}", "workflow_missing", ""},
        {"version: 1", "workflow_missing", ""},
        {"version: 2\nworkflows: {}", "workflow_range", "/version"},
        {"version: \"1\"\nworkflows: {}", "workflow_type", "/version"},
        {"version: 1\nworkflows: []", "workflow_type", "/workflows"},
        {"version: 1\nworkflows: {}\nextra: 1", "workflow_unknown_key",
         "/extra"},
        {"version: 1\nworkflows: {W: {}}", "workflow_name", "/workflows/W"},
        {"version: 1\nworkflows: {a_b: {}}", "workflow_name", "/workflows/a_b"},
        {"version: 1\nworkflows: {a: 1}", "workflow_type", "/workflows/a"},
        {"version: 1\nworkflows: {abcdefghijklmnopqrstuvwxyz0123456789a: {}}",
         "workflow_name", "/workflows/abcdefghijklmnopqrstuvwxyz0123456789a"},
        {"[1]", "workflow_type", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        refused(rows[i][0], rows[i][1], rows[i][2]);
}

#define W "/workflows/w"
#define BASE "template: a.sh\nresources: {}\n"

static void entries_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"resources: {}", "workflow_missing", W},
        {"template: a.sh", "workflow_missing", W},
        {BASE "nope: 1", "workflow_unknown_key", W "/nope"},
        {BASE "publish: {files: []}", "workflow_later", W "/publish"},
        {BASE "retry: {on: infra}", "workflow_later", W "/retry"},
        {BASE "when: x", "workflow_later", W "/when"},
        {BASE "title: {fr: x}", "workflow_unknown_key", W "/title/fr"},
        {BASE "title: x", "workflow_type", W "/title"},
        {BASE "title: {en: \"a\\nb\"}", "workflow_name", W "/title/en"},
        {BASE "title: {en: \"\"}", "workflow_name", W "/title/en"},
        {"template: ../a.sh\nresources: {}", "workflow_name", W "/template"},
        {"template: a/b.sh\nresources: {}", "workflow_name", W "/template"},
        {"template: prelude.sh\nresources: {}", "workflow_name", W "/template"},
        {"template: .sh\nresources: {}", "workflow_name", W "/template"},
        {"template: 5\nresources: {}", "workflow_type", W "/template"},
        {BASE "allow: {group: [a]}", "workflow_unknown_key", W "/allow/group"},
        {BASE "allow: {groups: a}", "workflow_type", W "/allow/groups"},
        {BASE "allow: {groups: [\"a b\"]}", "workflow_name",
         W "/allow/groups/0"},
        {BASE "allow: {users: [a, b, a]}", "workflow_duplicate",
         W "/allow/users/2"},
        {BASE "secrets: [hf]", "workflow_name", W "/secrets/0"},
        {BASE "secrets: [LD_PRELOAD]", "workflow_reserved_env", W "/secrets"},
        {BASE "secrets: [PATH]", "workflow_reserved_env", W "/secrets"},
        {BASE "secrets: [A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P,Q]", "workflow_range",
         W "/secrets"},
        {BASE "modules: [\"-x\"]", "workflow_name", W "/modules/0"},
        {BASE "modules: [\"a;b\"]", "workflow_name", W "/modules/0"},
        {BASE "environment: []", "workflow_type", W "/environment"},
        {BASE "environment: {A: 1}", "workflow_type", W "/environment/A"},
        {BASE "environment: {\"A B\": x}", "workflow_name",
         W "/environment/A B"},
        {BASE "environment: {A: \"x\\ny\"}", "workflow_name",
         W "/environment/A"},
        {BASE "secrets: [TOKEN]\nenvironment: {TOKEN: x}", "workflow_collision",
         W},
        {BASE "share: all", "workflow_type", W "/share"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        refused(entry(rows[i][0]), rows[i][1], rows[i][2]);
}

static void reserved_variables(void **state)
{
    static const char *const names[] = {
        "BASH_ENV",   "ENV",       "LD_PRELOAD", "LD_LIBRARY_PATH",
        "SLURM_CONF", "SLURM_JWT", "SLUICE_P_x", "BASH_FUNC_x",
        "SHELLOPTS",  "BASHOPTS",  "PS4",        "HOME",
        "USER",       "LOGNAME",   "SHELL",      "IFS"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        char body[128], at[64];
        (void)snprintf(body, sizeof body, BASE "environment: {%s: x}",
                       names[i]);
        (void)snprintf(at, sizeof at, W "/environment/%s", names[i]);
        refused(entry(body), "workflow_reserved_env", at);
    }
    allowlist_free(load(
        entry(BASE "environment: {PATH: /bin, LANG: C, PYTHONNOUSERSITE: \"\", "
                   "LDFLAGS: x, ENVIRON: x}")));
}

/* {body of params.x, code, pointer below the entry} */
static void params_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"{}", "workflow_missing", ""},
        {"{type: float}", "workflow_type", "/type"},
        {"{type: integer, when: y}", "workflow_later", "/when"},
        {"{type: integer, unit: y}", "workflow_unknown_key", "/unit"},
        {"{type: integer, max_bytes: 3}", "workflow_unknown_key", "/max_bytes"},
        {"{type: integer, values: [a]}", "workflow_unknown_key", "/values"},
        {"{type: boolean, min: 0}", "workflow_type", "/min"},
        {"{type: string, under: inputs}", "workflow_unknown_key", "/under"},
        {"{type: string, sha256: required}", "workflow_unknown_key", "/sha256"},
        {"{type: integer, min: 2, max: 1}", "workflow_range", ""},
        {"{type: integer, min: a}", "workflow_type", "/min"},
        {"{type: number, min: \"1.5\", max: \"1.25\"}", "workflow_range", ""},
        {"{type: number, min: \"1e3\"}", "workflow_type", "/min"},
        {"{type: number, min: \".5\"}", "workflow_type", "/min"},
        {"{type: duration, min: \"90\"}", "workflow_type", "/min"},
        {"{type: bytes, max: 5X}", "workflow_type", "/max"},
        {"{type: enum}", "workflow_missing", ""},
        {"{type: enum, values: []}", "workflow_range", ""},
        {"{type: enum, values: [1]}", "workflow_type", "/values/0"},
        {"{type: enum, values: [a, a]}", "workflow_duplicate", "/values/1"},
        {"{type: enum, values: [\"-a\"]}", "workflow_range", ""},
        {"{type: path}", "workflow_missing", ""},
        {"{type: path, under: data}", "workflow_name", "/under"},
        {"{type: path, under: /}", "workflow_name", "/under"},
        {"{type: path, under: /a/../b}", "workflow_name", "/under"},
        {"{type: path, under: /a/}", "workflow_name", "/under"},
        {"{type: path, under: inputs, exists: yes}", "workflow_type",
         "/exists"},
        {"{type: path, under: inputs, sha256: optional}", "workflow_type",
         "/sha256"},
        {"{type: text, max_bytes: 16385}", "workflow_range", "/max_bytes"},
        {"{type: text, max_bytes: 0}", "workflow_range", "/max_bytes"},
        {"{type: integer, list: true}", "workflow_type", "/list"},
        {"{type: integer, list: {max: 3}}", "workflow_missing", "/list"},
        {"{type: integer, list: {min: 4, max: 3}}", "workflow_range", "/list"},
        {"{type: integer, list: {min: 0, max: 257}}", "workflow_range",
         "/list/max"},
        {"{type: integer, max: 3, default: 4}", "workflow_range", ""},
        {"{type: integer, default: \"3\"}", "workflow_type", ""},
        {"{type: string, default: \"-x\"}", "workflow_range", ""},
        {"{type: integer, list: {min: 1, max: 2}, default: []}",
         "workflow_range", ""},
        {"{type: integer, default: 3, optional: true}", "workflow_range", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[256], at[128];
        (void)snprintf(body, sizeof body, BASE "params: {x: %s}", rows[i][0]);
        (void)snprintf(at, sizeof at, W "/params/x%s", rows[i][2]);
        refused(entry(body), rows[i][1], at);
    }
}

static void param_names(void **state)
{
    static const char *const names[] = {
        "X", "_x", "0x", "x-y", "x_COUNT", "abcdefghijklmnopqrstuvwxyz012345"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        char body[128], at[128];
        (void)snprintf(body, sizeof body, BASE "params: {\"%s\": {type: text}}",
                       names[i]);
        (void)snprintf(at, sizeof at, W "/params/%s", names[i]);
        refused(entry(body), "workflow_name", at);
    }
}

static void collisions(void **state)
{
    (void)state;
    refused(entry(BASE "params:\n"
                       "  x: {type: integer, list: {min: 0, max: 2}}\n"
                       "  x_7: {type: integer}\n"),
            "workflow_collision", W);
    refused(entry(BASE "params:\n"
                       "  x_0: {type: integer}\n"
                       "  x: {type: integer, list: {min: 0, max: 2}}\n"),
            "workflow_collision", W);
    allowlist_free(
        load(entry(BASE "params:\n"
                        "  x: {type: integer}\n"
                        "  x_0: {type: integer}\n"
                        "  y: {type: integer, list: {min: 0, max: 2}}\n"
                        "  y_count: {type: integer}\n"
                        "  y_0a: {type: integer}\n")));
}

static void the_environment_must_fit(void **state)
{
    (void)state;
    refused(entry(BASE "params:\n"
                       "  a: {type: text, max_bytes: 16384}\n"
                       "  b: {type: text, max_bytes: 16384}\n"
                       "  c: {type: text, max_bytes: 16384}\n"),
            "workflow_env_too_large", W);
    refused(entry(BASE "params: {a: {type: string, max_bytes: 200, "
                       "list: {min: 0, max: 256}}}"),
            "workflow_env_too_large", W);
    allowlist_free(load(entry(BASE "params:\n"
                                   "  a: {type: text, max_bytes: 16384}\n"
                                   "  b: {type: text, max_bytes: 16384}\n"
                                   "  c: {type: text, max_bytes: 16200}\n")));
}

static void too_many_params(void **state)
{
    char body[8192];
    size_t n = (size_t)snprintf(body, sizeof body, BASE "params:\n");
    (void)state;
    for (int i = 0; i <= WORKFLOW_PARAMS_MAX; i++)
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "  p%d: {type: boolean}\n", i);
    refused(entry(body), "workflow_range", W "/params");
}

/* --- receipts ------------------------------------------------------------ */

static void receipts(const char *list, const char *expected)
{
    char body[1024];
    (void)snprintf(body, sizeof body, BASE "receipts: %s", list);
    struct allowlist *a = load(entry(body));
    json_t *all = workflow_receipts(allowlist_at(a, 0));
    char *text = json_text(all);
    assert_string_equal(text, expected);
    free(text);
    json_decref(all);
    allowlist_free(a);
}

static void receipts_are_expanded(void **state)
{
    (void)state;
    receipts("[]", "[]");
    receipts("[a.json]", "[\"a.json\"]");
    receipts("[\"s-{0..2}/done.json\"]",
             "[\"s-0/done.json\",\"s-1/done.json\",\"s-2/done.json\"]");
    receipts("[\"{08..10}-{1..2}\"]",
             "[\"08-1\",\"08-2\",\"09-1\",\"09-2\",\"10-1\",\"10-2\"]");
    receipts("[\"x{9..11}/*.mp4\"]",
             "[\"x9/*.mp4\",\"x10/*.mp4\",\"x11/*.mp4\"]");
    receipts("[\"{0..1}\", \"1\"]", "[\"0\",\"1\"]"); /* each once */
}

static void receipts_are_refused(void **state)
{
    static const char *const patterns[] = {
        "/a",        "../a",        "a/../b",   "a//b",     "a/",
        ".",         "a*/b",        "{2..1}",   "{a..b}",   "{1..}",
        "{1,2}",     "{1..2",       "1..2}",    "{{1..2}}", "{0..99999}",
        "{1..2..3}", "{000000..1}", "{0..1}*/b"};
    (void)state;
    for (size_t i = 0; i < COUNT(patterns); i++) {
        char body[128];
        (void)snprintf(body, sizeof body, BASE "receipts: [\"%s\"]",
                       patterns[i]);
        struct err e = ERR_INIT;
        struct allowlist *a = allowlist_new();
        if (add(a, entry(body), &e) == 0)
            fail_msg("taken: %s", patterns[i]);
        if (strcmp(e.code, "workflow_receipt") != 0 &&
            strcmp(e.code, "workflow_name") != 0)
            fail_msg("%s: %s", patterns[i], e.code);
        allowlist_free(a);
    }
    refused(entry(BASE "receipts: [\"a b\"]"), "workflow_name",
            W "/receipts/0");
    refused(entry(BASE "receipts: [\"$(id)\"]"), "workflow_name",
            W "/receipts/0");
    refused(entry(BASE "receipts: [\"../a\"]"), "workflow_receipt",
            W "/receipts");
}

/* --- resources ----------------------------------------------------------- */

static json_t *limits_of(const char *resources, const char *params,
                         const char *given, struct err *e)
{
    char body[2048];
    struct limits l;
    (void)snprintf(body, sizeof body,
                   "template: a.sh\nresources: %s\nparams: %s", resources,
                   params);
    struct allowlist *a = load(entry(body));
    json_t *in = json_parse(given, strlen(given), 4096, e), *normal = NULL;
    assert_non_null(in);
    if (params_validate(allowlist_at(a, 0), in, &normal, e) != 0)
        fail_msg("%s: %s", e->code, e->text);
    json_t *out = NULL;
    if (workflow_limits(allowlist_at(a, 0), normal, &l, e) == 0) {
        out = limits_json(&l);
        limits_clear(&l);
    }
    json_decref(in);
    json_decref(normal);
    allowlist_free(a);
    return out;
}

/* key of limits_json -> its value as JSON text */
static void resource(const char *resources, const char *key,
                     const char *expected)
{
    struct err e = ERR_INIT;
    json_t *l = limits_of(resources, "{}", "{}", &e);
    assert_non_null(l);
    char *text = json_dumps(json_object_get(l, key), JSON_ENCODE_ANY);
    if (text == NULL || strcmp(text, expected) != 0)
        fail_msg("%s: %s is %s, not %s", resources, key, text, expected);
    free(text);
    json_decref(l);
}

static void every_resource_fixed(void **state)
{
    static const char *const rows[][3] = {
        {"{partition: v100}", "partition", "\"v100\""},
        {"{partition: [v100, a100]}", "partition", "\"v100,a100\""},
        {"{}", "partition", "null"},
        {"{account: lab_a}", "account", "\"lab_a\""},
        {"{qos: high.prio}", "qos", "\"high.prio\""},
        {"{nodes: 3}", "nodes", "3"},
        {"{}", "nodes", "null"},
        {"{tasks: 7}", "tasks", "7"},
        {"{nodes: 3, tasks_per_node: 4}", "tasks", "12"},
        {"{nodes: 3, tasks_per_node: 4, tasks: 5}", "tasks", "5"},
        {"{tasks_per_node: 4}", "tasks_per_node", "4"},
        {"{cpus_per_task: 80}", "cpus_per_task", "80"},
        {"{mem_per_node: 176G}", "mem_per_node_mib", "180224"},
        {"{mem_per_node: 1K}", "mem_per_node_mib", "1"},
        {"{mem_per_node: 1025K}", "mem_per_node_mib", "2"},
        {"{mem_per_cpu: 500M}", "mem_per_cpu_mib", "500"},
        {"{nodes: 2, gpus_per_node: 8}", "gpus", "16"},
        {"{nodes: 2, gpus_per_node: {type: v100, count: 8}}", "gpus", "16"},
        {"{nodes: 2, gpus_per_node: {type: v100, count: 8}}", "gpu_type",
         "\"v100\""},
        {"{}", "gpus", "0"},
        {"{time: \"01:30:00\"}", "time_limit_seconds", "5400"},
        {"{time: \"2-12\"}", "time_limit_seconds", "216000"},
        {"{}", "time_limit_seconds", "null"},
        {"{constraint: \"[rack1*2&rack2*4]\"}", "constraint",
         "\"[rack1*2&rack2*4]\""},
        {"{exclude: \"gpu[01-03],gpu07\"}", "exclude", "\"gpu[01-03],gpu07\""},
        {"{licenses: [\"matlab:2\", \"foo@srv:1\"]}", "licenses",
         "\"matlab:2,foo@srv:1\""},
        {"{reservation: maint}", "reservation", "\"maint\""},
        {"{exclusive: true}", "exclusive", "true"},
        {"{}", "exclusive", "false"},
        {"{signal: \"B:USR1@60\"}", "signal", "\"B:USR1@60\""},
        {"{signal: RB:10}", "signal", "\"RB:10\""},
        {"{signal: BUS@5}", "signal", "\"BUS@5\""},
        {"{nice: 100}", "nice", "100"},
        {"{requeue: true}", "requeue", "true"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        resource(rows[i][0], rows[i][1], rows[i][2]);
}

static void every_resource_opened(void **state)
{
    static const char *const rows[][4] = {
        {"partition", "{type: enum, values: [a, b]}", "\"b\"", "\"b\""},
        {"account", "{type: enum, values: [a, b]}", "\"a\"", "\"a\""},
        {"qos", "{type: enum, values: [a]}", "\"a\"", "\"a\""},
        {"nodes", "{type: integer, min: 1, max: 14}", "14", "14"},
        {"tasks", "{type: integer, min: 1, max: 14}", "3", "3"},
        {"tasks_per_node", "{type: integer, min: 1, max: 9}", "3", "3"},
        {"cpus_per_task", "{type: integer, min: 1, max: 9}", "3", "3"},
        {"mem_per_node", "{type: bytes, min: 1M, max: 4G}", "\"3G\"", "3072"},
        {"mem_per_cpu", "{type: bytes, min: 1M, max: 4G}", "1048577", "2"},
        {"time", "{type: duration, min: 60, max: \"1-00\"}", "\"01:00\"", "60"},
        {"constraint", "{type: enum, values: [\"a&b\"]}", "\"a&b\"", "\"a&b\""},
        {"exclude", "{type: enum, values: [gpu01]}", "\"gpu01\"", "\"gpu01\""},
        {"licenses", "{type: enum, values: [\"a:1\"]}", "\"a:1\"", "\"a:1\""},
        {"reservation", "{type: enum, values: [r]}", "\"r\"", "\"r\""},
        {"exclusive", "{type: boolean}", "true", "true"},
        {"signal", "{type: enum, values: [USR1]}", "\"USR1\"", "\"USR1\""},
        {"nice", "{type: integer, min: 0, max: 5}", "5", "5"},
        {"requeue", "{type: boolean}", "true", "true"},
    };
    static const char *const names[][2] = {{"mem_per_node", "mem_per_node_mib"},
                                           {"mem_per_cpu", "mem_per_cpu_mib"},
                                           {"time", "time_limit_seconds"}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err e = ERR_INIT;
        char r[96], p[128], given[64];
        const char *key = rows[i][0];
        (void)snprintf(r, sizeof r, "{%s: {param: x}}", key);
        (void)snprintf(p, sizeof p, "{x: %s}", rows[i][1]);
        (void)snprintf(given, sizeof given, "{\"x\": %s}", rows[i][2]);
        json_t *l = limits_of(r, p, given, &e);
        if (l == NULL)
            fail_msg("%s: %s", key, e.text);
        for (size_t k = 0; k < COUNT(names); k++)
            key = strcmp(key, names[k][0]) == 0 ? names[k][1] : key;
        char *text = json_dumps(json_object_get(l, key), JSON_ENCODE_ANY);
        if (text == NULL || strcmp(text, rows[i][3]) != 0)
            fail_msg("%s is %s, not %s", key, text, rows[i][3]);
        free(text);
        json_decref(l);
    }
}

static void gpus_opened(void **state)
{
    struct err e = ERR_INIT;
    json_t *l =
        limits_of("{nodes: {param: n}, gpus_per_node: {type: {param: t}, "
                  "count: {param: g}}}",
                  "{n: {type: integer, min: 1, max: 14}, "
                  "g: {type: integer, min: 0, max: 8}, "
                  "t: {type: enum, values: [v100, a100]}}",
                  "{\"n\": 14, \"g\": 8, \"t\": \"a100\"}", &e);
    (void)state;
    assert_int_equal(json_integer_value(json_object_get(l, "gpus")), 112);
    assert_string_equal(json_string_value(json_object_get(l, "gpu_type")),
                        "a100");
    json_decref(l);
    l = limits_of("{nodes: 1, gpus_per_node: {param: g}}",
                  "{g: {type: integer, min: 0, max: 8, default: 0}}", "{}", &e);
    assert_int_equal(json_integer_value(json_object_get(l, "gpus")), 0);
    json_decref(l);
}

static void too_many_tasks(void **state)
{
    struct err e = ERR_INIT;
    (void)state;
    assert_null(
        limits_of("{nodes: 65000, tasks_per_node: 65000}", "{}", "{}", &e));
    assert_int_equal(e.class, ERR_INVALID);
    assert_string_equal(e.code, "workflow_resource");
}

static void resources_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"[]", "workflow_type", ""},
        {"{gpus: 3}", "workflow_unknown_key", "/gpus"},
        {"{nodes: \"3\"}", "workflow_type", "/nodes"},
        {"{nodes: 0}", "workflow_resource", "/nodes"},
        {"{nodes: 70000}", "workflow_resource", "/nodes"},
        {"{tasks: -1}", "workflow_resource", "/tasks"},
        {"{nice: -1}", "workflow_resource", "/nice"},
        {"{time: 90}", "workflow_type", "/time"},
        {"{time: \"90\"}", "workflow_resource", "/time"},
        {"{time: \"00:00\"}", "workflow_resource", "/time"},
        {"{time: \"1000-00\"}", "workflow_resource", "/time"},
        {"{mem_per_node: 176000}", "workflow_type", "/mem_per_node"},
        {"{mem_per_node: \"176000\"}", "workflow_resource", "/mem_per_node"},
        {"{mem_per_node: 0G}", "workflow_resource", "/mem_per_node"},
        {"{mem_per_node: 9999T}", "workflow_resource", "/mem_per_node"},
        {"{mem_per_node: 1G, mem_per_cpu: 1G}", "workflow_resource", ""},
        {"{partition: \"a b\"}", "workflow_resource", "/partition"},
        {"{partition: \"a,b\"}", "workflow_resource", "/partition"},
        {"{partition: \"-a\"}", "workflow_resource", "/partition"},
        {"{partition: \"a\\n#SBATCH -A x\"}", "workflow_resource",
         "/partition"},
        {"{partition: []}", "workflow_type", "/partition"},
        {"{partition: [a, 1]}", "workflow_resource", "/partition"},
        {"{account: [a]}", "workflow_type", "/account"},
        {"{constraint: \"a b\"}", "workflow_resource", "/constraint"},
        {"{signal: \"B:\"}", "workflow_resource", "/signal"},
        {"{signal: \"usr1\"}", "workflow_resource", "/signal"},
        {"{signal: \"USR1@\"}", "workflow_resource", "/signal"},
        {"{signal: \"USR1@99999\"}", "workflow_resource", "/signal"},
        {"{exclusive: 1}", "workflow_type", "/exclusive"},
        {"{gpus_per_node: 8}", "workflow_resource", ""},
        {"{nodes: 1, gpus_per_node: {type: v100}}", "workflow_missing",
         "/gpus_per_node"},
        {"{nodes: 1, gpus_per_node: {type: v100, count: 1, x: 1}}",
         "workflow_unknown_key", "/gpus_per_node/x"},
        {"{nodes: 1, gpus_per_node: {type: \"v100:8\", count: 1}}",
         "workflow_resource", "/gpus_per_node/type"},
        {"{nodes: 1, gpus_per_node: \"v100:8\"}", "workflow_type",
         "/gpus_per_node"},
        {"{nodes: {param: none}}", "workflow_resource", "/nodes"},
        {"{nodes: {param: i, x: 1}}", "workflow_type", "/nodes"},
        {"{nodes: {param: open}}", "workflow_resource", "/nodes"},
        {"{nodes: {param: low}}", "workflow_resource", "/nodes"},
        {"{nodes: {param: list}}", "workflow_resource", "/nodes"},
        {"{nodes: {param: opt}}", "workflow_resource", "/nodes"},
        {"{nodes: {param: e}}", "workflow_resource", "/nodes"},
        {"{time: {param: i}}", "workflow_resource", "/time"},
        {"{time: {param: d0}}", "workflow_resource", "/time"},
        {"{mem_per_node: {param: i}}", "workflow_resource", "/mem_per_node"},
        {"{partition: {param: bad}}", "workflow_resource", "/partition"},
        {"{partition: {param: s}}", "workflow_resource", "/partition"},
        {"{exclusive: {param: i}}", "workflow_resource", "/exclusive"},
    };
    static const char params[] =
        "params:\n"
        "  i: {type: integer, min: 1, max: 3}\n"
        "  open: {type: integer, min: 1}\n"
        "  low: {type: integer, min: 0, max: 3}\n"
        "  list: {type: integer, min: 1, max: 3, list: {min: 1, max: 2}}\n"
        "  opt: {type: integer, min: 1, max: 3, optional: true}\n"
        "  e: {type: enum, values: [a]}\n"
        "  bad: {type: enum, values: [a, \"b c\"]}\n"
        "  s: {type: string}\n"
        "  d0: {type: duration, min: 0, max: 60}\n";
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char body[2048], at[128];
        (void)snprintf(body, sizeof body, "template: a.sh\nresources: %s\n%s",
                       rows[i][0], params);
        (void)snprintf(at, sizeof at, W "/resources%s", rows[i][2]);
        refused(entry(body), rows[i][1], at);
    }
}

static void errors_name_file_and_line(void **state)
{
    struct err e = ERR_INIT;
    struct allowlist *a = allowlist_new();
    (void)state;
    assert_int_equal(
        add(a, entry("template: a.sh\nresources:\n  nodes: 0\n"), &e), -1);
    if (strstr(e.text, "w.yaml:6: /workflows/w/resources/nodes: ") == NULL)
        fail_msg("%s", e.text);
    allowlist_free(a);
}

static void documents(void **state)
{
    struct allowlist *a = load(h3);
    json_t *o = workflow_json(allowlist_at(a, 0));
    (void)state;
    json_t *p = json_array_get(json_object_get(o, "params"), 3);
    assert_string_equal(json_string_value(json_object_get(p, "name")),
                        "prompt");
    assert_true(json_is_true(json_object_get(p, "required")));
    assert_string_equal(json_string_value(json_object_get(o, "name")),
                        "h3-render");
    assert_non_null(json_object_get(json_object_get(o, "title"), "en"));
    assert_null(json_object_get(o, "allow")); /* not the caller's business */
    json_decref(o);
    allowlist_free(a);
}

static void shipped(struct allowlist *a, const char *name)
{
    char path[512];
    struct err e = ERR_INIT;
    size_t n = 0;
    (void)snprintf(path, sizeof path, SLUICE_SOURCE_DIR "/workflows/%s.yaml",
                   name);
    char *text = file_read(AT_FDCWD, path, YAML_BYTES_MAX, &n, &e);
    if (text == NULL || add(a, text, &e) != 0)
        fail_msg("%s: %s: %s", path, e.code, e.text);
    free(text);
    assert_non_null(allowlist_find(a, name));
}

static void shipped_workflows(void **state)
{
    static const char *const names[] = {"gpu-canary", "fleet-acceptance",
                                        "media-probe"};
    static const int gpus[] = {1, 112, 0};
    struct allowlist *a = allowlist_new();
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        shipped(a, names[i]);
    for (size_t i = 0; i < COUNT(names); i++) {
        struct err e = ERR_INIT;
        struct limits l;
        json_t *normal = NULL;
        const struct workflow *w = allowlist_find(a, names[i]);
        json_t *in = i == 2 ? json_pack("{s:s}", "input", "sample.mp4") : NULL;
        if (params_validate(w, in, &normal, &e) != 0 ||
            workflow_limits(w, normal, &l, &e) != 0)
            fail_msg("%s: %s %s", names[i], e.code, e.text);
        assert_int_equal(limits_gpus(&l), gpus[i]);
        assert_non_null(w->title_zh);
        limits_clear(&l);
        json_decref(in);
        json_decref(normal);
    }
    allowlist_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example),
        cmocka_unit_test(deny_by_default),
        cmocka_unit_test(compiled_form),
        cmocka_unit_test(no_memory_loses_nothing),
        cmocka_unit_test(workflows_are_sorted_and_unique),
        cmocka_unit_test(files_are_refused),
        cmocka_unit_test(entries_are_refused),
        cmocka_unit_test(reserved_variables),
        cmocka_unit_test(params_are_refused),
        cmocka_unit_test(param_names),
        cmocka_unit_test(collisions),
        cmocka_unit_test(the_environment_must_fit),
        cmocka_unit_test(too_many_params),
        cmocka_unit_test(receipts_are_expanded),
        cmocka_unit_test(receipts_are_refused),
        cmocka_unit_test(every_resource_fixed),
        cmocka_unit_test(every_resource_opened),
        cmocka_unit_test(gpus_opened),
        cmocka_unit_test(too_many_tasks),
        cmocka_unit_test(resources_are_refused),
        cmocka_unit_test(errors_name_file_and_line),
        cmocka_unit_test(documents),
        cmocka_unit_test(shipped_workflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
