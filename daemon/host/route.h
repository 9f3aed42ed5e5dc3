/* SPDX-License-Identifier: MIT */
/**
 * @file route.h
 * Asks the kernel by which interface, and with which own address, it would send to an address. Asks
 * once and keeps nothing. The kernel answers without its lock of interfaces, so nobody waits.
 */
#ifndef SMCRD_HOST_ROUTE_H
#define SMCRD_HOST_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct route {
	unsigned int ifindex;
	uint8_t source[16]; /* network byte order; the first 4 of IPv4 */
	bool own;           /* the destination is an address of this host */
};

/** @param addr  of 4 or 16 bytes, by `family`. @return 0; -ENETUNREACH: there is no route; another
 *  negative errno */
int route_find(int family, const void *addr, struct route *ret_route);

#endif
