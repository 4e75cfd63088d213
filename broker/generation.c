/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/generation.h"

#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "templates/render.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    FILE_MAX = 4 * 1024 * 1024, /* people.json, workflows.json */
    TEMPLATE_MAX = 1024 * 1024, /* RENDER_SCRIPT_MAX: it could not be sent */
    MANIFEST_MAX = 1024 * 1024,
    FILES_MAX = 4096,
    NAME_BYTES_MAX = 64,
    DIR_MODE = 0755,
    FILE_MODE = 0644,
    GUARDED_MODE = 0640 /* root:sluice: people and keys */
};

#define NEW_DIR ".new"
#define CATALOG "catalog/workflows.json"
#define TEMPLATES "catalog/templates/"
#define PRELUDE "prelude.sh"

static const char *const states[] = {"active", "retired", "revoked"};
enum { STATE_COUNT = sizeof(states) / sizeof(states[0]) };

/* --- names ------------------------------------------------------------- */

bool generation_id_valid(const char *id)
{
    return id != NULL && strlen(id) == GENERATION_ID_LEN &&
           strspn(id, "0123456789abcdef") == GENERATION_ID_LEN;
}

/* A template's name is one plain file name that ends in ".sh". */
static bool template_name_valid(const char *s)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(s);

    return n > 3 && n <= NAME_BYTES_MAX && s[0] != '.' && s[0] != '-' &&
           s[strspn(s, ok)] == '\0' && strcmp(s + n - 3, ".sh") == 0;
}

/* The only files a generation can hold; so a manifest can lead nowhere else. */
static bool member_valid(const char *path)
{
    static const char *const fixed[] = {"people.json", "keys.json", CATALOG};

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (strcmp(path, fixed[i]) == 0)
            return true;
    return strncmp(path, TEMPLATES, strlen(TEMPLATES)) == 0 &&
           template_name_valid(path + strlen(TEMPLATES));
}

static int open_dir(int at, const char *path, const char *code, struct err *e)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, ERR_CONFIG, errno, code, "folder %s", path);
    return fd;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* --- state and current -------------------------------------------------- */

static const char *read_state(int store, const char *id, struct err *e)
{
    char name[GENERATION_ID_LEN + sizeof(".state")];
    struct err inner = ERR_INIT;
    const char *found = NULL;
    char *text;

    (void)snprintf(name, sizeof(name), "%s.state", id);
    text = file_read(store, name, NAME_BYTES_MAX, NULL, &inner);
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    for (size_t i = 0; text != NULL && i < STATE_COUNT; i++)
        if (strcmp(text, states[i]) == 0)
            found = states[i];
    free(text);
    /* Without its state a revoked one could come back: so it is missing. */
    if (found == NULL)
        err_set(e, ERR_CONFIG, "generation_missing",
                "generation %.12s has no state", id);
    return found;
}

static int write_state(int store, const char *id, const char *state,
                       struct err *e)
{
    char name[GENERATION_ID_LEN + sizeof(".state")], text[NAME_BYTES_MAX];
    int n = snprintf(text, sizeof(text), "%s\n", state);

    (void)snprintf(name, sizeof(name), "%s.state", id);
    return file_write(store, name, text, (size_t)n, FILE_MODE, (uid_t)-1,
                      (gid_t)-1, e);
}

const char *generation_state(const char *store, const char *id, struct err *e)
{
    const char *state = NULL;
    int fd;

    if (!generation_id_valid(id)) {
        err_set(e, ERR_CONFIG, "generation_missing", "not a generation's id");
        return NULL;
    }
    fd = open_dir(AT_FDCWD, store, "generation_missing", e);
    if (fd >= 0) {
        state = read_state(fd, id, e);
        (void)close(fd);
    }
    return state;
}

/* 1, 0 (none), -1. */
static int read_current(int store, char *id, struct err *e)
{
    char target[GENERATION_ID_LEN + 2];
    ssize_t n = readlinkat(store, "current", target, sizeof(target) - 1);

    if (n < 0 && errno == ENOENT)
        return 0;
    if (n < 0)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing",
                       "reading the link `current`");
    target[n] = '\0';
    if (!generation_id_valid(target))
        return err_set(e, ERR_CONFIG, "generation_missing",
                       "`current` does not name a generation");
    memcpy(id, target, GENERATION_ID_LEN + 1);
    return 1;
}

