/* SPDX-License-Identifier: MIT */
/**
 * @file llc_links.h
 * Which links a group should have, and when the server tries to add one (RFC 7609 2.2, C.8).
 */
#ifndef SMCRD_SMCR_LLC_LINKS_H
#define SMCRD_SMCR_LLC_LINKS_H

#include "daemon/smcr/llc.h"

void smcr_llc_links_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** No two links are parallel (LG-3), at most one is asymmetric (LG-4). */
bool smcr_llc_topology_ok(const struct smcr_lgr *lgr);
/** The link without which all links are symmetric, or NULL; if there are two such links, the newer
 * one. */
struct smcr_link *smcr_llc_asymmetric_link(const struct smcr_lgr *lgr);
/** Links that count against the limit (LG-4). */
unsigned int smcr_llc_symmetric_links(const struct smcr_lgr *lgr);
/** Server: take back the deletion of an asymmetric link if the group needs the link now. */
void smcr_llc_keep_asymmetric(struct smcr_lgr *lgr);
/** An active RNIC on the group's LAN (ADDL-17) that has no link of the group other than `except`,
 * rather one without any link; or NULL. */
struct smcr_device *smcr_llc_unused_device(const struct smcr_lgr *lgr,
					   const struct smcr_link *except);
/** Server: the RNIC to try to add a link on, or NULL: no link can be added (LG-8).
 * `client_changed`: the client may have a new RNIC. */
struct smcr_device *smcr_llc_add_candidate(const struct smcr_lgr *lgr, bool client_changed);
/** An RNIC has been added, has come up, or has got an address: let groups on its LAN try to use it
 * (ADDL-14, ADDL-15). */
void smcr_llc_rnic_appeared(struct smcr_engine *engine, const struct smcr_device *device);
/** The same for one group. */
void smcr_llc_rnic_back(struct smcr_lgr *lgr, const struct smcr_device *device);
/** The number of active links has changed: set the retry time of their QPs. */
void smcr_llc_links_changed(struct smcr_lgr *lgr);
/** The retry time of the group's QPs in milliseconds. `added` counts as a link even if it is not
 * active yet. */
uint32_t smcr_llc_patience(const struct smcr_lgr *lgr, const struct smcr_link *added);
/** Client: the RNIC to accept an ADD LINK on, or NULL (ADDL-3). */
struct smcr_device *smcr_llc_device_for(const struct smcr_lgr *lgr,
					const struct smcr_llc_add_link *request);
/** Try to add a link as soon as no other exchange runs. A client can only tell the server of an
 * RNIC (LG-10). */
void smcr_llc_want_link(struct smcr_lgr *lgr, enum smcr_add_occasion why);
/** Server: start ADD LINK if it is due. @return true: started */
bool smcr_llc_start_add_link(struct smcr_lgr *lgr);
/** Client: tell the server of an RNIC without a link, if that is due (ADDL-15); or of that of the
 *  asymmetric link, if a deployed server is to try again (A70). */
void smcr_llc_send_add_link_notice(struct smcr_lgr *lgr);
/** A link that was in use is deleted: the client has the order, or the server the reply to it. If
 * an operator wants that, attempts to add a link are dropped (A50). Otherwise a client asks the
 * server for another link if the server adds none (A70). */
void smcr_llc_link_goes(const struct smcr_link *link, bool by_operator);
/** Version 2: has CONFIRM RKEY room for the RToken of one more link? */
bool smcr_llc_room_for_link(const struct smcr_lgr *lgr);
void smcr_llc_on_request_add_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_request_add_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** Either side: an attempt to add a link begins; it has ended (ERR-70). */
void smcr_llc_add_attempt(struct smcr_lgr *lgr);
void smcr_llc_add_ended(struct smcr_lgr *lgr, enum smcr_llc_outcome outcome, const char *why);

/* Rules that depend only on their arguments. */
/** ADDL-3: what a client does with an ADD LINK. */
enum smcr_add_link_answer {
	SMCR_ADD_LINK_REJECT,    /* reason 1 */
	SMCR_ADD_LINK_ON_UNUSED, /* accept on an RNIC that no link uses yet */
	SMCR_ADD_LINK_ON_USED,   /* accept on an RNIC in use */
};
/**
 * @param server_rnic_new  the server's RNIC has no link of the group yet
 * @param have_unused      the client has an RNIC on the LAN without a link
 * @param have_asymmetric  the group has an asymmetric link (LG-4)
 */
enum smcr_add_link_answer smcr_llc_add_link_decide(bool server_rnic_new, bool have_unused,
						   bool have_asymmetric);
/** ADDL-16: what a server does with the client's ADD LINK. */
enum smcr_notice_answer {
	SMCR_NOTICE_IGNORE,
	SMCR_NOTICE_MAY,
	SMCR_NOTICE_MUST,
};
/**
 * @param links            links of the group
 * @param asymmetric       one of them is asymmetric
 * @param one_client_rnic  the links share the client's RNIC
 * @param limit            how many symmetric links were agreed on
 */
enum smcr_notice_answer smcr_llc_notice_decide(unsigned int links, bool asymmetric,
					       bool one_client_rnic, uint8_t limit);

#endif
