/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/generation.h"
#include "tests/unit/test_config_site.h"

static struct site site;
static char store[96], workflows[96], templates[96];

static int setup(void **state)
{
    (void)state;
    site_make(&site);
    (void)snprintf(store, sizeof(store), "%s/store", site.dir);
    (void)snprintf(workflows, sizeof(workflows), "%s/share/sluice/workflows",
                   site.dir);
    (void)snprintf(templates, sizeof(templates), "%s/share/sluice/templates",
                   site.dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    site_remove(&site);
    return 0;
}

static int install(const char *account, char *id, struct err *e)
{
    json_t *people = json_pack("{s{sss[s]s[s]}}", "alice", "account", account,
                               "roles", "researcher", "groups", "canary");
    json_t *keys = json_pack("{ss}", "k1", "PEM");
    int r = generation_install(store, workflows, templates, people, keys,
                               getegid(), id, e);

    json_decref(people);
    json_decref(keys);
    return r;
}

static void must_install(const char *account, char *id)
{
    struct err e = ERR_INIT;

    if (install(account, id, &e) != 0)
        fail_msg("%s", e.text);
}

static void path_in(char *out, size_t n, const char *id, const char *rest)
{
    (void)snprintf(out, n, "store/%s%s", id, rest);
}

static void refused(const char *id, const char *code)
{
    struct generation *g = NULL;
    struct err e = ERR_INIT;

    assert_int_equal(generation_load(store, id, &g, &e), -1);
    assert_null(g);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s (%s), not %s", e.code, e.text, code);
}

static void what_was_installed_loads(void **state)
{
    char id[GENERATION_ID_LEN + 1], again[GENERATION_ID_LEN + 1];
    struct generation *g = NULL;
    struct err e = ERR_INIT;
    size_t len = 0;
    char *text;

    (void)state;
    must_install("ann", id);
    must_install("ann", again); /* the same content: the same name */
    assert_string_equal(id, again);
    assert_int_equal(generation_load(store, id, &g, &e), 0);
    assert_string_equal(g->id, id);
    assert_string_equal(people_find(g->people, "alice")->account, "ann");
    assert_non_null(allowlist_find(g->allowlist, "gpu-canary"));
    assert_non_null(json_object_get(g->keys, "k1"));
    text = generation_template(g->templates_fd, "prelude.sh", &len, &e);
    assert_non_null(text);
    assert_true(len > 100);
    free(text);
    generation_unref(generation_ref(g));
    generation_unref(g);
    generation_unref(NULL);
}

static void other_content_has_another_name(void **state)
{
    char one[GENERATION_ID_LEN + 1], two[GENERATION_ID_LEN + 1];
    char *text = site_read(&site, "share/sluice/templates/gpu-canary.sh");
    char *more = NULL;

    (void)state;
    must_install("ann", one);
    must_install("bea", two);
    assert_string_not_equal(one, two);
    assert_true(asprintf(&more, "%s# x\n", text) > 0);
    site_write(&site, "share/sluice/templates/gpu-canary.sh", more);
    must_install("ann", two);
    assert_string_not_equal(one, two);
    free(text);
    free(more);
}

static void people_and_keys_are_not_for_everybody(void **state)
{
    char id[GENERATION_ID_LEN + 1], path[256];

    (void)state;
    must_install("ann", id);
    path_in(path, sizeof(path), id, "/people.json");
    assert_int_equal(site_mode(&site, path), 0640);
    path_in(path, sizeof(path), id, "/keys.json");
    assert_int_equal(site_mode(&site, path), 0640);
    path_in(path, sizeof(path), id, "/catalog/workflows.json");
    assert_int_equal(site_mode(&site, path), 0644);
    path_in(path, sizeof(path), id, "/catalog/templates/gpu-canary.sh");
    assert_int_equal(site_mode(&site, path), 0644);
    path_in(path, sizeof(path), id, "/catalog/templates");
    assert_int_equal(site_mode(&site, path), 0755);
    path_in(path, sizeof(path), id, "");
    assert_int_equal(site_mode(&site, path), 0755);
}

static void a_changed_file_is_noticed(void **state)
{
    static const char *const files[] = {
        "/people.json", "/keys.json", "/catalog/workflows.json",
        "/catalog/templates/media-probe.sh", "/manifest.json"};
    char id[GENERATION_ID_LEN + 1], path[256], *text, *more = NULL;

    (void)state;
    must_install("ann", id);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        path_in(path, sizeof(path), id, files[i]);
        text = site_read(&site, path);
        assert_non_null(text);
        assert_true(asprintf(&more, "%s ", text) > 0);
        site_write(&site, path, more);
        refused(id, "generation_digest");
        site_write(&site, path, text);
        free(text);
        free(more);
    }
    path_in(path, sizeof(path), id, "");
    (void)snprintf(path, sizeof(path), "%s/%s", store, id);
    assert_int_equal(chmod(path, 0775), 0);
    refused(id, "config_owner");
}

static void names_that_are_no_digests_lead_nowhere(void **state)
{
    (void)state;
    refused("../../etc", "generation_missing");
    refused(NULL, "generation_missing"); /* no store yet */
    assert_false(generation_id_valid(NULL));
    assert_false(generation_id_valid("abc"));
    assert_false(generation_id_valid(
        "ABCDEF0000000000000000000000000000000000000000000000000000000000"));
}

