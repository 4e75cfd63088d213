/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One face for libslurm 22.05, 24.11 and 26.05: everything that differs between
 * them is in this header. Field assignment only; structs are never initialised
 * by position.
 */
#ifndef BROKER_SLURM_COMPAT_H
#define BROKER_SLURM_COMPAT_H

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SC_AT_LEAST(maj, min)                                                  \
    (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(maj, min, 0))

#if !SC_AT_LEAST(22, 5)
#error "Slurm before 22.05 is not supported"
#endif

/* API_CURRENT of META, which names the shared object: one up a release. */
#if SC_AT_LEAST(26, 5)
enum { SC_SONAME = 45 };
#elif SC_AT_LEAST(25, 11)
enum { SC_SONAME = 44 };
#elif SC_AT_LEAST(25, 5)
enum { SC_SONAME = 43 };
#elif SC_AT_LEAST(24, 11)
enum { SC_SONAME = 42 };
#elif SC_AT_LEAST(24, 5)
enum { SC_SONAME = 41 };
#elif SC_AT_LEAST(23, 11)
enum { SC_SONAME = 40 };
#elif SC_AT_LEAST(23, 2)
enum { SC_SONAME = 39 };
#else
enum { SC_SONAME = 38 };
#endif

#if SC_AT_LEAST(23, 2)
typedef list_t *sc_list;
typedef list_itr_t *sc_iter;
#else
typedef List sc_list;
typedef ListIterator sc_iter;
#endif

/* Exported by all three, declared in no public header. */
extern void slurm_free_will_run_response_msg(will_run_response_msg_t *);

/* The code of a failed call: never test rc == -1, since a release may return
 * the code itself. */
static inline int sc_code(int rc)
{
    return rc > 0 ? rc : errno;
}

#if SC_AT_LEAST(26, 5)
static inline slurm_step_id_t sc_step(uint32_t job_id)
{
    slurm_step_id_t s = SLURM_STEP_ID_INITIALIZER;

    s.job_id = job_id;
    return s;
}
#endif

/* SHOW_LOCAL spares a federation RPC each time. */
static inline int sc_load_job(job_info_msg_t **m, uint32_t id)
{
#if SC_AT_LEAST(26, 5)
    return slurm_load_job(m, sc_step(id), SHOW_LOCAL | SHOW_ALL);
#else
    return slurm_load_job(m, id, SHOW_LOCAL | SHOW_ALL);
#endif
}

static inline int sc_batch_script(FILE *out, uint32_t id)
{
#if SC_AT_LEAST(26, 5)
    return slurm_job_batch_script(out, sc_step(id));
#else
    return slurm_job_batch_script(out, id);
#endif
}

static inline uint32_t sc_submit_id(const submit_response_msg_t *r)
{
#if SC_AT_LEAST(25, 11)
    return r->step_id.job_id;
#else
    return r->job_id;
#endif
}

static inline void sc_free_conf(slurm_conf_t *c)
{
#if SC_AT_LEAST(26, 5)
    slurm_free_conf(c);
#else
    slurm_free_ctl_conf(c);
#endif
}

static inline void sc_select(slurm_selected_step_t *s, uint32_t id)
{
    memset(s, 0, sizeof(*s));
    s->array_task_id = NO_VAL;
    s->het_job_offset = NO_VAL;
    s->step_id.job_id = id;
    s->step_id.step_id = NO_VAL;
    s->step_id.step_het_comp = NO_VAL;
}

/* Requeues as slurmdbd counts them; -1 where it does not. */
static inline int64_t sc_row_restarts(const slurmdb_job_rec_t *r)
{
#if SC_AT_LEAST(24, 11)
    return r->restart_cnt;
#else
    (void)r;
    return -1;
#endif
}

#endif
