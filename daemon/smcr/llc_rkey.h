/* SPDX-License-Identifier: MIT */
/**
 * @file llc_rkey.h
 * The RKEY exchanges, which announce and withdraw RMBs (RFC 7609 3.5.5.2).
 */
#ifndef SMCRD_SMCR_LLC_RKEY_H
#define SMCRD_SMCR_LLC_RKEY_H

#include "daemon/smcr/llc.h"

void smcr_llc_rkey_init(struct smcr_lgr *lgr, struct smcr_llc_flow *flow);
/** Has the RMB to be announced, or announced again because the peer has no RToken of it on some
 * link? */
bool smcr_llc_rkey_due(const struct smcr_slab *slab);
void smcr_llc_confirm_rkey(struct smcr_slab *slab);
/** Withdraw the RMBs that are deletable. @return false: none is */
bool smcr_llc_delete_rkey(struct smcr_lgr *lgr);
/** Must an RMB that the peer may know be announced before a link is added? */
bool smcr_llc_rkey_unsettled(const struct smcr_lgr *lgr);
/** The link that carries the own RKEY exchange is gone. */
void smcr_llc_rkey_broken(struct smcr_lgr *lgr);
/** Are CONTINUATIONs of the peer's CONFIRM RKEY due, or our answer to its DELETE RKEY? */
bool smcr_llc_peer_rkey_runs(const struct smcr_lgr *lgr);
/** The link is gone, and with it the peer's RKEY exchange if the link carried that. */
void smcr_llc_peer_rkey_lost(const struct smcr_link *link);
void smcr_llc_forget_slab(struct smcr_lgr *lgr, struct smcr_slab *slab);
void smcr_llc_on_confirm_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_cont(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_confirm_rkey_cont_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);
/** A request of a connection has completed: send the answer to DELETE RKEY that waits for it. */
void smcr_llc_answer_withdrawal(struct smcr_lgr *lgr);
void smcr_llc_on_delete_rkey(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_delete_rkey_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

/* Rules without a state. */
/** RKEY-4: how many other links a message tells of when `left` are left to be told. */
unsigned int smcr_llc_rkey_specs(unsigned int left, bool continuation);

#endif
