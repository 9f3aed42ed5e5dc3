/* SPDX-License-Identifier: MIT */
/* Soft RNIC: when each half of a queue pair does what, and how it takes a socket that refuses. The
 * device is a real one, but its run loop stands still: each test hands in packets and calls timers
 * at times of its own, so that nothing depends on how fast the test runs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/udp.h>
#include <poll.h>
#include <string.h>

#include "daemon/rnic/soft/internal.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define MEM      (1u << 20)
#define MTU_CODE 3
#define MTU      1024
#define RECV     64
#define OWN_PSN  0xFFFFF0 /* wraps early */
#define PEER_PSN 0xFFFFFE
#define MS       UINT64_C(1000)
#define RETRY_MS 400
#define FAR_ADDR 0x1000000020000000
#define FAR_KEY  0xCAFE0001

static struct testnet net;
static struct event_base *base;
static struct rnic_side side;
static struct soft_qp *qp;
static uint64_t start;

/* ---- the socket (the Makefile links this test so that its calls come here) ---- */

int __wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len);

/* The error of the next `refusals` sends. */
static int refusal;
static unsigned int refusals;
/* What the socket has taken: datagrams that the kernel would cut into packets, those packets, and
 * answers. */
static unsigned int datagrams, packets, answers;
static size_t largest_segments;
static struct roce_packet last_answer;

static bool refused(void)
{
	if (!refusals)
		return false;
	refusals--;
	errno = refusal;
	return true;
}

static size_t segments_of(const struct msghdr *msg)
{
	size_t len = 0;
	uint16_t size;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		len += msg->msg_iov[i].iov_len;
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	if (!c)
		return 1;
	assert_int_equal(c->cmsg_level, IPPROTO_UDP);
	assert_int_equal(c->cmsg_type, UDP_SEGMENT);
	memcpy(&size, CMSG_DATA(c), sizeof(size));
	assert_true(len > size); /* segmentation of a single packet is an error in some kernels */
	return (len + size - 1) / size;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	(void)flags;
	assert_int_equal(fd, qp->ep->fd);
	if (refused())
		return -1;
	for (unsigned int i = 0; i < n; i++) {
		size_t segments = segments_of(&msgs[i].msg_hdr);
		packets += (unsigned int)segments;
		if (segments > largest_segments)
			largest_segments = segments;
	}
	datagrams += n;
	return (int)n;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	static uint8_t kept[ROCE_CNP_LEN];
	(void)flags;
	(void)to;
	(void)to_len;
	assert_int_equal(fd, qp->ep->fd);
	assert_true(len == ROCE_ACK_LEN || len == ROCE_CNP_LEN);
	if (refused())
		return -1;
	memcpy(kept, buf, len);
	assert_int_equal(roce_decode(kept, len, &last_answer), 0);
	answers++;
	return (ssize_t)len;
}

/* Time passes only when a test says so. */
uint64_t __real_soft_clock(void);
uint64_t __wrap_soft_clock(void);

uint64_t __wrap_soft_clock(void)
{
	return qp ? qp->dev->now : __real_soft_clock();
}

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	base = event_base_new();
	rnic_side_open(&side, base, "soft:t0", MEM);
	side.psn = OWN_PSN;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&side);
	event_base_free(base);
	testnet_free(&net);
	return 0;
}

static int connect_one(void **state)
{
	(void)state;
	struct rnic_qp_peer to = { .gid = { [10] = 0xFF, 0xFF, 10, 77, 0, 2 },
				   .qpn = 0x77,
				   .rq_psn = PEER_PSN,
				   .path_mtu = MTU_CODE };
	rnic_side_qp(&side, 64, 32, RECV);
	rnic_side_connect(&side, &to, RETRY_MS, 7);
	qp = soft_qp_of(side.qp);
	start = soft_clock();
	qp->dev->now = start;
	qp->dev->stats = (struct rnic_stats){ 0 };
	refusals = datagrams = packets = answers = 0;
	largest_segments = 0;
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	rnic_side_qp_destroy(&side);
	qp = NULL;
	rnic_side_forget(&side);
	return 0;
}

/* ---- the clock, and the work of the run loop ---- */

static uint64_t now(void)
{
	return qp->dev->now - start;
}

static void pass(uint64_t us)
{
	qp->dev->now += us;
}

