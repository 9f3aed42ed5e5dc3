/* SPDX-License-Identifier: MIT */
/*
 * Messages of the server side. The client's requests go to the server in the order in which they
 * came, also where some wait until their data were fetched. The server's responses go to the client
 * behind the data that are written for them.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/smbgate/internal.h"

/** A request of the client that is not at the server yet. */
struct conn_message {
	uint8_t *bytes; /* as it came; NULL: it is in the block */
	size_t len;
	struct serve_plan plan;
	struct block *block; /* as the server gets it */
	bool ready;          /* it has all its data */
	struct conn_message *prev, *next;
};

bool gate_conn_serve_begin(struct gate_conn *conn)
{
	struct smbd_view view;
	rdma_get_view(conn->rdma, &view);
	const struct serve_config config = {
		.max_read_write_size = view.max_read_write_size,
		.max_message = TCP_MESSAGE_MOST,
	};
	return serve_new(&config, &conn->serve) == 0;
}

static void free_message(struct gate_conn *conn, struct conn_message *message)
{
	DL_DELETE(conn->to_server, message);
	serve_plan_clear(&message->plan);
	block_put(message->block);
	free(message->bytes);
	free(message);
}

void gate_conn_serve_free(struct gate_conn *conn)
{
	while (conn->to_server)
		free_message(conn, conn->to_server);
	serve_free(conn->serve);
}

/* ---- requests */

/* Build what the server gets, and fetch its data. @return false: there is no memory now */
static bool fetch(struct gate_conn *conn, struct conn_message *message)
{
	const struct serve_plan *plan = &message->plan;
	struct rdma_piece *pieces = calloc(plan->num_transfers + 1, sizeof(*pieces));
	message->block = gate_conn_block(conn, BLOCK_OWN, plan->len);
	if (!message->block || !pieces) {
		block_put(message->block);
		message->block = NULL;
		free(pieces);
		return false;
	}
	serve_build_request(plan, message->bytes, message->block->bytes);
	free(message->bytes);
	message->bytes = NULL;
	for (size_t i = 0; i < plan->num_transfers; i++)
		pieces[i] = (struct rdma_piece){ plan->transfers[i].at, plan->transfers[i].remote };
	message->ready = plan->num_transfers == 0;
	if (!message->ready &&
	    rdma_read(conn->rdma, message->block, pieces, plan->num_transfers, message) < 0)
		gate_conn_end(conn, true, "its data cannot be fetched");
	free(pieces);
	return true;
}

/* Start what can be started, in order. @return false: a message waits for memory */
static bool start_all(struct gate_conn *conn)
{
	struct conn_message *message;
	DL_FOREACH (conn->to_server, message) {
		if (message->ready || message->block)
			continue;
		if (!fetch(conn, message))
			return false;
	}
	return true;
}

static void pass(struct gate_conn *conn, struct conn_message *message)
{
	if (message->block) {
		gate_conn_write_block(conn, NULL, 0, message->block, 0, message->plan.len);
		message->block = NULL;
	} else {
		gate_conn_write(conn, message->bytes, message->len);
	}
	free_message(conn, message);
}

void gate_conn_serve_go_on(struct gate_conn *conn)
{
	if (!conn->serve || conn->state == SMBGATE_ENDED)
		return;
	bool hungry = !start_all(conn);
	while (conn->to_server && conn->to_server->ready && conn->state != SMBGATE_ENDED)
		pass(conn, conn->to_server);
	gate_conn_balance(conn, hungry);
}

void gate_conn_serve_fetched(struct gate_conn *conn, struct conn_message *message)
{
	message->ready = true;
	gate_conn_serve_go_on(conn);
}

