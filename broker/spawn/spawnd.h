/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The spawner's parts, put together once in sluice-spawnd.c. Everything here
 * is owned by main and lives as long as the loop runs.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_SPAWND_H
#define BROKER_SPAWN_SPAWND_H

#include "broker/config.h"
#include "broker/spawn/accounts.h"
#include "broker/spawn/loop.h"
#include "broker/spawn/quota.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spawnd {
    struct config config;
    struct config_paths paths;
    struct accounts_rule rule;
    struct loop *loop;
    struct children *children;
    struct record *record;
    struct gens *gens;
    struct verify *verify;
    struct crew *crew;
    struct watch *watch;
    struct ops *ops;
    struct clients *clients;
    struct quota quota;
    int64_t started_ms; /* wall clock: absence counts from here */
    size_t survivors;   /* old workers that would not end: it never counts */
    bool stopping;
};

#endif
