/* SPDX-License-Identifier: MIT */
#include "proto/smcr/tcpopt.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

/* Option kinds without a length byte (RFC 9293 3.1). */
enum {
	TCPOPT_END = 0,
	TCPOPT_NOP = 1,
};

/* TCPO-1. */
int smcr_tcpopt_encode(uint8_t *buf, size_t len)
{
	struct bytes_writer w = bytes_writer(buf, len);
	write_u8(&w, SMCR_TCPOPT_KIND);
	write_u8(&w, SMCR_TCPOPT_LEN);
	write_be32(&w, SMCR_EYE_CATCHER);
	return w.failed ? -ENOBUFS : SMCR_TCPOPT_LEN;
}

int smcr_tcpopt_find(const uint8_t *options, size_t len)
{
	struct bytes_reader r = bytes_reader(options, len);
	while (r.left > 0) {
		uint8_t kind = read_u8(&r);
		if (kind == TCPOPT_END)
			return 0;
		if (kind == TCPOPT_NOP)
			continue;
		uint8_t option_len = read_u8(&r);
		const uint8_t *body = option_len >= 2 ? read_span(&r, option_len - 2u) : NULL;
		if (r.failed || !body)
			return -EBADMSG;
		/* Another ExID or another length is another experiment (TCPO-7). */
		if (kind == SMCR_TCPOPT_KIND && option_len == SMCR_TCPOPT_LEN &&
		    get_be32(body) == SMCR_EYE_CATCHER)
			return 1;
	}
	return 0;
}
