/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "proto/ipc/ipc.h"
#include "tests/lib/hex.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define PATH_AT offsetof(struct sockaddr_un, sun_path)

/* ---- frame header */

static void header_bytes(void **state)
{
	(void)state;
	uint8_t buf[IPC_HEADER_LEN];
	const uint8_t golden[] = { 'S', 'M', 1, IPC_HANDOVER, 0, 0, 1, 2 };
	assert_int_equal(ipc_encode_header(IPC_HANDOVER, 0x102, buf, sizeof(buf)), 8);
	assert_memory_equal(buf, golden, sizeof(golden));
	struct ipc_header header;
	assert_int_equal(ipc_decode_header(buf, sizeof(buf), &header), 0);
	assert_int_equal(header.type, IPC_HANDOVER);
	assert_int_equal(header.length, 0x102);
	for (size_t len = 0; len < sizeof(buf); len++) {
		TRIES("length %zu", len);
		uint8_t *copy = exact_copy(buf, len);
		assert_int_equal(ipc_decode_header(copy, len, &header), -EAGAIN);
		assert_int_equal(ipc_encode_header(IPC_HELLO, 0, copy, len), -ENOBUFS);
		free(copy);
	}
}

static int decode_header(const char *text)
{
	uint8_t buf[IPC_HEADER_LEN];
	struct ipc_header header;
	assert_int_equal(hex_bytes(text, buf, sizeof(buf)), sizeof(buf));
	return ipc_decode_header(buf, sizeof(buf), &header);
}

static void headers_are_bounded_by_their_type(void **state)
{
	(void)state;
	assert_int_equal(decode_header("534D 01 03 00000200"), 0);
	assert_int_equal(decode_header("534D 01 03 00000201"), -EBADMSG);
	assert_int_equal(decode_header("534D 01 09 01000000"), 0);
	assert_int_equal(decode_header("534D 01 0A 01000000"), 0);
	assert_int_equal(decode_header("534D 01 09 01000001"), -EBADMSG);
	assert_int_equal(decode_header("534D 01 FF 00000200"), 0); /* unknown types are passed on */
	assert_int_equal(decode_header("534D 01 FF 00000201"), -EBADMSG);
	assert_int_equal(decode_header("534D 01 03 FFFFFFFF"), -EBADMSG);
	assert_int_equal(decode_header("534C 01 03 00000000"), -EBADMSG);
	assert_int_equal(decode_header("004D 01 03 00000000"), -EBADMSG);
	assert_int_equal(decode_header("534D 02 03 00000000"), -EBADMSG);
	assert_int_equal(decode_header("534D 00 03 00000000"), -EBADMSG);
	uint8_t buf[IPC_HEADER_LEN];
	assert_int_equal(ipc_encode_header(IPC_RESULT, 513, buf, sizeof(buf)), -EINVAL);
	assert_int_equal(ipc_encode_header(IPC_CONTROL, 513, buf, sizeof(buf)), 8);
}

/* ---- payloads; each gets the same checks */

union payload {
	struct ipc_hello hello;
	struct ipc_error error;
	struct ipc_handover handover;
	struct ipc_result result;
	struct ipc_status_request status_request;
	struct ipc_status status;
	struct ipc_sockopt sockopt;
	struct ipc_info_request info_request;
	struct ipc_info info;
	struct ipc_memory_request memory_request;
	struct ipc_memory memory;
};

typedef int (*encode_fn)(const void *msg, uint8_t *buf, size_t len);
typedef int (*decode_fn)(const uint8_t *buf, size_t len, void *ret_msg);

#define CODEC(name)                                                                                \
	static int encode_##name(const void *msg, uint8_t *buf, size_t len)                        \
	{                                                                                          \
		return ipc_encode_##name(msg, buf, len);                                           \
	}                                                                                          \
	static int decode_##name(const uint8_t *buf, size_t len, void *ret_msg)                    \
	{                                                                                          \
		return ipc_decode_##name(buf, len, ret_msg);                                       \
	}
CODEC(hello)
CODEC(error)
CODEC(handover)
CODEC(result)
CODEC(status_request)
CODEC(status)
CODEC(sockopt)
CODEC(info_request)
CODEC(info)
CODEC(memory_request)
CODEC(memory)

