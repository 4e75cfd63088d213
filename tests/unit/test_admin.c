/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice-admin's subcommands in a self-mode site, and the two helpers that the
 * spawner starts, as programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/token.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/wire.h"
#include "broker/admin/admin.h"
#include "broker/admin/diff.h"
#include "broker/admin/keys.h"
#include "broker/admin/lint.h"
#include "broker/admin/push.h"
#include "broker/generation.h"
#include "tests/unit/test_config_site.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct site site;

static int setup(void **state)
{
    (void)state;
    site_make(&site);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    site_remove(&site);
    return 0;
}

/* --- running a subcommand ------------------------------------------------ */

typedef int command_fn(struct admin *, int, char **);

/* fd goes to a file of the site until restore(). */
static int redirect(int fd, const char *name)
{
    char path[SITE_PATH_MAX];
    int file, saved = dup(fd);

    (void)snprintf(path, sizeof(path), "%s/%s", site.dir, name);
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0 && saved >= 0);
    assert_true(dup2(file, fd) >= 0);
    (void)close(file);
    return saved;
}

static void restore(int fd, int saved)
{
    (void)fflush(stdout);
    (void)fflush(stderr);
    assert_true(dup2(saved, fd) >= 0);
    (void)close(saved);
}

/* The words are separated by one blank each; "" for none. *said: its output
 * and errors, owned; may be NULL. */
static int run(command_fn *command, const char *words, char **said)
{
    struct admin a = {.config_file = site.conf};
    char copy[1024], *argv[32] = {(char[]){"sluice-admin test"}};
    char *rest = copy;
    int argc = 1, status, out, err;

    (void)snprintf(copy, sizeof(copy), "%s", words);
    while (words[0] != '\0' && rest != NULL)
        argv[argc++] = strsep(&rest, " ");
    (void)fflush(stdout);
    out = redirect(STDOUT_FILENO, "said");
    err = dup(STDERR_FILENO);
    assert_true(dup2(STDOUT_FILENO, STDERR_FILENO) >= 0);
    status = command(&a, argc, argv);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    admin_clear(&a);
    if (said != NULL)
        *said = site_read(&site, "said");
    return status;
}

static void says(command_fn *command, const char *words, int status,
                 const char *part)
{
    char *said = NULL;
    int got = run(command, words, &said);

    if (got != status || strstr(said, part) == NULL)
        fail_msg("%s: status %d, \"%s\" wanted; got %d, \"%s\"", words, status,
                 part, got, said);
    free(said);
}

static void says_not(command_fn *command, const char *words, int status,
                     const char *part)
{
    char *said = NULL;
    int got = run(command, words, &said);

    if (got != status || strstr(said, part) != NULL)
        fail_msg("%s: status %d without \"%s\"; got %d, \"%s\"", words, status,
                 part, got, said);
    free(said);
}

static void current_is(const char *want)
{
    char store[SITE_PATH_MAX], id[GENERATION_ID_LEN + 1] = "";
    struct err e = ERR_INIT;

    (void)snprintf(store, sizeof(store), "%s/store", site.dir);
    (void)generation_current(store, id, &e);
    assert_string_equal(id, want);
}

static void get_current(char *id)
{
    char store[SITE_PATH_MAX];
    struct err e = ERR_INIT;

    (void)snprintf(store, sizeof(store), "%s/store", site.dir);
    assert_int_equal(generation_current(store, id, &e), 1);
}

static void people(const char *rest)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "people:\n  alice: {account: %s, %s}\n",
                   site.account, rest);
    site_people(&site, text);
}

/* --- keys ---------------------------------------------------------------- */

