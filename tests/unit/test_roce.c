/* SPDX-License-Identifier: MIT */
/* proto/roce: golden bytes of Linux rxe, packets that are refused, and the ICRC of every captured
 * packet. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"
#include "tests/lib/pcap.h"
#include "tests/lib/tries.h"

/* linux-smcr-v2.pcap: UDP payloads of frames 10 and 71, both from 10.0.0.2:49441 to 10.0.0.1. */
static const uint8_t ack_packet[] = { 0x11, 0x00, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x11, 0x00, 0x74,
				      0x5E, 0x19, 0x1F, 0x00, 0x00, 0x01, 0x70, 0x46, 0x63, 0x4F };
static const uint8_t write_packet[] = { 0x0A, 0x30, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x11, 0x80,
					0x02, 0x01, 0xC9, 0xFF, 0x39, 0x59, 0x1A, 0x44, 0x74,
					0x01, 0xF4, 0x00, 0x00, 0x03, 0xB1, 0x00, 0x00, 0x00,
					0x01, 0x21, 0x00, 0x00, 0x00, 0x72, 0xD9, 0x67, 0x97 };
/* linux-rdma-cm-rping-ucmatose.pcap: the RDMA READ request in frame 6, from 10.0.0.1. */
static const uint8_t read_packet[] = { 0x0C, 0x00, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x11,
				       0x80, 0x9D, 0x71, 0x8D, 0x00, 0x00, 0x56, 0x20,
				       0x41, 0x57, 0x35, 0xF0, 0x00, 0x00, 0x05, 0xE8,
				       0x00, 0x00, 0x00, 0x40, 0x37, 0xD3, 0x35, 0x21 };
/* The start of a SEND ONLY WITH INVALIDATE of Linux's SMB server, and an ICRC that is not checked.
 */
static const uint8_t invalidate_packet[] = { 0x17, 0x00, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x12,
					     0x80, 0x9D, 0x19, 0xB3, 0x00, 0x00, 0x04, 0x83,
					     0xFF, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00 };
#define ACK_IP_ID   0x9CB7
#define WRITE_IP_ID 0x9D2B

static struct roce_flow golden_flow(void)
{
	return (struct roce_flow){ .saddr = htonl(0x0A000002),
				   .daddr = htonl(0x0A000001),
				   .sport = htons(49441),
				   .dport = htons(ROCE_UDP_PORT) };
}

/* @return the identification for which the ICRC is right, or -1 */
static int identification(const struct roce_icrc_tables *tables, const struct roce_flow *flow,
			  const uint8_t *buf, size_t len, uint16_t ip_id_guess)
{
	struct roce_icrc_flow icrc_flow;
	uint16_t ip_id;
	roce_icrc_flow_init(&icrc_flow, flow);
	return roce_icrc_check(tables, &icrc_flow, buf, len, ip_id_guess, &ip_id) ? ip_id : -1;
}

static bool accepts(const struct roce_icrc_tables *tables, const struct roce_flow *flow,
		    const uint8_t *buf, size_t len, uint16_t ip_id_guess)
{
	return identification(tables, flow, buf, len, ip_id_guess) >= 0;
}

static struct roce_icrc_tables *new_tables(void)
{
	struct roce_icrc_tables *tables = malloc(sizeof(*tables));
	assert_non_null(tables);
	roce_icrc_tables_init(tables);
	return tables;
}

