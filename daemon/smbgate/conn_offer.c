/* SPDX-License-Identifier: MIT */
/* Messages of the client side: data of large requests stay in memory that the peer is given a token
 * for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smbgate/internal.h"
#include "proto/smb2/smb2.h"

/* Shorter data cost less in the message than by RDMA (docs/performance.md); Linux's client draws
 * the line there too. */
#define LEAST_OFFERED 4096

/** The memory of a request whose response is due. */
struct conn_memory {
	struct block *block;
	struct rdma_offer *offer;
	uint32_t length;
	bool read; /* of a READ: the server writes it */
};

bool gate_conn_offer_begin(struct gate_conn *conn)
{
	struct smbd_view view;
	rdma_get_view(conn->rdma, &view);
	const struct offer_config config = {
		.least = LEAST_OFFERED,
		.max_read_write_size = view.max_read_write_size,
	};
	return offer_new(&config, &conn->offer) == 0;
}

static void release(void *ctx, void *arg)
{
	struct conn_memory *memory = arg;
	(void)ctx;
	rdma_offer_end(memory->offer);
	block_put(memory->block);
	free(memory);
}

void gate_conn_offer_free(struct gate_conn *conn)
{
	offer_free(conn->offer, release, NULL);
}

/* ---- requests */

uint8_t *gate_conn_offer_room(struct gate_conn *conn, size_t len)
{
	if (len >= LEAST_OFFERED) {
		conn->block = gate_conn_block(conn, BLOCK_OFFERED, len);
		return conn->block ? conn->block->bytes : NULL;
	}
	conn->plain = malloc(len);
	if (!conn->plain)
		gate_conn_end(conn, true, "there is no memory for a message");
	return conn->plain;
}

static const uint8_t *message_bytes(const struct gate_conn *conn)
{
	return conn->block ? conn->block->bytes : conn->plain;
}

static void message_done(struct gate_conn *conn)
{
	block_put(conn->block);
	conn->block = NULL;
	free(conn->plain);
	conn->plain = NULL;
}

static void pass(struct gate_conn *conn, size_t len)
{
	uint8_t *copy = conn->plain ? conn->plain : malloc(len);
	if (!copy) {
		gate_conn_end(conn, true, "there is no memory for a message");
		return;
	}
	if (conn->block)
		memcpy(copy, conn->block->bytes, len);
	conn->plain = NULL;
	message_done(conn);
	gate_conn_send(conn, copy, len, NULL);
}

/* Memory with a token: for a WRITE the block with its message, for a READ another one.
 * @return 0; -EAGAIN: not now; -ENOMEM */
static int give_memory(struct gate_conn *conn, const struct offer_plan *plan,
		       struct conn_memory *memory, struct smbdirect_descriptor *descriptor)
{
	const bool read = plan->what == OFFER_READ;
	memory->length = plan->length;
	memory->read = read;
	memory->block = read ? gate_conn_block(conn, BLOCK_OFFERED, plan->length) : conn->block;
	if (!memory->block)
		return -EAGAIN;
	int error = rdma_offer(conn->rdma, memory->block, read ? 0 : plan->data_at, plan->length,
			       read, &memory->offer, descriptor);
	if (error && read)
		block_put(memory->block);
	if (!error && !read)
		block_hold(memory->block); /* the message lets go of it, the request does not */
	return error;
}

/* @return as give_memory() */
static int offer(struct gate_conn *conn, const struct offer_plan *plan)
{
	struct smbdirect_descriptor descriptor;
	struct conn_memory *memory = calloc(1, sizeof(*memory));
	uint8_t *request = malloc(plan->len);
	int error = memory && request ? give_memory(conn, plan, memory, &descriptor) : -ENOMEM;
	if (error) {
		free(memory);
		free(request);
		return error;
	}
	if (offer_build_request(conn->offer, plan, message_bytes(conn), &descriptor, memory,
				request) < 0) {
		release(NULL, memory);
		free(request);
		return -ENOMEM;
	}
	message_done(conn);
	conn->channels_served++;
	gate_conn_send(conn, request, plan->len, NULL);
	return 0;
}

void gate_conn_offer_from_tcp(struct gate_conn *conn, size_t len)
{
	struct offer_plan plan;
	offer_request(conn->offer, message_bytes(conn), len, &plan);
	/* Data in plain memory are short, and a WRITE of them is not offered. */
	if (plan.what == OFFER_NOTHING || (plan.what == OFFER_WRITE && !conn->block)) {
		pass(conn, len);
		return;
	}
	int error = offer(conn, &plan);
	conn->stalled = error == -EAGAIN;
	conn->stalled_len = len;
	if (conn->stalled)
		tcp_side_pause(conn->tcp);
	else if (error)
		gate_conn_end(conn, true, "there is no memory for a message");
}

void gate_conn_offer_go_on(struct gate_conn *conn)
{
	if (!conn->offer || conn->state == SMBGATE_ENDED)
		return;
	if (conn->stalled)
		gate_conn_offer_from_tcp(conn, conn->stalled_len);
	gate_conn_balance(conn, false);
}

/* ---- responses */

static void give_answer(struct gate_conn *conn, const struct offer_answer *answer,
			const uint8_t *data)
{
	struct conn_memory *memory = answer->memory;
	uint8_t head[OFFER_HEAD_LEN];
	struct block *block = memory->block;
	offer_build_head(answer, data, head);
	rdma_offer_end(memory->offer); /* before anybody looks at the data */
	free(memory);
	conn->offered_written += answer->length;
	gate_conn_write_block(conn, head, sizeof(head), block, 0, answer->length);
}

/* A WRITE that has succeeded: the server has read its data. */
static void count_read(struct gate_conn *conn, const struct conn_memory *memory,
		       const uint8_t *data, size_t len)
{
	struct smb2_header header;
	if (memory && !memory->read && smb2_decode_header(data, len, &header) == 0 &&
	    header.status == 0)
		conn->offered_read += memory->length;
}

void gate_conn_offer_from_rdma(struct gate_conn *conn, const uint8_t *data, size_t len)
{
	struct offer_answer answer;
	if (offer_response(conn->offer, data, len, &answer) < 0) {
		gate_conn_end(conn, true,
			      "the server says that it has written more than asked for");
		return;
	}
	if (answer.memory && answer.length > 0) {
		give_answer(conn, &answer, data);
	} else {
		count_read(conn, answer.memory, data, len);
		if (answer.memory)
			release(NULL, answer.memory);
		gate_conn_write(conn, data, len);
	}
	gate_conn_balance(conn, false);
}
