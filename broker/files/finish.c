/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * finish: the sidecar goes, the receipts come. Idempotent: it may run again in
 * the start sweep, with nothing left to remove. What it reads is the owner's
 * word, so everything is bounded.
 */
#include "broker/files/files.h"

#include "base/crypto.h"
#include "base/json.h"
#include "broker/files/run.h"
#include "broker/proto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAMES_SEEN_MAX = 20000,
    FAILURE_FILE_MAX = 64 * 1024,
    FAILURE_TEXT_MAX = 1000,
    FAILURE_CODE_MAX = 64
};

/* --- receipts ----------------------------------------------------------------
 */

/* '*' matches any run of bytes; a leading dot only itself (as the prelude). */
static bool glob_match(const char *pattern, const char *name)
{
    const char *star = NULL, *mark = NULL;

    if (name[0] == '.' && pattern[0] != '.')
        return false;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            mark = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool is_receipt(int results_fd, const char *path)
{
    struct err ignored = ERR_INIT;
    struct stat st;
    int fd = run_open_file(results_fd, path, &st, &ignored);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

struct names {
    char *v[PROTO_RECEIPTS_MAX];
    size_t n;
};

/* The first PROTO_RECEIPTS_MAX names in order, whatever readdir's order is. */
static int names_add(struct names *s, const char *name)
{
    char *copy = strdup(name);

    if (copy == NULL)
        return -1;
    if (s->n < PROTO_RECEIPTS_MAX) {
        s->v[s->n++] = copy;
    } else if (strcmp(copy, s->v[s->n - 1]) < 0) {
        free(s->v[s->n - 1]);
        s->v[s->n - 1] = copy;
    } else {
        free(copy);
        return 0;
    }
    qsort(s->v, s->n, sizeof(s->v[0]), compare_names);
    return 0;
}

/* Names go into frames and onto terminals: no control bytes, which also grow
 * sixfold as JSON. */
static bool is_plain(const char *s)
{
    for (const char *p = s; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return json_utf8_valid(s, strlen(s));
}

static int collect(struct names *s, int fd, const char *pattern, struct err *e)
{
    DIR *d = fdopendir(fd);
    struct dirent *entry;
    size_t seen = 0;
    int rc = 0;

    if (d == NULL) {
        (void)close(fd);
        return err_sys(e, ERR_UNAVAILABLE, errno, "file_read", "readdir");
    }
    while (rc == 0 && seen++ < NAMES_SEEN_MAX && (entry = readdir(d)) != NULL)
        if (glob_match(pattern, entry->d_name) && is_plain(entry->d_name) &&
            is_receipt(dirfd(d), entry->d_name))
            rc = names_add(s, entry->d_name) == 0 ? 0 : err_nomem(e);
    (void)closedir(d);
    return rc;
}

static int append_names(json_t *out, const struct names *s, const char *prefix,
                        size_t prefix_len, struct err *e)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < s->n; i++) {
        (void)snprintf(path, sizeof(path), "%.*s%s", (int)prefix_len, prefix,
                       s->v[i]);
        if (json_array_append_new(out, json_string(path)) != 0)
            return err_nomem(e);
    }
    return 0;
}

static int match_folder(json_t *out, int results_fd, const char *pattern,
                        struct err *e)
{
    const char *slash = strrchr(pattern, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - pattern);
    struct names s = {.n = 0};
    char *folder = n == 0 ? strdup(".") : strndup(pattern, n);
    int fd, rc = 0;

    if (folder == NULL)
        return err_nomem(e);
    fd = run_open_folder(results_fd, folder);
    if (fd >= 0)
        rc = collect(&s, fd, slash == NULL ? pattern : slash + 1, e);
    if (rc == 0)
        rc = append_names(out, &s, pattern, n == 0 ? 0 : n + 1, e);
    for (size_t i = 0; i < s.n; i++)
        free(s.v[i]);
    free(folder);
    return rc;
}

json_t *files_match(int results_fd, const char *pattern, struct err *e)
{
    json_t *out = json_array();
    int rc = 0;

    if (out == NULL) {
        (void)err_nomem(e);
        return NULL;
    }
    if (strchr(pattern, '*') != NULL)
        rc = match_folder(out, results_fd, pattern, e);
    else if (is_receipt(results_fd, pattern) &&
             json_array_append_new(out, json_string(pattern)) != 0)
        rc = err_nomem(e);
    if (rc == 0)
        return out;
    json_decref(out);
    return NULL;
}

/* --- the error receipt
 * --------------------------------------------------------- */

/* Control bytes become blanks, the text ends at a character. Owned. */
static json_t *clean_text(const char *s)
{
    char text[FAILURE_TEXT_MAX + 1];
    size_t n = strnlen(s, FAILURE_TEXT_MAX);

    memcpy(text, s, n);
    while (n > 0 && !json_utf8_valid(text, n))
        n--;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
    return json_stringn(text, n);
}

static bool is_code(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return s[0] >= 'a' && s[0] <= 'z' && s[n] == '\0' && n <= FAILURE_CODE_MAX;
}

static bool is_error_class(const char *s)
{
    static const char *const words[] = {"infra",  "program", "timeout",
                                        "memory", "receipt", "upstream",
                                        "denied"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], s) == 0)
            return true;
    return false;
}