int generation_current(const char *store, char *id, struct err *e)
{
    int r, fd = openat(AT_FDCWD, store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing", "folder %s",
                       store);
    r = read_current(fd, id, e);
    (void)close(fd);
    return r;
}

/* --- load --------------------------------------------------------------- */

static json_t *parse(const char *text, size_t len, const char *what,
                     struct err *e)
{
    struct err inner = ERR_INIT;
    json_t *v = json_parse(text, len, FILE_MAX, &inner);

    if (v == NULL)
        err_set(e, inner.class == ERR_INVALID ? ERR_CONFIG : inner.class,
                "generation_content", "%s: %s", what, inner.text);
    return v;
}

/* The bytes of one member, if they have the digest that the manifest says. */
static char *read_member(int dir, const json_t *files, const char *path,
                         size_t *len, struct err *e)
{
    const char *want = json_string_value(json_object_get(files, path));
    char got[SHA256_HEX_LEN + 1];
    char *text = NULL;

    if (want == NULL) {
        err_set(e, ERR_CONFIG, "generation_missing", "no %s in the manifest",
                path);
        return NULL;
    }
    text = file_read(dir, path, FILE_MAX, len, e);
    if (text == NULL)
        return NULL;
    if (crypto_sha256_hex(text, *len, got, e) != 0 || strcmp(got, want) != 0) {
        err_set(e, ERR_CONFIG, "generation_digest",
                "%s does not have the digest of the manifest", path);
        free(text);
        return NULL;
    }
    return text;
}

static json_t *read_json(int dir, const json_t *files, const char *path,
                         struct err *e)
{
    size_t len = 0;
    char *text = read_member(dir, files, path, &len, e);
    json_t *v = text != NULL ? parse(text, len, path, e) : NULL;

    free(text);
    return v;
}

/* The generation's name is the digest of the manifest's bytes. */
static json_t *read_manifest(int dir, const char *id, struct err *e)
{
    char got[SHA256_HEX_LEN + 1];
    size_t len = 0;
    char *text = file_read(dir, "manifest.json", MANIFEST_MAX, &len, e);
    json_t *v = NULL;

    if (text == NULL)
        return NULL;
    if (crypto_sha256_hex(text, len, got, e) != 0 || strcmp(got, id) != 0)
        err_set(e, ERR_CONFIG, "generation_digest",
                "manifest.json does not have the digest %.12s", id);
    else
        v = parse(text, len, "manifest.json", e);
    free(text);
    if (v != NULL && (json_integer_value(json_object_get(v, "version")) != 1 ||
                      !json_is_object(json_object_get(v, "files")))) {
        err_set(e, ERR_CONFIG, "generation_content",
                "manifest.json: not version 1");
        json_decref(v);
        v = NULL;
    }
    return v;
}

static int verify_templates(int dir, json_t *files, struct err *e)
{
    const char *path;
    json_t *v;

    json_object_foreach(files, path, v)
    {
        size_t len = 0;
        char *text;

        (void)v;
        if (!member_valid(path))
            return err_set(e, ERR_CONFIG, "generation_content",
                           "manifest.json: a generation holds no %s", path);
        if (strncmp(path, TEMPLATES, strlen(TEMPLATES)) != 0)
            continue;
        text = read_member(dir, files, path, &len, e);
        if (text == NULL)
            return -1;
        free(text);
    }
    return 0;
}

static int load_allowlist(struct generation *g, const json_t *tree,
                          struct err *e)
{
    g->allowlist = allowlist_new();
    if (g->allowlist == NULL)
        return err_nomem(e);
    return allowlist_add(g->allowlist, tree, CATALOG, NULL, e);
}

static int open_catalog(struct generation *g, int dir, const char *path,
                        struct err *e)
{
    g->catalog_fd = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (g->catalog_fd >= 0)
        g->templates_fd = openat(g->catalog_fd, "templates",
                                 O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (g->catalog_fd < 0 || g->templates_fd < 0)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing",
                       "the catalog folder");
    return 0;
}

static struct generation *generation_new(void)
{
    struct generation *g = calloc(1, sizeof(*g));

    if (g != NULL) {
        g->catalog_fd = g->templates_fd = -1;
        g->refs = 1;
    }
    return g;
}

