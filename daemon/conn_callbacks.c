/* SPDX-License-Identifier: MIT */
/* What connections (daemon/conns/) ask the other parts of the daemon, and tell them: may this one
 * use SMC-R, how long is the prefix of this address, it has ended. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "daemon/host/log.h"
#include "daemon/internal.h"

/* ---- the engine ---- */

void smcrd_enter_engine(struct smcrd *smcrd)
{
	smcrd->programs_active++;
	const uint64_t now = fabric_now();
	turns_begin(&smcrd->turns, TURNS_PROGRAMS, now);
	smcr_engine_set_time(smcrd->engine, now);
}

static void engine_enter(void *ctx)
{
	smcrd_enter_engine(ctx);
}

static void engine_leave(void *ctx)
{
	struct smcrd *smcrd = ctx;
	fabric_end_turn(smcrd->fabric);
}

/* ---- the path of a connection ---- */

struct path_search {
	const struct smcr_addr *addr;
	bool found;
	uint8_t prefix_len;
	uint16_t vlan;
};

static void found_path(struct path_search *search, const struct netif *netif, uint8_t prefix_len)
{
	search->found = true;
	search->prefix_len = prefix_len;
	search->vlan = netif->vlan;
}

static uint32_t addr_ipv4(const struct smcr_addr *addr)
{
	uint32_t be;
	memcpy(&be, addr->ip, sizeof(be));
	return ntohl(be);
}

static void match_path(void *ctx, const struct netif *netif)
{
	struct path_search *search = ctx;
	bool ipv4 = search->addr->family == AF_INET;
	for (size_t i = 0; ipv4 && i < netif->num_addrs; i++)
		if (netif->addrs[i].addr == addr_ipv4(search->addr))
			found_path(search, netif, netif->addrs[i].prefix_len);
	for (size_t i = 0; !ipv4 && i < netif->num_addrs6; i++)
		if (!memcmp(netif->addrs6[i].addr, search->addr->ip, 16))
			found_path(search, netif, netif->addrs6[i].prefix_len);
}

static int find_path(void *ctx, const struct smcr_addr *local, uint8_t *ret_prefix_len,
		     uint16_t *ret_vlan)
{
	struct smcrd *smcrd = ctx;
	struct path_search search = { .addr = local };
	netif_each(smcrd->netifs, match_path, &search);
	if (!search.found)
		return -ENOENT;
	*ret_prefix_len = search.prefix_len;
	*ret_vlan = search.vlan;
	return 0;
}

/* ---- may it use SMC-R, and how did that go ---- */

static enum smcr_reason refuse(void *ctx, const struct conns_candidate *candidate)
{
	struct smcrd *smcrd = ctx;
	const struct smcr_subject subject = {
		.local = rdv_addr16(candidate->local),
		.peer = rdv_addr16(candidate->peer),
		.program = candidate->program,
		.uid = candidate->uid,
		.port = candidate->server ? candidate->local->port : candidate->peer->port,
	};
	enum smcr_reason reason =
		optout_judge(&smcrd->optout, candidate->local, candidate->peer, candidate->mark);
	if (smcrd->control.drain.on) /* the handshake was before the drain */
		return SMCR_REASON_DRAINING;
	return reason ? reason : policy_judge(smcrd->policy, &subject);
}

static void worked(void *ctx, uid_t uid, const struct smcr_addr *peer)
{
	struct smcrd *smcrd = ctx;
	policy_worked(smcrd->policy, uid, peer);
}

/* Any user of the peer's host can send CLC and name an RNIC that does not answer. If other links
 * with that host work, the failure says nothing about the host. */
static void path_failed(struct smcrd *smcrd, uid_t uid, const struct smcr_addr *peer)
{
	if (!smcr_engine_reaches(smcrd->engine, peer))
		policy_failed(smcrd->policy, uid, peer, FAILURE_PATH);
	else if (peer->port)
		policy_failed(smcrd->policy, uid, peer, FAILURE_LINK);
}

