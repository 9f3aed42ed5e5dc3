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

/* Opcodes 0x00..0x1F are the reliable-connected service, 0x60..0x7F unreliable datagrams. */
#define TRANSPORT_OPCODES 0x80

/* What an opcode's packet consists of. */
enum payload_rule {
	OPCODE_INVALID,     /* no peer sends this to smcrd's requester or responder */
	OPCODE_UNSUPPORTED, /* a request that a responder may refuse */
	PAYLOAD_NONE,
	PAYLOAD_FULL, /* FIRST and MIDDLE: the path MTU, which is a multiple of four */
	PAYLOAD_TAIL, /* LAST: at least a byte */
	PAYLOAD_ANY,
};

/* Which header is behind the BTH. */
enum ext_kind {
	EXT_NONE,
	EXT_RETH,
	EXT_AETH,
	EXT_IETH,
	EXT_DETH,
};

struct opcode_rule {
	uint8_t payload; /* enum payload_rule */
	uint8_t ext;     /* enum ext_kind */
};

static const struct opcode_rule opcode_rules[TRANSPORT_OPCODES] = {
	[ROCE_SEND_FIRST] = { PAYLOAD_FULL, EXT_NONE },
	[ROCE_SEND_MIDDLE] = { PAYLOAD_FULL, EXT_NONE },
	[ROCE_SEND_LAST] = { PAYLOAD_TAIL, EXT_NONE },
	[0x03] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* SEND LAST with immediate */
	[ROCE_SEND_ONLY] = { PAYLOAD_ANY, EXT_NONE },
	[0x05] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* SEND ONLY with immediate */
	[ROCE_WRITE_FIRST] = { PAYLOAD_FULL, EXT_RETH },
	[ROCE_WRITE_MIDDLE] = { PAYLOAD_FULL, EXT_NONE },
	[ROCE_WRITE_LAST] = { PAYLOAD_TAIL, EXT_NONE },
	[0x09] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* RDMA WRITE LAST with immediate */
	[ROCE_WRITE_ONLY] = { PAYLOAD_ANY, EXT_RETH },
	[0x0B] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* RDMA WRITE ONLY with immediate */
	[ROCE_READ_REQUEST] = { PAYLOAD_NONE, EXT_RETH },
	[ROCE_READ_RESPONSE_FIRST] = { PAYLOAD_FULL, EXT_AETH },
	[ROCE_READ_RESPONSE_MIDDLE] = { PAYLOAD_FULL, EXT_NONE },
	[ROCE_READ_RESPONSE_LAST] = { PAYLOAD_TAIL, EXT_AETH },
	[ROCE_READ_RESPONSE_ONLY] = { PAYLOAD_ANY, EXT_AETH },
	[ROCE_ACKNOWLEDGE] = { PAYLOAD_NONE, EXT_AETH },
	[0x13] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* compare and swap */
	[0x14] = { OPCODE_UNSUPPORTED, EXT_NONE }, /* fetch and add */
	[ROCE_SEND_LAST_INVALIDATE] = { PAYLOAD_TAIL, EXT_IETH },
	[ROCE_SEND_ONLY_INVALIDATE] = { PAYLOAD_ANY, EXT_IETH },
	[ROCE_UD_SEND_ONLY] = { PAYLOAD_ANY, EXT_DETH },
};

static const uint8_t ext_lens[] = {
	[EXT_NONE] = 0,
	[EXT_RETH] = ROCE_RETH_LEN,
	[EXT_AETH] = ROCE_AETH_LEN,
	[EXT_IETH] = ROCE_IETH_LEN,
	[EXT_DETH] = ROCE_DETH_LEN,
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

static void decode_ext(enum ext_kind kind, const uint8_t *buf, union roce_ext *ret_ext)
{
	switch (kind) {
	case EXT_NONE: break;
	case EXT_RETH:
		ret_ext->reth = (struct roce_reth){
			.va = (uint64_t)get_be32(buf) << 32 | get_be32(buf + 4),
			.rkey = get_be32(buf + 8),
			.length = get_be32(buf + 12),
		};
		break;
	case EXT_AETH:
		ret_ext->aeth = (struct roce_aeth){
			.kind = (enum roce_ack_kind)(buf[0] >> 5 & 3),
			.value = buf[0] & 0x1F,
			.msn = get_be24(buf + 1),
		};
		break;
	case EXT_IETH: ret_ext->invalidate = get_be32(buf); break;
	case EXT_DETH:
		ret_ext->deth =
			(struct roce_deth){ .qkey = get_be32(buf), .src_qp = get_be24(buf + 5) };
		break;
	}
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
	size_t header_len = ROCE_BTH_LEN + (size_t)ext_lens[rule.ext];
	if (len < header_len + ROCE_ICRC_LEN)
		return -EBADMSG;
	size_t body = len - header_len - ROCE_ICRC_LEN;
	unsigned int pad = buf[1] >> BTH_PAD_SHIFT & 3;
	if (body % 4 != 0 || pad > body || body - pad > ROCE_MAX_PAYLOAD)
		return -EBADMSG;
	if (!payload_fits(rule.payload, body - pad, pad))
		return -EBADMSG;

	decode_fixed(buf, len, ret_packet);
	decode_ext((enum ext_kind)rule.ext, buf + ROCE_BTH_LEN, &ret_packet->ext);
	ret_packet->header_len = header_len;
	ret_packet->payload = buf + header_len;
	ret_packet->payload_len = body - pad;
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

static enum ext_kind ext_of(uint8_t opcode)
{
	return opcode < TRANSPORT_OPCODES ? (enum ext_kind)opcode_rules[opcode].ext : EXT_NONE;
}

size_t roce_ext_len(uint8_t opcode)
{
	return ext_lens[ext_of(opcode)];
}

size_t roce_encode_ext(uint8_t opcode, const union roce_ext *ext, uint8_t *buf)
{
	enum ext_kind kind = ext_of(opcode);
	switch (kind) {
	case EXT_NONE: break;
	case EXT_RETH: roce_encode_reth(&ext->reth, buf); break;
	case EXT_AETH: roce_encode_aeth(&ext->aeth, buf); break;
	case EXT_IETH: put_be32(buf, ext->invalidate); break;
	case EXT_DETH:
		put_be32(buf, ext->deth.qkey);
		put_be32(buf + 4, ext->deth.src_qp & ROCE_QPN_MASK);
		break;
	}
	return ext_lens[kind];
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
	case ROCE_READ_REQUEST: return "RDMA READ REQUEST";
	case ROCE_READ_RESPONSE_FIRST: return "RDMA READ RESPONSE FIRST";
	case ROCE_READ_RESPONSE_MIDDLE: return "RDMA READ RESPONSE MIDDLE";
	case ROCE_READ_RESPONSE_LAST: return "RDMA READ RESPONSE LAST";
	case ROCE_READ_RESPONSE_ONLY: return "RDMA READ RESPONSE ONLY";
	case ROCE_ACKNOWLEDGE: return "ACKNOWLEDGE";
	case ROCE_SEND_LAST_INVALIDATE: return "SEND LAST WITH INVALIDATE";
	case ROCE_SEND_ONLY_INVALIDATE: return "SEND ONLY WITH INVALIDATE";
	case ROCE_UD_SEND_ONLY: return "UD SEND ONLY";
	case ROCE_CONGESTION: return "CONGESTION NOTIFICATION";
	default: return "unknown";
	}
}
