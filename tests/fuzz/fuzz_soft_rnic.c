/* SPDX-License-Identifier: MIT */
/* A soft RNIC's queue pair against a peer that sends anything. The input is a list of packets,
 * posts, windows that come and go, and runs of the event loop. Packets have a valid ICRC, the right
 * queue pair and PSNs near the expected ones, or else they would be dropped early. The address
 * sanitizer sees accesses outside of the registered memory. Work requests, and receive buffers that
 * the user posts, must complete once each and in order. Needs root. */
#include <event2/event.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/rnic/soft/requester.h"
#include "tests/fuzz/fuzz.h"

#define MEM       4096
#define DEPTH     8
#define RECV_SIZE 600 /* SENDs of up to three packets */
#define MTU_CODE  1
#define READS     2 /* at a time, of each side */
#define WINDOWS   2

static struct event_base *base;
static struct rnic *rnic;
static struct rnic_pd *pd;

struct run {
	const uint8_t *data;
	size_t left;
	struct soft_qp *qp;
	struct rnic_mr *mr, *source; /* `mem`, for the peer and for own requests */
	struct rnic_window *windows[WINDOWS];
	uint8_t *mem;
	uint64_t posted, completed, recv_errors;
	bool rebound; /* windows have changed */
	bool user_receives;
	uint64_t buffers, filled; /* that the user has posted, and that have come back */
};

static void open_device(void)
{
	char error[RNIC_ERROR_LEN];
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;
	if (unshare(CLONE_NEWNET) || (fd = socket(AF_INET, SOCK_DGRAM, 0)) < 0 ||
	    ioctl(fd, SIOCSIFFLAGS, &ifr)) {
		perror("fuzz_soft_rnic: network namespace (root is needed)");
		exit(1);
	}
	close(fd);
	base = event_base_new();
	struct rnic_open_params params = { .base = base };
	if (rnic_open("soft:lo", &params, &rnic, error)) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	must(rnic_pd_alloc(rnic, &pd) == 0);
}

/* ---- the input */

static uint8_t take8(struct run *run)
{
	if (run->left == 0)
		return 0;
	run->left--;
	return *run->data++;
}

static uint16_t take16(struct run *run)
{
	uint16_t high = take8(run);
	return (uint16_t)(high << 8 | take8(run));
}

/* ---- the user */

static void read_message(struct run *run, const struct rnic_wc *wc)
{
	must(wc->length <= (run->user_receives ? MEM : RECV_SIZE));
	/* Read every byte, so that the address sanitizer sees a wrong length. */
	volatile uint8_t sum = 0;
	for (uint32_t k = 0; k < wc->length; k++)
		sum = (uint8_t)(sum + wc->data[k]);
	if (!wc->invalidated)
		return;
	/* The token is one that a window had, and is dead. */
	bool known = false;
	for (size_t i = 0; i < WINDOWS; i++)
		known |= rnic_window_rkey(run->windows[i]) == wc->invalidated_rkey;
	must(known || run->rebound);
	must(!soft_token_find(soft_device_of(rnic), wc->invalidated_rkey) || run->rebound);
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct run *run = ctx;
	must(qp == &run->qp->base && n > 0);
	for (size_t i = 0; i < n; i++) {
		if (!wc[i].is_recv) {
			must(wc[i].wr_id == run->completed);
			run->completed++;
			continue;
		}
		if (run->user_receives && wc[i].data) {
			must(run->recv_errors == 0 && wc[i].wr_id == run->filled);
			run->filled++;
		}
		if (wc[i].status == RNIC_WC_SUCCESS)
			read_message(run, &wc[i]);
		else if (!wc[i].data || !run->user_receives)
			run->recv_errors++;
	}
	must(run->filled <= run->buffers);
	must(run->completed <= run->posted);
}

