/* SPDX-License-Identifier: MIT */
/**
 * @file llc_add_link.h
 * The exchange that adds a link, from ADD LINK to CONFIRM LINK (RFC 7609 3.5.5.1).
 */
#ifndef SMCRD_SMCR_LLC_ADD_LINK_H
#define SMCRD_SMCR_LLC_ADD_LINK_H

#include "daemon/smcr/llc.h"

/** Server: begin to add a link on `device`. @return 0 or why that is not possible */
int smcr_llc_add_link(struct smcr_lgr *lgr, struct smcr_device *device, struct smcr_link *carrier);
/* Functions for the table of steps (llc_steps.c). */
/** The answer to ADD LINK, or the message after it, is late: in the deployed dialect test the
 * carrier.
 * @return false: the carrier is not tested, and counts as lost (C.7.1) */
bool smcr_llc_add_link_overdue(struct smcr_lgr *lgr);
/** The carrier has answered the test, but the peer does not go on with the exchange: delete the new
 * link. */
void smcr_llc_abandon_added(struct smcr_lgr *lgr);
/** The carrier has failed before CONFIRM LINK: give up the new link. */
void smcr_llc_add_link_carrier_lost(struct smcr_lgr *lgr);
/** The carrier has failed when CONFIRM LINK was due: the exchange goes on, because CONFIRM LINK
 * comes on the new link. */
void smcr_llc_add_link_without_carrier(struct smcr_lgr *lgr);
/** The new link has failed: delete it (server); ask the server to delete it (client). */
void smcr_llc_delete_added(struct smcr_lgr *lgr);
void smcr_llc_ask_to_delete_added(struct smcr_lgr *lgr);

/** Client: CONFIRM LINK has come on the new link. */
void smcr_llc_added_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request);
/** CONFIRM LINK, or its reply, has come on the new link, and full-size packets pass. */
void smcr_llc_added_link_proved(struct smcr_link *link,
				const struct smcr_llc_confirm_link *confirm);
void smcr_llc_on_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_notice(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_cont(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_add_link_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** The own RKEY exchange has ended, or takes too long: handle an ADD LINK or a CONTINUATION that
 * waits for it. */
void smcr_llc_add_link_resume(struct smcr_lgr *lgr);

#endif
