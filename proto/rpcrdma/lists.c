/* SPDX-License-Identifier: MIT */
/*
 * The three lists of chunks. On the wire each entry of a list has the word 1 before it, and the
 * word 0 ends the list, as XDR encodes pointers (RFC 4506).
 */
#include <errno.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "proto/smcr/bytes.h"

#define SEGMENT_LEN 16

/* ---- decode */

/* Does another entry follow? Any other word than 0 and 1 is an error. */
static bool another(struct bytes_reader *r)
{
	const uint32_t word = read_be32(r);
	r->failed |= word > 1;
	return !r->failed && word == 1;
}

static struct rpcrdma_segment read_segment(struct bytes_reader *r)
{
	struct rpcrdma_segment segment;
	segment.handle = read_be32(r);
	segment.length = read_be32(r);
	segment.offset = read_be64(r);
	return segment;
}

static void read_reads(struct bytes_reader *r, struct rpcrdma_lists *lists)
{
	while (another(r)) {
		struct rpcrdma_read read;
		read.position = read_be32(r);
		read.segment = read_segment(r);
		if (lists->num_reads < RPCRDMA_MOST_READS)
			lists->reads[lists->num_reads] = read;
		lists->num_reads++;
	}
}

static struct rpcrdma_chunk read_chunk(struct bytes_reader *r, struct rpcrdma_lists *lists)
{
	struct rpcrdma_chunk chunk = { .first = lists->num_segments, .count = read_be32(r) };
	/* the count is bounded by the bytes that are there */
	if (chunk.count > r->left / SEGMENT_LEN) {
		r->failed = true;
		return chunk;
	}
	for (uint32_t i = 0; i < chunk.count; i++) {
		const struct rpcrdma_segment segment = read_segment(r);
		if (lists->num_segments < RPCRDMA_MOST_SEGMENTS)
			lists->segments[lists->num_segments] = segment;
		lists->num_segments++;
	}
	return chunk;
}

static void read_writes(struct bytes_reader *r, struct rpcrdma_lists *lists)
{
	while (another(r)) {
		const struct rpcrdma_chunk chunk = read_chunk(r, lists);
		if (lists->num_writes < RPCRDMA_MOST_WRITES)
			lists->writes[lists->num_writes] = chunk;
		lists->num_writes++;
	}
}

int rpcrdma_decode_lists(const uint8_t *buf, size_t len, uint32_t version,
			 struct rpcrdma_lists *ret_lists, size_t *ret_len)
{
	struct bytes_reader r = bytes_reader(buf, len);
	ret_lists->inv_handle = version == RPCRDMA_V2 ? read_be32(&r) : 0;
	ret_lists->num_reads = ret_lists->num_writes = ret_lists->num_segments = 0;
	ret_lists->reply = (struct rpcrdma_chunk){ 0 };
	read_reads(&r, ret_lists);
	read_writes(&r, ret_lists);
	ret_lists->has_reply = another(&r);
	if (ret_lists->has_reply)
		ret_lists->reply = read_chunk(&r, ret_lists);
	if (r.failed)
		return -EBADMSG;
	*ret_len = len - r.left;
	if (ret_lists->num_reads > RPCRDMA_MOST_READS ||
	    ret_lists->num_writes > RPCRDMA_MOST_WRITES ||
	    ret_lists->num_segments > RPCRDMA_MOST_SEGMENTS)
		return -E2BIG;
	return 0;
}

/* ---- encode */

static void write_segment(struct bytes_writer *w, const struct rpcrdma_segment *segment)
{
	write_be32(w, segment->handle);
	write_be32(w, segment->length);
	write_be64(w, segment->offset);
}

static void write_chunk(struct bytes_writer *w, const struct rpcrdma_lists *lists,
			const struct rpcrdma_chunk *chunk)
{
	write_be32(w, 1);
	write_be32(w, chunk->count);
	for (uint32_t i = 0; i < chunk->count; i++)
		write_segment(w, &lists->segments[chunk->first + i]);
}

size_t rpcrdma_encode_lists(const struct rpcrdma_lists *lists, uint32_t version, uint8_t *buf,
			    size_t room)
{
	struct bytes_writer w = bytes_writer(buf, room);
	if (version == RPCRDMA_V2)
		write_be32(&w, lists->inv_handle);
	for (uint32_t i = 0; i < lists->num_reads; i++) {
		write_be32(&w, 1);
		write_be32(&w, lists->reads[i].position);
		write_segment(&w, &lists->reads[i].segment);
	}
	write_be32(&w, 0);
	for (uint32_t i = 0; i < lists->num_writes; i++)
		write_chunk(&w, lists, &lists->writes[i]);
	write_be32(&w, 0);
	if (lists->has_reply)
		write_chunk(&w, lists, &lists->reply);
	else
		write_be32(&w, 0);
	return w.failed ? 0 : room - w.left;
}

size_t rpcrdma_lists_len(const struct rpcrdma_lists *lists, uint32_t version)
{
	size_t len = version == RPCRDMA_V2 ? 4 : 0;
	len += 4 + (size_t)lists->num_reads * (8 + SEGMENT_LEN);
	len += 4 + (size_t)lists->num_writes * 8;
	len += lists->has_reply ? 8 : 4;
	return len + (size_t)lists->num_segments * SEGMENT_LEN;
}

bool rpcrdma_lists_empty(const struct rpcrdma_lists *lists)
{
	return lists->num_reads == 0 && lists->num_writes == 0 && !lists->has_reply;
}