/* Root's, or ours in self mode; nobody else may write it. */
static int check_owner(int dir, struct err *e)
{
    struct stat st;

    if (fstat(dir, &st) != 0)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing", "fstat");
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) != 0)
        return err_set(e, ERR_CONFIG, "config_owner",
                       "a generation's folder has a wrong owner or mode");
    return 0;
}

static int load_parts(struct generation *g, int dir, struct err *e)
{
    json_t *manifest = read_manifest(dir, g->id, e);
    json_t *files = json_object_get(manifest, "files");
    json_t *people = NULL, *catalog = NULL;
    int r = -1;

    if (manifest == NULL || verify_templates(dir, files, e) != 0)
        goto out;
    people = read_json(dir, files, "people.json", e);
    if (people == NULL ||
        people_load(people, "people.json", NULL, &g->people, e) != 0)
        goto out;
    g->keys = read_json(dir, files, "keys.json", e);
    if (g->keys == NULL)
        goto out;
    catalog = read_json(dir, files, CATALOG, e);
    if (catalog == NULL || load_allowlist(g, catalog, e) != 0)
        goto out;
    r = open_catalog(g, dir, "catalog", e);
out:
    json_decref(manifest);
    json_decref(people);
    json_decref(catalog);
    return r;
}

/* id in, or found by `current`. */
static int choose(int store, const char *id, char *out, struct err *e)
{
    const char *state;

    if (id == NULL) {
        int r = read_current(store, out, e);
        if (r == 0)
            return err_set(e, ERR_CONFIG, "generation_missing",
                           "there is no current generation: sluice-admin "
                           "apply makes one");
        if (r < 0)
            return -1;
    } else if (!generation_id_valid(id)) {
        return err_set(e, ERR_CONFIG, "generation_missing",
                       "not a generation's id");
    } else {
        memcpy(out, id, GENERATION_ID_LEN + 1);
    }
    state = read_state(store, out, e);
    if (state == NULL)
        return -1;
    if (strcmp(state, "revoked") == 0)
        return err_set(e, ERR_CONFIG, "generation_revoked",
                       "generation %.12s is revoked", out);
    return 0;
}

int generation_load(const char *store, const char *id, struct generation **out,
                    struct err *e)
{
    struct generation *g = NULL;
    int dir = -1, top, r = -1;

    *out = NULL;
    top = open_dir(AT_FDCWD, store, "generation_missing", e);
    if (top < 0)
        return -1;
    g = generation_new();
    if (g == NULL) {
        err_nomem(e);
        goto out;
    }
    if (choose(top, id, g->id, e) != 0)
        goto out;
    dir = open_dir(top, g->id, "generation_missing", e);
    if (dir < 0 || check_owner(dir, e) != 0 || load_parts(g, dir, e) != 0)
        goto out;
    *out = g;
    g = NULL;
    r = 0;
out:
    generation_unref(g);
    close_fd(&dir);
    close_fd(&top);
    return r;
}

int generation_from_catalog(int catalog_fd, struct generation **out,
                            struct err *e)
{
    struct generation *g = generation_new();
    json_t *tree = NULL;
    char *text = NULL;
    size_t len = 0;
    int r = -1;

    *out = NULL;
    if (g == NULL)
        return err_nomem(e);
    text = file_read(catalog_fd, "workflows.json", FILE_MAX, &len, e);
    if (text == NULL)
        goto out;
    tree = parse(text, len, "workflows.json", e);
    if (tree == NULL || load_allowlist(g, tree, e) != 0 ||
        open_catalog(g, catalog_fd, ".", e) != 0)
        goto out;
    *out = g;
    g = NULL;
    r = 0;
out:
    generation_unref(g);
    json_decref(tree);
    free(text);
    return r;
}

struct generation *generation_ref(struct generation *g)
{
    (void)__atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED);
    return g;
}

void generation_unref(struct generation *g)
{
    if (g == NULL || __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    allowlist_free(g->allowlist);
    people_free(g->people);
    json_decref(g->keys);
    close_fd(&g->templates_fd);
    close_fd(&g->catalog_fd);
    free(g);
}

/* --- compile ------------------------------------------------------------ */

struct member {
    char *path, *text;
    size_t len;
    bool guarded;
};

struct bundle {
    struct member v[FILES_MAX];
    size_t n;
};

static void bundle_free(struct bundle *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->n; i++) {
        free(b->v[i].path);
        free(b->v[i].text);
    }
    free(b);
}

