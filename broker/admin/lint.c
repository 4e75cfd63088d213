/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/admin/lint.h"
#include "broker/admin/map.h"

#include "auth/people.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/yaml.h"
#include "broker/generation.h"
#include "workflows/workflow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <shadow.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASH "/bin/bash"
enum { SAID_MAX = 4096 };

void lint_say(struct lint *l, const char *file, int line, const char *rule,
              const char *text)
{
    l->findings++;
    (void)fprintf(l->to, "%s:%d: %s: %s\n", file, line, rule, text);
}

/* "file:12: text" -> 12 and text; else 0 and the whole. */
static int cut_place(const char *file, const char *text, const char **rest)
{
    size_t n = strlen(file), digits;
    char number[12];
    int64_t line = 0;

    *rest = text;
    if (strncmp(text, file, n) != 0 || text[n] != ':')
        return 0;
    digits = strspn(text + n + 1, "0123456789");
    if (digits == 0 || digits >= sizeof(number) ||
        strncmp(text + n + 1 + digits, ": ", 2) != 0)
        return 0;
    memcpy(number, text + n + 1, digits);
    number[digits] = '\0';
    *rest = text + n + 1 + digits + 2;
    (void)num_parse(number, 0, 1000000, &line);
    return (int)line;
}

static void lint_err(struct lint *l, const char *file, const struct err *e)
{
    const char *rest;
    int line = cut_place(file, e->text, &rest);

    lint_say(l, file, line, e->code, rest);
}

/* --- YAML --------------------------------------------------------------- */

static json_t *read_yaml(struct lint *l, const char *file,
                         struct yaml_lines **lines)
{
    struct err e = ERR_INIT;
    json_t *tree = NULL;
    size_t len = 0;
    char *text = file_read(AT_FDCWD, file, YAML_BYTES_MAX, &len, &e);

    *lines = NULL;
    if (text != NULL)
        tree = yaml_parse(text, len, file, lines, &e);
    free(text);
    if (tree == NULL)
        lint_err(l, file, &e);
    return tree;
}