static void decodes_golden_packets(void **state)
{
	(void)state;
	struct roce_packet p;

	assert_int_equal(roce_decode(ack_packet, sizeof(ack_packet), &p), 0);
	assert_int_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
	assert_int_equal(p.bth.pkey, ROCE_PKEY_DEFAULT);
	assert_int_equal(p.bth.dest_qp, 0x11);
	assert_int_equal(p.bth.psn, 0x745E19);
	assert_false(p.bth.ack_req);
	assert_int_equal(p.aeth.kind, ROCE_ACK);
	assert_int_equal(p.aeth.value, ROCE_CREDITS_UNLIMITED);
	assert_int_equal(p.aeth.msn, 1);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(p.icrc, 0x4F634670);

	assert_int_equal(roce_decode(write_packet, sizeof(write_packet), &p), 0);
	assert_int_equal(p.bth.opcode, ROCE_WRITE_ONLY);
	assert_int_equal(p.bth.pad, 3);
	assert_true(p.bth.ack_req);
	assert_int_equal(p.bth.psn, 0x0201C9);
	assert_true(p.reth.va == 0xFF39591A447401F4);
	assert_int_equal(p.reth.rkey, 0x3B1);
	assert_int_equal(p.reth.length, 1);
	assert_int_equal(p.payload_len, 1);
	assert_ptr_equal(p.payload, write_packet + ROCE_BTH_LEN + ROCE_RETH_LEN);
	assert_int_equal(p.payload[0], 0x21);
}

static void decodes_golden_reads_and_invalidations(void **state)
{
	(void)state;
	struct roce_packet p;
	assert_int_equal(roce_decode(read_packet, sizeof(read_packet), &p), 0);
	assert_int_equal(p.bth.opcode, ROCE_READ_REQUEST);
	assert_int_equal(p.bth.psn, 0x9D718D);
	assert_true(p.reth.va == 0x5620415735F0);
	assert_int_equal(p.reth.rkey, 0x5E8);
	assert_int_equal(p.reth.length, 64);
	assert_int_equal(p.payload_len, 0);

	assert_int_equal(roce_decode(invalidate_packet, sizeof(invalidate_packet), &p), 0);
	assert_int_equal(p.bth.opcode, ROCE_SEND_ONLY_INVALIDATE);
	assert_int_equal(p.invalidate, 0x483);
	assert_int_equal(p.payload_len, 4);
	assert_ptr_equal(p.payload, invalidate_packet + ROCE_BTH_LEN + ROCE_IETH_LEN);

	uint8_t buf[ROCE_MAX_HEADER];
	assert_int_equal(roce_encode_ext(p.bth.opcode, &p.ext, buf), ROCE_IETH_LEN);
	assert_memory_equal(buf, invalidate_packet + ROCE_BTH_LEN, ROCE_IETH_LEN);
}

static void datagrams_have_a_key_and_a_source(void **state)
{
	(void)state;
	uint8_t buf[ROCE_BTH_LEN + ROCE_DETH_LEN + ROCE_ICRC_LEN] = { 0 };
	union roce_ext ext = { .deth = { .qkey = 0x80010000, .src_qp = 0xFEDCBA } };
	struct roce_packet p;
	roce_encode_bth(&(struct roce_bth){ .opcode = ROCE_UD_SEND_ONLY, .dest_qp = 1 }, buf);
	assert_int_equal(roce_encode_ext(ROCE_UD_SEND_ONLY, &ext, buf + ROCE_BTH_LEN),
			 ROCE_DETH_LEN);
	buf[ROCE_BTH_LEN + 4] = 0x55; /* reserved */
	assert_int_equal(roce_decode(buf, sizeof(buf), &p), 0);
	assert_int_equal(p.bth.dest_qp, 1);
	assert_int_equal(p.deth.qkey, 0x80010000);
	assert_int_equal(p.deth.src_qp, 0xFEDCBA);
	assert_int_equal(p.payload_len, 0);
}

