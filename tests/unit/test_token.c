/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * One test for each known trap of libjwt, on our answer. token.c
 * is included, so that a test can sign claims that token_issue() would not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/token.c"

#include "base/clock.h"

static const char rsa_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArhlXc2T7hnLZ9PukaeVy\n"
    "gt+hyyMoA8gjNiil0lTI71Ud6PoqlddzfP+2Ny9ndj7ma3u7MokQzGh0W3mcChve\n"
    "CxSTQHIQBlxLj0tCIS0VDhsAu90fgCgvE/IWLM8OwdXcMiVU6CmvgBmI3OVZkPQp\n"
    "M2TCqbD9FWRkW/iJEPBYBsmRypMYVKYcUq+IcN6ZDvRpcj4SltIiMrMIzCUvcVVv\n"
    "kjEHD1QsF2tU5Bc4Jv4D6RN2u/MIwEZIxgP7yHXErFwExwPNzv0NiFFcFz3l68xd\n"
    "um8a8gOUeKwQ0NEtiGZO6lH9G69XsFrirrR0hJePPF6q7dRBcQQg7uYXvRFwnZiC\n"
    "rQIDAQAB\n"
    "-----END PUBLIC KEY-----\n";
static const char p384_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEChThCVvocnA4Dx+X2DGfCDH1uHi0JgpJ\n"
    "ditc1c+IM8k+ZaXotz5h4gBNyHXBWCeY+m3g3/ZcBygIRU/Oi0VuodaLZFHhKfqC\n"
    "WAh7AD7KLw7MbdI8KJrnhryj5PojwnYT\n"
    "-----END PUBLIC KEY-----\n";

static const int64_t NOW = 1800000000;
static char *private_pem, *public_pem;
static struct token_keys *keys;
static char revoked_path[64];

static int group_setup(void **state)
{
    struct err e = ERR_INIT;
    json_t *tree;

    (void)state;
    if (crypto_p256_new(&private_pem, &public_pem, &e) != 0)
        return -1;
    tree = json_pack("{ss}", "k1", public_pem);
    if (token_keys_load(tree, &keys, &e) != 0)
        return -1;
    json_decref(tree);
    (void)snprintf(revoked_path, sizeof(revoked_path),
                   "/tmp/sluice-test-revoked-%d", (int)getpid());
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    token_keys_free(keys);
    free(private_pem);
    free(public_pem);
    (void)unlink(revoked_path);
    return 0;
}

/* --- making tokens ------------------------------------------------------ */

static struct token_claims usual(void)
{
    struct token_claims c = {.id = "tok_1",
                             .person = "alice",
                             .issued_at = NOW - 10,
                             .expires_at = NOW + 3600};
    return c;
}

static char *issue(const struct token_claims *c)
{
    struct err e = ERR_INIT;
    char *t = token_issue(private_pem, "k1", "demo", c, &e);

    if (t == NULL)
        fail_msg("%s", e.text);
    return t;
}

