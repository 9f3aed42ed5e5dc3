/* SPDX-License-Identifier: MIT */
/** @file tcp_socket.h A listening TCP socket at an address that an operator wrote. */
#ifndef SMCRD_HOST_TCP_SOCKET_H
#define SMCRD_HOST_TCP_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>

/** "127.0.0.1:9469" or "[::1]:9469". @return the address' length; 0: it is none */
socklen_t tcp_socket_address(const char *text, struct sockaddr_storage *ret_addr);

/**
 * Listen there, without blocking.
 * @param ret_text  on failure: a sentence of up to `len` bytes
 * @return the descriptor, or a negative errno
 */
int tcp_socket_listen(const char *address, int backlog, char *ret_text, size_t len);

#endif
