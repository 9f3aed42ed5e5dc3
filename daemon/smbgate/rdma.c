/* SPDX-License-Identifier: MIT */
#include "daemon/smbgate/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <uthash.h>
#include <utlist.h>

#define SEND_DEPTH 256
#define SEND_SLOTS 64 /* messages that have left and are not acknowledged */

/* What a place of the send queue is used for. */
enum request_kind {
	REQUEST_SEND,   /* a message; its slot is free then */
	REQUEST_INLINE, /* a message without a slot */
	REQUEST_PIECE,  /* a piece of a transfer */
	REQUEST_WINDOW, /* not signaled */
};

struct request {
	enum request_kind kind;
	unsigned int slot;
	struct transfer *transfer;
};

/* Of one rdma_read() or rdma_write(). */
struct transfer {
	struct block *block;
	bool read;
	void *tag;
	size_t num, posted, done;
	struct transfer *prev, *next;
	struct rdma_piece pieces[];
};

struct rdma_offer {
	struct rdma *rdma;
	uint32_t token;
	struct rnic_window *window; /* one of these two */
	struct rnic_mr *mr;
	UT_hash_handle hh;
};

struct rdma {
	struct rdma_params params;
	struct rnic_pd *pd;
	struct rnic_qp *qp;
	struct smbd *smbd;
	struct memory *memory;
	struct event *timer;
	struct event *room; /* there may be room for blocks again */
	bool windows;
	bool ending;        /* `ended` of SMB Direct was called; it waits for what was sent */
	bool over;          /* the user was told the end */
	bool spoken, heard; /* a message was sent; one has come. The first ones negotiate */

	/* The places of the send queue that are used, in their order. */
	struct request requests[SEND_DEPTH];
	uint64_t first, next;       /* numbers of requests: the oldest, the next one */
	struct transfer *waiting;   /* transfers with pieces that are not posted */
	struct transfer *transfers; /* those that are all posted */

	uint8_t *send_bytes; /* SEND_SLOTS slots of `send_size` bytes */
	struct rnic_mr *send_mr;
	uint32_t send_size;
	unsigned int free_sends[SEND_SLOTS], num_free_sends;

	uint8_t first_receive[SMBD_NEGOTIATE_SIZE]; /* of the Negotiate message */
	struct rnic_mr *first_mr;
	uint8_t *receive_bytes; /* of the other receives, from negotiation on */
	struct rnic_mr *receive_mr;
	uint32_t receive_size;
	unsigned int *free_receives, num_free_receives;

	struct rdma_offer *offers; /* by token */
	uint64_t read_bytes, written_bytes;
};

#define FIRST_RECEIVE UINT64_MAX /* wr_id of the first receive; others have their slot */

static uint64_t now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* To be called behind whatever may have changed the next deadline. */
static void arm(struct rdma *rdma)
{
	const uint64_t deadline = smbd_deadline(rdma->smbd);
	if (deadline == UINT64_MAX || rdma->ending) {
		evtimer_del(rdma->timer);
		return;
	}
	const uint64_t now = now_us(), wait = deadline > now ? deadline - now : 0;
	const struct timeval tv = { .tv_sec = (time_t)(wait / 1000000),
				    .tv_usec = (suseconds_t)(wait % 1000000) };
	evtimer_add(rdma->timer, &tv);
}

/* ---- places of the send queue */

static bool has_place(const struct rdma *rdma)
{
	return rdma->next - rdma->first < SEND_DEPTH;
}

static struct request *take_place(struct rdma *rdma, enum request_kind kind)
{
	struct request *request = &rdma->requests[rdma->next++ % SEND_DEPTH];
	*request = (struct request){ .kind = kind };
	return request;
}

/* The post has failed: the place that was taken last is free. */
static void give_place_back(struct rdma *rdma)
{
	rdma->next--;
}

/* ---- transfers */

static void free_transfer(struct transfer *transfer)
{
	block_put(transfer->block);
	free(transfer);
}

/* The peer's descriptors name memory of the other end of this queue pair, and go to no other
 * (SMBD-170). */
