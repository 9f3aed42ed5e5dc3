/* SPDX-License-Identifier: MIT */
/**
 * @file plain.h
 * Makes a TCP connection that could not be used for SMC-R once more, without the SMC option.
 */
#ifndef SMCRD_RENDEZVOUS_PLAIN_H
#define SMCRD_RENDEZVOUS_PLAIN_H

#include "proto/ipc/ipc.h"

/**
 * Reset the connection of a TCP socket, take the socket's claim back, and connect to the same peer
 * again without waiting for the end of the handshake: rdv_connect_wait() does. The same local port
 * is used if the kernel allows that, because the program may have read its number already. The
 * socket's other options stay. The socket is non-blocking afterwards.
 * @param local  the local address of the present connection
 * @param peer   the address to connect to, in the socket's own family
 * @return 0, or a negative errno: of connect(), or because the claim cannot be taken back
 */
int rdv_connect_plain(int fd, const union ipc_addr *local, const union ipc_addr *peer);

#endif
