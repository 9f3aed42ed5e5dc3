/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_fabric.h"

enum qp_state { QP_INIT, QP_RTR, QP_RTS, QP_ERROR, QP_GONE };

struct request {
	struct smcr_wr wr;
	uint8_t send[SMCR_LLC_V2_SEND_MAX];
	bool arrived; /* the far end has it, but no acknowledgement has come back */
	struct request *next, *prev;
};

struct completion {
	uint64_t wr_id;
	enum smcr_send_status status;
	struct completion *next, *prev;
};

struct pair_qp {
	struct pair_side *side;
	uint32_t device_id, qpn, depth, recv_len, psn, retry_ms;
	uint64_t link_ref;
	enum qp_state state;
	struct smcr_qp_peer peer;
	struct request *queue;
	struct completion *done;
	uint64_t stalled_since; /* UINT64_MAX: not stalled */
	unsigned int mrs, outstanding;
	struct pair_qp *next, *prev;
};

struct pair_mr {
	struct pair_qp *qp;
	uint8_t *addr;
	size_t len;
	bool remote;
	uint32_t key;
	struct pair_mr *next, *prev;
};

struct pair_mem {
	void *addr;
	size_t len;
	struct pair_mem *next, *prev;
};

void pair_violation(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	fprintf(stderr, "engine pair: ");
	vfprintf(stderr, format, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	abort();
}

static bool falls_due(int *countdown)
{
	return *countdown > 0 && --*countdown == 0;
}

/* ---- operations ---- */

static void op_random(void *ctx, void *buf, size_t len)
{
	struct pair *pair = ((struct pair_side *)ctx)->pair;
	uint8_t *p = buf;
	for (size_t i = 0; i < len; i++) { /* xorshift64 */
		pair->random ^= pair->random << 13;
		pair->random ^= pair->random >> 7;
		pair->random ^= pair->random << 17;
		p[i] = (uint8_t)(pair->random >> 24);
	}
}

static int op_mem_alloc(void *ctx, size_t len, void **ret_addr)
{
	struct pair_side *side = ctx;
	if (falls_due(&side->fail_mem_alloc))
		return -ENOMEM;
	struct pair_mem *mem = pair_alloc(sizeof(*mem));
	if (!mem)
		abort();
	/* mmap() as in the daemon: pages that nobody touches take no memory */
	mem->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem->addr == MAP_FAILED)
		abort();
	mem->len = len;
	DL_APPEND(side->mems, mem);
	*ret_addr = mem->addr;
	return 0;
}

static void op_mem_free(void *ctx, void *addr, size_t len)
{
	struct pair_side *side = ctx;
	struct pair_mem *mem;
	struct pair_mr *mr;
	DL_SEARCH_SCALAR(side->mems, mem, addr, addr);
	if (!mem || mem->len != len)
		pair_violation("memory freed that is not held");
	DL_FOREACH (side->mrs, mr)
		if (mr->addr == addr)
			pair_violation("memory freed while it is registered");
	DL_DELETE(side->mems, mem);
	munmap(mem->addr, mem->len);
	free(mem);
}

static int op_mem_recover(void *ctx, void *addr, size_t len)
{
	(void)ctx;
	memset(addr, 0, len);
	return 0;
}

static int op_mem_discard(void *ctx, void *addr, size_t len)
{
	const struct pair_side *side = ctx;
	if (side->keep_memory)
		return -EBUSY;
	if (madvise(addr, len, MADV_DONTNEED) < 0)
		pair_violation("memory that cannot be given back");
	return 0;
}

static const struct smcr_device_info *device_of(const struct pair_side *side, uint32_t id)
{
	for (size_t i = 0; i < side->num_devices; i++)
		if (side->devices[i].id == id)
			return &side->devices[i];
	return NULL;
}

static int op_qp_create(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn)
{
	struct pair_side *side = ctx;
	if (falls_due(&side->fail_qp_create))
		return -ENOMEM;
	if (!device_of(side, device_id))
		pair_violation("QP on a device that is not there");
	struct pair_qp *qp = pair_alloc(sizeof(*qp));
	if (!qp)
		abort();
	qp->side = side;
	qp->device_id = device_id;
	qp->link_ref = link_ref;
	qp->depth = send_depth;
	qp->recv_len = recv_len;
	qp->qpn = side->next_qpn++;
	qp->stalled_since = UINT64_MAX;
	DL_APPEND(side->qps, qp);
	*ret_qp = qp;
	*ret_qpn = qp->qpn;
	return 0;
}