static const struct codec {
	encode_fn encode;
	decode_fn decode;
	const char *golden;
	size_t size;     /* of the structure */
	bool open_ended; /* a shorter or longer payload may be another sound message */
} codecs[] = {
	{ encode_hello, decode_hello, "0001 0003", sizeof(struct ipc_hello), false },
	{ encode_error, decode_error, "0000000D 6E6F", sizeof(struct ipc_error), true },
	{ encode_handover, decode_handover, "01 00 00", sizeof(struct ipc_handover), false },
	{ encode_handover, decode_handover, "02 01 04 1389 0A000001", sizeof(struct ipc_handover),
	  false },
	{ encode_handover, decode_handover,
	  "02 00 06 1389 FE800000000000000000000000000001 00000007", sizeof(struct ipc_handover),
	  false },
	{ encode_result, decode_result, "03 0000006F 00000000", sizeof(struct ipc_result), false },
	{ encode_result, decode_result, "02 00000000 03070000", sizeof(struct ipc_result), false },
	{ encode_status_request, decode_status_request, "02", sizeof(struct ipc_status_request),
	  false },
	{ encode_status, decode_status, "03 01 00000000 03010000", sizeof(struct ipc_status),
	  false },
	{ encode_sockopt, decode_sockopt, "01 00000006 0000000B 00000000 0004 00000000",
	  sizeof(struct ipc_sockopt), false },
	{ encode_sockopt, decode_sockopt, "02 00000006 00000001 00000016 0000",
	  sizeof(struct ipc_sockopt), false },
	{ encode_sockopt, decode_sockopt, "03 00000000 00005411 00000000 0004 00000007",
	  sizeof(struct ipc_sockopt), false },
	{ encode_info_request, decode_info_request, "01", sizeof(struct ipc_info_request), false },
	{ encode_info, decode_info,
	  "02 03 00000000 00000000 00000000 00000007 02 0000000000000102 0000000100000000 "
	  "00010000 00008000 06 726F63655F30",
	  sizeof(struct ipc_info), false },
	{ encode_info, decode_info,
	  "03 0C 00000068 05000000 03070000 00000000 00 0000000000000000 0000000000000000 "
	  "00000000 00000000 00",
	  sizeof(struct ipc_info), false },
	{ encode_memory_request, decode_memory_request, "01", sizeof(struct ipc_memory_request),
	  false },
	{ encode_memory, decode_memory, "00 00021000 00001004 0000FFFC 00011000 00010000 00000300",
	  sizeof(struct ipc_memory), false },
	{ encode_memory, decode_memory, "04 00000000 00000000 00000000 00000000 00000000 00000000",
	  sizeof(struct ipc_memory), false },
};
#define NUM_CODECS (sizeof(codecs) / sizeof(codecs[0]))

static int decode_exact(const struct codec *codec, const uint8_t *bytes, size_t len,
			union payload *ret_msg)
{
	uint8_t *copy = exact_copy(bytes, len);
	int rc = codec->decode(copy, len, ret_msg);
	free(copy);
	return rc;
}

static void payloads_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_CODECS; i++) {
		TRIES("row %zu", i);
		uint8_t bytes[IPC_MAX_CLIENT_LEN];
		uint8_t again[IPC_MAX_CLIENT_LEN + 1];
		union payload msg = { 0 };
		size_t len = hex_bytes(codecs[i].golden, bytes, sizeof(bytes));
		assert_int_equal(decode_exact(&codecs[i], bytes, len, &msg), 0);
		memset(again, 0x55, sizeof(again));
		assert_int_equal(codecs[i].encode(&msg, again, sizeof(again)), len);
		assert_memory_equal(again, bytes, len);
		assert_int_equal(again[len], 0x55);
		for (size_t room = 0; room < len; room++) {
			uint8_t *small = exact_copy(bytes, room);
			assert_int_equal(codecs[i].encode(&msg, small, room), -ENOBUFS);
			free(small);
		}
	}
}

