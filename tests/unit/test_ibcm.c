/* SPDX-License-Identifier: MIT */
/* Messages of the connection manager: those of the Linux kernel decode, and encode to the same
 * bytes again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ibcm/ibcm.h"
#include "proto/ibcm/ip.h"
#include "proto/ibcm/text.h"
#include "proto/roce/roce.h"
#include "proto/smcr/bytes.h"
#include "tests/lib/hex.h"
#include "tests/lib/pcap.h"
#include "tests/lib/random.h"
#include "tests/lib/tries.h"

#define LINUX_CAPTURE "tests/captures/linux-rdma-cm-rping-ucmatose.pcap.gz"
#define PERFTEST      "tests/captures/linux-rdma-cm-perftest.pcap.gz"
#define VARIATIONS    "tests/captures/user-space-cm-req-variations.pcap.gz"

/* A datagram of queue pair 1: BTH, the header of datagrams (Q_Key, sender's queue pair), MAD, ICRC.
 */
#define UD_SEND_ONLY 0x64
#define DETH_LEN     8
#define MAD_AT       (ROCE_BTH_LEN + DETH_LEN)
#define FRAME_LEN    (MAD_AT + IBCM_MAD_LEN + ROCE_ICRC_LEN)

#define MOST 256

/* The messages of a capture, in their order. */
static struct seen {
	unsigned int frame;
	const uint8_t *mad;
	struct ibcm_msg msg;
} seen[MOST];
static size_t num_seen;
static struct pcap *capture;

static int decode(const uint8_t *mad, size_t len, struct ibcm_msg *ret_msg)
{
	uint8_t *copy = exact_copy(mad, len);
	int r = ibcm_decode(copy, len, ret_msg);
	free(copy);
	return r;
}

static void take(const struct pcap_packet *p)
{
	const uint8_t *roce = p->payload;
	struct seen *at = &seen[num_seen];
	if (p->protocol != IPPROTO_UDP || p->dst_port != ROCE_UDP_PORT || roce[0] != UD_SEND_ONLY)
		return;
	TRIES("frame %u", p->number);
	assert_int_equal(p->payload_len, FRAME_LEN);
	assert_int_equal(get_be32(roce + ROCE_BTH_LEN), IBCM_QKEY);
	assert_int_equal(get_be24(roce + 5), IBCM_QPN);
	at->frame = p->number;
	at->mad = roce + MAD_AT;
	assert_int_equal(decode(at->mad, IBCM_MAD_LEN, &at->msg), 0);
	num_seen++;
}

static void read_capture(const char *path)
{
	struct pcap_packet packet;
	int more;
	num_seen = 0;
	assert_int_equal(pcap_open(path, &capture), 0);
	while ((more = pcap_next(capture, &packet)) > 0) {
		assert_true(num_seen < MOST);
		take(&packet);
	}
	assert_int_equal(more, 0);
}

static int close_capture(void **state)
{
	(void)state;
	pcap_close(capture);
	capture = NULL;
	return 0;
}

static unsigned int count(enum ibcm_type type)
{
	unsigned int n = 0;
	for (size_t i = 0; i < num_seen; i++)
		n += seen[i].msg.type == type;
	return n;
}

static void encodes_to_the_same_bytes(void)
{
	uint8_t again[IBCM_MAD_LEN];
	for (size_t i = 0; i < num_seen; i++) {
		TRIES("frame %u", seen[i].frame);
		assert_int_equal(ibcm_encode(&seen[i].msg, again), 0);
		assert_memory_equal(again, seen[i].mad, IBCM_MAD_LEN);
	}
}

static void address_is(const uint8_t *gid, const char *hex)
{
	uint8_t expect[IBCM_GID_LEN];
	assert_int_equal(hex_bytes(hex, expect, sizeof(expect)), sizeof(expect));
	assert_memory_equal(gid, expect, sizeof(expect));
}

/* ---- tests */

static void messages_of_linux_come_back(void **state)
{
	(void)state;
	read_capture(LINUX_CAPTURE);
	encodes_to_the_same_bytes();
	assert_int_equal(num_seen, 12);
	assert_int_equal(count(IBCM_REQ), 3);
	assert_int_equal(count(IBCM_REP), 2);
	assert_int_equal(count(IBCM_RTU), 2);
	assert_int_equal(count(IBCM_DREQ), 2);
	assert_int_equal(count(IBCM_DREP), 2);
	assert_int_equal(count(IBCM_REJ), 1);
}

