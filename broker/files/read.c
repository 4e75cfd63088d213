/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * log, artifacts, artifact: bytes of the run folder on the request's pipe.
 * Only results/ and the logs are ever named; never the sidecar.
 */
#include "broker/files/files.h"

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
    LIST_MAX = 1000,       /* entries told */
    LIST_SEEN_MAX = 20000, /* entries looked at */
    LIST_DEPTH_MAX = 8,
    LIST_PATH_MAX = 1024,
    CHUNK = 64 * 1024,
    ATTEMPT_MAX = 99999
};
#define OFFSET_MAX (INT64_C(1) << 53) /* exact in every JSON reader */

static int open_run(struct run *n, const struct files *f,
                    const struct worker_request *r, struct err *e)
{
    return run_open(n, f->site, r->person.account, r->ulid, e);
}

/* [offset, offset + limit) of fd to the pipe; *sent says how many came. */
static int stream(const struct worker_request *r, int fd, int64_t offset,
                  int64_t limit, int64_t *sent, struct err *e)
{
    char *chunk = malloc(CHUNK);
    int rc = 0;

    *sent = 0;
    if (chunk == NULL)
        return err_nomem(e);
    while (rc == 0 && *sent < limit) {
        size_t want = limit - *sent < CHUNK ? (size_t)(limit - *sent) : CHUNK;
        ssize_t n = pread(fd, chunk, want, (off_t)(offset + *sent));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(e, ERR_UNAVAILABLE, errno, "file_read",
                         "the file can't be read");
        if (n <= 0)
            break;
        rc = worker_pipe(r, chunk, (size_t)n, e);
        *sent += n;
    }
    free(chunk);
    return rc;
}

static int put_range(json_t *result, int64_t size, int64_t offset,
                     int64_t bytes, struct err *e)
{
    int bad = json_put_int(result, "size", size);

    bad |= json_put_int(result, "offset", offset);
    bad |= json_put_int(result, "bytes", bytes);
    return bad == 0 ? 0 : err_nomem(e);
}

static int send_file(const struct worker_request *r, int dirfd,
                     const char *path, int64_t offset, int64_t limit,
                     json_t *result, struct err *e)
{
    struct stat st;
    int64_t sent = 0;
    int fd = run_open_file(dirfd, path, &st, e);
    int rc;

    if (fd < 0)
        return -1;
    rc = stream(r, fd, offset, limit, &sent, e);
    (void)close(fd);
    return rc == 0 ? put_range(result, st.st_size, offset, sent, e) : -1;
}

/* --- log --------------------------------------------------------------------
 */

struct log_args {
    const char *stream;
    int64_t attempt, offset, limit;
};

static int read_log_args(const json_t *args, struct log_args *a, struct err *e)
{
    static const char *const keys[] = {"stream", "attempt", "offset", "limit",
                                       NULL};

    if (json_only(args, keys, "/args", e) != 0 ||
        json_get_str(args, "stream", true, 8, &a->stream, "/args", e) != 0 ||
        json_get_int(args, "attempt", true, 0, ATTEMPT_MAX, &a->attempt,
                     "/args", e) != 0 ||
        json_get_int(args, "offset", true, 0, OFFSET_MAX, &a->offset, "/args",
                     e) != 0 ||
        json_get_int(args, "limit", true, 0, PROTO_LOG_MAX, &a->limit, "/args",
                     e) != 0)
        return -1;
    if (strcmp(a->stream, "stdout") != 0 && strcmp(a->stream, "stderr") != 0)
        return err_set(e, ERR_INVALID, "log_stream",
                       "stream is stdout or stderr");
    return 0;
}

int files_log(void *context, struct worker_request *r, json_t *result,
              struct err *e)
{
    struct log_args a = {.attempt = 0};
    char name[RUN_LOG_NAME_MAX];
    struct err why = ERR_INIT;
    struct run n;
    int rc = -1;

