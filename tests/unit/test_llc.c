/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/llc.h"
#include "tests/lib/hex.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define RFC      SMCR_DIALECT_RFC
#define DEPLOYED SMCR_DIALECT_DEPLOYED

#define MAC  "525400000001 "
#define GID  "00000000 00000000 0000FFFF 0A000001 "
#define Z3   "000000 "
#define Z4   "00000000 "
#define Z8   Z4 Z4
#define Z9   Z8 "00 "
#define Z13  Z8 Z4 "00 "
#define Z16  Z8 Z8
#define Z24  Z16 Z8
#define Z35  Z24 Z8 Z3
#define PAIR "0000035A 0000038C FF27D8F8C43C0000 "
#define SPEC "02 000004A2 FF39591A45660000 "

/* QPN 000011, link 1, user ID 00000101, two links. */
#define CONFIRM_LINK       "01 2C 00 03 " MAC GID "000011 01 00000101 02 " Z9
#define CONFIRM_LINK_REPLY "01 2C 00 83 " MAC GID "000011 01 00000101 02 FF " Z8
#define ADD_LINK_RFC       "02 2C 00 00 " MAC GID "000012 02 03 0323F2 " Z8 "0000 "
#define ADD_LINK_DEPLOYED  "02 2C 00 00 " MAC "0000 " GID "000012 02 03 0323F2 " Z8
#define ADD_LINK_REJECT    "02 2C 02 C0 " MAC GID "000012 02 0F 0323F2 " Z8 "0000 "
#define ADD_LINK_NOTICE    "02 2C 00 00 " MAC GID Z3 "00 00 " Z3 Z8 "0000 "
#define CONT_EMPTY         "03 2C 00 00 02 00 0000 " Z16 Z16 Z4
#define CONT_ONE           "03 2C 00 80 02 01 0000 " PAIR Z16 Z4
#define CONT_MANY          "03 2C 00 00 02 FF 0000 " PAIR PAIR Z4
#define DELETE_LINK        "04 2C 00 20 02 00020000 " Z35
#define DELETE_LINK_ALL    "04 2C 00 40 00 00030000 " Z35
#define DELETE_UNKNOWN     "04 2C 00 80 02 00100000 " Z35
#define CONFIRM_RKEY_ONE   "06 2C 00 00 00 0000032A FF168C56051B0000 " Z13 Z13 "00"
#define CONFIRM_RKEY_TWO   "06 2C 00 80 01 00000452 FF39591A45660000 " SPEC Z13 "00"
#define CONFIRM_RKEY_MANY  "06 2C 00 00 08 00000452 FF39591A45660000 " SPEC SPEC "00"
#define CONFIRM_RKEY_NO    "06 2C 00 B0 02 00000452 FF39591A45660000 " SPEC SPEC "00"
#define RKEY_CONT_ONE      "08 2C 00 00 01 " SPEC Z13 Z13
#define RKEY_CONT_MANY     "08 2C 00 80 06 " SPEC SPEC SPEC
#define RKEY_CONT_NO       "08 2C 00 A0 02 " SPEC SPEC Z13
#define DELETE_RKEY_ONE    "09 2C 00 00 01 00 0000 0000034D " Z24 Z4 Z4
#define DELETE_RKEY_NO     "09 2C 00 A0 02 40 0000 0000034D 0000034E " Z24 Z4
#define TEST_LINK          "07 2C 00 80 00010203 04050607 08090A0B 0C0D0E0F " Z24

