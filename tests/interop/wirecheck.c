/* SPDX-License-Identifier: MIT */
/*
 * Checks every RoCEv2 packet of a capture (pcap of an Ethernet interface):
 *
 *   wirecheck [--list] [--plain] [--rxe ADDR].. FILE [FROM-TO ..]
 *
 *   ICRC       of each packet, with the identification of its IP header
 *   decoding   of each packet, of each CDC and LLC message in a SEND of one packet, and of each
 *              message of the connection manager
 *   PSN        which requests come twice, and why: after a NAK, after a time without
 *              acknowledgement, or in one of the periods FROM-TO (seconds since 1970) in which
 *              links were cut. Other repetitions have no explanation. A packet that was overtaken
 *              by others comes late, not twice.
 *
 *   --list     print a line for each LLC message: TIME FROM-TO VERSION NAME, and "reply" if it is
 *   --plain    the SENDs are messages of other programs than SMC-R
 *   --rxe ADDR a host with rdma_rxe. Its timer runs on even if requests are acknowledged, and when
 *              it ends, a request that was sent a moment ago comes again
 *
 * Prints a line for each direction of a link, outside of the periods: "again FROM-TO QPN
 * REPETITIONS REQUESTS PERCENT", the highest rate first. The last lines are NAME VALUE. Exit status
 * 0; 1: something is wrong; 2: usage.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "proto/ibcm/ibcm.h"
#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"
#include "proto/smcr/bytes.h"
#include "proto/smcr/cdc.h"
#include "proto/smcr/llc.h"

#define PCAP_MICROSECONDS 0xa1b2c3d4u
#define PCAP_NANOSECONDS  0xa1b23c4du
#define PCAP_ETHERNET     1
#define ETHERNET_LEN      14
#define IPV4_LEN          20
#define UDP_LEN           8
#define FRAME_MAX         65536
#define PLACES            16384 /* so many packets of a queue pair are kept, with their times */
/* A retransmission timer lasts at least 10 ms, from the sender's last look at its clock. Only the
 * timer of a queue pair's first packet is shorter. It also runs while the host still asks for the
 * peer's MAC, so that packet and its repetition may come at any distance. */
#define SILENCE_US 2000
#define NAK_US     200000 /* a NAK explains repetitions for so long */
#define RATE_MIN   100    /* fewest requests for which a rate is reported */
#define PATH_MTU   1024
#define NEW_QP     100000 /* a PSN so far away belongs to a new queue pair */

/* Requests of one host to one queue pair of another. */
struct stream {
	struct {
		uint32_t from, to, qpn;
	} key;
	uint32_t first; /* PSN that was seen first */
	uint32_t next;  /* next PSN that was not seen yet */
	/* the PSN after the last packet; a repetition leaves out packets that are acknowledged */
	uint32_t again;
	struct {
		uint64_t at; /* 0: never */
		uint32_t psn;
	} last[PLACES];
	uint64_t requests, repeated; /* outside of the periods */
	UT_hash_handle hh;
};

/* A message of the connection manager. Those that come twice are the same to the byte. */
struct note {
	struct {
		uint32_t from, to;
		uint8_t mad[IBCM_MAD_LEN];
	} key;
	UT_hash_handle hh;
};

/* When a host last sent a NAK to another one. */
struct refusal {
	struct {
		uint32_t from, to;
	} key;
	uint64_t at;
	UT_hash_handle hh;
};

struct period {
	double from, to;
};

static bool list, plain;
static uint32_t rxe[8];
static size_t num_rxe;
static const struct period *periods;
static size_t num_periods;
static struct stream *streams;
static struct refusal *refusals;
static struct note *notes;
static struct {
	uint64_t frames, roce, requests, acks, naks, rnr_naks, bad_icrc, undecodable;
	uint64_t cdc, bad_cdc, llc, bad_llc, truncated;
	uint64_t reads, cm, cm_again, bad_cm;
	uint64_t repeated, after_nak, after_silence, first_timer, rxe_timer, in_cut, unexplained,
		late;
} count;

struct frame {
	uint64_t at; /* microseconds since 1970 */
	struct roce_flow flow;
	uint16_t ip_id;
	const uint8_t *udp; /* payload */
	size_t len;
};

static void print_time(uint64_t at)
{
	printf("%" PRIu64 ".%06" PRIu64 " ", at / 1000000, at % 1000000);
}

static void print_hosts(const struct frame *frame)
{
	char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];
	inet_ntop(AF_INET, &frame->flow.saddr, from, sizeof(from));
	inet_ntop(AF_INET, &frame->flow.daddr, to, sizeof(to));
	print_time(frame->at);
	printf("%s-%s ", from, to);
}

static void complain(const struct frame *frame, const char *what, uint64_t number)
{
	print_hosts(frame);
	printf("%s %" PRIu64 "\n", what, number);
}

