/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The people map as it will take effect: sluice.yaml's entries, and what its
 * rules make of this host's Unix groups.
 */
#include "broker/admin/map.h"

#include "auth/rules.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>

static int add_once(struct strs *out, const char *login, struct err *e)
{
    if (strs_has(out, login))
        return 0;
    return strs_add(out, login) == 0 ? 0 : err_nomem(e);
}

/* Those whose primary group it is stand in no member list. */
static int add_primary(gid_t gid, struct strs *out, struct err *e)
{
    const struct passwd *p;
    int rc = 0;

    setpwent();
    while (rc == 0 && (p = getpwent()) != NULL) {
        if (p->pw_gid == gid)
            rc = add_once(out, p->pw_name, e);
    }
    endpwent();
    return rc;
}

static int members(const char *unix_group, struct strs *out, struct err *e)
{
    const struct group *g;
    gid_t gid;

    errno = 0;
    g = getgrnam(unix_group);
    if (g == NULL && errno != 0)
        return err_sys(e, ERR_UNAVAILABLE, errno, "people_group", "%s",
                       unix_group);
    if (g == NULL)
        return err_set(e, ERR_CONFIG, "people_group_unknown",
                       "there is no Unix group %s", unix_group);
    gid = g->gr_gid;
    for (char **m = g->gr_mem; *m != NULL; m++) {
        if (add_once(out, *m, e) < 0)
            return -1;
    }
    return add_primary(gid, out, e);
}

int map_expand(const json_t *tree, const char *file,
               const struct yaml_lines *lines, json_t **out, struct err *e)
{
    return rules_expand(tree, file, lines, members, out, e);
}

int map_read(const struct admin *a, json_t **out, struct err *e)
{
    json_t *tree = NULL;
    int rc;

    if (config_people(a->config_file, &tree, e) != 0)
        return -1;
    rc = map_expand(tree, a->config_file, NULL, out, e);
    json_decref(tree);
    return rc;
}
