/* SPDX-License-Identifier: MIT */
/* A reader and a writer for each message, field by field in the order of the specification's
 * tables. */
#include "proto/ibcm/ibcm.h"

#include <errno.h>
#include <string.h>

#include "proto/smcr/bytes.h"

enum {
	BASE_VERSION = 1,
	CLASS_CM = 0x07,
	CLASS_VERSION = 2,
	METHOD_SEND = 0x03,
};

/* ---- fields that share a byte or more */

/* `bits` of a number that has been read, those below `shift` left out. */
static uint8_t field(uint32_t word, unsigned int shift, unsigned int bits)
{
	return (uint8_t)(word >> shift & ((1u << bits) - 1));
}

/* Is each number in its field? The writers check all of them before they put them together. */
static bool fits(uint32_t value, unsigned int bits)
{
	return value >> bits == 0;
}

/* 24 bits in a word, and 8 bits behind them. */
static void write_24_8(struct bytes_writer *w, uint32_t high, uint8_t low)
{
	write_be32(w, high << 8 | low);
}

/* ---- REQ */

static void read_path(struct bytes_reader *r, struct ibcm_path *path)
{
	path->local_lid = read_be16(r);
	path->remote_lid = read_be16(r);
	read_bytes(r, path->local_gid, IBCM_GID_LEN);
	read_bytes(r, path->remote_gid, IBCM_GID_LEN);
	uint32_t flow = read_be32(r);
	path->flow_label = flow >> 12;
	path->packet_rate = field(flow, 0, 6);
	path->traffic_class = read_u8(r);
	path->hop_limit = read_u8(r);
	uint8_t level = read_u8(r);
	path->service_level = field(level, 4, 4);
	path->subnet_local = field(level, 3, 1);
	path->ack_timeout = field(read_u8(r), 3, 5);
}

static bool path_fits(const struct ibcm_path *path)
{
	return fits(path->flow_label, 20) && fits(path->packet_rate, 6) &&
	       fits(path->service_level, 4) && fits(path->ack_timeout, 5);
}

static void write_path(struct bytes_writer *w, const struct ibcm_path *path)
{
	write_be16(w, path->local_lid);
	write_be16(w, path->remote_lid);
	write_bytes(w, path->local_gid, IBCM_GID_LEN);
	write_bytes(w, path->remote_gid, IBCM_GID_LEN);
	write_be32(w, path->flow_label << 12 | path->packet_rate);
	write_u8(w, path->traffic_class);
	write_u8(w, path->hop_limit);
	write_u8(w, (uint8_t)(path->service_level << 4 | path->subnet_local << 3));
	write_u8(w, (uint8_t)(path->ack_timeout << 3));
}

static int read_req(struct bytes_reader *r, struct ibcm_msg *msg)
{
	struct ibcm_req *m = &msg->req;
	uint32_t word;
	msg->local_id = read_be32(r);
	read_skip(r, 4);
	m->service_id = read_be64(r);
	m->ca_guid = read_be64(r);
	read_skip(r, 4);
	m->qkey = read_be32(r);
	m->qpn = read_be24(r);
	m->responder_resources = read_u8(r);
	read_skip(r, 3); /* end-to-end context of reliable datagrams, as the next one */
	m->initiator_depth = read_u8(r);
	read_skip(r, 3);
	word = read_u8(r);
	m->remote_timeout = field(word, 3, 5);
	m->transport = field(word, 1, 2);
	m->flow_control = field(word, 0, 1);
	m->starting_psn = read_be24(r);
	word = read_u8(r);
	m->local_timeout = field(word, 3, 5);
	m->retry_count = field(word, 0, 3);
	m->pkey = read_be16(r);
	word = read_u8(r);
	m->path_mtu = field(word, 4, 4);
	m->rdc_exists = field(word, 3, 1);
	m->rnr_retry = field(word, 0, 3);
	word = read_u8(r);
	m->max_cm_retries = field(word, 4, 4);
	m->srq = field(word, 3, 1);
	m->extended_transport = field(word, 0, 3);
	read_path(r, &m->primary);
	read_path(r, &m->alternate);
	return 0;
}

