/* SPDX-License-Identifier: MIT */
/* LLC of version 2 (docs/version-2.md). test_captures.c has messages of other implementations. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/smcr/bytes.h"
#include "proto/smcr/llc.h"
#include "tests/lib/hex.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define MAC    "525400000001 "
#define GID    "00000000 00000000 0000FFFF 0A000001 "
#define GID_2  "00000000 00000000 0000FFFF 0A00000B "
#define Z3     "000000 "
#define Z4     "00000000 "
#define Z8     Z4 Z4
#define Z13    Z8 Z4 "00 "
#define Z16    Z8 Z8
#define Z24    Z16 Z8
#define Z35    Z24 Z8 Z3
#define SPEC   "02 000004A2 FF39591A45660000 "
#define NEW    MAC "0000 " GID "000012 02 03 0323F2 " Z8
#define EXT(n) "80 00 " GID Z8 n
#define PAIR   "0000032A 000005C6 FF168C56051B0000 "
#define PAIR_2 "0000032B 000005C7 FF168C56051C0000 "

#define CONFIRM_LINK       "21 2C00 03 " MAC GID "000011 01 00000101 02 FF " Z8
#define CONFIRM_LINK_REPLY "21 2C00 83 " MAC GID "000011 01 00000101 01 20 " Z8
#define ADD_LINK           "22 5800 00 " NEW EXT("0100 ") PAIR
#define ADD_LINK_REPLY     "22 6800 80 " NEW EXT("0200 ") PAIR PAIR_2
#define ADD_LINK_NONE      "22 4800 00 " NEW EXT("0000 ")
#define ADD_LINK_REJECT    "22 2C00 C0 " NEW
#define ADD_LINK_NO_PATH   "22 2C00 C1 " NEW
#define DELETE_LINK        "24 2C00 20 02 00010000 " Z35
#define DELETE_LINK_ALL    "24 2C00 60 00 00020000 " Z35
#define DELETE_UNKNOWN     "24 2C00 A0 02 00200000 " Z35
#define REQUEST            "25 3C00 00 " Z16 Z4 "02 000000 " GID GID_2
#define REQUEST_ONE        "25 2C00 00 " Z16 Z4 "01 000000 " GID
#define REQUEST_NO         "25 2C00 80 " Z24 Z16
#define REQUEST_REJECT     "25 2C00 C1 " Z24 Z16
#define CONFIRM_RKEY       "26 2C00 00 01 00000452 FF39591A45660000 " SPEC Z13 "00"
#define CONFIRM_RKEY_NO    "26 2C00 B0 02 00000452 FF39591A45660000 " SPEC SPEC "00"
#define TEST_LINK          "27 2C00 80 00010203 04050607 08090A0B 0C0D0E0F " Z24
#define DELETE_RKEY        "29 2C00 00 01 00 0000 0000034D " Z24 Z8
#define DELETE_RKEY_REPLY  "29 2C00 80 01 00 0000 00000000 " Z24 Z8
#define DELETE_RKEY_NO     "29 2C00 A0 02 01 0000 0000034D 0000034E " Z24 Z4
#define DELETE_RKEY_NINE   "29 2C00 00 09 00 0000 " Z24 Z8 "0000034F "
#define DELETE_RKEY_TEN    "29 3000 00 0A 00 0000 " Z24 Z8 "0000034F 00000350 "
/* A message of a host with the other byte order. */
#define BIG_TEST_LINK "27 002C 00 " Z16 Z24
#define BIG_ADD_LINK  "22 0058 00 " NEW EXT("0001 ") PAIR