static void keys_init_makes_one_key_and_no_second(void **state)
{
    char *key, *again;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    key = site_read(&site, "etc/keys/token.key");
    says(admin_keys_init, "", ADMIN_DONE, "is there");
    again = site_read(&site, "etc/keys/token.key");
    assert_string_equal(key, again);
    assert_int_equal(site_mode(&site, "etc/keys/token.key"), 0600);
    assert_int_equal(site_mode(&site, "etc/keys/tokens.json"), 0600);
    assert_int_equal(site_mode(&site, "etc/keys/public.json"), 0640);
    assert_int_equal(site_mode(&site, "etc/keys/revoked.json"), 0640);
    assert_int_equal(site_mode(&site, "etc/keys"), 0750);
    free(key);
    free(again);
}

static void a_key_that_others_can_read_is_refused(void **state)
{
    char path[SITE_PATH_MAX];

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    (void)snprintf(path, sizeof(path), "%s/etc/keys/token.key", site.dir);
    assert_int_equal(chmod(path, 0640), 0);
    says(admin_keys_init, "", ADMIN_REFUSED, "[config_mode]");
    says(admin_token_issue, "--person alice --out -", ADMIN_REFUSED,
         "[config_mode]");
}

static void a_key_without_its_public_half_is_said(void **state)
{
    char path[SITE_PATH_MAX];

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    site_write(&site, "etc/keys/public.json", "{}");
    (void)snprintf(path, sizeof(path), "%s/etc/keys/public.json", site.dir);
    assert_int_equal(chmod(path, 0640), 0);
    says(admin_keys_init, "", ADMIN_REFUSED, "[admin_key]");
}

/* --- tokens -------------------------------------------------------------- */

static struct token_keys *public_keys(void)
{
    char *text = site_read(&site, "etc/keys/public.json");
    struct err e = ERR_INIT;
    struct token_keys *k = NULL;
    json_t *tree = json_parse(text, strlen(text), 65536, &e);

    assert_int_equal(token_keys_load(tree, &k, &e), 0);
    json_decref(tree);
    free(text);
    return k;
}

static void check_issued(const char *file, const char *code,
                         struct token_claims *out)
{
    char *text = site_read(&site, file), path[SITE_PATH_MAX];
    struct token_keys *k = public_keys();
    struct token_revoked *r;
    struct err e = ERR_INIT;
    int rc;

    (void)snprintf(path, sizeof(path), "%s/etc/keys/revoked.json", site.dir);
    r = token_revoked_new(path);
    text[strcspn(text, "\n")] = '\0';
    rc = token_verify(k, r, "test", text, strlen(text), clock_now(), out, &e);
    assert_string_equal(e.code, code);
    assert_int_equal(rc, code[0] == '\0' ? 0 : -1);
    token_revoked_free(r);
    token_keys_free(k);
    free(text);
}

static void a_token_is_issued_listed_and_revoked(void **state)
{
    char words[512], *text;
    struct token_claims c;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    (void)snprintf(words, sizeof(words),
                   "--person alice --role researcher --workflow gpu-* --gpus 4 "
                   "--expires 2h --out %s/alice.token",
                   site.dir);
    says(admin_token_issue, words, ADMIN_DONE, "for alice until");
    assert_int_equal(site_mode(&site, "alice.token"), 0600);
    check_issued("alice.token", "", &c);
    assert_string_equal(c.person, "alice");
    assert_int_equal(c.roles, ROLE_RESEARCHER);
    assert_int_equal(c.gpus_max, 4);
    assert_int_equal(c.expires_at - c.issued_at, 7200);
    says(admin_token_list, "", ADMIN_DONE, "valid");
    says(admin_token_list, "--json", ADMIN_DONE, c.id);
    /* The list of what was issued is no way to a token. */
    text = site_read(&site, "etc/keys/tokens.json");
    assert_null(strstr(text, "eyJ"));
    free(text);
    says(admin_token_revoke, c.id, ADMIN_DONE, "revoked");
    token_claims_clear(&c);
    check_issued("alice.token", "token_revoked", &c);
    says(admin_token_list, "", ADMIN_DONE, "revoked");
    assert_int_equal(site_mode(&site, "etc/keys/revoked.json"), 0640);
}