static char *b64url(const void *p, size_t n)
{
    char *s = crypto_b64(p, n);

    assert_non_null(s);
    for (char *c = s; *c != '\0'; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    s[strcspn(s, "=")] = '\0';
    return s;
}

/* header.payload.signature from their bytes. */
static char *join(const char *header, const char *payload, const void *sig,
                  size_t sig_len)
{
    char *h = b64url(header, strlen(header));
    char *p = b64url(payload, strlen(payload)), *s = b64url(sig, sig_len);
    char *out = NULL;

    assert_true(asprintf(&out, "%s.%s.%s", h, p, s) > 0);
    free(h);
    free(p);
    free(s);
    return out;
}

static const char claims_fmt[] =
    "{\"iss\":\"sluice\",\"aud\":\"demo\",\"sub\":\"alice\",\"jti\":\"t\","
    "\"iat\":1799999990,\"exp\":%s%s}";

/* Signed rightly, with exp (and more) as written. */
static char *signed_exp(const char *exp, const char *more)
{
    struct err e = ERR_INIT;
    char *text = NULL, *t;

    assert_true(asprintf(&text, claims_fmt, exp, more) > 0);
    t = sign(private_pem, "k1", text, &e);
    free(text);
    if (t == NULL)
        fail_msg("%s", e.text);
    return t;
}

static char *signed_claims(const char *claims)
{
    struct err e = ERR_INIT;
    char *t = sign(private_pem, "k1", claims, &e);

    if (t == NULL)
        fail_msg("%s", e.text);
    return t;
}

/* --- asking ------------------------------------------------------------- */

static void refused_n(const char *text, size_t len, const char *code)
{
    struct token_claims c;
    struct err e = ERR_INIT;

    if (token_verify(keys, NULL, "demo", text, len, NOW, &c, &e) == 0)
        fail_msg("taken: %s", text);
    assert_int_equal(e.class, ERR_UNAUTHENTIC);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s (%s), not %s", e.code, e.text, code);
    assert_null(c.workflows.v);
    assert_string_equal(c.person, "");
}

static void refused(const char *text, const char *code)
{
    refused_n(text, strlen(text), code);
}

static void refused_free(char *text, const char *code)
{
    refused(text, code);
    free(text);
}

/* --- tests -------------------------------------------------------------- */

static void an_issued_token_holds_with_what_was_put_in(void **state)
{
    char *globs[] = {(char[]){"gpu-*"}, (char[]){"media-probe"}};
    struct token_claims c = usual(), out;
    struct err e = ERR_INIT;
    char *t;

    (void)state;
    c.roles = ROLE_RESEARCHER | ROLE_AUDITOR;
    c.workflows = (struct strs){globs, 2};
    c.gpus_max = 8;
    t = issue(&c);
    assert_int_equal(
        token_verify(keys, NULL, "demo", t, strlen(t), NOW, &out, &e), 0);
    assert_string_equal(out.person, "alice");
    assert_string_equal(out.id, "tok_1");
    assert_int_equal(out.roles, c.roles);
    assert_int_equal(out.gpus_max, 8);
    assert_int_equal(out.expires_at, NOW + 3600);
    assert_true(token_claims_workflow(&out, "gpu-canary"));
    assert_true(token_claims_workflow(&out, "media-probe"));
    assert_false(token_claims_workflow(&out, "fleet-acceptance"));
    assert_false(token_claims_workflow(&out, "xgpu-canary"));
    token_claims_clear(&out);
    free(t);
}

static void algorithm_none_is_refused(void **state)
{
    char payload[512];
    char *t;

    (void)state;
    (void)snprintf(payload, sizeof(payload), claims_fmt, "1800003600", "");
    refused_free(join("{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"k1\"}",
                      payload, "x", 1),
                 "token_algorithm");
    /* And with no signature at all. */
    t = join("{\"alg\":\"none\"}", payload, "", 0);
    refused_free(t, "token_malformed");
}

static void hs256_with_the_public_key_is_refused(void **state)
{
    char payload[512], *unsigned_text, *t;
    uint8_t mac[SHA256_LEN];
    struct err e = ERR_INIT;

    (void)state;
    (void)snprintf(payload, sizeof(payload), claims_fmt, "1800003600", "");
    unsigned_text = join("{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}",
                         payload, "", 0);
    unsigned_text[strlen(unsigned_text) - 1] = '\0'; /* the last dot */
    assert_int_equal(crypto_hmac((const uint8_t *)public_pem,
                                 strlen(public_pem), unsigned_text,
                                 strlen(unsigned_text), mac, &e),
                     0);
    free(unsigned_text);
    t = join("{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", payload, mac,
             sizeof(mac));
    refused_free(t, "token_algorithm");
    t = join("{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", payload, mac,
             sizeof(mac));
    refused_free(t, "token_malformed"); /* 32 bytes are no signature */
}

static void foreign_characters_are_refused_before_the_library(void **state)
{
    static const char *const ends[] = {"=", "==", "!", "\n", " ", ".", ".x"};
    struct token_claims c = usual();
    char *t = issue(&c), *changed = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        assert_true(asprintf(&changed, "%s%s", t, ends[i]) > 0);
        refused_free(changed, "token_malformed");
    }
    for (size_t at = 0; at < strlen(t); at += 7) {
        changed = strdup(t);
        changed[at] = '!';
        refused_free(changed, "token_malformed");
    }
    refused_n(t, strlen(t) + 1, "token_malformed"); /* a NUL */
    refused("", "token_malformed");
    refused("..", "token_malformed");
    refused("a.b", "token_malformed");
    refused("a.b.c", "token_malformed");
    free(t);
}

