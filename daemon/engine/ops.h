/* SPDX-License-Identifier: MIT */
/**
 * @file ops.h
 * What the engine asks of others, by subject: of the host, of the RNICs, of who has the TCP
 * connections, of who starts commands, and of who keeps events. All of them are required. None may
 * call back into the engine (engine.h, rules). Failures are negative errnos; the engine copes with
 * each of them. `ctx` is what struct smcr_ops has beside the table or the function.
 */
#ifndef SMCRD_ENGINE_OPS_H
#define SMCRD_ENGINE_OPS_H

#include "daemon/engine/engine.h"

/** One work request: an RDMA WRITE of one segment, or a SEND that the host copies: 44 bytes, in
 *  groups of version 2 up to SMCR_LLC_V2_SEND_MAX; of those that are longer than 44 bytes no more
 *  than one of a QP is outstanding. */
struct smcr_wr {
	uint64_t wr_id;
	bool is_write;
	bool signaled;    /* a completion is wanted on success too */
	const void *addr; /* WRITE: unchanged until completion; SEND: copied before post returns */
	uint32_t length;
	uint32_t lkey;        /* WRITE */
	uint32_t rkey;        /* WRITE */
	uint64_t remote_addr; /* WRITE */
};

/** Registered memory. */
struct smcr_mr {
	void *handle;
	uint32_t lkey, rkey;
	uint64_t vaddr; /* where it begins for the peer; another one for each QP */
};

/** The far end of a QP. */
struct smcr_qp_peer {
	uint8_t gid[SMCR_GID_LEN];
	uint8_t mac[SMCR_MAC_LEN]; /* zero: the host finds out */
	uint32_t qpn;
	uint32_t psn; /* the peer's initial send PSN */
	uint8_t mtu;  /* enum smcr_mtu: the smaller of both */
};

enum smcr_conn_event_type {
	/** Data may flow; the program's connect()/accept() is complete. */
	SMCR_CONN_ESTABLISHED,
	/** Plain TCP from the next byte on. The conn is gone. */
	SMCR_CONN_FALLBACK,
	/** Rendezvous broke the connection: reset TCP, report `error`. The conn is gone. */
	SMCR_CONN_FAILED,
	SMCR_CONN_READABLE, /* rx_data() has more than before, or rx_eof() became true */
	SMCR_CONN_WRITABLE, /* tx_space() has more than before, or tx_urgent_ready() became true */
	/** rx_urgent() says more than before: the peer announces an urgent byte (URG-4: program may
	 * have to be told, though the byte can be far), or it is here. One of the two may be left
	 * out. Comes before the READABLE of the same data. */
	SMCR_CONN_URGENT,
	/** The element or the send buffer was full for the first time, and could have been larger:
	 * `needs` says which. */
	SMCR_CONN_OUTGROWN,
	/** Abnormal end: reset TCP now, the program sees `error`; CLOSED follows. */
	SMCR_CONN_RESET,
	/** Over: close TCP (FIN, or RST if `tcp_reset`). The conn is gone. */
	SMCR_CONN_CLOSED,
};

struct smcr_conn_event {
	enum smcr_conn_event_type type;
	int error;      /* FAILED, RESET: positive errno */
	bool tcp_reset; /* CLOSED */
	bool rx_intact; /* RESET: rx_data() may be called from within the event, for what had come
			   before; it is purged afterwards */
	/** RESET: why, in words of static storage; NULL: with its group, which is told of itself.
	 */
	const char *why;
	uint32_t reason;      /* FALLBACK, FAILED: enum smcr_reason, why (our own view) */
	uint32_t peer_reason; /* FALLBACK: the peer's diagnosis if it declined, else 0 */
	/** FALLBACK: the RoCE path to this peer did not work; skip SMC-R with it for a while. */
	bool path_dead;
	/** OUTGROWN, CLOSED: what this connection has needed; of a buffer whose size the program
	 * has set nothing is known. */
	struct smcr_needs needs;
};

/** What has become of a link group or a link, for operators. */
enum smcr_event_type {
	/** First contact has succeeded. LINK_UP follows for each link that it has by then. */
	SMCR_EVENT_LGR_UP,
	SMCR_EVENT_LINK_UP,
	SMCR_EVENT_LINK_FAILED,
	SMCR_EVENT_LINK_DELETED, /* in good order: what writes on it moves, then it goes */
	SMCR_EVENT_LINK_REFUSED, /* one could not be set up */
	/** With all links, which are not told of one by one. */
	SMCR_EVENT_LGR_DOWN,
};

