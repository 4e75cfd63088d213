/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "templates/render.h"
#include "workflows/types.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ULID "01J9ZQ4Y8N5V3K7T2M6R0W1XAB"
#define LOWER "01j9zq4y8n5v3k7t2m6r0w1xab"
#define SHA "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb00000000000000001111111111111111"

static char folder[] = "/tmp/sluice-render-XXXXXX";
static int templates = -1;

static void write_file(const char *name, const char *text, size_t n)
{
    struct err e = ERR_INIT;
    if (file_write(templates, name, text, n, 0644, (uid_t)-1, (gid_t)-1, &e) !=
        0)
        fail_msg("%s: %s", name, e.text);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    templates = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return templates < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"prelude.sh",
                                        "t.sh",
                                        "script.sh",
                                        "secrets.env",
                                        "inputs/a/b.bin",
                                        "inputs/a",
                                        "inputs",
                                        "results/out.txt",
                                        "results/list-1.json",
                                        "results/list-2.json",
                                        "results/sluice-error.json",
                                        "results"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (unlinkat(templates, names[i], 0) != 0)
            (void)unlinkat(templates, names[i], AT_REMOVEDIR);
    }
    close(templates);
    return rmdir(folder);
}

static struct allowlist *load(const char *body)
{
    struct err e = ERR_INIT;
    char text[4096];
    int n =
        snprintf(text, sizeof text,
                 "version: 1\nworkflows: {w-1: {template: t.sh, %s}}", body);
    json_t *tree = yaml_parse(text, (size_t)n, "w.yaml", NULL, &e);
    struct allowlist *a = allowlist_new();
    if (tree == NULL || allowlist_add(a, tree, "w.yaml", NULL, &e) != 0)
        fail_msg("%s: %s\n%s", e.code, e.text, text);
    json_decref(tree);
    return a;
}

static struct render_job job(void)
{
    return (struct render_job){.ulid = ULID,
                               .slurm_name = "w-1." LOWER,
                               .run_dir = "/jobs/alice/" ULID,
                               .user = "alice",
                               .home = "/home/alice",
                               .shell = "/bin/zsh",
                               .inputs_dir = "/mnt/inputs",
                               .models_dir = "/mnt/models",
                               .submit_host = "head",
                               .has_sidecar = true};
}

static json_t *normal(const struct workflow *w, const char *given)
{
    struct err e = ERR_INIT;
    json_t *in = json_loads(given, 0, NULL), *out = NULL;
    assert_non_null(in);
    if (params_validate(w, in, &out, &e) != 0)
        fail_msg("%s: %s %s", given, e.code, e.text);
    json_decref(in);
    return out;
}