static int post_piece(struct rdma *rdma, struct transfer *transfer)
{
	const struct rdma_piece *piece = &transfer->pieces[transfer->posted];
	const struct rnic_send_wr wr = {
		.wr_id = rdma->next,
		.opcode = transfer->read ? RNIC_WR_RDMA_READ : RNIC_WR_RDMA_WRITE,
		.flags = RNIC_SEND_SIGNALED,
		.num_sge = 1,
		.sge = { { .addr = transfer->block->bytes + piece->at,
			   .length = piece->remote.length,
			   .lkey = rnic_mr_lkey(transfer->block->mr) } },
		.remote_addr = piece->remote.offset,
		.rkey = piece->remote.token,
	};
	take_place(rdma, REQUEST_PIECE)->transfer = transfer;
	int error = rnic_post_send(rdma->qp, &wr, 1);
	if (error) {
		give_place_back(rdma);
		return error;
	}
	transfer->posted++;
	return 0;
}

/* Post what the send queue has room for. */
static void post_waiting(struct rdma *rdma)
{
	while (rdma->waiting && has_place(rdma) && !rdma->ending) {
		struct transfer *transfer = rdma->waiting;
		if (post_piece(rdma, transfer) < 0) {
			smbd_lost(rdma->smbd, now_us());
			return;
		}
		if (transfer->posted == transfer->num) {
			DL_DELETE(rdma->waiting, transfer);
			DL_APPEND(rdma->transfers, transfer);
		}
	}
}

static int transfer(struct rdma *rdma, bool read, struct block *block,
		    const struct rdma_piece *pieces, size_t n, void *tag)
{
	if (rdma->ending)
		return -ENOTCONN;
	struct transfer *transfer = malloc(sizeof(*transfer) + n * sizeof(*pieces));
	if (!transfer)
		return -ENOMEM;
	*transfer = (struct transfer){ .block = block, .read = read, .tag = tag, .num = n };
	memcpy(transfer->pieces, pieces, n * sizeof(*pieces));
	block_hold(block);
	DL_APPEND(rdma->waiting, transfer);
	post_waiting(rdma);
	arm(rdma);
	return 0;
}

int rdma_read(struct rdma *rdma, struct block *block, const struct rdma_piece *pieces, size_t n,
	      void *tag)
{
	return transfer(rdma, true, block, pieces, n, tag);
}

int rdma_write(struct rdma *rdma, struct block *block, const struct rdma_piece *pieces, size_t n,
	       void *tag)
{
	return transfer(rdma, false, block, pieces, n, tag);
}

static void piece_done(struct rdma *rdma, struct transfer *transfer)
{
	const uint32_t length = transfer->pieces[transfer->done].remote.length;
	if (transfer->read)
		rdma->read_bytes += length;
	else
		rdma->written_bytes += length;
	if (++transfer->done < transfer->num)
		return;
	void *tag = transfer->tag;
	DL_DELETE(rdma->transfers, transfer);
	free_transfer(transfer);
	if (!rdma->ending)
		rdma->params.ops->transferred(rdma->params.ctx, tag);
}

/* ---- operations of SMB Direct */

static uint32_t post_first_receive(struct rdma *rdma)
{
	const struct rnic_recv_wr wr = {
		.wr_id = FIRST_RECEIVE,
		.addr = rdma->first_receive,
		.length = SMBD_NEGOTIATE_SIZE,
		.lkey = rnic_mr_lkey(rdma->first_mr),
	};
	return rnic_post_recv(rdma->qp, &wr, 1) == 0;
}

/* The size of receives is known now, and stays (SMBD-103): that many bytes are what a peer can
 * fill, beside one message in parts (SMBD-160). One more than credits: a slot is free only when its
 * message was worked off. */
static bool make_receives(struct rdma *rdma, uint32_t size)
{
	const unsigned int num = rdma->params.config.receive_credit_max + 1;
	rdma->receive_size = size;
	rdma->receive_bytes = malloc((size_t)num * size);
	rdma->free_receives = calloc(num, sizeof(*rdma->free_receives));
	if (!rdma->receive_bytes || !rdma->free_receives ||
	    rnic_mr_register(rdma->pd, rdma->receive_bytes, (size_t)num * size,
			     RNIC_ACCESS_LOCAL_WRITE, &rdma->receive_mr) < 0) {
		rdma->receive_mr = NULL;
		return false;
	}
	while (rdma->num_free_receives < num) {
		rdma->free_receives[rdma->num_free_receives] = rdma->num_free_receives;
		rdma->num_free_receives++;
	}
	return true;
}