static void encodes_golden_packets(void **state)
{
	(void)state;
	struct roce_flow flow = golden_flow();
	uint8_t buf[sizeof(write_packet)] = { 0 };

	roce_encode_bth(&(struct roce_bth){ .opcode = ROCE_ACKNOWLEDGE,
					    .pkey = ROCE_PKEY_DEFAULT,
					    .dest_qp = 0x11,
					    .psn = 0x745E19 },
			buf);
	roce_encode_aeth(&(struct roce_aeth){ .value = ROCE_CREDITS_UNLIMITED, .msn = 1 },
			 buf + ROCE_BTH_LEN);
	roce_icrc_put(roce_icrc_begin(&flow, ROCE_ACK_LEN, ACK_IP_ID, buf, 16), buf + 16);
	assert_memory_equal(buf, ack_packet, sizeof(ack_packet));

	roce_encode_bth(&(struct roce_bth){ .opcode = ROCE_WRITE_ONLY,
					    .pad = 3,
					    .pkey = ROCE_PKEY_DEFAULT,
					    .dest_qp = 0x11,
					    .ack_req = true,
					    .psn = 0x0201C9 },
			buf);
	roce_encode_reth(
		&(struct roce_reth){ .va = 0xFF39591A447401F4, .rkey = 0x3B1, .length = 1 },
		buf + ROCE_BTH_LEN);
	memcpy(buf + ROCE_MAX_HEADER, "\x21\0\0\0", 4);
	uint32_t crc = roce_icrc_begin(&flow, sizeof(buf), WRITE_IP_ID, buf, ROCE_MAX_HEADER);
	roce_icrc_put(roce_icrc_update(crc, buf + ROCE_MAX_HEADER, 4), buf + 32);
	assert_memory_equal(buf, write_packet, sizeof(write_packet));
}

static void bth_flags_survive(void **state)
{
	(void)state;
	uint8_t buf[ROCE_MIN_LEN] = { 0 };
	roce_encode_bth(&(struct roce_bth){ .opcode = ROCE_SEND_ONLY,
					    .solicited = true,
					    .migrated = true,
					    .pkey = 0x7FFF,
					    .dest_qp = 0xFEDCBA,
					    .psn = 0xFFFFFF },
			buf);
	struct roce_packet p;
	assert_int_equal(roce_decode(buf, sizeof(buf), &p), 0);
	assert_true(p.bth.solicited);
	assert_true(p.bth.migrated);
	assert_false(p.bth.ack_req);
	assert_int_equal(p.bth.pkey, 0x7FFF);
	assert_int_equal(p.bth.dest_qp, 0xFEDCBA);
	assert_int_equal(p.bth.psn, 0xFFFFFF);
	assert_int_equal(p.payload_len, 0);
}

/* Decodes a packet of `len` bytes in all with this opcode and pad count, in a buffer of its own. */
static int decode_shape(uint8_t opcode, uint8_t pad, size_t len)
{
	uint8_t *buf = calloc(1, len ? len : 1);
	assert_non_null(buf);
	if (len >= ROCE_BTH_LEN)
		roce_encode_bth(&(struct roce_bth){ .opcode = opcode, .pad = pad }, buf);
	struct roce_packet p;
	int r = roce_decode(buf, len, &p);
	free(buf);
	return r;
}