static const uint8_t gid[16] = { [10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1 };
static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

struct wire {
	uint8_t bytes[SMCR_LLC_LEN];
};

static struct wire wire(const char *text)
{
	struct wire w;
	assert_int_equal(hex_bytes(text, w.bytes, sizeof(w.bytes)), sizeof(w.bytes));
	return w;
}

static int decode(const struct wire *w, size_t len, enum smcr_dialect dialect,
		  struct smcr_llc_msg *ret_msg)
{
	uint8_t *copy = exact_copy(w->bytes, len);
	int rc = smcr_llc_decode(copy, len, dialect, ret_msg);
	free(copy);
	return rc;
}

static struct smcr_llc_msg decoded(const struct wire *w, enum smcr_dialect dialect)
{
	struct smcr_llc_msg msg = { 0 };
	assert_int_equal(decode(w, sizeof(w->bytes), dialect, &msg), 0);
	return msg;
}

static struct smcr_llc_msg decoded_text(const char *text)
{
	struct wire w = wire(text);
	return decoded(&w, RFC);
}

/* Decoding fails in both dialects and leaves the output alone. */
static void refused(const struct wire *w, size_t len, int error)
{
	struct smcr_llc_msg msg;
	struct smcr_llc_msg before;
	memset(&msg, 0xA5, sizeof(msg));
	memcpy(&before, &msg, sizeof(msg));
	assert_int_equal(decode(w, len, RFC, &msg), error);
	assert_int_equal(decode(w, len, DEPLOYED, &msg), error);
	assert_memory_equal(&msg, &before, sizeof(msg));
}

static void refused_with(const char *text, size_t at, uint8_t value)
{
	struct wire w = wire(text);
	w.bytes[at] = value;
	refused(&w, sizeof(w.bytes), -EBADMSG);
}

static const struct {
	const char *text;
	uint8_t type;
	bool reply;
	enum smcr_dialect dialect;
} golden[] = {
	{ CONFIRM_LINK, SMCR_LLC_CONFIRM_LINK, false, RFC },
	{ CONFIRM_LINK_REPLY, SMCR_LLC_CONFIRM_LINK, true, DEPLOYED },
	{ ADD_LINK_RFC, SMCR_LLC_ADD_LINK, false, RFC },
	{ ADD_LINK_DEPLOYED, SMCR_LLC_ADD_LINK, false, DEPLOYED },
	{ ADD_LINK_REJECT, SMCR_LLC_ADD_LINK, true, RFC },
	{ ADD_LINK_NOTICE, SMCR_LLC_ADD_LINK, false, RFC },
	{ CONT_EMPTY, SMCR_LLC_ADD_LINK_CONT, false, RFC },
	{ CONT_ONE, SMCR_LLC_ADD_LINK_CONT, true, DEPLOYED },
	{ CONT_MANY, SMCR_LLC_ADD_LINK_CONT, false, RFC },
	{ DELETE_LINK, SMCR_LLC_DELETE_LINK, false, RFC },
	{ DELETE_LINK_ALL, SMCR_LLC_DELETE_LINK, false, RFC },
	{ DELETE_UNKNOWN, SMCR_LLC_DELETE_LINK, true, RFC },
	{ CONFIRM_RKEY_ONE, SMCR_LLC_CONFIRM_RKEY, false, RFC },
	{ CONFIRM_RKEY_TWO, SMCR_LLC_CONFIRM_RKEY, true, RFC },
	{ CONFIRM_RKEY_MANY, SMCR_LLC_CONFIRM_RKEY, false, RFC },
	{ CONFIRM_RKEY_NO, SMCR_LLC_CONFIRM_RKEY, true, RFC },
	{ RKEY_CONT_ONE, SMCR_LLC_CONFIRM_RKEY_CONT, false, RFC },
	{ RKEY_CONT_MANY, SMCR_LLC_CONFIRM_RKEY_CONT, true, RFC },
	{ RKEY_CONT_NO, SMCR_LLC_CONFIRM_RKEY_CONT, true, RFC },
	{ DELETE_RKEY_ONE, SMCR_LLC_DELETE_RKEY, false, RFC },
	{ DELETE_RKEY_NO, SMCR_LLC_DELETE_RKEY, true, RFC },
	{ TEST_LINK, SMCR_LLC_TEST_LINK, true, RFC },
};
#define NUM_GOLDEN (sizeof(golden) / sizeof(golden[0]))

/* ---- layouts */

static void golden_messages_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i].text);
		struct smcr_llc_msg msg = decoded(&w, golden[i].dialect);
		assert_int_equal(msg.type, golden[i].type);
		assert_int_equal(msg.reply, golden[i].reply);
		assert_int_equal(w.bytes[1], 44);
		uint8_t buf[SMCR_LLC_LEN + 1];
		memset(buf, 0x55, sizeof(buf));
		assert_int_equal(smcr_llc_encode(&msg, golden[i].dialect, buf, sizeof(buf)), 44);
		assert_memory_equal(buf, w.bytes, sizeof(w.bytes));
		assert_int_equal(buf[44], 0x55);
	}
	PROVES("LLC-1 LLC-2");
}

