/* SPDX-License-Identifier: MIT */
#include "daemon/rnic/verbs/reaper.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <utlist.h>

#define STACK_BYTES (64 * 1024)

struct verbs_reaper {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a job has come, or one has ended */
	bool started;
	bool ending;            /* free the reaper when no jobs are left */
	struct verbs_job *jobs; /* the first one is running */
	uint64_t given, ended;  /* how many jobs there were */
};

struct verbs_reaper *verbs_reaper_new(void)
{
	pthread_condattr_t attr;
	struct verbs_reaper *reaper = calloc(1, sizeof(*reaper));
	if (!reaper)
		return NULL;
	pthread_mutex_init(&reaper->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&reaper->changed, &attr);
	pthread_condattr_destroy(&attr);
	return reaper;
}

static void reaper_free(struct verbs_reaper *reaper)
{
	pthread_cond_destroy(&reaper->changed);
	pthread_mutex_destroy(&reaper->lock);
	free(reaper);
}

/* ---- the thread, which holds the lock but while a job runs */

/* The job may be freed by running it. */
static void do_one(struct verbs_reaper *reaper)
{
	struct verbs_job *job = reaper->jobs;
	LL_DELETE(reaper->jobs, job);
	pthread_mutex_unlock(&reaper->lock);
	job->run(job->arg);
	pthread_mutex_lock(&reaper->lock);
	reaper->ended++;
	pthread_cond_broadcast(&reaper->changed);
}

static void *reap(void *arg)
{
	struct verbs_reaper *reaper = arg;
	pthread_mutex_lock(&reaper->lock);
	while (reaper->jobs || !reaper->ending) {
		if (reaper->jobs)
			do_one(reaper);
		else
			pthread_cond_wait(&reaper->changed, &reaper->lock);
	}
	pthread_mutex_unlock(&reaper->lock);
	reaper_free(reaper);
	return NULL;
}

/* Signals are handled by the event loop. */
static bool start_thread(struct verbs_reaper *reaper)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool started = pthread_create(&thread, &attr, reap, reaper) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return started;
}

/* ---- the event loop */

/* Wait until job `number` has ended, but not for long. */
static void wait_for(struct verbs_reaper *reaper, uint64_t number)
{
	struct timespec until;
	int error = 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += VERBS_REAPER_WAIT_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	while (reaper->ended < number && !error)
		error = pthread_cond_timedwait(&reaper->changed, &reaper->lock, &until);
}

void verbs_reaper_do(struct verbs_reaper *reaper, struct verbs_job *job)
{
	if (!reaper->started)
		reaper->started = start_thread(reaper);
	if (!reaper->started) {
		job->run(job->arg);
		return;
	}
	pthread_mutex_lock(&reaper->lock);
	bool idle = reaper->ended == reaper->given;
	LL_APPEND(reaper->jobs, job);
	uint64_t number = ++reaper->given;
	pthread_cond_broadcast(&reaper->changed);
	if (idle)
		wait_for(reaper, number);
	pthread_mutex_unlock(&reaper->lock);
}

bool verbs_reaper_busy(struct verbs_reaper *reaper)
{
	pthread_mutex_lock(&reaper->lock);
	bool busy = reaper->ended < reaper->given;
	pthread_mutex_unlock(&reaper->lock);
	return busy;
}

void verbs_reaper_end(struct verbs_reaper *reaper, struct verbs_job *last)
{
	if (reaper && last)
		verbs_reaper_do(reaper, last);
	else if (last)
		last->run(last->arg);
	if (!reaper)
		return;
	if (!reaper->started) {
		reaper_free(reaper);
		return;
	}
	pthread_mutex_lock(&reaper->lock);
	reaper->ending = true; /* the thread frees it */
	pthread_cond_broadcast(&reaper->changed);
	pthread_mutex_unlock(&reaper->lock);
}
