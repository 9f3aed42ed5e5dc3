/* SPDX-License-Identifier: MIT */
#include "proto/roce/roce.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

/* Fields of the BTH's second, eighth and ninth byte (IBA 9.2). */
#define BTH_SOLICITED 0x80
#define BTH_MIGRATED  0x40
#define BTH_PAD_SHIFT 4
#define BTH_VERSION   0x0F
#define BTH_BECN      0x40
#define BTH_ACK_REQ   0x80

/* Opcodes 0x00..0x1F are the reliable-connected service. */
#define TRANSPORT_OPCODES 0x20

/* What an opcode's packet consists of. */
enum payload_rule {
	OPCODE_INVALID,     /* no peer sends this to smcrd's requester or responder */
	OPCODE_UNSUPPORTED, /* a request that a responder may refuse */
	PAYLOAD_NONE,
	PAYLOAD_FULL, /* FIRST and MIDDLE: the path MTU, which is a multiple of four */
	PAYLOAD_TAIL, /* LAST: at least a byte */
	PAYLOAD_ANY,
};

struct opcode_rule {
	uint8_t header_len;
	uint8_t payload; /* enum payload_rule */
};

static const struct opcode_rule opcode_rules[TRANSPORT_OPCODES] = {
	[ROCE_SEND_FIRST] = { ROCE_BTH_LEN, PAYLOAD_FULL },
	[ROCE_SEND_MIDDLE] = { ROCE_BTH_LEN, PAYLOAD_FULL },
	[ROCE_SEND_LAST] = { ROCE_BTH_LEN, PAYLOAD_TAIL },
	[0x03] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* SEND LAST with immediate */
	[ROCE_SEND_ONLY] = { ROCE_BTH_LEN, PAYLOAD_ANY },
	[0x05] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* SEND ONLY with immediate */
	[ROCE_WRITE_FIRST] = { ROCE_BTH_LEN + ROCE_RETH_LEN, PAYLOAD_FULL },
	[ROCE_WRITE_MIDDLE] = { ROCE_BTH_LEN, PAYLOAD_FULL },
	[ROCE_WRITE_LAST] = { ROCE_BTH_LEN, PAYLOAD_TAIL },
	[0x09] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* RDMA WRITE LAST with immediate */
	[ROCE_WRITE_ONLY] = { ROCE_BTH_LEN + ROCE_RETH_LEN, PAYLOAD_ANY },
	[0x0B] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* RDMA WRITE ONLY with immediate */
	[0x0C] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* RDMA READ request */
	[ROCE_ACKNOWLEDGE] = { ROCE_BTH_LEN + ROCE_AETH_LEN, PAYLOAD_NONE },
	[0x13] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* compare and swap */
	[0x14] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* fetch and add */
	[0x16] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* SEND LAST with invalidate */
	[0x17] = { ROCE_BTH_LEN, OPCODE_UNSUPPORTED }, /* SEND ONLY with invalidate */
};

static bool payload_fits(enum payload_rule rule, size_t len, unsigned int pad)
{
	switch (rule) {
	case OPCODE_INVALID:
	case OPCODE_UNSUPPORTED: return false;
	case PAYLOAD_NONE: return len == 0 && pad == 0;
	case PAYLOAD_FULL: return len > 0 && pad == 0;
	case PAYLOAD_TAIL: return len > 0;
	case PAYLOAD_ANY: return true;
	}
	return false;
}