/* ---- repetitions */

static struct stream *stream_of(const struct frame *frame, uint32_t qpn, uint32_t psn)
{
	struct stream key = { .key = { frame->flow.saddr, frame->flow.daddr, qpn } }, *found;
	HASH_FIND(hh, streams, &key.key, sizeof(key.key), found);
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			exit(2);
		found->key = key.key;
		HASH_ADD(hh, streams, key, sizeof(found->key), found);
		found->first = found->next = psn;
	}
	if (abs(roce_psn_diff(psn, found->next)) > NEW_QP)
		found->first = found->next = psn;
	return found;
}

static bool refused_lately(const struct frame *frame)
{
	struct refusal key = { .key = { frame->flow.daddr, frame->flow.saddr } }, *found;
	HASH_FIND(hh, refusals, &key.key, sizeof(key.key), found);
	return found && frame->at - found->at < NAK_US;
}

static bool in_period(uint64_t at)
{
	for (size_t i = 0; i < num_periods; i++)
		if ((double)at / 1e6 >= periods[i].from && (double)at / 1e6 <= periods[i].to)
			return true;
	return false;
}

static bool by_rxe(const struct frame *frame)
{
	for (size_t i = 0; i < num_rxe; i++)
		if (rxe[i] == frame->flow.saddr)
			return true;
	return false;
}

/* The first packet of a repetition is the oldest packet that was not acknowledged. */
static void repetition(const struct frame *frame, const struct stream *stream, uint32_t psn)
{
	count.repeated++;
	if (in_period(frame->at))
		count.in_cut++;
	else if (refused_lately(frame))
		count.after_nak++;
	else if (frame->at - stream->last[psn % PLACES].at >= SILENCE_US)
		count.after_silence++;
	else if (by_rxe(frame))
		count.rxe_timer++;
	else if (psn == stream->first)
		count.first_timer++;
	else {
		count.unexplained++;
		complain(frame, "unexplained repetition of PSN", psn);
		print_hosts(frame);
		printf("%d packets behind the first of its queue pair, after %" PRIu64 " us\n",
		       roce_psn_diff(psn, stream->first),
		       frame->at - stream->last[psn % PLACES].at);
	}
}

static bool was_here(const struct stream *stream, uint32_t psn)
{
	return stream->last[psn % PLACES].at && stream->last[psn % PLACES].psn == psn;
}

/* How many PSNs the request takes: an RDMA READ takes those of its answer. The path MTU is not
 * known here, so it is taken for that of Ethernet's MTU of 1500. */
static uint32_t psns_of(const struct roce_packet *packet)
{
	if (packet->bth.opcode != ROCE_READ_REQUEST || packet->reth.length == 0)
		return 1;
	return (packet->reth.length + PATH_MTU - 1) / PATH_MTU;
}

static void request(const struct frame *frame, const struct roce_packet *packet)
{
	const struct roce_bth *bth = &packet->bth;
	struct stream *stream = stream_of(frame, bth->dest_qp, bth->psn);
	bool is_new = roce_psn_diff(bth->psn, stream->next) >= 0;
	bool late = !is_new && !was_here(stream, bth->psn);
	count.requests++;
	count.late += late;
	if (!in_period(frame->at)) {
		stream->requests++;
		stream->repeated += !is_new && !late;
	}
	if (is_new)
		stream->next = (bth->psn + psns_of(packet)) & ROCE_PSN_MASK;
	else if (!late && roce_psn_diff(bth->psn, stream->again) < 0)
		repetition(frame, stream, bth->psn);
	if (!late)
		stream->again = (bth->psn + psns_of(packet)) & ROCE_PSN_MASK;
	stream->last[bth->psn % PLACES].at = frame->at;
	stream->last[bth->psn % PLACES].psn = bth->psn;
}

static void acknowledgement(const struct frame *frame, const struct roce_aeth *aeth)
{
	struct refusal key = { .key = { frame->flow.saddr, frame->flow.daddr } }, *found;
	count.acks++;
	if (aeth->kind == ROCE_ACK)
		return;
	if (aeth->kind == ROCE_RNR_NAK)
		count.rnr_naks++;
	else
		count.naks++;
	HASH_FIND(hh, refusals, &key.key, sizeof(key.key), found);
	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			exit(2);
		found->key = key.key;
		HASH_ADD(hh, refusals, key, sizeof(found->key), found);
	}
	found->at = frame->at;
}

/* ---- messages */

