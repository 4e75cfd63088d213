/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-files' verbs against a jobs root of this test's own, as whoever runs
 * it; and what a hostile owner may put into his run folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crypto.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/files/files.h"
#include "broker/files/run.h"
#include "broker/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ULID "01J9ZQ4Y8N5V3K7T2M6R0W1XAB"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
enum { PATH_BYTES = 4096, DATA_MAX = 1 << 20 };

static const char catalog[] =
    "{\"version\":1,\"workflows\":{\"w\":{"
    "\"title\":{\"en\":\"t\",\"zh\":\"t\"},\"template\":\"w.sh\","
    "\"allow\":{\"groups\":[\"g\"],\"users\":[],\"tags\":[]},"
    "\"resources\":{\"partition\":\"p\",\"nodes\":1,\"tasks\":1,"
    "\"mem_per_node\":\"1G\",\"time\":\"00:10:00\"},"
    "\"params\":{"
    "\"file\":{\"type\":\"path\",\"under\":\"inputs\",\"exists\":\"file\","
    "\"max_bytes\":100,\"optional\":true},"
    "\"dir\":{\"type\":\"path\",\"under\":\"inputs\",\"exists\":\"dir\","
    "\"max_bytes\":100,\"optional\":true},"
    "\"many\":{\"type\":\"path\",\"under\":\"inputs\",\"exists\":\"file\","
    "\"max_bytes\":100,\"list\":{\"min\":0,\"max\":4},\"optional\":true}},"
    "\"secrets\":[\"TOKEN\"],\"modules\":[],\"environment\":{},"
    "\"share\":\"none\",\"receipts\":[\"done.json\",\"part-*.json\"]}}}";

static char top[] = "/tmp/sluice-files-XXXXXX";
static char jobs_root[64], inputs[64];
static struct worker_site site;
static struct generation *generation;
static struct files files;
static struct worker worker;
static char piped[DATA_MAX]; /* what came through the request's pipe */
static size_t piped_len;

/* --- the site --------------------------------------------------------------
 */