static void confirm_link_fields(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(CONFIRM_LINK_REPLY);
	const struct smcr_llc_confirm_link *m = &msg.confirm_link;
	assert_int_equal(m->flags, 3);
	assert_memory_equal(m->mac, mac, sizeof(mac));
	assert_memory_equal(m->gid, gid, sizeof(gid));
	assert_int_equal(m->qpn, 0x11);
	assert_int_equal(m->link_number, 1);
	assert_int_equal(m->link_user_id, 0x101);
	assert_int_equal(m->max_links, 2);
	assert_int_equal(m->max_conns, 255);
}

static void check_add_link(const char *text, enum smcr_dialect dialect)
{
	struct wire w = wire(text);
	struct smcr_llc_msg msg = decoded(&w, dialect);
	const struct smcr_llc_add_link *m = &msg.add_link;
	assert_false(m->reject);
	assert_int_equal(m->reject_reason, 0);
	assert_memory_equal(m->mac, mac, sizeof(mac));
	assert_memory_equal(m->gid, gid, sizeof(gid));
	assert_int_equal(m->qpn, 0x12);
	assert_int_equal(m->link_number, 2);
	assert_int_equal(m->mtu, SMCR_MTU_1024);
	assert_int_equal(m->psn, 0x0323F2);
}

static void add_link_fields_depend_on_the_dialect(void **state)
{
	(void)state;
	check_add_link(ADD_LINK_RFC, RFC);
	check_add_link(ADD_LINK_DEPLOYED, DEPLOYED);
	/* All other messages are the same in both dialects. */
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i].text);
		if (golden[i].type == SMCR_LLC_ADD_LINK)
			continue;
		struct smcr_llc_msg a = decoded(&w, RFC);
		struct smcr_llc_msg b = decoded(&w, DEPLOYED);
		assert_memory_equal(&a, &b, sizeof(a));
	}
}

static void rejections_carry_a_reason_in_replies_only(void **state)
{
	(void)state;
	struct wire w = wire(ADD_LINK_REJECT);
	struct smcr_llc_msg msg = decoded(&w, RFC);
	assert_true(msg.add_link.reject);
	assert_int_equal(msg.add_link.reject_reason, SMCR_LLC_REJECT_INVALID_MTU);
	assert_int_equal(msg.add_link.mtu, 15); /* reserved codes are passed on */
	w.bytes[3] = 0x40; /* in a request neither Z nor the reason means anything */
	msg = decoded(&w, RFC);
	assert_false(msg.add_link.reject);
	assert_int_equal(msg.add_link.reject_reason, 0);
	w.bytes[3] = 0x80; /* an accepting reply has no reason */
	msg = decoded(&w, RFC);
	assert_false(msg.add_link.reject);
	assert_int_equal(msg.add_link.reject_reason, 0);
}

static void add_link_continuation_fields(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(CONT_MANY);
	assert_int_equal(msg.add_link_cont.link_number, 2);
	assert_int_equal(msg.add_link_cont.num_rtokens, 255);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(msg.add_link_cont.pair[i].ref_rkey, 0x35A);
		assert_int_equal(msg.add_link_cont.pair[i].new_rkey, 0x38C);
		assert_true(msg.add_link_cont.pair[i].new_vaddr == UINT64_C(0xFF27D8F8C43C0000));
	}
	/* Pairs beyond the count are ignored. */
	struct wire w = wire(CONT_MANY);
	w.bytes[5] = 1;
	msg = decoded(&w, RFC);
	assert_int_equal(msg.add_link_cont.pair[0].new_rkey, 0x38C);
	assert_int_equal(msg.add_link_cont.pair[1].new_rkey, 0);
}

/** A message has two pairs, however many are still to send. What lies behind them in memory does
 * not go to the peer. */
