/* SPDX-License-Identifier: MIT */
/*
 * Proposal: RFC 7609 A.2.2, and version 2, which has in this order the fixed part, 40 bytes where
 * version 1 has its growth area, the IP area if version 1 is offered, the version 2 extension with
 * its EIDs, the SMC-D extension, and the trailer.
 */
#include "proto/smcr/clc.h"

#include <errno.h>

#include "proto/smcr/clc_parts.h"

#define IP_AREA_BASE   40 /* the IP offset counts from here */
#define IP_AREA_LEN    8  /* without the prefixes */
#define PREFIX_LEN     17
#define GROWTH_LEN     40 /* always there in version 2 */
#define EXT_OFFSET_AT  50
#define EXT_BASE       52 /* the extension's offset counts from here */
#define EXT_MIN_OFFSET (IP_AREA_BASE + GROWTH_LEN - EXT_BASE)
#define EXT_MAX_OFFSET (EXT_MIN_OFFSET + IP_AREA_LEN + PREFIX_LEN * SMCR_CLC_MAX_PREFIXES)
#define EXT_LEN        40 /* without the EIDs */
#define D_EXT_LEN      48 /* SMC-D's, without the GIDs */
#define D_EXT_GID_LEN  10
#define D_EXT_MAX_GIDS 8

/* SMC types that a version 2 Proposal offers, two bits for each version. */
enum offered {
	OFFERED_R = 0,
	OFFERED_D = 1,
	OFFERED_NONE = 2,
	OFFERED_BOTH = 3,
};

static enum offered offered_v1(const uint8_t *buf)
{
	return buf[7] & 3;
}

static enum offered offered_v2(const uint8_t *buf)
{
	return buf[7] >> 2 & 3;
}

static bool has_r(enum offered offered)
{
	return offered == OFFERED_R || offered == OFFERED_BOTH;
}

static bool has_d(enum offered offered)
{
	return offered == OFFERED_D || offered == OFFERED_BOTH;
}

/* ---- reading */

