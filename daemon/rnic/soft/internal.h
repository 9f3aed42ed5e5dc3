/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * The soft RNIC: RoCEv2 reliable-connected queue pairs over UDP sockets, in one thread.
 *
 *   device.c     open, close, the interface's state, the run loop
 *   endpoint.c   the UDP socket of one address
 *   holder.c     which process has the UDP port
 *   rx.c         datagrams in: split, check, give to the QP
 *   tx.c         packets out in batches
 *   gsi.c        datagrams of queue pair 1
 *   qp.c         life of a QP, completions, its timer
 *   mr.c         memory regions, and which memory a key stands for
 *   mw.c         memory windows
 *   requester.c  sending half of a QP: send queue, answers, retransmission
 *   requester_send.c  sending half of a QP: packets out of work requests
 *   requester_read.c  sending half of a QP: RDMA READs and their responses
 *   responder.c  receiving half of a QP: order, ACKs, WRITEs
 *   receive.c    receiving half of a QP: SENDs and their buffers
 *   response.c   receiving half of a QP: responses to RDMA READs
 *   window.c     how many packets may be in flight
 *   hold.c       packets that came before their turn
 *   reader.c     reads the interface's state in a thread of its own
 *
 * All work is done in soft_device_run(): receive, deliver completions, send, acknowledge. Calls of
 * the user only change state and ask for a run, so no callback runs inside such a call. Times are
 * microseconds of CLOCK_MONOTONIC; a deadline of 0 means none.
 */
#ifndef SMCRD_RNIC_SOFT_INTERNAL_H
#define SMCRD_RNIC_SOFT_INTERNAL_H

#include <netinet/in.h>
#include <sys/uio.h>

/* Keys are random numbers that this host drew, so each serves as its own hash. */
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
struct soft_responder;

/** A PSN this far from the expected one is neither early nor late, but wrong. */
#define SOFT_PSN_WINDOW (1 << 20)
/** Most packets of one send, as many as the kernel cuts it into. Their IP identifications are 0, 1,
 * 2.. */
#define SOFT_MAX_SEGMENTS 128

/* ---- holder.c */

/** Name the process that has UDP `port` of `addr`: "smcrd (pid 17)", "the kernel (rdma_rxe)". */
void soft_port_holder(struct in_addr addr, uint16_t port, char *buf, size_t len);

/* ---- endpoint.c */

/** One IPv4 address of the interface, with its socket. If the address is removed, the endpoint
 * stays as long as QPs use it. */
struct soft_endpoint {
	struct soft_device *dev;
	struct in_addr addr;
	uint8_t prefix_len;
	bool present;       /* the interface has the address */
	unsigned int users; /* how many QPs use it */
	bool blocked;       /* the socket is full */
	int fd;
	struct event *readable, *writable;
	struct soft_endpoint *prev, *next;
};

int soft_endpoint_open(struct soft_device *dev, struct in_addr addr, uint8_t prefix_len,
		       struct soft_endpoint **ret_ep, char ret_error[RNIC_ERROR_LEN]);
/** Take the endpoint off the device's list and free it. */
void soft_endpoint_close(struct soft_endpoint *ep);
/** The socket is full: stop sending until it is writable. */
void soft_endpoint_block(struct soft_endpoint *ep);

/* ---- mr.c */

struct soft_pd {
	struct rnic_pd base;
	unsigned int users;
};

/** A key, and what it stands for. Memory regions have one, and memory windows that are bound. */
struct soft_token {
	uint32_t key;
	unsigned int access;
	const struct soft_pd *pd;
	struct soft_qp *qp; /* of a window: only the peer of this QP may use it; else NULL */
	uint8_t *addr;
	size_t len;
	uint64_t start; /* where the memory begins for peers */
	UT_hash_handle hh;
};

struct soft_mw;

