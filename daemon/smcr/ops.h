/* SPDX-License-Identifier: MIT */
/**
 * @file ops.h
 * Operations that the engine calls, by subject: of the host, of the RNICs, of the owner of the TCP
 * connections, and of those who hear the outcomes of commands and the events for operators. All of
 * them are required. None may call back into the engine (rules in engine.h). Failures are negative
 * errnos; the engine copes with each of them. `ctx` is the pointer beside the table or the function
 * in struct smcr_ops.
 */
#ifndef SMCRD_SMCR_OPS_H
#define SMCRD_SMCR_OPS_H

#include "daemon/smcr/engine.h"
#include "proto/ipc/trace.h"

/** One work request: an RDMA WRITE of one segment, or a SEND that the host copies. A SEND has 44
 * bytes, in groups of version 2 up to SMCR_LLC_V2_SEND_MAX. Of the longer SENDs at most one per QP
 * is outstanding. */
struct smcr_wr {
	uint64_t wr_id;
	bool is_write;
	bool signaled;    /* report the completion on success too */
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
	uint64_t vaddr; /* its address for the peer; different on each QP */
};

/** The far end of a QP. */
struct smcr_qp_peer {
	uint8_t gid[SMCR_GID_LEN];
	uint8_t mac[SMCR_MAC_LEN]; /* zero: the host resolves the MAC */
	uint32_t qpn;
	uint32_t psn; /* the peer's initial send PSN */
	uint8_t mtu;  /* enum smcr_mtu: the smaller MTU of both sides */
};

enum smcr_conn_event_type {
	/** Data may flow; the program's connect()/accept() is complete. */
	SMCR_CONN_ESTABLISHED,
	/** Plain TCP from the next byte on. The struct smcr_conn is gone. */
	SMCR_CONN_FALLBACK,
	/** Rendezvous broke the connection: reset TCP, report `error`. The struct smcr_conn is
	 * gone. */
	SMCR_CONN_FAILED,
	SMCR_CONN_READABLE, /* smcr_conn_rx_data() has more than before, or smcr_conn_rx_eof()
			       became true */
	SMCR_CONN_WRITABLE, /* smcr_conn_tx_space() has more than before, or
			       smcr_conn_tx_urgent_ready() became true */
	/** smcr_conn_rx_urgent() says more than before: the peer has announced an urgent byte
	 * (URG-4: the program may have to be told, although the byte may come much later), or the
	 * byte is here. One of the two events may be left out. Raised before the READABLE of the
	 * same data. */
	SMCR_CONN_URGENT,
	/** The element or the send buffer, as `needs` says, was full for the first time, and could
	 * have been larger. */
	SMCR_CONN_OUTGROWN,
	/** Abnormal end: reset TCP now, report `error` to the program; CLOSED follows. */
	SMCR_CONN_RESET,
	/** The end: close TCP (FIN, or RST if `tcp_reset`). The struct smcr_conn is gone. */
	SMCR_CONN_CLOSED,
};

struct smcr_conn_event {
	enum smcr_conn_event_type type;
	int error;       /* FAILED, RESET: positive errno */
	bool tcp_reset;  /* CLOSED */
	bool peer_first; /* CLOSED without tcp_reset: the peer ended first. With TCP its FIN would
			    have been the first one, which decides about TIME_WAIT. */
	bool rx_intact;  /* RESET: smcr_conn_rx_data() works inside the event, and has nothing
			    afterwards */
	bool rx_ended; /* RESET with rx_intact: the peer has ended its data, so smcr_conn_rx_data()
			  has all */
	/** RESET: why, in static storage; NULL: because its group ends, which is told separately.
	 */
	const char *why;
	uint32_t reason; /* FALLBACK, FAILED: why, in the view of this side (enum smcr_reason) */
	uint32_t peer_reason; /* FALLBACK: diagnosis in the peer's Decline, or 0 */
	/** FALLBACK: the RoCE path to this peer did not work; skip SMC-R with it for a while. */
	bool path_dead;
	/** OUTGROWN, CLOSED: what this connection has needed; 0 for a buffer whose size the program
	 * has set. */
	struct smcr_needs needs;
};

/** What has happened to a link group or a link, for operators. */
enum smcr_event_type {
	/** First contact has succeeded. LINK_UP follows for each link that the group has by
	 * then. */
	SMCR_EVENT_LGR_UP,
	SMCR_EVENT_LINK_UP,
	SMCR_EVENT_LINK_FAILED,
	SMCR_EVENT_LINK_DELETED, /* in good order: its connections move first */
	SMCR_EVENT_LINK_REFUSED, /* a link could not be set up */
	/** The group ends with all its links; no event tells of each link. */
	SMCR_EVENT_LGR_DOWN,
};

/** For a group that never was up, only LINK_REFUSED is told. Pointers are valid during the call. */
struct smcr_event {
	enum smcr_event_type type;
	uint32_t lgr;          /* id of the group */
	enum smcr_role role;   /* ours */
	struct smcr_addr peer; /* as in struct smcr_lgr_view */
	uint8_t link;          /* number; 0: the event is about the group */
	const char *device;    /* name of the link's RNIC; NULL: the event is about the group */
	uint32_t num_conns;    /* LINK_FAILED, LINK_DELETED: moved so far; LGR_DOWN: reset */
	const char *text;      /* FAILED, DELETED, REFUSED, DOWN: why, in words; else "" */
};

