/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A generation: what is allowed, as one content-addressed, root-owned folder
 *
 *   store/<sha256>/manifest.json         {"version":1,"files":{path: sha256}}
 *   store/<sha256>/people.json           people_json()
 *   store/<sha256>/keys.json             {"<kid>": "<PEM>"}
 *   store/<sha256>/catalog/workflows.json    allowlist_json()
 *   store/<sha256>/catalog/templates/NAME.sh prelude.sh and the bodies
 *   store/<sha256>.state                 "active" | "retired" | "revoked"
 *   store/current                        symlink -> <sha256>
 *
 * The name is the SHA-256 of manifest.json's bytes. Loading verifies every
 * file's digest. A worker gets `catalog/` as an open directory, nothing else.
 * Thread rule: immutable after load; reference-counted with atomic counts.
 */
#ifndef BROKER_GENERATION_H
#define BROKER_GENERATION_H

#include "auth/people.h"
#include "base/err.h"
#include "workflows/workflow.h"

#include <jansson.h>
#include <stdbool.h>

enum { GENERATION_ID_LEN = 64 };

struct generation {
    char id[GENERATION_ID_LEN + 1];
    int catalog_fd; /* O_PATH|O_DIRECTORY; templates/ is below it */
    int templates_fd;
    struct allowlist *allowlist;
    struct people *people; /* NULL when loaded from a catalog only */
    json_t *keys;          /* NULL likewise */
    int refs;
};

/* Load store/<id>; id NULL: what `current` names. Errors ERR_CONFIG:
 * generation_missing generation_digest generation_revoked + those of the
 * parts. One reference is owned by the caller. */
int generation_load(const char *store, const char *id, struct generation **out,
                    struct err *e);
/* From a worker's inherited catalog directory (people, keys: NULL). The digest
 * of workflows.json is not checked again. */
int generation_from_catalog(int catalog_fd, struct generation **out,
                            struct err *e);
struct generation *generation_ref(struct generation *g);
void generation_unref(struct generation *g);

/* Compile and install (root; sluice-admin). The .yaml files of workflows_dir
 * and the templates they name are read, linted and written to store/<id>;
 * nothing is switched (the state is "retired" until then). out_id has
 * GENERATION_ID_LEN + 1 bytes. Idempotent. */
int generation_install(const char *store, const char *workflows_dir,
                       const char *templates_dir, const json_t *people,
                       const json_t *keys, gid_t group, char *out_id,
                       struct err *e);
/* Move `current` (atomic rename of a symlink); the new one becomes active, the
 * one before it retired. */
int generation_switch(const char *store, const char *id, struct err *e);
/* What `current` names: 1, or 0 when there is none yet. id has
 * GENERATION_ID_LEN + 1 bytes. */
int generation_current(const char *store, char *id, struct err *e);
bool generation_id_valid(const char *id); /* 64 lower-case hex digits */
/* "active", "retired" or "revoked". Borrowed, static. ERR_CONFIG
 * generation_missing. */
const char *generation_state(const char *store, const char *id, struct err *e);
/* Read a template and look at its form. Owned text, or NULL: ERR_CONFIG
 * template_name template_missing template_shebang template_crlf template_nul
 * template_too_large. */
char *generation_template(int templates_dirfd, const char *name, size_t *len,
                          struct err *e);

#endif