/* Takes text, also on failure. NULL text: the failure of who made it. */
static int bundle_take(struct bundle *b, const char *dir, const char *name,
                       char *text, size_t len, bool guarded, struct err *e)
{
    struct member *m = &b->v[b->n];

    if (text == NULL)
        return err_is_set(e) ? -1 : err_nomem(e);
    if (b->n == FILES_MAX) {
        free(text);
        return err_set(e, ERR_CONFIG, "generation_content",
                       "more than %d files", FILES_MAX);
    }
    if (asprintf(&m->path, "%s%s", dir, name) < 0) {
        m->path = NULL;
        free(text);
        return err_nomem(e);
    }
    m->text = text;
    m->len = len;
    m->guarded = guarded;
    b->n++;
    return 0;
}

static int bundle_json(struct bundle *b, const char *path, json_t *owned,
                       bool guarded, struct err *e)
{
    size_t len = 0;
    char *text = owned != NULL ? json_canonical(owned, &len, e) : NULL;

    json_decref(owned);
    return bundle_take(b, "", path, text, len, guarded, e);
}

static int compile_people(struct bundle *b, const json_t *tree, struct err *e)
{
    struct people *p = NULL;
    int r;

    if (people_load(tree, "people", NULL, &p, e) != 0)
        return -1;
    r = bundle_json(b, "people.json", people_json(p), true, e);
    people_free(p);
    return r;
}

static int compile_keys(struct bundle *b, const json_t *keys, struct err *e)
{
    const char *kid;
    json_t *v;

    if (!json_is_object(keys))
        return err_set(e, ERR_CONFIG, "generation_content",
                       "keys are not an object");
    json_object_foreach(
        (json_t *)(uintptr_t)keys, kid,
        v) if (!json_is_string(v)) return err_set(e, ERR_CONFIG,
                                                  "generation_content",
                                                  "key %s is not text", kid);
    return bundle_json(b, "keys.json", json_deep_copy(keys), true, e);
}

static int is_yaml(const struct dirent *d)
{
    size_t n = strlen(d->d_name);

    return d->d_name[0] != '.' && n > 5 &&
           strcmp(d->d_name + n - 5, ".yaml") == 0;
}

static int add_workflows(struct allowlist *a, const char *dir, const char *name,
                         struct err *e)
{
    struct yaml_lines *lines = NULL;
    char *path = NULL, *text = NULL;
    json_t *tree = NULL;
    size_t len = 0;
    int r = -1;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return err_nomem(e);
    if (file_check_trusted(path, geteuid(), false, false, e) != 0)
        goto out;
    text = file_read(AT_FDCWD, path, YAML_BYTES_MAX, &len, e);
    if (text == NULL)
        goto out;
    tree = yaml_parse(text, len, path, &lines, e);
    if (tree != NULL)
        r = allowlist_add(a, tree, path, lines, e);
out:
    json_decref(tree);
    yaml_lines_free(lines);
    free(text);
    free(path);
    return r;
}

static int read_workflows(struct allowlist *a, const char *dir, struct err *e)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, is_yaml, alphasort);
    int r = 0;

    if (n < 0)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing", "folder %s",
                       dir);
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = add_workflows(a, dir, list[i]->d_name, e);
        free(list[i]);
    }
    free(list);
    return r;
}

char *generation_template(int templates_dirfd, const char *name, size_t *len,
                          struct err *e)
{
    char *text;

    if (!template_name_valid(name)) {
        err_set(e, ERR_CONFIG, "template_name",
                "%.64s is not a template's name", name);
        return NULL;
    }
    if (faccessat(templates_dirfd, name, F_OK, 0) != 0) {
        err_set(e, ERR_CONFIG, "template_missing", "there is no template %s",
                name);
        return NULL;
    }
    text = file_read(templates_dirfd, name, TEMPLATE_MAX, len, e);
    if (text == NULL)
        return NULL;
    if (render_check(text, *len, name, e) == 0)
        return text;
    free(text);
    return NULL;
}

static bool bundle_has(const struct bundle *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (strncmp(b->v[i].path, TEMPLATES, strlen(TEMPLATES)) == 0 &&
            strcmp(b->v[i].path + strlen(TEMPLATES), name) == 0)
            return true;
    return false;
}

