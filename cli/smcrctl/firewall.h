/* SPDX-License-Identifier: MIT */
/**
 * @file firewall.h
 * What do the rules of nftables do with RoCEv2, UDP port 4791? Rules that depend on a peer's
 * address or a limit leave that uncertain.
 */
#ifndef SMCRD_SMCRCTL_FIREWALL_H
#define SMCRD_SMCRCTL_FIREWALL_H

#include <jansson.h>
#include <stdbool.h>

#define FIREWALL_WHERE_LEN 200

enum firewall_fate {
	FIREWALL_PASSES,
	FIREWALL_MAY_DROP, /* a rule that names the port drops some packets, or a policy most */
	FIREWALL_DROPS,
};

struct firewall_verdict {
	enum firewall_fate fate;
	char where[FIREWALL_WHERE_LEN]; /* "rule 4 of chain in, table inet dead"; "" if it passes */
	char chain[FIREWALL_WHERE_LEN]; /* as nft(8) names a chain: "inet dead in" */
};

/**
 * Follow the first RoCE packet of a peer through the rules.
 * @param ruleset    what "nft -j list ruleset" prints
 * @param incoming   the packet comes in by the interface, else it goes out by it
 * @param sender     id of the user whose socket a packet that goes out is of; -1: not known
 */
struct firewall_verdict firewall_judge(const json_t *ruleset, const char *interface, bool incoming,
				       json_int_t sender);

#endif