static void a_token_can_only_narrow_what_the_map_gives(void **state)
{
    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_token_issue, "--person mallory --out -", ADMIN_REFUSED,
         "[person_unknown]");
    says(admin_token_issue, "--person alice --role admin --out -",
         ADMIN_REFUSED, "[person_role]");
    says(admin_token_issue, "--person alice --role king --out -", ADMIN_REFUSED,
         "[person_role]");
    says(admin_token_issue, "--person alice --expires 401d --out -",
         ADMIN_REFUSED, "[token_expires]");
    says(admin_token_issue, "--person alice --expires 30 --out -",
         ADMIN_REFUSED, "[token_expires]");
    says(admin_token_issue, "--person alice --gpus 0 --out -", ADMIN_REFUSED,
         "[token_gpus]");
    says(admin_token_issue, "--person alice --workflow a/b --out -",
         ADMIN_REFUSED, "[token_claims]");
    says(admin_token_revoke, "tok_unknown", ADMIN_REFUSED, "[token_unknown]");
    says(admin_token_revoke, "", ADMIN_USAGE, "usage");
}

/* --- account add --------------------------------------------------------- */

static void an_account_folder_is_made_once(void **state)
{
    char name[128];

    (void)state;
    says(admin_account_add, site.account, ADMIN_DONE, "made");
    (void)snprintf(name, sizeof(name), "jobs/%s", site.account);
    assert_int_equal(site_mode(&site, name), 0700);
    says(admin_account_add, site.account, ADMIN_DONE, "is there");
}

static void an_account_folder_of_another_mode_or_kind_is_refused(void **state)
{
    char path[SITE_PATH_MAX];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/jobs/%s", site.dir, site.account);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
    says(admin_account_add, site.account, ADMIN_REFUSED, "[account_folder]");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    says(admin_account_add, site.account, ADMIN_REFUSED, "[account_folder]");
    assert_int_equal(unlink(path), 0);
}

static void without_its_marker_the_jobs_root_is_not_touched(void **state)
{
    char path[SITE_PATH_MAX];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/jobs/.sluice-jobs-root", site.dir);
    assert_int_equal(unlink(path), 0);
    says(admin_account_add, site.account, ADMIN_REFUSED, "[account_marker]");
    (void)snprintf(path, sizeof(path), "%s/jobs", site.dir);
    assert_int_equal(chmod(path, 0700), 0);
    says(admin_account_add, site.account, ADMIN_REFUSED, "[account_root]");
    assert_int_equal(chmod(path, 0777), 0);
    says(admin_account_add, site.account, ADMIN_REFUSED, "[config_mode]");
}

static void other_accounts_are_refused(void **state)
{
    (void)state;
    says(admin_account_add, "no-such-account", ADMIN_REFUSED,
         "[account_unknown]");
    says(admin_account_add, "nobody", ADMIN_REFUSED, "[account_self]");
    says(admin_account_add, "..", ADMIN_REFUSED, "[account_unknown]");
}

/* --- check --------------------------------------------------------------- */

static void a_clean_site_has_no_findings(void **state)
{
    char *said = NULL;

    (void)state;
    assert_int_equal(run(admin_check, "", &said), ADMIN_DONE);
    assert_string_equal(said, "");
    free(said);
}

static void each_bad_entry_is_found(void **state)
{
    (void)state;
    site_write(&site, "share/sluice/workflows/bad.yaml",
               "version: 1\n"
               "workflows:\n"
               "  one:\n"
               "    template: gpu-canary.sh\n"
               "    colour: blue\n"
               "  two:\n"
               "    template: gpu-canary.sh\n"
               "    size: 3\n");
    says(admin_check, "", ADMIN_REFUSED, "bad.yaml:5: workflow_unknown_key:");
    says(admin_check, "", ADMIN_REFUSED, "bad.yaml:8: workflow_unknown_key:");
}