static void a_changed_byte_breaks_the_signature(void **state)
{
    struct token_claims c = usual();
    char *t = issue(&c), *changed;
    size_t payload = strcspn(t, ".") + 5;
    size_t sig = (size_t)(strrchr(t, '.') - t) + 5;

    (void)state;
    changed = strdup(t);
    changed[payload] = changed[payload] == 'A' ? 'B' : 'A';
    refused_free(changed, "token_signature");
    changed = strdup(t);
    changed[sig] = changed[sig] == 'A' ? 'B' : 'A';
    refused_free(changed, "token_signature");
    free(t);
}

static void a_token_over_4096_bytes_is_refused(void **state)
{
    char text[TOKEN_BYTES_MAX + 2];

    (void)state;
    memset(text, 'A', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[10] = text[20] = '.';
    refused(text, "token_malformed");
}

static void times_are_integers(void **state)
{
    static const char *const wrong[] = {
        "\"1800003600\"", "1800003600.0", "null", "true", "-1", "{}"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        refused_free(signed_exp(wrong[i], ""), "token_claims");
    refused_free(signed_exp("1800003600", ",\"nbf\":\"0\""), "token_claims");
    refused_free(signed_exp("1800003600", ",\"gpus\":\"8\""), "token_claims");
    refused_free(signed_exp("1800003600", ",\"gpus\":8.0"), "token_claims");
}

/* libjwt would take the last one. */
static void a_repeated_claim_is_refused(void **state)
{
    char payload[512], *t;
    struct token_claims out = {0};
    struct err e = ERR_INIT;
    struct parts p;

    (void)state;
    (void)snprintf(payload, sizeof(payload), claims_fmt, "1800003600",
                   ",\"sub\":\"operator\"");
    t = join("{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", payload, "s",
             1);
    assert_int_equal(split(t, strlen(t), &p, &e), 0);
    assert_int_equal(check_claims(&p, "demo", NOW, &out, &e), -1);
    assert_string_equal(e.code, "token_malformed");
    free(t);
    t = join("{\"alg\":\"none\",\"alg\":\"ES256\",\"typ\":\"JWT\","
             "\"kid\":\"k1\"}",
             payload, "s", 1);
    refused_free(t, "token_malformed");
}

static void each_claim_is_needed(void **state)
{
    static const char *const without[] = {
        "{\"aud\":\"demo\",\"sub\":\"alice\",\"jti\":\"t\",\"iat\":1799999990,"
        "\"exp\":1800003600}",
        "{\"iss\":\"sluice\",\"aud\":\"demo\",\"jti\":\"t\","
        "\"iat\":1799999990,\"exp\":1800003600}",
        "{\"iss\":\"sluice\",\"aud\":\"demo\",\"sub\":\"alice\","
        "\"iat\":1799999990,\"exp\":1800003600}",
        "{\"iss\":\"sluice\",\"aud\":\"demo\",\"sub\":\"alice\",\"jti\":\"t\","
        "\"exp\":1800003600}",
        "{\"iss\":\"sluice\",\"aud\":\"demo\",\"sub\":\"alice\",\"jti\":\"t\","
        "\"iat\":1799999990}",
        "{\"iss\":\"sluice\",\"sub\":\"alice\",\"jti\":\"t\","
        "\"iat\":1799999990,\"exp\":1800003600}",
        "{}"};

    (void)state;
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
        refused_free(signed_claims(without[i]), "token_claims");
}

static void a_wrong_issuer_or_audience_is_refused(void **state)
{
    (void)state;
    refused_free(
        signed_claims("{\"iss\":\"other\",\"aud\":\"demo\",\"sub\":\"alice\","
                      "\"jti\":\"t\",\"iat\":1799999990,\"exp\":1800003600}"),
        "token_claims");
    refused_free(
        signed_claims("{\"iss\":\"sluice\",\"aud\":\"prod\",\"sub\":\"alice\","
                      "\"jti\":\"t\",\"iat\":1799999990,\"exp\":1800003600}"),
        "token_audience");
    refused_free(
        signed_claims("{\"iss\":\"sluice\",\"aud\":[\"demo\"],\"sub\":\"alice\""
                      ",\"jti\":\"t\",\"iat\":1799999990,\"exp\":1800003600}"),
        "token_claims");
}

static void expiry_and_begin_are_checked(void **state)
{
    struct token_claims c = usual();

    (void)state;
    c.expires_at = NOW;
    refused_free(issue(&c), "token_expired");
    c = usual();
    c.issued_at = NOW + TOKEN_SKEW_SECONDS + 1;
    refused_free(issue(&c), "token_not_yet");
    refused_free(signed_exp("1800003600", ",\"nbf\":1800000031"),
                 "token_not_yet");
    refused_free(signed_exp("1900000000", ""), "token_claims"); /* > 400 d */
    refused_free(signed_exp("1799999980", ""), "token_claims"); /* < iat */
}

static void what_is_not_known_refuses(void **state)
{
    char payload[512];

    (void)state;
    refused_free(signed_exp("1800003600", ",\"account\":\"root\""),
                 "token_claims");
    refused_free(signed_exp("1800003600", ",\"roles\":[\"king\"]"),
                 "token_claims");
    refused_free(signed_exp("1800003600", ",\"roles\":[]"), "token_claims");
    refused_free(signed_exp("1800003600", ",\"workflows\":[]"), "token_claims");
    refused_free(signed_exp("1800003600", ",\"workflows\":\"gpu-*\""),
                 "token_claims");
    refused_free(signed_exp("1800003600", ",\"workflows\":[\"[a-z]*\"]"),
                 "token_claims");
    (void)snprintf(payload, sizeof(payload), claims_fmt, "1800003600", "");
    refused_free(join("{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k1\","
                      "\"crit\":[]}",
                      payload, "s", 1),
                 "token_malformed");
    refused_free(join("{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k2\"}",
                      payload, "s", 1),
                 "token_key");
    refused_free(join("{\"alg\":\"ES256\",\"typ\":\"JWT\"}", payload, "s", 1),
                 "token_key");
}

static void another_key_does_not_sign(void **state)
{
    char *other = NULL, *public = NULL, *t;
    struct token_claims c = usual();
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(crypto_p256_new(&other, &public, &e), 0);
    t = token_issue(other, "k1", "demo", &c, &e);
    assert_non_null(t);
    refused_free(t, "token_signature");
    free(other);
    free(public);
}

static void only_p256_public_keys_are_keys(void **state)
{
    const char *const wrong[] = {rsa_public, p384_public, private_pem, "", "x"};
    struct token_keys *k = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        json_t *tree = json_pack("{ss}", "k", wrong[i]);
        struct err e = ERR_INIT;
        assert_int_equal(token_keys_load(tree, &k, &e), -1);
        assert_string_equal(e.code, "token_key");
        assert_null(k);
        json_decref(tree);
    }
}

static void claims_out_of_range_are_not_issued(void **state)
{
    char *globs[] = {(char[]){"A b"}};
    struct err e = ERR_INIT;
    struct token_claims c = usual();

    (void)state;
    c.expires_at = c.issued_at + TOKEN_LIFE_MAX_SECONDS + 1;
    assert_null(token_issue(private_pem, "k1", "demo", &c, &e));
    assert_string_equal(e.code, "token_claims");
    c = usual();
    c.workflows = (struct strs){globs, 1};
    assert_null(token_issue(private_pem, "k1", "demo", &c, NULL));
    c = usual();
    assert_null(token_issue("no key", "k1", "demo", &c, NULL));
}

/* --- revocation --------------------------------------------------------- */

static void put_revoked(const char *text, mode_t mode)
{
    char tmp[80];
    FILE *f;

    (void)snprintf(tmp, sizeof(tmp), "%s.new", revoked_path);
    f = fopen(tmp, "we");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(tmp, mode), 0);
    assert_int_equal(rename(tmp, revoked_path), 0);
}