static int op_qp_connect(void *ctx, void *handle, const struct smcr_qp_peer *peer)
{
	struct pair_qp *qp = handle;
	if (falls_due(&((struct pair_side *)ctx)->fail_qp_connect))
		return -EIO;
	if (qp->state != QP_INIT)
		pair_violation("QP connected twice");
	if (!smcr_mtu_valid(peer->mtu) || peer->qpn > SMCR_QPN_MAX || peer->psn > SMCR_PSN_MASK)
		pair_violation("QP connected with bad values");
	qp->peer = *peer;
	qp->state = QP_RTR;
	return 0;
}

static int op_qp_start(void *ctx, void *handle, uint32_t psn, uint32_t retry_ms)
{
	struct pair_qp *qp = handle;
	if (falls_due(&((struct pair_side *)ctx)->fail_qp_start))
		return -EIO;
	if (qp->state != QP_RTR)
		pair_violation("QP started before it was connected");
	qp->psn = psn;
	qp->retry_ms = retry_ms;
	qp->state = QP_RTS;
	return 0;
}

static void op_qp_set_retry(void *ctx, void *handle, uint32_t retry_ms)
{
	struct pair_qp *qp = handle;
	(void)ctx;
	if (qp->state != QP_RTS && qp->state != QP_ERROR)
		pair_violation("retry limit of a QP that was not started");
	qp->retry_ms = retry_ms;
}

static void op_qp_want_ack(void *ctx, void *handle)
{
	const struct pair_qp *qp = handle;
	(void)ctx;
	if (qp->state != QP_RTS && qp->state != QP_ERROR)
		pair_violation("ACK wanted on a QP that was not started");
}

static void complete(struct pair_qp *qp, uint64_t wr_id, enum smcr_send_status status)
{
	struct completion *done = pair_alloc(sizeof(*done));
	if (!done)
		abort();
	done->wr_id = wr_id;
	done->status = status;
	DL_APPEND(qp->done, done);
}

static void flush(struct pair_qp *qp)
{
	struct request *request, *next;
	qp->state = QP_ERROR;
	DL_FOREACH_SAFE (qp->queue, request, next) {
		complete(qp, request->wr.wr_id, SMCR_SEND_FLUSHED);
		DL_DELETE(qp->queue, request);
		free(request);
	}
}

static void op_qp_error(void *ctx, void *handle)
{
	(void)ctx;
	flush(handle);
}

static uint64_t op_qp_heard(void *ctx, void *handle)
{
	const struct pair_side *side = ctx;
	(void)handle;
	return side->silent_us;
}

static void op_qp_destroy(void *ctx, void *handle)
{
	struct pair_side *side = ctx;
	struct pair_qp *qp = handle;
	struct completion *done, *next;
	if (qp->mrs)
		pair_violation("QP destroyed with %u registrations", qp->mrs);
	flush(qp);
	DL_FOREACH_SAFE (qp->done, done, next)
		free(done);
	DL_DELETE(side->qps, qp);
	free(qp);
}

static int op_mr_register(void *ctx, void *handle, void *addr, size_t len, bool remote,
			  struct smcr_mr *ret_mr)
{
	struct pair_side *side = ctx;
	struct pair_qp *qp = handle;
	struct pair_mem *mem;
	if (falls_due(&side->fail_mr_register))
		return side->mr_error ? side->mr_error : -ENOMEM;
	DL_SEARCH_SCALAR(side->mems, mem, addr, addr);
	if (!mem || mem->len != len)
		pair_violation("registration of memory that is not held");
	struct pair_mr *mr = pair_alloc(sizeof(*mr));
	if (!mr)
		abort();
	*mr = (struct pair_mr){ .qp = qp, .addr = addr, .len = len, .remote = remote };
	mr->key = side->next_key++;
	qp->mrs++;
	DL_APPEND(side->mrs, mr);
	*ret_mr = (struct smcr_mr){
		.handle = mr, .lkey = mr->key, .rkey = mr->key, .vaddr = (uintptr_t)addr
	};
	return 0;
}

static void op_mr_deregister(void *ctx, void *handle)
{
	struct pair_side *side = ctx;
	struct pair_mr *mr = handle;
	mr->qp->mrs--;
	DL_DELETE(side->mrs, mr);
	free(mr);
}