static void llc(const struct frame *frame, const struct roce_packet *packet)
{
	const uint8_t *data = packet->payload;
	size_t len = packet->payload_len;
	static struct smcr_llc_rtokens rtokens;
	struct smcr_llc_msg msg;
	bool v2 = len > 0 && data[0] >> 4 == SMCR_LLC_V2_TYPE >> 4;
	int err = v2 ? smcr_llc_decode_v2(data, len, &msg, &rtokens)
		     : smcr_llc_decode(data, len, SMCR_DIALECT_DEPLOYED, &msg);
	count.llc++;
	if (err < 0) {
		count.bad_llc++;
		complain(frame, "undecodable LLC message of type", len > 0 ? data[0] : 0);
	} else if (list) {
		print_hosts(frame);
		printf("v%d %s%s\n", v2 ? 2 : 1, smcr_llc_type_name(msg.type),
		       msg.reply ? " reply" : "");
	}
}

/* A datagram: a message of the connection manager. */
static void datagram(const struct frame *frame, const struct roce_packet *packet)
{
	struct ibcm_msg msg;
	struct note *note, *found;
	count.cm++;
	if (packet->bth.dest_qp != IBCM_QPN || packet->deth.qkey != IBCM_QKEY ||
	    ibcm_decode(packet->payload, packet->payload_len, &msg) < 0) {
		count.bad_cm++;
		complain(frame, "undecodable datagram of length", packet->payload_len);
		return;
	}
	note = calloc(1, sizeof(*note));
	if (!note)
		exit(2);
	note->key.from = frame->flow.saddr;
	note->key.to = frame->flow.daddr;
	memcpy(note->key.mad, packet->payload, IBCM_MAD_LEN);
	HASH_FIND(hh, notes, &note->key, sizeof(note->key), found);
	if (found) {
		count.cm_again++;
		free(note);
		return;
	}
	HASH_ADD(hh, notes, key, sizeof(note->key), note);
}

static void message(const struct frame *frame, const struct roce_packet *packet)
{
	struct smcr_cdc cdc;
	if (plain || packet->bth.opcode != ROCE_SEND_ONLY)
		return;
	if (packet->payload_len == 0 || packet->payload[0] != SMCR_CDC_TYPE) {
		llc(frame, packet);
		return;
	}
	count.cdc++;
	if (smcr_cdc_decode(packet->payload, packet->payload_len, &cdc) < 0) {
		count.bad_cdc++;
		complain(frame, "undecodable CDC message of length", packet->payload_len);
	}
}

static void check(const struct frame *frame)
{
	struct roce_packet packet;
	uint8_t stored[ROCE_ICRC_LEN];
	count.roce++;
	if (roce_decode(frame->udp, frame->len, &packet) < 0) {
		count.undecodable++;
		complain(frame, "undecodable packet of length", frame->len);
		return;
	}
	uint32_t icrc = roce_icrc_begin(&frame->flow, frame->len, frame->ip_id, frame->udp,
					packet.header_len);
	icrc = roce_icrc_update(icrc, frame->udp + packet.header_len,
				frame->len - packet.header_len - ROCE_ICRC_LEN);
	roce_icrc_put(icrc, stored);
	if (memcmp(stored, frame->udp + frame->len - ROCE_ICRC_LEN, ROCE_ICRC_LEN) != 0) {
		count.bad_icrc++;
		complain(frame, "wrong ICRC, PSN", packet.bth.psn);
	}
	if (packet.bth.opcode == ROCE_ACKNOWLEDGE) {
		acknowledgement(frame, &packet.aeth);
	} else if (packet.bth.opcode == ROCE_UD_SEND_ONLY) {
		datagram(frame, &packet);
	} else if (!roce_is_answer(packet.bth.opcode)) {
		count.reads += packet.bth.opcode == ROCE_READ_REQUEST;
		request(frame, &packet);
		message(frame, &packet);
	}
}

/* ---- the file */

/* An Ethernet frame, of which `len` bytes were recorded. */
static void ethernet(uint64_t at, const uint8_t *data, size_t len, size_t len_on_wire)
{
	const uint8_t *ip = data + ETHERNET_LEN, *udp = ip + IPV4_LEN;
	struct frame frame = { .at = at };
	count.frames++;
	if (len < ETHERNET_LEN + IPV4_LEN + UDP_LEN || get_be16(data + 12) != 0x0800 ||
	    ip[0] != 0x45 || ip[9] != IPPROTO_UDP || get_be16(udp + 2) != ROCE_UDP_PORT)
		return;
	if (len < len_on_wire || get_be16(udp + 4) < UDP_LEN ||
	    (size_t)get_be16(udp + 4) > len - ETHERNET_LEN - IPV4_LEN) {
		count.truncated++;
		return;
	}
	frame.ip_id = get_be16(ip + 4);
	memcpy(&frame.flow.saddr, ip + 12, 4);
	memcpy(&frame.flow.daddr, ip + 16, 4);
	memcpy(&frame.flow.sport, udp, 2);
	memcpy(&frame.flow.dport, udp + 2, 2);
	frame.udp = udp + UDP_LEN;
	frame.len = (size_t)get_be16(udp + 4) - UDP_LEN;
	check(&frame);
}

