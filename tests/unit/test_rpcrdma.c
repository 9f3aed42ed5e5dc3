/* SPDX-License-Identifier: MIT */
/* Headers of RPC-over-RDMA, byte for byte, and what the decoders refuse. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/rpcrdma/rpcrdma.h"
#include "tests/lib/hex.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

#define ROOM 4096

/* The prefix of a message that is written in hexadecimal; `*ret_rest` is what follows it. */
static struct rpcrdma_prefix prefix_of(const uint8_t *buf, size_t len, const uint8_t **ret_rest,
				       size_t *ret_len)
{
	uint8_t again[RPCRDMA_V2_PREFIX_LEN];
	struct rpcrdma_prefix prefix;
	assert_int_equal(rpcrdma_decode_prefix(buf, len, &prefix), 0);
	const size_t prefix_len = rpcrdma_prefix_len(prefix.version);
	if (prefix.version == RPCRDMA_V1 || prefix.version == RPCRDMA_V2) {
		assert_int_equal(rpcrdma_encode_prefix(&prefix, again), prefix_len);
		assert_memory_equal(again, buf, prefix_len);
	}
	*ret_rest = buf + prefix_len;
	*ret_len = len - prefix_len;
	return prefix;
}

/* Decode the lists of a message in hexadecimal, and encode them again. @return bytes of the RPC
 * message behind them */
static size_t lists_of(const char *text, struct rpcrdma_prefix *ret_prefix,
		       struct rpcrdma_lists *ret_lists)
{
	uint8_t bytes[ROOM], again[ROOM];
	const size_t len = hex_bytes(text, bytes, sizeof(bytes));
	uint8_t *buf = exact_copy(bytes, len);
	const uint8_t *rest;
	size_t rest_len, lists_len;
	*ret_prefix = prefix_of(buf, len, &rest, &rest_len);
	assert_int_equal(
		rpcrdma_decode_lists(rest, rest_len, ret_prefix->version, ret_lists, &lists_len),
		0);
	assert_int_equal(rpcrdma_lists_len(ret_lists, ret_prefix->version), lists_len);
	assert_int_equal(rpcrdma_encode_lists(ret_lists, ret_prefix->version, again, sizeof(again)),
			 lists_len);
	assert_memory_equal(again, rest, lists_len);
	assert_int_equal(rpcrdma_encode_lists(ret_lists, ret_prefix->version, again, lists_len - 1),
			 0);
	/* cut anywhere, it is no list */
	for (size_t cut = 0; cut < lists_len; cut++) {
		struct rpcrdma_lists lists;
		size_t cut_len;
		uint8_t *part = exact_copy(rest, cut);
		assert_int_equal(
			rpcrdma_decode_lists(part, cut, ret_prefix->version, &lists, &cut_len),
			-EBADMSG);
		free(part);
	}
	free(buf);
	return rest_len - lists_len;
}

/* ---- MSG and NOMSG */

static void credit_only(void **state)
{
	(void)state;
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	assert_int_equal(lists_of("00000000 00000002 00400008 00000001 00000000 00000000 00000000 "
				  "00000000 00000000",
				  &prefix, &lists),
			 0);
	assert_int_equal(prefix.xid, 0);
	assert_int_equal(prefix.credit, rpcrdma_credit(64, 8));
	assert_int_equal(prefix.type, RPCRDMA_NOMSG);
	assert_true(rpcrdma_lists_empty(&lists));
	PROVES("RR2-10 RR2-43 RR2-47");
}

static void a_call_without_chunks(void **state)
{
	(void)state;
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	assert_int_equal(lists_of("22222222 00000002 00400001 00000000 00000000 00000000 00000000 "
				  "00000000 00000000 22222222 00000000 00000002 000186A3 00000004 "
				  "00000000 00000000 00000000 00000000 00000000",
				  &prefix, &lists),
			 40);
	assert_int_equal(prefix.type, RPCRDMA_MSG);
	assert_int_equal(prefix.flags, 0);
	assert_true(rpcrdma_lists_empty(&lists));
	assert_int_equal(lists_of("55555555 00000002 00400001 00000000 00000002 00000000 00000000 "
				  "00000000 00000000",
				  &prefix, &lists),
			 0);
	assert_int_equal(prefix.flags, RPCRDMA_F_MORE);
	PROVES("RR2-10 RR2-11");
}

