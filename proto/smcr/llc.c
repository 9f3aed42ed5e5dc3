/* SPDX-License-Identifier: MIT */
/* RFC 7609 A.3: a reader and a writer for each message, field by field in the order of the figures.
 */
#include "proto/smcr/llc.h"

#include <errno.h>

#include "proto/smcr/llc_parts.h"

enum {
	CONFIRM_RKEY_MAX = 8,      /* other links of a group of nine (A10) */
	CONFIRM_RKEY_CONT_MAX = 6, /* those of the eight that CONFIRM RKEY does not have (RKEY-4) */
	DELETE_RKEY_MAX = 8,
};

/* Top two bits of the type: what a receiver does with a type it does not know (A.3, LLC-3). */
enum {
	TYPE_CLASS_MASK = 0xC0,
	TYPE_CLASS_OPTIONAL = 0x80,
};

static unsigned int at_most(unsigned int count, unsigned int room)
{
	return count < room ? count : room;
}

/* ---- CONFIRM LINK (A.3.1) */

static int read_confirm_link(struct bytes_reader *r, const struct llc_header *h,
			     struct smcr_llc_msg *msg)
{
	struct smcr_llc_confirm_link *m = &msg->confirm_link;
	m->flags = h->flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER;
	read_bytes(r, m->mac, SMCR_MAC_LEN);
	read_bytes(r, m->gid, SMCR_GID_LEN);
	m->qpn = read_be24(r);
	m->link_number = read_u8(r);
	m->link_user_id = read_be32(r);
	m->max_links = read_u8(r);
	m->max_conns = read_u8(r);
	return 0;
}

static int write_confirm_link(struct bytes_writer *w, struct llc_header *h,
			      const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_confirm_link *m = &msg->confirm_link;
	if (m->qpn > SMCR_QPN_MAX || (m->flags & ~SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER))
		return -EINVAL;
	h->flags |= m->flags;
	write_bytes(w, m->mac, SMCR_MAC_LEN);
	write_bytes(w, m->gid, SMCR_GID_LEN);
	write_be24(w, m->qpn);
	write_u8(w, m->link_number);
	write_be32(w, m->link_user_id);
	write_u8(w, m->max_links);
	write_u8(w, m->max_conns);
	return 0;
}

/* ---- ADD LINK (A.3.2); the deployed dialect has two reserved bytes before the GID (A33) */

static int read_add_link(struct bytes_reader *r, const struct llc_header *h,
			 struct smcr_llc_msg *msg)
{
	struct smcr_llc_add_link *m = &msg->add_link;
	m->reject = msg->reply && (h->flags & LLC_FLAG_REJECT); /* on replies only (LLC-7) */
	m->reject_reason = m->reject ? h->reason : 0;
	read_bytes(r, m->mac, SMCR_MAC_LEN);
	if (h->dialect == SMCR_DIALECT_DEPLOYED)
		read_skip(r, 2);
	read_bytes(r, m->gid, SMCR_GID_LEN);
	m->qpn = read_be24(r);
	m->link_number = read_u8(r);
	m->mtu = read_u8(r) & 0x0F;
	m->psn = read_be24(r);
	return 0;
}

static int write_add_link(struct bytes_writer *w, struct llc_header *h,
			  const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_add_link *m = &msg->add_link;
	if (m->qpn > SMCR_QPN_MAX || m->psn > SMCR_PSN_MASK || m->mtu > 0x0F ||
	    m->reject_reason > 0x0F || (m->reject && !msg->reply) ||
	    (m->reject_reason && !m->reject))
		return -EINVAL;
	if (m->reject)
		h->flags |= LLC_FLAG_REJECT;
	h->reason = m->reject_reason;
	write_bytes(w, m->mac, SMCR_MAC_LEN);
	if (h->dialect == SMCR_DIALECT_DEPLOYED)
		write_zeros(w, 2);
	write_bytes(w, m->gid, SMCR_GID_LEN);
	write_be24(w, m->qpn);
	write_u8(w, m->link_number);
	write_u8(w, m->mtu);
	write_be24(w, m->psn);
	return 0;
}

