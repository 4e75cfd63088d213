/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "auth/token.h"

#include "auth/people.h"
#include "base/crypto.h"
#include "base/file.h"
#include "base/id.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jwt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEYS_MAX = 16,
    KID_MAX = 64,
    KEY_DER_LEN = 91,   /* SubjectPublicKeyInfo of an uncompressed point */
    SIGNATURE_LEN = 64, /* r and s, RFC 7518 section 3.4 */
    HEADER_MAX = 512,
    GLOBS_MAX = 32,
    GPUS_MAX = 1000000,
    REVOKED_BYTES_MAX = 4 * 1024 * 1024,
    CACHE_WAYS = 4,
    CACHE_MAX = 1 << 20
};

/* --- claims ------------------------------------------------------------- */

void token_claims_clear(struct token_claims *c)
{
    if (c == NULL)
        return;
    strs_clear(&c->workflows);
    memset(c, 0, sizeof(*c));
}

bool token_claims_workflow(const struct token_claims *c, const char *name)
{
    if (c->workflows.n == 0)
        return true;
    for (size_t i = 0; i < c->workflows.n; i++)
        if (fnmatch(c->workflows.v[i], name, FNM_NOESCAPE) == 0)
            return true;
    return false;
}

static int claims_copy(const struct token_claims *from, struct token_claims *to,
                       struct err *e)
{
    *to = *from;
    to->workflows = (struct strs){NULL, 0};
    for (size_t i = 0; i < from->workflows.n; i++)
        if (strs_add(&to->workflows, from->workflows.v[i]) != 0) {
            token_claims_clear(to);
            return err_nomem(e);
        }
    return 0;
}

/* A glob over workflow names: their alphabet and '*'. */
static bool glob_valid(const char *s)
{
    return s[0] != '\0' && strlen(s) <= WORKFLOW_NAME_MAX &&
           s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-*")] == '\0';
}

/* ^[A-Za-z0-9_-]{1,TOKEN_ID_MAX}$ */
static bool id_valid(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n > 0 && n <= TOKEN_ID_MAX && s[n] == '\0';
}

/* --- keys --------------------------------------------------------------- */

struct token_keys {
    uint64_t serial; /* of this process: names these keys in a cache */
    struct {
        char kid[KID_MAX + 1];
        char *pem;
    } v[KEYS_MAX];
    size_t n;
};

/* The one form a key of ours has: SubjectPublicKeyInfo, id-ecPublicKey,
 * prime256v1, uncompressed point (RFC 5480). libjwt takes whatever OpenSSL can
 * read (an RSA key, another curve), so this is looked at before. */
static bool p256_public(const char *pem)
{
    static const uint8_t head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a,
                                   0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
                                   0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
                                   0x01, 0x07, 0x03, 0x42, 0x00, 0x04};
    static const char begin[] = "-----BEGIN PUBLIC KEY-----\n";
    static const char end[] = "-----END PUBLIC KEY-----\n";
    char text[128]; /* 91 bytes are 124 characters of base64 */
    size_t n = 0, len = 0;
    uint8_t *der;
    bool ok;

    if (strncmp(pem, begin, strlen(begin)) != 0)
        return false;
    for (pem += strlen(begin); *pem != '\0' && *pem != '-'; pem++) {
        if (*pem == '\n')
            continue;
        if (n == sizeof(text) - 1)
            return false;
        text[n++] = *pem;
    }
    text[n] = '\0';
    if (strcmp(pem, end) != 0)
        return false;
    der = crypto_unb64(text, &len);
    ok = der != NULL && len == KEY_DER_LEN &&
         memcmp(der, head, sizeof(head)) == 0;
    free(der);
    return ok;
}

static int key_add(struct token_keys *k, const char *kid, const json_t *v,
                   struct err *e)
{
    const char *pem = json_string_value(v);

    if (k->n == KEYS_MAX)
        return err_set(e, ERR_CONFIG, "token_key", "more than %d keys",
                       KEYS_MAX);
    if (strlen(kid) > KID_MAX || pem == NULL || !p256_public(pem))
        return err_set(e, ERR_CONFIG, "token_key",
                       "key %.64s is not a P-256 public key in PEM", kid);
    (void)snprintf(k->v[k->n].kid, sizeof(k->v[0].kid), "%s", kid);
    k->v[k->n].pem = strdup(pem);
    if (k->v[k->n].pem == NULL)
        return err_nomem(e);
    k->n++;
    return 0;
}