static json_t *failure_new(const char *code, const char *en, const char *zh,
                           const char *error_class)
{
    json_t *o = json_object();
    int bad = json_put_str(o, "code", code);

    bad |= json_put(o, "en", clean_text(en));
    bad |= json_put(o, "zh", clean_text(zh));
    bad |= json_put_str(o, "error_class", error_class);
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* NULL: the text does not say what it should (or no memory). */
static json_t *parse_failure(const char *text, size_t n)
{
    static const char *const keys[] = {"code", "en", "zh", "error_class", NULL};
    const char *code, *en, *zh, *error_class;
    struct err bad = ERR_INIT;
    json_t *in = json_parse(text, n, FAILURE_FILE_MAX, &bad), *out = NULL;

    if (in != NULL && json_is_object(in) &&
        json_only(in, keys, "", &bad) == 0 &&
        json_get_str(in, "code", true, FAILURE_CODE_MAX, &code, "", &bad) ==
            0 &&
        json_get_str(in, "en", true, FAILURE_FILE_MAX, &en, "", &bad) == 0 &&
        json_get_str(in, "zh", true, FAILURE_FILE_MAX, &zh, "", &bad) == 0 &&
        json_get_str(in, "error_class", true, FAILURE_CODE_MAX, &error_class,
                     "", &bad) == 0 &&
        is_code(code) && is_error_class(error_class))
        out = failure_new(code, en, zh, error_class);
    json_decref(in);
    return out;
}

static char *read_failure(int fd, size_t *n)
{
    char *text = malloc(FAILURE_FILE_MAX + 1);
    ssize_t r = 0;

    *n = 0;
    while (text != NULL && *n < FAILURE_FILE_MAX &&
           (r = read(fd, text + *n, FAILURE_FILE_MAX - *n)) > 0)
        *n += (size_t)r;
    return text;
}

json_t *files_failure(int results_fd, struct err *e)
{
    struct err why = ERR_INIT;
    struct stat st;
    json_t *out = NULL;
    char *text;
    size_t n;
    int fd = run_open_file(results_fd, "sluice-error.json", &st, &why);

    if (fd < 0 && strcmp(why.code, "file_missing") == 0)
        return json_null();
    if (fd >= 0) {
        text = read_failure(fd, &n);
        if (text != NULL)
            out = parse_failure(text, n);
        free(text);
        (void)close(fd);
    }
    if (out == NULL)
        out = failure_new("error_receipt_broken",
                          "the job left an error receipt that can't be read",
                          "作业留下的错误凭据无法读取", "program");
    if (out == NULL)
        (void)err_nomem(e);
    return out;
}

/* --- the verb ---------------------------------------------------------------
 */

static const char *remove_sidecar(const struct run *n)
{
    if (n->run_fd < 0)
        return "absent";
    if (unlinkat(n->run_fd, "secrets.env", 0) == 0)
        return fsync(n->run_fd) == 0 ? "removed" : "failed";
    return errno == ENOENT ? "absent" : "failed";
}

/* At most PROTO_RECEIPT_MAX bytes; -1 on failure. */
static ssize_t read_receipt(int fd, char *p)
{
    size_t got = 0;
    ssize_t r = 1;

    while (got < PROTO_RECEIPT_MAX && r != 0) {
        r = read(fd, p + got, PROTO_RECEIPT_MAX - got);
        if (r < 0 && errno != EINTR)
            return -1;
        got += r > 0 ? (size_t)r : 0;
    }
    return (ssize_t)got;
}

/* Bytes on the pipe and what they are; a file that has just gone is left out
 * and counts as missing at the next finish. */
static json_t *send_receipt(const struct worker_request *r, int fd,
                            const char *path, const struct stat *st, char *p,
                            struct err *e)
{
    char digest[SHA256_HEX_LEN + 1], name[PATH_MAX];
    ssize_t n = read_receipt(fd, p);
    json_t *row = json_object();
    int bad;

    if (n < 0)
        (void)err_sys(e, ERR_UNAVAILABLE, errno, "file_read",
                      "a receipt can't be read");
    if (n < 0 || crypto_sha256_hex(p, (size_t)n, digest, e) != 0 ||
        worker_pipe(r, p, (size_t)n, e) != 0) {
        json_decref(row);
        return NULL;
    }
    (void)snprintf(name, sizeof(name), "results/%s", path);
    bad = json_put_str(row, "path", name);
    bad |= json_put_int(row, "bytes", n);
    bad |= json_put_str(row, "sha256", digest);
    bad |= json_put_bool(row, "truncated", st->st_size > n);
    if (bad == 0)
        return row;
    json_decref(row);
    (void)err_nomem(e);
    return NULL;
}

static int send_receipts(const struct worker_request *r, int results_fd,
                         const json_t *paths, json_t *receipts, struct err *e)
{
    char *p = malloc(PROTO_RECEIPT_MAX);
    struct err ignored = ERR_INIT;
    struct stat st;
    json_t *path, *row;
    size_t i;
    int rc = p == NULL ? err_nomem(e) : 0;

    json_array_foreach(paths, i, path)
    {
        const char *name = json_string_value(path);
        int fd;

        if (rc != 0 || json_array_size(receipts) >= PROTO_RECEIPTS_MAX)
            break;
        fd = run_open_file(results_fd, name, &st, &ignored);
        err_clear(&ignored);
        if (fd < 0)
            continue;
        row = send_receipt(r, fd, name, &st, p, e);
        (void)close(fd);
        rc = row == NULL ? -1 : 0;
        if (row != NULL && json_array_append_new(receipts, row) != 0)
            rc = err_nomem(e);
    }
    free(p);
    return rc;
}

static int check_pattern(const struct worker_request *r, int results_fd,
                         const char *pattern, json_t *receipts, json_t *missing,
                         struct err *e)
{
    json_t *paths =
        results_fd < 0 ? json_array() : files_match(results_fd, pattern, e);
    size_t before = json_array_size(receipts);
    int rc = -1;

    if (paths != NULL)
        rc = send_receipts(r, results_fd, paths, receipts, e);
    if (rc == 0 && json_array_size(receipts) == before &&
        json_array_size(receipts) < PROTO_RECEIPTS_MAX &&
        json_array_append_new(missing, json_string(pattern)) != 0)
        rc = err_nomem(e);
    json_decref(paths);
    return rc;
}

static int check_receipts(const struct worker_request *r,
                          const struct workflow *w, int results_fd,
                          json_t *result, struct err *e)
{
    json_t *patterns = workflow_receipts(w), *pattern;
    json_t *receipts = json_array(), *missing = json_array();
    size_t i;
    int rc = patterns == NULL || receipts == NULL || missing == NULL
                 ? err_nomem(e)
                 : 0;

    json_array_foreach(patterns, i, pattern) if (rc == 0) rc = check_pattern(
        r, results_fd, json_string_value(pattern), receipts, missing, e);
    if (rc == 0 && (json_put(result, "receipts", json_incref(receipts)) != 0 ||
                    json_put(result, "missing", json_incref(missing)) != 0))
        rc = err_nomem(e);
    json_decref(patterns);
    json_decref(receipts);
    json_decref(missing);
    return rc;
}

static int finish_run(const struct files *f, const struct worker_request *r,
                      const struct run *n, json_t *result, struct err *e)
{
    const struct workflow *w =
        allowlist_find(f->generation->allowlist, r->job.workflow);
    json_t *failure;

    /* First of all, so that a lost reader can't keep the secret alive. */
    if (json_put_str(result, "sidecar", remove_sidecar(n)) != 0)
        return err_nomem(e);
    if (w == NULL)
        return err_set(e, ERR_NOT_FOUND, "workflow_unknown",
                       "the job's workflow is not in its generation");
    if (check_receipts(r, w, n->results_fd, result, e) != 0)
        return -1;
    failure = n->results_fd < 0 ? json_null() : files_failure(n->results_fd, e);
    if (failure == NULL)
        return -1;
    return json_put(result, "failure", failure) == 0 ? 0 : err_nomem(e);
}

int files_finish(void *context, struct worker_request *r, json_t *result,
                 struct err *e)
{
    static const char *const keys[] = {NULL};
    const struct files *f = context;
    struct err why = ERR_INIT;
    struct run n;
    int rc = -1;

    run_init(&n);
    if (json_only(r->args, keys, "/args", e) != 0)
        goto out;
    if (run_open(&n, f->site, r->person.account, r->ulid, &why) != 0 &&
        strcmp(why.code, "run_missing") != 0) {
        *e = why;
        goto out;
    }
    rc = finish_run(f, r, &n, result, e);
out:
    run_clear(&n);
    return rc;
}