struct soft_mr {
	struct rnic_mr base;
	struct soft_pd *pd;
	struct soft_token token; /* lkey and rkey */
	struct soft_mw *windows; /* those that are bound to it */
};

int soft_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr);
void soft_mr_deregister(struct rnic_mr *mr);
/** Give a token a random key and start address, and let it be found. Its other members are set. */
void soft_token_add(struct soft_device *dev, struct soft_token *token);
void soft_token_remove(struct soft_device *dev, struct soft_token *token);
/** @return the token with this key, or NULL */
struct soft_token *soft_token_find(const struct soft_device *dev, uint32_t key);
/** May a QP of `pd` read [addr, addr + len) with `lkey`? */
bool soft_mr_local_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
		      const void *addr, uint32_t len);
/** May a QP of `pd` put bytes that it has asked for into [addr, addr + len) with `lkey`? */
bool soft_mr_local_write_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
			    const void *addr, uint32_t len);
/** The memory behind [va, va + len), if the peer of `qp` has the right `access`
 * (RNIC_ACCESS_REMOTE_READ or _WRITE) there with `rkey`, else NULL. */
uint8_t *soft_mr_remote(const struct soft_qp *qp, unsigned int access, uint32_t rkey, uint64_t va,
			uint32_t len);

/* ---- mw.c */

/** A memory window. It is bound while `mr` is not NULL; then it is on the lists of `mr` and of
 * token.qp. */
struct soft_mw {
	struct rnic_window base;
	struct soft_pd *pd;
	struct soft_mr *mr;
	struct soft_token token;
	struct soft_mw *prev_of_mr, *next_of_mr;
	struct soft_mw *prev_of_qp, *next_of_qp;
};

int soft_mw_new(struct rnic_pd *pd, struct rnic_window **ret_window);
void soft_mw_free(struct rnic_window *window);
int soft_mw_bind(struct rnic_window *window, struct rnic_qp *qp, struct rnic_mr *mr,
		 const void *addr, size_t len, unsigned int access);
int soft_mw_invalidate(struct rnic_window *window, struct rnic_qp *qp);
/** The peer of `qp` kills a token. @return false: it is no token of a window that is bound to `qp`
 */
bool soft_mw_kill(struct soft_qp *qp, uint32_t key);
/** A region ends, and with it the windows that are bound to it. */
void soft_mw_leave_mr(struct soft_mr *mr);
/** A QP is destroyed: the windows that are bound for its peer are not any more. */
void soft_mw_leave_qp(struct soft_qp *qp);

/* ---- tx.c */

struct soft_tx;

int soft_tx_new(struct soft_tx **ret_tx);
void soft_tx_free(struct soft_tx *tx);
/** Start a batch of packets of one QP. */
void soft_tx_begin(struct soft_tx *tx, const struct soft_qp *qp);
/**
 * Add a packet. The requests of a batch ask for one ACK. Answers do not; they are batches of their
 * own.
 * @param bth      opcode, solicited and psn are set; the rest is filled in here
 * @param ext      the header behind the BTH; not read if the opcode has none
 * @param payload  up to RNIC_MAX_SGE pieces, which must not change before soft_tx_flush()
 * @param copy     send a private copy of the payload
 * @return false: the batch is full, flush it first
 */
bool soft_tx_add(struct soft_tx *tx, const struct roce_bth *bth, const union roce_ext *ext,
		 const struct iovec *payload, unsigned int pieces, bool copy);
/**
 * Add an ACKNOWLEDGE behind the packets, if it needs no datagram of its own. Nothing may be added
 * after it.
 * @return false: it needs a datagram of its own
 */
bool soft_tx_add_ack(struct soft_tx *tx, uint32_t psn, const struct roce_aeth *aeth);
/**
 * Hand the batch to the kernel.
 * @param ret_packets  packets that left or count as lost on the way; the others were not sent and
 *                     have to be added again
 * @param ret_acked    the ACKNOWLEDGE left or counts as lost on the way
 * @return 0; -EAGAIN: the socket is full and the endpoint blocked; -ERESTART: segmentation was
 *         turned off or down, add the rest again now
 */
