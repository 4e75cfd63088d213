/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The choice of account and QOS. No libslurm call, so that unit tests link it.
 */
#include "broker/slurm/assoc.h"

#include <slurm/slurm_errno.h>
#include <stdlib.h>
#include <string.h>

static int refuse(struct err *e, int number, const char *code, const char *text)
{
    (void)err_set(e, ERR_SLURM, code, "%s", text);
    if (e != NULL)
        e->sys = number;
    return -1;
}

static bool has(const json_t *names, const char *name)
{
    size_t i;
    json_t *item;

    json_array_foreach(names, i, item) if (strcmp(json_string_value(item),
                                                  name) == 0) return true;
    return false;
}

static int copy(const char *s, char **out, struct err *e)
{
    *out = s != NULL ? strdup(s) : NULL;
    return s == NULL || *out != NULL ? 0 : err_nomem(e);
}

/* Also the way out when nothing is known: what was asked for, unjudged. */
static int take(const char *account, const char *qos, char **out_account,
                char **out_qos, struct err *e)
{
    if (copy(account, out_account, e) != 0)
        return -1;
    if (copy(qos, out_qos, e) == 0)
        return 0;
    free(*out_account);
    *out_account = NULL;
    return -1;
}

/* As slurmctld chooses: the only one there is, else the association's. */
static const char *default_qos(const json_t *row, const json_t *list)
{
    if (json_array_size(list) == 1)
        return json_string_value(json_array_get(list, 0));
    return json_string_value(json_object_get(row, "default_qos"));
}

int assoc_choose(const json_t *info, const char *wanted_account,
                 const char *wanted_qos, char **out_account, char **out_qos,
                 struct err *e)
{
    const json_t *accounts = json_object_get(info, "accounts"), *row, *list;
    const char *account = wanted_account, *qos = wanted_qos;

    *out_account = *out_qos = NULL;
    if (json_integer_value(json_object_get(info, "visible")) == 0)
        return take(account, qos, out_account, out_qos, e);
    if (account == NULL)
        account = json_string_value(json_object_get(info, "default"));
    if (account == NULL && json_object_size(accounts) == 0)
        return refuse(e, ESLURM_INVALID_ACCOUNT, "slurm_invalid_account",
                      "this account has no association with Slurm");
    if (account == NULL)
        return take(NULL, qos, out_account, out_qos, e);
    row = json_object_get(accounts, account);
    if (row == NULL)
        return refuse(e, ESLURM_INVALID_ACCOUNT, "slurm_invalid_account",
                      "this person has no association with the Slurm account");
    list = json_object_get(row, "qos");
    if (qos == NULL)
        qos = default_qos(row, list);
    else if (json_array_size(list) > 0 && !has(list, qos))
        return refuse(e, ESLURM_INVALID_QOS, "slurm_invalid_qos",
                      "the person's association does not have this QOS");
    return take(account, qos, out_account, out_qos, e);
}