/* What tshark, and the programs that were run, tell of the first frames. */
static void fields_of_linux_are_where_they_belong(void **state)
{
	(void)state;
	read_capture(LINUX_CAPTURE);
	const struct ibcm_msg *req = &seen[0].msg, *rep = &seen[1].msg, *dreq = &seen[3].msg;
	assert_int_equal(req->type, IBCM_REQ);
	assert_int_equal(req->transaction_id, 0x00000002499ba88e);
	assert_int_equal(req->local_id, 0x8ea89b49);
	assert_int_equal(ibcm_service_port(req->req.service_id), 7174);
	assert_int_equal(req->req.ca_guid, 0x505400fffe000002);
	assert_int_equal(req->req.qpn, 0x11);
	assert_int_equal(req->req.responder_resources, 1);
	assert_int_equal(req->req.initiator_depth, 1);
	assert_int_equal(req->req.remote_timeout, 20);
	assert_int_equal(req->req.starting_psn, 0x9d718d);
	assert_int_equal(req->req.local_timeout, 20);
	assert_int_equal(req->req.retry_count, 7);
	assert_int_equal(req->req.pkey, 0xFFFF);
	assert_int_equal(req->req.path_mtu, 3);
	assert_int_equal(req->req.rnr_retry, 7);
	assert_int_equal(req->req.max_cm_retries, 15);
	assert_int_equal(req->req.primary.local_lid, 0xFFFF);
	address_is(req->req.primary.local_gid, "00000000000000000000ffff0a000002");
	address_is(req->req.primary.remote_gid, "00000000000000000000ffff0a000001");
	assert_int_equal(req->req.primary.flow_label, 0x5bd09);
	assert_int_equal(req->req.primary.hop_limit, 64);
	assert_int_equal(req->req.primary.ack_timeout, 17);

	assert_int_equal(rep->type, IBCM_REP);
	assert_int_equal(rep->local_id, 0xe83e0f29);
	assert_int_equal(rep->remote_id, req->local_id);
	assert_int_equal(rep->rep.qpn, 0x11);
	assert_int_equal(rep->rep.starting_psn, 0xfcdf40);
	assert_int_equal(rep->rep.responder_resources, 1);
	assert_int_equal(rep->rep.initiator_depth, 1);
	assert_int_equal(rep->rep.ack_delay, 15);
	assert_int_equal(rep->rep.rnr_retry, 7);
	assert_int_equal(rep->rep.ca_guid, 0x505400fffe000001);

	assert_int_equal(seen[2].msg.type, IBCM_RTU);
	assert_int_equal(dreq->type, IBCM_DREQ);
	assert_int_equal(dreq->dreq_qpn, rep->rep.qpn);
	assert_int_equal(dreq->remote_id, rep->local_id);
}

static void a_port_without_listener_is_rejected(void **state)
{
	(void)state;
	read_capture(LINUX_CAPTURE);
	const struct ibcm_msg *req = &seen[10].msg, *rej = &seen[11].msg;
	assert_int_equal(ibcm_service_port(req->req.service_id), 9999);
	assert_int_equal(rej->type, IBCM_REJ);
	assert_int_equal(rej->transaction_id, req->transaction_id);
	assert_int_equal(rej->local_id, 0);
	assert_int_equal(rej->remote_id, req->local_id);
	assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REQ);
	assert_int_equal(rej->rej.reason, IBCM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(rej->rej.info_len, 0);
}

