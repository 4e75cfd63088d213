/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Person x proof x verb, by table; then the caps, the brake, what a worker may
 * say, and what watch's word does to the record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/wire.h"
#include "broker/spawn/accounts.h"
#include "broker/spawn/answer.h"
#include "broker/spawn/brake.h"
#include "broker/spawn/quota.h"
#include "broker/spawn/sight.h"
#include "broker/spawn/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- authorisation -----------------------------------------------------------
 */

static struct people *people_of(const char *text)
{
    struct err e = ERR_INIT;
    struct people *p = NULL;
    json_t *tree = json_loads(text, 0, NULL);

    assert_non_null(tree);
    if (people_load(tree, "people", NULL, &p, &e) != 0)
        fail_msg("%s", e.text);
    json_decref(tree);
    return p;
}

static struct people *map(void)
{
    return people_of(
        "{\"alice\": {\"account\": \"ann\", \"roles\": [\"researcher\"],"
        "             \"proof\": \"network\"},"
        " \"bob\":   {\"account\": \"bea\", \"roles\": [\"researcher\"],"
        "             \"proof\": \"token\"},"
        " \"olga\":  {\"roles\": [\"operator\"]},"
        " \"aude\":  {\"roles\": [\"auditor\"]},"
        " \"root\":  {\"roles\": [\"admin\"]},"
        " \"max\":   {\"account\": \"mia\", \"proof\": \"network\","
        "             \"roles\": [\"researcher\", \"operator\"]}}");
}

/* Outcomes: ok, or the code's first letters. */
static const struct {
    enum proto_verb verb;
    const char *actor;
    bool token;
    unsigned roles;    /* of the token */
    const char *owner; /* NULL: a verb without a job */
    const char *code;  /* NULL: granted */
} rows[] = {
    /* one's own, by the proof that the entry names */
    {VERB_SUBMIT, "alice", false, 0, NULL, NULL},
    {VERB_SUBMIT, "bob", false, 0, NULL, "token_required"},
    {VERB_SUBMIT, "bob", true, 0, NULL, NULL},
    {VERB_PLAN, "bob", false, 0, NULL, "token_required"},
    {VERB_CANCEL, "alice", false, 0, "alice", NULL},
    {VERB_CANCEL, "bob", false, 0, "bob", "token_required"},
    {VERB_LOG, "alice", false, 0, "alice", NULL},
    {VERB_HOLD, "alice", false, 0, "alice", NULL},
    {VERB_RELEASE, "alice", false, 0, "alice", NULL},
    /* a stranger's job is like none, whatever the proof */
    {VERB_CANCEL, "alice", false, 0, "bob", "job_unknown"},
    {VERB_LOG, "alice", true, 0, "bob", "job_unknown"},
    {VERB_ARTIFACT, "bob", true, 0, "alice", "job_unknown"},
    /* a network's word is never enough for more than a researcher */
    {VERB_CANCEL, "olga", false, 0, "alice", "token_required"},
    {VERB_CANCEL, "olga", true, 0, "alice", NULL},
    {VERB_LOG, "olga", true, 0, "alice", NULL},
    {VERB_LOG, "aude", true, 0, "alice", NULL},
    {VERB_LOG, "aude", false, 0, "alice", "token_required"},
    {VERB_CANCEL, "aude", true, 0, "alice", "job_unknown"},
    {VERB_HOLD, "root", true, 0, "alice", NULL},
    {VERB_LOG, "root", true, 0, "alice", "job_unknown"},
    {VERB_SUBMIT, "olga", true, 0, NULL, "role_required"},
    {VERB_SUBMIT, "root", true, 0, NULL, "role_required"},
    /* two roles: his own job by the network, another's by a token */
    {VERB_CANCEL, "max", false, 0, "max", NULL},
    {VERB_CANCEL, "max", false, 0, "alice", "token_required"},
    {VERB_CANCEL, "max", true, 0, "alice", NULL},
    /* a token narrows */
    {VERB_CANCEL, "max", true, ROLE_RESEARCHER, "alice", "job_unknown"},
    {VERB_SUBMIT, "max", true, ROLE_OPERATOR, NULL, "role_required"},
    {VERB_SUBMIT, "alice", true, ROLE_ADMIN, NULL, "role_required"},
    /* nobody, and verbs that are nobody's */
    {VERB_SUBMIT, "eve", true, 0, NULL, "actor_unknown"},
    {VERB_FINISH, "alice", true, 0, "alice", "verb_forbidden"},
    {VERB_OUTCOME, "root", true, 0, NULL, "verb_forbidden"},
};

