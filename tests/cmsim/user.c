/* SPDX-License-Identifier: MIT */
/* Users: each decides by random numbers of its own, so that what one does depends on what it is
 * told only. */
#include "tests/cmsim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/siphash.h"

#define PING_EVERY (10 * SECOND)
#define DREQ_TIME  (67 * SECOND) /* it is sent for the sixteenth time before */
#define GIVE_UP    (60 * SECOND) /* without an acknowledgement: the queue pair has failed */

static const char sorry[] = "sorry";

static void set_state(struct user *u, enum user_state state)
{
	u->state = state;
	u->since = u->world->now;
}

static struct user *user_new(struct host *host, uint16_t port, bool active, int peer,
			     struct random random)
{
	struct world *w = host->world;
	struct user *u = calloc(1, sizeof(*u));
	if (!u || w->num_users == MAX_USERS)
		abort();
	*u = (struct user){ .world = w,
			    .host = host,
			    .incarnation = host->incarnation,
			    .port = port,
			    .active = active,
			    .honest = peer != ATTACKER,
			    .peer = peer,
			    .random = random };
	w->users[w->num_users++] = u;
	return u;
}

static struct cm_offer offer(struct user *u, const char *text)
{
	return (struct cm_offer){
		.reads_answered = (uint8_t)random_below(&u->random, 20),
		.reads_asked = (uint8_t)random_below(&u->random, 20),
		.rnr_retry = (uint8_t)random_below(&u->random, 8),
		.private_data = text,
		.private_len = text ? strlen(text) : 0,
	};
}

static void destroy_qp(struct user *u)
{
	if (!u->qp)
		return;
	u->qp->state = QP_DESTROYED;
	u->qp->user = NULL;
	u->qp = NULL;
}

static void free_conn(struct user *u)
{
	bool before = chance(&u->random, 500);
	if (before)
		destroy_qp(u);
	if (u->state == USER_ASKED && chance(&u->random, 300))
		cm_machine_reject(u->conn, sorry, sizeof(sorry));
	else
		cm_machine_conn_free(u->conn);
	destroy_qp(u);
	u->conn = NULL;
	set_state(u, USER_GONE);
}

/* Is the user of the other side in this state? */
static bool is_peer(const struct user *u, enum user_state state)
{
	const struct world *w = u->world;
	for (size_t i = 0; i < w->num_users; i++) {
		const struct user *other = w->users[i];
		if (u->honest && other->honest && other->port == u->port &&
		    other->active != u->active && other->state == state)
			return true;
	}
	return false;
}

static void disconnect(struct user *u)
{
	u->world->seen[SEEN_CROSSED] += u->state == USER_CONNECTED && is_peer(u, USER_LEAVING);
	set_state(u, USER_LEAVING);
	cm_machine_disconnect(u->conn);
}

/* ---- what users do by themselves */

static void act(struct world *w, void *arg, uint64_t value)
{
	struct user *u = arg;
	(void)value;
	if (u->state == USER_GONE)
		return;
	cm_machine_set_time(u->host->machine, w->now);
	if (u->state == USER_ENDED || u->state == USER_LEAVING || chance(&u->random, 400))
		free_conn(u);
	else
		disconnect(u);
	host_pump(u->host);
}

static void act_within(struct user *u, uint64_t us)
{
	after(u->world, between(&u->random, 0, us), act, u, 0);
}

static void accept_request(struct user *u)
{
	struct cm_offer what = offer(u, "welcome");
	u->qp = qp_new(u->host, u);
	const struct cm_machine_own_qp own = { u->qp, u->qp->qpn, 1000 };
	int r = cm_machine_accept(u->conn, &own, &what, u);
	if (r < 0) {
		/* The queue pair has failed, or CM_ENDED is on its way. */
		if ((r != -EINVAL || !u->world->plan.fail_qps) &&
		    (r != -ENOTCONN || !u->world->plan.lazy))
			fail(u->world, "a request cannot be accepted: %d", r);
		free_conn(u);
		return;
	}
	set_state(u, USER_WAITING);
	if (chance(&u->random, 100))
		act_within(u, 20 * SECOND);
}

static void answer(struct user *u)
{
	uint32_t dice = random_below(&u->random, 100);
	if (dice < 75)
		accept_request(u);
	else if (dice < 95)
		free_conn(u);
	else
		disconnect(u);
}

static void answer_late(struct world *w, void *arg, uint64_t value)
{
	struct user *u = arg;
	(void)value;
	if (u->state != USER_ASKED)
		return;
	cm_machine_set_time(u->host->machine, w->now);
	answer(u);
	host_pump(u->host);
}

static void ping(struct world *w, void *arg, uint64_t value)
{
	struct user *u = arg;
	(void)value;
	if (u->state != USER_CONNECTED)
		return;
	if (!w->plan.quiet && w->now - u->last_ack > GIVE_UP) {
		say(w, "queue pair %x of host %d fails", u->qp->qpn, u->host->number);
		cm_machine_set_time(u->host->machine, w->now);
		disconnect(u);
		host_pump(u->host);
		return;
	}
	net_data(w, u->qp);
	after(w, PING_EVERY, ping, u, 0);
}

