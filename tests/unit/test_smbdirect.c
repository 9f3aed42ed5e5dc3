/* SPDX-License-Identifier: MIT */
/* Messages of SMB Direct, byte for byte: the examples of MS-SMBD chapter 4, and what the decoders
 * refuse. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/smbdirect/smbdirect.h"
#include "proto/smbdirect/text.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

/* ---- the examples: 10 credits, SENDs of 1024 bytes, messages of 128 KiB, transfers of 1 MiB */

static void negotiate_messages(void **state)
{
	(void)state;
	const struct smbdirect_request request = { 0x0100, 0x0100, 10, 1024, 1024, 131072 };
	const struct smbdirect_response response = {
		.min_version = 0x0100,
		.max_version = 0x0100,
		.version = 0x0100,
		.credits_requested = 10,
		.credits_granted = 10,
		.max_read_write_size = 0x00100000,
		.preferred_send_size = 1024,
		.max_receive_size = 1024,
		.max_fragmented_size = 131072,
	};
	static const uint8_t request_bytes[] = {
		0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0x0A, 0x00, 0x00, 0x04,
		0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00,
	};
	static const uint8_t response_bytes[] = {
		0x00, 0x01, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0x0A, 0x00, 0x0A,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x04,
		0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00,
	};
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	struct smbdirect_request request_back;
	struct smbdirect_response response_back;
	memset(buf, 0xFF, sizeof(buf));
	smbdirect_encode_request(&request, buf);
	assert_memory_equal(buf, request_bytes, sizeof(request_bytes));
	memset(buf, 0xFF, sizeof(buf));
	smbdirect_encode_response(&response, buf);
	assert_memory_equal(buf, response_bytes, sizeof(response_bytes));
	assert_int_equal(
		smbdirect_decode_request(request_bytes, sizeof(request_bytes), &request_back), 0);
	assert_memory_equal(&request_back, &request, sizeof(request));
	assert_int_equal(
		smbdirect_decode_response(response_bytes, sizeof(response_bytes), &response_back),
		0);
	memset(buf, 0xFF, sizeof(buf));
	smbdirect_encode_response(&response_back, buf);
	assert_memory_equal(buf, response_bytes, sizeof(response_bytes));
	PROVES("SMBD-8 SMBD-9 SMBD-15");
}

struct data_example {
	struct smbdirect_data data;
	uint8_t bytes[24];
	size_t len;
};

/* First data; the answer to it; fragments of 65,536 bytes; a keepalive. */
static const struct data_example data_examples[] = {
	{ { 10, 10, false, 0, 24, 500 },
	  { 0x0A, 0, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0xF4, 0x01 },
	  24 },
	{ { 10, 1, false, 0, 24, 500 },
	  { 0x0A, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0xF4, 0x01 },
	  24 },
	{ { 10, 1, false, 64536, 24, 1000 },
	  { 0x0A, 0, 0x01, 0, 0, 0, 0, 0, 0x18, 0xFC, 0, 0, 0x18, 0, 0, 0, 0xE8, 0x03 },
	  24 },
	{ { 10, 1, false, 63536, 24, 1000 },
	  { 0x0A, 0, 0x01, 0, 0, 0, 0, 0, 0x30, 0xF8, 0, 0, 0x18, 0, 0, 0, 0xE8, 0x03 },
	  24 },
	{ { 10, 1, false, 0, 24, 536 },
	  { 0x0A, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0x18, 0x02 },
	  24 },
	{ { 10, 0, true, 0, 0, 0 }, { 0x0A, 0, 0, 0, 0x01 }, 20 },
};

static void data_messages(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(data_examples) / sizeof(data_examples[0]); i++) {
		TRIES("example %zu", i);
		const struct data_example *example = &data_examples[i];
		uint8_t buf[2048], head[SMBDIRECT_DATA_OFFSET];
		struct smbdirect_data back;
		memset(head, 0xFF, sizeof(head));
		assert_int_equal(smbdirect_encode_data(&example->data, head), example->len);
		assert_memory_equal(head, example->bytes, example->len);
		memset(buf, 0, sizeof(buf));
		memcpy(buf, example->bytes, example->len);
		assert_int_equal(
			smbdirect_decode_data(buf, example->len + example->data.length, &back), 0);
		memset(head, 0xFF, sizeof(head));
		assert_int_equal(smbdirect_encode_data(&back, head), example->len);
		assert_memory_equal(head, example->bytes, example->len);
		assert_int_equal(back.offset, example->data.offset);
	}
	PROVES("SMBD-15 SMBD-17 SMBD-78 SMBD-82");
}