/* Two connections of one program: only the second one is for RDMA READs. */
static void reads_of_linux_are_agreed_on(void **state)
{
	(void)state;
	read_capture(PERFTEST);
	encodes_to_the_same_bytes();
	assert_int_equal(num_seen, 12);
	const struct ibcm_msg *talk = &seen[0].msg, *data = &seen[3].msg, *rep = &seen[4].msg;
	assert_int_equal(talk->type, IBCM_REQ);
	assert_int_equal(data->type, IBCM_REQ);
	assert_int_equal(data->req.service_id, talk->req.service_id);
	assert_true(data->local_id != talk->local_id);
	assert_int_equal(talk->req.responder_resources, 0);
	assert_int_equal(talk->req.initiator_depth, 0);
	assert_int_equal(data->req.responder_resources, 128);
	assert_int_equal(data->req.initiator_depth, 128);
	assert_int_equal(rep->type, IBCM_REP);
	assert_int_equal(rep->remote_id, data->local_id);
	assert_int_equal(rep->rep.responder_resources, 128);
	assert_int_equal(rep->rep.initiator_depth, 128);
}

static void a_refusal_of_linux_has_its_private_data(void **state)
{
	(void)state;
	read_capture(PERFTEST);
	const struct ibcm_msg *req = &seen[10].msg, *rej = &seen[11].msg;
	assert_int_equal(rej->type, IBCM_REJ);
	assert_int_equal(rej->remote_id, req->local_id);
	assert_int_equal(rej->rej.subject, IBCM_SUBJECT_REQ);
	assert_int_equal(rej->rej.reason, IBCM_REJ_CONSUMER);
	assert_string_equal((const char *)rej->private_data, "not today");
}

/* REQs of a program in user space, each with another odd field, and what Linux answered. */
static void odd_requests_and_their_answers_come_back(void **state)
{
	(void)state;
	unsigned int invalid_gid = 0, consumer = 0;
	read_capture(VARIATIONS);
	encodes_to_the_same_bytes();
	assert_int_equal(count(IBCM_REQ), 48);
	assert_int_equal(count(IBCM_REP), 24);
	assert_int_equal(count(IBCM_REJ), 7);
	for (size_t i = 0; i < num_seen; i++) {
		const struct ibcm_rej *rej = &seen[i].msg.rej;
		if (seen[i].msg.type != IBCM_REJ)
			continue;
		consumer += rej->reason == IBCM_REJ_CONSUMER;
		if (rej->reason != IBCM_REJ_INVALID_GID)
			continue;
		invalid_gid++;
		assert_int_equal(rej->info_len, IBCM_GID_LEN);
		address_is(rej->info, "fe80000000000000505400fffe000001");
	}
	assert_int_equal(invalid_gid, 1);
	assert_true(consumer > 0);
}

static void addresses_of_linux_come_back(void **state)
{
	(void)state;
	uint8_t again[IBCM_IP_LEN];
	struct ibcm_ip ip;
	read_capture(LINUX_CAPTURE);
	for (size_t i = 0; i < num_seen; i++) {
		const struct ibcm_msg *msg = &seen[i].msg;
		if (msg->type != IBCM_REQ)
			continue;
		TRIES("frame %u", seen[i].frame);
		assert_int_equal(ibcm_ip_decode(msg->private_data, &ip), 0);
		assert_int_equal(ip.version, 4);
		address_is(ip.source, "0a000002000000000000000000000000");
		address_is(ip.destination, "0a000001000000000000000000000000");
		assert_int_equal(ibcm_ip_encode(&ip, again), 0);
		assert_memory_equal(again, msg->private_data, IBCM_IP_LEN);
	}
	assert_int_equal(ibcm_ip_decode(seen[0].msg.private_data, &ip), 0);
	assert_int_equal(ip.source_port, 45725);
}

static void ipv6_addresses_come_back(void **state)
{
	(void)state;
	struct ibcm_ip ip = { .version = 6, .source_port = 1, .source = { 0xFE, 0x80 } }, again;
	uint8_t header[IBCM_IP_LEN];
	ip.destination[15] = 1;
	assert_int_equal(ibcm_ip_encode(&ip, header), 0);
	assert_int_equal(header[1], 0x60);
	assert_int_equal(ibcm_ip_decode(header, &again), 0);
	assert_memory_equal(&again, &ip, sizeof(ip));
}