static void a_workflow_without_a_memory_limit_is_found(void **state)
{
    (void)state;
    site_write(&site, "share/sluice/workflows/greedy.yaml",
               "version: 1\n"
               "workflows:\n"
               "  greedy:\n"
               "    template: gpu-canary.sh\n"
               "    resources: {partition: v100, nodes: 1, time: \"00:10:00\"}"
               "\n");
    says(admin_check, "", ADMIN_REFUSED, "greedy.yaml:3: workflow_memory:");
}

static void what_is_later_is_refused_by_name(void **state)
{
    char *good = site_read(&site, "share/sluice/workflows/gpu-canary.yaml");
    char *text = NULL;

    (void)state;
    assert_true(asprintf(&text, "%s    retry: {on: infra, max: 1}\n", good) >
                0);
    site_write(&site, "share/sluice/workflows/gpu-canary.yaml", text);
    says(admin_check, "", ADMIN_REFUSED, "workflow_later: ");
    says(admin_check, "", ADMIN_REFUSED, "retry");
    free(good);
    free(text);
}

/* A bash that can't be asked doesn't make a template clean. */
static void a_template_without_a_verdict_is_a_finding(void **state)
{
    char file[256], said[512] = "";
    struct rlimit before, r;
    struct lint l = {fmemopen(said, sizeof said, "w"), 0};
    int low = dup(STDERR_FILENO);

    (void)state;
    if (access("/bin/bash", X_OK) != 0)
        skip();
    (void)close(low);
    (void)snprintf(file, sizeof file, "%s/share/sluice/templates/gpu-canary.sh",
                   site.dir);
    (void)getrlimit(RLIMIT_NOFILE, &before);
    r = before;
    r.rlim_cur = (rlim_t)low + 2; /* its folder and itself: no pipe */
    (void)setrlimit(RLIMIT_NOFILE, &r);
    lint_template(&l, file);
    (void)setrlimit(RLIMIT_NOFILE, &before);
    (void)fclose(l.to);
    assert_int_equal(l.findings, 1);
    assert_non_null(strstr(said, "template_syntax: /bin/bash -n gave no"));
}

static void templates_must_parse_and_exist(void **state)
{
    char path[SITE_PATH_MAX];

    (void)state;
    site_write(&site, "share/sluice/templates/gpu-canary.sh",
               "echo\nif true; then\n");
    says(admin_check, "", ADMIN_REFUSED, "gpu-canary.sh:3: template_syntax:");
    (void)snprintf(path, sizeof(path),
                   "%s/share/sluice/templates/"
                   "gpu-canary.sh",
                   site.dir);
    assert_int_equal(unlink(path), 0);
    says(admin_check, "", ADMIN_REFUSED, "template_missing");
}

static void two_files_with_one_workflow_are_found(void **state)
{
    char *good = site_read(&site, "share/sluice/workflows/gpu-canary.yaml");

    (void)state;
    site_write(&site, "share/sluice/workflows/copy.yaml", good);
    says(admin_check, "", ADMIN_REFUSED, "workflow_duplicate");
    free(good);
}

static void people_and_accounts_are_checked(void **state)
{
    (void)state;
    site_people(&site, "people:\n  alice: {account: no-such, roles: "
                       "[researcher]}\n");
    says(admin_check, "", ADMIN_REFUSED, "people_account: alice");
    site_people(&site, "people: {}\n");
    says(admin_check, "", ADMIN_REFUSED, "people_self");
    site_people(&site, "");
    says(admin_check, "", ADMIN_REFUSED, "people_missing");
    site_people(&site, "colour: blue\n");
    says(admin_check, "", ADMIN_REFUSED, "sluice.yaml:5: config_unknown_key");
}

static void files_can_be_checked_without_a_configuration(void **state)
{
    char words[SITE_PATH_MAX * 2];

    (void)state;
    (void)snprintf(words, sizeof(words),
                   "%s/share/sluice/workflows/gpu-canary.yaml "
                   "%s/share/sluice/templates/prelude.sh",
                   site.dir, site.dir);
    site_write(&site, "sluice.yaml", "nonsense");
    says_not(admin_check, words, ADMIN_DONE, ":");
    says(admin_check, "/no/such.yaml", ADMIN_REFUSED, "file_open");
    says(admin_check, "/etc/passwd", ADMIN_REFUSED, "check_kind");
}

