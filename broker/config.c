/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/config.h"

#include "base/conf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A configured path is at most 200 bytes, so that every fixed place below it
 * fits its array in struct config_paths (256); sockets are checked besides. */
enum { CONFIG_PATH_MAX = 200, CONFIG_WORD_MAX = 64, NSS_BYTES_MAX = 1 << 20 };

#define AT(member) offsetof(struct config, member)
#define WORD(key, member, needed, def)                                         \
    {                                                                          \
        key, CONF_STR, AT(member), needed, 1, CONFIG_WORD_MAX, def             \
    }
#define PATH(key, member)                                                      \
    {                                                                          \
        key, CONF_STR, AT(member), false, 1, CONFIG_PATH_MAX, NULL             \
    }
#define NUMBER(key, member, min, max, def)                                     \
    {                                                                          \
        key, CONF_INT, AT(member), false, min, max, def                        \
    }

static const struct conf_key top_keys[] = {
    WORD("mode", mode, false, "people"),
    {"state_dir", CONF_STR, AT(state_dir), false, 1, CONFIG_PATH_MAX,
     "/var/lib/sluice"},
};
static const struct conf_key cluster_keys[] = {
    WORD("name", cluster.name, true, NULL),
    PATH("slurm_conf", cluster.slurm_conf),
};
static const struct conf_key account_keys[] = {
    WORD("sluice", accounts.sluice, false, "sluice"),
    WORD("spawn", accounts.spawn, false, "sluice-spawn"),
    WORD("watch", accounts.watch, false, "sluice-watch"),
    NUMBER("min_uid", accounts.min_uid, 1, 2000000000, "1000"),
};
static const struct conf_key listen_keys[] = {
    WORD("loopback", listen.loopback, false, NULL),
    PATH("local", listen.local),
};
static const struct conf_key path_keys[] = {
    PATH("db", paths.db),
    PATH("store", paths.store),
    PATH("spawn_dir", paths.spawn_dir),
    PATH("run_dir", paths.run_dir),
    PATH("keys", paths.keys),
    PATH("libexec", paths.libexec),
    PATH("workflows", paths.workflows),
    PATH("templates", paths.templates),
};
static const struct conf_key job_keys[] = {
    PATH("root", jobs.root),
    {"kind", CONF_STR, AT(jobs.kind), false, 1, CONFIG_PATH_MAX, "directory"},
    WORD("marker", jobs.marker, false, ".sluice-jobs-root"),
    PATH("inputs", jobs.inputs),
    PATH("models", jobs.models),
};
/* submit_deadline_ms: an answer within 15 s is promised; half a
 * second of it is ours for the database and the answer itself. body_bytes: a
 * frame is 64 KiB (base/wire.h), and the body travels in one. */
static const struct conf_key limit_keys[] = {
    NUMBER("submit_deadline_ms", limits.submit_deadline_ms, 1000, 14500,
           "14000"),
    NUMBER("request_deadline_ms", limits.request_deadline_ms, 500, 60000,
           "10000"),
    NUMBER("worker_idle_ms", limits.worker_idle_ms, 0, 600000, "30000"),
    NUMBER("worker_requests", limits.worker_requests, 1, 1000, "1000"),
    NUMBER("submits_per_minute", limits.submits_per_minute, 1, 1000000, "600"),
    NUMBER("poll_ms", limits.poll_ms, 1000, 60000, "1000"),
    NUMBER("connections", limits.connections, 16, 20000, "512"),
    NUMBER("connections_per_peer", limits.connections_per_peer, 4, 20000,
           "256"),
    NUMBER("body_bytes", limits.body_bytes, 1024, 49152, "49152"),
};

#define TABLE(t) t, sizeof(t) / sizeof((t)[0])
static const struct section {
    const char *name, *pointer;
    const struct conf_key *keys;
    size_t count;
} sections[] = {
    {"cluster", "/cluster", TABLE(cluster_keys)},
    {"accounts", "/accounts", TABLE(account_keys)},
    {"listen", "/listen", TABLE(listen_keys)},
    {"paths", "/paths", TABLE(path_keys)},
    {"jobs", "/jobs", TABLE(job_keys)},
    {"limits", "/limits", TABLE(limit_keys)},
};
enum { SECTION_COUNT = sizeof(sections) / sizeof(sections[0]) };

