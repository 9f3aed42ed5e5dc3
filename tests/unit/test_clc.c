/* SPDX-License-Identifier: MIT */
#include "proto/smcr/bytes.h"
#include "tests/lib/proves.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"
#include "tests/unit/clc_wire.h"

/* RFC 7609 A.2.2: 10.0.0.0/24, O = 0 (byte 38). */
#define PROPOSAL_IPV4 EYE "01 0034 10 " PEER_ID GID MAC "0000 0A000000 18 0000 00 " EYE
/* Two prefixes. */
#define PROPOSAL_IPV6                                                                              \
	EYE "01 0056 10 " PEER_ID GID MAC "0000 00000000 00 0000 02 "                              \
	    "20010DB8 00010000 00000000 00000000 40 FD000000 00000000 00000000 00000000 08 " EYE
/* The Proposal over IPv4 with a growth area of 40 bytes. */
#define PROPOSAL_GROWTH                                                                            \
	EYE "01 005C 10 " PEER_ID GID MAC "0028 " ZEROS_40 "0A000000 18 0000 00 " EYE
#define ACCEPT_FIRST EYE "02 0044 18 " CREDENTIALS EYE
#define ACCEPT_LATER EYE "02 0044 10 " CREDENTIALS EYE
#define CONFIRM      EYE "03 0044 10 " CREDENTIALS EYE
#define DECLINE      EYE "04 001C 10 " PEER_ID "03030000 00000000 " EYE
#define DECLINE_SYNC EYE "04 001C 18 " PEER_ID "04000000 00000000 " EYE
#define DECLINE_V2                                                                                 \
	EYE "04 002C 20 " PEER_ID "03030000 00000000 00000000 00000000 00000000 00000000 " EYE

static const char *const golden[] = {
	PROPOSAL_IPV4, PROPOSAL_IPV6, PROPOSAL_GROWTH, ACCEPT_FIRST, ACCEPT_LATER,
	CONFIRM,       DECLINE,       DECLINE_SYNC,    DECLINE_V2,
};
#define NUM_GOLDEN (sizeof(golden) / sizeof(golden[0]))

/* ---- layouts */

static void golden_messages_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i]);
		struct smcr_clc_msg msg = decoded(&w);
		assert_int_equal(msg.length, w.len);
		encodes_to(&msg, &w);
	}
}

static void proposal_fields(void **state)
{
	(void)state;
	struct wire w = wire(PROPOSAL_IPV4);
	struct smcr_clc_msg msg = decoded(&w);
	const struct smcr_clc_proposal *p = &msg.proposal;
	assert_int_equal(w.len, 52);
	assert_int_equal(msg.type, SMCR_CLC_PROPOSAL);
	assert_int_equal(p->version, 1);
	assert_true(p->offers_r_v1);
	assert_false(p->offers_r_v2);
	assert_memory_equal(p->peer_id, peer_id, sizeof(peer_id));
	assert_memory_equal(p->gid, gid, sizeof(gid));
	assert_memory_equal(p->mac, mac, sizeof(mac));
	assert_int_equal(p->ip_offset, 0);
	assert_int_equal(p->ipv4_subnet, 0x0A000000);
	assert_int_equal(p->ipv4_mask_len, 24);
	assert_int_equal(p->num_prefixes, 0);

	w = wire(PROPOSAL_IPV6);
	msg = decoded(&w);
	const uint8_t first[16] = { 0x20, 0x01, 0x0D, 0xB8, 0, 1 };
	assert_int_equal(w.len, 52 + 17 * 2);
	assert_int_equal(p->num_prefixes, 2);
	assert_memory_equal(p->prefixes[0].addr, first, sizeof(first));
	assert_int_equal(p->prefixes[0].len, 64);
	assert_int_equal(p->prefixes[1].addr[0], 0xFD);
	assert_int_equal(p->prefixes[1].len, 8);

	/* The largest of version 1. */
	msg.proposal.num_prefixes = 8;
	uint8_t buf[188];
	assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), 188);
	PROVES("CLC-1");
}

