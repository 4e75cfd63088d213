/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64]; /* the test's folder; the working directory too */
static int dirfd_;

static char *at(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];

    (void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
    return p;
}

static void put(const char *name, const char *text, mode_t mode)
{
    int fd =
        openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int n = 0;

    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n - 2;
}

static int set_up(void **state)
{
    (void)state;
    (void)umask(022);
    (void)snprintf(dir, sizeof(dir), "/tmp/test_base_file.XXXXXX");
    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return -1;
    dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dirfd_ < 0 ? -1 : 0;
}

static int remove_all(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        (void)execlp("rm", "rm", "-rf", dir, (char *)NULL);
        _exit(127);
    }
    (void)close(dirfd_);
    if (chdir("/") != 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status == 0 ? 0 : -1;
}

/* --- reading ------------------------------------------------------------ */

static void whole_file(void **state)
{
    struct err e = ERR_INIT;
    size_t n = 0;
    char *s;

    (void)state;
    put("f", "hello", 0644);
    s = file_read(dirfd_, "f", 5, &n, &e);
    assert_non_null(s);
    assert_int_equal(n, 5);
    assert_string_equal(s, "hello");
    free(s);
    s = file_read(AT_FDCWD, at("f"), 100, NULL, &e);
    assert_string_equal(s, "hello");
    free(s);
    put("empty", "", 0644);
    s = file_read(dirfd_, "empty", 5, &n, &e);
    assert_string_equal(s, "");
    assert_int_equal(n, 0);
    free(s);
}

static void no_file(const char *name, size_t max, const char *code)
{
    struct err e = ERR_INIT;
    size_t n = 77;

    assert_null(file_read(dirfd_, name, max, &n, &e));
    assert_int_equal(e.class, ERR_CONFIG);
    assert_string_equal(e.code, code);
    assert_non_null(strstr(e.text, name));
    assert_int_equal(n, 77);
}

static void what_is_not_read(void **state)
{
    (void)state;
    put("f", "hello", 0644);
    no_file("f", 4, "file_too_large");
    no_file("f", 0, "file_too_large");
    no_file("absent", 9, "file_open");
    assert_int_equal(symlinkat("f", dirfd_, "link"), 0);
    no_file("link", 9, "file_open"); /* O_NOFOLLOW */
    assert_int_equal(mkdirat(dirfd_, "folder", 0755), 0);
    no_file("folder", 9, "file_type");
    /* A FIFO without a writer must not hang us. */
    assert_int_equal(mkfifoat(dirfd_, "fifo", 0600), 0);
    no_file("fifo", 9, "file_type");
    assert_null(file_read(AT_FDCWD, "/dev/zero", 9, NULL, NULL));
}

/* /proc says 0 bytes; the cap holds all the same. */
static void proc_file(void **state)
{
    struct err e = ERR_INIT;
    size_t n = 0;
    char *s = file_read(AT_FDCWD, "/proc/self/status", 65536, &n, &e);

    (void)state;
    assert_non_null(s);
    assert_memory_equal(s, "Name:", 5);
    assert_int_equal(n, strlen(s));
    free(s);
    assert_null(file_read(AT_FDCWD, "/proc/self/status", 10, &n, &e));
    assert_string_equal(e.code, "file_too_large");
}

static void descriptor_is_read_from_the_start(void **state)
{
    int fd = memfd_create("t", MFD_CLOEXEC);
    struct err e = ERR_INIT;
    size_t n = 0;
    char *s;

    (void)state;
    assert_int_equal(write(fd, "a\0c", 3), 3);
    s = file_read_fd(fd, 3, &n, &e);
    assert_non_null(s);
    assert_int_equal(n, 3);
    assert_memory_equal(s, "a\0c", 4);
    free(s);
    (void)close(fd);
    assert_null(file_read_fd(fd, 3, &n, &e));
    assert_string_equal(e.code, "file_read");
}

/* --- writing ------------------------------------------------------------ */