static void each_row_of_the_table(void **state)
{
    struct people *m = map();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct claims c = {.roles = rows[i].roles};
        struct err e = ERR_INIT;
        struct grant g;

        (void)snprintf(c.person, sizeof(c.person), "%s", rows[i].actor);
        (void)verbs_authorise(verbs_rule((int)rows[i].verb), m, rows[i].actor,
                              rows[i].token ? &c : NULL, rows[i].owner, &g, &e);
        if (strcmp(e.code, rows[i].code != NULL ? rows[i].code : "") != 0)
            fail_msg("row %zu (%s %s): '%s'", i, rows[i].actor,
                     proto_verb_name(rows[i].verb), e.code);
    }
    people_free(m);
}

static void a_token_of_somebody_else_is_refused(void **state)
{
    struct people *m = map();
    struct claims c = {.person = "bob"};
    struct err e = ERR_INIT;
    struct grant g;

    (void)state;
    assert_int_equal(
        verbs_authorise(verbs_rule(VERB_SUBMIT), m, "alice", &c, NULL, &g, &e),
        -1);
    assert_string_equal(e.code, "actor_mismatch");
    people_free(m);
}

static void workers_verbs_are_not_for_clients(void **state)
{
    (void)state;
    assert_null(verbs_rule(VERB_CHECK));
    assert_null(verbs_rule(VERB_PREPARE));
    assert_null(verbs_rule(-1));
    assert_null(verbs_rule(VERB_COUNT));
}

static void globs_narrow_workflows(void **state)
{
    char one[] = "gpu-*", two[] = "media-probe";
    char *v[] = {one, two};
    struct claims c = {.workflows = {v, 2}};

    (void)state;
    assert_true(claims_workflow(NULL, "x"));
    assert_true(claims_workflow(&c, "gpu-canary"));
    assert_true(claims_workflow(&c, "media-probe"));
    assert_false(claims_workflow(&c, "fleet-acceptance"));
    assert_false(claims_workflow(&c, "agpu-canary"));
}

/* --- caps
 * ----------------------------------------------------------------------- */

enum { SUBMITS_A_MINUTE = 600 };

static void submits_a_minute_are_capped(void **state)
{
    struct quota q = {.per_minute = SUBMITS_A_MINUTE};
    struct err e = ERR_INIT;

    (void)state;
    for (int i = 0; i < SUBMITS_A_MINUTE; i++)
        assert_int_equal(quota_submit(&q, "alice", 1000, &e), 0);
    assert_int_equal(quota_submit(&q, "alice", 1000, &e), -1);
    assert_string_equal(e.code, "submit_rate");
    err_clear(&e);
    assert_int_equal(quota_submit(&q, "bob", 1000, &e), 0);
    assert_int_equal(
        quota_submit(&q, "alice", 1000 + 60000 / SUBMITS_A_MINUTE, &e), 0);
    assert_int_equal(quota_submit(&q, "alice", 1001, &e), -1);
    err_clear(&e);
    assert_int_equal(quota_submit(&q, "alice", 200000, &e), 0);
    quota_clear(&q);
}

struct book { /* a record in a folder of its own */
    char dir[64], path[96];
    struct record *r;
};

static struct book book_open(void)
{
    struct book b;
    struct err e = ERR_INIT;

    (void)snprintf(b.dir, sizeof(b.dir), "/tmp/spawn-verbs-XXXXXX");
    assert_non_null(mkdtemp(b.dir));
    (void)snprintf(b.path, sizeof(b.path), "%s/record.log", b.dir);
    assert_int_equal(record_open(b.path, &b.r, &e), 0);
    return b;
}

