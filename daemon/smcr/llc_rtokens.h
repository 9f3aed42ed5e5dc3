/* SPDX-License-Identifier: MIT */
/**
 * @file llc_rtokens.h
 * The RTokens that the two sides tell each other for a new link (ADDL-9).
 */
#ifndef SMCRD_SMCR_LLC_RTOKENS_H
#define SMCRD_SMCR_LLC_RTOKENS_H

#include "daemon/smcr/llc.h"

/** Note which own RMBs the peer knows, and so must learn anew for the new link; no message of the
 *  peer has told its own. */
void smcr_llc_rtokens_list(struct smcr_lgr *lgr);
/** Version 2: those for the new link. */
struct smcr_llc_rtokens smcr_llc_rtokens_own(const struct smcr_llc_flow *flow);
/** Send the next two of them in an ADD LINK CONTINUATION. */
void smcr_llc_rtokens_send_cont(struct smcr_lgr *lgr, bool reply);
/** Take in RTokens of the peer. @return false: they do not fit (ERR-55) */
bool smcr_llc_rtokens_take_cont(struct smcr_lgr *lgr, const struct smcr_llc_add_link_cont *cont);
/** Version 2: take in those that came with ADD LINK. @return false: an RMB in use has none
 * (ERR-55) */
bool smcr_llc_rtokens_take_all(struct smcr_lgr *lgr);
/** Has either side more RTokens to tell? */
bool smcr_llc_rtokens_left(const struct smcr_lgr *lgr);

/* Rules without a state. */
/** ADDL-9: pairs in the message that says `left`, and what the next one says. */
unsigned int smcr_llc_rtokens_pairs(uint8_t left);
uint8_t smcr_llc_rtokens_next(uint8_t left);

#endif
