/* SPDX-License-Identifier: MIT */
#include "tests/lib/rnic_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "rnic_side: %s\n", what);
	abort();
}

static void *grow(void *array, size_t n, size_t size)
{
	/* The array grows to the next power of two when n is a power of two. */
	if (n & (n - 1) || (n == 0 && array))
		return array;
	void *p = realloc(array, (n ? 2 * n : 1) * size);
	must(p != NULL, "out of memory");
	return p;
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct rnic_side *side = ctx;
	must(qp == side->qp, "completion of another QP");
	side->batches++;
	for (size_t i = 0; i < n; i++) {
		if (wc[i].is_recv) {
			side->recvs = grow(side->recvs, side->num_recvs, sizeof(*side->recvs));
			side->recvs[side->num_recvs++] = wc[i];
		}
		if (wc[i].is_recv && wc[i].status == RNIC_WC_SUCCESS) {
			side->messages =
				grow(side->messages, side->num_messages, sizeof(*side->messages));
			struct rnic_message *m = &side->messages[side->num_messages++];
			m->length = wc[i].length;
			m->data = malloc(wc[i].length + 1);
			memcpy(m->data, wc[i].data, wc[i].length);
		} else if (wc[i].is_recv) {
			side->recv_errors++;
		} else {
			side->sends = grow(side->sends, side->num_sends, sizeof(*side->sends));
			side->sends[side->num_sends++] = wc[i];
		}
		if (side->hook)
			side->hook(side, &wc[i]);
	}
}

static bool may_give_up(void *ctx, struct rnic_qp *qp, uint64_t silent_us)
{
	struct rnic_side *side = ctx;
	must(qp == side->qp, "question about another QP");
	return side->may_give_up(side, silent_us);
}

static void on_event(void *ctx, struct rnic *rnic, const struct rnic_event *event)
{
	struct rnic_side *side = ctx;
	must(rnic == side->rnic, "event of another device");
	side->events[event->type]++;
}

void rnic_side_open(struct rnic_side *side, struct event_base *base, const char *name,
		    size_t mem_len)
{
	char error[RNIC_ERROR_LEN];
	struct rnic_open_params params = { .base = base, .on_event = on_event, .event_ctx = side };
	memset(side, 0, sizeof(*side));
	side->base = base;
	if (rnic_open(name, &params, &side->rnic, error))
		must(false, error);
	must(rnic_pd_alloc(side->rnic, &side->pd) == 0, "PD");
	side->mem = calloc(1, mem_len);
	side->mem_len = mem_len;
	must(rnic_mr_register(side->pd, side->mem, mem_len,
			      RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &side->mr) == 0,
	     "MR");
	must(rnic_mr_register(side->pd, side->mem, mem_len, RNIC_ACCESS_LOCAL_WRITE,
			      &side->source) == 0,
	     "MR of the source");
	side->psn = 0x123456;
}

void rnic_side_qp(struct rnic_side *side, unsigned int send_depth, unsigned int recv_depth,
		  unsigned int recv_size)
{
	struct rnic_qp_params params = { .send_depth = send_depth,
					 .recv_depth = recv_depth,
					 .recv_size = recv_size,
					 .user_receives = side->user_receives,
					 .max_sge = side->max_sge,
					 .on_completion = on_completion,
					 .may_give_up = side->may_give_up ? may_give_up : NULL,
					 .ctx = side };
	must(rnic_qp_create(side->pd, &params, &side->qp) == 0, "QP");
}

struct rnic_qp_peer rnic_side_peer(const struct rnic_side *side, size_t gid, uint8_t path_mtu)
{
	struct rnic_info info;
	struct rnic_qp_peer peer = { .qpn = rnic_qp_num(side->qp),
				     .rq_psn = side->psn,
				     .path_mtu = path_mtu };
	rnic_get_info(side->rnic, &info);
	must(gid < info.num_gids, "no such GID");
	memcpy(peer.gid, info.gids[gid].raw, sizeof(peer.gid));
	memcpy(peer.mac, info.mac, sizeof(peer.mac));
	return peer;
}

void rnic_side_connect(struct rnic_side *side, const struct rnic_qp_peer *peer,
		       unsigned int retry_ms, unsigned int rnr_retry)
{
	struct rnic_qp_send_params params = { .sq_psn = side->psn,
					      .retry_ms = retry_ms,
					      .rnr_retry = rnr_retry,
					      .reads_asked = side->reads_asked };
	struct rnic_qp_peer known = *peer;
	if (side->reads_answered)
		known.reads_answered = side->reads_answered;
	must(rnic_qp_connect(side->qp, &known) == 0, "connect");
	must(rnic_qp_start(side->qp, &params) == 0, "start");
}

