/* SPDX-License-Identifier: MIT */
/**
 * @file serve.h
 * RDMA channels of clients, for a server that only knows TCP (the gateway's server side).
 *
 * A client of SMB Direct names its memory in READ and WRITE requests (a channel), and does not ask
 * whether the server can do that. So for a WRITE the client's data are fetched by RDMA and put into
 * the request, and for a READ the data are taken out of the response and written into the client's
 * memory. Messages that are signed or encrypted have no channel, and pass untouched.
 *
 * All here only computes: the caller moves the bytes. The order of calls: serve_request(),
 * serve_build_request(), the RDMA READs that it names; serve_response(), the RDMA WRITEs that it
 * names, serve_build_response() for what is sent behind them.
 */
#ifndef SMCRD_SMBGATE_SERVE_H
#define SMCRD_SMBGATE_SERVE_H

#include "daemon/smbgate/compound.h"
#include "proto/smbdirect/smbdirect.h"

/** Descriptors that one request may have; with more it is refused. */
#define SERVE_DESCRIPTORS 16
/** Requests with a channel whose response is due; with more they are refused. */
#define SERVE_PENDING_MOST 8192

struct serve;

struct serve_config {
	uint32_t max_read_write_size; /* bytes that one request may move by RDMA (SMBD-154) */
	size_t max_message; /* bytes that a message to the server may have with its data */
};

/** Bytes that go between the client's memory and a message. */
struct serve_transfer {
	size_t at; /* of the request that is built; of the response that has come */
	struct smbdirect_descriptor remote;
};

/** How a message has to be changed. To be freed with serve_plan_clear(). */
struct serve_plan {
	bool untouched; /* the message passes as it is */
	size_t len;     /* bytes of the message that is built */
	/** Transfers, in the order of their bytes. */
	struct serve_transfer *transfers;
	size_t num_transfers;
	/** Of a response: invalidate this token of the client with the SEND. */
	bool invalidate;
	uint32_t token;
	size_t num_refused; /* requests that the server will refuse, because their channel is wrong
			     */

	struct serve_part *parts; /* for the builders alone */
	size_t num_parts;
};

int serve_new(const struct serve_config *config, struct serve **ret_serve);
void serve_free(struct serve *serve);
/** How many requests wait for their response: READs with a channel, and those whose response has to
 * invalidate a token. */
size_t serve_pending(const struct serve *serve);
/** May the next response have data that go by RDMA? */
bool serve_expects_data(const struct serve *serve);

/**
 * Look at a message of the client, and remember its requests with a channel.
 * @return 0; -ENOMEM. A message that is not understood passes untouched.
 */
int serve_request(struct serve *serve, const uint8_t *buf, size_t len, struct serve_plan *ret_plan);
/** Write what the server gets into `out`, plan->len bytes; the bytes of transfers are left alone.
 */
void serve_build_request(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out);

/**
 * Look at a message of the server, and forget the requests that it answers.
 * @return 0; -ENOMEM; -EPROTO: more data than were asked for, so the connection cannot go on
 */
int serve_response(struct serve *serve, const uint8_t *buf, size_t len,
		   struct serve_plan *ret_plan);
/** Write what the client gets into `out`, plan->len bytes. */
void serve_build_response(const struct serve_plan *plan, const uint8_t *buf, uint8_t *out);

void serve_plan_clear(struct serve_plan *plan);

#endif