static void book_close(struct book *b)
{
    record_close(b->r);
    (void)unlink(b->path);
    (void)rmdir(b->dir);
}

static struct rec *intend(struct book *b, const char *actor, int64_t gpus)
{
    char ulid[ULID_LEN + 1];
    json_t *none = json_array();
    struct rec_intent in = {.ulid = ulid,
                            .request = ulid,
                            .actor = actor,
                            .account = "ann",
                            .workflow = "toy",
                            .uid = 1234,
                            .generation = "00",
                            .gpus = gpus,
                            .secret_names = none};
    struct err e = ERR_INIT;
    struct rec *x = NULL;

    assert_int_equal(id_ulid(1700000000000, ulid), 0);
    assert_int_equal(record_intent(b->r, &in, &x, &e), 0);
    json_decref(none);
    return x;
}

static void gpus_of_what_has_not_ended_are_capped(void **state)
{
    struct book b = book_open();
    struct err e = ERR_INIT;
    struct rec *x = intend(&b, "alice", 8);
    int64_t now = x->intent_ms;

    (void)state;
    assert_int_equal(quota_gpus(b.r, "alice", 16, 8, now, &e), 0);
    assert_int_equal(quota_gpus(b.r, "alice", 16, 9, now, &e), -1);
    assert_string_equal(e.code, "gpus_held");
    err_clear(&e);
    assert_int_equal(quota_gpus(b.r, "bob", 8, 8, now, &e), 0);
    assert_int_equal(quota_gpus(b.r, "alice", 0, 10000, now, &e), 0);
    /* never seen: it counts as long as it could still come */
    assert_int_equal(quota_gpus_held(b.r, "alice", now + QUOTA_UNSEEN_MS), 0);
    x->run.live = true;
    assert_int_equal(quota_gpus_held(b.r, "alice", now + QUOTA_UNSEEN_MS), 8);
    assert_int_equal(record_ended(b.r, x, "COMPLETED", &e), 0);
    assert_int_equal(quota_gpus_held(b.r, "alice", now), 0);
    book_close(&b);
}

/* --- the brake
 * ------------------------------------------------------------------ */

static void one_persons_deaths_brake_him_alone(void **state)
{
    struct brakes b = {.n = 0};

    (void)state;
    brakes_death(&b, 1000, true, 0);
    assert_int_equal(brakes_wait(&b, 1000, 0), 0); /* one is free */
    brakes_death(&b, 1000, true, 0);
    assert_int_equal(brakes_wait(&b, 1000, 0), 1000);
    assert_int_equal(brakes_wait(&b, 1000, 1000), 0);
    brakes_death(&b, 1000, true, 0);
    assert_int_equal(brakes_wait(&b, 1000, 0), 2000);
    for (int i = 0; i < 100; i++)
        brakes_death(&b, 1000, true, 0);
    assert_int_equal(brakes_wait(&b, 1000, 0), BRAKE_LONGEST_MS);
    assert_int_equal(brakes_wait(&b, 1001, 0), 0);
    brakes_served(&b, 1000);
    assert_int_equal(brakes_wait(&b, 1000, 0), 0);
    brakes_clear(&b);
}

static void a_death_before_the_identity_brakes_all(void **state)
{
    struct brakes b = {.n = 0};

    (void)state;
    brakes_death(&b, 1000, false, 0);
    brakes_death(&b, 1001, false, 0);
    assert_int_equal(brakes_wait(&b, 1002, 0), 1000);
    brakes_clear(&b);
}

/* --- a worker's words
 * ------------------------------------------------------------- */

#define R "01HZZZZZZZZZZZZZZZZZZZZZZZ"
#define HEAD "{\"v\":1,\"event\":\"result\",\"request\":\"" R "\","

static int read_answer(const char *text, enum proto_verb verb)
{
    json_t *body = json_loads(text, 0, NULL);
    struct err why = ERR_INIT;
    struct answer a;
    int r;

    assert_non_null(body);
    r = answer_read(body, R, verb, &a, &why);
    if (r == 0)
        answer_clear(&a);
    else
        assert_string_equal(why.code, "worker_garbage");
    json_decref(body);
    return r;
}