/* Subnet or prefixes; the bytes_reader checks that the message has as many as it says. */
static int read_ip_area(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	struct bytes_reader r = bytes_reader(buf, len - CLC_TRAILER_LEN);
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

static int read_v1(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	int rc = read_ip_area(buf, len, p);
	if (rc)
		return rc;
	size_t expected =
		CLC_PROPOSAL_MIN + (size_t)p->ip_offset + (size_t)PREFIX_LEN * p->num_prefixes;
	if (len != expected)
		return -EBADMSG;
	p->offers_r_v1 = true;
	return 0;
}

/* The version 2 extension, and the SMC-D extension behind it, of which only the length matters.
 * @return the length of both, or -EBADMSG */
static int read_extension(const uint8_t *buf, size_t len, struct smcr_clc_proposal_v2 *v2)
{
	uint16_t offset = get_be16(buf + EXT_OFFSET_AT);
	struct bytes_reader r = bytes_reader(buf + EXT_BASE, len - EXT_BASE - CLC_TRAILER_LEN);
	read_skip(&r, offset);
	v2->num_eids = read_u8(&r);
	uint8_t d_gids = read_u8(&r);
	read_skip(&r, 1);
	v2->release = read_u8(&r) >> 4;
	read_skip(&r, 4);
	read_bytes(&r, v2->gid, SMCR_GID_LEN);
	uint8_t max_conns = read_u8(&r);
	uint8_t max_links = read_u8(&r);
	uint16_t features = read_be16(&r);
	read_skip(&r, 12);
	if (offset == 0 || offset > EXT_MAX_OFFSET || v2->num_eids > SMCR_CLC_MAX_EIDS ||
	    d_gids > D_EXT_MAX_GIDS)
		return -EBADMSG;
	read_bytes(&r, v2->eids, (size_t)SMCR_EID_LEN * v2->num_eids);
	if (r.failed)
		return -EBADMSG;
	if (v2->release > 0) { /* reserved bytes in release 0 */
		v2->max_conns = max_conns;
		v2->max_links = max_links;
		v2->features = features;
	}
	int length = EXT_LEN + SMCR_EID_LEN * v2->num_eids;
	return has_d(offered_v2(buf)) ? length + D_EXT_LEN + D_EXT_GID_LEN * d_gids : length;
}

/* The length has to be exactly that of the parts: deployed peers demand that, too. */
static int read_v2(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	enum offered v1 = offered_v1(buf);
	enum offered v2 = offered_v2(buf);
	size_t expected = CLC_PROPOSAL_V2_MIN;
	if (v1 != OFFERED_NONE) {
		int rc = p->ip_offset <= GROWTH_LEN ? read_ip_area(buf, len, p) : -EBADMSG;
		if (rc)
			return rc;
		expected += IP_AREA_LEN + (size_t)PREFIX_LEN * p->num_prefixes;
	}
	if (v2 != OFFERED_NONE) {
		int extensions = read_extension(buf, len, &p->v2);
		if (extensions < 0)
			return extensions;
		expected += (size_t)extensions;
	}
	if (len != expected)
		return -EBADMSG;
	p->offers_r_v1 = has_r(v1);
	p->offers_r_v2 = has_r(v2);
	p->offers_d = has_d(v1) || has_d(v2);
	return 0;
}

int clc_read_proposal(const uint8_t *buf, size_t len, struct smcr_clc_proposal *p)
{
	struct bytes_reader r = bytes_reader(buf, len);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	p->version = clc_version(buf);
	read_bytes(&r, p->peer_id, SMCR_PEER_ID_LEN);
	read_bytes(&r, p->gid, SMCR_GID_LEN);
	read_bytes(&r, p->mac, SMCR_MAC_LEN);
	p->ip_offset = read_be16(&r);
	if (p->version >= SMCR_CLC_VERSION_2)
		return read_v2(buf, len, p);
	int rc = read_v1(buf, len, p);
	if (rc)
		return rc;
	return p->version == SMCR_CLC_VERSION_1 ? 0 : -ENOTSUP; /* CLC-4 */
}

/* ---- writing */

static bool is_v2(const struct smcr_clc_proposal *p)
{
	return p->version == SMCR_CLC_VERSION_2;
}

/* Version 1 has an IP area always, version 2 if version 1 is offered. */
static bool has_ip_area(const struct smcr_clc_proposal *p)
{
	return !is_v2(p) || p->offers_r_v1;
}

static bool has_extension(const struct smcr_clc_proposal *p)
{
	return is_v2(p) && p->offers_r_v2;
}

static bool ip_area_valid(const struct smcr_clc_proposal *p)
{
	if (p->ipv4_mask_len > 32 || p->num_prefixes > SMCR_CLC_MAX_PREFIXES)
		return false;
	for (unsigned int i = 0; i < p->num_prefixes; i++)
		if (p->prefixes[i].len > 128)
			return false;
	return true;
}

static bool valid(const struct smcr_clc_proposal *p)
{
	if (p->version > SMCR_CLC_VERSION_2 || p->offers_d)
		return false;
	if (is_v2(p) ? !p->offers_r_v1 && !p->offers_r_v2 : p->ip_offset > GROWTH_LEN)
		return false;
	if (has_extension(p) && (p->v2.num_eids > SMCR_CLC_MAX_EIDS || p->v2.release > 0x0F))
		return false;
	return !has_ip_area(p) || ip_area_valid(p);
}

static size_t ip_area_length(const struct smcr_clc_proposal *p)
{
	return has_ip_area(p) ? IP_AREA_LEN + (size_t)PREFIX_LEN * p->num_prefixes : 0;
}

static size_t encoded_length(const struct smcr_clc_proposal *p)
{
	size_t growth = is_v2(p) ? GROWTH_LEN : p->ip_offset;
	size_t extension = has_extension(p) ? EXT_LEN + (size_t)SMCR_EID_LEN * p->v2.num_eids : 0;
	return IP_AREA_BASE + growth + ip_area_length(p) + extension + CLC_TRAILER_LEN;
}

/* Byte 7 below the version: reserved in version 1. */
static uint8_t offered_types(const struct smcr_clc_proposal *p)
{
	enum offered v1 = p->offers_r_v1 ? OFFERED_R : OFFERED_NONE;
	enum offered v2 = p->offers_r_v2 ? OFFERED_R : OFFERED_NONE;
	return is_v2(p) ? (uint8_t)(v2 << 2 | v1) : 0;
}

/* The offset of the IP area and the bytes between: zeros, but in version 2 the offset of the
 * extension. If the first offset is 0, deployed peers take the last of the first eight bytes for a
 * count of prefixes. This byte belongs to SMC-D's GID, which is zero here. */
static void write_growth(struct bytes_writer *w, const struct smcr_clc_proposal *p)
{
	if (!is_v2(p)) {
		write_be16(w, p->ip_offset);
		write_zeros(w, p->ip_offset);
		return;
	}
	write_be16(w, has_ip_area(p) ? GROWTH_LEN : 0);
	write_zeros(w, 10); /* GID and CHID of SMC-D */
	write_be16(w, has_extension(p) ? (uint16_t)(EXT_MIN_OFFSET + ip_area_length(p)) : 0);
	write_zeros(w, GROWTH_LEN - 12); /* vendor's options, reserved */
}

static void write_ip_area(struct bytes_writer *w, const struct smcr_clc_proposal *p)
{
	write_be32(w, p->ipv4_subnet);
	write_u8(w, p->ipv4_mask_len);
	write_zeros(w, 2);
	write_u8(w, p->num_prefixes);
	for (unsigned int i = 0; i < p->num_prefixes; i++) {
		write_bytes(w, p->prefixes[i].addr, sizeof(p->prefixes[i].addr));
		write_u8(w, p->prefixes[i].len);
	}
}

static void write_extension(struct bytes_writer *w, const struct smcr_clc_proposal_v2 *v2)
{
	bool limits = v2->release > 0;
	write_u8(w, v2->num_eids);
	write_zeros(w, 2);
	write_u8(w, (uint8_t)(v2->release << 4));
	write_zeros(w, 4);
	write_bytes(w, v2->gid, SMCR_GID_LEN);
	write_u8(w, limits ? v2->max_conns : 0);
	write_u8(w, limits ? v2->max_links : 0);
	write_be16(w, limits ? v2->features : 0);
	write_zeros(w, 12);
	write_bytes(w, v2->eids, (size_t)SMCR_EID_LEN * v2->num_eids);
}

int smcr_clc_encode_proposal(const struct smcr_clc_proposal *msg, uint8_t *buf, size_t len)
{
	if (!valid(msg))
		return -EINVAL;
	size_t length = encoded_length(msg);
	if (len < length)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, length);
	clc_write_header(&w, SMCR_CLC_PROPOSAL, length,
			 is_v2(msg) ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1, offered_types(msg));
	write_bytes(&w, msg->peer_id, SMCR_PEER_ID_LEN);
	write_bytes(&w, msg->gid, SMCR_GID_LEN);
	write_bytes(&w, msg->mac, SMCR_MAC_LEN);
	write_growth(&w, msg);
	if (has_ip_area(msg))
		write_ip_area(&w, msg);
	if (has_extension(msg))
		write_extension(&w, &msg->v2);
	write_be32(&w, SMCR_EYE_CATCHER);
	return (int)length;
}