static void a_special_call(void **state)
{
	(void)state;
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	assert_int_equal(lists_of("33333333 00000002 00400001 00000001 00000000 0000A001 00000001 "
				  "00000000 0000A001 00001000 00000000 00010000 00000001 00000000 "
				  "0000A002 00000064 00000000 00020000 00000000 00000000 00000000",
				  &prefix, &lists),
			 0);
	assert_int_equal(lists.inv_handle, 0xA001);
	assert_int_equal(lists.num_reads, 2);
	assert_int_equal(lists.reads[1].segment.handle, 0xA002);
	assert_int_equal(lists.reads[1].segment.length, 100);
	assert_int_equal(lists.reads[1].segment.offset, 0x20000);
	PROVES("RR2-2 RR2-10");
}

static void a_call_with_all_lists(void **state)
{
	(void)state;
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	assert_int_equal(
		lists_of("44444444 00000002 00400001 00000000 00000000 00000000 00000001 0000008C "
			 "0000B001 000003FD 00000000 00030000 00000000 00000001 00000002 0000B002 "
			 "00001000 00000000 00040000 0000B003 00001000 00000000 00050000 00000000 "
			 "00000001 00000001 0000B004 00002000 00000000 00060000",
			 &prefix, &lists),
		0);
	assert_int_equal(lists.num_reads, 1);
	assert_int_equal(lists.reads[0].position, 0x8C);
	assert_int_equal(lists.num_writes, 1);
	assert_int_equal(lists.writes[0].count, 2);
	assert_int_equal(lists.segments[1].handle, 0xB003);
	assert_true(lists.has_reply);
	assert_int_equal(lists.reply.count, 1);
	assert_int_equal(lists.segments[lists.reply.first].length, 8192);
	assert_false(rpcrdma_lists_empty(&lists));
	PROVES("RR2-10");
}

/* The same in version 1, which has neither flags nor a handle to invalidate. */
static void version_1(void **state)
{
	(void)state;
	struct rpcrdma_prefix prefix;
	struct rpcrdma_lists lists;
	assert_int_equal(lists_of("00001111 00000001 00000020 00000000 00000000 00000000 00000000 "
				  "00001111 00000000",
				  &prefix, &lists),
			 8);
	assert_int_equal(prefix.credit, 32);
	assert_int_equal(lists_of("44444444 00000001 00000001 00000001 00000001 0000008C 0000B001 "
				  "000003FD 00000000 00030000 00000000 00000001 00000000 00000000 "
				  "00000001 00000001 0000B004 00002000 00000000 00060000",
				  &prefix, &lists),
			 0);
	assert_int_equal(lists.num_reads, 1);
	assert_int_equal(lists.num_writes, 1);
	assert_int_equal(lists.writes[0].count, 0);
	assert_int_equal(lists.reply.count, 1);
	PROVES("RR2-193");
}

static void lists_that_are_wrong(void **state)
{
	(void)state;
	static const struct {
		const char *what, *text;
	} tries[] = {
		{ "a word that is neither 0 nor 1", "00000000 00000002 00000000 00000000" },
		{ "also for the Reply chunk", "00000000 00000000 00000000 00000007" },
		{ "more segments than bytes", "00000000 00000000 00000001 10000001 00000000" },
		{ "most segments", "00000000 00000000 00000001 FFFFFFFF 00000000 00000000" },
		{ "no end", "00000000 00000000 00000001 00000000" },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].what);
		uint8_t bytes[64];
		struct rpcrdma_lists lists;
		size_t len = hex_bytes(tries[i].text, bytes, sizeof(bytes)), lists_len;
		uint8_t *buf = exact_copy(bytes, len);
		assert_int_equal(rpcrdma_decode_lists(buf, len, RPCRDMA_V2, &lists, &lists_len),
				 -EBADMSG);
		free(buf);
	}
}