/* A deadline, counted from the start of the test. */
static uint64_t due(uint64_t deadline)
{
	assert_true(deadline != 0);
	return deadline - start;
}

static void transmit(void)
{
	while (soft_requester_ready(qp))
		soft_requester_transmit(qp);
}

static void post_packets(uint32_t n)
{
	struct rnic_send_wr wr = { .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side.mem, n * MTU, rnic_mr_lkey(side.source) } },
				   .remote_addr = FAR_ADDR,
				   .rkey = FAR_KEY };
	assert_int_equal(soft_requester_post(qp, &wr, 1), 0);
	transmit();
}

static void answer(enum roce_ack_kind kind, uint32_t n, uint8_t value)
{
	struct roce_packet p = { .bth = { .opcode = ROCE_ACKNOWLEDGE,
					  .psn = (OWN_PSN + n) & ROCE_PSN_MASK },
				 .aeth = { .kind = kind, .value = value } };
	soft_requester_answer(qp, &p);
	transmit();
	soft_qp_deliver(qp);
}

static void ack(uint32_t n)
{
	answer(ROCE_ACK, n, ROCE_CREDITS_UNLIMITED);
}

/* Goes to the requester's next timer and lets it fire. @return the time that passed */
static uint64_t requester_timer(void)
{
	uint64_t before = now();
	qp->dev->now = start + due(qp->rq.deadline);
	soft_requester_timer(qp);
	transmit();
	return now() - before;
}

/* Lets timers fire until the requester fails. @return when that happens */
static uint64_t given_up_at(void)
{
	for (int i = 0; i < 100 && qp->state == SOFT_QP_RTS; i++)
		requester_timer();
	assert_int_equal(qp->state, SOFT_QP_ERR);
	assert_int_equal(qp->flush_status, RNIC_WC_RETRY_EXC_ERR);
	return now();
}

static void request_of(uint8_t opcode, uint32_t n, bool ack_req)
{
	static const uint8_t nothing[4];
	struct roce_packet p = { .bth = { .opcode = opcode,
					  .ack_req = ack_req,
					  .psn = (PEER_PSN + n) & ROCE_PSN_MASK },
				 .payload = nothing,
				 .payload_len = opcode == ROCE_SEND_ONLY };
	soft_responder_request(qp, &p, nothing, sizeof(nothing), true);
}

static void request(uint32_t n, bool ack_req)
{
	request_of(ROCE_SEND_ONLY, n, ack_req);
}

/* ---- requester ---- */

/* The timer is 2 ms for the first packet, and doubles each time, up to an eighth of the limit for
 * retries and to 200 ms. A packet behind others begins with 50 ms until there was an answer. */