/* ---- ADD LINK CONTINUATION (A.3.3) */

static int read_add_link_cont(struct bytes_reader *r, const struct llc_header *h,
			      struct smcr_llc_msg *msg)
{
	struct smcr_llc_add_link_cont *m = &msg->add_link_cont;
	(void)h;
	m->link_number = read_u8(r);
	m->num_rtokens = read_u8(r);
	read_skip(r, 2);
	for (unsigned int i = 0; i < at_most(m->num_rtokens, 2); i++) {
		m->pair[i].ref_rkey = read_be32(r);
		m->pair[i].new_rkey = read_be32(r);
		m->pair[i].new_vaddr = read_be64(r);
	}
	return 0;
}

static int write_add_link_cont(struct bytes_writer *w, struct llc_header *h,
			       const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_add_link_cont *m = &msg->add_link_cont;
	(void)h;
	write_u8(w, m->link_number);
	write_u8(w, m->num_rtokens);
	write_zeros(w, 2);
	for (unsigned int i = 0; i < at_most(m->num_rtokens, 2); i++) {
		write_be32(w, m->pair[i].ref_rkey);
		write_be32(w, m->pair[i].new_rkey);
		write_be64(w, m->pair[i].new_vaddr);
	}
	return 0;
}

/* ---- DELETE LINK (A.3.4) */

static int read_delete_link(struct bytes_reader *r, const struct llc_header *h,
			    struct smcr_llc_msg *msg)
{
	struct smcr_llc_delete_link *m = &msg->delete_link;
	m->all = h->flags & LLC_FLAG_ALL;
	m->orderly = h->flags & LLC_FLAG_ORDERLY;
	uint8_t number = read_u8(r);
	m->link_number = m->all ? 0 : number; /* ignored if A is set (LLC-7) */
	m->reason = read_be32(r);
	return 0;
}

static int write_delete_link(struct bytes_writer *w, struct llc_header *h,
			     const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_delete_link *m = &msg->delete_link;
	if (m->all)
		h->flags |= LLC_FLAG_ALL;
	if (m->orderly)
		h->flags |= LLC_FLAG_ORDERLY;
	write_u8(w, m->all ? 0 : m->link_number);
	write_be32(w, m->reason);
	return 0;
}

/* ---- CONFIRM RKEY (A.3.5) and its CONTINUATION (A.3.6, A11) */

static void read_link_rtokens(struct bytes_reader *r, struct smcr_llc_link_rtoken *tokens,
			      unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		tokens[i].link_number = read_u8(r);
		tokens[i].rkey = read_be32(r);
		tokens[i].vaddr = read_be64(r);
	}
}

static void write_link_rtokens(struct bytes_writer *w, const struct smcr_llc_link_rtoken *tokens,
			       unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		write_u8(w, tokens[i].link_number);
		write_be32(w, tokens[i].rkey);
		write_be64(w, tokens[i].vaddr);
	}
}

static int read_confirm_rkey(struct bytes_reader *r, const struct llc_header *h,
			     struct smcr_llc_msg *msg)
{
	struct smcr_llc_confirm_rkey *m = &msg->confirm_rkey;
	m->negative = msg->reply && (h->flags & LLC_FLAG_NEGATIVE);
	m->retry = msg->reply && (h->flags & LLC_FLAG_RETRY);
	m->num_tokens = read_u8(r);
	if (m->num_tokens > CONFIRM_RKEY_MAX)
		return -EBADMSG;
	m->rkey = read_be32(r);
	m->vaddr = read_be64(r);
	read_link_rtokens(r, m->other, at_most(m->num_tokens, 2));
	return 0;
}