/* More than can be stored: counted, and nothing is written behind the arrays. */
static void lists_that_are_long(void **state)
{
	(void)state;
	const struct {
		uint32_t reads, writes, segments;
		int result;
	} tries[] = {
		{ RPCRDMA_MOST_READS, 0, 0, 0 },    { RPCRDMA_MOST_READS + 1, 0, 0, -E2BIG },
		{ 0, RPCRDMA_MOST_WRITES, 0, 0 },   { 0, RPCRDMA_MOST_WRITES + 1, 0, -E2BIG },
		{ 0, 0, RPCRDMA_MOST_SEGMENTS, 0 }, { 0, 0, RPCRDMA_MOST_SEGMENTS + 1, -E2BIG },
		{ 50000, 50000, 50000, -E2BIG },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("row %zu", i);
		const size_t len = 4 + 24 * (size_t)tries[i].reads + 4 +
				   8 * (size_t)tries[i].writes + 4 + 8 +
				   16 * (size_t)tries[i].segments;
		uint8_t *buf = calloc(1, len), *at = buf + 4;
		struct rpcrdma_lists lists;
		size_t lists_len;
		assert_non_null(buf);
		for (uint32_t k = 0; k < tries[i].reads; k++, at += 24)
			at[3] = 1;
		at += 4;
		for (uint32_t k = 0; k < tries[i].writes; k++, at += 8)
			at[3] = 1;
		at += 4;
		at[3] = 1;
		at[6] = (uint8_t)(tries[i].segments >> 8);
		at[7] = (uint8_t)tries[i].segments;
		assert_int_equal(rpcrdma_decode_lists(buf, len, RPCRDMA_V2, &lists, &lists_len),
				 tries[i].result);
		assert_int_equal(lists.num_reads, tries[i].reads);
		assert_int_equal(lists.num_writes, tries[i].writes);
		assert_int_equal(lists.num_segments, tries[i].segments);
		assert_int_equal(lists_len, len);
		free(buf);
	}
	PROVES("RR2-14");
}

/* ---- the prefix */

static void prefixes(void **state)
{
	(void)state;
	uint8_t buf[24];
	struct rpcrdma_prefix prefix;
	hex_bytes("11111111 00000003 00400020 00000009 FFFFFFF8 00000000", buf, sizeof(buf));
	for (size_t len = 0; len < 20; len++)
		assert_int_equal(rpcrdma_decode_prefix(buf, len, &prefix), -EBADMSG);
	/* what follows in an unknown version is not known */
	assert_int_equal(rpcrdma_decode_prefix(buf, 20, &prefix), 0);
	assert_int_equal(prefix.version, 3);
	assert_int_equal(prefix.flags, 0);
	buf[7] = 2; /* reserved flags mean nothing, and are not sent */
	assert_int_equal(rpcrdma_decode_prefix(buf, 20, &prefix), 0);
	assert_int_equal(prefix.flags, 0);
	prefix.flags = 0xFFFFFFFF;
	assert_int_equal(rpcrdma_encode_prefix(&prefix, buf), 20);
	assert_int_equal(buf[19], 7);
	assert_int_equal(buf[16] | buf[17] | buf[18], 0);
	PROVES("RR2-12 RR2-15 RR2-25");
}

/* ---- ERROR */