static void timer_grows_within_its_bounds(void **state)
{
	(void)state;
	qp->rq.retry_limit = 4000 * MS;
	post_packets(1);
	for (int i = 0; i < 7; i++)
		assert_int_equal(requester_timer(), (2 << i) * MS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(requester_timer(), 200 * MS);
	assert_int_equal(qp->rq.tries, 10);
	ack(0);
	assert_int_equal(qp->rq.tries, 0);
	assert_true(qp->rq.deadline == 0);

	/* A new packet begins anew; an eighth of its limit is less. */
	qp->rq.retry_limit = 160 * MS;
	post_packets(1);
	assert_int_equal(requester_timer(), 20 * MS);
	assert_int_equal(requester_timer(), 20 * MS);
	ack(1);
	/* The timer is 10 ms at least. */
	qp->rq.retry_limit = 60 * MS;
	post_packets(1);
	assert_int_equal(requester_timer(), 10 * MS);
}

static void timer_waits_longer_for_many(void **state)
{
	(void)state;
	qp->rq.retry_limit = 4000 * MS;
	post_packets(2);
	assert_int_equal(requester_timer(), 50 * MS);
	assert_int_equal(requester_timer(), 100 * MS);
	assert_int_equal(requester_timer(), 200 * MS);
	assert_int_equal(requester_timer(), 200 * MS);
}

/* The timer follows the round trip (RFC 6298): its smoothed time and four times its variation. */
static void timer_follows_the_round_trip(void **state)
{
	(void)state;
	qp->rq.retry_limit = 4000 * MS;
	post_packets(2);
	pass(20 * MS);
	ack(1);
	assert_in_range(qp->rq.rtt, 20000, 20001);
	assert_in_range(qp->rq.rtt_var, 10000, 10001);
	post_packets(1);
	assert_in_range(due(qp->rq.deadline) - now(), 60000, 60010);
	pass(28 * MS);
	ack(2);
	/* The round trip moves by an eighth of the difference, its variation by a quarter. */
	assert_in_range(qp->rq.rtt, 20990, 21010);
	assert_in_range(qp->rq.rtt_var, 9490, 9510);
	post_packets(1);
	pass(5 * MS);
	ack(3);
	assert_in_range(qp->rq.rtt, 18990, 19010);
	assert_in_range(qp->rq.rtt_var, 11100, 11140);
	/* A packet that was sent twice is no sample, and neither is the answer to a packet that
	 * was sent before the sample. */
	uint32_t rtt = qp->rq.rtt;
	post_packets(1);
	requester_timer();
	pass(MS);
	ack(4);
	assert_int_equal(qp->rq.rtt, rtt);
	/* Round trips that take no time: the timer falls to its minimum of 10 ms. */
	for (uint32_t n = 5; n < 100; n++) {
		post_packets(1);
		ack(n);
	}
	assert_true(qp->rq.rtt != 0);
	assert_in_range(qp->rq.rtt + 4 * qp->rq.rtt_var, 1, 9999);
	post_packets(1);
	assert_int_equal(requester_timer(), 10 * MS);
}

/* There is one sample at a time. It ends with the packet that was the last one when the sample
 * began. */
static void sample_ends_with_its_packet(void **state)
{
	(void)state;
	post_packets(2);
	pass(10 * MS);
	post_packets(1);
	ack(0);
	assert_int_equal(qp->rq.rtt, 0);
	pass(10 * MS);
	ack(1);
	assert_in_range(qp->rq.rtt, 20000, 20001);
	pass(70 * MS);
	ack(2); /* no sample had begun with this packet */
	assert_in_range(qp->rq.rtt, 20000, 20001);
}

static void patience_ends_at_its_limit(void **state)
{
	(void)state;
	post_packets(1);
	assert_in_range(given_up_at(), RETRY_MS * MS, RETRY_MS * MS);
}

/* The limit for retries counts anew from progress, and from the first packet after a pause. */
static void patience_begins_with_progress(void **state)
{
	(void)state;
	post_packets(2);
	pass(40 * MS);
	ack(0);
	assert_int_equal(qp->rq.progress_at - start, 40 * MS);
	pass(40 * MS);
	ack(1);
	pass(1000 * MS);
	post_packets(1);
	assert_int_equal(given_up_at(), 1080 * MS + RETRY_MS * MS);
}

/* A receiver that is not ready is alive: the time that it asks for does not count as silence. */
static void patience_begins_with_not_ready(void **state)
{
	(void)state;
	post_packets(1);
	while (now() + 10 * MS <= RETRY_MS * MS / 2)
		requester_timer();
	uint64_t at = now() + 10 * MS;
	pass(10 * MS);
	answer(ROCE_RNR_NAK, 0, 1);
	assert_int_equal(qp->rq.tries, 0);
	assert_false(qp->rq.may_give_up);
	assert_int_equal(given_up_at(), at + RETRY_MS * MS);
}

/* This process had no processor when the timer fired, and the ACK is in the socket. The socket is
 * read before packets are sent again: only packets that the ACK leaves open stay outstanding, and
 * the window keeps its size. */
static void answer_that_comes_with_the_timer(void **state)
{
	(void)state;
	post_packets(1);
	uint64_t at = due(qp->rq.deadline);
	pass(at - MS);
	post_packets(1);
	uint32_t window = qp->rq.window.size;
	pass(MS);
	soft_requester_timer(qp);
	assert_int_equal(qp->dev->stats.timeouts, 1);
	ack(0);
	assert_int_equal(qp->rq.retransmits, 0);
	assert_true(qp->rq.window.size >= window);
	assert_true(due(qp->rq.deadline) > at);
	/* Without an answer in the socket, everything is sent again. */
	requester_timer();
	assert_int_equal(qp->rq.retransmits, 1);
	assert_true(qp->rq.window.size < window);
}

/* The packet is sent again when the time that the peer asked for is over, not before, and not by
 * the timer for answers. */
static void not_ready_waits_as_told(void **state)
{
	(void)state;
	post_packets(1);
	pass(MS);
	answer(ROCE_RNR_NAK, 0, 22); /* 20.48 ms */
	assert_false(soft_requester_ready(qp));
	assert_int_equal(due(qp->rq.deadline), MS + 20480);
	qp->dev->now = start + MS + 20479;
	soft_requester_timer(qp);
	assert_false(soft_requester_ready(qp));
	qp->dev->now++;
	soft_requester_timer(qp);
	assert_true(soft_requester_ready(qp));
	assert_int_equal(qp->dev->stats.timeouts, 0);
	transmit();
	assert_int_equal(qp->rq.retransmits, 1);
	/* An ACK meanwhile ends the wait. */
	answer(ROCE_RNR_NAK, 0, 22);
	post_packets(1);
	assert_int_equal(qp->rq.sent, 1);
	ack(0);
	assert_int_equal(qp->rq.sent, 2);
}

/* All packets that are lost of one window count as one loss, however many NAKs come. */
static void one_loss_shrinks_the_window_once(void **state)
{
	(void)state;
	post_packets(200);
	assert_int_equal(qp->rq.sent, 200);
	answer(ROCE_NAK, 10, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.size, 16);
	assert_int_equal(qp->rq.window.threshold, 95);
	assert_int_equal(qp->rq.next, 26);
	ack(25);
	assert_int_equal(qp->rq.window.size, 32);
	answer(ROCE_NAK, 30, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.size, 36); /* the four packets before the gap */
	assert_int_equal(qp->rq.window.threshold, 95);
	answer(ROCE_NAK, 199, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.threshold, 95);
	ack(199);
	/* The loss of a packet that was sent later is another loss. */
	uint32_t size = qp->rq.window.size;
	post_packets(100);
	assert_int_equal(qp->rq.next, 200 + size);
	answer(ROCE_NAK, 200, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.size, 16);
	assert_int_equal(qp->rq.window.threshold, size / 2);
}

/* All marks of packets in flight count as one, however many come. */
static void marks_shrink_the_window_once(void **state)
{
	(void)state;
	soft_requester_congested(qp); /* no packet is in flight that could have been marked */
	assert_int_equal(qp->rq.window.size, 1024);
	post_packets(200);
	soft_requester_congested(qp);
	soft_requester_congested(qp);
	assert_int_equal(qp->rq.window.size, 140);
	ack(100);
	soft_requester_congested(qp);
	answer(ROCE_NAK, 150, ROCE_NAK_PSN_SEQUENCE); /* a loss in the same full queue */
	assert_int_equal(qp->rq.window.size, 140);
	ack(199);
	post_packets(100);
	soft_requester_congested(qp);
	assert_int_equal(qp->rq.window.size, 70);
	assert_int_equal(qp->dev->stats.cnps_received, 5);
}

/* A peer is told of marks, but not of every one. */
static void peer_hears_of_marks(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		soft_responder_congested(qp);
		pass(10);
	}
	assert_int_equal(answers, 2);
	assert_int_equal(last_answer.bth.opcode, ROCE_CONGESTION);
	assert_int_equal(last_answer.bth.dest_qp, 0x77);
	assert_true(last_answer.bth.becn);
	assert_int_equal(qp->dev->stats.cnps_sent, 2);
	/* A notice that cannot be sent at once is dropped: late it would be of no use. */
	pass(50);
	refusal = EAGAIN;
	refusals = 1;
	soft_responder_congested(qp);
	assert_int_equal(qp->dev->stats.cnps_sent, 2);
	assert_true(qp->ep->blocked);
	pass(50);
	soft_responder_congested(qp);
	assert_int_equal(answers, 2);
	qp->ep->blocked = false;
}

