/* SPDX-License-Identifier: MIT */
#include "tests/lib/respfix.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define SEND_DEPTH 8

void respfix_open(struct respfix *fix)
{
	const unsigned int all = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_READ;
	memset(fix, 0, sizeof(*fix));
	testnet_new(&fix->net, 1500);
	fix->base = event_base_new();
	rnic_side_open(&fix->side, fix->base, "soft:t0", RESPFIX_MEM);
	assert_int_equal(rnic_mr_register(fix->side.pd, fix->side.mem, RESPFIX_MEM,
					  RNIC_ACCESS_REMOTE_READ, &fix->readable),
			 0);
	assert_int_equal(rnic_mr_register(fix->side.pd, fix->side.mem, RESPFIX_MEM,
					  all | RNIC_ACCESS_REMOTE_WRITE, &fix->both),
			 0);
	testnet_enter(&fix->net, 1);
	roce_peer_open(&fix->peer, fix->base, "10.77.0.2", "10.77.0.1", ROCE_UDP_PORT);
	fix->reads_answered = SOFT_MAX_READS_ANSWERED;
}

void respfix_close(struct respfix *fix)
{
	rnic_side_qp_destroy(&fix->side);
	rnic_mr_deregister(fix->readable);
	rnic_mr_deregister(fix->both);
	rnic_side_close(&fix->side);
	roce_peer_close(&fix->peer);
	event_base_free(fix->base);
	testnet_free(&fix->net);
}

static struct rnic_qp_peer scripted(const struct respfix *fix)
{
	return (struct rnic_qp_peer){ .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				      .qpn = RESPFIX_PEER_QPN,
				      .rq_psn = RESPFIX_PEER_PSN,
				      .path_mtu = RESPFIX_MTU_CODE,
				      .reads_answered = fix->reads_answered };
}

struct rnic_stats respfix_stats(struct respfix *fix)
{
	struct rnic_stats stats;
	rnic_get_stats(fix->side.rnic, &stats);
	return stats;
}

void respfix_connect(struct respfix *fix)
{
	struct rnic_qp_peer to = scripted(fix);
	rnic_side_qp(&fix->side, SEND_DEPTH, RESPFIX_DEPTH, RESPFIX_RECV);
	rnic_side_connect(&fix->side, &to, 1000, 7);
	rnic_side_pattern(fix->side.mem, RESPFIX_MEM, 7);
	fix->before = respfix_stats(fix);
}

struct rnic_qp *respfix_another_qp(struct respfix *fix)
{
	struct rnic_qp *first = fix->side.qp;
	struct rnic_qp_peer to = scripted(fix);
	rnic_side_qp(&fix->side, SEND_DEPTH, RESPFIX_DEPTH, RESPFIX_RECV);
	rnic_side_connect(&fix->side, &to, 1000, 7);
	struct rnic_qp *another = fix->side.qp;
	fix->side.qp = first;
	return another;
}

void respfix_drain(struct respfix *fix)
{
	struct roce_packet left;
	while (roce_peer_receive(&fix->peer, &left, 1))
		;
}

void respfix_disconnect(struct respfix *fix)
{
	rnic_side_qp_destroy(&fix->side);
	rnic_side_forget(&fix->side);
	respfix_drain(fix);
}

void respfix_reconnect(struct respfix *fix)
{
	respfix_disconnect(fix);
	respfix_connect(fix);
}

struct roce_peer_packet respfix_send(struct respfix *fix, uint32_t n, const char *text)
{
	return (struct roce_peer_packet){ .opcode = ROCE_SEND_ONLY,
					  .qpn = rnic_qp_num(fix->side.qp),
					  .psn = RESPFIX_PEER_PSN + n,
					  .ack_req = true,
					  .payload = text,
					  .len = strlen(text) };
}

struct roce_peer_packet respfix_read(struct respfix *fix, uint32_t n, size_t at, uint32_t len)
{
	return (struct roce_peer_packet){ .opcode = ROCE_READ_REQUEST,
					  .qpn = rnic_qp_num(fix->side.qp),
					  .psn = RESPFIX_PEER_PSN + n,
					  .ack_req = true,
					  .reth = { .va = rnic_mr_vaddr(fix->readable) + at,
						    .rkey = rnic_mr_rkey(fix->readable),
						    .length = len } };
}

