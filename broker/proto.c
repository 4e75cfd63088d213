/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "broker/proto.h"

#include <stddef.h>
#include <string.h>

static const char *const verb_names[VERB_COUNT] = {
    [VERB_PLAN] = "plan",         [VERB_SUBMIT] = "submit",
    [VERB_FINISH] = "finish",     [VERB_CANCEL] = "cancel",
    [VERB_HOLD] = "hold",         [VERB_RELEASE] = "release",
    [VERB_LOG] = "log",           [VERB_ARTIFACTS] = "artifacts",
    [VERB_ARTIFACT] = "artifact", [VERB_OUTCOME] = "outcome",
    [VERB_CHECK] = "check",       [VERB_PREPARE] = "prepare",
};

static const char *const stage_names[] = {
    [STAGE_NONE] = "none",
    [STAGE_INIT] = "init",
    [STAGE_SENDING] = "sending",
};

static int find(const char *const *names, size_t n, const char *word)
{
    if (word == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0)
            return (int)i;
    return -1;
}

const char *proto_verb_name(enum proto_verb v)
{
    return (unsigned)v < VERB_COUNT ? verb_names[v] : "?";
}

int proto_verb_parse(const char *name)
{
    return find(verb_names, VERB_COUNT, name);
}

const char *proto_stage_name(enum proto_stage s)
{
    return (unsigned)s <= STAGE_SENDING ? stage_names[s] : "?";
}

int proto_stage_parse(const char *name)
{
    return find(stage_names, STAGE_SENDING + 1, name);
}
