/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A site of its own for a test: a state folder below /tmp with sluice.yaml (in
 * self mode, so that any account can run the test), workflows and templates.
 */
#ifndef TESTS_UNIT_TEST_CONFIG_SITE_H
#define TESTS_UNIT_TEST_CONFIG_SITE_H

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SITE_PATH_MAX = 512 };

struct site {
    char dir[64], conf[96], account[64];
};

static inline void site_put(const char *path, const void *p, size_t n,
                            mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static inline void site_write(const struct site *s, const char *name,
                              const char *text)
{
    char path[SITE_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    site_put(path, text, strlen(text), 0644);
}

/* Owned text of a file, or NULL. */
static inline char *site_read(const struct site *s, const char *name)
{
    char path[SITE_PATH_MAX];
    char *text = calloc(1, 1 << 20);
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    f = fopen(path, "re");
    if (f == NULL) {
        free(text);
        return NULL;
    }
    assert_non_null(text);
    (void)!fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    return text;
}

static inline mode_t site_mode(const struct site *s, const char *name)
{
    char path[SITE_PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static inline void site_mkdir(const struct site *s, const char *name)
{
    char path[SITE_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", s->dir, name);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static inline void site_copy(const struct site *s, const char *from,
                             const char *to, const char *end)
{
    DIR *d = opendir(from);
    struct dirent *de;
    char path[1024];
    char *text = malloc(1 << 20);

    assert_non_null(d);
    assert_non_null(text);
    while ((de = readdir(d)) != NULL) {
        size_t n = strlen(de->d_name), k = strlen(end);
        FILE *f;
        if (n <= k || strcmp(de->d_name + n - k, end) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", from, de->d_name);
        f = fopen(path, "re");
        assert_non_null(f);
        n = fread(text, 1, 1 << 20, f);
        (void)fclose(f);
        (void)snprintf(path, sizeof(path), "%s/%s/%s", s->dir, to, de->d_name);
        site_put(path, text, n, 0644);
    }
    free(text);
    (void)closedir(d);
}

static inline void site_people(const struct site *s, const char *people)
{
    char text[4096];

    (void)snprintf(text, sizeof(text),
                   "version: 1\nmode: self\nstate_dir: %s\n"
                   "cluster: {name: test}\n%s",
                   s->dir, people);
    site_write(s, "sluice.yaml", text);
}

static inline void site_make(struct site *s)
{
    static const char *const dirs[] = {"etc",
                                       "share",
                                       "share/sluice",
                                       "share/sluice/workflows",
                                       "share/sluice/templates",
                                       "jobs",
                                       "run",
                                       "run/spawn",
                                       "run/sluiced",
                                       NULL};
    const struct passwd *pw = getpwuid(geteuid());
    char people[512];

    assert_non_null(pw);
    (void)snprintf(s->account, sizeof(s->account), "%s", pw->pw_name);
    (void)snprintf(s->dir, sizeof(s->dir), "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(chmod(s->dir, 0755), 0);
    (void)snprintf(s->conf, sizeof(s->conf), "%s/sluice.yaml", s->dir);
    for (size_t i = 0; dirs[i] != NULL; i++)
        site_mkdir(s, dirs[i]);
    site_write(s, "jobs/.sluice-jobs-root", "");
    site_copy(s, SLUICE_SOURCE_DIR "/workflows", "share/sluice/workflows",
              ".yaml");
    site_copy(s, SLUICE_SOURCE_DIR "/templates", "share/sluice/templates",
              ".sh");
    (void)snprintf(people, sizeof(people),
                   "people:\n  alice: {account: %s, roles: [researcher, "
                   "operator], groups: [canary]}\n",
                   s->account);
    site_people(s, people);
}

static inline int site_unlink(const char *path, const struct stat *st, int flag,
                              struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void site_remove(const struct site *s)
{
    (void)nftw(s->dir, site_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
