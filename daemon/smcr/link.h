/* SPDX-License-Identifier: MIT */
/**
 * @file link.h
 * SMC-R links: the queue pair, what is posted on it, and its failure (RFC 7609 2.2).
 */
#ifndef SMCRD_SMCR_LINK_H
#define SMCRD_SMCR_LINK_H

#include <uthash.h>

#include "daemon/smcr/deletion.h"
#include "daemon/smcr/device.h"
#include "daemon/smcr/ops.h"
#include "daemon/smcr/slab.h"
#include "daemon/smcr/view.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

struct smcr_conn;
struct smcr_lgr;

#define SMCR_LINK_LLC_WAIT  16 /* LLC messages that may wait for room in a send queue */
#define SMCR_LINK_MIN_DEPTH 64 /* of a send queue */

/** What operators were told of a link last. */
enum smcr_told {
	SMCR_TOLD_NOTHING,
	SMCR_TOLD_UP,
	SMCR_TOLD_DOWN,
};

enum smcr_tx_kind {
	SMCR_TX_WRITE,
	SMCR_TX_CDC,
	SMCR_TX_LLC,
	SMCR_TX_PROOF, /* a write that shows what packets pass (path_mtu.c) */
};

/** What a posted work request is for, kept until its completion. */
struct smcr_tx_entry {
	enum smcr_tx_kind kind;
	struct smcr_conn *conn; /* WRITE, CDC, PROOF; NULL when the connection is gone */
	uint64_t tx_end;        /* WRITE: the send buffer is free up to here when it is done */
	uint32_t length;  /* bytes of an RDMA WRITE; 0: it is a SEND. Set by smcr_link_post() */
	uint16_t cdc_seq; /* CDC: its number */
	uint8_t llc_type; /* LLC: type of the message */
	bool llc_reply;
	uint8_t llc_number; /* LLC: the link that DELETE LINK is about; 0: all, or none */
	bool llc_long;      /* LLC: the message is longer than SMCR_LLC_LEN */
	/** The send buffer of a connection that is gone and whose last WRITE this is: the buffer is
	 * given back when the request completes, not before (CDC-17). Set by smcr_link_forget(). */
	struct smcr_element release;
};

struct smcr_link {
	uint64_t ref; /* the host's name for the link */
	struct smcr_lgr *lgr;
	uint8_t slot;   /* index in lgr->links and in the token tables */
	uint8_t number; /* on the wire, 1..255 (LG-11) */
	enum smcr_link_state state;
	struct smcr_device *device; /* NULL once the device is gone */
	char device_name[SMCR_DEVICE_NAME_LEN];
	uint8_t local_gid[SMCR_GID_LEN];
	uint8_t local_mac[SMCR_MAC_LEN];
	void *qp;          /* NULL once destroyed */
	bool qp_failed;    /* the QP is in error: nothing can be sent */
	uint32_t qpn, psn; /* own QP number and initial PSN */
	uint8_t peer_gid[SMCR_GID_LEN];
	uint8_t peer_mac[SMCR_MAC_LEN];
	uint32_t peer_qpn, peer_psn;
	uint8_t mtu;            /* the smaller MTU of both sides, enum smcr_mtu */
	uint32_t uid, peer_uid; /* link user IDs (LG-12) */
	uint32_t retry_ms;      /* how long the QP may be without progress */
	bool was_active;        /* CONFIRM LINK has proven the link */
	uint64_t added;         /* when the link became active; 0: not yet, or the first link */
	/* Posted requests: the entry of wr_id is tx[wr_id % tx_depth]; wr_ids have no gaps. */
	struct smcr_tx_entry *tx;
	uint32_t tx_depth;
	uint64_t tx_next, tx_done; /* next wr_id to post; all below tx_done have completed */
	uint64_t tx_posted;        /* requests from here on did not reach the QP */
	struct {                   /* LLC messages that wait for room, in order */
		uint8_t *msg;      /* a copy */
		size_t len;
		struct smcr_tx_entry entry;
	} llc_wait[SMCR_LINK_LLC_WAIT];
	unsigned int llc_waiting;
	struct smcr_timer fail_work; /* carries out smcr_link_fail() */
	struct smcr_conn *waiting;   /* connections that wait for room (DL list, conn->tx.wait_*) */
	uint32_t num_conns;          /* connections that write on the link */
	uint32_t num_named; /* connections in rendezvous whose CLC messages name the link */
	uint64_t tx_bytes, rx_bytes;
	char last_error[SMCR_LAST_ERROR_LEN];
	enum smcr_told told;
	bool path_dead; /* failed because no packet gets through, not by a local cause */
	bool too_large; /* failed because packets of its MTU do not get through */
	uint8_t passed; /* largest packets that were acknowledged, enum smcr_mtu; 0: none */
	bool disabled;  /* the operator wants no writes on it while the group has another link */
	struct smcr_deletion deletion;
	unsigned int deletions_asked;    /* client: sent here, about others */
	unsigned int deletions_repeated; /* server: replies due here, about others */
	/* llc_test_link.c */
	uint8_t test_data[16];
	uint64_t test_sent;           /* when TEST LINK was sent */
	struct smcr_timer test_timer; /* ERR-38 */
	/* keepalive.c */
	uint64_t last_active; /* when a message last came, or was delivered (TEST-3) */
	struct smcr_timer idle_timer;
	bool probe_due;    /* probe when idle_timer fires, idle or not */
	UT_hash_handle hh; /* engine->links by ref */
};

