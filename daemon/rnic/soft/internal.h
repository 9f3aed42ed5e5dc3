/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The soft RNIC: RoCEv2 reliable-connected queue pairs over UDP sockets, in one thread.
 *
 *   device.c     open, close, the interface's state, the run loop
 *   endpoint.c   the UDP socket of one address                 holder.c     who has the UDP port
 *   rx.c         datagrams in: split, check, give to the QP   tx.c         packets out in batches
 *   qp.c         life of a QP, completions, its timer         mr.c         memory regions
 *   requester.c  sending half                                 responder.c  receiving half
 *   window.c     packets in flight                            hold.c       packets before their
 * turn
 *   reader.c     what the interface is now, in a thread of its own
 *
 * Everything happens in soft_device_run(): receive, deliver completions, send, acknowledge. Calls
 * of the user only change state and ask for a run, so that no callback runs inside a call.
 * Times are microseconds of CLOCK_MONOTONIC; 0 in a deadline means none.
 */
#ifndef SMCRD_RNIC_SOFT_INTERNAL_H
#define SMCRD_RNIC_SOFT_INTERNAL_H

#include <netinet/in.h>
#include <sys/uio.h>

/* Keys are random numbers that we drew: they are their own hash. */
#define HASH_FUNCTION(key, len, hash) ((hash) = *(const uint32_t *)(key))
#define HASH_KEYCMP(a, b, len)        (*(const uint32_t *)(a) != *(const uint32_t *)(b))
#include <uthash.h>

#include "daemon/rnic/backend.h"
#include "daemon/rnic/netdev.h"
#include "daemon/rnic/soft.h"
#include "daemon/rnic/soft/hold.h"
#include "daemon/rnic/soft/window.h"
#include "proto/roce/icrc.h"
#include "proto/roce/roce.h"

struct event;
struct soft_device;
struct soft_qp;

/** PSNs this far from the expected one are neither early nor late but nonsense. */
#define SOFT_PSN_WINDOW (1 << 20)

/* ---- holder.c */

/** Say who has UDP `port` of `addr` ("smcrd (pid 17)", "the kernel (rdma_rxe)"). */
void soft_port_holder(struct in_addr addr, uint16_t port, char *buf, size_t len);

/* ---- endpoint.c */

/** One IPv4 address of the interface. It outlives the address while QPs use it. */
struct soft_endpoint {
	struct soft_device *dev;
	struct in_addr addr;
	uint8_t prefix_len;
	bool present;       /* the interface has the address */
	unsigned int users; /* QPs */
	bool blocked;       /* the socket takes nothing more for now */
	int fd;
	struct event *readable, *writable;
	struct soft_endpoint *prev, *next;
};

int soft_endpoint_open(struct soft_device *dev, struct in_addr addr, uint8_t prefix_len,
		       struct soft_endpoint **ret_ep, char ret_error[RNIC_ERROR_LEN]);
/** Take it off the device's list and free it. */
void soft_endpoint_close(struct soft_endpoint *ep);
/** The socket is full: stop sending until it is writable. */
void soft_endpoint_block(struct soft_endpoint *ep);

/* ---- mr.c */

struct soft_pd {
	struct rnic_pd base;
	unsigned int users;
};

struct soft_mr {
	struct rnic_mr base;
	struct soft_pd *pd;
	uint32_t key; /* lkey and rkey */
	uint8_t *addr;
	size_t len;
	unsigned int access;
	UT_hash_handle hh;
};

int soft_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr);
void soft_mr_deregister(struct rnic_mr *mr);
/** True if `lkey` lets a QP of `pd` read [addr, addr + len). */
bool soft_mr_local_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
		      const void *addr, uint32_t len);
/** Where a peer of a QP of `pd` may write [va, va + len) with `rkey`, or NULL. */
uint8_t *soft_mr_remote(struct soft_device *dev, const struct soft_pd *pd, uint32_t rkey,
			uint64_t va, uint32_t len);

/* ---- tx.c */

struct soft_tx;

int soft_tx_new(struct soft_tx **ret_tx);
void soft_tx_free(struct soft_tx *tx);
/** Start a batch of packets of one QP. */
void soft_tx_begin(struct soft_tx *tx, const struct soft_qp *qp);
/**
 * Add a packet.
 * @param bth      opcode, solicited and psn; the rest is filled in
 * @param reth     or NULL
 * @param payload  up to RNIC_MAX_SGE pieces, to be left alone until soft_tx_flush()
 * @param copy     send a private copy of the payload
 * @return false: no room, flush first
 */
