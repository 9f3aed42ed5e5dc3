/* SPDX-License-Identifier: MIT */
/*
 * Version 2 of the LLC messages: another header, RTokens inside ADD LINK, REQUEST ADD LINK, longer
 * lists in DELETE RKEY. The other messages are those of version 1 behind the header.
 */
#include <errno.h>

#include "proto/smcr/llc_parts.h"

#define TYPE_MASK       0xF0
#define REJECT_REASON   0x0F /* low nibble of the flags, with a reject */
#define ADD_EXT_LEN     28   /* extension of ADD LINK without RTokens */
#define RTOKEN_LEN      16
#define FLAG_DIRECT     0x80 /* first byte of that extension */
#define REQUEST_LIST_AT 28   /* GIDs of REQUEST ADD LINK */
#define DELETE_RKEYS_AT 8

/* ---- numbers in the byte order of a processor */

/* The sender's byte order, told by the length in the header. */
static enum smcr_byte_order order_of(const uint8_t *buf, size_t len)
{
	bool big = get_be16(buf + 1) == len;
	bool little = __builtin_bswap16(get_be16(buf + 1)) == len;
	if (big == little) /* no length of this message, or one that reads the same both ways */
		return SMCR_ORDER_UNKNOWN;
	return big ? SMCR_ORDER_BIG : SMCR_ORDER_LITTLE;
}

static uint16_t in_order(uint16_t value, enum smcr_byte_order order)
{
	return order == SMCR_ORDER_BIG ? value : __builtin_bswap16(value);
}

/* ---- ADD LINK */

/* The number of RTokens follows from the length: the count has a byte order, and deployed peers
 * count connections where they list RMBs. */
static int read_add_link(struct bytes_reader *r, const struct llc_header *h,
			 struct smcr_llc_msg *msg, struct smcr_llc_rtokens *rtokens)
{
	struct smcr_llc_add_link *m = &msg->add_link;
	int rc = llc_codec_of(SMCR_LLC_ADD_LINK)->read(r, h, msg);
	if (rc)
		return rc;
	read_skip(r, 8);
	if (m->reject || r->left == 0)
		return 0;
	m->direct = read_u8(r) & FLAG_DIRECT;
	read_skip(r, 1);
	read_bytes(r, m->target_gid, SMCR_GID_LEN);
	read_skip(r, 8 + 2); /* reserved, the count */
	if (r->failed || r->left % RTOKEN_LEN || r->left / RTOKEN_LEN > SMCR_MAX_RMBS)
		return -EBADMSG;
	rtokens->count = (uint8_t)(r->left / RTOKEN_LEN);
	for (unsigned int i = 0; i < rtokens->count; i++) {
		rtokens->pair[i].ref_rkey = read_be32(r);
		rtokens->pair[i].new_rkey = read_be32(r);
		rtokens->pair[i].new_vaddr = read_be64(r);
	}
	return 0;
}

static int write_add_link(struct bytes_writer *w, struct llc_header *h,
			  const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens)
{
	const struct smcr_llc_add_link *m = &msg->add_link;
	int rc = llc_codec_of(SMCR_LLC_ADD_LINK)->write(w, h, msg);
	if (rc)
		return rc;
	write_zeros(w, 8);
	if (m->reject)
		return 0;
	uint8_t count = rtokens ? rtokens->count : 0;
	write_u8(w, m->direct ? FLAG_DIRECT : 0);
	write_zeros(w, 1);
	write_bytes(w, m->target_gid, SMCR_GID_LEN);
	write_zeros(w, 8);
	write_be16(w, in_order(count, msg->order));
	for (unsigned int i = 0; i < count; i++) {
		write_be32(w, rtokens->pair[i].ref_rkey);
		write_be32(w, rtokens->pair[i].new_rkey);
		write_be64(w, rtokens->pair[i].new_vaddr);
	}
	return 0;
}

/* ---- REQUEST ADD LINK */

/* A reply may be too short for its count: deployed servers that cannot add a link send 44 bytes. */
static int read_request(struct bytes_reader *r, const struct llc_header *h,
			struct smcr_llc_msg *msg)
{
	struct smcr_llc_request_add_link *m = &msg->request_add_link;
	m->reject = msg->reply && (h->flags & LLC_FLAG_REJECT);
	m->reject_reason = m->reject ? h->reason : 0;
	read_skip(r, 20);
	size_t count = read_u8(r);
	read_skip(r, 3);
	if (count > r->left / SMCR_GID_LEN) {
		if (!msg->reply)
			return -EBADMSG;
		count = r->left / SMCR_GID_LEN;
	}
	m->num_gids = count < SMCR_LLC_MAX_GIDS ? (uint8_t)count : SMCR_LLC_MAX_GIDS;
	read_bytes(r, m->gid, (size_t)SMCR_GID_LEN * m->num_gids);
	return 0;
}

static int write_request(struct bytes_writer *w, struct llc_header *h,
			 const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_request_add_link *m = &msg->request_add_link;
	if (m->num_gids > SMCR_LLC_MAX_GIDS || m->reject_reason > REJECT_REASON ||
	    (m->reject && !msg->reply) || (m->reject_reason && !m->reject))
		return -EINVAL;
	if (m->reject)
		h->flags |= LLC_FLAG_REJECT;
	h->reason = m->reject_reason;
	write_zeros(w, 20);
	write_u8(w, m->num_gids);
	write_zeros(w, 3);
	write_bytes(w, m->gid, (size_t)SMCR_GID_LEN * m->num_gids);
	return 0;
}

/* ---- DELETE RKEY */