static const char *path(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static const char *path(const char *fmt, ...)
{
    static char text[4][PATH_BYTES];
    static unsigned next;
    char *out = text[next++ % 4];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(out, PATH_BYTES, fmt, ap);
    va_end(ap);
    return out;
}

static const char *in_run(const char *name)
{
    return path("%s/alice/%s/%s", jobs_root, ULID, name);
}

static void put(const char *where, const char *text)
{
    FILE *f = fopen(where, "w");

    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void folder(const char *where, mode_t mode)
{
    assert_int_equal(mkdir(where, 0700), 0);
    assert_int_equal(chmod(where, mode), 0);
}

static void run_shell(const char *command)
{
    /* Only fixed texts and mkdtemp's own name come here. */
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

static int setup(void **state)
{
    struct err e = ERR_INIT;
    int fd;

    (void)state;
    if (mkdtemp(top) == NULL || chmod(top, 0755) != 0)
        return -1;
    (void)umask(022);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(jobs_root, sizeof(jobs_root), "%s/jobs", top);
    (void)snprintf(inputs, sizeof(inputs), "%s/inputs", top);
    folder(inputs, 0755);
    folder(path("%s/catalog", top), 0755);
    folder(path("%s/catalog/templates", top), 0755);
    put(path("%s/catalog/workflows.json", top), catalog);
    put(path("%s/catalog/templates/prelude.sh", top), "# prelude\n");
    put(path("%s/catalog/templates/w.sh", top), "true\n");
    fd = open(path("%s/catalog", top), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (generation_from_catalog(fd, &generation, &e) != 0)
        fail_msg("%s", e.text);
    (void)close(fd);
    site = (struct worker_site){
        .jobs_root = jobs_root, .inputs = inputs, .models = inputs};
    files = (struct files){&site, generation};
    worker = (struct worker){.sock = -1, .context = &files};
    worker.verbs = files_verbs(&worker.count);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    generation_unref(generation);
    run_shell(path("rm -rf %s", top));
    return 0;
}

/* A fresh jobs root for each test. */
static int fresh(void **state)
{
    (void)state;
    run_shell(path("rm -rf %s", jobs_root));
    folder(jobs_root, 0755);
    put(path("%s/.sluice-jobs-root", jobs_root), "");
    folder(path("%s/alice", jobs_root), 0700);
    return 0;
}

/* --- requests ---------------------------------------------------------------
 */

static json_t *request(const char *verb, json_t *args)
{
    json_t *job =
        json_pack("{s:s,s:n,s:n,s:s,s:I}", "workflow", "w", "job_id",
                  "submit_time", "name", "w.x", "uid", (json_int_t)geteuid());
    json_t *person = json_pack("{s:s,s:s,s:s,s:s,s:n,s:n}", "name", "alice",
                               "account", "alice", "home", "/home/alice",
                               "shell", "/bin/bash", "slurm_account", "qos");

    return json_pack("{s:i,s:s,s:s,s:s,s:o,s:o,s:o}", "v", 1, "request", "r",
                     "verb", verb, "ulid", ULID, "args", args, "person", person,
                     "job", job);
}

static void drain(int fd)
{
    ssize_t n;

    while (piped_len < sizeof(piped) &&
           (n = read(fd, piped + piped_len, sizeof(piped) - piped_len)) > 0)
        piped_len += (size_t)n;
    (void)close(fd);
}

/* The result (owned), or NULL and *code. A pipe of 1 MiB takes all answers. */
static json_t *ask(const char *verb, json_t *args, bool with_pipe,
                   struct err *failure)
{
    json_t *body = request(verb, args), *frame, *result;
    struct err e = ERR_INIT;
    int p[2] = {-1, -1};

    err_clear(failure);
    piped_len = 0;
    if (with_pipe) {
        assert_int_equal(pipe2(p, O_CLOEXEC), 0);
        assert_true(fcntl(p[1], F_SETPIPE_SZ, DATA_MAX) >= 0);
    }
    frame = worker_answer(&worker, body, p[1], &e);
    assert_non_null(frame);
    if (with_pipe)
        drain(p[0]); /* ends only because the worker has closed its end */
    result = json_incref(json_object_get(frame, "result"));
    if (result == NULL)
        assert_int_equal(wire_err_get(frame, "error", failure), 0);
    json_decref(frame);
    json_decref(body);
    return result;
}

static json_t *must(const char *verb, json_t *args, bool with_pipe)
{
    struct err e = ERR_INIT;
    json_t *r = ask(verb, args, with_pipe, &e);

    if (r == NULL)
        fail_msg("%s: %s %s", verb, e.code, e.text);
    return r;
}

static void refused(const char *verb, json_t *args, bool with_pipe,
                    enum err_class class, const char *code)
{
    struct err e = ERR_INIT;
    json_t *r = ask(verb, args, with_pipe, &e);

    assert_null(r);
    assert_string_equal(e.code, code);
    assert_int_equal(e.class, class);
    assert_int_equal(piped_len, 0);
}

static json_t *work(void)
{
    return json_pack("{s:s,s:{}}", "workflow", "w", "params");
}

static void prepare(void)
{
    json_decref(must("prepare", work(), false));
}

static void prepare_secret(void)
{
    json_decref(must("prepare",
                     json_pack("{s:s,s:{},s:{s:s}}", "workflow", "w", "params",
                               "secrets", "TOKEN", "s3cret"),
                     false));
}

static json_t *log_args(const char *stream, int attempt, int offset, int limit)
{
    return json_pack("{s:s,s:i,s:i,s:i}", "stream", stream, "attempt", attempt,
                     "offset", offset, "limit", limit);
}

static json_t *file_args(const char *name, int offset, int limit)
{
    return json_pack("{s:s,s:i,s:i}", "path", name, "offset", offset, "limit",
                     limit);
}

static int64_t number(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static const char *word(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void piped_is(const char *want)
{
    assert_int_equal(piped_len, strlen(want));
    assert_memory_equal(piped, want, piped_len);
}

/* --- prepare
 * ------------------------------------------------------------------- */

static void mode_is(const char *where, mode_t mode)
{
    struct stat st;

    assert_int_equal(lstat(where, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    assert_int_equal(st.st_uid, geteuid());
}

static void prepare_makes_a_private_folder(void **state)
{
    json_t *r = must("prepare", work(), false);
    char digest[SHA256_HEX_LEN + 1], text[8192];
    struct err e = ERR_INIT;
    FILE *f;
    size_t n;

    (void)state;
    assert_true(json_is_false(json_object_get(r, "has_sidecar")));
    mode_is(in_run(""), 0700);
    mode_is(in_run("results"), 0700);
    mode_is(in_run("params.json"), 0600);
    mode_is(in_run("script.sh"), 0600);
    assert_int_equal(access(in_run("secrets.env"), F_OK), -1);
    f = fopen(in_run("script.sh"), "r");
    assert_non_null(f);
    n = fread(text, 1, sizeof(text), f);
    (void)fclose(f);
    assert_int_equal(crypto_sha256_hex(text, n, digest, &e), 0);
    assert_string_equal(word(r, "script_sha256"), digest);
    json_decref(r);
}

static void the_secret_is_in_one_private_file(void **state)
{
    char text[128];
    FILE *f;

    (void)state;
    prepare_secret();
    mode_is(in_run("secrets.env"), 0600);
    f = fopen(in_run("secrets.env"), "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    (void)fclose(f);
    assert_string_equal(text, "TOKEN=czNjcmV0\n");
    run_shell(path("! grep -r s3cret %s", jobs_root));
}

static void a_ulid_is_prepared_once(void **state)
{
    (void)state;
    prepare_secret();
    refused("prepare", work(), false, ERR_CONFLICT, "run_exists");
    /* And the first one's files are untouched. */
    mode_is(in_run("secrets.env"), 0600);
    mode_is(in_run("script.sh"), 0600);
}

static void what_does_not_validate_makes_no_folder(void **state)
{
    (void)state;
    refused("prepare",
            json_pack("{s:s,s:{s:i}}", "workflow", "w", "params", "nope", 1),
            false, ERR_INVALID, "param_unknown");
    refused("prepare",
            json_pack("{s:s,s:{},s:{s:s}}", "workflow", "w", "params",
                      "secrets", "OTHER", "x"),
            false, ERR_INVALID, "secret_unknown");
    refused("prepare", json_pack("{s:s,s:{}}", "workflow", "nope", "params"),
            false, ERR_NOT_FOUND, "workflow_unknown");
    refused(
        "prepare",
        json_pack("{s:s,s:{s:s}}", "workflow", "w", "params", "file", "absent"),
        false, ERR_INVALID, "path_missing");
    assert_int_equal(access(in_run(""), F_OK), -1);
}

static void an_empty_mount_point_is_not_written(void **state)
{
    (void)state;
    assert_int_equal(unlink(path("%s/.sluice-jobs-root", jobs_root)), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "storage_missing");
    assert_int_equal(
        symlink("/etc/hostname", path("%s/.sluice-jobs-root", jobs_root)), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "storage_missing");
    assert_int_equal(rmdir(path("%s/alice", jobs_root)), 0);
}

static void folders_of_a_wrong_kind_are_refused(void **state)
{
    static const mode_t modes[] = {0755, 0770, 0777, 02770, 0750, 0711};

    (void)state;
    assert_int_equal(chmod(jobs_root, 0775), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "storage_mode");
    assert_int_equal(chmod(jobs_root, 0755), 0);
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod(path("%s/alice", jobs_root), modes[i]), 0);
        refused("prepare", work(), false, ERR_UNAVAILABLE, "account_folder");
    }
    assert_int_equal(rmdir(path("%s/alice", jobs_root)), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "account_folder");
    folder(path("%s/real", jobs_root), 0700);
    assert_int_equal(symlink("real", path("%s/alice", jobs_root)), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "account_folder");
}

static void anothers_account_folder_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(path("%s/alice", jobs_root), 12345, 12345), 0);
    refused("prepare", work(), false, ERR_UNAVAILABLE, "account_folder");
}

/* --- logs
 * ------------------------------------------------------------------------ */

static void a_log_is_read_by_range(void **state)
{
    json_t *r;

    (void)state;
    prepare();
    r = must("log", log_args("stdout", 0, 0, 100), true); /* not there yet */
    assert_int_equal(number(r, "size"), 0);
    json_decref(r);
    put(in_run("stdout.log"), "0123456789");
    r = must("log", log_args("stdout", 0, 3, 4), true);
    piped_is("3456");
    assert_int_equal(number(r, "size"), 10);
    assert_int_equal(number(r, "offset"), 3);
    assert_int_equal(number(r, "bytes"), 4);
    json_decref(r);
    r = must("log", log_args("stdout", 0, 50, 4), true);
    assert_int_equal(number(r, "bytes"), 0);
    json_decref(r);
    put(in_run("stderr.2.log"), "second");
    json_decref(must("log", log_args("stderr", 2, 0, 100), true));
    piped_is("second");
    refused("log", log_args("stderr", 3, 0, 1), true, ERR_NOT_FOUND,
            "file_missing");
    refused("log", log_args("../x", 0, 0, 1), true, ERR_INVALID, "log_stream");
    refused("log", log_args("stdout", 0, 0, PROTO_LOG_MAX + 1), true,
            ERR_INVALID, "json_range");
    refused("log", log_args("stdout", 0, -1, 1), true, ERR_INVALID,
            "json_range");
}

/* The owner may put anything under his log's name; we read nothing else, and
 * never hang. */
static void a_log_that_is_no_plain_file_is_refused(void **state)
{
    const char *log;

    (void)state;
    prepare_secret();
    put(path("%s/target", top), "foreign");
    log = in_run("stdout.log");
    assert_int_equal(symlink(path("%s/target", top), log), 0);
    refused("log", log_args("stdout", 0, 0, 9), true, ERR_NOT_FOUND,
            "file_refused");
    assert_int_equal(unlink(in_run("stdout.log")), 0);
    assert_int_equal(symlink("secrets.env", in_run("stdout.log")), 0);
    refused("log", log_args("stdout", 0, 0, 9), true, ERR_NOT_FOUND,
            "file_refused");
    assert_int_equal(unlink(in_run("stdout.log")), 0);
    assert_int_equal(mkfifo(in_run("stdout.log"), 0600), 0);
    refused("log", log_args("stdout", 0, 0, 9), true, ERR_NOT_FOUND,
            "file_refused");
    assert_int_equal(unlink(in_run("stdout.log")), 0);
    assert_int_equal(link(in_run("secrets.env"), in_run("stdout.log")), 0);
    refused("log", log_args("stdout", 0, 0, 9), true, ERR_NOT_FOUND,
            "file_refused");
    assert_int_equal(unlink(in_run("stdout.log")), 0);
    folder(in_run("stdout.log"), 0700);
    refused("log", log_args("stdout", 0, 0, 9), true, ERR_NOT_FOUND,
            "file_refused");
}

/* --- artifacts
 * -------------------------------------------------------------------- */

static void an_artifact_is_streamed_by_range(void **state)
{
    json_t *r;

    (void)state;
    prepare();
    folder(in_run("results/deep"), 0700);
    put(in_run("results/deep/a.bin"), "abcdef");
    put(in_run("stdout.1.log"), "log");
    r = must("artifact", file_args("results/deep/a.bin", 2, 100), true);
    piped_is("cdef");
    assert_int_equal(number(r, "size"), 6);
    assert_int_equal(number(r, "bytes"), 4);
    json_decref(r);
    r = must("artifact", file_args("results/deep/a.bin", 0, 0), true);
    assert_int_equal(number(r, "size"), 6);
    json_decref(r);
    json_decref(must("artifact", file_args("stdout.1.log", 0, 9), true));
    piped_is("log");
}

static void only_results_and_logs_are_artifacts(void **state)
{
    static const char *const paths[] = {
        "secrets.env",
        "results/../secrets.env",
        "script.sh",
        "params.json",
        "/etc/passwd",
        "../x",
        "",
        "results",
        "results/",
        "results//etc/passwd",
        "results/up",
        "results/up/passwd",
        "results/hard",
        "results/fifo",
        "results/deep",
        "stdout.log/../secrets.env",
        "stdout.0.log",
        "stdout.x.log",
        "stdout.1.log.log",
        "stdout.01.log",
        "results/./../secrets.env",
    };
    struct err e = ERR_INIT;

    (void)state;
    prepare_secret();
    assert_int_equal(symlink("/etc", in_run("results/up")), 0);
    assert_int_equal(link(in_run("secrets.env"), in_run("results/hard")), 0);
    assert_int_equal(mkfifo(in_run("results/fifo"), 0600), 0);
    folder(in_run("results/deep"), 0700);
    put(in_run("stdout.0.log"), "no log of ours");
    for (size_t i = 0; i < COUNT(paths); i++) {
        json_t *r = ask("artifact", file_args(paths[i], 0, 100), true, &e);

        if (r != NULL || e.class != ERR_NOT_FOUND || piped_len != 0)
            fail_msg("served: %s", paths[i]);
    }
}

static void the_list_holds_plain_files_only(void **state)
{
    json_t *r, *rows;
    struct err e = ERR_INIT;

    (void)state;
    prepare_secret();
    put(in_run("stdout.log"), "1");
    put(in_run("stderr.1.log"), "22");
    folder(in_run("results/sub"), 0700);
    put(in_run("results/sub/b"), "333");
    put(in_run("results/a"), "");
    put(in_run("results/bad\nname"), "x");
    put(in_run("results/bad\xff"), "x");
    assert_int_equal(symlink("a", in_run("results/link")), 0);
    assert_int_equal(link(in_run("secrets.env"), in_run("results/hard")), 0);
    assert_int_equal(mkfifo(in_run("results/fifo"), 0600), 0);
    r = must("artifacts", json_object(), true);
    rows = json_parse(piped, piped_len, DATA_MAX, &e);
    assert_int_equal(json_array_size(rows), 4);
    assert_int_equal(number(r, "count"), 4);
    assert_string_equal(word(json_array_get(rows, 0), "path"), "results/a");
    assert_string_equal(word(json_array_get(rows, 1), "path"), "results/sub/b");
    assert_int_equal(number(json_array_get(rows, 1), "bytes"), 3);
    assert_string_equal(word(json_array_get(rows, 2), "path"), "stderr.1.log");
    assert_string_equal(word(json_array_get(rows, 3), "path"), "stdout.log");
    json_decref(rows);
    json_decref(r);
}

static void the_list_is_bounded(void **state)
{
    json_t *r;

    (void)state;
    prepare();
    run_shell(path("cd %s && for i in $(seq 1500); do : >f$i; done; "
                   "p=.; for i in $(seq 20); do p=$p/d; mkdir $p; done; "
                   ": >$p/deep",
                   in_run("results")));
    r = must("artifacts", json_object(), true);
    assert_int_equal(number(r, "count"), 1000);
    json_decref(r);
    run_shell(path("rm -f %s/f*", in_run("results")));
    r = must("artifacts", json_object(), true);
    assert_int_equal(number(r, "count"), 0); /* deeper than we go */
    json_decref(r);
}

/* --- finish
 * ------------------------------------------------------------------------- */

static json_t *finish(void)
{
    return must("finish", json_object(), true);
}

static void finish_removes_the_sidecar_once(void **state)
{
    json_t *r;

    (void)state;
    prepare_secret();
    put(in_run("results/done.json"), "{}");
    put(in_run("results/part-2.json"), "two");
    put(in_run("results/part-1.json"), "one");
    put(in_run("results/.part-0.json"), "hidden");
    r = finish();
    assert_string_equal(word(r, "sidecar"), "removed");
    assert_int_equal(json_array_size(json_object_get(r, "missing")), 0);
    assert_int_equal(json_array_size(json_object_get(r, "receipts")), 3);
    piped_is("{}onetwo");
    assert_string_equal(
        word(json_array_get(json_object_get(r, "receipts"), 1), "path"),
        "results/part-1.json");
    assert_true(json_is_null(json_object_get(r, "failure")));
    assert_int_equal(access(in_run("secrets.env"), F_OK), -1);
    json_decref(r);
    r = finish();
    assert_string_equal(word(r, "sidecar"), "absent");
    piped_is("{}onetwo");
    json_decref(r);
}

static void missing_receipts_are_named(void **state)
{
    json_t *r, *missing;

    (void)state;
    prepare();
    put(path("%s/target", top), "foreign");
    assert_int_equal(
        symlink(path("%s/target", top), in_run("results/done.json")), 0);
    assert_int_equal(mkfifo(in_run("results/part-1.json"), 0600), 0);
    assert_int_equal(
        link(path("%s/target", top), in_run("results/part-2.json")), 0);
    r = finish();
    missing = json_object_get(r, "missing");
    assert_int_equal(json_array_size(missing), 2);
    assert_string_equal(json_string_value(json_array_get(missing, 0)),
                        "done.json");
    assert_string_equal(json_string_value(json_array_get(missing, 1)),
                        "part-*.json");
    assert_int_equal(piped_len, 0);
    json_decref(r);
    assert_int_equal(unlink(path("%s/target", top)), 0);
}

static void receipts_are_capped(void **state)
{
    json_t *r, *row;

    (void)state;
    prepare();
    run_shell(path("cd %s && head -c 70000 /dev/zero >done.json && "
                   "for i in $(seq 100 199); do echo $i >part-$i.json; done",
                   in_run("results")));
    r = finish();
    assert_int_equal(json_array_size(json_object_get(r, "receipts")),
                     PROTO_RECEIPTS_MAX);
    row = json_array_get(json_object_get(r, "receipts"), 0);
    assert_int_equal(number(row, "bytes"), PROTO_RECEIPT_MAX);
    assert_true(json_is_true(json_object_get(row, "truncated")));
    row = json_array_get(json_object_get(r, "receipts"), 1);
    assert_string_equal(word(row, "path"), "results/part-100.json");
    assert_int_equal(piped_len, PROTO_RECEIPT_MAX + 4 * 63);
    json_decref(r);
}

static void failure_is(const char *text, const char *code, const char *en)
{
    json_t *r, *f;

    put(in_run("results/sluice-error.json"), text);
    r = finish();
    f = json_object_get(r, "failure");
    assert_string_equal(word(f, "code"), code);
    if (en != NULL)
        assert_string_equal(word(f, "en"), en);
    assert_true(json_object_size(f) == 4);
    json_decref(r);
}

static void the_error_receipt_is_checked_and_cleaned(void **state)
{
    char big[4000];

    (void)state;
    prepare();
    failure_is("{\"code\":\"a_b\",\"en\":\"it\\nbroke\\u001b[31m\","
               "\"zh\":\"\",\"error_class\":\"infra\"}\n",
               "a_b", "it broke [31m");
    failure_is("{\"code\":\"a\"}", "error_receipt_broken", NULL);
    failure_is("not json", "error_receipt_broken", NULL);
    failure_is("{\"code\":\"A-B\",\"en\":\"x\",\"zh\":\"\","
               "\"error_class\":\"infra\"}",
               "error_receipt_broken", NULL);
    failure_is("{\"code\":\"a\",\"en\":\"x\",\"zh\":\"\","
               "\"error_class\":\"fame\"}",
               "error_receipt_broken", NULL);
    (void)snprintf(big, sizeof(big),
                   "{\"code\":\"a\",\"en\":\"%01999d\",\"zh\":\"\","
                   "\"error_class\":\"program\"}",
                   7);
    put(in_run("results/sluice-error.json"), big);
    failure_is(big, "a", NULL);
    assert_int_equal(unlink(in_run("results/sluice-error.json")), 0);
    assert_int_equal(mkfifo(in_run("results/sluice-error.json"), 0600), 0);
    {
        json_t *r = finish();

        assert_string_equal(word(json_object_get(r, "failure"), "code"),
                            "error_receipt_broken");
        json_decref(r);
    }
}

static void a_vanished_folder_is_finished(void **state)
{
    json_t *r = finish();

    (void)state;
    assert_string_equal(word(r, "sidecar"), "absent");
    assert_int_equal(json_array_size(json_object_get(r, "missing")), 2);
    json_decref(r);
    /* But not when the share itself is away. */
    assert_int_equal(unlink(path("%s/.sluice-jobs-root", jobs_root)), 0);
    refused("finish", json_object(), true, ERR_UNAVAILABLE, "storage_missing");
}

static void results_that_are_a_link_hold_nothing(void **state)
{
    json_t *r;

    (void)state;
    prepare_secret();
    assert_int_equal(rmdir(in_run("results")), 0);
    assert_int_equal(symlink(inputs, in_run("results")), 0);
    put(path("%s/done.json", inputs), "foreign");
    r = finish();
    assert_string_equal(word(r, "sidecar"), "removed");
    assert_int_equal(json_array_size(json_object_get(r, "receipts")), 0);
    json_decref(r);
    refused("artifact", file_args("results/done.json", 0, 9), true,
            ERR_NOT_FOUND, "file_missing");
    assert_int_equal(unlink(path("%s/done.json", inputs)), 0);
}

static void a_lost_reader_does_not_keep_the_secret(void **state)
{
    struct err e = ERR_INIT, why = ERR_INIT;
    json_t *body, *frame;
    int p[2];

    (void)state;
    prepare_secret();
    put(in_run("results/done.json"), "{}");
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    (void)close(p[0]);
    body = request("finish", json_object());
    frame = worker_answer(&worker, body, p[1], &e);
    assert_int_equal(wire_err_get(frame, "error", &why), 0);
    assert_string_equal(why.code, "pipe_closed");
    assert_int_equal(access(in_run("secrets.env"), F_OK), -1);
    json_decref(frame);
    json_decref(body);
}

/* --- path parameters
 * ------------------------------------------------------------------- */

static json_t *with(const char *param, json_t *value)
{
    return json_pack("{s:s,s:{s:o}}", "workflow", "w", "params", param, value);
}

static void path_refused(const char *param, json_t *value, const char *code,
                         const char *pointer)
{
    struct err e = ERR_INIT;
    json_t *r = ask("check", with(param, value), false, &e);

    assert_null(r);
    assert_string_equal(e.code, code);
    assert_string_equal(e.pointer, pointer);
}

static void paths_are_looked_at_as_the_person(void **state)
{
    json_t *r, *rows;

    (void)state;
    run_shell(path("cd %s && rm -rf * && mkdir d && printf 12345 >d/f && "
                   "ln -s d/f in && ln -s /etc/passwd out && ln -s .. up && "
                   "mkfifo fifo && ln -s /proc/self/root magic && "
                   "ln -s loop loop && ln -s %s/d/f absolute",
                   inputs, inputs));
    r = must("check",
             json_pack("{s:s,s:{s:s,s:s,s:[ss]}}", "workflow", "w", "params",
                       "file", "in", "dir", "d", "many", "d/f", "in"),
             false);
    rows = json_object_get(r, "paths");
    assert_int_equal(json_array_size(rows), 4);
    assert_int_equal(number(json_array_get(rows, 0), "bytes"), 5);
    assert_true(
        json_is_null(json_object_get(json_array_get(rows, 0), "index")));
    assert_true(
        json_is_null(json_object_get(json_array_get(rows, 1), "bytes")));
    assert_int_equal(number(json_array_get(rows, 3), "index"), 1);
    json_decref(r);
    path_refused("file", json_string("no"), "path_missing", "/params/file");
    path_refused("file", json_string("d/f/x"), "path_missing", "/params/file");
    path_refused("file", json_string("out"), "path_outside", "/params/file");
    path_refused("file", json_string("up/jobs/x"), "path_outside",
                 "/params/file");
    path_refused("file", json_string("magic"), "path_outside", "/params/file");
    path_refused("file", json_string("loop"), "path_outside", "/params/file");
    path_refused("file", json_string("absolute"), "path_outside",
                 "/params/file");
    path_refused("file", json_string("fifo"), "path_type", "/params/file");
    path_refused("file", json_string("d"), "path_type", "/params/file");
    path_refused("dir", json_string("d/f"), "path_type", "/params/dir");
    path_refused("many", json_pack("[ss]", "in", "no"), "path_missing",
                 "/params/many/1");
    path_refused("file", json_string("../jobs"), "param_path", "/params/file");
}

static void an_unreadable_path_is_refused(void **state)
{
    (void)state;
    run_shell(path("cd %s && : >closed && chmod 000 closed", inputs));
    if (geteuid() == 0) /* root reads everything: be nobody for a while */
        assert_int_equal(seteuid(65534), 0);
    path_refused("file", json_string("closed"), "path_unreadable",
                 "/params/file");
    assert_int_equal(seteuid(getuid()), 0);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        FRESH(prepare_makes_a_private_folder),
        FRESH(the_secret_is_in_one_private_file),
        FRESH(a_ulid_is_prepared_once),
        FRESH(what_does_not_validate_makes_no_folder),
        FRESH(an_empty_mount_point_is_not_written),
        FRESH(folders_of_a_wrong_kind_are_refused),
        FRESH(anothers_account_folder_is_refused),
        FRESH(a_log_is_read_by_range),
        FRESH(a_log_that_is_no_plain_file_is_refused),
        FRESH(an_artifact_is_streamed_by_range),
        FRESH(only_results_and_logs_are_artifacts),
        FRESH(the_list_holds_plain_files_only),
        FRESH(the_list_is_bounded),
        FRESH(finish_removes_the_sidecar_once),
        FRESH(missing_receipts_are_named),
        FRESH(receipts_are_capped),
        FRESH(the_error_receipt_is_checked_and_cleaned),
        FRESH(a_vanished_folder_is_finished),
        FRESH(results_that_are_a_link_hold_nothing),
        FRESH(a_lost_reader_does_not_keep_the_secret),
        FRESH(paths_are_looked_at_as_the_person),
        FRESH(an_unreadable_path_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
