/* SPDX-License-Identifier: MIT */
/* The ring of a capture, and the frames and pcapng blocks that smcrctl makes of its records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/smcrctl/capture.h"
#include "cli/smcrctl/frame.h"
#include "proto/capture/record.h"
#include "proto/capture/ring.h"
#include "proto/roce/icrc.h"
#include "proto/smcr/bytes.h"
#include "tests/lib/pcap.h"

#define RING_BYTES (CAPTURE_MIN_SIZE - CAPTURE_PAGE_SIZE)

/* ---- the ring ---- */

struct rings {
	void *memory;
	struct capture_ring writer, reader;
};

static int setup(void **state)
{
	struct rings *rings = calloc(1, sizeof(*rings));
	rings->memory = aligned_alloc(CAPTURE_PAGE_SIZE, CAPTURE_MIN_SIZE);
	memset(rings->memory, 0, CAPTURE_MIN_SIZE);
	assert_true(capture_ring_init(&rings->writer, rings->memory, CAPTURE_MIN_SIZE));
	assert_true(capture_ring_init(&rings->reader, rings->memory, CAPTURE_MIN_SIZE));
	*state = rings;
	return 0;
}

static int teardown(void **state)
{
	struct rings *rings = *state;
	free(rings->memory);
	free(rings);
	return 0;
}

static bool put(struct rings *rings, const void *bytes, size_t len)
{
	const struct iovec parts[2] = { { (void *)bytes, len / 2 },
					{ (uint8_t *)(uintptr_t)bytes + len / 2, len - len / 2 } };
	return capture_ring_put(&rings->writer, parts, 2);
}

static void only_some_lengths_make_a_ring(void **state)
{
	struct rings *rings = *state;
	struct capture_ring ring;
	assert_false(capture_ring_init(&ring, rings->memory, CAPTURE_MIN_SIZE - 1));
	assert_false(capture_ring_init(&ring, rings->memory, CAPTURE_MIN_SIZE - CAPTURE_PAGE_SIZE));
	assert_false(capture_ring_init(&ring, rings->memory, CAPTURE_MIN_SIZE + 8));
	assert_false(capture_ring_init(&ring, rings->memory, CAPTURE_MAX_SIZE + CAPTURE_PAGE_SIZE));
	assert_true(capture_ring_init(&ring, rings->memory, CAPTURE_MAX_SIZE));
	assert_false(capture_ring_has_begun(&rings->reader));
	capture_ring_begin(&rings->writer);
	assert_true(capture_ring_has_begun(&rings->reader));
}

/* Records of every length go round the ring several times, and the ring is never empty
 * meanwhile. */
static void records_come_out_as_they_went_in(void **state)
{
	struct rings *rings = *state;
	uint8_t in[3000], out[3000];
	uint32_t written = 0, read = 0;
	while (read < 3000) {
		while (written < 3000) {
			const size_t len = 1 + written * 7 % 2999;
			memset(in, (int)written, len);
			if (!put(rings, in, len))
				break;
			written++;
		}
		assert_true(written > read);
		const size_t len = 1 + read * 7 % 2999;
		memset(in, (int)read, len);
		assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), len);
		assert_memory_equal(in, out, len);
		read++;
	}
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), 0);
}

static void records_that_do_not_fit_are_counted(void **state)
{
	struct rings *rings = *state;
	static uint8_t bytes[RING_BYTES];
	uint8_t out[8];
	/* the ring also needs 8 bytes for the record's header */
	assert_false(put(rings, bytes, RING_BYTES - 7));
	assert_true(put(rings, bytes, RING_BYTES - 8));
	assert_false(put(rings, bytes, 1));
	capture_ring_lose(&rings->writer, 0);
	capture_ring_lose(&rings->writer, 3);
	capture_ring_lose(&rings->writer, 3);
	capture_ring_lose(&rings->writer, CAPTURE_RNICS + 5);
	assert_int_equal(capture_ring_lost(&rings->reader, 0), 1);
	assert_int_equal(capture_ring_lost(&rings->reader, 3), 2);
	assert_int_equal(capture_ring_lost(&rings->reader, CAPTURE_RNICS - 1), 1);
	assert_int_equal(capture_ring_has_lost(&rings->writer, 3), 2);
	/* Whoever can write to the page changes the counts that the reader sees, but not the
	 * writer's own. */
	atomic_store(&rings->reader.page->lost[3], UINT64_MAX - 1);
	assert_int_equal(capture_ring_has_lost(&rings->writer, 3), 2);
	capture_ring_lose(&rings->writer, 3);
	assert_int_equal(capture_ring_has_lost(&rings->writer, 3), 3);
	assert_int_equal(capture_ring_lost(&rings->reader, 3), 3);
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), -EMSGSIZE);
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), 0);
	assert_true(put(rings, bytes, 1));
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), 1);
	assert_false(put(rings, bytes, 0));
}