static void add_link_continuation_carries_two_pairs(void **state)
{
	(void)state;
	const size_t end = offsetof(struct smcr_llc_msg, add_link_cont.pair) +
			   sizeof(((struct smcr_llc_msg *)NULL)->add_link_cont.pair);
	struct wire w = wire(CONT_MANY);
	struct smcr_llc_msg msg = decoded(&w, RFC);
	uint8_t buf[SMCR_LLC_LEN];
	assert_true(end < sizeof(msg));
	memset((uint8_t *)&msg + end, 0xFF, sizeof(msg) - end);
	assert_int_equal(smcr_llc_encode(&msg, RFC, buf, sizeof(buf)), SMCR_LLC_LEN);
	assert_memory_equal(buf, w.bytes, sizeof(buf));
}

static void delete_link_fields(void **state)
{
	(void)state;
	struct wire w = wire(DELETE_LINK);
	struct smcr_llc_msg msg = decoded(&w, RFC);
	assert_true(msg.delete_link.orderly);
	assert_false(msg.delete_link.all);
	assert_int_equal(msg.delete_link.link_number, 2);
	assert_int_equal(msg.delete_link.reason, SMCR_LLC_DEL_OPERATOR);
	/* With A set the link number is 0, and ignored. */
	w = wire(DELETE_LINK_ALL);
	w.bytes[4] = 7;
	msg = decoded(&w, RFC);
	assert_true(msg.delete_link.all);
	assert_int_equal(msg.delete_link.link_number, 0);
	msg.delete_link.link_number = 7;
	uint8_t buf[SMCR_LLC_LEN];
	assert_int_equal(smcr_llc_encode(&msg, RFC, buf, sizeof(buf)), 44);
	assert_int_equal(buf[4], 0);
}

static void check_spec(const struct smcr_llc_link_rtoken *spec)
{
	assert_int_equal(spec->link_number, 2);
	assert_int_equal(spec->rkey, 0x4A2);
	assert_true(spec->vaddr == UINT64_C(0xFF39591A45660000));
}

static void confirm_rkey_fields(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(CONFIRM_RKEY_MANY);
	assert_int_equal(msg.confirm_rkey.num_tokens, 8);
	assert_int_equal(msg.confirm_rkey.rkey, 0x452);
	assert_true(msg.confirm_rkey.vaddr == UINT64_C(0xFF39591A45660000));
	check_spec(&msg.confirm_rkey.other[0]);
	check_spec(&msg.confirm_rkey.other[1]);
	assert_false(msg.confirm_rkey.negative);

	struct wire w = wire(CONFIRM_RKEY_NO);
	msg = decoded(&w, RFC);
	assert_true(msg.confirm_rkey.negative);
	assert_true(msg.confirm_rkey.retry);
	w.bytes[3] = 0x30; /* in a request these bits mean nothing */
	msg = decoded(&w, RFC);
	assert_false(msg.confirm_rkey.negative);
	assert_false(msg.confirm_rkey.retry);

	msg = decoded_text(RKEY_CONT_MANY);
	assert_int_equal(msg.confirm_rkey_cont.num_left, 6);
	for (int i = 0; i < 3; i++)
		check_spec(&msg.confirm_rkey_cont.other[i]);
	msg = decoded_text(RKEY_CONT_NO);
	assert_true(msg.confirm_rkey_cont.negative);
	check_spec(&msg.confirm_rkey_cont.other[1]);
	assert_int_equal(msg.confirm_rkey_cont.other[2].link_number, 0);
	PROVES("RKEY-3");
}

static void delete_rkey_fields(void **state)
{
	(void)state;
	struct wire w = wire(DELETE_RKEY_NO);
	struct smcr_llc_msg msg = decoded(&w, RFC);
	assert_true(msg.delete_rkey.negative);
	assert_int_equal(msg.delete_rkey.count, 2);
	assert_int_equal(msg.delete_rkey.error_mask, 0x40);
	assert_int_equal(msg.delete_rkey.rkey[0], 0x34D);
	assert_int_equal(msg.delete_rkey.rkey[1], 0x34E);
	assert_int_equal(msg.delete_rkey.rkey[2], 0);
	w.bytes[3] = 0x20; /* a request has no mask of links */
	msg = decoded(&w, RFC);
	assert_false(msg.delete_rkey.negative);
	assert_int_equal(msg.delete_rkey.error_mask, 0);
}

static void test_link_fields(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(TEST_LINK);
	for (unsigned int i = 0; i < 16; i++)
		assert_int_equal(msg.test_link.user_data[i], i);
}

/* ---- refusals */