/* --- apply --------------------------------------------------------------- */

static void apply_shows_who_gains_and_loses_what(void **state)
{
    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_apply, "--yes", ADMIN_DONE, "+ alice may run gpu-canary");
    says(admin_apply, "--yes", ADMIN_DONE, "nothing changes");
    people("roles: [researcher, auditor], groups: [media]");
    says(admin_apply, "--yes", ADMIN_DONE, "- alice may run gpu-canary");
    people("roles: [researcher], groups: [media, canary], gpus: 8");
    says(admin_apply, "--yes", ADMIN_DONE, "- person alice: role auditor");
    people("roles: [researcher], groups: [media, canary]");
    says(admin_apply, "--yes", ADMIN_DONE, "gpus 0, was 8");
    site_write(&site, "share/sluice/templates/media-probe.sh", "true\n");
    says(admin_apply, "--yes", ADMIN_DONE,
         "~ template media-probe.sh: changed");
    says(admin_generation_list, "", ADMIN_DONE, "retired");
}

static void without_yes_and_a_terminal_nothing_is_applied(void **state)
{
    int in;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    site_write(&site, "none", "");
    in = redirect(STDIN_FILENO, "none");
    says(admin_apply, "", ADMIN_REFUSED, "[apply_not_confirmed]");
    restore(STDIN_FILENO, in);
    current_is("");
}

static void a_finding_applies_nothing(void **state)
{
    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    site_write(&site, "share/sluice/templates/gpu-canary.sh", "if\n");
    says(admin_apply, "--yes", ADMIN_REFUSED, "nothing applied");
    current_is("");
}

/* A daemon that greets, and says yes or no to each verb. */
struct fake {
    pthread_t thread;
    int listener, stop;
    const char *refuses; /* a verb, or NULL */
    char asked[256];     /* "load:<12 of id> switch:… " */
    char path[SITE_PATH_MAX];
};

static void fake_answer(struct fake *f, int fd)
{
    struct err e = ERR_INIT, why = ERR_INIT;
    struct wire_msg m;
    const char *verb;
    json_t *hello = json_pack("{siss}", "v", 1, "event", "hello"), *answer;
    bool ok;
    size_t n = strlen(f->asked);

    (void)wire_send(fd, hello, NULL, 0, 1000, &e);
    json_decref(hello);
    wire_msg_init(&m);
    if (wire_recv(fd, &m, 1000, &e) == 1) {
        verb = json_string_value(json_object_get(m.body, "admin"));
        (void)snprintf(f->asked + n, sizeof(f->asked) - n, "%s:%.12s ", verb,
                       json_string_value(json_object_get(m.body, "id")));
        ok = f->refuses == NULL || strcmp(verb, f->refuses) != 0;
        answer = json_pack("{sisb}", "v", 1, "ok", ok);
        err_set(&why, ERR_CONFIG, "fake_no", "no");
        if (!ok)
            (void)wire_err_put(answer, "error", &why);
        (void)wire_send(fd, answer, NULL, 0, 1000, &e);
        json_decref(answer);
    }
    wire_msg_clear(&m);
}

static void *fake_run(void *arg)
{
    struct fake *f = arg;
    int fd;

    while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
        fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            (void)usleep(2000);
            continue;
        }
        fake_answer(f, fd);
        (void)close(fd);
    }
    return NULL;
}

