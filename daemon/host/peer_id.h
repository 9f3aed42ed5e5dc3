/* SPDX-License-Identifier: MIT */
/**
 * @file peer_id.h
 * The peer ID of this instance (RFC 7609 A.2.1, 2.2.4; PEER-1, PEER-2, PEER-3).
 */
#ifndef SMCRD_HOST_PEER_ID_H
#define SMCRD_HOST_PEER_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/smcr/wire.h"

/**
 * The instance ID that follows `previous`: 16 bits of the clock, but never `previous` itself, even
 * if the clock stood still or went back.
 * @param known  `previous` is the ID of an instance before
 * @param seconds  the wall clock
 */
uint16_t peer_id_next_instance(bool known, uint16_t previous, uint64_t seconds);

/**
 * Make the peer ID of a new instance. The instance ID is kept in a file beside the daemon's socket,
 * so that an instance started within the same second gets another one. The file is replaced as a
 * whole or not at all, and a link in its place is not followed. If it cannot be read or written,
 * only the clock distinguishes instances, and the log says so.
 * @param mac  MAC of one of the RNICs; NULL: use a random locally administered one
 * @param socket_path  path of the daemon's socket
 */
void peer_id_make(const uint8_t mac[SMCR_MAC_LEN], const char *socket_path,
		  uint8_t ret_peer_id[SMCR_PEER_ID_LEN]);

#endif