int token_keys_load(const json_t *tree, struct token_keys **out, struct err *e)
{
    static atomic_uint_fast64_t serial;
    struct token_keys *k = NULL;
    const char *kid;
    json_t *v;

    *out = NULL;
    if (!json_is_object(tree))
        return err_set(e, ERR_CONFIG, "token_key", "keys are not an object");
    k = calloc(1, sizeof(*k));
    if (k == NULL)
        return err_nomem(e);
    k->serial = atomic_fetch_add(&serial, 1) + 1;
    json_object_foreach((json_t *)(uintptr_t)tree, kid,
                        v) if (key_add(k, kid, v, e) != 0)
    {
        token_keys_free(k);
        return -1;
    }
    *out = k;
    return 0;
}

void token_keys_free(struct token_keys *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; i < k->n; i++)
        free(k->v[i].pem);
    free(k);
}

static const char *key_find(const struct token_keys *k, const char *kid)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->v[i].kid, kid) == 0)
            return k->v[i].pem;
    return NULL;
}

/* --- revocations -------------------------------------------------------- */

struct token_revoked {
    pthread_mutex_t lock;
    char *path;
    json_t *ids; /* NULL: none */
    bool known;  /* seen describes ids */
    bool present;
    struct stat seen;
};

struct token_revoked *token_revoked_new(const char *path)
{
    struct token_revoked *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    r->path = strdup(path);
    if (r->path == NULL || pthread_mutex_init(&r->lock, NULL) != 0) {
        free(r->path);
        free(r);
        return NULL;
    }
    return r;
}

void token_revoked_free(struct token_revoked *r)
{
    if (r == NULL)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    json_decref(r->ids);
    free(r->path);
    free(r);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static int no_revocations(struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "token_revocations",
                   "the list of revoked tokens can't be read");
}

/* Read what is open, and remember which file it was. */
static int revoked_read(struct token_revoked *r, int fd, struct err *e)
{
    struct stat st;
    size_t len = 0;
    json_t *ids = NULL;
    char *text;

    if (fstat(fd, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()) ||
        (st.st_mode & 022) != 0)
        return no_revocations(e);
    text = file_read_fd(fd, REVOKED_BYTES_MAX, &len, NULL);
    if (text != NULL)
        ids = json_parse(text, len, REVOKED_BYTES_MAX, NULL);
    free(text);
    if (!json_is_object(ids)) {
        json_decref(ids);
        return no_revocations(e);
    }
    json_decref(r->ids);
    r->ids = ids;
    r->seen = st;
    r->known = r->present = true;
    return 0;
}

static int revoked_refresh(struct token_revoked *r, struct err *e)
{
    struct stat st;
    int fd, rc;

    if (stat(r->path, &st) != 0) {
        if (errno != ENOENT)
            return no_revocations(e);
        json_decref(r->ids);
        r->ids = NULL;
        r->known = true;
        r->present = false;
        return 0;
    }
    if (r->known && r->present && same_file(&st, &r->seen))
        return 0;
    r->known = false;
    fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return no_revocations(e);
    rc = revoked_read(r, fd, e);
    (void)close(fd);
    return rc;
}

/* -1: revoked, or the list can't be read. */
static int check_revoked(struct token_revoked *r, const char *id, struct err *e)
{
    bool found = false;
    int rc;

    if (r == NULL)
        return 0;
    (void)pthread_mutex_lock(&r->lock);
    rc = revoked_refresh(r, e);
    if (rc == 0)
        found = json_object_get(r->ids, id) != NULL;
    (void)pthread_mutex_unlock(&r->lock);
    if (rc == 0 && found)
        return err_set(e, ERR_UNAUTHENTIC, "token_revoked",
                       "the token has been revoked");
    return rc;
}

/* --- verify ------------------------------------------------------------- */

static int no(struct err *e, const char *code, const char *text)
{
    return err_set(e, ERR_UNAUTHENTIC, code, "%s", text);
}

/* The token in its parts, before any library sees it. */
struct parts {
    char text[TOKEN_BYTES_MAX + 1]; /* NUL-terminated copy */
    const char *at[3];
    size_t len[3];
};

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789-_";

static int malformed(struct err *e)
{
    return no(e, "token_malformed", "the token is malformed");
}

