/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/yaml.h"

#include "base/json.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* BRACKETS_MAX: libyaml's work per token grows with the flow depth, so text
 * that opens many brackets is refused before libyaml sees it. The count knows
 * nothing of quotes and comments, therefore it is far above JSON_DEPTH_MAX;
 * the exact limit is held event by event. */
enum { BRACKETS_MAX = 256, POINTER_BYTES = 512 };

struct yaml_lines {
    json_t *map; /* JSON pointer -> line */
};

struct parse {
    yaml_parser_t y;
    yaml_event_t ev; /* the current event, valid while `have` */
    bool have;
    const char *name;
    struct yaml_lines *lines; /* NULL: not wanted */
    char pointer[POINTER_BYTES];
    int depth;
    struct err *e;
};

static json_t *node(struct parse *p);

/* --- messages ----------------------------------------------------------- */

static int line_of(const struct parse *p)
{
    return (int)p->ev.start_mark.line + 1;
}

static int refuse(struct parse *p, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct parse *p, const char *code, const char *fmt, ...)
{
    bool first = !err_is_set(p->e);
    char text[ERR_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    (void)err_set(p->e, ERR_CONFIG, code, "%s:%d: %s", p->name, line_of(p),
                  text);
    return first ? err_at(p->e, p->pointer) : -1;
}

static int libyaml_failed(struct parse *p)
{
    const yaml_parser_t *y = &p->y;
    size_t line = y->problem_mark.line + 1;

    if (y->error == YAML_MEMORY_ERROR)
        return err_nomem(p->e);
    return err_set(p->e, ERR_CONFIG, "yaml_syntax", "%s:%zu: %s", p->name, line,
                   y->problem != NULL ? y->problem : "not YAML");
}

/* --- events ------------------------------------------------------------- */

static void drop_event(struct parse *p)
{
    if (p->have)
        yaml_event_delete(&p->ev);
    p->have = false;
}

static int next_event(struct parse *p)
{
    drop_event(p);
    if (yaml_parser_parse(&p->y, &p->ev) != 1)
        return libyaml_failed(p);
    p->have = true;
    return 0;
}

static int expect(struct parse *p, yaml_event_type_t type, const char *what)
{
    if (next_event(p) != 0)
        return -1;
    if (p->ev.type != type)
        return refuse(p, "yaml_syntax", "%s is expected", what);
    return 0;
}

static int plain_node(struct parse *p)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (p->ev.type == YAML_ALIAS_EVENT)
        return refuse(p, "yaml_refused", "aliases are not taken");
    if (p->ev.type == YAML_SCALAR_EVENT) {
        anchor = p->ev.data.scalar.anchor;
        tag = p->ev.data.scalar.tag;
    } else if (p->ev.type == YAML_SEQUENCE_START_EVENT) {
        anchor = p->ev.data.sequence_start.anchor;
        tag = p->ev.data.sequence_start.tag;
    } else if (p->ev.type == YAML_MAPPING_START_EVENT) {
        anchor = p->ev.data.mapping_start.anchor;
        tag = p->ev.data.mapping_start.tag;
    }
    if (anchor != NULL)
        return refuse(p, "yaml_refused", "anchors are not taken");
    if (tag != NULL)
        return refuse(p, "yaml_refused", "tags are not taken");
    return 0;
}

/* --- scalars: the core schema of YAML 1.2, chapter 10.3 ------------------ */

enum kind { IS_STRING, IS_NULL, IS_TRUE, IS_FALSE, IS_INT, IS_FLOAT, IS_RADIX };

static bool one_of(const char *s, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(s, *words) == 0)
            return true;
    }
    return false;
}

static const char *skip_digits(const char *s)
{
    return s + strspn(s, "0123456789");
}

