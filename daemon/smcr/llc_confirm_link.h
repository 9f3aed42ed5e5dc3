/* SPDX-License-Identifier: MIT */
/**
 * @file llc_confirm_link.h
 * CONFIRM LINK, on the first link and on added ones (RFC 7609 3.5.1.1.2).
 */
#ifndef SMCRD_SMCR_LLC_CONFIRM_LINK_H
#define SMCRD_SMCR_LLC_CONFIRM_LINK_H

#include "daemon/smcr/llc.h"

struct smcr_llc_msg smcr_llc_confirm_link_of(const struct smcr_link *link, bool reply,
					     uint8_t max_links);
/** Does the message come from the far end that this link was connected to? */
bool smcr_llc_right_sender(const struct smcr_link *link, const struct smcr_llc_confirm_link *c);
/** The peer has shown that the link works: it is ACTIVE. */
void smcr_llc_set_active(struct smcr_link *link, const struct smcr_llc_confirm_link *peer);
/**
 * The peer's CONFIRM LINK has come, and the link can send: keep the message until full-size packets
 * of ours have passed (A67). In first contact a timer bounds that (ERR-17). @return false: the
 * message can be acted on now
 */
bool smcr_llc_prove(struct smcr_link *link, const struct smcr_llc_confirm_link *confirm);
/** Full-size packets of the link pass: go on with the CONFIRM LINK that has waited for that. */
void smcr_llc_path_proved(struct smcr_link *link);
/** Server: the answer to CONFIRM LINK is late. In version 2 send CONFIRM LINK once more, because
 * deployed clients drop one that comes before they wait for it. @return false: it was sent twice,
 * or this is version 1 */
bool smcr_llc_repeat_confirm(struct smcr_lgr *lgr);
void smcr_llc_on_confirm_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

#endif