/* Whatever is not named lies here below state_dir. */
static const struct place {
    size_t offset;
    const char *pointer, *suffix;
} places[] = {
    {AT(cluster.slurm_conf), "/cluster/slurm_conf", "etc/slurm.conf"},
    {AT(listen.local), "/listen/local", "run/local.sock"},
    {AT(paths.db), "/paths/db", "db/sluice.db"},
    {AT(paths.store), "/paths/store", "store"},
    {AT(paths.spawn_dir), "/paths/spawn_dir", "spawn"},
    {AT(paths.run_dir), "/paths/run_dir", "run"},
    {AT(paths.keys), "/paths/keys", "etc/keys"},
    {AT(paths.libexec), "/paths/libexec", "libexec/sluice"},
    {AT(paths.workflows), "/paths/workflows", "share/sluice/workflows"},
    {AT(paths.templates), "/paths/templates", "share/sluice/templates"},
    {AT(jobs.root), "/jobs/root", "jobs"},
    {AT(jobs.inputs), "/jobs/inputs", "inputs"},
    {AT(jobs.models), "/jobs/models", "models"},
};

/* One file while it is being read. */
struct source {
    const char *file;
    json_t *tree;
    struct yaml_lines *lines;
};

static void source_clear(struct source *s)
{
    json_decref(s->tree);
    yaml_lines_free(s->lines);
    s->tree = NULL;
    s->lines = NULL;
}

static int bad(const struct source *s, const char *pointer, const char *code,
               struct err *e, const char *what)
{
    err_set(e, ERR_CONFIG, code, "%s:%d: %s %s", s->file,
            yaml_line(s->lines, pointer), pointer, what);
    return err_at(e, pointer);
}

static bool says_self(const json_t *tree)
{
    const char *mode = json_string_value(json_object_get(tree, "mode"));
    return mode != NULL && strcmp(mode, "self") == 0;
}

/* Who may own the file is known only after `mode` is read from it: so the
 * check is made first for root or ourselves, and then, in people mode, for root
 * alone. A file of our own account that says `self` gives away nothing that
 * this account could not do without it. */
static int source_read(const char *path, struct source *s, struct err *e)
{
    size_t len = 0;
    char *text = NULL;

    *s = (struct source){path, NULL, NULL};
    if (file_check_trusted(path, geteuid(), false, false, e) != 0)
        return -1;
    text = file_read(AT_FDCWD, path, YAML_BYTES_MAX, &len, e);
    if (text == NULL)
        return -1;
    s->tree = yaml_parse(text, len, path, &s->lines, e);
    free(text);
    if (s->tree == NULL)
        return -1;
    if (!json_is_object(s->tree)) {
        bad(s, "", "config_type", e, "must be a mapping");
        goto fail;
    }
    if (!says_self(s->tree) &&
        file_check_trusted(path, (uid_t)-1, false, false, e) != 0)
        goto fail;
    return 0;
fail:
    source_clear(s);
    return -1;
}

static int check_version(const struct source *s, struct err *e)
{
    const json_t *v = json_object_get(s->tree, "version");

    if (!json_is_integer(v) || json_integer_value(v) != 1)
        return bad(s, "/version", "config_version", e, "must be 1");
    return 0;
}

/* The top level without its sections: what is left is plain keys. */
static int fill_top(const struct source *s, struct config *out, struct err *e)
{
    json_t *top = json_copy(s->tree);
    int r;

    if (top == NULL)
        return err_nomem(e);
    json_object_del(top, "version");
    json_object_del(top, "people");
    for (size_t i = 0; i < SECTION_COUNT; i++)
        json_object_del(top, sections[i].name);
    r = conf_fill(top, TABLE(top_keys), out, "", s->file, s->lines, e);
    json_decref(top);
    return r;
}

static int fill_sections(const struct source *s, struct config *out,
                         struct err *e)
{
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        const struct section *sec = &sections[i];
        const json_t *obj = json_object_get(s->tree, sec->name);

        if (obj != NULL && !json_is_object(obj))
            return bad(s, sec->pointer, "config_type", e, "must be a mapping");
        if (conf_fill(obj, sec->keys, sec->count, out, sec->pointer, s->file,
                      s->lines, e) != 0)
            return -1;
    }
    return 0;
}

static char **string_at(struct config *c, size_t offset)
{
    return (char **)(void *)((char *)c + offset);
}

