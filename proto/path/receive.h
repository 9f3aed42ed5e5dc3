/* SPDX-License-Identifier: MIT */
/**
 * @file receive.h
 * The steps of receiving (docs/data-path.md): what is queued in the pair is the head of the stream,
 * the memory from `taken` on its rest. tests/model/receive.pml has the same steps.
 *
 * No system calls: what the kernel is asked in between is the caller's business. Functions of the
 * reader may be called by any number of threads and processes and in signal handlers; those of the
 * daemon by its one thread.
 */
#ifndef SMCRD_PROTO_PATH_RECEIVE_H
#define SMCRD_PROTO_PATH_RECEIVE_H

#include <errno.h>

#include "proto/path/page.h"

/* ---- a reader of the library */

/** A reader is looking: the daemon forwards no head. To be ended soon. */
static inline void path_reader_begin(struct path_page *page)
{
	atomic_fetch_add(&page->at_work, 1);
	atomic_fetch_add_explicit(&page->looks, 1, memory_order_relaxed);
}

/**
 * Before the pair is read.
 * @param ret_taken  what the other steps want
 * @return false: a head is on its way, or the path has ended. The pair alone is to be read.
 */
static inline bool path_reader_look(struct path_page *page, uint64_t *ret_taken)
{
	uint64_t taken = atomic_load(&page->taken);
	*ret_taken = taken;
	return !(taken & PATH_MARK);
}

/** How many bytes the memory has from `taken` on. @param size  of the ring, as the daemon's answer
 *  had it */
static inline uint32_t path_reader_available(struct path_page *page, uint32_t size, uint64_t taken)
{
	uint64_t available = atomic_load(&page->produced) - taken;
	/* Another process that shares the memory may have written anything. */
	return available <= size ? (uint32_t)available : 0;
}

/**
 * After the pair was read to its end, and bytes from `taken` on were copied.
 * @return false: somebody else took these bytes, or was about to. What was copied is not to be
 *         used.
 */
static inline bool path_reader_take(struct path_page *page, uint64_t taken, uint32_t n)
{
	return !(taken & PATH_MARK) &&
	       atomic_compare_exchange_strong(&page->taken, &taken, taken + n);
}

/** Whoever has only looked (MSG_PEEK): were the bytes at `taken` still the next ones? */
static inline bool path_reader_unchanged(struct path_page *page, uint64_t taken)
{
	return atomic_load(&page->taken) == taken;
}

/**
 * The reader does not look any more.
 * @return true: bytes are in the memory. Who is about to wait begins again instead: they may have
 *         arrived when the daemon saw a reader at work.
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
	uint64_t produced; /* as published */
	uint64_t taken;    /* the last value that was loaded, checked */
	uint32_t ignored;  /* readers that say they are at work and are not */
};

/** The bytes [taken, produced) are in the memory; those before are in the pair, or were read. To be
 *  called before anybody else has the page. */
static inline void path_rx_open(struct path_rx *rx, struct path_page *page, uint64_t taken,
				uint64_t produced)
{
	*rx = (struct path_rx){ .page = page, .produced = produced, .taken = taken };
	atomic_store(&page->taken, taken);
	atomic_store(&page->produced, produced);
}

/** The library may take bytes before this place: all that have arrived, or all before an urgent
 *  byte. */
static inline void path_rx_publish(struct path_rx *rx, uint64_t produced)
{
	rx->produced = produced;
	atomic_store(&rx->page->produced, produced);
}

/** See what readers have taken, in rx->taken. @return 0, or -EPROTO: the program has written
 *  nonsense, and is to be reset */
static inline int path_rx_load(struct path_rx *rx)
{
	uint64_t taken = atomic_load(&rx->page->taken);
	if (taken < rx->taken || taken > rx->produced) /* the mark, too, is not theirs to set */
		return -EPROTO;
	rx->taken = taken;
	return 0;
}

/** May a reader of the library take what arrives? To be asked after path_rx_publish(). */
static inline bool path_rx_reader_at_work(struct path_rx *rx)
{
	uint32_t at_work = atomic_load(&rx->page->at_work);
	if (at_work < rx->ignored) /* one of them was only slow */
		rx->ignored = at_work;
	return at_work > rx->ignored;
}

/** Bytes have waited for the readers at work for too long: these are dead, were stopped, or left by
 *  longjmp(). */
static inline void path_rx_ignore_readers(struct path_rx *rx)
{
	rx->ignored = atomic_load(&rx->page->at_work);
}

/**
 * Begin to forward the next `n` bytes from rx->taken on, at most up to rx->produced.
 * @return true: send them, then call path_rx_forward_end(). False: a reader was faster; begin anew
 *         with path_rx_load()
 */
static inline bool path_rx_forward_begin(struct path_rx *rx, uint64_t n)
{
	uint64_t taken = rx->taken;
	return atomic_compare_exchange_strong(&rx->page->taken, &taken, (taken + n) | PATH_MARK);
}

/** The pair has got `sent` of them, perhaps none. The others are in the memory again. */
static inline void path_rx_forward_end(struct path_rx *rx, uint64_t sent)
{
	rx->taken += sent;
	atomic_store(&rx->page->taken, rx->taken);
}

#endif
