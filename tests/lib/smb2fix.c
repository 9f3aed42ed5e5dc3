/* SPDX-License-Identifier: MIT */
#include "tests/lib/smb2fix.h"

#include <string.h>

static void put(uint8_t *at, uint64_t value, unsigned int size)
{
	for (unsigned int i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

void smb2fix_pattern(uint8_t *bytes, size_t len, uint8_t first)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(first + i + i / 251);
}

size_t smb2fix_add(struct smb2fix *fix, uint16_t command, uint64_t message_id, uint32_t flags,
		   uint16_t structure_size, size_t body_len)
{
	if (fix->len > 0) { /* the one before gets a successor */
		while (fix->len % 8 != 0)
			fix->bytes[fix->len++] = 0;
		smb2_put_next(fix->bytes + fix->last, (uint32_t)(fix->len - fix->last));
	}
	assert_true(fix->len + SMB2_HEADER_LEN + body_len <= sizeof(fix->bytes));
	uint8_t *at = fix->bytes + fix->len;
	memset(at, 0, SMB2_HEADER_LEN + body_len);
	memcpy(at, "\xFESMB", 4);
	put(at + 4, SMB2_HEADER_LEN, 2);
	put(at + 12, command, 2);
	put(at + 16, flags, 4);
	put(at + 24, message_id, 8);
	put(at + 64, structure_size, 2);
	fix->last = fix->len;
	fix->len += SMB2_HEADER_LEN + body_len;
	return fix->last;
}

static void add_descriptors(uint8_t *at, const struct smbdirect_descriptor *descriptors, size_t num)
{
	for (size_t i = 0; i < num; i++)
		smbdirect_encode_descriptor(&descriptors[i], at + i * SMBDIRECT_DESCRIPTOR_LEN);
}

size_t smb2fix_read(struct smb2fix *fix, uint64_t message_id, uint32_t length, uint32_t channel,
		    const struct smbdirect_descriptor *descriptors, size_t num)
{
	const size_t info = num * SMBDIRECT_DESCRIPTOR_LEN;
	const struct smb2_read_request request = { length, channel, info ? 112 : 0,
						   (uint16_t)info };
	size_t at = smb2fix_add(fix, SMB2_READ, message_id, 0, 49, 48 + (info ? info : 1));
	smb2_put_read_request(fix->bytes + at, &request);
	add_descriptors(fix->bytes + at + 112, descriptors, num);
	return at;
}

size_t smb2fix_write(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint32_t channel,
		     const struct smbdirect_descriptor *descriptors, size_t num)
{
	const size_t info = num * SMBDIRECT_DESCRIPTOR_LEN;
	const struct smb2_write_request request = {
		0, 0, channel, bytes, info ? 112 : 0, (uint16_t)info
	};
	size_t at = smb2fix_add(fix, SMB2_WRITE, message_id, 0, 49, 48 + (info ? info : 1));
	smb2_put_write_request(fix->bytes + at, &request);
	add_descriptors(fix->bytes + at + 112, descriptors, num);
	return at;
}

size_t smb2fix_write_data(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint8_t first)
{
	const struct smb2_write_request request = { .data_offset = 112, .length = bytes };
	size_t at = smb2fix_add(fix, SMB2_WRITE, message_id, 0, 49, 48 + bytes);
	smb2_put_write_request(fix->bytes + at, &request);
	smb2fix_pattern(fix->bytes + at + 112, bytes, first);
	return at;
}

size_t smb2fix_read_answer(struct smb2fix *fix, uint64_t message_id, uint32_t bytes, uint8_t first)
{
	const struct smb2_read_response response = { .data_offset = 80, .length = bytes };
	size_t at = smb2fix_add(fix, SMB2_READ, message_id, SMB2_FLAG_RESPONSE, 17, 16 + bytes);
	smb2_put_read_response(fix->bytes + at, &response);
	smb2fix_pattern(fix->bytes + at + 80, bytes, first);
	return at;
}

size_t smb2fix_negotiate_answer(struct smb2fix *fix, uint16_t dialect)
{
	size_t at = smb2fix_add(fix, SMB2_NEGOTIATE, 0, SMB2_FLAG_RESPONSE, 65, 65);
	put(fix->bytes + at + 68, dialect, 2);
	return at;
}

size_t smb2fix_error(struct smb2fix *fix, uint16_t command, uint64_t message_id, uint32_t status,
		     uint32_t more_flags)
{
	size_t at = smb2fix_add(fix, command, message_id, SMB2_FLAG_RESPONSE | more_flags, 9, 9);
	put(fix->bytes + at + 8, status, 4);
	return at;
}