/* A reply may repeat the RKeys, which are ignored. */
static int read_delete_rkey(struct bytes_reader *r, const struct llc_header *h,
			    struct smcr_llc_msg *msg)
{
	struct smcr_llc_delete_rkey *m = &msg->delete_rkey;
	m->negative = msg->reply && (h->flags & LLC_FLAG_NEGATIVE);
	m->count = read_u8(r);
	uint8_t invalid = read_u8(r);
	m->num_invalid = msg->reply ? invalid : 0;
	read_skip(r, 2);
	size_t present = r->left / 4;
	if (m->count == 0 || (m->count > present && !msg->reply))
		return -EBADMSG;
	for (unsigned int i = 0; i < m->count && i < present; i++)
		m->rkey[i] = read_be32(r);
	return 0;
}

static int write_delete_rkey(struct bytes_writer *w, struct llc_header *h,
			     const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_delete_rkey *m = &msg->delete_rkey;
	if (m->count == 0 || ((m->negative || m->num_invalid) && !msg->reply))
		return -EINVAL;
	if (m->negative)
		h->flags |= LLC_FLAG_NEGATIVE;
	write_u8(w, m->count);
	write_u8(w, m->num_invalid);
	write_zeros(w, 2);
	for (unsigned int i = 0; i < m->count; i++)
		write_be32(w, m->rkey[i]);
	return 0;
}

/* ---- any message */

static const struct llc_codec request_codec = { "REQUEST ADD LINK", read_request, write_request };
static const struct llc_codec delete_rkey_codec = { "DELETE RKEY", read_delete_rkey,
						    write_delete_rkey };

/* The codec of a type of version 2, given without the bit 0x20; NULL: there is none. */
static const struct llc_codec *codec_of(uint8_t type)
{
	switch (type) {
	case SMCR_LLC_CONFIRM_LINK:
	case SMCR_LLC_ADD_LINK:
	case SMCR_LLC_DELETE_LINK:
	case SMCR_LLC_CONFIRM_RKEY:
	case SMCR_LLC_TEST_LINK: return llc_codec_of(type);
	case SMCR_LLC_REQUEST_ADD_LINK: return &request_codec;
	case SMCR_LLC_DELETE_RKEY: return &delete_rkey_codec;
	default: return NULL;
	}
}

static size_t encoded_length(const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens)
{
	size_t length = SMCR_LLC_LEN;
	if (msg->type == SMCR_LLC_ADD_LINK && !msg->add_link.reject)
		length += ADD_EXT_LEN + (rtokens ? (size_t)RTOKEN_LEN * rtokens->count : 0);
	else if (msg->type == SMCR_LLC_REQUEST_ADD_LINK)
		length = REQUEST_LIST_AT + (size_t)SMCR_GID_LEN * msg->request_add_link.num_gids;
	else if (msg->type == SMCR_LLC_DELETE_RKEY)
		length = DELETE_RKEYS_AT + (size_t)4 * msg->delete_rkey.count;
	return length > SMCR_LLC_LEN ? length : SMCR_LLC_LEN;
}

int smcr_llc_decode_v2(const uint8_t *buf, size_t len, struct smcr_llc_msg *ret_msg,
		       struct smcr_llc_rtokens *ret_rtokens)
{
	if (len < SMCR_LLC_LEN || len > SMCR_LLC_V2_MAX_LEN)
		return -EBADMSG;
	const struct llc_codec *codec = codec_of(buf[0] & (uint8_t)~TYPE_MASK);
	if ((buf[0] & TYPE_MASK) != SMCR_LLC_V2_TYPE || !codec)
		return -EOPNOTSUPP;
	struct llc_header h = { .reason = buf[3] & REJECT_REASON,
				.flags = buf[3],
				.dialect = SMCR_DIALECT_DEPLOYED };
	struct smcr_llc_msg msg = { .type = buf[0] & (uint8_t)~TYPE_MASK,
				    .reply = buf[3] & LLC_FLAG_REPLY,
				    .order = order_of(buf, len) };
	struct smcr_llc_rtokens rtokens = { 0 };
	struct bytes_reader r = bytes_reader(buf + LLC_HEADER_LEN, len - LLC_HEADER_LEN);
	int rc = msg.type == SMCR_LLC_ADD_LINK ? read_add_link(&r, &h, &msg, &rtokens)
					       : codec->read(&r, &h, &msg);
	if (rc)
		return rc;
	*ret_msg = msg;
	*ret_rtokens = rtokens;
	return 0;
}

int smcr_llc_encode_v2(const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens,
		       uint8_t *buf, size_t len)
{
	const struct llc_codec *codec = codec_of(msg->type);
	if (!codec)
		return -EINVAL;
	uint8_t bytes[SMCR_LLC_V2_SEND_MAX] = { 0 };
	size_t length = encoded_length(msg, rtokens);
	struct llc_header h = { .flags = msg->reply ? LLC_FLAG_REPLY : 0,
				.dialect = SMCR_DIALECT_DEPLOYED };
	struct bytes_writer w =
		bytes_writer(bytes + LLC_HEADER_LEN, sizeof(bytes) - LLC_HEADER_LEN);
	int rc = msg->type == SMCR_LLC_ADD_LINK ? write_add_link(&w, &h, msg, rtokens)
						: codec->write(&w, &h, msg);
	if (rc)
		return rc;
	if (len < length)
		return -ENOBUFS;
	bytes[0] = SMCR_LLC_V2_TYPE + msg->type;
	put_be16(bytes + 1, in_order((uint16_t)length, msg->order));
	bytes[3] = h.flags | h.reason;
	memcpy(buf, bytes, length);
	return (int)length;
}