static void check(struct token_revoked *r, struct token_cache *cache,
                  const char *code)
{
    struct token_claims c = usual(), out;
    struct err e = ERR_INIT;
    char *t = issue(&c);
    int rc = token_verify_cached(cache, keys, r, "demo", t, strlen(t), NOW,
                                 &out, &e);

    if (code == NULL)
        assert_int_equal(rc, 0);
    else
        assert_string_equal(e.code, code);
    token_claims_clear(&out);
    free(t);
}

static void a_revocation_holds_for_the_next_request(void **state)
{
    struct token_revoked *r = token_revoked_new(revoked_path);
    struct token_cache *cache = token_cache_new(16);

    (void)state;
    (void)unlink(revoked_path);
    check(r, cache, NULL);
    put_revoked("{\"tok_2\":1}", 0640);
    check(r, cache, NULL);
    put_revoked("{\"tok_2\":1,\"tok_1\":2}", 0640);
    check(r, cache, "token_revoked");
    put_revoked("{}", 0640);
    check(r, cache, NULL);
    token_cache_free(cache);
    token_revoked_free(r);
}

/* Also where the token is remembered. */
static void a_broken_list_of_revocations_refuses_everything(void **state)
{
    struct token_revoked *r = token_revoked_new(revoked_path);
    struct token_cache *cache = token_cache_new(16);

    (void)state;
    put_revoked("{}", 0640);
    check(r, cache, NULL);
    put_revoked("{\"tok_", 0640);
    check(r, cache, "token_revocations");
    check(r, cache, "token_revocations");
    put_revoked("[]", 0640);
    check(r, cache, "token_revocations");
    put_revoked("{}", 0666);
    check(r, cache, "token_revocations");
    put_revoked("{}", 0640);
    check(r, cache, NULL);
    token_cache_free(cache);
    token_revoked_free(r);
}

