/* SPDX-License-Identifier: MIT */
/* Describe a message in one line, with the RFC's names. Addresses and keys of memory are left out:
 * they differ from run to run, and people compare logs of one seed. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/sim/obs.h"

static char line[256];

static const char *describe_cdc(const uint8_t *data, size_t len)
{
	struct smcr_cdc c;
	if (smcr_cdc_decode(data, len, &c) < 0)
		return "broken CDC";
	snprintf(line, sizeof(line), "CDC %u p=(%u,%u) c=(%u,%u) %s%s%s%s%s%s%s%s", c.seq,
		 c.producer.wrap, c.producer.offset, c.consumer.wrap, c.consumer.offset,
		 c.prod_flags & SMCR_CDC_WRITE_BLOCKED ? "B" : "",
		 c.prod_flags & SMCR_CDC_URGENT_PENDING ? "P" : "",
		 c.prod_flags & SMCR_CDC_URGENT_PRESENT ? "U" : "",
		 c.prod_flags & SMCR_CDC_CONS_UPDATE_REQ ? "R" : "",
		 c.prod_flags & SMCR_CDC_FAILOVER ? "F" : "",
		 c.conn_flags & SMCR_CDC_SENDING_DONE ? "D" : "",
		 c.conn_flags & SMCR_CDC_CLOSED ? "C" : "",
		 c.conn_flags & SMCR_CDC_ABORT ? "A" : "");
	return line;
}

const char *describe_send(const uint8_t *data, size_t len, enum smcr_dialect dialect)
{
	struct smcr_llc_msg m;
	struct smcr_llc_rtokens rtokens;
	if (len && data[0] == SMCR_CDC_TYPE)
		return describe_cdc(data, len);
	bool v2 = len && (data[0] & 0xF0) == SMCR_LLC_V2_TYPE;
	int r = v2 ? smcr_llc_decode_v2(data, len, &m, &rtokens)
		   : smcr_llc_decode(data, len, dialect, &m);
	if (r < 0)
		return "broken LLC message";
	int n = snprintf(line, sizeof(line), "%s%s", smcr_llc_type_name(m.type),
			 m.reply ? " reply" : "");
	char *end = line + n;
	size_t room = sizeof(line) - (size_t)n;
	switch (m.type) {
	case SMCR_LLC_CONFIRM_LINK:
		snprintf(end, room, " link %u QP %06x max %u flags %x", m.confirm_link.link_number,
			 m.confirm_link.qpn, m.confirm_link.max_links, m.confirm_link.flags);
		break;
	case SMCR_LLC_ADD_LINK:
		n = snprintf(end, room, " link %u QP %06x%s reason %u", m.add_link.link_number,
			     m.add_link.qpn, m.add_link.reject ? " rejected" : "",
			     m.add_link.reject_reason);
		if (v2)
			snprintf(end + n, room - (size_t)n, ", %u tokens", rtokens.count);
		break;
	case SMCR_LLC_REQUEST_ADD_LINK:
		snprintf(end, room, " %u GIDs", m.request_add_link.num_gids);
		break;
	case SMCR_LLC_ADD_LINK_CONT:
		snprintf(end, room, " link %u, %u tokens left", m.add_link_cont.link_number,
			 m.add_link_cont.num_rtokens);
		break;
	case SMCR_LLC_DELETE_LINK:
		snprintf(end, room, " link %u%s%s reason %08x", m.delete_link.link_number,
			 m.delete_link.all ? " all" : "", m.delete_link.orderly ? " orderly" : "",
			 m.delete_link.reason);
		break;
	case SMCR_LLC_CONFIRM_RKEY:
		snprintf(end, room, " %u others%s%s", m.confirm_rkey.num_tokens,
			 m.confirm_rkey.negative ? " negative" : "",
			 m.confirm_rkey.retry ? " retry" : "");
		break;
	case SMCR_LLC_CONFIRM_RKEY_CONT:
		snprintf(end, room, " %u left%s", m.confirm_rkey_cont.num_left,
			 m.confirm_rkey_cont.negative ? " negative" : "");
		break;
	case SMCR_LLC_DELETE_RKEY:
		snprintf(end, room, " %u keys%s mask %02x", m.delete_rkey.count,
			 m.delete_rkey.negative ? " negative" : "",
			 v2 ? m.delete_rkey.num_invalid : m.delete_rkey.error_mask);
		break;
	default: break;
	}
	return line;
}

const char *describe_clc(const uint8_t *data, size_t len)
{
	struct smcr_clc_msg m;
	if (smcr_clc_decode(data, len, &m) < 0)
		return "broken CLC message";
	switch (m.type) {
	case SMCR_CLC_PROPOSAL:
		snprintf(line, sizeof(line), "Proposal%s%s", m.proposal.offers_r_v1 ? " v1" : "",
			 m.proposal.offers_r_v2 ? " v2" : "");
		return line;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM:
		snprintf(line, sizeof(line), "%s v%u%s QP %06x element %u of size code %u",
			 m.type == SMCR_CLC_ACCEPT ? "Accept" : "Confirm", m.accept.version,
			 m.accept.first_contact ? " F" : "", m.accept.qpn, m.accept.rmbe_index,
			 m.accept.bsize);
		return line;
	case SMCR_CLC_DECLINE:
		snprintf(line, sizeof(line), "Decline%s %s", m.decline.out_of_sync ? " S" : "",
			 smcr_reason_name(m.decline.diagnosis));
		return line;
	}
	return "?";
}
