/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/spawn/frame.h"

#include "base/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_MAX = 4096, VERB_MAX = 16 };

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "frame_bad", "not a request: %s", what);
}

/* --- reading -------------------------------------------------------------- */

static int copy_text(const json_t *body, const char *key, bool required,
                     char *out, size_t size, struct err *e)
{
    const char *s = NULL;

    if (json_get_str(body, key, required, size - 1, &s, "", e) != 0)
        return -1;
    (void)snprintf(out, size, "%s", s != NULL ? s : "");
    return 0;
}

static int read_token(struct op *o, const json_t *body, struct err *e)
{
    const char *s = NULL;

    if (json_get_str(body, "token", false, TOKEN_MAX, &s, "", e) != 0)
        return -1;
    if (s == NULL)
        return 0;
    if (s[0] == '\0')
        return bad(e, "an empty token");
    o->token = strdup(s);
    return o->token != NULL ? 0 : err_nomem(e);
}

static int read_verb(struct op *o, const json_t *body, struct err *e)
{
    char word[VERB_MAX + 1];

    if (copy_text(body, "verb", true, word, sizeof(word), e) != 0)
        return -1;
    o->rule = verbs_rule(proto_verb_parse(word));
    return o->rule != NULL ? 0 : bad(e, "verb");
}

static bool needs_ulid(const struct verb_rule *r)
{
    return (r->flags & (VERB_OF_JOB | VERB_NEW_JOB)) != 0 ||
           r->verb == VERB_OUTCOME;
}

static int check_names(struct op *o, struct err *e)
{
    o->is_system = strcmp(o->actor, "system") == 0;
    if (!id_ulid_valid(o->request))
        return bad(e, "request");
    if (o->ulid[0] != '\0' && !id_ulid_valid(o->ulid))
        return bad(e, "ulid");
    if (needs_ulid(o->rule) && o->ulid[0] == '\0')
        return bad(e, "it names no job");
    if (!id_name_valid(o->actor, PERSON_NAME_MAX))
        return bad(e, "actor");
    if (o->is_system && o->token != NULL)
        return bad(e, "system has no token");
    return generation_id_valid(o->generation_id) ? 0 : bad(e, "generation");
}

static int check_version(const json_t *body, struct err *e)
{
    static const char *const keys[] = {"v",     "request",    "ulid",
                                       "actor", "token",      "verb",
                                       "args",  "generation", NULL};
    int64_t v;

    if (json_only(body, keys, "", e) != 0)
        return -1;
    return json_get_int(body, "v", true, PROTO_VERSION, PROTO_VERSION, &v, "",
                        e);
}

static bool is_write_end(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    struct stat st;

    return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY &&
           fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int take_pipe(struct op *o, struct wire_msg *m, struct err *e)
{
    bool wanted = (o->rule->flags & VERB_PIPE) != 0;

    if (wanted != (m->fds[0] >= 0) || m->fds[1] >= 0)
        return bad(e, "its descriptors");
    if (!wanted)
        return 0;
    if (!is_write_end(m->fds[0]))
        return bad(e, "the descriptor is no pipe's write end");
    o->fd = wire_take_fd(m, 0);
    return 0;
}

int frame_read(struct op *o, struct wire_msg *m, struct err *e)
{
    const json_t *body = m->body;
    json_t *args = NULL;

    if (check_version(body, e) != 0 ||
        copy_text(body, "request", true, o->request, sizeof(o->request), e) !=
            0 ||
        copy_text(body, "ulid", false, o->ulid, sizeof(o->ulid), e) != 0 ||
        copy_text(body, "actor", true, o->actor, sizeof(o->actor), e) != 0 ||
        copy_text(body, "generation", true, o->generation_id,
                  sizeof(o->generation_id), e) != 0 ||
        read_token(o, body, e) != 0 || read_verb(o, body, e) != 0 ||
        json_get_obj(body, "args", true, &args, "", e) != 0 ||
        check_names(o, e) != 0)
        return -1;
    o->args = json_incref(args);
    return take_pipe(o, m, e);
}

/* jansson gives a pointer to its own bytes, and no way to wipe them. */
static void wipe_string(const json_t *s)
{
    explicit_bzero((void *)(uintptr_t)json_string_value(s),
                   json_string_length(s));
}

void frame_wipe(json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_string(v))
        wipe_string(v);
    json_object_foreach(v, key, item) frame_wipe(item);
    json_array_foreach(v, i, item) frame_wipe(item);
}

/* --- writing -------------------------------------------------------------- */

static json_t *checked(json_t *o, int failed)
{
    if (failed == 0)
        return o;
    json_decref(o);
    return NULL;
}

json_t *frame_event(const char *event)
{
    json_t *f = json_object();
    int r = json_put_int(f, "v", PROTO_VERSION);

    return checked(f, r | json_put_str(f, "event", event));
}

json_t *frame_stage(const struct op *o)
{
    json_t *f = frame_event("stage");
    int r = json_put_str(f, "request", o->request);

    return checked(f, r | json_put_str(f, "stage", proto_stage_name(o->stage)));
}

json_t *frame_result(const struct op *o)
{
    json_t *f = frame_event("result");
    int r = json_put_str(f, "request", o->request);

    r |= json_put_bool(f, "ok", !err_is_set(&o->err));
    if (err_is_set(&o->err)) {
        r |= json_put_str(f, "stage", proto_stage_name(o->stage));
        r |= wire_err_put(f, "error", &o->err);
    } else {
        r |= json_put(f, "result", json_deep_copy(o->result));
    }
    return checked(f, r);
}

/* The owner's account; names and defaults from the map while he is in it. */
static json_t *person_json(const struct op *o)
{
    const struct person *p =
        o->rec == NULL ? o->grant.person
                       : people_find(o->current->people, o->rec->actor);
    json_t *v = json_object();
    int r = json_put_str(v, "name", o->rec != NULL ? o->rec->actor : o->actor);

    r |= json_put_str(v, "account", o->account->name);
    r |= json_put_str(v, "home", o->account->home);
    r |= json_put_str(v, "shell", o->account->shell);
    r |= json_put_str(v, "slurm_account", p != NULL ? p->slurm_account : NULL);
    r |= json_put_str(v, "qos", p != NULL ? p->qos : NULL);
    return checked(v, r);
}

static int put_known(json_t *v, const char *key, int64_t n)
{
    return json_put(v, key, n > 0 ? json_integer(n) : json_null());
}

static json_t *job_json(const struct rec *x)
{
    char name[SLURM_NAME_MAX + 1];
    json_t *v = json_object();
    int r;

    if (id_slurm_name(x->workflow, x->ulid, name) != 0)
        return checked(v, -1);
    r = json_put_str(v, "workflow", x->workflow);
    r |= put_known(v, "job_id", x->job_id);
    r |= put_known(v, "submit_time", x->submit_time);
    r |= json_put_str(v, "name", name);
    r |= json_put_int(v, "uid", (int64_t)x->uid);
    return checked(v, r);
}

json_t *frame_task(const struct op *o, enum proto_verb verb, json_t *args,
                   bool with_job)
{
    json_t *f = json_object();
    int r = json_put_int(f, "v", PROTO_VERSION);

    r |= json_put_str(f, "request", o->request);
    r |= json_put_str(f, "verb", proto_verb_name(verb));
    r |= json_put_str(f, "ulid", o->ulid[0] != '\0' ? o->ulid : NULL);
    r |= json_put(f, "args", args);
    r |= json_put(f, "person", person_json(o));
    r |= json_put(f, "job", with_job ? job_json(o->rec) : json_null());
    return checked(f, r);
}
