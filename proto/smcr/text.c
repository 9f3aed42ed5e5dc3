/* SPDX-License-Identifier: MIT */
#include "proto/smcr/text.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "proto/smcr/eid.h"
#include "proto/smcr/put.h"
#include "proto/smcr/reason.h"

static void put_gid(struct text *text, const char *what, const uint8_t gid[SMCR_GID_LEN])
{
	char name[INET6_ADDRSTRLEN];
	if (inet_ntop(AF_INET6, gid, name, sizeof(name)))
		put(text, ", %s %s", what, name);
}

static void put_mtu(struct text *text, uint8_t mtu)
{
	if (smcr_mtu_valid(mtu))
		put(text, ", path MTU %u", smcr_mtu_bytes(mtu));
	else
		put(text, ", path MTU of the unknown code %u", mtu);
}

/* ---- CLC ---- */

static void put_proposal(struct text *text, const struct smcr_clc_proposal *msg)
{
	char eid[SMCR_EID_TEXT_LEN];
	put(text, "Proposal, version %u, for%s%s%s%s", msg->version,
	    msg->offers_r_v1 ? " SMC-R version 1" : "",
	    msg->offers_r_v1 && msg->offers_r_v2 ? " and" : "",
	    msg->offers_r_v2 ? " SMC-R version 2" : "",
	    msg->offers_r_v1 || msg->offers_r_v2 ? "" : " no SMC-R");
	if (msg->offers_d)
		put(text, ", and SMC-D");
	put_gid(text, "GID", msg->offers_r_v2 ? msg->v2.gid : msg->gid);
	if (msg->num_prefixes)
		put(text, ", IPv6 prefixes %u", msg->num_prefixes);
	else if (msg->offers_r_v1)
		put(text, ", IPv4 network of %u bits", msg->ipv4_mask_len);
	if (!msg->offers_r_v2)
		return;
	put(text, ", release %u", msg->v2.release);
	for (unsigned int i = 0; i < msg->v2.num_eids; i++) {
		smcr_eid_text(msg->v2.eids[i], eid);
		put(text, "%s%s", i ? " " : ", UEIDs ", eid);
	}
}

static void put_first_contact(struct text *text, const struct smcr_clc_first_contact *fce)
{
	char host[SMCR_EID_TEXT_LEN];
	smcr_eid_text(fce->host, host);
	put(text, ", release %u, host %s, %s", fce->release, *host ? host : "without a name",
	    smcr_clc_os_name(fce->os));
	if (fce->release)
		put(text, ", max connections %u, max links %u", fce->max_conns, fce->max_links);
	put(text, fce->direct ? ", no gateway" : ", gateways possible");
}

static void put_accept(struct text *text, const struct smcr_clc_accept *msg)
{
	char eid[SMCR_EID_TEXT_LEN];
	put(text, "%s, version %u", msg->type == SMCR_CLC_ACCEPT ? "Accept" : "Confirm",
	    msg->version > 1 ? msg->version : 1);
	if (msg->smc_type != SMCR_CLC_SMC_R) {
		put(text, ", not for SMC-R");
		return;
	}
	if (msg->type == SMCR_CLC_ACCEPT)
		put(text, ", %s", msg->first_contact ? "first contact" : "group that exists");
	put(text, ", element %u of %u bytes", msg->rmbe_index, smcr_bsize_bytes(msg->bsize & 0xF));
	put_mtu(text, msg->mtu);
	put_gid(text, "GID", msg->gid);
	if (msg->version < SMCR_CLC_VERSION_2)
		return;
	smcr_eid_text(msg->eid, eid);
	put(text, ", UEID %s", eid);
	if (msg->first_contact)
		put_first_contact(text, &msg->fce);
}

/* The words are those of a reason of the message's sender. */
static void put_decline(struct text *text, const struct smcr_clc_decline *msg)
{
	put(text, "Decline, version %u, reason %08x: %s", msg->version > 1 ? msg->version : 1,
	    msg->diagnosis, smcr_reason_text(msg->diagnosis));
	if (msg->out_of_sync)
		put(text, ", the link group is not known");
}

void smcr_clc_text(const struct smcr_clc_msg *msg, char ret_text[SMCR_TEXT_LEN])
{
	struct text text = { ret_text, SMCR_TEXT_LEN };
	*ret_text = '\0';
	switch (msg->type) {
	case SMCR_CLC_PROPOSAL: put_proposal(&text, &msg->proposal); break;
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM: put_accept(&text, &msg->accept); break;
	case SMCR_CLC_DECLINE: put_decline(&text, &msg->decline); break;
	}
}

/* ---- LLC ---- */

const char *smcr_llc_delete_text(uint32_t reason)
{
	switch (reason) {
	case SMCR_LLC_DEL_LOST_PATH: return "the path is lost";
	case SMCR_LLC_DEL_OPERATOR: return "an operator wants it";
	case SMCR_LLC_DEL_INACTIVITY: return "nobody has used it for long";
	case SMCR_LLC_DEL_PROTOCOL_VIOLATION: return "a message broke the protocol";
	case SMCR_LLC_DEL_ASYMMETRIC_NOT_NEEDED: return "it is asymmetric and not needed any more";
	case SMCR_LLC_DEL_UNKNOWN_LINK:
	case SMCR_LLC_DEL_UNKNOWN_GROUP: return "it is not known";
	}
	return "for a reason that has no name";
}