static void odd_addresses_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned int at;
		uint8_t value;
		int error;
	} rows[] = {
		{ "another version of the header", 0, 0x10, -ENOTSUP },
		{ "neither IPv4 nor IPv6", 1, 0x50, -ENOTSUP },
		{ "a source that is a mapped address", 15, 0xFF, -EBADMSG },
		{ "a destination that is a mapped address", 31, 0xFF, -EBADMSG },
	};
	const struct ibcm_ip ip = { .version = 4, .source = { 10, 0, 0, 1 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t header[IBCM_IP_LEN];
		struct ibcm_ip again;
		TRIES("%s", rows[i].name);
		assert_int_equal(ibcm_ip_encode(&ip, header), 0);
		header[rows[i].at] = rows[i].value;
		assert_int_equal(ibcm_ip_decode(header, &again), rows[i].error);
	}
	uint8_t header[IBCM_IP_LEN];
	assert_int_equal(ibcm_ip_encode(&(struct ibcm_ip){ .version = 5 }, header), -EINVAL);
}

static void other_services_have_no_port(void **state)
{
	(void)state;
	assert_int_equal(ibcm_service_port(IBCM_SERVICE_TCP + 445), 445);
	assert_int_equal(ibcm_service_port(IBCM_SERVICE_TCP + 65535), 65535);
	assert_int_equal(ibcm_service_port(IBCM_SERVICE_TCP), 0);
	assert_int_equal(ibcm_service_port(IBCM_SERVICE_TCP + 65536 + 445), 0);
	assert_int_equal(ibcm_service_port(445), 0);
}

static const struct ibcm_msg rtu = { .type = IBCM_RTU,
				     .transaction_id = 0x0102030405060708,
				     .local_id = 0x11121314,
				     .remote_id = 0x21222324 };

static void what_is_no_cm_message_is_dropped(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned int at;
		uint8_t value;
		int error;
	} rows[] = {
		{ "base version", 0, 2, -EBADMSG },
		{ "class", 1, 3, -EBADMSG },
		{ "class version", 2, 1, -EBADMSG },
		{ "method", 3, 1, -EBADMSG },
		{ "status", 5, 1, -EBADMSG },
		{ "LAP", 17, 0x19, -ENOTSUP },
		{ "another attribute", 16, 1, -ENOTSUP },
	};
	uint8_t mad[IBCM_MAD_LEN];
	struct ibcm_msg msg;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		TRIES("%s", rows[i].name);
		assert_int_equal(ibcm_encode(&rtu, mad), 0);
		mad[rows[i].at] = rows[i].value;
		assert_int_equal(decode(mad, sizeof(mad), &msg), rows[i].error);
	}
}

static void a_mad_has_one_length(void **state)
{
	(void)state;
	uint8_t mad[IBCM_MAD_LEN + 1] = { 0 };
	struct ibcm_msg msg;
	assert_int_equal(ibcm_encode(&rtu, mad), 0);
	for (size_t len = 0; len <= sizeof(mad); len++) {
		TRIES("%zu bytes", len);
		assert_int_equal(decode(mad, len, &msg), len == IBCM_MAD_LEN ? 0 : -EBADMSG);
	}
}

/* Messages that the captures lack, as the specification's tables have them. */
static void other_messages_have_their_fields(void **state)
{
	(void)state;
	uint8_t mad[IBCM_MAD_LEN], expect[IBCM_INFO_LEN];
	struct ibcm_msg msg = rtu;
	msg.type = IBCM_MRA;
	msg.mra = (struct ibcm_mra){ .subject = IBCM_SUBJECT_REP, .service_timeout = 20 };
	msg.private_data[0] = 0x77;
	assert_int_equal(ibcm_encode(&msg, mad), 0);
	size_t len = hex_bytes("01070203 00000000 0102030405060708 0011 0000 00000000"
			       "11121314 21222324 40a0 77",
			       expect, sizeof(expect));
	assert_memory_equal(mad, expect, len);

	msg.type = IBCM_SIDR_REQ;
	msg.sidr_req = (struct ibcm_sidr_req){ .pkey = 0xFFFF, .service_id = IBCM_SERVICE_TCP + 9 };
	assert_int_equal(ibcm_encode(&msg, mad), 0);
	len = hex_bytes("11121314 ffff 0000 0000000001060009 77", expect, sizeof(expect));
	assert_int_equal(get_be16(mad + 16), IBCM_SIDR_REQ);
	assert_memory_equal(mad + 24, expect, len);

	msg.type = IBCM_SIDR_REP;
	msg.sidr_rep = (struct ibcm_sidr_rep){ .status = IBCM_SIDR_UNSUPPORTED,
					       .info_len = 2,
					       .qpn = 0x313233,
					       .service_id = IBCM_SERVICE_TCP + 9,
					       .qkey = 0x41424344,
					       .info = { 0x51, 0x52 } };
	assert_int_equal(ibcm_encode(&msg, mad), 0);
	len = hex_bytes("11121314 01 02 0000 31323300 0000000001060009 41424344 5152 0000", expect,
			sizeof(expect));
	assert_int_equal(get_be16(mad + 16), IBCM_SIDR_REP);
	assert_memory_equal(mad + 24, expect, len);
	assert_int_equal(mad[24 + 24 + IBCM_INFO_LEN], 0x77);
}

