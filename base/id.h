/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Identifiers: ULIDs (26 characters, Crockford base 32, upper case; 48 bits of
 * milliseconds, 80 random bits from getrandom(2)) and what is made from them.
 * Thread rule: any thread.
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ULID_LEN = 26, JOB_ID_LEN = 30, SLURM_NAME_MAX = 64 };

/* out has ULID_LEN + 1 bytes. 0, or -1 when getrandom fails or unix_ms does
 * not fit 48 bits. */
int id_ulid(int64_t unix_ms, char *out);
bool id_ulid_valid(const char *s); /* canonical: 26, upper case, <= 7ZZZ... */
int64_t id_ulid_ms(const char *s); /* time of a valid ULID; -1 otherwise */

/* "job_" + ULID. The parse takes exactly that form; ulid may be NULL. */
void id_job(const char *ulid, char *out /* JOB_ID_LEN + 1 */);
int id_job_parse(const char *s, char *ulid /* ULID_LEN + 1 */);

/* Slurm job name "<workflow>.<ulid, lower case>", at most SLURM_NAME_MAX
 * characters. 0, or -1 when it would be longer or a part is not valid. out:
 * SLURM_NAME_MAX + 1. */
int id_slurm_name(const char *workflow, const char *ulid, char *out);
/* The reverse, exact: workflow has SLURM_NAME_MAX + 1 bytes, ulid ULID_LEN+1
 * (upper case). -1 when the name is not one of ours. */
int id_slurm_name_parse(const char *name, char *workflow, char *ulid);

/* ^[a-z][a-z0-9-]*$, at most `max` characters: workflow and person names. */
bool id_name_valid(const char *s, size_t max);

#endif
