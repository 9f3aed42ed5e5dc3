/* SPDX-License-Identifier: MIT */
/**
 * @file ipsec.h
 * Which connections are under IPsec (RFC 7609 5.5, SEC-4): the kernel's XFRM policies, by netlink.
 *
 * SMC-R has no IP packets that could be protected, so connections to which a policy applies must
 * stay TCP. A policy of the host counts, in either direction, that transforms packets, also if the
 * transformation is optional, or blocks them. Those of XFRM interfaces (if_id) do not: the
 * interface decides there, and has no RNIC. Nor do those that a program gives its own socket
 * (IP_XFRM_POLICY): nobody else can see whose they are.
 */
#ifndef SMCRD_HOST_IPSEC_H
#define SMCRD_HOST_IPSEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

struct event_base;
struct ipsec_watch;

/**
 * Read the policies of the calling thread's network namespace and follow their changes.
 * `on_change` runs from the event loop, or from inside ipsec_applies(), after a change.
 * @return 0; -EPROTONOSUPPORT: this kernel has no IPsec; -EPERM: needs CAP_NET_ADMIN; another
 *         negative errno
 */
int ipsec_watch_new(struct event_base *base, void (*on_change)(void *ctx), void *ctx,
		    struct ipsec_watch **ret_watch);
/** NULL is allowed. */
void ipsec_watch_free(struct ipsec_watch *watch);

/**
 * Do the policies that are in force now protect or block packets of this TCP connection? Addresses
 * of one family; `mark` is the socket's SO_MARK. If the policies cannot be read any more: yes.
 * @param watch  NULL: no
 */
bool ipsec_applies(struct ipsec_watch *watch, const struct smcr_addr *local,
		   const struct smcr_addr *peer, uint32_t mark);

/**
 * Prefixes for which the TCP option is best left off at once (TCPO-8): each connection that has its
 * remote or its local address there is under IPsec, or at least shares that address with some that
 * are. Not complete: policies for single ports, with marks, or with exceptions are left to
 * ipsec_applies(), which a Decline follows.
 * @return number written, at most `max`; without duplicates
 */
size_t ipsec_prefixes(const struct ipsec_watch *watch, struct smcr_prefix *ret_prefixes,
		      size_t max);

#endif
