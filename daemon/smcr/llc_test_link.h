/* SPDX-License-Identifier: MIT */
/**
 * @file llc_test_link.h
 * TEST LINK: does a link still work?
 */
#ifndef SMCRD_SMCR_LLC_TEST_LINK_H
#define SMCRD_SMCR_LLC_TEST_LINK_H

#include "daemon/smcr/llc.h"

void smcr_llc_test_link_init(struct smcr_link *link);
/** Probe a link. It fails if no answer comes in time, or a wrong one (ERR-38, TEST-2). */
void smcr_llc_test_link(struct smcr_link *link);
void smcr_llc_on_test_link(struct smcr_link *link, const struct smcr_llc_msg *msg);
void smcr_llc_on_test_link_reply(struct smcr_link *link, const struct smcr_llc_msg *msg);

#endif
