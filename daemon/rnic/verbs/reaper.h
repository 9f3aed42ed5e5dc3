/* SPDX-License-Identifier: MIT */
/**
 * @file reaper.h
 * Objects of a device are given back to the kernel on a thread of their own. The kernel may take
 * long for that: rdma_rxe waits for ten seconds while packets of the queue pair lie in the send
 * queue of an interface that is down. Meanwhile the event loop, and all other links with it, must
 * go on.
 *
 * One thread calls these functions, the event loop's.
 */
#ifndef SMCRD_RNIC_VERBS_REAPER_H
#define SMCRD_RNIC_VERBS_REAPER_H

#include <stdbool.h>

/** How long the caller waits for a job: nearly all are done by then, as if it had done them. */
#define VERBS_REAPER_WAIT_MS 5

/** Something to do, embedded by what it is about. */
struct verbs_job {
	void (*run)(void *arg); /* may free the job */
	void *arg;
	struct verbs_job *next;
};

struct verbs_reaper;

/** @return NULL: no memory. The thread starts with the first job. */
struct verbs_reaper *verbs_reaper_new(void);

/**
 * Do a job, after all that came before. The caller waits for its end for VERBS_REAPER_WAIT_MS, but
 * not at all if one before has not ended. Where no thread can be started the caller does the job.
 */
void verbs_reaper_do(struct verbs_reaper *reaper, struct verbs_job *job);

/** Has a job not ended yet? What is to come behind it must be a job as well. */
bool verbs_reaper_busy(struct verbs_reaper *reaper);

/** Free the reaper, once all jobs have ended and after them `last` (NULL: none). The caller waits
 * as for a job. NULL is allowed with a job, which the caller does then. */
void verbs_reaper_end(struct verbs_reaper *reaper, struct verbs_job *last);

#endif