static void check_credentials(const struct smcr_clc_accept *a, uint8_t type, bool first_contact)
{
	assert_int_equal(a->type, type);
	assert_int_equal(a->first_contact, first_contact);
	assert_memory_equal(a->peer_id, peer_id, sizeof(peer_id));
	assert_memory_equal(a->gid, gid, sizeof(gid));
	assert_memory_equal(a->mac, mac, sizeof(mac));
	assert_int_equal(a->qpn, 0x11);
	assert_int_equal(a->rkey, 0x32A);
	assert_int_equal(a->rmbe_index, 1);
	assert_int_equal(a->alert_token, 0xA1B2C3D4);
	assert_int_equal(a->bsize, 2);
	assert_int_equal(a->mtu, SMCR_MTU_1024);
	assert_true(a->rmb_vaddr == UINT64_C(0xFF168C56051B0000));
	assert_int_equal(a->psn, 0x4BD3EA);
}

static void accept_and_confirm_fields(void **state)
{
	(void)state;
	struct wire w = wire(ACCEPT_FIRST);
	struct smcr_clc_msg msg = decoded(&w);
	assert_int_equal(w.len, 68);
	assert_int_equal(msg.type, SMCR_CLC_ACCEPT);
	check_credentials(&msg.accept, SMCR_CLC_ACCEPT, true);
	w = wire(ACCEPT_LATER);
	msg = decoded(&w);
	check_credentials(&msg.accept, SMCR_CLC_ACCEPT, false);
	w = wire(CONFIRM);
	msg = decoded(&w);
	assert_int_equal(msg.type, SMCR_CLC_CONFIRM);
	check_credentials(&msg.accept, SMCR_CLC_CONFIRM, false);
	PROVES("CLC-1");
}

static void decline_fields(void **state)
{
	(void)state;
	struct wire w = wire(DECLINE);
	struct smcr_clc_msg msg = decoded(&w);
	assert_int_equal(w.len, 28);
	assert_int_equal(msg.type, SMCR_CLC_DECLINE);
	assert_int_equal(msg.decline.version, 1);
	assert_false(msg.decline.out_of_sync);
	assert_memory_equal(msg.decline.peer_id, peer_id, sizeof(peer_id));
	assert_int_equal(msg.decline.diagnosis, 0x03030000);
	w = wire(DECLINE_SYNC);
	msg = decoded(&w);
	assert_true(msg.decline.out_of_sync);
	w = wire(DECLINE_V2);
	msg = decoded(&w);
	assert_int_equal(w.len, 44);
	assert_int_equal(msg.decline.version, 2);
	assert_int_equal(msg.decline.diagnosis, 0x03030000);
	PROVES("CLC-1");
}

static void every_message_carries_the_peer_id(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i]);
		struct smcr_clc_msg msg = decoded(&w);
		uint8_t buf[1024];
		assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), w.len);
		assert_memory_equal(buf + 8, peer_id, sizeof(peer_id));
	}
	PROVES("PEER-1");
}

/* ---- refusals */

static void both_eye_catchers_are_checked(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		struct wire w = wire(golden[i]);
		for (size_t byte = 0; byte < 4; byte++) {
			refused_with(w, byte, w.bytes[byte] ^ 1);
			refused_with(w, w.len - 4 + byte, w.bytes[w.len - 4 + byte] ^ 0x80);
		}
	}
	PROVES("CLC-2");
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

static int peek(const struct wire *w, size_t len)
{
	uint8_t *copy = exact_copy(w->bytes, len);
	int rc = smcr_clc_peek_length(copy, len);
	free(copy);
	return rc;
}

static void the_header_alone_tells_the_length(void **state)
{
	(void)state;
	for (size_t i = 0; i < NUM_GOLDEN; i++) {
		TRIES("row %zu", i);
		struct wire w = wire(golden[i]);
		for (size_t len = 0; len < 8; len++)
			assert_int_equal(peek(&w, len), -EAGAIN);
		assert_int_equal(peek(&w, 8), w.len);
		assert_int_equal(peek(&w, w.len), w.len);
	}
}

