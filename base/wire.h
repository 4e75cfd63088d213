/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Frames between our processes: one JSON object in one SOCK_SEQPACKET message
 * of at most WIRE_FRAME_MAX bytes, with at most WIRE_FDS_MAX descriptors
 * (SCM_RIGHTS). Received descriptors are O_CLOEXEC and closed when not taken.
 * A frame that is cut (MSG_TRUNC, MSG_CTRUNC), empty, not an object or has
 * duplicate keys is an error: the connection is then dropped by the caller.
 * Thread rule: one sender and one receiver at a time per socket.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

enum { WIRE_FRAME_MAX = 64 * 1024, WIRE_FDS_MAX = 2 };

struct wire_msg {
    json_t *body;          /* owned */
    int fds[WIRE_FDS_MAX]; /* owned, -1 where none */
};

void wire_msg_init(struct wire_msg *m);
void wire_msg_clear(struct wire_msg *m);     /* decref, close */
int wire_take_fd(struct wire_msg *m, int i); /* ownership moves; -1 if none */

/* Send borrowed body (and borrowed fds). Waits up to timeout_ms for room
 * (-1: blocking, 0: never). Errors: ERR_UNAVAILABLE wire_closed wire_full,
 * ERR_TOO_LARGE wire_too_large. */
int wire_send(int sock, const json_t *body, const int *fds, size_t nfds,
              int timeout_ms, struct err *e);

/* m has been initialised, and is cleared first. 1: a message; 0: orderly end of
 * the peer; -1: error. timeout as above; nothing in time: -1 ERR_UNAVAILABLE
 * "wire_timeout". Connection lost: ERR_UNAVAILABLE "wire_closed". A bad frame:
 * -1 ERR_INVALID "wire_frame". After 0 and -1 m is empty. */
int wire_recv(int sock, struct wire_msg *m, int timeout_ms, struct err *e);

/* Socket pair, both ends CLOEXEC and non-blocking. */
int wire_pair(int sv[2], struct err *e);
/* Listening unix socket (type SOCK_SEQPACKET or SOCK_STREAM), CLOEXEC and
 * non-blocking; a dead socket file is replaced, a live one is ERR_CONFIG
 * "socket_in_use", another file or a path over 107 bytes "socket_path". Mode
 * exact. The descriptor, or -1. */
int wire_listen(const char *path, int type, mode_t mode, struct err *e);
/* The descriptor, CLOEXEC and non-blocking, or -1 ERR_UNAVAILABLE
 * "wire_connect". Waits for a full backlog up to 5 s. */
int wire_connect(const char *path, int type, struct err *e);
/* SO_PEERCRED. Each out pointer may be NULL. */
int wire_peer(int sock, pid_t *pid, uid_t *uid, gid_t *gid, struct err *e);

/* An err as a JSON object {"class","code","text","pointer","sys"} and back;
 * wire_err_put sets obj[key] (json_put rules; null when e holds no error).
 * wire_err_get overwrites *out. 0: the peer's error, or, when the key is absent
 * or null, no error (err_is_set(out) tells). -1: malformed; *out is then
 * ERR_INTERNAL "wire_frame". */
int wire_err_put(json_t *obj, const char *key, const struct err *e);
int wire_err_get(const json_t *obj, const char *key, struct err *out);

#endif