static void refuses_malformed(void **state)
{
	(void)state;
	for (size_t len = 0; len < ROCE_MIN_LEN; len++)
		assert_int_equal(decode_shape(ROCE_SEND_ONLY, 0, len), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_SEND_ONLY, 0, ROCE_MIN_LEN), 0);
	/* Headers that are cut short. */
	assert_int_equal(decode_shape(ROCE_WRITE_ONLY, 0, ROCE_MIN_LEN + 15), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_WRITE_ONLY, 0, ROCE_MIN_LEN + 16), 0);
	assert_int_equal(decode_shape(ROCE_ACKNOWLEDGE, 0, ROCE_MIN_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_ACKNOWLEDGE, 0, ROCE_ACK_LEN), 0);
	/* A payload that is no multiple of four, padding larger than the payload, an ACK with a
	 * payload. */
	assert_int_equal(decode_shape(ROCE_SEND_ONLY, 0, ROCE_MIN_LEN + 2), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_SEND_ONLY, 1, ROCE_MIN_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_ACKNOWLEDGE, 0, ROCE_ACK_LEN + 4), -EBADMSG);
	/* FIRST and MIDDLE have to be full packets, LAST needs at least a byte. */
	assert_int_equal(decode_shape(ROCE_SEND_FIRST, 1, ROCE_MIN_LEN + 256), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_SEND_FIRST, 0, ROCE_MIN_LEN + 256), 0);
	assert_int_equal(decode_shape(ROCE_WRITE_MIDDLE, 0, ROCE_MIN_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_WRITE_LAST, 0, ROCE_MIN_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_SEND_LAST, 3, ROCE_MIN_LEN + 4), 0);
	assert_int_equal(decode_shape(ROCE_SEND_LAST_INVALIDATE, 3, ROCE_MIN_LEN + 8), 0);
	assert_int_equal(decode_shape(ROCE_SEND_LAST_INVALIDATE, 0, ROCE_MIN_LEN + 4), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_SEND_ONLY_INVALIDATE, 0, ROCE_MIN_LEN + 4), 0);
	assert_int_equal(decode_shape(ROCE_SEND_ONLY_INVALIDATE, 0, ROCE_MIN_LEN + 3), -EBADMSG);
	/* An RDMA READ request has no payload, its response what FIRST, MIDDLE, LAST and ONLY have.
	 */
	assert_int_equal(decode_shape(ROCE_READ_REQUEST, 0, ROCE_MIN_LEN + 16), 0);
	assert_int_equal(decode_shape(ROCE_READ_REQUEST, 0, ROCE_MIN_LEN + 20), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_READ_REQUEST, 0, ROCE_MIN_LEN + 12), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_FIRST, 1, ROCE_ACK_LEN + 256), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_MIDDLE, 0, ROCE_MIN_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_LAST, 0, ROCE_ACK_LEN), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_LAST, 3, ROCE_ACK_LEN + 4), 0);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_ONLY, 0, ROCE_ACK_LEN), 0);
	assert_int_equal(decode_shape(ROCE_READ_RESPONSE_ONLY, 0, ROCE_MIN_LEN), -EBADMSG);
	/* A datagram that is cut in its header. */
	assert_int_equal(decode_shape(ROCE_UD_SEND_ONLY, 0, ROCE_MIN_LEN + 7), -EBADMSG);
	assert_int_equal(decode_shape(ROCE_UD_SEND_ONLY, 0, ROCE_MIN_LEN + 8), 0);
	/* A payload longer than the largest path MTU. */
	assert_int_equal(decode_shape(ROCE_SEND_ONLY, 0, ROCE_MIN_LEN + ROCE_MAX_PAYLOAD), 0);
	assert_int_equal(decode_shape(ROCE_SEND_ONLY, 0, ROCE_MIN_LEN + ROCE_MAX_PAYLOAD + 4),
			 -EBADMSG);
	assert_int_equal(decode_shape(ROCE_WRITE_ONLY, 0, ROCE_MAX_LEN), 0);
	assert_int_equal(decode_shape(ROCE_WRITE_ONLY, 0, ROCE_MAX_LEN + 4), -EBADMSG);

	/* Another version of the BTH. */
	uint8_t buf[sizeof(ack_packet)];
	memcpy(buf, ack_packet, sizeof(buf));
	buf[1] = 0x01;
	struct roce_packet p;
	assert_int_equal(roce_decode(buf, sizeof(buf), &p), -EBADMSG);
}

static void tells_unsupported_from_nonsense(void **state)
{
	(void)state;
	static const uint8_t unsupported[] = { 0x03, 0x05, 0x09, 0x0B, 0x13, 0x14 };
	static const uint8_t understood[] = {
		0x00, 0x01, 0x02, 0x04, 0x06, 0x07, 0x08, 0x0A, 0x0C,
		0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x16, 0x17, 0x64, 0x81
	};
	for (unsigned int opcode = 0; opcode <= 0xFF; opcode++) {
		int expect = -EBADMSG;
		if (memchr(unsupported, (int)opcode, sizeof(unsupported)))
			expect = -ENOTSUP;
		if (memchr(understood, (int)opcode, sizeof(understood)))
			expect = 0;
		size_t len = ROCE_MIN_LEN + 256;
		if (opcode == ROCE_ACKNOWLEDGE)
			len = ROCE_ACK_LEN;
		else if (opcode == ROCE_CONGESTION)
			len = ROCE_CNP_LEN;
		else if (opcode == ROCE_READ_REQUEST)
			len = ROCE_MIN_LEN + ROCE_RETH_LEN;
		assert_int_equal(decode_shape((uint8_t)opcode, 0, len), expect);
		assert_int_equal(strcmp(roce_opcode_name((uint8_t)opcode), "unknown") == 0,
				 expect != 0);
	}
}

