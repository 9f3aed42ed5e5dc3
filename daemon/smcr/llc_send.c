/* SPDX-License-Identifier: MIT */
/* Sending LLC messages: encoding, posting, and what their completion means. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/trace.h"

static int encode(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg,
		  const struct smcr_llc_rtokens *rtokens, uint8_t *buf, size_t len)
{
	if (!smcr_lgr_is_v2(lgr))
		return smcr_llc_encode(msg, lgr->dialect, buf, len);
	struct smcr_llc_msg copy = *msg;
	copy.order = lgr->order;
	return smcr_llc_encode_v2(&copy, rtokens, buf, len);
}

void smcr_llc_send_rtokens(struct smcr_link *link, const struct smcr_llc_msg *msg,
			   const struct smcr_llc_rtokens *rtokens)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	struct smcr_tx_entry entry = { .kind = SMCR_TX_LLC,
				       .llc_type = msg->type,
				       .llc_reply = msg->reply };
	if (msg->type == SMCR_LLC_DELETE_LINK)
		entry.llc_number = msg->delete_link.link_number;
	int len = encode(link->lgr, msg, rtokens, buf, sizeof(buf));
	assert(len >= SMCR_LLC_LEN);
	int rc = smcr_link_post_llc(link, buf, (size_t)len, &entry);
	if (rc)
		smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH, "cannot queue an LLC message: %s",
			       strerror(-rc));
	else
		smcr_trace_llc(link, SMCR_TRACE_SENT, msg, rtokens);
}

void smcr_llc_send(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	smcr_llc_send_rtokens(link, msg, NULL);
}

/* ---- completions ---- */

/** A message has been delivered. If it led to the present step, stop waiting for its completion. A
 * completion may be seen after the answer to the message: then it belongs to an earlier step and
 * does not count. */
static void completion_came(struct smcr_link *link, const struct smcr_tx_entry *entry)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_flow *flow = lgr->llc;
	const struct smcr_llc_step_msg *sent = &smcr_llc_step_row(flow->step)->sent;
	bool latest = entry->llc_type == sent->type &&
		      (sent->on == SMCR_ON_CARRIER || link == flow->subject);
	if (!lgr->fc.declining && !flow->proving && latest)
		smcr_timer_stop(lgr->engine, &flow->send_timer);
}

static void delete_link_sent(struct smcr_link *link, const struct smcr_tx_entry *entry)
{
	struct smcr_lgr *lgr = link->lgr;
	if (lgr->llc->step == SMCR_LLC_S_DELETE_ALL && !entry->llc_number && !entry->llc_reply)
		smcr_lgr_end(lgr, lgr->end_error); /* DELL-8 */
	if (entry->llc_reply)
		smcr_llc_delete_replied(link, entry->llc_number);
}

void smcr_llc_sent(struct smcr_link *link, const struct smcr_tx_entry *entry, bool ok)
{
	struct smcr_lgr *lgr = link->lgr;
	bool server = lgr->role == SMCR_ROLE_SERVER;
	if (lgr->state == SMCR_LGR_FIRST_CONTACT && server && lgr->fc.declining &&
	    entry->llc_type == SMCR_LLC_ADD_LINK) {
		lgr->fc.committed = ok; /* ERR-8 */
		smcr_llc_first_contact_failed(lgr, SMCR_REASON_ADD_LINK_FAILED, ECONNRESET);
		return;
	}
	if (!ok || !lgr->llc)
		return;
	switch (entry->llc_type) {
	case SMCR_LLC_CONFIRM_LINK: completion_came(link, entry); break;
	case SMCR_LLC_ADD_LINK:
		completion_came(link, entry);
		if (entry->llc_reply != server)
			lgr->fc.committed = true; /* ERR-8 */
		break;
	case SMCR_LLC_DELETE_LINK: delete_link_sent(link, entry); break;
	default: break;
	}
}