static int peek_header(uint8_t type, unsigned int length, uint8_t version)
{
	struct wire w = wire(DECLINE);
	w.bytes[4] = type;
	put_be16(w.bytes + 5, (uint16_t)length);
	w.bytes[7] = (uint8_t)(version << 4);
	return peek(&w, 8);
}

static void lengths_fit_their_type(void **state)
{
	(void)state;
	for (unsigned int length = 0; length < 0x10000; length++) {
		bool proposal_v1 = length >= 52 && length <= 652;
		bool proposal_v2 = length >= 84 && length <= 652;
		bool accept_v2 = length >= 108 && length <= 652;
		int expected = (int)length;
		assert_int_equal(peek_header(1, length, 1), proposal_v1 ? expected : -EBADMSG);
		assert_int_equal(peek_header(1, length, 2), proposal_v2 ? expected : -EBADMSG);
		assert_int_equal(peek_header(2, length, 1), length == 68 ? expected : -EBADMSG);
		assert_int_equal(peek_header(3, length, 1), length == 68 ? expected : -EBADMSG);
		assert_int_equal(peek_header(2, length, 0), length == 68 ? expected : -EBADMSG);
		assert_int_equal(peek_header(2, length, 2), accept_v2 ? expected : -EBADMSG);
		assert_int_equal(peek_header(3, length, 3), accept_v2 ? expected : -EBADMSG);
		assert_int_equal(peek_header(4, length, 1), length == 28 ? expected : -EBADMSG);
		assert_int_equal(peek_header(4, length, 2), length == 44 ? expected : -EBADMSG);
	}
	for (unsigned int type = 5; type <= 256; type++)
		assert_int_equal(peek_header((uint8_t)type, 68, 1), -EBADMSG);
}

static void proposal_lengths_must_match_their_counts(void **state)
{
	(void)state;
	struct wire ipv4 = wire(PROPOSAL_IPV4);
	struct wire ipv6 = wire(PROPOSAL_IPV6);
	refused_with(ipv4, 47, 1); /* more prefixes than the message has */
	refused_with(ipv4, 39, 1); /* a growth area that the message does not have */
	refused_with(ipv4, 38, 0xFF);
	refused_with(ipv6, 47, 1);
	refused_with(ipv6, 47, 3);
	refused_with(ipv6, 47, 9);
	refused_with(ipv6, 47, 255);
	refused_with(ipv6, 39, 17); /* the count would be inside the first prefix */

	/* A Proposal with one byte too many, which its length field includes. */
	struct wire longer = wire(PROPOSAL_IPV4);
	memmove(longer.bytes + 49, longer.bytes + 48, 4);
	longer.len = 53;
	longer.bytes[6] = 53;
	refused(&longer, -EBADMSG);
}

static void nine_prefixes_are_too_many(void **state)
{
	(void)state;
	struct wire w = wire(PROPOSAL_IPV4);
	w.len = 52 + 17 * 9;
	memset(w.bytes + 48, 0, w.len - 52);
	memcpy(w.bytes + w.len - 4, w.bytes, 4);
	put_be16(w.bytes + 5, (uint16_t)w.len);
	w.bytes[47] = 9;
	refused(&w, -EBADMSG);
}

static void impossible_mask_and_prefix_lengths_are_refused(void **state)
{
	(void)state;
	refused_with(wire(PROPOSAL_IPV4), 44, 33);
	refused_with(wire(PROPOSAL_IPV6), 48 + 16, 129);
	refused_with(wire(PROPOSAL_IPV6), 48 + 17 + 16, 255);
	struct wire w = wire(PROPOSAL_IPV6);
	w.bytes[48 + 16] = 128;
	assert_int_equal(decoded(&w).proposal.prefixes[0].len, 128);
}