void user_connect(struct world *w, void *arg, uint64_t index)
{
	struct random random = stream(w->seed, 10000 + index);
	struct host *host = &w->hosts[random_below(&random, (uint32_t)w->plan.hosts)];
	int peer = (int)random_below(&random, (uint32_t)w->plan.hosts);
	bool nobody = chance(&random, 80);
	struct cm_machine_connect_params params = {
		.local = { .family = AF_INET, .port = (uint16_t)(FIRST_PORT + index) },
		.peer = { .family = AF_INET, .port = nobody ? EMPTY_PORT : PORT },
	};
	uint8_t gid[16];
	(void)arg;
	if (w->calm)
		return;
	struct user *u = user_new(host, params.local.port, true, peer, random);
	gid_of(host->number, gid);
	memcpy(params.local.addr, gid + 12, 4);
	gid_of(peer, gid);
	memcpy(params.peer.addr, gid + 12, 4);
	u->qp = qp_new(host, u);
	params.qp = (struct cm_machine_own_qp){ u->qp, u->qp->qpn, 1000 };
	params.offer = offer(u, "please");
	params.timeout_ms = chance(&u->random, 500) ? 0 : random_below(&u->random, 60000) + 1;
	params.conn_ctx = u;
	say(w, "user of port %u: host %d asks host %d", u->port, host->number, peer);
	cm_machine_set_time(host->machine, w->now);
	int r = cm_machine_connect(host->machine, &params, &u->conn);
	if (r < 0)
		fail(w, "connect: %d", r);
	set_state(u, USER_WAITING);
	if (chance(&u->random, 100))
		act_within(u, 20 * SECOND);
	if (nobody)
		u->reject_reason = IBCM_REJ_INVALID_SERVICE_ID; /* nothing else is right */
	host_pump(host);
}

/* ---- what they are told */

static void remember(struct user *u, const struct cm_event *event)
{
	static const uint8_t key[16];
	const uint64_t what[] = { u->port,       (uint64_t)u->host->number,
				  u->active,     u->world->now,
				  event->type,   event->type == CM_ENDED ? event->end : 0,
				  u->incarnation };
	if (u->honest) /* the order does not matter */
		u->world->digest += siphash(key, what, sizeof(what));
}

/* CM-29 */
static void check_share(struct host *host)
{
	struct world *w = host->world;
	unsigned int requests = 0, conns = 0;
	for (size_t i = 0; i < w->num_users; i++) {
		const struct user *u = w->users[i];
		if (u->honest || u->host != host || u->state == USER_GONE || u->state == USER_ENDED)
			continue;
		conns++;
		requests += u->state == USER_ASKED;
	}
	if (requests > LIMIT_REQUESTS || conns > LIMIT_PEER)
		fail(w, "CM-29: host %d has %u requests and %u connections of the attacker",
		     host->number, requests, conns);
}

static struct user *asked(struct host *host, struct cm_machine_conn *conn)
{
	struct world *w = host->world;
	struct cm_addr local, peer;
	uint8_t gid[16] = { [10] = 0xFF, 0xFF };
	cm_machine_conn_addrs(conn, &local, &peer);
	memcpy(gid + 12, peer.addr, 4);
	int number = host_of(w, gid);
	struct random random = number == ATTACKER
				       ? stream(random_u64(&w->attacker), 0)
				       : stream(w->seed, 20000 + 10 * (uint64_t)peer.port +
								 (uint64_t)host->number);
	struct user *u = user_new(host, peer.port, false, number, random);
	u->conn = conn;
	if (local.port != PORT)
		fail(w, "a request for port %u", local.port);
	if (number != ATTACKER && w->requests[host->number][peer.port - FIRST_PORT]++)
		fail(w, "CM-22: the request of port %u is told twice", peer.port);
	cm_machine_conn_set_ctx(conn, u);
	set_state(u, USER_ASKED);
	if (number == ATTACKER)
		check_share(host);
	return u;
}

static void on_request(struct user *u, const struct cm_event *event)
{
	if (event->private_len != CM_REQUEST_PRIVATE_MAX ||
	    (u->honest && memcmp(event->private_data, "please", 7) != 0))
		fail(u->world, "a request has other private data");
	if (chance(&u->random, 700))
		answer(u);
	else if (chance(&u->random, 800))
		after(u->world, between(&u->random, 0, 30 * SECOND), answer_late, u, 0);
	else
		after(u->world, between(&u->random, 0, 150 * SECOND), answer_late, u, 0);
}