static void errors(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct rpcrdma_error error;
	} tries[] = {
		{ "11111111 00000002 00400001 00000004 00000001 00000001 00000002 00000002",
		  { RPCRDMA_ERR_VERS, 2, 2 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000002",
		  { RPCRDMA_ERR_BAD_XDR, 0, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000003",
		  { RPCRDMA_ERR_BAD_PROPVAL, 0, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000004",
		  { RPCRDMA_ERR_INVAL_HTYPE, 0, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000005",
		  { RPCRDMA_ERR_INVAL_CONT, 0, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000006 00000001",
		  { RPCRDMA_ERR_READ_CHUNKS, 1, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000007 00000002",
		  { RPCRDMA_ERR_WRITE_CHUNKS, 2, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000008 00000010",
		  { RPCRDMA_ERR_SEGMENTS, 16, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000009 00000001 00002328",
		  { RPCRDMA_ERR_WRITE_RESOURCE, 1, 9000 } },
		{ "44444444 00000002 00400001 00000004 00000001 0000000A 00002328",
		  { RPCRDMA_ERR_REPLY_RESOURCE, 9000, 0 } },
		{ "44444444 00000002 00400001 00000004 00000001 00000064",
		  { RPCRDMA_ERR_SYSTEM, 0, 0 } },
		{ "11111111 00000001 00000020 00000004 00000001 00000001 00000001",
		  { RPCRDMA_ERR_VERS, 1, 1 } },
		{ "11111111 00000001 00000040 00000004 00000002", { RPCRDMA_ERR_CHUNK, 0, 0 } },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].text);
		uint8_t bytes[64], again[RPCRDMA_ERROR_MOST_LEN];
		const size_t len = hex_bytes(tries[i].text, bytes, sizeof(bytes));
		const uint8_t *rest;
		size_t rest_len;
		struct rpcrdma_error error;
		const struct rpcrdma_prefix prefix = prefix_of(bytes, len, &rest, &rest_len);
		assert_int_equal(prefix.type, RPCRDMA_ERROR);
		assert_int_equal(rpcrdma_decode_error(rest, rest_len, prefix.version, &error), 0);
		assert_memory_equal(&error, &tries[i].error, sizeof(error));
		assert_int_equal(rpcrdma_encode_error(&error, again), rest_len);
		assert_memory_equal(again, rest, rest_len);
		/* one word more, or one byte less */
		memset(bytes + len, 0, 4);
		assert_int_equal(rpcrdma_decode_error(rest, rest_len + 4, prefix.version, &error),
				 -EBADMSG);
		assert_int_equal(rpcrdma_decode_error(rest, rest_len - 1, prefix.version, &error),
				 -EBADMSG);
	}
	PROVES("RR2-10 RR2-153 RR2-154 RR2-158 RR2-159 RR2-160 RR2-161 RR2-162 RR2-194");
}

static void unknown_errors(void **state)
{
	(void)state;
	static const uint32_t codes[] = { 0, 11, 99, 101, 0xFFFFFFFF };
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		TRIES("code %u", codes[i]);
		const struct rpcrdma_error unknown = { .code = codes[i] };
		struct rpcrdma_error error;
		uint8_t buf[RPCRDMA_ERROR_MOST_LEN] = { 0 };
		assert_int_equal(rpcrdma_encode_error(&unknown, buf), 4);
		assert_int_equal(rpcrdma_decode_error(buf, sizeof(buf), RPCRDMA_V2, &error), 0);
		assert_int_equal(error.code, codes[i]);
		assert_false(rpcrdma_error_is_known(RPCRDMA_V2, codes[i]));
	}
	assert_false(rpcrdma_error_is_known(RPCRDMA_V1, RPCRDMA_ERR_BAD_PROPVAL));
}

static void errors_of_a_foreign_version(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool foreign;
		uint32_t code;
	} tries[] = {
		{ "11111111 00000002 00000020 00000004 00000001 00000001 00000001", true, 1 },
		{ "11111111 00000002 00000040 00000004 00000002", true, 2 },
		/* of version 2: ERR_VERS; an error of the same length; one without words */
		{ "11111111 00000002 00400001 00000004 00000001 00000001 00000002 00000002", false,
		  0 },
		{ "44444444 00000002 00400001 00000004 00000001 0000000A 00002328", false, 0 },
		{ "44444444 00000002 00400001 00000004 00000001 00000006 00000000", false, 0 },
		{ "44444444 00000002 00400001 00000004 00000001 00000002", false, 0 },
		/* another type; a code that version 1 has not */
		{ "11111111 00000002 00000020 00000005 00000001 00000001 00000001", false, 0 },
		{ "11111111 00000002 00000020 00000004 00000003", false, 0 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].text);
		uint8_t bytes[64];
		const size_t len = hex_bytes(tries[i].text, bytes, sizeof(bytes));
		struct rpcrdma_error error;
		assert_int_equal(rpcrdma_decode_foreign_error(bytes, len, &error),
				 tries[i].foreign);
		if (tries[i].foreign)
			assert_int_equal(error.code, tries[i].code);
	}
	PROVES("RR2-39");
}

/* ---- CONNPROP */

static const char *const five =
	"00000005 00000001 00000004 00001000 00000002 00000004 00001000 00000003 00000004 00100000 "
	"00000004 00000004 00000010 00000005 00000004 00000002";

static int decode_hex(const char *text, struct rpcrdma_properties *properties)
{
	uint8_t bytes[512];
	const size_t len = hex_bytes(text, bytes, sizeof(bytes));
	uint8_t *buf = exact_copy(bytes, len);
	int error = rpcrdma_decode_properties(buf, len, properties);
	properties->hostauth = NULL; /* it has pointed into the copy */
	free(buf);
	return error;
}

static void properties(void **state)
{
	(void)state;
	struct rpcrdma_properties properties = { 1, 2, 3, 4, RPCRDMA_REVERSE_NONE, NULL, 0 };
	uint8_t bytes[128], again[128];
	const size_t len = hex_bytes(five, bytes, sizeof(bytes));
	assert_int_equal(decode_hex(five, &properties), 0);
	assert_int_equal(properties.send_size, 4096);
	assert_int_equal(properties.receive_size, 4096);
	assert_int_equal(properties.segment_size, 1048576);
	assert_int_equal(properties.segment_count, 16);
	assert_int_equal(properties.reverse, RPCRDMA_REVERSE_CONTINUED);
	assert_int_equal(rpcrdma_encode_properties(&properties, again, sizeof(again)), len);
	assert_memory_equal(again, bytes, len);
	assert_int_equal(rpcrdma_encode_properties(&properties, again, len - 1), 0);
	PROVES("RR2-10 RR2-63 RR2-64 RR2-65 RR2-66 RR2-67");
}

static void expect_properties(const struct rpcrdma_properties *p,
			      const struct rpcrdma_properties *expected)
{
	assert_int_equal(p->send_size, expected->send_size);
	assert_int_equal(p->receive_size, expected->receive_size);
	assert_int_equal(p->segment_size, expected->segment_size);
	assert_int_equal(p->segment_count, expected->segment_count);
	assert_int_equal(p->reverse, expected->reverse);
	assert_int_equal(p->hostauth_len, expected->hostauth_len);
}

static void properties_in_any_order_and_number(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct rpcrdma_properties result;
	} tries[] = {
		{ "00000000", { 1, 2, 3, 4, RPCRDMA_REVERSE_GENERAL, NULL, 0 } },
		{ "00000002 00000002 00000004 00000400 00000001 00000004 00000800",
		  { 2048, 1024, 3, 4, RPCRDMA_REVERSE_GENERAL, NULL, 0 } },
		/* the same twice: the last one */
		{ "00000002 00000004 00000004 00000001 00000004 00000004 00000000",
		  { 1, 2, 3, 0, RPCRDMA_REVERSE_GENERAL, NULL, 0 } },
		/* empty: the default */
		{ "00000005 00000001 00000000 00000002 00000000 00000003 00000000 00000004 "
		  "00000000 00000005 00000000",
		  { 4096, 4096, 1048576, 16, RPCRDMA_REVERSE_NONE, NULL, 0 } },
		/* unknown ones, with data of any length */
		{ "00000004 00000007 00000000 FFFFFFFF 00000001 AA000000 80000001 00000005 "
		  "0102030405000000 00000001 00000004 00000080",
		  { 128, 2, 3, 4, RPCRDMA_REVERSE_GENERAL, NULL, 0 } },
		/* levels of the reverse direction; an unknown one is none */
		{ "00000001 00000005 00000004 00000001",
		  { 1, 2, 3, 4, RPCRDMA_REVERSE_SIMPLE, NULL, 0 } },
		{ "00000001 00000005 00000004 00000004",
		  { 1, 2, 3, 4, RPCRDMA_REVERSE_NONE, NULL, 0 } },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].text);
		struct rpcrdma_properties p = { 1, 2, 3, 4, RPCRDMA_REVERSE_GENERAL, NULL, 0 };
		assert_int_equal(decode_hex(tries[i].text, &p), 0);
		expect_properties(&p, &tries[i].result);
	}
	PROVES("RR2-67 RR2-69 RR2-70 RR2-71 RR2-76 RR2-175");
}

