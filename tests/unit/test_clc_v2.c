/* SPDX-License-Identifier: MIT */
/* CLC of version 2 (docs/version-2.md). test_captures.c has messages of other implementations. */
#include "proto/smcr/bytes.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"
#include "tests/unit/clc_wire.h"

#define Z4     "00000000 "
#define Z8     Z4 Z4
#define Z12    Z8 Z4
#define BLANK8 "2020202020202020 "
#define SMCLAB "534D434C4142 2020 " BLANK8 BLANK8 BLANK8
#define ZZ9    "5A5A2E39 20202020 " BLANK8 BLANK8 BLANK8
#define HOST   "686F737431202020 " BLANK8 BLANK8 BLANK8

/* The 40 bytes that version 2 adds: GID and CHID of SMC-D, offset of the extension, vendor,
 * reserved. */
#define AREA(offset) Z8 "0000 " offset Z8 Z8 Z8 Z4
/* One EID, release 1, GID, 255 connections, 2 links, no feature. */
#define EXTENSION "01 00 00 10 " Z4 GID "FF 02 0000 " Z12 SMCLAB

#define PROPOSAL_R2 EYE "01 009C 22 " PEER_ID GID MAC "0000 " AREA("001C ") EXTENSION EYE
#define PROPOSAL_R1R2                                                                              \
	EYE "01 00A4 20 " PEER_ID GID MAC "0028 " AREA("0024 ") "0A000000 18 0000 00 " EXTENSION EYE
#define PROPOSAL_PREFIX                                                                            \
	EYE "01 00B5 20 " PEER_ID GID MAC                                                          \
	    "0028 " AREA("0035 ") "00000000 00 0000 01 "                                           \
				  "20010DB8 00010000 00000000 00000000 40 " EXTENSION EYE
#define PROPOSAL_R1                                                                                \
	EYE "01 005C 28 " PEER_ID GID MAC "0028 " AREA("0000 ") "0A000000 18 0000 00 " EYE
/* Two EIDs, release 0. */
#define PROPOSAL_0                                                                                 \
	EYE "01 00BC 22 " PEER_ID GID MAC "0000 " AREA("001C ") "02 00 00 00 " Z4 GID              \
								"00 00 0000 " Z12 ZZ9 SMCLAB EYE

#define FCE   "80 21 0000 " HOST "20 01 0001 " Z4 Z8
#define FCE_0 "00 10 0000 " HOST "00 00 0000 " Z4 Z8
#define GID_2 "00000000 00000000 0000FFFF 0A00000B "

#define ACCEPT_FIRST  EYE "02 00A0 28 " CREDENTIALS SMCLAB Z8 FCE EYE
#define ACCEPT_0      EYE "02 00A0 28 " CREDENTIALS SMCLAB Z8 FCE_0 EYE
#define ACCEPT_LATER  EYE "02 006C 20 " CREDENTIALS SMCLAB Z8 EYE
#define CONFIRM_FIRST EYE "03 00B4 28 " CREDENTIALS SMCLAB Z8 FCE "01 000000 " GID EYE
#define CONFIRM_TWO   EYE "03 00C4 28 " CREDENTIALS SMCLAB Z8 FCE "02 000000 " GID GID_2 EYE
#define CONFIRM_NONE  EYE "03 00A4 28 " CREDENTIALS SMCLAB Z8 FCE "00 000000 " EYE
#define CONFIRM_LATER EYE "03 006C 20 " CREDENTIALS SMCLAB Z8 EYE
#define DECLINE                                                                                    \
	EYE "04 002C 20 " PEER_ID "03030000 20 000000 00000001 03030008 00000000 FFFFFFFF " EYE
#define DECLINE_SYNC EYE "04 002C 28 " PEER_ID "04000000 00 000000 " Z8 Z8 EYE

static const char *const golden[] = {
	PROPOSAL_R2,  PROPOSAL_R1R2, PROPOSAL_PREFIX, PROPOSAL_R1,   PROPOSAL_0,
	ACCEPT_FIRST, ACCEPT_0,      ACCEPT_LATER,    CONFIRM_FIRST, CONFIRM_TWO,
	CONFIRM_NONE, CONFIRM_LATER, DECLINE,         DECLINE_SYNC,
};
#define NUM_GOLDEN (sizeof(golden) / sizeof(golden[0]))

static void is_name(const uint8_t bytes[32], const char *text)
{
	uint8_t padded[32];
	memset(padded, ' ', sizeof(padded));
	memcpy(padded, text, strlen(text));
	assert_memory_equal(bytes, padded, sizeof(padded));
}

/* Sets the length field and puts the trailer at that end. */
static void set_length(struct wire *w, size_t len)
{
	w->len = len;
	put_be16(w->bytes + 5, (uint16_t)len);
	put_be32(w->bytes + len - 4, SMCR_EYE_CATCHER);
}

/* ---- layouts */