/* Every bit of all messages: random bytes decode, and what comes of them comes back unchanged. */
static void random_messages_come_back(void **state)
{
	(void)state;
	struct random random = { 20261129 };
	for (unsigned int round = 0; round < 9000; round++) {
		uint8_t mad[IBCM_MAD_LEN], first[IBCM_MAD_LEN], second[IBCM_MAD_LEN];
		struct ibcm_msg msg;
		assert_int_equal(ibcm_encode(&rtu, mad), 0);
		mad[17] = (uint8_t)(IBCM_REQ + round % 9);
		random_bytes(&random, mad + 24, sizeof(mad) - 24);
		mad[mad[17] == IBCM_REJ ? 33 : 29] %= IBCM_INFO_LEN; /* a length inside */
		TRIES("round %u", round);
		assert_int_equal(decode(mad, sizeof(mad), &msg), 0);
		assert_int_equal(ibcm_encode(&msg, first), 0);
		size_t private_at = IBCM_MAD_LEN - ibcm_private_len(msg.type);
		assert_memory_equal(first + private_at, mad + private_at,
				    IBCM_MAD_LEN - private_at);
		assert_int_equal(decode(first, sizeof(first), &msg), 0);
		assert_int_equal(ibcm_encode(&msg, second), 0);
		assert_memory_equal(first, second, sizeof(first));
	}
}

static void lengths_inside_are_checked(void **state)
{
	(void)state;
	uint8_t mad[IBCM_MAD_LEN];
	struct ibcm_msg msg = { .type = IBCM_REJ, .rej.info_len = IBCM_INFO_LEN };
	assert_int_equal(ibcm_encode(&msg, mad), 0);
	assert_int_equal(decode(mad, sizeof(mad), &msg), 0);
	mad[33] = (IBCM_INFO_LEN + 1) << 1;
	assert_int_equal(decode(mad, sizeof(mad), &msg), -EBADMSG);

	msg = (struct ibcm_msg){ .type = IBCM_SIDR_REP, .sidr_rep.info_len = IBCM_INFO_LEN };
	assert_int_equal(ibcm_encode(&msg, mad), 0);
	assert_int_equal(decode(mad, sizeof(mad), &msg), 0);
	mad[29] = IBCM_INFO_LEN + 1;
	assert_int_equal(decode(mad, sizeof(mad), &msg), -EBADMSG);
}

