/* SPDX-License-Identifier: MIT */
/* How messages and data travel. Every message that a machine sends is kept in a few words, so that
 * one that comes again can be compared (CM-4). */
#include "tests/cmsim/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "daemon/cm/siphash.h"

void gid_of(int host, uint8_t ret_gid[16])
{
	const uint8_t gid[16] = { [10] = 0xFF, 0xFF, 10, 0, 0, (uint8_t)(host + 1) };
	memcpy(ret_gid, gid, 16);
}

int host_of(const struct world *w, const uint8_t gid[16])
{
	int host = gid[15] - 1;
	return host < w->plan.hosts || host == ATTACKER ? host : -1;
}

/* ---- repeats */

/** What makes a message the same one as another. */
struct mad_name {
	uint64_t transaction_id;
	uint32_t from, to, type, local_id, remote_id, more;
};

struct heard_mad {
	struct mad_name name;
	uint64_t digest;
	UT_hash_handle hh;
};

static void note(struct world *w, enum seen what)
{
	w->seen[what]++;
}

static void note_again(struct world *w, enum ibcm_type type)
{
	note(w, SEEN_REPEAT);
	if (type == IBCM_RTU)
		note(w, SEEN_RTU_AGAIN);
	if (type == IBCM_DREP)
		note(w, SEEN_DREP_AGAIN);
	if (type == IBCM_REQ)
		note(w, SEEN_REQ_AGAIN);
}

static void note_rej(struct world *w, const struct ibcm_rej *rej)
{
	if (rej->reason == IBCM_REJ_STALE_CONNECTION)
		note(w, SEEN_STALE);
	if (rej->reason == IBCM_REJ_INVALID_COMM_ID)
		note(w, SEEN_REP_REFUSED);
	if (rej->reason == IBCM_REJ_NO_RESOURCES)
		note(w, SEEN_LIMITED);
}

/* The name is a whole message's but for what must not differ in a repeat. */
static struct mad_name name_of(int from, int to, const struct ibcm_msg *msg)
{
	struct mad_name name = {
		.transaction_id = msg->transaction_id,
		.from = (uint32_t)from,
		.to = (uint32_t)to,
		.type = msg->type,
		.local_id = msg->local_id,
		.remote_id = msg->remote_id,
	};
	if (msg->type == IBCM_REJ)
		name.more = msg->rej.reason << 2 | msg->rej.subject;
	return name;
}

static void compare(struct world *w, int from, int to, const struct ibcm_msg *msg,
		    const uint8_t mad[IBCM_MAD_LEN])
{
	static const uint8_t key[16];
	struct mad_name name = name_of(from, to, msg);
	uint64_t digest = siphash(key, mad, IBCM_MAD_LEN);
	struct heard_mad *heard;
	HASH_FIND(hh, w->heard, &name, sizeof(name), heard);
	if (heard) {
		note_again(w, msg->type);
		if (heard->digest != digest)
			fail(w, "CM-4: host %d repeats a %s with other bytes", from,
			     ibcm_type_name(msg->type));
		return;
	}
	heard = calloc(1, sizeof(*heard));
	if (!heard)
		abort();
	heard->name = name;
	heard->digest = digest;
	HASH_ADD(hh, w->heard, name, sizeof(name), heard);
}

void net_free(struct world *w)
{
	struct heard_mad *heard, *next;
	HASH_ITER (hh, w->heard, heard, next) {
		HASH_DEL(w->heard, heard);
		free(heard);
	}
}

/* ---- ways */

static bool is_cut(const struct world *w, int from, int to)
{
	return from < MAX_HOSTS && to < MAX_HOSTS && w->now < w->cut_until[from][to];
}

static bool is_lost(struct world *w, int from, int to)
{
	struct random *r = &w->net[from][to];
	bool lost = chance(r, w->plan.loss);
	return !w->calm && (lost || is_cut(w, from, to));
}

static uint64_t delay(struct world *w, int from, int to)
{
	struct random *r = &w->net[from][to];
	uint64_t us = between(r, w->plan.delay_least, w->plan.delay_most);
	return w->calm ? 50 + us % 50 : us;
}

/* A message on its way. */
struct letter {
	int from, to;
	uint8_t mad[IBCM_MAD_LEN];
};

static void deliver(struct world *w, void *arg, uint64_t value)
{
	struct letter *letter = arg;
	uint8_t gid[16];
	(void)value;
	gid_of(letter->from, gid);
	if (letter->to < w->plan.hosts)
		host_receive(&w->hosts[letter->to], gid, letter->mad, IBCM_MAD_LEN);
	free(letter);
}

void net_forget(struct world *w)
{
	for (size_t i = 1; i <= w->num_events; i++) {
		if (w->events[i].fn == deliver)
			free(w->events[i].arg);
	}
	w->num_events = 0;
}

static void post(struct world *w, int from, int to, const uint8_t mad[IBCM_MAD_LEN])
{
	struct letter *letter = malloc(sizeof(*letter));
	if (!letter)
		abort();
	letter->from = from;
	letter->to = to;
	memcpy(letter->mad, mad, IBCM_MAD_LEN);
	after(w, delay(w, from, to), deliver, letter, 0);
}

void net_mad(struct world *w, int from, int to, const uint8_t mad[IBCM_MAD_LEN])
{
	struct ibcm_msg msg;
	struct random *r = &w->net[from][to];
	if (ibcm_decode(mad, IBCM_MAD_LEN, &msg) < 0) {
		fail(w, "host %d sends what is no message", from);
		return;
	}
	say(w, "%d -> %d %s %08x %08x tid %016" PRIx64, from, to, ibcm_type_name(msg.type),
	    msg.local_id, msg.remote_id, msg.transaction_id);
	if (to != ATTACKER) /* who may ask for anything by the same numbers */
		compare(w, from, to, &msg, mad);
	attack_overhear(w, mad);
	if (msg.type == IBCM_REJ)
		note_rej(w, &msg.rej);
	bool lost = is_lost(w, from, to), again = chance(r, w->plan.repeat);
	if (lost)
		say(w, "  is lost");
	else
		post(w, from, to, mad);
	if (again && !w->calm)
		post(w, from, to, mad);
}

/* ---- data */

static void acknowledged(struct world *w, void *arg, uint64_t value)
{
	struct qp *qp = arg;
	(void)value;
	if (qp->state == QP_RTS && qp->user)
		qp->user->last_ack = w->now;
}

static void data_come(struct world *w, void *arg, uint64_t value)
{
	struct qp *from = arg, *to = qp_mate(from);
	(void)value;
	if (!to || (to->state != QP_RTR && to->state != QP_RTS))
		return;
	if (to->user)
		user_data(to->user);
	if (!is_lost(w, to->host->number, from->host->number))
		after(w, delay(w, to->host->number, from->host->number), acknowledged, from, 0);
}

void net_data(struct world *w, struct qp *qp)
{
	int from = qp->host->number, to = host_of(w, qp->how.peer_gid);
	if (to < 0 || to == ATTACKER || qp->state != QP_RTS)
		return;
	if (!is_lost(w, from, to))
		after(w, delay(w, from, to), data_come, qp, 0);
}