int soft_tx_flush(struct soft_tx *tx, struct soft_endpoint *ep, size_t *ret_packets,
		  bool *ret_acked);
/** Send one congestion notification. A lost one is not repeated. */
void soft_tx_congestion(const struct soft_qp *qp);
/** Send one ACKNOWLEDGE. @return 0 or -EAGAIN; after any other error the packet counts as lost on
 * the way, and 0 is returned. */
int soft_tx_ack(const struct soft_qp *qp, uint32_t psn, const struct roce_aeth *aeth);

/* ---- rx.c */

struct soft_rx;

int soft_rx_new(struct soft_rx **ret_rx);
void soft_rx_free(struct soft_rx *rx);
/** Receive one burst. @return true: probably more datagrams have come meanwhile */
bool soft_rx_poll(struct soft_endpoint *ep);
/** Receive all datagrams that are in the socket now. */
void soft_rx_drain(struct soft_endpoint *ep);
/** Where a datagram came from, and how. */
struct soft_arrival {
	const struct sockaddr_in *from;
	bool marked; /* the network has marked it: a queue on the way is long */
};

/** Handle one RoCE packet that came to `ep`. */
void soft_rx_packet(struct soft_endpoint *ep, const struct soft_arrival *arrival,
		    const uint8_t *buf, size_t len, uint16_t ip_id_guess);

/* ---- gsi.c */

/** How many datagrams to queue pair 1 are looked at in a round, and how many of one sender. Each
 * costs the check of an ICRC, and perhaps an answer. */
#define SOFT_GSI_SLOTS 64
#define SOFT_GSI_SHARE 16

struct soft_gsi_slot {
	struct sockaddr_in from;
	struct in_addr to;
	bool sound; /* else it only counts */
	uint8_t data[RNIC_GSI_LEN];
};

/** Queue pair 1. */
struct soft_gsi {
	rnic_gsi_fn *fn;
	void *ctx;
	uint32_t psn;
	bool telling;
	unsigned int used;
	struct soft_gsi_slot slots[SOFT_GSI_SLOTS];
};

/** Is the packet for queue pair 1? */
bool soft_gsi_is_for(const struct roce_packet *packet);
/** Check a packet for queue pair 1, and keep it for soft_gsi_deliver(). */
void soft_gsi_packet(struct soft_endpoint *ep, const struct sockaddr_in *from,
		     const struct roce_packet *packet, const uint8_t *buf, size_t len,
		     uint16_t ip_id_guess);
/** Give what has come to the user. */
void soft_gsi_deliver(struct soft_device *dev);

/* ---- requester.c, requester_send.c, requester_read.c */

/** A work request in the send queue. Its pieces are at soft_wqe_pieces(). */
struct soft_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t first;        /* number of the first packet */
	uint64_t send_ordinal; /* of a SEND: how many SENDs were posted before it */
	uint32_t rkey;
	uint32_t length;
	uint32_t packets; /* at least one; of a READ: those of its response */
	uint8_t opcode;   /* enum rnic_opcode */
	uint8_t flags;    /* RNIC_SEND_* */
	uint8_t num_sge;
	bool one_message; /* FIRST/MIDDLE/LAST packets, not one ONLY message a packet */
	bool own;         /* the user did not post it, and is not told of it */
	union {
		struct rnic_sge sge[RNIC_FEW_SGE];
		uint8_t inline_data[RNIC_MAX_INLINE]; /* with RNIC_SEND_INLINE */
	};
};

/** Most READ requests of a QP that are under way. */
#define SOFT_MAX_READS_ASKED 16
/** How many packets ahead of the first missing one a READ response is taken; a power of two. No
 * window is larger. */
#define SOFT_READ_AHEAD SOFT_HOLD_PACKETS

