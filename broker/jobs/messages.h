/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The one table of sentences for people, in English and Chinese, by code: the
 * reasons of jobs and the titles of problem documents. No sentence holds a
 * clock time, a path or a name. Static data; any thread.
 */
#ifndef BROKER_JOBS_MESSAGES_H
#define BROKER_JOBS_MESSAGES_H

#include <stddef.h>

struct message {
    const char *code;
    const char *en, *zh;
};

/* NULL when there is none (callers then show the code's own text). */
const struct message *message_find(const char *code);
/* The whole table, sorted by code: for tests and documentation. */
const struct message *message_all(size_t *count);

/* The sentence's code for Slurm's pending reason ("Resources", "Priority",
 * "JobHeldUser", ...); "slurm_waiting" for one that the table doesn't name. */
const char *message_for_slurm_reason(const char *reason);

#endif