static void descriptors(void **state)
{
	(void)state;
	const struct smbdirect_descriptor descriptor = { 0xABCDE012, 0x1A00BC56, 0x00100000 };
	static const uint8_t bytes[] = { 0x12, 0xE0, 0xCD, 0xAB, 0x00, 0x00, 0x00, 0x00,
					 0x56, 0xBC, 0x00, 0x1A, 0x00, 0x00, 0x10, 0x00 };
	struct smbdirect_descriptor back;
	uint8_t buf[SMBDIRECT_DESCRIPTOR_LEN];
	smbdirect_encode_descriptor(&descriptor, buf);
	assert_memory_equal(buf, bytes, sizeof(bytes));
	smbdirect_decode_descriptor(bytes, &back);
	assert_memory_equal(&back, &descriptor, sizeof(back));
	PROVES("SMBD-15");
}

/* ---- what peers send */

/* Bytes of a heap block, so that the address sanitizer sees a read behind them. */
static uint8_t *filled(size_t len, uint8_t with)
{
	uint8_t *buf = malloc(len ? len : 1);
	assert_non_null(buf);
	memset(buf, with, len);
	return buf;
}

static void short_messages(void **state)
{
	(void)state;
	struct smbdirect_request request;
	struct smbdirect_response response;
	struct smbdirect_data data;
	for (size_t len = 0; len <= 40; len++) {
		TRIES("%zu bytes", len);
		uint8_t *buf = filled(len, 0);
		assert_int_equal(smbdirect_decode_request(buf, len, &request),
				 len < 20 ? -EBADMSG : 0);
		assert_int_equal(smbdirect_decode_response(buf, len, &response),
				 len < 32 ? -EBADMSG : 0);
		assert_int_equal(smbdirect_decode_data(buf, len, &data), len < 20 ? -EBADMSG : 0);
		free(buf);
	}
	PROVES("SMBD-48 SMBD-63 SMBD-109 SMBD-169");
}

static void reserved_bits_mean_nothing(void **state)
{
	(void)state;
	uint8_t buf[32] = { 0 };
	struct smbdirect_request request;
	struct smbdirect_data data;
	buf[4] = buf[5] = 0xFF; /* reserved of a request; flags of data */
	assert_int_equal(smbdirect_decode_request(buf, 20, &request), 0);
	assert_int_equal(request.credits_requested, 0);
	assert_int_equal(smbdirect_decode_data(buf, 20, &data), 0);
	assert_true(data.response_requested);
	buf[4] = 0xFE;
	buf[6] = buf[7] = 0xFF; /* reserved */
	assert_int_equal(smbdirect_decode_data(buf, 20, &data), 0);
	assert_false(data.response_requested);
	buf[12] = 24;
	buf[16] = 1;
	buf[20] = buf[23] = 0xFF; /* padding */
	assert_int_equal(smbdirect_decode_data(buf, 25, &data), 0);
	PROVES("SMBD-10 SMBD-11 SMBD-16");
}

/* Where a payload may be, in a message of 64 bytes. */
static void payloads(void **state)
{
	(void)state;
	static const struct {
		uint32_t offset, length;
		bool fits;
	} tries[] = {
		{ 0, 0, true },
		{ 24, 0, true },
		{ 64, 0, true },
		{ 8, 0, true },
		{ 25, 0, false },
		{ 72, 0, false },
		{ 24, 40, true },
		{ 24, 41, false },
		{ 32, 32, true },
		{ 25, 1, false },
		{ 20, 1, false },
		{ 0, 1, false },
		{ 8, 1, false },
		{ 16, 1, false },
		{ 0xFFFFFFF8, 0x10, false },
		{ 24, 0xFFFFFFFF, false },
		{ 56, 8, true },
		{ 56, 9, false },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("offset %u, %u bytes", tries[i].offset, tries[i].length);
		uint8_t buf[64] = { 0 };
		struct smbdirect_data data;
		for (unsigned int k = 0; k < 4; k++) {
			buf[12 + k] = (uint8_t)(tries[i].offset >> 8 * k);
			buf[16 + k] = (uint8_t)(tries[i].length >> 8 * k);
		}
		assert_int_equal(smbdirect_decode_data(buf, sizeof(buf), &data),
				 tries[i].fits ? 0 : -EBADMSG);
	}
	PROVES("SMBD-111 SMBD-112 SMBD-114 SMBD-116 SMBD-169");
}

