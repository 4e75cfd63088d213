/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The pool: everything queued runs once, a full queue says so, an end waits.
 */
#include "broker/http/pool.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static atomic_int ran;
static sem_t gate, entered;

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
}

static void block(void *arg)
{
    (void)arg;
    sem_post(&entered);
    sem_wait(&gate);
    atomic_fetch_add(&ran, 1);
}

static void test_all_run_before_the_end(void **state)
{
    struct pool *p = NULL;
    struct err e = ERR_INIT;

    (void)state;
    atomic_store(&ran, 0);
    assert_int_equal(pool_new(4, 200, &p, &e), 0);
    for (int i = 0; i < 200; i++)
        assert_int_equal(pool_add(p, 0, count, NULL, &e), 0);
    pool_free(p);
    assert_int_equal(atomic_load(&ran), 200);
}

static void test_a_full_queue_is_busy(void **state)
{
    struct pool *p = NULL;
    struct err e = ERR_INIT;

    (void)state;
    atomic_store(&ran, 0);
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
    assert_int_equal(pool_new(1, 2, &p, &e), 0);
    assert_int_equal(pool_add(p, 0, block, NULL, &e), 0);
    sem_wait(&entered); /* the one thread is taken, the queue is empty */
    assert_int_equal(pool_add(p, 0, count, NULL, &e), 0);
    assert_int_equal(pool_add(p, 0, count, NULL, &e), 0);
    assert_int_equal(pool_add(p, 0, count, NULL, &e), -1);
    assert_int_equal(e.class, ERR_UNAVAILABLE);
    assert_string_equal(e.code, "busy");
    sem_post(&gate);
    pool_free(p);
    assert_int_equal(atomic_load(&ran), 3);
}

/* The HTTP threads outlive the pool's: what they still bring is refused. */
static void test_a_stopped_pool_is_busy(void **state)
{
    struct pool *p = NULL;
    struct err e = ERR_INIT;

    (void)state;
    atomic_store(&ran, 0);
    assert_int_equal(pool_new(2, 8, &p, &e), 0);
    assert_int_equal(pool_add(p, 0, count, NULL, &e), 0);
    pool_stop(p);
    assert_int_equal(atomic_load(&ran), 1);
    assert_int_equal(pool_add(p, 0, count, NULL, &e), -1);
    assert_string_equal(e.code, "busy");
    pool_free(p);
    assert_int_equal(atomic_load(&ran), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_run_before_the_end),
        cmocka_unit_test(test_a_full_queue_is_busy),
        cmocka_unit_test(test_a_stopped_pool_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