static void payloads_have_exactly_their_length(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_CODECS; i++) {
		TRIES("row %zu", i);
		uint8_t bytes[IPC_MAX_CLIENT_LEN + 1] = { 0 };
		size_t len = hex_bytes(codecs[i].golden, bytes, sizeof(bytes));
		union payload msg;
		memset(&msg, 0xA5, sizeof(msg));
		union payload before = msg;
		for (size_t cut = 0; cut < (codecs[i].open_ended ? 4 : len); cut++)
			assert_int_equal(decode_exact(&codecs[i], bytes, cut, &msg), -EBADMSG);
		for (size_t more = len + 1; more <= sizeof(bytes); more++)
			if (!codecs[i].open_ended || more > 4 + IPC_TEXT_MAX)
				assert_int_equal(decode_exact(&codecs[i], bytes, more, &msg),
						 -EBADMSG);
		assert_memory_equal(&msg, &before, codecs[i].size);
	}
}

/* A payload with a value out of range is refused as bytes and as a structure. */
static void out_of_range(decode_fn decode, const char *text)
{
	uint8_t bytes[IPC_MAX_CLIENT_LEN];
	union payload msg;
	size_t len = hex_bytes(text, bytes, sizeof(bytes));
	assert_int_equal(decode(bytes, len, &msg), -EBADMSG);
}

#define INFO(mode, flags, error, rnic)                                                             \
	mode " " flags " " error " 00000000 00000000 00000000 00 0000000000000000 "                \
	     "0000000000000000 00000000 00000000 " rnic

/* Memory is granted: three pages. */
static void memory_out_of_range(const char *outcome, const char *rings, const char *charge)
{
	char text[128];
	snprintf(text, sizeof(text), "%s %s %s %s", outcome,
		 strcmp(outcome, "00") == 0 ? "00003000" : "00000000", rings, charge);
	out_of_range(decode_memory, text);
}

static void fields_out_of_range_are_refused(void **state)
{
	(void)state;
	out_of_range(decode_hello, "0000 0001");
	out_of_range(decode_hello, "0002 0001");
	out_of_range(decode_error, "00000000");
	out_of_range(decode_error, "FFFFFFFF 6E6F");
	out_of_range(decode_error, "00000001 6E006F"); /* a NUL inside the text */
	out_of_range(decode_handover, "00 00 00");
	out_of_range(decode_handover, "04 00 00");
	out_of_range(decode_handover, "01 02 00");
	out_of_range(decode_handover, "02 00 00");               /* CONNECTING without an address */
	out_of_range(decode_handover, "03 00 04 1389 0A000001"); /* ACCEPTED with one */
	out_of_range(decode_handover, "02 00 05 1389 0A000001");
	out_of_range(decode_result, "00 00000000 00000000");
	out_of_range(decode_result, "05 00000000 00000000");
	out_of_range(decode_result, "04 00000001 00000000"); /* an error with OPEN */
	out_of_range(decode_result, "01 00000001 00000000"); /* an error without FAILED */
	out_of_range(decode_result, "03 00000000 00000000"); /* FAILED without an error */
	out_of_range(decode_result, "03 80000000 00000000");
	out_of_range(decode_status_request, "05");
	out_of_range(decode_status_request, "08");
	out_of_range(decode_status, "00 00 00000000 00000000");
	out_of_range(decode_status, "07 00 00000000 00000000");
	out_of_range(decode_status, "01 02 00000000 00000000");
	out_of_range(decode_status, "04 00 FFFFFFFF 00000000");
	out_of_range(decode_sockopt, "00 00000006 00000001 00000000 0000");
	out_of_range(decode_sockopt, "04 00000006 00000001 00000000 0000");
	out_of_range(decode_sockopt, "01 00000006 00000001 FFFFFFFF 0000");
	out_of_range(decode_sockopt, "01 00000006 00000001 00000000 0101");
	out_of_range(decode_sockopt, "01 00000006 00000001 00000000 FFFF");
	out_of_range(decode_info_request, "02");
	out_of_range(decode_info, INFO("00", "00", "00000000", "00"));
	out_of_range(decode_info, INFO("04", "00", "00000000", "00"));
	out_of_range(decode_info, INFO("01", "10", "00000000", "00"));
	out_of_range(decode_info, INFO("01", "00", "FFFFFFFF", "00"));
	out_of_range(decode_info, INFO("01", "00", "00000000", "01 00")); /* a NUL in the name */
	out_of_range(decode_memory_request, "00");
	memory_out_of_range("07", "00000000 00000000 00000000 00000000", "00000000");
	/* Refusals that also have a size or a charge. */
	memory_out_of_range("01", "00000000 00001000 00000000 00000000", "00000000");
	memory_out_of_range("01", "00000000 00000000 00000000 00000001", "00000000");
	memory_out_of_range("01", "00000000 00000000 00000000 00000000", "00000300");
	memory_out_of_range("00", "00001000 00001000 00002000 00001000", "00000000");
	memory_out_of_range("00", "00001000 00001000 00002000 00001000", "80000000");
	/* A ring that is empty, on the control page, behind the end, or over the other ring. */
	memory_out_of_range("00", "00001000 00000000 00002000 00001000", "00000300");
	memory_out_of_range("00", "00000FFF 00001000 00002000 00001000", "00000300");
	memory_out_of_range("00", "00001000 00001000 00002000 00001001", "00000300");
	memory_out_of_range("00", "00001000 00001000 00003001 00000001", "00000300");
	memory_out_of_range("00", "00001000 00001000 00002000 FFFFFFFF", "00000300");
	memory_out_of_range("00", "00001000 00001001 00002000 00001000", "00000300");
	memory_out_of_range("00", "00002000 00001000 00001FFF 00000002", "00000300");
	/* A length that is not a multiple of a page, or too large. */
	out_of_range(decode_memory, "00 00003001 00001000 00001000 00002000 00001000 00000300");
	out_of_range(decode_memory, "00 40001000 00001000 00001000 00002000 00001000 00000300");
}

