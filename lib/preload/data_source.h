/* SPDX-License-Identifier: MIT */
/**
 * @file data_source.h
 * What a call that sends has to write: pieces of memory, or a part of a file. For data_send.c.
 *
 * Async-signal-safe; a source is one thread's, on the stack. The functions change nothing but what
 * they are given to fill.
 */
#ifndef SMCRD_LIB_PRELOAD_DATA_SOURCE_H
#define SMCRD_LIB_PRELOAD_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/preload/data_pieces.h"
#include "proto/path/page.h"

#define DATA_SOURCE_FILE (16 * 1024) /* bytes of a file that are written into the pair at once */

struct data_source {
	const struct iovec *iov; /* the program's (data_pieces.h); NULL: a file is the source */
	int count;
	int file;
	off_t offset;      /* in the file, where the call begins */
	size_t done, left; /* bytes of the call */
};

/** `n` bytes more are written. */
static inline void data_source_advance(struct data_source *source, size_t n)
{
	source->done += n;
	source->left -= n;
}

/**
 * The pieces of memory that have the next bytes, at most `len`.
 * @param buf  room for bytes of a file
 * @return how many bytes; 0 or a negative errno: the source has no more, or cannot be read
 */
ssize_t data_source_next(const struct data_source *source, size_t len,
			 uint8_t buf[DATA_SOURCE_FILE], struct iovec ret_iov[DATA_PIECES],
			 size_t *ret_count);

/**
 * Copy the next `len` bytes into a ring of shared memory, from position `pos` on.
 * @param len  at most what is left, and the size of the ring
 * @return how many there were: fewer if the source has no more, or cannot be read
 */
uint32_t data_source_copy(const struct data_source *source, uint8_t *memory,
			  const struct path_ring *ring, uint64_t pos, uint32_t len);

#endif