static void written_durably(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;
    char *s;
    int before;

    (void)state;
    put("w", "old", 0644);
    before = entries();
    (void)umask(077); /* the mode is exact all the same */
    assert_int_equal(
        file_write(dirfd_, "w", "new!", 4, 0640, (uid_t)-1, (gid_t)-1, &e), 0);
    (void)umask(022);
    assert_int_equal(fstatat(dirfd_, "w", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    s = file_read(dirfd_, "w", 9, NULL, &e);
    assert_string_equal(s, "new!");
    free(s);
    assert_int_equal(entries(), before);
    assert_int_equal(
        file_write(AT_FDCWD, at("w"), NULL, 0, 0600, (uid_t)-1, (gid_t)-1, &e),
        0);
    s = file_read(dirfd_, "w", 9, NULL, &e);
    assert_string_equal(s, "");
    free(s);
}

static void link_is_replaced_not_followed(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;
    char *s;

    (void)state;
    put("target", "keep", 0644);
    assert_int_equal(symlinkat("target", dirfd_, "l"), 0);
    assert_int_equal(
        file_write(dirfd_, "l", "x", 1, 0600, (uid_t)-1, (gid_t)-1, &e), 0);
    assert_int_equal(fstatat(dirfd_, "l", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
    s = file_read(dirfd_, "target", 9, NULL, &e);
    assert_string_equal(s, "keep");
    free(s);
}

static void failed_write_leaves_no_trace(void **state)
{
    struct err e = ERR_INIT;
    char name[NAME_MAX + 1];
    int before;

    (void)state;
    assert_int_equal(mkdirat(dirfd_, "d", 0755), 0);
    before = entries();
    assert_int_equal(
        file_write(dirfd_, "d", "x", 1, 0600, (uid_t)-1, (gid_t)-1, &e),
        -1); /* rename over a folder */
    assert_string_equal(e.code, "file_write");
    assert_int_equal(e.sys, EISDIR);
    assert_int_equal(entries(), before);
    assert_int_equal(
        file_write(dirfd_, "none/x", "x", 1, 0600, (uid_t)-1, (gid_t)-1, NULL),
        -1);
    assert_int_equal(
        file_write(dirfd_, "", "x", 1, 0600, (uid_t)-1, (gid_t)-1, NULL), -1);
    assert_int_equal(
        file_write(dirfd_, "d/", "x", 1, 0600, (uid_t)-1, (gid_t)-1, NULL), -1);
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_int_equal(
        file_write(dirfd_, name, "x", 1, 0600, (uid_t)-1, (gid_t)-1, NULL), -1);
    assert_int_equal(entries(), before);
}

/* A short write (here: the size limit, as a full disk would) keeps the old. */
static void old_content_survives_a_short_write(void **state)
{
    struct rlimit old, small;
    struct err e = ERR_INIT;
    char big[8192], *s;
    int before, r;

    (void)state;
    memset(big, 'x', sizeof(big));
    put("keep", "old", 0644);
    before = entries();
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    r = file_write(dirfd_, "keep", big, sizeof(big), 0600, (uid_t)-1, (gid_t)-1,
                   &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(r, -1);
    assert_int_equal(e.sys, EFBIG);
    assert_int_equal(entries(), before);
    s = file_read(dirfd_, "keep", 9, NULL, NULL);
    assert_string_equal(s, "old");
    free(s);
}

static void owner_is_set(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(file_write(dirfd_, "o", "x", 1, 0440, 1234, 4321, &e), 0);
    assert_int_equal(fstatat(dirfd_, "o", &st, 0), 0);
    assert_int_equal(st.st_uid, 1234);
    assert_int_equal(st.st_gid, 4321);
    assert_int_equal(st.st_mode & 07777, 0440);
}

static void write_all_reports(void **state)
{
    int p[2], fd;
    char big[4096];

    (void)state;
    memset(big, 0, sizeof(big));
    assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
    while (file_write_all(p[1], big, sizeof(big)) == 0)
        continue;
    assert_int_equal(errno, EAGAIN);
    (void)close(p[0]);
    (void)close(p[1]);
    assert_int_equal(file_write_all(p[1], "x", 1), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(file_write_all(-1, NULL, 0), 0);
    fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, "x", 1), -1);
    assert_int_equal(errno, ENOSPC);
    (void)close(fd);
}

/* --- trust -------------------------------------------------------------- */

static int trusted(const char *path, bool secret, bool group, struct err *e)
{
    err_clear(e);
    return file_check_trusted(path, geteuid(), secret, group, e);
}

static void distrusted(const char *path, bool secret, bool group,
                       const char *code)
{
    struct err e = ERR_INIT;

    if (trusted(path, secret, group, &e) != -1)
        fail_msg("%s was trusted", path);
    assert_int_equal(e.class, ERR_CONFIG);
    if (strcmp(e.code, code) != 0)
        fail_msg("%s: %s, not %s (%s)", path, e.code, code, e.text);
}

/* The folder of the test is itself below /tmp, which is 1777 and root's. */
static void sticky_parent_of_root_is_fine(void **state)
{
    struct err e = ERR_INIT;
    struct stat st;

    (void)state;
    assert_int_equal(stat("/tmp", &st), 0);
    assert_int_equal(st.st_mode & 01777, 01777);
    put("t", "x", 0644);
    assert_int_equal(trusted(at("t"), false, false, &e), 0);
    assert_int_equal(trusted("t", false, false, &e), 0); /* relative */
    assert_int_equal(trusted("./t", false, false, &e), 0);
    assert_int_equal(trusted(dir, false, false, &e), 0);
    assert_int_equal(trusted("/etc/passwd", false, false, &e), 0);
    assert_int_equal(trusted("/etc//passwd", false, false, &e), 0);
}

static void writable_parent_is_not(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(mkdirat(dirfd_, "p", 0755), 0);
    put("p/t", "x", 0644);
    assert_int_equal(trusted("p/t", false, false, &e), 0);
    assert_int_equal(chmod("p", 0775), 0);
    distrusted("p/t", false, false, "config_parent");
    assert_int_equal(chmod("p", 0757), 0);
    distrusted("p/t", false, false, "config_parent");
    assert_int_equal(chmod("p", 0700), 0);
    assert_int_equal(trusted("p/t", true, false, &e), -1); /* t is 0644 */
    assert_int_equal(trusted("p/t", false, false, &e), 0);
}

/* Sticky helps only when root set it: the owner of a folder may always remove
 * from it. */
static void sticky_parent_of_another_is_not(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdirat(dirfd_, "s", 0755), 0);
    put("s/t", "x", 0644);
    assert_int_equal(chown("s", 1234, 1234), 0);
    assert_int_equal(chmod("s", 01777), 0);
    distrusted("s/t", false, false, "config_parent");
}

static void modes_of_the_file(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    put("m", "x", 0644);
    assert_int_equal(trusted("m", false, false, &e), 0);
    distrusted("m", true, false, "config_mode");
    distrusted("m", true, true, "config_mode");
    assert_int_equal(chmod("m", 0640), 0);
    assert_int_equal(trusted("m", true, true, &e), 0);
    distrusted("m", true, false, "config_mode");
    assert_int_equal(chmod("m", 0600), 0);
    assert_int_equal(trusted("m", true, false, &e), 0);
    assert_int_equal(chmod("m", 0664), 0);
    distrusted("m", false, false, "config_mode");
    assert_int_equal(chmod("m", 0646), 0);
    distrusted("m", false, false, "config_mode");
    assert_int_equal(chmod("m", 0650), 0); /* group x is no group read */
    distrusted("m", true, true, "config_mode");
    assert_int_equal(chmod("m", 0604), 0);
    distrusted("m", true, true, "config_mode");
}

static void owners(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    if (geteuid() != 0)
        skip();
    put("own", "x", 0644);
    assert_int_equal(chown("own", 1234, 1234), 0);
    assert_int_equal(file_check_trusted(at("own"), 1234, false, false, &e), 0);
    assert_int_equal(file_check_trusted(at("own"), 1235, false, false, &e), -1);
    assert_string_equal(e.code, "config_owner");
    assert_non_null(strstr(e.text, "own"));
    err_clear(&e);
    assert_int_equal(file_check_trusted(at("own"), (uid_t)-1, false, false, &e),
                     -1);
    assert_string_equal(e.code, "config_owner");
}

static void absent_file(void **state)
{
    (void)state;
    distrusted("absent", false, false, "file_open");
    distrusted("absent/x", false, false, "file_open");
    distrusted("/", false, false, "config_parent");
    put("plain", "x", 0644);
    distrusted("plain/x", false, false, "config_parent");
}

static void good_links_are_walked(void **state)
{
    struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(mkdirat(dirfd_, "gen1", 0755), 0);
    put("gen1/t", "x", 0644);
    assert_int_equal(symlink("gen1", "current"), 0);
    assert_int_equal(symlink(at("gen1/t"), "abs"), 0);
    assert_int_equal(symlink("current/../abs", "chain"), 0);
    assert_int_equal(trusted("current/t", false, false, &e), 0);
    assert_int_equal(trusted("abs", false, false, &e), 0);
    assert_int_equal(trusted("chain", false, false, &e), 0);
    assert_int_equal(trusted("gen1/../gen1/t", false, false, &e), 0);
}

/* The path as it is resolved must be safe, not only its two ends. */
static void links_through_bad_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(dirfd_, "open", 0777), 0);
    assert_int_equal(chmod("open", 0777), 0);
    put("good", "x", 0644);
    put("open/bad", "x", 0644);
    assert_int_equal(symlink("../good", "open/hop"), 0);
    assert_int_equal(symlink("open/hop", "via"), 0);
    assert_int_equal(symlink("open/bad", "into"), 0);
    distrusted("via", false, false, "config_parent");
    distrusted("into", false, false, "config_parent");
    distrusted("open/../good", false, false, "config_parent");
    assert_int_equal(symlink("loop", "loop"), 0);
    distrusted("loop", false, false, "config_parent");
}

static void link_of_another_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    put("real", "x", 0644);
    assert_int_equal(symlink("real", "foreign"), 0);
    assert_int_equal(lchown("foreign", 1234, 1234), 0);
    distrusted("foreign", false, false, "config_parent");
}

