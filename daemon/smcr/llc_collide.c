/* SPDX-License-Identifier: MIT */
/*
 * Requests that come during an exchange (RFC 7609 3.5.5.3, requirement SER-4): the matrix, and the
 * queue of requests that have to wait (SER-5).
 */
#include <string.h>

#include "daemon/smcr/llc.h"

/** The exchange that the receiver of a request has in progress. */
enum column {
	DURING_ADD_LINK,    /* ADD LINK to CONFIRM LINK */
	DURING_DELETE_LINK, /* of one link */
	DURING_RKEY,        /* own CONFIRM RKEY or DELETE RKEY */
	NOTHING,
};

/*
 * The matrix. TEST LINK and a notice are handled at any time (SER-1). If a request of the server
 * reaches the client during an exchange, the server has given up that exchange (SER-7): the
 * half-built link is dropped and the request handled. The client answers the server's DELETE LINK
 * at once, so nothing is in progress after it. While the client waits for a DELETE LINK that it has
 * asked for, the server may go on with what it had begun. CONFIRM RKEY exchanges of the two sides
 * are independent (SER-3). A notice (ADD LINK of the client) leaves a mark that is read when
 * nothing is in progress (A46), which has the effect of the queue. If the ADD LINK exchange in
 * progress was the answer to the notice, the mark finds nothing to add.
 */
static const struct {
	uint8_t type;
	enum smcr_role receiver;
	enum smcr_collision during[NOTHING];
} matrix[] = {
	/* type, receiver                             ADD LINK           DELETE LINK        RKEY */
	{ SMCR_LLC_TEST_LINK, SMCR_ROLE_SERVER, { SMCR_HANDLE, SMCR_HANDLE, SMCR_HANDLE } },
	{ SMCR_LLC_TEST_LINK, SMCR_ROLE_CLIENT, { SMCR_HANDLE, SMCR_HANDLE, SMCR_HANDLE } },
	{ SMCR_LLC_ADD_LINK, SMCR_ROLE_SERVER, { SMCR_HANDLE, SMCR_HANDLE, SMCR_HANDLE } },
	{ SMCR_LLC_ADD_LINK, SMCR_ROLE_CLIENT, { SMCR_GAVE_UP, SMCR_GAVE_UP, SMCR_HANDLE } },
	{ SMCR_LLC_DELETE_LINK, SMCR_ROLE_SERVER, { SMCR_QUEUE, SMCR_QUEUE, SMCR_QUEUE } },
	{ SMCR_LLC_DELETE_LINK, SMCR_ROLE_CLIENT, { SMCR_GAVE_UP, SMCR_GAVE_UP, SMCR_HANDLE } },
	{ SMCR_LLC_CONFIRM_RKEY, SMCR_ROLE_SERVER, { SMCR_REFUSE, SMCR_REFUSE, SMCR_HANDLE } },
	{ SMCR_LLC_CONFIRM_RKEY, SMCR_ROLE_CLIENT, { SMCR_GAVE_UP, SMCR_HANDLE, SMCR_HANDLE } },
	{ SMCR_LLC_DELETE_RKEY,
	  SMCR_ROLE_SERVER,
	  { SMCR_QUEUE, SMCR_QUEUE, SMCR_HANDLE } }, /* A16 */
	{ SMCR_LLC_DELETE_RKEY, SMCR_ROLE_CLIENT, { SMCR_GAVE_UP, SMCR_HANDLE, SMCR_HANDLE } },
};

static enum column in_progress(const struct smcr_llc_flow *flow)
{
	switch (smcr_llc_exchange_of(flow->step)) {
	case SMCR_EXCHANGE_ADD_LINK: return DURING_ADD_LINK;
	case SMCR_EXCHANGE_DELETE_LINK: return DURING_DELETE_LINK;
	case SMCR_EXCHANGE_FIRST_LINK:
	case SMCR_EXCHANGE_DELETE_ALL: return NOTHING;
	case SMCR_EXCHANGE_NONE: break;
	}
	return flow->rkey.step != SMCR_RKEY_IDLE ? DURING_RKEY : NOTHING;
}

static bool is_rkey(const struct smcr_llc_msg *msg)
{
	return msg->type == SMCR_LLC_CONFIRM_RKEY || msg->type == SMCR_LLC_DELETE_RKEY;
}

/*
 * In version 2 the server does not delay the client's RKEY exchanges. A deployed client does not
 * try again after a negative reply, and answers no message about links until its own exchange is
 * over, because it began that before it saw our request. The RTokens for the new link come with the
 * client's reply to ADD LINK, which follows that exchange; see also llc_rkey.c.
 */
enum smcr_collision smcr_llc_collision(const struct smcr_lgr *lgr, const struct smcr_llc_msg *msg)
{
	enum column column = in_progress(lgr->llc);
	bool all = msg->type == SMCR_LLC_DELETE_LINK && msg->delete_link.all;
	if (column == NOTHING || all) /* DELETE LINK of all ends everything at once (SER-1) */
		return SMCR_HANDLE;
	if (smcr_lgr_is_v2(lgr) && lgr->role == SMCR_ROLE_SERVER && is_rkey(msg))
		return SMCR_HANDLE;
	for (size_t i = 0; i < sizeof(matrix) / sizeof(matrix[0]); i++)
		if (matrix[i].type == msg->type && matrix[i].receiver == lgr->role)
			return matrix[i].during[column];
	return SMCR_HANDLE; /* CONFIRM LINK: part of the exchange, or an error */
}

/* ---- the queue ---- */

void smcr_llc_queue(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	if (flow->queued == SMCR_LLC_QUEUE_MAX) {
		smcr_llc_protocol_error(link, "too many requests at once");
		return;
	}
	flow->queue[flow->queued++] =
		(struct smcr_llc_queued){ .link_ref = link->ref, .msg = *msg };
}

bool smcr_llc_dequeue(struct smcr_lgr *lgr, struct smcr_link **ret_link,
		      struct smcr_llc_msg *ret_msg)
{
	struct smcr_llc_flow *flow = lgr->llc;
	while (flow->queued) {
		struct smcr_llc_queued first = flow->queue[0];
		struct smcr_link *link = smcr_link_by_ref(lgr->engine, first.link_ref);
		flow->queued--;
		memmove(&flow->queue[0], &flow->queue[1], flow->queued * sizeof(flow->queue[0]));
		if (!link || link->state != SMCR_LINK_ACTIVE)
			continue;
		*ret_link = link;
		*ret_msg = first.msg;
		return true;
	}
	return false;
}

void smcr_llc_drop_queued(const struct smcr_link *link)
{
	struct smcr_llc_flow *flow = link->lgr->llc;
	unsigned int kept = 0;
	for (unsigned int i = 0; i < flow->queued; i++)
		if (flow->queue[i].link_ref != link->ref)
			flow->queue[kept++] = flow->queue[i];
	flow->queued = kept;
}