/* A loss that a timeout has found does not count again. */
static void timeout_counts_as_the_loss(void **state)
{
	(void)state;
	post_packets(200);
	requester_timer();
	assert_int_equal(qp->rq.window.size, 4);
	assert_int_equal(qp->rq.window.threshold, 100);
	answer(ROCE_NAK, 2, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.threshold, 100);
	ack(199);
	post_packets(1);
	answer(ROCE_NAK, 200, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->rq.window.threshold, 16);
}

/* ---- responder ---- */

/* A few requests get one ACK, a millisecond after the first of them. */
static void acknowledged_together(void **state)
{
	(void)state;
	struct soft_responder *rs = &qp->rs;
	request(0, true);
	assert_false(rs->ack_pending);
	assert_int_equal(due(rs->ack_deadline), 1000);
	pass(400);
	request(1, true);
	assert_int_equal(due(rs->ack_deadline), 1000);
	pass(599);
	soft_responder_timer(qp);
	assert_false(rs->ack_pending);
	pass(1);
	soft_responder_timer(qp);
	assert_true(rs->ack_pending);
	assert_true(rs->ack_deadline == 0);
	soft_responder_send_ack(qp);
	assert_false(rs->ack_pending);
	assert_int_equal(rs->unacked_packets, 0);
}

