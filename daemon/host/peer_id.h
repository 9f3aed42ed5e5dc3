/* SPDX-License-Identifier: MIT */
/**
 * @file peer_id.h
 * The peer ID of this instance (RFC 7609 A.2.1, 2.2.4; PEER-1..3).
 */
#ifndef SMCRD_HOST_PEER_ID_H
#define SMCRD_HOST_PEER_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/smcr/wire.h"

/**
 * Instance ID that follows `previous`: 16 bits of the clock, never the predecessor's, also when the
 * clock stands still or went back.
 * @param known    there was a predecessor and `previous` is its ID
 * @param seconds  wall clock
 */
uint16_t peer_id_next_instance(bool known, uint16_t previous, uint64_t seconds);

/**
 * Make the peer ID of a new instance: remembers the instance ID in a file beside the daemon's
 * socket, so that a restart within the same second differs too. The file is replaced as a whole or
 * stays as it was, and no link in its place is followed. One that cannot be read or written leaves
 * the clock alone to tell instances apart, and the log says so.
 * @param mac          of one of the RNICs, or NULL: a random locally administered one
 * @param socket_path  of the daemon
 */
void peer_id_make(const uint8_t mac[SMCR_MAC_LEN], const char *socket_path,
		  uint8_t ret_peer_id[SMCR_PEER_ID_LEN]);

#endif