static const uint8_t gid[16] = { [10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1 };
static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

struct wire {
	uint8_t bytes[SMCR_LLC_V2_MAX_LEN + 1];
	size_t len;
};

/* A message and its RTokens. */
struct both {
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
};

static struct wire wire(const char *text)
{
	struct wire w = { { 0 }, 0 };
	w.len = hex_bytes(text, w.bytes, sizeof(w.bytes));
	return w;
}

static int decode(const struct wire *w, struct both *ret)
{
	uint8_t *copy = exact_copy(w->bytes, w->len);
	int rc = smcr_llc_decode_v2(copy, w->len, &ret->msg, &ret->rtokens);
	free(copy);
	return rc;
}

static struct both decoded(const struct wire *w)
{
	struct both both;
	memset(&both, 0, sizeof(both));
	both.rtokens.count = 77; /* must be set to zero if there are none */
	assert_int_equal(decode(w, &both), 0);
	return both;
}

static struct both decoded_text(const char *text)
{
	struct wire w = wire(text);
	return decoded(&w);
}

/* Decoding fails and leaves the output alone. */
static void refused(const struct wire *w, int error)
{
	struct both both;
	struct both before;
	memset(&both, 0xA5, sizeof(both));
	memcpy(&before, &both, sizeof(both));
	assert_int_equal(decode(w, &both), error);
	assert_memory_equal(&both, &before, sizeof(both));
}

static void encodes_to(const struct both *both, const struct wire *w)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX + 1];
	memset(buf, 0x55, sizeof(buf));
	assert_int_equal(smcr_llc_encode_v2(&both->msg, &both->rtokens, buf, sizeof(buf)), w->len);
	assert_memory_equal(buf, w->bytes, w->len);
	assert_int_equal(buf[w->len], 0x55);
	for (size_t room = 0; room < w->len; room++) {
		uint8_t *small = exact_copy(buf, room);
		assert_int_equal(smcr_llc_encode_v2(&both->msg, &both->rtokens, small, room),
				 -ENOBUFS);
		assert_memory_equal(small, buf, room);
		free(small);
	}
}

static const struct {
	const char *text;
	uint8_t type;
	bool reply;
	enum smcr_byte_order order;
} golden[] = {
	{ CONFIRM_LINK, SMCR_LLC_CONFIRM_LINK, false, SMCR_ORDER_LITTLE },
	{ CONFIRM_LINK_REPLY, SMCR_LLC_CONFIRM_LINK, true, SMCR_ORDER_LITTLE },
	{ ADD_LINK, SMCR_LLC_ADD_LINK, false, SMCR_ORDER_LITTLE },
	{ ADD_LINK_REPLY, SMCR_LLC_ADD_LINK, true, SMCR_ORDER_LITTLE },
	{ ADD_LINK_NONE, SMCR_LLC_ADD_LINK, false, SMCR_ORDER_LITTLE },
	{ ADD_LINK_REJECT, SMCR_LLC_ADD_LINK, true, SMCR_ORDER_LITTLE },
	{ ADD_LINK_NO_PATH, SMCR_LLC_ADD_LINK, true, SMCR_ORDER_LITTLE },
	{ DELETE_LINK, SMCR_LLC_DELETE_LINK, false, SMCR_ORDER_LITTLE },
	{ DELETE_LINK_ALL, SMCR_LLC_DELETE_LINK, false, SMCR_ORDER_LITTLE },
	{ DELETE_UNKNOWN, SMCR_LLC_DELETE_LINK, true, SMCR_ORDER_LITTLE },
	{ REQUEST, SMCR_LLC_REQUEST_ADD_LINK, false, SMCR_ORDER_LITTLE },
	{ REQUEST_ONE, SMCR_LLC_REQUEST_ADD_LINK, false, SMCR_ORDER_LITTLE },
	{ REQUEST_NO, SMCR_LLC_REQUEST_ADD_LINK, true, SMCR_ORDER_LITTLE },
	{ REQUEST_REJECT, SMCR_LLC_REQUEST_ADD_LINK, true, SMCR_ORDER_LITTLE },
	{ CONFIRM_RKEY, SMCR_LLC_CONFIRM_RKEY, false, SMCR_ORDER_LITTLE },
	{ CONFIRM_RKEY_NO, SMCR_LLC_CONFIRM_RKEY, true, SMCR_ORDER_LITTLE },
	{ TEST_LINK, SMCR_LLC_TEST_LINK, true, SMCR_ORDER_LITTLE },
	{ DELETE_RKEY, SMCR_LLC_DELETE_RKEY, false, SMCR_ORDER_LITTLE },
	{ DELETE_RKEY_REPLY, SMCR_LLC_DELETE_RKEY, true, SMCR_ORDER_LITTLE },
	{ DELETE_RKEY_NO, SMCR_LLC_DELETE_RKEY, true, SMCR_ORDER_LITTLE },
	{ DELETE_RKEY_NINE, SMCR_LLC_DELETE_RKEY, false, SMCR_ORDER_LITTLE },
	{ DELETE_RKEY_TEN, SMCR_LLC_DELETE_RKEY, false, SMCR_ORDER_LITTLE },
	{ BIG_TEST_LINK, SMCR_LLC_TEST_LINK, false, SMCR_ORDER_BIG },
	{ BIG_ADD_LINK, SMCR_LLC_ADD_LINK, false, SMCR_ORDER_BIG },
};
#define NUM_GOLDEN (sizeof(golden) / sizeof(golden[0]))

