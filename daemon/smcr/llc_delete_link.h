/* SPDX-License-Identifier: MIT */
/**
 * @file llc_delete_link.h
 * The exchange that deletes one link. The states of a deletion are in deletion.h.
 */
#ifndef SMCRD_SMCR_LLC_DELETE_LINK_H
#define SMCRD_SMCR_LLC_DELETE_LINK_H

#include "daemon/smcr/llc.h"

void smcr_llc_delete_link_init(struct smcr_link *link);
/** The link is being freed: settle the deletions of other links that it carried. */
void smcr_llc_delete_link_free(struct smcr_link *link);
struct smcr_llc_msg smcr_llc_delete_link_of(uint8_t number, uint32_t reason, bool reply);
/** Client: the reply about link `number` was completed on `carrier`. */
void smcr_llc_delete_replied(struct smcr_link *carrier, uint8_t number);
/** Server: send DELETE LINK for `link` on `carrier`, which starts the exchange (DELL-1): the
 * deletion is ORDERED. */
void smcr_llc_order_deletion(struct smcr_lgr *lgr, struct smcr_link *link,
			     struct smcr_link *carrier);
/** Client: the carrier has answered TEST LINK. The server does not know the new links whose
 * deletion was asked for on it: free them. */
void smcr_llc_forget_new_links(struct smcr_link *carrier);
/** Server, deployed dialect: the client has not answered DELETE LINK in time. @return true: DELETE
 * LINK was sent again */
bool smcr_llc_repeat_delete(struct smcr_lgr *lgr);
/** Has the group another link that works and is not being deleted? */
bool smcr_llc_another_stays(const struct smcr_link *link);
/** Server: want a link that works deleted in good order: the deletion is WANTED, and own
 * connections move away first (DELL-3, DELL-4). llc_schedule.c orders the deletion when it is
 * due. */
void smcr_llc_want_deletion(struct smcr_link *link, uint32_t reason);
/** Server: a link that may be deleted now, or NULL. */
struct smcr_link *smcr_llc_deletion_due(const struct smcr_lgr *lgr);
/** Requests on the link have completed, a connection has left the link, or CLC names another link
 * for a connection: the deletion of this link may be due. */
void smcr_llc_link_less_busy(struct smcr_link *link);
/** Client: ask the server to delete links that have failed or are not wanted any more, if it has
 * not been asked yet. */
void smcr_llc_ask_for_deletions(struct smcr_lgr *lgr);
/** Either side: have a link that works deleted in good order, because an operator wants that. */
void smcr_llc_delete_in_order(struct smcr_link *link);
/** A link has failed: have it deleted, unless its deletion has begun. */
void smcr_llc_delete_failed(struct smcr_link *link);
/** Client: a link has failed. Ask again for the deletions that it carried requests for. */
void smcr_llc_ask_again(struct smcr_link *lost);
/** Server: the carrier of the exchange that deletes a link has failed. */
void smcr_llc_delete_link_carrier_lost(struct smcr_lgr *lgr);
/** Take back a deletion that is WANTED: the link stays. */
void smcr_llc_cancel_deletion(struct smcr_link *link);
/** Client: ask, on another link, for the deletion of this link: at once if it has failed, in good
 * order if it works (DELL-5). */
void smcr_llc_request_delete(struct smcr_link *link);
/** Both sides know that this link is gone: free it from the timer queue. */
void smcr_llc_link_agreed_gone(struct smcr_link *link);
void smcr_llc_on_delete_link_request(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_link_refused(struct smcr_link *link, const struct smcr_llc_msg *msg);

#endif
