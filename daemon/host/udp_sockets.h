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
 * Take UDP sockets of this network namespace that are connected to a port, of any address, off it:
 * they are open, but connected no more. Needs CAP_NET_ADMIN.
 * @param uid  the sockets of this user and of root stay as they are
 * @return 0, or a negative errno: some may be left
 */
int udp_sockets_end(uint16_t peer_port, uid_t uid);

#endif