/* ---- layouts */

static void golden_messages_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i].text);
		struct both both = decoded(&w);
		assert_int_equal(both.msg.type, golden[i].type);
		assert_int_equal(both.msg.reply, golden[i].reply);
		assert_int_equal(both.msg.order, golden[i].order);
		encodes_to(&both, &w);
	}
}

/* Messages with the form of version 1 decode to the same structures, so that the same code handles
 * them. */
static void bodies_are_those_of_version_1(void **state)
{
	(void)state;
	const char *const texts[] = { CONFIRM_LINK, CONFIRM_LINK_REPLY, ADD_LINK_REJECT,
				      DELETE_LINK,  DELETE_LINK_ALL,    DELETE_UNKNOWN,
				      CONFIRM_RKEY, CONFIRM_RKEY_NO,    TEST_LINK,
				      DELETE_RKEY,  DELETE_RKEY_REPLY };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		TRIES("%s", texts[i]);
		struct wire w = wire(texts[i]);
		struct both v2 = decoded(&w);
		struct smcr_llc_msg v1;
		w.bytes[0] &= 0x0F;
		w.bytes[1] = SMCR_LLC_LEN;
		w.bytes[2] = 0;
		assert_int_equal(smcr_llc_decode(w.bytes, w.len, SMCR_DIALECT_DEPLOYED, &v1), 0);
		v2.msg.order = SMCR_ORDER_UNKNOWN;
		assert_memory_equal(&v2.msg, &v1, sizeof(v1));
		assert_int_equal(v2.rtokens.count, 0);
	}
}

static void confirm_link_fields(void **state)
{
	(void)state;
	struct both both = decoded_text(CONFIRM_LINK_REPLY);
	const struct smcr_llc_confirm_link *m = &both.msg.confirm_link;
	assert_int_equal(m->flags, SMCR_LLC_CONFIRM_LINK_NO_EYE_CATCHER);
	assert_memory_equal(m->gid, gid, sizeof(gid));
	assert_int_equal(m->max_links, 1);
	assert_int_equal(m->max_conns, 32);
}

static void add_link_fields(void **state)
{
	(void)state;
	struct both both = decoded_text(ADD_LINK_REPLY);
	const struct smcr_llc_add_link *m = &both.msg.add_link;
	assert_false(m->reject);
	assert_memory_equal(m->mac, mac, sizeof(mac));
	assert_memory_equal(m->gid, gid, sizeof(gid));
	assert_int_equal(m->qpn, 0x12);
	assert_int_equal(m->link_number, 2);
	assert_int_equal(m->mtu, SMCR_MTU_1024);
	assert_int_equal(m->psn, 0x0323F2);
	assert_true(m->direct);
	assert_memory_equal(m->target_gid, gid, sizeof(gid));
	assert_int_equal(both.rtokens.count, 2);
	assert_int_equal(both.rtokens.pair[0].ref_rkey, 0x32A);
	assert_int_equal(both.rtokens.pair[0].new_rkey, 0x5C6);
	assert_int_equal(both.rtokens.pair[1].ref_rkey, 0x32B);
	assert_true(both.rtokens.pair[1].new_vaddr == UINT64_C(0xFF168C56051C0000));
}

