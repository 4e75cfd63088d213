/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The job's environment. slurmctld gets an array of strings, so nothing is
 * quoted anywhere. */
#include "base/id.h"
#include "templates/render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VARIABLE_MAX = 128 * 1024, /* MAX_ARG_STRLEN: execve's own limit */
    INTEGER_MAX = 24,
    NAME_MAX_ = 80 /* SLUICE_P_<31>_255_SHA256 */
};

static int put(struct strs *out, const char *name, const char *value,
               struct err *e)
{
    struct buf b;
    buf_init(&b, VARIABLE_MAX);
    (void)buf_printf(&b, "%s=%s", name, value);
    bool large = strlen(name) + 1 + strlen(value) > VARIABLE_MAX;
    int r = strs_add_take(out, buf_take(&b, NULL));
    buf_clear(&b);
    if (r != 0)
        return large ? err_set(e, ERR_INTERNAL, "render_large",
                               "the variable %s is too large", name)
                     : err_nomem(e);
    return 0;
}

/* A fact that may be absent. */
static int put_known(struct strs *out, const char *name, const char *value,
                     struct err *e)
{
    return value != NULL ? put(out, name, value, e) : 0;
}

static int put_count(struct strs *out, const char *name, int64_t n,
                     struct err *e)
{
    char text[INTEGER_MAX];
    (void)snprintf(text, sizeof text, "%lld", (long long)n);
    return n > 0 ? put(out, name, text, e) : 0;
}

/* Names with blanks, or lines, between them. */
static int put_joined(struct strs *out, const char *name,
                      const struct strs *words, char between, struct err *e)
{
    struct buf b;
    buf_init(&b, VARIABLE_MAX);
    int r = 0;
    for (size_t i = 0; i < words->n; i++) {
        if (i > 0)
            r |= buf_putc(&b, between);
        r |= buf_puts(&b, words->v[i]);
    }
    r = r != 0 ? err_nomem(e)
               : put(out, name, words->n > 0 ? buf_str(&b) : "", e);
    buf_clear(&b);
    return r;
}

/* --- who and where ------------------------------------------------------- */