static bool send_length_ok(const struct pair_qp *qp, const struct smcr_wr *wr)
{
	if (wr->addr && *(const uint8_t *)wr->addr == SMCR_CDC_TYPE)
		return wr->length == SMCR_CDC_LEN;
	return wr->length == SMCR_LLC_LEN ||
	       (wr->length > SMCR_LLC_LEN && wr->length <= qp->recv_len &&
		wr->length <= SMCR_LLC_V2_SEND_MAX);
}

static int op_post(void *ctx, void *handle, const struct smcr_wr *wr, size_t n)
{
	struct pair_qp *qp = handle;
	if (falls_due(&((struct pair_side *)ctx)->fail_post))
		return -EIO;
	if (qp->state != QP_RTS)
		return -ENOTCONN;
	qp->outstanding += (unsigned int)n;
	if (qp->outstanding > qp->depth)
		pair_violation("send queue overrun");
	for (size_t i = 0; i < n; i++) {
		struct request *request = pair_alloc(sizeof(*request));
		if (!request)
			abort();
		request->wr = wr[i];
		if (!wr[i].is_write && !send_length_ok(qp, &wr[i]))
			pair_violation("SEND of %u bytes", wr[i].length);
		if (!wr[i].is_write)
			memcpy(request->send, wr[i].addr, wr[i].length);
		DL_APPEND(qp->queue, request);
	}
	return 0;
}

/** The peer may send as soon as it has Accept or Confirm. So the queue pair that Accept names must
 *  exist and have receive buffers, and the one that Confirm names must be receiving (RV-6, LLC-8).
 */
static void check_named_qp(const struct pair_side *side, const uint8_t *data, size_t len)
{
	struct smcr_clc_msg msg;
	const struct pair_qp *qp;
	if (smcr_clc_decode(data, len, &msg) ||
	    (msg.type != SMCR_CLC_ACCEPT && msg.type != SMCR_CLC_CONFIRM))
		return;
	DL_FOREACH (side->qps, qp)
		if (qp->qpn == msg.accept.qpn &&
		    (msg.type == SMCR_CLC_ACCEPT || qp->state == QP_RTR || qp->state == QP_RTS))
			return;
	pair_violation("CLC names a QP that cannot receive");
}

static void op_clc_send(void *user, const uint8_t *msg, size_t len)
{
	struct pair_end *end = user;
	check_named_qp(&end->pair->side[end->side], msg, len);
	pair_inject_clc_raw(end->pair, end->conn, end->side, msg, len);
}

static void op_conn_event(void *user, const struct smcr_conn_event *event)
{
	struct pair_end *end = user;
	if (!end->smc && event->type != SMCR_CONN_FALLBACK)
		pair_violation("event %d for a connection that is gone", event->type);
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED: end->established++; return;
	case SMCR_CONN_READABLE: end->readable++; return;
	case SMCR_CONN_WRITABLE: end->writable++; return;
	case SMCR_CONN_URGENT: return; /* these tests send no urgent data */
	case SMCR_CONN_OUTGROWN:
		end->outgrown++;
		end->last = *event;
		return;
	case SMCR_CONN_FALLBACK: end->fallback++; break;
	case SMCR_CONN_FAILED: end->failed++; break;
	case SMCR_CONN_RESET: end->reset++; break;
	case SMCR_CONN_CLOSED: end->closed++; break;
	}
	end->last = *event;
	if (event->type != SMCR_CONN_RESET)
		end->smc = NULL;
}

static void op_unshare(void *user)
{
	(void)user;
	pair_violation("the end of sharing, though no memory is shared");
}

static void op_command_done(void *ctx, uint64_t id, const struct smcr_command_result *result)
{
	struct pair_side *side = ctx;
	side->commands_done++;
	side->command_id = id;
	side->command_result = *result;
	if (side->on_command_done)
		side->on_command_done(side->on_command_ctx, id, result);
}

static void op_event(void *ctx, const struct smcr_event *event)
{
	struct pair_side *side = ctx;
	struct pair_event *last = &side->event;
	side->events[event->type]++;
	last->event = *event;
	snprintf(last->text, sizeof(last->text), "%s", event->text);
	last->event.text = last->text;
	last->event.device = NULL;
	if (getenv("PAIR_LOG"))
		fprintf(stderr, "[%d] event %d: link %u/%u: %s (%u)\n", side->index, event->type,
			event->lgr, event->link, event->text, event->num_conns);
}

