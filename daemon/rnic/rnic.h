/* SPDX-License-Identifier: MIT */
/**
 * @file rnic.h
 * RDMA devices behind one interface: `soft` (RoCEv2 RC in user space) and `verbs` (libibverbs).
 *
 * The shape is libibverbs': protection domains, memory regions, reliable-connected queue pairs (no
 * other kind: GEN-2), work requests, work completions. An rnic knows neither the SMC-R engine nor
 * clients.
 *
 * Threads: all functions of an rnic are called from its event loop's thread. Completion and event
 * callbacks run from the event loop, never inside a call of the user, except rnic_poll(). So a
 * callback may call anything here, and may even destroy its QP. Functions return 0 or a negative
 * errno. `ret_error` gets a sentence for the operator that says what failed, where, and what to do.
 */
#ifndef SMCRD_RNIC_RNIC_H
#define SMCRD_RNIC_RNIC_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct rnic;
struct rnic_pd;
struct rnic_mr;
struct rnic_window;
struct rnic_qp;

#define RNIC_NAME_LEN  64
#define RNIC_ERROR_LEN 256
#define RNIC_MAX_GIDS  16
#define RNIC_MAX_ADDRS 16

enum rnic_kind {
	RNIC_SOFT,
	RNIC_VERBS,
};

enum rnic_port_state {
	RNIC_PORT_DOWN,
	RNIC_PORT_ACTIVE,
};

enum rnic_gid_type {
	RNIC_GID_ROCE_V1,
	RNIC_GID_ROCE_V2,
};

struct rnic_gid {
	uint8_t raw[16]; /* IPv4 as ::ffff:a.b.c.d */
	enum rnic_gid_type type;
	uint8_t prefix_len; /* of the interface address behind the GID, bits of its own family */
};

/** An address of the network interface behind an RNIC. */
struct rnic_netdev_addr {
	uint8_t family;   /* AF_INET or AF_INET6 */
	uint8_t addr[16]; /* network byte order; the first 4 of IPv4 */
	uint8_t prefix_len;
};

/** The present state of a device and its port. Strings are NUL terminated. */
struct rnic_info {
	char name[RNIC_NAME_LEN]; /* "soft:eth1" (follows the interface), "verbs:mlx5_0/1" */
	enum rnic_kind kind;
	uint8_t port; /* 1 for soft */
	enum rnic_port_state state;
	const char *down; /* why the port is down, static storage; "" or NULL if it is not */
	char netdev[IF_NAMESIZE];
	unsigned int ifindex;
	uint8_t mac[6];
	uint8_t max_path_mtu; /* enum ibv_mtu codes 1..5 = 256..4096, largest that the port can
				 carry */
	/** RDMA READs of a queue pair at a time: those of its peer that it answers, and its own. */
	uint8_t max_reads_answered, max_reads_asked;
	bool windows; /* rnic_window_new() works */
	struct rnic_gid gids[RNIC_MAX_GIDS];
	size_t num_gids;
	/** The addresses that tell the IP networks of the interface: IPv4 first, without link-local
	 * IPv6. An address need not be a GID, nor a GID be an address here. */
	struct rnic_netdev_addr addrs[RNIC_MAX_ADDRS];
	size_t num_addrs;
};

/** Counters of a device, since it was opened. */
struct rnic_stats {
	uint64_t tx_packets, tx_bytes; /* RoCE packets; bytes of UDP payload */
	uint64_t rx_packets, rx_bytes;
	uint64_t retransmits; /* packets sent again */
	uint64_t naks_sent, naks_received, rnr_naks_sent, rnr_naks_received;
	uint64_t cnps_sent, cnps_received; /* congestion notifications */
	uint64_t timeouts;
	uint64_t duplicates; /* packets received again */
	uint64_t out_of_order;
	uint64_t drop_malformed; /* short, bad version, bad opcode, bad pad, length mismatch */
	uint64_t drop_icrc;
	uint64_t drop_qp;         /* no such QP, or QP not ready to receive */
	uint64_t drop_peer;       /* not from the QP's peer address */
	uint64_t drop_psn;        /* outside any window that may be answered */
	uint64_t drop_access;     /* rkey, bounds, protection domain or access rights; Q_Key */
	uint64_t interface_reads; /* soft: how often the interface was read again */
};