/* --- descriptors -------------------------------------------------------- */

static int beneath(const char *path, int flags)
{
    int fd = file_openat_beneath(dirfd_, path, flags, 0600);

    if (fd >= 0) {
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        (void)close(fd);
        return 0;
    }
    return errno;
}

static void beneath_stays_beneath(void **state)
{
    (void)state;
    put("b", "x", 0644);
    assert_int_equal(mkdirat(dirfd_, "sub", 0755), 0);
    put("sub/b", "x", 0644);
    assert_int_equal(symlink("b", "blink"), 0);
    assert_int_equal(symlink("sub", "sublink"), 0);
    if (beneath("b", O_RDONLY) == ENOSYS)
        skip();
    assert_int_equal(beneath("b", O_RDONLY), 0);
    assert_int_equal(beneath("sub/b", O_RDONLY), 0);
    assert_int_equal(beneath("sub/../b", O_RDONLY), 0);
    assert_int_equal(beneath("blink", O_RDONLY), ELOOP);
    assert_int_equal(beneath("sublink/b", O_RDONLY), ELOOP);
    assert_int_equal(beneath("../etc/passwd", O_RDONLY), EXDEV);
    assert_int_equal(beneath("/etc/passwd", O_RDONLY), EXDEV);
    assert_int_equal(beneath("none", O_RDONLY), ENOENT);
    assert_int_equal(beneath("new", O_WRONLY | O_CREAT | O_EXCL), 0);
    assert_int_equal(beneath("new", O_WRONLY | O_CREAT | O_EXCL), EEXIST);
}

