/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/config.h"
#include "tests/unit/test_config_site.h"

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

static void put(const char *text)
{
    site_write(&site, "sluice.yaml", text);
}

static void refused(const char *text, const char *code, const char *place)
{
    struct err e = ERR_INIT;
    struct config c;

    put(text);
    if (config_load(site.conf, &c, &e) == 0)
        fail_msg("taken: %s", text);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s: %s (%s), not %s", text, e.code, e.text, code);
    if (place != NULL && strstr(e.text, place) == NULL)
        fail_msg("%s does not name %s", e.text, place);
    assert_null(c.file);
    assert_null(c.mode);
}

static void what_is_not_named_lies_below_state_dir(void **state)
{
    struct err e = ERR_INIT;
    struct config c;
    struct config_paths p;

    (void)state;
    put("version: 1\nmode: self\nstate_dir: /srv/sluice\n"
        "cluster: {name: c1}\n");
    assert_int_equal(config_load(site.conf, &c, &e), 0);
    assert_true(c.self_mode);
    assert_string_equal(c.paths.db, "/srv/sluice/db/sluice.db");
    assert_string_equal(c.cluster.slurm_conf, "/srv/sluice/etc/slurm.conf");
    assert_string_equal(c.listen.local, "/srv/sluice/run/local.sock");
    assert_null(c.listen.loopback);
    assert_string_equal(c.paths.libexec, "/srv/sluice/libexec/sluice");
    assert_string_equal(c.jobs.root, "/srv/sluice/jobs");
    assert_string_equal(c.jobs.kind, "directory");
    assert_int_equal(c.limits.submit_deadline_ms, 14000);
    assert_int_equal(c.limits.body_bytes, 49152);
    assert_int_equal(c.accounts.min_uid, 1000);
    assert_int_equal(config_paths(&c, &p, &e), 0);
    assert_string_equal(p.spawn_sock, "/srv/sluice/run/spawn/spawn.sock");
    assert_string_equal(p.revoked, "/srv/sluice/etc/keys/revoked.json");
    config_clear(&c);
    config_clear(&c);
}

static void every_section_is_read(void **state)
{
    struct err e = ERR_INIT;
    struct config c;

    (void)state;
    put("version: 1\nmode: self\nstate_dir: /s\n"
        "cluster: {name: c1, slurm_conf: /e/slurm.conf}\n"
        "accounts: {sluice: a, spawn: b, watch: w, min_uid: 500}\n"
        "listen: {loopback: \"127.0.0.1:9\", local: /s/l}\n"
        "paths: {db: /s/d, store: /s/st, keys: /k}\n"
        "jobs: {root: /j, kind: \"mount:nfs4:srv:/x\", marker: m}\n"
        "limits: {poll_ms: 2000, worker_requests: 7}\n"
        "people: {}\n");
    assert_int_equal(config_load(site.conf, &c, &e), 0);
    assert_string_equal(c.cluster.slurm_conf, "/e/slurm.conf");
    assert_string_equal(c.accounts.watch, "w");
    assert_int_equal(c.accounts.min_uid, 500);
    assert_string_equal(c.listen.loopback, "127.0.0.1:9");
    assert_string_equal(c.paths.keys, "/k");
    assert_string_equal(c.jobs.kind, "mount:nfs4:srv:/x");
    assert_int_equal(c.limits.poll_ms, 2000);
    assert_int_equal(c.limits.worker_requests, 7);
    config_clear(&c);
}

#define HEAD "version: 1\nmode: self\nstate_dir: /s\ncluster: {name: c}\n"

static void an_unknown_key_stops_the_start(void **state)
{
    (void)state;
    refused(HEAD "tailnet: {}\n", "config_unknown_key", "tailnet");
    refused(HEAD "paths: {dbs: /x}\n", "config_unknown_key", "dbs");
    refused(HEAD "limits: {submit_deadline: 1}\n", "config_unknown_key",
            "sluice.yaml:5");
}

static void wrong_values_are_refused_with_their_line(void **state)
{
    (void)state;
    refused("mode: self\ncluster: {name: c}\n", "config_version", NULL);
    refused("version: 2\nmode: self\ncluster: {name: c}\n", "config_version",
            "sluice.yaml:1");
    refused("version: 1\nmode: self\n", "config_missing", NULL);
    refused("version: 1\nmode: self\ncluster: {name: \"a b\"}\n",
            "config_cluster", "sluice.yaml:3");
    refused(HEAD "listen: {loopback: \"0.0.0.0:8080\"}\n", "config_loopback",
            "sluice.yaml:5");
    refused(HEAD "listen: {loopback: \"127.0.0.1:0\"}\n", "config_loopback",
            NULL);
    refused(HEAD "listen: {loopback: \"127.0.0.1:99999\"}\n", "config_loopback",
            NULL);
    refused(HEAD "listen: []\n", "config_type", NULL);
    refused(HEAD "paths: {db: db/sluice.db}\n", "config_path", "/paths/db");
    refused(HEAD "paths: {db: /s/../db}\n", "config_path", NULL);
    refused(HEAD "paths: {db: /s//db}\n", "config_path", NULL);
    refused(HEAD "paths: {db: /s/db/}\n", "config_path", NULL);
    refused(HEAD "jobs: {kind: nfs}\n", "config_jobs_kind", NULL);
    refused(HEAD "jobs: {kind: \"mount:nfs\"}\n", "config_jobs_kind", NULL);
    refused(HEAD "jobs: {marker: ../x}\n", "config_marker", NULL);
    refused(HEAD "limits: {submit_deadline_ms: 15000}\n", "config_range", NULL);
    refused(HEAD "limits: {poll_ms: \"x\"}\n", "config_type", NULL);
    refused("[]\n", "config_type", NULL);
}

