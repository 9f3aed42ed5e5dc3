/* SPDX-License-Identifier: MIT */
/**
 * @file device.h
 * RNICs as the host has described them, and which addresses RNICs and peers may have.
 */
#ifndef SMCRD_SMCR_DEVICE_H
#define SMCRD_SMCR_DEVICE_H

#include "daemon/smcr/engine.h"

struct smcr_engine;

struct smcr_device {
	struct smcr_device_info info;
	bool drained; /* an operator wants no new links on it (drain.c) */
	struct smcr_device *next, *prev;
};

struct smcr_device *smcr_device_by_id(struct smcr_engine *engine, uint32_t id);
/** Does the device's network interface belong to this prefix, with the same length? */
bool smcr_device_on_prefix(const struct smcr_device *device, const struct smcr_prefix *prefix);
/** Is this address in one of the device's prefixes, of this length? */
bool smcr_device_has_address(const struct smcr_device *device, const struct smcr_addr *addr,
			     unsigned int prefix_len);
/** Is this address one of the device's own network interface? */
bool smcr_device_owns_address(const struct smcr_device *device, const struct smcr_addr *addr);
/** Is this address in one of the device's networks? */
bool smcr_device_near(const struct smcr_device *device, const struct smcr_addr *addr);
/** Are the first `bits` of two addresses equal? */
bool smcr_prefix_match(const uint8_t *a, const uint8_t *b, unsigned int bits);
/** Is the GID an IPv4 address (::ffff:a.b.c.d)? Version 2 can use no others. */
bool smcr_gid_is_ipv4(const uint8_t gid[SMCR_GID_LEN]);
/** Can an RNIC of another host have this GID? Not if the GID is a GID or an address of this host,
 * or if no host can have it: zero, loopback, multicast, or broadcast, also of one of our
 * networks. */
bool smcr_gid_may_be_peer(const struct smcr_engine *engine, const uint8_t gid[SMCR_GID_LEN]);
/** Can an RNIC have this MAC? Not if it is zero, multicast or broadcast. */
bool smcr_mac_may_be_peer(const uint8_t mac[SMCR_MAC_LEN]);
/** Is the address of this GID in one of the device's IPv4 networks? */
bool smcr_device_reaches(const struct smcr_device *device, const uint8_t gid[SMCR_GID_LEN]);

#endif