    run_init(&n);
    if (read_log_args(r->args, &a, e) != 0 || open_run(&n, context, r, e) != 0)
        goto out;
    run_log_name(name, a.stream, (long)a.attempt);
    rc = send_file(r, n.run_fd, name, a.offset, a.limit, result, &why);
    /* Slurm makes the first attempt's log when the job starts. */
    if (rc != 0 && a.attempt == 0 && strcmp(why.code, "file_missing") == 0)
        rc = put_range(result, 0, a.offset, 0, e);
    else if (rc != 0)
        *e = why;
    if (rc == 0 && json_put_int(result, "attempt", a.attempt) != 0)
        rc = err_nomem(e);
out:
    run_clear(&n);
    return rc;
}

/* --- artifacts ---------------------------------------------------------------
 */

struct listing {
    json_t *rows;
    size_t seen;
};

static int list_add(struct listing *l, const char *path, const struct stat *st,
                    struct err *e)
{
    json_t *row = json_object();
    int bad = json_put_str(row, "path", path);

    bad |= json_put_int(row, "bytes", st->st_size);
    bad |= json_put_int(row, "mtime", st->st_mtime);
    if (bad != 0) {
        json_decref(row);
        return err_nomem(e);
    }
    return json_array_append_new(l->rows, row) == 0 ? 0 : err_nomem(e);
}