/* Eight requests get their ACK at once. */
static void acknowledged_when_many(void **state)
{
	(void)state;
	struct soft_responder *rs = &qp->rs;
	for (uint32_t n = 0; n < 7; n++)
		request(n, n % 2);
	assert_int_equal(rs->unacked_packets, 7);
	assert_false(rs->ack_pending);
	assert_int_equal(due(rs->ack_deadline), 1000);
	request(7, true);
	assert_true(rs->ack_pending);
	soft_responder_send_ack(qp);
	assert_true(rs->ack_deadline == 0);
	/* After that another eight are counted. */
	for (uint32_t n = 8; n < 15; n++)
		request(n, true);
	assert_false(rs->ack_pending);
	request(15, true);
	assert_true(rs->ack_pending);
}

/* No ACK if the sender asks for none. */
static void acknowledged_when_asked(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 9; n++)
		request(n, false);
	assert_false(qp->rs.ack_pending);
	assert_true(qp->rs.ack_deadline == 0);
}

/* The user hears nothing of a WRITE, so no answer of the user will carry the ACK: it is sent at
 * once if it was asked for. */
static void write_is_acknowledged_at_once(void **state)
{
	(void)state;
	request_of(ROCE_WRITE_ONLY, 0, false);
	assert_false(qp->rs.ack_pending);
	request_of(ROCE_WRITE_ONLY, 1, true);
	assert_true(qp->rs.ack_pending);
}

/* End a round after which another one probably finds more packets. @return an ACK was sent
 */
static bool ack_leaves(void)
{
	bool is_due = soft_responder_ack_is_due(qp, true);
	if (is_due)
		soft_responder_send_ack(qp);
	return is_due;
}

static void requests(uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to; n++)
		request_of(ROCE_WRITE_ONLY, n, n == to - 1);
}

/* As long as each round brings packets, they get one ACK together. */
static void an_ack_waits_for_what_comes(void **state)
{
	(void)state;
	requests(0, 20);
	assert_false(ack_leaves());
	requests(20, 40);
	assert_false(ack_leaves());
	assert_true(qp->rs.ack_pending);
	assert_true(ack_leaves()); /* nothing came in this round */
	assert_int_equal(last_answer.bth.psn, (PEER_PSN + 39) & ROCE_PSN_MASK);
	assert_int_equal(answers, 1);
	assert_false(ack_leaves());
	/* The next packets get an ACK of their own. */
	requests(40, 60);
	assert_false(ack_leaves());
	requests(60, 80);
	assert_true(soft_responder_ack_is_due(qp, false));
	requests(80, 100);
	assert_true(soft_responder_ack_is_due(qp, false));
}

/* An ACK does not wait when the peer has sent half of its first window. */
static void an_ack_waits_for_half_a_window(void **state)
{
	(void)state;
	const uint32_t half = SOFT_WINDOW_START_BYTES / MTU / 2;
	uint32_t n = 0;
	for (; n < half - 1; n++) {
		request_of(ROCE_WRITE_ONLY, n, true);
		assert_false(ack_leaves());
	}
	request_of(ROCE_WRITE_ONLY, n, true);
	assert_true(ack_leaves());
	request_of(ROCE_WRITE_ONLY, n + 1, true);
	assert_false(ack_leaves());
}

/* An ACK does not wait if it is for a gap that was closed or for a packet that came twice, nor if
 * it has waited a millisecond. */