/* Exactly three non-empty parts of the unpadded base64url alphabet: libjwt
 * would take '=', '==' and a stray '!' in the signature. */
static int split(const char *text, size_t len, struct parts *p, struct err *e)
{
    const char *at;

    if (len == 0 || len > TOKEN_BYTES_MAX || memchr(text, '\0', len) != NULL)
        return malformed(e);
    memcpy(p->text, text, len);
    p->text[len] = '\0';
    at = p->text;
    for (int i = 0; i < 3; i++) {
        p->at[i] = at;
        p->len[i] = strspn(at, alphabet);
        at += p->len[i];
        if (p->len[i] == 0 || *at != (i < 2 ? '.' : '\0'))
            return malformed(e);
        at++;
    }
    return 0;
}

/* One part as a JSON object; a repeated key is refused, where libjwt would
 * take the last one. */
static json_t *part_json(const struct parts *p, int i, size_t max,
                         struct err *e)
{
    size_t len = 0;
    uint8_t *raw = crypto_unb64url(p->at[i], p->len[i], &len);
    json_t *v = NULL;

    if (raw != NULL)
        v = json_parse((const char *)raw, len, max, NULL);
    free(raw);
    if (!json_is_object(v)) {
        json_decref(v);
        malformed(e);
        return NULL;
    }
    return v;
}

static int check_signature_form(const struct parts *p, struct err *e)
{
    size_t len = 0;
    uint8_t *raw = crypto_unb64url(p->at[2], p->len[2], &len);

    free(raw);
    return raw != NULL && len == SIGNATURE_LEN ? 0 : malformed(e);
}

/* {"alg":"ES256","typ":"JWT","kid":...} and nothing else: an unknown key
 * ("crit", "jku", "x5c") would want to be understood. */
static int check_header(const struct parts *p, const struct token_keys *k,
                        const char **pem, struct err *e)
{
    static const char *const keys[] = {"alg", "typ", "kid", NULL};
    json_t *h = part_json(p, 0, HEADER_MAX, e);
    const char *alg, *kid, *typ;
    int r = -1;

    if (h == NULL)
        return -1;
    alg = json_string_value(json_object_get(h, "alg"));
    kid = json_string_value(json_object_get(h, "kid"));
    typ = json_string_value(json_object_get(h, "typ"));
    if (alg == NULL || strcmp(alg, "ES256") != 0)
        no(e, "token_algorithm", "the token's algorithm is not ES256");
    else if (typ == NULL || strcmp(typ, "JWT") != 0 ||
             json_only(h, keys, "", NULL) != 0)
        malformed(e);
    else if (kid == NULL || (*pem = key_find(k, kid)) == NULL)
        no(e, "token_key", "the token's key is not known");
    else
        r = 0;
    json_decref(h);
    return r;
}

/* The only call of jwt_decode: a key is always there (with NULL it would not
 * verify at all), and its algorithm is compared again afterwards. */
static int check_signature(const struct parts *p, const char *pem,
                           struct err *e)
{
    jwt_t *jwt = NULL;
    int rc =
        jwt_decode(&jwt, p->text, (const unsigned char *)pem, (int)strlen(pem));
    bool ok = rc == 0 && jwt != NULL && jwt_get_alg(jwt) == JWT_ALG_ES256;

    jwt_free(jwt);
    if (ok)
        return 0;
    return rc == ENOMEM ? err_nomem(e)
                        : no(e, "token_signature",
                             "the token's signature does not hold");
}

static int bad_claim(const char *name, struct err *e)
{
    return err_set(e, ERR_UNAUTHENTIC, "token_claims",
                   "the token's claim %s is missing or wrong", name);
}

/* A time is a JSON integer. libjwt reads a string, a float or null as 0. */
static int claim_int(const json_t *c, const char *name, bool required,
                     int64_t max, int64_t *out, struct err *e)
{
    const json_t *v = json_object_get(c, name);

    if (v == NULL && !required)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) > max)
        return bad_claim(name, e);
    *out = json_integer_value(v);
    return 0;
}

static int claim_text(const json_t *c, const char *name, const char **out,
                      struct err *e)
{
    *out = json_string_value(json_object_get(c, name));
    return *out != NULL ? 0 : bad_claim(name, e);
}

