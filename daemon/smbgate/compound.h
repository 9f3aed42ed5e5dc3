/* SPDX-License-Identifier: MIT */
/**
 * @file compound.h
 * The messages of a compound, one after the other. A message alone is a compound of one.
 */
#ifndef SMCRD_SMBGATE_COMPOUND_H
#define SMCRD_SMBGATE_COMPOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/smb2/smb2.h"

/** A compound with more messages passes untouched. */
#define COMPOUND_MOST 64

/** A message of a compound: bytes [at, at + len), with the padding that follows it. */
struct compound_part {
	size_t at, len;
	struct smb2_header header;
};

/**
 * Find the messages of a plain compound.
 * @return how many; -EBADMSG: not sound; -E2BIG: more than COMPOUND_MOST
 */
int compound_split(const uint8_t *buf, size_t len, struct compound_part parts[COMPOUND_MOST]);

/** Bytes up to the next message of a compound, if a message of `len` bytes is not its last. */
size_t compound_aligned(size_t len, bool last);

#endif
