/* SPDX-License-Identifier: MIT */
/**
 * @file lgr.h
 * Link groups: how they begin and end, their links, their idle time (RFC 7609 2.2, 3.5.4).
 */
#ifndef SMCRD_SMCR_LGR_H
#define SMCRD_SMCR_LGR_H

#include <utlist.h>

#include "daemon/smcr/link.h"
#include "daemon/smcr/peer_rmb.h"

struct smcr_conn;
struct smcr_engine;

enum smcr_lgr_state {
	SMCR_LGR_FIRST_CONTACT, /* until its first connection is open (RV) */
	SMCR_LGR_ACTIVE,
	SMCR_LGR_TERMINATING, /* DELETE LINK A=1 sent, or all links lost */
};

struct smcr_llc_flow; /* the configuration exchange in progress and the queue: llc.h */

/** A first contact: its connection, and the Proposals that wait for its end (RV-15). */
struct smcr_first_contact {
	struct smcr_conn *conn; /* NULL once the gate is open (RV-12), or the connection is gone */
	uint64_t began;         /* when the first contact began */
	bool committed;         /* this side is past its point of no return (ERR-8) */
	bool declining;         /* the link is lost, but a Decline cannot be sent yet */
	struct smcr_conn *held; /* server: Proposals that wait, DL list, conn->rv.held_* */
};

/** The connections whose link has failed and that do not write on another link yet (stats.c). */
struct smcr_gap {
	uint32_t conns;
	uint64_t began, moved; /* first failure of a link; last move (0: none) */
};

struct smcr_lgr {
	struct smcr_engine *engine;
	uint32_t id;         /* for operators, never on the wire */
	enum smcr_role role; /* ours */
	enum smcr_lgr_state state;
	enum smcr_dialect_policy dialect_policy; /* the engine's when the group began */
	enum smcr_dialect dialect; /* fixed when the first CONFIRM LINK exchange is done */
	bool dialect_known;
	/** The version of CLC and LLC, as Proposal and Accept negotiated it (docs/version-2.md). */
	uint8_t version;   /* SMCR_CLC_VERSION_1 or _2 */
	uint8_t release;   /* version 2: from 1 on, max_conns and max_links are negotiated */
	uint8_t max_conns; /* version 2: connections at a time; 255: nothing was negotiated */
	enum smcr_byte_order order; /* version 2: byte order of the peer's processor, once known */
	/** Version 2: an LLC message longer than SMCR_LLC_LEN is on its way. The peer may have only
	 * one buffer for such messages, so the next one waits for the completion of this one
	 * (link.c). */
	bool long_posted;
	struct { /* version 2 */
		uint8_t eid[SMCR_EID_LEN];
		bool direct;                /* no gateway between the RoCE addresses */
		uint8_t os;                 /* the peer's operating system, enum smcr_clc_os */
		uint8_t host[SMCR_EID_LEN]; /* the peer's host name, padded */
		uint8_t gid[SMCR_GID_LEN];  /* server: GID in the Proposal that began the group */
	} v2;
	uint8_t peer_id[SMCR_PEER_ID_LEN]; /* zero: the Proposal did not tell it, Confirm will */
	uint16_t vlan;
	struct smcr_prefix prefix; /* the LAN of the group */
	bool doubted;              /* server: the peer may have forgotten the group (ERR-9) */
	struct smcr_addr peer;     /* the peer's TCP address in the first connection, for the log */
	bool near;                 /* the peer's TCP address is in a network of our RNIC (link.c) */
	uint64_t wary_until;       /* denied.c */
	uint8_t max_links;         /* negotiated (LG-7) */
	uint8_t last_link_number;
	struct smcr_link *links[SMCR_LINK_SLOTS];
	struct { /* far ends of the links freed last: late CLC messages may name them */
		uint32_t qpn;
		uint8_t gid[SMCR_GID_LEN], mac[SMCR_MAC_LEN];
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	uint32_t last_slab;     /* number of the slab that was added last */
	struct smcr_slab *rmbs; /* the own RMBs */
	struct smcr_slab *sndbufs;
	struct smcr_peer_rmb *peer_rmbs;
	struct smcr_conn *peer_tokens; /* hash by peer_token, of those with tx.rmb */
	struct smcr_conn *conns;       /* DL list, conn->lgr_next/prev */
	uint32_t num_conns;
	struct smcr_first_contact fc;
	struct smcr_llc_flow *llc;
	bool told_up;        /* LGR_UP was told to operators */
	char why[144];       /* the group ends, for operators; "": it does not end */
	int end_error;       /* TERMINATING: the errno that programs get */
	uint32_t end_reason; /* TERMINATING: the reason code for the peer */
	bool path_dead;      /* the group ends because no packet gets through */
	struct smcr_gap gap;
	struct smcr_timer end_work; /* carries out smcr_lgr_end() */
	uint64_t idle_since;
	struct smcr_timer idle; /* LG-16 */
	struct smcr_lgr *next, *prev;
};

int smcr_lgr_new(struct smcr_engine *engine, enum smcr_role role,
		 const uint8_t peer_id[SMCR_PEER_ID_LEN], uint16_t vlan,
		 const struct smcr_prefix *prefix, struct smcr_lgr **ret_lgr);
/** End the group because no link is left or both sides have agreed: from the timer queue,
 * connections are reset with `error` and everything is freed. No message is sent. */
void smcr_lgr_end(struct smcr_lgr *lgr, int error);
/** Reset, or send back to TCP, every connection of a group that ends. */
void smcr_lgr_end_conns(struct smcr_lgr *lgr);
/** Free a group that has no connections. At the end of the engine and from the timer queue only. */
void smcr_lgr_free(struct smcr_lgr *lgr);
static inline bool smcr_lgr_is_v2(const struct smcr_lgr *lgr)
{
	return lgr->version == SMCR_CLC_VERSION_2;
}
struct smcr_link *smcr_lgr_link_by_number(const struct smcr_lgr *lgr, uint8_t number);
/** An ACTIVE link other than `except` for LLC, or NULL. One whose deletion has begun only if there
 * is no other: no LLC message may follow the answer to DELETE LINK on it (LLC-6). */
struct smcr_link *smcr_lgr_any_link(const struct smcr_lgr *lgr, const struct smcr_link *except);
/** The ACTIVE link with the fewest connections writing on it (LG-17), or NULL. A disabled link only
 * if no other one is ACTIVE.
 */
struct smcr_link *smcr_lgr_least_loaded(const struct smcr_lgr *lgr);
/** Send TEST LINK on every active link, so that dead ones fail. */
void smcr_lgr_probe(struct smcr_lgr *lgr);
/** A connection joins or leaves: stop or start the idle timer (LG-16). */
void smcr_lgr_add_conn(struct smcr_lgr *lgr, struct smcr_conn *conn);
void smcr_lgr_remove_conn(struct smcr_conn *conn);
/** Do these addresses belong to one RNIC? They do if the GIDs are equal, or the MACs, unless those
 * are zero. */
bool smcr_same_rnic(const uint8_t *gid_a, const uint8_t *mac_a, const uint8_t *gid_b,
		    const uint8_t *mac_b);
/** "single", "symmetric", "asymmetric-local" (shared RNIC here), "asymmetric-peer". */
const char *smcr_lgr_type_name(const struct smcr_lgr *lgr);

#endif