bool soft_tx_add(struct soft_tx *tx, const struct roce_bth *bth, const struct roce_reth *reth,
		 const struct iovec *payload, unsigned int pieces, bool copy);
/**
 * Add an answer behind the packets, where that costs next to nothing. Nothing else may follow.
 * @return false: it would take a datagram of its own
 */
bool soft_tx_add_ack(struct soft_tx *tx, uint32_t psn, const struct roce_aeth *aeth);
/**
 * Hand the batch to the kernel.
 * @param ret_packets  packets that left or are lost for good; the others were not sent and are
 *                     to be offered again
 * @param ret_acked    the answer left, or is lost for good
 * @return 0; -EAGAIN (socket full, endpoint blocked); -ERESTART: segmentation was turned off or
 *         down, offer the rest again now
 */
int soft_tx_flush(struct soft_tx *tx, struct soft_endpoint *ep, size_t *ret_packets,
		  bool *ret_acked);
/** Send one congestion notification; nothing makes up for one that is lost. */
void soft_tx_congestion(const struct soft_qp *qp);
/** Send one ACKNOWLEDGE. @return 0 or -EAGAIN; any other failure counts as a loss on the way. */
int soft_tx_ack(const struct soft_qp *qp, uint32_t psn, const struct roce_aeth *aeth);

/* ---- rx.c */

struct soft_rx;

int soft_rx_new(struct soft_rx **ret_rx);
void soft_rx_free(struct soft_rx *rx);
/** Receive one burst. @return true if it is likely that more has come meanwhile */
bool soft_rx_poll(struct soft_endpoint *ep);
/** Receive everything that is in the socket now. */
void soft_rx_drain(struct soft_endpoint *ep);
/** How a datagram came. */
struct soft_arrival {
	const struct sockaddr_in *from;
	bool marked; /* the network says that it is congested */
};

/** Handle one RoCE packet that came to `ep`. */
void soft_rx_packet(struct soft_endpoint *ep, const struct soft_arrival *arrival,
		    const uint8_t *buf, size_t len, uint16_t ip_id_guess);

/* ---- requester.c */

/** A work request in the send queue. */
struct soft_wqe {
	struct rnic_send_wr wr;
	uint32_t length;
	uint64_t first;        /* number of its first packet */
	uint32_t packets;      /* at least one */
	uint64_t send_ordinal; /* SENDs: how many SENDs were before it */
	bool one_message;      /* FIRST/MIDDLE/LAST rather than a message a packet */
	uint8_t inline_data[RNIC_MAX_INLINE];
};

/** Packets are numbered from 0 here; the PSN is the low 24 bits of psn0 + number. */
struct soft_requester {
	struct soft_wqe *wqes; /* ring */
	unsigned int depth, head, count;
	unsigned int cursor; /* wqe of packet `next`, counted from head */
	uint32_t psn0;
	uint64_t acked;   /* first packet not acknowledged */
	uint64_t next;    /* to be sent */
	uint64_t sent;    /* first packet never sent */
	uint64_t end;     /* first packet not posted yet */
	uint64_t recover; /* losses before this one count as the same */
	struct soft_window window;
	bool window_full; /* it, not the user, holds us back */
	bool stuck;       /* packet `next` cannot be sent; fails when those before it are done */
	uint64_t sends_posted, sends_acked;
	bool credits_known;
	uint64_t send_limit;               /* SENDs that the peer has buffers for, by ordinal */
	uint32_t rtt, rtt_var;             /* microseconds; rtt 0: unknown */
	uint64_t sample_packet, sample_at; /* at 0: none under way */
	uint64_t deadline;
	uint64_t progress_at; /* later by what we did not run since */
	uint64_t retry_limit;
	unsigned int tries;
	bool may_give_up;         /* the user's last answer */
	uint64_t not_ready_until; /* RNR NAK */
	unsigned int rnr_retry, rnr_tries;
	uint64_t tx_bytes, retransmits;
};