static void post(struct run *run)
{
	static const enum rnic_opcode opcodes[] = { RNIC_WR_RDMA_WRITE, RNIC_WR_SEND,
						    RNIC_WR_RDMA_READ, RNIC_WR_SEND_INVALIDATE };
	uint8_t kind = take8(run);
	uint32_t len = take16(run) % (MEM + 64);
	struct rnic_send_wr wr = {
		.wr_id = run->posted,
		.opcode = opcodes[(kind & 1) | (kind >> 3 & 2)],
		.flags = RNIC_SEND_SIGNALED | (kind & 2 ? RNIC_SEND_SOLICITED : 0),
		.num_sge = 1 + (kind >> 2 & 1),
		.sge = { { run->mem, len / 2, rnic_mr_lkey(run->source) },
			 { run->mem + len / 2, len - len / 2, rnic_mr_lkey(run->source) } },
		.remote_addr = 0x1000,
		.rkey = 1,
	};
	if (rnic_post_send(&run->qp->base, &wr, 1) == 0)
		run->posted++;
	if (kind & 8)
		rnic_qp_want_ack(&run->qp->base);
}

static void post_buffer(struct run *run)
{
	uint32_t length = take16(run) % (MEM + 64);
	struct rnic_recv_wr wr = { .wr_id = run->buffers,
				   .addr = run->mem,
				   .length = length,
				   .lkey = rnic_mr_lkey(run->source) };
	if (rnic_post_recv(&run->qp->base, &wr, 1) == 0) {
		must(run->user_receives && length <= MEM);
		run->buffers++;
	}
}

/* Bind a window, or end it in one way or another. */
static void use_window(struct run *run)
{
	uint8_t kind = take8(run);
	struct rnic_window **window = &run->windows[kind & 1];
	if (kind & 2) {
		rnic_window_invalidate(*window, &run->qp->base);
	} else if (kind & 4) {
		rnic_window_free(*window);
		must(rnic_window_new(pd, window) == 0);
	} else {
		uint32_t at = take16(run), len = take16(run);
		int r = rnic_window_bind(*window, &run->qp->base, run->mr, run->mem + at % MEM, len,
					 kind & 8 ? RNIC_ACCESS_REMOTE_READ
						  : RNIC_ACCESS_REMOTE_WRITE);
		must(r || (len > 0 && at % MEM + len <= MEM));
	}
	run->rebound = true; /* what was told before is about other tokens now */
}

/* The memory ends, and comes again elsewhere. */
static void register_again(struct run *run)
{
	rnic_mr_deregister(run->mr);
	must(rnic_mr_register(pd, run->mem, MEM,
			      RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
				      RNIC_ACCESS_REMOTE_READ,
			      &run->mr) == 0);
}

/* READs and SENDs that are under way lose their memory. */
static void register_source_again(struct run *run)
{
	rnic_mr_deregister(run->source);
	must(rnic_mr_register(pd, run->mem, MEM, RNIC_ACCESS_LOCAL_WRITE, &run->source) == 0);
}

/* The requester's timers fire, as far as they are due by then. */
static void pass_time(struct run *run)
{
	soft_device_of(rnic)->now = soft_clock() + (uint64_t)take8(run) * 1000;
	soft_requester_timer(run->qp);
}

/* ---- what must be true at any time */

static void check_requester(const struct soft_requester *rq)
{
	const struct soft_reads *reads = rq->reads;
	unsigned int early = 0;
	must(rq->acked <= rq->taken && rq->taken <= rq->sent);
	must(rq->acked <= rq->next && rq->next <= rq->end && rq->sent <= rq->end);
	for (size_t i = 0; i < SOFT_READ_AHEAD / 64; i++)
		early += (unsigned int)__builtin_popcountll(reads->early[i]);
	must(early == reads->num_early && reads->count <= reads->asked);
	uint64_t end = rq->acked;
	for (unsigned int i = 0; i < reads->count; i++) {
		const struct soft_read *read =
			&reads->ring[(reads->head + i) % SOFT_MAX_READS_ASKED];
		must(read->first < read->end && read->end > end);
		must(i == 0 || read->first >= end);
		end = read->end;
	}
}

/* ---- the peer */

static void feed(struct run *run, uint8_t *buf, size_t len, size_t header_len)
{
	struct soft_endpoint *ep = soft_device_of(rnic)->endpoints;
	struct sockaddr_in from = run->qp->peer;
	struct roce_flow flow = { .saddr = from.sin_addr.s_addr,
				  .daddr = ep->addr.s_addr,
				  .sport = from.sin_port,
				  .dport = htons(ROCE_UDP_PORT) };
	uint32_t crc = roce_icrc_begin(&flow, len, 0, buf, header_len);
	crc = roce_icrc_update(crc, buf + header_len, len - header_len - ROCE_ICRC_LEN);
	roce_icrc_put(crc, buf + len - ROCE_ICRC_LEN);
	/* A heap block of exactly this size, so that the address sanitizer sees reads past its end.
	 */
	uint8_t *exact = malloc(len);
	must(exact != NULL);
	memcpy(exact, buf, len);
	soft_rx_packet(ep, &(struct soft_arrival){ .from = &from, .marked = len & 1 }, exact, len,
		       0);
	free(exact);
}