static void structures_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	const struct ipc_hello hello = { .min_version = 2, .max_version = 1 };
	assert_int_equal(ipc_encode_hello(&hello, buf, sizeof(buf)), -EINVAL);
	struct ipc_error error = { .error = 0 };
	assert_int_equal(ipc_encode_error(&error, buf, sizeof(buf)), -EINVAL);
	error.error = EPERM;
	memset(error.text, 'x', sizeof(error.text)); /* no NUL */
	assert_int_equal(ipc_encode_error(&error, buf, sizeof(buf)), -EINVAL);
	error.text[IPC_TEXT_MAX] = '\0';
	assert_int_equal(ipc_encode_error(&error, buf, sizeof(buf)), 4 + IPC_TEXT_MAX);
	struct ipc_handover handover = { .kind = 4 };
	assert_int_equal(ipc_encode_handover(&handover, buf, sizeof(buf)), -EINVAL);
	handover.kind = IPC_HANDOVER_CONNECTING; /* without an address */
	assert_int_equal(ipc_encode_handover(&handover, buf, sizeof(buf)), -EINVAL);
	const struct ipc_result result = { .outcome = IPC_OUTCOME_FAILED };
	assert_int_equal(ipc_encode_result(&result, buf, sizeof(buf)), -EINVAL);
	const struct ipc_status_request request = { .flags = 0x80 };
	assert_int_equal(ipc_encode_status_request(&request, buf, sizeof(buf)), -EINVAL);
	const struct ipc_status status = { .state = 0 };
	assert_int_equal(ipc_encode_status(&status, buf, sizeof(buf)), -EINVAL);
	const struct ipc_sockopt sockopt = { .op = IPC_SOCKOPT_GET, .length = 257 };
	assert_int_equal(ipc_encode_sockopt(&sockopt, buf, sizeof(buf)), -EINVAL);
	const struct ipc_memory_request memory_request = { .version = 0 };
	assert_int_equal(ipc_encode_memory_request(&memory_request, buf, sizeof(buf)), -EINVAL);
	const struct ipc_memory memory = { .outcome = IPC_MEMORY_GRANTED };
	assert_int_equal(ipc_encode_memory(&memory, buf, sizeof(buf)), -EINVAL);
	const struct ipc_info_request info_request = { .flags = 2 };
	assert_int_equal(ipc_encode_info_request(&info_request, buf, sizeof(buf)), -EINVAL);
	struct ipc_info info = { .mode = 0 };
	assert_int_equal(ipc_encode_info(&info, buf, sizeof(buf)), -EINVAL);
	info.mode = IPC_MODE_SMCR;
	memset(info.rnic, 'x', sizeof(info.rnic)); /* no NUL */
	assert_int_equal(ipc_encode_info(&info, buf, sizeof(buf)), -EINVAL);
	info.rnic[IPC_RNIC_MAX] = '\0';
	int len = ipc_encode_info(&info, buf, sizeof(buf));
	assert_int_equal(len, 44 + IPC_RNIC_MAX);
	buf[43] = 64; /* the name is longer than a name may be, and the bytes are there */
	assert_int_equal(ipc_decode_info(buf, (size_t)len + 1, &info), -EBADMSG);
}