/* [-+]? ( \.[0-9]+ | [0-9]+ ( \.[0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *s)
{
    const char *p, *q;

    s += *s == '-' || *s == '+';
    p = skip_digits(s);
    q = *p == '.' ? skip_digits(p + 1) : p;
    if (p == s && q - p < 2)
        return false;
    if (*q == 'e' || *q == 'E') {
        q += q[1] == '-' || q[1] == '+' ? 2 : 1;
        p = skip_digits(q);
        if (p == q)
            return false;
        q = p;
    }
    return *q == '\0';
}

static bool is_named_float(const char *s)
{
    static const char *const words[] = {
        ".inf",  ".Inf",  ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
        "-.Inf", "-.INF", ".nan", ".NaN",  ".NAN",  NULL};

    return one_of(s, words);
}

/* 0o17 and 0x1f: numbers to one reader, text to the next. */
static bool is_radix(const char *s)
{
    const char *digits;

    if (s[0] != '0' || (s[1] != 'o' && s[1] != 'x') || s[2] == '\0')
        return false;
    digits = s[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
    return s[2 + strspn(s + 2, digits)] == '\0';
}

static enum kind classify(const char *s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    const char *digits = s + (*s == '-' || *s == '+');

    if (one_of(s, nulls))
        return IS_NULL;
    if (one_of(s, trues))
        return IS_TRUE;
    if (one_of(s, falses))
        return IS_FALSE;
    if (*digits != '\0' && *skip_digits(digits) == '\0')
        /* 007 keeps its zeros: a code, not a quantity. */
        return digits[0] == '0' && digits[1] != '\0' ? IS_STRING : IS_INT;
    if (is_float(s) || is_named_float(s))
        return IS_FLOAT;
    return is_radix(s) ? IS_RADIX : IS_STRING;
}

static bool is_plain(const struct parse *p)
{
    return p->ev.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static const char *scalar_text(const struct parse *p)
{
    return (const char *)p->ev.data.scalar.value;
}

/* JSON strings are C strings here: "\0" of a quoted scalar would cut one. */
static int no_nul(struct parse *p)
{
    if (strlen(scalar_text(p)) != p->ev.data.scalar.length)
        return refuse(p, "yaml_refused", "a NUL in a string");
    return 0;
}

static json_t *integer(struct parse *p, const char *s)
{
    int64_t v = 0;

    if (*s == '+')
        s++;
    if (strcmp(s, "-0") != 0 && num_parse(s, INT64_MIN, INT64_MAX, &v) != 0) {
        (void)refuse(p, "yaml_refused",
                     "an integer of more than 64 bits: quote it");
        return NULL;
    }
    return json_integer((json_int_t)v);
}

static json_t *plain(struct parse *p, const char *s)
{
    switch (classify(s)) {
    case IS_NULL:
        return json_null();
    case IS_TRUE:
        return json_true();
    case IS_FALSE:
        return json_false();
    case IS_INT:
        return integer(p, s);
    case IS_FLOAT:
        (void)refuse(p, "yaml_float",
                     "\"%.40s\" is a floating-point number: quote it", s);
        return NULL;
    case IS_RADIX:
        (void)refuse(p, "yaml_refused",
                     "\"%.40s\": write it in decimal, or quote it", s);
        return NULL;
    case IS_STRING:
        break;
    }
    return json_string(s);
}

static json_t *scalar(struct parse *p)
{
    json_t *v;

    if (no_nul(p) != 0)
        return NULL;
    if (is_plain(p))
        v = plain(p, scalar_text(p));
    else
        v = json_string(scalar_text(p));
    if (v == NULL && !err_is_set(p->e))
        (void)err_nomem(p->e);
    return v;
}

/* --- collections -------------------------------------------------------- */

static int enter(struct parse *p)
{
    if (++p->depth > JSON_DEPTH_MAX)
        return refuse(p, "yaml_too_deep", "nested deeper than %d levels",
                      JSON_DEPTH_MAX);
    return 0;
}

static void note_line(struct parse *p)
{
    if (p->lines != NULL &&
        json_put_int(p->lines->map, p->pointer, line_of(p)) != 0)
        (void)err_nomem(p->e);
}

static json_t *sequence(struct parse *p)
{
    size_t used = strlen(p->pointer), i;
    json_t *list = json_array(), *v;
    char index[24];

    if (list == NULL || enter(p) != 0)
        goto fail;
    for (i = 0;; i++) {
        if (next_event(p) != 0)
            goto fail;
        if (p->ev.type == YAML_SEQUENCE_END_EVENT)
            break;
        (void)snprintf(index, sizeof(index), "%zu", i);
        json_pointer(p->pointer, sizeof(p->pointer), p->pointer, index);
        note_line(p);
        v = node(p);
        if (v == NULL || json_array_append_new(list, v) != 0)
            goto fail;
        p->pointer[used] = '\0';
    }
    p->depth--;
    return list;
fail:
    (void)err_nomem(p->e); /* unless a better reason is there */
    json_decref(list);
    return NULL;
}

/* An owned copy of the key; p->pointer is that of its value from here on. */
static char *mapping_key(struct parse *p, const json_t *obj)
{
    const char *s;

    if (plain_node(p) != 0)
        return NULL;
    if (p->ev.type != YAML_SCALAR_EVENT) {
        (void)refuse(p, "yaml_refused", "a key must be a plain name");
        return NULL;
    }
    if (no_nul(p) != 0)
        return NULL;
    s = scalar_text(p);
    if (is_plain(p) && strcmp(s, "<<") == 0) {
        (void)refuse(p, "yaml_refused", "merge keys are not taken");
        return NULL;
    }
    if (is_plain(p) && classify(s) != IS_STRING) {
        (void)refuse(p, "yaml_refused",
                     "the key \"%.40s\" is no string: quote it", s);
        return NULL;
    }
    json_pointer(p->pointer, sizeof(p->pointer), p->pointer, s);
    if (json_object_get(obj, s) != NULL) {
        (void)refuse(p, "yaml_duplicate_key", "\"%.64s\" stands here twice", s);
        return NULL;
    }
    note_line(p);
    return strdup(s);
}

static int member(struct parse *p, json_t *obj)
{
    char *key = mapping_key(p, obj);
    json_t *v = NULL;
    int r = -1;

    if (key == NULL || next_event(p) != 0)
        goto out;
    v = node(p);
    if (v != NULL)
        r = json_put(obj, key, v);
out:
    free(key);
    return r;
}

static json_t *mapping(struct parse *p)
{
    size_t used = strlen(p->pointer);
    json_t *obj = json_object();

    if (obj == NULL || enter(p) != 0)
        goto fail;
    for (;;) {
        if (next_event(p) != 0)
            goto fail;
        if (p->ev.type == YAML_MAPPING_END_EVENT)
            break;
        if (member(p, obj) != 0)
            goto fail;
        p->pointer[used] = '\0';
    }
    p->depth--;
    return obj;
fail:
    (void)err_nomem(p->e); /* unless a better reason is there */
    json_decref(obj);
    return NULL;
}

/* The value that begins with the current event. */
static json_t *node(struct parse *p)
{
    if (plain_node(p) != 0)
        return NULL;
    switch (p->ev.type) {
    case YAML_SCALAR_EVENT:
        return scalar(p);
    case YAML_SEQUENCE_START_EVENT:
        return sequence(p);
    case YAML_MAPPING_START_EVENT:
        return mapping(p);
    default:
        (void)refuse(p, "yaml_syntax", "a value is expected");
        return NULL;
    }
}

/* --- documents ---------------------------------------------------------- */

static bool has_directives(const struct parse *p)
{
    return p->ev.data.document_start.version_directive != NULL ||
           p->ev.data.document_start.tag_directives.start !=
               p->ev.data.document_start.tag_directives.end;
}

static json_t *document(struct parse *p)
{
    json_t *v;

    if (expect(p, YAML_STREAM_START_EVENT, "a stream") != 0 ||
        expect(p, YAML_DOCUMENT_START_EVENT, "some content") != 0)
        return NULL;
    if (has_directives(p)) {
        (void)refuse(p, "yaml_refused", "directives are not taken");
        return NULL;
    }
    if (next_event(p) != 0)
        return NULL;
    note_line(p);
    v = node(p);
    if (v == NULL)
        return NULL;
    if (expect(p, YAML_DOCUMENT_END_EVENT, "the end") != 0 ||
        next_event(p) != 0)
        goto fail;
    if (p->ev.type != YAML_STREAM_END_EVENT) {
        (void)refuse(p, "yaml_refused", "one document in a file");
        goto fail;
    }
    if (!err_is_set(p->e))
        return v;
fail:
    json_decref(v);
    return NULL;
}

static int scan_brackets(const char *s, size_t n, const char *name,
                         struct err *e)
{
    int line = 1, open = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        line += s[i] == '\n';
        if (s[i] == '[' || s[i] == '{')
            open++;
        else if ((s[i] == ']' || s[i] == '}') && open > 0)
            open--;
        if (open > BRACKETS_MAX)
            return err_set(e, ERR_CONFIG, "yaml_too_deep",
                           "%s:%d: more than %d open brackets", name, line,
                           BRACKETS_MAX);
    }
    return 0;
}

static struct yaml_lines *lines_new(struct err *e)
{
    struct yaml_lines *l = calloc(1, sizeof(*l));

    if (l != NULL)
        l->map = json_object();
    if (l != NULL && l->map != NULL)
        return l;
    (void)err_nomem(e);
    free(l);
    return NULL;
}

static json_t *run(struct parse *p, const char *text, size_t len)
{
    json_t *v;

    if (yaml_parser_initialize(&p->y) != 1) {
        (void)err_nomem(p->e);
        return NULL;
    }
    yaml_parser_set_encoding(&p->y, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p->y, (const unsigned char *)text, len);
    v = document(p);
    drop_event(p);
    yaml_parser_delete(&p->y);
    return v;
}

json_t *yaml_parse(const char *text, size_t len, const char *name,
                   struct yaml_lines **lines, struct err *e)
{
    struct err inner = ERR_INIT; /* e may be NULL, and is not to be judged */
    struct parse p;
    json_t *v = NULL;

    memset(&p, 0, sizeof(p));
    p.name = name;
    p.e = &inner;
    if (len > YAML_BYTES_MAX)
        (void)err_set(&inner, ERR_CONFIG, "yaml_too_large",
                      "%s: more than %d bytes", name, YAML_BYTES_MAX);
    else if (scan_brackets(text, len, name, &inner) == 0 &&
             (lines == NULL || (p.lines = lines_new(&inner)) != NULL))
        v = run(&p, text, len);
    if (v == NULL) {
        yaml_lines_free(p.lines);
        if (e != NULL && !err_is_set(e))
            *e = inner;
        return NULL;
    }
    if (lines != NULL)
        *lines = p.lines;
    return v;
}

int yaml_line(const struct yaml_lines *lines, const char *pointer)
{
    if (lines == NULL || pointer == NULL)
        return 0;
    return (int)json_integer_value(json_object_get(lines->map, pointer));
}

void yaml_lines_free(struct yaml_lines *lines)
{
    if (lines == NULL)
        return;
    json_decref(lines->map);
    free(lines);
}