static int claim_globs(const json_t *c, struct strs *out, struct err *e)
{
    const json_t *arr = json_object_get(c, "workflows");
    size_t i, n = json_array_size(arr);
    json_t *v;

    if (arr == NULL)
        return 0;
    /* An empty list would read as "all". */
    if (!json_is_array(arr) || n == 0 || n > GLOBS_MAX)
        return bad_claim("workflows", e);
    json_array_foreach(arr, i, v)
    {
        const char *s = json_string_value(v);
        if (s == NULL || !glob_valid(s))
            return bad_claim("workflows", e);
        if (strs_add(out, s) != 0)
            return err_nomem(e);
    }
    return 0;
}

static int claim_roles(const json_t *c, unsigned *out, struct err *e)
{
    const json_t *arr = json_object_get(c, "roles");

    if (arr == NULL)
        return 0;
    if (roles_parse(arr, out) != 0 || *out == 0)
        return bad_claim("roles", e);
    return 0;
}

static int claim_names(const json_t *c, struct token_claims *out, struct err *e)
{
    const char *iss, *sub, *jti;

    if (claim_text(c, "iss", &iss, e) != 0 ||
        claim_text(c, "sub", &sub, e) != 0 ||
        claim_text(c, "jti", &jti, e) != 0)
        return -1;
    if (strcmp(iss, TOKEN_ISSUER) != 0)
        return bad_claim("iss", e);
    if (!id_name_valid(sub, PERSON_NAME_MAX))
        return bad_claim("sub", e);
    if (!id_valid(jti))
        return bad_claim("jti", e);
    (void)snprintf(out->person, sizeof(out->person), "%s", sub);
    (void)snprintf(out->id, sizeof(out->id), "%s", jti);
    return 0;
}

/* A token counts for one cluster only. The skew is for a clock that was set
 * back since the issue; expiry has none. */
static int claim_times(const json_t *c, int64_t now, struct token_claims *out,
                       struct err *e)
{
    int64_t nbf = 0;

    if (claim_int(c, "iat", true, INT64_MAX / 2, &out->issued_at, e) != 0 ||
        claim_int(c, "exp", true, INT64_MAX / 2, &out->expires_at, e) != 0 ||
        claim_int(c, "nbf", false, INT64_MAX / 2, &nbf, e) != 0)
        return -1;
    if (out->expires_at <= out->issued_at ||
        out->expires_at - out->issued_at > TOKEN_LIFE_MAX_SECONDS)
        return bad_claim("exp", e);
    if (out->issued_at > now + TOKEN_SKEW_SECONDS ||
        nbf > now + TOKEN_SKEW_SECONDS)
        return no(e, "token_not_yet", "the token is not valid yet");
    if (out->expires_at <= now)
        return no(e, "token_expired", "the token has expired");
    return 0;
}

/* What a token of ours can hold. An unknown claim could be a restriction that
 * this version does not know, so it refuses the token. */
static int check_claims(const struct parts *p, const char *audience,
                        int64_t now, struct token_claims *out, struct err *e)
{
    static const char *const keys[] = {"iss",       "aud",  "sub", "jti",
                                       "iat",       "exp",  "nbf", "roles",
                                       "workflows", "gpus", NULL};
    json_t *c = part_json(p, 1, TOKEN_BYTES_MAX, e);
    const char *aud;
    int r = -1;

    if (c == NULL)
        return -1;
    if (json_only(c, keys, "", NULL) != 0)
        no(e, "token_claims", "the token has a claim that is not known");
    else if (claim_names(c, out, e) == 0 && claim_text(c, "aud", &aud, e) == 0)
        r = strcmp(aud, audience) == 0
                ? 0
                : no(e, "token_audience", "the token is for another cluster");
    if (r == 0 &&
        (claim_times(c, now, out, e) != 0 ||
         claim_roles(c, &out->roles, e) != 0 ||
         claim_globs(c, &out->workflows, e) != 0 ||
         claim_int(c, "gpus", false, GPUS_MAX, &out->gpus_max, e) != 0))
        r = -1;
    json_decref(c);
    return r;
}

/* Everything but the revocation, which each use looks at again. */
static int verify(const struct token_keys *k, const char *audience,
                  const char *text, size_t len, int64_t now,
                  struct token_claims *out, struct err *e)
{
    const char *pem = NULL;
    struct parts p;

