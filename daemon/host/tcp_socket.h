/* SPDX-License-Identifier: MIT */
/** @file tcp_socket.h A listening TCP socket at an address that the configuration names. */
#ifndef SMCRD_HOST_TCP_SOCKET_H
#define SMCRD_HOST_TCP_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>

/** Parse "127.0.0.1:9469" or "[::1]:9469". @return length of the address; 0: not of that form */
socklen_t tcp_socket_address(const char *text, struct sockaddr_storage *ret_addr);

/**
 * Listen at an address, with a non-blocking socket.
 * @param ret_text  on failure: a sentence of less than `len` bytes
 * @return the descriptor, or a negative errno
 */
int tcp_socket_listen(const char *address, int backlog, char *ret_text, size_t len);

#endif
