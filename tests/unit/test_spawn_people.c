/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The real sluice-spawnd in people mode, as root on a private copy of passwd
 * and group (a mount namespace of its own): who its processes are, what they
 * hold, and who may talk to it. Stand-ins as in test_spawn_daemon.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/tools/spawn_site.h"

#include <sched.h>
#include <sys/capability.h>
#include <sys/mount.h>

enum { SLUICE = 64001, SPAWN, WATCH, ANN = 64101, BEA };

static int self_exe, spawnd_exe;
static struct spawn_site site;
static struct spawn_client client;

static const struct {
    const char *name;
    unsigned id;
} accounts[] = {{"sp-sluice", SLUICE},
                {"sp-spawn", SPAWN},
                {"sp-watch", WATCH},
                {"sp-ann", ANN},
                {"sp-bea", BEA}};

/* A copy of file with our lines, mounted over it. */
static void overlay(const char *file, bool is_passwd)
{
    char tmp[] = "/tmp/spawn-people-XXXXXX", chunk[4096];
    int from = open(file, O_RDONLY | O_CLOEXEC), to = mkstemp(tmp);
    ssize_t n;

    if (from < 0 || to < 0)
        _exit(98);
    while ((n = read(from, chunk, sizeof(chunk))) > 0)
        (void)!write(to, chunk, (size_t)n);
    for (size_t i = 0; i < sizeof(accounts) / sizeof(accounts[0]); i++)
        (void)dprintf(to, is_passwd ? "%s:x:%u:%u::/:/bin/sh\n" : "%s:x:%u:\n",
                      accounts[i].name, accounts[i].id, accounts[i].id);
    if (fchmod(to, 0644) != 0 || mount(tmp, file, NULL, MS_BIND, NULL) != 0)
        _exit(97);
    (void)close(from);
    (void)close(to);
    (void)unlink(tmp);
}

/* As systemd would start it, but with root's whole bounding set. */
static void become_spawn(void)
{
    static const cap_value_t v[] = {CAP_SETUID, CAP_SETGID, CAP_KILL,
                                    CAP_SETPCAP};
    const gid_t group = SLUICE;
    cap_t c = cap_init();

    if (setgroups(1, &group) != 0 || setresgid(SPAWN, SPAWN, SPAWN) != 0 ||
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 ||
        setresuid(SPAWN, SPAWN, SPAWN) != 0 ||
        cap_set_flag(c, CAP_PERMITTED, 4, v, CAP_SET) != 0 ||
        cap_set_flag(c, CAP_EFFECTIVE, 4, v, CAP_SET) != 0 ||
        cap_set_flag(c, CAP_INHERITABLE, 4, v, CAP_SET) != 0 ||
        cap_set_proc(c) != 0)
        _exit(96);
    for (size_t i = 0; i < 4; i++) {
        if (cap_set_ambient(v[i], CAP_SET) != 0)
            _exit(95);
    }
    (void)cap_free(c);
}

static void own(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    char path[256];

    site_path(&site, path, sizeof(path), name);
    assert_int_equal(chown(path, uid, gid), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void open_as(uid_t uid, struct spawn_client *c)
{
    assert_int_equal(setegid(uid), 0);
    assert_int_equal(seteuid(uid), 0);
    client_open(&site, c);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(0), 0);
}

static int setup(void **state)
{
    static const char people[] =
        "{\"alice\": {\"account\": \"sp-ann\", \"roles\": [\"researcher\"],"
        " \"proof\": \"network\"},"
        " \"bob\": {\"account\": \"sp-bea\", \"roles\": [\"researcher\"],"
        " \"proof\": \"network\"},"
        " \"olga\": {\"roles\": [\"operator\"]}}";
    char conf[1024];

    (void)state;
    site_new(&site, self_exe, spawnd_exe);
    (void)snprintf(conf, sizeof(conf),
                   "version: 1\nmode: people\nstate_dir: %s\n"
                   "cluster: {name: test}\n"
                   "accounts: {sluice: sp-sluice, spawn: sp-spawn, watch: "
                   "sp-watch}\nlimits: {submit_deadline_ms: 1000, "
                   "request_deadline_ms: 1000, worker_idle_ms: 5000}\n",
                   site.dir);
    site_put(&site, "sluice.yaml", conf, 0644);
    site_put(&site, "sent", "", 0666);
    site_put(&site, "accounts.json",
             "{\"v\":1,\"accounts\":{\"sp-ann\":{\"uid\":64101,\"gid\":64101,"
             "\"groups\":[64101,64200],\"home\":\"/\",\"shell\":\"/bin/sh\"},"
             "\"sp-bea\":{\"uid\":64102,\"gid\":64102,\"groups\":[],"
             "\"home\":\"/\",\"shell\":\"/bin/sh\"}}}",
             0644);
    own("run/spawn", SPAWN, SLUICE, 0750);
    own("spawn", SPAWN, SPAWN, 0700);
    site_install(&site, people, "one", SLUICE, site.generation);
    site_switch(&site, site.generation);
    spawnd_start(&site, become_spawn);
    open_as(SLUICE, &client);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&client);
    if (site.pid != 0)
        (void)spawnd_end(&site, SIGKILL);
    if (getenv("SPAWN_TEST_KEEP") != NULL)
        (void)fprintf(stderr, "%s is kept\n", site.dir);
    else
        site_remove(&site);
    return 0;
}

