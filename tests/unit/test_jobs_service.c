/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/test_jobs_lab.h"

#include <sys/un.h>

static struct lab lab;

static int setup(void **state)
{
    (void)state;
    lab_make(&lab);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lab_remove(&lab);
    return 0;
}

/* One question to the admin socket. Owned answer. */
static json_t *admin(const char *verb, const char *id)
{
    struct config_paths paths;
    struct wire_msg m;
    json_t *ask =
        json_pack("{s:i, s:s, s:s?}", "v", 1, "admin", verb, "id", id);
    json_t *answer;
    int fd;

    must(config_paths(&lab.config, &paths, e));
    fd = wire_connect(paths.admin_sock, SOCK_SEQPACKET, NULL);
    assert_true(fd >= 0);
    must(wire_send(fd, ask, NULL, 0, 1000, e));
    json_decref(ask);
    wire_msg_init(&m);
    assert_int_equal(wire_recv(fd, &m, 5000, NULL), 1);
    answer = json_incref(m.body);
    wire_msg_clear(&m);
    (void)close(fd);
    return answer;
}

static void admin_must(const char *verb, const char *id, bool ok)
{
    json_t *o = admin(verb, id);

    assert_int_equal(json_is_true(json_object_get(o, "ok")), ok);
    json_decref(o);
}

static void connect_to(int fd, const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
}

