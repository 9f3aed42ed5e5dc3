/* SPDX-License-Identifier: MIT */
/**
 * @file text.h
 * Messages as text for the log, on one line. Keys are left out: RKeys, RTokens, addresses of
 * memory, alert tokens and initial PSNs; so are the numbers of queue pairs. What a peer has written
 * comes as printable ASCII.
 */
#ifndef SMCRD_PROTO_SMCR_TEXT_H
#define SMCRD_PROTO_SMCR_TEXT_H

#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

/** Room for every text; a longer one is cut. */
#define SMCR_TEXT_LEN 512

/** "Proposal, version 2, for SMC-R version 1 and 2, ..". */
void smcr_clc_text(const struct smcr_clc_msg *msg, char ret_text[SMCR_TEXT_LEN]);

/**
 * "ADD LINK request, link 2, ..".
 * @param rtokens  of a version 2 ADD LINK; NULL: it has none
 */
void smcr_llc_text(const struct smcr_llc_msg *msg, const struct smcr_llc_rtokens *rtokens,
		   char ret_text[SMCR_TEXT_LEN]);

/** "CDC 7, producer 0/4096, consumer 0/0, write blocked": cursors as on the wire, turns of the
 * element and offset. */
void smcr_cdc_text(const struct smcr_cdc *cdc, char ret_text[SMCR_TEXT_LEN]);

/** A reason code of DELETE LINK in words; static storage. */
const char *smcr_llc_delete_text(uint32_t reason);

#endif