static void numbers_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	const struct ibcm_msg wrong[] = {
		{ .type = 0x19 },
		{ .type = IBCM_REQ, .req.qpn = 1u << 24 },
		{ .type = IBCM_REQ, .req.starting_psn = 1u << 24 },
		{ .type = IBCM_REQ, .req.remote_timeout = 32 },
		{ .type = IBCM_REQ, .req.local_timeout = 32 },
		{ .type = IBCM_REQ, .req.transport = 4 },
		{ .type = IBCM_REQ, .req.retry_count = 8 },
		{ .type = IBCM_REQ, .req.path_mtu = 16 },
		{ .type = IBCM_REQ, .req.rnr_retry = 8 },
		{ .type = IBCM_REQ, .req.max_cm_retries = 16 },
		{ .type = IBCM_REQ, .req.extended_transport = 8 },
		{ .type = IBCM_REQ, .req.primary.flow_label = 1u << 20 },
		{ .type = IBCM_REQ, .req.primary.packet_rate = 64 },
		{ .type = IBCM_REQ, .req.primary.service_level = 16 },
		{ .type = IBCM_REQ, .req.alternate.ack_timeout = 32 },
		{ .type = IBCM_REP, .rep.qpn = 1u << 24 },
		{ .type = IBCM_REP, .rep.starting_psn = 1u << 24 },
		{ .type = IBCM_REP, .rep.ack_delay = 32 },
		{ .type = IBCM_REP, .rep.failover = 4 },
		{ .type = IBCM_REP, .rep.rnr_retry = 8 },
		{ .type = IBCM_MRA, .mra.subject = 4 },
		{ .type = IBCM_MRA, .mra.service_timeout = 32 },
		{ .type = IBCM_REJ, .rej.subject = 4 },
		{ .type = IBCM_REJ, .rej.info_len = IBCM_INFO_LEN + 1 },
		{ .type = IBCM_DREQ, .dreq_qpn = 1u << 24 },
		{ .type = IBCM_SIDR_REP, .sidr_rep.qpn = 1u << 24 },
		{ .type = IBCM_SIDR_REP, .sidr_rep.info_len = IBCM_INFO_LEN + 1 },
	};
	uint8_t mad[IBCM_MAD_LEN];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("%s, row %zu", ibcm_type_name(wrong[i].type), i);
		assert_int_equal(ibcm_encode(&wrong[i], mad), -EINVAL);
	}
}

static void types_have_names(void **state)
{
	(void)state;
	assert_string_equal(ibcm_type_name(IBCM_REQ), "REQ");
	assert_string_equal(ibcm_type_name(IBCM_SIDR_REP), "SIDR_REP");
	assert_string_equal(ibcm_type_name(0x19), "unknown");
	assert_int_equal(ibcm_private_len(0x19), 0);
}

#define WITH_CAPTURE(test) cmocka_unit_test_teardown(test, close_capture)

/* ---- as text */

static void text_is(const struct ibcm_msg *msg, const char *expect)
{
	char text[IBCM_TEXT_LEN];
	ibcm_text(msg, text);
	assert_string_equal(text, expect);
}

/* No text has a number of a queue pair, a communication or transaction id, or a starting PSN. */
static void messages_of_linux_as_text(void **state)
{
	(void)state;
	read_capture(LINUX_CAPTURE);
	text_is(&seen[0].msg,
		"REQ to port 7174, from 10.0.0.2:45725 to 10.0.0.1, answers 1 RDMA READ at a time, "
		"asks 1, path MTU 1024, RNR retries 7");
	text_is(&seen[1].msg, "REP, answers 1 RDMA READ at a time, asks 1, RNR retries 7");
	text_is(&seen[2].msg, "RTU");
	text_is(&seen[3].msg, "DREQ");
	text_is(&seen[4].msg, "DREP");
	text_is(&seen[11].msg, "REJ of the REQ, reason 8: nobody listens on that port");
}

static void odd_messages_as_text(void **state)
{
	struct ibcm_msg req = { .type = IBCM_REQ,
				.req = { .service_id = 0x1234,
					 .responder_resources = 2,
					 .path_mtu = 9,
					 .transport = 1 } };
	struct ibcm_ip ip = { .version = 6, .source_port = 40000 };
	struct ibcm_msg mra = { .type = IBCM_MRA,
				.mra = { .subject = IBCM_SUBJECT_REP, .service_timeout = 31 } };
	struct ibcm_msg rej = { .type = IBCM_REJ,
				.rej = { .subject = IBCM_SUBJECT_OTHER, .reason = 999 } };
	struct ibcm_msg ask = { .type = IBCM_SIDR_REQ,
				.sidr_req.service_id = IBCM_SERVICE_TCP + 443 };
	struct ibcm_msg answer = { .type = IBCM_SIDR_REP,
				   .sidr_rep.status = IBCM_SIDR_UNSUPPORTED };
	(void)state;
	ip.source[15] = 1;
	ip.destination[15] = 2;
	assert_int_equal(ibcm_ip_encode(&ip, req.private_data), 0);
	text_is(&req,
		"REQ to service 0x0000000000001234, which is no port, from [::1]:40000 to ::2, "
		"answers 2 RDMA READs at a time, asks 0, path MTU of the unknown code 9, RNR "
		"retries 0, transport service 1, which is not RC");
	req.private_data[0] = 0x10;
	req.req = (struct ibcm_req){ .service_id = IBCM_SERVICE_TCP + 443, .path_mtu = 5 };
	text_is(&req,
		"REQ to port 443, without IP addresses that can be read, answers 0 RDMA READs "
		"at a time, asks 0, path MTU 4096, RNR retries 0");
	text_is(&mra, "MRA of the REP: the answer takes up to 8796093 ms longer");
	text_is(&rej, "REJ of another message, reason 999: for a reason that has no name");
	text_is(&ask, "SIDR_REQ to port 443");
	text_is(&answer, "SIDR_REP, status 1");
}