static bool req_fits(const struct ibcm_req *m)
{
	return fits(m->qpn, 24) && fits(m->remote_timeout, 5) && fits(m->transport, 2) &&
	       fits(m->starting_psn, 24) && fits(m->local_timeout, 5) && fits(m->retry_count, 3) &&
	       fits(m->path_mtu, 4) && fits(m->rnr_retry, 3) && fits(m->max_cm_retries, 4) &&
	       fits(m->extended_transport, 3) && path_fits(&m->primary) && path_fits(&m->alternate);
}

static int write_req(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	const struct ibcm_req *m = &msg->req;
	if (!req_fits(m))
		return -EINVAL;
	write_be32(w, msg->local_id);
	write_zeros(w, 4);
	write_be64(w, m->service_id);
	write_be64(w, m->ca_guid);
	write_zeros(w, 4);
	write_be32(w, m->qkey);
	write_24_8(w, m->qpn, m->responder_resources);
	write_24_8(w, 0, m->initiator_depth);
	write_24_8(w, 0, (uint8_t)(m->remote_timeout << 3 | m->transport << 1 | m->flow_control));
	write_24_8(w, m->starting_psn, (uint8_t)(m->local_timeout << 3 | m->retry_count));
	write_be16(w, m->pkey);
	write_u8(w, (uint8_t)(m->path_mtu << 4 | m->rdc_exists << 3 | m->rnr_retry));
	write_u8(w, (uint8_t)(m->max_cm_retries << 4 | m->srq << 3 | m->extended_transport));
	write_path(w, &m->primary);
	write_path(w, &m->alternate);
	return 0;
}

/* ---- REP */

static void read_ids(struct bytes_reader *r, struct ibcm_msg *msg)
{
	msg->local_id = read_be32(r);
	msg->remote_id = read_be32(r);
}

static void write_ids(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	write_be32(w, msg->local_id);
	write_be32(w, msg->remote_id);
}

static int read_rep(struct bytes_reader *r, struct ibcm_msg *msg)
{
	struct ibcm_rep *m = &msg->rep;
	uint8_t byte;
	read_ids(r, msg);
	m->qkey = read_be32(r);
	m->qpn = read_be24(r);
	read_skip(r, 1 + 4); /* reserved; end-to-end context of reliable datagrams */
	m->starting_psn = read_be24(r);
	read_skip(r, 1);
	m->responder_resources = read_u8(r);
	m->initiator_depth = read_u8(r);
	byte = read_u8(r);
	m->ack_delay = field(byte, 3, 5);
	m->failover = field(byte, 1, 2);
	m->flow_control = field(byte, 0, 1);
	byte = read_u8(r);
	m->rnr_retry = field(byte, 5, 3);
	m->srq = field(byte, 4, 1);
	m->ca_guid = read_be64(r);
	return 0;
}

static int write_rep(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	const struct ibcm_rep *m = &msg->rep;
	if (!fits(m->qpn, 24) || !fits(m->starting_psn, 24) || !fits(m->ack_delay, 5) ||
	    !fits(m->failover, 2) || !fits(m->rnr_retry, 3))
		return -EINVAL;
	write_ids(w, msg);
	write_be32(w, m->qkey);
	write_24_8(w, m->qpn, 0);
	write_zeros(w, 4);
	write_24_8(w, m->starting_psn, 0);
	write_u8(w, m->responder_resources);
	write_u8(w, m->initiator_depth);
	write_u8(w, (uint8_t)(m->ack_delay << 3 | m->failover << 1 | m->flow_control));
	write_u8(w, (uint8_t)(m->rnr_retry << 5 | m->srq << 4));
	write_be64(w, m->ca_guid);
	return 0;
}

/* ---- MRA, REJ */

static int read_mra(struct bytes_reader *r, struct ibcm_msg *msg)
{
	read_ids(r, msg);
	msg->mra.subject = field(read_u8(r), 6, 2);
	msg->mra.service_timeout = field(read_u8(r), 3, 5);
	return 0;
}

static int write_mra(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	if (!fits(msg->mra.subject, 2) || !fits(msg->mra.service_timeout, 5))
		return -EINVAL;
	write_ids(w, msg);
	write_u8(w, (uint8_t)(msg->mra.subject << 6));
	write_u8(w, (uint8_t)(msg->mra.service_timeout << 3));
	return 0;
}

