/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * A connection of RPC-over-RDMA, by subject:
 *
 *   transport.c  begin and end, what happens, timers
 *   negotiate.c  versions and properties: the first messages
 *   credits.c    how many receives are posted and granted
 *   send.c       the queue of messages, cut into parts
 *   receive.c    messages that come: type, flags, parts
 *   requester.c  Calls of this side, and their Replies
 *   responder.c  Calls of the peer, and our Replies
 *   errors.c     ERROR messages
 *   config.c     what may be configured
 *   chunks.c     where data goes in chunks
 *   version1.c   what is different in version 1
 */
#ifndef SMCRD_RPCRDMA_INTERNAL_H
#define SMCRD_RPCRDMA_INTERNAL_H

#include "daemon/rpcrdma/transport.h"
#include "proto/rpcrdma/rpcrdma.h"

/** A message in the queue, with what it needs of an RPC message. */
struct rpcr_out {
	uint32_t xid, version, type, flags;
	uint8_t *body; /* encoded lists, error or properties */
	size_t body_len;
	uint8_t *payload;
	size_t len, sent;
	bool has_handle;
	uint32_t handle; /* to be invalidated with the last part */
	struct rpcr_out *prev, *next;
};

/** A Call that waits for its Reply: ours at the Requester, the peer's at the Responder. */
struct rpcr_wait {
	uint32_t xid;
	void *cookie;
	struct rpcrdma_lists lists;
	struct rpcr_wait *prev, *next;
};

/** An RPC message, or a list of properties, that has come in part. */
struct rpcr_join {
	bool open;    /* parts have come, and more will */
	bool discard; /* the rest of this one is not wanted (RR2-132) */
	uint32_t xid, type, flags;
	uint8_t *data;
	size_t len, room;
};

struct rpcr {
	struct rpcr_config config; /* defaults put in */
	const struct rpcr_ops *ops;
	void *ctx;
	enum rpcr_side side;
	enum rpcr_state state;
	enum rpcr_end end;
	bool connected;
	unsigned int depth; /* calls of the owner under way: sends wait until the outermost ends */
	bool send_due;
	uint64_t now, deadline; /* 0: none */

	uint32_t version; /* 0: not chosen */
	bool peer_done;   /* its last CONNPROP has come, or there is none (RR2-80) */
	uint32_t connprop_xid;
	size_t property_bytes;
	struct rpcrdma_properties peer;

	/* Credits (RR2-51). */
	uint32_t rx_new, rx_out, rx_cap, tx;
	/* Credits of version 1: Calls that are out, and may be (RR2-195). */
	uint32_t v1_out, v1_grant;

	struct rpcr_out *queue; /* in their order (RR2-18) */
	unsigned int queued_errors;
	struct rpcr_join join;
	struct rpcr_wait *calls, *served;
	uint32_t num_calls, num_served;

	uint8_t *early; /* a message that came before rpcr_connected() */
	size_t early_len;
	struct rpcr_view count; /* of which only the counters are used */
};

/* ---- config.c */

/** Put defaults in the place of zeros. */
void rpcr_config_fill(struct rpcr_config *config);

/* ---- transport.c */

/** End the connection. Only the first call counts. */
void rpcr_end_with(struct rpcr *rpcr, enum rpcr_end end);
/** The same, behind what was sent before. */
void rpcr_end_behind_sends(struct rpcr *rpcr, enum rpcr_end end);
/** A call of the owner begins, and ends: what it queued is sent then. */
void rpcr_enter(struct rpcr *rpcr, uint64_t now);
void rpcr_leave(struct rpcr *rpcr);
/** Both sides have told their properties (RR2-41). */
void rpcr_established(struct rpcr *rpcr);

/* ---- negotiate.c */

void rpcr_send_properties(struct rpcr *rpcr);
/** A message has come before a version was chosen. @return false: it is dealt with */
bool rpcr_choose_version(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
			 const uint8_t *data, size_t len);
