/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A site for tests of the real sluice-spawnd: a state folder below /tmp with
 * configuration, a generation and stand-ins as its programs; and a client that
 * speaks its socket. Include after cmocka.h.
 */
#ifndef TESTS_TOOLS_SPAWN_SITE_H
#define TESTS_TOOLS_SPAWN_SITE_H

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/generation.h"
#include "tests/tools/spawn_stand_in.h"

#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <sys/wait.h>

struct spawn_site {
    char dir[64], conf[96], sock[108], account[64];
    char generation[GENERATION_ID_LEN + 1];
    pid_t pid; /* of sluice-spawnd; 0: none */
    uid_t store_owner;
};

static inline void site_path(const struct spawn_site *s, char *out, size_t n,
                             const char *name)
{
    (void)snprintf(out, n, "%s/%s", s->dir, name);
}

static inline void site_put(const struct spawn_site *s, const char *name,
                            const char *text, mode_t mode)
{
    char path[256], tmp[280];
    int fd;

    site_path(s, path, sizeof(path), name);
    (void)snprintf(tmp, sizeof(tmp), "%s.tmp", path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rename(tmp, path), 0);
}

/* Owned text; "" when there is none. */
static inline char *site_get(const struct spawn_site *s, const char *name)
{
    char path[256], *text = calloc(1, 4 << 20);
    int fd;

    assert_non_null(text);
    site_path(s, path, sizeof(path), name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, text, (4 << 20) - 1);
        (void)close(fd);
    }
    return text;
}

static inline void site_dir(const struct spawn_site *s, const char *name,
                            mode_t mode)
{
    char path[256];

    site_path(s, path, sizeof(path), name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline void site_copy_fd(const struct spawn_site *s, int from,
                                const char *name)
{
    static char chunk[1 << 16];
    char path[256];
    off_t at = 0;
    ssize_t n;
    int fd;

    site_path(s, path, sizeof(path), name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    while ((n = pread(from, chunk, sizeof(chunk), at)) > 0) {
        assert_int_equal(write(fd, chunk, (size_t)n), n);
        at += n;
    }
    assert_int_equal(fchmod(fd, 0755), 0);
    assert_int_equal(close(fd), 0);
}

#define SITE_WORKFLOW                                                          \
    "version: 1\nworkflows:\n  toy:\n    title: {en: toy, zh: toy}\n"          \
    "    template: toy.sh\n    allow: {users: [alice, bob, max], groups: "     \
    "[]}\n"                                                                    \
    "    resources: {partition: v100, nodes: 1, tasks: 1, cpus_per_task: 1,"   \
    " mem_per_node: 1G, gpus_per_node: {type: v100, count: 2},"                \
    " time: \"00:10:00\"}\n    params:\n"                                      \
    "      at:  {type: string, max_bytes: 40, default: none}\n"                \
    "      how: {type: string, max_bytes: 40, default: ok}\n"                  \
    "    secrets: [TOKEN]\n"

/* Installs a generation whose template ends with `tail`; its id in out. */
static inline void site_install(const struct spawn_site *s, const char *people,
                                const char *tail, gid_t group, char *out)
{
    char store[96], workflows[96], templates[96], body[256];
    json_t *tree = json_loads(people, 0, NULL), *keys = json_object();
    struct err e = ERR_INIT;

    (void)snprintf(body, sizeof(body), "true %s\n", tail);
    site_put(s, "templates/toy.sh", body, 0644);
    site_path(s, store, sizeof(store), "store");
    site_path(s, workflows, sizeof(workflows), "workflows");
    site_path(s, templates, sizeof(templates), "templates");
    assert_non_null(tree);
    (void)json_object_set_new(keys, "k1", json_string("PEM"));
    if (generation_install(store, workflows, templates, tree, keys, group, out,
                           &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
    json_decref(tree);
    json_decref(keys);
}

static inline void site_switch(const struct spawn_site *s, const char *id)
{
    struct err e = ERR_INIT;
    char store[96];

    site_path(s, store, sizeof(store), "store");
    if (generation_switch(store, id, &e) != 0)
        fail_msg("%s: %s", e.code, e.text);
}

static inline void site_new(struct spawn_site *s, int self_exe, int spawnd)
{
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"store", 0755},     {"workflows", 0755},
                {"templates", 0755}, {"etc", 0755},
                {"etc/keys", 0755},  {"run", 0755},
                {"run/spawn", 0755}, {"spawn", 0700},
                {"libexec", 0755},   {"libexec/sluice", 0755}};
    static const char *const programs[] = {"files", "slurm", "verify",
                                           "resolve"};
    char name[64];

    memset(s, 0, sizeof(*s));
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/sluice-spawnd-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(chmod(s->dir, 0755), 0);
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
        site_dir(s, dirs[i].name, dirs[i].mode);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), "libexec/sluice/sluice-%s",
                       programs[i]);
        site_copy_fd(s, self_exe, name);
    }
    site_copy_fd(s, spawnd, "libexec/sluice/sluice-spawnd");
    site_put(s, "workflows/toy.yaml", SITE_WORKFLOW, 0644);
    site_put(s, "templates/prelude.sh", "# prelude\n", 0644);
    site_put(s, "jobs.json", "[]", 0644);
    site_path(s, s->conf, sizeof(s->conf), "sluice.yaml");
    site_path(s, s->sock, sizeof(s->sock), "run/spawn/spawn.sock");
}

