/* SPDX-License-Identifier: MIT */
/**
 * @file link.h
 * SMC-R links: the queue pair, what is posted on it, and its failure (RFC 7609 2.2).
 */
#ifndef SMCRD_ENGINE_LINK_H
#define SMCRD_ENGINE_LINK_H

#include <uthash.h>

#include "daemon/engine/deletion.h"
#include "daemon/engine/device.h"
#include "daemon/engine/ops.h"
#include "daemon/engine/slab.h"
#include "daemon/engine/view.h"
#include "proto/smcr/clc.h"
#include "proto/smcr/llc.h"

struct smcr_conn;
struct smcr_lgr;

#define SMCR_LINK_LLC_WAIT  16 /* LLC messages that may wait for room in a send queue */
#define SMCR_LINK_MIN_DEPTH 64 /* of a send queue */

/** What operators know of a link. */
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

/** What a posted work request was, kept until its completion. */
struct smcr_tx_entry {
	enum smcr_tx_kind kind;
	struct smcr_conn *conn; /* WRITE, CDC; NULL when the connection is gone */
	uint64_t tx_end;        /* WRITE: send-buffer position that is free once it is done */
	uint32_t length;        /* of a write, in bytes; 0: it is none. Set by smcr_link_post() */
	uint16_t cdc_seq;       /* CDC */
	uint8_t llc_type;       /* LLC: what was sent */
	bool llc_reply;
	uint8_t llc_number; /* LLC: the link number it is about, if any */
	bool llc_long;      /* LLC: longer than SMCR_LLC_LEN */
	/** Send buffer of a connection that is gone, whose last WRITE this is: it goes back with
	 * the completion, not before (CDC-17). Set by smcr_link_forget(). */
	struct smcr_element release;
};

struct smcr_link {
	uint64_t ref; /* names it towards the host */
	struct smcr_lgr *lgr;
	uint8_t slot;   /* index in lgr->links and in the token tables */
	uint8_t number; /* on the wire, 1..255 (LG-11) */
	enum smcr_link_state state;
	struct smcr_device *device; /* NULL once the device is gone */
	char device_name[SMCR_DEVICE_NAME_LEN];
	uint8_t local_gid[SMCR_GID_LEN];
	uint8_t local_mac[SMCR_MAC_LEN];
	void *qp;          /* NULL once destroyed */
	bool qp_failed;    /* in error: nothing can be sent */
	uint32_t qpn, psn; /* own */
	uint8_t peer_gid[SMCR_GID_LEN];
	uint8_t peer_mac[SMCR_MAC_LEN];
	uint32_t peer_qpn, peer_psn;
	uint8_t mtu;            /* smaller of both, enum smcr_mtu */
	uint32_t uid, peer_uid; /* link user IDs (LG-12) */
	uint32_t retry_ms;      /* how long the QP may go without progress */
	bool was_active;        /* it was proven once (CONFIRM LINK) */
	uint64_t added;         /* when it became active, if it is not the first link */
	/* posted requests: entry of wr_id is tx[wr_id % tx_depth]; ids run without gaps */
	struct smcr_tx_entry *tx;
	uint32_t tx_depth;
	uint64_t tx_next, tx_done; /* next wr_id to post; all below tx_done have completed */
	uint64_t tx_posted;        /* from here on nothing was really posted */
	struct {                   /* LLC messages that wait for room, in order */
		uint8_t *msg;      /* a copy */
		size_t len;
		struct smcr_tx_entry entry;
	} llc_wait[SMCR_LINK_LLC_WAIT];
	unsigned int llc_waiting;
	struct smcr_timer fail_work; /* carries out smcr_link_fail() */
	struct smcr_conn *waiting;   /* connections that wait for room (DL list, conn->tx.wait_*) */
	uint32_t num_conns;          /* connections that write on it */
	uint32_t num_promised;       /* connections in rendezvous that CLC has put on it */
	uint64_t tx_bytes, rx_bytes;
	char last_error[SMCR_LAST_ERROR_LEN];
	enum smcr_told told;
	bool path_dead; /* it failed because nothing gets through, not by a local cause */
	bool too_large; /* it failed because packets of its MTU do not get through */
	uint8_t passed; /* largest packets known to get through from here, enum smcr_mtu; 0: none */
	bool disabled;  /* the operator wants no writes on it while there is another one */
	struct smcr_deletion deletion;
	unsigned int deletions_asked; /* client: requests about others sent on this link */
	unsigned int
		deletions_repeated; /* server: replies about others that may still come on it */
	/* llc_test_link.c */
	uint8_t test_data[16];
	uint64_t test_sent;           /* when */
	struct smcr_timer test_timer; /* ERR-38 */
	/* keepalive.c */
	uint64_t last_active; /* when anything came, or was delivered, on it (TEST-3) */
	struct smcr_timer idle_timer;
	bool probe_due;    /* when idle_timer fires, idle or not */
	UT_hash_handle hh; /* engine->links by ref */
};

