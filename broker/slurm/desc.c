/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/desc.h"

#include "broker/slurm/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int too_large(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "workflow_resource",
                   "%s does not fit what Slurm takes", what);
}

/* Slurm's sentinels are the largest values of a field: stay below them. */
static int fit16(uint16_t *out, int64_t v, const char *what, struct err *e)
{
    if (v < 0 || v >= NO_VAL16)
        return too_large(e, what);
    *out = (uint16_t)v;
    return 0;
}

static int fit32(uint32_t *out, int64_t v, const char *what, struct err *e)
{
    if (v < 0 || v >= NO_VAL)
        return too_large(e, what);
    *out = (uint32_t)v;
    return 0;
}

static void fill_identity(struct desc *d, struct worker_work *k)
{
    job_desc_msg_t *m = &d->msg;

    /* Without both, a job of root's (or with its group) can come out. */
    m->user_id = geteuid();
    m->group_id = getegid();
    m->name = k->slurm_name;
    (void)snprintf(d->submit_line, sizeof(d->submit_line),
                   "sluice submit %s %s", k->workflow->name, k->job.ulid);
    (void)snprintf(d->comment, sizeof(d->comment), "sluice:%s", k->job.ulid);
    (void)snprintf(d->host, sizeof(d->host), "%s", k->host);
    d->host[strcspn(d->host, ".")] = '\0';
    m->submit_line = d->submit_line;
    m->comment = d->comment;
    m->alloc_node = d->host;
}

static int fill_files(struct desc *d, struct worker_work *k, char *script,
                      struct err *e)
{
    static char null_device[] = "/dev/null";
    job_desc_msg_t *m = &d->msg;
    int n =
        snprintf(d->std_out, sizeof(d->std_out), "%s/stdout.log", k->run_dir);

    if (n < 0 || (size_t)n >= sizeof(d->std_out) ||
        snprintf(d->std_err, sizeof(d->std_err), "%s/stderr.log", k->run_dir) <
            0 ||
        snprintf(d->script_path, sizeof(d->script_path), "%s/script.sh",
                 k->run_dir) < 0)
        return err_set(e, ERR_CONFIG, "run_dir", "the run folder is too long");
    m->work_dir = k->run_dir;
    m->std_in = null_device;
    m->std_out = d->std_out;
    m->std_err = d->std_err;
    m->open_mode = OPEN_MODE_APPEND; /* a requeue must not truncate */
    m->script = script;
    d->argv[0] = d->script_path; /* shown as the job's Command */
    m->argv = d->argv;
    m->argc = 1;
    return 0;
}

/* Tasks as sbatch counts them: one a node where nothing else is said. */
static int fill_shape(job_desc_msg_t *m, const struct limits *l, struct err *e)
{
    int64_t nodes = l->nodes > 0 ? l->nodes : 1;
    int64_t tasks = l->tasks > 0 ? l->tasks : nodes;
    int64_t cpus = l->cpus_per_task > 0 ? l->cpus_per_task : 1;

    if (fit32(&m->min_nodes, nodes, "nodes", e) != 0 ||
        fit32(&m->num_tasks, tasks, "tasks", e) != 0 ||
        fit32(&m->min_cpus, tasks * cpus, "cpus", e) != 0)
        return -1;
    m->max_nodes = m->min_nodes;
    if (l->tasks_per_node > 0 &&
        fit16(&m->ntasks_per_node, l->tasks_per_node, "tasks_per_node", e) != 0)
        return -1;
    if (l->cpus_per_task > 0 &&
        fit16(&m->cpus_per_task, l->cpus_per_task, "cpus_per_task", e) != 0)
        return -1;
    return 0;
}

/* Without a memory limit a job takes all of its nodes'. */
static int fill_memory(job_desc_msg_t *m, const struct limits *l, struct err *e)
{
    if (l->mem_per_node_mib > 0)
        m->pn_min_memory = (uint64_t)l->mem_per_node_mib;
    else if (l->mem_per_cpu_mib > 0)
        m->pn_min_memory = (uint64_t)l->mem_per_cpu_mib | MEM_PER_CPU;
    else
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "the workflow sets no memory");
    return 0;
}

/* "gres:gpu:v100:8" is the one spelling that 22.05 to 26.05 share. */
static void fill_gpus(struct desc *d, const struct limits *l)
{
    if (l->gpus_per_node <= 0)
        return;
    (void)snprintf(d->gpus, sizeof(d->gpus), "gres:gpu:%s%s%" PRId64,
                   l->gpu_type != NULL ? l->gpu_type : "",
                   l->gpu_type != NULL ? ":" : "", l->gpus_per_node);
    d->msg.tres_per_node = d->gpus;
}

static int fill_signal(job_desc_msg_t *m, const char *text, struct err *e)
{
    struct words_signal s;

    if (text == NULL)
        return 0;
    if (words_signal(text, &s) != 0)
        return err_set(e, ERR_INVALID, "workflow_resource",
                       "the workflow's signal is not one");
    m->warn_signal = s.number;
    m->warn_time = s.seconds;
    m->warn_flags = (uint16_t)((s.batch ? KILL_JOB_BATCH : 0) |
                               (s.reservation ? KILL_JOB_RESV : 0));
    return 0;
}

static int fill_rest(job_desc_msg_t *m, const struct limits *l, struct err *e)
{
    m->partition = l->partition;
    m->features = l->constraint;
    m->exc_nodes = l->exclude;
    m->licenses = l->licenses;
    m->reservation = l->reservation;
    m->requeue = l->requeue ? 1 : 0;
    if (l->exclusive)
        m->shared = JOB_SHARED_NONE;
    if (l->nice != 0)
        m->nice = (uint32_t)(NICE_OFFSET + l->nice);
    /* Slurm counts minutes: a second too many is a minute more. */
    if (l->time_limit_seconds > 0 &&
        fit32(&m->time_limit, (l->time_limit_seconds + 59) / 60, "time", e) !=
            0)
        return -1;
    return fill_signal(m, l->signal, e);
}

int desc_fill(struct desc *d, struct worker_work *k, char *script,
              char *account, char *qos, struct err *e)
{
    job_desc_msg_t *m = &d->msg;

    memset(d, 0, sizeof(*d));
    slurm_init_job_desc_msg(m);
    fill_identity(d, k);
    m->account = account;
    m->qos = qos;
    if (fill_files(d, k, script, e) != 0 || fill_shape(m, &k->limits, e) != 0 ||
        fill_memory(m, &k->limits, e) != 0 || fill_rest(m, &k->limits, e) != 0)
        return -1;
    fill_gpus(d, &k->limits);
    if (render_env(k->workflow, k->params, &k->limits, &k->job, &d->env, e) !=
        0)
        return -1;
    m->environment = d->env.v;
    return fit32(&m->env_size, (int64_t)d->env.n, "environment", e);
}

void desc_clear(struct desc *d)
{
    strs_clear(&d->env);
}