/* The file without its workflows, and then each of them alone. */
static json_t *alone(const json_t *tree, const char *name, json_t *entry)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)tree);
    json_t *one = json_object();
    int r = 0;

    if (name != NULL)
        r = json_object_set(one, name, entry);
    r |= json_put(copy, "workflows", one);
    if (r != 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

static void find_template(struct lint *l, const char *file, int line,
                          const struct workflow *w, const char *templates_dir)
{
    struct err e = ERR_INIT;
    int fd = open(templates_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t len = 0;
    char *text = NULL;

    if (fd >= 0)
        text = generation_template(fd, w->template_name, &len, &e);
    else
        err_sys(&e, ERR_CONFIG, errno, "template_missing", "%s", templates_dir);
    /* Its form is told once, for the template's own file. */
    if (text == NULL && (strcmp(e.code, "template_missing") == 0 ||
                         strcmp(e.code, "template_name") == 0))
        lint_say(l, file, line, e.code, e.text);
    free(text);
    if (fd >= 0)
        (void)close(fd);
}

/* Without a limit a job would take all the memory of its nodes; the worker
 * refuses to submit it, so it is better said here. */
static void lint_memory(struct lint *l, const char *file, int line,
                        const struct workflow *w)
{
    if (json_object_get(w->resources, "mem_per_node") == NULL &&
        json_object_get(w->resources, "mem_per_cpu") == NULL)
        lint_say(l, file, line, "workflow_memory",
                 "resources need mem_per_node or mem_per_cpu");
}

static void lint_entry(struct lint *l, const char *file, const json_t *tree,
                       const char *name, json_t *entry,
                       const struct yaml_lines *lines,
                       const char *templates_dir)
{
    struct err e = ERR_INIT;
    struct allowlist *a = allowlist_new();
    json_t *one = alone(tree, name, entry);
    const struct workflow *w;
    char pointer[ERR_POINTER_MAX];

    if (a == NULL || one == NULL)
        err_nomem(&e);
    else
        (void)allowlist_add(a, one, file, lines, &e);
    json_pointer(pointer, sizeof(pointer), "/workflows", name);
    w = err_is_set(&e) ? NULL : allowlist_find(a, name);
    if (err_is_set(&e))
        lint_err(l, file, &e);
    if (w != NULL)
        lint_memory(l, file, yaml_line(lines, pointer), w);
    if (w != NULL && templates_dir != NULL)
        find_template(l, file, yaml_line(lines, pointer), w, templates_dir);
    allowlist_free(a);
    json_decref(one);
}

void lint_workflows(struct lint *l, const char *file, const char *templates_dir)
{
    struct yaml_lines *lines = NULL;
    struct err e = ERR_INIT;
    struct allowlist *whole = allowlist_new();
    json_t *tree = read_yaml(l, file, &lines), *entries, *v;
    int before = l->findings;
    const char *name;

    if (tree == NULL || whole == NULL)
        goto out;
    entries = json_object_get(tree, "workflows");
    json_object_foreach(entries, name, v)
        lint_entry(l, file, tree, name, v, lines, templates_dir);
    /* What only the whole shows: version, unknown keys, and so on. */
    if (l->findings == before &&
        allowlist_add(whole, tree, file, lines, &e) != 0)
        lint_err(l, file, &e);
out:
    allowlist_free(whole);
    json_decref(tree);
    yaml_lines_free(lines);
}

/* --- templates ---------------------------------------------------------- */

/* Starts bash -n with its stderr at p[1]. -1: not started. */
static pid_t bash_start(const char *file, int to)
{
    char *const env[] = {(char[]){"LC_ALL=C"}, NULL};
    char *name = strdup(file);
    char *const argv[] = {(char[]){"bash"}, (char[]){"-n"}, (char[]){"--"},
                          name, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    if (name == NULL)
        return -1;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, to, STDERR_FILENO);
    if (posix_spawn(&pid, BASH, &actions, NULL, argv, env) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    free(name);
    return pid;
}

/* What bash says about the syntax; its exit status, or -1: no verdict. */
static int bash_n(const char *file, char *said, size_t n)
{
    int p[2], status = -1;
    size_t got = 0;
    ssize_t k;
    pid_t pid;

    said[0] = '\0';
    if (pipe2(p, O_CLOEXEC) != 0)
        return -1;
    pid = bash_start(file, p[1]);
    (void)close(p[1]);
    while (pid > 0 && got < n - 1 &&
           (k = read(p[0], said + got, n - 1 - got)) > 0)
        got += (size_t)k;
    said[got] = '\0';
    (void)close(p[0]);
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
        return WEXITSTATUS(status);
    return -1;
}

/* "file: line 3: text", one a line. */
static void lint_bash(struct lint *l, const char *file, char *said)
{
    size_t n = strlen(file);
    char *s;

    while ((s = strsep(&said, "\n")) != NULL) {
        int64_t line = 0;
        const char *text = s;

        if (*s == '\0')
            continue;
        if (strncmp(s, file, n) == 0 && strncmp(s + n, ": line ", 7) == 0) {
            char *number = s + n + 7, *end = number;
            end += strspn(number, "0123456789");
            if (*end == ':') {
                *end = '\0';
                (void)num_parse(number, 1, 1000000, &line);
                text = end[1] == ' ' ? end + 2 : end + 1;
            }
        }
        lint_say(l, file, (int)line, "template_syntax", text);
    }
}

/* A bash that can't be asked doesn't make a template clean. */
static void lint_syntax(struct lint *l, const char *file)
{
    char said[SAID_MAX];
    int status;

    if (access(BASH, X_OK) != 0)
        return;
    status = bash_n(file, said, sizeof(said));
    if (status > 0)
        lint_bash(l, file, said);
    if (status < 0 || (status > 0 && said[0] == '\0'))
        lint_say(l, file, 0, "template_syntax",
                 BASH " -n gave no verdict on it");
}

void lint_template(struct lint *l, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash == NULL ? file : slash + 1;
    struct err e = ERR_INIT;
    size_t len = 0;
    char *dir = strndup(slash == NULL ? "." : file,
                        slash == NULL ? 1 : (size_t)(slash - file) + 1);
    char *text = NULL;
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0)
        text = generation_template(fd, base, &len, &e);
    else
        err_sys(&e, ERR_CONFIG, errno, "template_missing", "%s", file);
    if (text == NULL)
        lint_err(l, file, &e);
    else
        lint_syntax(l, file);
    free(text);
    free(dir);
    if (fd >= 0)
        (void)close(fd);
}

/* --- the whole ---------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n > k && strcmp(s + n - k, end) == 0;
}

/* A folder's files that end so, in order. */
static void lint_folder(struct lint *l, const char *dir, const char *end,
                        const char *templates_dir)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, NULL, alphasort);
    char *path;

    if (n < 0)
        lint_say(l, dir, 0, "config_folder", strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (name[0] != '.' && ends_with(name, end) &&
            asprintf(&path, "%s/%s", dir, name) >= 0) {
            if (templates_dir != NULL)
                lint_workflows(l, path, templates_dir);
            else
                lint_template(l, path);
            free(path);
        }
        free(list[i]);
    }
    free(list);
}

