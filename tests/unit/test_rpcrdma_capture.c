/* SPDX-License-Identifier: MIT */
/*
 * What the Linux kernel's NFS client and server say in RPC-over-RDMA version 1
 * (tests/captures/README.md) decodes, and encodes to the same bytes again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/ibcm/ibcm.h"
#include "proto/ibcm/ip.h"
#include "proto/roce/roce.h"
#include "proto/rpcrdma/rpcrdma.h"
#include "tests/lib/pcap.h"
#include "tests/lib/proves.h"

static struct story {
	unsigned int messages, without_body, errors, of_version_2;
	unsigned int with_reads, with_writes, with_reply, invalidating, special_calls;
	unsigned int private_data, with_invalidates;
} story;

static void take_lists(const struct rpcrdma_prefix *prefix, const uint8_t *rest, size_t len)
{
	uint8_t again[RPCRDMA_MOST_LISTS_LEN];
	struct rpcrdma_lists lists;
	size_t lists_len;
	assert_int_equal(rpcrdma_decode_lists(rest, len, prefix->version, &lists, &lists_len), 0);
	assert_int_equal(rpcrdma_encode_lists(&lists, prefix->version, again, sizeof(again)),
			 lists_len);
	assert_memory_equal(again, rest, lists_len);
	story.without_body += lists_len == len;
	story.with_reads += lists.num_reads > 0;
	story.with_writes += lists.num_writes > 0;
	story.with_reply += lists.has_reply;
	story.special_calls += lists.num_reads > 0 && lists.reads[0].position == 0;
	if (prefix->type == RPCRDMA_MSG) /* the RPC message begins with the same XID */
		assert_memory_equal(rest + lists_len, rest - RPCRDMA_V1_PREFIX_LEN, 4);
}

static void take_error(const uint8_t *message, size_t len)
{
	struct rpcrdma_error error;
	uint8_t again[RPCRDMA_ERROR_MOST_LEN];
	assert_true(rpcrdma_decode_foreign_error(message, len, &error));
	assert_int_equal(error.code, RPCRDMA_ERR_VERS);
	assert_int_equal(error.first, 1);
	assert_int_equal(error.second, 1);
	assert_int_equal(rpcrdma_encode_error(&error, again), len - RPCRDMA_V1_PREFIX_LEN);
	assert_memory_equal(again, message + RPCRDMA_V1_PREFIX_LEN, len - RPCRDMA_V1_PREFIX_LEN);
	story.errors++;
}

static void take_message(const uint8_t *message, size_t len)
{
	struct rpcrdma_prefix prefix;
	uint8_t again[RPCRDMA_V2_PREFIX_LEN];
	assert_int_equal(rpcrdma_decode_prefix(message, len, &prefix), 0);
	story.messages++;
	if (prefix.type == RPCRDMA_ERROR) {
		take_error(message, len);
		return;
	}
	const size_t prefix_len = rpcrdma_encode_prefix(&prefix, again);
	assert_memory_equal(again, message, prefix_len);
	story.of_version_2 += prefix.version == RPCRDMA_V2;
	if (prefix.version == RPCRDMA_V1)
		take_lists(&prefix, message + prefix_len, len - prefix_len);
}

static void take_private(const uint8_t *data, size_t len)
{
	struct rpcrdma_private private_data;
	uint8_t again[RPCRDMA_PRIVATE_LEN];
	if (rpcrdma_decode_private(data, len, &private_data) < 0)
		return;
	rpcrdma_encode_private(&private_data, again);
	assert_memory_equal(again, data, sizeof(again));
	assert_int_equal(private_data.send_size, 4096);
	assert_int_equal(private_data.receive_size, 4096);
	story.private_data++;
	story.with_invalidates += private_data.invalidates;
}

static void take_cm(const uint8_t *mad, size_t len)
{
	struct ibcm_msg msg;
	assert_int_equal(ibcm_decode(mad, len, &msg), 0);
	const size_t private_len = ibcm_private_len(msg.type);
	if (msg.type == IBCM_REQ)
		take_private(msg.private_data + IBCM_IP_LEN, private_len - IBCM_IP_LEN);
	else if (msg.type == IBCM_REP)
		take_private(msg.private_data, private_len);
}

static void take_packet(const struct pcap_packet *p)
{
	struct roce_packet roce;
	if (p->dst_port != ROCE_UDP_PORT)
		return;
	assert_int_equal(roce_decode(p->payload, p->payload_len, &roce), 0);
	if (roce.bth.opcode == ROCE_UD_SEND_ONLY)
		take_cm(roce.payload, roce.payload_len);
	else if (roce.bth.opcode == ROCE_SEND_ONLY || roce.bth.opcode == ROCE_SEND_ONLY_INVALIDATE)
		take_message(roce.payload, roce.payload_len);
	story.invalidating += roce.bth.opcode == ROCE_SEND_ONLY_INVALIDATE;
}

static void nfs_of_linux(void **state)
{
	(void)state;
	struct pcap *pcap;
	struct pcap_packet packet;
	int more;
	assert_int_equal(pcap_open("tests/captures/linux-nfs-rdma-v1.pcap.gz", &pcap), 0);
	while ((more = pcap_next(pcap, &packet)) > 0)
		take_packet(&packet);
	pcap_close(pcap);
	assert_int_equal(more, 0);
	assert_int_equal(story.messages, 60);
	assert_int_equal(story.without_body, 8);
	assert_int_equal(story.with_reads, 4);
	assert_int_equal(story.with_writes, 8);
	assert_int_equal(story.with_reply, 14);
	assert_int_equal(story.special_calls, 1);
	assert_int_equal(story.invalidating, 11);
	assert_int_equal(story.private_data, 4);
	assert_int_equal(story.with_invalidates, 1);
	assert_int_equal(story.errors, 1);
	assert_int_equal(story.of_version_2, 1);
	PROVES("RR2-193 RR2-194 RR2-197 RR2-199");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nfs_of_linux),
	};
	return cmocka_run_group_tests_name("rpcrdma: captures", tests, NULL, NULL);
}
