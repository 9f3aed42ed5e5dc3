/* SPDX-License-Identifier: MIT */
/**
 * @file receive.h
 * The steps of receiving (docs/data-path.md). Bytes that are queued in the pair are the head of the
 * stream; bytes in the memory from `taken` on are the rest. tests/model/receive.pml has the same
 * steps.
 *
 * There are no system calls here: the caller makes them between the steps. Functions of the reader
 * may be called by any number of threads and processes, and in signal handlers. Functions of the
 * daemon are for its one thread.
 */
#ifndef SMCRD_PROTO_PATH_RECEIVE_H
#define SMCRD_PROTO_PATH_RECEIVE_H

#include <errno.h>

#include "proto/path/page.h"

/* ---- a reader of the library */

/** A reader looks for bytes; meanwhile the daemon forwards no head. Call path_reader_end() soon. */
static inline void path_reader_begin(struct path_page *page)
{
	atomic_fetch_add(&page->at_work, 1);
	atomic_fetch_add_explicit(&page->looks, 1, memory_order_relaxed);
}

/**
 * To be called before the pair is read.
 * @param ret_taken  argument of the other steps
 * @return false: a head is on its way, or the path has ended: read the pair alone
 */
static inline bool path_reader_look(struct path_page *page, uint64_t *ret_taken)
{
	uint64_t taken = atomic_load(&page->taken);
	*ret_taken = taken;
	return !(taken & PATH_MARK);
}

/** How many bytes the memory has from `taken` on. @param size size of the ring, from the daemon's
 * answer */
static inline uint32_t path_reader_available(struct path_page *page, uint32_t size, uint64_t taken)
{
	uint64_t available = atomic_load(&page->produced) - taken;
	/* Another process that shares the memory may have written anything. */
	return available <= size ? (uint32_t)available : 0;
}

/**
 * To be called when the pair was read to its end and bytes from `taken` on were copied: take them.
 * @return false: another reader or the daemon has these bytes. The copy must not be used.
 */
static inline bool path_reader_take(struct path_page *page, uint64_t taken, uint32_t n)
{
	return !(taken & PATH_MARK) &&
	       atomic_compare_exchange_strong(&page->taken, &taken, taken + n);
}

/** For MSG_PEEK, after the copy: are the bytes at `taken` still the next ones? The fence keeps the
 * copy before the look. Without it a processor such as ARM's may copy later, when the pages are
 * empty. (The compare and swap of path_reader_take() needs none, as it also stores.) */
static inline bool path_reader_unchanged(struct path_page *page, uint64_t taken)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&page->taken) == taken;
}

/**
 * The reader has ended looking.
 * @return true: the memory has bytes. A caller that is about to wait must begin again instead: the
 *         bytes may have arrived while the daemon saw a reader at work and forwarded nothing.
 */
static inline bool path_reader_end(struct path_page *page)
{
	atomic_fetch_sub(&page->at_work, 1);
	uint64_t taken = atomic_load(&page->taken);
	return !(taken & PATH_MARK) && atomic_load(&page->produced) != taken;
}

/* ---- the daemon */

struct path_rx {
	struct path_page *page;
	uint64_t produced; /* last published value */
	uint64_t taken;    /* last value that was loaded and checked */
	uint32_t ignored;  /* readers that count as `at_work` and are dead */
};

/** Start: the bytes [taken, produced) are in the memory; earlier ones are in the pair or were read.
 * To be called before anybody else has the page. */
static inline void path_rx_open(struct path_rx *rx, struct path_page *page, uint64_t taken,
				uint64_t produced)
{
	*rx = (struct path_rx){ .page = page, .produced = produced, .taken = taken };
	atomic_store(&page->taken, taken);
	atomic_store(&page->produced, produced);
}

/** Let the library take bytes before this position: all that have arrived, or all before an urgent
 * byte. */
static inline void path_rx_publish(struct path_rx *rx, uint64_t produced)
{
	rx->produced = produced;
	atomic_store(&rx->page->produced, produced);
}

/** Load what readers have taken into rx->taken. @return 0, or -EPROTO: the value is impossible, and
 * the connection is to be reset */
static inline int path_rx_load(struct path_rx *rx)
{
	uint64_t taken = atomic_load(&rx->page->taken);
	if (taken < rx->taken || taken > rx->produced) /* readers must not set the mark either */
		return -EPROTO;
	rx->taken = taken;
	return 0;
}

/** Is a reader at work that may take the bytes? To be called after path_rx_publish(). */
static inline bool path_rx_reader_at_work(struct path_rx *rx)
{
	uint32_t at_work = atomic_load(&rx->page->at_work);
	if (at_work < rx->ignored) /* an ignored reader was only slow */
		rx->ignored = at_work;
	return at_work > rx->ignored;
}

/** Bytes have waited too long for the readers at work. Ignore these readers: they are dead, were
 * stopped, or left by longjmp(). */
static inline void path_rx_ignore_readers(struct path_rx *rx)
{
	rx->ignored = atomic_load(&rx->page->at_work);
}

/**
 * Begin to forward the next `n` bytes from rx->taken on, at most up to rx->produced.
 * @return true: send them, then call path_rx_forward_end(); false: a reader took bytes first; begin
 *         anew with path_rx_load()
 */
static inline bool path_rx_forward_begin(struct path_rx *rx, uint64_t n)
{
	uint64_t taken = rx->taken;
	return atomic_compare_exchange_strong(&rx->page->taken, &taken, (taken + n) | PATH_MARK);
}

/** The pair has taken `sent` of the bytes, perhaps none. The others can be read from the memory
 * again. */
static inline void path_rx_forward_end(struct path_rx *rx, uint64_t sent)
{
	rx->taken += sent;
	atomic_store(&rx->page->taken, rx->taken);
}

#endif