static void fake_start(struct fake *f, const char *name, const char *refuses)
{
    struct err e = ERR_INIT;

    memset(f, 0, sizeof(*f));
    f->refuses = refuses;
    (void)snprintf(f->path, sizeof(f->path), "%s/%s", site.dir, name);
    f->listener = wire_listen(f->path, SOCK_SEQPACKET, 0600, &e);
    assert_true(f->listener >= 0);
    assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

static void fake_stop(struct fake *f)
{
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    (void)close(f->listener);
    (void)unlink(f->path);
}

static void both_daemons_load_before_either_switches(void **state)
{
    char id[GENERATION_ID_LEN + 1], want[128];
    struct fake spawnd, sluiced;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    fake_start(&spawnd, "run/spawn/spawn.sock", NULL);
    fake_start(&sluiced, "run/sluiced/admin.sock", NULL);
    says(admin_apply, "--yes", ADMIN_DONE, "sluiced: switch done");
    fake_stop(&spawnd);
    fake_stop(&sluiced);
    get_current(id);
    (void)snprintf(want, sizeof(want), "load:%.12s switch:%.12s ", id, id);
    assert_string_equal(spawnd.asked, want);
    assert_string_equal(sluiced.asked, want);
}

static void if_one_daemon_refuses_to_load_nothing_moves(void **state)
{
    char id[GENERATION_ID_LEN + 1];
    struct fake spawnd, sluiced;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_apply, "--yes", ADMIN_DONE, "(not running)");
    get_current(id);
    people("roles: [researcher], groups: [media]");
    fake_start(&spawnd, "run/spawn/spawn.sock", NULL);
    fake_start(&sluiced, "run/sluiced/admin.sock", "load");
    says(admin_apply, "--yes", ADMIN_REFUSED, "sluiced did not load: no");
    fake_stop(&spawnd);
    fake_stop(&sluiced);
    current_is(id);
    assert_null(strstr(spawnd.asked, "switch"));
    assert_null(strstr(sluiced.asked, "switch"));
}

static void if_one_daemon_refuses_to_switch_all_go_back(void **state)
{
    char id[GENERATION_ID_LEN + 1], back[64];
    struct fake spawnd, sluiced;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_apply, "--yes", ADMIN_DONE, "(not running)");
    get_current(id);
    people("roles: [researcher], groups: [media]");
    fake_start(&spawnd, "run/spawn/spawn.sock", NULL);
    fake_start(&sluiced, "run/sluiced/admin.sock", "switch");
    says(admin_apply, "--yes", ADMIN_REFUSED, "[fake_no]");
    fake_stop(&spawnd);
    fake_stop(&sluiced);
    current_is(id);
    (void)snprintf(back, sizeof(back), "load:%.12s switch:%.12s ", id, id);
    assert_non_null(strstr(spawnd.asked, back));
}

/* --- the spawner's helpers ----------------------------------------------- */

static pid_t start(const char *program, const char *id, int in, int out)
{
    char path[SITE_PATH_MAX];
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)snprintf(path, sizeof(path), "%s/%s", SLUICE_BINARY_DIR, program);
    if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0)
        (void)execl(path, program, "--config", site.conf, id, (char *)NULL);
    _exit(99);
}