static int read_rej(struct bytes_reader *r, struct ibcm_msg *msg)
{
	struct ibcm_rej *m = &msg->rej;
	read_ids(r, msg);
	m->subject = field(read_u8(r), 6, 2);
	m->info_len = field(read_u8(r), 1, 7);
	m->reason = read_be16(r);
	read_bytes(r, m->info, IBCM_INFO_LEN);
	return m->info_len <= IBCM_INFO_LEN ? 0 : -EBADMSG;
}

static int write_rej(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	const struct ibcm_rej *m = &msg->rej;
	if (!fits(m->subject, 2) || m->info_len > IBCM_INFO_LEN)
		return -EINVAL;
	write_ids(w, msg);
	write_u8(w, (uint8_t)(m->subject << 6));
	write_u8(w, (uint8_t)(m->info_len << 1));
	write_be16(w, m->reason);
	write_bytes(w, m->info, IBCM_INFO_LEN);
	return 0;
}

/* ---- RTU, DREQ, DREP */

static int read_only_ids(struct bytes_reader *r, struct ibcm_msg *msg)
{
	read_ids(r, msg);
	return 0;
}

static int write_only_ids(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	write_ids(w, msg);
	return 0;
}

static int read_dreq(struct bytes_reader *r, struct ibcm_msg *msg)
{
	read_ids(r, msg);
	msg->dreq_qpn = read_be24(r);
	read_skip(r, 1);
	return 0;
}

static int write_dreq(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	if (!fits(msg->dreq_qpn, 24))
		return -EINVAL;
	write_ids(w, msg);
	write_24_8(w, msg->dreq_qpn, 0);
	return 0;
}

/* ---- SIDR_REQ, SIDR_REP */

static int read_sidr_req(struct bytes_reader *r, struct ibcm_msg *msg)
{
	msg->local_id = read_be32(r);
	msg->sidr_req.pkey = read_be16(r);
	read_skip(r, 2);
	msg->sidr_req.service_id = read_be64(r);
	return 0;
}

static int write_sidr_req(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	write_be32(w, msg->local_id);
	write_be16(w, msg->sidr_req.pkey);
	write_zeros(w, 2);
	write_be64(w, msg->sidr_req.service_id);
	return 0;
}

static int read_sidr_rep(struct bytes_reader *r, struct ibcm_msg *msg)
{
	struct ibcm_sidr_rep *m = &msg->sidr_rep;
	msg->local_id = read_be32(r);
	m->status = read_u8(r);
	m->info_len = read_u8(r);
	read_skip(r, 2);
	m->qpn = read_be24(r);
	read_skip(r, 1);
	m->service_id = read_be64(r);
	m->qkey = read_be32(r);
	read_bytes(r, m->info, IBCM_INFO_LEN);
	return m->info_len <= IBCM_INFO_LEN ? 0 : -EBADMSG;
}

static int write_sidr_rep(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	const struct ibcm_sidr_rep *m = &msg->sidr_rep;
	if (!fits(m->qpn, 24) || m->info_len > IBCM_INFO_LEN)
		return -EINVAL;
	write_be32(w, msg->local_id);
	write_u8(w, m->status);
	write_u8(w, m->info_len);
	write_zeros(w, 2);
	write_24_8(w, m->qpn, 0);
	write_be64(w, m->service_id);
	write_be32(w, m->qkey);
	write_bytes(w, m->info, IBCM_INFO_LEN);
	return 0;
}

/* ---- all messages */

static const struct form {
	enum ibcm_type type;
	const char *name;
	size_t private_len;
	int (*read)(struct bytes_reader *r, struct ibcm_msg *msg);
	int (*write)(struct bytes_writer *w, const struct ibcm_msg *msg);
} forms[] = {
	{ IBCM_REQ, "REQ", IBCM_REQ_PRIVATE_LEN, read_req, write_req },
	{ IBCM_MRA, "MRA", IBCM_MRA_PRIVATE_LEN, read_mra, write_mra },
	{ IBCM_REJ, "REJ", IBCM_REJ_PRIVATE_LEN, read_rej, write_rej },
	{ IBCM_REP, "REP", IBCM_REP_PRIVATE_LEN, read_rep, write_rep },
	{ IBCM_RTU, "RTU", IBCM_RTU_PRIVATE_LEN, read_only_ids, write_only_ids },
	{ IBCM_DREQ, "DREQ", IBCM_DREQ_PRIVATE_LEN, read_dreq, write_dreq },
	{ IBCM_DREP, "DREP", IBCM_DREP_PRIVATE_LEN, read_only_ids, write_only_ids },
	{ IBCM_SIDR_REQ, "SIDR_REQ", IBCM_SIDR_REQ_PRIVATE_LEN, read_sidr_req, write_sidr_req },
	{ IBCM_SIDR_REP, "SIDR_REP", IBCM_SIDR_REP_PRIVATE_LEN, read_sidr_rep, write_sidr_rep },
};