static int write_confirm_rkey(struct bytes_writer *w, struct llc_header *h,
			      const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_confirm_rkey *m = &msg->confirm_rkey;
	if (m->num_tokens > CONFIRM_RKEY_MAX || ((m->negative || m->retry) && !msg->reply))
		return -EINVAL;
	if (m->negative)
		h->flags |= LLC_FLAG_NEGATIVE;
	if (m->retry)
		h->flags |= LLC_FLAG_RETRY;
	write_u8(w, m->num_tokens);
	write_be32(w, m->rkey);
	write_be64(w, m->vaddr);
	write_link_rtokens(w, m->other, at_most(m->num_tokens, 2));
	return 0;
}

static bool cont_count_valid(uint8_t num_left)
{
	return num_left >= 1 && num_left <= CONFIRM_RKEY_CONT_MAX;
}

static int read_confirm_rkey_cont(struct bytes_reader *r, const struct llc_header *h,
				  struct smcr_llc_msg *msg)
{
	struct smcr_llc_confirm_rkey_cont *m = &msg->confirm_rkey_cont;
	m->negative = msg->reply && (h->flags & LLC_FLAG_NEGATIVE);
	m->num_left = read_u8(r);
	if (!cont_count_valid(m->num_left))
		return -EBADMSG;
	read_link_rtokens(r, m->other, at_most(m->num_left, 3));
	return 0;
}

static int write_confirm_rkey_cont(struct bytes_writer *w, struct llc_header *h,
				   const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_confirm_rkey_cont *m = &msg->confirm_rkey_cont;
	if (!cont_count_valid(m->num_left) || (m->negative && !msg->reply))
		return -EINVAL;
	if (m->negative)
		h->flags |= LLC_FLAG_NEGATIVE;
	write_u8(w, m->num_left);
	write_link_rtokens(w, m->other, at_most(m->num_left, 3));
	return 0;
}

/* ---- DELETE RKEY (A.3.7) */

static bool delete_count_valid(uint8_t count)
{
	return count >= 1 && count <= DELETE_RKEY_MAX;
}

static int read_delete_rkey(struct bytes_reader *r, const struct llc_header *h,
			    struct smcr_llc_msg *msg)
{
	struct smcr_llc_delete_rkey *m = &msg->delete_rkey;
	m->negative = msg->reply && (h->flags & LLC_FLAG_NEGATIVE);
	m->count = read_u8(r);
	if (!delete_count_valid(m->count))
		return -EBADMSG;
	uint8_t mask = read_u8(r);
	m->error_mask = msg->reply ? mask : 0;
	read_skip(r, 2);
	for (unsigned int i = 0; i < m->count; i++)
		m->rkey[i] = read_be32(r);
	return 0;
}

static int write_delete_rkey(struct bytes_writer *w, struct llc_header *h,
			     const struct smcr_llc_msg *msg)
{
	const struct smcr_llc_delete_rkey *m = &msg->delete_rkey;
	if (!delete_count_valid(m->count) || ((m->negative || m->error_mask) && !msg->reply))
		return -EINVAL;
	if (m->negative)
		h->flags |= LLC_FLAG_NEGATIVE;
	write_u8(w, m->count);
	write_u8(w, m->error_mask);
	write_zeros(w, 2);
	for (unsigned int i = 0; i < m->count; i++)
		write_be32(w, m->rkey[i]);
	return 0;
}

/* ---- TEST LINK (A.3.8) */

static int read_test_link(struct bytes_reader *r, const struct llc_header *h,
			  struct smcr_llc_msg *msg)
{
	(void)h;
	read_bytes(r, msg->test_link.user_data, sizeof(msg->test_link.user_data));
	return 0;
}

static int write_test_link(struct bytes_writer *w, struct llc_header *h,
			   const struct smcr_llc_msg *msg)
{
	(void)h;
	write_bytes(w, msg->test_link.user_data, sizeof(msg->test_link.user_data));
	return 0;
}

