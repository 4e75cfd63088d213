/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * sluice logs: the exact bytes, from an offset on; -f goes on until the job is
 * final and everything was read.
 */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CHUNK = 256 * 1024 };

struct logs {
    const char *id, *stream;
    const char *attempt; /* NULL: the last */
    bool follow;
    char offset[32];
    bool complete, moved;
};

static const struct option options[] = {
    {"follow", no_argument, NULL, 'f'},
    {"stderr", no_argument, NULL, 'e'},
    {"attempt", required_argument, NULL, 'a'},
    {"offset", required_argument, NULL, 'o'},
    {0}};

static int read_chunk(struct cli *c, struct logs *l)
{
    char path[256];
    const struct call call = {
        .method = "GET", .path = path, .accept = "text/plain"};
    struct reply r = {0};
    int rc;

    snprintf(path, sizeof(path),
             "/v1/jobs/%s/logs?stream=%s&offset=%s&limit=%d%s%s", l->id,
             l->stream, l->offset, CHUNK, l->attempt != NULL ? "&attempt=" : "",
             l->attempt != NULL ? l->attempt : "");
    rc = exchange(c, &call, &r);
    if (rc == 0) {
        l->moved = strcmp(l->offset, r.next_offset) != 0;
        fwrite(buf_str(&r.body), 1, r.body.len, stdout);
        fflush(stdout);
        snprintf(l->offset, sizeof(l->offset), "%s", r.next_offset);
        l->complete = strcmp(r.complete, "true") == 0;
    }
    reply_clear(&r);
    return rc;
}

static int parse(struct logs *l, int argc, char **argv)
{
    int option;

    while ((option = getopt_long(argc, argv, "f", options, NULL)) != -1) {
        if (option == 'f')
            l->follow = true;
        else if (option == 'e')
            l->stream = "stderr";
        else if (option == 'a')
            l->attempt = optarg;
        else if (option == 'o')
            snprintf(l->offset, sizeof(l->offset), "%s", optarg);
        else
            return -1;
    }
    if (optind + 1 != argc)
        return -1;
    l->id = argv[optind];
    return 0;
}

int cmd_logs(struct cli *c, int argc, char **argv)
{
    struct logs l = {.stream = "stdout", .offset = "0"};
    const struct timespec pause = {.tv_sec = 1};
    int rc;

    if (parse(&l, argc, argv) < 0)
        return usage_error(c, "logs", NULL);
    for (;;) {
        rc = read_chunk(c, &l);
        if (rc != 0 || l.complete || (!l.moved && !l.follow))
            return rc;
        if (!l.moved)
            nanosleep(&pause, NULL);
    }
}
