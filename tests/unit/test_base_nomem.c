/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Allocation failure sweeps: each operation is run with its 1st, 2nd, 3rd, ...
 * allocation failing (those of the libraries included) until it succeeds. It
 * must fail with a set err, without a crash, a leak or a half result.
 * malloc(3) of the whole program is replaced, which the sanitizers do too: with
 * them the tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/crypto.h"
#include "base/db.h"
#include "base/file.h"
#include "base/json.h"
#include "base/wire.h"
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#if !defined(SANITIZED) && defined(__GLIBC__)
#define CAN_FAIL 1
#else
#define CAN_FAIL 0
#endif

enum { SWEEP_MAX = 5000 };

static long fail_at; /* the allocation that fails, from 1; 0: none */
static long count, live;

#if CAN_FAIL
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t m);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);
void *malloc(size_t n) __attribute__((visibility("default")));
void *calloc(size_t n, size_t m) __attribute__((visibility("default")));
void *realloc(void *p, size_t n) __attribute__((visibility("default")));
void free(void *p) __attribute__((visibility("default")));

static int refuse(void)
{
    if (fail_at == 0 || ++count != fail_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    void *p = refuse() ? NULL : __libc_malloc(n);

    live += p != NULL;
    return p;
}

void *calloc(size_t n, size_t m)
{
    void *p = refuse() ? NULL : __libc_calloc(n, m);

    live += p != NULL;
    return p;
}

void *realloc(void *p, size_t n)
{
    void *q = refuse() ? NULL : __libc_realloc(p, n);

    live += p == NULL && q != NULL;
    return q;
}

void free(void *p)
{
    live -= p != NULL;
    __libc_free(p);
}
#endif

static char dir[64];

/* op: 0, or -1 with *e set; it frees what it made. */
static void sweep(int (*op)(struct err *e), bool leaks_count)
{
    long before, n;
    int r = -1;

    if (!CAN_FAIL)
        skip();
    fail_at = 0;
    for (n = 0; n < 2; n++) { /* what the libraries keep for good is made */
        struct err e = ERR_INIT;

        if (op(&e) != 0)
            fail_msg("without a failure: %s: %s", e.code, e.text);
    }
    for (n = 1; r != 0 && n < SWEEP_MAX; n++) {
        struct err e = ERR_INIT;

        before = live;
        count = 0;
        fail_at = n;
        r = op(&e);
        fail_at = 0;
        if (r == 0 && count >= n)
            r = 1; /* it went on without that memory, rightly or wrongly */
        if (r == -1 && !err_is_set(&e))
            fail_msg("allocation %ld: no error is told", n);
        if (leaks_count && live != before)
            fail_msg("allocation %ld: %ld are left", n, live - before);
    }
    assert_int_equal(r, 0);
    assert_true(n > 1);
}

static int do_buf(struct err *e)
{
    struct buf b;
    char *s;
    int i;

    buf_init(&b, 100000);
    for (i = 0; i < 1000; i++)
        (void)buf_printf(&b, "%d ", i);
    s = buf_take(&b, NULL);
    buf_clear(&b);
    if (s == NULL)
        return err_nomem(e);
    i = strlen(s) == 3890 ? 0 : err_set(e, ERR_INTERNAL, "half", "half");
    free(s);
    return i;
}

static const char json_sample[] =
    "{\"a\":[1,2,{\"b\":\"text\"}],\"c\":{\"d\":null,\"e\":true}}";

static int do_json_parse(struct err *e)
{
    json_t *v = json_parse(json_sample, strlen(json_sample), 4096, e);

    json_decref(v);
    return v == NULL ? -1 : 0;
}

static int do_json_canonical(struct err *e)
{
    json_t *v = json_parse(json_sample, strlen(json_sample), 4096, e);
    char *s = v == NULL ? NULL : json_canonical(v, NULL, e);
    int r = s == NULL ? -1 : 0;

    if (s != NULL && strcmp(s, json_sample) != 0)
        r = err_set(e, ERR_INTERNAL, "half", "%s", s);
    free(s);
    json_decref(v);
    return r;
}

static int do_json_build(struct err *e)
{
    json_t *o = json_object(), *in = json_object();
    char *s = NULL;
    int r = 0;

    r |= json_put_str(in, "s", "text");
    r |= json_put_int(in, "i", 5);
    r |= json_put_time(in, "t", 1);
    r |= json_put(o, "in", in);
    r |= json_put_bool(o, "b", true);
    if (r == 0)
        s = json_text(o);
    json_decref(o);
    if (s == NULL)
        return err_nomem(e);
    free(s);
    return 0;
}

static const char yaml_good[] = "a: [x, {b: 'y'}]\n"
                                "d:\n"
                                "  e: true\n"
                                "  f: \"text\"\n";

static int do_yaml(struct err *e)
{
    struct yaml_lines *l = NULL;
    json_t *v = yaml_parse(yaml_good, strlen(yaml_good), "f.yaml", &l, e);
    int r = v == NULL ? -1 : 0;

    if (v != NULL && (yaml_line(l, "/d/f") != 4 || json_object_size(v) != 2))
        r = err_set(e, ERR_INTERNAL, "half", "half");
    json_decref(v);
    yaml_lines_free(l);
    return r;
}

/* An error path: the text is refused for its own reason, or for memory. */
static int do_yaml_refused(struct err *e)
{
    static const char text[] = "a: 1\nb: [x, 'y', {c: 1, c: 2}]\n";
    struct err inner = ERR_INIT;
    json_t *v = yaml_parse(text, strlen(text), "f.yaml", NULL, &inner);

    json_decref(v);
    if (v == NULL && strcmp(inner.code, "yaml_duplicate_key") == 0)
        return 0;
    return err_set(e, inner.class, "half", "%s", inner.code);
}

struct sample {
    char *a, *b;
    int64_t n;
};

static int do_conf(struct err *e)
{
    static const struct conf_key table[] = {
        {"a", CONF_STR, offsetof(struct sample, a), true, 0, 0, NULL},
        {"b", CONF_STR, offsetof(struct sample, b), false, 0, 0, "default"},
        {"n", CONF_INT, offsetof(struct sample, n), false, 0, 9, "5"},
    };
    json_t *v = json_parse("{\"a\":\"x\"}", 9, 99, e);
    struct sample s;
    int r = -1;

    if (v != NULL)
        r = conf_fill(v, table, 3, &s, "", "f", NULL, e);
    if (r == 0)
        conf_free(table, 3, &s);
    json_decref(v);
    return r;
}

static int do_wire(struct err *e)
{
    struct wire_msg m;
    json_t *v = json_parse(json_sample, strlen(json_sample), 4096, e);
    int sv[2] = {-1, -1}, r = -1, fd = 2;

    wire_msg_init(&m);
    if (v != NULL && wire_pair(sv, e) == 0 &&
        wire_send(sv[0], v, &fd, 1, 0, e) == 0 &&
        wire_recv(sv[1], &m, 0, e) == 1)
        r = json_equal(v, m.body) ? 0 : err_set(e, ERR_INTERNAL, "half", "h");
    wire_msg_clear(&m);
    json_decref(v);
    (void)close(sv[0]);
    (void)close(sv[1]);
    return r;
}

static int do_wire_err(struct err *e)
{
    struct err in = ERR_INIT, out = ERR_INIT;
    json_t *o = json_object();
    int r;

    (void)err_set(&in, ERR_DENIED, "code", "text");
    r = o == NULL ? -1 : wire_err_put(o, "error", &in);
    if (r == 0 && wire_err_get(o, "error", &out) == 0 &&
        strcmp(out.code, "code") != 0)
        r = err_set(e, ERR_INTERNAL, "half", "half");
    json_decref(o);
    return r == 0 ? 0 : err_nomem(e);
}

static int do_file(struct err *e)
{
    char path[128], *s;

    (void)snprintf(path, sizeof(path), "%s/f", dir);
    if (file_write(AT_FDCWD, path, "text", 4, 0600, (uid_t)-1, (gid_t)-1, e) !=
        0)
        return -1;
    s = file_read(AT_FDCWD, path, 100, NULL, e);
    free(s);
    return s == NULL ? -1 : 0;
}

static int do_digest(struct err *e)
{
    const struct crypto_piece p[] = {{"a", 1}, {"bc", 2}};
    uint8_t d[SHA256_LEN];
    char *s, hex[SHA256_HEX_LEN + 1];
    uint8_t *back = NULL;
    size_t n;

    if (crypto_sha256_pieces(p, 2, d, e) != 0 ||
        crypto_sha256_hex("abc", 3, hex, e) != 0 ||
        crypto_hmac(d, sizeof(d), "abc", 3, d, e) != 0)
        return -1;
    s = crypto_b64("abc", 3);
    if (s != NULL)
        back = crypto_unb64(s, &n);
    free(back);
    free(s);
    return back == NULL ? err_nomem(e) : 0;
}

static int do_keys(struct err *e)
{
    char *a = NULL, *b = NULL;
    int r = crypto_p256_new(&a, &b, e);

    if (r != 0 && (a != NULL || b != NULL))
        fail_msg("half a key");
    free(a);
    free(b);
    return r;
}

static int use_db(struct db *d, struct err *e)
{
    struct db_stmt *s;

    if (db_begin_immediate(d, e) != 0)
        return -1;
    s = db_prepare(d, "INSERT INTO log (text) VALUES (?1)", e);
    if (s == NULL)
        goto fail;
    db_bind_text(s, 1, "some text that is copied");
    if (db_run(s, e) != 0)
        goto fail;
    s = db_prepare(d, "SELECT text FROM log ORDER BY text LIMIT 1", e);
    if (s == NULL || db_step(s, e) != 1)
        goto fail;
    db_reset(s);
fail:
    db_rollback(d);
    return err_is_set(e) ? -1 : 0;
}

static int do_db(struct err *e)
{
    static const struct db_migration m[] = {
        {1, "CREATE TABLE log (id INTEGER PRIMARY KEY, text TEXT) STRICT"}};
    static const char *const append_only[] = {"log", NULL};
    char path[128];
    struct db *d = NULL;
    int r;

    (void)snprintf(path, sizeof(path), "%s/db", dir);
    r = db_open_writer(path, m, 1, append_only, &d, e);
    if (r == 0)
        r = use_db(d, e);
    db_close(d);
    return r;
}

static void buf_sweep(void **state)
{
    (void)state;
    sweep(do_buf, true);
}

static void json_sweep(void **state)
{
    (void)state;
    sweep(do_json_parse, true);
    sweep(do_json_canonical, true);
    sweep(do_json_build, true);
}

static void yaml_sweep(void **state)
{
    (void)state;
    sweep(do_yaml, true);
    sweep(do_yaml_refused, true);
}

static void conf_sweep(void **state)
{
    (void)state;
    sweep(do_conf, true);
}

static void wire_sweep(void **state)
{
    (void)state;
    sweep(do_wire, true);
    sweep(do_wire_err, true);
}

static void file_sweep(void **state)
{
    (void)state;
    sweep(do_file, true);
}

/* OpenSSL and SQLite keep caches: there only crashes and silence are looked
 * for. */
static void crypto_sweep(void **state)
{
    (void)state;
    sweep(do_digest, false);
    sweep(do_keys, false);
}

static void db_sweep(void **state)
{
    (void)state;
    sweep(do_db, false);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/test_base_nomem.XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"f", "db", "db.lock", "db-wal",
                                        "db-shm"};
    char path[128];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_sweep),    cmocka_unit_test(json_sweep),
        cmocka_unit_test(yaml_sweep),   cmocka_unit_test(conf_sweep),
        cmocka_unit_test(wire_sweep),   cmocka_unit_test(file_sweep),
        cmocka_unit_test(crypto_sweep), cmocka_unit_test(db_sweep),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
