/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The way to a run folder: <jobs root>/<account>/<ULID>/, opened one component
 * after the other with openat2 (beneath, no symlinks, no other mount), each
 * one's owner and mode checked. Thread rule: any thread.
 */
#ifndef BROKER_FILES_RUN_H
#define BROKER_FILES_RUN_H

#include "base/err.h"
#include "broker/worker.h"

#include <stdbool.h>
#include <sys/stat.h>

enum { RUN_LOG_NAME_MAX = 32 };

struct run {
    int root_fd, account_fd, run_fd, results_fd; /* -1 where not open */
    bool shared; /* the account folder is 2750: a group may read */
};

void run_init(struct run *n);
void run_clear(struct run *n);

/* Root and account folder. ERR_UNAVAILABLE storage_missing (no root, or no
 * marker in it: the share is away), storage_mode (somebody else could write
 * the root), account_folder (absent, another owner, or another mode). */
int run_open_account(struct run *n, const struct worker_site *site,
                     const char *account, struct err *e);
/* And the run folder; results_fd stays -1 when results/ is absent or not the
 * person's. ERR_NOT_FOUND run_missing, ERR_UNAVAILABLE run_folder. */
int run_open(struct run *n, const struct worker_site *site, const char *account,
             const char *ulid, struct err *e);

/* A regular file with one link, owned by this uid, below dirfd; never blocks
 * on a FIFO. -1 and ERR_NOT_FOUND file_missing or file_refused. */
int run_open_file(int dirfd, const char *path, struct stat *st, struct err *e);
/* A folder owned by this uid; -1 when it is not there or not his. */
int run_open_folder(int dirfd, const char *path);

/* "stdout.log", "stderr.2.log". out has RUN_LOG_NAME_MAX bytes. */
void run_log_name(char *out, const char *stream, long attempt);
bool run_is_log_name(const char *name);

#endif
