/* SPDX-License-Identifier: MIT */
/** @file interfaces.h The network interfaces of the namespace that smcrctl runs in. */
#ifndef SMCRD_SMCRCTL_INTERFACES_H
#define SMCRD_SMCRCTL_INTERFACES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERFACES_MAX      128 /* further ones are left out */
#define INTERFACE_ADDRESSES 8

struct interface {
	char name[IF_NAMESIZE];
	bool ethernet, up, running;
	unsigned int mtu; /* 0: unknown */
	size_t num_addrs; /* IPv4 */
	struct {
		struct in_addr addr, mask;
	} addrs[INTERFACE_ADDRESSES];
	size_t num_addrs6; /* IPv6, which RoCE does not use; link-local ones do not count */
};

struct interfaces {
	size_t num;
	struct interface list[INTERFACES_MAX];
};

/** Read all interfaces but loopback. @return 0 or a negative errno */
int interfaces_read(struct interfaces *ret_interfaces);

/** @return NULL: there is no interface of this name */
const struct interface *interfaces_find(const struct interfaces *interfaces, const char *name);

/** Do both have an address in one IPv4 network? */
bool interfaces_share_network(const struct interface *a, const struct interface *b);

#endif