/* smcrd reads one word that the reader writes. A reader that writes nonsense there gets no more
 * records. */
static void a_reader_that_lies_loses_records(void **state)
{
	struct rings *rings = *state;
	const uint8_t bytes[100] = { 1 };
	assert_true(put(rings, bytes, sizeof(bytes)));
	atomic_store(&rings->writer.page->taken, 1u << 30);
	assert_false(put(rings, bytes, sizeof(bytes)));
	atomic_store(&rings->writer.page->taken, rings->writer.at + 1);
	assert_false(put(rings, bytes, sizeof(bytes)));
	atomic_store(&rings->writer.page->taken, 0);
	assert_true(put(rings, bytes, sizeof(bytes)));
}

static void a_damaged_ring_is_noticed(void **state)
{
	struct rings *rings = *state;
	uint8_t out[200];
	const uint8_t bytes[100] = { 1 };
	assert_true(put(rings, bytes, sizeof(bytes)));
	rings->writer.bytes[0] = 200; /* longer than the record that was written */
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), -EBADMSG);
	memset(rings->writer.bytes, 0, 4);
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), -EBADMSG);
	atomic_store(&rings->writer.page->written, RING_BYTES + 8);
	assert_int_equal(capture_ring_get(&rings->reader, out, sizeof(out)), -EBADMSG);
}

/* ---- records ---- */

static struct capture_link a_link(void)
{
	struct capture_link link = { .type = CAPTURE_LINK,
				     .rnic = 2,
				     .link = 77,
				     .group = 3,
				     .number = 2,
				     .path_mtu = 3,
				     .name = "verbs:mlx5_0/1",
				     .peer_host = "10.0.0.2" };
	memcpy(link.local.gid, (uint8_t[16]){ [10] = 255, 255, 10, 0, 0, 1 }, 16);
	memcpy(link.peer.gid, (uint8_t[16]){ [10] = 255, 255, 10, 0, 0, 2 }, 16);
	memcpy(link.local.mac, "\x02\0\0\0\0\x01", 6);
	memcpy(link.peer.mac, "\x02\0\0\0\0\x02", 6);
	link.local.qpn = 0x111111;
	link.peer.qpn = 0x222222;
	return link;
}

static void records_are_checked(void **state)
{
	struct capture_link link = a_link(), taken;
	struct capture_message message;
	const uint8_t *data;
	uint32_t len;
	struct {
		struct capture_message message;
		uint8_t bytes[44];
	} record = { .message = { .type = CAPTURE_MESSAGE, .length = 44 } };
	(void)state;
	assert_true(capture_link_take(&link, sizeof(link), &taken));
	assert_false(capture_link_take(&link, sizeof(link) - 1, &taken));
	link.rnic = CAPTURE_RNICS;
	assert_false(capture_link_take(&link, sizeof(link), &taken));
	link = a_link();
	link.path_mtu = 6;
	assert_false(capture_link_take(&link, sizeof(link), &taken));
	link.path_mtu = 0;
	assert_false(capture_link_take(&link, sizeof(link), &taken));
	link = a_link();
	memset(link.name, 'a', sizeof(link.name));
	assert_false(capture_link_take(&link, sizeof(link), &taken));
	link = a_link();
	memset(link.peer_host, 'a', sizeof(link.peer_host));
	assert_false(capture_link_take(&link, sizeof(link), &taken));

	assert_true(capture_message_take(&record, 48 + 44, &message, &data, &len));
	assert_ptr_equal(data, record.bytes);
	assert_int_equal(len, 44);
	assert_false(capture_message_take(&record, 47, &message, &data, &len));
	record.message.length = 43; /* less than the record has */
	assert_false(capture_message_take(&record, 48 + 44, &message, &data, &len));
	record.message.type = CAPTURE_LINK;
	assert_false(capture_message_take(&record, 48 + 44, &message, &data, &len));
}