static inline int site_unlink(const char *path, const struct stat *st, int flag,
                              struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void site_remove(const struct spawn_site *s)
{
    (void)nftw(s->dir, site_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- a client
 * ------------------------------------------------------------------ */

struct spawn_client {
    int sock, watch; /* watch: the last peer socket, or -1 */
    int watches;     /* how many came */
    char stages[32]; /* of the last call: i init, s sending */
    json_t *hello;
    char generation[GENERATION_ID_LEN + 1];
};

static inline void client_close(struct spawn_client *c)
{
    if (c->sock >= 0)
        (void)close(c->sock);
    if (c->watch >= 0)
        (void)close(c->watch);
    json_decref(c->hello);
    *c = (struct spawn_client){.sock = -1, .watch = -1};
}

/* The next frame that is not a watch or stage event (those are noted); NULL:
 * the connection ended. Owned. */
static inline json_t *client_next(struct spawn_client *c, int timeout_ms)
{
    struct wire_msg m;
    json_t *body = NULL;

    wire_msg_init(&m);
    while (body == NULL) {
        struct err e = ERR_INIT;
        const char *event;
        int r = wire_recv(c->sock, &m, timeout_ms, &e);

        if (r == -1 && strcmp(e.code, "wire_timeout") == 0)
            fail_msg("nothing came in %d ms", timeout_ms);
        if (r != 1)
            return NULL;
        event = json_string_value(json_object_get(m.body, "event"));
        if (event != NULL && strcmp(event, "watch") == 0) {
            if (c->watch >= 0)
                (void)close(c->watch);
            c->watch = wire_take_fd(&m, 0);
            c->watches++;
            assert_true(c->watch >= 0);
        } else if (event != NULL && strcmp(event, "stage") == 0) {
            size_t n = strlen(c->stages);
            c->stages[n] =
                json_string_value(json_object_get(m.body, "stage"))[0];
            c->stages[n + 1] = '\0';
        } else {
            body = json_incref(m.body);
        }
        wire_msg_clear(&m);
    }
    return body;
}

static inline void client_open(const struct spawn_site *s,
                               struct spawn_client *c)
{
    int64_t deadline = clock_mono_ms() + 15000;
    const char *id;

    *c = (struct spawn_client){.sock = -1, .watch = -1};
    while (c->sock < 0) {
        struct err e = ERR_INIT;

        c->sock = wire_connect(s->sock, SOCK_SEQPACKET, &e);
        if (c->sock < 0 && clock_mono_ms() > deadline)
            fail_msg("no connection: %s", e.text);
        if (c->sock < 0)
            (void)usleep(5000);
    }
    c->hello = client_next(c, 5000);
    assert_non_null(c->hello);
    id = json_string_value(json_object_get(c->hello, "generation"));
    (void)snprintf(c->generation, sizeof(c->generation), "%s",
                   id != NULL ? id : "");
}

static inline json_t *frame_make(const struct spawn_client *c, const char *verb,
                                 const char *actor, const char *token,
                                 const char *ulid, json_t *args)
{
    char request[ULID_LEN + 1];
    json_t *f;

    assert_int_equal(id_ulid(clock_now_ms(), request), 0);
    f = json_pack("{sissss?ssssss?soss}", "v", 1, "request", request, "ulid",
                  ulid, "actor", actor, "verb", verb, "token", token, "args",
                  args != NULL ? args : json_object(), "generation",
                  c->generation);
    assert_non_null(f);
    return f;
}

/* Sends f (consumed), with fd when it is one. The answer, owned. */
static inline json_t *client_ask(struct spawn_client *c, json_t *f, int fd,
                                 int timeout_ms)
{
    struct err e = ERR_INIT;

    c->stages[0] = '\0';
    if (wire_send(c->sock, f, &fd, fd >= 0 ? 1 : 0, 1000, &e) != 0)
        fail_msg("send: %s", e.text);
    json_decref(f);
    if (fd >= 0)
        (void)close(fd);
    return client_next(c, timeout_ms);
}

static inline json_t *client_call(struct spawn_client *c, const char *verb,
                                  const char *actor, const char *token,
                                  const char *ulid, json_t *args)
{
    return client_ask(c, frame_make(c, verb, actor, token, ulid, args), -1,
                      10000);
}

/* As client_call, with a pipe; its text (owned) in *text when not NULL. */
static inline json_t *client_piped(struct spawn_client *c, const char *verb,
                                   const char *actor, const char *token,
                                   const char *ulid, json_t *args, char **text)
{
    char *all = calloc(1, 65536);
    json_t *answer;
    size_t len = 0;
    ssize_t n;
    int p[2];

    assert_non_null(all);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    answer = client_ask(c, frame_make(c, verb, actor, token, ulid, args), p[1],
                        10000);
    while (len < 65535 && (n = read(p[0], all + len, 65535 - len)) > 0)
        len += (size_t)n;
    (void)close(p[0]);
    if (text != NULL)
        *text = all;
    else
        free(all);
    return answer;
}

static inline const char *frame_code(const json_t *f)
{
    const char *code =
        json_string_value(json_object_get(json_object_get(f, "error"), "code"));
    return code != NULL ? code : "";
}

static inline void expect_ok(json_t *f)
{
    assert_non_null(f);
    if (!json_is_true(json_object_get(f, "ok")))
        fail_msg("refused: %s", frame_code(f));
    json_decref(f);
}

/* Consumes f. stage NULL: not looked at. */
static inline void expect_error(json_t *f, const char *stage, const char *code)
{
    const char *was = json_string_value(json_object_get(f, "stage"));

    assert_non_null(f);
    if (strcmp(frame_code(f), code) != 0)
        fail_msg("'%s', not '%s'", frame_code(f), code);
    if (stage != NULL)
        assert_string_equal(was, stage);
    json_decref(f);
}

static inline int64_t result_int(const json_t *f, const char *key)
{
    return json_integer_value(
        json_object_get(json_object_get(f, "result"), key));
}

static inline json_t *toy(const char *at, const char *how)
{
    return json_pack("{sss{ssss}}", "workflow", "toy", "params", "at", at,
                     "how", how);
}

static inline json_t *submit(struct spawn_client *c, const char *ulid,
                             const char *at, const char *how)
{
    return client_call(c, "submit", "alice", NULL, ulid, toy(at, how));
}

static inline json_t *log_args(int offset)
{
    return json_pack("{sssisisi}", "stream", "stdout", "attempt", 0, "offset",
                     offset, "limit", 10);
}

static inline void new_ulid(char *out)
{
    assert_int_equal(id_ulid(clock_now_ms(), out), 0);
}

static inline size_t count_sent(const struct spawn_site *s, const char *ulid)
{
    char *text = site_get(s, "sent"), *p = text;
    size_t n = 0;

    while ((p = strstr(p, ulid)) != NULL) {
        p++;
        n++;
    }
    free(text);
    return n;
}

/* One job for watch to tell. */
static inline void site_job(const struct spawn_site *s, const char *ulid,
                            int64_t job_id, uid_t uid, const char *state,
                            const char *sum)
{
    char name[SLURM_NAME_MAX + 1], *text;
    json_t *j;

    assert_int_equal(id_slurm_name("toy", ulid, name), 0);
    j = json_pack("[{sIsssisIsss[]ss}]", "job_id", (json_int_t)job_id, "name",
                  name, "uid", (int)uid, "submit_time", (json_int_t)clock_now(),
                  "state", state, "flags", "script_sha256", sum);
    text = json_dumps(j, 0);
    site_put(s, "jobs.json", text, 0644);
    free(text);
    json_decref(j);
}

/* --- the daemon
 * ------------------------------------------------------------------ */

/* become: called in the child before exec; may be NULL. */
static inline void spawnd_start(struct spawn_site *s, void (*become)(void))
{
    char exe[128], log[128];

    site_path(s, exe, sizeof(exe), "libexec/sluice/sluice-spawnd");
    site_path(s, log, sizeof(log), "spawnd.log");
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0) {
        char *argv[] = {exe, (char[]){"--config"}, s->conf, NULL};
        char *env[] = {(char[]){"ASAN_OPTIONS=detect_leaks=0"},
                       (char[]){"SECRET_OF_ROOT=x"}, NULL};
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);

        (void)dup2(fd, 2);
        (void)dup2(fd, 1);
        if (become != NULL)
            become();
        (void)execve(exe, argv, env);
        _exit(126);
    }
}

/* Its wait status. */
static inline int spawnd_wait(struct spawn_site *s, int timeout_ms)
{
    int64_t deadline = clock_mono_ms() + timeout_ms;
    int status = -1;

    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        if (clock_mono_ms() > deadline) {
            (void)kill(s->pid, SIGKILL);
            (void)waitpid(s->pid, &status, 0);
            s->pid = 0;
            fail_msg("sluice-spawnd did not end");
        }
        (void)usleep(2000);
    }
    s->pid = 0;
    return status;
}

static inline int spawnd_end(struct spawn_site *s, int sig)
{
    (void)kill(s->pid, sig);
    return spawnd_wait(s, 15000);
}

#endif
