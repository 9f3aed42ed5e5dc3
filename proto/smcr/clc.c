/* SPDX-License-Identifier: MIT */
/* RFC 7609 A.2: lengths first, then one reader and one writer a message. */
#include "proto/smcr/clc.h"

#include <errno.h>

#include "proto/smcr/bytes.h"

#define TRAILER_LEN 4
#define PREFIX_LEN  17 /* IPv6 prefix: 16 bytes and its length */

/* Proposal (A.2.2, CLC-5) */
#define PROPOSAL_MIN_LEN 52 /* version 1 without growth area and prefixes */
#define IP_OFFSET_AT     38
#define IP_AREA_BASE     40 /* where the offset at 38 counts from */
#define IP_AREA_LEN      8  /* without the prefixes */

/* What a version 2 Proposal has besides: a growth area and, behind the IP area, the extension. */
#define V2_GROWTH_LEN       40
#define V2_MIN_LEN          (IP_AREA_BASE + V2_GROWTH_LEN + TRAILER_LEN)
#define V2_EXT_OFFSET_AT    50
#define V2_EXT_BASE         52 /* where the offset at 50 counts from */
#define V2_EXT_LEN          40 /* without the EIDs */
#define V2_EXT_MAX_EIDS     8
#define V2_EXT_MAX_ISM_GIDS 8
#define V2_EID_LEN          32
#define V2_ISM_LEN          48 /* SMC-Dv2 extension without the GIDs */
#define V2_ISM_GID_LEN      10

/* Byte 7: version in the high nibble, then one flag; in a version 2 Proposal two types instead. */
enum {
	VERSION_SHIFT = 4,
	FLAG_FIRST_CONTACT = 0x08, /* F of Accept and Confirm */
	FLAG_OUT_OF_SYNC = 0x08,   /* S of Decline */
};

/* SMC types that a version 2 Proposal offers, two bits for each version. */
enum offered {
	OFFERED_R = 0,
	OFFERED_D = 1,
	OFFERED_NONE = 2,
	OFFERED_BOTH = 3,
};

static enum offered offered_v1(uint8_t byte7)
{
	return byte7 & 3;
}

static enum offered offered_v2(uint8_t byte7)
{
	return byte7 >> 2 & 3;
}

static bool has_r(enum offered offered)
{
	return offered == OFFERED_R || offered == OFFERED_BOTH;
}

static bool has_d(enum offered offered)
{
	return offered == OFFERED_D || offered == OFFERED_BOTH;
}

/* ---- header and lengths */

static bool length_fits_type(uint8_t type, uint8_t version, uint16_t length)
{
	switch (type) {
	case SMCR_CLC_PROPOSAL:
		return length >= (version >= 2 ? V2_MIN_LEN : PROPOSAL_MIN_LEN) &&
		       length <= SMCR_CLC_MAX_LEN;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM: return length == SMCR_CLC_ACCEPT_LEN;
	case SMCR_CLC_DECLINE:
		return length == (version >= 2 ? SMCR_CLC_DECLINE_V2_LEN : SMCR_CLC_DECLINE_LEN);
	default: return false;
	}
}

int smcr_clc_peek_length(const uint8_t *buf, size_t len)
{
	if (len < SMCR_CLC_HEADER_LEN)
		return -EAGAIN;
	uint16_t length = get_be16(buf + 5);
	if (get_be32(buf) != SMCR_EYE_CATCHER ||
	    !length_fits_type(buf[4], buf[7] >> VERSION_SHIFT, length))
		return -EBADMSG;
	return length;
}

static void write_header(struct bytes_writer *w, enum smcr_clc_type type, uint16_t length,
			 uint8_t version, uint8_t flags)
{
	write_be32(w, SMCR_EYE_CATCHER);
	write_u8(w, type);
	write_be16(w, length);
	write_u8(w, (uint8_t)(version << VERSION_SHIFT | flags));
}

/* ---- Proposal (A.2.2) */