static void every_other_length_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		struct wire w = wire(golden[i].text);
		for (size_t len = 0; len < SMCR_LLC_LEN; len++)
			refused(&w, len, -EBADMSG);
		for (unsigned int length_byte = 0; length_byte < 256; length_byte++)
			if (length_byte != 44)
				refused_with(golden[i].text, 1, (uint8_t)length_byte);
	}
	uint8_t longer[SMCR_LLC_LEN + 1] = { SMCR_LLC_TEST_LINK, 44 };
	struct smcr_llc_msg msg;
	assert_int_equal(smcr_llc_decode(longer, sizeof(longer), RFC, &msg), -EBADMSG);
}

static void unknown_types_by_their_class(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < 256; type++) {
		struct wire w = wire(TEST_LINK);
		w.bytes[0] = (uint8_t)type;
		if (type >= 1 && type <= 9 && type != 5) {
			struct smcr_llc_msg msg;
			int rc = decode(&w, sizeof(w.bytes), RFC, &msg);
			assert_true(rc == 0 || rc == -EBADMSG);
			assert_string_not_equal(smcr_llc_type_name((uint8_t)type), "unknown");
		} else {
			refused(&w, sizeof(w.bytes), type >> 6 == 2 ? -EOPNOTSUPP : -EPROTO);
		}
	}
	/* Messages of an optional type may have another length byte. */
	struct wire w = wire(TEST_LINK);
	w.bytes[0] = 0x81;
	w.bytes[1] = 17;
	refused(&w, sizeof(w.bytes), -EOPNOTSUPP);
}

static void counts_are_checked(void **state)
{
	(void)state;
	for (unsigned int count = 0; count < 256; count++) {
		uint8_t value = (uint8_t)count;
		if (count > 8)
			refused_with(CONFIRM_RKEY_MANY, 4, value);
		if (count < 1 || count > 6)
			refused_with(RKEY_CONT_MANY, 4, value);
		if (count < 1 || count > 8)
			refused_with(DELETE_RKEY_ONE, 4, value);
	}
	struct wire w = wire(DELETE_RKEY_ONE);
	w.bytes[4] = 8;
	assert_int_equal(decoded(&w, RFC).delete_rkey.count, 8);
}

/* Sets each bit of these bytes in turn: the decoded message stays the same, and smcrd sends the
 * bits as zero. */
static void bits_change_nothing(const char *text, enum smcr_dialect dialect, size_t from, size_t to,
				uint8_t mask)
{
	struct wire w = wire(text);
	struct smcr_llc_msg plain = decoded(&w, dialect);
	for (size_t at = from; at < to; at++) {
		assert_int_equal(w.bytes[at] & mask, 0);
		for (uint8_t bit = 0x80; bit; bit >>= 1) {
			if (!(mask & bit))
				continue;
			w.bytes[at] |= bit;
			struct smcr_llc_msg msg = decoded(&w, dialect);
			assert_memory_equal(&msg, &plain, sizeof(msg));
			w.bytes[at] &= (uint8_t)~bit;
		}
	}
}