static void congestion_notification(void **state)
{
	(void)state;
	uint8_t buf[ROCE_CNP_LEN + 1] = { 0 };
	struct roce_bth bth = { .opcode = ROCE_CONGESTION,
				.pkey = ROCE_PKEY_DEFAULT,
				.becn = true,
				.dest_qp = 0x123456 };
	struct roce_packet p;
	roce_encode_bth(&bth, buf);
	assert_int_equal(buf[4], 0x40);
	assert_int_equal(roce_decode(buf, ROCE_CNP_LEN, &p), 0);
	assert_true(p.bth.becn);
	assert_int_equal(p.bth.dest_qp, 0x123456);
	assert_int_equal(p.header_len, ROCE_CNP_LEN - ROCE_ICRC_LEN);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(roce_decode(buf, ROCE_CNP_LEN - 1, &p), -EBADMSG);
	assert_int_equal(roce_decode(buf, ROCE_CNP_LEN + 1, &p), -EBADMSG);
	buf[1] = 0x10; /* there is no payload that could need padding */
	assert_int_equal(roce_decode(buf, ROCE_CNP_LEN, &p), -EBADMSG);
	buf[1] = 1; /* another version of the BTH */
	assert_int_equal(roce_decode(buf, ROCE_CNP_LEN, &p), -EBADMSG);
}

static void psn_differences_wrap(void **state)
{
	(void)state;
	assert_int_equal(roce_psn_diff(5, 5), 0);
	assert_int_equal(roce_psn_diff(0, 0xFFFFFF), 1);
	assert_int_equal(roce_psn_diff(0xFFFFFF, 0), -1);
	assert_int_equal(roce_psn_diff(0x7FFFFF, 0), 0x7FFFFF);
	assert_int_equal(roce_psn_diff(0x800000, 0), -0x800000);
}

static void credit_and_timer_codes(void **state)
{
	(void)state;
	static const uint32_t credits[] = { 0,    1,    2,    3,     4,     6,     8,    12,
					    16,   24,   32,   48,    64,    96,    128,  192,
					    256,  384,  512,  768,   1024,  1536,  2048, 3072,
					    4096, 6144, 8192, 12288, 16384, 24576, 32768 };
	for (uint8_t code = 0; code < 31; code++) {
		assert_int_equal(roce_credits_decode(code), credits[code]);
		assert_int_equal(roce_credits_encode(credits[code]), code);
	}
	assert_int_equal(roce_credits_encode(5), 4);
	assert_int_equal(roce_credits_encode(127), 13);
	assert_int_equal(roce_credits_encode(UINT32_MAX), 30);
	assert_int_equal(roce_rnr_timer_us(0), 655360);
	assert_int_equal(roce_rnr_timer_us(1), 10);
	assert_int_equal(roce_rnr_timer_us(5), 60);
	assert_int_equal(roce_rnr_timer_us(14), 1280);
	assert_int_equal(roce_rnr_timer_us(31), 491520);
}

static void icrc_finds_every_identification(void **state)
{
	(void)state;
	struct roce_icrc_tables *tables = new_tables();
	struct roce_flow flow = golden_flow();
	assert_int_equal(identification(tables, &flow, ack_packet, sizeof(ack_packet), 0),
			 ACK_IP_ID);

	uint8_t buf[sizeof(ack_packet)];
	memcpy(buf, ack_packet, sizeof(buf));
	for (uint32_t id = 0; id <= 0xFFFF; id++) {
		TRIES("id %u", id);
		roce_icrc_put(roce_icrc_begin(&flow, sizeof(buf), (uint16_t)id, buf, 16), buf + 16);
		assert_int_equal(identification(tables, &flow, buf, sizeof(buf), 0), id);
		assert_int_equal(identification(tables, &flow, buf, sizeof(buf), 0xA5C3), id);
	}
	free(tables);
}