static void limits(const struct workflow *w, const json_t *params,
                   struct limits *out)
{
    struct err e = ERR_INIT;
    if (workflow_limits(w, params, out, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
}

/* --- the script ---------------------------------------------------------- */

#define FULL                                                                   \
    "resources: {partition: [v100, a100], account: lab, qos: high, nodes: 3, " \
    "tasks: 3, tasks_per_node: 1, cpus_per_task: 80, mem_per_node: 176G, "     \
    "gpus_per_node: {type: v100, count: 8}, time: \"1-01:30:05\", "            \
    "constraint: \"a&b\", exclude: \"gpu[01-03]\", licenses: [\"l:1\"], "      \
    "reservation: r, exclusive: true, signal: \"B:USR1@60\", nice: 7, "        \
    "requeue: true}"

static void script(const char *body, const char *expected)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load(body);
    const struct workflow *w = allowlist_at(a, 0);
    struct render_job j = job();
    struct limits l;
    struct buf out;
    limits(w, NULL, &l);
    buf_init(&out, RENDER_SCRIPT_MAX);
    if (render_script(templates, w, &l, &j, &out, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    assert_string_equal(buf_str(&out), expected);
    buf_clear(&out);
    limits_clear(&l);
    allowlist_free(a);
}

static void scripts(void **state)
{
    (void)state;
    write_text("prelude.sh", "# prelude\nset -eu\n");
    write_text("t.sh", "# body\necho \"$SLUICE_P_x\" \xe4\xb8\x89\n\n");
    script(FULL, "#!/bin/bash\n"
                 "#SBATCH --job-name=w-1." LOWER "\n"
                 "#SBATCH --partition=v100,a100\n"
                 "#SBATCH --account=lab\n"
                 "#SBATCH --qos=high\n"
                 "#SBATCH --constraint=a&b\n"
                 "#SBATCH --exclude=gpu[01-03]\n"
                 "#SBATCH --licenses=l:1\n"
                 "#SBATCH --reservation=r\n"
                 "#SBATCH --signal=B:USR1@60\n"
                 "#SBATCH --nodes=3\n"
                 "#SBATCH --ntasks=3\n"
                 "#SBATCH --ntasks-per-node=1\n"
                 "#SBATCH --cpus-per-task=80\n"
                 "#SBATCH --mem=180224M\n"
                 "#SBATCH --time=1-01:30:05\n"
                 "#SBATCH --nice=7\n"
                 "#SBATCH --exclusive\n"
                 "#SBATCH --requeue\n"
                 "#SBATCH --gpus-per-node=v100:8\n"
                 "# prelude\nset -eu\n"
                 "# body\necho \"$SLUICE_P_x\" \xe4\xb8\x89\n\n");
    script("resources: {nodes: 1, mem_per_cpu: 2G, gpus_per_node: 1}",
           "#!/bin/bash\n"
           "#SBATCH --job-name=w-1." LOWER "\n"
           "#SBATCH --nodes=1\n"
           "#SBATCH --mem-per-cpu=2048M\n"
           "#SBATCH --no-requeue\n"
           "#SBATCH --gpus-per-node=1\n"
           "# prelude\nset -eu\n"
           "# body\necho \"$SLUICE_P_x\" \xe4\xb8\x89\n\n");
    write_text("prelude.sh", "# prelude");
    write_text("t.sh", "true");
    script("resources: {}", "#!/bin/bash\n#SBATCH --job-name=w-1." LOWER
                            "\n#SBATCH --no-requeue\n# prelude\ntrue\n");
}

static void script_refused(const struct limits *l, const struct render_job *j,
                           const char *code, enum err_class class)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load("resources: {}");
    struct buf out;
    buf_init(&out, RENDER_SCRIPT_MAX);
    assert_int_equal(
        render_script(templates, allowlist_at(a, 0), l, j, &out, &e), -1);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s, not %s: %s", e.code, code, e.text);
    assert_int_equal(e.class, class);
    assert_string_equal(buf_str(&out), "");
    buf_clear(&out);
    allowlist_free(a);
}

static void templates_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        const char *code;
    } rows[] = {
        {"", 0, "template_missing"},
        {"a\0b\n", 4, "template_nul"},
        {"echo\r\n", 6, "template_crlf"},
        {"a\rb\n", 4, "template_crlf"},
        {"#!/usr/bin/python3\n", 19, "template_shebang"},
        {"#!/bin/bash -x\n", 15, "template_shebang"},
        {"#!", 2, "template_shebang"},
    };
    struct limits l = {.nodes = 0};
    struct render_job j = job();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        write_text("prelude.sh", "# prelude\n");
        write_file("t.sh", rows[i].text, rows[i].n);
        script_refused(&l, &j, rows[i].code, ERR_CONFIG);
        write_text("t.sh", "true\n");
        write_file("prelude.sh", rows[i].text, rows[i].n);
        script_refused(&l, &j, rows[i].code, ERR_CONFIG);
    }
}

static void templates_are_missing_or_large(void **state)
{
    struct limits l = {.nodes = 0};
    struct render_job j = job();
    char *large = malloc(RENDER_SCRIPT_MAX + 1);
    (void)state;
    assert_non_null(large);
    memset(large, '#', RENDER_SCRIPT_MAX + 1);
    write_text("prelude.sh", "# prelude\n");
    unlinkat(templates, "t.sh", 0);
    script_refused(&l, &j, "template_missing", ERR_CONFIG);
    assert_int_equal(symlinkat("prelude.sh", templates, "t.sh"), 0);
    script_refused(&l, &j, "template_missing", ERR_CONFIG);
    unlinkat(templates, "t.sh", 0);
    write_file("t.sh", large, RENDER_SCRIPT_MAX + 1);
    script_refused(&l, &j, "template_too_large", ERR_CONFIG);
    write_file("t.sh", large, RENDER_SCRIPT_MAX - 8); /* with the rest */
    script_refused(&l, &j, "template_too_large", ERR_CONFIG);
    free(large);
}

