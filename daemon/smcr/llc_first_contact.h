/* SPDX-License-Identifier: MIT */
/**
 * @file llc_first_contact.h
 * The LLC part of first contact, from the end of CLC to a link that works (RFC 7609 3.5.1).
 */
#ifndef SMCRD_SMCR_LLC_FIRST_CONTACT_H
#define SMCRD_SMCR_LLC_FIRST_CONTACT_H

#include "daemon/smcr/llc.h"

void smcr_llc_first_contact_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** CLC is done: prove link 1 (RV-8, RV-9). */
void smcr_llc_first_contact(struct smcr_lgr *lgr, struct smcr_link *link);
/** Client: CONFIRM LINK has come. */
void smcr_llc_first_link_asked(struct smcr_link *link, const struct smcr_llc_confirm_link *request);
/** CONFIRM LINK, or its reply, has come, and full-size packets pass. */
void smcr_llc_first_link_proved(struct smcr_link *link,
				const struct smcr_llc_confirm_link *confirm);
/** Client, version 2: the server's ADD LINK has not come. @return true: the connection opens with
 * one link */
bool smcr_llc_go_on_with_one_link(struct smcr_lgr *lgr);
/** First contact, before the point of no return: the SEND just posted must complete soon
 *  (ERR-17, ERR-18). */
void smcr_llc_expect_completion(struct smcr_lgr *lgr);
/** First contact: is the peer's next message so late that it probably does not get through? A peer
 * that finds that out declines. A peer with another reason declines at once. */
bool smcr_llc_is_overdue(const struct smcr_lgr *lgr);
/** The exchanges of a first contact are over: open its connection, if a link works (RV-12). */
void smcr_llc_first_contact_over(struct smcr_lgr *lgr);
/** The first contact fails: Decline before the point of no return (ERR-18), else reset (ERR-7). The
 * group ends. */
void smcr_llc_first_contact_failed(struct smcr_lgr *lgr, enum smcr_reason reason, int error);
/** The link that carries the exchange has failed, and with it the first contact; the Decline may
 * have to wait. */
void smcr_llc_first_contact_link_lost(struct smcr_lgr *lgr);
/** First contact: the peer does not answer. Break the TCP connection and end the group. */
void smcr_llc_first_contact_timed_out(struct smcr_lgr *lgr);

/* Rules that depend only on their arguments. */
/** LG-7: the group's limit, from the server's request and the client's reply. */
uint8_t smcr_llc_negotiate_max_links(uint8_t server, uint8_t client);
/** The group's dialect, from the flag bits of the first CONFIRM LINK (docs/dialects.md). */
enum smcr_dialect smcr_llc_choose_dialect(enum smcr_dialect_policy policy, uint8_t request_flags,
					  uint8_t reply_flags);

#endif