int soft_requester_init(struct soft_requester *rq, unsigned int depth);
void soft_requester_start(struct soft_qp *qp, const struct rnic_qp_send_params *params);
/** Change the patience of a QP in RTS, with effect on what is outstanding. */
void soft_requester_set_retry(struct soft_qp *qp, unsigned int retry_ms);
void soft_requester_free(struct soft_requester *rq);
int soft_requester_post(struct soft_qp *qp, const struct rnic_send_wr *wr, size_t n);
/** Is a packet under way that an answer with this PSN would be about? */
bool soft_requester_awaits(const struct soft_qp *qp, uint32_t psn);
/** True if soft_requester_transmit() would send something now. */
bool soft_requester_ready(const struct soft_qp *qp);
/** Send up to one batch. @return packets sent */
size_t soft_requester_transmit(struct soft_qp *qp);
void soft_requester_ack(struct soft_qp *qp, const struct roce_packet *packet);
/** The network marked a packet that we have sent. */
void soft_requester_congested(struct soft_qp *qp);
void soft_requester_timer(struct soft_qp *qp);
/** Complete everything outstanding, the first one with `first`. */
void soft_requester_flush(struct soft_qp *qp, enum rnic_wc_status first);

/* ---- responder.c */

struct soft_responder {
	uint32_t expected; /* PSN */
	uint32_t msn;
	uint8_t message;      /* opcode class of the message under way, enum in responder.c */
	uint32_t send_length; /* of the SEND under way so far */
	uint32_t write_rkey, write_left; /* the RDMA WRITE under way */
	uint64_t write_va;
	uint8_t *buffers; /* receive buffers, a ring */
	unsigned int buffer_head, buffers_used;
	bool ack_pending;      /* at the end of this round */
	uint64_t ack_deadline; /* or then */
	uint32_t unacked_packets;
	struct soft_hold hold;
	bool nak_sent; /* for the gap at `expected` */
	bool rnr_sent; /* for the SEND at `expected` */
	uint64_t nak_deadline;
	uint64_t notified_at;     /* of congestion */
	bool refused;             /* a NAK that ended the QP was sent for `expected` ... */
	struct roce_aeth refusal; /* ... and this is it */
	uint64_t rx_bytes;
};

int soft_responder_init(struct soft_qp *qp);
void soft_responder_free(struct soft_responder *rs);
/** A request; `buf` is the whole packet; `supported` as roce_decode() found. */
void soft_responder_request(struct soft_qp *qp, const struct roce_packet *packet,
			    const uint8_t *buf, size_t len, bool supported);
/**
 * A packet for a QP in ERR. A NAK that ended it is repeated. Otherwise requests up to the one that
 * would be next are answered with "remote operational error": a peer that repeats them for ever, as
 * rdma_rxe does with the retry count that the kernel's SMC-R asks for, learns of the end.
 * @return false: not answered
 */
bool soft_responder_refuse_again(struct soft_qp *qp, const struct roce_packet *packet);
/** A packet of the peer came with a mark of the network: the peer is to know, now and then. */
void soft_responder_congested(struct soft_qp *qp);
void soft_responder_timer(struct soft_qp *qp);
/** Send the pending ACK; it stays pending if the socket is full. */
void soft_responder_send_ack(struct soft_qp *qp);
/** Packets of the QP are about to leave: an ACK that would be due sooner or later goes with them,
 * if it fits in. Call soft_responder_acked() when it has left. */
void soft_responder_offer_ack(struct soft_qp *qp);
void soft_responder_acked(struct soft_qp *qp);
/** Send the ACK that is owed, if any: the QP ends, and hardware would have sent it by now. */
void soft_responder_settle(struct soft_qp *qp);

/* ---- qp.c */

enum soft_qp_state {
	SOFT_QP_INIT,
	SOFT_QP_RTR,
	SOFT_QP_RTS,
	SOFT_QP_ERR,
};

struct soft_qp {
	struct rnic_qp base;
	struct soft_device *dev;
	struct soft_pd *pd;
	struct rnic_qp_params params;
	enum soft_qp_state state;
	bool dead;    /* destroyed during a run: freed at its end */
	bool gone;    /* destroyed, but answers that for a while */
	bool gone_up; /* its port was up when that was looked at last */
	uint8_t gone_turns;
	bool telling; /* in its callback */
	bool busy;    /* on the device's list */
	bool flush;   /* went to ERR, completions to be made */
	enum rnic_wc_status flush_status;

