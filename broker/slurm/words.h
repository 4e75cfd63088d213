/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Slurm's numbers as words: states, flags, reasons, TRES. Own tables, because
 * no public header has them. No libslurm call in
 * here: unit tests link it alone. Thread rule: pure functions.
 */
#ifndef BROKER_SLURM_WORDS_H
#define BROKER_SLURM_WORDS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Base word of a job_state (slurm.h enum job_states), "UNKNOWN" otherwise. */
const char *words_state(uint32_t state);
/* Owned array of the flags' words, lowest bit first. */
json_t *words_flags(uint32_t state);
/* As slurmdbd stores it: a segment that was requeued or resized has base 0,
 * and would look PENDING: REQUEUED, RESIZING, REVOKED come first. */
const char *words_row_state(uint32_t state);
/* Ended as far as the base says (COMPLETED and above). */
bool words_ended(uint32_t state);

/* enum job_state_reason; numbers are the same from 22.05 on. out has
 * WORDS_REASON_MAX bytes: an unknown number becomes "Reason<N>". */
enum { WORDS_REASON_MAX = 64 };
void words_reason(uint32_t reason, char *out);

/* TRES by name with plain numbers, memory in MiB; owned object.
 * words_tres: slurmctld's "cpu=1,mem=20000M,gres/gpu:v100=2".
 * words_tres_ids: slurmdbd's "1=1,2=20000,1001=2"; names: {"1":"cpu",...};
 * an id that is not in it becomes "tres/<id>" and *unknown true. Values at or
 * over 2^63 (NO_VAL64 for energy) are left out. NULL text: {}. */
json_t *words_tres(const char *text);
json_t *words_tres_ids(const char *text, const json_t *names, bool *unknown);

/* "[[R][B]:]<signal>[@<seconds>]" (sbatch --signal): name or number. */
struct words_signal {
    uint16_t number, seconds;
    bool batch, reservation;
};
int words_signal(const char *text, struct words_signal *out);

/* What libslurm wrote on stderr, fit to be shown: its last lines, without
 * program name, control bytes and paths, as one line. out has n bytes. */
void words_said(const char *raw, size_t len, char *out, size_t n);

#endif
