/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "proto/smcr/bytes.h"

/* Numbers of properties. */
enum { SBSIZ = 1, RBSIZ = 2, RSSIZ = 3, RCSIZ = 4, BRS = 5, HOSTAUTH = 6 };

const struct rpcrdma_properties rpcrdma_default_properties = {
	.send_size = RPCRDMA_V2_THRESHOLD,
	.receive_size = RPCRDMA_V2_THRESHOLD,
	.segment_size = 1048576,
	.segment_count = 16,
	.reverse = RPCRDMA_REVERSE_NONE,
};

/* Zeros that make data a multiple of 4 long (RR2-13). */
static size_t padding(size_t len)
{
	return -len & 3;
}

/* ---- decode */

/* The value of a property that is a number. @return false: not of 4 bytes */
static bool take_u32(const uint8_t *data, uint32_t len, uint32_t empty, uint32_t *ret_value)
{
	if (len != 0 && len != 4)
		return false;
	*ret_value = len ? get_be32(data) : empty;
	return true;
}

/* A level that is not known is as good as none: it is a number, so it is no bad value. */
static bool take_reverse(const uint8_t *data, uint32_t len, struct rpcrdma_properties *to)
{
	uint32_t level;
	if (!take_u32(data, len, RPCRDMA_REVERSE_NONE, &level))
		return false;
	to->reverse = level <= RPCRDMA_REVERSE_GENERAL ? (enum rpcrdma_reverse)level
						       : RPCRDMA_REVERSE_NONE;
	return true;
}

/* Data of its own with a length before it, and padding behind (RR2-68). Empty: not there. */
static bool take_hostauth(const uint8_t *data, uint32_t len, struct rpcrdma_properties *to)
{
	struct bytes_reader r = bytes_reader(data, len);
	to->hostauth = NULL;
	to->hostauth_len = 0;
	if (len == 0)
		return true;
	const uint32_t inner = read_be32(&r);
	if (r.failed || inner > r.left || r.left != inner + padding(inner))
		return false;
	to->hostauth = inner ? r.at : NULL;
	to->hostauth_len = inner;
	return true;
}

/* @return false: a property that is known has a bad value (RR2-78) */
static bool take(uint32_t id, const uint8_t *data, uint32_t len, struct rpcrdma_properties *to)
{
	const struct rpcrdma_properties *defaults = &rpcrdma_default_properties;
	switch (id) {
	case SBSIZ:
		return take_u32(data, len, defaults->send_size, &to->send_size) &&
		       to->send_size >= RPCRDMA_LEAST_SIZE;
	case RBSIZ:
		return take_u32(data, len, defaults->receive_size, &to->receive_size) &&
		       to->receive_size >= RPCRDMA_LEAST_SIZE;
	case RSSIZ:
		return take_u32(data, len, defaults->segment_size, &to->segment_size) &&
		       to->segment_size > 0;
	case RCSIZ: return take_u32(data, len, defaults->segment_count, &to->segment_count);
	case BRS: return take_reverse(data, len, to);
	case HOSTAUTH: return take_hostauth(data, len, to);
	default: return true;
	}
}

int rpcrdma_decode_properties(const uint8_t *buf, size_t len, struct rpcrdma_properties *properties)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct rpcrdma_properties changed = *properties;
	const uint32_t count = read_be32(&r);
	for (uint32_t i = 0; i < count && !r.failed; i++) {
		const uint32_t id = read_be32(&r);
		const uint32_t data_len = read_be32(&r);
		if (r.failed)
			break;
		/* [X16]; the sum is of 64 bits, and cannot wrap */
		if ((uint64_t)data_len + padding(data_len) > r.left)
			return -EINVAL;
		const uint8_t *data = read_span(&r, data_len);
		read_skip(&r, padding(data_len));
		if (!take(id, data, data_len, &changed))
			return -EINVAL;
	}
	if (r.failed || r.left > 0)
		return -EBADMSG;
	*properties = changed;
	return 0;
}

/* ---- encode */

static void put_u32(struct bytes_writer *w, uint32_t id, uint32_t value)
{
	write_be32(w, id);
	write_be32(w, 4);
	write_be32(w, value);
}

static void put_hostauth(struct bytes_writer *w, const uint8_t *bytes, uint32_t len)
{
	const size_t pad = padding(len);
	write_be32(w, HOSTAUTH);
	write_be32(w, (uint32_t)(4 + len + pad));
	write_be32(w, len);
	write_bytes(w, bytes, len);
	write_zeros(w, pad);
}

size_t rpcrdma_encode_properties(const struct rpcrdma_properties *properties, uint8_t *buf,
				 size_t room)
{
	struct bytes_writer w = bytes_writer(buf, room);
	write_be32(&w, properties->hostauth ? 6 : 5);
	put_u32(&w, SBSIZ, properties->send_size);
	put_u32(&w, RBSIZ, properties->receive_size);
	put_u32(&w, RSSIZ, properties->segment_size);
	put_u32(&w, RCSIZ, properties->segment_count);
	put_u32(&w, BRS, properties->reverse);
	if (properties->hostauth)
		put_hostauth(&w, properties->hostauth, properties->hostauth_len);
	return w.failed ? 0 : room - w.left;
}

int rpcrdma_propset_has(const uint8_t *buf, size_t len, uint32_t item)
{
	struct bytes_reader r = bytes_reader(buf, len);
	const uint32_t count = read_be32(&r);
	if (r.failed || count > r.left / 4 || r.left != 4 * (size_t)count)
		return -EBADMSG;
	if (item / 32 >= count)
		return 0;
	return get_be32(r.at + (size_t)(item / 32) * 4) >> item % 32 & 1;
}
