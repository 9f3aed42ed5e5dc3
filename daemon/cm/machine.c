/* SPDX-License-Identifier: MIT */
/* Life of a machine, its timers, and events to users. */
#include "daemon/cm/machine_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEFAULT_CONNS = 4096,
	DEFAULT_CONNS_PER_PEER = 1024,
	DEFAULT_REQUESTS_PER_PEER = 64,
};

int cm_machine_new(const struct cm_machine_params *params, struct cm_machine **ret_machine)
{
	struct cm_machine *machine = calloc(1, sizeof(*machine));
	if (!machine)
		return -ENOMEM;
	machine->ops = params->ops;
	machine->ctx = params->ctx;
	machine->now = params->now;
	machine->limits = params->limits;
	struct cm_limits *limits = &machine->limits;
	if (!limits->conns)
		limits->conns = DEFAULT_CONNS;
	if (!limits->conns_per_peer)
		limits->conns_per_peer = DEFAULT_CONNS_PER_PEER;
	if (!limits->requests_per_peer)
		limits->requests_per_peer = DEFAULT_REQUESTS_PER_PEER;
	machine->ops->random(machine->ctx, machine->hash_key, sizeof(machine->hash_key));
	*ret_machine = machine;
	return 0;
}

void cm_machine_free(struct cm_machine *machine)
{
	if (!machine)
		return;
	while (machine->conns)
		machine_conn_destroy(machine->conns);
	machine_time_wait_clear(machine);
	cm_timers_free(&machine->timers);
	free(machine);
}

/* The identifier of an RNIC is the EUI-64 of its MAC, as Linux makes it. */
static uint64_t guid_of_mac(const uint8_t mac[6])
{
	const uint8_t eui[8] = { mac[0] ^ 2, mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5] };
	uint64_t guid = 0;
	for (size_t i = 0; i < sizeof(eui); i++)
		guid = guid << 8 | eui[i];
	return guid;
}

void cm_machine_set_rnic(struct cm_machine *machine, const struct rnic_info *info)
{
	machine->num_gids = 0;
	for (size_t i = 0; i < info->num_gids && i < RNIC_MAX_GIDS; i++) {
		if (info->gids[i].type == RNIC_GID_ROCE_V2)
			memcpy(machine->gids[machine->num_gids++], info->gids[i].raw, 16);
	}
	machine->guid = guid_of_mac(info->mac);
	machine->max_path_mtu = info->max_path_mtu;
	machine->max_reads_answered = info->max_reads_answered;
	machine->max_reads_asked = info->max_reads_asked;
}

/* Tell the peer once, without waiting for an answer. */
static void part(struct cm_machine_conn *conn)
{
	switch (conn->state) {
	case CM_STATE_ASKING:
	case CM_STATE_ASKED:
		machine_conn_say_rej(conn, IBCM_SUBJECT_REQ, IBCM_REJ_TIMEOUT, NULL, 0);
		break;
	case CM_STATE_ACCEPTING:
	case CM_STATE_CONNECTED:
		machine_conn_leave(conn, CM_END_LOCAL, "the RNIC is closed");
		break;
	case CM_STATE_ENDING:
	case CM_STATE_ENDED: break;
	}
	machine_conn_end(conn, false, CM_END_LOCAL, 0, "the RNIC is closed");
}

void cm_machine_close(struct cm_machine *machine)
{
	struct cm_machine_conn *conn, *next;
	DL_FOREACH_SAFE (machine->conns, conn, next)
		part(conn);
	machine->closed = true;
}

void cm_machine_set_time(struct cm_machine *machine, uint64_t now)
{
	if (now > machine->now)
		machine->now = now;
}

uint64_t cm_machine_deadline(const struct cm_machine *machine)
{
	const struct cm_timer *timer = cm_timers_first(&machine->timers);
	uint64_t at = timer ? timer->at : UINT64_MAX;
	uint64_t wait_ends = machine_time_wait_deadline(machine);
	if (machine->due)
		return 0;
	return at < wait_ends ? at : wait_ends;
}

/* ---- events */

void machine_due(struct cm_machine_conn *conn, enum machine_due what)
{
	if (!conn->due)
		DL_APPEND2(conn->machine->due, conn, due_prev, due_next);
	conn->due |= what;
}

void machine_not_due(struct cm_machine_conn *conn)
{
	if (conn->due)
		DL_DELETE2(conn->machine->due, conn, due_prev, due_next);
	conn->due = 0;
}

/* Private data come with REQ, REP and REJ. What other messages have is not kept. */
static void tell(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	struct cm_event event = {
		.reads_answered = conn->reads_answered,
		.reads_asked = conn->reads_asked,
		.private_data = conn->private_data,
		.private_len = conn->private_len,
	};
	if (conn->due & MACHINE_DUE_ENDED) {
		event.type = CM_ENDED;
		if (!conn->rejected)
			event.private_len = 0;
		event.end = conn->end;
		event.reject_reason = conn->reject_reason;
		event.text = conn->text;
	} else if (conn->due & MACHINE_DUE_CONNECTED) {
		event.type = CM_CONNECTED;
		if (!conn->active)
			event.private_len = 0;
	} else {
		event.type = CM_REQUEST;
		conn->has_user = true;
	}
	conn->due = 0;
	machine->ops->event(machine->ctx, conn, conn->ctx, &event);
}

/* What has become due meanwhile comes in the next turn, so that no user can keep the caller here.
 */
static void tell_all(struct cm_machine *machine)
{
	struct cm_machine_conn *conn;
	unsigned int count = 0;
	DL_FOREACH2 (machine->due, conn, due_next)
		count++;
	while (count-- > 0 && (conn = machine->due)) {
		DL_DELETE2(machine->due, conn, due_prev, due_next);
		tell(conn);
	}
}

/* A peer that has asked for many connections at once has many repeats due at once. The others have
 * their turn when other work of the caller had its. */
static void fire_some(struct cm_machine *machine)
{
	struct cm_timer *timer;
	for (int i = 0; i < MACHINE_FIRES_MOST; i++) {
		timer = cm_timers_first(&machine->timers);
		if (!timer || timer->at > machine->now)
			return;
		struct cm_machine_conn *conn =
			(void *)((char *)timer - offsetof(struct cm_machine_conn, timer));
		cm_timers_stop(&machine->timers, timer);
		machine_conn_fire(conn);
	}
}

void cm_machine_run(struct cm_machine *machine, uint64_t now)
{
	cm_machine_set_time(machine, now);
	fire_some(machine);
	machine_time_wait_run(machine);
	tell_all(machine);
}

/* ---- for operators */

void cm_machine_each_conn(struct cm_machine *machine,
			  bool (*fn)(void *arg, struct cm_machine_conn *conn), void *arg)
{
	struct cm_machine_conn *conn;
	DL_FOREACH (machine->conns, conn) {
		if (conn->has_user && !fn(arg, conn))
			return;
	}
}

void cm_machine_get_sizes(const struct cm_machine *machine, struct cm_machine_sizes *ret_sizes)
{
	const struct cm_machine_conn *conn;
	*ret_sizes = (struct cm_machine_sizes){
		.time_wait = machine->num_time_waits,
		.peers = HASH_COUNT(machine->peers),
	};
	DL_FOREACH (machine->conns, conn) {
		if (conn->state == CM_STATE_ENDING && !conn->has_user)
			ret_sizes->leaving++;
		else
			ret_sizes->conns++;
	}
}

void cm_machine_get_stats(const struct cm_machine *machine, struct cm_stats *ret_stats)
{
	*ret_stats = machine->stats;
}