static void request_fields(void **state)
{
	(void)state;
	struct both both = decoded_text(REQUEST);
	const struct smcr_llc_request_add_link *m = &both.msg.request_add_link;
	assert_int_equal(m->num_gids, 2);
	assert_memory_equal(m->gid[0], gid, sizeof(gid));
	assert_int_equal(m->gid[1][15], 11);
	both = decoded_text(REQUEST_NO);
	assert_false(m->reject);
	assert_int_equal(m->num_gids, 0);
	both = decoded_text(REQUEST_REJECT);
	assert_true(m->reject);
	assert_int_equal(m->reject_reason, SMCR_LLC_REJECT_NO_ALT_PATH);
	struct wire w = wire(REQUEST_REJECT);
	w.bytes[3] = 0x41; /* a request cannot reject */
	both = decoded(&w);
	assert_false(m->reject);
	assert_int_equal(m->reject_reason, 0);
	assert_string_equal(smcr_llc_type_name(both.msg.type), "REQUEST ADD LINK");
}

static void delete_rkey_fields(void **state)
{
	(void)state;
	struct wire w = wire(DELETE_RKEY_NO);
	struct both both = decoded(&w);
	const struct smcr_llc_delete_rkey *m = &both.msg.delete_rkey;
	assert_true(m->negative);
	assert_int_equal(m->count, 2);
	assert_int_equal(m->num_invalid, 1);
	assert_int_equal(m->error_mask, 0);
	assert_int_equal(m->rkey[1], 0x34E);
	w.bytes[3] = 0x20; /* in a request neither bit means anything */
	both = decoded(&w);
	assert_false(m->negative);
	assert_int_equal(m->num_invalid, 0);
	both = decoded_text(DELETE_RKEY_TEN);
	assert_int_equal(m->count, 10);
	assert_int_equal(m->rkey[9], 0x350);
}

/* ---- the header */

/* The length field is not used as a length: it tells the sender's byte order, or nothing. */
static void the_header_tells_the_byte_order_only(void **state)
{
	(void)state;
	const char *const texts[] = { TEST_LINK, ADD_LINK, ADD_LINK_REPLY, REQUEST };
	for (size_t i = 0; i < 4; i++) {
		struct wire w = wire(texts[i]);
		struct both plain = decoded(&w);
		for (unsigned int value = 0; value < 0x10000; value += i ? 251 : 1) {
			put_be16(w.bytes + 1, (uint16_t)value);
			struct both both = decoded(&w);
			unsigned int swapped = (value & 0xFF) << 8 | value >> 8;
			assert_int_equal(both.msg.order, value == w.len     ? SMCR_ORDER_BIG
							 : swapped == w.len ? SMCR_ORDER_LITTLE
									    : SMCR_ORDER_UNKNOWN);
			both.msg.order = plain.msg.order;
			assert_memory_equal(&both, &plain, sizeof(plain));
		}
	}
	/* 1028 = 0x0404 is the same in both byte orders. */
	struct wire w = wire(DELETE_RKEY);
	w.len = 8 + 4 * 255;
	w.bytes[4] = 255;
	put_be16(w.bytes + 1, (uint16_t)w.len);
	assert_int_equal(decoded(&w).msg.order, SMCR_ORDER_UNKNOWN);
}

static void sent_in_the_order_of_the_peer(void **state)
{
	(void)state;
	struct both both = decoded_text(ADD_LINK);
	struct wire little = wire(ADD_LINK);
	struct wire big = wire(BIG_ADD_LINK);
	both.msg.order = SMCR_ORDER_BIG;
	encodes_to(&both, &big);
	both.msg.order = SMCR_ORDER_UNKNOWN;
	encodes_to(&both, &little);
	/* The RTokens that are there count, whatever the count says in either byte order. */
	for (unsigned int count = 0; count < 0x10000; count += 17) {
		put_be16(big.bytes + 70, (uint16_t)count);
		assert_int_equal(decoded(&big).rtokens.count, 1);
	}
}