/* If one or two bits change among those that the ICRC covers, the ICRC does not fit any more,
 * whatever the IPv4 identification. */
static void icrc_notices_damage(void **state)
{
	(void)state;
	struct roce_icrc_tables *tables = new_tables();
	struct roce_flow flow = golden_flow();
	uint8_t buf[sizeof(write_packet)];
	unsigned int bits = 8 * sizeof(buf);
	for (unsigned int a = 0; a < bits; a++) {
		for (unsigned int b = a; b < bits; b++) {
			if (a / 8 == 4 && b / 8 == 4)
				continue; /* FECN, BECN and reserved bits are not covered */
			memcpy(buf, write_packet, sizeof(buf));
			buf[a / 8] ^= (uint8_t)(1 << a % 8);
			if (b != a)
				buf[b / 8] ^= (uint8_t)(1 << b % 8);
			assert_false(accepts(tables, &flow, buf, sizeof(buf), 0));
		}
	}
	/* Another address or port does not fit either. */
	flow.saddr ^= htonl(1);
	assert_false(accepts(tables, &flow, write_packet, sizeof(write_packet), 0));
	flow = golden_flow();
	flow.sport ^= htons(1);
	assert_false(accepts(tables, &flow, write_packet, sizeof(write_packet), 0));
	/* The masked byte may change on the way. */
	flow = golden_flow();
	memcpy(buf, write_packet, sizeof(buf));
	buf[4] = 0xC0;
	assert_true(accepts(tables, &flow, buf, sizeof(buf), 0));
	free(tables);
}

/* For each identification, each length, and each bit of the BTH and of the flow. */
static void both_ways_to_start_an_icrc(void **state)
{
	(void)state;
	struct roce_icrc_tables *tables = new_tables();
	uint32_t random = 1;
	for (unsigned int i = 0; i <= UINT16_MAX; i++) {
		TRIES("case %u", i);
		uint8_t bth[ROCE_BTH_LEN];
		uint32_t words[3 + sizeof(bth) / 4];
		for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
			words[k] = random = random * 1664525 + 1013904223;
		const struct roce_flow flow = { words[0], words[1], (uint16_t)words[2],
						(uint16_t)(words[2] >> 16) };
		memcpy(bth, words + 3, sizeof(bth));
		struct roce_icrc_flow icrc_flow;
		roce_icrc_flow_init(&icrc_flow, &flow);
		size_t len = ROCE_MIN_LEN + i % (ROCE_MAX_LEN - ROCE_MIN_LEN + 1);
		assert_int_equal(roce_icrc_start(tables, &icrc_flow, len, (uint16_t)i, bth),
				 roce_icrc_begin(&flow, len, (uint16_t)i, bth, sizeof(bth)));
	}
	free(tables);
}

/* Packets of each length are checked, whatever the masked byte is on arrival. */
static void every_length_is_checked(void **state)
{
	(void)state;
	struct roce_icrc_tables *tables = new_tables();
	const struct roce_flow flow = golden_flow();
	uint8_t buf[ROCE_MAX_LEN];
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 37 + 11);
	for (size_t len = ROCE_MIN_LEN; len <= ROCE_MAX_LEN; len++) {
		TRIES("len %zu", len);
		size_t covered = len - ROCE_ICRC_LEN;
		uint8_t after[ROCE_ICRC_LEN];
		memcpy(after, buf + covered, sizeof(after));
		uint32_t crc = roce_icrc_begin(&flow, len, 7, buf, ROCE_BTH_LEN);
		roce_icrc_put(roce_icrc_update(crc, buf + ROCE_BTH_LEN, covered - ROCE_BTH_LEN),
			      buf + covered);
		for (unsigned int masked = 0; masked < 3; masked++) {
			buf[4] = (uint8_t)(masked * 0x7F);
			assert_true(accepts(tables, &flow, buf, len, 7));
			buf[covered - 1] ^= 0x10;
			assert_false(accepts(tables, &flow, buf, len, 7));
			buf[covered - 1] ^= 0x10;
		}
		memcpy(buf + covered, after, sizeof(after));
	}
	free(tables);
}