static void put_confirm_link(struct text *text, const struct smcr_llc_confirm_link *msg)
{
	put(text, ", link %u, max links %u", msg->link_number, msg->max_links);
	if (msg->max_conns)
		put(text, ", max connections %u", msg->max_conns);
	if (msg->flags & SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER)
		put(text, ", no eye catchers");
	put_gid(text, "GID", msg->gid);
}

static const char *reject_text(uint8_t reason)
{
	switch (reason) {
	case SMCR_LLC_REJECT_NO_ALT_PATH: return "no other path";
	case SMCR_LLC_REJECT_INVALID_MTU: return "invalid path MTU";
	}
	return "without a reason";
}

static void put_add_link(struct text *text, const struct smcr_llc_add_link *msg,
			 const struct smcr_llc_rtokens *rtokens)
{
	put(text, ", link %u", msg->link_number);
	if (msg->reject) {
		put(text, ", refused: %s", reject_text(msg->reject_reason));
		return;
	}
	put_mtu(text, msg->mtu);
	put_gid(text, "GID", msg->gid);
	if (rtokens)
		put(text, ", RMBs %u", rtokens->count);
}

static void put_delete_link(struct text *text, const struct smcr_llc_delete_link *msg)
{
	if (msg->all)
		put(text, ", all links");
	else
		put(text, ", link %u", msg->link_number);
	put(text, ", %s: %s", msg->orderly ? "in good order" : "at once",
	    smcr_llc_delete_text(msg->reason));
}

static void put_request_add_link(struct text *text, const struct smcr_llc_request_add_link *msg)
{
	if (msg->reject)
		put(text, ", refused: %s", reject_text(msg->reject_reason));
	for (unsigned int i = 0; i < msg->num_gids; i++)
		put_gid(text, "GID", msg->gid[i]);
}

static void put_refusal(struct text *text, bool negative)
{
	if (negative)
		put(text, ", refused");
}

static void put_delete_rkey(struct text *text, bool reply, const struct smcr_llc_delete_rkey *msg)
{
	put(text, ", RMBs %u", msg->count);
	if (reply && msg->negative)
		put(text, ", refused: some are not known");
}

void smcr_llc_text(const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens,
		   char ret_text[SMCR_TEXT_LEN])
{
	struct text text = { ret_text, SMCR_TEXT_LEN };
	put(&text, "%s %s", smcr_llc_type_name(msg->type), msg->reply ? "reply" : "request");
	switch ((enum smcr_llc_type)msg->type) {
	case SMCR_LLC_CONFIRM_LINK: put_confirm_link(&text, &msg->confirm_link); break;
	case SMCR_LLC_ADD_LINK: put_add_link(&text, &msg->add_link, rtokens); break;
	case SMCR_LLC_ADD_LINK_CONT:
		put(&text, ", link %u, RMBs still to come %u", msg->add_link_cont.link_number,
		    msg->add_link_cont.num_rtokens);
		break;
	case SMCR_LLC_DELETE_LINK: put_delete_link(&text, &msg->delete_link); break;
	case SMCR_LLC_REQUEST_ADD_LINK: put_request_add_link(&text, &msg->request_add_link); break;
	case SMCR_LLC_CONFIRM_RKEY:
		put(&text, ", an RMB on this link and %u others", msg->confirm_rkey.num_tokens);
		put_refusal(&text, msg->confirm_rkey.negative);
		if (msg->confirm_rkey.retry)
			put(&text, ", to be tried again");
		break;
	case SMCR_LLC_CONFIRM_RKEY_CONT:
		put(&text, ", links still to come %u", msg->confirm_rkey_cont.num_left);
		put_refusal(&text, msg->confirm_rkey_cont.negative);
		break;
	case SMCR_LLC_DELETE_RKEY: put_delete_rkey(&text, msg->reply, &msg->delete_rkey); break;
	case SMCR_LLC_TEST_LINK:
	case SMCR_LLC_CDC: break;
	}
}

/* ---- CDC ---- */

void smcr_cdc_text(const struct smcr_cdc *cdc, char ret_text[SMCR_TEXT_LEN])
{
	static const struct {
		bool of_producer;
		uint8_t flag;
		const char *name;
	} flags[] = {
		{ true, SMCR_CDC_WRITE_BLOCKED, "write blocked" },
		{ true, SMCR_CDC_URGENT_PENDING, "urgent data pending" },
		{ true, SMCR_CDC_URGENT_PRESENT, "urgent data present" },
		{ true, SMCR_CDC_CONS_UPDATE_REQ, "cursor update requested" },
		{ true, SMCR_CDC_FAILOVER, "failover" },
		{ false, SMCR_CDC_SENDING_DONE, "sending done" },
		{ false, SMCR_CDC_CLOSED, "closed" },
		{ false, SMCR_CDC_ABORT, "aborted" },
	};
	struct text text = { ret_text, SMCR_TEXT_LEN };
	put(&text, "CDC %u, producer %u/%u, consumer %u/%u", cdc->seq, cdc->producer.wrap,
	    cdc->producer.offset, cdc->consumer.wrap, cdc->consumer.offset);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if ((flags[i].of_producer ? cdc->prod_flags : cdc->conn_flags) & flags[i].flag)
			put(&text, ", %s", flags[i].name);
}
