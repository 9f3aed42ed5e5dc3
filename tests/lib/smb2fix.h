/* SPDX-License-Identifier: MIT */
/**
 * @file smb2fix.h
 * For tests of the SMB gateway: makes SMB2 messages, alone and in compounds.
 */
#ifndef SMCRD_TESTS_SMB2FIX_H
#define SMCRD_TESTS_SMB2FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proto/smb2/smb2.h"
#include "proto/smbdirect/smbdirect.h"

#define SMB2FIX_MOST 300000

/** A message that grows. */
struct smb2fix {
	uint8_t bytes[SMB2FIX_MOST];
	size_t len;
	size_t last; /* where the last message of the compound begins */
};

/** Append a message of a compound: a header, and `body_len` bytes that begin with the structure
 * size. @return where it begins */
size_t smb2fix_add(struct smb2fix *fix, uint16_t command, uint64_t message_id, uint32_t flags,
		   uint16_t structure_size, size_t body_len);
/** A READ request with descriptors for a channel. */
size_t smb2fix_read(struct smb2fix *fix, uint64_t message_id, uint32_t length, uint32_t channel,
		    const struct smbdirect_descriptor *descriptors, size_t num);
/** A WRITE request whose `bytes` are in the memory of the descriptors. */
size_t smb2fix_write(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint32_t channel,
		     const struct smbdirect_descriptor *descriptors, size_t num);
/** A WRITE request with data: a pattern that begins with `first`. */
size_t smb2fix_write_data(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint8_t first);
/** The response to a READ, with data. */
size_t smb2fix_read_answer(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint8_t first);
/** The response to a NEGOTIATE: the server has chosen this dialect. */
size_t smb2fix_negotiate_answer(struct smb2fix *fix, uint16_t dialect);
/** Any response without more than a structure size, with that status. */
size_t smb2fix_error(struct smb2fix *fix, uint16_t command, uint64_t message_id, uint32_t status,
		     uint32_t more_flags);
void smb2fix_pattern(uint8_t *bytes, size_t len, uint8_t first);

#endif
