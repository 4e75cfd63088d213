/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/caps.h"

#include <errno.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/prctl.h>

static const cap_value_t kept[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
enum { KEPT_COUNT = sizeof(kept) / sizeof(kept[0]) };

static int failed(struct err *e, const char *what)
{
    return err_sys(e, ERR_CONFIG, errno, "caps_failed", "%s", what);
}

/* Permitted and effective become exactly `v`; inheritable empty. */
static int set_exactly(const cap_value_t *v, int n)
{
    cap_t c = cap_init();
    int r = -1;

    if (c == NULL)
        return -1;
    if ((n == 0 || (cap_set_flag(c, CAP_PERMITTED, n, v, CAP_SET) == 0 &&
                    cap_set_flag(c, CAP_EFFECTIVE, n, v, CAP_SET) == 0)) &&
        cap_set_proc(c) == 0)
        r = 0;
    (void)cap_free(c);
    return r;
}

static bool have(cap_value_t v)
{
    cap_flag_value_t on = CAP_CLEAR;
    cap_t c = cap_get_proc();

    if (c != NULL)
        (void)cap_get_flag(c, v, CAP_PERMITTED, &on);
    (void)cap_free(c);
    return on == CAP_SET;
}

/* cap_get_bound() is -1 beyond the kernel's last capability. */
static int empty_bounding(struct err *e)
{
    cap_value_t v;

    for (v = 0; cap_get_bound(v) >= 0; v++) {
        if (cap_get_bound(v) == 1 && cap_drop_bound(v) != 0)
            return err_sys(e, ERR_CONFIG, errno, "caps_bounding",
                           "the bounding set can't be emptied (CAP_SETPCAP "
                           "is needed at start)");
    }
    return 0;
}

static int raise_setpcap(struct err *e)
{
    static const cap_value_t first[] = {CAP_SETUID, CAP_SETGID, CAP_KILL,
                                        CAP_SETPCAP};

    if (!have(CAP_SETPCAP))
        return 0; /* fine where the bounding set is empty already */
    if (set_exactly(first, sizeof(first) / sizeof(first[0])) != 0)
        return failed(e, "capset");
    return 0;
}

static int start_people(struct err *e)
{
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        if (!have(kept[i]))
            return err_set(e, ERR_CONFIG, "caps_missing",
                           "CAP_SETUID, CAP_SETGID and CAP_KILL are needed in "
                           "people mode");
    }
    if (raise_setpcap(e) != 0 || empty_bounding(e) != 0)
        return -1;
    if (set_exactly(kept, KEPT_COUNT) != 0)
        return failed(e, "capset");
    return 0;
}

int caps_start(bool self_mode, struct err *e)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failed(e, "prctl");
    if (self_mode)
        return caps_drop_all() == 0 ? 0 : failed(e, "capset");
    if (start_people(e) != 0)
        return -1;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return failed(e, "ambient set");
    return 0;
}

static bool all_clear(void)
{
    cap_t now = cap_get_proc(), none = cap_init();
    bool same = now != NULL && none != NULL && cap_compare(now, none) == 0;

    (void)cap_free(now);
    (void)cap_free(none);
    return same;
}

int caps_drop_all(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return -1;
    if (set_exactly(NULL, 0) != 0)
        return -1;
    if (!all_clear()) {
        errno = EPERM;
        return -1;
    }
    return 0;
}