static void types_of_version_2_only(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < 256; type++) {
		struct wire w = wire(TEST_LINK);
		w.bytes[0] = (uint8_t)type;
		bool known = type >= 0x21 && type <= 0x29 && type != 0x23 && type != 0x28;
		if (known) {
			struct both both;
			int rc = decode(&w, &both);
			assert_true(rc == 0 || rc == -EBADMSG);
		} else {
			refused(&w, -EOPNOTSUPP);
		}
		struct both both = decoded_text(DELETE_LINK);
		uint8_t buf[SMCR_LLC_LEN];
		both.msg.type = (uint8_t)type;
		if (type == 0 || type > 9 || type == 3 || type == 8)
			assert_int_equal(smcr_llc_encode_v2(&both.msg, NULL, buf, sizeof(buf)),
					 -EINVAL);
	}
}

/* ---- lengths and counts */

static void short_and_huge_messages_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		struct wire w = wire(golden[i].text);
		for (w.len = 0; w.len < SMCR_LLC_LEN; w.len++)
			refused(&w, -EBADMSG);
		w.len = SMCR_LLC_V2_MAX_LEN + 1;
		refused(&w, -EBADMSG);
	}
}

/* A later release may make messages of 44 bytes longer. */
static void longer_messages_are_understood(void **state)
{
	(void)state;
	const char *const texts[] = { CONFIRM_LINK, ADD_LINK_REJECT, DELETE_LINK, REQUEST,
				      CONFIRM_RKEY, TEST_LINK,       DELETE_RKEY };
	for (size_t i = 0; i < 7; i++) {
		struct wire w = wire(texts[i]);
		struct both plain = decoded(&w);
		memset(w.bytes + w.len, 0xEE, SMCR_LLC_V2_MAX_LEN - w.len);
		plain.msg.order = SMCR_ORDER_UNKNOWN;
		for (w.len++; w.len <= SMCR_LLC_V2_MAX_LEN; w.len += 61) {
			struct both both = decoded(&w);
			assert_memory_equal(&both, &plain, sizeof(plain));
		}
	}
}

static void add_link_lengths(void **state)
{
	(void)state;
	for (size_t len = 44; len <= SMCR_LLC_V2_MAX_LEN; len++) {
		struct wire w = wire(ADD_LINK_NONE);
		size_t count = len < 72 ? 0 : (len - 72) / 16;
		w.len = len;
		if (len == 44) { /* without its extension */
			struct both both = decoded(&w);
			assert_false(both.msg.add_link.direct);
			assert_int_equal(both.msg.add_link.qpn, 0x12);
			assert_int_equal(both.rtokens.count, 0);
		} else if (len < 72 || (len - 72) % 16 || count > 255) {
			refused(&w, -EBADMSG);
		} else {
			struct both both = decoded(&w);
			assert_true(both.msg.add_link.direct);
			assert_int_equal(both.rtokens.count, count);
		}
	}
}

static void the_largest_add_link(void **state)
{
	(void)state;
	struct both both = decoded_text(ADD_LINK);
	struct wire w = { { 0 }, SMCR_LLC_V2_SEND_MAX };
	both.rtokens.count = 255;
	for (unsigned int i = 0; i < 255; i++)
		both.rtokens.pair[i] = (struct smcr_llc_rtoken_pair){ i, i + 1000, i + 1000000 };
	assert_int_equal(smcr_llc_encode_v2(&both.msg, &both.rtokens, w.bytes, sizeof(w.bytes)),
			 w.len);
	assert_int_equal(w.bytes[70], 255);
	assert_int_equal(w.bytes[71], 0);
	struct both again = decoded(&w);
	assert_memory_equal(&again, &both, sizeof(both));
}