static void submit_as(const char *actor, char *u)
{
    new_ulid(u);
    expect_ok(
        client_call(&client, "submit", actor, NULL, u, toy("none", "ok")));
}

static char *facts_of(const char *actor, const char *u, pid_t *pid)
{
    char *t = NULL;
    json_t *f = client_piped(&client, "log", actor, NULL, u, log_args(0), &t);

    if (pid != NULL)
        *pid = (pid_t)result_int(f, "size");
    expect_ok(f);
    return t;
}

static char *status_of(pid_t pid)
{
    char path[64], *text = calloc(1, 8192);
    int fd;

    assert_non_null(text);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)!read(fd, text, 8191);
    (void)close(fd);
    return text;
}

static void has(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        fail_msg("'%s' is not in:\n%s", word, text);
}

static void each_persons_worker_is_that_person(void **state)
{
    char u[ULID_LEN + 1], *t;

    (void)state;
    submit_as("alice", u);
    t = facts_of("alice", u, NULL);
    has(t, "Uid:\t64101\t64101\t64101\t64101\n");
    has(t, "Gid:\t64101\t64101\t64101\t64101\n");
    has(t, "Groups:\t64101 64200 \n");
    free(t);
    submit_as("bob", u);
    t = facts_of("bob", u, NULL);
    has(t, "Uid:\t64102\t64102\t64102\t64102\n");
    has(t, "Groups:\t \n");
    has(t, "CapInh:\t0000000000000000\n");
    has(t, "CapPrm:\t0000000000000000\n");
    has(t, "CapEff:\t0000000000000000\n");
    has(t, "CapBnd:\t0000000000000000\n");
    has(t, "CapAmb:\t0000000000000000\n");
    has(t, "NoNewPrivs:\t1\n");
    has(t, "pdeath 9\n");
    free(t);
    expect_error(
        client_piped(&client, "log", "alice", NULL, u, log_args(0), NULL),
        "none", "job_unknown");
}

static void the_spawner_holds_three_capabilities(void **state)
{
    char *t = status_of(site.pid);

    (void)state;
    has(t, "Uid:\t64002\t64002\t64002\t64002\n");
    has(t, "CapPrm:\t00000000000000e0\n"); /* KILL, SETGID, SETUID */
    has(t, "CapEff:\t00000000000000e0\n");
    has(t, "CapInh:\t0000000000000000\n");
    has(t, "CapBnd:\t0000000000000000\n");
    has(t, "CapAmb:\t0000000000000000\n");
    has(t, "NoNewPrivs:\t1\n");
    free(t);
}

/* Every "pid start what" line of the workers file. */
static void no_child_holds_any_capability(void **state)
{
    char u[ULID_LEN + 1], *list, *line, *save = NULL;
    int seen = 0;

    (void)state;
    submit_as("alice", u);
    (void)usleep(200000);
    list = site_get(&site, "spawn/workers");
    for (line = strtok_r(list, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        pid_t pid = (pid_t)strtol(line, NULL, 10);
        char *t;

        if (strchr(line, ' ') == NULL) /* the boot's id */
            continue;
        t = status_of(pid);
        has(t, "CapPrm:\t0000000000000000\n");
        has(t, "CapBnd:\t0000000000000000\n");
        if (strstr(line, "watch") != NULL)
            has(t, "Uid:\t64003\t64003\t64003\t64003\n");
        if (strstr(line, "verify") != NULL)
            has(t, "Uid:\t64002\t64002\t64002\t64002\n");
        seen++;
        free(t);
    }
    assert_true(seen >= 4); /* watch, verify, files, slurm */
    free(list);
}

static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 200; i++) {
        if (kill(pid, 0) != 0)
            return true;
        (void)usleep(10000);
    }
    return false;
}