/** Of a group that never was up only LINK_REFUSED is told. Pointers hold during the call. */
struct smcr_event {
	enum smcr_event_type type;
	uint32_t lgr;          /* its id */
	enum smcr_role role;   /* ours */
	struct smcr_addr peer; /* of the first connection's TCP connection */
	uint8_t link;          /* number; 0: it is about the group */
	const char *device;    /* name of the link's RNIC; NULL: it is about the group */
	uint32_t num_conns;    /* LINK_FAILED, LINK_DELETED: moved so far; LGR_DOWN: reset */
	const char *text;      /* why, in words, for one that has gone; else "" */
};

/** The host that the engine runs on. */
struct smcr_host_ops {
	/** Unpredictable bytes (tokens, PSNs). Cannot fail. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** One line for the log, priority as in syslog.h, no newline. */
	void (*log)(void *ctx, int priority, const char *line);
};

/** RNICs, and the memory that they read and write. */
struct smcr_rdma_ops {
	/** Page-aligned zeroed memory for RMBs and send buffers. */
	int (*mem_alloc)(void *ctx, size_t len, void **ret_addr);
	void (*mem_free)(void *ctx, void *addr, size_t len);
	/**
	 * A part of such memory that smcr_conn_share() gave out is not used any more: put zeroed
	 * pages of the host's own there.
	 * @return 0, or a negative errno: it is left alone until mem_free()
	 */
	int (*mem_recover)(void *ctx, void *addr, size_t len);
	/**
	 * Whole pages of such memory have not been used for a while: they may go back to the
	 * system, if they are zeroed when they are used again.
	 * @return 0, or a negative errno: they stay as they are
	 */
	int (*mem_discard)(void *ctx, void *addr, size_t len);

	/**
	 * A PD (one a link: LG-15, A18) and an RC QP in INIT with receive buffers posted, each of
	 * at least `recv_len` bytes: SMCR_LLC_LEN, or SMCR_LLC_V2_MAX_LEN in a group of version 2.
	 * `link_ref` names it in smcr_engine_recv() and smcr_engine_send_done().
	 */
	int (*qp_create)(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			 uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn);
	int (*qp_connect)(void *ctx, void *qp, const struct smcr_qp_peer *peer); /* INIT -> RTR */
	int (*qp_start)(void *ctx, void *qp, uint32_t psn, uint32_t retry_ms);   /* RTR -> RTS */
	/**
	 * How long the QP may go without progress before it fails: told whenever the group gains
	 * its second, or loses its last but one, active link. Devices that cannot change it on a
	 * running QP go on with the one they have.
	 */
	void (*qp_set_retry)(void *ctx, void *qp, uint32_t retry_ms);
	void (*qp_error)(void *ctx, void *qp); /* flush: completions follow later */
	/**
	 * Microseconds since a packet of the peer came on the QP, which is in RTS; UINT64_MAX: the
	 * device cannot say.
	 */
	uint64_t (*qp_heard)(void *ctx, void *qp);
	/** All MRs of the QP are gone by now. No input for its link_ref follows. */
	void (*qp_destroy)(void *ctx, void *qp);

	/** Register in the QP's PD; remote: for remote write, else for sending from. */
	int (*mr_register)(void *ctx, void *qp, void *addr, size_t len, bool remote,
			   struct smcr_mr *ret_mr);
	void (*mr_deregister)(void *ctx, void *mr);

	/** Take all or nothing, in order. The host may post later, and RDMA writes before CDC
	 * messages that were posted earlier behind writes of their own; what fails then it tells by
	 *  smcr_engine_not_posted(). The engine stays within send_depth. */
	int (*post)(void *ctx, void *qp, const struct smcr_wr *wr, size_t n);
};

/** Who has the TCP connections. `user` is that of struct smcr_conn_params. */
struct smcr_conn_ops {
	/** Put a CLC message on the TCP connection. Cannot fail here; a broken TCP connection comes
	 *  back as smcr_conn_tcp_event(). */
	void (*clc_send)(void *user, const uint8_t *msg, size_t len);
	void (*event)(void *user, const struct smcr_conn_event *event);
};

struct smcr_ops {
	/* The tables outlive the engine. */
	const struct smcr_host_ops *host;
	void *host_ctx;
	const struct smcr_rdma_ops *rdma;
	void *rdma_ctx;
	const struct smcr_conn_ops *conns;

	/** The outcome of smcr_engine_command(). `result` is read during the call only. */
	void (*command_done)(void *ctx, uint64_t id, const struct smcr_command_result *result);
	void *command_ctx;

	/** An operator may want to know. */
	void (*event)(void *ctx, const struct smcr_event *event);
	void *event_ctx;
};

#endif
