/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The spawner's own record: an append-only file of JSON lines
 *
 *   {"seq":N,"at":MS,"kind":K, ... ,"prev":"<hash>","hash":"<hash>"}
 *
 * hash = SHA-256 of the line's text with `,"hash":"..."` taken out; prev is the
 * hash of the line before, 64 zeros at first. Kinds: start cut intent sending
 * result alias ended finished act. A secret is never in it: args by digest,
 * made without the secrets' values.
 *
 * Appends go to memory; record_flush writes, and with sync makes them durable:
 * one fdatasync(2) for all that arrived in a turn of the loop. After a failed
 * write or sync every append is ERR_UNAVAILABLE record_failed until a restart.
 * Thread rule: the one thread.
 */
#ifndef BROKER_SPAWN_RECORD_H
#define BROKER_SPAWN_RECORD_H

#include "base/crypto.h"
#include "base/err.h"
#include "base/id.h"
#include "broker/generation.h"
#include "broker/proto.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct record;

/* What is known of one job. Lives as long as the record. Strings are shared
 * (interned); read only outside of record.c and index.c, but for `run`. */
struct rec {
    char ulid[ULID_LEN + 1];
    const char *actor, *account, *workflow, *generation;
    uid_t uid;
    uint8_t args_sha256[SHA256_LEN];
    int64_t gpus;
    int64_t intent_ms; /* wall clock */
    bool has_result, result_ok;
    bool maybe_sent; /* result, or its absence, leaves a job possible */
    uint8_t script_sha256[SHA256_LEN]; /* the worker's claim */
    bool has_script;
    int64_t claimed_id;          /* job id by the worker's word; 0: none */
    int64_t job_id, submit_time; /* watch's word; 0: not seen */
    bool ended, finished;
    int64_t result_at; /* offset of the result's line; -1: none */
    size_t result_len;
    struct rec *open_next, *open_prev; /* not ended */
    bool is_open;
    struct {                /* this process's life only; others' to write */
        bool running;       /* its submit is being worked on */
        bool live, differs; /* watch.c */
        unsigned epoch;
    } run;
};

struct rec_intent { /* all borrowed */
    const char *ulid, *request, *actor, *account, *workflow, *generation;
    uid_t uid;
    uint8_t args_sha256[SHA256_LEN];
    const json_t *secret_names; /* array of strings */
    int64_t gpus;
};

/* Opens or creates (0600) with an exclusive flock(2), verifies the whole chain,
 * builds the index, cuts a torn last line off and notes that. Errors:
 * ERR_CONFIG record_broken record_in_use record_open. */
int record_open(const char *path, struct record **out, struct err *e);
void record_close(struct record *r); /* flushes; NULL is fine */

struct rec *record_find(struct record *r, const char *ulid); /* or NULL */
struct rec *record_open_first(struct record *r); /* not ended; then open_next */
size_t record_count(const struct record *r);

/* Appends. ERR_CONFLICT record_known for a second intent of a ULID. */
int record_start(struct record *r, const char *mode, struct err *e);
int record_intent(struct record *r, const struct rec_intent *in,
                  struct rec **out, struct err *e);
int record_sending(struct record *r, struct rec *x, struct err *e);
/* frame: the result frame (borrowed), kept for later askers. */
int record_result(struct record *r, struct rec *x, const json_t *frame,
                  struct err *e);
int record_alias(struct record *r, struct rec *x, int64_t job_id,
                 int64_t submit_time, struct err *e);
int record_ended(struct record *r, struct rec *x, const char *state,
                 struct err *e);
int record_finished(struct record *r, struct rec *x, struct err *e);
int record_act(struct record *r, const struct rec *x, const char *request,
               const char *actor, const char *verb, struct err *e);

/* The kept result frame, owned; NULL when there is none or it can't be read. */
json_t *record_answer(struct record *r, const struct rec *x, struct err *e);

bool record_pending(const struct record *r);  /* appended, not yet written */
bool record_unsynced(const struct record *r); /* written, not yet durable */
int record_flush(struct record *r, bool sync, struct err *e);

#endif