static void golden_messages_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i]);
		struct smcr_clc_msg msg = decoded(&w);
		assert_int_equal(msg.length, w.len);
		assert_int_equal(smcr_clc_peek_length(w.bytes, 8), w.len);
		encodes_to(&msg, &w);
	}
}

static void cut_messages_need_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		struct wire w = wire(golden[i]);
		size_t whole = w.len;
		for (w.len = 0; w.len < whole; w.len++)
			refused(&w, -EAGAIN);
		w.len = whole + 1;
		refused(&w, -EBADMSG);
	}
}

static void both_eye_catchers_are_checked(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		struct wire w = wire(golden[i]);
		refused_with(w, 3, 0xC4); /* "SMCD" */
		refused_with(w, w.len - 1, 0xC4);
		refused_with(w, w.len - 4, 0);
	}
}

static void proposal_fields(void **state)
{
	(void)state;
	struct wire w = wire(PROPOSAL_R1R2);
	struct smcr_clc_msg msg = decoded(&w);
	const struct smcr_clc_proposal *p = &msg.proposal;
	assert_int_equal(p->version, 2);
	assert_true(p->offers_r_v1);
	assert_true(p->offers_r_v2);
	assert_false(p->offers_d);
	assert_memory_equal(p->peer_id, peer_id, sizeof(peer_id));
	assert_memory_equal(p->gid, gid, sizeof(gid));
	assert_memory_equal(p->mac, mac, sizeof(mac));
	assert_int_equal(p->ip_offset, 40);
	assert_int_equal(p->ipv4_subnet, 0x0A000000);
	assert_int_equal(p->ipv4_mask_len, 24);
	assert_int_equal(p->v2.num_eids, 1);
	is_name(p->v2.eids[0], "SMCLAB");
	assert_int_equal(p->v2.release, 1);
	assert_memory_equal(p->v2.gid, gid, sizeof(gid));
	assert_int_equal(p->v2.max_conns, 255);
	assert_int_equal(p->v2.max_links, 2);
	assert_int_equal(p->v2.features, 0);

	w = wire(PROPOSAL_PREFIX);
	msg = decoded(&w);
	assert_int_equal(p->num_prefixes, 1);
	assert_int_equal(p->prefixes[0].len, 64);
	is_name(p->v2.eids[0], "SMCLAB");

	w = wire(PROPOSAL_0);
	msg = decoded(&w);
	assert_false(p->offers_r_v1);
	assert_int_equal(p->v2.num_eids, 2);
	is_name(p->v2.eids[0], "ZZ.9");
	is_name(p->v2.eids[1], "SMCLAB");
	assert_int_equal(p->v2.release, 0);

	w = wire(PROPOSAL_R1);
	msg = decoded(&w);
	const struct smcr_clc_proposal_v2 nothing = { 0 };
	assert_false(p->offers_r_v2);
	assert_memory_equal(&p->v2, &nothing, sizeof(nothing));
}

static void accept_fields(void **state)
{
	(void)state;
	struct wire w = wire(ACCEPT_FIRST);
	struct smcr_clc_msg msg = decoded(&w);
	const struct smcr_clc_accept *a = &msg.accept;
	assert_int_equal(w.len, 160);
	assert_int_equal(a->type, SMCR_CLC_ACCEPT);
	assert_int_equal(a->version, 2);
	assert_int_equal(a->smc_type, SMCR_CLC_SMC_R);
	assert_true(a->first_contact);
	assert_int_equal(a->qpn, 0x11);
	assert_int_equal(a->psn, 0x4BD3EA);
	is_name(a->eid, "SMCLAB");
	assert_true(a->fce.direct);
	assert_int_equal(a->fce.os, SMCR_CLC_OS_LINUX);
	assert_int_equal(a->fce.release, 1);
	is_name(a->fce.host, "host1");
	assert_int_equal(a->fce.max_conns, 32);
	assert_int_equal(a->fce.max_links, 1);
	assert_int_equal(a->fce.features, 1);
	assert_int_equal(a->num_gids, 0);

	w = wire(ACCEPT_0);
	msg = decoded(&w);
	assert_false(a->fce.direct);
	assert_int_equal(a->fce.os, SMCR_CLC_OS_ZOS);
	assert_int_equal(a->fce.release, 0);

	w = wire(ACCEPT_LATER);
	msg = decoded(&w);
	assert_int_equal(w.len, 108);
	assert_false(a->first_contact);
	is_name(a->eid, "SMCLAB");
}

static void confirm_fields(void **state)
{
	(void)state;
	struct wire w = wire(CONFIRM_TWO);
	struct smcr_clc_msg msg = decoded(&w);
	const struct smcr_clc_accept *a = &msg.accept;
	assert_int_equal(a->type, SMCR_CLC_CONFIRM);
	assert_int_equal(a->fce.release, 1);
	assert_int_equal(a->num_gids, 2);
	assert_memory_equal(a->gids[0], gid, sizeof(gid));
	assert_int_equal(a->gids[1][15], 11);
	w = wire(CONFIRM_LATER);
	msg = decoded(&w);
	assert_int_equal(a->num_gids, 0);
}

