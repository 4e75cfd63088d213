/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/client.h"

#include "base/file.h"
#include "base/json.h"
#include "base/wire.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { TOKEN_FILE_MAX = 8192 };

/* CURLOPT_PREREQFUNCTION came with 7.80; Rocky 9 has 7.76. */
#define HAVE_PREREQ (LIBCURL_VERSION_NUM >= 0x075000)
#if !HAVE_PREREQ
#define CURL_PREREQFUNC_OK 0
#define CURL_PREREQFUNC_ABORT 1
#endif

struct client {
    CURL *curl;
    char *base;   /* "http://127.0.0.1:8080" or "http://localhost" */
    char *socket; /* path of local.sock, or NULL */
    char *token;  /* or NULL */
    bool wrong_server;
    int local_fd; /* libcurl's, while it is connected */
};

/* While one call runs. */
struct exchange {
    struct reply *reply;
    CURL *curl;
    int out_fd;
    bool overflow;
};

void reply_clear(struct reply *r)
{
    json_decref(r->json);
    buf_clear(&r->body);
    memset(r, 0, sizeof(*r));
}

static char *read_token(const char *path, struct err *e)
{
    size_t n = 0;
    char *text = file_read(AT_FDCWD, path, TOKEN_FILE_MAX, &n, e);

    if (text == NULL)
        return NULL;
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        text[--n] = '\0';
    if (n > 0 && strpbrk(text, " \t\r\n") == NULL)
        return text;
    free(text);
    err_set(e, ERR_INVALID, "token_file", "the token file holds no token");
    return NULL;
}

static int set_url(struct client *c, const char *url, struct err *e)
{
    if (strncmp(url, "unix:", 5) == 0 && !HAVE_PREREQ) {
        return err_set(e, ERR_INVALID, "url",
                       "this libcurl can't check who holds a socket; use "
                       "http:// with a token");
    } else if (strncmp(url, "unix:", 5) == 0) {
        c->socket = strdup(url + 5);
        c->base = strdup("http://localhost");
    } else if (strncmp(url, "http://", 7) == 0) {
        c->base = strdup(url);
    } else {
        return err_set(e, ERR_INVALID, "url",
                       "SLUICE_URL must be http://HOST:PORT or unix:PATH");
    }
    if (c->base == NULL || (c->socket == NULL && url[0] == 'u'))
        return err_nomem(e);
    if (c->base[strlen(c->base) - 1] == '/')
        c->base[strlen(c->base) - 1] = '\0';
    return 0;
}

int client_new(const char *url, const char *token_file, struct client **out,
               struct err *e)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return err_nomem(e);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->curl = curl_easy_init();
    if (c->curl == NULL || set_url(c, url, e) < 0) {
        client_free(c);
        return err_nomem(e);
    }
    if (token_file != NULL) {
        c->token = read_token(token_file, e);
        if (c->token == NULL) {
            client_free(c);
            return -1;
        }
    }
    *out = c;
    return 0;
}

void client_free(struct client *c)
{
    if (c == NULL)
        return;
    if (c->curl != NULL)
        curl_easy_cleanup(c->curl);
    if (c->token != NULL)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    free(c->base);
    free(c->socket);
    free(c);
}

/* ---- local.sock: who is at the other end? ------------------------------ */

static bool trusted_server(uid_t uid)
{
    struct passwd *p = getpwnam("sluice");

    return uid == 0 || uid == geteuid() || (p != NULL && p->pw_uid == uid);
}

/* The socket is remembered, because CURLINFO_ACTIVESOCKET says nothing yet when
 * the check runs. */
static curl_socket_t open_local(void *cls, curlsocktype purpose,
                                struct curl_sockaddr *address)
{
    struct client *c = cls;

    (void)purpose;
    c->local_fd = socket(address->family, address->socktype | SOCK_CLOEXEC,
                         address->protocol);
    return c->local_fd;
}

/* Connected, and nothing sent yet. */
static int check_server(void *cls, char *remote, char *local, int remote_port,
                        int local_port)
{
    struct client *c = cls;
    pid_t pid;
    uid_t uid;
    gid_t gid;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (wire_peer(c->local_fd, &pid, &uid, &gid, NULL) == 0 &&
        trusted_server(uid))
        return CURL_PREREQFUNC_OK;
    c->wrong_server = true;
    return CURL_PREREQFUNC_ABORT;
}

/* ---- receiving --------------------------------------------------------- */

/* MAXFILESIZE stops no chunked body: the cap is here. */
static size_t on_body(char *p, size_t size, size_t n, void *cls)
{
    struct exchange *x = cls;
    long status = 0;

    n *= size;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (x->out_fd > 0 && status == 200)
        return file_write_all(x->out_fd, p, n) == 0 ? n : 0;
    if (buf_add(&x->reply->body, p, n) == 0)
        return n;
    x->overflow = true;
    return 0;
}

static void keep_header(const char *line, size_t n, const char *name, char *out,
                        size_t size)
{
    size_t skip = strlen(name);

    if (n <= skip || strncasecmp(line, name, skip) != 0)
        return;
    line += skip;
    n -= skip;
    while (n > 0 && (*line == ' ' || *line == '\t')) {
        line++;
        n--;
    }
    while (n > 0 && strchr("\r\n \t", line[n - 1]) != NULL)
        n--;
    if (n >= size)
        n = size - 1;
    memcpy(out, line, n);
    out[n] = '\0';
}

