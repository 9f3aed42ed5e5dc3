/* SPDX-License-Identifier: MIT */
/* What comes in on a link: CDC messages go to cdc.c, LLC messages are decoded and given to the
 * function for their type and this side's role. */
#include <errno.h>

#include "daemon/smcr/data.h"
#include "daemon/smcr/llc.h"
#include "daemon/smcr/llc_add_link.h"
#include "daemon/smcr/llc_confirm_link.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_links.h"
#include "daemon/smcr/llc_rkey.h"
#include "daemon/smcr/llc_test_link.h"
#include "daemon/smcr/trace.h"

enum receiver {
	BY_CLIENT = 1,
	BY_SERVER = 2,
	BY_BOTH = 3,
};

/* Each request has a reply, except ADD LINK and DELETE LINK of the client, which the server answers
 * with a request of its own, and DELETE LINK of all (LLC-4). The reply goes out on the link that
 * the request came on (LLC-5). */
static const struct {
	uint8_t type;
	bool reply;
	enum receiver receiver;
	void (*handle)(struct smcr_link *link, const struct smcr_llc_msg *msg);
} handlers[] = {
	{ SMCR_LLC_CONFIRM_LINK, false, BY_CLIENT, smcr_llc_on_confirm_link },
	{ SMCR_LLC_CONFIRM_LINK, true, BY_SERVER, smcr_llc_on_confirm_link_reply },
	{ SMCR_LLC_ADD_LINK, false, BY_CLIENT, smcr_llc_on_add_link },
	{ SMCR_LLC_ADD_LINK, false, BY_SERVER, smcr_llc_on_add_link_notice },
	{ SMCR_LLC_ADD_LINK, true, BY_SERVER, smcr_llc_on_add_link_reply },
	{ SMCR_LLC_ADD_LINK_CONT, false, BY_CLIENT, smcr_llc_on_add_link_cont },
	{ SMCR_LLC_ADD_LINK_CONT, true, BY_SERVER, smcr_llc_on_add_link_cont_reply },
	{ SMCR_LLC_REQUEST_ADD_LINK, false, BY_SERVER, smcr_llc_on_request_add_link },
	{ SMCR_LLC_REQUEST_ADD_LINK, true, BY_CLIENT, smcr_llc_on_request_add_link_reply },
	{ SMCR_LLC_DELETE_LINK, false, BY_SERVER, smcr_llc_on_delete_link_request },
	{ SMCR_LLC_DELETE_LINK, false, BY_CLIENT, smcr_llc_on_delete_link },
	{ SMCR_LLC_DELETE_LINK, true, BY_SERVER, smcr_llc_on_delete_link_reply },
	{ SMCR_LLC_DELETE_LINK, true, BY_CLIENT, smcr_llc_on_delete_link_refused },
	{ SMCR_LLC_CONFIRM_RKEY, false, BY_BOTH, smcr_llc_on_confirm_rkey },
	{ SMCR_LLC_CONFIRM_RKEY, true, BY_BOTH, smcr_llc_on_confirm_rkey_reply },
	{ SMCR_LLC_CONFIRM_RKEY_CONT, false, BY_BOTH, smcr_llc_on_confirm_rkey_cont },
	{ SMCR_LLC_CONFIRM_RKEY_CONT, true, BY_BOTH, smcr_llc_on_confirm_rkey_cont_reply },
	{ SMCR_LLC_DELETE_RKEY, false, BY_BOTH, smcr_llc_on_delete_rkey },
	{ SMCR_LLC_DELETE_RKEY, true, BY_BOTH, smcr_llc_on_delete_rkey_reply },
	{ SMCR_LLC_TEST_LINK, false, BY_BOTH, smcr_llc_on_test_link },
	{ SMCR_LLC_TEST_LINK, true, BY_BOTH, smcr_llc_on_test_link_reply },
};

void smcr_llc_dispatch(struct smcr_link *link, const struct smcr_llc_msg *msg)
{
	enum receiver us = link->lgr->role == SMCR_ROLE_SERVER ? BY_SERVER : BY_CLIENT;
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].type == msg->type && handlers[i].reply == msg->reply &&
		    handlers[i].receiver & us) {
			handlers[i].handle(link, msg);
			return;
		}
	smcr_llc_protocol_error(link, "LLC message that the peer's role does not send");
}

/* ERR-63. */
void smcr_llc_protocol_error(struct smcr_link *link, const char *what)
{
	link->lgr->engine->count.llc_protocol_errors++;
	smcr_row(link->lgr, SMCR_ROW_ERR_63);
	smcr_link_fail(link, SMCR_LLC_DEL_PROTOCOL_VIOLATION, "protocol error: %s", what);
}