enum rnic_event_type {
	RNIC_EVENT_PORT_ACTIVE,
	RNIC_EVENT_PORT_DOWN,
	RNIC_EVENT_REMOVED, /* the device is gone; close it */
	RNIC_EVENT_CHANGED, /* name, MAC, addresses, GIDs or MTU: read rnic_get_info() again */
};

struct rnic_event {
	enum rnic_event_type type;
};

/** Neighbour entries, which the host manages: an RNIC asks for an entry for a peer's GID while a QP
 * is connected with that peer. May be NULL: then the host's own entries are used. IPv4 or IPv6 by
 * `family`; `addr` has 4 or 16 bytes. */
struct rnic_host_ops {
	/** Make a permanent entry, if the MAC is trusted; the callee counts the calls. The entry
	 * may come a little later; until then, or without one, the host's own entries are used.
	 * @return 0 or a negative errno */
	int (*neigh_set)(void *ctx, unsigned int ifindex, int family, const void *addr,
			 const uint8_t mac[6]);
	void (*neigh_unset)(void *ctx, unsigned int ifindex, int family, const void *addr,
			    const uint8_t mac[6]);
	/** Wait for a short time until the host has a neighbour entry for the address of the last
	 * neigh_set(). NULL: there is nothing to wait for.
	 * @return whether the host has one */
	bool (*neigh_settle)(void *ctx);
};

struct rnic_open_params {
	struct event_base *base;
	const struct rnic_host_ops *host_ops;
	void *host_ctx;
	void (*on_event)(void *ctx, struct rnic *rnic, const struct rnic_event *event);
	/** The device is asked what has changed, which may take long; may be NULL. */
	void (*at_work)(void *ctx);
	void *event_ctx;
	uint16_t udp_port; /* soft: 0 = 4791; other values serve tests only */
	/** soft: do not wait for the kernel, which may take seconds while interfaces are changed
	 * and would delay connections. A port that has just come up may count as down for a
	 * moment. */
	bool hurry;
};

/**
 * Open a device by its name, "soft:IFNAME" or "verbs:DEV[/PORT]" (port 1 if not given).
 * soft binds UDP 4791 on the interface's IPv4 address and device only.
 * @return 0; -EADDRINUSE with the holder named in `ret_error`; -ENODEV; -EPERM, -EACCES; verbs:
 *         -EADDRNOTAVAIL (no GID for an interface of this network namespace: that may change),
 *         -EPROTONOSUPPORT (not RoCE)
 */
int rnic_open(const char *name, const struct rnic_open_params *params, struct rnic **ret_rnic,
	      char ret_error[RNIC_ERROR_LEN]);
/** Close: every QP, MR and PD must have been destroyed before. */
void rnic_close(struct rnic *rnic);
/**
 * Handle everything that has arrived at the device: incoming RDMA WRITEs are carried out and
 * completions delivered before this returns. May be called inside a callback, also of a QP of this
 * device: then it handles all QPs except one that is in a callback. Device events still come from
 * the event loop.
 */
void rnic_poll(struct rnic *rnic);
/**
 * Something about the device or its network interface may have changed (link state, MTU, MAC,
 * addresses, removal): read it again, and raise RNIC_EVENT_* from the event loop for real changes.
 * To be called when netlink tells of the interface, or a uevent of the device.
 */
void rnic_link_changed(struct rnic *rnic);
/**
 * The process is about to end. Until then, queue pairs that are destroyed from now on still
 * acknowledge what their peers send, without completions, and memory that is deregistered or freed
 * stays usable for the device. This is needed because rdma_rxe repeats forever what is not
 * acknowledged, and a peer may wait for that. For soft RNICs this changes nothing: they answer for
 * queue pairs that have ended.
 */
void rnic_leave(struct rnic *rnic);
void rnic_get_info(const struct rnic *rnic, struct rnic_info *ret_info);
void rnic_get_stats(const struct rnic *rnic, struct rnic_stats *ret_stats);

