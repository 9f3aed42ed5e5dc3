/* SPDX-License-Identifier: MIT */
/**
 * @file peer.h
 * What the subjects of cm_peer have in common: an RNIC, the connection manager, and connections
 * that are used step by step. Each subject is a program of the kernel's tools that has this one on
 * the other side.
 *
 * One thread. A function that waits runs the event loop meanwhile. What goes wrong ends the process
 * with status 1 and a line that says what and where: peer_die().
 */
#ifndef SMCRD_TESTS_INTEROP_PEER_H
#define SMCRD_TESTS_INTEROP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/cm/cm.h"
#include "daemon/rnic/rnic.h"

/** What the command line asks for. */
struct peer_options {
	struct cm_addr addr; /* of the server; a server listens there */
	unsigned int conns, count;
	uint32_t size;
	const char *kind; /* of perftest */
};

struct peer {
	struct event_base *base;
	struct rnic *rnic;
	struct rnic_info info;
	struct rnic_pd *pd;
	struct cm *cm;
	const char *doing; /* for peer_die() */
	bool late;         /* the time for the whole is over */
};

/** Memory that is registered. */
struct peer_mem {
	uint8_t *addr;
	size_t len;
	struct rnic_mr *mr;
};

/** What a connection is made with. */
struct peer_shape {
	uint32_t message_max;   /* bytes of a receive buffer */
	unsigned int receives;  /* receive buffers, all posted before the peer can send */
	unsigned int sends;     /* own requests under way */
	uint8_t reads_answered; /* RDMA READs at a time; reduced to what the RNIC can */
	uint8_t reads_asked;
	uint8_t rnr_retry; /* for the peer's SENDs */
};

struct peer_conn {
	struct peer *peer;
	struct peer_shape shape;
	struct rnic_qp *qp;
	struct cm_conn *cm;
	struct peer_mem inbox; /* receive buffers */
	uint32_t *lengths;     /* of the messages in them */
	size_t arrived, taken; /* messages, and those that peer_receive() has given out */
	bool holding;          /* the last one is not posted again yet */
	size_t posted, completed;
	enum rnic_wc_status failure; /* of the queue pair, while it was in use */
	bool connected, ended;
	enum cm_end end;
	uint16_t reject_reason;
	uint8_t reads_asked; /* as agreed */
	uint8_t private_data[CM_PRIVATE_MAX];
	size_t private_len;
};

#define PEER_WAITING 64

/** A listener, and requests that came to it. */
struct peer_listener {
	struct cm_listener *cm;
	struct cm_conn *waiting[PEER_WAITING];
	size_t num;
};

/** Print "FAILED" with what the process was doing and this sentence, and exit. */
_Noreturn void peer_die(const struct peer *peer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** Print a line at once: scripts wait for it. */
void peer_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Open the RNIC and the connection manager. @param seconds  time for the whole */
void peer_open(struct peer *peer, const char *rnic, unsigned int seconds);
void peer_close(struct peer *peer);
/** Run the event loop until something has happened. @param what  is waited for, in words */
void peer_turn(struct peer *peer, const char *what);
/** The same, but a tenth of a second at most: before something is tried once more. */
void peer_pause(struct peer *peer, const char *what);

/** Memory of its own pages, filled with zeros; peer_mem_free() frees it. */
void peer_mem_new(struct peer *peer, size_t len, unsigned int access, struct peer_mem *ret_mem);
void peer_mem_free(struct peer_mem *mem);

void peer_listen(struct peer *peer, const struct cm_addr *addr, struct peer_listener *listener);
void peer_unlisten(struct peer_listener *listener);
/** Accept the oldest request that waits, and wait for one if none does. The connection may not be
 * complete yet. peer_conn_free() frees it. */
struct peer_conn *peer_accept(struct peer *peer, struct peer_listener *listener,
			      const struct peer_shape *shape);
/** Ask for a connection, and wait until there is one or it has ended. */
struct peer_conn *peer_try(struct peer *peer, const struct cm_addr *addr,
			   const struct peer_shape *shape);
/** The same, and again until somebody listens; another end is a failure. */
struct peer_conn *peer_connect(struct peer *peer, const struct cm_addr *addr,
			       const struct peer_shape *shape);
void peer_await_connected(struct peer_conn *conn);
/** Disconnect, and wait for the end. Does nothing if it has ended. */
void peer_disconnect(struct peer_conn *conn);
/** Wait until the peer disconnects; another end is a failure. */
void peer_await_end(struct peer_conn *conn);
void peer_conn_free(struct peer_conn *conn);

/** Has a message come that peer_receive() has not given out? */
bool peer_has_message(const struct peer_conn *conn);
/** The next message; waits for it. Valid until the next call for this connection, which also posts
 * its buffer again. */
const uint8_t *peer_receive(struct peer_conn *conn, uint32_t *ret_len);
/** Post a request with one piece of memory, when there is room for one. */
void peer_post(struct peer_conn *conn, enum rnic_opcode opcode, const struct peer_mem *mem,
	       size_t at, uint32_t len, uint64_t remote_addr, uint32_t rkey);
/** Wait until no more than `n` requests are under way. */
void peer_await_posted(struct peer_conn *conn, size_t n);

/* ---- the subjects; each returns when all is well */

void rping_server(struct peer *peer, const struct peer_options *options);
void rping_client(struct peer *peer, const struct peer_options *options);
void ucmatose_server(struct peer *peer, const struct peer_options *options);
void ucmatose_client(struct peer *peer, const struct peer_options *options);
void perftest_server(struct peer *peer, const struct peer_options *options);
void perftest_client(struct peer *peer, const struct peer_options *options);
/** Ask for a port where nobody listens. */
void refusal_nobody(struct peer *peer, const struct peer_options *options);
/** Refuse the first request that comes, with private data; and be refused by such a listener. */
void refusal_give(struct peer *peer, const struct peer_options *options);
void refusal_get(struct peer *peer, const struct peer_options *options);

#endif