/** A READ request on the wire. A work request is as many of these as the window makes of it. */
struct soft_read {
	struct soft_wqe *wqe;
	uint64_t first, end; /* numbers of the first packet of the response and of that behind it */
	bool again;          /* was also asked for in part, so any packet may be FIRST or LAST */
};

/** The READs of a QP that may have some. Bytes that come early go to their place at once, and a bit
 * tells that they are there. */
struct soft_reads {
	unsigned int asked; /* most READ requests under way */
	unsigned int head, count;
	struct soft_read ring[SOFT_MAX_READS_ASKED]; /* those whose response is not complete */
	uint64_t early[SOFT_READ_AHEAD / 64];        /* by packet number modulo SOFT_READ_AHEAD */
	unsigned int num_early;
	uint64_t early_end; /* behind the last packet that came early */
	bool gap;           /* later answers have come than the one for packet `acked`.. */
	uint64_t gap_at;    /* ..and this was `acked` then */
	uint64_t asked_end; /* what is missing before this packet was asked for again */
	uint64_t lost_end;  /* what is missing between that and this packet is lost, not late */
	bool ask_again;     /* for what is missing from `acked` on */
};

/** Packets are numbered from 0. The PSN of a packet is the low 24 bits of psn0 + its number. A READ
 * has the numbers of the packets of its response. */
struct soft_requester {
	struct soft_wqe *wqes; /* ring */
	struct rnic_sge *sges; /* `max_sge` for each of `wqes`, if that is more than RNIC_FEW_SGE */
	unsigned int max_sge;
	unsigned int depth, head, count;
	unsigned int cursor; /* index of the wqe of packet `next`, counted from head */
	uint32_t psn0;
	uint64_t acked;   /* number of the first packet that is not acknowledged, or has not come */
	uint64_t taken;   /* the peer has carried out everything before this packet: later than
			     `acked` if the response to a READ is missing */
	uint64_t next;    /* number of the packet that is sent next */
	uint64_t sent;    /* number of the first packet that was never sent */
	uint64_t end;     /* number of the first packet that is not posted yet */
	uint64_t recover; /* a loss of a packet before this one is no new loss */
	struct soft_window window;
	bool window_full; /* the window, and not the user, limits how much is sent */
	bool stuck;       /* packet `next` cannot be sent; fails when those before are acked */
	bool timed_out;   /* the timer has fired, and nothing was sent or acknowledged since */
	bool ack_wanted;  /* the user waits for all that it has posted */
	bool asking;      /* a request that asks for an ACK at once is in the queue */
	uint64_t sends_posted, sends_acked;
	bool credits_known;
	uint64_t send_limit;   /* ordinal of the first SEND for which the peer has no buffer */
	uint32_t rtt, rtt_var; /* microseconds; rtt 0: unknown */
	uint64_t sample_packet, sample_at; /* measured packet, when it left; 0: none */
	uint64_t deadline;
	uint64_t progress_at; /* last progress, later by the time in which smcrd did not run */
	uint64_t retry_limit;
	unsigned int tries;
	bool may_give_up;         /* what the user's may_give_up() has answered last */
	uint64_t not_ready_until; /* after an RNR NAK of the peer */
	unsigned int rnr_retry, rnr_tries;
	uint64_t tx_bytes, rx_bytes, retransmits;
	struct soft_reads *reads; /* NULL: the QP has none */
	uint64_t gap_deadline;    /* when missing parts of responses count as lost */
};

