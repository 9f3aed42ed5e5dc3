/* SPDX-License-Identifier: MIT */
/*
 * Messages of other implementations (tests/captures/README.md) decode, and encode to the same bytes
 * again.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "proto/roce/roce.h"
#include "proto/smcr/bytes.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"
#include "proto/smcr/tcpopt.h"
#include "tests/lib/pcap.h"
#include "tests/lib/proves.h"

#define SMC_TCP_PORT 5001
#define MAX_STREAMS  64
#define STREAM_ROOM  2048
#define MAX_TYPES    16

/* One direction of a TCP connection. */
struct stream {
	uint32_t src;
	uint32_t dst;
	uint16_t src_port;
	uint16_t dst_port;
	uint32_t next_seq;
	uint8_t bytes[STREAM_ROOM];
	size_t len;
};

struct story {
	struct stream streams[MAX_STREAMS];
	size_t num_streams;
	unsigned int syns; /* SYNs and SYN-ACKs with the SMC-R option */
	unsigned int clc[MAX_TYPES];
	unsigned int first_contacts; /* Accepts and Confirms with F */
	unsigned int llc[MAX_TYPES];
	unsigned int llc_replies[MAX_TYPES];
	unsigned int rejects;
	unsigned int rtokens; /* in ADD LINK of version 2 */
	unsigned int cdc;
};

static struct story story;

/* ---- TCP */

static struct stream *stream_of(const struct pcap_packet *p)
{
	for (size_t i = 0; i < story.num_streams; i++) {
		struct stream *s = &story.streams[i];
		if (s->src == p->src && s->dst == p->dst && s->src_port == p->src_port &&
		    s->dst_port == p->dst_port)
			return s;
	}
	return NULL;
}

static void open_stream(const struct pcap_packet *p)
{
	const uint8_t *options = p->l4 + 20;
	assert_int_equal(smcr_tcpopt_find(options, (size_t)(p->payload - options)), 1);
	story.syns++;
	if (stream_of(p))
		return; /* a repeated SYN */
	assert_true(story.num_streams < MAX_STREAMS);
	struct stream *s = &story.streams[story.num_streams++];
	*s = (struct stream){ .src = p->src,
			      .dst = p->dst,
			      .src_port = p->src_port,
			      .dst_port = p->dst_port,
			      .next_seq = get_be32(p->l4 + 4) + 1 };
}

/* Appends what is new. Segments come in order in these captures, some of them twice. */
static void take_tcp(const struct pcap_packet *p)
{
	const uint8_t flags = p->l4[13];
	if (p->src_port != SMC_TCP_PORT && p->dst_port != SMC_TCP_PORT)
		return;
	if (flags & 0x02)
		open_stream(p);
	struct stream *s = stream_of(p);
	assert_non_null(s);
	if (get_be32(p->l4 + 4) != s->next_seq)
		return;
	assert_true(s->len + p->payload_len <= STREAM_ROOM);
	memcpy(s->bytes + s->len, p->payload, p->payload_len);
	s->len += p->payload_len;
	s->next_seq += (uint32_t)p->payload_len;
}

/* ---- CLC */

/* Encoding gives every byte back: reserved bytes and those of SMC-D are zero in these captures, and
 * smcrd sends them as zero. */
static size_t check_clc(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMCR_CLC_MAX_LEN];
	int length = smcr_clc_peek_length(bytes, len);
	struct smcr_clc_msg msg;
	assert_true(length > 0 && (size_t)length <= len);
	assert_int_equal(smcr_clc_decode(bytes, (size_t)length, &msg), 0);
	assert_int_equal(smcr_clc_encode(&msg, again, sizeof(again)), length);
	assert_memory_equal(again, bytes, (size_t)length);
	story.clc[msg.type]++;
	if (msg.type == SMCR_CLC_ACCEPT || msg.type == SMCR_CLC_CONFIRM)
		story.first_contacts += msg.accept.first_contact;
	return (size_t)length;
}

/* Once both sides have sent the option, these connections carry nothing but CLC. */
static void check_clc_streams(void)
{
	for (size_t i = 0; i < story.num_streams; i++) {
		const struct stream *s = &story.streams[i];
		for (size_t at = 0; at < s->len;)
			at += check_clc(s->bytes + at, s->len - at);
	}
}

/* ---- LLC and CDC */

