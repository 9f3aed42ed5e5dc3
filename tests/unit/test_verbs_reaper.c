/* SPDX-License-Identifier: MIT */
/* Objects that a thread gives back to the kernel: in order, and nobody waits for one that takes
 * long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "daemon/rnic/verbs/reaper.h"

#define JOBS       20
#define PATIENCE_S 60

static sem_t gate, over;
/* Numbers of the jobs that are done, in their order. */
static unsigned int done[JOBS + 1], num_done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct numbered {
	struct verbs_job job;
	unsigned int number;
};

static void note(unsigned int number)
{
	pthread_mutex_lock(&lock);
	done[num_done++] = number;
	pthread_mutex_unlock(&lock);
}

static unsigned int so_far(void)
{
	pthread_mutex_lock(&lock);
	unsigned int n = num_done;
	pthread_mutex_unlock(&lock);
	return n;
}

static void quick(void *arg)
{
	struct numbered *numbered = arg;
	note(numbered->number);
	free(numbered);
}

static void stuck(void *arg)
{
	sem_wait(&gate);
	quick(arg);
}

static void last(void *arg)
{
	quick(arg);
	sem_post(&over);
}

static struct verbs_job *job(void (*run)(void *arg), unsigned int number)
{
	struct numbered *numbered = malloc(sizeof(*numbered));
	numbered->job = (struct verbs_job){ .run = run, .arg = numbered };
	numbered->number = number;
	return &numbered->job;
}

static int setup(void **state)
{
	*state = verbs_reaper_new();
	num_done = 0;
	sem_init(&gate, 0, 0);
	sem_init(&over, 0, 0);
	return *state ? 0 : -1;
}

static void wait_until_over(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	assert_int_equal(sem_timedwait(&over, &until), 0);
}

static void all_in_order(unsigned int num)
{
	assert_int_equal(so_far(), num);
	for (unsigned int i = 0; i < num; i++)
		assert_int_equal(done[i], i);
}

static void jobs_are_done_in_order(void **state)
{
	struct verbs_reaper *reaper = *state;
	assert_false(verbs_reaper_busy(reaper));
	for (unsigned int i = 0; i < JOBS; i++)
		verbs_reaper_do(reaper, job(quick, i));
	verbs_reaper_end(reaper, job(last, JOBS));
	wait_until_over();
	all_in_order(JOBS + 1);
}

static void nobody_waits_for_one_that_takes_long(void **state)
{
	struct verbs_reaper *reaper = *state;
	verbs_reaper_do(reaper, job(stuck, 0));
	for (unsigned int i = 1; i < JOBS; i++)
		verbs_reaper_do(reaper, job(quick, i));
	assert_int_equal(so_far(), 0); /* none overtakes another */
	assert_true(verbs_reaper_busy(reaper));
	sem_post(&gate);
	for (int ms = 0; verbs_reaper_busy(reaper) && ms < PATIENCE_S * 1000; ms++)
		poll(NULL, 0, 1);
	assert_false(verbs_reaper_busy(reaper));
	verbs_reaper_end(reaper, NULL);
	all_in_order(JOBS);
}

/* A device is closed while the kernel still has its queue pairs. */
static void the_end_waits_for_none(void **state)
{
	struct verbs_reaper *reaper = *state;
	verbs_reaper_do(reaper, job(stuck, 0));
	verbs_reaper_end(reaper, job(last, 1));
	assert_int_equal(so_far(), 0);
	sem_post(&gate);
	wait_until_over();
	all_in_order(2);
}

static void an_unused_reaper_ends(void **state)
{
	verbs_reaper_end(*state, NULL);
	verbs_reaper_end(NULL, job(quick, 0));
	all_in_order(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(jobs_are_done_in_order, setup),
		cmocka_unit_test_setup(nobody_waits_for_one_that_takes_long, setup),
		cmocka_unit_test_setup(the_end_waits_for_none, setup),
		cmocka_unit_test_setup(an_unused_reaper_ends, setup),
	};
	return cmocka_run_group_tests_name("verbs: reaper", tests, NULL, NULL);
}