static void op_log(void *ctx, int priority, const char *line)
{
	struct pair_side *side = ctx;
	side->log_lines++;
	snprintf(side->log_line, sizeof(side->log_line), "%s", line);
	if (getenv("PAIR_LOG"))
		fprintf(stderr, "[%d] <%d> %s\n", side->index, priority, line);
}

static void op_trace(void *ctx, enum ipc_trace category, const char *line)
{
	struct pair_side *side = ctx;
	size_t len = strlen(side->trace);
	snprintf(side->trace + len, sizeof(side->trace) - len, "%s: %s\n", ipc_trace_name(category),
		 line);
}

static const struct smcr_host_ops host_ops = { .random = op_random,
					       .log = op_log,
					       .trace = op_trace };

static const struct smcr_rdma_ops rdma_ops = {
	.mem_alloc = op_mem_alloc,
	.mem_free = op_mem_free,
	.mem_recover = op_mem_recover,
	.mem_discard = op_mem_discard,
	.qp_create = op_qp_create,
	.qp_connect = op_qp_connect,
	.qp_start = op_qp_start,
	.qp_set_retry = op_qp_set_retry,
	.qp_want_ack = op_qp_want_ack,
	.qp_error = op_qp_error,
	.qp_heard = op_qp_heard,
	.qp_destroy = op_qp_destroy,
	.mr_register = op_mr_register,
	.mr_deregister = op_mr_deregister,
	.post = op_post,
};

static const struct smcr_conn_ops conn_ops = { .clc_send = op_clc_send,
					       .event = op_conn_event,
					       .unshare = op_unshare };

struct smcr_ops pair_ops(struct pair_side *side)
{
	return (struct smcr_ops){ .host = &host_ops,
				  .host_ctx = side,
				  .rdma = &rdma_ops,
				  .rdma_ctx = side,
				  .conns = &conn_ops,
				  .command_done = op_command_done,
				  .command_ctx = side,
				  .event = op_event,
				  .event_ctx = side };
}

/* ---- delivery ---- */

struct pair_qp *pair_fabric_peer(struct pair *pair, const struct pair_qp *qp)
{
	struct pair_side *other = &pair->side[!qp->side->index];
	const struct smcr_device_info *own = device_of(qp->side, qp->device_id);
	struct pair_qp *peer;
	if (!own || !own->active || qp->side->blocked)
		return NULL;
	DL_FOREACH (other->qps, peer) {
		const struct smcr_device_info *info = device_of(other, peer->device_id);
		if (peer->qpn == qp->peer.qpn && info && info->active &&
		    !memcmp(info->gid, qp->peer.gid, SMCR_GID_LEN) &&
		    (peer->state == QP_RTR || peer->state == QP_RTS) && peer->peer.qpn == qp->qpn &&
		    !memcmp(peer->peer.gid, own->gid, SMCR_GID_LEN))
			return peer;
	}
	return NULL;
}

/** Do acknowledgements of the far end come back? Not if its side is blocked. */
static bool path_alive(struct pair *pair, const struct pair_qp *qp)
{
	struct pair_qp *peer = pair_fabric_peer(pair, qp);
	if (!peer || peer->side->blocked)
		return false;
	if (peer->peer.psn != qp->psn && !pair->tolerant)
		pair_violation("the far end expects another initial PSN (CLC-10)");
	if (peer->peer.mtu != qp->peer.mtu && !pair->tolerant)
		pair_violation("the two ends use different path MTUs (CLC-9)");
	return true;
}

/** @return false: refused by the far end */
static bool rdma_write(struct pair_qp *qp, struct pair_qp *peer, const struct smcr_wr *wr)
{
	const struct pair_mr *mr, *source = NULL, *target = NULL;
	DL_FOREACH (qp->side->mrs, mr)
		if (mr->qp == qp && mr->key == wr->lkey)
			source = mr;
	DL_FOREACH (peer->side->mrs, mr)
		if (mr->qp == peer && mr->key == wr->rkey && mr->remote)
			target = mr;
	const uint8_t *from = wr->addr;
	if (!source || from < source->addr || from + wr->length > source->addr + source->len)
		pair_violation("RDMA write from memory that is not registered on this link");
	uint64_t offset = target ? wr->remote_addr - (uintptr_t)target->addr : 0;
	if (!target || offset > target->len || wr->length > target->len - offset)
		return false;
	memcpy(target->addr + offset, from, wr->length);
	return true;
}

static struct smcr_link *link_of(const struct pair_qp *qp)
{
	struct smcr_link *link;
	HASH_FIND(hh, qp->side->engine->links, &qp->link_ref, sizeof(qp->link_ref), link);
	return link;
}