/* account and qos may come from elsewhere than the allowlist. */
static void words_are_checked_again(void **state)
{
    char *const bad[] = {(char[]){"a b"},   (char[]){"a\nrm -rf"},
                         (char[]){"$(id)"}, (char[]){"-x"},
                         (char[]){""},      (char[]){"a\"b"},
                         (char[]){"`id`"},  (char[]){"\xe4\xb8\x89"}};
    struct render_job j = job();
    (void)state;
    write_text("prelude.sh", "# prelude\n");
    write_text("t.sh", "true\n");
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct limits l = {.account = bad[i]};
        script_refused(&l, &j, "render_word", ERR_INTERNAL);
        l = (struct limits){.gpu_type = bad[i], .gpus_per_node = 1};
        script_refused(&l, &j, "render_word", ERR_INTERNAL);
        struct render_job named = job();
        l = (struct limits){.nodes = 0};
        named.slurm_name = bad[i];
        script_refused(&l, &named, "render_word", ERR_INTERNAL);
    }
}

/* --- the environment ----------------------------------------------------- */

static const char *get(const struct strs *env, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (size_t i = 0; i < env->n; i++) {
        if (strncmp(env->v[i], name, n) == 0 && env->v[i][n] == '=') {
            if (found != NULL)
                fail_msg("%s is there twice", name);
            found = env->v[i] + n + 1;
        }
    }
    return found;
}

static void is(const struct strs *env, const char *name, const char *expected)
{
    const char *v = get(env, name);
    if (expected == NULL ? v != NULL : v == NULL || strcmp(v, expected) != 0)
        fail_msg("%s is %s, not %s", name, v, expected);
}

