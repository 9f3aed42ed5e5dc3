/* SPDX-License-Identifier: MIT */
/**
 * @file batch.h
 * Work that is put off: to the end of the batch of engine calls that is under way, or until others
 * had their turn; and objects that are freed when nothing on the stack can know them any more.
 *
 * The engine may only be called between batch_begin() and batch_end(), and not from its own
 * operations. So those note what happened and put a task in the batch, which runs at the end of it,
 * or from the event loop if the engine was called by others.
 */
#ifndef SMCRD_DAEMON_CONNS_BATCH_H
#define SMCRD_DAEMON_CONNS_BATCH_H

#include <stdbool.h>

struct batch;
struct event_base;

/** What the owner of the work embeds; zeroed: idle. It is in one list at a time. */
struct task {
	void (*run)(struct task *task);
	struct task **list; /* that it is in; NULL: none */
	struct task *prev, *next;
};

struct batch_callbacks {
	void *ctx;
	void (*enter)(void *ctx); /* the outermost batch begins */
	void (*leave)(void *ctx); /* it is over */
};

/** @return 0 or -ENOMEM */
int batch_new(struct event_base *base, const struct batch_callbacks *callbacks,
	      struct batch **ret_batch);
/** No task may be left but those of batch_bury(), which are run. NULL is allowed. */
void batch_free(struct batch *batch);

/** Batches may be nested: the outermost one counts. */
void batch_begin(struct batch *batch);
void batch_end(struct batch *batch);

/** Run it at the end of this batch, or from the event loop. Nothing if that is due already. */
void batch_now(struct batch *batch, struct task *task);
/** Run it after others had their turn. */
void batch_later(struct batch *batch, struct task *task);
/** It need not run any more. Nothing if it is idle. */
void batch_cancel(struct task *task);
/** The task frees what it is part of, at the end of the outermost batch or when the batch is freed.
 *  May be called outside of one; then the next one does it. */
void batch_bury(struct batch *batch, struct task *task);
/** Run those now: nothing on the stack knows what they free. */
void batch_free_buried(struct batch *batch);

#endif