static void decode_llc(const struct smcr_lgr *lgr, const struct request *request,
		       struct pair_msg *ret_msg)
{
	struct smcr_llc_rtokens rtokens = { 0 };
	if (lgr && smcr_lgr_is_v2(lgr)) {
		(void)smcr_llc_decode_v2(request->send, request->wr.length, &ret_msg->llc,
					 &rtokens);
		ret_msg->num_rtokens = rtokens.count;
	} else {
		(void)smcr_llc_decode(request->send, request->wr.length,
				      lgr ? lgr->dialect : SMCR_DIALECT_RFC, &ret_msg->llc);
	}
}

static struct pair_msg describe(const struct pair_qp *qp, const struct request *request)
{
	struct pair_msg msg = { .from = qp->side->index };
	const struct smcr_link *link = link_of(qp);
	msg.link = link ? link->number : 0;
	msg.length = request->wr.length;
	msg.is_cdc = request->send[0] == SMCR_CDC_TYPE;
	if (msg.is_cdc)
		(void)smcr_cdc_decode(request->send, SMCR_CDC_LEN, &msg.cdc);
	else
		decode_llc(link ? link->lgr : NULL, request, &msg);
	return msg;
}

/** Fail the first request and flush those behind it. */
static void fail_as(struct pair_qp *qp, enum smcr_send_status status)
{
	if (qp->queue) {
		struct request *first = qp->queue;
		complete(qp, first->wr.wr_id, status);
		DL_DELETE(qp->queue, first);
		free(first);
	}
	flush(qp);
}

void pair_fabric_fail(struct pair_qp *qp)
{
	fail_as(qp, SMCR_SEND_FAILED);
}

static bool gave_up(const struct pair *pair, const struct pair_qp *qp)
{
	return qp->stalled_since != UINT64_MAX &&
	       pair->now >= qp->stalled_since + (uint64_t)qp->retry_ms * 1000;
}

void pair_fabric_deliver(struct pair *pair, struct pair_qp *to, const void *data, size_t len)
{
	if (to->side->hung)
		return;
	uint8_t *copy = malloc(len ? len : 1); /* exact size, so that sanitizers see overreads */
	if (!copy)
		abort();
	memcpy(copy, data, len);
	smcr_engine_recv(to->side->engine, to->link_ref, copy, len);
	free(copy);
	pair_check_engines(pair);
}

/** Bring a SEND or WRITE to the far end. @return false: the QP broke or the request waits */
static bool arrive(struct pair *pair, struct pair_qp *qp, struct pair_qp *peer,
		   struct request *request, bool *ret_moved)
{
	*ret_moved = true;
	if (request->arrived)
		return true;
	if (request->wr.is_write) {
		if (rdma_write(qp, peer, &request->wr))
			return true;
		if (!pair->tolerant && !pair->denies)
			pair_violation("RDMA write to what the peer has not registered");
		fail_as(qp, SMCR_SEND_DENIED);
		return false;
	}
	struct pair_msg msg = describe(qp, request);
	switch (pair_judge(pair, &msg)) {
	case PAIR_HOLD: *ret_moved = false; return false;
	case PAIR_FAIL: pair_fabric_fail(qp); return false;
	case PAIR_LOSE: return true;
	case PAIR_PASS: break;
	}
	request->arrived = true;
	pair_log_msg(pair, &msg);
	return true;
}

/** No acknowledgement comes back from the far end: requests may still arrive there, but none
 *  completes. @return something happened */
static bool send_unacknowledged(struct pair *pair, struct pair_qp *qp)
{
	struct pair_qp *peer = pair_fabric_peer(pair, qp);
	struct request *request;
	bool moved;
	if (gave_up(pair, qp)) {
		pair_fabric_fail(qp);
		return true;
	}
	if (qp->stalled_since == UINT64_MAX)
		qp->stalled_since = pair->now;
	DL_FOREACH (qp->queue, request) {
		if (request->arrived)
			continue;
		if (!peer || !arrive(pair, qp, peer, request, &moved))
			return false;
		request->arrived = true;
		if (!request->wr.is_write)
			pair_fabric_deliver(pair, peer, request->send, request->wr.length);
		return true; /* the queue may have changed */
	}
	return false;
}

