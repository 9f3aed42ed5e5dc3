/* SPDX-License-Identifier: MIT */
/**
 * @file conn.h
 * Connections of two queue pairs with a user at each end.
 *
 *   conn.c   how they begin and end
 *   user.c   what users post
 *   memory.c what they let the peer do, and their receive buffers
 *   judge.c  what completions say, and whether that is true
 */
#ifndef SMCRD_TESTS_RNICSIM_CONN_H
#define SMCRD_TESTS_RNICSIM_CONN_H

#include "tests/rnicsim/region.h"
#include "tests/rnicsim/world.h"

/** Regions of an end: what the peer writes and perhaps reads; what its user writes and the peer
 * reads; what the peer gets at through windows. */
enum {
	TARGET,
	OFFERED,
	WINDOWED,
	MAX_REGIONS,
};

/** A bit of request.allowed. */
#define ALLOWS(status) (1u << (status))

/** A request that was posted and is not known to be done. */
struct request {
	uint64_t wr_id;
	enum rnic_opcode opcode;
	bool signaled;
	bool is_last; /* the last of this end: it tells that those before are done */
	uint32_t length;
	unsigned int allowed;  /* how it may end, if the queue pair lives so long */
	struct token *token;   /* of a WRITE or READ */
	struct token *kills;   /* of a SEND that invalidates it */
	struct region *target; /* of a WRITE that stores something */
	size_t store;
	struct read *read;
	bool spoilt;      /* the memory of the READ was freed meanwhile */
	uint64_t message; /* of a SEND: its number */
	uint64_t source_mark, sink_mark;
	uint64_t posted_at;
};

/** What an RDMA READ may find. */
struct read {
	size_t offset, len; /* in the region of the token */
	size_t stores;      /* how many there were when it was posted: later ones may be seen */
	unsigned int pieces;
	struct rnic_sge piece[RNIC_MAX_SGE];
	uint8_t expected[]; /* the bytes, but for later stores */
};

/** A SEND of an end. */
struct message {
	uint64_t tag, request;
	uint32_t length;
	struct token *kills;
	bool sound;
};

/** A READ request on the wire. */
struct asked {
	uint32_t psn, packets;
	bool sent, received; /* the last packet of the response */
};

/** A receive buffer that a user has posted. */
struct buffer {
	uint64_t wr_id, mark;
	uint8_t *addr;
	uint32_t length;
};

struct end {
	struct conn *conn;
	struct end *peer;
	struct host *host;
	char name[16];
	struct rnic_pd *pd;
	struct rnic_qp *qp; /* NULL: destroyed */
	uint32_t qpn;
	struct rnic_qp_params params;
	struct rnic_qp_send_params send_params;
	unsigned int longest_retry_ms; /* that it ever had */
	bool started;
	bool asks_to_give_up; /* may_give_up() has a mind of its own */

	struct region regions[MAX_REGIONS];
	struct arena source; /* of what is sent */
	struct arena sink;   /* where READs put what they fetch */
	struct arena inbox;  /* of receive buffers that the user posts */

	struct request *requests; /* a ring */
	size_t first, count, cap;
	uint64_t done;           /* number of the first request in the ring */
	uint64_t happened;       /* requests before this number have taken effect at the peer */
	unsigned int unsignaled; /* in a row, at the end of the ring */
	uint64_t next_wr_id;
	bool last_posted, last_done; /* the one that tells that all are done */

	uint8_t reads_answered;
	bool asks_too_much;     /* it may have more READs under way than the peer answers */
	struct asked asked[64]; /* the last READ requests that were seen on the wire, a ring */
	unsigned int num_asked; /* how many there were in all */
	uint32_t asked_next;    /* PSN behind the last of them */
	uint32_t room;          /* every receive buffer has so much at least */
	uint64_t inbox_mark;    /* what the user may use again after the callback */
	struct buffer *buffers; /* recv_depth of them, a ring */
	unsigned int first_buffer, num_buffers;
	uint64_t next_buffer_id;

	struct message *messages;
	size_t num_messages, messages_cap;
	size_t told; /* the peer's user was told of so many */

	bool failed;      /* a request has failed */
	bool over;        /* the user was told of the end, or has destroyed the QP */
	bool gave_cause;  /* the user has ended the QP, or asked the peer for what is refused */
	bool in_callback; /* of this queue pair */
};

struct conn {
	size_t number;
	uint32_t mtu; /* of the path, bytes */
	struct end ends[2];
};

/* ---- conn.c */

void conns_begin(void);
/** Perhaps begin another connection. */
void conns_tick(void);
/** Users stop: have every end post a last request, until it is done. */
void conns_drain(void);
bool conns_are_idle(void);
/** What is not done, in words. Static storage. */
const char *conns_busy_text(void);
/** Destroy the queue pairs that are left. */
void conns_end(void);
/** Look at all memory, and give it up. */
void conns_release(void);
void conns_free(void);
/** The user of an end knows that its queue pair has ended: it will destroy it. */
void end_is_over(struct end *end);
/** Destroy the queue pair, perhaps inside a callback. */
void end_destroy(struct end *end);

/* ---- user.c */

/** Do something at random. */
void user_step(struct end *end);
/** End the queue pair in one way or another. */
void user_end(struct end *end);
/** Post the last request, if there is room. */
void user_post_last(struct end *end);

/* ---- memory.c */

/** Have the peer get at the regions. */
void memory_give(struct end *end);
/** Store something, bind a window, end what the peer may do, or register memory again. */
void memory_step(struct end *end);
/** Post receive buffers, if the user is who does that. */
void memory_post_buffers(struct end *end);
/** A request of this end will kill a token of the peer: READs that use it may have no answer. */
void memory_token_ends(struct end *end, const struct token *token);
/** The token of a region is dead. Requests of the peer that use it may be refused, from this one
 * on. */
void memory_token_died(struct end *end, struct region *region, uint64_t from);

/* ---- judge.c */

void judge_completions(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n);
bool judge_may_give_up(void *ctx, struct rnic_qp *qp, uint64_t silent_us);
struct request *request_at(const struct end *end, size_t i);
/** Make room for one more request and message. */
struct request *request_add(struct end *end);
struct message *message_add(struct end *end);

#endif
