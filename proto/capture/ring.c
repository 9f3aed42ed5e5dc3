/* SPDX-License-Identifier: MIT */
#include "proto/capture/ring.h"

#include <errno.h>
#include <string.h>

/* Stands before each record. Records are padded to a multiple of its length, so that a header is
 * never split at the end of the ring. */
struct record_header {
	uint32_t length; /* of the record without header and padding */
	uint32_t reserved;
};

#define HEADER_LEN sizeof(struct record_header)

static uint64_t padded(uint64_t length)
{
	return (length + HEADER_LEN - 1) / HEADER_LEN * HEADER_LEN;
}

bool capture_ring_init(struct capture_ring *ring, void *memory, size_t length)
{
	if (length < CAPTURE_MIN_SIZE || length > CAPTURE_MAX_SIZE || length % CAPTURE_PAGE_SIZE)
		return false;
	*ring = (struct capture_ring){ .page = memory,
				       .bytes = (uint8_t *)memory + CAPTURE_PAGE_SIZE,
				       .size = (uint32_t)length - CAPTURE_PAGE_SIZE };
	return true;
}

void capture_ring_begin(struct capture_ring *ring)
{
	atomic_store(&ring->page->version, CAPTURE_VERSION);
}

bool capture_ring_has_begun(const struct capture_ring *ring)
{
	return atomic_load(&ring->page->version) == CAPTURE_VERSION;
}

static void copy_in(struct capture_ring *ring, uint64_t at, const void *from, size_t len)
{
	size_t place = at % ring->size;
	size_t run = ring->size - place < len ? ring->size - place : len;
	memcpy(ring->bytes + place, from, run);
	memcpy(ring->bytes, (const uint8_t *)from + run, len - run);
}

static void copy_out(const struct capture_ring *ring, uint64_t at, void *to, size_t len)
{
	size_t place = at % ring->size;
	size_t run = ring->size - place < len ? ring->size - place : len;
	memcpy(to, ring->bytes + place, run);
	memcpy((uint8_t *)to + run, ring->bytes, len - run);
}

static uint64_t free_bytes(const struct capture_ring *ring)
{
	uint64_t used = ring->at - atomic_load_explicit(&ring->page->taken, memory_order_acquire);
	return used <= ring->size ? ring->size - used : 0; /* 0: the reader wrote a wrong value */
}

bool capture_ring_put(struct capture_ring *ring, const struct iovec *parts, size_t n)
{
	struct record_header header = { 0 };
	uint64_t length = 0, at = ring->at + HEADER_LEN;
	for (size_t i = 0; i < n; i++)
		length += parts[i].iov_len;
	if (length == 0 || length > ring->size || HEADER_LEN + padded(length) > free_bytes(ring))
		return false;
	header.length = (uint32_t)length;
	copy_in(ring, ring->at, &header, sizeof(header));
	for (size_t i = 0; i < n; i++) {
		copy_in(ring, at, parts[i].iov_base, parts[i].iov_len);
		at += parts[i].iov_len;
	}
	ring->at += HEADER_LEN + padded(length);
	atomic_store_explicit(&ring->page->written, ring->at, memory_order_release);
	return true;
}

static unsigned int slot(unsigned int rnic)
{
	return rnic < CAPTURE_RNICS ? rnic : CAPTURE_RNICS - 1;
}

void capture_ring_lose(struct capture_ring *ring, unsigned int rnic)
{
	const uint64_t lost = ++ring->lost[slot(rnic)];
	atomic_store_explicit(&ring->page->lost[slot(rnic)], lost, memory_order_relaxed);
}

uint64_t capture_ring_has_lost(const struct capture_ring *ring, unsigned int rnic)
{
	return ring->lost[slot(rnic)];
}

uint64_t capture_ring_lost(const struct capture_ring *ring, unsigned int rnic)
{
	return atomic_load_explicit(&ring->page->lost[slot(rnic)], memory_order_relaxed);
}

uint64_t capture_ring_written(const struct capture_ring *ring)
{
	return atomic_load_explicit(&ring->page->written, memory_order_acquire);
}

ssize_t capture_ring_get(struct capture_ring *ring, void *buf, size_t room)
{
	struct record_header header;
	uint64_t there = capture_ring_written(ring) - ring->at;
	if (there == 0)
		return 0;
	if (there > ring->size || there < HEADER_LEN)
		return -EBADMSG;
	copy_out(ring, ring->at, &header, sizeof(header));
	if (header.length == 0 || HEADER_LEN + padded(header.length) > there)
		return -EBADMSG;
	bool fits = header.length <= room;
	if (fits)
		copy_out(ring, ring->at + HEADER_LEN, buf, header.length);
	ring->at += HEADER_LEN + padded(header.length);
	atomic_store_explicit(&ring->page->taken, ring->at, memory_order_release);
	return fits ? (ssize_t)header.length : -EMSGSIZE;
}
