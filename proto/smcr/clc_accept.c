/* SPDX-License-Identifier: MIT */
/* Accept and Confirm: RFC 7609 A.2.3, A.2.4, and what version 2 puts between PSN and trailer. */
#include "proto/smcr/clc.h"

#include <errno.h>

#include "proto/smcr/clc_parts.h"

#define FLAG_DIRECT  0x80 /* first byte of the first contact extension */
#define GID_LIST_LEN 4    /* without the GIDs */

bool clc_accept_length_fits(const uint8_t *header, uint16_t length)
{
	if (clc_version(header) < SMCR_CLC_VERSION_2)
		return length == SMCR_CLC_ACCEPT_LEN;
	bool first_contact = header[7] & CLC_FLAG_FIRST_CONTACT;
	return length >= (first_contact ? SMCR_CLC_ACCEPT_V2_FIRST_LEN : SMCR_CLC_ACCEPT_V2_LEN) &&
	       length <= SMCR_CLC_MAX_LEN;
}

/* The RFC gives the MTU a meaning in first contact only (CLC-9). In an Accept the bit F tells first
 * contact. In a Confirm this bit is reserved: whoever gets the Confirm has to check the MTU. */
static bool enums_valid(const struct smcr_clc_accept *a)
{
	uint8_t bsize_max = a->version >= SMCR_CLC_VERSION_2 ? SMCR_BSIZE_MAX_V2 : SMCR_BSIZE_MAX;
	return a->bsize <= bsize_max && (!a->first_contact || smcr_mtu_valid(a->mtu));
}

/* ---- reading */

static void read_credentials(struct bytes_reader *r, struct smcr_clc_accept *a)
{
	read_bytes(r, a->peer_id, SMCR_PEER_ID_LEN);
	read_bytes(r, a->gid, SMCR_GID_LEN);
	read_bytes(r, a->mac, SMCR_MAC_LEN);
	a->qpn = read_be24(r);
	a->rkey = read_be32(r);
	a->rmbe_index = read_u8(r);
	a->alert_token = read_be32(r);
	uint8_t sizes = read_u8(r);
	a->bsize = sizes >> 4;
	a->mtu = sizes & 0x0F;
	read_skip(r, 1);
	a->rmb_vaddr = read_be64(r);
	read_skip(r, 1);
	a->psn = read_be24(r);
}

/* For SMC-R the extension is as long in every release; release 0 has reserved bytes where release 1
 * has limits. */
static void read_first_contact(struct bytes_reader *r, struct smcr_clc_first_contact *fce)
{
	fce->direct = read_u8(r) & FLAG_DIRECT;
	uint8_t system = read_u8(r);
	fce->os = system >> 4;
	fce->release = system & 0x0F;
	read_skip(r, 2);
	read_bytes(r, fce->host, sizeof(fce->host));
	uint8_t max_conns = read_u8(r);
	uint8_t max_links = read_u8(r);
	uint16_t features = read_be16(r);
	read_skip(r, 12); /* vendor's options, reserved */
	if (fce->release == 0)
		return;
	fce->max_conns = max_conns;
	fce->max_links = max_links;
	fce->features = features;
}

/* Deployed servers ignore the list of GIDs, so a Confirm may come without one. */
static void read_gids(struct bytes_reader *r, struct smcr_clc_accept *a)
{
	if (r->left < GID_LIST_LEN)
		return;
	uint8_t count = read_u8(r);
	read_skip(r, 3);
	a->num_gids = count < SMCR_CLC_MAX_GIDS ? count : SMCR_CLC_MAX_GIDS;
	for (unsigned int i = 0; i < a->num_gids; i++)
		read_bytes(r, a->gids[i], SMCR_GID_LEN);
	read_skip(r, (size_t)SMCR_GID_LEN * (count - a->num_gids));
}

int clc_read_accept(const uint8_t *buf, size_t len, struct smcr_clc_accept *a)
{
	struct bytes_reader r = bytes_reader(buf, len - CLC_TRAILER_LEN);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	a->type = buf[4];
	a->version = clc_version(buf);
	a->first_contact = buf[7] & CLC_FLAG_FIRST_CONTACT;
	if (a->version >= SMCR_CLC_VERSION_2) /* version 1: reserved bits */
		a->smc_type = buf[7] & CLC_SMC_TYPE_MASK;
	if (a->smc_type != SMCR_CLC_SMC_R)
		return -ENOTSUP;
	read_credentials(&r, a);
	if (a->rmbe_index == 0) /* CLC-11 */
		return -EBADMSG;
	if (a->version >= SMCR_CLC_VERSION_2) {
		read_bytes(&r, a->eid, SMCR_EID_LEN);
		read_skip(&r, 8);
	}
	if (a->version >= SMCR_CLC_VERSION_2 && a->first_contact) {
		read_first_contact(&r, &a->fce);
		if (a->type == SMCR_CLC_CONFIRM)
			read_gids(&r, a);
	}
	if (r.failed)
		return -EBADMSG;
	return a->version == 0 || !enums_valid(a) ? -ENOTSUP : 0;
}