/* Decodes, encodes again and compares; computes the ICRC with and without the identification. */
static bool reproduces(const struct roce_icrc_tables *tables, const struct pcap_packet *udp)
{
	struct roce_packet p;
	const uint8_t *buf = udp->payload;
	size_t len = udp->payload_len;
	assert_int_equal(roce_decode(buf, len, &p), 0);

	uint8_t header[ROCE_MAX_HEADER];
	roce_encode_bth(&p.bth, header);
	assert_int_equal(ROCE_BTH_LEN +
				 roce_encode_ext(p.bth.opcode, &p.ext, header + ROCE_BTH_LEN),
			 p.header_len);
	assert_memory_equal(header, buf, p.header_len);

	struct roce_flow flow = { .saddr = htonl(udp->src),
				  .daddr = htonl(udp->dst),
				  .sport = htons(udp->src_port),
				  .dport = htons(udp->dst_port) };
	uint16_t id = (uint16_t)(udp->ip[4] << 8 | udp->ip[5]);
	uint32_t crc = roce_icrc_begin(&flow, len, id, buf, p.header_len);
	crc = roce_icrc_update(crc, p.payload, len - p.header_len - ROCE_ICRC_LEN);
	return crc == p.icrc && accepts(tables, &flow, buf, len, 0);
}

static void icrc_of_every_captured_packet(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		unsigned int packets;
	} captures[] = {
		{ "tests/captures/linux-smcr-v1.pcap.gz", 7935 },
		{ "tests/captures/linux-smcr-v2.pcap.gz", 8159 },
		{ "tests/captures/linux-smcr-v2-failover.pcap.gz", 630 },
		{ "tests/captures/linux-rdma-cm-rping-ucmatose.pcap.gz", 88 },
		{ "tests/captures/linux-rdma-cm-perftest.pcap.gz", 91 },
		{ "tests/captures/user-space-client-to-linux-v1.pcap.gz", 34 },
		{ "tests/captures/user-space-client-to-linux-v2.pcap.gz", 37 },
	};
	struct roce_icrc_tables *tables = new_tables();
	for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		TRIES("%s", captures[i].path);
		struct pcap *pcap;
		struct pcap_packet packet;
		unsigned int seen = 0;
		int r;
		assert_int_equal(pcap_open(captures[i].path, &pcap), 0);
		while ((r = pcap_next(pcap, &packet)) > 0) {
			if (packet.protocol != IPPROTO_UDP || packet.dst_port != ROCE_UDP_PORT)
				continue;
			seen++;
			if (!reproduces(tables, &packet))
				fail_msg("%s frame %u: ICRC not reproduced", captures[i].path,
					 packet.number);
		}
		pcap_close(pcap);
		assert_int_equal(r, 0);
		print_message("# %s: %u RoCE packets\n", captures[i].path, seen);
		assert_int_equal(seen, captures[i].packets);
	}
	free(tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_golden_packets),
		cmocka_unit_test(decodes_golden_reads_and_invalidations),
		cmocka_unit_test(datagrams_have_a_key_and_a_source),
		cmocka_unit_test(encodes_golden_packets),
		cmocka_unit_test(bth_flags_survive),
		cmocka_unit_test(refuses_malformed),
		cmocka_unit_test(tells_unsupported_from_nonsense),
		cmocka_unit_test(congestion_notification),
		cmocka_unit_test(psn_differences_wrap),
		cmocka_unit_test(credit_and_timer_codes),
		cmocka_unit_test(icrc_finds_every_identification),
		cmocka_unit_test(icrc_notices_damage),
		cmocka_unit_test(both_ways_to_start_an_icrc),
		cmocka_unit_test(every_length_is_checked),
		cmocka_unit_test(icrc_of_every_captured_packet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