/* Subnet or prefixes; the count must leave room in the message, which the reader checks. */
static int read_ip_area(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	struct bytes_reader r = bytes_reader(buf, len - TRAILER_LEN);
	read_skip(&r, IP_AREA_BASE + (size_t)p->ip_offset);
	p->ipv4_subnet = read_be32(&r);
	p->ipv4_mask_len = read_u8(&r);
	read_skip(&r, 2);
	p->num_prefixes = read_u8(&r);
	if (p->ipv4_mask_len > 32 || p->num_prefixes > SMCR_CLC_MAX_PREFIXES)
		return -EBADMSG;
	for (unsigned int i = 0; i < p->num_prefixes; i++) {
		read_bytes(&r, p->prefixes[i].addr, sizeof(p->prefixes[i].addr));
		p->prefixes[i].len = read_u8(&r);
		if (p->prefixes[i].len > 128)
			return -EBADMSG;
	}
	return r.failed ? -EBADMSG : 0;
}

static int read_proposal_v1(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	int rc = read_ip_area(buf, len, p);
	if (rc < 0)
		return rc;
	size_t expected =
		PROPOSAL_MIN_LEN + (size_t)p->ip_offset + (size_t)PREFIX_LEN * p->num_prefixes;
	if (len != expected)
		return -EBADMSG;
	p->offers_r_v1 = true;
	return 0;
}

/* Bytes of the version 2 extension and, with SMC-D, of its own; negative if it is malformed. */
static int v2_extension_length(const uint8_t *buf, size_t len)
{
	uint16_t offset = get_be16(buf + V2_EXT_OFFSET_AT);
	struct bytes_reader r = bytes_reader(buf + V2_EXT_BASE, len - V2_EXT_BASE - TRAILER_LEN);
	read_skip(&r, offset);
	uint8_t eids = read_u8(&r);
	uint8_t ism_gids = read_u8(&r);
	if (r.failed || offset == 0 || eids > V2_EXT_MAX_EIDS || ism_gids > V2_EXT_MAX_ISM_GIDS)
		return -EBADMSG;
	int length = V2_EXT_LEN + V2_EID_LEN * eids;
	if (has_d(offered_v2(buf[7])))
		length += V2_ISM_LEN + V2_ISM_GID_LEN * ism_gids;
	return length;
}

/* The length rule that deployed peers check for equality (growth area of 40 bytes always there). */
static int read_proposal_v2(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	size_t expected = V2_MIN_LEN;
	if (offered_v1(buf[7]) != OFFERED_NONE) {
		int rc = p->ip_offset <= V2_GROWTH_LEN ? read_ip_area(buf, len, p) : -EBADMSG;
		if (rc < 0)
			return rc;
		expected += IP_AREA_LEN + (size_t)PREFIX_LEN * p->num_prefixes;
	}
	if (offered_v2(buf[7]) != OFFERED_NONE) {
		int extension = v2_extension_length(buf, len);
		if (extension < 0)
			return extension;
		expected += (size_t)extension;
	}
	if (len != expected)
		return -EBADMSG;
	p->offers_r_v1 = has_r(offered_v1(buf[7]));
	p->offers_r_v2 = has_r(offered_v2(buf[7]));
	return 0;
}

static int read_proposal(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	struct bytes_reader r = bytes_reader(buf, len);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	p->version = buf[7] >> VERSION_SHIFT;
	read_bytes(&r, p->peer_id, SMCR_PEER_ID_LEN);
	read_bytes(&r, p->gid, SMCR_GID_LEN);
	read_bytes(&r, p->mac, SMCR_MAC_LEN);
	p->ip_offset = read_be16(&r);
	if (p->version >= 2)
		return read_proposal_v2(buf, len, p);
	int rc = read_proposal_v1(buf, len, p);
	if (rc < 0)
		return rc;
	return p->version == SMCR_CLC_VERSION_1 ? 0 : -ENOTSUP; /* CLC-4 */
}

static bool proposal_valid(const struct smcr_clc_proposal *p)
{
	if (p->ip_offset > V2_GROWTH_LEN || p->ipv4_mask_len > 32 ||
	    p->num_prefixes > SMCR_CLC_MAX_PREFIXES)
		return false;
	for (unsigned int i = 0; i < p->num_prefixes; i++)
		if (p->prefixes[i].len > 128)
			return false;
	return true;
}