static void decline_fields(void **state)
{
	(void)state;
	struct wire w = wire(DECLINE);
	struct smcr_clc_msg msg = decoded(&w);
	const uint32_t more[4] = { 1, 0x03030008, 0, 0xFFFFFFFF };
	assert_int_equal(msg.decline.version, 2);
	assert_false(msg.decline.out_of_sync);
	assert_memory_equal(msg.decline.peer_id, peer_id, sizeof(peer_id));
	assert_int_equal(msg.decline.diagnosis, 0x03030000);
	assert_int_equal(msg.decline.os, SMCR_CLC_OS_LINUX);
	assert_memory_equal(msg.decline.more, more, sizeof(more));
	/* A Decline of version 1 has no such fields: there these bytes are reserved. */
	w = wire(EYE "04 001C 10 " PEER_ID "03030000 20000000 " EYE);
	msg = decoded(&w);
	assert_int_equal(msg.decline.os, 0);
	msg.decline.os = SMCR_CLC_OS_LINUX;
	msg.decline.more[0] = 1;
	w = wire(EYE "04 001C 10 " PEER_ID "03030000 00000000 " EYE);
	encodes_to(&msg, &w);
}

static void systems_have_names(void **state)
{
	(void)state;
	assert_string_equal(smcr_clc_os_name(SMCR_CLC_OS_ZOS), "z/OS");
	assert_string_equal(smcr_clc_os_name(SMCR_CLC_OS_LINUX), "Linux");
	assert_string_equal(smcr_clc_os_name(SMCR_CLC_OS_AIX), "AIX");
	assert_string_equal(smcr_clc_os_name(SMCR_CLC_OS_UNKNOWN), "unknown");
	assert_string_equal(smcr_clc_os_name(0), "unknown");
}

/* ---- versions and types */

static void higher_versions_have_the_form_of_two(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i]);
		struct smcr_clc_msg two = decoded(&w);
		for (uint8_t version = 3; version <= 15; version++) {
			w.bytes[7] = (uint8_t)(version << 4 | (w.bytes[7] & 0x0F));
			struct smcr_clc_msg msg = decoded(&w);
			assert_memory_equal(&msg, &two, sizeof(msg));
		}
	}
}

static void another_kind_of_smc_is_told(void **state)
{
	(void)state;
	const char *const texts[] = { ACCEPT_FIRST, ACCEPT_LATER, CONFIRM_TWO, CONFIRM_LATER };
	for (size_t i = 0; i < 4; i++) {
		for (uint8_t type = 1; type <= 3; type++) {
			struct wire w = wire(texts[i]);
			struct smcr_clc_msg msg = { 0 };
			w.bytes[7] |= type;
			assert_int_equal(decode(&w, &msg), -ENOTSUP);
			assert_int_equal(msg.type, w.bytes[4]);
			assert_int_equal(msg.accept.smc_type, type);
			assert_int_equal(msg.accept.version, 2);
		}
	}
}

static void element_size_and_mtu_codes(void **state)
{
	(void)state;
	for (unsigned int code = 0; code <= 15; code++) {
		uint8_t value = (uint8_t)(code << 4 | SMCR_MTU_1024);
		assert_int_equal(decode_with(ACCEPT_FIRST, 50, value), 0);
		assert_int_equal(decode_with(CONFIRM_LATER, 50, value), 0);
		value = (uint8_t)(2 << 4 | code);
		int expected = smcr_mtu_valid((uint8_t)code) ? 0 : -ENOTSUP;
		assert_int_equal(decode_with(ACCEPT_FIRST, 50, value), expected);
		assert_int_equal(decode_with(CONFIRM_FIRST, 50, value), expected);
		assert_int_equal(decode_with(ACCEPT_LATER, 50, value), 0);
		assert_int_equal(decode_with(CONFIRM_LATER, 50, value), 0);
	}
	assert_int_equal(smcr_bsize_bytes(SMCR_BSIZE_MAX_V2), 512u << 20);
	assert_int_equal(decode_with(ACCEPT_FIRST, 45, 0), -EBADMSG);
	assert_int_equal(decode_with(CONFIRM_LATER, 45, 0), -EBADMSG);
}