static int put_workflows(const struct workflow *w, struct strs *out,
                         struct err *e)
{
    static const char *const defaults[][2] = {
        {"PATH", "/usr/local/bin:/usr/bin:/bin"},
        {"LANG", "C.UTF-8"},
        {"PYTHONNOUSERSITE", "1"},
    };
    void *it = json_object_iter(w->environment);
    for (; it != NULL; it = json_object_iter_next(w->environment, it)) {
        const char *v = json_string_value(json_object_iter_value(it));
        if (put_known(out, json_object_iter_key(it), v, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        if (json_object_get(w->environment, defaults[i][0]) == NULL &&
            put(out, defaults[i][0], defaults[i][1], e) != 0)
            return -1;
    }
    return 0;
}

static int put_account(const struct render_job *job, struct strs *out,
                       struct err *e)
{
    int r = put_known(out, "HOME", job->home, e);
    r |= put_known(out, "USER", job->user, e);
    r |= put_known(out, "LOGNAME", job->user, e);
    r |= put_known(out, "SHELL", job->shell, e);
    return r;
}

static int put_gpus(const struct limits *l, struct strs *out, struct err *e)
{
    char text[96];
    if (l->gpus_per_node <= 0)
        return 0;
    (void)snprintf(text, sizeof text, "%s%s%lld",
                   l->gpu_type != NULL ? l->gpu_type : "",
                   l->gpu_type != NULL ? ":" : "", (long long)l->gpus_per_node);
    return put(out, "SLURM_GPUS_PER_NODE", text, e);
}

/* What sbatch 22.05 sends, seen by interposing slurm_submit_batch_job and by
 * comparing two jobs' environments. SLURM_PRIO_PROCESS is its nice value. */
static int put_slurm(const struct workflow *w, const struct limits *l,
                     const struct render_job *job, struct strs *out,
                     struct err *e)
{
    const char *umask_text = w->share_group ? "0027" : "0077";
    int r = put(out, "SLURM_UMASK", umask_text, e);
    r |= put_known(out, "SLURM_JOB_NAME", job->slurm_name, e);
    r |= put_known(out, "SLURM_SUBMIT_DIR", job->run_dir, e);
    r |= put_known(out, "SLURM_SUBMIT_HOST", job->submit_host, e);
    r |= put(out, "SLURM_PRIO_PROCESS", "0", e);
    r |= put_count(out, "SLURM_NTASKS", l->tasks, e);
    r |= put_count(out, "SLURM_NPROCS", l->tasks, e);
    r |= put_count(out, "SLURM_NTASKS_PER_NODE", l->tasks_per_node, e);
    r |= put_count(out, "SLURM_CPUS_PER_TASK", l->cpus_per_task, e);
    return r | put_gpus(l, out, e);
}

static int put_folders(const struct render_job *job, struct strs *out,
                       struct err *e)
{
    struct buf b;
    buf_init(&b, VARIABLE_MAX);
    int r = buf_printf(&b, "%s/results", job->run_dir);
    r = r != 0 ? err_nomem(e) : put(out, "SLUICE_RESULTS_DIR", buf_str(&b), e);
    buf_clear(&b);
    r |= put(out, "SLUICE_RUN_DIR", job->run_dir, e);
    r |= put_known(out, "SLUICE_INPUTS_DIR", job->inputs_dir, e);
    return r | put_known(out, "SLUICE_MODELS_DIR", job->models_dir, e);
}

static int put_sluice(const struct workflow *w, const struct limits *l,
                      const struct render_job *job, struct strs *out,
                      struct err *e)
{
    char id[JOB_ID_LEN + 1];
    id_job(job->ulid, id);
    int r = put(out, "SLUICE_JOB_ID", id, e);
    r |= put(out, "SLUICE_WORKFLOW", w->name, e);
    r |= put(out, "SLUICE_REQUEUE", l->requeue ? "1" : "0", e);
    r |= put(out, "SLUICE_HAS_SIDECAR", job->has_sidecar ? "1" : "0", e);
    r |= put_joined(out, "SLUICE_SECRETS", &w->secrets, ' ', e);
    r |= put_joined(out, "SLUICE_MODULES", &w->modules, ' ', e);
    r |= put_joined(out, "SLUICE_RECEIPTS", &w->receipts, '\n', e);
    return r | put_folders(job, out, e);
}

/* --- parameters ---------------------------------------------------------- */

char *render_path(const struct param *p, const char *value,
                  const struct render_job *job, struct err *e)
{
    struct buf b;
    const char *under = p->under;
    if (under == NULL || under[0] != '/')
        under = job->inputs_dir;
    if (under == NULL || under[0] != '/') {
        (void)err_set(e, ERR_CONFIG, "render_inputs",
                      "this site has no inputs folder");
        return NULL;
    }
    buf_init(&b, VARIABLE_MAX);
    (void)buf_printf(&b, "%s/%s", under, value);
    char *path = buf_take(&b, NULL);
    buf_clear(&b);
    if (path == NULL)
        (void)err_nomem(e);
    return path;
}

static int put_path(const struct param *p, const char *name, const json_t *v,
                    const struct render_job *job, struct strs *out,
                    struct err *e)
{
    char hash_name[NAME_MAX_];
    const json_t *path = json_is_object(v) ? json_object_get(v, "path") : v;
    const char *s = json_string_value(path);
    if (s == NULL)
        return err_set(e, ERR_INTERNAL, "render_value",
                       "the parameter %s is not in normal form", p->name);
    char *absolute = render_path(p, s, job, e);
    int r = absolute == NULL ? -1 : put(out, name, absolute, e);
    free(absolute);
    (void)snprintf(hash_name, sizeof hash_name, "%s_SHA256", name);
    const char *h = json_string_value(json_object_get(v, "sha256"));
    return r == 0 ? put_known(out, hash_name, h, e) : -1;
}

static int put_value(const struct param *p, const char *name, const json_t *v,
                     const struct render_job *job, struct strs *out,
                     struct err *e)
{
    char text[INTEGER_MAX];
    if (p->type == PARAM_PATH)
        return put_path(p, name, v, job, out, e);
    if (json_is_string(v))
        return put(out, name, json_string_value(v), e);
    if (json_is_boolean(v))
        return put(out, name, json_is_true(v) ? "true" : "false", e);
    if (!json_is_integer(v))
        return err_set(e, ERR_INTERNAL, "render_value",
                       "the parameter %s is not in normal form", p->name);
    (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    return put(out, name, text, e);
}

static int put_list(const struct param *p, const json_t *v,
                    const struct render_job *job, struct strs *out,
                    struct err *e)
{
    char name[NAME_MAX_], text[INTEGER_MAX];
    size_t n = json_array_size(v); /* 0 where it is absent */
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "SLUICE_P_%s_%zu", p->name, i);
        if (put_value(p, name, json_array_get(v, i), job, out, e) != 0)
            return -1;
    }
    (void)snprintf(name, sizeof name, "SLUICE_P_%s_COUNT", p->name);
    (void)snprintf(text, sizeof text, "%zu", n);
    return put(out, name, text, e);
}

static int put_param(const struct param *p, const json_t *v,
                     const struct render_job *job, struct strs *out,
                     struct err *e)
{
    char name[NAME_MAX_];
    if (p->list)
        return put_list(p, v, job, out, e);
    if (v == NULL)
        return 0;
    (void)snprintf(name, sizeof name, "SLUICE_P_%s", p->name);
    return put_value(p, name, v, job, out, e);
}

static int put_params(const struct workflow *w, const json_t *params,
                      const struct render_job *job, struct strs *out,
                      struct err *e)
{
    struct strs lists = {NULL, 0}, hashed = {NULL, 0};
    int r = 0;
    for (size_t i = 0; i < w->nparams && r == 0; i++) {
        const struct param *p = &w->params[i];
        const json_t *v = json_object_get(params, p->name);
        r = put_param(p, v, job, out, e);
        if (r == 0 && p->list && strs_add(&lists, p->name) != 0)
            r = err_nomem(e);
        if (r == 0 && p->sha256_required && v != NULL &&
            strs_add(&hashed, p->name) != 0)
            r = err_nomem(e);
    }
    if (r == 0)
        r = put_joined(out, "SLUICE_LISTS", &lists, ' ', e);
    if (r == 0)
        r = put_joined(out, "SLUICE_PATHS_SHA256", &hashed, ' ', e);
    strs_clear(&lists);
    strs_clear(&hashed);
    return r;
}

int render_env(const struct workflow *w, const json_t *params,
               const struct limits *l, const struct render_job *job,
               struct strs *out, struct err *e)
{
    struct strs all = {NULL, 0};
    if (put_workflows(w, &all, e) != 0 || put_account(job, &all, e) != 0 ||
        put_slurm(w, l, job, &all, e) != 0 ||
        put_sluice(w, l, job, &all, e) != 0 ||
        put_params(w, params, job, &all, e) != 0) {
        strs_clear(&all);
        return -1;
    }
    *out = all;
    return 0;
}