/* Decodes the fields that every packet has. */
static void decode_fixed(const uint8_t *buf, size_t len, struct roce_packet *packet)
{
	const uint8_t *icrc = buf + len - ROCE_ICRC_LEN;
	packet->bth = (struct roce_bth){ .opcode = buf[0],
					 .solicited = buf[1] & BTH_SOLICITED,
					 .migrated = buf[1] & BTH_MIGRATED,
					 .pad = buf[1] >> BTH_PAD_SHIFT & 3,
					 .pkey = get_be16(buf + 2),
					 .becn = buf[4] & BTH_BECN,
					 .dest_qp = get_be24(buf + 5),
					 .ack_req = buf[8] & BTH_ACK_REQ,
					 .psn = get_be24(buf + 9) };
	packet->header_len = ROCE_BTH_LEN;
	packet->icrc = (uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 | (uint32_t)icrc[2] << 16 |
		       (uint32_t)icrc[3] << 24;
}

static int decode_congestion(const uint8_t *buf, size_t len, struct roce_packet *ret_packet)
{
	if (len != ROCE_CNP_LEN || (buf[1] & BTH_VERSION) != 0)
		return -EBADMSG;
	decode_fixed(buf, len, ret_packet);
	if (ret_packet->bth.pad) /* there is nothing to pad */
		return -EBADMSG;
	ret_packet->header_len += ROCE_CNP_RESERVED;
	ret_packet->payload = buf + ret_packet->header_len;
	ret_packet->payload_len = 0;
	return 0;
}

int roce_decode(const uint8_t *buf, size_t len, struct roce_packet *ret_packet)
{
	if (len < ROCE_MIN_LEN || len > ROCE_MAX_LEN)
		return -EBADMSG;
	if (buf[0] == ROCE_CONGESTION)
		return decode_congestion(buf, len, ret_packet);
	if ((buf[1] & BTH_VERSION) != 0 || buf[0] >= TRANSPORT_OPCODES)
		return -EBADMSG;
	struct opcode_rule rule = opcode_rules[buf[0]];
	if (rule.payload == OPCODE_INVALID)
		return -EBADMSG;
	if (rule.payload == OPCODE_UNSUPPORTED) {
		decode_fixed(buf, len, ret_packet);
		return -ENOTSUP;
	}
	if (len < (size_t)rule.header_len + ROCE_ICRC_LEN)
		return -EBADMSG;
	size_t body = len - rule.header_len - ROCE_ICRC_LEN;
	unsigned int pad = buf[1] >> BTH_PAD_SHIFT & 3;
	if (body % 4 != 0 || pad > body || body - pad > ROCE_MAX_PAYLOAD)
		return -EBADMSG;
	if (!payload_fits(rule.payload, body - pad, pad))
		return -EBADMSG;

	decode_fixed(buf, len, ret_packet);
	ret_packet->header_len = rule.header_len;
	ret_packet->payload = buf + rule.header_len;
	ret_packet->payload_len = body - pad;
	const uint8_t *ext = buf + ROCE_BTH_LEN;
	if (roce_has_reth(buf[0])) {
		ret_packet->reth.va = (uint64_t)get_be32(ext) << 32 | get_be32(ext + 4);
		ret_packet->reth.rkey = get_be32(ext + 8);
		ret_packet->reth.length = get_be32(ext + 12);
	} else if (buf[0] == ROCE_ACKNOWLEDGE) {
		ret_packet->aeth.kind = (enum roce_ack_kind)(ext[0] >> 5 & 3);
		ret_packet->aeth.value = ext[0] & 0x1F;
		ret_packet->aeth.msn = get_be24(ext + 1);
	}
	return 0;
}

void roce_encode_bth(const struct roce_bth *bth, uint8_t *buf)
{
	buf[0] = bth->opcode;
	buf[1] = (uint8_t)((bth->solicited ? BTH_SOLICITED : 0) |
			   (bth->migrated ? BTH_MIGRATED : 0) | bth->pad << BTH_PAD_SHIFT);
	put_be16(buf + 2, bth->pkey);
	buf[4] = bth->becn ? BTH_BECN : 0;
	put_be24(buf + 5, bth->dest_qp);
	buf[8] = bth->ack_req ? BTH_ACK_REQ : 0;
	put_be24(buf + 9, bth->psn);
}

void roce_encode_reth(const struct roce_reth *reth, uint8_t *buf)
{
	put_be32(buf, (uint32_t)(reth->va >> 32));
	put_be32(buf + 4, (uint32_t)reth->va);
	put_be32(buf + 8, reth->rkey);
	put_be32(buf + 12, reth->length);
}

void roce_encode_aeth(const struct roce_aeth *aeth, uint8_t *buf)
{
	buf[0] = (uint8_t)((unsigned int)aeth->kind << 5 | (aeth->value & 0x1F));
	put_be24(buf + 1, aeth->msn);
}

/* IBA table 50: 0..4, then two steps a power of two. */
uint32_t roce_credits_decode(uint8_t code)
{
	if (code <= 4)
		return code;
	unsigned int step = code - 4u;
	uint32_t power = 4u << step / 2;
	return step % 2 ? power + power / 2 : power;
}

uint8_t roce_credits_encode(uint32_t credits)
{
	uint8_t code = 0;
	while (code < ROCE_CREDITS_UNLIMITED - 1 &&
	       roce_credits_decode((uint8_t)(code + 1)) <= credits)
		code++;
	return code;
}

/* IBA table 45, in units of 10 us: 1..4, then two steps a power of two; code 0 is the longest. */
uint32_t roce_rnr_timer_us(uint8_t code)
{
	code &= 0x1F;
	if (code == 0)
		return 655360;
	if (code <= 4)
		return 10u * code;
	return 10u * roce_credits_decode(code);
}

const char *roce_opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case ROCE_SEND_FIRST: return "SEND FIRST";
	case ROCE_SEND_MIDDLE: return "SEND MIDDLE";
	case ROCE_SEND_LAST: return "SEND LAST";
	case ROCE_SEND_ONLY: return "SEND ONLY";
	case ROCE_WRITE_FIRST: return "RDMA WRITE FIRST";
	case ROCE_WRITE_MIDDLE: return "RDMA WRITE MIDDLE";
	case ROCE_WRITE_LAST: return "RDMA WRITE LAST";
	case ROCE_WRITE_ONLY: return "RDMA WRITE ONLY";
	case ROCE_ACKNOWLEDGE: return "ACKNOWLEDGE";
	case ROCE_CONGESTION: return "CONGESTION NOTIFICATION";
	default: return "unknown";
	}
}