static void others_get_cloexec(void **state)
{
    int a = dup(dirfd_), b = fcntl(dirfd_, F_DUPFD, 100);

    (void)state;
    assert_int_equal(fcntl(a, F_GETFD), 0);
    if (file_cloexec_others(100) != 0 && errno == ENOSYS)
        skip();
    assert_int_equal(fcntl(a, F_GETFD), 0);
    assert_int_equal(fcntl(b, F_GETFD), FD_CLOEXEC);
    (void)close(a);
    (void)close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file),
        cmocka_unit_test(what_is_not_read),
        cmocka_unit_test(proc_file),
        cmocka_unit_test(descriptor_is_read_from_the_start),
        cmocka_unit_test(written_durably),
        cmocka_unit_test(link_is_replaced_not_followed),
        cmocka_unit_test(failed_write_leaves_no_trace),
        cmocka_unit_test(old_content_survives_a_short_write),
        cmocka_unit_test(owner_is_set),
        cmocka_unit_test(write_all_reports),
        cmocka_unit_test(sticky_parent_of_root_is_fine),
        cmocka_unit_test(writable_parent_is_not),
        cmocka_unit_test(sticky_parent_of_another_is_not),
        cmocka_unit_test(modes_of_the_file),
        cmocka_unit_test(owners),
        cmocka_unit_test(absent_file),
        cmocka_unit_test(good_links_are_walked),
        cmocka_unit_test(links_through_bad_folders),
        cmocka_unit_test(link_of_another_owner),
        cmocka_unit_test(beneath_stays_beneath),
        cmocka_unit_test(others_get_cloexec),
    };

    return cmocka_run_group_tests(tests, set_up, remove_all);
}