static void take_ext(struct run *run, uint8_t opcode, uint8_t flags, union roce_ext *ret_ext)
{
	memset(ret_ext, 0, sizeof(*ret_ext));
	if (roce_has_reth(opcode)) {
		int16_t offset = (int16_t)take16(run);
		ret_ext->reth.va = rnic_mr_vaddr(run->mr) + (uint64_t)(int64_t)offset;
		ret_ext->reth.rkey = rnic_mr_rkey(run->mr) ^ (flags >> 6);
		ret_ext->reth.length = take16(run);
		if (flags & 32) { /* through a window */
			const struct rnic_window *window = run->windows[flags >> 4 & 1];
			ret_ext->reth.va = rnic_window_vaddr(window) + (uint64_t)(int64_t)offset;
			ret_ext->reth.rkey = rnic_window_rkey(window);
		}
	} else if (roce_is_answer(opcode)) {
		ret_ext->aeth.kind = (enum roce_ack_kind)(flags >> 1 & 3);
		ret_ext->aeth.value = flags >> 3;
	} else if (roce_invalidates(opcode)) {
		ret_ext->invalidate = rnic_window_rkey(run->windows[flags >> 4 & 1]) ^ (flags >> 6);
	}
}

static void feed_packet(struct run *run, uint8_t opcode, uint32_t psn, const union roce_ext *ext,
			size_t len, bool ack_req)
{
	uint8_t buf[ROCE_MAX_LEN] = { 0 };
	size_t header = ROCE_BTH_LEN;
	header += roce_encode_ext(opcode, ext, buf + header);
	if (opcode == ROCE_ACKNOWLEDGE || opcode == ROCE_READ_REQUEST)
		len = 0;
	size_t pad = -len & 3;
	struct roce_bth bth = { .opcode = opcode,
				.pad = (uint8_t)pad,
				.pkey = ROCE_PKEY_DEFAULT,
				.dest_qp = run->qp->base.qpn,
				.ack_req = ack_req,
				.psn = psn & ROCE_PSN_MASK };
	roce_encode_bth(&bth, buf);
	feed(run, buf, header + len + pad + ROCE_ICRC_LEN, header);
}

static void packet(struct run *run)
{
	uint8_t opcode = take8(run);
	int8_t psn_offset = (int8_t)take8(run);
	uint8_t flags = take8(run);
	const struct soft_requester *rq = &run->qp->rq;
	uint32_t psn =
		roce_is_answer(opcode) ? rq->psn0 + (uint32_t)rq->acked : run->qp->rs.expected;
	union roce_ext ext;
	take_ext(run, opcode, flags, &ext);
	/* One bit of the input makes a full packet. */
	size_t len = flags & 8 ? 256 : take16(run) % 300;
	feed_packet(run, opcode, psn + (uint32_t)(int32_t)psn_offset, &ext, len, flags & 1);
}

/* A packet of the response to an own READ, most of the time one that fits. */
static void respond(struct run *run)
{
	static const uint8_t opcodes[2][2] = {
		{ ROCE_READ_RESPONSE_MIDDLE, ROCE_READ_RESPONSE_LAST },
		{ ROCE_READ_RESPONSE_FIRST, ROCE_READ_RESPONSE_ONLY },
	};
	const struct soft_requester *rq = &run->qp->rq;
	const uint8_t flags = take8(run);
	uint64_t number = rq->acked + (flags & 15);
	const struct soft_read *read = soft_read_of(rq->reads, number);
	if (!read || run->qp->state != SOFT_QP_RTS)
		return;
	uint8_t opcode = opcodes[number == read->first][number == read->end - 1];
	size_t len = soft_wqe_packet_len(read->wqe, number, run->qp->mtu);
	if ((flags & 0x70) == 0x70)
		opcode = ROCE_READ_RESPONSE_FIRST + take8(run) % 4;
	if ((flags & 0xE0) == 0xE0)
		len = take16(run) % 300;
	const union roce_ext ext = { .aeth = { .kind = ROCE_ACK, .value = flags >> 3 } };
	feed_packet(run, opcode, soft_psn_of(rq, number), &ext, len, false);
}

