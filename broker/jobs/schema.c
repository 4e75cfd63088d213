/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/jobs/schema.h"

#include "audit/audit.h"
#include "audit/ledger.h"
#include "auth/principal.h"
#include "broker/jobs/store.h"

enum { TABLES_MAX = 32 };

/* db_open_writer keeps the list by pointer, so it lives as long as we do. The
 * content is the same each time: two openers can't disagree. */
static const char *const *append_only(void)
{
    static const char *names[TABLES_MAX + 1];
    const char *const *const lists[] = {audit_append_only, ledger_append_only,
                                        store_append_only};
    size_t n = 0;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (size_t k = 0; lists[i][k] && n < TABLES_MAX; k++)
            names[n++] = lists[i][k];
    }
    names[n] = NULL;
    return names;
}

int schema_open_writer(const char *path, struct db **out, struct err *e)
{
    /* In order of user_version; a released one is never edited. */
    const struct db_migration list[] = {
        {1, principal_sql},
        {2, audit_schema},
        {3, ledger_schema},
        {4, store_schema},
    };

    return db_open_writer(path, list, sizeof list / sizeof list[0],
                          append_only(), out, e);
}
