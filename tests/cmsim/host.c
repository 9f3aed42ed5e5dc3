/* SPDX-License-Identifier: MIT */
/* A machine as a host, and its queue pairs. */
#include "tests/cmsim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the machine calls */

static void on_send(void *ctx, const uint8_t local_gid[16], const uint8_t peer_gid[16],
		    const uint8_t mad[IBCM_MAD_LEN])
{
	struct host *host = ctx;
	int to = host_of(host->world, peer_gid);
	if (host_of(host->world, local_gid) != host->number)
		fail(host->world, "host %d sends from another address", host->number);
	if (to >= 0)
		net_mad(host->world, host->number, to, mad);
}

static void on_random(void *ctx, void *buf, size_t len)
{
	struct host *host = ctx;
	random_bytes(&host->random, buf, len);
}

static bool on_may_use(void *ctx, const struct cm_addr *local, const struct cm_addr *peer)
{
	(void)ctx;
	(void)local;
	return peer->addr[0] == 10;
}

static void *on_find_listener(void *ctx, const struct cm_addr *local)
{
	return local->port == PORT ? ctx : NULL;
}

struct qp *qp_mate(struct qp *qp)
{
	struct world *w = qp->host->world;
	int peer = host_of(w, qp->how.peer_gid);
	for (size_t i = 0; i < w->num_qps; i++) {
		struct qp *mate = &w->qps[i];
		if (mate->qpn == qp->how.peer_qpn && mate->host->number == peer &&
		    mate->incarnation == mate->host->incarnation && mate->state < QP_ERR &&
		    mate->state > QP_INIT && mate->how.peer_qpn == qp->qpn &&
		    mate->how.rq_psn == qp->how.sq_psn && mate->how.sq_psn == qp->how.rq_psn)
			return mate;
	}
	return NULL;
}

/* CM-12, CM-13, CM-14: both sides have each other's numbers. The passive side's queue pair is ready
 * first (CM-16). */
static void check_mate(struct qp *qp)
{
	struct world *w = qp->host->world;
	int peer = host_of(w, qp->how.peer_gid);
	for (size_t i = 0; peer >= 0 && i < w->num_qps; i++) {
		struct qp *mate = &w->qps[i];
		if (mate->host->number != peer || mate->qpn != qp->how.peer_qpn ||
		    mate->incarnation != mate->host->incarnation)
			continue;
		/* The peer may have been restarted, and have given the number again. */
		if (mate->incarnation && !qp_mate(qp))
			return;
		if (mate->state == QP_INIT)
			fail(w, "CM-16: queue pair %x is asked to send to one that is not ready",
			     qp->qpn);
		if (mate->state != QP_RTR && mate->state != QP_RTS)
			return;
		const struct cm_machine_qp *a = &qp->how, *b = &mate->how;
		if (b->peer_qpn != qp->qpn || a->rq_psn != b->sq_psn || a->sq_psn != b->rq_psn)
			fail(w, "CM-12: queue pairs %x and %x do not fit", qp->qpn, mate->qpn);
		if (a->reads_asked > b->reads_answered || b->reads_asked > a->reads_answered)
			fail(w, "CM-13: queue pairs %x and %x: too many reads", qp->qpn, mate->qpn);
		if (a->path_mtu != b->path_mtu)
			fail(w, "CM-14: queue pairs %x and %x: path MTU", qp->qpn, mate->qpn);
	}
}

/* Operations fail when a queue pair's own number says so, so that this does not depend on what else
 * happens. */
static bool fails(const struct qp *qp, unsigned int which)
{
	return qp->host->world->plan.fail_qps && (qp->qpn >> 12) % 16 == which;
}

/* CM-23: a queue pair of a peer is in one connection only. */
static void check_sole(const struct qp *qp, const struct cm_machine_qp *how)
{
	struct world *w = qp->host->world;
	for (size_t i = 0; i < w->num_qps; i++) {
		const struct qp *other = &w->qps[i];
		if (other->host == qp->host && other->incarnation == qp->incarnation &&
		    (other->state == QP_RTR || other->state == QP_RTS) &&
		    other->how.peer_qpn == how->peer_qpn &&
		    !memcmp(other->how.peer_gid, how->peer_gid, 16))
			fail(w, "CM-23: host %d has two connections with queue pair %x",
			     qp->host->number, how->peer_qpn);
	}
}

static int on_qp_connect(void *ctx, void *arg, const struct cm_machine_qp *how)
{
	struct host *host = ctx;
	struct qp *qp = arg;
	if (qp->state != QP_INIT)
		fail(host->world, "queue pair %x is connected in state %d", qp->qpn, qp->state);
	if (fails(qp, 1))
		return -EINVAL;
	check_sole(qp, how);
	qp->state = QP_RTR;
	qp->how = *how;
	return 0;
}

static int on_qp_start(void *ctx, void *arg, const struct cm_machine_qp *how)
{
	struct host *host = ctx;
	struct qp *qp = arg;
	if (qp->state != QP_RTR || memcmp(how, &qp->how, sizeof(*how)) != 0)
		fail(host->world, "queue pair %x is started in state %d", qp->qpn, qp->state);
	if (fails(qp, 2))
		return -EINVAL;
	qp->state = QP_RTS;
	check_mate(qp);
	return 0;
}