void smcr_llc_unexpected(struct smcr_link *link, const char *what)
{
	if (smcr_lgr_is_v2(link->lgr))
		link->lgr->engine->count.llc_dropped++;
	else
		smcr_llc_protocol_error(link, what);
}

static bool delete_all(const struct smcr_llc_msg *msg)
{
	return msg->type == SMCR_LLC_DELETE_LINK && !msg->reply && msg->delete_link.all;
}

/** A link carries messages of its group's version. In version 2 messages of version 1 are no error.
 * In version 1 messages of version 2 have types that are neither defined nor optional (A.3). */
static int decode(struct smcr_lgr *lgr, const uint8_t *data, size_t len, struct smcr_llc_msg *msg,
		  struct smcr_llc_rtokens *rtokens)
{
	if (!smcr_lgr_is_v2(lgr))
		return smcr_llc_decode(data, len, lgr->dialect, msg);
	int rc = smcr_llc_decode_v2(data, len, msg, rtokens);
	if (!rc && lgr->order == SMCR_ORDER_UNKNOWN)
		lgr->order = msg->order;
	return rc;
}

static void recv_llc(struct smcr_link *link, const uint8_t *data, size_t len)
{
	struct smcr_lgr *lgr = link->lgr;
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	int rc = decode(lgr, data, len, &msg, &rtokens);
	bool has_rtokens = !rc && smcr_lgr_is_v2(lgr) && msg.type == SMCR_LLC_ADD_LINK;
	smcr_trace_llc(link, SMCR_TRACE_RECEIVED, rc ? NULL : &msg, has_rtokens ? &rtokens : NULL);
	/* A client that has answered DELETE LINK ignores further messages on that link (A49). A
	 * server does not, as the reply is still to come. */
	bool going = link->state == SMCR_LINK_DEACTIVATING && lgr->role == SMCR_ROLE_CLIENT &&
		     (rc || msg.type != SMCR_LLC_TEST_LINK);
	bool lost = link->state == SMCR_LINK_FAILED || going;
	bool own_setup = !rc && msg.type == SMCR_LLC_CONFIRM_LINK;
	/* While a server still proves the path, the client has confirmed the link already and may
	 * use it. */
	bool confirmed = lgr->llc->proving == link && lgr->role == SMCR_ROLE_SERVER;
	if (rc == -EOPNOTSUPP) {
		smcr_row(lgr, SMCR_ROW_ERR_61); /* ERR-61 */
		lgr->engine->count.llc_dropped++;
	} else if (lost && (rc || !delete_all(&msg))) {
		smcr_row(lgr, SMCR_ROW_ERR_54); /* ERR-54 */
		lgr->engine->count.llc_dropped++;
	} else if (lgr->state == SMCR_LGR_TERMINATING &&
		   (rc || (!delete_all(&msg) && msg.type != SMCR_LLC_TEST_LINK))) {
		lgr->engine->count.llc_dropped++; /* the group is ending */
	} else if (rc) {
		smcr_llc_protocol_error(link, "malformed or unknown LLC message"); /* ERR-63 */
	} else if (link->state == SMCR_LINK_ACTIVATING && !own_setup && !confirmed) {
		smcr_llc_protocol_error(link, "link used before it was confirmed");
	} else {
		smcr_rows_collision(lgr, &msg);
		if (has_rtokens)
			lgr->llc->rtokens = rtokens;
		smcr_llc_dispatch(link, &msg);
	}
}

bool smcr_engine_recv_is_barrier(const uint8_t *data, size_t len)
{
	return smcr_cdc_is_failover(data, len) ||
	       (len == SMCR_LLC_LEN && (data[0] == SMCR_LLC_DELETE_LINK ||
					data[0] == SMCR_LLC_V2_TYPE + SMCR_LLC_DELETE_LINK));
}

void smcr_engine_recv(struct smcr_engine *engine, uint64_t link_ref, const uint8_t *data,
		      size_t len)
{
	struct smcr_link *link = smcr_link_by_ref(engine, link_ref);
	if (!link || smcr_timer_running(&link->lgr->end_work))
		return;
	link->last_active = engine->now;
	/* CDC-14: CDCs are handled at once, whatever LLC exchange runs. */
	if (len && data[0] == SMCR_CDC_TYPE)
		smcr_cdc_recv(link, data, len);
	else
		recv_llc(link, data, len);
}