static void a_good_answer_is_taken(void **state)
{
    (void)state;
    assert_int_equal(read_answer(HEAD "\"ok\":true,\"result\":{\"already\":"
                                      "false}}",
                                 VERB_CANCEL),
                     0);
    assert_int_equal(read_answer("{\"v\":1,\"event\":\"stage\",\"request\":\"" R
                                 "\","
                                 "\"stage\":\"sending\"}",
                                 VERB_SUBMIT),
                     0);
    assert_int_equal(
        read_answer(HEAD "\"ok\":false,\"stage\":\"init\",\"error\":{"
                         "\"class\":\"invalid\",\"code\":\"c\",\"text\":\"t\","
                         "\"pointer\":\"\",\"sys\":0}}",
                    VERB_SUBMIT),
        0);
}

static void garbage_is_known(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"v\":2,\"event\":\"result\",\"request\":\"" R "\",\"ok\":true,"
        "\"result\":{\"already\":true}}",
        "{\"v\":1,\"event\":\"result\",\"request\":\"01HZZZZZZZZZZZZZZZZZZZZZZY"
        "\",\"ok\":true,\"result\":{\"already\":true}}",
        HEAD "\"ok\":true,\"result\":{}}",
        HEAD "\"ok\":true,\"result\":{\"already\":1}}",
        HEAD "\"ok\":true,\"result\":{\"already\":true},\"more\":1}",
        HEAD "\"ok\":true,\"result\":{\"already\":true,\"x\":1.5}}",
        HEAD "\"ok\":true,\"result\":{\"already\":true,\"x\":[[[[[[[[[[[[[[[[]]"
             "]]]]]]]]]]]]]]}}",
        HEAD "\"ok\":false,\"stage\":\"none\",\"error\":{\"class\":\"invalid\","
             "\"code\":\"c\",\"text\":\"t\",\"pointer\":\"\",\"sys\":0}}",
        HEAD "\"ok\":false,\"stage\":\"init\",\"error\":null}",
        HEAD "\"ok\":false,\"stage\":\"init\"}",
        HEAD "\"ok\":\"yes\"}",
        "{\"v\":1,\"event\":\"hello\",\"request\":\"" R "\"}",
        "{\"v\":1,\"event\":\"stage\",\"request\":\"" R "\",\"stage\":\"x\"}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (read_answer(bad[i], VERB_CANCEL) != -1)
            fail_msg("taken: %s", bad[i]);
    }
}

static void only_the_tables_keys_travel_on(void **state)
{
    json_t *body = json_loads(HEAD "\"ok\":true,\"result\":{\"already\":true,"
                                   "\"uid\":0}}",
                              0, NULL);
    struct err why = ERR_INIT;
    struct answer a;

    (void)state;
    assert_int_equal(answer_read(body, R, VERB_HOLD, &a, &why), 0);
    assert_int_equal(json_object_size(a.result), 1);
    answer_clear(&a);
    json_decref(body);
}

/* --- watch's word
 * ------------------------------------------------------------------ */

static json_t *job_of(const struct rec *x, int64_t id, int64_t uid,
                      const char *state, const char *flag)
{
    char name[SLURM_NAME_MAX + 1];
    json_t *j;

    assert_int_equal(id_slurm_name(x->workflow, x->ulid, name), 0);
    j = json_pack("{sIsssIsIsss[]}", "job_id", (json_int_t)id, "name", name,
                  "uid", (json_int_t)uid, "submit_time",
                  (json_int_t)(x->intent_ms / 1000), "state", state, "flags");
    assert_non_null(j);
    if (flag != NULL)
        (void)json_array_append_new(json_object_get(j, "flags"),
                                    json_string(flag));
    return j;
}

static struct rec *see(struct book *b, const struct rec *x, int64_t id,
                       int64_t uid, const char *state, const char *flag)
{
    json_t *j = job_of(x, id, uid, state, flag);
    struct rec *found = sight_job(b->r, j, 1);

    json_decref(j);
    return found;
}