static void check_send_v1(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMCR_LLC_LEN];
	assert_int_equal(len, SMCR_LLC_LEN);
	if (bytes[0] == SMCR_CDC_TYPE) {
		struct smcr_cdc cdc;
		assert_int_equal(smcr_cdc_decode(bytes, len, &cdc), 0);
		assert_int_equal(smcr_cdc_encode(&cdc, again, sizeof(again)), len);
		story.cdc++;
	} else {
		struct smcr_llc_msg msg;
		assert_int_equal(smcr_llc_decode(bytes, len, SMCR_DIALECT_DEPLOYED, &msg), 0);
		assert_int_equal(smcr_llc_encode(&msg, SMCR_DIALECT_DEPLOYED, again, sizeof(again)),
				 len);
		(msg.reply ? story.llc_replies : story.llc)[msg.type]++;
	}
	assert_memory_equal(again, bytes, len);
}

/* The length in the header and the count of RTokens are in the sender's byte order, which the
 * decoded message tells. In these captures the count is the number of RTokens, as in what smcrd
 * sends. */
static void check_llc_v2(const uint8_t *bytes, size_t len)
{
	uint8_t again[SMCR_LLC_V2_SEND_MAX];
	struct smcr_llc_msg msg;
	struct smcr_llc_rtokens rtokens;
	assert_int_equal(smcr_llc_decode_v2(bytes, len, &msg, &rtokens), 0);
	assert_int_equal(msg.order, SMCR_ORDER_LITTLE);
	assert_int_equal(smcr_llc_encode_v2(&msg, &rtokens, again, sizeof(again)), len);
	assert_memory_equal(again, bytes, len);
	(msg.reply ? story.llc_replies : story.llc)[msg.type]++;
	story.rtokens += rtokens.count;
	story.rejects += msg.type == SMCR_LLC_ADD_LINK && msg.add_link.reject;
}

static void check_send_v2(const uint8_t *bytes, size_t len)
{
	if (bytes[0] == SMCR_CDC_TYPE)
		check_send_v1(bytes, len); /* the same in both versions */
	else
		check_llc_v2(bytes, len);
}

static void take_udp(const struct pcap_packet *p,
		     void (*check_send)(const uint8_t *bytes, size_t len))
{
	struct roce_packet roce;
	if (p->dst_port != ROCE_UDP_PORT)
		return;
	assert_int_equal(roce_decode(p->payload, p->payload_len, &roce), 0);
	if (roce.bth.opcode == ROCE_SEND_ONLY)
		check_send(roce.payload, roce.payload_len);
}

static void read_capture(const char *path, void (*check_send)(const uint8_t *bytes, size_t len))
{
	struct pcap *pcap;
	struct pcap_packet packet;
	int more;
	memset(&story, 0, sizeof(story));
	assert_int_equal(pcap_open(path, &pcap), 0);
	while ((more = pcap_next(pcap, &packet)) > 0) {
		if (packet.protocol == IPPROTO_TCP)
			take_tcp(&packet);
		else
			take_udp(&packet, check_send);
	}
	pcap_close(pcap);
	assert_int_equal(more, 0);
}

/* ---- tests */

static void linux_version_1(void **state)
{
	(void)state;
	read_capture("tests/captures/linux-smcr-v1.pcap.gz", check_send_v1);
	check_clc_streams();
	assert_int_equal(story.syns, 50);
	assert_int_equal(story.clc[SMCR_CLC_PROPOSAL], 25);
	assert_int_equal(story.clc[SMCR_CLC_ACCEPT], 25);
	assert_int_equal(story.clc[SMCR_CLC_CONFIRM], 25);
	assert_int_equal(story.clc[SMCR_CLC_DECLINE], 0);
	assert_int_equal(story.cdc, 1371);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_LINK], 4);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_LINK], 4);
	/* one of them is the client's ADD LINK request */
	assert_int_equal(story.llc[SMCR_LLC_ADD_LINK], 4);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK], 3);
	assert_int_equal(story.llc[SMCR_LLC_ADD_LINK_CONT], 3);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK_CONT], 3);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_LINK], 6);
	assert_int_equal(story.llc_replies[SMCR_LLC_DELETE_LINK], 2);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_RKEY], 48);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_RKEY], 48);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_RKEY], 50);
	assert_int_equal(story.llc_replies[SMCR_LLC_DELETE_RKEY], 50);
	PROVES("CLC-1 LLC-1 CDC-1 PEER-1");
}