/* ---- as text */

static void text_is(enum smbdirect_kind kind, const uint8_t *buf, size_t len, const char *expect)
{
	char text[SMBDIRECT_TEXT_LEN];
	smbdirect_text(kind, buf, len, text);
	assert_string_equal(text, expect);
}

static void messages_as_text(void **state)
{
	(void)state;
	uint8_t buf[SMBDIRECT_RESPONSE_LEN];
	const struct smbdirect_request request = { .min_version = 0x0100,
						   .max_version = 0x0102,
						   .credits_requested = 255,
						   .preferred_send_size = 1364,
						   .max_receive_size = 8192,
						   .max_fragmented_size = 1048576 };
	smbdirect_encode_request(&request, buf);
	text_is(SMBDIRECT_NEGOTIATE_REQUEST, buf, SMBDIRECT_REQUEST_LEN,
		"Negotiate Request: versions 1.0 to 1.2, wants 255 credits, prefers SENDs of 1364 "
		"bytes, takes 8192, whole messages of 1048576");
	struct smbdirect_response response = { .min_version = 0x0100,
					       .max_version = 0x0100,
					       .version = 0x0100,
					       .credits_requested = 10,
					       .credits_granted = 20,
					       .max_read_write_size = 8388608,
					       .preferred_send_size = 1,
					       .max_receive_size = 2,
					       .max_fragmented_size = 3 };
	smbdirect_encode_response(&response, buf);
	text_is(SMBDIRECT_NEGOTIATE_RESPONSE, buf, sizeof(buf),
		"Negotiate Response: status 0x00000000, success, versions 1.0 to 1.0, version 1.0, "
		"grants 20 credits, wants 10, prefers SENDs of 1 bytes, takes 2, whole messages of "
		"3, RDMA of 8388608 bytes");
	response.status = SMBDIRECT_NOT_SUPPORTED;
	smbdirect_encode_response(&response, buf);
	text_is(SMBDIRECT_NEGOTIATE_RESPONSE, buf, sizeof(buf),
		"Negotiate Response: status 0xc00000bb, no common version, versions 1.0 to 1.0");
	struct smbdirect_data data = { .credits_requested = 255,
				       .credits_granted = 3,
				       .response_requested = true,
				       .remaining = 5000,
				       .length = 1340 };
	size_t head = smbdirect_encode_data(&data, buf);
	/* Of what is sent only the head is there. */
	text_is(SMBDIRECT_DATA_TRANSFER, buf, head + 1340,
		"Data Transfer: 1340 bytes, 5000 follow, grants 3 credits, wants 255, asks for an "
		"answer");
	text_is(SMBDIRECT_DATA_TRANSFER, buf, head + 1339,
		"1363 bytes that are no Data Transfer message");
	text_is(SMBDIRECT_NEGOTIATE_REQUEST, buf, 19, "19 bytes that are no Negotiate Request");
	text_is(SMBDIRECT_NEGOTIATE_RESPONSE, buf, 31, "31 bytes that are no Negotiate Response");
	assert_string_equal(smbdirect_status_text(SMBDIRECT_INSUFFICIENT_RESOURCES),
			    "too few resources");
	assert_string_equal(smbdirect_status_text(1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(negotiate_messages),
		cmocka_unit_test(data_messages),
		cmocka_unit_test(descriptors),
		cmocka_unit_test(short_messages),
		cmocka_unit_test(reserved_bits_mean_nothing),
		cmocka_unit_test(payloads),
		cmocka_unit_test(messages_as_text),
	};
	return cmocka_run_group_tests_name("smbdirect", tests, NULL, NULL);
}