static void a_job_of_another_uid_is_not_ours(void **state)
{
    struct book b = book_open();
    struct rec *x = intend(&b, "alice", 1);

    (void)state;
    assert_null(see(&b, x, 5, 1235, "RUNNING", NULL));
    assert_int_equal(x->job_id, 0);
    assert_ptr_equal(see(&b, x, 5, 1234, "RUNNING", NULL), x);
    assert_int_equal(x->job_id, 5);
    assert_true(x->run.live);
    /* a second job of the same name is an imitation */
    assert_null(see(&b, x, 6, 1234, "COMPLETED", NULL));
    assert_false(x->ended);
    book_close(&b);
}

static void a_claim_chooses_among_jobs_of_one_name(void **state)
{
    struct book b = book_open();
    struct rec *x = intend(&b, "alice", 1);
    json_t *f = json_pack("{sbs{si}}", "ok", 1, "result", "job_id", 9);
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(record_result(b.r, x, f, &e), 0);
    json_decref(f);
    assert_null(see(&b, x, 8, 1234, "COMPLETED", NULL));
    assert_ptr_equal(see(&b, x, 9, 1234, "PENDING", NULL), x);
    book_close(&b);
}

static void an_end_is_an_end_only_without_a_requeue(void **state)
{
    static const struct {
        const char *state, *flag;
        bool ended;
    } v[] = {
        {"PENDING", NULL, false},          {"RUNNING", NULL, false},
        {"SUSPENDED", NULL, false},        {"COMPLETED", "COMPLETING", false},
        {"NODE_FAIL", "REQUEUED", false},  {"FAILED", "REQUEUE_HOLD", false},
        {"FAILED", "SPECIAL_EXIT", false}, {"WHATEVER", NULL, false},
        {"COMPLETED", NULL, true},         {"TIMEOUT", NULL, true},
    };
    struct book b = book_open();
    struct rec *x = intend(&b, "alice", 1);

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        assert_ptr_equal(see(&b, x, 5, 1234, v[i].state, v[i].flag), x);
        assert_int_equal(x->ended, v[i].ended);
    }
    (void)see(&b, x, 5, 1234, "PENDING", NULL); /* requeued after its end */
    assert_false(x->ended);
    book_close(&b);
}

static void another_script_is_noticed(void **state)
{
    struct book b = book_open();
    struct rec *x = intend(&b, "alice", 1);
    json_t *j = job_of(x, 5, 1234, "PENDING", NULL), *f;
    char sum[SHA256_HEX_LEN + 1];
    struct err e = ERR_INIT;

    (void)state;
    memset(sum, 'a', SHA256_HEX_LEN);
    sum[SHA256_HEX_LEN] = '\0';
    f = json_pack("{sbs{siss}}", "ok", 1, "result", "job_id", 5,
                  "script_sha256", sum);
    assert_int_equal(record_result(b.r, x, f, &e), 0);
    (void)json_object_set_new(j, "script_sha256", json_string(sum));
    (void)sight_job(b.r, j, 1);
    assert_false(x->run.differs);
    sum[0] = 'b';
    (void)json_object_set_new(j, "script_sha256", json_string(sum));
    (void)sight_job(b.r, j, 1);
    assert_true(x->run.differs);
    json_decref(f);
    json_decref(j);
    book_close(&b);
}

static void the_last_row_tells_the_end(void **state)
{
    struct book b = book_open();
    struct rec *x = intend(&b, "alice", 1);
    int64_t t = x->intent_ms / 1000;
    char name[SLURM_NAME_MAX + 1];
    size_t seen = 0;
    json_t *v;

    (void)state;
    assert_int_equal(id_slurm_name(x->workflow, x->ulid, name), 0);
    v = json_pack("[{sisssisIsIss}{sisssisIsnss}]", "job_id", 5, "name", name,
                  "uid", 1234, "submit", (json_int_t)t, "end",
                  (json_int_t)(t + 5), "state", "NODE_FAIL", "job_id", 5,
                  "name", name, "uid", 1234, "submit", (json_int_t)(t + 9),
                  "end", "state", "RUNNING");
    assert_non_null(v);
    sight_rows(b.r, x, v, &seen);
    assert_int_equal(seen, 2);
    assert_false(x->ended);
    (void)json_array_remove(v, 1);
    sight_rows(b.r, x, v, &seen);
    assert_true(x->ended);
    json_decref(v);
    book_close(&b);
}