static void rejections(void **state)
{
	(void)state;
	struct both both = decoded_text(ADD_LINK_REJECT);
	assert_true(both.msg.add_link.reject);
	assert_int_equal(both.msg.add_link.reject_reason, 0);
	both = decoded_text(ADD_LINK_NO_PATH);
	assert_int_equal(both.msg.add_link.reject_reason, SMCR_LLC_REJECT_NO_ALT_PATH);
	/* A rejection may repeat the whole request. Its RTokens mean nothing. */
	struct wire w = wire(ADD_LINK_REPLY);
	w.bytes[3] = 0xC0;
	both = decoded(&w);
	assert_true(both.msg.add_link.reject);
	assert_int_equal(both.rtokens.count, 0);
	/* The client makes its rejection from the request. */
	both = decoded_text(ADD_LINK);
	both.msg.reply = both.msg.add_link.reject = true;
	struct wire reject = wire(ADD_LINK_REJECT);
	encodes_to(&both, &reject);
	/* A request has no flags. */
	w = wire(ADD_LINK);
	w.bytes[3] = 0x41;
	both = decoded(&w);
	assert_false(both.msg.add_link.reject);
	assert_int_equal(both.msg.add_link.reject_reason, 0);
	assert_int_equal(both.rtokens.count, 1);
}

static void request_lists(void **state)
{
	(void)state;
	for (unsigned int there = 1; there <= 300; there++) {
		struct wire w = wire(REQUEST_ONE);
		for (unsigned int i = 0; i < there; i++)
			memset(w.bytes + 28 + 16 * i, (int)(i & 0xFF), 16);
		w.len = 28 + 16 * there;
		for (unsigned int count = 0; count <= 255; count += 3) {
			unsigned int kept = count < there ? count : there;
			w.bytes[24] = (uint8_t)count;
			w.bytes[3] = 0x80; /* a reply need not repeat the RTokens */
			struct both both = decoded(&w);
			assert_int_equal(both.msg.request_add_link.num_gids, kept < 8 ? kept : 8);
			w.bytes[3] = 0;
			if (count > there) {
				refused(&w, -EBADMSG);
				continue;
			}
			both = decoded(&w);
			assert_int_equal(both.msg.request_add_link.num_gids, count < 8 ? count : 8);
			for (unsigned int i = 0; i < both.msg.request_add_link.num_gids; i++)
				assert_int_equal(both.msg.request_add_link.gid[i][7], i);
		}
	}
}

static void delete_rkey_lists(void **state)
{
	(void)state;
	for (unsigned int there = 9; there <= 300; there += 3) {
		struct wire w = wire(DELETE_RKEY);
		for (unsigned int i = 0; i < there; i++)
			put_be32(w.bytes + 8 + 4 * i, i + 1);
		w.len = 8 + 4 * there;
		for (unsigned int count = 0; count <= 255; count++) {
			struct both both;
			memset(&both, 0, sizeof(both));
			w.bytes[4] = (uint8_t)count;
			w.bytes[3] = 0;
			assert_int_equal(decode(&w, &both),
					 count == 0 || count > there ? -EBADMSG : 0);
			w.bytes[3] = 0x80;
			if (count == 0) {
				refused(&w, -EBADMSG);
				continue;
			}
			both = decoded(&w);
			assert_int_equal(both.msg.delete_rkey.count, count);
			assert_int_equal(both.msg.delete_rkey.rkey[count - 1],
					 count <= there ? count : 0);
		}
	}
	struct both both = decoded_text(DELETE_RKEY);
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	both.msg.delete_rkey.count = 255;
	assert_int_equal(smcr_llc_encode_v2(&both.msg, NULL, buf, sizeof(buf)), 8 + 4 * 255);
}

/* A CONFIRM RKEY with too many RTokens is well formed: it can be refused. */
static void confirm_rkey_counts(void **state)
{
	(void)state;
	for (unsigned int count = 0; count <= 255; count++) {
		struct wire w = wire(CONFIRM_RKEY);
		w.bytes[4] = (uint8_t)count;
		if (count > 8) {
			refused(&w, -EBADMSG);
			continue;
		}
		struct both both = decoded(&w);
		assert_int_equal(both.msg.confirm_rkey.num_tokens, count);
		both.msg.reply = both.msg.confirm_rkey.negative = both.msg.confirm_rkey.retry =
			true;
		uint8_t buf[SMCR_LLC_LEN];
		assert_int_equal(smcr_llc_encode_v2(&both.msg, NULL, buf, sizeof(buf)), 44);
		assert_int_equal(buf[3], 0xB0);
		assert_int_equal(buf[4], count);
	}
}

/* Sets each bit of these bytes in turn: the decoded message stays the same, and smcrd sends the
 * bits as zero. */
