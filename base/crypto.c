/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/crypto.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

static int failed(struct err *e, const char *what)
{
    ERR_clear_error();
    return err_set(e, ERR_INTERNAL, "crypto_failed", "%s failed", what);
}

int crypto_sha256(const void *p, size_t n, uint8_t *out, struct err *e)
{
    unsigned len = 0;

    if (EVP_Digest(n > 0 ? p : "", n, out, &len, EVP_sha256(), NULL) != 1 ||
        len != SHA256_LEN)
        return failed(e, "SHA-256");
    return 0;
}

static EVP_MD_CTX *digest_new(struct err *e)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();

    if (c != NULL && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1)
        return c;
    EVP_MD_CTX_free(c);
    (void)failed(e, "SHA-256");
    return NULL;
}

static int digest_end(EVP_MD_CTX *c, uint8_t *out, struct err *e)
{
    unsigned len = 0;

    if (EVP_DigestFinal_ex(c, out, &len) != 1 || len != SHA256_LEN)
        return failed(e, "SHA-256");
    return 0;
}

int crypto_sha256_pieces(const struct crypto_piece *v, size_t count,
                         uint8_t *out, struct err *e)
{
    EVP_MD_CTX *c = digest_new(e);
    size_t i;
    int r = -1;

    if (c == NULL)
        return -1;
    for (i = 0; i < count; i++) {
        if (v[i].n > 0 && EVP_DigestUpdate(c, v[i].p, v[i].n) != 1) {
            (void)failed(e, "SHA-256");
            goto out;
        }
    }
    r = digest_end(c, out, e);
out:
    EVP_MD_CTX_free(c);
    return r;
}

static int digest_fd(EVP_MD_CTX *c, int fd, void *room, struct err *e)
{
    ssize_t n;

    for (;;) {
        n = read(fd, room, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, ERR_INTERNAL, errno, "crypto_failed", "read");
        if (n == 0)
            return 0;
        if (EVP_DigestUpdate(c, room, (size_t)n) != 1)
            return failed(e, "SHA-256");
    }
}

int crypto_sha256_fd(int fd, uint8_t *out, struct err *e)
{
    EVP_MD_CTX *c = digest_new(e);
    void *room = malloc(READ_BYTES);
    int r = -1;

    if (c == NULL || room == NULL) {
        (void)err_nomem(e);
        goto out;
    }
    if (digest_fd(c, fd, room, e) == 0)
        r = digest_end(c, out, e);
out:
    free(room);
    EVP_MD_CTX_free(c);
    return r;
}

int crypto_sha256_hex(const void *p, size_t n, char *out, struct err *e)
{
    uint8_t d[SHA256_LEN];

    if (crypto_sha256(p, n, d, e) != 0)
        return -1;
    crypto_hex(d, sizeof(d), out);
    return 0;
}

int crypto_hmac(const uint8_t *key, size_t key_len, const void *p, size_t n,
                uint8_t *out, struct err *e)
{
    unsigned len = 0;

    if (key_len > INT_MAX ||
        HMAC(EVP_sha256(), key_len > 0 ? key : (const uint8_t *)"",
             (int)key_len, n > 0 ? p : "", n, out, &len) == NULL ||
        len != SHA256_LEN)
        return failed(e, "HMAC-SHA-256");
    return 0;
}