/* --- accounts
 * ----------------------------------------------------------------------- */

static const struct accounts_rule people_rule = {
    .min_uid = 1000,
    .service_uids = {901, 902, 903},
    .service_gids = {901, 902, 903}};

static const char *why_refused(const char *entry)
{
    static char why[256];
    struct accounts *t = NULL;
    struct err e = ERR_INIT;
    char text[512];
    json_t *tree;

    (void)snprintf(text, sizeof(text), "{\"v\":1,\"accounts\":{\"ann\":%s}}",
                   entry);
    tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    if (accounts_parse(tree, &people_rule, &t, &e) != 0) {
        json_decref(tree);
        (void)snprintf(why, sizeof(why), "%s", e.code);
        return why;
    }
    json_decref(tree);
    (void)snprintf(why, sizeof(why), "%s",
                   accounts_find(t, "ann")->error != NULL
                       ? accounts_find(t, "ann")->error
                       : "");
    assert_null(accounts_find(t, "bea"));
    accounts_unref(t);
    return why;
}

static void the_table_is_judged_again(void **state)
{
    (void)state;
    assert_string_equal(
        why_refused("{\"uid\":1500,\"gid\":1500,\"groups\":[1500,20],"
                    "\"home\":\"/h\",\"shell\":\"/bin/sh\"}"),
        "");
    assert_string_equal(why_refused("{\"error\":\"account_expired\"}"),
                        "account_expired");
    assert_non_null(strstr(
        why_refused("{\"uid\":0,\"gid\":1500,\"groups\":[],\"home\":\"/h\","
                    "\"shell\":\"/bin/sh\"}"),
        "min_uid"));
    assert_non_null(strstr(
        why_refused("{\"uid\":999,\"gid\":1500,\"groups\":[],\"home\":\"/h\","
                    "\"shell\":\"/bin/sh\"}"),
        "min_uid"));
    assert_non_null(
        strstr(why_refused("{\"uid\":1500,\"gid\":1500,\"groups\":[902],"
                           "\"home\":\"/h\",\"shell\":\"/bin/sh\"}"),
               "service"));
    assert_non_null(
        strstr(why_refused("{\"uid\":1500,\"gid\":1500,\"groups\":[0],"
                           "\"home\":\"/h\",\"shell\":\"/bin/sh\"}"),
               "root"));
    assert_string_not_equal(why_refused("{\"uid\":\"1500\"}"), "");
    assert_string_not_equal(
        why_refused("{\"uid\":1500,\"gid\":1500,\"groups\":[],"
                    "\"home\":\"/h\",\"shell\":\"/bin/sh\","
                    "\"caps\":1}"),
        "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_table),
        cmocka_unit_test(a_token_of_somebody_else_is_refused),
        cmocka_unit_test(workers_verbs_are_not_for_clients),
        cmocka_unit_test(globs_narrow_workflows),
        cmocka_unit_test(submits_a_minute_are_capped),
        cmocka_unit_test(gpus_of_what_has_not_ended_are_capped),
        cmocka_unit_test(one_persons_deaths_brake_him_alone),
        cmocka_unit_test(a_death_before_the_identity_brakes_all),
        cmocka_unit_test(a_good_answer_is_taken),
        cmocka_unit_test(garbage_is_known),
        cmocka_unit_test(only_the_tables_keys_travel_on),
        cmocka_unit_test(a_job_of_another_uid_is_not_ours),
        cmocka_unit_test(a_claim_chooses_among_jobs_of_one_name),
        cmocka_unit_test(an_end_is_an_end_only_without_a_requeue),
        cmocka_unit_test(another_script_is_noticed),
        cmocka_unit_test(the_last_row_tells_the_end),
        cmocka_unit_test(the_table_is_judged_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