/* Two files that name the same workflow: only all of them together show it. */
static void lint_together(struct lint *l, const struct config *c)
{
    struct allowlist *a = allowlist_new();
    struct dirent **list = NULL;
    int n = a != NULL ? scandir(c->paths.workflows, &list, NULL, alphasort) : 0;
    struct err e = ERR_INIT;

    for (int i = 0; i < n; i++) {
        struct yaml_lines *lines = NULL;
        json_t *tree = NULL;
        char *path = NULL;

        if (list[i]->d_name[0] != '.' && ends_with(list[i]->d_name, ".yaml") &&
            asprintf(&path, "%s/%s", c->paths.workflows, list[i]->d_name) >= 0)
            tree = read_yaml(l, path, &lines);
        err_clear(&e);
        if (tree != NULL && allowlist_add(a, tree, path, lines, &e) != 0)
            lint_err(l, path, &e);
        json_decref(tree);
        yaml_lines_free(lines);
        free(path);
        free(list[i]);
    }
    free(list);
    allowlist_free(a);
}

/* Root sees what sluice-resolve can't: the shadow file. */
static bool account_expired(const char *account)
{
    const struct spwd *sp = getspnam(account);

    return sp != NULL && sp->sp_expire > 0 &&
           clock_now() / 86400 >= sp->sp_expire;
}

static const char *account_wrong(const struct config *c, const char *account)
{
    const struct passwd *pw = getpwnam(account);

    if (pw == NULL)
        return "there is no such Unix account";
    if (c->self_mode)
        return pw->pw_uid == geteuid()
                   ? NULL
                   : "in self mode this must be the running account";
    if (pw->pw_uid == 0 || (int64_t)pw->pw_uid < c->accounts.min_uid)
        return "the account's uid is below min_uid";
    if (pw->pw_uid == c->accounts.sluice_uid ||
        pw->pw_uid == c->accounts.spawn_uid ||
        pw->pw_uid == c->accounts.watch_uid)
        return "is a service account";
    if (account_expired(account))
        return "the account has expired";
    return NULL;
}

static void lint_accounts(struct lint *l, const struct admin *a,
                          const struct people *people,
                          const struct yaml_lines *lines)
{
    for (size_t i = 0; i < people_count(people); i++) {
        const struct person *p = people_at(people, i);
        const char *wrong =
            p->account != NULL ? account_wrong(&a->cfg, p->account) : NULL;
        char pointer[ERR_POINTER_MAX], text[256];

        if (wrong == NULL)
            continue;
        json_pointer(pointer, sizeof(pointer), "/people", p->name);
        (void)snprintf(text, sizeof(text), "%s: account %s: %s", p->name,
                       p->account, wrong);
        lint_say(l, a->config_file, yaml_line(lines, pointer), "people_account",
                 text);
    }
    if (a->cfg.self_mode && people_count(people) != 1)
        lint_say(l, a->config_file, yaml_line(lines, "/people"), "people_self",
                 "self mode has exactly one person");
}

static void lint_people(struct lint *l, const struct admin *a)
{
    struct yaml_lines *lines = NULL;
    json_t *tree = read_yaml(l, a->config_file, &lines);
    json_t *map = NULL;
    struct people *people = NULL;
    struct err e = ERR_INIT;

    if (tree != NULL && json_object_get(tree, "people") == NULL)
        lint_say(l, a->config_file, 0, "people_missing",
                 "there is no people: section");
    else if (tree != NULL &&
             (map_expand(json_object_get(tree, "people"), a->config_file, lines,
                         &map, &e) != 0 ||
              people_load(map, a->config_file, lines, &people, &e) != 0))
        lint_err(l, a->config_file, &e);
    else if (tree != NULL)
        lint_accounts(l, a, people, lines);
    people_free(people);
    json_decref(map);
    json_decref(tree);
    yaml_lines_free(lines);
}

void lint_config(struct lint *l, struct admin *a)
{
    struct err e = ERR_INIT;
    int before;

    if (admin_load(a, false, &e) != 0) {
        lint_err(l, a->config_file, &e);
        return;
    }
    lint_people(l, a);
    lint_folder(l, a->cfg.paths.templates, ".sh", NULL);
    before = l->findings;
    lint_folder(l, a->cfg.paths.workflows, ".yaml", a->cfg.paths.templates);
    if (l->findings == before)
        lint_together(l, &a->cfg);
}
