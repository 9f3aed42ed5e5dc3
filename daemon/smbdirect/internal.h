/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * A connection of SMB Direct, by subject:
 *
 *   transport.c    begin and end, what happens, timers
 *   negotiate.c    Negotiate Request and Response
 *   credits.c      how many receives are posted and granted
 *   send.c         the queue of upper messages, cut into fragments
 *   receive.c      Data Transfer messages, put together again
 *   config.c       what may be configured
 *   descriptors.c  where in a list of Buffer Descriptors a transfer goes
 */
#ifndef SMCRD_SMBDIRECT_INTERNAL_H
#define SMCRD_SMBDIRECT_INTERNAL_H

#include "daemon/smbdirect/transport.h"
#include "proto/smbdirect/smbdirect.h"

/** Whether the peer was asked for a message because of its silence (SMBD-19). */
enum smbd_keepalive {
	SMBD_KEEPALIVE_NONE,
	SMBD_KEEPALIVE_PENDING, /* the next message that is sent asks */
	SMBD_KEEPALIVE_SENT,    /* it has asked, and nothing has come since */
};

/** An upper message in the queue. Empty: none, but a message of SMB Direct without payload. */
struct smbd_upper {
	uint8_t *data;
	size_t len, sent;
	bool has_token;
	uint32_t token;
	struct smbd_upper *prev, *next;
};

struct smbd {
	struct smbd_config config; /* defaults put in */
	const struct smbd_ops *ops;
	void *ctx;

	enum smbd_role role; /* SMBD-18 */
	enum smbd_end end;
	uint32_t status;
	bool connected;
	unsigned int depth; /* calls of the owner under way: sends wait until the outermost ends */
	bool send_due;      /* the send routine has to run then */
	bool held;          /* no receives are posted */
	uint64_t now;

	/* Sizes: what was configured, and is reduced by negotiation (SMBD-14, SMBD-21). */
	uint32_t max_send_size, max_fragmented_send_size;
	uint32_t max_receive_size, max_read_write_size;

	/* Credits, in more bits than their sums can need (SMBD-24). */
	uint32_t send_credits;    /* how many messages may be sent */
	uint32_t receive_target;  /* how many the peer wants to have */
	uint32_t receive_credits; /* receives that are posted */
	uint32_t pending_grant;   /* of these, the peer has not been told yet (SMBD-22) */

	/* Sending. */
	struct smbd_upper *queue; /* in their order (SMBD-20) */
	uint64_t queued_bytes;
	bool send_immediate; /* a message has to go, if need be an empty one */

	/* Receiving: the upper message that has come in part. */
	uint8_t *reassembly;
	size_t reassembled, reassembly_room;
	bool in_sequence;
	uint32_t remaining; /* bytes that are still to come */
	bool invalidated;
	uint32_t invalidated_token;
	uint8_t early[SMBD_NEGOTIATE_SIZE]; /* a Request that came before smbd_connected() */
	size_t early_len;
	bool early_there;

	/* Timers: 0 is none. */
	uint64_t negotiation_deadline, idle_deadline;
	enum smbd_keepalive keepalive;

	struct smbd_view count; /* of which only the counters are used */
};

/* ---- transport.c */

/** End the connection (SMBD-141). Only the first call counts. */
void smbd_end_with(struct smbd *smbd, enum smbd_end end);
/** The same, behind what was sent before (SMBD-42). */
void smbd_end_behind_sends(struct smbd *smbd, enum smbd_end end);
/** Negotiation has succeeded (SMBD-59, SMBD-75). */
void smbd_established(struct smbd *smbd);

/* ---- negotiate.c */

/** Send the Request: the first message of the active side. */
void smbd_send_request(struct smbd *smbd);
void smbd_got_request(struct smbd *smbd, const uint8_t *buf, size_t len);
void smbd_got_response(struct smbd *smbd, const uint8_t *buf, size_t len);

/* ---- credits.c */

/** The credits that the peer is to have now: what it wants, within what this side gives. */
uint32_t smbd_grant_target(const struct smbd *smbd);
/** Post receives if there are too few, and note them in pending_grant (MS-SMBD 3.1.5.9). */
void smbd_refill(struct smbd *smbd);
/** Has a message to go only to grant credits? (SMBD-173) */
bool smbd_grant_is_due(const struct smbd *smbd);

/* ---- send.c */

/** Append a message without payload, if nothing is queued. */
void smbd_queue_empty(struct smbd *smbd);
/** Send what can be sent (MS-SMBD 3.1.5.1). */
void smbd_run_sends(struct smbd *smbd);
void smbd_free_queue(struct smbd *smbd);

/* ---- receive.c */

void smbd_got_data(struct smbd *smbd, const uint8_t *buf, size_t len, const uint32_t *token);

#endif
