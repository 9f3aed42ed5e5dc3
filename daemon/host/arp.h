/* SPDX-License-Identifier: MIT */
/**
 * @file arp.h
 * Asking one neighbour, by ARP (RFC 826), whether an IPv4 address is his.
 */
#ifndef SMCRD_HOST_ARP_H
#define SMCRD_HOST_ARP_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Send an ARP request for an address to one MAC alone, and wait for the answer. The request names
 * no sender's address, so that it changes no table of the neighbour's (RFC 5227 2.1.1). Needs
 * CAP_NET_RAW. Blocks: for a thread that may wait.
 * @param addr  in network byte order
 * @param wait_ms  how long to wait for the answer
 * @return whether the host with this MAC has answered that the address is its own
 */
bool arp_confirms(unsigned int ifindex, const uint8_t addr[4], const uint8_t mac[6], int wait_ms);

#endif