/* Absolute, no empty, "." or ".." part, no trailing slash. */
static bool path_is_plain(const char *p)
{
    if (p[0] != '/' || p[1] == '\0')
        return false;
    while (*p == '/') {
        size_t n = strcspn(++p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') ||
            (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n;
    }
    return true;
}

static int fill_places(const struct source *s, struct config *c, struct err *e)
{
    if (!path_is_plain(c->state_dir))
        return bad(s, "/state_dir", "config_path", e,
                   "must be an absolute, plain path");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char **p = string_at(c, places[i].offset);

        if (*p == NULL &&
            asprintf(p, "%s/%s", c->state_dir, places[i].suffix) < 0) {
            *p = NULL;
            return err_nomem(e);
        }
        if (!path_is_plain(*p) || strlen(*p) > CONFIG_PATH_MAX)
            return bad(s, places[i].pointer, "config_path", e,
                       "must be an absolute, plain path of at most 200 bytes");
    }
    return 0;
}

/* Loopback only: a port on another address would let the network in where only
 * a bearer token is asked for. */
static bool loopback_valid(const char *s)
{
    static const char host[] = "127.0.0.1:";
    int64_t port;

    return strncmp(s, host, sizeof(host) - 1) == 0 &&
           num_parse(s + sizeof(host) - 1, 1, 65535, &port) == 0;
}

/* "directory", or "mount:<type>:<source>" of /proc/self/mountinfo. */
static bool kind_valid(const char *s)
{
    const char *type = s + strlen("mount:");
    size_t n;

    if (strcmp(s, "directory") == 0)
        return true;
    if (strncmp(s, "mount:", strlen("mount:")) != 0)
        return false;
    n = strcspn(type, ":");
    return n > 0 && type[n] == ':' && type[n + 1] != '\0';
}

static bool cluster_valid(const char *s)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return s[0] != '\0' && s[0] != '-' && s[strspn(s, ok)] == '\0';
}

static bool marker_valid(const char *s)
{
    return strchr(s, '/') == NULL && strcmp(s, ".") != 0 &&
           strcmp(s, "..") != 0;
}

static int check_words(const struct source *s, struct config *c, struct err *e)
{
    c->self_mode = strcmp(c->mode, "self") == 0;
    if (!c->self_mode && strcmp(c->mode, "people") != 0)
        return bad(s, "/mode", "config_mode_word", e, "must be people or self");
    if (!cluster_valid(c->cluster.name))
        return bad(s, "/cluster/name", "config_cluster", e,
                   "must be letters, digits, _ and -");
    if (c->listen.loopback != NULL && !loopback_valid(c->listen.loopback))
        return bad(s, "/listen/loopback", "config_loopback", e,
                   "must be 127.0.0.1:PORT");
    if (!kind_valid(c->jobs.kind))
        return bad(s, "/jobs/kind", "config_jobs_kind", e,
                   "must be directory or mount:TYPE:SOURCE");
    if (!marker_valid(c->jobs.marker))
        return bad(s, "/jobs/marker", "config_marker", e,
                   "must be a file name");
    return 0;
}

int config_load(const char *path, struct config *out, struct err *e)
{
    struct source s;
    struct config_paths paths;
    int r = -1;

    memset(out, 0, sizeof(*out));
    if (source_read(path, &s, e) != 0)
        return -1;
    out->file = strdup(path);
    if (out->file == NULL) {
        err_nomem(e);
        goto out;
    }
    if (check_version(&s, e) != 0 || fill_top(&s, out, e) != 0 ||
        fill_sections(&s, out, e) != 0 || check_words(&s, out, e) != 0 ||
        fill_places(&s, out, e) != 0 || config_paths(out, &paths, e) != 0)
        goto out;
    r = 0;
out:
    source_clear(&s);
    if (r != 0)
        config_clear(out);
    return r;
}

void config_clear(struct config *c)
{
    if (c == NULL)
        return;
    free(c->file);
    conf_free(TABLE(top_keys), c);
    for (size_t i = 0; i < SECTION_COUNT; i++)
        conf_free(sections[i].keys, sections[i].count, c);
    memset(c, 0, sizeof(*c));
}

int config_people(const char *path, json_t **out, struct err *e)
{
    struct source s;
    json_t *people;
    int r = -1;

    *out = NULL;
    if (source_read(path, &s, e) != 0)
        return -1;
    people = json_object_get(s.tree, "people");
    if (!json_is_object(people)) {
        bad(&s, "/people", people == NULL ? "config_missing" : "config_type", e,
            "must be a mapping of people");
        goto out;
    }
    *out = json_incref(people);
    r = 0;
out:
    source_clear(&s);
    return r;
}

