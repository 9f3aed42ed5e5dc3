/* SPDX-License-Identifier: MIT */
/* RFC 7609 A.2 and version 2: header, lengths, the Decline, and calls for the other messages. */
#include "proto/smcr/clc.h"

#include <errno.h>

#include "proto/smcr/clc_parts.h"

/* ---- header and lengths */

/* CLC-1. */
static bool length_fits_type(const uint8_t *header, uint16_t length)
{
	bool v2 = clc_version(header) >= SMCR_CLC_VERSION_2;
	switch (header[4]) {
	case SMCR_CLC_PROPOSAL:
		return length >= (v2 ? CLC_PROPOSAL_V2_MIN : CLC_PROPOSAL_MIN) &&
		       length <= SMCR_CLC_MAX_LEN;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM: return clc_accept_length_fits(header, length);
	case SMCR_CLC_DECLINE:
		return length == (v2 ? SMCR_CLC_DECLINE_V2_LEN : SMCR_CLC_DECLINE_LEN);
	default: return false;
	}
}

int smcr_clc_peek_length(const uint8_t *buf, size_t len)
{
	if (len < SMCR_CLC_HEADER_LEN)
		return -EAGAIN;
	uint16_t length = get_be16(buf + 5);
	if (get_be32(buf) != SMCR_EYE_CATCHER || !length_fits_type(buf, length)) /* CLC-2 */
		return -EBADMSG;
	return length;
}

/* ---- Decline (A.2.5); version 2 adds the sender's operating system and four diagnoses */

static void read_decline(const uint8_t *buf, size_t len, struct smcr_clc_decline *d)
{
	struct bytes_reader r = bytes_reader(buf, len);
	read_skip(&r, SMCR_CLC_HEADER_LEN);
	/* A Decline ends the exchange whatever version its sender names, so any is accepted. */
	d->version = len == SMCR_CLC_DECLINE_V2_LEN ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1;
	d->out_of_sync = buf[7] & CLC_FLAG_OUT_OF_SYNC;
	read_bytes(&r, d->peer_id, SMCR_PEER_ID_LEN);
	d->diagnosis = read_be32(&r);
	if (d->version == SMCR_CLC_VERSION_1)
		return;
	d->os = read_u8(&r) >> 4;
	read_skip(&r, 3);
	for (unsigned int i = 0; i < 4; i++)
		d->more[i] = read_be32(&r);
}

int smcr_clc_encode_decline(const struct smcr_clc_decline *msg, uint8_t *buf, size_t len)
{
	bool v2 = msg->version == SMCR_CLC_VERSION_2;
	size_t length = v2 ? SMCR_CLC_DECLINE_V2_LEN : SMCR_CLC_DECLINE_LEN;
	if (msg->version > SMCR_CLC_VERSION_2 || msg->os > 0x0F)
		return -EINVAL;
	if (len < length)
		return -ENOBUFS;
	struct bytes_writer w = bytes_writer(buf, length);
	clc_write_header(&w, SMCR_CLC_DECLINE, length, v2 ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1,
			 msg->out_of_sync ? CLC_FLAG_OUT_OF_SYNC : 0);
	write_bytes(&w, msg->peer_id, SMCR_PEER_ID_LEN);
	write_be32(&w, msg->diagnosis);
	write_u8(&w, v2 ? (uint8_t)(msg->os << 4) : 0);
	write_zeros(&w, 3);
	for (unsigned int i = 0; v2 && i < 4; i++)
		write_be32(&w, msg->more[i]);
	write_be32(&w, SMCR_EYE_CATCHER);
	return (int)length;
}

/* ---- any message */

int smcr_clc_decode(const uint8_t *buf, size_t len, struct smcr_clc_msg *ret_msg)
{
	int length = smcr_clc_peek_length(buf, len);
	if (length < 0)
		return length;
	if (len < (size_t)length)
		return -EAGAIN;
	if (len > (size_t)length || get_be32(buf + len - CLC_TRAILER_LEN) != SMCR_EYE_CATCHER)
		return -EBADMSG;
	struct smcr_clc_msg msg = { .type = buf[4], .length = (uint16_t)length };
	int rc = 0;
	switch (msg.type) {
	case SMCR_CLC_PROPOSAL: rc = clc_read_proposal(buf, len, &msg.proposal); break;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM: rc = clc_read_accept(buf, len, &msg.accept); break;
	case SMCR_CLC_DECLINE: read_decline(buf, len, &msg.decline); break;
	}
	if (rc == 0 || rc == -ENOTSUP)
		*ret_msg = msg;
	return rc;
}

int smcr_clc_encode(const struct smcr_clc_msg *msg, uint8_t *buf, size_t len)
{
	switch (msg->type) {
	case SMCR_CLC_PROPOSAL: return smcr_clc_encode_proposal(&msg->proposal, buf, len);
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM:
		return msg->type == msg->accept.type
			       ? smcr_clc_encode_accept(&msg->accept, buf, len)
			       : -EINVAL;
	case SMCR_CLC_DECLINE: return smcr_clc_encode_decline(&msg->decline, buf, len);
	}
	return -EINVAL;
}

const char *smcr_clc_os_name(uint8_t os)
{
	switch (os) {
	case SMCR_CLC_OS_ZOS: return "z/OS";
	case SMCR_CLC_OS_LINUX: return "Linux";
	case SMCR_CLC_OS_AIX: return "AIX";
	default: return "unknown";
	}
}