/** @param max_sge  0: RNIC_FEW_SGE */
int soft_requester_init(struct soft_requester *rq, unsigned int depth, unsigned int max_sge);
/** @return 0 or -ENOMEM */
int soft_requester_start(struct soft_qp *qp, const struct rnic_qp_send_params *params);
/** Change the retry limit of a QP in RTS; it also holds for packets under way. */
void soft_requester_set_retry(struct soft_qp *qp, unsigned int retry_ms);
void soft_requester_free(struct soft_requester *rq);
/** @return as rnic_post_send() */
int soft_requester_post(struct soft_qp *qp, const struct rnic_send_wr *wr, size_t n);
/** Have the peer acknowledge at once what was posted until now. */
void soft_requester_want_ack(struct soft_qp *qp);
/** Can an answer with this PSN be about a packet that is under way? */
bool soft_requester_awaits(const struct soft_qp *qp, uint32_t psn);
/** Would soft_requester_transmit() send something now? */
bool soft_requester_ready(const struct soft_qp *qp);
/** Send up to one batch. @return packets sent */
size_t soft_requester_transmit(struct soft_qp *qp);
/** Handle an answer of the peer: an ACKNOWLEDGE or a packet of an RDMA READ response. */
void soft_requester_answer(struct soft_qp *qp, const struct roce_packet *packet);
/** The peer says that the network marked a packet which this side sent. */
void soft_requester_congested(struct soft_qp *qp);
/** The network marked a READ response. This side asked for it, so it has to ask for less. */
void soft_requester_marked(struct soft_qp *qp);
void soft_requester_timer(struct soft_qp *qp);
/** Complete all outstanding work requests: the first one with status `first`, the others with
 * WR_FLUSH_ERR. */
void soft_requester_flush(struct soft_qp *qp, enum rnic_wc_status first);

/* ---- receive.c */

/** What has come of carrying out a packet. */
enum soft_outcome {
	SOFT_DONE,
	SOFT_NOT_READY, /* no receive buffer */
	SOFT_INVALID_REQUEST,
	SOFT_REMOTE_ACCESS,
	SOFT_LOCAL_ERROR, /* this side's fault */
};

/** The receive buffers of a QP: a ring of recv_depth, and the SEND that fills the next of them. */
struct soft_receives {
	uint8_t *own;                /* the RNIC's, of recv_size bytes each; or.. */
	struct rnic_recv_wr *posted; /* ..the user's */
	unsigned int head;           /* the next to be filled */
	unsigned int ready;          /* how many can be filled */
	unsigned int untold;         /* how many have a completion that the user was not told of */
	uint32_t room, length;       /* of the SEND under way: its buffer, and its bytes so far */
	bool spoilt;                 /* the next buffer's memory may not be written any more */
};

int soft_receives_init(struct soft_qp *qp);
void soft_receives_free(struct soft_receives *rv);
/** @return as rnic_post_recv() of a QP that is not in ERR */
int soft_receives_post(struct soft_qp *qp, const struct rnic_recv_wr *wr, size_t n);
/** Carry out a packet of a SEND. */
enum soft_outcome soft_receive(struct soft_qp *qp, const struct roce_packet *packet, bool first,
			       bool last);
/** The QP has gone to ERR: complete the buffers that its user has posted. */
void soft_receives_flush(struct soft_qp *qp);
/** The user is about to be told of all completions. @return how many of the RNIC's own buffers have
 * to be made ready again after that */
unsigned int soft_receives_tell(struct soft_qp *qp);

/* ---- response.c */

/** Most RDMA READs of a QP's peer that are answered at a time. */
#define SOFT_MAX_READS_ANSWERED 32
/** Most responses that may wait and were asked for again. A peer may ask for each gap of its own.
 */
#define SOFT_MAX_REPEATS   96
#define SOFT_MAX_RESPONSES (SOFT_MAX_READS_ANSWERED + SOFT_MAX_REPEATS)

/** A response to an RDMA READ. Its packets have the PSNs from that of the request on. */
struct soft_response {
	uint64_t va;
	uint32_t rkey, length;
	uint32_t psn;
	uint32_t packets; /* at least one */
	uint32_t sent;    /* how many of these */
	uint32_t msn;
	bool again; /* asked for again: nothing, if the memory is gone meanwhile */
};