static void properties_with_bad_values(void **state)
{
	(void)state;
	static const char *const tries[] = {
		"00000001 00000001 00000003 00001000",                   /* too short */
		"00000001 00000001 00000005 00001000 00000000",          /* too long */
		"00000001 00000001 00000008 00001000 00001000",          /* too long */
		"00000001 00000002 00000004 0000007F",                   /* below 128 */
		"00000001 00000001 00000004 00000000",                   /* below 128 */
		"00000001 00000003 00000004 00000000",                   /* no segment */
		"00000001 00000005 00000002 00010000",                   /* too short */
		"00000001 00000006 00000004 00000001",                   /* data of data */
		"00000001 00000006 00000002 00010000",                   /* no length */
		"00000001 00000006 00000008 FFFFFFFF 00000000",          /* too long */
		"00000001 00000007 00000004",                            /* past the end */
		"00000001 00000007 FFFFFFFF 00000000",                   /* past the end */
		"00000001 00000007 00000001 AA",                         /* no padding */
		"00000002 00000001 00000004 00001000 00000002 00000000 " /* trailing, in it */
		"00000003 00000003 00000000",
	};
	const size_t n = sizeof(tries) / sizeof(tries[0]);
	const struct rpcrdma_properties before = { 1, 2, 3, 4, RPCRDMA_REVERSE_CONTINUED, NULL, 0 };
	for (size_t i = 0; i < n; i++) {
		TRIES("%s", tries[i]);
		struct rpcrdma_properties p = before;
		assert_int_equal(decode_hex(tries[i], &p), i + 1 < n ? -EINVAL : -EBADMSG);
		expect_properties(&p, &before);
	}
	/* a good one before a bad one is not taken either */
	struct rpcrdma_properties p = before;
	assert_int_equal(
		decode_hex("00000002 00000001 00000004 00001000 00000002 00000003 00000000", &p),
		-EINVAL);
	expect_properties(&p, &before);
	/* [X30]: fewer than the count; none at all */
	assert_int_equal(decode_hex("00000002 00000001 00000004 00001000", &p), -EBADMSG);
	assert_int_equal(decode_hex("FFFFFFFF", &p), -EBADMSG);
	assert_int_equal(decode_hex("0000", &p), -EBADMSG);
	expect_properties(&p, &before);
	PROVES("RR2-72 RR2-73 RR2-78 RR2-155");
}