    memset(out, 0, sizeof(*out));
    if (split(text, len, &p, e) != 0 || check_header(&p, k, &pem, e) != 0 ||
        check_signature_form(&p, e) != 0 || check_signature(&p, pem, e) != 0)
        return -1;
    if (check_claims(&p, audience, now, out, e) != 0) {
        token_claims_clear(out);
        return -1;
    }
    return 0;
}

int token_verify(const struct token_keys *k, struct token_revoked *r,
                 const char *audience, const char *text, size_t len,
                 int64_t now, struct token_claims *out, struct err *e)
{
    if (verify(k, audience, text, len, now, out, e) != 0)
        return -1;
    if (check_revoked(r, out->id, e) == 0)
        return 0;
    token_claims_clear(out);
    return -1;
}

/* --- issue -------------------------------------------------------------- */

static char *claims_text(const char *audience, const struct token_claims *c,
                         struct err *e)
{
    json_t *o = json_object();
    char *text = NULL;
    int r = 0;

    r |= json_put_str(o, "iss", TOKEN_ISSUER);
    r |= json_put_str(o, "aud", audience);
    r |= json_put_str(o, "sub", c->person);
    r |= json_put_str(o, "jti", c->id);
    r |= json_put_int(o, "iat", c->issued_at);
    r |= json_put_int(o, "exp", c->expires_at);
    if (c->roles != 0)
        r |= json_put(o, "roles", roles_json(c->roles));
    if (c->workflows.n != 0)
        r |= json_put(o, "workflows", strs_json(&c->workflows));
    if (c->gpus_max != 0)
        r |= json_put_int(o, "gpus", c->gpus_max);
    if (r == 0)
        text = json_text(o);
    if (text == NULL)
        err_nomem(e);
    json_decref(o);
    return text;
}

static int claims_check(const struct token_claims *c, struct err *e)
{
    bool ok = id_valid(c->id) && id_name_valid(c->person, PERSON_NAME_MAX) &&
              c->issued_at > 0 && c->expires_at > c->issued_at &&
              c->expires_at - c->issued_at <= TOKEN_LIFE_MAX_SECONDS &&
              c->gpus_max >= 0 && c->gpus_max <= GPUS_MAX &&
              c->workflows.n <= GLOBS_MAX;

    for (size_t i = 0; ok && i < c->workflows.n; i++)
        ok = glob_valid(c->workflows.v[i]);
    return ok ? 0
              : err_set(e, ERR_INVALID, "token_claims",
                        "a claim is missing or out of range");
}

static char *sign(const char *pem, const char *kid, const char *claims,
                  struct err *e)
{
    char *out = NULL; /* from malloc(3): we set no allocator of libjwt's */
    jwt_t *jwt = NULL;

    if (jwt_new(&jwt) != 0 || jwt_add_header(jwt, "kid", kid) != 0 ||
        jwt_add_grants_json(jwt, claims) != 0 ||
        jwt_set_alg(jwt, JWT_ALG_ES256, (const unsigned char *)pem,
                    (int)strlen(pem)) != 0)
        err_set(e, ERR_INTERNAL, "token_sign", "the token can't be made");
    else if ((out = jwt_encode_str(jwt)) == NULL)
        err_set(e, ERR_CONFIG, "token_sign", "the key can't sign with ES256");
    jwt_free(jwt);
    return out;
}

char *token_issue(const char *private_pem, const char *kid,
                  const char *audience, const struct token_claims *c,
                  struct err *e)
{
    char *claims, *out;

    if (claims_check(c, e) != 0)
        return NULL;
    claims = claims_text(audience, c, e);
    if (claims == NULL)
        return NULL;
    out = sign(private_pem, kid, claims, e);
    free(claims);
    if (out != NULL && strlen(out) > TOKEN_BYTES_MAX) {
        err_set(e, ERR_TOO_LARGE, "token_malformed",
                "the token would have more than %d bytes", TOKEN_BYTES_MAX);
        free(out);
        out = NULL;
    }
    return out;
}

/* --- cache -------------------------------------------------------------- */

struct entry {
    uint8_t key[SHA256_LEN];
    uint64_t serial; /* of the keys that it was verified with; 0: free */
    struct token_claims claims;
};

/* Sets of CACHE_WAYS; within a set the oldest place is written over. An entry
 * counts for the keys that verified it only: a request that holds the old keys
 * across a switch remembers nothing for those who have the new ones. */