struct roce_peer_packet respfix_write(struct respfix *fix, uint32_t n, size_t at, const void *data,
				      size_t len)
{
	return (struct roce_peer_packet){ .opcode = ROCE_WRITE_ONLY,
					  .qpn = rnic_qp_num(fix->side.qp),
					  .psn = RESPFIX_PEER_PSN + n,
					  .ack_req = true,
					  .reth = { .va = rnic_mr_vaddr(fix->both) + at,
						    .rkey = rnic_mr_rkey(fix->both),
						    .length = (uint32_t)len },
					  .payload = data,
					  .len = len };
}

void respfix_post(struct respfix *fix, const struct roce_peer_packet *packet)
{
	roce_peer_send(&fix->peer, packet);
}

/* The next packet, which has to be for PSN `n`. */
static void receive(struct respfix *fix, uint32_t n, struct roce_packet *ret_packet)
{
	assert_true(roce_peer_receive(&fix->peer, ret_packet, RESPFIX_PATIENCE));
	assert_int_equal(ret_packet->bth.dest_qp, RESPFIX_PEER_QPN);
	assert_int_equal(ret_packet->bth.psn, (RESPFIX_PEER_PSN + n) & ROCE_PSN_MASK);
	assert_false(ret_packet->bth.ack_req); /* it is an answer */
}

void respfix_expect_answer(struct respfix *fix, enum roce_ack_kind kind, uint32_t n, int value)
{
	struct roce_packet p;
	receive(fix, n, &p);
	assert_int_equal(p.bth.opcode, ROCE_ACKNOWLEDGE);
	assert_int_equal(p.aeth.kind, kind);
	if (value >= 0)
		assert_int_equal(p.aeth.value, value);
}

void respfix_expect_ack(struct respfix *fix, uint32_t n)
{
	respfix_expect_answer(fix, ROCE_ACK, n, -1);
}

void respfix_expect_nak(struct respfix *fix, uint32_t n, enum roce_nak_code code)
{
	respfix_expect_answer(fix, ROCE_NAK, n, (int)code);
}

static uint8_t opcode_at(uint32_t i, uint32_t packets)
{
	if (packets == 1)
		return ROCE_READ_RESPONSE_ONLY;
	return i == 0             ? ROCE_READ_RESPONSE_FIRST
	       : i == packets - 1 ? ROCE_READ_RESPONSE_LAST
				  : ROCE_READ_RESPONSE_MIDDLE;
}

static uint32_t packets_of(uint32_t len)
{
	return len ? (len - 1) / RESPFIX_MTU + 1 : 1;
}

static uint32_t expect(struct respfix *fix, uint32_t n, size_t at, uint32_t len, uint32_t most)
{
	uint32_t msn = 0;
	for (uint32_t i = 0; i < packets_of(len) && i < most; i++) {
		uint32_t offset = i * RESPFIX_MTU;
		uint32_t part = len - offset < RESPFIX_MTU ? len - offset : RESPFIX_MTU;
		struct roce_packet p;
		receive(fix, n + i, &p);
		assert_int_equal(p.bth.opcode, opcode_at(i, packets_of(len)));
		assert_int_equal(p.payload_len, part);
		assert_memory_equal(p.payload, fix->side.mem + at + offset, part);
		if (roce_ext_len(p.bth.opcode)) {
			assert_int_equal(p.aeth.kind, ROCE_ACK);
			msn = p.aeth.msn;
		}
	}
	return msn;
}

uint32_t respfix_expect_bytes(struct respfix *fix, uint32_t n, size_t at, uint32_t len)
{
	return expect(fix, n, at, len, UINT32_MAX);
}

void respfix_expect_some(struct respfix *fix, uint32_t n, size_t at, uint32_t len, uint32_t packets)
{
	expect(fix, n, at, len, packets);
}

void respfix_expect_silence(struct respfix *fix)
{
	struct roce_packet p;
	assert_false(roce_peer_receive(&fix->peer, &p, RESPFIX_QUIET));
}

void respfix_expect_end(struct respfix *fix, const struct roce_peer_packet *request, uint32_t n,
			enum roce_nak_code code)
{
	respfix_expect_nak(fix, n, code);
	assert_true(rnic_side_wait(fix->base, &fix->side.recv_errors, 1, RESPFIX_PATIENCE));
	assert_int_equal(rnic_side_send(&fix->side, "x", 1, 1), -EIO);
	respfix_post(fix, request);
	respfix_expect_nak(fix, n, code);
	respfix_expect_silence(fix);
}
