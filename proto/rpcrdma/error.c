/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "proto/smcr/bytes.h"

/* How many words follow a code (RR2-153, RR2-158, RR2-159, RR2-160, RR2-161, RR2-162). In version 1
 * there are the first two codes (RR2-194), with the same words. */
static unsigned int words_behind(uint32_t code)
{
	switch (code) {
	case RPCRDMA_ERR_VERS:
	case RPCRDMA_ERR_WRITE_RESOURCE: return 2;
	case RPCRDMA_ERR_READ_CHUNKS:
	case RPCRDMA_ERR_WRITE_CHUNKS:
	case RPCRDMA_ERR_SEGMENTS:
	case RPCRDMA_ERR_REPLY_RESOURCE: return 1;
	default: return 0;
	}
}

bool rpcrdma_error_is_known(uint32_t version, uint32_t code)
{
	if (version == RPCRDMA_V1)
		return code == RPCRDMA_ERR_VERS || code == RPCRDMA_ERR_CHUNK;
	return (code >= RPCRDMA_ERR_VERS && code <= RPCRDMA_ERR_REPLY_RESOURCE) ||
	       code == RPCRDMA_ERR_SYSTEM;
}

int rpcrdma_decode_error(const uint8_t *buf, size_t len, uint32_t version,
			 struct rpcrdma_error *ret_error)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct rpcrdma_error error = { .code = read_be32(&r) };
	const bool known = rpcrdma_error_is_known(version, error.code);
	const unsigned int words = known ? words_behind(error.code) : 0;
	if (words > 0)
		error.first = read_be32(&r);
	if (words > 1)
		error.second = read_be32(&r);
	if (r.failed || (known && r.left > 0))
		return -EBADMSG;
	*ret_error = error;
	return 0;
}

size_t rpcrdma_encode_error(const struct rpcrdma_error *error, uint8_t buf[RPCRDMA_ERROR_MOST_LEN])
{
	const unsigned int words = words_behind(error->code);
	put_be32(buf, error->code);
	if (words > 0)
		put_be32(buf + 4, error->first);
	if (words > 1)
		put_be32(buf + 8, error->second);
	return 4 + 4 * (size_t)words;
}

/* The length alone does not tell: errors of version 2 with one word have 28 bytes too, but the word
 * that is ERR_VERS here is their flags, and the word behind it, the lowest version here, is their
 * code, of 6 at least. */
bool rpcrdma_decode_foreign_error(const uint8_t *buf, size_t len, struct rpcrdma_error *ret_error)
{
	struct rpcrdma_prefix prefix;
	struct rpcrdma_error error;
	if (rpcrdma_decode_prefix(buf, len, &prefix) < 0 || prefix.type != RPCRDMA_ERROR)
		return false;
	if (rpcrdma_decode_error(buf + RPCRDMA_V1_PREFIX_LEN, len - RPCRDMA_V1_PREFIX_LEN,
				 RPCRDMA_V1, &error) < 0)
		return false;
	if (!rpcrdma_error_is_known(RPCRDMA_V1, error.code))
		return false;
	if (error.code == RPCRDMA_ERR_VERS && error.first >= RPCRDMA_ERR_READ_CHUNKS)
		return false;
	*ret_error = error;
	return true;
}