static void reserved_fields_are_ignored(void **state)
{
	(void)state;
	bits_change_nothing(CONFIRM_LINK, RFC, 2, 3, 0xFF);
	bits_change_nothing(CONFIRM_LINK, RFC, 3, 4, 0x7C);
	bits_change_nothing(CONFIRM_LINK, RFC, 36, 44, 0xFF);
	bits_change_nothing(ADD_LINK_RFC, RFC, 2, 3, 0xFF);
	bits_change_nothing(ADD_LINK_RFC, RFC, 3, 4, 0x7F);
	bits_change_nothing(ADD_LINK_RFC, RFC, 30, 31, 0xF0);
	bits_change_nothing(ADD_LINK_RFC, RFC, 34, 44, 0xFF);
	bits_change_nothing(ADD_LINK_DEPLOYED, DEPLOYED, 10, 12, 0xFF);
	bits_change_nothing(ADD_LINK_DEPLOYED, DEPLOYED, 32, 33, 0xF0);
	bits_change_nothing(ADD_LINK_DEPLOYED, DEPLOYED, 36, 44, 0xFF);
	bits_change_nothing(ADD_LINK_REJECT, RFC, 2, 3, 0xF0);
	bits_change_nothing(CONT_EMPTY, RFC, 2, 4, 0x7F);
	bits_change_nothing(CONT_EMPTY, RFC, 6, 44, 0xFF);
	bits_change_nothing(CONT_ONE, RFC, 24, 44, 0xFF);
	bits_change_nothing(DELETE_LINK, RFC, 2, 3, 0xFF);
	bits_change_nothing(DELETE_LINK, RFC, 3, 4, 0x1F);
	bits_change_nothing(DELETE_LINK, RFC, 9, 44, 0xFF);
	bits_change_nothing(CONFIRM_RKEY_ONE, RFC, 2, 4, 0x7F);
	bits_change_nothing(CONFIRM_RKEY_ONE, RFC, 17, 44, 0xFF);
	bits_change_nothing(CONFIRM_RKEY_MANY, RFC, 43, 44, 0xFF);
	bits_change_nothing(RKEY_CONT_ONE, RFC, 2, 4, 0x7F);
	bits_change_nothing(RKEY_CONT_ONE, RFC, 18, 44, 0xFF);
	bits_change_nothing(DELETE_RKEY_ONE, RFC, 2, 4, 0x7F);
	bits_change_nothing(DELETE_RKEY_ONE, RFC, 5, 8, 0xFF);
	bits_change_nothing(DELETE_RKEY_ONE, RFC, 12, 44, 0xFF);
	bits_change_nothing(TEST_LINK, RFC, 2, 3, 0xFF);
	bits_change_nothing(TEST_LINK, RFC, 3, 4, 0x7F);
	bits_change_nothing(TEST_LINK, RFC, 20, 44, 0xFF);
	PROVES("LLC-2");
}

/* ---- what cannot be encoded, and random messages */

static int encode(const struct smcr_llc_msg *msg)
{
	uint8_t buf[SMCR_LLC_LEN];
	return smcr_llc_encode(msg, RFC, buf, sizeof(buf));
}

static void messages_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(CONFIRM_LINK);
	msg.confirm_link.qpn = 0x1000000;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(CONFIRM_LINK);
	msg.confirm_link.flags = 4;
	assert_int_equal(encode(&msg), -EINVAL);

	const struct smcr_llc_msg add_link = decoded_text(ADD_LINK_RFC);
	struct smcr_llc_msg bad[6] = { add_link, add_link, add_link, add_link, add_link, add_link };
	bad[0].add_link.qpn = 0x1000000;
	bad[1].add_link.psn = 0x1000000;
	bad[2].add_link.mtu = 16;
	bad[3].add_link.reject = true; /* in a request */
	bad[4].reply = true;
	bad[4].add_link.reject_reason = 1; /* without Z */
	bad[5].reply = true;
	bad[5].add_link.reject = true;
	bad[5].add_link.reject_reason = 16;
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(encode(&bad[i]), -EINVAL);

	msg = decoded_text(CONFIRM_RKEY_ONE);
	msg.confirm_rkey.num_tokens = 9;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(CONFIRM_RKEY_ONE);
	msg.confirm_rkey.negative = true;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(CONFIRM_RKEY_ONE);
	msg.confirm_rkey.retry = true;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(RKEY_CONT_ONE);
	msg.confirm_rkey_cont.num_left = 0;
	assert_int_equal(encode(&msg), -EINVAL);
	msg.confirm_rkey_cont.num_left = 7;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(RKEY_CONT_ONE);
	msg.confirm_rkey_cont.negative = true;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(DELETE_RKEY_ONE);
	msg.delete_rkey.count = 0;
	assert_int_equal(encode(&msg), -EINVAL);
	msg.delete_rkey.count = 9;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(DELETE_RKEY_ONE);
	msg.delete_rkey.error_mask = 0x80;
	assert_int_equal(encode(&msg), -EINVAL);
	msg = decoded_text(DELETE_RKEY_ONE);
	msg.delete_rkey.negative = true;
	assert_int_equal(encode(&msg), -EINVAL);

	const uint8_t no_types[] = { 0, 5, 10, 0x22, 0x81, 0xFE, 0xFF };
	for (size_t i = 0; i < sizeof(no_types); i++) {
		TRIES("row %zu", i);
		msg.type = no_types[i];
		assert_int_equal(encode(&msg), -EINVAL);
	}
}

