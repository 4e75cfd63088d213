/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluiced can prove itself to no Slurm daemon: in people mode it refuses to
 * start where it could reach a munge socket, or runs with privilege.
 * Thread rule: at start, before threads.
 */
#ifndef BROKER_ISOLATION_H
#define BROKER_ISOLATION_H

#include "base/err.h"
#include "broker/config.h"

/* ERR_CONFIG isolation_uid (not the service account, or root),
 * isolation_capability, isolation_munge (a munge socket answers: the system's
 * /run/munge/munge.socket.2, or the one that slurm.conf's AuthInfo names),
 * isolation_core. In self mode only root is refused. Makes the process not
 * dumpable and core-less in both modes. */
int isolation_check(const struct config *c, struct err *e);

#endif
