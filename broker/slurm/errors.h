/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Slurm's error numbers: stable codes of ours, and what they prove. No
 * libslurm call in here. Thread rule: pure.
 */
#ifndef BROKER_SLURM_ERRORS_H
#define BROKER_SLURM_ERRORS_H

#include "base/err.h"

#include <stdbool.h>

enum errors_proof {
    ERRORS_REFUSED,     /* slurmctld itself said no: nothing was started */
    ERRORS_UNREACHABLE, /* no connection was ever made: nothing was sent */
    ERRORS_LOST         /* anything else: it may have been accepted */
};
enum errors_proof errors_proof(int code);

/* "slurm_invalid_partition", ...; "slurm_error" for the rare ones. */
const char *errors_code(int code);

/* Fill e: REFUSED is ERR_SLURM (ERR_UNAVAILABLE where slurmctld is only not
 * ready), UNREACHABLE is ERR_UNAVAILABLE slurm_unreachable, LOST is
 * ERR_UNKNOWN slurm_no_answer when `sent` (the call changes something), else
 * ERR_UNAVAILABLE slurm_no_answer. words: slurm_strerror's text; said: what
 * libslurm wrote besides (may be ""). e->sys = code. Returns -1. */
int errors_set(struct err *e, int code, bool sent, const char *words,
               const char *said);

#endif
