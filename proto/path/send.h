/* SPDX-License-Identifier: MIT */
/**
 * @file send.h
 * The steps of sending (docs/data-path.md): the memory before `committed` is the head of what the
 * program wrote, what is queued in the pair its tail. tests/model/send.pml has the same steps.
 *
 * No system calls, and the same rules for callers as in receive.h. The order in which a writer
 * takes its steps is part of the protocol: lock, polled, revoked, the kernel's word that nothing is
 * queued in the pair, backlog, room, commit.
 */
#ifndef SMCRD_PROTO_PATH_SEND_H
#define SMCRD_PROTO_PATH_SEND_H

#include <errno.h>

#include "proto/path/page.h"

/* ---- a writer of the library */

/** @return false: somebody else has the lock, perhaps for ever */
static inline bool path_writer_lock(struct path_page *page)
{
	uint32_t expected = PATH_LOCK_FREE;
	return atomic_compare_exchange_strong(&page->lock, &expected, PATH_LOCK_LIBRARY);
}

static inline void path_writer_unlock(struct path_page *page)
{
	uint32_t expected = PATH_LOCK_LIBRARY;
	atomic_compare_exchange_strong(&page->lock, &expected, PATH_LOCK_FREE);
}

/** Does the daemon look at the page by itself? If not, the last byte of what is written now has to
 *  go through the pair, which wakes it. Under the lock, or it may stop looking meanwhile. */
static inline bool path_writer_polled(struct path_page *page)
{
	return atomic_load(&page->polled) != 0;
}

/** The daemon has taken over, or ended the path: the pair alone is to be written to. */
static inline bool path_writer_revoked(struct path_page *page)
{
	return atomic_load(&page->committed) & PATH_MARK;
}

/** Has a message of the pair been taken in part? After the kernel has said that one small message
 *  at most is queued. */
static inline bool path_writer_backlog(struct path_page *page)
{
	return atomic_load(&page->backlog) != 0;
}

/**
 * How much may be written at `*ret_committed` now.
 * @param size  of the ring, as the daemon's answer had it
 * @return 0: nothing, the ring is full or the daemon has taken over
 */
static inline uint32_t path_writer_room(struct path_page *page, uint32_t size,
					uint64_t *ret_committed)
{
	uint64_t committed = atomic_load(&page->committed);
	uint64_t used = committed - atomic_load(&page->completed);
	*ret_committed = committed;
	return !(committed & PATH_MARK) && used <= size ? size - (uint32_t)used : 0;
}

/** What was written counts from now on. @return false: it does not, for the daemon has taken over
 */
static inline bool path_writer_commit(struct path_page *page, uint64_t committed, uint32_t n)
{
	return !(committed & PATH_MARK) &&
	       atomic_compare_exchange_strong(&page->committed, &committed, committed + n);
}

/* ---- the daemon */

struct path_tx {
	struct path_page *page;
	uint32_t size;      /* of the ring */
	uint64_t committed; /* the last value that was loaded, checked */
	uint64_t completed; /* as published */
	bool taken_over; /* the memory counts no more: there is a send buffer of the daemon's own */
};

/** The bytes [completed, committed) are in the memory. To be called before anybody else has the
 *  page. The page is polled from the start. */
static inline void path_tx_open(struct path_tx *tx, struct path_page *page, uint32_t size,
				uint64_t committed, uint64_t completed)
{
	*tx = (struct path_tx){
		.page = page, .size = size, .committed = committed, .completed = completed
	};
	atomic_store(&page->committed, committed);
	atomic_store(&page->completed, completed);
	atomic_store(&page->polled, 1);
}

static inline int path_tx_accept(struct path_tx *tx, uint64_t committed)
{
	if (committed < tx->committed || committed - tx->completed > tx->size)
		return -EPROTO;
	tx->committed = committed;
	return 0;
}

/** See what writers have committed, in tx->committed. @return 0, or -EPROTO: the program has
 * written nonsense, and is to be reset */
static inline int path_tx_load(struct path_tx *tx)
{
	return tx->taken_over ? 0 : path_tx_accept(tx, atomic_load(&tx->page->committed));
}

/** Bytes that writers have committed since; 0 also if they have written nonsense. Changes nothing.
 */
static inline uint64_t path_tx_unseen(const struct path_tx *tx)
{
	struct path_tx now = *tx;
	return path_tx_load(&now) < 0 ? 0 : now.committed - tx->committed;
}

/** Before bytes are moved from the pair into the ring; then path_tx_load(), since what was
 * committed comes first. @return false: a writer has the lock. It is never waited for. */
static inline bool path_tx_lock(struct path_tx *tx)
{
	uint32_t expected = PATH_LOCK_FREE;
	return atomic_compare_exchange_strong(&tx->page->lock, &expected, PATH_LOCK_DAEMON);
}

static inline void path_tx_unlock(struct path_tx *tx)
{
	atomic_store(&tx->page->lock, PATH_LOCK_FREE);
}

/**
 * A message of the pair is about to be taken in part, or nothing of others is queued in the pair
 * any more. True has to be said before the message with the last kept byte is dropped.
 */
static inline void path_tx_set_backlog(struct path_tx *tx, bool backlog)
{
	atomic_store(&tx->page->backlog, backlog);
}

/** Bytes of the pair were put into the ring at tx->committed. Under the lock. @return 0, or -EPROTO
 *  as above */
static inline int path_tx_put(struct path_tx *tx, uint32_t n)
{
	uint64_t committed = tx->committed;
	if (!atomic_compare_exchange_strong(&tx->page->committed, &committed, committed + n))
		return -EPROTO;
	tx->committed += n;
	return 0;
}

/**
 * The lock is held while bytes wait in the pair, for too long: its holder is dead, was stopped, or
 * left by longjmp(). Nobody commits from now on; tx->committed is what they had committed.
 * @return 0, or -EPROTO as above
 */
static inline int path_tx_take_over(struct path_tx *tx)
{
	uint64_t committed = atomic_fetch_or(&tx->page->committed, PATH_MARK);
	tx->taken_over = true;
	return path_tx_accept(tx, committed);
}

/** The ring is free up to this place. */
static inline void path_tx_complete(struct path_tx *tx, uint64_t completed)
{
	tx->completed = completed;
	atomic_store(&tx->page->completed, completed);
}

/** The daemon looks at the page by itself from now on. */
static inline void path_tx_poll(struct path_tx *tx)
{
	atomic_store(&tx->page->polled, 1);
}

/**
 * It wants to look no more.
 * @return false: it has to, since something was committed, or somebody who has the lock may have
 *         seen that it does. Nothing has changed then.
 */
static inline bool path_tx_stop_polling(struct path_tx *tx)
{
	atomic_store(&tx->page->polled, 0);
	if (tx->taken_over || (atomic_load(&tx->page->committed) == tx->committed &&
			       atomic_load(&tx->page->lock) == PATH_LOCK_FREE))
		return true;
	atomic_store(&tx->page->polled, 1);
	return false;
}

#endif