static void reserved_fields_are_ignored(void **state)
{
	(void)state;
	reserved_bits_change_nothing(ACCEPT_LATER, 7, 0x04);
	reserved_bits_change_nothing(ACCEPT_LATER, 51, 0xFF);
	reserved_bits_change_nothing(ACCEPT_LATER, 60, 0xFF);
	for (size_t at = 96; at < 104; at++)
		reserved_bits_change_nothing(ACCEPT_LATER, at, 0xFF);
	reserved_bits_change_nothing(ACCEPT_FIRST, 104, 0x7F);
	reserved_bits_change_nothing(ACCEPT_FIRST, 106, 0xFF);
	reserved_bits_change_nothing(ACCEPT_FIRST, 107, 0xFF);
	for (size_t at = 144; at < 156; at++)
		reserved_bits_change_nothing(ACCEPT_FIRST, at, 0xFF);
	for (size_t at = 157; at < 160; at++)
		reserved_bits_change_nothing(CONFIRM_FIRST, at, 0xFF);
	for (size_t at = 140; at < 144; at++) /* reserved in release 0 */
		reserved_bits_change_nothing(ACCEPT_0, at, 0xFF);
	for (size_t at = 104; at < 108; at++)
		reserved_bits_change_nothing(PROPOSAL_0, at, 0xFF);
	for (size_t at = 40; at < 50; at++) /* SMC-D's */
		reserved_bits_change_nothing(PROPOSAL_R2, at, 0xFF);
	for (size_t at = 52; at < 80; at++)
		reserved_bits_change_nothing(PROPOSAL_R2, at, 0xFF);
	reserved_bits_change_nothing(PROPOSAL_R2, 82, 0xFF);
	/* The last bit tells of a system EID. */
	reserved_bits_change_nothing(PROPOSAL_R2, 83, 0x0F);
	for (size_t at = 84; at < 88; at++)
		reserved_bits_change_nothing(PROPOSAL_R2, at, 0xFF);
	for (size_t at = 108; at < 120; at++)
		reserved_bits_change_nothing(PROPOSAL_R2, at, 0xFF);
	reserved_bits_change_nothing(DECLINE, 7, 0x07);
	reserved_bits_change_nothing(DECLINE, 20, 0x0F);
	for (size_t at = 21; at < 24; at++)
		reserved_bits_change_nothing(DECLINE, at, 0xFF);
}

/* ---- lengths of Accept and Confirm */

static void lengths_follow_from_first_contact(void **state)
{
	(void)state;
	for (unsigned int length = 0; length < 0x10000; length++) {
		uint8_t header[8] = { 0xE2, 0xD4, 0xC3, 0xD9, SMCR_CLC_ACCEPT, 0, 0, 0x20 };
		put_be16(header + 5, (uint16_t)length);
		int later = length >= 108 && length <= 652 ? (int)length : -EBADMSG;
		int first = length >= 160 && length <= 652 ? (int)length : -EBADMSG;
		for (uint8_t type = SMCR_CLC_ACCEPT; type <= SMCR_CLC_CONFIRM; type++) {
			header[4] = type;
			header[7] = 0x20;
			assert_int_equal(smcr_clc_peek_length(header, sizeof(header)), later);
			header[7] = 0x28;
			assert_int_equal(smcr_clc_peek_length(header, sizeof(header)), first);
		}
	}
}

/* What later releases append is ignored. The trailer must be at the end. */
static void longer_messages_are_understood(void **state)
{
	(void)state;
	const char *const texts[] = { ACCEPT_FIRST, ACCEPT_LATER, CONFIRM_TWO, CONFIRM_LATER };
	for (size_t i = 0; i < 4; i++) {
		struct wire w = wire(texts[i]);
		struct smcr_clc_msg plain = decoded(&w);
		for (size_t len = w.len + 1; len <= SMCR_CLC_MAX_LEN; len++) {
			memset(w.bytes + w.len - 4, 0xE2, 4);
			set_length(&w, len);
			struct smcr_clc_msg msg = decoded(&w);
			assert_int_equal(msg.length, len);
			assert_memory_equal(&msg.accept, &plain.accept, sizeof(msg.accept));
			refused_with(w, len - 2, 0);
		}
	}
}

/* Without F there is no extension, however long the message is. */
static void extension_needs_first_contact(void **state)
{
	(void)state;
	const struct smcr_clc_first_contact nothing = { 0 };
	struct wire w = wire(CONFIRM_TWO);
	w.bytes[7] = 0x20;
	struct smcr_clc_msg msg = decoded(&w);
	assert_memory_equal(&msg.accept.fce, &nothing, sizeof(nothing));
	assert_int_equal(msg.accept.num_gids, 0);
	struct wire later = wire(ACCEPT_LATER);
	refused_with(later, 7, 0x28); /* F announces an extension that is not there */
}

