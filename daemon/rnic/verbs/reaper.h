/* SPDX-License-Identifier: MIT */
/**
 * @file reaper.h
 * A thread that destroys objects of a device. The kernel may take long for that: rdma_rxe waits for
 * ten seconds while packets of the queue pair are in the send queue of an interface that is down.
 * Meanwhile the event loop, and with it all other links, must go on.
 *
 * Only the thread of the event loop calls these functions.
 */
#ifndef SMCRD_RNIC_VERBS_REAPER_H
#define SMCRD_RNIC_VERBS_REAPER_H

#include <stdbool.h>

/** How long the caller waits for a job: nearly all jobs are done by then. */
#define VERBS_REAPER_WAIT_MS 5

/** A job, embedded in the structure that it is about. */
struct verbs_job {
	void (*run)(void *arg); /* may free the job */
	void *arg;
	struct verbs_job *next;
};

struct verbs_reaper;

/** @return NULL: no memory. The thread starts with the first job. */
struct verbs_reaper *verbs_reaper_new(void);

/**
 * Run a job after all earlier ones. The caller waits up to VERBS_REAPER_WAIT_MS for its end, but
 * not at all if an earlier job has not ended. If no thread can be started the caller runs the job.
 */
void verbs_reaper_do(struct verbs_reaper *reaper, struct verbs_job *job);

/** Has any job not ended yet? Work that has to come after it must be a job too. */
bool verbs_reaper_busy(struct verbs_reaper *reaper);

/** Free the reaper when all jobs, and after them `last` (NULL: none), have ended. The caller waits
 * as for a job. A reaper of NULL is allowed: then the caller runs `last`. */
void verbs_reaper_end(struct verbs_reaper *reaper, struct verbs_job *last);

#endif