static void rfc_form_of_version_1(void **state)
{
	(void)state;
	read_capture("tests/captures/user-space-client-to-linux-v1.pcap.gz", check_send_v1);
	check_clc_streams();
	assert_int_equal(story.syns, 2);
	/* the Proposal has no growth area */
	assert_int_equal(story.streams[0].len, SMCR_CLC_ACCEPT_LEN + 52);
	assert_int_equal(story.clc[SMCR_CLC_PROPOSAL], 1);
	assert_int_equal(story.clc[SMCR_CLC_ACCEPT], 1);
	assert_int_equal(story.clc[SMCR_CLC_CONFIRM], 1);
	assert_int_equal(story.cdc, 4);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_LINK], 1);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_LINK], 1);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK], 1);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_LINK], 12);
	PROVES("CLC-1 LLC-1 CDC-1");
}

static void linux_version_2(void **state)
{
	(void)state;
	read_capture("tests/captures/linux-smcr-v2.pcap.gz", check_send_v2);
	check_clc_streams();
	assert_int_equal(story.syns, 50);
	assert_int_equal(story.clc[SMCR_CLC_PROPOSAL], 25);
	assert_int_equal(story.clc[SMCR_CLC_ACCEPT], 25);
	assert_int_equal(story.clc[SMCR_CLC_CONFIRM], 25);
	assert_int_equal(story.clc[SMCR_CLC_DECLINE], 0);
	assert_int_equal(story.first_contacts, 2);
	assert_int_equal(story.cdc, 1419);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_LINK], 4);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_LINK], 4);
	assert_int_equal(story.llc[SMCR_LLC_ADD_LINK], 3);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK], 3);
	assert_int_equal(story.rtokens, 4);
	assert_int_equal(story.rejects, 0);
	assert_int_equal(story.llc[SMCR_LLC_REQUEST_ADD_LINK], 1);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_LINK], 51); /* most of them are repetitions */
	assert_int_equal(story.llc_replies[SMCR_LLC_DELETE_LINK], 2);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_RKEY], 48);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_RKEY], 48);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_RKEY], 50);
	assert_int_equal(story.llc_replies[SMCR_LLC_DELETE_RKEY], 50);
}

static void linux_version_2_failover(void **state)
{
	(void)state;
	read_capture("tests/captures/linux-smcr-v2-failover.pcap.gz", check_send_v2);
	check_clc_streams();
	assert_int_equal(story.clc[SMCR_CLC_PROPOSAL], 2);
	assert_int_equal(story.clc[SMCR_CLC_ACCEPT], 2);
	assert_int_equal(story.clc[SMCR_CLC_CONFIRM], 2);
	assert_int_equal(story.first_contacts, 2);
	assert_int_equal(story.cdc, 257);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_LINK], 2);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_LINK], 2);
	assert_int_equal(story.llc[SMCR_LLC_ADD_LINK], 1);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK], 1);
	assert_int_equal(story.rtokens, 2);
	assert_int_equal(story.llc[SMCR_LLC_REQUEST_ADD_LINK], 1);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_LINK], 2);
	assert_int_equal(story.llc[SMCR_LLC_CONFIRM_RKEY], 2);
	assert_int_equal(story.llc_replies[SMCR_LLC_CONFIRM_RKEY], 2);
}

static void user_space_version_2(void **state)
{
	(void)state;
	read_capture("tests/captures/user-space-client-to-linux-v2.pcap.gz", check_send_v2);
	check_clc_streams();
	assert_int_equal(story.clc[SMCR_CLC_PROPOSAL], 1);
	assert_int_equal(story.clc[SMCR_CLC_ACCEPT], 1);
	assert_int_equal(story.clc[SMCR_CLC_CONFIRM], 1);
	assert_int_equal(story.cdc, 4);
	assert_int_equal(story.llc[SMCR_LLC_ADD_LINK], 1);
	assert_int_equal(story.llc_replies[SMCR_LLC_ADD_LINK], 1);
	assert_int_equal(story.rejects, 1);
	assert_int_equal(story.rtokens, 1);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_RKEY], 1);
	assert_int_equal(story.llc[SMCR_LLC_DELETE_LINK], 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linux_version_1),      cmocka_unit_test(rfc_form_of_version_1),
		cmocka_unit_test(linux_version_2),      cmocka_unit_test(linux_version_2_failover),
		cmocka_unit_test(user_space_version_2),
	};
	return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