/** What a QP has whose peer may read. */
struct soft_responses {
	unsigned int limit;       /* most that may wait and were not asked for again */
	unsigned int head, count; /* of `waiting`, in the order of the requests */
	unsigned int repeats;     /* how many of these were asked for again */
	uint64_t num_past;        /* READs so far.. */
	struct soft_response waiting[SOFT_MAX_RESPONSES];
	struct soft_response past[SOFT_MAX_READS_ANSWERED]; /* ..and the last of them, a ring */
};

int soft_responses_new(unsigned int limit, struct soft_responses **ret_responses);
/** May the peer read this? */
bool soft_response_allowed(const struct soft_qp *qp, const struct roce_packet *request);
/** Take the request whose turn it is. @param ret_packets  how many PSNs it has */
enum soft_outcome soft_response_take(struct soft_qp *qp, const struct roce_packet *request,
				     uint32_t *ret_packets);
/** Take a request that was taken before, or for a part of what was. @return false: it was not */
bool soft_response_repeat(struct soft_qp *qp, const struct roce_packet *request);
/** Does a response wait that reads through this key? */
bool soft_responses_read(const struct soft_responder *rs, uint32_t rkey);
/** The PSN that an ACK may name. An ACK that names a packet of a READ's response seems to some
 * peers to be the response. So that is a PSN before the READs after which nothing else has come. */
uint32_t soft_responses_acked(const struct soft_responder *rs);
void soft_responses_clear(struct soft_responder *rs);
/** Would soft_responses_transmit() send something now? */
bool soft_responses_ready(const struct soft_qp *qp);
/** Send up to one batch. @return packets sent */
size_t soft_responses_transmit(struct soft_qp *qp);

/* ---- responder.c */

struct soft_responder {
	uint32_t expected; /* PSN */
	uint32_t msn;
	uint8_t message; /* kind of the message under way: MESSAGE_* in responder.c */
	struct soft_receives receives;
	uint32_t write_rkey, write_left; /* the RDMA WRITE under way */
	uint64_t write_va;
	struct soft_responses *responses; /* NULL: the peer may not read */
	bool ack_pending;                 /* an ACK is to be sent at the end of a round */
	bool ack_hurry;                   /* at the end of this one, whatever comes */
	uint64_t ack_deadline;            /* an ACK is to be sent at this time at the latest */
	uint32_t unacked_packets;
	uint32_t unacked_before; /* the same at the end of the round before */
	struct soft_hold hold;
	bool nak_sent;  /* a sequence NAK was sent for the gap at `expected`, or waits */
	bool rnr_sent;  /* an RNR NAK was sent for the SEND at `expected`, or waits */
	bool nak_waits; /* `waiting_nak` for `waiting_psn` is to be sent behind the responses, and
			   when the user was told of what came before */
	uint32_t waiting_psn;
	struct roce_aeth waiting_nak;
	uint64_t nak_deadline;
	uint64_t notified_at;     /* when the peer was last told of congestion */
	bool refused;             /* a NAK has ended the QP, or waits */
	uint32_t refused_psn;     /* its PSN */
	struct roce_aeth refusal; /* that NAK, to be repeated */
	uint64_t rx_bytes;
};

/** Does a response wait, so that nothing may be acknowledged? */
static inline bool soft_responses_wait(const struct soft_responder *rs)
{
	return rs->responses && rs->responses->count > 0;
}

/** Can the NAK that waits be sent, in so far as it waits for responses? */
static inline bool soft_responder_nak_is_due(const struct soft_responder *rs)
{
	return rs->nak_waits && !soft_responses_wait(rs);
}

int soft_responder_init(struct soft_qp *qp);
void soft_responder_free(struct soft_responder *rs);
/** Handle a request of the peer. `buf` has the whole packet; `supported`: this opcode can be
 * carried out. */
void soft_responder_request(struct soft_qp *qp, const struct roce_packet *packet,
			    const uint8_t *buf, size_t len, bool supported);
