/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The database's whole schema, in order of PRAGMA user_version: each module's
 * CREATE statements are one migration. A released one is never edited.
 */
#ifndef BROKER_JOBS_SCHEMA_H
#define BROKER_JOBS_SCHEMA_H

#include "base/db.h"
#include "base/err.h"

/* base/db's db_open_writer with the migrations and the modules' append-only
 * tables; its errors. */
int schema_open_writer(const char *path, struct db **out, struct err *e);

#endif