static void failed(void *ctx, uid_t uid, const struct smcr_addr *peer, enum conns_failure how)
{
	struct smcrd *smcrd = ctx;
	switch (how) {
	case CONNS_PATH_DEAD: path_failed(smcrd, uid, peer); break;
	case CONNS_NO_ANSWER: policy_failed(smcrd->policy, uid, peer, FAILURE_ANSWER); break;
	case CONNS_RESET: policy_failed(smcrd->policy, uid, peer, FAILURE_RESET); break;
	}
}

/* The place under which a connection is learnt. */
static struct rdv_place place_of(const struct conns_candidate *candidate)
{
	struct rdv_place place = { .uid = candidate->uid,
				   .server = candidate->server,
				   .peer = *candidate->peer };
	if (candidate->server) {
		place.peer.port = candidate->local->port;
		place.local = *candidate->local;
	}
	return place;
}

static void ended(void *ctx, const struct conns_ended *ended)
{
	struct smcrd *smcrd = ctx;
	const struct rdv_place where = place_of(&ended->candidate);
	policy_ended(smcrd->policy, &where, ended->ms, ended->bytes, &ended->needs);
}

static struct smcr_needs expect(void *ctx, const struct conns_candidate *candidate)
{
	const struct smcrd *smcrd = ctx;
	const struct rdv_place where = place_of(candidate);
	return policy_expect(smcrd->policy, &where);
}

static void outgrown(void *ctx, const struct conns_candidate *candidate,
		     const struct smcr_needs *needs)
{
	struct smcrd *smcrd = ctx;
	const struct rdv_place where = place_of(candidate);
	policy_outgrown(smcrd->policy, &where, needs);
}

static bool assume_capable(void *ctx, const struct smcr_addr *peer)
{
	struct smcrd *smcrd = ctx;
	return peer->family == AF_INET &&
	       config_peer_assumed_capable(&smcrd->config, addr_ipv4(peer));
}

static bool can_share(void *ctx)
{
	struct smcrd *smcrd = ctx;
	return fabric_can_share(smcrd->fabric);
}

/* ---- what became of it ---- */

static void note_refused(struct smcrd *smcrd, const struct conns_told *told)
{
	const struct rdv_plain refused = {
		.time_us = fabric_now(),
		.local = *told->local,
		.peer = *told->peer,
		.role = told->server ? SMCR_ROLE_SERVER : SMCR_ROLE_CLIENT,
		.reason = told->reason,
		.uid = told->uid,
		.pid = told->pid,
	};
	plain_add(smcrd->plain, &refused);
}

/* Count a connection that did not use SMC-R by its peer. */
static void conn_told(void *ctx, const struct conns_told *told)
{
	struct smcrd *smcrd = ctx;
	events_connection(smcrd->events, told);
	switch (told->kind) {
	case CONNS_REFUSED: note_refused(smcrd, told); break;
	case CONNS_STAYED_TCP:
	case CONNS_FELL_BACK:
	case CONNS_BROKE: plain_count(smcrd->plain, told->peer, told->uid, told->reason); break;
	case CONNS_WAS_RESET: break;
	}
}

static void settled_tcp(void *ctx, uint64_t cookie)
{
	struct smcrd *smcrd = ctx;
	plain_forget(smcrd->plain, cookie);
}

static void write_log(void *ctx, int priority, const char *line)
{
	(void)ctx;
	log_message(priority, "%s", line);
}

void conn_callbacks_fill(struct smcrd *smcrd, struct conns_callbacks *ret_callbacks)
{
	*ret_callbacks = (struct conns_callbacks){ .ctx = smcrd,
						   .engine_enter = engine_enter,
						   .engine_leave = engine_leave,
						   .path = find_path,
						   .refuse = refuse,
						   .worked = worked,
						   .failed = failed,
						   .expect = expect,
						   .ended = ended,
						   .outgrown = outgrown,
						   .told = conn_told,
						   .settled_tcp = settled_tcp,
						   .assume_capable = assume_capable,
						   .can_share = can_share,
						   .log = write_log };
}