static size_t on_header(char *p, size_t size, size_t n, void *cls)
{
    struct reply *r = ((struct exchange *)cls)->reply;

    n *= size;
    keep_header(p, n, "ETag:", r->etag, sizeof(r->etag));
    keep_header(p, n, "Location:", r->location, sizeof(r->location));
    keep_header(p, n, "X-Sluice-Next-Offset:", r->next_offset,
                sizeof(r->next_offset));
    keep_header(p, n, "X-Sluice-Complete:", r->complete, sizeof(r->complete));
    return n;
}

/* ---- one call ---------------------------------------------------------- */

static int add_line(struct curl_slist **list, const char *name,
                    const char *value)
{
    struct buf line;
    struct curl_slist *more;

    if (value == NULL)
        return 0;
    buf_init(&line, TOKEN_FILE_MAX * 2);
    buf_printf(&line, "%s: %s", name, value);
    more = buf_ok(&line) ? curl_slist_append(*list, buf_str(&line)) : NULL;
    buf_wipe(&line);
    if (more == NULL)
        return -1;
    *list = more;
    return 0;
}

static int make_headers(const struct client *c, const struct call *call,
                        struct curl_slist **list)
{
    struct buf bearer;
    int rc = 0;

    if (c->token != NULL) {
        buf_init(&bearer, TOKEN_FILE_MAX + 16);
        buf_printf(&bearer, "Bearer %s", c->token);
        rc = add_line(list, "Authorization", buf_str(&bearer));
        buf_wipe(&bearer);
    }
    return rc | add_line(list, "X-Sluice", "1") |
           add_line(list, "Accept",
                    call->accept != NULL ? call->accept : "application/json") |
           add_line(list, "Accept-Language", getenv("LANG")) |
           add_line(list, "Content-Type",
                    call->body != NULL ? "application/json" : NULL) |
           add_line(list, "Idempotency-Key", call->idempotency_key) |
           add_line(list, "If-None-Match", call->if_none_match) |
           add_line(list, "Expect", "");
}

static void set_options(struct client *c, const struct call *call,
                        const char *url, const char *body,
                        struct curl_slist *headers, struct exchange *x)
{
    CURL *h = c->curl;

    curl_easy_reset(h);
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(h, CURLOPT_TIMEOUT,
                     call->timeout_seconds > 0 ? call->timeout_seconds : 30L);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
    if (strcmp(call->method, "POST") == 0) {
        curl_easy_setopt(h, CURLOPT_POST, 1L);
        curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE,
                         body != NULL ? (long)strlen(body) : 0L);
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, body != NULL ? body : "");
    }
    if (c->socket != NULL) {
        curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, c->socket);
        curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_local);
        curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, c);
#if HAVE_PREREQ
        curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, check_server);
        curl_easy_setopt(h, CURLOPT_PREREQDATA, c);
#endif
    }
}

static int failed(const struct client *c, CURLcode code,
                  const struct exchange *x, struct err *e)
{
    if (c->wrong_server)
        return err_set(e, ERR_UNAUTHENTIC, "server_uid",
                       "the socket belongs to somebody who is not Sluice");
    if (x->overflow)
        return err_set(e, ERR_TOO_LARGE, "answer_too_large",
                       "the answer is larger than %d bytes", CLIENT_BODY_MAX);
    return err_set(e, ERR_UNAVAILABLE, "unreachable", "%s: %s",
                   c->socket != NULL ? c->socket : c->base,
                   curl_easy_strerror(code));
}

int client_call(struct client *c, const struct call *call, struct reply *out,
                struct err *e)
{
    struct exchange x = {.reply = out, .curl = c->curl, .out_fd = call->out_fd};
    struct curl_slist *headers = NULL;
    struct buf url;
    char *body = NULL;
    CURLcode code;
    int rc = -1;

    memset(out, 0, sizeof(*out));
    buf_init(&out->body, CLIENT_BODY_MAX);
    buf_init(&url, 16 * 1024);
    buf_printf(&url, "%s%s", c->base, call->path);
    if (call->body != NULL)
        body = json_text(call->body);
    if (!buf_ok(&url) || (call->body != NULL && body == NULL) ||
        make_headers(c, call, &headers) < 0) {
        err_nomem(e);
        goto out;
    }
    set_options(c, call, buf_str(&url), body, headers, &x);
    code = curl_easy_perform(c->curl);
    if (code != CURLE_OK) {
        failed(c, code, &x, e);
        goto out;
    }
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &out->status);
    out->json =
        json_parse(buf_str(&out->body), out->body.len, CLIENT_BODY_MAX, NULL);
    rc = 0;
out:
    if (body != NULL)
        explicit_bzero(body, strlen(body)); /* secrets pass through here */
    free(body);
    curl_slist_free_all(headers);
    buf_clear(&url);
    return rc;
}

char *client_escape(const struct client *c, const char *s)
{
    char *text = curl_easy_escape(c->curl, s, 0);
    char *copy = text == NULL ? NULL : strdup(text);

    curl_free(text);
    return copy;
}