static void an_ack_that_is_late_waits_for_nothing(void **state)
{
	(void)state;
	request(1, true); /* not held, since it is no whole packet */
	request(0, true); /* closes the gap */
	assert_true(ack_leaves());
	request(0, true); /* a second time */
	assert_true(ack_leaves());
	request(1, true);
	pass(1000);
	soft_responder_timer(qp);
	assert_true(ack_leaves());
	requests(2, 20);
	assert_false(ack_leaves());
}

/* The peer is told of a gap once, a millisecond after the first packet behind it. */
static void gap_is_told_in_time(void **state)
{
	(void)state;
	struct soft_responder *rs = &qp->rs;
	request(2, true);
	pass(300);
	request(3, true);
	assert_int_equal(due(rs->nak_deadline), 1000);
	request(0, true); /* the gap has become one packet smaller */
	soft_qp_deliver(qp);
	assert_int_equal(due(rs->nak_deadline), 1000);
	pass(699);
	soft_responder_timer(qp);
	assert_int_equal(qp->dev->stats.naks_sent, 0);
	pass(1);
	soft_responder_timer(qp);
	assert_int_equal(qp->dev->stats.naks_sent, 1);
	assert_true(rs->nak_deadline == 0);
	request(4, true);
	assert_true(rs->nak_deadline == 0);
	pass(5000);
	soft_responder_timer(qp);
	assert_int_equal(qp->dev->stats.naks_sent, 1);
}

/* A NAK comes when the limit for retries is over: the queue pair fails only if the NAK shows no
 * progress. */
static void patience_ends_with_a_nak(void **state)
{
	(void)state;
	post_packets(1);
	while (due(qp->rq.deadline) < RETRY_MS * MS)
		requester_timer();
	qp->dev->now = start + RETRY_MS * MS - 1;
	answer(ROCE_NAK, 0, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->state, SOFT_QP_RTS);
	assert_int_equal(due(qp->rq.deadline), RETRY_MS * MS);
	pass(1);
	answer(ROCE_NAK, 0, ROCE_NAK_PSN_SEQUENCE);
	assert_int_equal(qp->state, SOFT_QP_ERR);
	assert_int_equal(side.sends[0].status, RNIC_WC_RETRY_EXC_ERR);
}

/* Time in which this process did not run is subtracted once, even if the next packet is no
 * progress. */
static void absence_is_discounted_once(void **state)
{
	(void)state;
	post_packets(2);
	ack(0);
	pass(50 * MS + 5000); /* a busy machine may be that late */
	ack(0);
	assert_int_equal(qp->rq.progress_at - start, 0);
	pass(1000 * MS);
	for (int i = 0; i < 2; i++) {
		ack(0);
		assert_int_equal(qp->rq.progress_at - start, 1005 * MS);
		assert_int_equal(due(qp->rq.deadline), 1055 * MS);
	}
}

/* The limit for retries changes while the peer has asked for time: the time that the peer asked
 * for stays. */
static void patience_changes_while_not_ready(void **state)
{
	(void)state;
	post_packets(1);
	answer(ROCE_RNR_NAK, 0, 0); /* 655.36 ms */
	assert_int_equal(due(qp->rq.deadline), 655360);
	rnic_qp_set_retry(side.qp, 100);
	assert_int_equal(due(qp->rq.deadline), 655360);
	assert_int_equal(qp->rq.retry_limit, 100 * MS);
}

/* A QP that cannot send yet has no packet that could be acknowledged. */
static void answer_before_the_first_request(void **state)
{
	(void)state;
	qp->state = SOFT_QP_RTR;
	ack(0);
	assert_int_equal(qp->dev->stats.drop_psn, 1);
	qp->state = SOFT_QP_RTS;
}

/* ---- a socket that refuses ---- */

/* Each round of the loop takes what is ready, and no alarm that this sets: the loop knows the true
 * time, and a busy machine may let more of it pass than a repetition waits for. */
static void until_writable(void)
{
	for (int i = 0; i < 1000 && qp->ep->blocked; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		poll(NULL, 0, 1);
	}
	assert_false(qp->ep->blocked);
}

/* If the socket is full, the device waits; then the remaining packets leave, once. */
static void full_socket(void **state)
{
	(void)state;
	refusal = EAGAIN;
	refusals = 1;
	post_packets(3);
	assert_true(qp->ep->blocked);
	assert_int_equal(qp->rq.sent, 0);
	assert_true(qp->rq.deadline == 0);
	transmit();
	assert_int_equal(datagrams, 0);
	until_writable();
	assert_int_equal(qp->rq.sent, 3);
	assert_int_equal(packets, 3);
	assert_int_equal(qp->rq.retransmits, 0);
}

