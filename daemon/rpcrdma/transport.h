/* SPDX-License-Identifier: MIT */
/**
 * @file transport.h
 * RPC-over-RDMA (docs/rpcrdma-readings.md) as a machine without I/O: one connection, both
 * directions, versions 1 and 2. What happens is told to it by calls, with the time; it answers by
 * the operations of its owner.
 *
 * The owner has a queue pair, memory, and a user above, who has RPC messages. The machine sends and
 * takes messages. RDMA READs and WRITEs are the owner's business (RR2-6): it gives lists of chunks
 * with its Calls and gets those of the peer's Calls, transfers the data, and tells with the Reply
 * how many bytes it has written. chunks.h has the arithmetic for that. Calls in their order:
 *
 *   both: rpcr_new(), then connect or accept; rpcr_connected()     -> established
 *   rpcr_call()                                                    -> replied or failed
 *   called: data of its Read chunks is fetched, it is served, results are written to its Write
 *           chunks, then rpcr_reply(), or rpcr_refuse()
 *   rpcr_close(), or the peer goes                                 -> ended; rpcr_free()
 *
 * rpcr_new() posts receives, so it comes before the queue pair can get anything.
 *
 * Threads: all calls for a connection come from one thread. Operations are called inside calls. An
 * operation may call rpcr_call(), rpcr_reply(), rpcr_refuse(), rpcr_close() and functions that only
 * read; not rpcr_free(). Times are microseconds of any clock that only goes on.
 */
#ifndef SMCRD_RPCRDMA_TRANSPORT_H
#define SMCRD_RPCRDMA_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/rpcrdma/rpcrdma.h"

struct rpcr;

enum rpcr_side {
	RPCR_CLIENT, /* who has connected */
	RPCR_SERVER,
};

enum rpcr_state {
	RPCR_WAITING, /* for the first messages */
	RPCR_ESTABLISHED,
	RPCR_GONE, /* `ended` was called */
};

/** 0: the default in brackets. */
struct rpcr_config {
	uint32_t receives;      /* kept posted, 1..65535 (32); without the spare one */
	uint32_t send_size;     /* bytes of the longest SEND, 128..1048576 (4096) */
	uint32_t receive_size;  /* bytes of a receive, likewise (4096) */
	uint32_t segment_size;  /* bytes of the longest segment (1048576) */
	uint32_t segment_count; /* most segments in a header, up to 64 (16) */
	uint32_t most_reads;    /* Read chunks that a Call may have (16) */
	uint32_t most_writes;   /* Write chunks, up to 32 (16) */
	uint32_t most_calls;    /* of the peer that are served at one time (128) */
	uint32_t most_joined;   /* bytes of an RPC message in many parts (1048576) */
	uint64_t answer_us;     /* until a server has answered the first message (30 s) */
	/** What this side does for Calls in the reverse direction; of a client. */
	enum rpcrdma_reverse reverse;
	bool invalidates; /* SEND with Invalidate can be sent and received (RR2-9) */
	/** Speak version 1 with who speaks that: a server if the first message is of it (RR2-200),
	 * a client if the server answers so. Private data goes along when it connects all the same
	 * (RR2-198). */
	bool version_1;
	uint32_t v1_send_size; /* rpcr_v1_send_size() (1024) */
	bool v1_invalidates;   /* the peer's private data says that it takes them */
};

/** Why a connection has ended. */
enum rpcr_end {
	RPCR_END_NONE,
	RPCR_END_CLOSED,    /* rpcr_close() */
	RPCR_END_LOST,      /* the queue pair has failed, or the peer has disconnected */
	RPCR_END_SILENT,    /* the server did not answer the first message */
	RPCR_END_VERSION,   /* no common version */
	RPCR_END_PROPERTY,  /* a property with a bad value, ours or the peer's */
	RPCR_END_CREDITS,   /* a message for which there was no credit [X32] */
	RPCR_END_HANDLE,    /* a handle was invalidated that was not offered */
	RPCR_END_FLOOD,     /* more errors or properties than there can be use for */
	RPCR_END_RESOURCES, /* no receive could be posted, or no memory */
};

/** Why a Call of this side has failed. */
enum rpcr_failure {
	RPCR_FAILED_ERROR, /* the peer has answered with an ERROR */
	RPCR_FAILED_REPLY, /* its Reply breaks a rule */
	RPCR_FAILED_LOST,  /* the connection has ended */
};

/** An RPC message that has come. Everything is valid until the operation returns. */
struct rpcr_message {
	uint32_t xid;
	const uint8_t *payload; /* what is left of it beside the chunks; NULL: all is in a chunk */
	size_t len;
	const struct rpcrdma_lists *lists;
	bool invalidated; /* of a Reply: the handle that was offered is invalid now (RR2-117) */
};

/** Operations of the owner; all are required. */
struct rpcr_ops {
	/** Post up to `n` receives of `size` bytes each. @return how many were posted */
	uint32_t (*post_receives)(void *ctx, uint32_t n, uint32_t size);
	/**
	 * Send one message: head and payload, which the owner copies before it returns.
	 * @param handle  to be invalidated with the SEND; NULL: none
	 * @return 0; -EAGAIN: no room, call rpcr_sent() when there is; another negative errno: the
	 *         connection is lost
	 */
	int (*send)(void *ctx, const uint8_t *head, size_t head_len, const uint8_t *payload,
		    size_t len, const uint32_t *handle);
	/** Calls may be made from now on. */
	void (*established)(void *ctx);
	/** The peer calls. It waits for rpcr_reply() or rpcr_refuse() with the same XID. */
	void (*called)(void *ctx, const struct rpcr_message *call);
	/** The Reply to a Call has come. Memory that was offered may be taken back, once it is
	 * invalid (RR2-105, RR2-180). */
	void (*replied)(void *ctx, void *cookie, const struct rpcr_message *reply);
	/** A Call has failed. @param error  what the peer has said; NULL: nothing */
	void (*failed)(void *ctx, void *cookie, enum rpcr_failure why,
		       const struct rpcrdma_error *error);
	/** The last operation. @param send_first  let what was sent leave before */
	void (*ended)(void *ctx, enum rpcr_end end, bool send_first);
};