static void any_growth_area_is_skipped(void **state)
{
	(void)state;
	struct wire plain = wire(PROPOSAL_IPV6);
	for (size_t offset = 0; plain.len + offset <= SMCR_CLC_MAX_LEN; offset++) {
		struct wire w = plain;
		memcpy(w.bytes + 40 + offset, plain.bytes + 40, plain.len - 40);
		memset(w.bytes + 40, 0xE2, offset);
		w.len += offset;
		put_be16(w.bytes + 5, (uint16_t)w.len);
		put_be16(w.bytes + 38, (uint16_t)offset);
		struct smcr_clc_msg msg = decoded(&w);
		assert_int_equal(msg.proposal.ip_offset, offset);
		assert_int_equal(msg.proposal.num_prefixes, 2);
		assert_int_equal(msg.proposal.prefixes[1].len, 8);
	}
	PROVES("CLC-5");
}

static void index_zero_is_bad_format(void **state)
{
	(void)state;
	refused_with(wire(ACCEPT_FIRST), 45, 0);
	refused_with(wire(CONFIRM), 45, 0);
	struct wire w = wire(CONFIRM);
	w.bytes[45] = 255;
	assert_int_equal(decoded(&w).accept.rmbe_index, 255);
}

/* ---- reserved values and bits */

static void element_size_codes(void **state)
{
	(void)state;
	for (unsigned int code = 0; code <= 15; code++) {
		int expected = code <= 5 ? 0 : -ENOTSUP;
		uint8_t value = (uint8_t)(code << 4 | SMCR_MTU_1024);
		assert_int_equal(decode_with(ACCEPT_FIRST, 50, value), expected);
		assert_int_equal(decode_with(ACCEPT_LATER, 50, value), expected);
		assert_int_equal(decode_with(CONFIRM, 50, value), expected);
	}
	const uint32_t kib[] = { 16, 32, 64, 128, 256, 512 };
	for (uint8_t code = 0; code <= SMCR_BSIZE_MAX; code++)
		assert_int_equal(smcr_bsize_bytes(code), kib[code] * 1024);
	PROVES("CLC-8");
}

static void mtu_codes_count_on_first_contact_only(void **state)
{
	(void)state;
	for (unsigned int code = 0; code <= 15; code++) {
		bool valid = code >= 1 && code <= 5;
		uint8_t value = (uint8_t)(2 << 4 | code);
		assert_int_equal(smcr_mtu_valid((uint8_t)code), valid);
		assert_int_equal(decode_with(ACCEPT_FIRST, 50, value), valid ? 0 : -ENOTSUP);
		assert_int_equal(decode_with(ACCEPT_LATER, 50, value), 0);
		assert_int_equal(decode_with(CONFIRM, 50, value), 0);
	}
	const uint32_t bytes[] = { 0, 256, 512, 1024, 2048, 4096 };
	for (uint8_t code = 1; code <= 5; code++)
		assert_int_equal(smcr_mtu_bytes(code), bytes[code]);
}

static void versions(void **state)
{
	(void)state;
	assert_int_equal(decode_with(PROPOSAL_IPV4, 7, 0x00), -ENOTSUP);
	assert_int_equal(decode_with(ACCEPT_LATER, 7, 0x00), -ENOTSUP);
	assert_int_equal(decode_with(CONFIRM, 7, 0x00), -ENOTSUP);
	/* the message is shorter than any of these versions wants */
	for (uint8_t version = 2; version <= 15; version++) {
		refused_with(wire(PROPOSAL_IPV4), 7, (uint8_t)(version << 4));
		refused_with(wire(ACCEPT_LATER), 7, (uint8_t)(version << 4));
		refused_with(wire(CONFIRM), 7, (uint8_t)(version << 4));
	}
	/* A Decline ends the exchange whatever version it names. Only its length depends on the
	 * version. */
	assert_int_equal(decode_with(DECLINE, 7, 0x00), 0);
	assert_int_equal(decode_with(DECLINE_V2, 7, 0x30), 0);
	refused_with(wire(DECLINE), 7, 0x20);
	refused_with(wire(DECLINE_V2), 7, 0x10);
}