static int64_t cpu_ms(void)
{
    struct rusage u;

    (void)getrusage(RUSAGE_SELF, &u);
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* A connection that can't be taken stays in the queue; nobody spins on it. */
static void without_descriptors_the_admin_socket_waits(void **state)
{
    struct config_paths paths;
    struct rlimit before, none;
    int64_t used;
    int fd;

    (void)state;
    must(config_paths(&lab.config, &paths, e));
    (void)getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    none.rlim_cur = (rlim_t)fd; /* the lowest free one was taken */
    (void)setrlimit(RLIMIT_NOFILE, &none);
    connect_to(fd, paths.admin_sock);
    used = cpu_ms();
    (void)usleep(600000);
    used = cpu_ms() - used;
    (void)setrlimit(RLIMIT_NOFILE, &before);
    (void)close(fd);
    assert_true(used < 300);
    admin_must("status", NULL, true); /* and it goes on */
}

/* A second generation of the same store. Owned id. */
static void another_generation(char *id)
{
    char store[128], workflows[128], templates[128];
    json_t *people =
        json_pack("{s{s:s, s:[s], s:[s]}}", "carol", "account",
                  lab.site.account, "roles", "researcher", "groups", "canary");
    json_t *keys = json_object();

    (void)snprintf(store, sizeof store, "%s/store", lab.site.dir);
    (void)snprintf(workflows, sizeof workflows, "%s/share/sluice/workflows",
                   lab.site.dir);
    (void)snprintf(templates, sizeof templates, "%s/share/sluice/templates",
                   lab.site.dir);
    must(generation_install(store, workflows, templates, people, keys,
                            getegid(), id, e));
    json_decref(people);
    json_decref(keys);
}

static void root_loads_then_switches_a_generation(void **state)
{
    char id[GENERATION_ID_LEN + 1];
    struct service_status st;
    json_t *o;

    (void)state;
    another_generation(id);
    admin_must("load", id, true);
    service_status(lab.service, &st);
    assert_string_equal(st.generation, lab.generation); /* not yet */
    admin_must("switch", id, true);
    service_status(lab.service, &st);
    assert_string_equal(st.generation, id);
    o = admin("status", NULL);
    assert_string_equal(lab_str(o, "generation"), id);
    assert_true(json_is_true(json_object_get(o, "spawner")));
    json_decref(o);
}

static void what_does_not_load_moves_nothing(void **state)
{
    static const char bad[] = "00000000000000000000000000000000"
                              "00000000000000000000000000000000";
    struct service_status st;

    (void)state;
    admin_must("load", bad, false);
    admin_must("switch", bad, false);
    admin_must("load", NULL, false);
    admin_must("rm", bad, false);
    service_status(lab.service, &st);
    assert_string_equal(st.generation, lab.generation);
}

/* A request keeps the generation that it was identified with. */
static void a_switch_leaves_requests_under_way_alone(void **state)
{
    char id[GENERATION_ID_LEN + 1];

    (void)state;
    another_generation(id);
    must(service_switch(lab.service, id, e));
    assert_string_equal(lab.alice.generation->id, lab.generation);
    assert_string_equal(lab.alice.person_entry->name, "alice");
    assert_non_null(
        allowlist_find(lab.alice.generation->allowlist, "gpu-canary"));
}

static char *token_for(const char *person, unsigned roles, int64_t expires)
{
    struct token_claims c = {.roles = roles,
                             .gpus_max = 4,
                             .issued_at = expires - 1000,
                             .expires_at = expires};
    char *text;

    (void)snprintf(c.id, sizeof c.id, "id-%s", person);
    (void)snprintf(c.person, sizeof c.person, "%s", person);
    text = token_issue(lab.key, "k1", lab.config.cluster.name, &c, NULL);
    assert_non_null(text);
    return text;
}

static void token_refused(const char *person, int64_t expires, const char *code)
{
    char *text = token_for(person, 0, expires);
    struct identity who;
    struct err e = ERR_INIT;

    assert_int_equal(
        identity_by_token(lab.service, text, strlen(text), "x", true, &who, &e),
        -1);
    assert_int_equal(e.class, ERR_UNAUTHENTIC);
    assert_string_equal(e.code, code);
    free(text);
}

static void a_token_gives_the_person_of_the_map(void **state)
{
    char *text =
        token_for("alice", ROLE_RESEARCHER | ROLE_ADMIN, clock_now() + 100);
    struct identity who;

    (void)state;
    must(
        identity_by_token(lab.service, text, strlen(text), "x", true, &who, e));
    assert_string_equal(who.person, "alice");
    assert_int_equal(who.principal, lab.alice.principal);
    assert_int_equal(who.roles, ROLE_RESEARCHER); /* narrowed, never widened */
    assert_int_equal(who.gpus_max, 4);
    assert_string_equal(who.token, text);
    assert_int_equal(who.proof, PROOF_TOKEN);
    identity_clear(&who);
    free(text);
    token_refused("nobody", clock_now() + 100, "person_unknown");
    token_refused("alice", clock_now() - 100, "token_expired");
}

/* However she proves who she is: one principal, the same jobs. */
static void a_uid_is_the_same_principal_with_less(void **state)
{
    struct identity who;
    struct err bad = ERR_INIT;

    (void)state;
    for (int i = 0; i < 2; i++) { /* NSS, then memory */
        must(identity_by_uid(lab.service, geteuid(), true, &who, e));
        assert_int_equal(who.principal, lab.alice.principal);
        assert_int_equal(who.proof, PROOF_NETWORK);
        assert_int_equal(who.roles, ROLE_RESEARCHER);
        assert_null(who.token);
        identity_clear(&who);
    }
    assert_int_equal(
        identity_by_uid(lab.service, 3999999999u, true, &who, &bad), -1);
    assert_string_equal(bad.code, "person_unknown");
}

/* NSS may hang and a commit waits for the disk: not on the HTTP thread. */
static void who_is_new_here_is_identified_where_one_may_wait(void **state)
{
    char *text = token_for("otto", ROLE_OPERATOR, clock_now() + 100);
    struct identity who;

    (void)state;
    for (int wait = 0; wait < 2; wait++) {
        int want = wait ? 0 : IDENTITY_LATER;
        assert_int_equal(identity_by_token(lab.service, text, strlen(text), "x",
                                           wait, &who, NULL),
                         want);
        identity_clear(&who);
        assert_int_equal(
            identity_by_uid(lab.service, geteuid(), wait, &who, NULL), want);
        identity_clear(&who);
    }
    must(identity_by_token(lab.service, text, strlen(text), "x", false, &who,
                           e));
    assert_string_equal(who.person, "otto");
    identity_clear(&who);
    must(identity_by_uid(lab.service, geteuid(), false, &who, e));
    assert_string_equal(who.person, "alice");
    identity_clear(&who);
    free(text);
}

static void a_second_writer_is_refused(void **state)
{
    struct service *second = NULL;
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(service_new(&lab.config, &second, &e), -1);
    assert_string_equal(e.code, "db_in_use");
}

static void refusals_are_written_at_the_stop(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        service_refused(lab.service, "10.0.0.9", "token_missing");
    lab_stop_service(&lab);
    lab_start_service(&lab);
    assert_int_equal(lab_int(&lab, "SELECT COUNT(*) FROM audit WHERE kind ="
                                   " 'refused' AND code = 'token_missing'"),
                     1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(root_loads_then_switches_a_generation),
        T(what_does_not_load_moves_nothing),
        T(without_descriptors_the_admin_socket_waits),
        T(a_switch_leaves_requests_under_way_alone),
        T(a_token_gives_the_person_of_the_map),
        T(a_uid_is_the_same_principal_with_less),
        T(who_is_new_here_is_identified_where_one_may_wait),
        T(a_second_writer_is_refused),
        T(refusals_are_written_at_the_stop)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