static void every_payload_fits_a_frame(void **state)
{
	(void)state;
	uint8_t buf[IPC_MAX_CLIENT_LEN];
	struct ipc_sockopt sockopt = { .op = IPC_SOCKOPT_SET, .length = IPC_SOCKOPT_VALUE_MAX };
	struct random random = { 4 };
	random_bytes(&random, sockopt.value, sizeof(sockopt.value));
	int len = ipc_encode_sockopt(&sockopt, buf, sizeof(buf));
	assert_int_equal(len, 15 + IPC_SOCKOPT_VALUE_MAX);
	struct ipc_sockopt again;
	assert_int_equal(ipc_decode_sockopt(buf, (size_t)len, &again), 0);
	assert_memory_equal(again.value, sockopt.value, sizeof(sockopt.value));
}

/* ---- pair names */

static union ipc_addr addr4(const char *ip, uint16_t port)
{
	union ipc_addr addr = { .in = { .sin_family = AF_INET, .sin_port = htons(port) } };
	assert_int_equal(inet_pton(AF_INET, ip, &addr.in.sin_addr), 1);
	return addr;
}

static union ipc_addr addr6(const char *ip, uint16_t port, uint32_t scope)
{
	union ipc_addr addr = {
		.in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope }
	};
	assert_int_equal(inet_pton(AF_INET6, ip, &addr.in6.sin6_addr), 1);
	return addr;
}

static void a_path_has_an_abstract_address(void **state)
{
	(void)state;
	struct sockaddr_un addr, other;
	char path[120];
	const size_t head = offsetof(struct sockaddr_un, sun_path) + 1;
	assert_int_equal(ipc_abstract_address("", 0, &addr), -EINVAL);
	assert_int_equal(ipc_abstract_address("/run/smcrd/smcrd.sock", 0, &addr),
			 head + strlen("smcrd:/run/smcrd/smcrd.sock"));
	assert_int_equal(addr.sun_family, AF_UNIX);
	assert_memory_equal(addr.sun_path, "\0smcrd:/run/smcrd/smcrd.sock", 28);
	const char numbered[] = "\0smcrd-at:000000000000abcd:/run/smcrd/smcrd.sock";
	assert_int_equal(ipc_abstract_address("/run/smcrd/smcrd.sock", 0xabcd, &addr),
			 head - 1 + sizeof(numbered) - 1);
	assert_memory_equal(addr.sun_path, numbered, sizeof(numbered) - 1);
	/* Of a long path the end is kept, as it tells paths apart. */
	memset(path, 'x', sizeof(path));
	strcpy(path + 107 - 2, "/a");
	assert_int_equal(ipc_abstract_address(path, UINT64_MAX, &addr), sizeof(addr));
	assert_memory_equal(addr.sun_path + sizeof(addr.sun_path) - 2, "/a", 2);
	int len = ipc_abstract_address(path, 0, &addr);
	assert_int_equal(len, sizeof(addr));
	assert_memory_equal(addr.sun_path + sizeof(addr.sun_path) - 2, "/a", 2);
	path[106] = 'b';
	assert_int_equal(ipc_abstract_address(path, 0, &other), len);
	assert_memory_not_equal(&addr, &other, sizeof(addr));
}