/** Does the request's largest packet vanish on the way? */
static bool is_too_large(const struct pair_qp *qp, const struct request *request)
{
	uint32_t mtu = smcr_mtu_bytes(qp->peer.mtu), most = qp->side->most;
	uint32_t packet = request->wr.length < mtu ? request->wr.length : mtu;
	return most && packet > most;
}

/** The first request does not arrive, so those behind it do not either.
 *  @return something happened */
static bool stall(struct pair *pair, struct pair_qp *qp)
{
	if (gave_up(pair, qp)) {
		pair_fabric_fail(qp);
		return true;
	}
	if (qp->stalled_since == UINT64_MAX)
		qp->stalled_since = pair->now;
	return false;
}

/** Try to send the first request of the queue. @return something happened */
static bool send_one(struct pair *pair, struct pair_qp *qp)
{
	struct request *request = qp->queue;
	bool moved;
	if (!request)
		return false;
	if (!path_alive(pair, qp))
		return send_unacknowledged(pair, qp);
	if (is_too_large(qp, request))
		return stall(pair, qp);
	struct pair_qp *peer = pair_fabric_peer(pair, qp);
	bool before = request->arrived;
	qp->stalled_since = UINT64_MAX;
	if (!arrive(pair, qp, peer, request, &moved))
		return moved;
	if (request->wr.signaled)
		complete(qp, request->wr.wr_id, SMCR_SEND_OK);
	DL_DELETE(qp->queue, request);
	if (request->arrived && !before)
		pair_fabric_deliver(pair, peer, request->send, request->wr.length);
	free(request);
	return true;
}

static bool complete_one(struct pair *pair, struct pair_qp *qp)
{
	struct completion *done = qp->done;
	const struct smcr_link *link = link_of(qp);
	const struct pair_side *side = qp->side;
	if (!done || side->hung ||
	    (side->hold_completions &&
	     (!side->hold_link || (link && link->number == side->hold_link))))
		return false;
	DL_DELETE(qp->done, done);
	/* ids of requests have no gaps, and a completion covers all earlier requests */
	qp->outstanding = link ? (unsigned int)(link->tx_next - done->wr_id - 1) : 0;
	smcr_engine_send_done(qp->side->engine, qp->link_ref, done->wr_id, done->status,
			      done->status == SMCR_SEND_FAILED ? "retry exceeded" : NULL);
	free(done);
	pair_check_engines(pair);
	return true;
}

bool pair_fabric_step(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct pair_qp *qp;
		DL_FOREACH (pair->side[i].qps, qp)
			if (complete_one(pair, qp) || send_one(pair, qp))
				return true; /* the list may have changed */
	}
	return false;
}

uint64_t pair_fabric_deadline(const struct pair *pair)
{
	uint64_t deadline = SMCR_NO_DEADLINE;
	for (int i = 0; i < 2; i++) {
		const struct pair_qp *qp;
		DL_FOREACH (pair->side[i].qps, qp)
			if (qp->stalled_since != UINT64_MAX && qp->queue &&
			    qp->stalled_since + (uint64_t)qp->retry_ms * 1000 < deadline)
				deadline = qp->stalled_since + (uint64_t)qp->retry_ms * 1000;
	}
	return deadline;
}

struct pair_qp *pair_fabric_qp(struct pair_side *side, uint64_t link_ref)
{
	struct pair_qp *qp;
	DL_SEARCH_SCALAR(side->qps, qp, link_ref, link_ref);
	return qp;
}

void pair_fabric_unplug(struct pair_side *side, uint32_t device_id)
{
	struct pair_qp *qp;
	DL_FOREACH (side->qps, qp)
		if (qp->device_id == device_id)
			pair_violation("a removed device still has a QP");
}

const char *pair_fabric_leaks(const struct pair_side *side)
{
	if (side->mrs)
		return "memory registrations";
	if (side->mems)
		return "memory";
	return side->qps ? "queue pairs" : "";
}

uint32_t pair_retry_ms(struct pair *pair, int side, uint8_t link)
{
	return pair_fabric_qp(&pair->side[side], pair_link(pair, side, link)->ref)->retry_ms;
}

const struct smcr_qp_peer *pair_qp_peer(struct pair *pair, int side, uint8_t link)
{
	return &pair_fabric_qp(&pair->side[side], pair_link(pair, side, link)->ref)->peer;
}

unsigned int pair_num_qps(const struct pair *pair, int side)
{
	unsigned int n = 0;
	const struct pair_qp *qp;
	DL_COUNT(pair->side[side].qps, qp, n);
	return n;
}