static void environment(const char *body, const char *given,
                        const struct render_job *j, struct strs *out)
{
    struct err e = ERR_INIT;
    struct allowlist *a = load(body);
    const struct workflow *w = allowlist_at(a, 0);
    json_t *params = normal(w, given);
    struct limits l;
    limits(w, params, &l);
    if (render_env(w, params, &l, j, out, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    limits_clear(&l);
    json_decref(params);
    allowlist_free(a);
}

static void who_and_where(void **state)
{
    static const char *const expected[][2] = {
        {"HOME", "/home/alice"},
        {"USER", "alice"},
        {"LOGNAME", "alice"},
        {"SHELL", "/bin/zsh"},
        {"LANG", "C.UTF-8"},
        {"PATH", "/opt/bin:/bin"},
        {"PYTHONNOUSERSITE", "1"},
        {"SLURM_UMASK", "0077"},
        {"SLURM_SUBMIT_DIR", "/jobs/alice/" ULID},
        {"SLURM_SUBMIT_HOST", "head"},
        {"SLURM_JOB_NAME", "w-1." LOWER},
        {"SLURM_PRIO_PROCESS", "0"},
        {"SLURM_NTASKS", "3"},
        {"SLURM_NPROCS", "3"},
        {"SLURM_NTASKS_PER_NODE", "1"},
        {"SLURM_CPUS_PER_TASK", "80"},
        {"SLURM_GPUS_PER_NODE", "v100:8"},
        {"SLURM_MEM_PER_NODE", NULL}, /* slurmctld's to set */
        {"SLUICE_JOB_ID", "job_" ULID},
        {"SLUICE_WORKFLOW", "w-1"},
        {"SLUICE_RUN_DIR", "/jobs/alice/" ULID},
        {"SLUICE_RESULTS_DIR", "/jobs/alice/" ULID "/results"},
        {"SLUICE_INPUTS_DIR", "/mnt/inputs"},
        {"SLUICE_MODELS_DIR", "/mnt/models"},
        {"SLUICE_REQUEUE", "1"},
        {"SLUICE_HAS_SIDECAR", "1"},
        {"SLUICE_SECRETS", "HF_TOKEN B"},
        {"SLUICE_MODULES", "cuda/12 gcc"},
        {"SLUICE_RECEIPTS", "a-{0..2}.json\n*.mp4"},
        {"SLUICE_LISTS", ""},
        {"SLUICE_PATHS_SHA256", ""},
        {"A", "1"},
    };
    struct strs env = {NULL, 0};
    struct render_job j = job();
    (void)state;
    environment(FULL ", secrets: [HF_TOKEN, B], modules: [cuda/12, gcc], "
                     "receipts: [\"a-{0..2}.json\", \"*.mp4\"], "
                     "environment: {PATH: \"/opt/bin:/bin\", A: \"1\"}",
                "{}", &j, &env);
    for (size_t i = 0; i < COUNT(expected); i++)
        is(&env, expected[i][0], expected[i][1]);
    strs_clear(&env);
    assert_int_equal(env.n, 0);
}

static void what_may_be_absent(void **state)
{
    struct strs env = {NULL, 0};
    struct render_job j = job();
    (void)state;
    j.inputs_dir = j.models_dir = NULL;
    j.has_sidecar = false;
    environment("resources: {nodes: 1, gpus_per_node: 2}, share: group, "
                "environment: {PYTHONNOUSERSITE: \"\"}",
                "{}", &j, &env);
    is(&env, "PATH", "/usr/local/bin:/usr/bin:/bin");
    is(&env, "PYTHONNOUSERSITE", "");
    is(&env, "SLURM_UMASK", "0027");
    is(&env, "SLURM_GPUS_PER_NODE", "2");
    is(&env, "SLURM_NTASKS", NULL);
    is(&env, "SLURM_NTASKS_PER_NODE", NULL);
    is(&env, "SLURM_CPUS_PER_TASK", NULL);
    is(&env, "SLUICE_INPUTS_DIR", NULL);
    is(&env, "SLUICE_MODELS_DIR", NULL);
    is(&env, "SLUICE_REQUEUE", "0");
    is(&env, "SLUICE_HAS_SIDECAR", "0");
    is(&env, "SLUICE_SECRETS", "");
    is(&env, "SLUICE_MODULES", "");
    is(&env, "SLUICE_RECEIPTS", "");
    strs_clear(&env);
}

#define TYPES                                                                  \
    "resources: {}, params: {i: {type: integer}, n: {type: number}, "          \
    "b: {type: boolean}, e: {type: enum, values: [\"a b\"]}, "                 \
    "s: {type: string}, t: {type: text}, d: {type: duration}, "                \
    "z: {type: bytes}, p: {type: path, under: inputs}, "                       \
    "q: {type: path, under: /data, sha256: required}, "                        \
    "l: {type: string, list: {min: 0, max: 3}}, "                              \
    "h: {type: path, under: /data, sha256: required, "                         \
    "list: {min: 1, max: 2}}, o: {type: integer, optional: true}, "            \
    "ol: {type: integer, list: {min: 1, max: 2}, optional: true}, "            \
    "oq: {type: path, under: /data, sha256: required, optional: true}}"

static void parameters(void **state)
{
    static const char *const expected[][2] = {
        {"SLUICE_P_i", "-7"},
        {"SLUICE_P_n", "0.1"},
        {"SLUICE_P_b", "false"},
        {"SLUICE_P_e", "a b"},
        {"SLUICE_P_s", "x=$(id)'\"`"},
        {"SLUICE_P_t", "a\nSLUICE_HAS_SIDECAR=0\n"},
        {"SLUICE_P_d", "5400"},
        {"SLUICE_P_z", "2048"},
        {"SLUICE_P_p", "/mnt/inputs/a/b.mp4"},
        {"SLUICE_P_p_SHA256", NULL},
        {"SLUICE_P_q", "/data/c"},
        {"SLUICE_P_q_SHA256", SHA},
        {"SLUICE_P_l", NULL},
        {"SLUICE_P_l_0", "u"},
        {"SLUICE_P_l_1", ""},
        {"SLUICE_P_l_2", NULL},
        {"SLUICE_P_l_COUNT", "2"},
        {"SLUICE_P_h_0", "/data/d"},
        {"SLUICE_P_h_0_SHA256", SHA},
        {"SLUICE_P_h_COUNT", "1"},
        {"SLUICE_P_o", NULL},
        {"SLUICE_P_ol_COUNT", "0"},
        {"SLUICE_P_oq", NULL},
        {"SLUICE_P_oq_SHA256", NULL},
        {"SLUICE_LISTS", "l h ol"},
        {"SLUICE_PATHS_SHA256", "q h"},
        {"SLUICE_HAS_SIDECAR", "1"},
    };
    struct strs env = {NULL, 0};
    struct render_job j = job();
    (void)state;
    environment(TYPES,
                "{\"i\": -7, \"n\": 0.1, \"b\": false, \"e\": \"a b\", "
                "\"s\": \"x=$(id)'\\\"`\", "
                "\"t\": \"a\\nSLUICE_HAS_SIDECAR=0\\n\", "
                "\"d\": \"01:30:00\", \"z\": \"2K\", \"p\": \"a/b.mp4\", "
                "\"q\": {\"path\": \"c\", \"sha256\": \"" SHA "\"}, "
                "\"l\": [\"u\", \"\"], "
                "\"h\": [{\"path\": \"d\", \"sha256\": \"" SHA "\"}]}",
                &j, &env);
    for (size_t i = 0; i < COUNT(expected); i++)
        is(&env, expected[i][0], expected[i][1]);
    strs_clear(&env);
}

static void no_inputs_folder(void **state)
{
    struct err e = ERR_INIT;
    struct allowlist *a =
        load("resources: {}, params: {p: {type: path, under: inputs}}");
    const struct workflow *w = allowlist_at(a, 0);
    json_t *params = normal(w, "{\"p\": \"a\"}");
    struct render_job j = job();
    struct limits l = {.nodes = 0};
    struct strs env = {NULL, 0};
    (void)state;
    j.inputs_dir = NULL;
    assert_int_equal(render_env(w, params, &l, &j, &env, &e), -1);
    assert_string_equal(e.code, "render_inputs");
    assert_int_equal(env.n, 0);
    json_decref(params);
    allowlist_free(a);
}

#define LARGE                                                                  \
    "resources: {}, params: "                                                  \
    "{x: {type: path, under: /dd, max_bytes: 60, sha256: required, "           \
    "list: {min: 0, max: 2}}, y: {type: string, max_bytes: 90}, "              \
    "z: {type: integer, list: {min: 0, max: 2}}}"

/* What entry.c adds up at load is what the largest values take. */
static void the_maxima_are_maxima(void **state)
{
    char given[1400], hashed[256];
    struct allowlist *a = load(LARGE);
    struct strs env = {NULL, 0};
    struct render_job j = job();
    int64_t sum = 0, most = 0;
    (void)state;
    (void)snprintf(hashed, sizeof hashed,
                   "{\"path\": \"%060d\", \"sha256\": \"" SHA "\"}", 1);
    (void)snprintf(given, sizeof given,
                   "{\"x\": [%s, %s], \"y\": \"%090d\", "
                   "\"z\": [-9223372036854775808, -9223372036854775808]}",
                   hashed, hashed, 1);
    environment(LARGE, given, &j, &env);
    for (size_t i = 0; i < env.n; i++) {
        if (strncmp(env.v[i], "SLUICE_P_", 9) == 0)
            sum += (int64_t)strlen(env.v[i]) + 1;
    }
    for (size_t i = 0; i < allowlist_at(a, 0)->nparams; i++)
        most += types_env_bytes(&allowlist_at(a, 0)->params[i]);
    assert_true(sum <= most && sum + 40 >= most);
    strs_clear(&env);
    allowlist_free(a);
}

/* --- the sidecar --------------------------------------------------------- */

static void sidecar(void **state)
{
    struct err e = ERR_INIT;
    struct buf out;
    json_t *in = json_pack("{s:s, s:s, s:s}", "HF_TOKEN", "hunter2", "B",
                           "a\nC=x\xe4\xb8\x89", "D", "=");
    (void)state;
    buf_init(&out, 1024);
    assert_int_equal(render_sidecar(in, &out, &e), 0);
    assert_string_equal(buf_str(&out), "HF_TOKEN=aHVudGVyMg==\n"
                                       "B=YQpDPXjkuIk=\n"
                                       "D=PQ==\n");
    buf_wipe(&out);
    json_decref(in);
    assert_int_equal(render_sidecar(NULL, &out, &e), 0);
    in = json_pack("{s:s}", "B\nC", "x");
    assert_int_equal(render_sidecar(in, &out, &e), -1);
    assert_string_equal(e.code, "render_word");
    buf_wipe(&out);
    json_decref(in);
}

/* --- and all of it, by bash ---------------------------------------------- */

static int run(const char *const *argv, const struct strs *env)
{
    char *envp[128] = {NULL};
    int status = -1;
    assert_true(env->n < COUNT(envp));
    for (size_t i = 0; i < env->n; i++)
        envp[i] = env->v[i];
    pid_t pid = fork();
    if (pid == 0) {
        (void)execve(argv[0], (char *const *)(uintptr_t)argv, envp);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *source(const char *name, size_t *n)
{
    char path[512];
    struct err e = ERR_INIT;
    (void)snprintf(path, sizeof path, SLUICE_SOURCE_DIR "/templates/%s", name);
    char *text = file_read(AT_FDCWD, path, RENDER_SCRIPT_MAX, n, &e);
    if (text == NULL)
        fail_msg("%s: %s", path, e.text);
    return text;
}

static void use_prelude(void)
{
    size_t n = 0;
    char *text = source("prelude.sh", &n);
    write_file("prelude.sh", text, n);
    free(text);
}

static void render_to_file(const struct workflow *w, const struct limits *l,
                           const struct render_job *j)
{
    struct err e = ERR_INIT;
    struct buf out;
    buf_init(&out, RENDER_SCRIPT_MAX);
    if (render_script(templates, w, l, j, &out, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    write_file("script.sh", out.data, out.len);
    buf_clear(&out);
}

static const char probe[] =
    "sluice_list l\n"
    "{\n"
    "    printf '%s|' \"${#SLUICE_LIST[@]}\" \"${SLUICE_LIST[@]}\"\n"
    "    printf '%s|' \"$SLUICE_P_t\" \"$SLUICE_P_f\" \"$HOME\"\n"
    "    with_secret TOKEN bash -c 'printf \"%s|\" \"$TOKEN\"'\n"
    "    has_secret OTHER || printf 'no other|'\n"
    "} >\"$SLUICE_RESULTS_DIR/out.txt\"\n"
    "for i in 1 2; do\n"
    "    [[ -n ${SKIP-} ]] || echo {} | sluice_receipt \"list-$i.json\"\n"
    "done\n";

#define PROBE                                                                  \
    "resources: {}, secrets: [TOKEN, OTHER], receipts: "                       \
    "[\"list-{1..2}.json\", "                                                  \
    "\"*.txt\"], params: {l: {type: string, list: {min: 0, max: 3}}, "         \
    "t: {type: text}, f: {type: path, under: inputs, sha256: required}}"

static void make_run_folder(struct render_job *j)
{
    static char inputs[64];
    struct err e = ERR_INIT;
    struct buf side;
    json_t *secrets = json_pack("{s:s}", "TOKEN", "se cret\n$(id)\n");
    (void)snprintf(inputs, sizeof inputs, "%s/inputs", folder);
    (void)mkdirat(templates, "results", 0700);
    (void)mkdirat(templates, "inputs", 0700);
    (void)mkdirat(templates, "inputs/a", 0700);
    write_text("inputs/a/b.bin", "content");
    buf_init(&side, 1024);
    assert_int_equal(render_sidecar(secrets, &side, &e), 0);
    write_file("secrets.env", side.data, side.len);
    buf_wipe(&side);
    json_decref(secrets);
    j->run_dir = folder;
    j->inputs_dir = inputs;
}

static int run_probe(const char *hash, const char *extra)
{
    struct err e = ERR_INIT;
    char given[512], path[64];
    const char *const argv[] = {"/bin/bash", path, NULL};
    struct render_job j = job();
    struct allowlist *a = load(PROBE);
    const struct workflow *w = allowlist_at(a, 0);
    struct strs env = {NULL, 0};
    struct limits l;
    (void)snprintf(path, sizeof path, "%s/script.sh", folder);
    (void)snprintf(given, sizeof given,
                   "{\"l\": [\"a b\", \"\", \"*\"], "
                   "\"t\": \"x[$(touch /nope)]\\n\", "
                   "\"f\": {\"path\": \"a/b.bin\", \"sha256\": \"%s\"}}",
                   hash);
    make_run_folder(&j);
    json_t *params = normal(w, given);
    limits(w, params, &l);
    render_to_file(w, &l, &j);
    assert_int_equal(render_env(w, params, &l, &j, &env, &e), 0);
    assert_int_equal(strs_add(&env, extra), 0);
    int status = run(argv, &env);
    strs_clear(&env);
    limits_clear(&l);
    json_decref(params);
    allowlist_free(a);
    return status;
}

static void bash_reads_what_we_render(void **state)
{
    struct err e = ERR_INIT;
    char hash[SHA256_HEX_LEN + 1], expected[256];
    size_t n = 0;
    (void)state;
    assert_int_equal(crypto_sha256_hex("content", 7, hash, &e), 0);
    use_prelude();
    write_text("t.sh", probe);
    assert_int_equal(run_probe(hash, "SKIP="), 0);
    char *text = file_read(templates, "results/out.txt", 4096, &n, &e);
    assert_non_null(text);
    (void)snprintf(expected, sizeof expected,
                   "3|a b||*|x[$(touch /nope)]\n|%s/inputs/a/b.bin|"
                   "/home/alice|se cret\n$(id)\n|no other|",
                   folder);
    assert_string_equal(text, expected);
    free(text);
    /* requeue: false, so the job's own end removes the sidecar. */
    assert_int_equal(faccessat(templates, "secrets.env", F_OK, 0), -1);
    assert_int_not_equal(run_probe(SHA, "SKIP="), 0); /* another content */
    unlinkat(templates, "results/list-2.json", 0);
    unlinkat(templates, "results/sluice-error.json", 0);
    assert_int_not_equal(run_probe(hash, "SKIP=1"), 0); /* a receipt less */
}

static void shipped_templates_are_bash(void **state)
{
    static const char *const names[] = {"gpu-canary.sh", "media-probe.sh",
                                        "fleet-acceptance.sh"};
    char path[64];
    const char *const argv[] = {"/bin/bash", "-n", path, NULL};
    struct strs none = {NULL, 0};
    struct render_job j = job();
    struct limits l = {.nodes = 1};
    struct allowlist *a = load("resources: {}");
    (void)state;
    (void)snprintf(path, sizeof path, "%s/script.sh", folder);
    use_prelude();
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t n = 0;
        char *text = source(names[i], &n);
        write_file("t.sh", text, n);
        free(text);
        render_to_file(allowlist_at(a, 0), &l, &j);
        assert_int_equal(run(argv, &none), 0);
    }
    allowlist_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts),
        cmocka_unit_test(templates_are_refused),
        cmocka_unit_test(templates_are_missing_or_large),
        cmocka_unit_test(words_are_checked_again),
        cmocka_unit_test(who_and_where),
        cmocka_unit_test(what_may_be_absent),
        cmocka_unit_test(parameters),
        cmocka_unit_test(no_inputs_folder),
        cmocka_unit_test(the_maxima_are_maxima),
        cmocka_unit_test(sidecar),
        cmocka_unit_test(bash_reads_what_we_render),
        cmocka_unit_test(shipped_templates_are_bash),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