static void bits_change_nothing(const char *text, size_t from, size_t to, uint8_t mask)
{
	struct wire w = wire(text);
	struct both plain = decoded(&w);
	for (size_t at = from; at < to; at++) {
		assert_int_equal(w.bytes[at] & mask, 0);
		for (uint8_t bit = 0x80; bit; bit >>= 1) {
			if (!(mask & bit))
				continue;
			w.bytes[at] |= bit;
			struct both both = decoded(&w);
			assert_memory_equal(&both, &plain, sizeof(plain));
			w.bytes[at] &= (uint8_t)~bit;
		}
	}
}

static void reserved_fields_are_ignored(void **state)
{
	(void)state;
	bits_change_nothing(CONFIRM_LINK, 3, 4, 0x7C);
	bits_change_nothing(CONFIRM_LINK, 36, 44, 0xFF);
	bits_change_nothing(ADD_LINK, 3, 4, 0x7F);
	bits_change_nothing(ADD_LINK, 10, 12, 0xFF);
	bits_change_nothing(ADD_LINK, 32, 33, 0xF0);
	bits_change_nothing(ADD_LINK, 36, 44, 0xFF);
	bits_change_nothing(ADD_LINK, 44, 45, 0x7F);
	bits_change_nothing(ADD_LINK, 45, 46, 0xFF);
	bits_change_nothing(ADD_LINK, 62, 70, 0xFF);
	bits_change_nothing(ADD_LINK_REPLY, 3, 4, 0x3F);
	bits_change_nothing(DELETE_LINK, 3, 4, 0x1F);
	bits_change_nothing(DELETE_LINK, 9, 44, 0xFF);
	bits_change_nothing(REQUEST, 3, 4, 0x7F);
	bits_change_nothing(REQUEST, 4, 24, 0xFF);
	bits_change_nothing(REQUEST, 25, 28, 0xFF);
	bits_change_nothing(CONFIRM_RKEY, 3, 4, 0x7F);
	bits_change_nothing(CONFIRM_RKEY, 30, 44, 0xFF);
	bits_change_nothing(TEST_LINK, 3, 4, 0x7F);
	bits_change_nothing(TEST_LINK, 20, 44, 0xFF);
	bits_change_nothing(DELETE_RKEY, 3, 4, 0x7F);
	bits_change_nothing(DELETE_RKEY, 5, 8, 0xFF);
	bits_change_nothing(DELETE_RKEY, 12, 44, 0xFF);
}

/* ---- values that cannot be encoded, and random messages */

static int encode(const struct both *both)
{
	uint8_t buf[SMCR_LLC_V2_SEND_MAX];
	return smcr_llc_encode_v2(&both->msg, &both->rtokens, buf, sizeof(buf));
}

static void messages_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct both both = decoded_text(ADD_LINK);
	both.msg.add_link.qpn = 0x1000000;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(ADD_LINK);
	both.msg.add_link.reject = true; /* a request cannot reject */
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(ADD_LINK_NO_PATH);
	both.msg.add_link.reject_reason = 16;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(REQUEST);
	both.msg.request_add_link.num_gids = 9;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(REQUEST);
	both.msg.request_add_link.reject = true;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(REQUEST_NO);
	both.msg.request_add_link.reject_reason = 1; /* a reason without a rejection */
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(REQUEST_REJECT);
	both.msg.request_add_link.reject_reason = 16;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(DELETE_RKEY);
	both.msg.delete_rkey.count = 0;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(DELETE_RKEY);
	both.msg.delete_rkey.num_invalid = 1;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(DELETE_RKEY);
	both.msg.delete_rkey.negative = true;
	assert_int_equal(encode(&both), -EINVAL);
	both = decoded_text(CONFIRM_RKEY);
	both.msg.confirm_rkey.num_tokens = 9;
	assert_int_equal(encode(&both), -EINVAL);
}