static void reserved_fields_are_ignored(void **state)
{
	(void)state;
	const char *const accepts[] = { ACCEPT_LATER, CONFIRM };
	for (size_t i = 0; i < 2; i++) {
		reserved_bits_change_nothing(accepts[i], 7, 0x07);
		reserved_bits_change_nothing(accepts[i], 51, 0xFF);
		reserved_bits_change_nothing(accepts[i], 60, 0xFF);
	}
	reserved_bits_change_nothing(PROPOSAL_IPV4, 7, 0x0F);
	reserved_bits_change_nothing(PROPOSAL_IPV4, 45, 0xFF);
	reserved_bits_change_nothing(PROPOSAL_IPV4, 46, 0xFF);
	reserved_bits_change_nothing(DECLINE, 7, 0x07);
	for (size_t at = 20; at < 24; at++)
		reserved_bits_change_nothing(DECLINE, at, 0xFF);
	PROVES("CLC-3");
}

/* ---- values that cannot be encoded, and random messages */

static void proposals_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct wire w = wire(PROPOSAL_IPV6);
	const struct smcr_clc_proposal sound = decoded(&w).proposal;
	struct smcr_clc_proposal bad[5];
	for (size_t i = 0; i < 5; i++)
		bad[i] = sound;
	bad[0].ip_offset = 41;
	bad[1].ipv4_mask_len = 33;
	bad[2].num_prefixes = 9;
	bad[3].prefixes[1].len = 129;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(smcr_clc_encode_proposal(&bad[i], buf, sizeof(buf)), -EINVAL);
	bad[4].prefixes[2].len = 129; /* the Proposal has two prefixes: this is none of them */
	assert_int_equal(smcr_clc_encode_proposal(&bad[4], buf, sizeof(buf)), w.len);
}

static void accepts_out_of_range_are_not_encoded(void **state)
{
	(void)state;
	struct wire w = wire(ACCEPT_FIRST);
	const struct smcr_clc_accept sound = decoded(&w).accept;
	struct smcr_clc_accept bad[8];
	for (size_t i = 0; i < 8; i++)
		bad[i] = sound;
	bad[0].type = SMCR_CLC_DECLINE;
	bad[1].qpn = 0x1000000;
	bad[2].psn = 0x1000000;
	bad[3].rmbe_index = 0;
	bad[4].bsize = 6;
	bad[5].mtu = 0;
	bad[6].mtu = 6;
	bad[7].first_contact = false;
	bad[7].mtu = 16;
	uint8_t buf[68];
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(smcr_clc_encode_accept(&bad[i], buf, sizeof(buf)), -EINVAL);
	assert_int_equal(smcr_clc_encode_accept(&sound, buf, sizeof(buf)), 68);

	struct smcr_clc_msg msg = { .type = SMCR_CLC_CONFIRM, .accept = sound };
	/* the Accept inside has another type */
	assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), -EINVAL);
	msg.type = 0;
	assert_int_equal(smcr_clc_encode(&msg, buf, sizeof(buf)), -EINVAL);
	struct smcr_clc_decline decline = { .version = 3 };
	assert_int_equal(smcr_clc_encode_decline(&decline, buf, sizeof(buf)), -EINVAL);
}

