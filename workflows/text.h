/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What names, words and texts may look like. Everything that ends up in an
 * environment, a script's #SBATCH line or a path passes one of these.
 * Thread rule: pure functions.
 */
#ifndef WORKFLOWS_TEXT_H
#define WORKFLOWS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* 1 to max characters of A-Z a-z 0-9 and `extra`, not beginning with '-'. */
bool text_chars(const char *s, size_t max, const char *extra);

/* UTF-8 without NUL, C0 and C1 controls, bidi controls (U+061C U+200E U+200F
 * U+202A-202E U+2066-2069), U+2028 and U+2029. lines: '\n' and '\t' too. */
bool text_clean(const char *s, size_t n, bool lines);

/* A relative path without empty, "." or ".." parts; text_clean besides. */
bool text_relative(const char *s, size_t n);
/* An absolute one, at most 200 bytes, no '/' at its end. */
bool text_absolute(const char *s);

bool text_param_name(const char *s);  /* ^[a-z][a-z0-9_]{0,30}$ */
bool text_env_name(const char *s);    /* ^[A-Za-z_][A-Za-z0-9_]{0,63}$ */
bool text_secret_name(const char *s); /* ^[A-Z][A-Z0-9_]{0,62}$ */
bool text_template(const char *s);    /* a file name that ends in ".sh" */
bool text_module(const char *s);      /* ^[A-Za-z0-9][A-Za-z0-9._+/-]{0,127}$ */
bool text_subject(const char *s);     /* of allow: name, group, tag:name */
bool text_title(const char *s);       /* 1 to 200 clean bytes */
bool text_env_value(const char *s);   /* 0 to 4096 clean bytes */
bool text_sha256(const char *s);      /* 64 lower-case hex digits */

/* Would this variable change what bash or the loader runs, or forge what Slurm
 * and Sluice say? Refused in `environment` and as a secret's name. */
bool text_env_reserved(const char *s);

#endif
