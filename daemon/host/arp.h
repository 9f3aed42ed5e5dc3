/* SPDX-License-Identifier: MIT */
/**
 * @file arp.h
 * Asking single neighbours, by ARP (RFC 826), whether an IPv4 address is theirs. The kernel asks
 * everybody, and takes the first answer: where a host has two NICs on one network either of them
 * may give it. Whoever wants to know about one NIC has to ask that one. Nothing blocks. One thread.
 */
#ifndef SMCRD_HOST_ARP_H
#define SMCRD_HOST_ARP_H

#include <stdbool.h>
#include <stdint.h>

struct arp {
	int fd; /* readable when an answer may have come; -1: closed */
};

/** A neighbour says that an address is its own. */
struct arp_answer {
	unsigned int ifindex;
	uint8_t addr[4];
	uint8_t mac[6];
};

/** Open it. Needs CAP_NET_RAW. @return 0 or a negative errno */
int arp_open(struct arp *arp);
void arp_close(struct arp *arp);
/** Ask the host with this MAC, and no other, for an address. As any ARP request it tells our own
 *  address and MAC. @return 0 or a negative errno */
int arp_ask(struct arp *arp, unsigned int ifindex, const uint8_t addr[4], const uint8_t mac[6]);
/** The next answer that has come, to whatever question. @return false: none has */
bool arp_next(struct arp *arp, struct arp_answer *ret_answer);

#endif