void crypto_hex(const uint8_t *p, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    size_t i;

    for (i = 0; i < n; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * n] = '\0';
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int crypto_unhex(const char *hex, uint8_t *out, size_t n)
{
    size_t i;

    if (hex == NULL || strlen(hex) != 2 * n)
        return -1;
    for (i = 0; i < 2 * n; i++) {
        if (nibble(hex[i]) < 0)
            return -1;
    }
    for (i = 0; i < n; i++)
        out[i] = (uint8_t)((unsigned)nibble(hex[2 * i]) << 4 |
                           (unsigned)nibble(hex[2 * i + 1]));
    return 0;
}

bool crypto_equal(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}

int crypto_random(void *p, size_t n, struct err *e)
{
    uint8_t *at = p;
    ssize_t got;

    while (n > 0) {
        got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_sys(e, ERR_INTERNAL, errno, "crypto_failed",
                           "getrandom");
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

static const char b64_chars[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char b64url_chars[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *crypto_b64(const void *p, size_t n)
{
    const uint8_t *in = p;
    char *out, *o;
    uint32_t v;
    size_t i;

    if (n > SIZE_MAX / 4)
        return NULL;
    o = out = malloc((n + 2) / 3 * 4 + 1);
    if (out == NULL)
        return NULL;
    for (i = 0; i < n; i += 3) {
        v = (uint32_t)in[i] << 16;
        v |= i + 1 < n ? (uint32_t)in[i + 1] << 8 : 0;
        v |= i + 2 < n ? in[i + 2] : 0;
        *o++ = b64_chars[v >> 18];
        *o++ = b64_chars[v >> 12 & 63];
        *o++ = i + 1 < n ? b64_chars[v >> 6 & 63] : '=';
        *o++ = i + 2 < n ? b64_chars[v & 63] : '=';
    }
    *o = '\0';
    return out;
}

static int sextet(const char *chars, char c)
{
    const char *at = c == '\0' ? NULL : strchr(chars, c);

    return at == NULL ? -1 : (int)(at - chars);
}

/* len characters of one alphabet, without padding. A NUL follows the result,
 * so that decoded text can be read as a string. */
static uint8_t *decode(const char *chars, const char *s, size_t len, size_t *n)
{
    uint32_t bits = 0;
    unsigned have = 0;
    uint8_t *out;
    size_t i, k = 0;
    int v;

    if (len % 4 == 1)
        return NULL;
    out = malloc(len / 4 * 3 + 4);
    for (i = 0; out != NULL && i < len; i++) {
        v = sextet(chars, s[i]);
        if (v < 0)
            goto fail;
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[k++] = (uint8_t)(bits >> have);
        }
        bits &= (1U << have) - 1;
    }
    if (out == NULL || bits != 0)
        goto fail;
    out[k] = '\0';
    *n = k;
    return out;
fail:
    free(out);
    return NULL;
}

uint8_t *crypto_unb64(const char *s, size_t *n)
{
    size_t len = strlen(s);

    if (len % 4 != 0)
        return NULL;
    if (len > 0 && s[len - 1] == '=')
        len--;
    if (len % 4 == 3 && s[len - 1] == '=')
        len--;
    return decode(b64_chars, s, len, n);
}

uint8_t *crypto_unb64url(const char *s, size_t len, size_t *n)
{
    return decode(b64url_chars, s, len, n);
}

/* An owned string of what was written to b. */
static char *bio_text(BIO *b)
{
    char *p = NULL, *s;
    long n = BIO_get_mem_data(b, &p);

    if (n <= 0 || p == NULL)
        return NULL;
    s = malloc((size_t)n + 1);
    if (s != NULL) {
        memcpy(s, p, (size_t)n);
        s[n] = '\0';
    }
    return s;
}

int crypto_p256_new(char **private_pem, char **public_pem, struct err *e)
{
    EVP_PKEY *k = EVP_EC_gen("P-256");
    BIO *prv = BIO_new(BIO_s_mem()), *pub = BIO_new(BIO_s_mem());
    char *a = NULL, *b = NULL;
    int r = -1;

    if (k == NULL || prv == NULL || pub == NULL ||
        PEM_write_bio_PrivateKey(prv, k, NULL, NULL, 0, NULL, NULL) != 1 ||
        PEM_write_bio_PUBKEY(pub, k) != 1)
        goto out;
    a = bio_text(prv);
    b = bio_text(pub);
    if (a == NULL || b == NULL)
        goto out;
    *private_pem = a;
    *public_pem = b;
    a = b = NULL;
    r = 0;
out:
    if (r != 0)
        (void)failed(e, "P-256 key generation");
    if (a != NULL)
        OPENSSL_cleanse(a, strlen(a));
    free(a);
    free(b);
    BIO_free(prv);
    BIO_free(pub);
    EVP_PKEY_free(k);
    return r;
}
