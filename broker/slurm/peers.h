/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Who hears watch: the spawner first, then whoever it hands in. A frame is
 * made once and queued for each; a peer that does not read is dropped, and
 * delays nobody. Thread rule: one thread.
 */
#ifndef BROKER_SLURM_PEERS_H
#define BROKER_SLURM_PEERS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PEERS_MAX = 16,
    /* A snapshot of 13,000 jobs is about 10 MB. */
    PEERS_QUEUE_MAX = 32 * 1024 * 1024,
    PEERS_STALL_MS = 30000
};

struct peers_frame;

struct peer {
    int fd;                     /* owned */
    uint64_t serial;            /* names it in asks that outlive it */
    bool synced;                /* has been sent the whole, and "synced" */
    struct peers_frame **queue; /* ring */
    size_t head, count, room, bytes;
    int64_t moved_ms; /* when it last took a frame */
};

struct peers {
    struct peer v[PEERS_MAX];
    size_t n;
    uint64_t serial;
};

void peers_init(struct peers *p);
void peers_clear(struct peers *p);
/* Takes fd. -1: there are too many (fd is closed). */
int peers_add(struct peers *p, int fd);
struct peer *peers_find(struct peers *p, uint64_t serial); /* or NULL */

/* Consume v (NULL: nothing). A peer whose queue is full is closed: its fd
 * becomes -1, and peers_flush drops it. */
void peers_tell(struct peers *p, json_t *v); /* all of them */
void peers_tell_one(struct peer *one, json_t *v);
/* Send what fits; drop the closed and the stalled. false: the spawner (the
 * first peer) is gone. */
bool peers_flush(struct peers *p);

#endif
