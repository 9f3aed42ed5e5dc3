/* SPDX-License-Identifier: MIT */
#include "daemon/rpcrdma/chunks.h"

#include <errno.h>
#include <string.h>

static uint32_t padding(uint64_t len)
{
	return (uint32_t)(-len & 3);
}

/* ---- Read chunks */

/* The least position that is above `last`; with `any`, the least of all. */
static bool next_position(const struct rpcrdma_lists *lists, bool any, uint32_t last,
			  uint32_t *ret_position)
{
	bool found = false;
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		const uint32_t position = lists->reads[i].position;
		if ((any || position > last) && (!found || position < *ret_position)) {
			*ret_position = position;
			found = true;
		}
	}
	return found;
}

uint32_t rpcr_count_reads(const struct rpcrdma_lists *lists)
{
	uint32_t n = 0, position = 0;
	while (next_position(lists, n == 0, position, &position))
		n++;
	return n;
}

/* Bytes of the segments with a position, which may stand anywhere in the list. */
static uint64_t read_len(const struct rpcrdma_lists *lists, uint32_t position)
{
	uint64_t len = 0;
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		if (lists->reads[i].position == position)
			len += lists->reads[i].segment.length;
	}
	return len;
}

int rpcr_check_reads(const struct rpcrdma_lists *lists, bool is_msg, size_t len, uint64_t *ret_len)
{
	uint64_t whole = is_msg ? len : read_len(lists, 0);
	uint64_t end = 0; /* of the chunk before */
	uint32_t position = 0;
	const bool has_first = next_position(lists, true, 0, &position);
	if (is_msg ? has_first && position == 0 : !has_first || position != 0)
		return -EBADMSG;
	for (bool more = has_first; more; more = next_position(lists, false, position, &position)) {
		if (position == 0)
			continue;
		if (position % 4 != 0 || position > whole || position < end)
			return -EBADMSG;
		const uint64_t chunk = read_len(lists, position);
		whole += chunk + padding(chunk);
		end = position + chunk + padding(chunk);
	}
	*ret_len = whole;
	return 0;
}

/* Copy the data of the chunk with a position, in the order of its segments. @return its bytes */
static size_t copy_chunk(const struct rpcrdma_lists *lists, uint32_t position, const uint8_t *data,
			 uint8_t *to)
{
	size_t len = 0;
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		const uint32_t length = lists->reads[i].segment.length;
		if (lists->reads[i].position == position && length) {
			memcpy(to + len, data, length);
			len += length;
		}
		data += length;
	}
	return len;
}

/* The bytes beside the chunks go around them: what is before the position of a chunk, then its data
 * and padding, and so on. If they are in a chunk themselves, they are put to the end of the room
 * first, from where they move to their places without a second buffer. */
void rpcr_rebuild(const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len,
		  const uint8_t *data, uint8_t *ret_call)
{
	uint64_t whole;
	size_t at = 0;
	uint32_t position = 0;
	if (rpcr_check_reads(lists, payload != NULL, len, &whole) < 0)
		return;
	if (!payload) {
		len = (size_t)read_len(lists, 0);
		uint8_t *tail = ret_call + (size_t)whole - len;
		copy_chunk(lists, 0, data, tail);
		payload = tail;
	}
	while (next_position(lists, false, position, &position)) {
		const size_t before = position - at;
		memmove(ret_call + at, payload, before);
		payload += before;
		len -= before;
		at = position + copy_chunk(lists, position, data, ret_call + position);
		memset(ret_call + at, 0, padding(at));
		at += padding(at);
	}
	memmove(ret_call + at, payload, len);
}

/* ---- Write and Reply chunks */

uint64_t rpcr_chunk_len(const struct rpcrdma_lists *lists, const struct rpcrdma_chunk *chunk)
{
	uint64_t len = 0;
	for (uint32_t i = 0; i < chunk->count; i++)
		len += lists->segments[chunk->first + i].length;
	return len;
}

bool rpcr_set_written(struct rpcrdma_lists *lists, const struct rpcrdma_chunk *chunk, uint32_t len)
{
	if (len > rpcr_chunk_len(lists, chunk))
		return false;
	for (uint32_t i = 0; i < chunk->count; i++) {
		struct rpcrdma_segment *segment = &lists->segments[chunk->first + i];
		if (segment->length > len)
			segment->length = len;
		len -= segment->length;
	}
	return true;
}