static void full_socket_keeps_the_answer(void **state)
{
	(void)state;
	struct soft_responder *rs = &qp->rs;
	for (uint32_t n = 0; n < 8; n++)
		request(n, true);
	refusal = EAGAIN;
	refusals = 1;
	soft_responder_send_ack(qp);
	assert_true(rs->ack_pending && qp->ep->blocked);
	soft_responder_send_ack(qp); /* the full socket is not tried again */
	assert_int_equal(answers, 0);
	until_writable();
	assert_false(rs->ack_pending);
	assert_int_equal(answers, 1);
	assert_int_equal(last_answer.bth.psn, (PEER_PSN + 7) & ROCE_PSN_MASK);
}

/* A NAK is lost if the socket is full, and does not count as an answer. */
static void full_socket_loses_a_nak(void **state)
{
	(void)state;
	request(0, true);
	soft_qp_deliver(qp);
	refusal = EAGAIN;
	refusals = 1;
	request(5000, true);
	assert_int_equal(answers, 0);
	assert_true(qp->rs.ack_deadline != 0);
	assert_int_equal(qp->rs.unacked_packets, 1);
	qp->ep->blocked = false;
	qp->rs.nak_sent = false;
	request(5000, true);
	assert_int_equal(answers, 1);
	assert_int_equal(last_answer.aeth.kind, ROCE_NAK);
	assert_true(qp->rs.ack_deadline == 0);
	assert_int_equal(qp->rs.unacked_packets, 0);
}

/* A NAK acknowledges what came before it. It leaves when the user was told of that, and not if the
 * user never will be. */
static void nak_waits_for_the_user(void **state)
{
	(void)state;
	request(0, true);
	request(5000, true);
	assert_int_equal(answers, 0);
	assert_true(soft_responder_nak_is_due(&qp->rs));
	soft_qp_deliver(qp);
	soft_responder_caught_up(qp);
	assert_int_equal(answers, 1);
	assert_int_equal(last_answer.aeth.kind, ROCE_NAK);
	assert_int_equal(last_answer.bth.psn, (PEER_PSN + 1) & ROCE_PSN_MASK);
	soft_responder_caught_up(qp);
	assert_int_equal(answers, 1);
	qp->rs.nak_sent = false;
	request(1, true);
	request(5001, true);
	soft_qp_user_error(&qp->base);
	soft_responder_caught_up(qp);
	assert_int_equal(answers, 1);
}

/* Any other error counts as a loss on the way: the timer sends the packet again. */
static void failed_sends_are_losses(void **state)
{
	(void)state;
	refusal = ENETUNREACH;
	refusals = 1;
	post_packets(3);
	assert_int_equal(datagrams, 0);
	assert_int_equal(qp->rq.sent, 3);
	requester_timer();
	assert_int_equal(packets, 3);
	assert_int_equal(qp->rq.retransmits, 3);
	for (uint32_t n = 0; n < 8; n++)
		request(n, true);
	refusals = 1;
	soft_responder_send_ack(qp);
	assert_false(qp->rs.ack_pending);
	assert_false(qp->ep->blocked);
}

/* A kernel that segments into 64 packets at most returns EINVAL: then the device sends 64 at a
 * time. */
static void fewer_segments(void **state)
{
	(void)state;
	unsigned int most = qp->dev->max_segments;
	bool segmentation = qp->dev->segmentation;
	qp->dev->max_segments = 128;
	qp->dev->segmentation = true;
	qp->rq.window.size = 1000;
	/* More than 64 such small packets fit into a datagram. */
	qp->mtu = 256;
	refusal = EINVAL;
	refusals = 1;
	post_packets(75);
	assert_int_equal(qp->dev->max_segments, 64);
	assert_int_equal(packets, 300);
	assert_int_equal(largest_segments, 64);
	assert_int_equal(datagrams, 5);
	assert_int_equal(qp->rq.retransmits, 0);
	/* 64 is the minimum: if that is refused too, the first datagram is lost. */
	refusals = 1;
	post_packets(32);
	assert_int_equal(qp->dev->max_segments, 64);
	assert_int_equal(packets, 300 + 64);
	assert_int_equal(qp->rq.sent, 428);
	qp->dev->max_segments = most;
	qp->dev->segmentation = segmentation;
}

