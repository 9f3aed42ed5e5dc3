/* SPDX-License-Identifier: MIT */
/**
 * @file gate.h
 * The gateway between SMB over TCP and SMB Direct, for programs that only know TCP.
 *
 * Server side: clients of SMB Direct reach an SMB server that listens on TCP. Client side: programs
 * connect to an address of this host, and reach a server of SMB Direct. Neither changes what the
 * two agree on; RDMA channels are translated (serve.h, offer.h).
 *
 * Threads: the event loop's.
 */
#ifndef SMCRD_SMBGATE_GATE_H
#define SMCRD_SMBGATE_GATE_H

#include <event2/event.h>
#include <sys/socket.h>

#include "daemon/cm/cm.h"
#include "daemon/smbdirect/transport.h"

struct smbgate;

#define SMBGATE_OFFERS_MOST 16
#define SMBGATE_PORTS       2
#define SMBGATE_TEXT_LEN    256

/** A TCP address of this host, and the server of SMB Direct behind it. */
struct smbgate_offer {
	struct sockaddr_storage listen;
	socklen_t listen_len;
	struct cm_addr peer;
};

/** 0 of a number: the default in brackets. */
struct smbgate_config {
	bool serve;                     /* the server side is on */
	struct sockaddr_storage server; /* of SMB: TCP or a Unix socket */
	socklen_t server_len;
	/** Ports of RDMA. Clients try 5445 first, older ones 445 (SMBD-6). */
	uint16_t ports[SMBGATE_PORTS];
	struct smbgate_offer offers[SMBGATE_OFFERS_MOST];
	size_t num_offers;
	struct smbd_config smbd;
	unsigned int conns;          /* connections at a time (256) */
	unsigned int conns_per_peer; /* of these, of one peer of the server side (64) */
	size_t memory;               /* bytes of registered memory of all (512 MiB) */
	size_t memory_per_conn;      /* and of one connection (64 MiB) */
};

enum smbgate_what {
	SMBGATE_TOLD_UP,      /* a connection is established */
	SMBGATE_TOLD_DOWN,    /* one that was established has ended */
	SMBGATE_TOLD_REFUSED, /* one could not be established */
};

/** What has become of a connection. Texts are valid during the call. */
struct smbgate_told {
	enum smbgate_what what;
	bool failed;      /* it has not ended in good order */
	uint64_t number;  /* 0: it has none, there were too many */
	bool serves;      /* server side */
	const char *rnic; /* "": none was chosen yet */
	struct cm_addr local, peer;
	const char *user; /* the TCP side; "": not known */
	const char *text; /* why it has ended */
};

/** A message of SMB Direct. */
struct smbgate_message {
	bool sent;
	bool negotiates; /* a Negotiate message, else a Data Transfer message */
	bool serves;
	uint64_t number; /* of the connection */
	struct cm_addr peer;
	const char *rnic;
	/** The message of `len` bytes, valid during the call; of what is sent the head alone. */
	const uint8_t *bytes;
	size_t len;
};

struct smbgate_params {
	struct event_base *base;
	struct cm *cm;
	void (*told)(void *ctx, const struct smbgate_told *told);
	/** Each message that is sent or has come. NULL is allowed. */
	void (*tap)(void *ctx, const struct smbgate_message *message);
	void *ctx;
};

int smbgate_new(const struct smbgate_params *params, struct smbgate **ret_gate);
/** Free it, with all connections. NULL is allowed. */
void smbgate_free(struct smbgate *gate);
/**
 * Listen as this configuration says. Connections that are there stay.
 * @return 0; a negative errno with a sentence: some listener could not be made, the others are
 */
int smbgate_configure(struct smbgate *gate, const struct smbgate_config *config,
		      char ret_error[SMBGATE_TEXT_LEN]);

enum smbgate_state {
	SMBGATE_CONNECTING,  /* one of the two sides is not there */
	SMBGATE_NEGOTIATING, /* both are there, SMB Direct is not established */
	SMBGATE_OPEN,
	SMBGATE_DRAINING, /* the TCP side has ended, the last messages leave */
	SMBGATE_ENDED,
};

/** How many connections that have ended are kept. */
#define SMBGATE_HISTORY 32

/** A connection as operators see it. Those that have ended are kept for a while. */
struct smbgate_view {
	uint64_t number;
	enum smbgate_state state;
	bool serves; /* server side */
	char rnic[RNIC_NAME_LEN];
	struct cm_addr local, peer;
	char user[64]; /* the TCP side: "127.0.0.1:445" */
	struct smbd_view smbd;
	/** Bytes of files that went by RDMA READ, to the server; and by RDMA WRITE, to the client.
	 * It is always the server side that asks the RNIC for them. */
	uint64_t rdma_read, rdma_written;
	/** Requests whose data went so; and those whose channel was wrong. */
	uint64_t channels_served, channels_refused;
	size_t memory;      /* bytes of registered memory and of a long message that comes */
	uint64_t age_us;    /* since it began */
	uint64_t lasted_us; /* the same until its end */
	char why[SMBGATE_TEXT_LEN]; /* it has ended */
};

/** Newest first, ended ones behind the others. @param fn  false: no more */
void smbgate_each(struct smbgate *gate, bool (*fn)(void *arg, const struct smbgate_view *view),
		  void *arg);
/** End a connection. @return 0; -ENOENT */
int smbgate_disconnect(struct smbgate *gate, uint64_t number);
const char *smbgate_state_name(enum smbgate_state state);

/** Where connections are taken: a port of RDMA, or an address of this host for programs. */
struct smbgate_listener_view {
	bool serves; /* server side: a port of RDMA */
	char listen[64], leads_to[64];
	uint64_t taken, refused; /* connections; refused ones were too many */
	int error;               /* a negative errno: nobody listens, and `text` says why */
	char text[SMBGATE_TEXT_LEN];
};

void smbgate_each_listener(const struct smbgate *gate,
			   void (*fn)(void *arg, const struct smbgate_listener_view *view),
			   void *arg);

/** Counts since the start, also of connections that nobody remembers. */
struct smbgate_stats {
	uint64_t established, ended; /* connections that were up; those of them that have ended */
	uint64_t refused;            /* could not be established */
	uint64_t sent, received;     /* payload bytes by SEND */
	/** Bytes by RDMA READ and WRITE that have left this host, and those that have come. */
	uint64_t read_sent, read_received, write_sent, write_received;
	uint64_t channels_served, channels_refused;
	size_t memory, memory_most; /* bytes in use, as in views, and their bound */
};

void smbgate_get_stats(const struct smbgate *gate, struct smbgate_stats *ret_stats);

#endif
