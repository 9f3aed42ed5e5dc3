/* SPDX-License-Identifier: MIT */
/**
 * @file lgr.h
 * Link groups: life, links, idle time (RFC 7609 2.2, 3.5.4).
 */
#ifndef SMCRD_ENGINE_LGR_H
#define SMCRD_ENGINE_LGR_H

#include <utlist.h>

#include "daemon/engine/link.h"
#include "daemon/engine/peer_rmb.h"

struct smcr_conn;
struct smcr_engine;

enum smcr_lgr_state {
	SMCR_LGR_FIRST_CONTACT, /* until its first connection is open (RV) */
	SMCR_LGR_ACTIVE,
	SMCR_LGR_TERMINATING, /* DELETE LINK A=1 sent, or all links lost */
};

struct smcr_llc_flow; /* the configuration exchange in progress and the queue: llc.h */

/** First contact: its connection, and who waits for its end (RV-15). */
struct smcr_first_contact {
	struct smcr_conn *conn; /* NULL once the gate is open (RV-12), or the connection is gone */
	uint64_t began;         /* when */
	bool committed;         /* past the own point of no return (ERR-8) */
	bool declining;         /* the link is lost, the Decline has to wait for something */
	struct smcr_conn *held; /* server: proposals of the same peer, DL list, conn->rv.held_* */
};

/** Connections whose link has failed and that have not gone on yet (stats.c). */
struct smcr_gap {
	uint32_t conns;
	uint64_t began,
		moved; /* when the first failure was, and the last one has moved; 0: none has */
};

struct smcr_lgr {
	struct smcr_engine *engine;
	uint32_t id;         /* local, never on the wire */
	enum smcr_role role; /* ours */
	enum smcr_lgr_state state;
	enum smcr_dialect_policy dialect_policy; /* the engine's when the group began */
	enum smcr_dialect dialect; /* fixed when the first CONFIRM LINK exchange is done */
	bool dialect_known;
	/** As Proposal and Accept negotiated it; of CLC and LLC alike (docs/version-2.md). */
	uint8_t version;            /* SMCR_CLC_VERSION_1 or _2 */
	uint8_t release;            /* version 2: 0, or from 1 on with limits of its own */
	uint8_t max_conns;          /* version 2: at a time; 255 where nothing was negotiated */
	enum smcr_byte_order order; /* version 2: of the peer's processor, once known */
	/** Version 2: a message longer than SMCR_LLC_LEN is on its way. The peer may have one
	 * buffer for such messages: the next one waits for its completion (link.c). */
	bool long_posted;
	struct { /* version 2 */
		uint8_t eid[SMCR_EID_LEN];
		bool direct;                /* no gateway between the RoCE addresses */
		uint8_t os;                 /* the peer's, enum smcr_clc_os */
		uint8_t host[SMCR_EID_LEN]; /* its host name, padded */
		uint8_t gid[SMCR_GID_LEN];  /* server: of the Proposal that it was set up for */
	} v2;
	uint8_t peer_id[SMCR_PEER_ID_LEN]; /* zero: not told by the Proposal, Confirm will */
	uint16_t vlan;
	struct smcr_prefix prefix; /* the LAN it lives on */
	bool doubted;              /* server: perhaps the peer knows it no more (ERR-9) */
	struct smcr_addr peer;     /* TCP address of the first connection's, for the log */
	bool near;                 /* the peer that it was set up with is on it: see link.c */
	uint64_t wary_until;       /* denied.c */
	uint8_t max_links;         /* negotiated (LG-7) */
	uint8_t last_link_number;
	struct smcr_link *links[SMCR_LINK_SLOTS];
	struct { /* far ends of the links that went last: CLC on its way may still name them */
		uint32_t qpn;
		uint8_t gid[SMCR_GID_LEN], mac[SMCR_MAC_LEN];
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	uint32_t last_slab;     /* number */
	struct smcr_slab *rmbs; /* own */
	struct smcr_slab *sndbufs;
	struct smcr_peer_rmb *peer_rmbs;
	struct smcr_conn *peer_tokens; /* hash by peer_token: who writes into one of these */
	struct smcr_conn *conns;       /* DL list, conn->lgr_next/prev */
	uint32_t num_conns;
	struct smcr_first_contact fc;
	struct smcr_llc_flow *llc;
	bool told_up;        /* operators know that it is there */
	char why[144];       /* it ends, for operators; "": it does not */
	int end_error;       /* TERMINATING: what programs are told */
	uint32_t end_reason; /* TERMINATING: what the peer is told */
	bool path_dead;      /* lost because nothing gets through */
	struct smcr_gap gap;
	struct smcr_timer end_work; /* carries out smcr_lgr_end() */
	uint64_t idle_since;
	struct smcr_timer idle; /* LG-16 */
	struct smcr_lgr *next, *prev;
};

int smcr_lgr_new(struct smcr_engine *engine, enum smcr_role role,
		 const uint8_t peer_id[SMCR_PEER_ID_LEN], uint16_t vlan,
		 const struct smcr_prefix *prefix, struct smcr_lgr **ret_lgr);
/** No link is left, or both sides agreed: connections are reset with `error`, everything is freed;
 *  from the timer queue. No message is sent. */
void smcr_lgr_end(struct smcr_lgr *lgr, int error);
/** Reset, or send back to TCP, every connection of a group that ends. */
void smcr_lgr_end_conns(struct smcr_lgr *lgr);
/** Free a group without connections. Engine end and timer queue only. */
void smcr_lgr_free(struct smcr_lgr *lgr);
static inline bool smcr_lgr_is_v2(const struct smcr_lgr *lgr)
{
	return lgr->version == SMCR_CLC_VERSION_2;
}
struct smcr_link *smcr_lgr_link_by_number(const struct smcr_lgr *lgr, uint8_t number);
/** An ACTIVE link other than `except` for LLC, or NULL. */
struct smcr_link *smcr_lgr_any_link(const struct smcr_lgr *lgr, const struct smcr_link *except);
/** The ACTIVE link with the fewest connections writing on it (LG-17), disabled ones last, or NULL.
 */
struct smcr_link *smcr_lgr_least_loaded(const struct smcr_lgr *lgr);
/** Test every link: those that are dead fail. */
void smcr_lgr_probe(struct smcr_lgr *lgr);
/** A connection joined or left: idle timer (LG-16). */
void smcr_lgr_add_conn(struct smcr_lgr *lgr, struct smcr_conn *conn);
void smcr_lgr_remove_conn(struct smcr_conn *conn);
/** Do these addresses belong to one RNIC? */
bool smcr_same_rnic(const uint8_t *gid_a, const uint8_t *mac_a, const uint8_t *gid_b,
		    const uint8_t *mac_b);
/** "single", "symmetric", "asymmetric-local" (shared RNIC here), "asymmetric-peer". */
const char *smcr_lgr_type_name(const struct smcr_lgr *lgr);

#endif
