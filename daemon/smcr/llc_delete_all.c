/* SPDX-License-Identifier: MIT */
/* DELETE LINK of all links: the end of a link group, told to the peer (RFC 7609 3.5.4; DELL-8,
 * DELL-9, DELL-10). */
#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/llc_delete_link.h"
#include "daemon/smcr/llc_rkey.h"

/* Also called when the link that carried the message has failed (ERR-34, ERR-35). */
void smcr_llc_send_delete_all(struct smcr_lgr *lgr)
{
	struct smcr_link *carrier = smcr_lgr_any_link(lgr, NULL);
	if (!carrier) {
		smcr_lgr_end(lgr, lgr->end_error);
		return;
	}
	struct smcr_llc_msg msg = smcr_llc_delete_link_of(0, lgr->end_reason, false);
	msg.delete_link.all = true;
	msg.delete_link.orderly = lgr->end_reason == SMCR_LLC_DEL_OPERATOR ||
				  lgr->end_reason == SMCR_LLC_DEL_INACTIVITY;
	smcr_llc_enter(lgr,
		       lgr->role == SMCR_ROLE_SERVER ? SMCR_LLC_S_DELETE_ALL
						     : SMCR_LLC_C_AWAIT_DELETE_ALL,
		       carrier, NULL);
	smcr_llc_send(carrier, &msg);
}

void smcr_llc_delete_all(struct smcr_lgr *lgr, uint32_t reason, int error)
{
	if (lgr->state == SMCR_LGR_TERMINATING || lgr->fc.conn)
		return; /* the group ends already, or ends with its first connection */
	lgr->state = SMCR_LGR_TERMINATING;
	lgr->end_error = error;
	lgr->end_reason = reason;
	smcr_timer_stop(lgr->engine, &lgr->idle);
	smcr_llc_rkey_broken(lgr);
	smcr_lgr_end_conns(lgr);
	smcr_llc_send_delete_all(lgr);
}
