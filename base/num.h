/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The one checked number parser, and checked arithmetic. No floats.
 * Thread rule: pure functions.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdint.h>

/* Whole string, decimal, optional '-', no '+', no blanks, no leading zeros
 * (except "0" itself). 0, or -1 when malformed or outside [min, max]; *out is
 * untouched then. */
int num_parse(const char *s, int64_t min, int64_t max, int64_t *out);

/* 0, or -1 on overflow; *out untouched then. */
int num_add(int64_t a, int64_t b, int64_t *out);
int num_mul(int64_t a, int64_t b, int64_t *out);

/* Durations in Slurm's notation: "MM", "MM:SS", "HH:MM:SS", "D-HH",
 * "D-HH:MM", "D-HH:MM:SS" (sbatch(1) --time). Only the first field may pass
 * its unit ("90" is 90 minutes; "1:90" and "1-24" are malformed). Seconds; -1
 * when malformed, negative or > max_seconds. */
int num_parse_duration(const char *s, int64_t max_seconds, int64_t *seconds);

/* Byte sizes "512", "176G", "64K", "10M", "2T" (powers of 1024). Bytes. */
int num_parse_bytes(const char *s, int64_t max_bytes, int64_t *bytes);

#endif
