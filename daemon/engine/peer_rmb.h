/* SPDX-License-Identifier: MIT */
/**
 * @file peer_rmb.h
 * The peer's RMBs, and the tokens with which we may write into them.
 */
#ifndef SMCRD_ENGINE_PEER_RMB_H
#define SMCRD_ENGINE_PEER_RMB_H

#include "daemon/engine/slab.h"

struct smcr_clc_accept;
struct smcr_conn;
struct smcr_lgr;
struct smcr_link;

struct smcr_rtoken {
	bool valid;
	uint32_t rkey;
	uint64_t vaddr;
};

/** Links that CLC may still name though they have gone: more than all of a group three times over,
 *  as a Confirm may be seconds behind what happens on the links. */
#define SMCR_GONE_LINKS 32

/** A token that is not valid must not be written with: the link is not theirs, or the peer has
 *  withdrawn the RMB (RKEY-16). */
struct smcr_peer_rmb {
	/** Tokens on the links that went last: a Confirm that was on its way may still name them.
	 */
	struct {
		uint32_t qpn; /* the peer's */
		struct smcr_rtoken token;
	} gone[SMCR_GONE_LINKS];
	unsigned int next_gone;
	bool withdrawn; /* DELETE RKEY came; kept for its users' sake */
	uint16_t users;
	uint32_t element_size; /* that they were told, all the same one (RMB-1) */
	struct smcr_rtoken token[SMCR_LINK_SLOTS];     /* by link slot (RMB-10) */
	struct smcr_conn *user[SMCR_MAX_ELEMENTS + 1]; /* by element index, who writes into it */
	struct smcr_peer_rmb *next, *prev;
};

/** The peer's RMB that has this RKey on this link, or NULL. Withdrawn ones are not found. */
struct smcr_peer_rmb *smcr_peer_rmb_find(struct smcr_lgr *lgr, const struct smcr_link *link,
					 uint32_t rkey);
/** As it was told for a link that is gone now; `qpn` is the peer's. */
struct smcr_peer_rmb *smcr_peer_rmb_find_gone(struct smcr_lgr *lgr, uint32_t qpn, uint32_t rkey,
					      uint64_t vaddr);
/** @return 0; -ENOSPC: the peer has 255 already (LG-13); -ENOMEM */
int smcr_peer_rmb_add(struct smcr_lgr *lgr, struct smcr_peer_rmb **ret_rmb);
void smcr_peer_rmb_set(struct smcr_peer_rmb *rmb, const struct smcr_link *link, uint32_t rkey,
		       uint64_t vaddr);
/** Forget its tokens on all links (RKEY-14); the entry goes with its last user. */
void smcr_peer_rmb_withdraw(struct smcr_lgr *lgr, struct smcr_peer_rmb *rmb);
/** May a connection have element `index`, of `size` bytes? Nobody tells the size of an RMB, so that
 * it cannot be known here whether it has so many. But those of one RMB are of one size, else they
 * would overlap (RMB-1), and they end where addresses do. */
bool smcr_peer_rmb_may_have(const struct smcr_peer_rmb *rmb, uint8_t index, uint32_t size);
/** Who writes into one of the peer's RMBs and says this alert token with it, or NULL. */
struct smcr_conn *smcr_peer_rmb_user_of_token(const struct smcr_lgr *lgr, uint32_t token);
/** `conn` writes from now on into the element that `msg` names, and says the token that it names;
 * both must be free (RMB-7, CLC-12). */
void smcr_peer_rmb_claim(struct smcr_peer_rmb *rmb, const struct smcr_clc_accept *msg,
			 struct smcr_conn *conn);
void smcr_peer_rmb_unclaim(struct smcr_conn *conn);
/** A link slot is gone. */
void smcr_peer_rmb_forget_link(struct smcr_lgr *lgr, const struct smcr_link *link);
void smcr_peer_rmb_free_all(struct smcr_lgr *lgr);
unsigned int smcr_peer_rmb_count(const struct smcr_lgr *lgr);
/** Those that connections write into. */
unsigned int smcr_peer_rmb_in_use(const struct smcr_lgr *lgr);

#endif
