/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stand-ins for the programs that sluice-spawnd starts: one binary under their
 * names (the test program itself, copied). A scripted worker does what the
 * request's params {"at": verb, "how": word} say; watch tells what stands in
 * <site>/jobs.json; a real submit leaves a line in <site>/sent. The site is
 * three folders up from the program.
 */
#ifndef TESTS_TOOLS_SPAWN_STAND_IN_H
#define TESTS_TOOLS_SPAWN_STAND_IN_H

#include "base/json.h"
#include "base/wire.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAND_IN_CONTROL = 3 };

extern char **environ;

static inline void stand_in_path(char *out, size_t n, const char *name)
{
    char exe[256];
    ssize_t k = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    exe[k > 0 ? k : 0] = '\0';
    (void)snprintf(out, n, "%s/%s", dirname(dirname(dirname(exe))), name);
}

static inline void stand_in_send(int sock, json_t *f, int fd)
{
    struct err e = ERR_INIT;

    if (wire_send(sock, f, &fd, fd >= 0 ? 1 : 0, 1000, &e) != 0)
        _exit(3);
    json_decref(f);
}

/* --- resolve and verify ----------------------------------------------------
 */

/* {"<account>": ...} of <site>/accounts.json, as it is. */
static inline int stand_in_resolve(void)
{
    char path[300], text[8192];
    ssize_t n;
    int fd;

    stand_in_path(path, sizeof(path), "accounts.json");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    return n > 0 && write(STDOUT_FILENO, text, (size_t)n) == n ? 0 : 1;
}

/* Tokens: "good-<person>", "hang", "die"; others are refused. */
static inline json_t *stand_in_claims(const char *id, const char *token)
{
    struct err e = ERR_INIT;
    json_t *o;

    if (strncmp(token, "good-", 5) == 0)
        return json_pack("{sisssbsssss[]s[]sisi}", "v", 1, "id", id, "ok", 1,
                         "person", token + 5, "token_id", "t1", "roles",
                         "workflows", "gpus", 0, "expires_at", 2000000000);
    if (strncmp(token, "other-", 6) == 0) /* narrowed to another workflow */
        return json_pack("{sisssbsssss[]s[s]sisi}", "v", 1, "id", id, "ok", 1,
                         "person", token + 6, "token_id", "t1", "roles",
                         "workflows", "gpu-*", "gpus", 0, "expires_at",
                         2000000000);
    o = json_pack("{sisssb}", "v", 1, "id", id, "ok", 0);
    (void)err_set(&e, ERR_UNAUTHENTIC, "token_signature", "no");
    (void)wire_err_put(o, "error", &e);
    return o;
}

static inline int stand_in_verify(void)
{
    struct wire_msg m;

    wire_msg_init(&m);
    while (wire_recv(0, &m, -1, NULL) == 1) {
        const char *token = json_string_value(json_object_get(m.body, "token"));

        if (strcmp(token, "hang") == 0)
            (void)pause();
        if (strcmp(token, "die") == 0)
            _exit(1);
        stand_in_send(
            0,
            stand_in_claims(json_string_value(json_object_get(m.body, "id")),
                            token),
            -1);
        wire_msg_clear(&m);
    }
    return 0;
}

/* --- watch -------------------------------------------------------------------
 */

static inline json_t *stand_in_jobs(void)
{
    char path[300];
    json_t *v;

    stand_in_path(path, sizeof(path), "jobs.json");
    v = json_load_file(path, 0, NULL);
    return v != NULL ? v : json_array();
}

static inline json_t *stand_in_named(const json_t *all, const char *name)
{
    json_t *v = json_array(), *job;
    size_t i;

    json_array_foreach(all, i, job)
    {
        if (strcmp(json_string_value(json_object_get(job, "name")), name) == 0)
            (void)json_array_append(v, job);
    }
    return v;
}

static inline void stand_in_asked(const json_t *ask)
{
    const char *name = json_string_value(json_object_get(ask, "name"));
    json_t *all = stand_in_jobs(), *o;

    o = json_pack("{sisssss{sbso}s{sbs[]}}", "v", 1, "event", "answer", "id",
                  json_string_value(json_object_get(ask, "id")), "slurmctld",
                  "ok", 1, "jobs", stand_in_named(all, name), "slurmdbd", "ok",
                  1, "rows");
    json_decref(all);
    stand_in_send(STAND_IN_CONTROL, o, -1);
}