static struct smcr_clc_msg random_msg(struct random *r)
{
	struct smcr_clc_msg msg = { .type = 1 + random_below(r, 4) };
	switch (msg.type) {
	case SMCR_CLC_PROPOSAL: {
		struct smcr_clc_proposal *p = &msg.proposal;
		*p = (struct smcr_clc_proposal){ .version = 1, .offers_r_v1 = true };
		random_bytes(r, p->peer_id, sizeof(p->peer_id));
		random_bytes(r, p->gid, sizeof(p->gid));
		random_bytes(r, p->mac, sizeof(p->mac));
		p->ip_offset = (uint16_t)random_below(r, 41);
		p->ipv4_subnet = (uint32_t)random_u64(r);
		p->ipv4_mask_len = (uint8_t)random_below(r, 33);
		p->num_prefixes = (uint8_t)random_below(r, 9);
		for (unsigned int i = 0; i < p->num_prefixes; i++) {
			random_bytes(r, p->prefixes[i].addr, sizeof(p->prefixes[i].addr));
			p->prefixes[i].len = (uint8_t)random_below(r, 129);
		}
		msg.length = (uint16_t)(52 + p->ip_offset + 17 * p->num_prefixes);
		break;
	}
	case SMCR_CLC_ACCEPT:
	case SMCR_CLC_CONFIRM:
		msg.accept.type = (uint8_t)msg.type;
		msg.accept.first_contact = random_below(r, 2);
		random_bytes(r, msg.accept.peer_id, 8);
		random_bytes(r, msg.accept.gid, 16);
		random_bytes(r, msg.accept.mac, 6);
		msg.accept.qpn = random_below(r, 1u << 24);
		msg.accept.rkey = (uint32_t)random_u64(r);
		msg.accept.rmbe_index = (uint8_t)(1 + random_below(r, 255));
		msg.accept.alert_token = (uint32_t)random_u64(r);
		msg.accept.bsize = (uint8_t)random_below(r, 6);
		msg.accept.mtu = (uint8_t)(1 + random_below(r, 5));
		msg.accept.rmb_vaddr = random_u64(r);
		msg.accept.psn = random_below(r, 1u << 24);
		msg.accept.version = 1;
		msg.length = 68;
		break;
	case SMCR_CLC_DECLINE:
		msg.decline.version = (uint8_t)(1 + random_below(r, 2));
		msg.decline.out_of_sync = random_below(r, 2);
		random_bytes(r, msg.decline.peer_id, 8);
		msg.decline.diagnosis = (uint32_t)random_u64(r);
		msg.length = msg.decline.version == 2 ? 44 : 28;
		break;
	}
	return msg;
}

static void random_messages_round_trip(void **state)
{
	(void)state;
	struct random random = { 1 };
	for (int i = 0; i < 20000; i++) {
		struct smcr_clc_msg msg = random_msg(&random);
		struct wire w = { { 0 }, 0 };
		int len = smcr_clc_encode(&msg, w.bytes, sizeof(w.bytes));
		assert_int_equal(len, msg.length);
		w.len = (size_t)len;
		struct smcr_clc_msg again = decoded(&w);
		assert_memory_equal(&again, &msg, sizeof(msg));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages_round_trip),
		cmocka_unit_test(proposal_fields),
		cmocka_unit_test(accept_and_confirm_fields),
		cmocka_unit_test(decline_fields),
		cmocka_unit_test(every_message_carries_the_peer_id),
		cmocka_unit_test(both_eye_catchers_are_checked),
		cmocka_unit_test(cut_messages_need_more),
		cmocka_unit_test(the_header_alone_tells_the_length),
		cmocka_unit_test(lengths_fit_their_type),
		cmocka_unit_test(proposal_lengths_must_match_their_counts),
		cmocka_unit_test(nine_prefixes_are_too_many),
		cmocka_unit_test(impossible_mask_and_prefix_lengths_are_refused),
		cmocka_unit_test(any_growth_area_is_skipped),
		cmocka_unit_test(index_zero_is_bad_format),
		cmocka_unit_test(element_size_codes),
		cmocka_unit_test(mtu_codes_count_on_first_contact_only),
		cmocka_unit_test(versions),
		cmocka_unit_test(reserved_fields_are_ignored),
		cmocka_unit_test(proposals_out_of_range_are_not_encoded),
		cmocka_unit_test(accepts_out_of_range_are_not_encoded),
		cmocka_unit_test(random_messages_round_trip),
	};
	return cmocka_run_group_tests_name("clc", tests, NULL, NULL);
}