static bool post_receive(struct rdma *rdma)
{
	if (rdma->num_free_receives == 0)
		return false;
	const unsigned int slot = rdma->free_receives[rdma->num_free_receives - 1];
	const struct rnic_recv_wr wr = {
		.wr_id = slot,
		.addr = rdma->receive_bytes + (size_t)slot * rdma->receive_size,
		.length = rdma->receive_size,
		.lkey = rnic_mr_lkey(rdma->receive_mr),
	};
	if (rnic_post_recv(rdma->qp, &wr, 1) < 0)
		return false;
	rdma->num_free_receives--;
	return true;
}

static uint32_t op_post_receives(void *ctx, uint32_t n, uint32_t size)
{
	struct rdma *rdma = ctx;
	uint32_t posted = 0;
	if (!rdma->smbd) /* of smbd_new() */
		return post_first_receive(rdma);
	if (!rdma->receive_mr && !make_receives(rdma, size))
		return 0;
	while (posted < n && post_receive(rdma))
		posted++;
	return posted;
}

/* The size of messages is known now. */
static bool make_sends(struct rdma *rdma)
{
	struct smbd_view view;
	smbd_get_view(rdma->smbd, &view);
	rdma->send_size = view.max_send_size;
	rdma->send_bytes = malloc((size_t)SEND_SLOTS * rdma->send_size);
	if (!rdma->send_bytes ||
	    rnic_mr_register(rdma->pd, rdma->send_bytes, (size_t)SEND_SLOTS * rdma->send_size, 0,
			     &rdma->send_mr) < 0) {
		rdma->send_mr = NULL;
		return false;
	}
	while (rdma->num_free_sends < SEND_SLOTS) {
		rdma->free_sends[rdma->num_free_sends] = rdma->num_free_sends;
		rdma->num_free_sends++;
	}
	return true;
}

static int post_message(struct rdma *rdma, struct rnic_send_wr *wr, const uint32_t *token)
{
	wr->wr_id = rdma->next;
	wr->flags |= RNIC_SEND_SIGNALED;
	wr->opcode = token ? RNIC_WR_SEND_INVALIDATE : RNIC_WR_SEND;
	wr->rkey = token ? *token : 0;
	wr->num_sge = 1;
	struct request *request =
		take_place(rdma, wr->flags & RNIC_SEND_INLINE ? REQUEST_INLINE : REQUEST_SEND);
	if (request->kind == REQUEST_SEND)
		request->slot = rdma->free_sends[rdma->num_free_sends - 1];
	int error = rnic_post_send(rdma->qp, wr, 1);
	if (error)
		give_place_back(rdma);
	else if (request->kind == REQUEST_SEND)
		rdma->num_free_sends--;
	return error;
}

/* Negotiate messages, and those that only grant credits. */
static int send_inline(struct rdma *rdma, const uint8_t *head, size_t head_len,
		       const uint32_t *token)
{
	struct rnic_send_wr wr = {
		.flags = RNIC_SEND_INLINE,
		.sge = { { .addr = head, .length = (uint32_t)head_len } },
	};
	return post_message(rdma, &wr, token);
}

static int send_from_slot(struct rdma *rdma, const uint8_t *head, size_t head_len,
			  const uint8_t *payload, size_t len, const uint32_t *token)
{
	if (!rdma->send_mr && !make_sends(rdma))
		return -ENOMEM;
	if (rdma->num_free_sends == 0)
		return -EAGAIN;
	uint8_t *slot = rdma->send_bytes +
			(size_t)rdma->free_sends[rdma->num_free_sends - 1] * rdma->send_size;
	memcpy(slot, head, head_len);
	memcpy(slot + head_len, payload, len);
	struct rnic_send_wr wr = {
		.sge = { { .addr = slot,
			   .length = (uint32_t)(head_len + len),
			   .lkey = rnic_mr_lkey(rdma->send_mr) } },
	};
	return post_message(rdma, &wr, token);
}