static void names_as(const struct ipc_pair_name *name, const char *text)
{
	struct sockaddr_un addr;
	memset(&addr, 0xA5, sizeof(addr));
	int len = ipc_pair_name_encode(name, &addr, sizeof(addr));
	assert_int_equal(len, PATH_AT + 1 + strlen(text));
	assert_int_equal(addr.sun_family, AF_UNIX);
	assert_int_equal(addr.sun_path[0], 0);
	assert_memory_equal(addr.sun_path + 1, text, strlen(text));
	assert_int_equal(ipc_pair_name_encode(name, &addr, (size_t)len - 1), -EINVAL);

	uint8_t *copy = exact_copy(&addr, (size_t)len);
	struct ipc_pair_name again;
	assert_int_equal(ipc_pair_name_decode(copy, (size_t)len, &again), 0);
	free(copy);
	assert_true(again.id == name->id);
	size_t size = name->local.sa.sa_family == AF_INET ? sizeof(struct sockaddr_in)
							  : sizeof(struct sockaddr_in6);
	assert_memory_equal(&again.local, &name->local, size);
	assert_memory_equal(&again.peer, &name->peer, size);
}

static void pair_names_of_both_families(void **state)
{
	(void)state;
	names_as(&(struct ipc_pair_name){ addr4("10.0.0.1", 5001), addr4("10.0.0.2", 40000),
					  0x1234ABCD },
		 "smcr-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2:40000");
	names_as(&(struct ipc_pair_name){ addr4("255.255.255.255", 65535), addr4("0.0.0.0", 0),
					  UINT64_MAX },
		 "smcr-pair:ffffffffffffffff:255.255.255.255:65535:0.0.0.0:0");
	names_as(&(struct ipc_pair_name){ addr6("::ffff:10.0.0.1", 80, 0),
					  addr6("2001:db8::1", 65535, 0), 1 },
		 "smcr-pair:0000000000000001:00000000000000000000ffff0a000001:80:"
		 "20010db8000000000000000000000001:65535");
}

static void link_local_addresses_keep_their_scope(void **state)
{
	(void)state;
	names_as(&(struct ipc_pair_name){ addr6("fe80::1", 80, 7),
					  addr6("fe80::2", 65535, 0xFFFFFFFF), UINT64_MAX },
		 "smcr-pair:ffffffffffffffff:fe800000000000070000000000000001:80:"
		 "fe800000ffffffff0000000000000002:65535");
	/* Bits where the name has the scope: RFC 4291 has no such address. */
	struct ipc_pair_name odd = { addr6("fe80:0:1::1", 80, 7), addr6("fe80::2", 1, 7), 1 };
	struct sockaddr_un addr;
	assert_int_equal(ipc_pair_name_encode(&odd, &addr, sizeof(addr)), -EINVAL);
}

static void families_must_agree(void **state)
{
	(void)state;
	struct sockaddr_un addr;
	struct ipc_pair_name mixed = { addr4("10.0.0.1", 80), addr6("::1", 1, 0), 1 };
	assert_int_equal(ipc_pair_name_encode(&mixed, &addr, sizeof(addr)), -EINVAL);
	struct ipc_pair_name none = { .id = 1 };
	assert_int_equal(ipc_pair_name_encode(&none, &addr, sizeof(addr)), -EINVAL);
}

static int decode_name(const char *text, size_t len)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	assert_true(len <= sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path + 1, text, len);
	uint8_t *copy = exact_copy(&addr, PATH_AT + 1 + len);
	struct ipc_pair_name name;
	int rc = ipc_pair_name_decode(copy, PATH_AT + 1 + len, &name);
	free(copy);
	return rc;
}