static bool printable(const char *s)
{
    for (const char *p = s; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return json_utf8_valid(s, strlen(s));
}

static int list_folder(struct listing *l, int fd, const char *prefix, int depth,
                       struct err *e);

/* What is neither a plain file of the owner nor his folder is passed over. */
static int list_entry(struct listing *l, int dirfd, const char *name,
                      const char *prefix, int depth, struct err *e)
{
    char path[LIST_PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s%s", prefix, name), fd, rc;

    if (n < 0 || (size_t)n >= sizeof(path) - 1 || !printable(name) ||
        fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        st.st_uid != geteuid())
        return 0;
    if (S_ISREG(st.st_mode) && st.st_nlink == 1)
        return list_add(l, path, &st, e);
    if (!S_ISDIR(st.st_mode) || depth >= LIST_DEPTH_MAX)
        return 0;
    fd = run_open_folder(dirfd, name);
    if (fd < 0)
        return 0;
    path[n] = '/';
    path[n + 1] = '\0';
    rc = list_folder(l, fd, path, depth + 1, e);
    (void)close(fd);
    return rc;
}

static int list_folder(struct listing *l, int fd, const char *prefix, int depth,
                       struct err *e)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0), rc = 0;
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    struct dirent *entry;

    if (d == NULL) {
        if (copy >= 0)
            (void)close(copy);
        return err_sys(e, ERR_UNAVAILABLE, errno, "file_read", "readdir");
    }
    while (rc == 0 && json_array_size(l->rows) < LIST_MAX &&
           l->seen++ < LIST_SEEN_MAX && (entry = readdir(d)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = list_entry(l, fd, entry->d_name, prefix, depth, e);
    (void)closedir(d);
    return rc;
}

/* The logs first, attempt by attempt as long as there are any. */
static int list_logs(struct listing *l, int run_fd, struct err *e)
{
    static const char *const streams[] = {"stdout", "stderr"};
    char name[RUN_LOG_NAME_MAX];
    struct stat st;
    size_t before;

    for (long attempt = 0;
         attempt <= ATTEMPT_MAX && json_array_size(l->rows) < LIST_MAX;
         attempt++) {
        before = json_array_size(l->rows);
        for (size_t i = 0; i < 2; i++) {
            run_log_name(name, streams[i], attempt);
            if (fstatat(run_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(st.st_mode) && st.st_nlink == 1 &&
                st.st_uid == geteuid() && list_add(l, name, &st, e) != 0)
                return -1;
        }
        if (attempt > 0 && json_array_size(l->rows) == before)
            return 0;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const json_t *const *x = a, *const *y = b;

    return strcmp(json_string_value(json_object_get(*x, "path")),
                  json_string_value(json_object_get(*y, "path")));
}

static int sort_rows(json_t *rows, json_t **out, struct err *e)
{
    size_t n = json_array_size(rows);
    json_t **v = calloc(n + 1, sizeof(*v)), *sorted = json_array();
    int bad = v == NULL || sorted == NULL ? -1 : 0;

    for (size_t i = 0; bad == 0 && i < n; i++)
        v[i] = json_array_get(rows, i);
    if (bad == 0)
        qsort(v, n, sizeof(*v), compare_rows);
    for (size_t i = 0; bad == 0 && i < n; i++)
        bad = json_array_append(sorted, v[i]);
    free(v);
    if (bad != 0) {
        json_decref(sorted);
        return err_nomem(e);
    }
    *out = sorted;
    return 0;
}

static int send_listing(const struct worker_request *r, json_t *rows,
                        struct err *e)
{
    json_t *sorted = NULL;
    char *text = NULL;
    int rc = -1;

    if (sort_rows(rows, &sorted, e) == 0) {
        text = json_text(sorted);
        rc =
            text == NULL ? err_nomem(e) : worker_pipe(r, text, strlen(text), e);
    }
    free(text);
    json_decref(sorted);
    return rc;
}

int files_artifacts(void *context, struct worker_request *r, json_t *result,
                    struct err *e)
{
    static const char *const keys[] = {NULL};
    struct listing l = {json_array(), 0};
    struct run n;
    int rc = -1;

    run_init(&n);
    if (l.rows == NULL) {
        (void)err_nomem(e);
        goto out;
    }
    if (json_only(r->args, keys, "/args", e) != 0 ||
        open_run(&n, context, r, e) != 0 || list_logs(&l, n.run_fd, e) != 0)
        goto out;
    if (n.results_fd >= 0 &&
        list_folder(&l, n.results_fd, "results/", 1, e) != 0)
        goto out;
    rc = send_listing(r, l.rows, e);
    if (rc == 0 &&
        json_put_int(result, "count", (int64_t)json_array_size(l.rows)) != 0)
        rc = err_nomem(e);
out:
    json_decref(l.rows);
    run_clear(&n);
    return rc;
}

/* --- one artifact
 * ------------------------------------------------------------- */

int files_artifact(void *context, struct worker_request *r, json_t *result,
                   struct err *e)
{
    static const char *const keys[] = {"path", "offset", "limit", NULL};
    const char *path;
    int64_t offset, limit;
    struct run n;
    int rc = -1;

    run_init(&n);
    if (json_only(r->args, keys, "/args", e) != 0 ||
        json_get_str(r->args, "path", true, LIST_PATH_MAX, &path, "/args", e) !=
            0 ||
        json_get_int(r->args, "offset", true, 0, OFFSET_MAX, &offset, "/args",
                     e) != 0 ||
        json_get_int(r->args, "limit", true, 0, OFFSET_MAX, &limit, "/args",
                     e) != 0 ||
        open_run(&n, context, r, e) != 0)
        goto out;
    if (run_is_log_name(path))
        rc = send_file(r, n.run_fd, path, offset, limit, result, e);
    else if (strncmp(path, "results/", 8) == 0 && n.results_fd >= 0)
        rc = send_file(r, n.results_fd, path + 8, offset, limit, result, e);
    else
        (void)err_set(e, ERR_NOT_FOUND, "file_missing",
                      "there is no such artifact");
out:
    run_clear(&n);
    return rc;
}

const struct worker_verb *files_verbs(size_t *count)
{
    enum {
        JOB = WORKER_WANTS_ULID | WORKER_WANTS_JOB,
        PIPE = WORKER_WANTS_ULID | WORKER_WANTS_FD
    };
    static const struct worker_verb verbs[] = {
        {"check", 0, files_check},
        {"prepare", WORKER_WANTS_ULID, files_prepare},
        {"finish", JOB | WORKER_WANTS_FD, files_finish},
        {"log", PIPE, files_log},
        {"artifacts", PIPE, files_artifacts},
        {"artifact", PIPE, files_artifact},
    };

    *count = sizeof(verbs) / sizeof(verbs[0]);
    return verbs;
}