/* A message is behind all transfers that were asked for before: what they have written has to be
 * there when the message comes (SMBD-3, SMBD-155). */
static int op_send(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		   size_t len, const uint32_t *token)
{
	struct rdma *rdma = ctx;
	if (rdma->waiting || !has_place(rdma))
		return -EAGAIN;
	int error = len == 0 ? send_inline(rdma, head, head_len, token)
			     : send_from_slot(rdma, head, head_len, payload, len, token);
	if (error)
		return error;
	rdma->params.ops->seen(rdma->params.ctx, true, !rdma->spoken, head, head_len + len);
	rdma->spoken = true;
	return 0;
}

static bool op_reserve(void *ctx, size_t bytes)
{
	struct rdma *rdma = ctx;
	return memory_reserve(rdma->memory, bytes);
}

static bool op_has_token(void *ctx, uint32_t token)
{
	struct rdma *rdma = ctx;
	struct rdma_offer *offer;
	HASH_FIND(hh, rdma->offers, &token, sizeof(token), offer);
	return offer != NULL;
}

static void op_established(void *ctx)
{
	struct rdma *rdma = ctx;
	rdma->params.ops->established(rdma->params.ctx);
}

static void op_message(void *ctx, const uint8_t *data, size_t len, const uint32_t *token)
{
	struct rdma *rdma = ctx;
	rdma->params.ops->message(rdma->params.ctx, data, len, token);
}

static void be_over(struct rdma *rdma)
{
	struct smbd_view view;
	if (rdma->over)
		return;
	rdma->over = true;
	rnic_qp_error(rdma->qp);
	smbd_get_view(rdma->smbd, &view);
	rdma->params.ops->ended(rdma->params.ctx, view.end);
}

static void op_ended(void *ctx, enum smbd_end end, bool send_first)
{
	struct rdma *rdma = ctx;
	(void)end;
	rdma->ending = true;
	if (!send_first || rdma->first == rdma->next)
		be_over(rdma);
}

static const struct smbd_ops smbd_ops = {
	.post_receives = op_post_receives,
	.send = op_send,
	.reserve = op_reserve,
	.has_token = op_has_token,
	.established = op_established,
	.message = op_message,
	.ended = op_ended,
};

/* ---- completions */

static void request_done(struct rdma *rdma, const struct request *request)
{
	switch (request->kind) {
	case REQUEST_SEND: rdma->free_sends[rdma->num_free_sends++] = request->slot; break;
	case REQUEST_PIECE: piece_done(rdma, request->transfer); break;
	case REQUEST_INLINE:
	case REQUEST_WINDOW: break;
	}
}

/* A request is done, and those before it are too. */
static void sends_done(struct rdma *rdma, const struct rnic_wc *wc)
{
	if (wc->status != RNIC_WC_SUCCESS) {
		smbd_lost(rdma->smbd, now_us());
		be_over(rdma); /* also if it waited for what was sent */
		return;
	}
	while (rdma->first <= wc->wr_id && rdma->first < rdma->next) {
		const struct request request = rdma->requests[rdma->first++ % SEND_DEPTH];
		request_done(rdma, &request);
	}
}

static void received(struct rdma *rdma, const struct rnic_wc *wc)
{
	if (wc->status != RNIC_WC_SUCCESS) {
		smbd_lost(rdma->smbd, now_us()); /* SMBD-5 */
		be_over(rdma);
		return;
	}
	rdma->params.ops->seen(rdma->params.ctx, false, !rdma->heard, wc->data, wc->length);
	rdma->heard = true;
	/* SMBD-4 */
	smbd_received(rdma->smbd, wc->data, wc->length,
		      wc->invalidated ? &wc->invalidated_rkey : NULL, now_us());
	if (wc->wr_id != FIRST_RECEIVE)
		rdma->free_receives[rdma->num_free_receives++] = (unsigned int)wc->wr_id;
}

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	struct rdma *rdma = ctx;
	bool sent = false;
	(void)qp;
	for (size_t i = 0; i < n && !rdma->over; i++) {
		if (wc[i].is_recv)
			received(rdma, &wc[i]);
		else
			sends_done(rdma, &wc[i]);
		sent |= !wc[i].is_recv;
	}
	if (sent && !rdma->ending) {
		post_waiting(rdma);
		smbd_sent(rdma->smbd, now_us());
		if (!rdma->ending)
			rdma->params.ops->room(rdma->params.ctx);
	}
	if (rdma->ending && rdma->first == rdma->next)
		be_over(rdma);
	arm(rdma);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rdma *rdma = arg;
	(void)fd;
	(void)what;
	smbd_timer(rdma->smbd, now_us());
	arm(rdma);
}

