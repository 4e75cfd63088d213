/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The jobs root is what the site says it is, or nothing is written.
 */
#include "broker/files/storage.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char table[] =
    "21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "36 21 0:33 /export /srv/jobs rw master:2 shared:3 - nfs4 store:/jobs rw\n"
    "360 21 0:34 / /srv/other rw - nfs4 store:/other rw\n";

static int has(unsigned long id, const char *type, const char *source)
{
    return storage_matches(table, id, type, strlen(type), source);
}

static void the_very_mount_is_compared(void **state)
{
    (void)state;
    assert_true(has(36, "nfs4", "store:/jobs"));
    assert_true(has(21, "ext4", "/dev/vda"));
    assert_false(has(36, "nfs", "store:/jobs"));
    assert_false(has(36, "nfs4", "store:/job"));
    assert_false(has(36, "nfs4", "store:/jobs/x"));
    assert_false(has(21, "nfs4", "store:/jobs"));
    assert_false(has(3, "nfs4", "store:/jobs"));
    assert_false(storage_matches("", 21, "ext4", 4, "/dev/vda"));
    assert_false(storage_matches("21 cut", 21, "ext4", 4, "/dev/vda"));
}

static void a_real_mount(void **state)
{
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = ERR_INIT;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(storage_check(fd, "mount:proc:proc", &e), 0);
    assert_int_equal(storage_check(fd, "mount:nfs4:store:/jobs", &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "storage_kind");
    (void)close(fd);
}

static void a_directory_is_any_folder(void **state)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(storage_check(fd, "directory", &e), 0);
    assert_int_equal(storage_check(fd, NULL, &e), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_very_mount_is_compared),
        cmocka_unit_test(a_real_mount),
        cmocka_unit_test(a_directory_is_any_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