static void on_connected(struct user *u, const struct cm_event *event)
{
	struct world *w = u->world;
	if (u->state != USER_WAITING || u->was_connected)
		fail(w, "port %u: CM_CONNECTED in state %d", u->port, u->state);
	if (!u->qp || u->qp->state != QP_RTS)
		fail(w, "port %u: CM_CONNECTED, and the queue pair cannot send", u->port);
	if (u->active && u->reject_reason)
		fail(w, "port %u: CM_CONNECTED, and nobody listens there", u->port);
	if (u->active && memcmp(event->private_data, "welcome", 8) != 0)
		fail(w, "port %u: other private data", u->port);
	if (u->qp && (event->reads_asked != u->qp->how.reads_asked ||
		      event->reads_answered != u->qp->how.reads_answered))
		fail(w, "port %u: other reads than the queue pair has", u->port);
	w->seen[SEEN_CONNECTED]++;
	u->was_connected = true;
	u->last_ack = w->now;
	set_state(u, USER_CONNECTED);
	if (!w->plan.mute && chance(&u->random, 500))
		net_data(w, u->qp);
	if (!w->plan.mute)
		after(w, between(&u->random, 0, PING_EVERY), ping, u, 0);
	if (chance(&u->random, 100))
		free_conn(u);
	else if (chance(&u->random, 100))
		disconnect(u);
	else if (chance(&u->random, 600))
		act_within(u, chance(&u->random, 500) ? 60 * SECOND : SECOND / 100);
}

static void on_ended(struct user *u, const struct cm_event *event)
{
	struct world *w = u->world;
	if (u->state == USER_ENDED)
		fail(w, "port %u: CM_ENDED twice", u->port);
	if (event->end == CM_END_NONE || !event->text || !*event->text)
		fail(w, "port %u: CM_ENDED without a reason", u->port);
	if (u->active && event->end == CM_END_NO_LISTENER && !u->reject_reason)
		fail(w, "port %u: CM_END_NO_LISTENER, and somebody listens there", u->port);
	if (event->end == CM_END_DISCONNECTED && u->state != USER_LEAVING)
		fail(w, "port %u: disconnected, and nobody has called for it", u->port);
	if (event->end == CM_END_NO_LISTENER)
		w->seen[SEEN_NO_LISTENER]++;
	if (event->end == CM_END_REFUSED && !memcmp(event->private_data, sorry, sizeof(sorry)))
		w->seen[SEEN_REFUSED]++;
	if (u->qp && u->qp->state != QP_ERR)
		fail(w, "port %u: CM_ENDED, and the queue pair is in state %d", u->port,
		     u->qp->state);
	if (event->end == CM_END_TIMEOUT && !u->active && w->plan.quiet &&
	    is_peer(u, USER_CONNECTED))
		fail(w, "CM-19: port %u: no RTU, and the peer is connected", u->port);
	if (u->state == USER_LEAVING && w->plan.quiet && u->honest && w->now - u->since > DREQ_TIME)
		fail(w, "CM-20: port %u: nobody has answered the DREQ", u->port);
	u->end = event->end;
	set_state(u, USER_ENDED);
	if (w->leaving || chance(&u->random, 500))
		free_conn(u);
	else
		act_within(u, 20 * SECOND);
}

void user_event(struct host *host, struct cm_machine_conn *conn, void *ctx,
		const struct cm_event *event)
{
	static const char *const names[] = { "CM_REQUEST", "CM_CONNECTED", "CM_ENDED" };
	struct world *w = host->world;
	struct user *u = event->type == CM_REQUEST ? NULL : ctx;
	if (event->type == CM_REQUEST && ctx != host)
		fail(w, "CM_REQUEST with another context");
	if (!u)
		u = asked(host, conn);
	say(w, "host %d, port %u%s: %s %s", host->number, u->port, u->active ? "" : " (asked)",
	    names[event->type], event->type == CM_ENDED ? event->text : "");
	if (u->state == USER_GONE || u->conn != conn || u->incarnation != host->incarnation) {
		fail(w, "port %u: an event after the end", u->port);
		return;
	}
	remember(u, event);
	switch (event->type) {
	case CM_REQUEST: on_request(u, event); break;
	case CM_CONNECTED: on_connected(u, event); break;
	case CM_ENDED: on_ended(u, event); break;
	}
}

void user_data(struct user *u)
{
	if (u->state != USER_WAITING || u->active)
		return;
	u->world->seen[SEEN_HEARD]++;
	cm_machine_set_time(u->host->machine, u->world->now);
	cm_machine_heard(u->conn);
	host_pump(u->host);
}

/* ---- ends */

void user_lost(struct user *u)
{
	if (u->state == USER_GONE)
		return;
	destroy_qp(u);
	u->conn = NULL;
	set_state(u, USER_GONE);
}

void users_leave(struct world *w)
{
	w->leaving = true;
	for (size_t i = 0; i < w->num_users; i++)
		act(w, w->users[i], 0);
}

void users_free(struct world *w)
{
	for (size_t i = 0; i < w->num_users; i++)
		free(w->users[i]);
}