static void current_moves_and_the_old_one_retires(void **state)
{
    char one[GENERATION_ID_LEN + 1], two[GENERATION_ID_LEN + 1];
    char now[GENERATION_ID_LEN + 1];
    struct generation *g = NULL;
    struct err e = ERR_INIT;

    (void)state;
    must_install("ann", one);
    refused(NULL, "generation_missing");
    assert_int_equal(generation_current(store, now, &e), 0);
    assert_int_equal(generation_switch(store, one, &e), 0);
    must_install("bea", two);
    assert_int_equal(generation_current(store, now, &e), 1);
    assert_string_equal(now, one); /* an install switches nothing */
    assert_int_equal(generation_switch(store, two, &e), 0);
    assert_int_equal(generation_load(store, NULL, &g, &e), 0);
    assert_string_equal(g->id, two);
    generation_unref(g);
    assert_string_equal(generation_state(store, one, &e), "retired");
    assert_string_equal(generation_state(store, two, &e), "active");
    /* A pending job keeps its generation. */
    assert_int_equal(generation_load(store, one, &g, &e), 0);
    generation_unref(g);
    assert_int_equal(generation_switch(store, two, &e), 0);
    assert_string_equal(generation_state(store, two, &e), "active");
}

static void a_revoked_generation_stays_revoked(void **state)
{
    char id[GENERATION_ID_LEN + 1], again[GENERATION_ID_LEN + 1], path[256];
    struct err e = ERR_INIT;

    (void)state;
    must_install("ann", id);
    path_in(path, sizeof(path), id, ".state");
    site_write(&site, path, "revoked\n");
    refused(id, "generation_revoked");
    assert_int_equal(generation_switch(store, id, &e), -1);
    assert_string_equal(e.code, "generation_revoked");
    err_clear(&e);
    assert_int_equal(install("ann", again, &e), -1);
    assert_string_equal(e.code, "generation_revoked");
    /* Without its state nobody knows: so it is missing. */
    site_write(&site, path, "");
    refused(id, "generation_missing");
}

static void a_catalog_is_all_that_a_worker_gets(void **state)
{
    char id[GENERATION_ID_LEN + 1], path[256];
    struct generation *g = NULL;
    struct err e = ERR_INIT;
    int fd;

    (void)state;
    must_install("ann", id);
    (void)snprintf(path, sizeof(path), "%s/%s/catalog", store, id);
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(generation_from_catalog(fd, &g, &e), 0);
    assert_null(g->people);
    assert_null(g->keys);
    assert_non_null(allowlist_find(g->allowlist, "media-probe"));
    assert_int_equal(faccessat(g->templates_fd, "media-probe.sh", F_OK, 0), 0);
    generation_unref(g);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still the caller's */
    (void)close(fd);
}

static void bad_input_installs_nothing(void **state)
{
    static const struct {
        const char *file, *text, *code;
    } wrong[] = {
        {"share/sluice/templates/gpu-canary.sh", "echo a\r\n", "template_crlf"},
        {"share/sluice/templates/gpu-canary.sh", "#!/bin/sh\n",
         "template_shebang"},
        {"share/sluice/workflows/x.yaml", "version: 1\nworkflows: [\n",
         "yaml_syntax"},
    };
    char id[GENERATION_ID_LEN + 1] = "x", path[256];
    struct err e = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *before = site_read(&site, wrong[i].file);
        site_write(&site, wrong[i].file, wrong[i].text);
        err_clear(&e);
        assert_int_equal(install("ann", id, &e), -1);
        if (strcmp(e.code, wrong[i].code) != 0)
            fail_msg("%s (%s), not %s", e.code, e.text, wrong[i].code);
        assert_string_equal(id, "x");
        (void)snprintf(path, sizeof(path), "%s/%s", site.dir, wrong[i].file);
        if (before == NULL)
            (void)unlink(path);
        else
            site_write(&site, wrong[i].file, before);
        free(before);
    }
    assert_int_equal(access(store, F_OK), -1);
    (void)snprintf(path, sizeof(path), "%s/prelude.sh", templates);
    assert_int_equal(unlink(path), 0);
    err_clear(&e);
    assert_int_equal(install("ann", id, &e), -1);
    assert_string_equal(e.code, "template_missing");
}

static void sources_that_others_may_write_are_refused(void **state)
{
    char id[GENERATION_ID_LEN + 1], path[256];
    struct err e = ERR_INIT;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/gpu-canary.sh", templates);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(install("ann", id, &e), -1);
    assert_string_equal(e.code, "config_mode");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(workflows, 0777), 0);
    err_clear(&e);
    assert_int_equal(install("ann", id, &e), -1);
    assert_string_equal(e.code, "config_parent");
}

static void an_interrupted_install_is_cleared_away(void **state)
{
    char id[GENERATION_ID_LEN + 1];

    (void)state;
    site_mkdir(&site, "store");
    site_mkdir(&site, "store/.new");
    site_mkdir(&site, "store/.new/catalog");
    site_mkdir(&site, "store/.new/catalog/templates");
    site_write(&site, "store/.new/catalog/templates/x.sh", "x");
    must_install("ann", id);
    assert_int_equal(site_mode(&site, "store/.new"), 0);
}

static void template_names_stay_in_their_folder(void **state)
{
    static const char *const names[] = {
        "../x.sh", "/etc/x.sh", ".x.sh", "-x.sh", "x", ".sh", "a/b.sh", ""};
    int fd = open(templates, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct err e = ERR_INIT;
        assert_null(generation_template(fd, names[i], &len, &e));
        assert_string_equal(e.code, "template_name");
    }
    (void)close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_was_installed_loads),
        T(other_content_has_another_name),
        T(people_and_keys_are_not_for_everybody),
        T(a_changed_file_is_noticed),
        T(names_that_are_no_digests_lead_nowhere),
        T(current_moves_and_the_old_one_retires),
        T(a_revoked_generation_stays_revoked),
        T(a_catalog_is_all_that_a_worker_gets),
        T(bad_input_installs_nothing),
        T(sources_that_others_may_write_are_refused),
        T(an_interrupted_install_is_cleared_away),
        T(template_names_stay_in_their_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