/* --- cache -------------------------------------------------------------- */

static int cached(struct token_cache *cache, const struct token_keys *k,
                  const char *audience, const char *t, int64_t now,
                  struct err *e)
{
    struct token_claims out;
    int rc = token_verify_cached(cache, k, NULL, audience, t, strlen(t), now,
                                 &out, e);

    if (rc == 0)
        assert_string_equal(out.person, "alice");
    token_claims_clear(&out);
    return rc;
}

static void a_remembered_token_still_expires(void **state)
{
    struct token_cache *cache = token_cache_new(16);
    struct token_claims c = usual();
    char *t = issue(&c);
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(cached(cache, keys, "demo", t, NOW, &e), 0);
    assert_int_equal(cached(cache, keys, "demo", t, NOW + 3599, &e), 0);
    assert_int_equal(cached(cache, keys, "demo", t, NOW + 3600, &e), -1);
    assert_string_equal(e.code, "token_expired");
    err_clear(&e);
    assert_int_equal(cached(cache, keys, "demo", t, NOW, &e), 0);
    assert_int_equal(cached(cache, keys, "prod", t, NOW, &e), -1);
    assert_string_equal(e.code, "token_audience");
    token_cache_free(cache);
    free(t);
}

/* A request may hold the old keys across a switch: what it remembers after the
 * drop counts for the old keys only. */