static void a_stopped_worker_of_another_uid_can_be_killed(void **state)
{
    char u[ULID_LEN + 1], v[ULID_LEN + 1], *t;
    pid_t pid = 0;

    (void)state;
    submit_as("alice", u);
    t = facts_of("alice", u, &pid);
    free(t);
    assert_int_equal(kill(pid, SIGSTOP), 0); /* as alice could */
    expect_error(
        client_piped(&client, "log", "alice", NULL, u, log_args(0), NULL),
        "init", "worker_timeout");
    assert_true(is_gone(pid));
    submit_as("bob", v);
}

static void workers_die_with_the_spawner(void **state)
{
    char u[ULID_LEN + 1], *t;
    pid_t pid = 0;

    (void)state;
    submit_as("alice", u);
    t = facts_of("alice", u, &pid);
    free(t);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    (void)spawnd_end(&site, SIGKILL);
    assert_true(is_gone(pid));
}

static void only_sluiced_sends_verbs_and_only_root_admin(void **state)
{
    struct spawn_client root = {.sock = -1, .watch = -1};
    struct err e = ERR_INIT;
    char u[ULID_LEN + 1];
    json_t *f;

    (void)state;
    root.sock = wire_connect(site.sock, SOCK_SEQPACKET, &e);
    assert_true(root.sock >= 0);
    (void)snprintf(root.generation, sizeof(root.generation), "%s",
                   site.generation);
    f = client_ask(&root, json_pack("{siss}", "v", 1, "admin", "status"), -1,
                   3000);
    expect_ok(f);
    new_ulid(u);
    f = frame_make(&root, "submit", "alice", NULL, u, toy("none", "ok"));
    assert_null(client_ask(&root, f, -1, 3000));
    client_close(&root);
    f = json_pack("{siss}", "v", 1, "admin", "status");
    assert_null(client_ask(&client, f, -1, 3000));
    /* another account does not even reach it */
    assert_int_equal(setegid(BEA), 0);
    assert_int_equal(seteuid(BEA), 0);
    assert_int_equal(wire_connect(site.sock, SOCK_SEQPACKET, &e), -1);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setegid(0), 0);
    assert_int_equal(count_sent(&site, u), 0);
}

static void it_refuses_to_run_as_root_or_without_powers(void **state)
{
    char *log;

    (void)state;
    client_close(&client);
    (void)spawnd_end(&site, SIGTERM);
    spawnd_start(&site, NULL);
    assert_int_equal(WEXITSTATUS(spawnd_wait(&site, 5000)), 1);
    log = site_get(&site, "spawnd.log");
    has(log, "spawn_account");
    free(log);
}

static void become_powerless(void)
{
    if (setgroups(0, NULL) != 0 || setresgid(SPAWN, SPAWN, SPAWN) != 0 ||
        setresuid(SPAWN, SPAWN, SPAWN) != 0)
        _exit(94);
}

static void it_needs_its_three_capabilities(void **state)
{
    char *log;

    (void)state;
    client_close(&client);
    (void)spawnd_end(&site, SIGTERM);
    spawnd_start(&site, become_powerless);
    assert_int_equal(WEXITSTATUS(spawnd_wait(&site, 5000)), 1);
    log = site_get(&site, "spawnd.log");
    has(log, "caps_missing");
    free(log);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(each_persons_worker_is_that_person),
        CASE(the_spawner_holds_three_capabilities),
        CASE(no_child_holds_any_capability),
        CASE(a_stopped_worker_of_another_uid_can_be_killed),
        CASE(workers_die_with_the_spawner),
        CASE(only_sluiced_sends_verbs_and_only_root_admin),
        CASE(it_refuses_to_run_as_root_or_without_powers),
        CASE(it_needs_its_three_capabilities),
    };

    stand_in_main(argc, argv);
    if (geteuid() != 0) {
        (void)fputs("test_spawn_people needs root\n", stderr);
        return 0;
    }
    self_exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    spawnd_exe = open(SLUICE_BINARY_DIR "/sluice-spawnd", O_RDONLY | O_CLOEXEC);
    if (self_exe < 0 || spawnd_exe < 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        chdir("/") != 0) {
        (void)fputs("no spawner, or no namespace\n", stderr);
        return 1;
    }
    overlay("/etc/passwd", true);
    overlay("/etc/group", false);
    (void)umask(022);
    cmocka_set_test_filter(getenv("SPAWN_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