/** A link with a QP on `device`, ACTIVATING, every slab of the group registered on it. `number` 0:
 *  the next free one (LG-11). */
int smcr_link_new(struct smcr_lgr *lgr, struct smcr_device *device, uint8_t number,
		  struct smcr_link **ret_link);
/** Flush what is posted, deregister, destroy the QP; the structure stays. */
void smcr_link_drop_qp(struct smcr_link *link);
/** Drop the QP and forget the link. From the timer queue only. */
void smcr_link_free(struct smcr_link *link);
/** The link that the host, or a message that waits, names; NULL if it has gone. */
struct smcr_link *smcr_link_by_ref(const struct smcr_engine *engine, uint64_t ref);
/** Is what a message of the peer names (QPN, GID and, in version 1, MAC) the far end of this link,
 *  in whatever state? */
bool smcr_link_matches(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** The same, and the link can be used. */
bool smcr_link_leads_to(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** Is this the active link that a peer's Accept or Confirm names? */
bool smcr_link_is_named(const struct smcr_link *link, const struct smcr_clc_accept *msg);
/** A message has come over the QP: that has one far end, so other links that lead to a QP of this
 *  number there are dead (PLG-5). They fail. */
void smcr_link_supersede(const struct smcr_link *link);
/** Does a peer's Accept or Confirm name a link that the group has, in whatever state, or had? */
bool smcr_link_is_or_was_named(const struct smcr_lgr *lgr, const struct smcr_clc_accept *msg);
/** Far end known: INIT -> RTR. */
int smcr_link_connect(struct smcr_link *link, const uint8_t gid[SMCR_GID_LEN],
		      const uint8_t mac[SMCR_MAC_LEN], uint32_t qpn, uint32_t psn, uint8_t mtu);
/** RTR -> RTS. */
int smcr_link_start(struct smcr_link *link);
/** QP there and not in error. */
static inline bool smcr_link_usable(const struct smcr_link *link)
{
	return link->qp && !link->qp_failed && link->state != SMCR_LINK_FAILED;
}
/** ACTIVE and usable: it may carry data and LLC of the group. */
static inline bool smcr_link_works(const struct smcr_link *link)
{
	return link->state == SMCR_LINK_ACTIVE && smcr_link_usable(link);
}
/** Room for `n` more work requests on a link that may carry data? (Some is kept for LLC.) */
bool smcr_link_room(const struct smcr_link *link, uint32_t n);
/**
 * Post requests; entries[i] tells what wr[i] is (copied). wr_id and signaled are set here: the last
 * of the list is signaled. Counts entries' connections as outstanding. A failure to post fails the
 * link (later, from the timer queue: never inside this call) and counts as posted and flushed.
 */
void smcr_link_post(struct smcr_link *link, struct smcr_wr *wr, const struct smcr_tx_entry *entries,
		    size_t n);
/** Post one LLC message, or keep it until there is room, and, if it is longer than SMCR_LLC_LEN,
 *  until no other one of that kind is on its way in the group. `entry` is copied.
 *  @return 0; -ENOBUFS: too many wait; -ENOMEM */
int smcr_link_post_llc(struct smcr_link *link, const uint8_t *msg, size_t len,
		       const struct smcr_tx_entry *entry);
/** Post what waits on the links of the group and can go now. */
void smcr_link_post_waiting(struct smcr_lgr *lgr);
/** Is the completion of an LLC message of that type still to come? */
bool smcr_link_llc_posted(const struct smcr_link *link, uint8_t type);
/** Queue for room; when there is some, conn->tx.waiting is cleared and smcr_tx_resume() is
 *  called, once. */
void smcr_link_wait(struct smcr_link *link, struct smcr_conn *conn);
/** Make it the link that the connection writes on (NULL: none). */
void smcr_link_assign(struct smcr_conn *conn, struct smcr_link *link);
/** Forget a connection everywhere: waiting list, entries of posted requests. A send buffer that is
 *  still being read moves to its last entry (conn->tx.buf is none afterwards). */
void smcr_link_forget(struct smcr_link *link, struct smcr_conn *conn);
/** The link cannot be used any more: tell the peer on another link, move or reset connections.
 *  `reason` is an smcr_llc_delete_reason for the peer. */
void smcr_link_fail(struct smcr_link *link, uint32_t reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Do now what smcr_link_fail() put off. From the timer queue and device removal only. */
void smcr_link_fail_now(struct smcr_link *link);

#endif