/** What was agreed, and where the connection stands. */
struct rpcr_view {
	enum rpcr_state state;
	enum rpcr_end end;
	uint32_t version; /* 0: not chosen yet */
	uint32_t send_threshold, receive_threshold;
	struct rpcrdma_properties peer; /* without `hostauth` */
	/** Version 2 (RR2-51): receives posted and not granted, granted and not used, most that are
	 * ever granted, messages that may be sent. */
	uint32_t new_credits, out_credits, credit_limit, send_credits;
	uint32_t calls, served; /* Calls that wait: ours, and the peer's */
	uint64_t sent, received, grants_sent, errors_sent, errors_received, dropped;
};

/** Is the configuration one that can work? @return 0; -EINVAL with a sentence in `*ret_why` (static
 * storage) */
int rpcr_config_check(const struct rpcr_config *config, const char **ret_why);

/** Bytes of the longest message of version 1 that this side sends, by the private data of both;
 * NULL: there was none. */
uint32_t rpcr_v1_send_size(const struct rpcrdma_private *ours,
			   const struct rpcrdma_private *theirs);

/** Make a connection, and post its receives. @return 0; -EINVAL: rpcr_config_check(); -ENOMEM;
 * -ENOBUFS: the receives could not be posted */
int rpcr_new(const struct rpcr_config *config, enum rpcr_side side, const struct rpcr_ops *ops,
	     void *ctx, uint64_t now, struct rpcr **ret_rpcr);
/** Free it, without any operation. NULL is allowed. */
void rpcr_free(struct rpcr *rpcr);

/** The queue pair is connected. A message of the peer may have come already. */
void rpcr_connected(struct rpcr *rpcr, uint64_t now);
/** The message of a receive has come. `handle`: what it has invalidated, or NULL. */
void rpcr_received(struct rpcr *rpcr, const uint8_t *data, size_t len, const uint32_t *handle,
		   uint64_t now);
/** There is room for a SEND again. */
void rpcr_sent(struct rpcr *rpcr, uint64_t now);
/** The queue pair has failed, or the peer has disconnected. */
void rpcr_lost(struct rpcr *rpcr, uint64_t now);
/** Time has passed. @return when to call again, at the latest; UINT64_MAX: never */
uint64_t rpcr_timer(struct rpcr *rpcr, uint64_t now);
/** End the connection now. `ended` is called. */
void rpcr_close(struct rpcr *rpcr);

/**
 * Call the peer. In version 1 nothing says whether a server may: its user has to know from the
 * protocol above (RR2-202).
 * @param payload  an RPC Call without what is in Read chunks, which is copied; NULL: all of it is
 *                 in a Read chunk with position 0 (RR2-120)
 * @param xid      its XID, which no other Call that waits has (RR2-26)
 * @param lists    memory that is offered, each Write and Reply chunk as long as the longest result
 *                 (RR2-107, RR2-123); NULL: none
 * @return 0; -ENOTCONN: not established; -EOPNOTSUPP: not in this direction; -EINVAL: not a Call
 *         with that XID, or lists that the peer does not take; -EEXIST: the XID is in use;
 *         -EMSGSIZE: too long for this peer, make a Read chunk of it; -ENOMEM
 */
int rpcr_call(struct rpcr *rpcr, uint32_t xid, const uint8_t *payload, size_t len,
	      const struct rpcrdma_lists *lists, void *cookie, uint64_t now);

/** What a Reply used of the Call's chunks. */
struct rpcr_used {
	/** Bytes that were written to each Write chunk (RR2-109), as many as the Call has; NULL: to
	 * none */
	const uint32_t *writes;
	uint32_t reply; /* bytes of the payload that were written to the Reply chunk */
};

/** How a Reply of so many bytes, beside what went to Write chunks, has to go. */
enum rpcr_way {
	RPCR_INLINE,      /* by rpcr_reply() */
	RPCR_REPLY_CHUNK, /* into the Reply chunk, then rpcr_reply() without payload (RR2-121) */
	RPCR_NO_WAY,      /* by rpcr_refuse(), RPCRDMA_ERR_REPLY_RESOURCE (RR2-88) */
};
enum rpcr_way rpcr_reply_way(const struct rpcr *rpcr, uint32_t xid, size_t len);
/**
 * Answer a Call, after its results were written (RR2-84).
 * @param payload  copied; NULL: all of it is in the Reply chunk
 * @param used     NULL: no chunk was used
 * @return 0; -ENOENT: no such Call waits, or the connection has ended; -EINVAL: not a Reply, or
 * more than the chunks hold; -EMSGSIZE: rpcr_reply_way() says so; -ENOMEM
 */
int rpcr_reply(struct rpcr *rpcr, uint32_t xid, const uint8_t *payload, size_t len,
	       const struct rpcr_used *used, uint64_t now);
/** Answer a Call with an ERROR instead (RR2-163). @return 0; -ENOENT; -ENOMEM */
int rpcr_refuse(struct rpcr *rpcr, uint32_t xid, const struct rpcrdma_error *error, uint64_t now);

void rpcr_get_view(const struct rpcr *rpcr, struct rpcr_view *ret_view);
/** An end in words, for the end of a sentence. Static storage. */
const char *rpcr_end_text(enum rpcr_end end);

#endif