void gate_conn_serve_from_rdma(struct gate_conn *conn, const uint8_t *data, size_t len)
{
	struct conn_message *message = calloc(1, sizeof(*message));
	if (message)
		message->bytes = malloc(len);
	if (!message || !message->bytes ||
	    serve_request(conn->serve, data, len, &message->plan) < 0) {
		if (message)
			free(message->bytes);
		free(message);
		gate_conn_end(conn, true, "there is no memory for a message");
		return;
	}
	memcpy(message->bytes, data, len);
	message->len = len;
	message->ready = message->plan.untouched;
	conn->channels_served += message->plan.num_transfers > 0;
	conn->channels_refused += message->plan.num_refused;
	DL_APPEND(conn->to_server, message);
	gate_conn_serve_go_on(conn);
}

/* ---- responses */

/* Data that may have to be written by RDMA are in a block from the beginning. */
uint8_t *gate_conn_serve_room(struct gate_conn *conn, size_t len)
{
	if (serve_expects_data(conn->serve)) {
		conn->block = gate_conn_block(conn, BLOCK_OWN, len);
		return conn->block ? conn->block->bytes : NULL;
	}
	conn->plain = malloc(len);
	if (!conn->plain)
		gate_conn_end(conn, true, "there is no memory for a message");
	return conn->plain;
}

static void send_copy(struct gate_conn *conn, const uint8_t *bytes, size_t len,
		      const uint32_t *token)
{
	uint8_t *copy = malloc(len);
	if (!copy) {
		gate_conn_end(conn, true, "there is no memory for a message");
		return;
	}
	memcpy(copy, bytes, len);
	gate_conn_send(conn, copy, len, token);
}

static bool write_data(struct gate_conn *conn, struct block *block, const struct serve_plan *plan)
{
	struct rdma_piece *pieces = calloc(plan->num_transfers + 1, sizeof(*pieces));
	if (!pieces)
		return false;
	for (size_t i = 0; i < plan->num_transfers; i++)
		pieces[i] = (struct rdma_piece){ plan->transfers[i].at, plan->transfers[i].remote };
	bool written = plan->num_transfers == 0 ||
		       rdma_write(conn->rdma, block, pieces, plan->num_transfers, NULL) == 0;
	free(pieces);
	return written;
}

/* Write the data, then send the response without them. */
static void answer(struct gate_conn *conn, struct block *block, const struct serve_plan *plan)
{
	uint8_t *response = malloc(plan->len);
	if (!response || !write_data(conn, block, plan)) {
		free(response);
		gate_conn_end(conn, true, "there is no memory for a message");
		return;
	}
	serve_build_response(plan, block->bytes, response);
	conn->channels_served++;
	gate_conn_send(conn, response, plan->len, plan->invalidate ? &plan->token : NULL);
}

/* A response in plain memory, without data that go by RDMA. */
static void pass_plain(struct gate_conn *conn, uint8_t *plain, size_t len,
		       const struct serve_plan *plan)
{
	if (plan->untouched) {
		gate_conn_send(conn, plain, len, plan->invalidate ? &plan->token : NULL);
		return;
	}
	free(plain);
	gate_conn_end(conn, true, "the server has answered what it was not asked for");
}

static void pass_block(struct gate_conn *conn, struct block *block, size_t len,
		       const struct serve_plan *plan)
{
	if (plan->untouched)
		send_copy(conn, block->bytes, len, plan->invalidate ? &plan->token : NULL);
	else
		answer(conn, block, plan);
	block_put(block);
}

void gate_conn_serve_from_tcp(struct gate_conn *conn, size_t len)
{
	struct block *block = conn->block;
	uint8_t *plain = conn->plain;
	struct serve_plan plan;
	conn->block = NULL;
	conn->plain = NULL;
	int error = serve_response(conn->serve, block ? block->bytes : plain, len, &plan);
	if (error) {
		block_put(block);
		free(plain);
		gate_conn_end(conn, true, "the server has answered with more data than asked for");
		return;
	}
	if (block)
		pass_block(conn, block, len, &plan);
	else
		pass_plain(conn, plain, len, &plan);
	serve_plan_clear(&plan);
}