static int wait_for(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The answer of sluice-verify to one token. Owned. */
static json_t *ask(int fd, const char *token)
{
    json_t *frame = json_pack("{siss ss}", "v", 1, "id", "7", "token", token);
    struct err e = ERR_INIT;
    struct wire_msg m;
    json_t *body;

    assert_int_equal(wire_send(fd, frame, NULL, 0, 1000, &e), 0);
    json_decref(frame);
    wire_msg_init(&m);
    assert_int_equal(wire_recv(fd, &m, 20000, &e), 1);
    body = json_incref(m.body);
    wire_msg_clear(&m);
    assert_string_equal(json_string_value(json_object_get(body, "id")), "7");
    return body;
}

static const char *refusal(const json_t *answer)
{
    assert_false(json_is_true(json_object_get(answer, "ok")));
    return json_string_value(
        json_object_get(json_object_get(answer, "error"), "code"));
}

static void verify_answers_and_sees_a_revocation_at_once(void **state)
{
    char id[GENERATION_ID_LEN + 1], words[SITE_PATH_MAX], *token;
    struct err e = ERR_INIT;
    int sv[2];
    json_t *a;
    pid_t pid;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_apply, "--yes", ADMIN_DONE, "current is");
    get_current(id);
    (void)snprintf(words, sizeof(words), "--person alice --out %s/t", site.dir);
    says(admin_token_issue, words, ADMIN_DONE, "alice");
    token = site_read(&site, "t");
    token[strcspn(token, "\n")] = '\0';
    assert_int_equal(wire_pair(sv, &e), 0);
    pid = start("sluice-verify", id, sv[1], sv[1]);
    (void)close(sv[1]);
    a = ask(sv[0], token);
    assert_true(json_is_true(json_object_get(a, "ok")));
    assert_string_equal(json_string_value(json_object_get(a, "person")),
                        "alice");
    says(admin_token_revoke, json_string_value(json_object_get(a, "token_id")),
         ADMIN_DONE, "revoked");
    json_decref(a);
    a = ask(sv[0], token);
    assert_string_equal(refusal(a), "token_revoked");
    json_decref(a);
    a = ask(sv[0], "a.b.c");
    assert_string_equal(refusal(a), "token_malformed");
    json_decref(a);
    (void)close(sv[0]); /* it ends with its peer */
    assert_int_equal(wait_for(pid), 0);
    free(token);
}

static void resolve_tells_the_one_account_of_self_mode(void **state)
{
    char id[GENERATION_ID_LEN + 1], text[4096] = "";
    json_t *tree, *account;
    struct err e = ERR_INIT;
    int p[2], err;
    ssize_t n;
    pid_t pid;

    (void)state;
    says(admin_keys_init, "", ADMIN_DONE, "made");
    says(admin_apply, "--yes", ADMIN_DONE, "current is");
    get_current(id);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    err = redirect(STDERR_FILENO, "log");
    pid = start("sluice-resolve", id, STDIN_FILENO, p[1]);
    (void)close(p[1]);
    n = read(p[0], text, sizeof(text) - 1);
    restore(STDERR_FILENO, err);
    assert_int_equal(wait_for(pid), 0);
    assert_true(n > 0);
    tree = json_parse(text, (size_t)n, sizeof(text), &e);
    account = json_object_get(json_object_get(tree, "accounts"), site.account);
    if (geteuid() == 0)
        assert_string_equal(
            json_string_value(json_object_get(account, "error")),
            "account_uid");
    else
        assert_int_equal(json_integer_value(json_object_get(account, "uid")),
                         geteuid());
    json_decref(tree);
    (void)close(p[0]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(keys_init_makes_one_key_and_no_second),
        T(a_key_that_others_can_read_is_refused),
        T(a_key_without_its_public_half_is_said),
        T(a_token_is_issued_listed_and_revoked),
        T(a_token_can_only_narrow_what_the_map_gives),
        T(an_account_folder_is_made_once),
        T(an_account_folder_of_another_mode_or_kind_is_refused),
        T(without_its_marker_the_jobs_root_is_not_touched),
        T(other_accounts_are_refused),
        T(a_clean_site_has_no_findings),
        T(each_bad_entry_is_found),
        T(a_workflow_without_a_memory_limit_is_found),
        T(what_is_later_is_refused_by_name),
        T(a_template_without_a_verdict_is_a_finding),
        T(templates_must_parse_and_exist),
        T(two_files_with_one_workflow_are_found),
        T(people_and_accounts_are_checked),
        T(files_can_be_checked_without_a_configuration),
        T(apply_shows_who_gains_and_loses_what),
        T(without_yes_and_a_terminal_nothing_is_applied),
        T(a_finding_applies_nothing),
        T(both_daemons_load_before_either_switches),
        T(if_one_daemon_refuses_to_load_nothing_moves),
        T(if_one_daemon_refuses_to_switch_all_go_back),
        T(verify_answers_and_sees_a_revocation_at_once),
        T(resolve_tells_the_one_account_of_self_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