/* ---- writing */

static bool valid(const struct smcr_clc_accept *a)
{
	bool first_v2 = a->version == SMCR_CLC_VERSION_2 && a->first_contact;
	if ((a->type != SMCR_CLC_ACCEPT && a->type != SMCR_CLC_CONFIRM) ||
	    a->version > SMCR_CLC_VERSION_2 || a->smc_type != SMCR_CLC_SMC_R || !enums_valid(a) ||
	    a->mtu > 0x0F || a->rmbe_index == 0 || a->qpn > SMCR_QPN_MAX || a->psn > SMCR_PSN_MASK)
		return false;
	if (first_v2 && (a->fce.os > 0x0F || a->fce.release > 0x0F))
		return false;
	return a->num_gids <= SMCR_CLC_MAX_GIDS &&
	       (a->num_gids == 0 || (first_v2 && a->type == SMCR_CLC_CONFIRM));
}

static size_t encoded_length(const struct smcr_clc_accept *a)
{
	if (a->version < SMCR_CLC_VERSION_2)
		return SMCR_CLC_ACCEPT_LEN;
	if (!a->first_contact)
		return SMCR_CLC_ACCEPT_V2_LEN;
	if (a->type == SMCR_CLC_ACCEPT)
		return SMCR_CLC_ACCEPT_V2_FIRST_LEN;
	return SMCR_CLC_ACCEPT_V2_FIRST_LEN + GID_LIST_LEN + (size_t)SMCR_GID_LEN * a->num_gids;
}

static void write_credentials(struct bytes_writer *w, const struct smcr_clc_accept *a)
{
	write_bytes(w, a->peer_id, SMCR_PEER_ID_LEN);
	write_bytes(w, a->gid, SMCR_GID_LEN);
	write_bytes(w, a->mac, SMCR_MAC_LEN);
	write_be24(w, a->qpn);
	write_be32(w, a->rkey);
	write_u8(w, a->rmbe_index);
	write_be32(w, a->alert_token);
	write_u8(w, (uint8_t)(a->bsize << 4 | a->mtu));
	write_zeros(w, 1);
	write_be64(w, a->rmb_vaddr);
	write_zeros(w, 1);
	write_be24(w, a->psn);
}

static void write_first_contact(struct bytes_writer *w, const struct smcr_clc_first_contact *fce)
{
	bool limits = fce->release > 0;
	write_u8(w, fce->direct ? FLAG_DIRECT : 0);
	write_u8(w, (uint8_t)(fce->os << 4 | fce->release));
	write_zeros(w, 2);
	write_bytes(w, fce->host, sizeof(fce->host));
	write_u8(w, limits ? fce->max_conns : 0);
	write_u8(w, limits ? fce->max_links : 0);
	write_be16(w, limits ? fce->features : 0);
	write_zeros(w, 12);
}

static void write_gids(struct bytes_writer *w, const struct smcr_clc_accept *a)
{
	write_u8(w, a->num_gids);
	write_zeros(w, 3);
	write_bytes(w, a->gids, (size_t)SMCR_GID_LEN * a->num_gids);
}

int smcr_clc_encode_accept(const struct smcr_clc_accept *msg, uint8_t *buf, size_t len)
{
	if (!valid(msg))
		return -EINVAL;
	bool v2 = msg->version == SMCR_CLC_VERSION_2;
	size_t length = encoded_length(msg);
	if (len < length)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, length);
	clc_write_header(&w, msg->type, length, v2 ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1,
			 msg->first_contact ? CLC_FLAG_FIRST_CONTACT : 0);
	write_credentials(&w, msg);
	if (v2) {
		write_bytes(&w, msg->eid, SMCR_EID_LEN);
		write_zeros(&w, 8);
	}
	if (v2 && msg->first_contact) {
		write_first_contact(&w, &msg->fce);
		if (msg->type == SMCR_CLC_CONFIRM)
			write_gids(&w, msg);
	}
	write_be32(&w, SMCR_EYE_CATCHER);
	return (int)length;
}