static void a_socket_path_that_is_too_long_is_refused(void **state)
{
    char text[512];

    (void)state;
    (void)snprintf(text, sizeof(text), HEAD "paths: {run_dir: /%0120d}\n", 1);
    refused(text, "config_path_too_long", NULL);
    (void)snprintf(text, sizeof(text), HEAD "listen: {local: /%0120d}\n", 1);
    refused(text, "config_path_too_long", NULL);
}

/* Everything but self mode wants root's file, before a word of it counts. */
static void an_unknown_mode_is_refused(void **state)
{
    (void)state;
    refused("version: 1\nmode: root\ncluster: {name: c}\n",
            geteuid() == 0 ? "config_mode_word" : "config_parent", NULL);
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    struct err e = ERR_INIT;
    struct config c;
    json_t *people = NULL;

    (void)state;
    assert_int_equal(chmod(site.conf, 0664), 0);
    assert_int_equal(config_load(site.conf, &c, &e), -1);
    assert_string_equal(e.code, "config_mode");
    err_clear(&e);
    assert_int_equal(config_people(site.conf, &people, &e), -1);
    assert_int_equal(chmod(site.conf, 0644), 0);
    assert_int_equal(chmod(site.dir, 0777), 0);
    err_clear(&e);
    assert_int_equal(config_load(site.conf, &c, &e), -1);
    assert_string_equal(e.code, "config_parent");
    assert_int_equal(chmod(site.dir, 0755), 0);
}

/* In people mode only root may own it, whoever reads. */
static void in_people_mode_the_file_is_roots(void **state)
{
    struct err e = ERR_INIT;
    struct config c;

    (void)state;
    put("version: 1\nmode: people\nstate_dir: /s\ncluster: {name: c}\n");
    if (geteuid() == 0)
        assert_int_equal(chown(site.conf, 65534, 65534), 0);
    assert_int_equal(config_load(site.conf, &c, &e), -1);
    assert_string_equal(e.code,
                        geteuid() == 0 ? "config_owner" : "config_parent");
    if (geteuid() != 0)
        return;
    assert_int_equal(chown(site.conf, 0, 0), 0);
    err_clear(&e);
    assert_int_equal(config_load(site.conf, &c, &e), 0);
    assert_false(c.self_mode);
    assert_string_equal(c.accounts.spawn, "sluice-spawn");
    config_clear(&c);
}

static void people_come_as_a_tree(void **state)
{
    struct err e = ERR_INIT;
    json_t *people = NULL;

    (void)state;
    assert_int_equal(config_people(site.conf, &people, &e), 0);
    assert_non_null(json_object_get(people, "alice"));
    json_decref(people);
    put(HEAD);
    assert_int_equal(config_people(site.conf, &people, &e), -1);
    assert_string_equal(e.code, "config_missing");
    assert_null(people);
}

static void self_mode_is_one_account(void **state)
{
    struct err e = ERR_INIT;
    struct config c;

    (void)state;
    assert_int_equal(config_load(site.conf, &c, &e), 0);
    assert_int_equal(config_resolve_accounts(&c, &e), 0);
    assert_int_equal(c.accounts.sluice_uid, geteuid());
    assert_int_equal(c.accounts.watch_uid, geteuid());
    assert_string_equal(c.accounts.spawn, site.account);
    config_clear(&c);
}

static void service_accounts_exist_differ_and_are_not_root(void **state)
{
    struct err e = ERR_INIT;
    struct config c;
    static const char *const wrong[] = {
        "accounts: {sluice: daemon, spawn: daemon, watch: bin}\n",
        "accounts: {sluice: root, spawn: daemon, watch: bin}\n",
        "accounts: {sluice: no-such-one, spawn: daemon, watch: bin}\n"};
    char text[512];

    (void)state;
    for (size_t i = 0; geteuid() == 0 && i < 3; i++) {
        (void)snprintf(text, sizeof(text),
                       "version: 1\nmode: people\ncluster: {name: c}\n%s",
                       wrong[i]);
        put(text);
        err_clear(&e);
        assert_int_equal(config_load(site.conf, &c, &e), 0);
        assert_int_equal(config_resolve_accounts(&c, &e), -1);
        assert_string_equal(e.code, "config_account");
        config_clear(&c);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_not_named_lies_below_state_dir),
        T(every_section_is_read),
        T(an_unknown_key_stops_the_start),
        T(wrong_values_are_refused_with_their_line),
        T(a_socket_path_that_is_too_long_is_refused),
        T(an_unknown_mode_is_refused),
        T(a_file_that_others_may_write_is_refused),
        T(in_people_mode_the_file_is_roots),
        T(people_come_as_a_tree),
        T(self_mode_is_one_account),
        T(service_accounts_exist_differ_and_are_not_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