/* Nothing else of a message changes. */
static void starting_psns_can_be_hidden(void **state)
{
	uint8_t mad[IBCM_MAD_LEN], hidden[IBCM_MAD_LEN];
	(void)state;
	read_capture(LINUX_CAPTURE);
	for (size_t i = 0; i < num_seen; i++) {
		TRIES("frame %u", seen[i].frame);
		struct ibcm_msg msg = seen[i].msg;
		const bool req = msg.type == IBCM_REQ, rep = msg.type == IBCM_REP;
		if (req)
			msg.req.starting_psn = 0;
		if (rep)
			msg.rep.starting_psn = 0;
		assert_int_equal(ibcm_encode(&msg, mad), 0);
		memcpy(hidden, seen[i].mad, sizeof(hidden));
		assert_int_equal(ibcm_hide_psn(hidden), req || rep);
		assert_memory_equal(hidden, mad, sizeof(mad));
	}
	memset(hidden, 0xFF, sizeof(hidden));
	assert_true(ibcm_hide_psn(hidden));
	for (size_t i = 0; i < sizeof(hidden); i++)
		assert_int_equal(hidden[i], i < 24 ? 0xFF : 0);
}

static void every_reason_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (uint16_t a = 1; a <= 33; a++) {
		TRIES("%u", a);
		assert_string_not_equal(ibcm_reject_name(a), "unknown");
		for (uint16_t b = 1; b < a; b++)
			assert_string_not_equal(ibcm_reject_name(a), ibcm_reject_name(b));
	}
	assert_string_equal(ibcm_reject_name(0), "unknown");
	assert_string_equal(ibcm_reject_name(34), "unknown");
	assert_string_equal(ibcm_reject_name(IBCM_REJ_NO_QP), "no-qp");
	assert_string_equal(ibcm_reject_name(IBCM_REJ_STALE_CONNECTION), "stale-connection");
	assert_string_equal(ibcm_reject_name(IBCM_REJ_INVALID_GID), "invalid-gid");
	assert_string_equal(ibcm_reject_name(IBCM_REJ_CONSUMER), "consumer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_CAPTURE(messages_of_linux_come_back),
		WITH_CAPTURE(fields_of_linux_are_where_they_belong),
		WITH_CAPTURE(a_port_without_listener_is_rejected),
		WITH_CAPTURE(reads_of_linux_are_agreed_on),
		WITH_CAPTURE(a_refusal_of_linux_has_its_private_data),
		WITH_CAPTURE(odd_requests_and_their_answers_come_back),
		WITH_CAPTURE(addresses_of_linux_come_back),
		cmocka_unit_test(ipv6_addresses_come_back),
		cmocka_unit_test(odd_addresses_are_refused),
		cmocka_unit_test(other_services_have_no_port),
		cmocka_unit_test(what_is_no_cm_message_is_dropped),
		cmocka_unit_test(a_mad_has_one_length),
		cmocka_unit_test(other_messages_have_their_fields),
		cmocka_unit_test(random_messages_come_back),
		cmocka_unit_test(lengths_inside_are_checked),
		cmocka_unit_test(numbers_that_do_not_fit_are_refused),
		cmocka_unit_test(types_have_names),
		WITH_CAPTURE(messages_of_linux_as_text),
		cmocka_unit_test(odd_messages_as_text),
		WITH_CAPTURE(starting_psns_can_be_hidden),
		cmocka_unit_test(every_reason_has_a_name_of_its_own),
	};
	return cmocka_run_group_tests_name("ibcm", tests, NULL, NULL);
}