static void encoding_needs_room_and_writes_nothing_else(void **state)
{
	(void)state;
	struct smcr_llc_msg msg = decoded_text(TEST_LINK);
	uint8_t buf[SMCR_LLC_LEN];
	memset(buf, 0x55, sizeof(buf));
	for (size_t len = 0; len < SMCR_LLC_LEN; len++)
		assert_int_equal(smcr_llc_encode(&msg, RFC, buf, len), -ENOBUFS);
	msg.type = 5;
	assert_int_equal(smcr_llc_encode(&msg, RFC, buf, sizeof(buf)), -EINVAL);
	for (size_t i = 0; i < sizeof(buf); i++)
		assert_int_equal(buf[i], 0x55);
}

/* Whatever decodes encodes to bytes that decode to the same. */
static void random_messages_round_trip(void **state)
{
	(void)state;
	static const uint8_t types[] = { 1, 2, 3, 4, 6, 7, 8, 9 };
	struct random random = { 2 };
	unsigned int sound = 0;
	for (int i = 0; i < 40000; i++) {
		struct wire w;
		random_bytes(&random, w.bytes, sizeof(w.bytes));
		w.bytes[0] = types[random_below(&random, sizeof(types))];
		w.bytes[1] = 44;
		w.bytes[4] &= 0x0F; /* so that most counts are in range */
		enum smcr_dialect dialect = random_below(&random, 2) ? RFC : DEPLOYED;
		struct smcr_llc_msg msg = { 0 };
		if (decode(&w, sizeof(w.bytes), dialect, &msg) < 0)
			continue;
		sound++;
		struct wire again;
		assert_int_equal(smcr_llc_encode(&msg, dialect, again.bytes, 44), 44);
		struct smcr_llc_msg second = decoded(&again, dialect);
		assert_memory_equal(&second, &msg, sizeof(msg));
	}
	assert_true(sound > 30000);
}

static void types_have_names(void **state)
{
	(void)state;
	assert_string_equal(smcr_llc_type_name(1), "CONFIRM LINK");
	assert_string_equal(smcr_llc_type_name(2), "ADD LINK");
	assert_string_equal(smcr_llc_type_name(3), "ADD LINK CONTINUATION");
	assert_string_equal(smcr_llc_type_name(4), "DELETE LINK");
	assert_string_equal(smcr_llc_type_name(6), "CONFIRM RKEY");
	assert_string_equal(smcr_llc_type_name(7), "TEST LINK");
	assert_string_equal(smcr_llc_type_name(8), "CONFIRM RKEY CONTINUATION");
	assert_string_equal(smcr_llc_type_name(9), "DELETE RKEY");
	assert_string_equal(smcr_llc_type_name(0xFE), "CDC");
	assert_string_equal(smcr_llc_type_name(0), "unknown");
	assert_string_equal(smcr_llc_type_name(5), "REQUEST ADD LINK"); /* version 2 */
	assert_string_equal(smcr_llc_type_name(10), "unknown");
	assert_string_equal(smcr_llc_type_name(255), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages_round_trip),
		cmocka_unit_test(confirm_link_fields),
		cmocka_unit_test(add_link_fields_depend_on_the_dialect),
		cmocka_unit_test(rejections_carry_a_reason_in_replies_only),
		cmocka_unit_test(add_link_continuation_fields),
		cmocka_unit_test(add_link_continuation_carries_two_pairs),
		cmocka_unit_test(delete_link_fields),
		cmocka_unit_test(confirm_rkey_fields),
		cmocka_unit_test(delete_rkey_fields),
		cmocka_unit_test(test_link_fields),
		cmocka_unit_test(every_other_length_is_refused),
		cmocka_unit_test(unknown_types_by_their_class),
		cmocka_unit_test(counts_are_checked),
		cmocka_unit_test(reserved_fields_are_ignored),
		cmocka_unit_test(messages_out_of_range_are_not_encoded),
		cmocka_unit_test(encoding_needs_room_and_writes_nothing_else),
		cmocka_unit_test(random_messages_round_trip),
		cmocka_unit_test(types_have_names),
	};
	return cmocka_run_group_tests_name("llc", tests, NULL, NULL);
}
