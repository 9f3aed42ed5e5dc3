/* SPDX-License-Identifier: MIT */
/**
 * @file send.h
 * The steps of sending (docs/data-path.md). Bytes in the memory before `committed` are the head of
 * what the program wrote; bytes that are queued in the pair are its tail. tests/model/send.pml has
 * the same steps.
 *
 * There are no system calls here, and callers follow the same rules as in receive.h. The order of a
 * writer's steps is part of the protocol: lock, polled, revoked, asking the kernel whether
 * something is queued in the pair, backlog, room, commit.
 */
#ifndef SMCRD_PROTO_PATH_SEND_H
#define SMCRD_PROTO_PATH_SEND_H

#include <errno.h>

#include "proto/path/page.h"

/* ---- a writer of the library */

/** Take the lock. @return false: another writer or the daemon has it, perhaps for ever */
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

/** Does the daemon poll the page? If not, the last byte of this write has to go through the pair,
 * which wakes the daemon. To be called with the lock held, or the daemon may stop polling
 * meanwhile. */
static inline bool path_writer_polled(struct path_page *page)
{
	return atomic_load(&page->polled) != 0;
}

/** Has the daemon taken over, or ended the path? Then write to the pair alone. */
static inline bool path_writer_revoked(struct path_page *page)
{
	return atomic_load(&page->committed) & PATH_MARK;
}

/** Has the daemon taken a part of a message of the pair? To be called after the kernel has said
 * that at most one small message is queued. */
static inline bool path_writer_backlog(struct path_page *page)
{
	return atomic_load(&page->backlog) != 0;
}

/**
 * How many bytes may be written at position `*ret_committed` now.
 * @param size  size of the ring, from the daemon's answer
 * @return 0: the ring is full, or the daemon has taken over
 */
static inline uint32_t path_writer_room(struct path_page *page, uint32_t size,
					uint64_t *ret_committed)
{
	uint64_t committed = atomic_load(&page->committed);
	uint64_t used = committed - atomic_load(&page->completed);
	*ret_committed = committed;
	return !(committed & PATH_MARK) && used <= size ? size - (uint32_t)used : 0;
}

/** Commit what was written. @return false: it does not count, since the daemon has taken over */
static inline bool path_writer_commit(struct path_page *page, uint64_t committed, uint32_t n)
{
	return !(committed & PATH_MARK) &&
	       atomic_compare_exchange_strong(&page->committed, &committed, committed + n);
}

/* ---- the daemon */

struct path_tx {
	struct path_page *page;
	uint32_t size;      /* size of the ring */
	uint64_t committed; /* last value that was loaded and checked */
	uint64_t completed; /* last published value */
	bool taken_over; /* the memory is not used any more: the daemon has its own send buffer */
};

/** Start: the bytes [completed, committed) are in the memory, and the daemon polls the page. To be
 * called before anybody else has the page. */
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

/** Load what writers have committed into tx->committed. @return 0, or -EPROTO: the value is
 * impossible, and the connection is to be reset */
static inline int path_tx_load(struct path_tx *tx)
{
	return tx->taken_over ? 0 : path_tx_accept(tx, atomic_load(&tx->page->committed));
}

/** How many bytes writers have committed since path_tx_load(); 0 also if the value is impossible.
 * Changes nothing.
 */
static inline uint64_t path_tx_unseen(const struct path_tx *tx)
{
	struct path_tx now = *tx;
	return path_tx_load(&now) < 0 ? 0 : now.committed - tx->committed;
}

/** Take the lock before bytes are moved from the pair into the ring. Then call path_tx_load(),
 * since committed bytes come first. @return false: a writer has the lock; the daemon never waits
 * for it */
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
 * Tell writers whether a part of a message of the pair was taken. It has to be set to true before
 * the message with the last kept byte is dropped, and to false when the pair has no bytes that were
 * not taken.
 */
static inline void path_tx_set_backlog(struct path_tx *tx, bool backlog)
{
	atomic_store(&tx->page->backlog, backlog);
}

/** Bytes of the pair were put into the ring at tx->committed; the lock is held. @return 0, or
 * -EPROTO as above */
static inline int path_tx_put(struct path_tx *tx, uint32_t n)
{
	uint64_t committed = tx->committed;
	if (!atomic_compare_exchange_strong(&tx->page->committed, &committed, committed + n))
		return -EPROTO;
	tx->committed += n;
	return 0;
}

/**
 * Bytes wait in the pair and a writer has held the lock too long: it is dead, was stopped, or left
 * by longjmp(). No writer can commit from now on; tx->committed is what they had committed.
 * @return 0, or -EPROTO as above
 */
static inline int path_tx_take_over(struct path_tx *tx)
{
	uint64_t committed = atomic_fetch_or(&tx->page->committed, PATH_MARK);
	tx->taken_over = true;
	return path_tx_accept(tx, committed);
}

/** Tell writers that the ring is free up to this position. */
static inline void path_tx_complete(struct path_tx *tx, uint64_t completed)
{
	tx->completed = completed;
	atomic_store(&tx->page->completed, completed);
}

/** Tell writers that the daemon polls the page from now on. */
static inline void path_tx_poll(struct path_tx *tx)
{
	atomic_store(&tx->page->polled, 1);
}

/**
 * The daemon wants to stop polling.
 * @return false: it has to go on, since bytes were committed, or the holder of the lock may have
 *         read `polled`. Nothing has changed then
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
