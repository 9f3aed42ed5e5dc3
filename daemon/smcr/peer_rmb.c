/* SPDX-License-Identifier: MIT */
/* The peer's RMBs: the RToken of each on each link (RMB-10), and which connection writes into which
 * element. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/internal.h"

struct smcr_peer_rmb *smcr_peer_rmb_find(struct smcr_lgr *lgr, const struct smcr_link *link,
					 uint32_t rkey)
{
	struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		if (rmb->token[link->slot].valid && rmb->token[link->slot].rkey == rkey)
			return rmb;
	return NULL;
}

struct smcr_peer_rmb *smcr_peer_rmb_find_gone(struct smcr_lgr *lgr, uint32_t qpn, uint32_t rkey,
					      uint64_t vaddr)
{
	struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		for (unsigned int i = 0; i < SMCR_GONE_LINKS && !rmb->withdrawn; i++)
			if (rmb->gone[i].token.valid && rmb->gone[i].qpn == qpn &&
			    rmb->gone[i].token.rkey == rkey && rmb->gone[i].token.vaddr == vaddr)
				return rmb;
	return NULL;
}

unsigned int smcr_peer_rmb_count(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	const struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		n += !rmb->withdrawn;
	return n;
}

unsigned int smcr_peer_rmb_in_use(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	const struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb)
		n += !rmb->withdrawn && rmb->users;
	return n;
}

static bool has_outstanding(const struct smcr_peer_rmb *rmb)
{
	for (size_t i = 0; i < sizeof(rmb->user) / sizeof(rmb->user[0]); i++) {
		if (rmb->user[i] && rmb->user[i]->tx.outstanding)
			return true;
	}
	return false;
}

bool smcr_peer_rmb_writes_late(const struct smcr_lgr *lgr)
{
	const struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb) {
		if (rmb->withdrawn && has_outstanding(rmb))
			return true;
	}
	return false;
}

int smcr_peer_rmb_add(struct smcr_lgr *lgr, struct smcr_peer_rmb **ret_rmb)
{
	if (smcr_peer_rmb_count(lgr) >= SMCR_MAX_RMBS)
		return -ENOSPC;
	struct smcr_peer_rmb *rmb = calloc(1, sizeof(*rmb));
	if (!rmb)
		return -ENOMEM;
	DL_APPEND(lgr->peer_rmbs, rmb);
	*ret_rmb = rmb;
	return 0;
}

void smcr_peer_rmb_set(struct smcr_peer_rmb *rmb, const struct smcr_link *link, uint32_t rkey,
		       uint64_t vaddr)
{
	rmb->token[link->slot] =
		(struct smcr_rtoken){ .valid = true, .rkey = rkey, .vaddr = vaddr };
}

static void remove_rmb(struct smcr_lgr *lgr, struct smcr_peer_rmb *rmb)
{
	DL_DELETE(lgr->peer_rmbs, rmb);
	free(rmb);
}

void smcr_peer_rmb_withdraw(struct smcr_lgr *lgr, struct smcr_peer_rmb *rmb)
{
	memset(rmb->token, 0, sizeof(rmb->token));
	rmb->withdrawn = true;
	if (!rmb->users)
		remove_rmb(lgr, rmb);
}

bool smcr_peer_rmb_may_have(const struct smcr_peer_rmb *rmb, uint8_t index, uint32_t size)
{
	if (rmb->users && rmb->element_size != size)
		return false;
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (rmb->token[i].valid &&
		    rmb->token[i].vaddr > UINT64_MAX - (uint64_t)index * size)
			return false;
	return true;
}

struct smcr_conn *smcr_peer_rmb_user_of_token(const struct smcr_lgr *lgr, uint32_t token)
{
	struct smcr_conn *conn;
	HASH_FIND(peer_hh, lgr->peer_tokens, &token, sizeof(token), conn);
	return conn;
}

void smcr_peer_rmb_claim(struct smcr_peer_rmb *rmb, const struct smcr_clc_accept *msg,
			 struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = conn->lgr;
	assert(!rmb->user[msg->rmbe_index]);
	rmb->user[msg->rmbe_index] = conn;
	rmb->users++;
	rmb->element_size = smcr_bsize_bytes(msg->bsize);
	conn->tx.rmb = rmb;
	conn->tx.index = msg->rmbe_index;
	conn->tx.element_size = rmb->element_size;
	conn->peer_token = msg->alert_token;
	HASH_ADD(peer_hh, lgr->peer_tokens, peer_token, sizeof(conn->peer_token), conn);
}

void smcr_peer_rmb_unclaim(struct smcr_conn *conn)
{
	struct smcr_peer_rmb *rmb = conn->tx.rmb;
	if (!rmb)
		return;
	HASH_DELETE(peer_hh, conn->lgr->peer_tokens, conn);
	rmb->user[conn->tx.index] = NULL;
	rmb->users--;
	conn->tx.rmb = NULL;
	if (rmb->withdrawn && !rmb->users)
		remove_rmb(conn->lgr, rmb);
}

void smcr_peer_rmb_forget_link(struct smcr_lgr *lgr, const struct smcr_link *link)
{
	struct smcr_peer_rmb *rmb;
	DL_FOREACH (lgr->peer_rmbs, rmb) {
		struct smcr_rtoken *token = &rmb->token[link->slot];
		if (!token->valid)
			continue;
		unsigned int i = rmb->next_gone++ % SMCR_GONE_LINKS;
		rmb->gone[i].qpn = link->peer_qpn;
		rmb->gone[i].token = *token;
		token->valid = false;
	}
}

void smcr_peer_rmb_free_all(struct smcr_lgr *lgr)
{
	struct smcr_peer_rmb *rmb, *next;
	DL_FOREACH_SAFE (lgr->peer_rmbs, rmb, next)
		remove_rmb(lgr, rmb);
}
