/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The gateway, by subject:
 *
 *   gate.c        listeners, limits, the table of connections
 *   conn.c        life of a connection
 *   conn_serve.c  messages of the server side
 *   conn_offer.c  messages of the client side
 *   rdma.c        the RDMA side of a connection
 *   tcp.c         the TCP side of a connection
 *   memory.c      registered memory
 *   serve.c       what changes in messages on the server side
 *   offer.c       what changes in messages on the client side
 *   compound.c    the messages of a compound
 *   view.c        what operators see, and are told
 *   trace.c       messages in the log
 */
#ifndef SMCRD_SMBGATE_INTERNAL_H
#define SMCRD_SMBGATE_INTERNAL_H

#include <event2/listener.h>

#include "daemon/smbgate/gate.h"
#include "daemon/smbgate/memory.h"
#include "daemon/smbgate/offer.h"
#include "daemon/smbgate/rdma.h"
#include "daemon/smbgate/serve.h"
#include "daemon/smbgate/tcp.h"

/** Bytes that may wait to leave on either side before no more are taken from the other one. */
#define CONN_QUEUE_MOST (4u << 20)

struct conn_message;
struct conn_memory;

struct gate_conn {
	struct smbgate *gate;
	uint64_t number;
	bool serves;
	enum smbgate_state state;
	struct cm_conn *cm;
	struct rdma *rdma;
	struct tcp_side *tcp;
	struct event *reap;     /* frees the connection from the event loop */
	struct event *patience; /* gives up a connection that is not open, or does not drain */
	bool reset;             /* the TCP side ends with a reset */
	bool lost;              /* the queue pair has failed; the connection manager may know why */
	bool held;              /* no messages are taken from the RDMA side */
	char user[64];
	struct cm_addr local, peer;
	char rnic[RNIC_NAME_LEN];
	uint16_t ports[SMBGATE_PORTS]; /* client side: those that are still to be tried */
	size_t num_ports;
	uint64_t began_at;
	uint64_t ended_at; /* 0: it has not */
	char why[SMBGATE_TEXT_LEN];
	bool was_up; /* it was established */
	uint64_t channels_served, channels_refused;
	uint64_t offered_read, offered_written; /* client side: bytes that the server has moved */

	/* The message that comes by TCP: in a block, or in plain memory. */
	struct block *block;
	uint8_t *plain;

	/* Server side. */
	struct serve *serve;
	struct conn_message *to_server; /* in their order; some wait for their data */

	/* Client side. */
	struct offer *offer;
	bool stalled; /* a whole message waits for memory: */
	size_t stalled_len;

	struct gate_conn *prev, *next;
};

/** What a listener has done, and why it is none. */
struct gate_listening {
	uint64_t taken, refused;
	int error; /* negative errno */
	char text[SMBGATE_TEXT_LEN];
};

struct gate_port {
	struct smbgate *gate;
	struct cm_listener *listener;
	struct gate_listening count;
};

struct gate_door {
	struct smbgate *gate;
	struct smbgate_offer offer;
	struct evconnlistener *listener;
	struct gate_listening count;
};

/** A connection that has ended. */
struct gate_ended {
	struct smbgate_view view;
	uint64_t began_at;
};

struct smbgate {
	struct smbgate_params params;
	struct smbgate_config given;  /* the last configuration, as it was given */
	struct smbgate_config config; /* the same, defaults put in */
	bool complete;                /* all its listeners are there */
	struct memory_budget budget;
	struct gate_port ports[SMBGATE_PORTS];
	struct gate_door doors[SMBGATE_OFFERS_MOST];
	size_t num_doors;
	struct gate_conn *conns;
	unsigned int num_conns;
	uint64_t last_number;
	struct gate_ended history[SMBGATE_HISTORY]; /* a ring */
	uint64_t num_history;
	struct smbgate_stats past; /* of connections that have ended */
};

/* ---- gate.c */

uint64_t gate_now(void);
/** "127.0.0.1:445", "[::1]:445", or a path. */
void gate_addr_text(const struct sockaddr *addr, char *text, size_t len);

/* ---- conn.c */

/** A request of the connection manager: connect to the server, then accept or refuse. */
void gate_conn_serve_request(struct smbgate *gate, struct cm_conn *cm);
/** A program has connected: connect to the peer. The socket is the connection's. */
void gate_conn_offer_socket(struct smbgate *gate, const struct smbgate_offer *offer, int fd);
/** End the connection: everything is given back from the event loop. Only the first call counts.
 * @param reset  the TCP side gets a reset, or else an end of file */
void gate_conn_end(struct gate_conn *conn, bool reset, const char *why);
/** Free it at once. */
void gate_conn_free(struct gate_conn *conn);
/** A block of the RDMA side. @return NULL: there is no room now, and go_on follows when there may
 * be; or there will never be, and the connection ends */
struct block *gate_conn_block(struct gate_conn *conn, enum block_use use, size_t len);
/** Take messages from the RDMA side only if there is room for what waits. */
void gate_conn_balance(struct gate_conn *conn, bool hungry);
/** May a further message come by TCP? */
bool gate_conn_takes_more(const struct gate_conn *conn);
/** Send a message by RDMA; it is freed. A failure ends the connection. */
void gate_conn_send(struct gate_conn *conn, uint8_t *data, size_t len, const uint32_t *token);
/** Send a message by TCP, which is copied. A failure ends the connection. */
void gate_conn_write(struct gate_conn *conn, const uint8_t *data, size_t len);
/** The same: a head, which is copied, and bytes of a block, whose holder hands it over. */
void gate_conn_write_block(struct gate_conn *conn, const uint8_t *head, size_t head_len,
			   struct block *block, size_t at, size_t len);

/* ---- conn_serve.c */

bool gate_conn_serve_begin(struct gate_conn *conn);
void gate_conn_serve_from_rdma(struct gate_conn *conn, const uint8_t *data, size_t len);
uint8_t *gate_conn_serve_room(struct gate_conn *conn, size_t len);
void gate_conn_serve_from_tcp(struct gate_conn *conn, size_t len);
void gate_conn_serve_fetched(struct gate_conn *conn, struct conn_message *message);
/** There may be room for messages that wait. */
void gate_conn_serve_go_on(struct gate_conn *conn);
void gate_conn_serve_free(struct gate_conn *conn);

/* ---- conn_offer.c */

bool gate_conn_offer_begin(struct gate_conn *conn);
void gate_conn_offer_from_rdma(struct gate_conn *conn, const uint8_t *data, size_t len);
uint8_t *gate_conn_offer_room(struct gate_conn *conn, size_t len);
void gate_conn_offer_from_tcp(struct gate_conn *conn, size_t len);
void gate_conn_offer_go_on(struct gate_conn *conn);
void gate_conn_offer_free(struct gate_conn *conn);

/* ---- view.c */

/** Tell operators that it is up; and that it has ended, once, with its reason. */
void gate_tell_up(const struct gate_conn *conn);
void gate_tell_end(const struct gate_conn *conn);
/** Tell of a connection that was refused because there are too many. */
void gate_tell_too_many(struct smbgate *gate, bool serves, const struct cm_addr *local,
			const struct cm_addr *peer, const char *user);
/** The connection is about to be freed: keep what operators may ask about it. */
void gate_conn_remember(const struct gate_conn *conn);

#endif
