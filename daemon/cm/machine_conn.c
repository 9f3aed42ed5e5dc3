/* SPDX-License-Identifier: MIT */
/* A connection's record, and what users and operators see of it. */
#include "daemon/cm/machine_internal.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF }; /* ::ffff:a.b.c.d */

void machine_addr_of_gid(const uint8_t gid[16], uint16_t port, struct cm_addr *ret_addr)
{
	bool ipv4 = memcmp(gid, mapped, sizeof(mapped)) == 0;
	*ret_addr = (struct cm_addr){ .family = ipv4 ? AF_INET : AF_INET6, .port = port };
	if (ipv4)
		memcpy(ret_addr->addr, gid + sizeof(mapped), 4);
	else
		memcpy(ret_addr->addr, gid, 16);
}

bool machine_gid_of_addr(const struct cm_addr *addr, uint8_t ret_gid[16])
{
	if (addr->family == AF_INET) {
		memcpy(ret_gid, mapped, sizeof(mapped));
		memcpy(ret_gid + sizeof(mapped), addr->addr, 4);
	} else {
		memcpy(ret_gid, addr->addr, 16);
	}
	return addr->family == AF_INET || addr->family == AF_INET6;
}

bool machine_is_own_gid(const struct cm_machine *machine, const uint8_t gid[16])
{
	for (size_t i = 0; i < machine->num_gids; i++) {
		if (!memcmp(machine->gids[i], gid, 16))
			return true;
	}
	return false;
}

uint32_t machine_random(struct cm_machine *machine)
{
	uint32_t value;
	machine->ops->random(machine->ctx, &value, sizeof(value));
	return value;
}

struct cm_machine_conn *machine_conn_new(struct cm_machine *machine, enum cm_state state,
					 const uint8_t local_gid[16], const uint8_t peer_gid[16])
{
	struct cm_machine_conn *conn = NULL;
	struct machine_peer *peer = machine_peer_get(machine, peer_gid);
	if (peer && cm_timers_reserve(&machine->timers, machine->num_conns + 1))
		conn = calloc(1, sizeof(*conn));
	if (!conn) {
		if (peer)
			machine_peer_put(machine, peer);
		return NULL;
	}
	conn->machine = machine;
	conn->state = state;
	conn->active = state == CM_STATE_ASKING;
	conn->since = conn->changed = machine->now;
	conn->peer = peer;
	conn->peer_id = conn->peer_qpn = machine_key(peer_gid, 0);
	memcpy(conn->local_gid, local_gid, 16);
	conn->own_psn = machine_random(machine) & 0xFFFFFF;
	DL_PREPEND(machine->conns, conn);
	machine->num_conns++;
	machine->num_active += conn->active;
	machine->num_asked_for += !conn->active;
	peer->conns++;
	peer->asked_for += !conn->active;
	peer->requests += state == CM_STATE_ASKED;
	if (!machine_tables_add(conn)) {
		machine_conn_destroy(conn);
		return NULL;
	}
	return conn;
}

void machine_conn_destroy(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	struct machine_peer *peer = conn->peer;
	machine_conn_set_state(conn, CM_STATE_ENDED);
	machine_tables_remove(conn);
	cm_timers_stop(&machine->timers, &conn->timer);
	machine_not_due(conn);
	DL_DELETE(machine->conns, conn);
	machine->num_conns--;
	machine->num_active -= conn->active;
	machine->num_asked_for -= !conn->active;
	peer->conns--;
	peer->asked_for -= !conn->active;
	machine_peer_put(machine, peer);
	free(conn);
}

void machine_conn_set_state(struct cm_machine_conn *conn, enum cm_state state)
{
	if (conn->state == state)
		return;
	if (conn->state == CM_STATE_ASKED)
		conn->peer->requests--;
	conn->state = state;
	conn->changed = conn->machine->now;
}

void machine_conn_keep_private(struct cm_machine_conn *conn, const uint8_t *data, size_t len)
{
	memset(conn->private_data, 0, sizeof(conn->private_data));
	memcpy(conn->private_data, data, len);
	conn->private_len = len;
}

/* CM-12: the PSN that a side has told is the first one that comes there. */
struct cm_machine_qp machine_conn_qp(const struct cm_machine_conn *conn)
{
	struct cm_machine_qp how = {
		.peer_qpn = conn->peer_qpn.number,
		.rq_psn = conn->own_psn,
		.sq_psn = conn->peer_psn,
		.path_mtu = conn->path_mtu,
		.reads_answered = conn->reads_answered,
		.reads_asked = conn->reads_asked,
		.rnr_retry = conn->rnr_retry, /* CM-15 */
		.retry_ms = conn->own.retry_ms,
	};
	memcpy(how.local_gid, conn->local_gid, 16);
	memcpy(how.peer_gid, conn->peer->gid, 16);
	return how;
}

void machine_conn_drop_qp(struct cm_machine_conn *conn)
{
	void *qp = conn->own.qp;
	conn->own.qp = NULL;
	if (qp)
		conn->machine->ops->qp_error(conn->machine->ctx, qp);
}

/* ---- for users and operators */

void cm_machine_conn_set_ctx(struct cm_machine_conn *conn, void *conn_ctx)
{
	conn->ctx = conn_ctx;
}

void *cm_machine_conn_ctx(const struct cm_machine_conn *conn)
{
	return conn->ctx;
}

void cm_machine_conn_addrs(const struct cm_machine_conn *conn, struct cm_addr *ret_local,
			   struct cm_addr *ret_peer)
{
	machine_addr_of_gid(conn->local_gid, conn->local_port, ret_local);
	machine_addr_of_gid(conn->peer->gid, conn->peer_port, ret_peer);
}

void cm_machine_conn_view(const struct cm_machine_conn *conn, struct cm_conn_view *ret_view)
{
	*ret_view = (struct cm_conn_view){
		.state = conn->state,
		.active = conn->active,
		.local_qpn = conn->own.qpn,
		.peer_qpn = conn->peer_qpn.number,
		.local_id = conn->local_id,
		.peer_id = conn->peer_id.number,
		.path_mtu = conn->path_mtu,
		.reads_answered = conn->reads_answered,
		.reads_asked = conn->reads_asked,
		.private_len = conn->private_len,
		.age_us = conn->machine->now - conn->since,
		.idle_us = conn->machine->now - conn->changed,
		.resends = conn->resends,
		.end = conn->end,
		.reject_reason = conn->reject_reason,
	};
	cm_machine_conn_addrs(conn, &ret_view->local, &ret_view->peer);
	memcpy(ret_view->private_data, conn->private_data, sizeof(ret_view->private_data));
	memcpy(ret_view->text, conn->text, sizeof(ret_view->text));
}
