/* SPDX-License-Identifier: MIT */
/**
 * @file app.h
 * Programs and their connections: a pair is one TCP connection with a program at each end (a side).
 * Sides write a stream whose every byte depends on connection, direction and position, check what
 * they read, and end as their plan says, over SMC-R or, after a fallback, over TCP.
 */
#ifndef SMCRD_TESTS_SIM_APP_H
#define SMCRD_TESTS_SIM_APP_H

#include "tests/sim/host.h"
#include "tests/sim/tcp.h"

enum { CLIENT, SERVER };

enum plan_end {
	END_CLOSE_DONE,  /* close when everything is sent and the peer's total was read */
	END_SHUTDOWN,    /* shutdown(WR) when everything is sent, read to the end, close */
	END_CLOSE_EOF,   /* close when everything is sent and the peer's end was read */
	END_CLOSE_SENT,  /* close when everything is written, whether or not the peer has read it */
	END_CLOSE_EARLY, /* close at end_bytes or end_after, whatever is still to come */
	END_ABORT,       /* die at end_bytes or end_after */
	END_GIVE_UP,     /* lose its resources during rendezvous, then as CLOSE_DONE */
};

struct plan {
	uint64_t tx_total;
	uint32_t write_min, write_max, write_pause; /* bytes a call; longest pause between calls */
	uint32_t read_min, read_max, read_pause;
	uint32_t read_start;              /* no read before this long after the connection opened */
	uint32_t rr_request, rr_response; /* if set: the client sends a request, waits for its
					   * response, sends the next .. */
	uint32_t urgent_gap; /* if set: the last of every so many bytes is urgent (urgent.h) */
	enum plan_end end;
	uint64_t end_bytes; /* CLOSE_EARLY, ABORT: after so many bytes read and written .. */
	uint64_t end_after; /* .. or so long after it opened, whichever comes first */
	uint64_t linger;    /* time from the moment it may close to its close() */
	uint32_t rcvbuf;
};

enum side_mode {
	SIDE_NEW,
	SIDE_RENDEZVOUS,
	SIDE_SMC,
	SIDE_TCP,
	SIDE_OVER,
};

struct stream {
	uint64_t key;
	uint8_t prefix[48]; /* looks like CLC, in some streams (ERR-14) */
	size_t prefix_len;
};

struct side {
	struct world *world;
	struct pair *pair;
	int index; /* CLIENT or SERVER */
	struct host *host;
	unsigned int lan; /* subnet of the side's address */
	struct smcr_conn *conn;
	bool shared; /* the program has `memory` mapped, and nobody has ended that */
	struct smcr_conn_memory memory;
	enum side_mode mode;
	struct plan plan;
	struct stream stream;         /* what the program sends */
	uint64_t committed, consumed; /* bytes written by the program; bytes read and found right */
	bool established, fallback;   /* outcome of the rendezvous */
	bool reset;                   /* the program saw an error */
	bool shut, closed, aborted;   /* the program called shutdown(WR), called close(), died */
	bool unread_close;            /* close() left data unread */
	uint64_t before_reset;        /* data written when the program's own end began a reset */
	bool eof;
	bool tcp_fin_told;
	unsigned int urgent_events; /* since an urgent byte was read last */
	uint64_t urgent_announced;  /* one past an urgent byte announced before it could be sent */
	uint64_t open_at, over_at;
	uint64_t next_read, next_write;
	uint64_t close_at; /* when the program closes, once its plan allows that; 0 before */
	uint64_t wake_number;
	bool wake_pending;
	uint64_t wake_at;
};

struct pair {
	struct world *world;
	uint32_t number;
	struct side side[2];
	struct tcp tcp;
	uint8_t family;
	bool clean; /* the plans let every byte arrive and both ends close in peace */
	struct obs_conn *obs;
};

/** Hosts and subnets of the connection's two ends. */
struct route {
	struct host *host[2];
	unsigned int lan[2]; /* subnet of each end's address */
	uint8_t family;
};

/** A connection that opens at `when`, with these plans. */
struct pair *pair_open(struct world *w, const struct route *route, const struct plan plan[2],
		       uint64_t when);
void pair_free(struct pair *pair);
struct side *side_peer(struct side *side);

/** The TCP pipe reports that bytes or a FIN have arrived. */
void side_tcp_bytes(struct side *side);
/** The TCP pipe reports that the other end has read some bytes. */
void side_tcp_space(struct side *side);
void side_tcp_reset(struct side *side);
/** From the host: inside the operation, and after the engine has returned. */
void side_event_raised(struct side *side, const struct smcr_conn_event *event);
void side_event(struct side *side, const struct smcr_conn_event *event);
/** The program maps the memory of its connection, which is established. */
void side_share(struct side *side);
/** The engine ends that. */
void side_unshare(struct side *side);
/** The host is about to give this memory away: no program may have it mapped. */
void sides_memory_goes(struct host *host, const void *addr, size_t len);
/** The daemon of this side died. */
void side_daemon_died(struct side *side);
void side_clc_send(struct side *side, const uint8_t *msg, size_t len);

/** Are these bytes of the side's stream, at this position? */
bool stream_check(const struct stream *stream, uint64_t pos, const uint8_t *buf, size_t len);
void stream_fill(const struct stream *stream, uint64_t pos, uint8_t *buf, size_t len);

#endif