	struct soft_endpoint *ep;
	struct sockaddr_in peer;
	struct roce_icrc_flow flow;       /* of what we send */
	struct roce_icrc_flow heard_flow; /* of what has come last */
	uint32_t peer_qpn;
	uint32_t mtu;                        /* path MTU, bytes */
	uint64_t heard_at;                   /* when a packet of the peer came */
	in_port_t request_port, answer_port; /* what the peer sends from; 0: not known yet */
	bool peer_is_soft; /* that is the port of RoCEv2, as with our kind, which tells of marks */
	bool neigh;        /* an entry was asked for, with the MAC: */
	uint8_t peer_mac[6];

	struct soft_requester rq;
	struct soft_responder rs;
	struct rnic_wc *wcs;
	size_t num_wcs;
	unsigned int send_wcs; /* of them for sends: they still occupy the send queue */

	struct alarm *timer;
	UT_hash_handle hh;
	struct soft_qp *prev, *next;
};

int soft_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params,
		   struct rnic_qp **ret_qp);
int soft_qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer);
int soft_qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params);
void soft_qp_set_retry(struct rnic_qp *qp, unsigned int retry_ms);
void soft_qp_user_error(struct rnic_qp *qp);
void soft_qp_destroy(struct rnic_qp *qp);
/** The device closes: those that were destroyed do not answer any more. */
void soft_qp_forget_gone(struct soft_device *dev);
int soft_qp_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);
void soft_qp_get_stats(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats);

/** Go to ERR; `status` is for the oldest work request. */
void soft_qp_fail(struct soft_qp *qp, enum rnic_wc_status status);
/** Put on the device's list of QPs that the run loop has to look at. */
void soft_qp_busy(struct soft_qp *qp);
/** Add a completion; room is there by construction. */
void soft_qp_complete(struct soft_qp *qp, const struct rnic_wc *wc);
/** Run the callback for what has completed. */
void soft_qp_deliver(struct soft_qp *qp);
/** Arm the timer for the earlier of the requester's and the responder's deadline. */
void soft_qp_arm(struct soft_qp *qp);
void soft_qp_free(struct soft_qp *qp);

/* ---- reader.c */

struct soft_reader;

/**
 * Start a thread that reads the interface when it is asked, in the calling thread's namespace.
 * @param on_read  called from the event loop: result and netdev as of rnic_netdev_read()
 */
int soft_reader_new(struct event_base *base, unsigned int ifindex,
		    void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev),
		    void *ctx, struct soft_reader **ret_reader);
/** Read it once more, at any time after now. */
void soft_reader_ask(struct soft_reader *reader);
/** Does not wait for the thread. No callback runs any more. */
void soft_reader_free(struct soft_reader *reader);

/* ---- device.c */

struct soft_device {
	struct rnic base;
	uint16_t port; /* UDP, host byte order */
	bool loopback;
	struct rnic_stats stats;
	bool segmentation; /* UDP_SEGMENT works */
	unsigned int max_segments;
	struct soft_reader *reader;
	struct soft_endpoint *endpoints;
	struct soft_qp *qps; /* by number */
	struct soft_mr *mrs; /* by key */
	unsigned int pds;
	size_t hold_budget;
	struct roce_icrc_tables *tables;
	struct soft_rx *rx;
	struct soft_tx *tx;

	struct soft_qp *busy;
	struct soft_qp *graveyard; /* dead and not busy */
	struct event *kick;        /* a run now */
	struct event *resume;      /* a run after the loop has looked at others */
	bool running;
	uint64_t now;       /* at the start of the round */
	uint64_t looked_at; /* whether the port is up */
};

static inline struct soft_device *soft_device_of(const struct rnic *rnic)
{
	return (struct soft_device *)rnic;
}

static inline struct soft_qp *soft_qp_of(const struct rnic_qp *qp)
{
	return (struct soft_qp *)qp;
}

uint64_t soft_clock(void);
/** Unpredictable. */
uint32_t soft_random(void);
/** Receive, deliver, send, acknowledge, until there is nothing to do or it is others' turn. */
void soft_device_run(struct soft_device *dev);
/** Look whether the port is up, for a QP's peer is silent. Many QPs may ask at once. */
void soft_device_look(struct soft_device *dev);
/** Ask for a run from the event loop. */
void soft_device_kick(struct soft_device *dev);

#endif