static struct capture_mad a_mad(void)
{
	const struct capture_link link = a_link();
	struct capture_mad mad = { .type = CAPTURE_MAD,
				   .rnic = 2,
				   .peer_port = 50000,
				   .time_ns = 0x123456789ABCDEF0,
				   .local = link.local,
				   .peer = link.peer,
				   .name = "soft:eth0" };
	mad.local.qpn = mad.peer.qpn = IBCM_QPN;
	return mad;
}

static void records_of_the_connection_manager_are_checked(void **state)
{
	struct {
		struct capture_mad mad;
		uint8_t bytes[IBCM_MAD_LEN + 1];
	} record = { .mad = a_mad() };
	const size_t len = sizeof(record.mad) + IBCM_MAD_LEN;
	struct capture_mad mad;
	const uint8_t *bytes;
	(void)state;
	assert_true(capture_mad_take(&record, len, &mad, &bytes));
	assert_ptr_equal(bytes, record.bytes);
	assert_false(capture_mad_take(&record, len - 1, &mad, &bytes));
	assert_false(capture_mad_take(&record, len + 1, &mad, &bytes));
	record.mad.rnic = CAPTURE_RNICS;
	assert_false(capture_mad_take(&record, len, &mad, &bytes));
	record.mad = a_mad();
	memset(record.mad.name, 'a', sizeof(record.mad.name));
	assert_false(capture_mad_take(&record, len, &mad, &bytes));
	record.mad = a_mad();
	record.mad.type = CAPTURE_MESSAGE;
	assert_false(capture_mad_take(&record, len, &mad, &bytes));
}

/* ---- frames ---- */

/* RFC 1071 read backwards: with a right checksum the sum is zero. */
static bool sums_up(const uint8_t *data, size_t len, uint32_t more)
{
	uint32_t sum = more;
	for (size_t i = 0; i < len; i++)
		sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	return sum == 0xFFFF;
}

static void check_ipv4(const struct frame_message *message, const uint8_t *frame, size_t len)
{
	const uint8_t *ip = frame + 14, *udp = ip + 20;
	struct roce_flow flow = { .sport = htons(message->from_port ? message->from_port : 4791),
				  .dport = htons(4791) };
	struct roce_icrc_flow icrc_flow;
	uint16_t ip_id;
	struct roce_icrc_tables *tables = malloc(sizeof(*tables));
	memcpy(&flow.saddr, message->from->gid + 12, 4);
	memcpy(&flow.daddr, message->to->gid + 12, 4);
	assert_memory_equal(frame, message->to->mac, 6);
	assert_memory_equal(frame + 6, message->from->mac, 6);
	assert_int_equal(get_be16(frame + 12), 0x0800);
	assert_int_equal(get_be16(ip + 2), len - 14);
	assert_true(sums_up(ip, 20, 0));
	assert_memory_equal(ip + 12, &flow.saddr, 4);
	assert_memory_equal(ip + 16, &flow.daddr, 4);
	assert_int_equal(get_be16(udp + 2), 4791);
	assert_int_equal(get_be16(udp + 4), len - 34);
	roce_icrc_tables_init(tables);
	roce_icrc_flow_init(&icrc_flow, &flow);
	assert_true(roce_icrc_check(tables, &icrc_flow, udp + 8, len - 42, 0, &ip_id));
	assert_int_equal(ip_id, 0);
	free(tables);
}

static struct capture_end end_of(uint32_t address, const uint8_t *mac, uint32_t qpn)
{
	struct capture_end end = { .gid = { [10] = 255, 255 }, .qpn = qpn };
	address = htonl(address);
	memcpy(end.gid + 12, &address, 4);
	memcpy(end.mac, mac, 6);
	return end;
}

/* Compares a recorded packet that carries a whole message with the frame that is made of the same
 * message. */
