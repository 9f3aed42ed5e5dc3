/* SPDX-License-Identifier: MIT */
/**
 * @file respfix.h
 * A soft RNIC whose queue pair answers a scripted peer, for tests of its receiving half. The two
 * are in network namespaces of their own. Numbers of packets count from the peer's first PSN.
 * Failures end the test.
 */
#ifndef SMCRD_TESTS_RESPFIX_H
#define SMCRD_TESTS_RESPFIX_H

#include "daemon/rnic/soft/internal.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/roce_peer.h"
#include "tests/lib/testnet.h"

#define RESPFIX_MEM      (8u << 20)
#define RESPFIX_MTU_CODE 3
#define RESPFIX_MTU      1024
#define RESPFIX_PEER_QPN 0x000077
#define RESPFIX_PEER_PSN 0xFFFFFE /* wraps early */
#define RESPFIX_PATIENCE 30000    /* milliseconds: of a busy machine */
#define RESPFIX_QUIET    30
#define RESPFIX_RECV     64 /* receive buffers that are the RNIC's own, bytes */
#define RESPFIX_DEPTH    4  /* and how many */

struct respfix {
	struct testnet net;
	struct event_base *base;
	struct rnic_side side;
	struct rnic_mr *readable; /* all memory of the side, filled with a pattern, for READs */
	struct rnic_mr *both;     /* and for READs and WRITEs */
	struct roce_peer peer;
	struct rnic_stats before;
	/* Of the queue pairs that are connected from now on: */
	uint8_t reads_answered;
};

void respfix_open(struct respfix *fix);
void respfix_close(struct respfix *fix);
/** Connect a queue pair with the peer; the memory gets its pattern, and counters begin anew. */
void respfix_connect(struct respfix *fix);
/** Destroy it, and read what the peer has got and not read. */
void respfix_disconnect(struct respfix *fix);
void respfix_reconnect(struct respfix *fix);
/** Another queue pair of the same RNIC and PD, and for the same peer. */
struct rnic_qp *respfix_another_qp(struct respfix *fix);
void respfix_drain(struct respfix *fix);

/** How much a counter of the device has grown since the queue pair was connected. */
#define RESPFIX_GREW(fix, counter) (respfix_stats(fix).counter - (fix)->before.counter)
struct rnic_stats respfix_stats(struct respfix *fix);

/* Requests of the peer, with `n` as their first PSN. */
struct roce_peer_packet respfix_send(struct respfix *fix, uint32_t n, const char *text);
struct roce_peer_packet respfix_read(struct respfix *fix, uint32_t n, size_t at, uint32_t len);
struct roce_peer_packet respfix_write(struct respfix *fix, uint32_t n, size_t at, const void *data,
				      size_t len);
void respfix_post(struct respfix *fix, const struct roce_peer_packet *packet);

/* What the peer has to get next. */
void respfix_expect_answer(struct respfix *fix, enum roce_ack_kind kind, uint32_t n, int value);
void respfix_expect_ack(struct respfix *fix, uint32_t n);
void respfix_expect_nak(struct respfix *fix, uint32_t n, enum roce_nak_code code);
/** The whole response to respfix_read(), with its opcodes and bytes. @return its MSN */
uint32_t respfix_expect_bytes(struct respfix *fix, uint32_t n, size_t at, uint32_t len);
/** The first `packets` of that response. */
void respfix_expect_some(struct respfix *fix, uint32_t n, size_t at, uint32_t len,
			 uint32_t packets);
void respfix_expect_silence(struct respfix *fix);
/** The NAK for this request, which ends the queue pair. If it is lost, the request that is repeated
 * gets another one. */
void respfix_expect_end(struct respfix *fix, const struct roce_peer_packet *request, uint32_t n,
			enum roce_nak_code code);

#endif