static void gid_lists(void **state)
{
	(void)state;
	for (unsigned int there = 0; there <= 30; there++) {
		for (unsigned int count = 0; count <= 255; count++) {
			struct wire w = wire(CONFIRM_NONE);
			w.bytes[156] = (uint8_t)count;
			for (unsigned int i = 0; i < there; i++)
				memset(w.bytes + 160 + 16 * i, (int)(i + 1), 16);
			set_length(&w, 164 + 16 * there);
			if (w.len > SMCR_CLC_MAX_LEN || count > there) {
				refused(&w, -EBADMSG);
				continue;
			}
			struct smcr_clc_msg msg = decoded(&w);
			assert_int_equal(msg.accept.num_gids, count < 8 ? count : 8);
			for (unsigned int i = 0; i < msg.accept.num_gids; i++)
				assert_int_equal(msg.accept.gids[i][15], i + 1);
		}
	}
	/* An Accept has no GID list, and a Confirm may come without. */
	struct wire w = wire(CONFIRM_TWO);
	w.bytes[4] = SMCR_CLC_ACCEPT;
	assert_int_equal(decoded(&w).accept.num_gids, 0);
	w = wire(CONFIRM_TWO);
	for (size_t len = 160; len < 164; len++) {
		set_length(&w, len);
		assert_int_equal(decoded(&w).accept.num_gids, 0);
	}
}

/* ---- Proposals of every kind */

struct v2 {
	uint8_t v1_type;
	uint8_t v2_type;
	uint8_t prefixes;
	uint8_t eids;
	uint8_t d_gids;
};

/* Builds a Proposal as deployed peers do: growth area, IP area, extension, SMC-D extension,
 * trailer. */
static struct wire proposal_v2(const struct v2 *v2)
{
	struct wire w = wire(EYE "01 0000 20 " PEER_ID GID MAC "0000 " ZEROS_40);
	w.bytes[7] |= (uint8_t)(v2->v2_type << 2 | v2->v1_type);
	if (v2->v1_type != 2) {
		put_be16(w.bytes + 38, 40);
		put_be32(w.bytes + w.len, 0x0A000000);
		w.bytes[w.len + 4] = 24;
		w.bytes[w.len + 7] = v2->prefixes;
		w.len += 8 + 17u * v2->prefixes;
	}
	if (v2->v2_type != 2) {
		put_be16(w.bytes + 50, (uint16_t)(w.len - 52));
		w.bytes[w.len] = v2->eids;
		w.bytes[w.len + 1] = v2->d_gids;
		w.bytes[w.len + 3] = 0x10;
		for (unsigned int i = 0; i < v2->eids; i++)
			memset(w.bytes + w.len + 40 + 32 * i, 'A' + (int)i, 32);
		w.len += 40 + 32u * v2->eids;
	}
	if (v2->v2_type == 1 || v2->v2_type == 3) {
		put_be16(w.bytes + 52 + get_be16(w.bytes + 50) + 6, (uint16_t)(32 + 32 * v2->eids));
		w.len += 48 + 10u * v2->d_gids;
	}
	set_length(&w, w.len + 4);
	return w;
}

static bool has(unsigned int type, unsigned int kind)
{
	return type == kind || type == 3;
}

static void proposals_tell_what_they_offer(void **state)
{
	(void)state;
	for (unsigned int types = 0; types < 16; types++) {
		struct v2 v2 = { types & 3, (uint8_t)(types >> 2), 3, 2, has(types >> 2, 1) };
		struct wire w = proposal_v2(&v2);
		struct smcr_clc_msg msg = decoded(&w);
		const struct smcr_clc_proposal *p = &msg.proposal;
		assert_int_equal(p->version, 2);
		assert_int_equal(p->offers_r_v1, has(v2.v1_type, 0));
		assert_int_equal(p->offers_r_v2, has(v2.v2_type, 0));
		assert_int_equal(p->offers_d, has(v2.v1_type, 1) || has(v2.v2_type, 1));
		assert_int_equal(p->ip_offset, v2.v1_type != 2 ? 40 : 0);
		assert_int_equal(p->num_prefixes, v2.v1_type != 2 ? 3 : 0);
		assert_int_equal(p->v2.num_eids, v2.v2_type != 2 ? 2 : 0);
		assert_int_equal(p->v2.eids[1][31], v2.v2_type != 2 ? 'B' : 0);
		assert_memory_equal(p->mac, mac, sizeof(mac));
		/* smcrd never offers SMC-D, nor nothing at all. */
		uint8_t buf[SMCR_CLC_MAX_LEN];
		bool ours = !p->offers_d && (p->offers_r_v1 || p->offers_r_v2);
		assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)),
				 ours ? (int)w.len : -EINVAL);
		if (ours)
			assert_memory_equal(buf, w.bytes, w.len);
	}
}

static void proposals_have_exactly_their_length(void **state)
{
	(void)state;
	for (unsigned int types = 0; types < 16; types++) {
		for (uint8_t count = 0; count <= 8; count++) {
			struct v2 v2 = { types & 3, (uint8_t)(types >> 2), count, count, count };
			struct wire w = proposal_v2(&v2);
			decoded(&w);
			set_length(&w, w.len + 1);
			refused(&w, -EBADMSG);
			set_length(&w, w.len - 2);
			refused(&w, -EBADMSG);
		}
	}
	/* The lengths that deployed peers send: version 2 alone, and version 1 alone. */
	assert_int_equal(proposal_v2(&(struct v2){ 2, 0, 0, 1, 0 }).len, 156);
	assert_int_equal(proposal_v2(&(struct v2){ 0, 2, 0, 0, 0 }).len, 92);
	assert_int_equal(proposal_v2(&(struct v2){ 3, 3, 8, 8, 8 }).len, SMCR_CLC_MAX_LEN);
}

