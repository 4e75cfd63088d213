/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/keys.h"

#include "base/buf.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES_MAX = 4096 };
#define KID_LINE "kid: "
#define PEM_BEGIN "-----BEGIN "

void signing_key_clear(struct signing_key *k)
{
    if (k->text != NULL)
        explicit_bzero(k->text, strlen(k->text));
    free(k->text);
    memset(k, 0, sizeof(*k));
}

/* "kid: <16 hex>\n-----BEGIN …" */
static int parse_key(struct signing_key *k, const char *path, struct err *e)
{
    const char *kid = k->text + strlen(KID_LINE);
    const char *pem = kid + KEYS_KID_LEN + 1;

    if (strncmp(k->text, KID_LINE, strlen(KID_LINE)) != 0 ||
        strspn(kid, "0123456789abcdef") != KEYS_KID_LEN ||
        kid[KEYS_KID_LEN] != '\n' ||
        strncmp(pem, PEM_BEGIN, strlen(PEM_BEGIN)) != 0)
        return err_set(e, ERR_CONFIG, "admin_key",
                       "%s is not a key that sluice-admin wrote", path);
    memcpy(k->kid, kid, KEYS_KID_LEN);
    k->kid[KEYS_KID_LEN] = '\0';
    k->pem = pem;
    return 0;
}

int signing_key_read(const struct admin *a, struct signing_key *k,
                     struct err *e)
{
    const char *path = a->paths.token_key;

    memset(k, 0, sizeof(*k));
    if (file_check_trusted(path, a->cfg.self_mode ? a->owner : (uid_t)-1, true,
                           false, e) != 0)
        return -1;
    k->text = file_read(AT_FDCWD, path, KEY_BYTES_MAX, NULL, e);
    if (k->text == NULL || parse_key(k, path, e) != 0) {
        signing_key_clear(k);
        return -1;
    }
    return 0;
}

static int write_private(const struct admin *a, const char *kid,
                         const char *pem, struct err *e)
{
    struct buf b;
    int r;

    buf_init(&b, KEY_BYTES_MAX);
    (void)buf_printf(&b, KID_LINE "%s\n%s", kid, pem);
    r = buf_ok(&b) ? file_write(AT_FDCWD, a->paths.token_key, b.data, b.len,
                                0600, a->owner, (gid_t)-1, e)
                   : err_nomem(e);
    buf_wipe(&b);
    return r;
}

/* The public half first: a private key whose public half nobody has could
 * never be used, and it can't be made again from token.key. */
static int write_pair(const struct admin *a, const char *private_pem,
                      const char *public_pem, struct err *e)
{
    char hex[SHA256_HEX_LEN + 1], kid[KEYS_KID_LEN + 1];
    json_t *all = json_object();
    int r = -1;

    if (crypto_sha256_hex(public_pem, strlen(public_pem), hex, e) != 0)
        goto out;
    memcpy(kid, hex, KEYS_KID_LEN);
    kid[KEYS_KID_LEN] = '\0';
    if (json_put_str(all, kid, public_pem) != 0) {
        err_nomem(e);
        goto out;
    }
    r = admin_write_json(a, a->paths.public_keys, all, a->group, e);
    if (r == 0)
        r = write_private(a, kid, private_pem, e);
out:
    json_decref(all);
    return r;
}

static int make_pair(const struct admin *a, struct err *e)
{
    char *private_pem = NULL, *public_pem = NULL;
    int r = crypto_p256_new(&private_pem, &public_pem, e);

    if (r == 0)
        r = write_pair(a, private_pem, public_pem, e);
    if (private_pem != NULL)
        explicit_bzero(private_pem, strlen(private_pem));
    free(private_pem);
    free(public_pem);
    return r;
}

static int make_folder(const struct admin *a, struct err *e)
{
    const char *dir = a->cfg.paths.keys;

    if (mkdir(dir, 0700) != 0)
        return errno == EEXIST
                   ? 0
                   : err_sys(e, ERR_CONFIG, errno, "admin_keys", "%s", dir);
    if (chown(dir, a->owner, a->group) != 0 || chmod(dir, 0750) != 0)
        return err_sys(e, ERR_CONFIG, errno, "admin_keys", "%s", dir);
    return 0;
}

static int make_empty(const struct admin *a, const char *path, gid_t group,
                      struct err *e)
{
    json_t *none;
    int r;

    if (access(path, F_OK) == 0)
        return 0;
    none = json_object();
    r = none != NULL ? admin_write_json(a, path, none, group, e) : err_nomem(e);
    json_decref(none);
    return r;
}

/* The public half of the key that is there must be there, too. */
static int check_public(const struct admin *a, const struct signing_key *k,
                        struct err *e)
{
    json_t *all = admin_read_json(a->paths.public_keys, e);
    bool there = json_is_string(json_object_get(all, k->kid));

    if (all == NULL)
        return -1;
    json_decref(all);
    if (!there)
        return err_set(e, ERR_CONFIG, "admin_key",
                       "%s does not hold key %s of %s", a->paths.public_keys,
                       k->kid, a->paths.token_key);
    return 0;
}

static int init_locked(const struct admin *a, bool *made, struct signing_key *k,
                       struct err *e)
{
    *made = access(a->paths.token_key, F_OK) != 0;
    if (*made && make_pair(a, e) != 0)
        return -1;
    if (signing_key_read(a, k, e) != 0)
        return -1;
    if (check_public(a, k, e) != 0 ||
        make_empty(a, a->paths.revoked, a->group, e) != 0 ||
        make_empty(a, a->paths.tokens, (gid_t)-1, e) != 0) {
        signing_key_clear(k);
        return -1;
    }
    return 0;
}

/* Make what is missing. *made: a new key was made. k: the key, read back. */
static int keys_init(const struct admin *a, bool *made, struct signing_key *k,
                     struct err *e)
{
    int lock, r;

    memset(k, 0, sizeof(*k));
    if (make_folder(a, e) != 0)
        return -1;
    lock = admin_lock_keys(a, e);
    if (lock < 0)
        return -1;
    r = init_locked(a, made, k, e);
    (void)close(lock);
    return r;
}

int admin_keys_init(struct admin *a, int argc, char **argv)
{
    struct err e = ERR_INIT;
    struct signing_key k;
    bool made = false;

    if (argc != 1) {
        (void)fprintf(stderr, "usage: %s\n", argv[0]);
        return ADMIN_USAGE;
    }
    if (admin_load(a, true, &e) != 0 || keys_init(a, &made, &k, &e) != 0)
        return admin_fail(&e);
    printf("key %s %s\n", k.kid, made ? "made" : "is there");
    signing_key_clear(&k);
    return ADMIN_DONE;
}