int rnic_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd);
void rnic_pd_free(struct rnic_pd *pd);

enum {
	RNIC_ACCESS_LOCAL_WRITE = 1 << 0,
	RNIC_ACCESS_REMOTE_WRITE = 1 << 1,
	RNIC_ACCESS_REMOTE_READ = 1 << 2,
};

/**
 * Register memory in a protection domain. The memory stays the caller's and must outlive the MR.
 * Own requests name the memory by its address, requests of a peer by rnic_mr_vaddr(). Memory that
 * peers may write cannot be the source of own requests: a device knows it by one address only.
 */
int rnic_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr);
/** Tokens of windows that are bound to the region die with it. verbs: a request of the send queue
 * that binds or invalidates such a window must be done before, or it ends its QP. */
void rnic_mr_deregister(struct rnic_mr *mr);
uint32_t rnic_mr_lkey(const struct rnic_mr *mr);
uint32_t rnic_mr_rkey(const struct rnic_mr *mr); /* unpredictable for soft (getrandom) */
/** The remote address of the memory's first byte; byte i is at this plus i. Never 0. For memory
 * that peers may write: unpredictable, and independent of the local address but for the place in a
 * page; with a verbs device that takes no other address, the local address. */
uint64_t rnic_mr_vaddr(const struct rnic_mr *mr);

/**
 * A memory window: a token for a part of a memory region that ends before the region does, by
 * rnic_window_invalidate() or by a SEND of the peer that invalidates the token. The window belongs
 * to the queue pair that it was bound to last, and no other queue pair's peer can use or
 * invalidate the token.
 * @return 0; -ENOMEM; -EOPNOTSUPP: the device has none (rnic_info.windows)
 */
int rnic_window_new(struct rnic_pd *pd, struct rnic_window **ret_window);
/** Free a window. If it is bound, the token is dead from now on. */
void rnic_window_free(struct rnic_window *window);
/**
 * Bind a window to [addr, addr + len) of a region of the same PD, for the peer of `qp`. The region
 * must have been registered with the rights that `access` (RNIC_ACCESS_REMOTE_*) gives. The token
 * and address of before are dead, and rnic_window_rkey() and rnic_window_vaddr() tell the new ones
 * at once; they work for the peer before a SEND that is posted after this call arrives there.
 * Takes a place of the send queue, as a request does that is not signaled.
 * @return as rnic_post_send(); -EBUSY: it is bound and its token was not invalidated
 */
int rnic_window_bind(struct rnic_window *window, struct rnic_qp *qp, struct rnic_mr *mr,
		     const void *addr, size_t len, unsigned int access);
/** Kill the token of a bound window. The peer's requests that come later do not reach the memory
 * any more; on verbs that holds once a later request of the QP has completed. Takes a place of the
 * send queue like rnic_window_bind(). @return as rnic_post_send(); -EINVAL: it is bound for another
 * QP */
int rnic_window_invalidate(struct rnic_window *window, struct rnic_qp *qp);
uint32_t rnic_window_rkey(const struct rnic_window *window);
uint64_t rnic_window_vaddr(const struct rnic_window *window);

enum rnic_opcode {
	RNIC_WR_SEND,
	RNIC_WR_RDMA_WRITE,
	/** Fetch the peer's memory at `remote_addr` into the pieces, which must be memory with
	 * RNIC_ACCESS_LOCAL_WRITE. Later requests need not wait until it is done. */
	RNIC_WR_RDMA_READ,
	/** A SEND that also kills the token `rkey` of the peer, before the peer is told of the
	 * message. A token that is not one of this connection's windows ends the connection. Own
	 * READs with the token must be done before: a device may answer them later than the SEND,
	 * and what gets lost of a response could not be asked for again. */
	RNIC_WR_SEND_INVALIDATE,
};

enum {
	RNIC_SEND_SIGNALED = 1 << 0, /* a completion even on success; failures always complete */
	RNIC_SEND_INLINE = 1 << 1,   /* data are copied before the post returns; up to max_inline */
	RNIC_SEND_SOLICITED = 1 << 2,
};