static int add_template(struct bundle *b, int dirfd, const char *dir,
                        const char *name, struct err *e)
{
    char *path = NULL, *text;
    size_t len = 0;
    int r;

    if (bundle_has(b, name))
        return 0;
    text = generation_template(dirfd, name, &len, e);
    if (text == NULL)
        return -1;
    if (asprintf(&path, "%s/%s", dir, name) < 0) {
        free(text);
        return err_nomem(e);
    }
    r = file_check_trusted(path, geteuid(), false, false, e);
    free(path);
    if (r != 0) {
        free(text);
        return -1;
    }
    return bundle_take(b, TEMPLATES, name, text, len, false, e);
}

static int compile_catalog(struct bundle *b, const char *workflows_dir,
                           const char *templates_dir, struct err *e)
{
    struct allowlist *a = allowlist_new();
    int dirfd = -1, r = -1;

    if (a == NULL)
        return err_nomem(e);
    if (read_workflows(a, workflows_dir, e) != 0)
        goto out;
    dirfd = open_dir(AT_FDCWD, templates_dir, "template_missing", e);
    if (dirfd < 0 || add_template(b, dirfd, templates_dir, PRELUDE, e) != 0)
        goto out;
    for (size_t i = 0; i < allowlist_count(a); i++)
        if (add_template(b, dirfd, templates_dir,
                         allowlist_at(a, i)->template_name, e) != 0)
            goto out;
    r = bundle_json(b, CATALOG, allowlist_json(a), false, e);
out:
    allowlist_free(a);
    close_fd(&dirfd);
    return r;
}

/* The last member; its digest is the generation's name. */
static int compile_manifest(struct bundle *b, char *id, struct err *e)
{
    json_t *root = json_object(), *files = json_object();
    char hex[SHA256_HEX_LEN + 1];
    const struct member *m;
    int r = 0;

    for (size_t i = 0; files != NULL && i < b->n && r == 0; i++) {
        r = crypto_sha256_hex(b->v[i].text, b->v[i].len, hex, e);
        r |= json_put_str(files, b->v[i].path, hex);
    }
    r |= json_put_int(root, "version", 1);
    r |= json_put(root, "files", files);
    if (r != 0) {
        json_decref(root);
        return err_nomem(e);
    }
    if (bundle_json(b, "manifest.json", root, false, e) != 0)
        return -1;
    m = &b->v[b->n - 1];
    return crypto_sha256_hex(m->text, m->len, id, e);
}

/* --- install ------------------------------------------------------------ */

/* Empty what an interrupted install left: at most templates/ below catalog/
 * below it, so three levels. */
static int remove_tree(int at, const char *name, int levels, struct err *e)
{
    struct dirent *d;
    DIR *dir;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = 0;

    if (fd < 0)
        return errno == ENOENT ? 0
                               : err_sys(e, ERR_INTERNAL, errno, "file_write",
                                         "removing %s", name);
    dir = fdopendir(fd);
    if (dir == NULL) {
        (void)close(fd);
        return err_nomem(e);
    }
    while (r == 0 && (d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, d->d_name, 0) == 0 || levels == 0)
            continue;
        r = remove_tree(fd, d->d_name, levels - 1, e);
    }
    (void)closedir(dir);
    if (r == 0 && unlinkat(at, name, AT_REMOVEDIR) != 0)
        r = err_sys(e, ERR_INTERNAL, errno, "file_write", "removing %s", name);
    return r;
}

static int make_dir(int at, const char *name, struct err *e)
{
    if (mkdirat(at, name, 0700) != 0 || fchmodat(at, name, DIR_MODE, 0) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "file_write", "folder %s", name);
    return 0;
}

static int write_bundle(int store, const struct bundle *b, gid_t group,
                        struct err *e)
{
    int dir, r = -1;

    if (make_dir(store, NEW_DIR, e) != 0)
        return -1;
    dir = open_dir(store, NEW_DIR, "generation_missing", e);
    if (dir < 0 || make_dir(dir, "catalog", e) != 0 ||
        make_dir(dir, "catalog/templates", e) != 0)
        goto out;
    for (size_t i = 0; i < b->n; i++) {
        const struct member *m = &b->v[i];
        if (file_write(dir, m->path, m->text, m->len,
                       m->guarded ? GUARDED_MODE : FILE_MODE, (uid_t)-1,
                       m->guarded ? group : (gid_t)-1, e) != 0)
            goto out;
    }
    r = 0;
out:
    close_fd(&dir);
    return r;
}