static inline void stand_in_tell(void)
{
    json_t *all = stand_in_jobs(), *job;
    size_t i;

    json_array_foreach(all, i, job) stand_in_send(
        STAND_IN_CONTROL,
        json_pack("{sisssisO}", "v", 1, "event", "job", "at_ms", 1, "job", job),
        -1);
    json_decref(all);
    stand_in_send(STAND_IN_CONTROL,
                  json_pack("{sisssisbsbsnsisisi}", "v", 1, "event", "poll",
                            "at_ms", 1, "slurmctld", 1, "slurmdbd", 1, "error",
                            "jobs", 0, "took_ms", 1, "message_timeout_seconds",
                            1),
                  -1);
}

static inline int stand_in_watch(void)
{
    struct pollfd p = {.fd = STAND_IN_CONTROL, .events = POLLIN};
    struct wire_msg m;

    wire_msg_init(&m);
    for (;;) {
        if (poll(&p, 1, 30) > 0) {
            if (wire_recv(STAND_IN_CONTROL, &m, 0, NULL) != 1)
                return 0;
            if (m.fds[0] >= 0)
                stand_in_send(m.fds[0],
                              json_pack("{siss}", "v", 1, "event", "synced"),
                              -1);
            else
                stand_in_asked(m.body);
            wire_msg_clear(&m);
        }
        stand_in_tell();
    }
}

/* --- workers
 * -------------------------------------------------------------------- */

/* What a worker was given: descriptors, environment, powers. */
static inline void stand_in_facts(int fd, const json_t *frame)
{
    FILE *f = fdopen(dup(fd), "w");
    struct rlimit core;
    struct dirent *d;
    DIR *dir = opendir("/proc/self/fd");
    char line[256], *text;
    int death = 0;
    FILE *st = fopen("/proc/self/status", "re");

    while (f != NULL && dir != NULL && (d = readdir(dir)) != NULL) {
        if (d->d_name[0] != '.' && atoi(d->d_name) != dirfd(dir) &&
            atoi(d->d_name) != fd && atoi(d->d_name) != fileno(f) &&
            (st == NULL || atoi(d->d_name) != fileno(st)))
            (void)fprintf(f, "fd %s\n", d->d_name);
    }
    for (char **p = environ; *p != NULL; p++)
        (void)fprintf(f, "env %s\n", *p);
    while (st != NULL && fgets(line, sizeof(line), st) != NULL) {
        if (strncmp(line, "Cap", 3) == 0 || strncmp(line, "NoNew", 5) == 0 ||
            strncmp(line, "Uid", 3) == 0 || strncmp(line, "Gid", 3) == 0 ||
            strncmp(line, "Groups", 6) == 0 || strncmp(line, "SigBlk", 6) == 0)
            (void)fputs(line, f);
    }
    (void)prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
    (void)getrlimit(RLIMIT_CORE, &core);
    (void)fprintf(f, "pdeath %d\nsession %d\numask %03o\ncore %lu\n", death,
                  getsid(0) == getpid() && getpgid(0) == getpid(),
                  (unsigned)umask(077), (unsigned long)core.rlim_max);
    text = json_dumps(frame, JSON_COMPACT);
    (void)fprintf(f, "frame %s\n", text);
    (void)fclose(f);
    (void)closedir(dir);
}

static inline void stand_in_stage(const char *r, const char *stage)
{
    stand_in_send(STAND_IN_CONTROL,
                  json_pack("{sissssss}", "v", 1, "event", "stage", "request",
                            r, "stage", stage),
                  -1);
}

/* Called before the answer of the verb that the script names. */
static inline void stand_in_act(const char *how, const char *r)
{
    if (strncmp(how, "sending-", 8) == 0) {
        stand_in_stage(r, "sending");
        how += 8;
    }
    if (strcmp(how, "hang") == 0)
        for (;;)
            (void)pause();
    if (strcmp(how, "stop") == 0)
        (void)raise(SIGSTOP);
    if (strcmp(how, "exit1") == 0) {
        (void)fputs("fatal: something\n", stderr);
        _exit(1);
    }
    if (strcmp(how, "abort") == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        abort();
    }
    if (strcmp(how, "late") == 0)
        (void)usleep(1500000);
    if (strcmp(how, "garbage") == 0) {
        (void)!send(STAND_IN_CONTROL, "[1", 2, 0);
        (void)pause();
    }
    if (strcmp(how, "wrong") == 0)
        stand_in_send(STAND_IN_CONTROL,
                      json_pack("{sisssssbs{}}", "v", 1, "event", "result",
                                "request", "01HZZZZZZZZZZZZZZZZZZZZZZZ", "ok",
                                1, "result"),
                      -1);
}