static const struct form *form_of(unsigned int type)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (forms[i].type == type)
			return &forms[i];
	return NULL;
}

size_t ibcm_private_len(enum ibcm_type type)
{
	const struct form *form = form_of(type);
	return form ? form->private_len : 0;
}

const char *ibcm_type_name(enum ibcm_type type)
{
	const struct form *form = form_of(type);
	return form ? form->name : "unknown";
}

/* The header of a MAD. @return 0, or -EBADMSG: not of the CM */
static int read_header(struct bytes_reader *r, uint64_t *ret_transaction_id, uint16_t *ret_type)
{
	uint32_t kind = read_be32(r);
	uint16_t status = read_be16(r);
	read_skip(r, 2); /* of the class; the CM has nothing here */
	*ret_transaction_id = read_be64(r);
	*ret_type = read_be16(r);
	read_skip(r, 2 + 4); /* reserved; attribute modifier, which the CM does not use */
	bool sound =
		kind == (BASE_VERSION << 24 | CLASS_CM << 16 | CLASS_VERSION << 8 | METHOD_SEND) &&
		status == 0;
	return sound ? 0 : -EBADMSG;
}

static void write_header(struct bytes_writer *w, const struct ibcm_msg *msg)
{
	write_u8(w, BASE_VERSION);
	write_u8(w, CLASS_CM);
	write_u8(w, CLASS_VERSION);
	write_u8(w, METHOD_SEND);
	write_zeros(w, 2 + 2);
	write_be64(w, msg->transaction_id);
	write_be16(w, (uint16_t)msg->type);
	write_zeros(w, 2 + 4);
}

int ibcm_decode(const uint8_t *buf, size_t len, struct ibcm_msg *ret_msg)
{
	struct bytes_reader r = bytes_reader(buf, len);
	struct ibcm_msg msg = { 0 };
	uint16_t type;
	if (len != IBCM_MAD_LEN || read_header(&r, &msg.transaction_id, &type) < 0)
		return -EBADMSG;
	const struct form *form = form_of(type);
	if (!form)
		return -ENOTSUP;
	msg.type = form->type;
	int error = form->read(&r, &msg);
	read_bytes(&r, msg.private_data, form->private_len);
	if (error < 0 || r.failed || r.left > 0)
		return -EBADMSG;
	*ret_msg = msg;
	return 0;
}

int ibcm_encode(const struct ibcm_msg *msg, uint8_t buf[IBCM_MAD_LEN])
{
	struct bytes_writer w = bytes_writer(buf, IBCM_MAD_LEN);
	const struct form *form = form_of(msg->type);
	if (!form)
		return -EINVAL;
	write_header(&w, msg);
	int error = form->write(&w, msg);
	if (error < 0)
		return error;
	write_bytes(&w, msg->private_data, form->private_len);
	return w.failed || w.left > 0 ? -EINVAL : 0;
}

bool ibcm_hide_psn(uint8_t mad[IBCM_MAD_LEN])
{
	enum { HEADER_LEN = 24, TYPE_AT = 16, REQ_AT = 68, REP_AT = 44, PSN_LEN = 3 };
	const bool known = mad[1] == CLASS_CM && ibcm_private_len(get_be16(mad + TYPE_AT)) > 0;
	if (!known)
		memset(mad + HEADER_LEN, 0, IBCM_MAD_LEN - HEADER_LEN);
	else if (get_be16(mad + TYPE_AT) == IBCM_REQ)
		memset(mad + REQ_AT, 0, PSN_LEN);
	else if (get_be16(mad + TYPE_AT) == IBCM_REP)
		memset(mad + REP_AT, 0, PSN_LEN);
	else
		return false;
	return true;
}
