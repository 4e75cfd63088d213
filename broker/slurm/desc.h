/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * From checked limits to job_desc_msg_t: the API parses no #SBATCH line and
 * fills nothing in, so every limit is a field.
 * Thread rule: one thread.
 */
#ifndef BROKER_SLURM_DESC_H
#define BROKER_SLURM_DESC_H

#include "base/err.h"
#include "broker/slurm/compat.h"
#include "broker/worker.h"
#include "workflows/workflow.h"

#include <limits.h>

/* The strings that a job_desc_msg_t points to; libslurm frees none of them. */
struct desc {
    job_desc_msg_t msg;
    struct strs env;
    char std_out[PATH_MAX], std_err[PATH_MAX], script_path[PATH_MAX];
    char gpus[96], submit_line[128], comment[64], host[256];
    char *argv[2];
};

/* k, script, account and qos (NULL: not sent) are borrowed until desc_clear.
 * Errors: those of render_env, ERR_INVALID workflow_resource. */
int desc_fill(struct desc *d, struct worker_work *k, char *script,
              char *account, char *qos, struct err *e);
void desc_clear(struct desc *d);

#endif
