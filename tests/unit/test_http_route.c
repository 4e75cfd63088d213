/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Routes and targets: what is found, what is cut out, what is refused.
 */
#include "broker/http/request.h"
#include "broker/http/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct http_request *make(const char *method, const char *target)
{
    struct http_request *r = request_new(NULL);

    assert_non_null(r);
    r->method = strdup(method);
    r->target = strdup(target);
    return r;
}

static int find(struct http_request *r, struct err *e)
{
    char allow[64];

    if (request_parse_target(r, e) < 0)
        return -1;
    return route_find(r, allow, sizeof(allow), e);
}

static void test_every_route_is_found_by_its_own_pattern(void **state)
{
    size_t n;
    const struct route *t = route_table(&n);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        char target[128], *p;
        struct err e = ERR_INIT;
        struct http_request *r;

        snprintf(target, sizeof(target), "%s", t[i].pattern);
        while ((p = strstr(target, "{*}")) != NULL)
            memcpy(p, "a/b", 3);
        while ((p = strstr(target, "{}")) != NULL)
            memcpy(p, "xy", 2);
        r = make(t[i].method, target);
        assert_int_equal(find(r, &e), 0);
        assert_ptr_equal(r->route, &t[i]);
        request_unref(r);
    }
}

static void test_arguments_are_cut_out(void **state)
{
    struct err e = ERR_INIT;
    struct http_request *r =
        make("GET", "/v1/jobs/job_1/artifacts/results/a%20b/c.txt?x=1");

    (void)state;
    assert_int_equal(find(r, &e), 0);
    assert_string_equal(r->args[0], "job_1");
    assert_string_equal(r->args[1], "results/a b/c.txt");
    assert_string_equal(request_query(r, "x"), "1");
    assert_null(request_query(r, "y"));
    request_unref(r);
}

static void test_head_is_get(void **state)
{
    struct err e = ERR_INIT;
    struct http_request *r = make("HEAD", "/v1/jobs");

    (void)state;
    assert_int_equal(find(r, &e), 0);
    assert_string_equal(r->route->method, "GET");
    request_unref(r);
}

static void test_wrong_method_and_unknown_path(void **state)
{
    static const struct {
        const char *method, *target, *code;
    } cases[] = {{"POST", "/v1/me", "method_not_allowed"},
                 {"GET", "/v1/jobs/x/cancel", "method_not_allowed"},
                 {"GET", "/v1/jobs/", "route_unknown"},
                 {"GET", "/v1/jobs/x/artifacts/", "route_unknown"},
                 {"GET", "/v1", "route_unknown"},
                 {"GET", "/v1/me/", "route_unknown"},
                 {"GET", "/v1/workflows/a/b", "route_unknown"}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err e = ERR_INIT;
        struct http_request *r = make(cases[i].method, cases[i].target);

        assert_int_equal(find(r, &e), -1);
        assert_string_equal(e.code, cases[i].code);
        request_unref(r);
    }
}

static void test_bad_targets(void **state)
{
    static const char *const bad[] = {
        "/v1/%",   "/v1/%1",           "/v1/%zz",     "/v1/%00",
        "/v1/%ff", "/v1/jobs?a=1&a=2", "/v1/jobs?a=%"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = ERR_INIT;
        struct http_request *r = make("GET", bad[i]);

        assert_int_equal(request_parse_target(r, &e), -1);
        assert_int_equal(e.class, ERR_INVALID);
        request_unref(r);
    }
}

static void test_query_integers(void **state)
{
    struct err e = ERR_INIT;
    struct http_request *r = make("GET", "/v1/jobs?limit=5&bad=5x&big=99");
    static const char *const known[] = {"limit", "bad", NULL};
    int64_t v = 1;

    (void)state;
    assert_int_equal(request_parse_target(r, &e), 0);
    assert_int_equal(request_query_int(r, "limit", 1, 10, &v, &e), 0);
    assert_int_equal(v, 5);
    assert_int_equal(request_query_int(r, "none", 1, 10, &v, &e), 0);
    assert_int_equal(v, 5);
    assert_int_equal(request_query_int(r, "bad", 1, 10, &v, &e), -1);
    assert_int_equal(request_query_int(r, "big", 1, 10, &v, NULL), -1);
    assert_int_equal(v, 5);
    err_clear(&e);
    assert_int_equal(request_query_only(r, known, &e), -1);
    assert_string_equal(e.code, "query_unknown");
    request_unref(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_found_by_its_own_pattern),
        cmocka_unit_test(test_arguments_are_cut_out),
        cmocka_unit_test(test_head_is_get),
        cmocka_unit_test(test_wrong_method_and_unknown_path),
        cmocka_unit_test(test_bad_targets),
        cmocka_unit_test(test_query_integers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
