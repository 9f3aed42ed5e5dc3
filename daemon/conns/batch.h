/* SPDX-License-Identifier: MIT */
/**
 * @file batch.h
 * Work that is put off: to the end of the batch of engine calls that is under way, or until others
 * had their turn. Objects, too, are freed late: when no function on the stack can still use them.
 *
 * The engine must not be called from its own operations. So the operations note what happened and
 * add a task. Who calls the engine for programs or tools does that between batch_begin() and
 * batch_end(), and the task runs at the end of the batch. daemon/fabric calls the engine without a
 * batch (completions, timers, devices); then the task runs from the event loop.
 */
#ifndef SMCRD_DAEMON_CONNS_BATCH_H
#define SMCRD_DAEMON_CONNS_BATCH_H

#include <stdbool.h>

struct batch;
struct event_base;

/** The owner of the work embeds this; zeroed: idle. A task is in one list at a time. */
struct task {
	void (*run)(struct task *task);
	struct task **list; /* the list that the task is in; NULL: none */
	struct task *prev, *next;
};

struct batch_callbacks {
	void *ctx;
	void (*enter)(void *ctx); /* the outermost batch begins */
	void (*leave)(void *ctx); /* the outermost batch ends */
};

/** @return 0 or -ENOMEM */
int batch_new(struct event_base *base, const struct batch_callbacks *callbacks,
	      struct batch **ret_batch);
/** Only tasks of batch_bury() may be left; they are run. NULL is allowed. */
void batch_free(struct batch *batch);

/** Batches may be nested; only the outermost one enters and leaves the engine. */
void batch_begin(struct batch *batch);
void batch_end(struct batch *batch);

/** Run the task at the end of this batch, or from the event loop. Nothing happens if the task is in
 * a list already. */
void batch_now(struct batch *batch, struct task *task);
/** Run the task after other events of the loop had their turn. */
void batch_later(struct batch *batch, struct task *task);
/** Do not run the task. Nothing happens if it is idle. */
void batch_cancel(struct task *task);
/** Run the task, which frees the object that it is part of, at the end of the outermost batch or in
 * batch_free(). Outside of a batch: from the event loop. */
void batch_bury(struct batch *batch, struct task *task);
/** Run the tasks of batch_bury() now. No function on the stack may use what they free. */
void batch_free_buried(struct batch *batch);

#endif
