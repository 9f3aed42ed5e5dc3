/* SPDX-License-Identifier: MIT */
/*
 * Do packets of the path MTU pass? (A67)
 *
 * The network between two RNICs may silently drop large packets. Small ones pass, so the link is
 * confirmed and answers TEST LINK, but data are lost. So in first contact each side writes zeros in
 * packets of every size up to the link's MTU. They go into the connection's element at the peer,
 * which is zero anyway and of which no cursor tells anything yet. The peer's CONFIRM LINK is acted
 * on when these writes are acknowledged. The peer has registered its memory by then: a server
 * before it sends CONFIRM LINK, a deployed client before it answers. Nothing else is written there
 * before the gate opens, and a link that fails the proof is gone by then.
 *
 * For a link that is added later, while connections write, there is no such place. There the first
 * full-size write is the proof: if no full-size write was ever acknowledged and one takes the queue
 * pair into error, although small messages passed before, its size is suspected.
 *
 * The result is remembered for the two RNICs: the next link between them uses a size that passes.
 */
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/llc.h"
#include "daemon/smcr/view.h"
#include "daemon/smcr/trace.h"

/** How long the result of a first contact is remembered: once an hour one connection, or one more
 * link, finds it out anew.
 */
#define PROVEN_FOR (UINT64_C(3600) * 1000 * 1000)
/** How long a suspicion is remembered: long enough to make the next link. It may be wrong, as
 * perhaps no packet at all passes. */
#define SUSPECTED_FOR (UINT64_C(60) * 1000 * 1000)

/* ---- what is known ---- */

void smcr_path_forget(struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN])
{
	for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++)
		if (!memcmp(engine->paths[i].local, local, SMCR_GID_LEN))
			engine->paths[i].until = 0;
}

/** The entry for the link's RNICs: their old one, else the one that is forgotten first. */
static struct smcr_path *entry_for(struct smcr_engine *engine, const struct smcr_link *link)
{
	struct smcr_path *best = &engine->paths[0];
	for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++) {
		struct smcr_path *path = &engine->paths[i];
		if (!memcmp(path->local, link->local_gid, SMCR_GID_LEN) &&
		    !memcmp(path->peer, link->peer_gid, SMCR_GID_LEN))
			return path;
		if (path->until < best->until)
			best = path;
	}
	return best;
}

static void remember(const struct smcr_link *link, uint8_t mtu, bool proven)
{
	struct smcr_engine *engine = link->lgr->engine;
	struct smcr_path *path = entry_for(engine, link);
	path->lgr = link->lgr->id;
	path->host = link->lgr->peer;
	path->mtu = mtu;
	path->proven = proven;
	path->until = engine->now + (proven ? PROVEN_FOR : SUSPECTED_FOR);
	memcpy(path->local, link->local_gid, SMCR_GID_LEN);
	memcpy(path->peer, link->peer_gid, SMCR_GID_LEN);
}

static bool counts(const struct smcr_engine *engine, const struct smcr_path *path,
		   const uint8_t local[SMCR_GID_LEN])
{
	return path->until > engine->now && !memcmp(path->local, local, SMCR_GID_LEN);
}

uint8_t smcr_path_mtu(const struct smcr_engine *engine, const uint8_t local[SMCR_GID_LEN],
		      const uint8_t peer[SMCR_GID_LEN], uint8_t mtu)
{
	for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++) {
		const struct smcr_path *path = &engine->paths[i];
		if (counts(engine, path, local) && path->mtu < mtu &&
		    !memcmp(path->peer, peer, SMCR_GID_LEN))
			mtu = path->mtu;
	}
	return mtu;
}

uint8_t smcr_path_mtu_in_group(const struct smcr_lgr *lgr, const uint8_t local[SMCR_GID_LEN],
			       uint8_t mtu)
{
	for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++) {
		const struct smcr_path *path = &lgr->engine->paths[i];
		if (counts(lgr->engine, path, local) && path->lgr == lgr->id && path->mtu < mtu)
			mtu = path->mtu;
	}
	return mtu;
}

/* ---- operators ---- */

/** Does the path lead to the host or the RNIC with this address? The RNIC's address may differ from
 * that of the connections. */
static bool is_of(const struct smcr_path *path, const struct smcr_addr *peer)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };
	bool ipv4 = peer->family == AF_INET;
	if (smcr_same_host(&path->host, peer))
		return true;
	return ipv4 ? !memcmp(path->peer, mapped, 12) && !memcmp(path->peer + 12, peer->ip, 4)
		    : !memcmp(path->peer, peer->ip, SMCR_GID_LEN);
}

size_t smcr_engine_forget_paths(struct smcr_engine *engine, const struct smcr_addr *peer)
{
	size_t n = 0;
	for (unsigned int i = 0; i < SMCR_PATHS_MAX; i++) {
		struct smcr_path *path = &engine->paths[i];
		if (path->until <= engine->now || !is_of(path, peer))
			continue;
		path->until = 0;
		n++;
	}
	return n;
}

static void view_path(const struct smcr_engine *engine, unsigned int i, struct smcr_path_view *ret)
{
	const struct smcr_path *path = &engine->paths[i];
	const struct smcr_device *device;
	*ret = (struct smcr_path_view){ .number = i + 1,
					.peer = path->host,
					.mtu = path->mtu,
					.proven = path->proven,
					.left_us = path->until - engine->now };
	memcpy(ret->local_gid, path->local, SMCR_GID_LEN);
	memcpy(ret->peer_gid, path->peer, SMCR_GID_LEN);
	DL_FOREACH (engine->devices, device)
		if (!memcmp(device->info.gid, path->local, SMCR_GID_LEN))
			memcpy(ret->device_name, device->info.name, sizeof(ret->device_name));
}