int smcr_clc_encode_proposal(const struct smcr_clc_proposal *msg, uint8_t *buf, size_t len)
{
	if (!proposal_valid(msg))
		return -EINVAL;
	uint16_t length =
		(uint16_t)(PROPOSAL_MIN_LEN + msg->ip_offset + PREFIX_LEN * msg->num_prefixes);
	if (len < length)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, length);
	write_header(&w, SMCR_CLC_PROPOSAL, length, SMCR_CLC_VERSION_1, 0);
	write_bytes(&w, msg->peer_id, SMCR_PEER_ID_LEN);
	write_bytes(&w, msg->gid, SMCR_GID_LEN);
	write_bytes(&w, msg->mac, SMCR_MAC_LEN);
	write_be16(&w, msg->ip_offset);
	write_zeros(&w, msg->ip_offset);
	write_be32(&w, msg->ipv4_subnet);
	write_u8(&w, msg->ipv4_mask_len);
	write_zeros(&w, 2);
	write_u8(&w, msg->num_prefixes);
	for (unsigned int i = 0; i < msg->num_prefixes; i++) {
		write_bytes(&w, msg->prefixes[i].addr, sizeof(msg->prefixes[i].addr));
		write_u8(&w, msg->prefixes[i].len);
	}
	write_be32(&w, SMCR_EYE_CATCHER);
	return length;
}

/* ---- Accept and Confirm (A.2.3, A.2.4) */

/* The RFC gives the MTU a meaning in first contact only (CLC-9), which F tells in an Accept; in a
 * Confirm it is a reserved bit, so there the reader of the message decides. */
static bool accept_enums_valid(const struct smcr_clc_accept *a)
{
	return a->bsize <= SMCR_BSIZE_MAX && (!a->first_contact || smcr_mtu_valid(a->mtu));
}

static int read_accept(const uint8_t *buf, size_t len, struct smcr_clc_accept *a)
{
	struct bytes_reader r = bytes_reader(buf, len);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	a->type = buf[4];
	a->first_contact = buf[7] & FLAG_FIRST_CONTACT;
	read_bytes(&r, a->peer_id, SMCR_PEER_ID_LEN);
	read_bytes(&r, a->gid, SMCR_GID_LEN);
	read_bytes(&r, a->mac, SMCR_MAC_LEN);
	a->qpn = read_be24(&r);
	a->rkey = read_be32(&r);
	a->rmbe_index = read_u8(&r);
	a->alert_token = read_be32(&r);
	uint8_t sizes = read_u8(&r);
	a->bsize = sizes >> 4;
	a->mtu = sizes & 0x0F;
	read_skip(&r, 1);
	a->rmb_vaddr = read_be64(&r);
	read_skip(&r, 1);
	a->psn = read_be24(&r);
	if (a->rmbe_index == 0) /* CLC-11 */
		return -EBADMSG;
	/* We propose version 1, so no other can be accepted or confirmed (CLC-4). */
	if (buf[7] >> VERSION_SHIFT != SMCR_CLC_VERSION_1 || !accept_enums_valid(a))
		return -ENOTSUP;
	return 0;
}

