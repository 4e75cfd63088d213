/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/slurm/assoc.h"

#include "base/clock.h"
#include "base/json.h"
#include "broker/slurm/compat.h"
#include "broker/slurm/lib.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    FRESH_MS = 60 * 1000,   /* no question asked */
    USABLE_MS = 600 * 1000, /* used, while a new answer is fetched */
    RETRY_MS = 2000,        /* a refusal is judged by an answer this new */
    WAIT_MS = 1500,         /* of a submit's 14 s */
    CHILD_MS = 15000
};

/* --- in the child ----------------------------------------------------------
 */

static const char *qos_name(sc_list qos, uint32_t id)
{
    sc_iter it = slurm_list_iterator_create(qos);
    slurmdb_qos_rec_t *q;
    const char *name = NULL;

    while (name == NULL && (q = slurm_list_next(it)) != NULL)
        if (q->id == id)
            name = q->name;
    slurm_list_iterator_destroy(it);
    return name;
}

/* qos_list of an association holds ids as text. */
static json_t *qos_names(sc_list ids, sc_list qos)
{
    json_t *out = json_array();
    sc_iter it;
    char *id;

    if (ids == NULL)
        return out;
    it = slurm_list_iterator_create(ids);
    while ((id = slurm_list_next(it)) != NULL) {
        const char *name = qos_name(qos, (uint32_t)strtoul(id, NULL, 10));

        if (name != NULL)
            (void)json_array_append_new(out, json_string(name));
    }
    slurm_list_iterator_destroy(it);
    return out;
}

/* Several associations of one account differ by partition: one row of all. */
static void add_account(json_t *accounts, const slurmdb_assoc_rec_t *a,
                        sc_list qos)
{
    json_t *row = json_object_get(accounts, a->acct), *list;
    const char *name;

    if (row == NULL) {
        row = json_object();
        (void)json_put(row, "qos", json_array());
        (void)json_put(row, "default_qos", json_null());
        (void)json_object_set_new(accounts, a->acct, row);
    }
    list = qos_names(a->qos_list, qos);
    (void)json_array_extend(json_object_get(row, "qos"), list);
    json_decref(list);
    name = a->def_qos_id != 0 && a->def_qos_id != NO_VAL
               ? qos_name(qos, a->def_qos_id)
               : NULL;
    if (name != NULL)
        (void)json_put_str(row, "default_qos", name);
}

static void add_accounts(json_t *out, const assoc_mgr_info_msg_t *m,
                         const char *user)
{
    json_t *accounts = json_object();
    sc_iter it = slurm_list_iterator_create(m->assoc_list);
    slurmdb_assoc_rec_t *a;
    int64_t visible = 0;

    while ((a = slurm_list_next(it)) != NULL) {
        visible++;
        if (a->user == NULL || a->acct == NULL || strcmp(a->user, user) != 0)
            continue;
        add_account(accounts, a, m->qos_list);
        if (a->is_def == 1)
            (void)json_put_str(out, "default", a->acct);
    }
    slurm_list_iterator_destroy(it);
    (void)json_put(out, "accounts", accounts);
    (void)json_put_int(out, "visible", visible);
}

static int load(const char *user, assoc_mgr_info_msg_t **m)
{
    assoc_mgr_info_request_msg_t q;
    int rc;

    memset(&q, 0, sizeof(q));
    q.flags = ASSOC_MGR_INFO_FLAG_ASSOC | ASSOC_MGR_INFO_FLAG_QOS;
    q.user_list = slurm_list_create(NULL);
    slurm_list_append(q.user_list, (void *)(uintptr_t)user);
    rc = slurm_load_assoc_mgr_info(&q, m);
    slurm_list_destroy(q.user_list);
    return rc;
}

static void ask(int fd, void *context)
{
    const char *user = context;
    assoc_mgr_info_msg_t *m = NULL;
    json_t *out = json_object();
    char said[LIB_SAID_MAX];

    lib_listen();
    if (load(user, &m) != 0)
        m = NULL;
    lib_heard(said);
    if (m != NULL && m->assoc_list != NULL && m->qos_list != NULL) {
        add_accounts(out, m, user);
        child_say(fd, out);
    }
}

/* --- in the worker ----------------------------------------------------------
 */

void assoc_init(struct assoc *a)
{
    child_init(&a->child);
    a->info = NULL;
    a->at_ms = 0;
}

void assoc_clear(struct assoc *a)
{
    child_stop(&a->child);
    json_decref(a->info);
    a->info = NULL;
}

static void start_asking(struct assoc *a, const char *account)
{
    struct err ignored = ERR_INIT;

    if (!child_running(&a->child))
        (void)child_start(&a->child, ask, (void *)(uintptr_t)account, CHILD_MS,
                          &ignored);
}

static void keep(json_t *line, void *context)
{
    struct assoc *a = context;

    json_decref(a->info);
    a->info = json_incref(line);
    a->at_ms = clock_mono_ms();
}

/* Take a finished child's answer, waiting no longer than that. */
static void settle(struct assoc *a, int wait_ms)
{
    if (child_running(&a->child) && child_wait(&a->child, wait_ms) == 1) {
        child_lines(&a->child, keep, a);
        buf_clear(&a->child.out);
    }
}

static int64_t age(const struct assoc *a)
{
    return a->info == NULL ? INT64_MAX : clock_mono_ms() - a->at_ms;
}

void assoc_refresh(struct assoc *a, const char *account)
{
    settle(a, 0);
    if (age(a) > FRESH_MS)
        start_asking(a, account);
}

int assoc_resolve(struct assoc *a, const char *account,
                  const char *wanted_account, const char *wanted_qos,
                  bool by_map, char **out_account, char **out_qos,
                  struct err *e)
{
    struct err first = ERR_INIT;

    settle(a, 0);
    if (age(a) > USABLE_MS && !(by_map && a->info == NULL)) {
        start_asking(a, account);
        settle(a, WAIT_MS);
    }
    if (assoc_choose(a->info, wanted_account, wanted_qos, out_account, out_qos,
                     &first) == 0)
        return 0;
    /* He may have been added a moment ago. */
    if (age(a) > RETRY_MS) {
        start_asking(a, account);
        settle(a, WAIT_MS);
    }
    return assoc_choose(a->info, wanted_account, wanted_qos, out_account,
                        out_qos, e);
}