static void other_names_are_not_ours(void **state)
{
	(void)state;
	static const char good[] = "smcr-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2:40000";
	static const char *const bad[] = {
		"",
		"smcr-pair:",
		"smcr-pair:1:10.0.0.1:1:10.0.0.2:2",
		"smcr-pair:000000001234ABCD:10.0.0.1:5001:10.0.0.2:40000",
		"smcr-pair:000000001234abcd:10.0.0.1:05001:10.0.0.2:40000",
		"smcr-pair:000000001234abcd:10.0.0.1:65536:10.0.0.2:40000",
		"smcr-pair:000000001234abcd:10.0.0.1:-1:10.0.0.2:40000",
		"smcr-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2:40000:",
		"smcr-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2",
		"smcr-pair:000000001234abcd:10.0.0.256:5001:10.0.0.2:40000",
		"smcr-pair:000000001234abcd::5001::40000",
		"smcr-pair:0000000000000001:00000000000000000000FFFF0a000001:80:"
		"20010db8000000000000000000000001:65535",
		"smcr-pair:0000000000000001:0x000000000000000000ffff0a000001:80:"
		"20010db8000000000000000000000001:65535",
		"smcr-pair:0000000000000001:10.0.0.1:80:20010db8000000000000000000000001:65535",
		"other-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2:40000",
	};
	assert_int_equal(decode_name(good, strlen(good)), 0);
	/* a port with digits missing is a port too */
	for (size_t len = 0; len < strlen(good) - 4; len++)
		assert_int_equal(decode_name(good, len), -EINVAL);
	/* Names have no NUL at their end. */
	assert_int_equal(decode_name(good, sizeof(good)), -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		TRIES("%s", bad[i]);
		assert_int_equal(decode_name(bad[i], strlen(bad[i])), -EINVAL);
	}

	struct ipc_pair_name name;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	strcpy(addr.sun_path, good); /* a path, not an abstract address */
	assert_int_equal(ipc_pair_name_decode(&addr, sizeof(addr), &name), -EINVAL);
	memcpy(addr.sun_path + 1, good, sizeof(good) - 1);
	addr.sun_path[0] = '\0';
	addr.sun_family = AF_INET;
	assert_int_equal(ipc_pair_name_decode(&addr, PATH_AT + sizeof(good), &name), -EINVAL);
	for (size_t len = 0; len <= PATH_AT; len++)
		assert_int_equal(ipc_pair_name_decode(&addr, len, &name), -EINVAL);
}

static void random_names_round_trip(void **state)
{
	(void)state;
	struct random random = { 5 };
	for (int i = 0; i < 5000; i++) {
		struct ipc_pair_name name = { .id = random_u64(&random) };
		union ipc_addr *sides[] = { &name.local, &name.peer };
		bool ipv6 = random_below(&random, 2);
		for (size_t side = 0; side < 2; side++) {
			union ipc_addr *addr = sides[side];
			addr->in6.sin6_family = ipv6 ? AF_INET6 : AF_INET;
			addr->in6.sin6_port = (in_port_t)random_u64(&random);
			uint8_t *ip =
				ipv6 ? addr->in6.sin6_addr.s6_addr : (uint8_t *)&addr->in.sin_addr;
			random_bytes(&random, ip, ipv6 ? 16 : 4);
			ip[0] = 0x20; /* not link-local */
		}
		struct sockaddr_un addr;
		int len = ipc_pair_name_encode(&name, &addr, sizeof(addr));
		assert_true(len > 0);
		struct ipc_pair_name again = { 0 };
		assert_int_equal(ipc_pair_name_decode(&addr, (size_t)len, &again), 0);
		assert_memory_equal(&again.local, &name.local, sizeof(name.local));
		assert_memory_equal(&again.peer, &name.peer, sizeof(name.peer));
	}
}

static uint64_t program(const char *path)
{
	return ipc_program_id(path, strlen(path));
}

static void programs_are_told_apart_by_their_paths(void **state)
{
	(void)state;
	assert_true(program("/usr/bin/ssh") == program("/usr/bin/ssh"));
	assert_true(program("/usr/bin/ssh") != program("/usr/bin/sshd"));
	assert_true(program("/usr/bin/ssh") != program("/usr/sbin/ssh"));
	assert_true(program("") != 0);
	/* The program's file was replaced while the program runs. */
	assert_true(program("/usr/bin/ssh (deleted)") == program("/usr/bin/ssh"));
	assert_true(program("(deleted)") != program(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_has_an_abstract_address),
		cmocka_unit_test(header_bytes),
		cmocka_unit_test(headers_are_bounded_by_their_type),
		cmocka_unit_test(payloads_round_trip),
		cmocka_unit_test(payloads_have_exactly_their_length),
		cmocka_unit_test(fields_out_of_range_are_refused),
		cmocka_unit_test(structures_out_of_range_are_not_encoded),
		cmocka_unit_test(every_payload_fits_a_frame),
		cmocka_unit_test(pair_names_of_both_families),
		cmocka_unit_test(link_local_addresses_keep_their_scope),
		cmocka_unit_test(families_must_agree),
		cmocka_unit_test(other_names_are_not_ours),
		cmocka_unit_test(random_names_round_trip),
		cmocka_unit_test(programs_are_told_apart_by_their_paths),
	};
	return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
