/* SPDX-License-Identifier: MIT */
/**
 * @file llc_delete_all.h
 * The exchange that deletes all links, and with them the group.
 */
#ifndef SMCRD_SMCR_LLC_DELETE_ALL_H
#define SMCRD_SMCR_LLC_DELETE_ALL_H

#include "daemon/smcr/llc.h"

/** End the group by telling the peer (DELL-8, DELL-10, TERM-1). */
void smcr_llc_delete_all(struct smcr_lgr *lgr, uint32_t reason, int error);
/** Send the message of smcr_llc_delete_all() (again) on a link that works, or end the group. */
void smcr_llc_send_delete_all(struct smcr_lgr *lgr);

#endif
