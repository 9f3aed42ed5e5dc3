/* SPDX-License-Identifier: MIT */
/**
 * @file optout.h
 * Connections under IPsec do not use SMC-R (RFC 7609 5.5; SEC-4, TCPO-8). If a prefix identifies
 * them, their handshakes carry no option; others are declined.
 */
#ifndef SMCRD_OPTOUT_H
#define SMCRD_OPTOUT_H

#include "daemon/host/ipsec.h"
#include "daemon/rendezvous/option.h"

/** The most prefixes that a daemon excludes from the option. */
#define OPTOUT_MAX_PREFIXES 512

struct optout {
	struct ipsec_watch *ipsec;
	struct rdv_option *option;
	struct smcr_prefix prefixes[OPTOUT_MAX_PREFIXES]; /* excluded now */
	size_t num_prefixes;
};

/** Follow the IPsec policies of the host from now on; failures are logged. `option` may be NULL. */
void optout_start(struct optout *optout, struct event_base *base, struct rdv_option *option);
void optout_stop(struct optout *optout);

/** Must this connection stay TCP? @return SMCR_REASON_IPSEC or SMCR_REASON_NONE */
enum smcr_reason optout_judge(struct optout *optout, const struct smcr_addr *local,
			      const struct smcr_addr *peer, uint32_t mark);

#endif