/**
 * Answer a packet for a QP in ERR. If a NAK ended the QP, it is repeated. Otherwise requests up to
 * the expected one are answered with "remote operational error". So a peer that repeats requests
 * for ever learns of the end. (rdma_rxe does, with the retry count that the kernel's SMC-R sets.)
 * Queue pairs with user's receives are those of connections, whose peers hear of the end from the
 * connection manager; they are silent, as the InfiniBand specification asks.
 * @return false: the packet was not answered
 */
bool soft_responder_refuse_again(struct soft_qp *qp, const struct roce_packet *packet);
/** A packet of the peer was marked by the network: tell the peer, but not too often. */
void soft_responder_congested(struct soft_qp *qp);
void soft_responder_timer(struct soft_qp *qp);
/** Has an ACK to be sent now, at the end of a round? To be asked once a round. @param more_comes
 * another round follows, which probably finds more packets */
bool soft_responder_ack_is_due(struct soft_qp *qp, bool more_comes);
/** Send an ACK now; if the socket is full it stays pending. */
void soft_responder_send_ack(struct soft_qp *qp);
/** Packets of the QP are about to leave: if an ACK is owed, add it to their batch if it fits. Call
 * soft_responder_acked() when it has left. */
void soft_responder_offer_ack(struct soft_qp *qp);
void soft_responder_acked(struct soft_qp *qp);
/** What an ACK says now. */
struct roce_aeth soft_responder_aeth(const struct soft_qp *qp);
/** Completions are delivered: do and send what waits, unless responses have to go before it. */
void soft_responder_caught_up(struct soft_qp *qp);
/** The packet with this PSN of a response cannot be sent: tell the peer, and end the QP. */
void soft_responder_break_off(struct soft_qp *qp, uint32_t psn);
/** The QP ends: send the ACK that is owed, if any. Hardware would have sent it by now. */
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
	bool dead;    /* destroyed while the run loop may use it: freed at the end of the run */
	bool gone;    /* destroyed, but for a while it still answers that it has ended */
	bool gone_up; /* of a gone QP: the port was up at the last timer */
	uint8_t gone_turns;
	bool telling; /* its completion callback is running */
	bool busy;    /* on the device's list `busy` */
	bool flush;   /* has gone to ERR, and the completions of that are not made yet */
	enum rnic_wc_status flush_status;

	struct soft_endpoint *ep;
	struct sockaddr_in peer;
	struct roce_icrc_flow flow;       /* addresses and ports of packets that are sent */
	struct roce_icrc_flow heard_flow; /* addresses and ports of the packet that came last */
	uint32_t peer_qpn;
	uint32_t mtu;                        /* path MTU, bytes */
	uint64_t heard_at;                   /* when the last packet of the peer came */
	in_port_t request_port, answer_port; /* from which the peer sends; 0: unknown */
	bool peer_is_soft; /* the peer is a soft RNIC of smcrd (rx.c): it answers marks */
	bool neigh;        /* a neighbour entry with peer_mac was asked for */
	uint8_t peer_mac[6];

	struct soft_requester rq;
	struct soft_responder rs;
	struct soft_mw *windows; /* those that are bound for its peer */
	struct rnic_wc *wcs;
	size_t num_wcs;
	unsigned int
		send_wcs; /* how many of `wcs` are for sends: these still occupy the send queue */

	struct alarm *timer;
	UT_hash_handle hh;
	struct soft_qp *prev, *next;
};

int soft_qp_create(struct rnic_pd *pd, const struct rnic_qp_params *params,
		   struct rnic_qp **ret_qp);