void rnic_side_join(struct rnic_side *a, struct rnic_side *b, uint8_t path_mtu)
{
	struct rnic_qp_peer peer_a = rnic_side_peer(a, 0, path_mtu);
	struct rnic_qp_peer peer_b = rnic_side_peer(b, 0, path_mtu);
	rnic_side_connect(a, &peer_b, 4000, 7);
	rnic_side_connect(b, &peer_a, 4000, 7);
}

void rnic_side_qp_destroy(struct rnic_side *side)
{
	if (side->qp)
		rnic_qp_destroy(side->qp);
	side->qp = NULL;
}

void rnic_side_twin(const struct rnic_side *side, struct rnic_side *ret_twin)
{
	*ret_twin = (struct rnic_side){ .base = side->base,
					.rnic = side->rnic,
					.pd = side->pd,
					.mr = side->mr,
					.source = side->source,
					.mem = side->mem,
					.mem_len = side->mem_len,
					.psn = side->psn,
					.reads_asked = side->reads_asked,
					.reads_answered = side->reads_answered };
}

void rnic_side_forget(struct rnic_side *side)
{
	for (size_t i = 0; i < side->num_messages; i++)
		free(side->messages[i].data);
	free(side->messages);
	free(side->sends);
	free(side->recvs);
	side->messages = NULL;
	side->recvs = NULL;
	side->sends = NULL;
	side->num_messages = side->num_sends = side->num_recvs = side->recv_errors = side->batches =
		0;
	memset(side->events, 0, sizeof(side->events));
}

void rnic_side_close(struct rnic_side *side)
{
	rnic_side_qp_destroy(side);
	rnic_side_forget(side);
	rnic_mr_deregister(side->source);
	rnic_mr_deregister(side->mr);
	rnic_pd_free(side->pd);
	rnic_close(side->rnic);
	free(side->mem);
}

int rnic_side_write(struct rnic_side *side, size_t from, uint32_t len, const struct rnic_side *peer,
		    size_t to, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_RDMA_WRITE,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side->mem + from, len, rnic_mr_lkey(side->source) } },
				   .remote_addr = rnic_mr_vaddr(peer->mr) + to,
				   .rkey = rnic_mr_rkey(peer->mr) };
	return rnic_post_send(side->qp, &wr, 1);
}

int rnic_side_send(struct rnic_side *side, const void *data, uint32_t len, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_SEND,
				   .flags = RNIC_SEND_SIGNALED | RNIC_SEND_INLINE,
				   .num_sge = 1,
				   .sge = { { data, len, 0 } } };
	return rnic_post_send(side->qp, &wr, 1);
}

int rnic_side_read(struct rnic_side *side, size_t to, uint32_t len, uint64_t remote_addr,
		   uint32_t rkey, uint64_t wr_id)
{
	struct rnic_send_wr wr = { .wr_id = wr_id,
				   .opcode = RNIC_WR_RDMA_READ,
				   .flags = RNIC_SEND_SIGNALED,
				   .num_sge = 1,
				   .sge = { { side->mem + to, len, rnic_mr_lkey(side->source) } },
				   .remote_addr = remote_addr,
				   .rkey = rkey };
	return rnic_post_send(side->qp, &wr, 1);
}

int rnic_side_post_recv(struct rnic_side *side, size_t at, uint32_t len, uint64_t wr_id)
{
	struct rnic_recv_wr wr = { wr_id, side->mem + at, len, rnic_mr_lkey(side->source) };
	return rnic_post_recv(side->qp, &wr, 1);
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

bool rnic_side_wait(struct event_base *base, const size_t *count, size_t want, unsigned int ms)
{
	bool over = false;
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	struct event *limit = evtimer_new(base, on_limit, &over);
	event_add(limit, &tv);
	while (*count < want && !over)
		event_base_loop(base, EVLOOP_ONCE);
	event_free(limit);
	return *count >= want;
}

void rnic_side_idle(struct event_base *base, unsigned int ms)
{
	size_t never = 0;
	rnic_side_wait(base, &never, 1, ms);
}

void rnic_side_pattern(uint8_t *mem, size_t len, uint32_t seed)
{
	uint32_t x = seed * 2654435761u | 1;
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		mem[i] = (uint8_t)x;
	}
}
