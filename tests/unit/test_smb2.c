/* SPDX-License-Identifier: MIT */
/*
 * proto/smb2 against bytes that are written out here: the helpers of the gateway's tests use the
 * codec themselves, and would not notice a field that stands elsewhere. Every byte of a field, and
 * of its neighbours, is another one than zero.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/smb2/smb2.h"
#include "tests/lib/tries.h"

#define NEXT 0x00010008u
#define ROOM 0x1E000 /* descriptors may be anywhere within 64 KiB, and as many bytes */

/* A message in which byte i is i plus 0x80, but for what the decoder asks for. */
static uint8_t message[ROOM];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)(i + 0x80);
	memcpy(message, "\xFESMB\x40\x00", 6);
}

static void set(size_t at, const char *bytes, size_t len)
{
	memcpy(message + at, bytes, len);
}

static void headers(void **state)
{
	(void)state;
	struct smb2_header header;
	fill();
	set(20, "\x08\x00\x01\x00", 4);
	assert_int_equal(smb2_decode_header(message, sizeof(message), &header), 0);
	assert_int_equal(header.status, 0x8B8A8988u);
	assert_int_equal(header.command, 0x8D8C);
	assert_int_equal(header.flags, 0x93929190u);
	assert_int_equal(header.next, NEXT);
	assert_true(header.message_id == 0x9F9E9D9C9B9A9998u);
	assert_int_equal(smb2_message_len(&header, 7), NEXT);
	assert_int_equal(smb2_decode_header(message, NEXT + 64, &header), 0);
	/* no room for a header behind it */
	assert_int_equal(smb2_decode_header(message, NEXT + 63, &header), -EBADMSG);
	smb2_put_next(message, 0);
	assert_memory_equal(message + 19, "\x93\0\0\0\0\x98", 6);
	assert_int_equal(smb2_decode_header(message, 64, &header), 0);
	assert_int_equal(smb2_message_len(&header, 7), 7);
	assert_int_equal(smb2_decode_header(message, 63, &header), -EBADMSG);
	smb2_put_next(message, 0x11223344);
	assert_memory_equal(message + 19, "\x93\x44\x33\x22\x11\x98", 6);
}

static void bad_headers(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		const char *bytes;
		size_t len;
	} tries[] = {
		{ 0, "\xFD", 1 },
		{ 3, "C", 1 },
		{ 4, "\x41", 1 },
		{ 5, "\x01", 1 },
		{ 20, "\x38\0\0\0", 4 },
		{ 20, "\x44\0\0\0", 4 },
		{ 20, "\x08\0\0\0", 4 },
		{ 20, "\x48\0\0\x80", 4 },
		{ 20, "\xF8\xFF\xFF\xFF", 4 },
	};
	struct smb2_header header;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%zu", i);
		fill();
		set(20, "\x40\0\0\0", 4);
		assert_int_equal(smb2_decode_header(message, 200, &header), 0);
		set(tries[i].at, tries[i].bytes, tries[i].len);
		assert_int_equal(smb2_decode_header(message, 200, &header), -EBADMSG);
	}
}

static void kinds(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		enum smb2_kind kind;
	} tries[] = {
		{ "\xFESMB", 4, SMB2_PLAIN },
		{ "\xFDSMBx", 5, SMB2_TRANSFORM },
		{ "\xFCSMBx", 5, SMB2_COMPRESSED },
		{ "\xFFSMB", 4, SMB2_FOREIGN },
		{ "\xFESM", 3, SMB2_FOREIGN },
		{ "\xFDSMC", 4, SMB2_FOREIGN },
		{ "\xFCSMC", 4, SMB2_FOREIGN },
		{ "\xFESMC", 4, SMB2_FOREIGN },
		{ "", 0, SMB2_FOREIGN },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%zu", i);
		assert_int_equal(smb2_kind((const uint8_t *)tries[i].bytes, tries[i].len),
				 tries[i].kind);
	}
}

static void read_requests(void **state)
{
	(void)state;
	struct smb2_read_request request;
	fill();
	set(64, "\x31\x00", 2);
	assert_int_equal(smb2_decode_read_request(message, sizeof(message), &request), 0);
	assert_int_equal(request.length, 0xC7C6C5C4u);
	assert_int_equal(request.channel, 0xE7E6E5E4u);
	assert_int_equal(request.info_offset, 0xEDEC);
	assert_int_equal(request.info_length, 0xEFEE);
	set(110, "\0\0", 2);
	assert_int_equal(smb2_decode_read_request(message, 112, &request), 0);
	assert_int_equal(smb2_decode_read_request(message, 111, &request), -EBADMSG);
	set(65, "\x01", 1);
	assert_int_equal(smb2_decode_read_request(message, 112, &request), -EBADMSG);

	const struct smb2_read_request other = { 0x11223344, 0x55667788, 0x99AA, 0xBBCC };
	fill();
	smb2_put_read_request(message, &other);
	assert_memory_equal(message + 67, "\xC3\x44\x33\x22\x11\xC8", 6);
	assert_memory_equal(message + 99, "\xE3\x88\x77\x66\x55\xE8", 6);
	assert_memory_equal(message + 107, "\xEB\xAA\x99\xCC\xBB\xF0", 6);
}

