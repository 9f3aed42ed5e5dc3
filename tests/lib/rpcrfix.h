/* SPDX-License-Identifier: MIT */
/**
 * @file rpcrfix.h
 * For tests of daemon/rpcrdma: an owner of one connection that records what the connection does. A
 * test sends it messages as a peer would, or joins two of them.
 */
#ifndef SMCRD_TESTS_RPCRFIX_H
#define SMCRD_TESTS_RPCRFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/rpcrdma/transport.h"

#define RPCRFIX_MOST 8192

/** A SEND that the connection has made. */
struct rpcrfix_sent {
	uint8_t *bytes;
	size_t len;
	bool has_handle;
	uint32_t handle;
};

/** An RPC message that was handed to the user; `payload` is a copy. */
struct rpcrfix_message {
	unsigned int times;
	uint32_t xid;
	bool has_payload, invalidated;
	uint8_t *payload;
	size_t len;
	struct rpcrdma_lists lists;
};

struct rpcrfix {
	struct rpcr *rpcr;
	enum rpcr_side side;
	uint64_t now;
	uint32_t posted, posted_size, post_room;
	struct rpcrfix_sent sent[RPCRFIX_MOST];
	size_t num_sent, taken;
	size_t send_room;
	int send_error;

	unsigned int established, ended, failed;
	enum rpcr_end end;
	bool end_send_first;
	struct rpcrfix_message called, replied; /* the last ones */
	void *cookie;                           /* of the last Reply or failure */
	enum rpcr_failure why;
	struct rpcrdma_error error; /* code 0: none */
	bool echo;                  /* answer each Call with a Reply of the same length */
};

void rpcrfix_new(struct rpcrfix *fix, const struct rpcr_config *config, enum rpcr_side side);
void rpcrfix_free(struct rpcrfix *fix);
/** Make one that is established; the peer is the test, has these properties (NULL: the defaults,
 * reverse CONTINUED) and has granted so many credits. */
void rpcrfix_establish(struct rpcrfix *fix, const struct rpcr_config *config, enum rpcr_side side,
		       const struct rpcrdma_properties *peer, uint16_t granted);
/** Make two, connect and join them. */
void rpcrfix_join(struct rpcrfix *client, const struct rpcr_config *client_config,
		  struct rpcrfix *server, const struct rpcr_config *server_config);
/** Deliver messages between two until neither sends any more. */
void rpcrfix_pump(struct rpcrfix *a, struct rpcrfix *b);

/** The test sends these bytes. */
void rpcrfix_get(struct rpcrfix *fix, const void *bytes, size_t len, const uint32_t *handle);
/** The same, in hexadecimal. */
void rpcrfix_get_hex(struct rpcrfix *fix, const char *text);
/** An MSG or NOMSG with these lists (NULL: none) and a payload of `len` bytes: an RPC message with
 * that XID, or the bytes of one from `from` on. Grants 1. */
void rpcrfix_get_rpc(struct rpcrfix *fix, uint32_t type, uint32_t flags, uint32_t xid,
		     const struct rpcrdma_lists *lists, size_t from, size_t len);
void rpcrfix_get_properties(struct rpcrfix *fix, const struct rpcrdma_properties *properties,
			    uint32_t flags, uint16_t granted);
/** The next SEND that the test has not seen; fails if there is none. */
const struct rpcrfix_sent *rpcrfix_next(struct rpcrfix *fix);
struct rpcrdma_prefix rpcrfix_next_prefix(struct rpcrfix *fix);
/** The next SEND is this ERROR. */
void rpcrfix_expect_error(struct rpcrfix *fix, uint32_t xid, uint32_t code, uint32_t first,
			  uint32_t second);
bool rpcrfix_is_silent(const struct rpcrfix *fix);

/** Fill with an RPC message: its XID, its type, then a pattern. */
void rpcrfix_fill(uint8_t *bytes, size_t len, uint32_t xid, bool reply);
/** Call, or reply, with `len` bytes of it. @return of rpcr_call(), rpcr_reply() */
int rpcrfix_call(struct rpcrfix *fix, uint32_t xid, size_t len, const struct rpcrdma_lists *lists);
int rpcrfix_reply(struct rpcrfix *fix, uint32_t xid, size_t len, const struct rpcr_used *used);
/** Is it that message? */
void rpcrfix_expect(const struct rpcrfix_message *message, uint32_t xid, size_t len, bool reply);
struct rpcr_view rpcrfix_view(const struct rpcrfix *fix);
/** Number of receives that are posted, by the counters: all but the spare one (RR2-51). */
void rpcrfix_check(const struct rpcrfix *fix);

/** Lists with one Read segment (if `read`), a Write chunk of two segments, and a Reply chunk. */
struct rpcrdma_lists rpcrfix_lists(uint32_t position, uint32_t read, uint32_t write,
				   uint32_t reply);

#endif