static void counts_and_offsets_are_bounded(void **state)
{
	(void)state;
	struct wire v2 = proposal_v2(&(struct v2){ 2, 3, 0, 2, 2 });
	size_t ext = 80;
	refused_with(v2, ext, 9);     /* count of EIDs */
	refused_with(v2, ext + 1, 9); /* count of SMC-D GIDs */
	refused_with(v2, ext, 3);     /* more EIDs than there are */
	refused_with(v2, ext, 1);     /* fewer EIDs than there are */
	refused_with(v2, ext + 1, 3);
	refused_with(v2, ext + 1, 1);
	refused_with(v2, 50, 0xFF); /* extension beyond the end */
	refused_with(v2, 51, 0);    /* no extension although version 2 is offered */
	refused_with(v2, 51, 173);  /* further than behind the longest IP area */
	struct wire v1 = proposal_v2(&(struct v2){ 0, 2, 1, 0, 0 });
	refused_with(v1, 38, 0xFF); /* IP area beyond the end */
	refused_with(v1, 39, 41);
	refused_with(v1, 87, 2); /* more prefixes than there are */
	refused_with(v1, 84, 33);
	refused_with(v1, 88 + 16, 129);
	/* Without an offer of SMC-D there are no GIDs of it. */
	struct wire r = proposal_v2(&(struct v2){ 2, 0, 0, 2, 8 });
	assert_int_equal(r.len, 84 + 40 + 64);
	decoded(&r);
}

/* Nine EIDs, GIDs or prefixes are refused even if the length agrees. */
static void nine_of_anything_are_too_many(void **state)
{
	(void)state;
	for (uint8_t count = 8; count <= 9; count++) {
		const struct wire kinds[] = {
			proposal_v2(&(struct v2){ 0, 2, count, 0, 0 }),
			proposal_v2(&(struct v2){ 2, 0, 0, count, 0 }),
			proposal_v2(&(struct v2){ 2, 3, 0, 0, count }),
		};
		for (size_t i = 0; i < 3; i++) {
			if (count <= 8)
				decoded(&kinds[i]);
			else
				refused(&kinds[i], -EBADMSG);
		}
	}
}

/* The longest IP area puts the extension at 172. Bytes behind that are no extension, even if they
 * look like one. */
static void no_extension_far_away(void **state)
{
	(void)state;
	struct wire w = proposal_v2(&(struct v2){ 0, 3, 8, 2, 8 });
	size_t d_ext = 224 + 40 + 2 * 32;
	assert_int_equal(get_be16(w.bytes + 50), 172);
	decoded(&w);
	w.bytes[d_ext] = 2;
	w.bytes[d_ext + 1] = 8;
	put_be16(w.bytes + 50, (uint16_t)(d_ext - 52));
	refused(&w, -EBADMSG);
}

/* The extension is found by its offset, wherever that puts it. */
static void the_extension_is_found_by_its_offset(void **state)
{
	(void)state;
	struct wire w = proposal_v2(&(struct v2){ 2, 0, 0, 1, 0 });
	for (unsigned int offset = 0; offset < 0x10000; offset++) {
		put_be16(w.bytes + 50, (uint16_t)offset);
		uint8_t *copy = exact_copy(w.bytes, w.len);
		struct smcr_clc_msg msg;
		int rc = smcr_clc_decode(copy, w.len, &msg);
		free(copy);
		assert_int_equal(rc == 0, offset == 28);
	}
}

/* ---- what smcrd sends */

static void sent_proposals_avoid_the_traps(void **state)
{
	(void)state;
	struct smcr_clc_proposal p = { .version = 2, .offers_r_v2 = true, .ip_offset = 17 };
	uint8_t buf[SMCR_CLC_MAX_LEN];
	p.v2.num_eids = 8;
	p.v2.release = SMCR_CLC_RELEASE;
	assert_int_equal(smcr_clc_encode_proposal(&p, buf, sizeof(buf)), 84 + 40 + 32 * 8);
	assert_int_equal(get_be16(buf + 38), 0);
	/* Without an IP area deployed peers read a count of prefixes at byte 47. */
	for (size_t at = 40; at < 50; at++)
		assert_int_equal(buf[at], 0);
	p.offers_r_v1 = true;
	p.num_prefixes = 8;
	assert_int_equal(smcr_clc_encode_proposal(&p, buf, sizeof(buf)), 84 + 144 + 40 + 32 * 8);
	assert_int_equal(get_be16(buf + 38), 40);
	assert_int_equal(get_be16(buf + 50), 172);
	/* A Proposal of version 1 alone has the form of version 1: the fields of version 2 are not
	 * sent. */
	p.version = 1;
	p.num_prefixes = 0;
	assert_int_equal(smcr_clc_encode_proposal(&p, buf, sizeof(buf)), 52 + 17);
	assert_int_equal(buf[7], 0x10);
	p.version = 0;
	assert_int_equal(smcr_clc_encode_proposal(&p, buf, sizeof(buf)), 52 + 17);
	assert_int_equal(buf[7], 0x10);
}