static void host_authentication(void **state)
{
	(void)state;
	for (uint32_t len = 0; len <= 5; len++) {
		TRIES("%u bytes", len);
		const uint8_t secret[] = { 1, 2, 3, 4, 5 };
		struct rpcrdma_properties p = rpcrdma_default_properties;
		struct rpcrdma_properties back = rpcrdma_default_properties;
		uint8_t buf[128];
		p.hostauth = secret;
		p.hostauth_len = len;
		memset(buf, 0xFF, sizeof(buf));
		const size_t all = rpcrdma_encode_properties(&p, buf, sizeof(buf));
		assert_int_equal(all, 64 + 12 + (len + 3) / 4 * 4);
		for (size_t i = 76 + len; i < all; i++)
			assert_int_equal(buf[i], 0);
		assert_int_equal(rpcrdma_decode_properties(buf, all, &back), 0);
		assert_int_equal(back.hostauth_len, len);
		if (len)
			assert_memory_equal(back.hostauth, secret, len);
		else
			assert_null(back.hostauth);
	}
	PROVES("RR2-13 RR2-68");
}

static void sets_of_properties(void **state)
{
	(void)state;
	uint8_t buf[16];
	size_t len = hex_bytes("00000002 00000022 80000000", buf, sizeof(buf));
	static const uint32_t in[] = { 1, 5, 63 }, out[] = { 0, 2, 31, 32, 62, 64, 0xFFFFFFFF };
	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		assert_int_equal(rpcrdma_propset_has(buf, len, in[i]), 1);
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		assert_int_equal(rpcrdma_propset_has(buf, len, out[i]), 0);
	assert_int_equal(rpcrdma_propset_has(buf, len - 1, 1), -EBADMSG);
	assert_int_equal(rpcrdma_propset_has(buf, 3, 1), -EBADMSG);
	buf[0] = 0x40; /* the length in bytes would wrap in 32 bits */
	assert_int_equal(rpcrdma_propset_has(buf, len, 1), -EBADMSG);
	PROVES("RR2-77");
}

