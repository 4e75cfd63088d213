/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice.yaml: one table per section, unknown key = refusal to start, owner,
 * mode and parents of the file checked. Read by every program of ours at its
 * start. `people:` is not read here: it takes effect only through
 * `sluice-admin apply`. docs/configuration.md describes each key.
 * Thread rule: immutable after load.
 */
#ifndef BROKER_CONFIG_H
#define BROKER_CONFIG_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config {
    char *file;     /* where it was read from */
    bool self_mode; /* mode: people | self */
    char *mode;
    char *state_dir;
    struct {
        char *name, *slurm_conf;
    } cluster;
    struct {
        char *sluice, *spawn, *watch; /* service accounts */
        int64_t min_uid;
        /* by config_resolve_accounts */
        uid_t sluice_uid, spawn_uid, watch_uid;
        gid_t sluice_gid, spawn_gid, watch_gid;
    } accounts;
    struct {
        char *loopback, *local;
    } listen; /* "127.0.0.1:8080"; path */
    struct {
        char *db, *store, *spawn_dir, *run_dir, *keys, *libexec, *workflows,
            *templates;
    } paths;
    struct {
        char *root, *kind, *marker, *inputs, *models;
    } jobs;
    struct {                         /* deadlines and caps, all with defaults */
        int64_t submit_deadline_ms;  /* 14000: the answer is due at 15 s */
        int64_t request_deadline_ms; /* 10000: logs, cancel, artifacts */
        int64_t worker_idle_ms;      /* 30000 */
        int64_t worker_requests;     /* 1000 */
        int64_t submits_per_minute;  /* 600: of one person; also the burst */
        int64_t poll_ms;             /* 1000: watch's jobs poll */
        int64_t connections, connections_per_peer;
        int64_t body_bytes; /* 49152 */
    } limits;
};

/* trusted: check owner/mode/parents (root; the running account in self mode).
 * Errors ERR_CONFIG with file:line. */
int config_load(const char *path, struct config *out, struct err *e);
void config_clear(struct config *c);
/* NSS; not for sluice-spawnd after its start (it calls it once, first). */
int config_resolve_accounts(struct config *c, struct err *e);
/* The `people:` section as a tree (owned), for sluice-admin only. */
int config_people(const char *path, json_t **out, struct err *e);

/* Fixed places below run_dir, spawn_dir and keys: config_paths. ERR_CONFIG
 * config_path_too_long. */
struct config_paths {
    char spawn_sock[108];  /* run_dir/spawn/spawn.sock */
    char admin_sock[108];  /* run_dir/sluiced/admin.sock */
    char watch_pid[256];   /* run_dir/spawn/watch.pid */
    char record[256];      /* spawn_dir/record.log */
    char workers[256];     /* spawn_dir/workers */
    char token_key[256];   /* keys/token.key (0600 root) */
    char tokens[256];      /* keys/tokens.json (0600 root): what was issued */
    char revoked[256];     /* keys/revoked.json (0640 root:sluice) */
    char public_keys[256]; /* keys/public.json (0640 root:sluice) */
};
int config_paths(const struct config *c, struct config_paths *out,
                 struct err *e);

#endif