/* @return 0; -1: not a capture of Ethernet in this machine's byte order */
static int read_capture(FILE *file)
{
	static uint8_t data[FRAME_MAX];
	uint32_t head[6], record[4];
	if (fread(head, sizeof(head), 1, file) != 1 || head[5] != PCAP_ETHERNET ||
	    (head[0] != PCAP_MICROSECONDS && head[0] != PCAP_NANOSECONDS))
		return -1;
	uint32_t unit = head[0] == PCAP_NANOSECONDS ? 1000 : 1;
	while (fread(record, sizeof(record), 1, file) == 1) {
		if (record[2] > sizeof(data) || fread(data, 1, record[2], file) != record[2])
			return -1;
		ethernet((uint64_t)record[0] * 1000000 + record[1] / unit, data, record[2],
			 record[3]);
	}
	return 0;
}

static double rate(const struct stream *stream)
{
	return stream->requests ? 100.0 * (double)stream->repeated / (double)stream->requests : 0;
}

static int by_rate(struct stream *a, struct stream *b)
{
	return (rate(a) < rate(b)) - (rate(a) > rate(b));
}

/* Rates are reported only for streams with enough requests. */
static void report_rates(void)
{
	struct stream *stream, *next;
	HASH_SORT(streams, by_rate);
	HASH_ITER (hh, streams, stream, next) {
		char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];
		if (stream->requests < RATE_MIN)
			continue;
		inet_ntop(AF_INET, &stream->key.from, from, sizeof(from));
		inet_ntop(AF_INET, &stream->key.to, to, sizeof(to));
		printf("again %s-%s %" PRIu32 " %" PRIu64 " %" PRIu64 " %.1f\n", from, to,
		       stream->key.qpn, stream->repeated, stream->requests, rate(stream));
	}
}

static int report(void)
{
	report_rates();
	printf("frames %" PRIu64 "\nroce %" PRIu64 "\ntruncated %" PRIu64 "\nundecodable %" PRIu64
	       "\nbad_icrc %" PRIu64 "\n",
	       count.frames, count.roce, count.truncated, count.undecodable, count.bad_icrc);
	printf("requests %" PRIu64 "\nacks %" PRIu64 "\nnaks %" PRIu64 "\nrnr_naks %" PRIu64 "\n",
	       count.requests, count.acks, count.naks, count.rnr_naks);
	printf("cdc %" PRIu64 "\nbad_cdc %" PRIu64 "\nllc %" PRIu64 "\nbad_llc %" PRIu64 "\n",
	       count.cdc, count.bad_cdc, count.llc, count.bad_llc);
	printf("reads %" PRIu64 "\ncm %" PRIu64 "\ncm_again %" PRIu64 "\nbad_cm %" PRIu64 "\n",
	       count.reads, count.cm, count.cm_again, count.bad_cm);
	printf("repetitions %" PRIu64 "\nafter_nak %" PRIu64 "\nafter_silence %" PRIu64
	       "\nfirst_timer %" PRIu64 "\nrxe_timer %" PRIu64 "\nin_cut %" PRIu64 "\nlate %" PRIu64
	       "\nunexplained %" PRIu64 "\n",
	       count.repeated, count.after_nak, count.after_silence, count.first_timer,
	       count.rxe_timer, count.in_cut, count.late, count.unexplained);
	return count.truncated || count.undecodable || count.bad_icrc || count.bad_cdc ||
	       count.bad_llc || count.bad_cm || count.unexplained;
}

int main(int argc, char **argv)
{
	struct period cuts[64];
	int at = 1;
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--list") == 0)
			list = true;
		else if (strcmp(argv[at], "--plain") == 0)
			plain = true;
		else if (strcmp(argv[at], "--rxe") == 0 && at + 1 < argc && num_rxe < 8)
			num_rxe += inet_pton(AF_INET, argv[++at], &rxe[num_rxe]) == 1;
	}
	const char *path = at < argc ? argv[at++] : NULL;
	for (; at < argc && num_periods < 64; at++)
		if (sscanf(argv[at], "%lf-%lf", &cuts[num_periods].from, &cuts[num_periods].to) ==
		    2)
			num_periods++;
	periods = cuts;
	FILE *file = path ? fopen(path, "rb") : NULL;
	if (!file || read_capture(file) < 0) {
		fprintf(stderr, "usage: wirecheck [--list] [--plain] [--rxe ADDR].. FILE [FROM-TO "
				"..]; FILE "
				"is a capture of"
				" Ethernet\n");
		return 2;
	}
	fclose(file);
	return report();
}
