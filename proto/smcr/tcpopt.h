/* SPDX-License-Identifier: MIT */
/**
 * @file tcpopt.h
 * The SMC-R TCP option (RFC 7609 3.1, A.1; TCPO-1, TCPO-7): kind 254, length 6, ExID E2D4C3D9.
 */
#ifndef SMCRD_PROTO_SMCR_TCPOPT_H
#define SMCRD_PROTO_SMCR_TCPOPT_H

#include "proto/smcr/wire.h"

#define SMCR_TCPOPT_KIND 254
#define SMCR_TCPOPT_LEN  6

/**
 * Write the option.
 * @param buf  at least `len` bytes
 * @param len  room in bytes
 * @return 6, or -ENOBUFS
 */
int smcr_tcpopt_encode(uint8_t *buf, size_t len);

/**
 * Look for the option in the options area of a TCP header (the bytes after the fixed 20).
 * Other experimental options, with other ExIDs or lengths, are passed over.
 * @return 1 found, 0 absent, -EBADMSG if the area is malformed before the option was seen
 */
int smcr_tcpopt_find(const uint8_t *options, size_t len);

#endif