/** The host that the engine runs on. */
struct smcr_host_ops {
	/** Fill `buf` with unpredictable bytes (tokens, PSNs). Cannot fail. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** One line for the log, priority as in syslog.h, no newline. */
	void (*log)(void *ctx, int priority, const char *line);
	/** One line of the protocol trace, whose category is in the configuration's `trace`. */
	void (*trace)(void *ctx, enum ipc_trace category, const char *line);
};

/** RNICs, and the memory that they read and write. */
struct smcr_rdma_ops {
	/** Page-aligned zeroed memory for RMBs and send buffers. */
	int (*mem_alloc)(void *ctx, size_t len, void **ret_addr);
	void (*mem_free)(void *ctx, void *addr, size_t len);
	/**
	 * A part of memory from mem_alloc() that smcr_conn_share() gave out is not used any more:
	 * replace it by zeroed pages of the host's own.
	 * @return 0, or a negative errno: the engine does not use that part again until mem_free()
	 */
	int (*mem_recover)(void *ctx, void *addr, size_t len);
	/**
	 * Whole pages of memory from mem_alloc() have not been used for a while: give them back to
	 * the system. They have to be zero when they are used again.
	 * @return 0, or a negative errno: they stay as they are
	 */
	int (*mem_discard)(void *ctx, void *addr, size_t len);

	/**
	 * Make a PD (one for each link: LG-15, A18) and an RC QP in INIT with receive buffers
	 * posted, each of at least `recv_len` bytes: SMCR_LLC_LEN, or SMCR_LLC_V2_MAX_LEN in a
	 * group of version 2. `link_ref` names the QP's link in smcr_engine_recv() and
	 * smcr_engine_send_done().
	 */
	int (*qp_create)(void *ctx, uint32_t device_id, uint64_t link_ref, uint32_t send_depth,
			 uint32_t recv_len, void **ret_qp, uint32_t *ret_qpn);
	int (*qp_connect)(void *ctx, void *qp, const struct smcr_qp_peer *peer); /* INIT -> RTR */
	int (*qp_start)(void *ctx, void *qp, uint32_t psn, uint32_t retry_ms);   /* RTR -> RTS */
	/**
	 * Set how long the QP may be without progress before it fails. Called when the group gets
	 * its second active link and when only one is left. Devices that cannot change the time of
	 * a running QP keep the old one.
	 */
	void (*qp_set_retry)(void *ctx, void *qp, uint32_t retry_ms);
	/** Nothing goes on until all that was posted on the QP has completed: have the device ask
	 * for the acknowledgement, if the peer's may put it off. */
	void (*qp_want_ack)(void *ctx, void *qp);
	void (*qp_error)(void *ctx,
			 void *qp); /* take the QP into error: flushed completions follow later */
	/**
	 * @return microseconds since the last packet of the peer came on the QP, which is in RTS;
	 *         UINT64_MAX: the device cannot say
	 */
	uint64_t (*qp_heard)(void *ctx, void *qp);
	/** All MRs of the QP are gone by now. No input for its link_ref follows. */
	void (*qp_destroy)(void *ctx, void *qp);

	/** Register memory in the QP's PD. `remote`: the peer may write into it; else it is only
	 * sent from. */
	int (*mr_register)(void *ctx, void *qp, void *addr, size_t len, bool remote,
			   struct smcr_mr *ret_mr);
	void (*mr_deregister)(void *ctx, void *mr);

	/** Take all requests, in order, or none. The host may post them to the QP later, and may
	 * post RDMA writes before CDC messages that were given earlier behind writes of their own.
	 * If posting fails then, the host calls smcr_engine_not_posted(). The engine keeps to
	 * send_depth. */
	int (*post)(void *ctx, void *qp, const struct smcr_wr *wr, size_t n);
};

/** The owner of the TCP connections. `user` is that of struct smcr_conn_params. */
struct smcr_conn_ops {
	/** Send a CLC message on the TCP connection. Cannot fail; if the TCP connection is broken,
	 * the host calls smcr_conn_tcp_event() later. */
	void (*clc_send)(void *user, const uint8_t *msg, size_t len);
	void (*event)(void *user, const struct smcr_conn_event *event);
	/**
	 * The memory that smcr_conn_share() gave out is about to be given away: from now on nobody
	 * may take bytes from there or put bytes there that count. Called before mem_recover() or
	 * mem_free() of the memory, and before CLOSED, whatever ends the connection, and also by
	 * smcr_engine_free(). Not called for a connection whose memory is not shared.
	 */
	void (*unshare)(void *user);
};

struct smcr_ops {
	/* The tables must outlive the engine. */
	const struct smcr_host_ops *host;
	void *host_ctx;
	const struct smcr_rdma_ops *rdma;
	void *rdma_ctx;
	const struct smcr_conn_ops *conns;

	/** The outcome of smcr_engine_command(). `result` is read during the call only. */
	void (*command_done)(void *ctx, uint64_t id, const struct smcr_command_result *result);
	void *command_ctx;

	/** Something has happened that operators may want to know. */
	void (*event)(void *ctx, const struct smcr_event *event);
	void *event_ctx;
};

#endif
