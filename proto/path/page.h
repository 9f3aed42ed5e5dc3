/* SPDX-License-Identifier: MIT */
/**
 * @file page.h
 * The memory of one connection that smcrd and a program's process share: its parts, and the control
 * page at its beginning. docs/data-path.md has the protocol and its invariants; receive.h and
 * send.h have its steps.
 *
 * Control words are atomic and sequentially consistent, since the protocol was explored under the
 * assumption that everybody sees them change in one order. Words of different writers lie 128 bytes
 * apart, because processors fetch cache lines in pairs.
 *
 * Neither side trusts the other: each word is loaded once, in these headers, and checked there
 * before it is used as a size or an offset.
 */
#ifndef SMCRD_PROTO_PATH_PAGE_H
#define SMCRD_PROTO_PATH_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PATH_PAGE_SIZE  4096u
#define PATH_LENGTH_MAX (1u << 30)
#define PATH_APART      128

/** Positions are 64-bit counts of stream bytes, as in the engine. This bit of `taken` and
 * `committed` is a flag and not part of the position. */
#define PATH_MARK (UINT64_C(1) << 63)

enum path_lock {
	PATH_LOCK_FREE = 0,
	PATH_LOCK_LIBRARY = 1,
	PATH_LOCK_DAEMON = 2,
};

struct path_page {
	/* Receiving. */
	_Alignas(PATH_APART) _Atomic uint64_t produced; /* written by the daemon */
	/** Written by both, by compare and swap. Marked: the daemon is forwarding a head, or has
	 * ended the path. */
	_Alignas(PATH_APART) _Atomic uint64_t taken;
	_Alignas(PATH_APART) _Atomic uint32_t
		at_work;        /* by the library: how many readers are looking */
	_Atomic uint32_t looks; /* by the library: how often a reader began to look */
	/* Sending. */
	_Alignas(PATH_APART) _Atomic uint64_t completed; /* by the daemon */
	_Atomic uint32_t polled;                         /* by the daemon: 0 or 1 */
	_Atomic uint32_t backlog;                        /* by the daemon: 0 or 1 */
	/** Written by both, by compare and swap. Marked: writes to the memory do not count any
	 * more. */
	_Alignas(PATH_APART) _Atomic uint64_t committed;
	_Alignas(PATH_APART) _Atomic uint32_t
		lock; /* enum path_lock, by both, by compare and swap */
};

_Static_assert(offsetof(struct path_page, produced) == 0 &&
		       offsetof(struct path_page, taken) == 128 &&
		       offsetof(struct path_page, at_work) == 256 &&
		       offsetof(struct path_page, looks) == 260 &&
		       offsetof(struct path_page, completed) == 384 &&
		       offsetof(struct path_page, polled) == 392 &&
		       offsetof(struct path_page, backlog) == 396 &&
		       offsetof(struct path_page, committed) == 512 &&
		       offsetof(struct path_page, lock) == 640 && sizeof(struct path_page) == 768 &&
		       sizeof(struct path_page) < PATH_PAGE_SIZE,
	       "library and daemon may be of different builds");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
	       "a lock in the process would protect nothing");

/** A ring of stream bytes within the memory. */
struct path_ring {
	/** Offset of the first byte in the memory. Not the beginning of a page if the element
	 * begins with an eye catcher (RFC 7609 4.2). */
	uint32_t at;
	uint32_t size; /* the byte at position p lies at + p % size */
};

/** Offsets and sizes that the daemon tells the library together with the memory. The library never
 * takes them from the page. */
struct path_layout {
	uint32_t length; /* of the memory, whole pages */
	struct path_ring receive, send;
};

static inline bool path_ring_within(const struct path_ring *ring, uint32_t length)
{
	return ring->size > 0 && ring->at >= PATH_PAGE_SIZE && ring->at <= length &&
	       ring->size <= length - ring->at;
}

/** Do both rings lie behind the control page, within the memory and apart from each other? */
static inline bool path_layout_valid(const struct path_layout *layout)
{
	const struct path_ring *receive = &layout->receive, *send = &layout->send;
	return layout->length <= PATH_LENGTH_MAX && layout->length % PATH_PAGE_SIZE == 0 &&
	       path_ring_within(receive, layout->length) &&
	       path_ring_within(send, layout->length) &&
	       (receive->at + receive->size <= send->at || send->at + send->size <= receive->at);
}

/** Offset in the memory of the byte at this position. */
static inline uint32_t path_ring_place(const struct path_ring *ring, uint64_t pos)
{
	return ring->at + (uint32_t)(pos % ring->size);
}

/** How many of `len` bytes from this position on are contiguous in the memory. */
static inline uint32_t path_ring_run(const struct path_ring *ring, uint64_t pos, uint32_t len)
{
	uint32_t run = ring->size - (uint32_t)(pos % ring->size);
	return len < run ? len : run;
}

/** Copy `len` bytes (at most the ring's size) out of the ring. @param memory start of the memory */
static inline void path_ring_get(const void *memory, const struct path_ring *ring, uint64_t pos,
				 void *to, uint32_t len)
{
	uint32_t run = path_ring_run(ring, pos, len);
	memcpy(to, (const uint8_t *)memory + path_ring_place(ring, pos), run);
	memcpy((uint8_t *)to + run, (const uint8_t *)memory + ring->at, len - run);
}

/** Copy `len` bytes (at most the ring's size) into the ring. */
static inline void path_ring_put(void *memory, const struct path_ring *ring, uint64_t pos,
				 const void *from, uint32_t len)
{
	uint32_t run = path_ring_run(ring, pos, len);
	memcpy((uint8_t *)memory + path_ring_place(ring, pos), from, run);
	memcpy((uint8_t *)memory + ring->at, (const uint8_t *)from + run, len - run);
}

/** The daemon ends the path: whoever still has the memory uses the pair alone from now on. */
static inline void path_end(struct path_page *page)
{
	atomic_fetch_or(&page->taken, PATH_MARK);
	atomic_fetch_or(&page->committed, PATH_MARK);
}

#endif
