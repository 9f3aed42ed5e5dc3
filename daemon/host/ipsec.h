/* SPDX-License-Identifier: MIT */
/**
 * @file ipsec.h
 * Which connections are under IPsec (RFC 7609 5.5, SEC-4): reads the kernel's XFRM policies by
 * netlink.
 *
 * SMC-R has no IP packets that IPsec could protect, so connections to which a policy applies must
 * stay TCP. A policy of the host counts if it transforms packets, even optionally, or blocks them,
 * in either direction. Two kinds of policies do not count: those of XFRM interfaces (if_id), where
 * the interface decides and has no RNIC; and those that a program gives its own socket
 * (IP_XFRM_POLICY), since the kernel does not tell which socket they belong to.
 */
#ifndef SMCRD_HOST_IPSEC_H
#define SMCRD_HOST_IPSEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/smcr/engine.h"

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
 * Do the policies in force protect or block packets of this TCP connection? Both addresses have one
 * family; `mark` is the socket's SO_MARK. True if the policies cannot be read any more.
 * @param watch  NULL: the answer is false
 */
bool ipsec_applies(struct ipsec_watch *watch, const struct smcr_addr *local,
		   const struct smcr_addr *peer, uint32_t mark);

/**
 * Prefixes for which the TCP option is left off (TCPO-8). Each connection with its remote or local
 * address there is under IPsec, or shares that address with connections that are. The list is not
 * complete: policies for single ports, with marks, or with exceptions are left to ipsec_applies(),
 * after which the connection is declined.
 * @return how many prefixes were written, at most `max`; there are no duplicates
 */
size_t ipsec_prefixes(const struct ipsec_watch *watch, struct smcr_prefix *ret_prefixes,
		      size_t max);

#endif