/** A whole CONNPROP, behind its prefix. */
void rpcr_got_properties(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
			 const uint8_t *data, size_t len);
/** Length of the longest message that may be sent (RR2-59). */
uint32_t rpcr_threshold(const struct rpcr *rpcr);

/* ---- credits.c */

/** Post the first receives (RR2-52). @return false: they could not be */
bool rpcr_start_credits(struct rpcr *rpcr);
/** A message has come: take its credits, and post its receive again (RR2-54).
 * @param prefix  NULL: a message of which nothing can be said
 * @return false: the connection has ended */
bool rpcr_take_credits(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix, bool credit_only);
/** The credit word of the next message (RR2-53). */
uint32_t rpcr_next_credit(struct rpcr *rpcr);
/** It was sent. */
void rpcr_note_credit(struct rpcr *rpcr, bool credit_only);
/** Has a message to go only to grant credits? (RR2-56) */
bool rpcr_grant_is_due(const struct rpcr *rpcr);

/* ---- version1.c */

/** Calls of the other direction that may be out at one time. */
#define RPCR_V1_REVERSE 2

/** The version is chosen. */
void rpcr_speak_version_1(struct rpcr *rpcr);
/** The credit word of a message. */
uint32_t rpcr_v1_credit(const struct rpcr *rpcr, const struct rpcr_out *out);
/** May another Call go? */
bool rpcr_v1_may_call(const struct rpcr *rpcr);
/** The only handle in the lists of a Call; 0: there is none, or more than one. */
uint32_t rpcr_only_handle(const struct rpcrdma_lists *lists);
void rpcr_v1_got_message(struct rpcr *rpcr, struct rpcrdma_prefix *prefix, const uint8_t *data,
			 size_t len, const uint32_t *handle);

/* ---- send.c */

/** Append a message. Of `out`, all but the links is copied, and the payload too. @return 0; -ENOMEM
 */
int rpcr_queue(struct rpcr *rpcr, const struct rpcr_out *out);
/** Send what can be sent. */
void rpcr_run_sends(struct rpcr *rpcr);
void rpcr_free_queue(struct rpcr *rpcr);
/** Can an RPC message of this length go with these encoded lists, in so many parts as may be? */
bool rpcr_can_send(const struct rpcr *rpcr, size_t lists_len, size_t len, bool may_continue);

/* ---- receive.c */

void rpcr_got_message(struct rpcr *rpcr, const uint8_t *data, size_t len, const uint32_t *handle);

/* ---- requester.c */

struct rpcr_wait *rpcr_find(struct rpcr_wait *list, uint32_t xid);
/** Does an encoded handle stand in these lists? */
bool rpcr_has_handle(const struct rpcrdma_lists *lists, uint32_t handle);
/** A Reply, whole. */
void rpcr_got_reply(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
		    const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len,
		    const uint32_t *handle);
/** The Call with this XID, if there is one, has failed. */
void rpcr_fail_call(struct rpcr *rpcr, uint32_t xid, enum rpcr_failure why,
		    const struct rpcrdma_error *error);
void rpcr_fail_all(struct rpcr *rpcr);

/* ---- responder.c */

/** A Call, whole. */
void rpcr_got_call(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix,
		   const struct rpcrdma_lists *lists, const uint8_t *payload, size_t len);
void rpcr_free_served(struct rpcr *rpcr);

/* ---- errors.c */

/** Answer a message with an ERROR, unless it is one itself (RR2-150). */
void rpcr_send_error(struct rpcr *rpcr, const struct rpcrdma_prefix *about,
		     const struct rpcrdma_error *error);
/** A message that carries, or should carry, an RPC message breaks a rule: a Responder answers, a
 * Requester fails the Call (RR2-152). */
void rpcr_fault(struct rpcr *rpcr, const struct rpcrdma_prefix *about, uint32_t code);
void rpcr_got_error(struct rpcr *rpcr, const struct rpcrdma_prefix *prefix, const uint8_t *data,
		    size_t len);

#endif
