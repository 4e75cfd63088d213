/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/access.h"

#include "audit/audit.h"
#include "base/log.h"
#include "broker/jobs/service.h"

#include <stdio.h>
#include <string.h>

static int not_found(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "job_not_found", "no such job");
}

bool access_may_read(const struct identity *who, const struct job_row *j)
{
    return j->principal == who->principal || identity_has(who, ACCESS_READ_ALL);
}

static bool may_act(const struct identity *who, const struct job_row *j)
{
    if (identity_has(who, ACCESS_ACT_ALL))
        return true;
    return j->principal == who->principal && identity_has(who, ROLE_RESEARCHER);
}

int access_job(const struct ask *a, const char *job_id, enum access what,
               struct job_row *out, struct err *e)
{
    char ulid[ULID_LEN + 1];
    int rc = 0;

    /* A malformed id names no job: the same answer again. */
    if (id_job_parse(job_id, ulid))
        return not_found(e);
    if (store_job_get(a->reader, ulid, out, e))
        return -1;
    if (what == ACCESS_ACT && may_act(a->who, out))
        return 0; /* an admin may act on what he may not read */
    if (!access_may_read(a->who, out))
        rc = not_found(e);
    else if (what == ACCESS_ACT)
        rc = err_set(e, ERR_DENIED, "role_missing",
                     "this takes the job's owner or an operator");
    if (rc)
        store_job_clear(out);
    return rc;
}

static int run_note(struct db *d, void *arg, struct err *e)
{
    return audit_append(d, arg, NULL, e);
}

static int note(const struct ask *a, enum audit_kind kind, const char *ulid,
                const char *action, const char *code, struct err *e)
{
    struct audit_row row = {.kind = kind,
                            .request = a->request,
                            .principal = a->who->principal,
                            .token_id =
                                a->who->token_id[0] ? a->who->token_id : NULL,
                            .client = a->who->client,
                            .action = action,
                            .job = ulid,
                            .code = code};

    return writer_call(a->service->writer, run_note, &row, e);
}

bool access_is_refusal(const struct err *why)
{
    switch (why->class) {
    case ERR_INVALID:
    case ERR_UNAUTHENTIC:
    case ERR_DENIED:
    case ERR_NOT_FOUND:
    case ERR_CONFLICT:
    case ERR_TOO_LARGE:
    case ERR_UNSUPPORTED:
    case ERR_LIMITED:
    case ERR_SLURM:
        return true;
    default:
        return false;
    }
}

void access_note_refusal(const struct ask *a, const char *action,
                         const char *ulid, const struct err *why)
{
    struct err e = ERR_INIT;

    if (access_is_refusal(why) &&
        note(a, AUDIT_DECIDED, ulid, action, why->code, &e))
        log_err("refusal_unwritten", a->request, &e);
}

int access_note_read(const struct ask *a, const struct job_row *j,
                     const char *action, struct err *e)
{
    if (a->noted || j->principal == a->who->principal)
        return 0;
    return note(a, AUDIT_READ, j->ulid, action, NULL, e);
}

int access_note_all(const struct ask *a, const char *action, struct err *e)
{
    return note(a, AUDIT_READ, NULL, action, NULL, e);
}

static const char sql_label[] = "SELECT label FROM principal WHERE id = ?1";

int access_label(struct db *d, int64_t principal, char *label, struct err *e)
{
    struct db_stmt *s = db_prepare(d, sql_label, e);
    int rc;

    label[0] = '\0';
    if (!s)
        return -1;
    db_bind_int(s, 1, principal);
    rc = db_step(s, e);
    if (rc != 1)
        return rc;
    snprintf(label, ACCESS_LABEL_MAX, "%s", db_col_text(s, 0));
    db_reset(s);
    return 0;
}
