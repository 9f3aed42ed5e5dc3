/* SPDX-License-Identifier: MIT */
/**
 * @file arp.h
 * Asks one neighbour by ARP (RFC 826) whether an IPv4 address is its own. The kernel asks by
 * broadcast and takes the first answer. If a host has two NICs on one network, either NIC may
 * answer a broadcast. So a question about one NIC has to be sent to the MAC of that NIC. Nothing
 * blocks. For one thread.
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

/** Open a packet socket. Needs CAP_NET_RAW. @return 0 or a negative errno */
int arp_open(struct arp *arp);
void arp_close(struct arp *arp);
/** Ask the host with this MAC, and no other, for an address. Like any ARP request, the question
 * carries our own address and MAC. @return 0 or a negative errno */
int arp_ask(struct arp *arp, unsigned int ifindex, const uint8_t addr[4], const uint8_t mac[6]);
/** The next ARP answer that has come, to any question. @return false: no answer has come */
bool arp_next(struct arp *arp, struct arp_answer *ret_answer);

#endif
