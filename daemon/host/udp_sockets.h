/* SPDX-License-Identifier: MIT */
/**
 * @file udp_sockets.h
 * UDP sockets of other processes.
 */
#ifndef SMCRD_HOST_UDP_SOCKETS_H
#define SMCRD_HOST_UDP_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>

/**
 * Disconnect the UDP sockets of this network namespace that are connected to a port, at any
 * address. They stay open. Needs CAP_NET_ADMIN.
 * @param uid  sockets of this user and of root stay connected
 * @return 0, or a negative errno: some sockets may still be connected
 */
int udp_sockets_end(uint16_t peer_port, uid_t uid);

#endif