/** Make a link with a QP on `device`, ACTIVATING, and register every slab of the group on it.
 * `number` 0: use the next free number (LG-11). */
int smcr_link_new(struct smcr_lgr *lgr, struct smcr_device *device, uint8_t number,
		  struct smcr_link **ret_link);
/** Flush what is posted, deregister memory, destroy the QP; the structure stays. */
void smcr_link_drop_qp(struct smcr_link *link);
/** Drop the QP and free the link. From the timer queue only. */
void smcr_link_free(struct smcr_link *link);
/** The link with this `ref`; NULL if it is gone. */
struct smcr_link *smcr_link_by_ref(const struct smcr_engine *engine, uint64_t ref);
/** Is the link, in whatever state, the one whose far end the peer's message names (QPN, GID and, in
 * version 1, MAC)? */
bool smcr_link_matches(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** As smcr_link_matches(), and the link is usable. */
bool smcr_link_leads_to(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** As smcr_link_leads_to(), and the link is ACTIVE. */
bool smcr_link_is_named(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** A message has come on the link, so the peer's QP is connected to this one. Fail other links that
 * claim to lead to that QP: they are dead (PLG-5). */
void smcr_link_supersede(const struct smcr_link *link);
/** Does the peer's Accept or Confirm name a link that the group has, in whatever state, or had? */
bool smcr_link_is_or_was_named(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg);
/** The far end is known: QP from INIT to RTR. */
int smcr_link_connect(struct smcr_link *link, const uint8_t gid[SMCR_GID_LEN],
		      const uint8_t mac[SMCR_MAC_LEN], uint32_t qpn, uint32_t psn, uint8_t mtu);
/** QP from RTR to RTS. */
int smcr_link_start(struct smcr_link *link);
/** The link has a QP that is not in error. */
static inline bool smcr_link_usable(const struct smcr_link *link)
{
	return link->qp && !link->qp_failed && link->state != SMCR_LINK_FAILED;
}
/** The link is ACTIVE and usable: it may carry data and LLC messages of the group. */
static inline bool smcr_link_works(const struct smcr_link *link)
{
	return link->state == SMCR_LINK_ACTIVE && smcr_link_usable(link);
}
/** Does the link work, and has its send queue room for `n` more requests? (Some room is kept for
 * LLC.) */
bool smcr_link_room(const struct smcr_link *link, uint32_t n);
/**
 * Post requests; entries[i] says what wr[i] is for (copied). wr_id and signaled are set here: the
 * last request of the list is signaled. Adds to tx.outstanding of the connections. If posting
 * fails, the link fails (later, from the timer queue: never inside this call), and the requests
 * count as posted and flushed.
 */
void smcr_link_post(struct smcr_link *link, struct smcr_wr *wr, const struct smcr_tx_entry *entries,
		    size_t n);
/** Something waits until all that was posted has completed: have the RNIC ask for an
 * acknowledgement, if the peer's may put it off. */
void smcr_link_want_ack(const struct smcr_link *link);
/** Post an LLC message, or keep it until there is room. A message longer than SMCR_LLC_LEN is kept
 * also until no other such message of the group is on its way. `entry` is copied.
 *  @return 0; -ENOBUFS: too many wait; -ENOMEM */
int smcr_link_post_llc(struct smcr_link *link, const uint8_t *msg, size_t len,
		       const struct smcr_tx_entry *entry);
/** Post the LLC messages that wait on links of the group and can be posted now. */
void smcr_link_post_waiting(struct smcr_lgr *lgr);
/** Is an LLC message of this type posted and not completed? */
bool smcr_link_llc_posted(const struct smcr_link *link, uint8_t type);
/** Let the connection wait for room. When the link has room, conn->tx.waiting is cleared and
 * smcr_tx_resume() is called, once. */
void smcr_link_wait(struct smcr_link *link, struct smcr_conn *conn);
/** Let the connection write on `link` from now on (NULL: on none). */
void smcr_link_assign(struct smcr_conn *conn, struct smcr_link *link);
/** Remove the connection from the waiting list and from the entries of posted requests. If its send
 * buffer is still being read, the buffer moves to the entry of the last WRITE (conn->tx.buf has no
 * slab afterwards). */
void smcr_link_forget(struct smcr_link *link, struct smcr_conn *conn);
/** The link cannot be used any more. From the timer queue, the peer is told on another link, and
 * connections are moved or reset. `reason` is an smcr_llc_delete_reason for the peer. */
void smcr_link_fail(struct smcr_link *link, uint32_t reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Do now what smcr_link_fail() left to the timer queue. From the timer queue and device removal
 * only. */
void smcr_link_fail_now(struct smcr_link *link);

#endif