static bool compare(const struct pcap_packet *recorded)
{
	struct roce_packet was, is;
	uint8_t frame[FRAME_MAX];
	size_t original;
	if (recorded->protocol != IPPROTO_UDP || recorded->dst_port != ROCE_UDP_PORT ||
	    roce_decode(recorded->payload, recorded->payload_len, &was) ||
	    (was.bth.opcode != ROCE_SEND_ONLY && was.bth.opcode != ROCE_WRITE_ONLY))
		return false;
	const struct capture_end from = end_of(recorded->src, recorded->ip - 8, 1);
	const struct capture_end to = end_of(recorded->dst, recorded->ip - 14, was.bth.dest_qp);
	const struct frame_message message = { .from = &from,
					       .to = &to,
					       .is_write = was.bth.opcode == ROCE_WRITE_ONLY,
					       .path_mtu = 4096,
					       .psn = was.bth.psn,
					       .remote_addr = was.reth.va,
					       .rkey = was.reth.rkey,
					       .data = was.payload,
					       .data_len = (uint32_t)was.payload_len,
					       .length = (uint32_t)was.payload_len };
	assert_int_equal(frame_count(&message), 1);
	size_t len = frame_write(&message, 0, frame, &original);
	assert_int_equal(len, original);
	assert_int_equal(len, 14 + recorded->ip_len);
	check_ipv4(&message, frame, len);
	assert_int_equal(roce_decode(frame + 42, len - 42, &is), 0);
	assert_int_equal(is.bth.opcode, was.bth.opcode);
	assert_int_equal(is.bth.pad, was.bth.pad);
	assert_int_equal(is.bth.pkey, was.bth.pkey);
	assert_int_equal(is.bth.dest_qp, was.bth.dest_qp);
	assert_int_equal(is.bth.psn, was.bth.psn);
	/* Behind the BTH both are the same, but for the ICRC. */
	assert_memory_equal(frame + 42 + ROCE_BTH_LEN, recorded->payload + ROCE_BTH_LEN,
			    recorded->payload_len - ROCE_BTH_LEN - ROCE_ICRC_LEN);
	return true;
}

static void frames_are_those_of_recorded_packets(void **state)
{
	struct pcap *pcap;
	struct pcap_packet packet;
	unsigned int compared = 0;
	(void)state;
	assert_int_equal(pcap_open("tests/captures/linux-smcr-v1.pcap.gz", &pcap), 0);
	while (pcap_next(pcap, &packet) == 1)
		compared += compare(&packet);
	pcap_close(pcap);
	assert_true(compared > 100);
}

/* The same for a message of the connection manager, which goes to queue pair 1 as a datagram. */
static bool compare_mad(const struct pcap_packet *recorded)
{
	struct roce_packet was, is;
	uint8_t frame[FRAME_MAX];
	size_t original;
	if (recorded->protocol != IPPROTO_UDP || recorded->dst_port != ROCE_UDP_PORT ||
	    roce_decode(recorded->payload, recorded->payload_len, &was) ||
	    was.bth.opcode != ROCE_UD_SEND_ONLY)
		return false;
	const struct capture_end from = end_of(recorded->src, recorded->ip - 8, was.deth.src_qp);
	const struct capture_end to = end_of(recorded->dst, recorded->ip - 14, was.bth.dest_qp);
	const struct frame_message message = { .from = &from,
					       .to = &to,
					       .from_port = recorded->src_port,
					       .is_datagram = true,
					       .qkey = was.deth.qkey,
					       .path_mtu = IBCM_MAD_LEN,
					       .psn = was.bth.psn,
					       .data = was.payload,
					       .data_len = (uint32_t)was.payload_len,
					       .length = (uint32_t)was.payload_len };
	assert_int_equal(frame_count(&message), 1);
	size_t len = frame_write(&message, 0, frame, &original);
	assert_int_equal(len, original);
	assert_int_equal(len, 14 + recorded->ip_len);
	check_ipv4(&message, frame, len);
	assert_int_equal(get_be16(frame + 34), recorded->src_port);
	assert_int_equal(roce_decode(frame + 42, len - 42, &is), 0);
	assert_int_equal(is.bth.dest_qp, IBCM_QPN);
	assert_int_equal(is.bth.psn, was.bth.psn);
	assert_int_equal(is.deth.src_qp, IBCM_QPN);
	assert_int_equal(is.deth.qkey, IBCM_QKEY);
	assert_memory_equal(is.payload, was.payload, IBCM_MAD_LEN);
	return true;
}

static void frames_of_the_connection_manager_are_those_of_linux(void **state)
{
	struct pcap *pcap;
	struct pcap_packet packet;
	unsigned int compared = 0;
	(void)state;
	assert_int_equal(pcap_open("tests/captures/linux-rdma-cm-rping-ucmatose.pcap.gz", &pcap),
			 0);
	while (pcap_next(pcap, &packet) == 1)
		compared += compare_mad(&packet);
	pcap_close(pcap);
	assert_int_equal(compared, 12);
}

