/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * libslurm's life in this process: one slurm_init for ever, its stderr caught
 * around each call (the server's explanation of a refusal is written nowhere
 * else), its exit(1) logged. Thread rule: one thread, for libslurm keeps one
 * identity and loses signal handlers otherwise.
 */
#ifndef BROKER_SLURM_LIB_H
#define BROKER_SLURM_LIB_H

#include "base/err.h"

#include <stdbool.h>

enum { LIB_SAID_MAX = 240 };

/* Before anything else of libslurm. Idempotent; cheap once it has worked.
 * ERR_UNAVAILABLE slurm_conf_missing (a missing file would make libslurm sleep
 * for a minute and exit), ERR_CONFIG slurm_version. */
int lib_init(struct err *e);

/* Catch stderr from here on; the end puts it back and gives what was said,
 * cleaned, in out (LIB_SAID_MAX bytes). errno is kept by both. */
void lib_listen(void);
void lib_heard(char *out);

/* e from a failed call: code of sc_code() or of the reply; `said` from
 * lib_heard. See errors_set for `sent`. Returns -1. */
int lib_error(struct err *e, int code, bool sent, const char *said);

/* In a forked child: catch into a file of its own. */
void lib_forked(void);

#endif