struct token_cache {
    pthread_mutex_t lock;
    struct entry *v;
    unsigned char *next;
    size_t sets;
};

struct token_cache *token_cache_new(size_t entries)
{
    struct token_cache *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    if (entries > CACHE_MAX)
        entries = CACHE_MAX;
    c->sets = entries / CACHE_WAYS + 1;
    c->v = calloc(c->sets * CACHE_WAYS, sizeof(*c->v));
    c->next = calloc(c->sets, 1);
    if (c->v == NULL || c->next == NULL ||
        pthread_mutex_init(&c->lock, NULL) != 0) {
        free(c->v);
        free(c->next);
        free(c);
        return NULL;
    }
    return c;
}

static void entry_clear(struct entry *n)
{
    token_claims_clear(&n->claims);
    memset(n, 0, sizeof(*n));
}

void token_cache_drop(struct token_cache *c)
{
    (void)pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->sets * CACHE_WAYS; i++)
        entry_clear(&c->v[i]);
    (void)pthread_mutex_unlock(&c->lock);
}

void token_cache_free(struct token_cache *c)
{
    if (c == NULL)
        return;
    token_cache_drop(c);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->v);
    free(c->next);
    free(c);
}

static size_t set_of(const struct token_cache *c, const uint8_t *key)
{
    uint64_t h;

    memcpy(&h, key, sizeof(h));
    return (size_t)(h % c->sets);
}

static struct entry *entry_find(struct token_cache *c, const uint8_t *key,
                                uint64_t serial)
{
    struct entry *set = &c->v[set_of(c, key) * CACHE_WAYS];

    for (size_t i = 0; i < CACHE_WAYS; i++)
        if (set[i].serial == serial &&
            crypto_equal(set[i].key, key, SHA256_LEN))
            return &set[i];
    return NULL;
}

/* 1: known and copied, 0: not known, -1. */
static int cache_get(struct token_cache *c, const uint8_t *key, uint64_t serial,
                     int64_t now, struct token_claims *out, struct err *e)
{
    struct entry *n;
    int r = 0;

    (void)pthread_mutex_lock(&c->lock);
    n = entry_find(c, key, serial);
    if (n != NULL && (n->claims.expires_at <= now ||
                      n->claims.issued_at > now + TOKEN_SKEW_SECONDS)) {
        entry_clear(n); /* the full check says which it is */
        n = NULL;
    }
    if (n != NULL)
        r = claims_copy(&n->claims, out, e) == 0 ? 1 : -1;
    (void)pthread_mutex_unlock(&c->lock);
    return r;
}

/* Failing to remember is no failure. */
static void cache_put(struct token_cache *c, const uint8_t *key,
                      uint64_t serial, const struct token_claims *claims)
{
    struct token_claims copy;
    struct entry *n;
    size_t set;

    if (claims_copy(claims, &copy, NULL) != 0)
        return;
    (void)pthread_mutex_lock(&c->lock);
    set = set_of(c, key);
    if (entry_find(c, key, serial) != NULL) {
        token_claims_clear(&copy);
    } else {
        n = &c->v[set * CACHE_WAYS + c->next[set]];
        c->next[set] = (unsigned char)((c->next[set] + 1) % CACHE_WAYS);
        entry_clear(n);
        memcpy(n->key, key, SHA256_LEN);
        n->claims = copy;
        n->serial = serial;
    }
    (void)pthread_mutex_unlock(&c->lock);
}

int token_verify_cached(struct token_cache *c, const struct token_keys *k,
                        struct token_revoked *r, const char *audience,
                        const char *text, size_t len, int64_t now,
                        struct token_claims *out, struct err *e)
{
    const struct crypto_piece pieces[] = {{audience, strlen(audience) + 1},
                                          {text, len}};
    uint8_t key[SHA256_LEN];
    int known;

    memset(out, 0, sizeof(*out));
    if (len > TOKEN_BYTES_MAX)
        return malformed(e);
    if (crypto_sha256_pieces(pieces, 2, key, e) != 0)
        return -1;
    known = cache_get(c, key, k->serial, now, out, e);
    if (known < 0)
        return -1;
    if (known == 0) {
        if (verify(k, audience, text, len, now, out, e) != 0)
            return -1;
        cache_put(c, key, k->serial, out);
    }
    if (check_revoked(r, out->id, e) == 0)
        return 0;
    token_claims_clear(out);
    return -1;
}