static void long_messages_become_several_frames(void **state)
{
	static const uint8_t opcodes[2][3] = {
		{ ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST },
		{ ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST },
	};
	const struct capture_link link = a_link();
	uint8_t data[2501], frame[FRAME_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (int is_write = 0; is_write < 2; is_write++) {
		const struct frame_message message = { .from = &link.local,
						       .to = &link.peer,
						       .is_write = is_write,
						       .path_mtu = 1024,
						       .psn = 0xFFFFFF,
						       .remote_addr = 0x1234567890,
						       .rkey = 0x5678,
						       .data = data,
						       .data_len = sizeof(data),
						       .length = sizeof(data) };
		assert_int_equal(frame_count(&message), 3);
		for (uint32_t i = 0; i < 3; i++) {
			struct roce_packet packet;
			size_t original, len = frame_write(&message, i, frame, &original);
			assert_int_equal(len, original);
			check_ipv4(&message, frame, len);
			assert_int_equal(roce_decode(frame + 42, len - 42, &packet), 0);
			assert_int_equal(packet.bth.opcode, opcodes[is_write][i]);
			assert_int_equal(packet.bth.psn, (0xFFFFFF + i) & 0xFFFFFF);
			assert_int_equal(packet.bth.dest_qp, 0x222222);
			assert_int_equal(packet.payload_len, i < 2 ? 1024 : 2501 - 2048);
			assert_memory_equal(packet.payload, data + i * 1024, packet.payload_len);
			if (is_write && i == 0) {
				assert_int_equal(packet.reth.va, 0x1234567890);
				assert_int_equal(packet.reth.rkey, 0x5678);
				assert_int_equal(packet.reth.length, 2501);
			}
		}
	}
}

/* A message was longer than its record: its frames are written, and marked as cut. */
static void frames_of_missing_bytes_are_cut(void **state)
{
	const struct capture_link link = a_link();
	uint8_t data[1500] = { 0 }, frame[FRAME_MAX];
	const struct frame_message message = { .from = &link.local,
					       .to = &link.peer,
					       .is_write = true,
					       .path_mtu = 1024,
					       .data = data,
					       .data_len = sizeof(data),
					       .length = 3000 };
	size_t original;
	(void)state;
	assert_int_equal(frame_count(&message), 3);
	const size_t len = frame_write(&message, 0, frame, &original);
	assert_int_equal(len, original);
	assert_int_equal(frame_write(&message, 1, frame, &original), 14 + 28 + 12 + 476);
	assert_int_equal(original, 14 + 28 + 12 + 1024 + 4);
	assert_int_equal(frame_write(&message, 2, frame, &original), 14 + 28 + 12);
	assert_int_equal(original, 14 + 28 + 12 + 952 + 4);
	const struct frame_message empty = { .from = &link.local,
					     .to = &link.peer,
					     .path_mtu = 256 };
	assert_int_equal(frame_count(&empty), 1);
	assert_int_equal(frame_write(&empty, 0, frame, &original), 14 + 28 + 16);
}

/* The CRC of the Ethernet standard, bit by bit. */
static uint32_t crc_of(const uint8_t *data, size_t len)
{
	uint32_t crc = 0xFFFFFFFF;
	for (size_t i = 0; i < len * 8; i++) {
		bool bit = (data[i / 8] >> i % 8 ^ crc) & 1;
		crc = crc >> 1 ^ (bit ? 0xEDB88320 : 0);
	}
	return ~crc;
}

static void ipv6_has_its_own_checksums(void **state)
{
	struct capture_link link = a_link();
	uint8_t frame[FRAME_MAX], masked[8 + FRAME_MAX];
	const uint8_t data[44] = { 1, 44, 3 };
	size_t original;
	(void)state;
	memcpy(link.local.gid, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01", 16);
	memcpy(link.peer.gid, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02", 16);
	const struct frame_message message = { .from = &link.peer,
					       .to = &link.local,
					       .path_mtu = 1024,
					       .data = data,
					       .data_len = 44,
					       .length = 44 };
	size_t len = frame_write(&message, 0, frame, &original);
	const uint8_t *ip = frame + 14;
	assert_int_equal(len, 14 + 40 + 8 + 12 + 44 + 4);
	assert_int_equal(get_be16(frame + 12), 0x86DD);
	assert_int_equal(get_be16(ip + 4), 8 + 12 + 44 + 4);
	assert_memory_equal(ip + 8, link.peer.gid, 16);
	assert_memory_equal(ip + 24, link.local.gid, 16);
	assert_true(sums_up(ip + 8, len - 14 - 8, 17 + get_be16(ip + 4)));
	memset(masked, 0xFF, 8);
	memcpy(masked + 8, ip, len - 14);
	memcpy(masked + 8, "\x6F\xFF\xFF\xFF", 4); /* traffic class, flow label */
	masked[8 + 7] = 0xFF;                      /* hop limit */
	memset(masked + 8 + 40 + 6, 0xFF, 2);      /* UDP checksum */
	masked[8 + 40 + 8 + 4] = 0xFF;             /* BTH */
	const uint32_t icrc = crc_of(masked, 8 + len - 14 - 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(frame[len - 4 + (size_t)i], icrc >> 8 * i & 0xFF);
}

/* ---- files ---- */

struct block {
	uint32_t type, len;
	const uint8_t *body;
	size_t body_len;
};

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof(value));
	return value;
}

static struct block block_at(const char *file, size_t size, size_t *at)
{
	const uint8_t *here = (const uint8_t *)file + *at;
	assert_true(*at + 12 <= size);
	struct block block = { .type = get32(here), .len = get32(here + 4), .body = here + 8 };
	assert_true(block.len % 4 == 0 && block.len >= 12 && *at + block.len <= size);
	assert_int_equal(get32(here + block.len - 4), block.len);
	block.body_len = block.len - 12;
	*at += block.len;
	return block;
}

/* The value of an option behind the first `from` bytes. @return NULL if the option is not there */
static const uint8_t *option_of(const struct block *block, size_t from, unsigned int wanted,
				size_t *ret_len)
{
	for (size_t at = from; at + 4 <= block->body_len;) {
		unsigned int code = get32(block->body + at) & 0xFFFF;
		size_t len = get32(block->body + at) >> 16;
		if (code == wanted) {
			*ret_len = len;
			return block->body + at + 4;
		}
		if (code == 0) /* the end of options comes last in the block */
			assert_int_equal(at + 4, block->body_len);
		at += 4 + (len + 3) / 4 * 4;
	}
	return NULL;
}

static void assert_option(const struct block *block, size_t from, unsigned int code,
			  const void *value, size_t expected_len)
{
	size_t len;
	const uint8_t *found = option_of(block, from, code, &len);
	assert_non_null(found);
	assert_int_equal(len, expected_len);
	assert_memory_equal(found, value, len);
}

static void add(struct capture_file *file, uint32_t flags, uint64_t lost, uint32_t len)
{
	static const uint8_t zeros[2000];
	uint8_t record[sizeof(struct capture_message) + 2000];
	const struct capture_message message = { .type = CAPTURE_MESSAGE,
						 .flags = flags,
						 .link = 77,
						 .time_ns = 0x123456789ABCDEF0,
						 .lost = lost,
						 .length = len };
	memcpy(record, &message, sizeof(message));
	memcpy(record + sizeof(message), zeros, len);
	assert_int_equal(capture_file_add(file, record, sizeof(message) + len), 0);
}

static void check_packet(const struct block *block, uint32_t flags, uint64_t lost, size_t len)
{
	assert_int_equal(block->type, 6);
	assert_int_equal(get32(block->body), 0); /* number of the interface */
	assert_int_equal(get32(block->body + 4), 0x12345678);
	assert_int_equal(get32(block->body + 8), 0x9ABCDEF0);
	assert_int_equal(get32(block->body + 12), len);
	assert_int_equal(get32(block->body + 16), len);
	const size_t options = 20 + (len + 3) / 4 * 4;
	size_t option_len;
	assert_option(block, options, 2, &flags, 4);
	if (lost)
		assert_option(block, options, 4, &lost, 8);
	else
		assert_null(option_of(block, options, 4, &option_len));
	const uint8_t *comment = option_of(block, options, 1, &option_len);
	assert_non_null(comment);
	assert_non_null(memmem(comment, option_len, "link group 3, link 2, peer 10.0.0.2", 35));
}

static uint64_t time_of(const struct block *block, unsigned int code)
{
	size_t len;
	const uint8_t *halves = option_of(block, 12, code, &len);
	assert_non_null(halves);
	assert_int_equal(len, 8);
	return (uint64_t)get32(halves) << 32 | get32(halves + 4);
}

static void check_statistics(const char *file, size_t size, size_t *at, uint32_t interface,
			     uint64_t packets, uint64_t lost)
{
	const struct block block = block_at(file, size, at);
	assert_int_equal(block.type, 5);
	assert_int_equal(get32(block.body), interface);
	assert_option(&block, 12, 4, &packets, 8);
	assert_option(&block, 12, 5, &lost, 8);
	const uint64_t end_ns = (uint64_t)get32(block.body + 4) << 32 | get32(block.body + 8);
	assert_in_range(end_ns, (uint64_t)time(NULL) * 1000000000 - 60000000000,
			(uint64_t)time(NULL) * 1000000000 + 60000000000);
	assert_int_equal(time_of(&block, 3), end_ns);
	assert_in_range(time_of(&block, 2), end_ns - 60000000000, end_ns);
}

static void a_file_has_its_blocks(void **state)
{
	struct rings *rings = *state;
	const struct capture_link link = a_link();
	char *text;
	size_t size, at = 0;
	FILE *out = open_memstream(&text, &size);
	struct capture_file *file = capture_file_new(out);
	assert_int_equal(capture_file_add(file, &link, sizeof(link)), 0);
	/* the same link a second time */
	assert_int_equal(capture_file_add(file, &link, sizeof(link)), 0);
	add(file, CAPTURE_SENT, 0, 44);
	add(file, CAPTURE_HIDDEN, 5, 44);
	add(file, CAPTURE_SENT | CAPTURE_WRITE, 5, 1500);
	assert_int_equal(capture_file_messages(file), 3);
	assert_int_equal(capture_file_add(file, "nonsense", 8), -EBADMSG);
	for (int i = 0; i < 6; i++)
		capture_ring_lose(&rings->writer, 2);
	assert_int_equal(capture_file_end(file, &rings->reader), 6);
	fclose(out);

	struct block block = block_at(text, size, &at);
	assert_int_equal(block.type, 0x0A0D0D0A);
	assert_int_equal(get32(block.body), 0x1A2B3C4D);
	assert_int_equal(get32(block.body + 4), 1);
	block = block_at(text, size, &at);
	assert_int_equal(block.type, 1);
	assert_int_equal(get32(block.body), 1); /* link type Ethernet */
	assert_option(&block, 8, 2, link.name, strlen(link.name));
	assert_option(&block, 8, 6, link.local.mac, 6);
	assert_option(&block, 8, 9, "\x09", 1);
	block = block_at(text, size, &at);
	check_packet(&block, 2, 0, 14 + 28 + 12 + 44 + 4);
	assert_memory_equal(block.body + 20, link.peer.mac, 6);
	block = block_at(text, size, &at);
	check_packet(&block, 1, 5, 14 + 28 + 12 + 44 + 4);
	assert_memory_equal(block.body + 20, link.local.mac, 6);
	assert_non_null(memmem(block.body, block.body_len, "keys are zero", 13));
	block = block_at(text, size, &at);
	check_packet(&block, 2, 0, 14 + 28 + 28 + 1024 + 4);
	block = block_at(text, size, &at);
	check_packet(&block, 2, 0, 14 + 28 + 12 + 476 + 4);
	check_statistics(text, size, &at, 0, 4, 6);
	assert_int_equal(at, size);
	free(text);
}

static void add_mad(struct capture_file *file, uint32_t flags, uint64_t lost)
{
	uint8_t record[sizeof(struct capture_mad) + IBCM_MAD_LEN] = { 0 };
	struct capture_mad mad = a_mad();
	mad.flags = flags;
	mad.lost = lost;
	memcpy(record, &mad, sizeof(mad));
	assert_int_equal(capture_file_add(file, record, sizeof(record)), 0);
}

/* @return the packet's frame */
static const uint8_t *check_mad(const struct block *block, uint32_t flags, const char *comment)
{
	const size_t len = 14 + 28 + 12 + 8 + IBCM_MAD_LEN + 4;
	size_t option_len;
	assert_int_equal(block->type, 6);
	assert_int_equal(get32(block->body), 0); /* number of the interface */
	assert_int_equal(get32(block->body + 12), len);
	assert_option(block, 20 + (len + 3) / 4 * 4, 2, &flags, 4);
	const uint8_t *text = option_of(block, 20 + (len + 3) / 4 * 4, 1, &option_len);
	assert_non_null(text);
	assert_int_equal(option_len, strlen(comment));
	assert_memory_equal(text, comment, option_len);
	return block->body + 20;
}

/* It needs no link, and comes from the peer's own port. Its RNIC is the one of links too. */
static void messages_of_the_connection_manager_are_in_the_file(void **state)
{
	struct rings *rings = *state;
	const struct capture_link link = a_link(); /* of RNIC 2 */
	char *text;
	size_t size, at = 0;
	FILE *out = open_memstream(&text, &size);
	struct capture_file *file = capture_file_new(out);
	add_mad(file, CAPTURE_SENT | CAPTURE_HIDDEN, 0);
	add_mad(file, 0, 3);
	add_mad(file, 0, 3);
	assert_int_equal(capture_file_add(file, &link, sizeof(link)), 0);
	assert_int_equal(capture_file_messages(file), 3);
	for (int i = 0; i < 3; i++)
		capture_ring_lose(&rings->writer, 2);
	assert_int_equal(capture_file_end(file, &rings->reader), 3);
	fclose(out);

	block_at(text, size, &at);
	struct block block = block_at(text, size, &at);
	assert_int_equal(block.type, 1);
	assert_option(&block, 8, 2, "soft:eth0", 9);
	assert_option(&block, 8, 6, link.local.mac, 6);
	block = block_at(text, size, &at);
	const uint8_t *frame = check_mad(&block, 2,
					 "connection manager; starting PSNs are zero: they are for "
					 "root only");
	assert_memory_equal(frame, link.peer.mac, 6);
	assert_int_equal(get_be16(frame + 34), 4791);
	for (uint32_t psn = 0; psn < 2; psn++) {
		block = block_at(text, size, &at);
		frame = check_mad(&block, 1, "connection manager");
		assert_memory_equal(frame, link.local.mac, 6);
		assert_int_equal(get_be16(frame + 34), 50000);
		assert_int_equal(get_be24(frame + 42 + 9), psn);
	}
	check_statistics(text, size, &at, 0, 3, 3);
	assert_int_equal(at, size);
	free(text);
}

/* Messages can be lost before the link is described. The file tells these losses too. */
static void losses_of_an_unknown_rnic_are_in_the_file(void **state)
{
	struct rings *rings = *state;
	const struct capture_link link = a_link(); /* of RNIC 2 */
	char *text;
	size_t size, at = 0, len;
	FILE *out = open_memstream(&text, &size);
	struct capture_file *file = capture_file_new(out);
	assert_int_equal(capture_file_add(file, &link, sizeof(link)), 0);
	capture_ring_lose(&rings->writer, 0);
	capture_ring_lose(&rings->writer, 5);
	capture_ring_lose(&rings->writer, 5);
	assert_int_equal(capture_file_end(file, &rings->reader), 3);
	fclose(out);
	block_at(text, size, &at);
	assert_int_equal(block_at(text, size, &at).type, 1);
	check_statistics(text, size, &at, 0, 0, 0);
	const struct block block = block_at(text, size, &at);
	assert_int_equal(block.type, 1);
	assert_option(&block, 8, 2, "unknown", 7);
	assert_null(option_of(&block, 8, 6, &len));
	check_statistics(text, size, &at, 1, 0, 3);
	assert_int_equal(at, size);
	free(text);
}

static void a_message_of_an_unknown_link_is_refused(void **state)
{
	struct rings *rings = *state;
	const struct capture_message message = { .type = CAPTURE_MESSAGE, .link = 1 };
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct capture_file *file = capture_file_new(out);
	assert_int_equal(capture_file_add(file, &message, sizeof(message)), -EBADMSG);
	assert_int_equal(capture_file_end(file, &rings->reader), 0);
	fclose(out);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_some_lengths_make_a_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(records_come_out_as_they_went_in, setup, teardown),
		cmocka_unit_test_setup_teardown(records_that_do_not_fit_are_counted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_reader_that_lies_loses_records, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_ring_is_noticed, setup, teardown),
		cmocka_unit_test(records_are_checked),
		cmocka_unit_test(frames_are_those_of_recorded_packets),
		cmocka_unit_test(records_of_the_connection_manager_are_checked),
		cmocka_unit_test(frames_of_the_connection_manager_are_those_of_linux),
		cmocka_unit_test(long_messages_become_several_frames),
		cmocka_unit_test(frames_of_missing_bytes_are_cut),
		cmocka_unit_test(ipv6_has_its_own_checksums),
		cmocka_unit_test_setup_teardown(a_file_has_its_blocks, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_of_the_connection_manager_are_in_the_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(losses_of_an_unknown_rnic_are_in_the_file, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_message_of_an_unknown_link_is_refused, setup,
						teardown),
	};
	return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