static void on_room(evutil_socket_t fd, short what, void *arg)
{
	struct rdma *rdma = arg;
	(void)fd;
	(void)what;
	if (!rdma->ending)
		rdma->params.ops->room(rdma->params.ctx);
}

/* Of memory, from inside any call: the user hears it from the event loop. */
static void memory_has_room(void *ctx)
{
	struct rdma *rdma = ctx;
	event_active(rdma->room, EV_TIMEOUT, 0);
}

/* ---- tokens */

/* One registration for all of it, so there is one descriptor, and nothing is left if it fails
 * (SMBD-145, SMBD-146, SMBD-147, SMBD-181). */
int rdma_offer(struct rdma *rdma, struct block *block, size_t at, uint32_t len, bool write,
	       struct rdma_offer **ret_offer, struct smbdirect_descriptor *ret_descriptor)
{
	const unsigned int access = write ? RNIC_ACCESS_REMOTE_WRITE : RNIC_ACCESS_REMOTE_READ;
	struct rdma_offer *offer = calloc(1, sizeof(*offer));
	int error;
	if (!offer)
		return -ENOMEM;
	offer->rdma = rdma;
	if (rdma->windows && !has_place(rdma)) {
		free(offer);
		return -EAGAIN;
	}
	if (rdma->windows) {
		error = rnic_window_new(rdma->pd, &offer->window);
		if (!error)
			error = rnic_window_bind(offer->window, rdma->qp, block->mr,
						 block->bytes + at, len, access);
		if (!error)
			take_place(rdma, REQUEST_WINDOW);
	} else {
		error = rnic_mr_register(rdma->pd, block->bytes + at, len,
					 access | RNIC_ACCESS_LOCAL_WRITE, &offer->mr);
	}
	if (error) {
		if (offer->window)
			rnic_window_free(offer->window);
		free(offer);
		return error;
	}
	offer->token = rdma->windows ? rnic_window_rkey(offer->window) : rnic_mr_rkey(offer->mr);
	HASH_ADD(hh, rdma->offers, token, sizeof(offer->token), offer);
	*ret_offer = offer;
	*ret_descriptor = (struct smbdirect_descriptor){
		.offset =
			rdma->windows ? rnic_window_vaddr(offer->window) : rnic_mr_vaddr(offer->mr),
		.token = offer->token,
		.length = len,
	};
	return 0;
}

void rdma_offer_end(struct rdma_offer *offer)
{
	if (!offer)
		return;
	HASH_DEL(offer->rdma->offers, offer);
	if (offer->window)
		rnic_window_free(offer->window);
	else
		rnic_mr_deregister(offer->mr);
	free(offer);
}

/* ---- life */

/* An RNIC makes queue pairs of RC, which can do RDMA, and nothing else (SMBD-1, SMBD-2). */
static int make_qp(struct rdma *rdma)
{
	const struct rnic_qp_params params = {
		.send_depth = SEND_DEPTH,
		.recv_depth = rdma->params.config.receive_credit_max + 2,
		.user_receives = true,
		.on_completion = on_completion,
		.ctx = rdma,
	};
	int error = rnic_pd_alloc(rdma->params.rnic, &rdma->pd); /* of its own (SMBD-168) */
	if (!error)
		error = rnic_mr_register(rdma->pd, rdma->first_receive, sizeof(rdma->first_receive),
					 RNIC_ACCESS_LOCAL_WRITE, &rdma->first_mr);
	if (!error)
		error = rnic_qp_create(rdma->pd, &params, &rdma->qp);
	if (!error)
		error = memory_new(rdma->pd, rdma->params.budget, rdma->params.most_memory,
				   memory_has_room, rdma, &rdma->memory);
	return error;
}