#define RNIC_FEW_SGE    2 /* pieces that a request has room for itself */
#define RNIC_MAX_SGE    16
#define RNIC_MAX_INLINE 64

struct rnic_sge {
	const void *addr; /* an RDMA READ writes there */
	uint32_t length;
	uint32_t lkey; /* ignored with RNIC_SEND_INLINE */
};

struct rnic_send_wr {
	uint64_t wr_id;
	enum rnic_opcode opcode;
	unsigned int flags;
	unsigned int num_sge; /* up to rnic_qp_params.max_sge */
	struct rnic_sge sge[RNIC_FEW_SGE];
	/** The pieces in place of `sge`, if not NULL; read before the post returns. */
	const struct rnic_sge *pieces;
	uint64_t remote_addr; /* RDMA WRITE and READ */
	uint32_t rkey;        /* these, and RNIC_WR_SEND_INVALIDATE */
};

/** A receive buffer of a queue pair whose user posts them (rnic_qp_params.user_receives). */
struct rnic_recv_wr {
	uint64_t wr_id;
	void *addr; /* memory with RNIC_ACCESS_LOCAL_WRITE */
	uint32_t length;
	uint32_t lkey;
};

enum rnic_wc_status {
	RNIC_WC_SUCCESS,
	RNIC_WC_LOC_PROT_ERR, /* lkey or bounds of an own buffer */
	RNIC_WC_REM_ACCESS_ERR,
	RNIC_WC_REM_INV_REQ_ERR,
	RNIC_WC_REM_OP_ERR,
	RNIC_WC_RETRY_EXC_ERR, /* no acknowledgement within the retry limit */
	RNIC_WC_RNR_RETRY_EXC_ERR,
	RNIC_WC_WR_FLUSH_ERR, /* the QP went to ERR before this request was done */
	RNIC_WC_BAD_RESP_ERR, /* an answer that does not fit the request */
	RNIC_WC_GENERAL_ERR,
};

/** A status in words, for the end of a sentence. Static storage. */
const char *rnic_wc_status_text(enum rnic_wc_status status);

struct rnic_wc {
	bool is_recv;
	enum rnic_wc_status status;
	uint64_t wr_id;      /* sends; receives that the user has posted */
	const uint8_t *data; /* received SEND payload, valid during the callback only, or the
				buffer that the user has posted */
	uint32_t length;
	bool invalidated; /* a received SEND has killed this token before: */
	uint32_t invalidated_rkey;
};

struct rnic_qp_params {
	unsigned int send_depth; /* work requests outstanding, 1..4096 */
	unsigned int recv_depth; /* receive buffers, which the rnic itself posts again */
	unsigned int recv_size;  /* bytes of a receive buffer, 44..8192 */
	/** The user posts receive buffers, of any size, with rnic_post_recv(), up to recv_depth at
	 * a time; recv_size is not used. Buffers that were not used come back as flushed
	 * completions in front of the last one when the QP goes to ERR. A SEND that is longer than
	 * its buffer ends the connection. */
	bool user_receives;
	unsigned int max_sge; /* pieces of a send request, up to RNIC_MAX_SGE; 0: RNIC_FEW_SGE */
	/**
	 * Completions, in order, in batches; called from the event loop. A received message is
	 * valid until the callback returns; then its buffer is posted again. When the QP goes to
	 * ERR, for any cause, the outstanding work requests complete with an error, and then at
	 * least one completion with `is_recv` and an error status comes. So the user learns of the
	 * error even if nothing was outstanding.
	 */
	void (*on_completion)(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n);
	/**
	 * Called when the peer has acknowledged nothing for `silent_us`, from half the limit on:
	 * may the QP be given up when retry_ms are over? The QP is given up after two answers of
	 * true in a row, and retries until then. May call only rnic_qp_get_stats() of this header.
	 * NULL: always true. A verbs device may give up by itself, without asking.
	 */
	bool (*may_give_up)(void *ctx, struct rnic_qp *qp, uint64_t silent_us);
	void *ctx;
};

