/* SPDX-License-Identifier: MIT */
/**
 * @file ring.h
 * Memory by which smcrd hands what a capture sees to smcrctl: a control page, then a ring of
 * records. smcrd writes and never waits: what does not fit is lost and counted. The reader looks
 * again when it likes.
 *
 * The memory is the reader's memfd. Its size cannot change (seals), and smcrd believes one word in
 * it, `taken`, after a check; whoever writes nonsense there loses records.
 *
 * Both sides run on one host, so numbers are in its byte order. Pure: no allocation, no I/O. A ring
 * has one writer and one reader, each a thread.
 */
#ifndef SMCRD_PROTO_CAPTURE_RING_H
#define SMCRD_PROTO_CAPTURE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define CAPTURE_PAGE_SIZE 4096u
#define CAPTURE_APART     128
#define CAPTURE_VERSION   1
/** Of the memory, the control page included: whole pages. */
#define CAPTURE_MIN_SIZE (17 * CAPTURE_PAGE_SIZE)
#define CAPTURE_MAX_SIZE (64u << 20)
/** RNICs whose losses are counted apart; those beyond share the last count. */
#define CAPTURE_RNICS 16

struct capture_page {
	/* smcrd's. */
	_Alignas(CAPTURE_APART) _Atomic uint64_t written; /* bytes of records so far */
	_Atomic uint32_t version;             /* CAPTURE_VERSION once the capture has begun */
	_Atomic uint64_t lost[CAPTURE_RNICS]; /* messages that did not fit */
	/* The reader's: bytes of records that it has copied. */
	_Alignas(CAPTURE_APART) _Atomic uint64_t taken;
};

_Static_assert(sizeof(struct capture_page) <= CAPTURE_PAGE_SIZE, "it is one page");
_Static_assert(offsetof(struct capture_page, version) == 8 &&
		       offsetof(struct capture_page, lost) == 16 &&
		       offsetof(struct capture_page, taken) == 256,
	       "smcrd and smcrctl may be of different builds");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock in the process would protect nothing");

/** One side's end of it. */
struct capture_ring {
	struct capture_page *page;
	uint8_t *bytes;
	uint32_t size; /* of the bytes */
	/* What this side believes instead of the page: */
	uint64_t at;                  /* how far it has come */
	uint64_t lost[CAPTURE_RNICS]; /* the writer's count */
};

/**
 * @param memory  `length` bytes, mapped, zeroed by who made it; outlives the ring
 * @return false: no ring has this length
 */
bool capture_ring_init(struct capture_ring *ring, void *memory, size_t length);

/** Writer: the capture has begun. */
void capture_ring_begin(struct capture_ring *ring);
/** Reader: has it, with a smcrd whose records are understood? */
bool capture_ring_has_begun(const struct capture_ring *ring);

/**
 * Writer: add a record.
 * @param parts  of it, one behind the other; together at least a byte
 * @return false: it does not fit, and nothing was written
 */
bool capture_ring_put(struct capture_ring *ring, const struct iovec *parts, size_t n);
/** Writer: one message of this RNIC was lost. */
void capture_ring_lose(struct capture_ring *ring, unsigned int rnic);
/** Writer: how many were, as it has counted, whatever the page says. */
uint64_t capture_ring_has_lost(const struct capture_ring *ring, unsigned int rnic);

/** Reader: how far smcrd has written by now, in bytes; `at` has got there when all is read. */
uint64_t capture_ring_written(const struct capture_ring *ring);
/**
 * Reader: take the next record.
 * @return its length, 0 if there is none now, -EMSGSIZE: it is longer than `room` and is skipped;
 *         -EBADMSG: the ring is damaged, and there is no way on
 */
ssize_t capture_ring_get(struct capture_ring *ring, void *buf, size_t room);
/** Reader: how many messages of this RNIC were lost so far, as the writer has told. */
uint64_t capture_ring_lost(const struct capture_ring *ring, unsigned int rnic);

#endif