static void other_keys_forget_what_the_old_ones_verified(void **state)
{
    struct token_cache *cache = token_cache_new(16);
    json_t *none = json_object();
    struct token_claims c = usual();
    struct token_keys *no_keys = NULL;
    struct err e = ERR_INIT;
    char *t = issue(&c);

    (void)state;
    assert_int_equal(token_keys_load(none, &no_keys, &e), 0);
    for (int i = 0; i < 2; i++) {
        err_clear(&e);
        assert_int_equal(cached(cache, keys, "demo", t, NOW, &e), 0);
        assert_int_equal(cached(cache, no_keys, "demo", t, NOW, &e), -1);
        assert_string_equal(e.code, "token_key");
        token_cache_drop(cache);
    }
    token_keys_free(no_keys);
    json_decref(none);
    token_cache_free(cache);
    free(t);
}

static void a_refused_token_is_not_remembered(void **state)
{
    struct token_cache *cache = token_cache_new(16);
    struct token_claims c = usual();
    struct err e = ERR_INIT;
    char *t = issue(&c), *bad = strdup(t);

    (void)state;
    bad[strlen(bad) - 3] = bad[strlen(bad) - 3] == 'A' ? 'B' : 'A';
    assert_int_equal(cached(cache, keys, "demo", t, NOW, &e), 0);
    for (int i = 0; i < 2; i++) {
        err_clear(&e);
        assert_int_equal(cached(cache, keys, "demo", bad, NOW, &e), -1);
        assert_string_equal(e.code, "token_signature");
    }
    token_cache_free(cache);
    free(bad);
    free(t);
}

struct crowd {
    struct token_cache *cache;
    char *tokens[8];
    int wrong;
};

static void *one_of_many(void *arg)
{
    struct crowd *c = arg;
    struct token_claims out;

    for (int i = 0; i < 400; i++) {
        const char *t = c->tokens[i % 8];
        if (token_verify_cached(c->cache, keys, NULL, "demo", t, strlen(t), NOW,
                                &out, NULL) != 0 ||
            strcmp(out.person, "alice") != 0)
            __atomic_add_fetch(&c->wrong, 1, __ATOMIC_RELAXED);
        token_claims_clear(&out);
        if (i % 50 == 0)
            token_cache_drop(c->cache);
    }
    return NULL;
}

/* Fewer places than tokens, so that they push each other out. */
static void many_threads_share_a_small_cache(void **state)
{
    struct crowd c = {.cache = token_cache_new(1)};
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct token_claims claims = usual();
        (void)snprintf(claims.id, sizeof(claims.id), "tok_%d", i);
        c.tokens[i] = issue(&claims);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, one_of_many, &c), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(c.wrong, 0);
    for (int i = 0; i < 8; i++)
        free(c.tokens[i]);
    token_cache_free(c.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_issued_token_holds_with_what_was_put_in),
        cmocka_unit_test(algorithm_none_is_refused),
        cmocka_unit_test(hs256_with_the_public_key_is_refused),
        cmocka_unit_test(foreign_characters_are_refused_before_the_library),
        cmocka_unit_test(a_changed_byte_breaks_the_signature),
        cmocka_unit_test(a_token_over_4096_bytes_is_refused),
        cmocka_unit_test(times_are_integers),
        cmocka_unit_test(a_repeated_claim_is_refused),
        cmocka_unit_test(each_claim_is_needed),
        cmocka_unit_test(a_wrong_issuer_or_audience_is_refused),
        cmocka_unit_test(expiry_and_begin_are_checked),
        cmocka_unit_test(what_is_not_known_refuses),
        cmocka_unit_test(another_key_does_not_sign),
        cmocka_unit_test(only_p256_public_keys_are_keys),
        cmocka_unit_test(claims_out_of_range_are_not_issued),
        cmocka_unit_test(a_revocation_holds_for_the_next_request),
        cmocka_unit_test(a_broken_list_of_revocations_refuses_everything),
        cmocka_unit_test(a_remembered_token_still_expires),
        cmocka_unit_test(other_keys_forget_what_the_old_ones_verified),
        cmocka_unit_test(a_refused_token_is_not_remembered),
        cmocka_unit_test(many_threads_share_a_small_cache),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