static inline int stand_in_sent(const char *ulid)
{
    char path[300], line[64];
    struct stat st;
    int n, fd;

    stand_in_path(path, sizeof(path), "sent");
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    n = snprintf(line, sizeof(line), "%s %10d\n", ulid, (int)getpid());
    (void)!write(fd, line, (size_t)n);
    (void)fstat(fd, &st);
    (void)close(fd);
    return 1000 + (int)(st.st_size / n);
}

#define STAND_IN_SUM                                                           \
    "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static inline json_t *stand_in_result(const char *verb, const json_t *body,
                                      int fd)
{
    const json_t *args = json_object_get(body, "args");

    if (strcmp(verb, "check") == 0)
        return json_pack("{s[]}", "paths");
    if (strcmp(verb, "prepare") == 0)
        return json_pack("{sss[{sssnsi}]sb}", "script_sha256", STAND_IN_SUM,
                         "paths", "param", "p", "index", "bytes", 1,
                         "has_sidecar",
                         json_object_get(args, "secrets") != NULL);
    if (strcmp(verb, "plan") == 0) {
        (void)!write(fd, "script", 6);
        return json_pack("{sss{}ssss?snsbsn}", "script_sha256", STAND_IN_SUM,
                         "limits", "account", "lab", "qos", NULL,
                         "start_estimate", "will_run", 1, "slurm_error");
    }
    if (strcmp(verb, "submit") == 0)
        return json_pack(
            "{sisss{si}snsn}", "job_id",
            stand_in_sent(json_string_value(json_object_get(body, "ulid"))),
            "script_sha256", STAND_IN_SUM, "limits", "nodes", 1, "warning",
            "message");
    if (strcmp(verb, "finish") == 0)
        return json_pack("{sss[]s[]sn}", "sidecar", "removed", "receipts",
                         "missing", "failure");
    if (strcmp(verb, "log") == 0) {
        stand_in_facts(fd, body);
        return json_pack("{sisIsisi}", "size", (int)getpid(), "offset",
                         json_integer_value(json_object_get(args, "offset")),
                         "bytes", 0, "attempt", 0);
    }
    return json_pack("{sb}", "already", 0);
}

static inline void stand_in_serve(const json_t *body, int fd)
{
    const char *verb = json_string_value(json_object_get(body, "verb"));
    const char *r = json_string_value(json_object_get(body, "request"));
    const json_t *args = json_object_get(body, "args");
    const json_t *params = json_object_get(args, "params");
    const char *at = json_string_value(json_object_get(params, "at"));
    const char *how = json_string_value(json_object_get(params, "how"));
    json_t *result;

    stand_in_stage(r, "init");
    if (at != NULL && strcmp(at, verb) == 0 && how != NULL)
        stand_in_act(how, r);
    /* A log's offset 1 takes 300 ms; 2 hangs. */
    if (strcmp(verb, "log") == 0) {
        json_int_t n = json_integer_value(json_object_get(args, "offset"));

        if (n == 1)
            (void)usleep(300000);
        if (n == 2)
            stand_in_act("hang", r);
    }
    if (strcmp(verb, "submit") == 0)
        stand_in_stage(r, "sending");
    result = stand_in_result(verb, body, fd);
    if (fd >= 0)
        (void)close(fd);
    stand_in_send(STAND_IN_CONTROL,
                  json_pack("{sisssssbso}", "v", 1, "event", "result",
                            "request", r, "ok", 1, "result", result),
                  -1);
}

static inline int stand_in_worker(void)
{
    struct wire_msg m;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    wire_msg_init(&m);
    while (wire_recv(STAND_IN_CONTROL, &m, -1, NULL) == 1) {
        stand_in_serve(m.body, wire_take_fd(&m, 0));
        wire_msg_clear(&m);
    }
    return 0;
}

/* Does not return when this is a stand-in. */
static inline void stand_in_main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');

    name = name != NULL ? name + 1 : argv[0];
    if (strcmp(name, "sluice-resolve") == 0)
        _exit(stand_in_resolve());
    if (strcmp(name, "sluice-verify") == 0)
        _exit(stand_in_verify());
    if (strcmp(name, "sluice-files") == 0)
        _exit(stand_in_worker());
    if (strcmp(name, "sluice-slurm") == 0)
        _exit(argc > 1 && strcmp(argv[1], "watch") == 0 ? stand_in_watch()
                                                        : stand_in_worker());
}

#endif
