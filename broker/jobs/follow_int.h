/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Inside the follower: follow.c (life, loop, commits), follow_news.c (what
 * watch and the tasks say), follow_clock.c (what is due).
 * Thread rule: the follow thread, but for what `lock` guards.
 */
#ifndef BROKER_JOBS_FOLLOW_INT_H
#define BROKER_JOBS_FOLLOW_INT_H

#include "base/db.h"
#include "base/log.h"
#include "broker/jobs/follow.h"
#include "broker/jobs/progress.h"
#include "broker/jobs/tasks.h"
#include "broker/jobs/track.h"

#include <pthread.h>

enum {
    FOLLOW_ASKS_MAX = 4,        /* open accounting asks: 50 ms each on 22.05 */
    FOLLOW_ASK_LOST_MS = 20000, /* an answer that is this late won't come */
    FOLLOW_GAP_MAX_MS = 10000,
    FOLLOW_PAUSE_MS = 5000, /* of a job whose step failed */
    FOLLOW_CORRECT_GAP_MAX_MS = 300000,
    FOLLOW_SEEN_MAX = 256 /* strange job ids that were audited */
};

struct follow {
    struct service *service;
    struct follow_times times;
    pthread_t thread;
    struct tasks *tasks;
    struct db *reader;
    int wake; /* eventfd */

    pthread_mutex_t lock; /* from here ... */
    int new_watch;        /* -1, or a socket that was handed over */
    bool spawn_up, stopping;
    struct added {
        char ulid[ULID_LEN + 1];
        struct added *next;
    } * added;
    struct task_answer *answers;
    struct follow_status status;
    int64_t poll_took_ms;
    bool poll_ok;
    struct spawn *spawn; /* ... to here */

    int watch;           /* -1: none */
    uint64_t connection; /* counts watch sockets */
    int64_t watch_lost;  /* mono ms */
    struct track track;
    int asks;                      /* open accounting asks */
    struct progress *head, **tail; /* to be committed */
    int64_t next_tick, next_house, next_expire;
    struct log_gate strange_gate;
    int64_t strange[FOLLOW_SEEN_MAX];
    size_t strange_next;
};

/* Queue one step for the next commit; p is taken (NULL: ENOMEM, ignored: the
 * clock comes by again). */
void follow_queue(struct follow *f, struct progress *p);
/* Send an ask to watch: 0, or -1 (no watch, or its queue is full). */
int follow_ask_job(struct follow *f, const struct tracked *k);
int follow_ask_find(struct follow *f, const struct tracked *k);
int follow_ask_accounting(struct follow *f, struct tracked *k);
void follow_ask_closed(struct follow *f, struct tracked *k);

/* follow_news.c */
int follow_news(struct follow *f, const json_t *message, struct err *e);
void follow_task_answer(struct follow *f, struct task_answer *a);
/* Queue the view of a tracked job for its row. */
void follow_view(struct follow *f, struct tracked *k);

/* follow_clock.c: what is due for one job, and for all. */
void follow_due(struct follow *f, struct tracked *k, int64_t now);
void follow_house(struct follow *f, int64_t now);

#endif