/** The IPv4 address of an IPv4-mapped GID. @return false: another GID */
bool soft_gid_addr(const uint8_t gid[16], struct in_addr *ret_addr);
void soft_addr_gid(struct in_addr addr, uint8_t ret_gid[16]);
int soft_qp_connect(struct rnic_qp *qp, const struct rnic_qp_peer *peer);
int soft_qp_start(struct rnic_qp *qp, const struct rnic_qp_send_params *params);
void soft_qp_set_retry(struct rnic_qp *qp, unsigned int retry_ms);
void soft_qp_want_ack(struct rnic_qp *qp);
void soft_qp_user_error(struct rnic_qp *qp);
void soft_qp_destroy(struct rnic_qp *qp);
/** The device closes: free the QPs that were destroyed and still answer. */
void soft_qp_forget_gone(struct soft_device *dev);
int soft_qp_post_send(struct rnic_qp *qp, const struct rnic_send_wr *wr, size_t n);
/** May the user post something to the send queue? @return 0, -ENOTCONN or -EIO */
int soft_qp_may_send(const struct soft_qp *qp);
int soft_qp_post_recv(struct rnic_qp *qp, const struct rnic_recv_wr *wr, size_t n);
void soft_qp_get_stats(const struct rnic_qp *qp, struct rnic_qp_stats *ret_stats);

/** Go to ERR; the oldest work request completes with `status`. */
void soft_qp_fail(struct soft_qp *qp, enum rnic_wc_status status);
/** Put the QP on the list of those that the run loop handles. */
void soft_qp_busy(struct soft_qp *qp);
/** Add a completion. `wcs` is large enough for all that can be outstanding. */
void soft_qp_complete(struct soft_qp *qp, const struct rnic_wc *wc);
/** Run the user's callback for the completions that were added. */
void soft_qp_deliver(struct soft_qp *qp);
/** Arm the timer for the earlier of the requester's and the responder's deadline. */
void soft_qp_arm(struct soft_qp *qp);
void soft_qp_free(struct soft_qp *qp);

/* ---- reader.c */

struct soft_reader;

/**
 * Start a thread that reads the interface's state on request, in the calling thread's network
 * namespace.
 * @param on_read  called from the event loop with result and netdev of rnic_netdev_read()
 */
int soft_reader_new(struct event_base *base, unsigned int ifindex,
		    void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev),
		    void *ctx, struct soft_reader **ret_reader);
/** Read the interface's state again. The result is never older than this call. */
void soft_reader_ask(struct soft_reader *reader);
/** Free the reader; no callback follows. Does not wait for the thread. */
void soft_reader_free(struct soft_reader *reader);

/* ---- device.c */

struct soft_device {
	struct rnic base;
	uint16_t port; /* UDP, host byte order */
	bool loopback;
	struct rnic_stats stats;
	bool segmentation;         /* UDP_SEGMENT works */
	unsigned int max_segments; /* up to SOFT_MAX_SEGMENTS */
	struct soft_reader *reader;
	struct soft_endpoint *endpoints;
	struct soft_qp *qps;       /* hash by number */
	struct soft_token *tokens; /* hash by key */
	unsigned int pds;
	size_t hold_budget;
	struct roce_icrc_tables *tables;
	struct soft_rx *rx;
	struct soft_tx *tx;
	struct soft_gsi gsi;

	struct soft_qp *busy;
	struct soft_qp *graveyard; /* QPs that are dead and not on `busy` */
	struct event *kick;        /* starts a run */
	struct event *resume;      /* starts a run after the event loop has handled other events */
	bool running;
	uint64_t now;       /* time at the start of the round */
	uint64_t looked_at; /* when soft_device_look() asked for the port's state last */
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
/** Receive all that is in the sockets now, before a timer counts something as missing. */
void soft_device_hear(struct soft_device *dev);
/** Receive, deliver, send, acknowledge, until nothing is left to do or other events of the loop
 * have to get their turn. */
void soft_device_run(struct soft_device *dev);
/** A QP's peer is silent: read whether the port is up. Many QPs may ask for that at once. */
void soft_device_look(struct soft_device *dev);
/** Have the event loop start a run. */
void soft_device_kick(struct soft_device *dev);

#endif
