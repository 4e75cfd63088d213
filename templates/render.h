/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * From a workflow and its limits to the fixed script, and from its parameters
 * to the job's environment. Values never enter the script's text.
 * Thread rule: any thread.
 */
#ifndef TEMPLATES_RENDER_H
#define TEMPLATES_RENDER_H

#include "base/buf.h"
#include "base/err.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { RENDER_SCRIPT_MAX = 1024 * 1024 };

/* What the site and the person add. All borrowed. */
struct render_job {
    const char *ulid;                    /* of the job */
    const char *slurm_name;              /* <workflow>.<ulid lower case> */
    const char *run_dir;                 /* <jobs_root>/<account>/<ulid> */
    const char *user, *home, *shell;     /* of the account */
    const char *inputs_dir, *models_dir; /* of the site */
    const char *submit_host;
    bool has_sidecar;
};

/* The whole script: "#!/bin/bash", #SBATCH lines from limits and slurm_name
 * (integers and checked words only), prelude.sh, the template, byte for byte
 * (a file that ends without a newline gets one). templates_dirfd holds
 * prelude.sh and <template_name>. Errors ERR_CONFIG: template_missing
 * template_shebang template_crlf template_nul template_too_large; ERR_INTERNAL
 * render_word. out: initialised by the caller for RENDER_SCRIPT_MAX bytes;
 * empty on failure. */
int render_script(int templates_dirfd, const struct workflow *w,
                  const struct limits *l, const struct render_job *job,
                  struct buf *out, struct err *e);

/* May this text stand in a script? Not empty, no NUL, no CR, no shebang
 * (the script has one already). `name` is for the error's text. Errors as
 * render_script. */
int render_check(const char *text, size_t n, const char *name, struct err *e);

/* The job's environment as "NAME=value" strings, each name once: the
 * workflow's; HOME USER LOGNAME SHELL; LANG PATH PYTHONNOUSERSITE unless the
 * workflow has them; SLURM_UMASK (0077; share: group 0027) SLURM_SUBMIT_DIR
 * SLURM_SUBMIT_HOST SLURM_JOB_NAME SLURM_PRIO_PROCESS and, for these limits,
 * SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK
 * SLURM_GPUS_PER_NODE: what sbatch 22.05 puts there (slurmctld and slurmd add
 * the rest, SLURM_MEM_PER_NODE too). Not there: SLURM_RLIMIT_*, which would
 * carry our daemons' own limits into the job.
 * SLUICE_*: the head of templates/prelude.sh; booleans are true and false,
 * durations seconds, sizes bytes; an absent optional parameter has no variable,
 * an absent list the COUNT 0.
 * params is params_validate's normal form. out is owned by the caller
 * (strs_clear), empty on failure. ERR_CONFIG render_inputs. */
int render_env(const struct workflow *w, const json_t *params,
               const struct limits *l, const struct render_job *job,
               struct strs *out, struct err *e);

/* Absolute path of a validated path value. Owned, or NULL. ERR_CONFIG
 * render_inputs: the site has no inputs folder. */
char *render_path(const struct param *p, const char *value,
                  const struct render_job *job, struct err *e);

/* The sidecar's bytes: one "NAME=<base64>\n" a secret (secrets_validate'd).
 * The buf holds secrets: buf_wipe it, also on failure. ERR_INTERNAL
 * render_word. */
int render_sidecar(const json_t *secrets, struct buf *out, struct err *e);

#endif