/* An interface that cannot segment returns EIO or EMSGSIZE: then each packet is sent alone. */
static void no_segments(void **state)
{
	(void)state;
	bool segmentation = qp->dev->segmentation;
	static const int errors[] = { EIO, EMSGSIZE };
	for (size_t i = 0; i < 2; i++) {
		datagrams = packets = 0;
		largest_segments = 0;
		qp->dev->segmentation = true;
		refusal = errors[i];
		refusals = 1;
		post_packets(20);
		assert_false(qp->dev->segmentation);
		assert_int_equal(packets, 20);
		assert_int_equal(datagrams, 20);
		assert_int_equal(largest_segments, 1);
		/* A packet that is refused alone is lost. */
		refusals = 1;
		post_packets(1);
		assert_int_equal(packets, 20);
		assert_int_equal(qp->rq.sent, (i + 1) * 21);
		assert_int_equal(qp->rq.retransmits, 0);
	}
	qp->dev->segmentation = segmentation;
}

/* Eight of the largest windows have room in the socket's buffers. The kernel tells twice the size
 * that was set, for what it needs besides. */
static void socket_has_room_for_windows(void **state)
{
	(void)state;
	static const int buffers[] = { SO_RCVBUF, SO_SNDBUF };
	for (size_t i = 0; i < 2; i++) {
		int size;
		socklen_t len = sizeof(size);
		assert_int_equal(getsockopt(qp->ep->fd, SOL_SOCKET, buffers[i], &size, &len), 0);
		assert_true((uint32_t)size / 2 >= 8 * qp->rq.window.max * qp->mtu);
	}
}

/* A queue pair that fails frees the memory of early packets, however long it stays. */
static void failed_queue_pair_holds_nothing(void **state)
{
	(void)state;
	size_t budget = qp->dev->hold_budget;
	assert_int_equal(budget, 64u << 20); /* as docs/soft-rnic.md says */
	const uint8_t packet[100] = { 0 };
	assert_int_equal(soft_hold_put(&qp->rs.hold, PEER_PSN, PEER_PSN + 2, packet, sizeof(packet),
				       qp->dev->now),
			 SOFT_HOLD_KEPT);
	assert_true(qp->dev->hold_budget < budget);
	soft_qp_fail(qp, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(qp->dev->hold_budget, budget);
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_one, disconnect)
	const struct CMUnitTest tests[] = {
		CONNECTED(timer_grows_within_its_bounds),
		CONNECTED(timer_waits_longer_for_many),
		CONNECTED(timer_follows_the_round_trip),
		CONNECTED(sample_ends_with_its_packet),
		CONNECTED(patience_ends_at_its_limit),
		CONNECTED(patience_begins_with_progress),
		CONNECTED(patience_begins_with_not_ready),
		CONNECTED(answer_that_comes_with_the_timer),
		CONNECTED(not_ready_waits_as_told),
		CONNECTED(one_loss_shrinks_the_window_once),
		CONNECTED(marks_shrink_the_window_once),
		CONNECTED(peer_hears_of_marks),
		CONNECTED(timeout_counts_as_the_loss),
		CONNECTED(acknowledged_together),
		CONNECTED(acknowledged_when_many),
		CONNECTED(acknowledged_when_asked),
		CONNECTED(write_is_acknowledged_at_once),
		CONNECTED(an_ack_waits_for_what_comes),
		CONNECTED(an_ack_waits_for_half_a_window),
		CONNECTED(an_ack_that_is_late_waits_for_nothing),
		CONNECTED(gap_is_told_in_time),
		CONNECTED(patience_ends_with_a_nak),
		CONNECTED(absence_is_discounted_once),
		CONNECTED(patience_changes_while_not_ready),
		CONNECTED(answer_before_the_first_request),
		CONNECTED(full_socket),
		CONNECTED(full_socket_keeps_the_answer),
		CONNECTED(full_socket_loses_a_nak),
		CONNECTED(nak_waits_for_the_user),
		CONNECTED(failed_sends_are_losses),
		CONNECTED(fewer_segments),
		CONNECTED(no_segments),
		CONNECTED(socket_has_room_for_windows),
		CONNECTED(failed_queue_pair_holds_nothing),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