static void proposals_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct wire w = wire(PROPOSAL_PREFIX);
	const struct smcr_clc_proposal sound = decoded(&w).proposal;
	struct smcr_clc_proposal bad[8];
	uint8_t buf[SMCR_CLC_MAX_LEN];
	for (size_t i = 0; i < 8; i++)
		bad[i] = sound;
	bad[0].version = 3;
	bad[1].offers_d = true;
	bad[2].offers_r_v1 = bad[2].offers_r_v2 = false;
	bad[3].v2.num_eids = 9;
	bad[4].v2.release = 16;
	bad[5].ipv4_mask_len = 33;
	bad[6].num_prefixes = 9;
	bad[7].prefixes[0].len = 129;
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(smcr_clc_encode_proposal(&bad[i], buf, sizeof(buf)), -EINVAL);
	bad[7].offers_r_v1 = false; /* no IP area then */
	assert_int_equal(smcr_clc_encode_proposal(&bad[7], buf, sizeof(buf)), 156);
}

static void accepts_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct wire w = wire(CONFIRM_TWO);
	const struct smcr_clc_accept sound = decoded(&w).accept;
	struct smcr_clc_accept bad[9];
	uint8_t buf[SMCR_CLC_MAX_LEN];
	for (size_t i = 0; i < 9; i++)
		bad[i] = sound;
	bad[0].version = 3;
	bad[1].smc_type = SMCR_CLC_SMC_D;
	bad[2].bsize = 16;
	bad[3].fce.os = 16;
	bad[4].fce.release = 16;
	bad[5].num_gids = 9;
	bad[6].type = SMCR_CLC_ACCEPT; /* an Accept has no GID list */
	bad[7].first_contact = false;  /* a Confirm of a subsequent contact has none either */
	bad[8].version = 1;
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(smcr_clc_encode_accept(&bad[i], buf, sizeof(buf)), -EINVAL);
	bad[8].num_gids = 0;
	assert_int_equal(smcr_clc_encode_accept(&bad[8], buf, sizeof(buf)), 68);
	bad[8].version = 0;
	assert_int_equal(smcr_clc_encode_accept(&bad[8], buf, sizeof(buf)), 68);
	assert_int_equal(buf[7], 0x18);

	struct smcr_clc_decline decline = { .version = 2, .os = 16 };
	assert_int_equal(smcr_clc_encode_decline(&decline, buf, sizeof(buf)), -EINVAL);
	decline.os = 15;
	decline.version = 3;
	assert_int_equal(smcr_clc_encode_decline(&decline, buf, sizeof(buf)), -EINVAL);
	decline.version = 0;
	assert_int_equal(smcr_clc_encode_decline(&decline, buf, sizeof(buf)), 28);
	assert_int_equal(buf[7], 0x10);
}

/* Release 0 has no limits and features, so these are not sent. */
static void release_0_has_no_limits(void **state)
{
	(void)state;
	struct wire w = wire(ACCEPT_0);
	struct smcr_clc_msg msg = decoded(&w);
	msg.accept.fce.max_conns = 255;
	msg.accept.fce.max_links = 2;
	msg.accept.fce.features = 1;
	encodes_to(&msg, &w);
	w = wire(PROPOSAL_0);
	msg = decoded(&w);
	msg.proposal.v2.max_conns = 255;
	msg.proposal.v2.max_links = 2;
	msg.proposal.v2.features = 1;
	encodes_to(&msg, &w);
}

/* ---- random messages */

static struct smcr_clc_msg random_proposal(struct random *r)
{
	struct smcr_clc_msg msg = { .type = SMCR_CLC_PROPOSAL };
	struct smcr_clc_proposal *p = &msg.proposal;
	p->version = 2;
	p->offers_r_v1 = random_below(r, 2);
	p->offers_r_v2 = !p->offers_r_v1 || random_below(r, 2);
	random_bytes(r, p->peer_id, sizeof(p->peer_id));
	random_bytes(r, p->gid, sizeof(p->gid));
	random_bytes(r, p->mac, sizeof(p->mac));
	if (p->offers_r_v1) {
		p->ip_offset = 40;
		p->ipv4_subnet = (uint32_t)random_u64(r);
		p->ipv4_mask_len = (uint8_t)random_below(r, 33);
		p->num_prefixes = (uint8_t)random_below(r, 9);
	}
	for (unsigned int i = 0; i < p->num_prefixes; i++) {
		random_bytes(r, p->prefixes[i].addr, sizeof(p->prefixes[i].addr));
		p->prefixes[i].len = (uint8_t)random_below(r, 129);
	}
	if (!p->offers_r_v2)
		return msg;
	p->v2.num_eids = (uint8_t)random_below(r, 9);
	random_bytes(r, p->v2.eids, 32u * p->v2.num_eids);
	random_bytes(r, p->v2.gid, sizeof(p->v2.gid));
	p->v2.release = (uint8_t)random_below(r, 16);
	if (p->v2.release) {
		p->v2.max_conns = (uint8_t)random_u64(r);
		p->v2.max_links = (uint8_t)random_u64(r);
		p->v2.features = (uint16_t)random_u64(r);
	}
	return msg;
}