/* ---- private data */

static void private_data(void **state)
{
	(void)state;
	static const uint8_t linux_client[] = { 0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 3 };
	const struct rpcrdma_private ours = { true, 4096, 4096 };
	struct rpcrdma_private back;
	uint8_t buf[RPCRDMA_PRIVATE_LEN];
	rpcrdma_encode_private(&ours, buf);
	assert_memory_equal(buf, linux_client, sizeof(buf));
	assert_int_equal(rpcrdma_decode_private(buf, sizeof(buf), &back), 0);
	assert_true(back.invalidates);
	assert_int_equal(back.send_size, 4096);
	assert_int_equal(back.receive_size, 4096);
	static const struct {
		uint32_t size;
		uint8_t byte;
	} sizes[] = { { 0, 0 },    { 1023, 0 },     { 1024, 0 },     { 2047, 0 },
		      { 2048, 1 }, { 262143, 254 }, { 262144, 255 }, { 0xFFFFFFFF, 255 } };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct rpcrdma_private p = { false, sizes[i].size, 1024 };
		rpcrdma_encode_private(&p, buf);
		assert_int_equal(buf[5], 0);
		assert_int_equal(buf[6], sizes[i].byte);
		assert_int_equal(buf[7], 0);
	}
	buf[4] = 2; /* another version */
	assert_int_equal(rpcrdma_decode_private(buf, sizeof(buf), &back), -EBADMSG);
	buf[4] = 1;
	assert_int_equal(rpcrdma_decode_private(buf, 7, &back), -EBADMSG);
	buf[0] = 0; /* another identifier */
	assert_int_equal(rpcrdma_decode_private(buf, sizeof(buf), &back), -EBADMSG);
	assert_int_equal(rpcrdma_decode_private(NULL, 0, &back), -EBADMSG);
	PROVES("RR2-197");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credit_only),
		cmocka_unit_test(a_call_without_chunks),
		cmocka_unit_test(a_special_call),
		cmocka_unit_test(a_call_with_all_lists),
		cmocka_unit_test(version_1),
		cmocka_unit_test(lists_that_are_wrong),
		cmocka_unit_test(lists_that_are_long),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(errors),
		cmocka_unit_test(unknown_errors),
		cmocka_unit_test(errors_of_a_foreign_version),
		cmocka_unit_test(properties),
		cmocka_unit_test(properties_in_any_order_and_number),
		cmocka_unit_test(properties_with_bad_values),
		cmocka_unit_test(host_authentication),
		cmocka_unit_test(sets_of_properties),
		cmocka_unit_test(private_data),
	};
	return cmocka_run_group_tests_name("rpcrdma: messages", tests, NULL, NULL);
}
