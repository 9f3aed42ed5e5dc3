/* SPDX-License-Identifier: MIT */
/* What is remembered of connections that have ended: their communication ids are not given again
 * until late messages are gone (CM-24), and a late repeat of a REQ makes no new connection (CM-22).
 */
#include "daemon/cm/machine_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cm/siphash.h"

static unsigned int hash(const struct cm_machine *machine, const struct machine_key *key)
{
	return (unsigned int)siphash(machine->hash_key, key, sizeof(*key));
}

/* The entry is the last to end of its list. */
static void append(struct cm_machine *machine, struct machine_time_wait *wait)
{
	wait->until = machine->now + (wait->asking ? MACHINE_ASKING_WAIT_US : MACHINE_TIME_WAIT_US);
	DL_APPEND(machine->time_waits[wait->asking], wait);
	DL_APPEND2(wait->peer->time_waits, wait, of_peer_prev, of_peer_next);
}

static void unlist(struct cm_machine *machine, struct machine_time_wait *wait)
{
	DL_DELETE(machine->time_waits[wait->asking], wait);
	DL_DELETE2(wait->peer->time_waits, wait, of_peer_prev, of_peer_next);
}

static void forget(struct cm_machine *machine, struct machine_time_wait *wait)
{
	struct machine_peer *peer = wait->peer;
	unlist(machine, wait);
	HASH_DELETE(by_local_id, machine->waits_by_local_id, wait);
	if (wait->asked_for)
		HASH_DELETE(by_peer_id, machine->waits_by_peer_id, wait);
	machine->num_time_waits--;
	peer->num_time_waits--;
	free(wait);
	machine_peer_put(machine, peer);
}

/* A peer that ends connections without pause displaces its own records before those of others. */
static void make_room(struct cm_machine *machine, struct machine_peer *peer)
{
	if (peer->num_time_waits >= MACHINE_TIME_WAIT_OF_PEER)
		forget(machine, peer->time_waits);
	else if (machine->num_time_waits >= MACHINE_TIME_WAIT_MOST)
		forget(machine, machine->time_waits[machine->time_waits[0] == NULL]);
}

/* Put the record into the tables. @return false: no memory */
static bool add(struct cm_machine *machine, struct machine_time_wait *wait)
{
	HASH_ADD_BYHASHVALUE(by_local_id, machine->waits_by_local_id, local_id,
			     sizeof(wait->local_id), wait->local_id, wait);
	if (!wait->by_local_id.tbl)
		return false;
	if (!wait->asked_for)
		return true;
	HASH_ADD_BYHASHVALUE(by_peer_id, machine->waits_by_peer_id, peer_id, sizeof(wait->peer_id),
			     hash(machine, &wait->peer_id), wait);
	if (wait->by_peer_id.tbl)
		return true;
	HASH_DELETE(by_local_id, machine->waits_by_local_id, wait);
	return false;
}

/* Without memory nothing is remembered: ids are random, and a late REQ's connection comes to
 * nothing. */
void machine_time_wait_enter(struct cm_machine_conn *conn, bool answer)
{
	struct cm_machine *machine = conn->machine;
	struct machine_time_wait *wait = calloc(1, sizeof(*wait) + (answer ? IBCM_MAD_LEN : 0));
	if (!wait)
		return;
	make_room(machine, conn->peer);
	wait->local_id = conn->local_id;
	wait->peer_id = conn->peer_id;
	wait->asked_for = !conn->active;
	wait->asking = !conn->active && !conn->ready;
	wait->req_digest = conn->req_digest;
	wait->peer = conn->peer;
	wait->has_answer = answer;
	if (answer)
		memcpy(wait->answer, conn->mad, IBCM_MAD_LEN);
	if (!add(machine, wait)) {
		free(wait);
		return;
	}
	append(machine, wait);
	machine->num_time_waits++;
	conn->peer->num_time_waits++;
}

static struct machine_time_wait *find_asked(struct cm_machine *machine, const uint8_t peer_gid[16],
					    uint32_t peer_id)
{
	struct machine_key key = machine_key(peer_gid, peer_id);
	struct machine_time_wait *wait;
	HASH_FIND_BYHASHVALUE(by_peer_id, machine->waits_by_peer_id, &key, sizeof(key),
			      hash(machine, &key), wait);
	return wait;
}

/* A peer may give an id again, in another REQ. Its repeats are the same to the byte. */
bool machine_time_wait_req(struct cm_machine *machine, const uint8_t local_gid[16],
			   const uint8_t peer_gid[16], uint32_t peer_id, uint64_t digest)
{
	struct machine_time_wait *wait = find_asked(machine, peer_gid, peer_id);
	if (!wait)
		return false;
	if (wait->req_digest != digest) {
		forget(machine, wait);
		return false;
	}
	if (wait->has_answer) {
		machine_send(machine, local_gid, peer_gid, wait->answer);
		machine->stats.resent++;
	}
	unlist(machine, wait);
	append(machine, wait);
	return true;
}

const struct machine_time_wait *machine_time_wait_find(struct cm_machine *machine,
						       uint32_t local_id)
{
	struct machine_time_wait *wait;
	HASH_FIND_BYHASHVALUE(by_local_id, machine->waits_by_local_id, &local_id, sizeof(local_id),
			      local_id, wait);
	return wait;
}

uint64_t machine_time_wait_deadline(const struct cm_machine *machine)
{
	uint64_t at = UINT64_MAX;
	for (int i = 0; i < 2; i++) {
		if (machine->time_waits[i] && machine->time_waits[i]->until < at)
			at = machine->time_waits[i]->until;
	}
	return at;
}

void machine_time_wait_run(struct cm_machine *machine)
{
	while (machine_time_wait_deadline(machine) <= machine->now)
		forget(machine, machine->time_waits[machine->time_waits[1] &&
						    machine->time_waits[1]->until <= machine->now]);
}

void machine_time_wait_clear(struct cm_machine *machine)
{
	for (int i = 0; i < 2; i++) {
		while (machine->time_waits[i])
			forget(machine, machine->time_waits[i]);
	}
}