/* One account by name, or (name NULL) the running one. *name is set then. */
static int lookup(char **name, uid_t *uid, gid_t *gid, struct err *e)
{
    struct passwd pw, *found = NULL;
    size_t n = 4096;
    char *buf = NULL, *more;
    int rc, r = -1;

    do {
        more = realloc(buf, n);
        if (more == NULL) {
            free(buf);
            return err_nomem(e);
        }
        buf = more;
        rc = *name != NULL ? getpwnam_r(*name, &pw, buf, n, &found)
                           : getpwuid_r(geteuid(), &pw, buf, n, &found);
        n *= 2;
    } while (rc == ERANGE && n <= NSS_BYTES_MAX);
    if (rc != 0)
        err_sys(e, ERR_CONFIG, rc, "config_account", "looking up account %s",
                *name != NULL ? *name : "of this process");
    else if (found == NULL)
        err_set(e, ERR_CONFIG, "config_account", "there is no account %s",
                *name != NULL ? *name : "for this process");
    else if (*name == NULL && (*name = strdup(pw.pw_name)) == NULL)
        err_nomem(e);
    else {
        *uid = pw.pw_uid;
        *gid = pw.pw_gid;
        r = 0;
    }
    free(buf);
    return r;
}

static int resolve_self(struct config *c, struct err *e)
{
    uid_t uid = 0;
    gid_t gid = 0;
    char *name = NULL;
    char **names[] = {&c->accounts.sluice, &c->accounts.spawn,
                      &c->accounts.watch};

    if (lookup(&name, &uid, &gid, e) != 0)
        return -1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *copy = strdup(name);
        if (copy == NULL) {
            free(name);
            return err_nomem(e);
        }
        free(*names[i]);
        *names[i] = copy;
    }
    free(name);
    c->accounts.sluice_uid = c->accounts.spawn_uid = c->accounts.watch_uid =
        uid;
    c->accounts.sluice_gid = c->accounts.spawn_gid = c->accounts.watch_gid =
        gid;
    return 0;
}

int config_resolve_accounts(struct config *c, struct err *e)
{
    uid_t a, b, w;

    if (c->self_mode)
        return resolve_self(c, e);
    if (lookup(&c->accounts.sluice, &c->accounts.sluice_uid,
               &c->accounts.sluice_gid, e) != 0 ||
        lookup(&c->accounts.spawn, &c->accounts.spawn_uid,
               &c->accounts.spawn_gid, e) != 0 ||
        lookup(&c->accounts.watch, &c->accounts.watch_uid,
               &c->accounts.watch_gid, e) != 0)
        return -1;
    a = c->accounts.sluice_uid;
    b = c->accounts.spawn_uid;
    w = c->accounts.watch_uid;
    if (a == 0 || b == 0 || w == 0)
        return err_set(e, ERR_CONFIG, "config_account",
                       "a service account must not be uid 0");
    if (a == b || a == w || b == w)
        return err_set(e, ERR_CONFIG, "config_account",
                       "the three service accounts must have different uids");
    return 0;
}

static int join(char *out, size_t n, const char *base, const char *rest,
                struct err *e)
{
    int len = snprintf(out, n, "%s/%s", base, rest);

    if (len < 0 || (size_t)len >= n)
        return err_set(e, ERR_CONFIG, "config_path_too_long",
                       "%s/%s is longer than %zu bytes", base, rest, n - 1);
    return 0;
}

int config_paths(const struct config *c, struct config_paths *out,
                 struct err *e)
{
    const struct {
        char *to;
        size_t n;
        const char *base, *rest;
    } parts[] = {
        {out->spawn_sock, sizeof(out->spawn_sock), c->paths.run_dir,
         "spawn/spawn.sock"},
        {out->admin_sock, sizeof(out->admin_sock), c->paths.run_dir,
         "sluiced/admin.sock"},
        {out->watch_pid, sizeof(out->watch_pid), c->paths.run_dir,
         "spawn/watch.pid"},
        {out->record, sizeof(out->record), c->paths.spawn_dir, "record.log"},
        {out->workers, sizeof(out->workers), c->paths.spawn_dir, "workers"},
        {out->token_key, sizeof(out->token_key), c->paths.keys, "token.key"},
        {out->tokens, sizeof(out->tokens), c->paths.keys, "tokens.json"},
        {out->revoked, sizeof(out->revoked), c->paths.keys, "revoked.json"},
        {out->public_keys, sizeof(out->public_keys), c->paths.keys,
         "public.json"},
    };

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (join(parts[i].to, parts[i].n, parts[i].base, parts[i].rest, e) != 0)
            return -1;
    if (strlen(c->listen.local) > 107)
        return err_set(e, ERR_CONFIG, "config_path_too_long",
                       "listen.local is longer than 107 bytes");
    return 0;
}