static struct smcr_clc_msg random_accept(struct random *r)
{
	struct smcr_clc_msg msg = { .type = random_below(r, 2) ? SMCR_CLC_ACCEPT
							       : SMCR_CLC_CONFIRM };
	struct smcr_clc_accept *a = &msg.accept;
	a->type = (uint8_t)msg.type;
	a->version = 2;
	a->first_contact = random_below(r, 2);
	random_bytes(r, a->peer_id, sizeof(a->peer_id));
	random_bytes(r, a->gid, sizeof(a->gid));
	random_bytes(r, a->mac, sizeof(a->mac));
	a->qpn = random_below(r, 1u << 24);
	a->rkey = (uint32_t)random_u64(r);
	a->rmbe_index = (uint8_t)(1 + random_below(r, 255));
	a->alert_token = (uint32_t)random_u64(r);
	a->bsize = (uint8_t)random_below(r, 16);
	a->mtu = (uint8_t)(1 + random_below(r, 5));
	a->rmb_vaddr = random_u64(r);
	a->psn = random_below(r, 1u << 24);
	random_bytes(r, a->eid, sizeof(a->eid));
	if (!a->first_contact)
		return msg;
	a->fce.direct = random_below(r, 2);
	a->fce.os = (uint8_t)random_below(r, 16);
	a->fce.release = (uint8_t)random_below(r, 16);
	random_bytes(r, a->fce.host, sizeof(a->fce.host));
	if (a->fce.release) {
		a->fce.max_conns = (uint8_t)random_u64(r);
		a->fce.max_links = (uint8_t)random_u64(r);
		a->fce.features = (uint16_t)random_u64(r);
	}
	if (a->type == SMCR_CLC_CONFIRM) {
		a->num_gids = (uint8_t)random_below(r, 9);
		random_bytes(r, a->gids, 16u * a->num_gids);
	}
	return msg;
}

static void random_messages_round_trip(void **state)
{
	(void)state;
	struct random random = { 2 };
	for (int i = 0; i < 20000; i++) {
		struct smcr_clc_msg msg = i % 2 ? random_proposal(&random) : random_accept(&random);
		struct wire w = { { 0 }, 0 };
		int len = smcr_clc_encode(&msg, w.bytes, sizeof(w.bytes));
		assert_true(len > 0);
		w.len = (size_t)len;
		msg.length = (uint16_t)len;
		struct smcr_clc_msg again = decoded(&w);
		assert_memory_equal(&again, &msg, sizeof(msg));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages_round_trip),
		cmocka_unit_test(cut_messages_need_more),
		cmocka_unit_test(both_eye_catchers_are_checked),
		cmocka_unit_test(proposal_fields),
		cmocka_unit_test(accept_fields),
		cmocka_unit_test(confirm_fields),
		cmocka_unit_test(decline_fields),
		cmocka_unit_test(systems_have_names),
		cmocka_unit_test(higher_versions_have_the_form_of_two),
		cmocka_unit_test(another_kind_of_smc_is_told),
		cmocka_unit_test(element_size_and_mtu_codes),
		cmocka_unit_test(reserved_fields_are_ignored),
		cmocka_unit_test(lengths_follow_from_first_contact),
		cmocka_unit_test(longer_messages_are_understood),
		cmocka_unit_test(extension_needs_first_contact),
		cmocka_unit_test(gid_lists),
		cmocka_unit_test(proposals_tell_what_they_offer),
		cmocka_unit_test(proposals_have_exactly_their_length),
		cmocka_unit_test(counts_and_offsets_are_bounded),
		cmocka_unit_test(nine_of_anything_are_too_many),
		cmocka_unit_test(no_extension_far_away),
		cmocka_unit_test(the_extension_is_found_by_its_offset),
		cmocka_unit_test(sent_proposals_avoid_the_traps),
		cmocka_unit_test(proposals_out_of_range_are_not_encoded),
		cmocka_unit_test(accepts_out_of_range_are_not_encoded),
		cmocka_unit_test(release_0_has_no_limits),
		cmocka_unit_test(random_messages_round_trip),
	};
	return cmocka_run_group_tests_name("clc_v2", tests, NULL, NULL);
}
