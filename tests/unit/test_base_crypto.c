/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crypto.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* FIPS 180-2, appendix B, and the empty message. */
#define SHA_EMPTY                                                              \
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SHA_ABC                                                                \
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA_448                                                                \
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"

static const char text_448[] =
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

static void digest_is(const uint8_t *d, const char *want)
{
    char hex[SHA256_HEX_LEN + 1];

    crypto_hex(d, SHA256_LEN, hex);
    assert_string_equal(hex, want);
}

static void sha256_vectors(void **state)
{
    char hex[SHA256_HEX_LEN + 1];
    uint8_t d[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(crypto_sha256("abc", 3, d, &e), 0);
    digest_is(d, SHA_ABC);
    assert_int_equal(crypto_sha256(NULL, 0, d, &e), 0);
    digest_is(d, SHA_EMPTY);
    assert_int_equal(crypto_sha256_hex(text_448, 56, hex, &e), 0);
    assert_string_equal(hex, SHA_448);
}

static void sha256_in_pieces(void **state)
{
    const struct crypto_piece v[] = {
        {text_448, 1}, {NULL, 0}, {text_448 + 1, 54}, {text_448 + 55, 1}};
    uint8_t d[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(crypto_sha256_pieces(v, 4, d, &e), 0);
    digest_is(d, SHA_448);
    assert_int_equal(crypto_sha256_pieces(NULL, 0, d, &e), 0);
    digest_is(d, SHA_EMPTY);
}

static void sha256_of_a_descriptor(void **state)
{
    int fd = memfd_create("t", MFD_CLOEXEC);
    uint8_t d[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(write(fd, "xabc", 4), 4);
    assert_int_equal(lseek(fd, 1, SEEK_SET), 1);
    assert_int_equal(crypto_sha256_fd(fd, d, &e), 0);
    digest_is(d, SHA_ABC);
    assert_int_equal(crypto_sha256_fd(fd, d, &e), 0);
    digest_is(d, SHA_EMPTY);
    (void)close(fd);
    assert_int_equal(crypto_sha256_fd(fd, d, &e), -1);
    assert_string_equal(e.code, "crypto_failed");
}

static void sha256_of_a_large_descriptor(void **state)
{
    enum { SIZE = 1000000 };
    int fd = memfd_create("t", MFD_CLOEXEC);
    char *a = malloc(SIZE);
    uint8_t d[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    assert_non_null(a);
    memset(a, 'a', SIZE);
    assert_int_equal(write(fd, a, SIZE), SIZE);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(crypto_sha256_fd(fd, d, &e), 0);
    digest_is(d, "cdc76e5c9914fb9281a1c7e284d73e67"
                 "f1809a48a497200e046d39ccc7112cd0"); /* FIPS 180-2, B.3 */
    free(a);
    (void)close(fd);
}

/* RFC 4231, cases 1, 2 and 6. */
static void hmac_vectors(void **state)
{
    static const char long_data[] =
        "Test Using Larger Than Block-Size Key - Hash Key First";
    uint8_t key[131], d[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    memset(key, 0x0b, 20);
    assert_int_equal(crypto_hmac(key, 20, "Hi There", 8, d, &e), 0);
    digest_is(d, "b0344c61d8db38535ca8afceaf0bf12b"
                 "881dc200c9833da726e9376c2e32cff7");
    assert_int_equal(crypto_hmac((const uint8_t *)"Jefe", 4,
                                 "what do ya want for nothing?", 28, d, &e),
                     0);
    digest_is(d, "5bdcc146bf60754e6a042426089575c7"
                 "5a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 131);
    assert_int_equal(crypto_hmac(key, 131, long_data, 54, d, &e), 0);
    digest_is(d, "60e431591ee0b67f0d8a26aacbf5b77f"
                 "8e0bc6213728c5140546040f0ee37f54");
    /* No key and no data: a known value, not an error. */
    assert_int_equal(crypto_hmac(NULL, 0, NULL, 0, d, &e), 0);
    digest_is(d, "b613679a0814d9ec772f95d778c35fc5"
                 "ff1697c493715653c6c712144292c5ad");
}

static void hex(void **state)
{
    const uint8_t raw[] = {0, 0x0f, 0xa5, 0xff};
    uint8_t back[4] = {9, 9, 9, 9};
    char text[9];

    (void)state;
    crypto_hex(raw, 4, text);
    assert_string_equal(text, "000fa5ff");
    crypto_hex(raw, 0, text);
    assert_string_equal(text, "");
    assert_int_equal(crypto_unhex("000fa5f", back, 4), -1);
    assert_int_equal(crypto_unhex("000fa5fff", back, 4), -1);
    assert_int_equal(crypto_unhex("000fa5fg", back, 4), -1);
    assert_int_equal(crypto_unhex("0x0fa5ff", back, 4), -1);
    assert_int_equal(crypto_unhex(" 00fa5ff", back, 4), -1);
    assert_int_equal(crypto_unhex("", back, 4), -1);
    assert_int_equal(crypto_unhex(NULL, back, 4), -1);
    assert_int_equal(back[0], 9);
    assert_int_equal(crypto_unhex("000FA5ff", back, 4), 0);
    assert_memory_equal(back, raw, 4);
    assert_int_equal(crypto_unhex("", back, 0), 0);
}

static void equal(void **state)
{
    (void)state;
    assert_true(crypto_equal("abc", "abd", 2));
    assert_false(crypto_equal("abc", "abd", 3));
    assert_true(crypto_equal("a", "b", 0));
    assert_false(crypto_equal("\0a", "\0b", 2));
}

static void randomness(void **state)
{
    uint8_t a[300] = {0}, b[300] = {0};
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(crypto_random(a, sizeof(a), &e), 0);
    assert_int_equal(crypto_random(b, sizeof(b), &e), 0);
    assert_memory_not_equal(a, b, 150);
    assert_memory_not_equal(a + 150, b + 150, 150);
    assert_int_equal(crypto_random(NULL, 0, &e), 0);
}

/* RFC 4648, section 10. */
static void base64_vectors(void **state)
{
    static const struct {
        const char *plain, *coded;
    } v[] = {{"", ""},
             {"f", "Zg=="},
             {"fo", "Zm8="},
             {"foo", "Zm9v"},
             {"foob", "Zm9vYg=="},
             {"fooba", "Zm9vYmE="},
             {"foobar", "Zm9vYmFy"}};
    uint8_t *p;
    size_t i, n;
    char *s;

    (void)state;
    for (i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        s = crypto_b64(v[i].plain, strlen(v[i].plain));
        assert_string_equal(s, v[i].coded);
        free(s);
        p = crypto_unb64(v[i].coded, &n);
        assert_non_null(p);
        assert_int_equal(n, strlen(v[i].plain));
        assert_string_equal((const char *)p, v[i].plain);
        free(p);
    }
}

static void base64_all_bytes(void **state)
{
    uint8_t raw[256], *p;
    size_t i, n;
    char *s;

    (void)state;
    for (i = 0; i < 256; i++)
        raw[i] = (uint8_t)(255 - i);
    for (i = 250; i <= 256; i++) {
        s = crypto_b64(raw, i);
        p = crypto_unb64(s, &n);
        assert_non_null(p);
        assert_int_equal(n, i);
        assert_memory_equal(p, raw, i);
        free(p);
        free(s);
    }
}

static void base64_is_strict(void **state)
{
    static const char *const bad[] = {
        "Z",         "Zg",    "Zg=",        "Zg===",    "=",    "==",
        "====",      "Z===",  "Zm8",        "Zm9v=",    "Zh==", "Zm9=",
        "Zm9v\n",    " Zm9v", "Zm 9v",      "Zg==Zg==", "Z-9v", "Z_9v",
        "Zm9v Zg==", "Zm=v",  "Zm\xc3\xa9",
    };
    size_t i, n = 99;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (crypto_unb64(bad[i], &n) != NULL)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_int_equal(n, 99);
}

static void url_form(const char *s, size_t len, const char *want, size_t k)
{
    size_t n = 99;
    uint8_t *p = crypto_unb64url(s, len, &n);

    assert_non_null(p);
    assert_int_equal(n, k);
    assert_memory_equal(p, want, k);
    free(p);
}

static void base64url_good(void **state)
{
    (void)state;
    url_form("", 0, "", 0);
    url_form("Zg", 2, "f", 1);
    url_form("Zm8", 3, "fo", 2);
    url_form("Zm9v", 4, "foo", 3);
    url_form("-_-_", 4, "\xfb\xff\xbf", 3);
    url_form("Zm9v.Zg", 4, "foo", 3); /* the length counts, not a NUL */
}

/* libjwt takes '=', "==" and a stray '!' in a signature: we do not. And a
 * second spelling of the same bytes (trailing bits) is not the same token. */
static void base64url_tails(void **state)
{
    static const char *const bad[] = {
        "Z",     "Zg=",    "Zg==",  "Zm8=",   "Zm9v=",    "Zm9v==",
        "Zm9v!", "Zm9v!!", "Zm9vA", "Zh",     "Zj",       "Zm9",
        "Zm-",   "Z+9v",   "Z/9v",  "Zm9v\n", "Zm9v ",    " Zm9v",
        "Zm.v",  "=",      "!",     "====",   "\xc3\xa9",
    };
    size_t i, n = 99;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (crypto_unb64url(bad[i], strlen(bad[i]), &n) != NULL)
            fail_msg("\"%s\" was taken", bad[i]);
    }
    assert_null(crypto_unb64url("Zm\0v", 4, &n));
    assert_int_equal(n, 99);
}

static void p256_keys(void **state)
{
    char *prv = NULL, *pub = NULL, *prv2 = NULL, *pub2 = NULL;
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(crypto_p256_new(&prv, &pub, &e), 0);
    assert_int_equal(crypto_p256_new(&prv2, &pub2, &e), 0);
    assert_memory_equal(prv, "-----BEGIN PRIVATE KEY-----\n", 28);
    assert_memory_equal(pub, "-----BEGIN PUBLIC KEY-----\n", 27);
    /* SubjectPublicKeyInfo of a named-curve P-256 key: a fixed prefix. */
    assert_memory_equal(pub + 27, "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", 36);
    assert_string_not_equal(prv, prv2);
    assert_string_not_equal(pub, pub2);
    free(prv);
    free(pub);
    free(prv2);
    free(pub2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_vectors),
        cmocka_unit_test(sha256_in_pieces),
        cmocka_unit_test(sha256_of_a_descriptor),
        cmocka_unit_test(sha256_of_a_large_descriptor),
        cmocka_unit_test(hmac_vectors),
        cmocka_unit_test(hex),
        cmocka_unit_test(equal),
        cmocka_unit_test(randomness),
        cmocka_unit_test(base64_vectors),
        cmocka_unit_test(base64_all_bytes),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(base64url_good),
        cmocka_unit_test(base64url_tails),
        cmocka_unit_test(p256_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
