/* SPDX-License-Identifier: MIT */
/**
 * @file offer.h
 * RDMA channels for a client that only knows TCP (the gateway's client side).
 *
 * The client's READ and WRITE requests have their data in messages. A server of SMB Direct takes
 * messages up to a size that may be far below what the client sends (Linux's ksmbd: 173,910 bytes),
 * and moves more by RDMA. So the data of large requests stay in this host's memory, whose token the
 * request gets as a channel, and data that the server has written there are put into the response.
 * Compounds, and messages that are signed or encrypted, pass untouched; so does everything of
 * dialects before SMB 3.0, which know no channels.
 *
 * All here only computes: the caller has the memory and moves the bytes.
 */
#ifndef SMCRD_SMBGATE_OFFER_H
#define SMCRD_SMBGATE_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/smbdirect/smbdirect.h"

struct offer;

struct offer_config {
	uint32_t least;               /* bytes of a request that gets a channel */
	uint32_t max_read_write_size; /* and the most, as the server has told (SMBD-73) */
};

enum offer_what {
	OFFER_NOTHING, /* the request passes */
	OFFER_READ,    /* memory that the server writes */
	OFFER_WRITE,   /* memory that the server reads */
};

struct offer_plan {
	enum offer_what what;
	uint64_t message_id;
	size_t data_at;  /* of a WRITE: where its data begin */
	uint32_t length; /* bytes of the memory */
	size_t len;      /* bytes of the request that is built */
};

int offer_new(const struct offer_config *config, struct offer **ret_offer);
/** Free it. @param release  called for the memory of each request whose response is due */
void offer_free(struct offer *offer, void (*release)(void *ctx, void *memory), void *ctx);
/** How many requests with a channel wait for their response. */
size_t offer_pending(const struct offer *offer);

/** Look at a request of the client. */
void offer_request(const struct offer *offer, const uint8_t *buf, size_t len,
		   struct offer_plan *ret_plan);
/**
 * Write the request with a channel into `out`, plan->len bytes, and remember it.
 * @param memory  what offer_response() gives back
 * @return 0; -ENOMEM
 */
int offer_build_request(struct offer *offer, const struct offer_plan *plan, const uint8_t *buf,
			const struct smbdirect_descriptor *descriptor, void *memory, uint8_t *out);

struct offer_answer {
	void *memory;    /* of the request that is answered; NULL: the message passes */
	uint32_t length; /* bytes of the memory that follow the head; 0: the message passes */
};

/** Bytes of the head of a response, in front of its data. */
#define OFFER_HEAD_LEN 80

/**
 * Look at a message of the server, and forget the request that it answers.
 * @return 0; -EPROTO: the server says that it has written more than there was room for
 */
int offer_response(struct offer *offer, const uint8_t *buf, size_t len,
		   struct offer_answer *ret_answer);
/** Write the head of the response that the client gets; answer->length bytes of data follow. */
void offer_build_head(const struct offer_answer *answer, const uint8_t *buf,
		      uint8_t out[OFFER_HEAD_LEN]);

#endif