bool smcr_engine_walk_paths(const struct smcr_engine *engine, uint32_t after,
			    bool (*fn)(void *arg, const struct smcr_path_view *view), void *arg)
{
	struct smcr_path_view view;
	for (unsigned int i = after; i < SMCR_PATHS_MAX; i++) {
		if (engine->paths[i].until <= engine->now)
			continue;
		view_path(engine, i, &view);
		if (!fn(arg, &view))
			return false;
	}
	return true;
}

/* ---- the proof ---- */

/** The connection of the first contact, if its element can be written on this link. */
static struct smcr_conn *connection_of(const struct smcr_link *link)
{
	struct smcr_conn *conn = link->lgr->fc.conn;
	if (!conn || !conn->tx.rmb || !conn->tx.buf.slab)
		return NULL;
	return conn->tx.rmb->token[link->slot].valid ? conn : NULL;
}

/** Write zeros out of the new send buffer to the end of the element, far from an eye catcher. The
 * packet is as large as packets of this MTU can be, because a write of a single packet has the
 * longest header. */
static void post_packet(struct smcr_link *link, struct smcr_conn *conn, uint8_t mtu)
{
	const struct smcr_rtoken *token = &conn->tx.rmb->token[link->slot];
	const struct smcr_element *buf = &conn->tx.buf;
	uint64_t end = token->vaddr + (uint64_t)conn->tx.index * conn->tx.element_size;
	struct smcr_wr wr = {
		.is_write = true,
		.addr = buf->addr,
		.length = smcr_mtu_bytes(mtu),
		.lkey = buf->slab->reg[link->slot].lkey,
		.rkey = token->rkey,
		.remote_addr = end - smcr_mtu_bytes(mtu),
	};
	struct smcr_tx_entry entry = { .kind = SMCR_TX_PROOF, .conn = conn };
	smcr_link_post(link, &wr, &entry, 1);
}

bool smcr_path_prove(struct smcr_link *link)
{
	struct smcr_conn *conn = connection_of(link);
	if (!conn || link->passed >= link->mtu)
		return false;
	/* One list for each size: each write has a completion of its own, which tells that its size
	 * passes. */
	for (uint8_t mtu = SMCR_MTU_256; mtu <= link->mtu; mtu++)
		post_packet(link, conn, mtu);
	return true;
}

void smcr_path_stop(struct smcr_link *link)
{
	struct smcr_engine *engine = link->lgr->engine;
	if (!smcr_link_usable(link))
		return;
	link->qp_failed = true;
	smcr_trace_link(link, "queue pair to error", 0);
	engine->ops.rdma->qp_error(engine->ops.rdma_ctx, link->qp);
}

void smcr_path_passed(struct smcr_link *link, uint32_t length)
{
	while (link->passed < link->mtu && length >= smcr_mtu_bytes(link->passed + 1))
		link->passed++;
}

/* ---- what to blame ---- */

/** Had the request that failed full-size packets? All requests before it are done. */
static bool is_full_size(const struct smcr_link *link, uint64_t wr_id)
{
	return link->tx[wr_id % link->tx_depth].length >= smcr_mtu_bytes(link->mtu);
}

/** The next size to try. The cause is mostly a path with Ethernet's usual 1500 bytes. */
static uint8_t smaller(uint8_t mtu)
{
	return mtu > SMCR_MTU_1024 ? SMCR_MTU_1024 : (uint8_t)(mtu - 1);
}

/** The largest packets that pass, as far as is known; 0: the size is not to blame. */
static uint8_t passing(const struct smcr_link *link, uint64_t wr_id)
{
	if (link->passed >= link->mtu)
		return 0;
	if (link->lgr->llc->proving == link)
		return link->passed;
	if (!link->was_active || !is_full_size(link, wr_id))
		return 0;
	uint8_t guess = smaller(link->mtu);
	return guess > link->passed ? guess : link->passed;
}

bool smcr_path_blame(struct smcr_link *link, uint64_t wr_id)
{
	struct smcr_lgr *lgr = link->lgr;
	bool proven = lgr->llc->proving == link;
	uint8_t mtu = passing(link, wr_id);
	if (link->state == SMCR_LINK_FAILED || !mtu)
		return false;
	remember(link, mtu, proven);
	link->too_large = true;
	smcr_link_fail(link, SMCR_LLC_DEL_LOST_PATH,
		       proven ? "packets of %u bytes do not pass, smaller ones do: the path's MTU "
				"is less than the interface's"
			      : "a packet of %u bytes was not acknowledged, smaller ones were "
				"before: the path's MTU may be less than the interface's",
		       smcr_mtu_bytes(link->mtu));
	smcr_log_peer(lgr->engine, &lgr->peer, LOG_WARNING, "path MTU",
		      "%s: packets of %u bytes %s not pass: the MTU of the path is less than that "
		      "of the interface. New links between it and this peer's RNIC use %u bytes "
		      "for %s ('smcrctl policy' shows that, 'smcrctl policy forget' ends it)",
		      link->device_name, smcr_mtu_bytes(link->mtu), proven ? "do" : "seem to",
		      smcr_mtu_bytes(mtu), proven ? "an hour" : "a minute");
	return true;
}