int smcr_clc_encode_accept(const struct smcr_clc_accept *msg, uint8_t *buf, size_t len)
{
	if ((msg->type != SMCR_CLC_ACCEPT && msg->type != SMCR_CLC_CONFIRM) ||
	    !accept_enums_valid(msg) || msg->mtu > 0x0F || msg->rmbe_index == 0 ||
	    msg->qpn > SMCR_QPN_MAX || msg->psn > SMCR_PSN_MASK)
		return -EINVAL;
	if (len < SMCR_CLC_ACCEPT_LEN)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, SMCR_CLC_ACCEPT_LEN);
	write_header(&w, msg->type, SMCR_CLC_ACCEPT_LEN, SMCR_CLC_VERSION_1,
		     msg->first_contact ? FLAG_FIRST_CONTACT : 0);
	write_bytes(&w, msg->peer_id, SMCR_PEER_ID_LEN);
	write_bytes(&w, msg->gid, SMCR_GID_LEN);
	write_bytes(&w, msg->mac, SMCR_MAC_LEN);
	write_be24(&w, msg->qpn);
	write_be32(&w, msg->rkey);
	write_u8(&w, msg->rmbe_index);
	write_be32(&w, msg->alert_token);
	write_u8(&w, (uint8_t)(msg->bsize << 4 | msg->mtu));
	write_zeros(&w, 1);
	write_be64(&w, msg->rmb_vaddr);
	write_zeros(&w, 1);
	write_be24(&w, msg->psn);
	write_be32(&w, SMCR_EYE_CATCHER);
	return SMCR_CLC_ACCEPT_LEN;
}

/* ---- Decline (A.2.5); version 2 appends four further diagnoses, which we neither read nor send */

static int read_decline(const uint8_t *buf, size_t len, struct smcr_clc_decline *d)
{
	struct bytes_reader r = bytes_reader(buf, len);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	/* Whatever version its sender names, a Decline ends the exchange: none is refused. */
	d->version = len == SMCR_CLC_DECLINE_V2_LEN ? 2 : SMCR_CLC_VERSION_1;
	d->out_of_sync = buf[7] & FLAG_OUT_OF_SYNC;
	read_bytes(&r, d->peer_id, SMCR_PEER_ID_LEN);
	d->diagnosis = read_be32(&r);
	return 0;
}

int smcr_clc_encode_decline(const struct smcr_clc_decline *msg, uint8_t *buf, size_t len)
{
	if (msg->version != SMCR_CLC_VERSION_1 && msg->version != 2)
		return -EINVAL;
	uint16_t length = msg->version == 2 ? SMCR_CLC_DECLINE_V2_LEN : SMCR_CLC_DECLINE_LEN;
	if (len < length)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, length);
	write_header(&w, SMCR_CLC_DECLINE, length, msg->version,
		     msg->out_of_sync ? FLAG_OUT_OF_SYNC : 0);
	write_bytes(&w, msg->peer_id, SMCR_PEER_ID_LEN);
	write_be32(&w, msg->diagnosis);
	write_zeros(&w, w.left - TRAILER_LEN);
	write_be32(&w, SMCR_EYE_CATCHER);
	return length;
}

/* ---- any message */

int smcr_clc_decode(const uint8_t *buf, size_t len, struct smcr_clc_msg *ret_msg)
{
	int length = smcr_clc_peek_length(buf, len);
	if (length < 0)
		return length;
	if (len < (size_t)length)
		return -EAGAIN;
	if (len > (size_t)length || get_be32(buf + len - TRAILER_LEN) != SMCR_EYE_CATCHER)
		return -EBADMSG;
	struct smcr_clc_msg msg = { .type = buf[4], .length = (uint16_t)length };
	int rc = -EBADMSG;
	switch (msg.type) {
	case SMCR_CLC_PROPOSAL: rc = read_proposal(buf, len, &msg.proposal); break;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM: rc = read_accept(buf, len, &msg.accept); break;
	case SMCR_CLC_DECLINE: rc = read_decline(buf, len, &msg.decline); break;
	}
	if (rc == 0 || rc == -ENOTSUP)
		*ret_msg = msg;
	return rc;
}

int smcr_clc_encode(const struct smcr_clc_msg *msg, uint8_t *buf, size_t len)
{
	switch (msg->type) {
	case SMCR_CLC_PROPOSAL:
		return msg->proposal.version <= SMCR_CLC_VERSION_1
			       ? smcr_clc_encode_proposal(&msg->proposal, buf, len)
			       : -EINVAL;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM:
		return msg->type == msg->accept.type
			       ? smcr_clc_encode_accept(&msg->accept, buf, len)
			       : -EINVAL;
	case SMCR_CLC_DECLINE: return smcr_clc_encode_decline(&msg->decline, buf, len);
	}
	return -EINVAL;
}
