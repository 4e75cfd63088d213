/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What `check` and `apply` find wrong, one line each:
 *     file:line: rule: text
 * Thread rule: one thread.
 */
#ifndef BROKER_ADMIN_LINT_H
#define BROKER_ADMIN_LINT_H

#include "base/err.h"
#include "broker/admin/admin.h"

#include <stdio.h>

struct lint {
    FILE *to;
    int findings;
};

/* A finding in words of our own. line 0: the file as a whole. */
void lint_say(struct lint *l, const char *file, int line, const char *rule,
              const char *text);

/* One workflow file; each entry is judged on its own, so that one bad entry
 * does not hide the next. templates_dir NULL: templates are not looked for. */
void lint_workflows(struct lint *l, const char *file,
                    const char *templates_dir);
/* One template: its form, and `bash -n` where there is a bash. */
void lint_template(struct lint *l, const char *file);
/* sluice.yaml with its people, and the folders it names. */
void lint_config(struct lint *l, struct admin *a);

#endif