static void write_requests(void **state)
{
	(void)state;
	struct smb2_write_request request;
	fill();
	set(64, "\x31\x00\x34\x12\x33\x01\0\0", 8); /* data at 0x1234, 0x133 bytes */
	assert_int_equal(smb2_decode_write_request(message, sizeof(message), &request), 0);
	assert_int_equal(request.data_offset, 0x1234);
	assert_int_equal(request.length, 0x133);
	assert_int_equal(request.channel, 0xE3E2E1E0u);
	assert_int_equal(request.remaining, 0xE7E6E5E4u);
	assert_int_equal(request.info_offset, 0xE9E8);
	assert_int_equal(request.info_length, 0xEBEA);
	set(71, "\x80", 1);
	assert_int_equal(smb2_decode_write_request(message, sizeof(message), &request), -EBADMSG);
	set(68, "\0\0\0\0", 4);
	set(106, "\0\0", 2);
	assert_int_equal(smb2_decode_write_request(message, 112, &request), 0);
	assert_int_equal(smb2_decode_write_request(message, 111, &request), -EBADMSG);
	set(65, "\x01", 1);
	assert_int_equal(smb2_decode_write_request(message, 112, &request), -EBADMSG);

	const struct smb2_write_request other = { 0x1122,     0x33445566, 0x778899AA,
						  0xBBCCDDEE, 0x0102,     0x0304 };
	fill();
	smb2_put_write_request(message, &other);
	assert_memory_equal(message + 65, "\xC1\x22\x11\x66\x55\x44\x33\xC8", 8);
	assert_memory_equal(message + 95,
			    "\xDF\xAA\x99\x88\x77\xEE\xDD\xCC\xBB\x02\x01\x04\x03\xEC", 14);
}

static void read_responses(void **state)
{
	(void)state;
	struct smb2_read_response response;
	fill();
	set(64, "\x11\x00\x50\xFF\x34\x12\0\0", 8);
	assert_int_equal(smb2_decode_read_response(message, sizeof(message), &response), 0);
	assert_int_equal(response.data_offset, 0x50);
	assert_int_equal(response.length, 0x1234);
	assert_int_equal(response.remaining, 0xCBCAC9C8u);
	set(71, "\x80", 1);
	assert_int_equal(smb2_decode_read_response(message, sizeof(message), &response), -EBADMSG);
	set(68, "\0\0\0\0", 4);
	assert_int_equal(smb2_decode_read_response(message, 80, &response), 0);
	assert_int_equal(smb2_decode_read_response(message, 79, &response), -EBADMSG);
	set(65, "\x01", 1);
	assert_int_equal(smb2_decode_read_response(message, 80, &response), -EBADMSG);

	const struct smb2_read_response other = { 0x11, 0x22334455, 0x66778899 };
	fill();
	smb2_put_read_response(message, &other);
	assert_memory_equal(message + 65, "\xC1\x11\xC3\x55\x44\x33\x22\x99\x88\x77\x66\xCC", 12);
}

/* What is told to be in a message begins behind its fixed part, and ends with it or before. */
static void where_data_may_be(void **state)
{
	(void)state;
	struct smb2_read_response response;
	fill();
	set(64, "\x11\x00\x50\xFF\x04\0\0\0", 8);
	assert_int_equal(smb2_decode_read_response(message, 84, &response), 0);
	assert_int_equal(smb2_decode_read_response(message, 83, &response), -EBADMSG);
	set(66, "\x4F", 1);
	assert_int_equal(smb2_decode_read_response(message, 84, &response), -EBADMSG);
	set(66, "\x55", 1);
	assert_int_equal(smb2_decode_read_response(message, 84, &response), -EBADMSG);
	set(68, "\0\0\0\0", 4); /* no bytes are anywhere */
	assert_int_equal(smb2_decode_read_response(message, 84, &response), 0);
}

static void spoiled_requests(void **state)
{
	(void)state;
	fill();
	smb2_spoil_request(message);
	assert_memory_equal(message + 63, "\xBF\xFF\xFF\xC2", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers),
		cmocka_unit_test(bad_headers),
		cmocka_unit_test(kinds),
		cmocka_unit_test(read_requests),
		cmocka_unit_test(write_requests),
		cmocka_unit_test(read_responses),
		cmocka_unit_test(where_data_may_be),
		cmocka_unit_test(spoiled_requests),
	};
	return cmocka_run_group_tests_name("smb2", tests, NULL, NULL);
}
