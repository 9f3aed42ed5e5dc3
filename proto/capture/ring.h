/* SPDX-License-Identifier: MIT */
/**
 * @file ring.h
 * Memory through which smcrd passes what a capture sees to smcrctl: a control page, and a ring of
 * records behind it. smcrd writes and never waits. A record that does not fit is lost and counted.
 * The reader looks for records when it likes.
 *
 * The reader makes the memory, a memfd whose size is sealed. smcrd uses one word of it, `taken`,
 * and checks it. A reader that writes a wrong value there loses records.
 *
 * Both sides run on one host, so numbers have its byte order. The functions neither allocate nor do
 * I/O. A ring has one writing and one reading thread.
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
/** Size of the memory with the control page; it consists of whole pages. */
#define CAPTURE_MIN_SIZE (17 * CAPTURE_PAGE_SIZE)
#define CAPTURE_MAX_SIZE (64u << 20)
/** How many RNICs have a count of losses of their own; further ones share the last count. */
#define CAPTURE_RNICS 16

struct capture_page {
	/* Written by smcrd. */
	_Alignas(CAPTURE_APART) _Atomic uint64_t written; /* bytes of records so far */
	_Atomic uint32_t version;             /* CAPTURE_VERSION once the capture has begun */
	_Atomic uint64_t lost[CAPTURE_RNICS]; /* messages that did not fit */
	/* Written by the reader: bytes of records that it has copied. */
	_Alignas(CAPTURE_APART) _Atomic uint64_t taken;
};

_Static_assert(sizeof(struct capture_page) <= CAPTURE_PAGE_SIZE, "it is one page");
_Static_assert(offsetof(struct capture_page, version) == 8 &&
		       offsetof(struct capture_page, lost) == 16 &&
		       offsetof(struct capture_page, taken) == 256,
	       "smcrd and smcrctl may be of different builds");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock in the process would protect nothing");

/** The ring as one side uses it. */
struct capture_ring {
	struct capture_page *page;
	uint8_t *bytes;
	uint32_t size; /* of `bytes` */
	/* Private to this side, which trusts these instead of the page: */
	uint64_t at;                  /* position up to which it has written or read */
	uint64_t lost[CAPTURE_RNICS]; /* the writer's count */
};

/**
 * @param memory  `length` mapped bytes, zero at first; has to outlive the ring
 * @return false: no ring has this length
 */
bool capture_ring_init(struct capture_ring *ring, void *memory, size_t length);

/** Writer: the capture has begun. */
void capture_ring_begin(struct capture_ring *ring);
/** Reader: has the capture begun, with records of a known version? */
bool capture_ring_has_begun(const struct capture_ring *ring);

/**
 * Writer: add a record.
 * @param parts  parts of the record, one behind the other; together at least a byte
 * @return false: it does not fit, and nothing was written
 */
bool capture_ring_put(struct capture_ring *ring, const struct iovec *parts, size_t n);
/** Writer: one message of this RNIC was lost. */
void capture_ring_lose(struct capture_ring *ring, unsigned int rnic);
/** Writer: how many messages of this RNIC were lost, by the writer's own count. */
uint64_t capture_ring_has_lost(const struct capture_ring *ring, unsigned int rnic);

/** Reader: how many bytes smcrd has written so far; when all is read, `at` is the same. */
uint64_t capture_ring_written(const struct capture_ring *ring);
/**
 * Reader: take the next record.
 * @return its length; 0: no record now; -EMSGSIZE: it is longer than `room` and was skipped;
 *         -EBADMSG: the ring is damaged and cannot be read any further
 */
ssize_t capture_ring_get(struct capture_ring *ring, void *buf, size_t room);
/** Reader: how many messages of this RNIC were lost so far, by the count in the page. */
uint64_t capture_ring_lost(const struct capture_ring *ring, unsigned int rnic);

#endif
