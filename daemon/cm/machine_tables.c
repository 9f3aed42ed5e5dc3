/* SPDX-License-Identifier: MIT */
/* Who is found by what. Communication ids are random numbers of this side and hash to themselves.
 * Numbers and addresses of peers are hashed with a secret, so that no peer can choose them to fall
 * together. */
#include "daemon/cm/machine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cm/siphash.h"

static unsigned int hash(const struct cm_machine *machine, const void *data, size_t len)
{
	return (unsigned int)siphash(machine->hash_key, data, len);
}

uint64_t machine_digest(const struct cm_machine *machine, const uint8_t mad[IBCM_MAD_LEN])
{
	return siphash(machine->hash_key, mad, IBCM_MAD_LEN);
}

struct machine_key machine_key(const uint8_t gid[16], uint32_t number)
{
	struct machine_key key = { .number = number };
	memcpy(key.gid, gid, sizeof(key.gid));
	return key;
}

/* ---- peers */

struct machine_peer *machine_peer_find(struct cm_machine *machine, const uint8_t gid[16])
{
	struct machine_peer *peer;
	HASH_FIND_BYHASHVALUE(hh, machine->peers, gid, 16, hash(machine, gid, 16), peer);
	return peer;
}

struct machine_peer *machine_peer_get(struct cm_machine *machine, const uint8_t gid[16])
{
	struct machine_peer *peer = machine_peer_find(machine, gid);
	if (peer)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	memcpy(peer->gid, gid, sizeof(peer->gid));
	HASH_ADD_BYHASHVALUE(hh, machine->peers, gid, sizeof(peer->gid), hash(machine, gid, 16),
			     peer);
	if (!peer->hh.tbl) {
		free(peer);
		return NULL;
	}
	return peer;
}

void machine_peer_put(struct cm_machine *machine, struct machine_peer *peer)
{
	if (peer->conns || peer->num_time_waits)
		return;
	HASH_DELETE(hh, machine->peers, peer);
	free(peer);
}

/* ---- connections */

struct cm_machine_conn *machine_find(struct cm_machine *machine, uint32_t local_id)
{
	struct cm_machine_conn *conn;
	HASH_FIND_BYHASHVALUE(by_local_id, machine->by_local_id, &local_id, sizeof(local_id),
			      local_id, conn);
	return conn;
}

struct cm_machine_conn *machine_find_asked(struct cm_machine *machine, const uint8_t peer_gid[16],
					   uint32_t peer_id)
{
	struct machine_key key = machine_key(peer_gid, peer_id);
	struct cm_machine_conn *conn;
	HASH_FIND_BYHASHVALUE(by_peer_id, machine->by_peer_id, &key, sizeof(key),
			      hash(machine, &key, sizeof(key)), conn);
	return conn;
}

struct cm_machine_conn *machine_find_qpn(struct cm_machine *machine, const uint8_t peer_gid[16],
					 uint32_t peer_qpn)
{
	struct machine_key key = machine_key(peer_gid, peer_qpn);
	struct cm_machine_conn *conn;
	HASH_FIND_BYHASHVALUE(by_peer_qpn, machine->by_peer_qpn, &key, sizeof(key),
			      hash(machine, &key, sizeof(key)), conn);
	return conn;
}

/* CM-24: nobody can guess the id, and no connection has it, nor one of which late messages may
 * come. 0 stands for no connection on the wire. */
bool machine_tables_add(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	do
		conn->local_id = machine_random(machine);
	while (!conn->local_id || machine_find(machine, conn->local_id) ||
	       machine_time_wait_find(machine, conn->local_id));
	HASH_ADD_BYHASHVALUE(by_local_id, machine->by_local_id, local_id, sizeof(conn->local_id),
			     conn->local_id, conn);
	return conn->in_local_ids = conn->by_local_id.tbl;
}

bool machine_tables_peer_id(struct cm_machine_conn *conn, uint32_t id)
{
	struct cm_machine *machine = conn->machine;
	conn->peer_id.number = id;
	conn->has_peer_id = true;
	if (conn->active)
		return true;
	HASH_ADD_BYHASHVALUE(by_peer_id, machine->by_peer_id, peer_id, sizeof(conn->peer_id),
			     hash(machine, &conn->peer_id, sizeof(conn->peer_id)), conn);
	return conn->in_peer_ids = conn->by_peer_id.tbl;
}

bool machine_tables_peer_qpn(struct cm_machine_conn *conn, uint32_t qpn)
{
	struct cm_machine *machine = conn->machine;
	conn->peer_qpn.number = qpn;
	HASH_ADD_BYHASHVALUE(by_peer_qpn, machine->by_peer_qpn, peer_qpn, sizeof(conn->peer_qpn),
			     hash(machine, &conn->peer_qpn, sizeof(conn->peer_qpn)), conn);
	return conn->in_peer_qpns = conn->by_peer_qpn.tbl;
}

void machine_tables_remove(struct cm_machine_conn *conn)
{
	struct cm_machine *machine = conn->machine;
	if (conn->in_local_ids)
		HASH_DELETE(by_local_id, machine->by_local_id, conn);
	if (conn->in_peer_ids)
		HASH_DELETE(by_peer_id, machine->by_peer_id, conn);
	if (conn->in_peer_qpns)
		HASH_DELETE(by_peer_qpn, machine->by_peer_qpn, conn);
	conn->in_local_ids = conn->in_peer_ids = conn->in_peer_qpns = false;
}
