/* SPDX-License-Identifier: MIT */
/**
 * @file descriptors.h
 * Where a transfer goes in a list of Buffer Descriptors (MS-SMBD 3.1.4.5, 3.1.4.6).
 *
 * A list describes one buffer of the peer, in pieces. A transfer is for a part of that buffer. All
 * functions only compute; the list comes from the peer, and every number in it is checked here.
 */
#ifndef SMCRD_SMBDIRECT_DESCRIPTORS_H
#define SMCRD_SMBDIRECT_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/smbdirect/smbdirect.h"

/** Bytes of the buffer that a list describes. */
uint64_t smbd_descriptors_length(const struct smbdirect_descriptor *list, size_t n);

/**
 * Find the pieces of a part of the buffer (SMBD-149, SMBD-150).
 * @param offset,length  the part; `length` at least 1
 * @param most       bytes that one transfer may move (SMBD-154)
 * @param ret_parts  room for `n` pieces; pieces without bytes are left out
 * @return the number of pieces; -ERANGE: the part ends behind the buffer, or an address of it
 *         wraps; -EMSGSIZE: longer than `most`; -EINVAL: `length` is 0 (SMBD-151)
 */
int smbd_descriptors_locate(const struct smbdirect_descriptor *list, size_t n, uint64_t offset,
			    uint32_t length, uint32_t most, struct smbdirect_descriptor *ret_parts);

#endif