/* ---- the table of messages */

static const struct llc_codec codecs[] = {
	[SMCR_LLC_CONFIRM_LINK] = { "CONFIRM LINK", read_confirm_link, write_confirm_link },
	[SMCR_LLC_ADD_LINK] = { "ADD LINK", read_add_link, write_add_link },
	[SMCR_LLC_ADD_LINK_CONT] = { "ADD LINK CONTINUATION", read_add_link_cont,
				     write_add_link_cont },
	[SMCR_LLC_DELETE_LINK] = { "DELETE LINK", read_delete_link, write_delete_link },
	[SMCR_LLC_CONFIRM_RKEY] = { "CONFIRM RKEY", read_confirm_rkey, write_confirm_rkey },
	[SMCR_LLC_TEST_LINK] = { "TEST LINK", read_test_link, write_test_link },
	[SMCR_LLC_CONFIRM_RKEY_CONT] = { "CONFIRM RKEY CONTINUATION", read_confirm_rkey_cont,
					 write_confirm_rkey_cont },
	[SMCR_LLC_DELETE_RKEY] = { "DELETE RKEY", read_delete_rkey, write_delete_rkey },
};

const struct llc_codec *llc_codec_of(uint8_t type)
{
	if (type >= sizeof(codecs) / sizeof(codecs[0]) || !codecs[type].name)
		return NULL;
	return &codecs[type];
}

int smcr_llc_decode(const uint8_t *buf, size_t len, enum smcr_dialect dialect,
		    struct smcr_llc_msg *ret_msg)
{
	if (len != SMCR_LLC_LEN)
		return -EBADMSG;
	const struct llc_codec *codec = llc_codec_of(buf[0]);
	if (!codec)
		return (buf[0] & TYPE_CLASS_MASK) == TYPE_CLASS_OPTIONAL ? -EOPNOTSUPP : -EPROTO;
	if (buf[1] != SMCR_LLC_LEN)
		return -EBADMSG;
	struct llc_header h = { .reason = buf[2] & 0x0F, .flags = buf[3], .dialect = dialect };
	struct smcr_llc_msg msg = { .type = buf[0], .reply = buf[3] & LLC_FLAG_REPLY };
	struct bytes_reader r = bytes_reader(buf + LLC_HEADER_LEN, len - LLC_HEADER_LEN);
	int rc = codec->read(&r, &h, &msg);
	if (rc)
		return rc;
	*ret_msg = msg;
	return 0;
}

int smcr_llc_encode(const struct smcr_llc_msg *msg, enum smcr_dialect dialect, uint8_t *buf,
		    size_t len)
{
	const struct llc_codec *codec = llc_codec_of(msg->type);
	if (!codec)
		return -EINVAL;
	if (len < SMCR_LLC_LEN)
		return -ENOBUFS;
	uint8_t bytes[SMCR_LLC_LEN] = { 0 }; /* reserved fields and padding (LLC-1, LLC-2) */
	struct llc_header h = { .flags = msg->reply ? LLC_FLAG_REPLY : 0, .dialect = dialect };
	struct bytes_writer w =
		bytes_writer(bytes + LLC_HEADER_LEN, sizeof(bytes) - LLC_HEADER_LEN);
	int rc = codec->write(&w, &h, msg);
	if (rc)
		return rc;
	bytes[0] = msg->type;
	bytes[1] = SMCR_LLC_LEN;
	bytes[2] = h.reason;
	bytes[3] = h.flags;
	memcpy(buf, bytes, sizeof(bytes));
	return SMCR_LLC_LEN;
}

const char *smcr_llc_type_name(uint8_t type)
{
	if (type == SMCR_LLC_CDC)
		return "CDC";
	if (type == SMCR_LLC_REQUEST_ADD_LINK)
		return "REQUEST ADD LINK";
	const struct llc_codec *codec = llc_codec_of(type);
	return codec ? codec->name : "unknown";
}