static void raw_packet(struct run *run)
{
	uint8_t buf[ROCE_MAX_LEN];
	size_t len = take16(run) % 64;
	for (size_t i = 0; i < len; i++)
		buf[i] = take8(run);
	if (len < ROCE_MIN_LEN + 4)
		return;
	buf[5] = (uint8_t)(run->qp->base.qpn >> 16);
	buf[6] = (uint8_t)(run->qp->base.qpn >> 8);
	buf[7] = (uint8_t)run->qp->base.qpn;
	feed(run, buf, len, ROCE_BTH_LEN);
}

/* ---- */

static void start(struct run *run)
{
	struct rnic_qp *qp;
	run->user_receives = take8(run) & 1;
	struct rnic_qp_params params = { .send_depth = DEPTH,
					 .recv_depth = DEPTH,
					 .recv_size = RECV_SIZE,
					 .user_receives = run->user_receives,
					 .on_completion = on_completion,
					 .ctx = run };
	struct rnic_qp_peer peer = { .gid = { [10] = 0xFF, 0xFF, 127, 0, 0, 2 },
				     .qpn = 2,
				     .rq_psn = 0xFFFFF8,
				     .path_mtu = MTU_CODE,
				     .reads_answered = READS };
	struct rnic_qp_send_params send = {
		.sq_psn = 0xFFFFF8, .retry_ms = 4000, .rnr_retry = 3, .reads_asked = READS
	};
	run->mem = malloc(MEM);
	must(run->mem != NULL);
	memset(run->mem, 0, MEM);
	must(rnic_mr_register(pd, run->mem, MEM,
			      RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
				      RNIC_ACCESS_REMOTE_READ,
			      &run->mr) == 0);
	for (size_t i = 0; i < WINDOWS; i++)
		must(rnic_window_new(pd, &run->windows[i]) == 0);
	must(rnic_mr_register(pd, run->mem, MEM, RNIC_ACCESS_LOCAL_WRITE, &run->source) == 0);
	must(rnic_qp_create(pd, &params, &qp) == 0);
	must(rnic_qp_connect(qp, &peer) == 0 && rnic_qp_start(qp, &send) == 0);
	run->qp = soft_qp_of(qp);
}

/* Whatever has become of the queue pair, everything that was posted completes now at the latest. */
static void finish(struct run *run)
{
	rnic_qp_error(&run->qp->base);
	event_base_loop(base, EVLOOP_NONBLOCK);
	must(run->completed == run->posted);
	must(run->recv_errors == 1);
	must(run->filled == run->buffers);
	must(!soft_responses_wait(&run->qp->rs));
	must(run->qp->rs.hold.count == 0);
	must(soft_device_of(rnic)->hold_budget == 64u << 20);
	rnic_qp_destroy(&run->qp->base);
	rnic_mr_deregister(run->mr);
	rnic_mr_deregister(run->source);
	for (size_t i = 0; i < WINDOWS; i++)
		rnic_window_free(run->windows[i]);
	free(run->mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run run = { .data = data, .left = size };
	if (!rnic)
		open_device();
	start(&run);
	soft_device_of(rnic)->now = soft_clock();
	while (run.left > 0) {
		uint8_t what = take8(&run);
		switch (what & 7) {
		case 0: packet(&run); break;
		case 4:
			if (what & 0x80)
				respond(&run);
			else
				packet(&run);
			break;
		case 1: raw_packet(&run); break;
		case 2: post(&run); break;
		case 7:
			if (what & 0x80)
				pass_time(&run);
			/* fall through */
		case 3: event_base_loop(base, EVLOOP_NONBLOCK); break;
		case 5: post_buffer(&run); break;
		case 6:
			if (what & 0x80)
				register_again(&run);
			else if (what & 0x40)
				register_source_again(&run);
			else
				use_window(&run);
			break;
		}
		check_requester(&run.qp->rq);
	}
	finish(&run);
	return 0;
}
