/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One HTTP exchange with sluiced, over loopback TCP with a bearer token or over
 * local.sock (SLUICE_URL=unix:PATH), where the server's uid is checked before
 * anything is sent. libcurl is named here only. One thread.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct client;

enum { CLIENT_BODY_MAX = 16 * 1024 * 1024 };

struct reply {
    long status;     /* HTTP status */
    json_t *json;    /* of a JSON answer; owned; NULL otherwise */
    struct buf body; /* the bytes; owned */
    char etag[128], next_offset[32], complete[8], location[128];
};
void reply_clear(struct reply *r);

/* url: "http://127.0.0.1:PORT" or "unix:PATH". token_file may be NULL.
 * ERR_INVALID url, token_file. */
int client_new(const char *url, const char *token_file, struct client **out,
               struct err *e);
void client_free(struct client *c);

struct call {
    const char *method, *path;                   /* path with its query */
    const json_t *body;                          /* or NULL */
    const char *accept;                          /* NULL: application/json */
    const char *idempotency_key, *if_none_match; /* or NULL */
    long timeout_seconds;                        /* 0: 30 */
    int out_fd; /* > 0: the body of a 200 goes there */
};
/* Any HTTP answer is 0. No answer: -1 ERR_UNAVAILABLE unreachable, or
 * ERR_UNAUTHENTIC server_uid (somebody else holds the socket). */
int client_call(struct client *c, const struct call *call, struct reply *out,
                struct err *e);

/* Percent-encode a path segment or a query value. Owned. */
char *client_escape(const struct client *c, const char *s);

#endif