static struct both random_add_link(struct random *r)
{
	struct both both;
	memset(&both, 0, sizeof(both));
	struct smcr_llc_add_link *m = &both.msg.add_link;
	both.msg.type = SMCR_LLC_ADD_LINK;
	both.msg.reply = random_below(r, 2);
	m->reject = both.msg.reply && random_below(r, 2);
	m->reject_reason = m->reject ? (uint8_t)random_below(r, 16) : 0;
	random_bytes(r, m->mac, sizeof(m->mac));
	random_bytes(r, m->gid, sizeof(m->gid));
	m->qpn = random_below(r, 1u << 24);
	m->link_number = (uint8_t)random_u64(r);
	m->mtu = (uint8_t)random_below(r, 16);
	m->psn = random_below(r, 1u << 24);
	if (m->reject)
		return both;
	m->direct = random_below(r, 2);
	random_bytes(r, m->target_gid, sizeof(m->target_gid));
	both.rtokens.count = (uint8_t)random_u64(r);
	for (unsigned int i = 0; i < both.rtokens.count; i++)
		both.rtokens.pair[i] =
			(struct smcr_llc_rtoken_pair){ (uint32_t)random_u64(r),
						       (uint32_t)random_u64(r), random_u64(r) };
	return both;
}

static struct both random_list(struct random *r)
{
	struct both both;
	memset(&both, 0, sizeof(both));
	both.msg.reply = random_below(r, 2);
	if (random_below(r, 2)) {
		struct smcr_llc_request_add_link *m = &both.msg.request_add_link;
		both.msg.type = SMCR_LLC_REQUEST_ADD_LINK;
		m->num_gids = (uint8_t)random_below(r, 9);
		random_bytes(r, m->gid, 16u * m->num_gids);
	} else {
		struct smcr_llc_delete_rkey *m = &both.msg.delete_rkey;
		both.msg.type = SMCR_LLC_DELETE_RKEY;
		m->negative = both.msg.reply && random_below(r, 2);
		m->num_invalid = both.msg.reply ? (uint8_t)random_u64(r) : 0;
		m->count = (uint8_t)(1 + random_below(r, 255));
		for (unsigned int i = 0; i < m->count; i++)
			m->rkey[i] = (uint32_t)random_u64(r);
	}
	return both;
}

static void random_messages_round_trip(void **state)
{
	(void)state;
	struct random random = { 3 };
	for (int i = 0; i < 5000; i++) {
		struct both both = i % 2 ? random_add_link(&random) : random_list(&random);
		struct wire w = { { 0 }, 0 };
		both.msg.order = random_below(&random, 2) ? SMCR_ORDER_BIG : SMCR_ORDER_LITTLE;
		int len = smcr_llc_encode_v2(&both.msg, &both.rtokens, w.bytes, sizeof(w.bytes));
		assert_true(len >= SMCR_LLC_LEN);
		w.len = (size_t)len;
		struct both again = decoded(&w);
		if (len >> 8 == (len & 0xFF)) /* the same in both byte orders */
			again.msg.order = both.msg.order;
		assert_memory_equal(&again, &both, sizeof(both));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages_round_trip),
		cmocka_unit_test(bodies_are_those_of_version_1),
		cmocka_unit_test(confirm_link_fields),
		cmocka_unit_test(add_link_fields),
		cmocka_unit_test(request_fields),
		cmocka_unit_test(delete_rkey_fields),
		cmocka_unit_test(the_header_tells_the_byte_order_only),
		cmocka_unit_test(sent_in_the_order_of_the_peer),
		cmocka_unit_test(types_of_version_2_only),
		cmocka_unit_test(short_and_huge_messages_are_refused),
		cmocka_unit_test(longer_messages_are_understood),
		cmocka_unit_test(add_link_lengths),
		cmocka_unit_test(the_largest_add_link),
		cmocka_unit_test(rejections),
		cmocka_unit_test(request_lists),
		cmocka_unit_test(delete_rkey_lists),
		cmocka_unit_test(confirm_rkey_counts),
		cmocka_unit_test(reserved_fields_are_ignored),
		cmocka_unit_test(messages_out_of_range_are_not_encoded),
		cmocka_unit_test(random_messages_round_trip),
	};
	return cmocka_run_group_tests_name("llc_v2", tests, NULL, NULL);
}