int rdma_new(const struct rdma_params *params, struct rdma **ret_rdma,
	     char ret_error[RNIC_ERROR_LEN])
{
	struct rnic_info info;
	struct rdma *rdma = calloc(1, sizeof(*rdma));
	rnic_get_info(params->rnic, &info);
	int error = rdma ? 0 : -ENOMEM;
	if (!error) {
		rdma->params = *params;
		smbd_config_fill(&rdma->params.config, params->role);
		rdma->windows = info.windows;
		rdma->timer = evtimer_new(params->base, on_timer, rdma);
		rdma->room = evtimer_new(params->base, on_room, rdma);
		error = rdma->timer && rdma->room ? make_qp(rdma) : -ENOMEM;
	}
	if (!error)
		error = smbd_new(&rdma->params.config, params->role, &smbd_ops, rdma, now_us(),
				 &rdma->smbd);
	if (error) {
		snprintf(ret_error, RNIC_ERROR_LEN,
			 "rnic %s: cannot make a queue pair for SMB Direct: %s", info.name,
			 strerror(-error));
		rdma_free(rdma);
		return error;
	}
	arm(rdma);
	*ret_rdma = rdma;
	return 0;
}

static void free_transfers(struct transfer **list)
{
	while (*list) {
		struct transfer *transfer = *list;
		DL_DELETE(*list, transfer);
		free_transfer(transfer);
	}
}

static void deregister(struct rnic_mr *mr)
{
	if (mr)
		rnic_mr_deregister(mr);
}

void rdma_free(struct rdma *rdma)
{
	if (!rdma)
		return;
	if (rdma->qp)
		rnic_qp_destroy(rdma->qp); /* nothing reaches memory any more */
	while (rdma->offers)
		rdma_offer_end(rdma->offers);
	free_transfers(&rdma->waiting);
	free_transfers(&rdma->transfers);
	memory_free(rdma->memory);
	deregister(rdma->first_mr);
	deregister(rdma->receive_mr);
	deregister(rdma->send_mr);
	if (rdma->pd)
		rnic_pd_free(rdma->pd);
	if (rdma->timer)
		event_free(rdma->timer);
	if (rdma->room)
		event_free(rdma->room);
	smbd_free(rdma->smbd);
	free(rdma->receive_bytes);
	free(rdma->free_receives);
	free(rdma->send_bytes);
	free(rdma);
}

struct rnic_qp *rdma_qp(struct rdma *rdma)
{
	return rdma->qp;
}

void rdma_connected(struct rdma *rdma)
{
	smbd_connected(rdma->smbd, now_us());
	arm(rdma);
}

int rdma_send(struct rdma *rdma, uint8_t *data, size_t len, const uint32_t *token)
{
	int error = smbd_send(rdma->smbd, data, len, token, now_us());
	arm(rdma);
	return error;
}

void rdma_hold(struct rdma *rdma, bool hold)
{
	smbd_hold(rdma->smbd, hold, now_us());
	arm(rdma);
}

struct block *rdma_block(struct rdma *rdma, enum block_use use, size_t len, int *ret_error)
{
	return block_get(rdma->memory, use, len, ret_error);
}

size_t rdma_memory(const struct rdma *rdma)
{
	return memory_used(rdma->memory);
}

bool rdma_is_idle(const struct rdma *rdma)
{
	struct smbd_view view;
	smbd_get_view(rdma->smbd, &view);
	return view.queued_bytes == 0 && !rdma->waiting && rdma->first == rdma->next;
}

void rdma_get_view(const struct rdma *rdma, struct smbd_view *ret_view)
{
	smbd_get_view(rdma->smbd, ret_view);
}

void rdma_get_bytes(const struct rdma *rdma, uint64_t *ret_read, uint64_t *ret_written)
{
	*ret_read = rdma->read_bytes;
	*ret_written = rdma->written_bytes;
}
