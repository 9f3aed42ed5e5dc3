/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "proto/smcr/bytes.h"

#define IDENTIFIER       0xF6AB0E18u
#define VERSION          1
#define FLAG_INVALIDATES 0x01
#define UNIT             1024 /* sizes count units, less one */

static uint8_t units_of(uint32_t size)
{
	if (size < UNIT)
		return 0;
	if (size > RPCRDMA_PRIVATE_MOST_SIZE)
		size = RPCRDMA_PRIVATE_MOST_SIZE;
	return (uint8_t)(size / UNIT - 1);
}

void rpcrdma_encode_private(const struct rpcrdma_private *private_data,
			    uint8_t buf[RPCRDMA_PRIVATE_LEN])
{
	struct bytes_writer w = bytes_writer(buf, RPCRDMA_PRIVATE_LEN);
	write_be32(&w, IDENTIFIER);
	write_u8(&w, VERSION);
	write_u8(&w, private_data->invalidates ? FLAG_INVALIDATES : 0);
	write_u8(&w, units_of(private_data->send_size));
	write_u8(&w, units_of(private_data->receive_size));
}

int rpcrdma_decode_private(const uint8_t *buf, size_t len, struct rpcrdma_private *ret_private)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct rpcrdma_private private_data;
	const uint32_t identifier = read_be32(&r);
	const uint8_t version = read_u8(&r);
	private_data.invalidates = read_u8(&r) & FLAG_INVALIDATES;
	private_data.send_size = UNIT * (1 + (uint32_t)read_u8(&r));
	private_data.receive_size = UNIT * (1 + (uint32_t)read_u8(&r));
	if (r.failed || identifier != IDENTIFIER || version != VERSION)
		return -EBADMSG;
	*ret_private = private_data;
	return 0;
}