/** Create a QP in state RESET and move it to INIT with its receive buffers posted (LLC-8). */
int rnic_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params,
		   struct rnic_qp **ret_qp);
/** The QP number: 24 bits, never 0 or 1; unpredictable for soft. */
uint32_t rnic_qp_num(const struct rnic_qp *qp);

struct rnic_qp_peer {
	uint8_t gid[16];
	uint8_t mac[6]; /* CLC-17: no ARP for RNICs is assumed; zero: not known */
	uint32_t qpn;
	uint32_t rq_psn;    /* the peer's initial send PSN */
	uint8_t path_mtu;   /* code 1..5, the smaller of both sides */
	uint8_t sgid_index; /* index in rnic_info.gids of the own GID */
	/** RDMA READs of the peer that are answered at a time, up to
	 * rnic_info.max_reads_answered. A peer that has more under way is answered "invalid
	 * request", which ends the connection. 0: the peer may not read at all. */
	uint8_t reads_answered;
};

/** INIT -> RTR: the QP may receive and answer. */
int rnic_qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer);

struct rnic_qp_send_params {
	uint32_t sq_psn; /* own initial send PSN, as announced */
	/** Give up after this time without progress. Time in which this process did not run does
	 * not count. A verbs device also has a timeout of its own, where it does: the next larger
	 * one that the device can have. */
	unsigned int retry_ms;
	unsigned int rnr_retry; /* 0..7; 7: forever, while the peer answers */
	/** Own RDMA READs that may be under way, up to rnic_info.max_reads_asked and to what the
	 * peer answers at a time. Further ones wait, and what was posted behind them with them. 0:
	 * none may be posted. */
	uint8_t reads_asked;
};

/** RTR -> RTS: the QP may send. */
int rnic_qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params);
/**
 * Change retry_ms of a QP in RTS, at least 1. It counts at once: if there was no progress for that
 * time already, the QP fails from the event loop. verbs: at least two of the device's own timeouts,
 * which are set on the way to RTS and do not change (docs/verbs-rnic.md).
 */
void rnic_qp_set_retry(struct rnic_qp *qp, unsigned int retry_ms);
/** Have the peer acknowledge what was posted until now as soon as that has arrived. A soft RNIC
 * otherwise keeps the ACK of a SEND for up to a millisecond, for data that it can go with. */
void rnic_qp_want_ack(struct rnic_qp *qp);
/** Any -> ERR: everything outstanding completes with WR_FLUSH_ERR from the event loop. */
void rnic_qp_error(struct rnic_qp *qp);
/** Destroy a QP: no callback runs for it any more, and the peer cannot write any more. verbs: the
 * kernel may keep parts of the QP for longer, and then also what is freed of its PD. soft: for
 * another second the peer is told that the QP has ended, if the user got all that it had received.
 */
void rnic_qp_destroy(struct rnic_qp *qp);

/**
 * Post `n` work requests in order, all or none. Requests that are posted together may be sent with
 * one system call.
 * @return 0; -ENOMEM (send queue full); -EINVAL; -ENOTCONN (not RTS); -EIO (QP in ERR)
 */
int rnic_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);

/**
 * Post `n` receive buffers of a QP with user_receives, all or none. Allowed from INIT on.
 * @return 0; -ENOMEM: recv_depth are posted; -EINVAL: the memory is not registered, or the QP posts
 *         buffers itself; -EIO (QP in ERR)
 */
int rnic_post_recv(struct rnic_qp *qp, const struct rnic_recv_wr *wr, size_t n);

struct rnic_qp_stats {
	/* Payload bytes of SENDs and WRITEs, and received ones of own READs. verbs: WRITEs of the
	 * peer are not seen, so rx_bytes counts SENDs only; retransmits is 0, because the device
	 * counts them for all its QPs together. */
	uint64_t tx_bytes, rx_bytes;
	uint64_t retransmits;
	/* Microseconds since a packet of the peer came; verbs: since a completion told of one.
	 * UINT64_MAX: not known. */
	uint64_t heard_us;
};

void rnic_qp_get_stats(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats);

#endif
