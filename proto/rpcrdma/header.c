/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "proto/smcr/bytes.h"

size_t rpcrdma_prefix_len(uint32_t version)
{
	return version == RPCRDMA_V1 ? RPCRDMA_V1_PREFIX_LEN : RPCRDMA_V2_PREFIX_LEN;
}

int rpcrdma_decode_prefix(const uint8_t *buf, size_t len, struct rpcrdma_prefix *ret_prefix)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct rpcrdma_prefix prefix = { 0 };
	if (len < RPCRDMA_LEAST_LEN)
		return -EBADMSG;
	prefix.xid = read_be32(&r);
	prefix.version = read_be32(&r);
	prefix.credit = read_be32(&r);
	prefix.type = read_be32(&r);
	if (prefix.version == RPCRDMA_V2)
		prefix.flags = read_be32(&r) & RPCRDMA_FLAGS;
	*ret_prefix = prefix;
	return 0;
}

size_t rpcrdma_encode_prefix(const struct rpcrdma_prefix *prefix,
			     uint8_t buf[RPCRDMA_V2_PREFIX_LEN])
{
	struct bytes_writer w = bytes_writer(buf, RPCRDMA_V2_PREFIX_LEN);
	write_be32(&w, prefix->xid);
	write_be32(&w, prefix->version);
	write_be32(&w, prefix->credit);
	write_be32(&w, prefix->type);
	if (prefix->version != RPCRDMA_V1)
		write_be32(&w, prefix->flags & RPCRDMA_FLAGS);
	return rpcrdma_prefix_len(prefix->version);
}
