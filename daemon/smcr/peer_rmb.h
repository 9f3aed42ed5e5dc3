/* SPDX-License-Identifier: MIT */
/**
 * @file peer_rmb.h
 * The peer's RMBs, and the RTokens with which this side writes into them.
 */
#ifndef SMCRD_SMCR_PEER_RMB_H
#define SMCRD_SMCR_PEER_RMB_H

#include "daemon/smcr/slab.h"

struct smcr_clc_accept;
struct smcr_conn;
struct smcr_lgr;
struct smcr_link;

struct smcr_rtoken {
	bool valid;
	uint32_t rkey;
	uint64_t vaddr;
};

/** How many links that are gone are remembered, because CLC may still name them: more than three
 * times the links of a group, as a Confirm may come seconds after its link was replaced. */
#define SMCR_GONE_LINKS 32

/** One RMB of the peer. A token that is not valid must not be used: the RMB has no RToken on that
 * link, or the peer has withdrawn the RMB (RKEY-16). */
struct smcr_peer_rmb {
	/** Tokens on the links that were freed last: a Confirm that is late may still name them. */
	struct {
		uint32_t qpn; /* the peer's */
		struct smcr_rtoken token;
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	bool withdrawn; /* DELETE RKEY came; the entry stays until it has no user */
	uint16_t users;
	uint32_t element_size; /* as CLC told it; the same for all its users (RMB-1) */
	struct smcr_rtoken token[SMCR_LINK_SLOTS]; /* by link slot (RMB-10) */
	struct smcr_conn *user[SMCR_MAX_ELEMENTS +
			       1]; /* by element index: the connection that writes there */
	struct smcr_peer_rmb *next, *prev;
};

/** The peer's RMB that has this RKey on this link, or NULL. Withdrawn ones are not found. */
struct smcr_peer_rmb *smcr_peer_rmb_find(struct smcr_lgr *lgr, const struct smcr_link *link,
					 uint32_t rkey);
/** The peer's RMB that had this RToken on a link that is gone now, or NULL; `qpn` is the peer's. */
struct smcr_peer_rmb *smcr_peer_rmb_find_gone(struct smcr_lgr *lgr, uint32_t qpn, uint32_t rkey,
					      uint64_t vaddr);
/** @return 0; -ENOSPC: the peer has 255 already (LG-13); -ENOMEM */
int smcr_peer_rmb_add(struct smcr_lgr *lgr, struct smcr_peer_rmb **ret_rmb);
void smcr_peer_rmb_set(struct smcr_peer_rmb *rmb, const struct smcr_link *link, uint32_t rkey,
		       uint64_t vaddr);
/** Forget the RMB's tokens on all links (RKEY-14). The entry is freed with its last user. */
void smcr_peer_rmb_withdraw(struct smcr_lgr *lgr, struct smcr_peer_rmb *rmb);
/** May a connection use element `index`, of `size` bytes? No message tells the size of an RMB, so
 * this cannot check that the RMB has so many elements. But all elements of an RMB have one size,
 * else they would overlap (RMB-1), and none may lie beyond the last address. */
bool smcr_peer_rmb_may_have(const struct smcr_peer_rmb *rmb, uint8_t index, uint32_t size);
/** The connection that writes into one of the peer's RMBs and has this alert token at the peer, or
 * NULL. */
struct smcr_conn *smcr_peer_rmb_user_of_token(const struct smcr_lgr *lgr, uint32_t token);
/** From now on `conn` writes into the element that `msg` names and puts the alert token that `msg`
 * names into its CDCs; both must be free (RMB-7, CLC-12). */
void smcr_peer_rmb_claim(struct smcr_peer_rmb *rmb, const struct smcr_clc_accept *msg,
			 struct smcr_conn *conn);
void smcr_peer_rmb_unclaim(struct smcr_conn *conn);
/** The link is freed: its tokens move to `gone`. */
void smcr_peer_rmb_forget_link(struct smcr_lgr *lgr, const struct smcr_link *link);
void smcr_peer_rmb_free_all(struct smcr_lgr *lgr);
unsigned int smcr_peer_rmb_count(const struct smcr_lgr *lgr);
/** Is a request of a connection outstanding that wrote into an RMB which the peer has withdrawn? */
bool smcr_peer_rmb_writes_late(const struct smcr_lgr *lgr);
/** How many of the peer's RMBs have connections that write into them. */
unsigned int smcr_peer_rmb_in_use(const struct smcr_lgr *lgr);

#endif