static int commit_bundle(int store, const struct bundle *b, const char *id,
                         gid_t group, struct err *e)
{
    if (remove_tree(store, NEW_DIR, 3, e) != 0)
        return -1;
    if (write_bundle(store, b, group, e) != 0 ||
        /* Not active before `current` names it. */
        write_state(store, id, "retired", e) != 0)
        goto fail;
    if (renameat(store, NEW_DIR, store, id) != 0) {
        err_sys(e, ERR_INTERNAL, errno, "file_write", "renaming %s", NEW_DIR);
        goto fail;
    }
    if (fsync(store) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "file_write", "fsync");
    return 0;
fail:
    (void)remove_tree(store, NEW_DIR, 3, NULL);
    return -1;
}

/* The store's folder, locked: one install at a time. */
static int open_store(const char *store, struct err *e)
{
    int fd;

    if (mkdir(store, DIR_MODE) != 0 && errno != EEXIST)
        return err_sys(e, ERR_CONFIG, errno, "generation_missing", "folder %s",
                       store);
    fd = open_dir(AT_FDCWD, store, "generation_missing", e);
    if (fd < 0)
        return -1;
    if (check_owner(fd, e) != 0) {
        (void)close(fd);
        return -1;
    }
    if (flock(fd, LOCK_EX) != 0) {
        err_sys(e, ERR_INTERNAL, errno, "generation_lock", "locking the store");
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int install_bundle(const char *store, const struct bundle *b,
                          const char *id, gid_t group, struct err *e)
{
    struct generation *g = NULL;
    int r = 0, fd = open_store(store, e);

    if (fd < 0)
        return -1;
    if (faccessat(fd, id, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        r = commit_bundle(fd, b, id, group, e);
    (void)close(fd); /* and unlock */
    /* What is there now is read back as the daemons will read it. */
    if (r == 0)
        r = generation_load(store, id, &g, e);
    generation_unref(g);
    return r;
}

int generation_install(const char *store, const char *workflows_dir,
                       const char *templates_dir, const json_t *people,
                       const json_t *keys, gid_t group, char *out_id,
                       struct err *e)
{
    struct err mine = ERR_INIT;
    struct err *to = e != NULL ? e : &mine;
    struct bundle *b = calloc(1, sizeof(*b));
    char id[GENERATION_ID_LEN + 1] = "";
    int r = -1;

    if (b == NULL)
        return err_nomem(to);
    if (compile_people(b, people, to) == 0 && compile_keys(b, keys, to) == 0 &&
        compile_catalog(b, workflows_dir, templates_dir, to) == 0 &&
        compile_manifest(b, id, to) == 0)
        r = install_bundle(store, b, id, group, to);
    if (r == 0)
        memcpy(out_id, id, sizeof(id));
    bundle_free(b);
    return r;
}

static int move_current(int store, const char *id, struct err *e)
{
    static const char tmp[] = ".current.new";

    if ((unlinkat(store, tmp, 0) != 0 && errno != ENOENT) ||
        symlinkat(id, store, tmp) != 0 ||
        renameat(store, tmp, store, "current") != 0 || fsync(store) != 0)
        return err_sys(e, ERR_INTERNAL, errno, "file_write",
                       "moving `current`");
    return 0;
}

int generation_switch(const char *store, const char *id, struct err *e)
{
    char before[GENERATION_ID_LEN + 1] = "", now[GENERATION_ID_LEN + 1] = "";
    int had, r = -1, fd = open_store(store, e);

    if (fd < 0)
        return -1;
    had = read_current(fd, before, e);
    if (had < 0 || choose(fd, id, now, e) != 0)
        goto out;
    if (faccessat(fd, now, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        err_set(e, ERR_CONFIG, "generation_missing",
                "there is no generation %.12s", now);
        goto out;
    }
    if (write_state(fd, now, "active", e) != 0 || move_current(fd, now, e) != 0)
        goto out;
    r = 0;
    /* A revoked one stays revoked. */
    if (had == 1 && strcmp(before, now) != 0) {
        const char *state = read_state(fd, before, NULL);
        if (state != NULL && strcmp(state, "active") == 0)
            r = write_state(fd, before, "retired", e);
    }
out:
    (void)close(fd);
    return r;
}