static void on_qp_error(void *ctx, void *arg)
{
	struct host *host = ctx;
	struct qp *qp = arg;
	if (qp->state == QP_DESTROYED)
		fail(host->world, "queue pair %x is touched after its end", qp->qpn);
	qp->state = QP_ERR;
}

static void on_event(void *ctx, struct cm_machine_conn *conn, void *conn_ctx,
		     const struct cm_event *event)
{
	struct host *host = ctx;
	if (!host->running)
		fail(host->world, "an event comes inside a call");
	user_event(host, conn, conn_ctx, event);
}

static const struct cm_machine_ops ops = {
	.send = on_send,
	.random = on_random,
	.may_use = on_may_use,
	.find_listener = on_find_listener,
	.qp_connect = on_qp_connect,
	.qp_start = on_qp_start,
	.qp_error = on_qp_error,
	.event = on_event,
};

/* ---- life */

static void wake(struct world *w, void *arg, uint64_t at);

static void set_wake(struct host *host, uint64_t at)
{
	struct world *w = host->world;
	if (at >= host->wake_at)
		return;
	host->wake_at = at;
	after(w, at > w->now ? at - w->now : 0, wake, host, at);
}

static void do_due(struct host *host)
{
	struct world *w = host->world;
	unsigned int turns = 0;
	while (cm_machine_deadline(host->machine) <= w->now) {
		host->running = true;
		cm_machine_run(host->machine, w->now);
		host->running = false;
		if (++turns > 100000) {
			fail(w, "host %d has no end of work", host->number);
			break;
		}
	}
	set_wake(host, cm_machine_deadline(host->machine));
}

static void wake(struct world *w, void *arg, uint64_t at)
{
	struct host *host = arg;
	(void)w;
	if (at != host->wake_at)
		return; /* another one was set since */
	host->wake_at = UINT64_MAX;
	do_due(host);
}

void host_pump(struct host *host)
{
	struct world *w = host->world;
	uint64_t at = cm_machine_deadline(host->machine);
	if (host->running)
		return; /* in a callback: the caller goes on */
	if (!w->plan.lazy)
		do_due(host);
	else if (at != UINT64_MAX)
		set_wake(host,
			 (at > w->now ? at : w->now) + between(&host->laziness, 0, w->plan.lazy));
}

void host_receive(struct host *host, const uint8_t from[16], const uint8_t *mad, size_t len)
{
	uint8_t own[16];
	gid_of(host->number, own);
	cm_machine_receive(host->machine, own, from, mad, len, host->world->now);
	host_pump(host);
}

static void start(struct host *host)
{
	struct world *w = host->world;
	struct cm_machine_params params = { .ops = &ops, .ctx = host, .now = w->now };
	struct rnic_info info = {
		.mac = { 2, 0, 0, 0, 0, (uint8_t)host->number },
		.max_path_mtu = 3,
		.max_reads_answered = 16,
		.max_reads_asked = 16,
		.num_gids = 1,
		.gids = { { .type = RNIC_GID_ROCE_V2 } },
	};
	if (w->plan.attacks)
		params.limits = (struct cm_limits){ .conns = LIMIT_CONNS,
						    .conns_per_peer = LIMIT_PEER,
						    .requests_per_peer = LIMIT_REQUESTS };
	gid_of(host->number, info.gids[0].raw);
	host->random = stream(w->seed, 1000 + 100 * (uint64_t)host->number + host->incarnation);
	host->laziness = stream(w->seed, 3000 + (uint64_t)host->number);
	host->wake_at = UINT64_MAX;
	if (cm_machine_new(&params, &host->machine) < 0)
		abort();
	cm_machine_set_rnic(host->machine, &info);
}

void host_start(struct world *w, int number)
{
	struct host *host = &w->hosts[number];
	*host = (struct host){ .world = w, .number = number };
	start(host);
}

void host_free(struct host *host)
{
	cm_machine_free(host->machine);
	host->machine = NULL;
}

void host_restart(struct host *host, bool orderly)
{
	struct world *w = host->world;
	say(w, "host %d is restarted%s", host->number, orderly ? " in order" : "");
	w->seen[SEEN_RESTART]++;
	if (orderly) {
		cm_machine_close(host->machine);
		do_due(host);
	}
	for (size_t i = 0; i < w->num_users; i++) {
		if (w->users[i]->host == host && w->users[i]->incarnation == host->incarnation)
			user_lost(w->users[i]);
	}
	host_free(host);
	host->incarnation++;
	host->num_qps = 0;
	memset(w->requests[host->number], 0, sizeof(w->requests[host->number]));
	start(host);
}

/* ---- queue pairs */

struct qp *qp_new(struct host *host, struct user *user)
{
	struct world *w = host->world;
	struct qp *qp = &w->qps[w->num_qps++];
	if (w->num_qps > MAX_QPS)
		abort();
	*qp = (struct qp){ .host = host, .user = user, .incarnation = host->incarnation };
	/* A host that was restarted gives the same numbers again (CM-23). Those for an attacker's
	 * connections do not change the others. */
	uint32_t count = user->honest ? ++host->num_qps : (uint32_t)w->num_qps;
	struct random r = stream(w->seed, 2000 + 10 * (uint64_t)count + (uint64_t)host->number);
	qp->qpn = (user->honest ? 0 : 0x800000) | random_below(&r, 1 << 11) << 12 | (count + 1);
	return qp;
}
