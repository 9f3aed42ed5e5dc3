/* SPDX-License-Identifier: MIT */
/* Messages that go. Those of a connection are encoded once and kept, so that a repeat is the same
 * to the byte (CM-4). */
#include "daemon/cm/machine_internal.h"

#include <string.h>

#include "proto/smcr/bytes.h"

enum {
	ATTRIBUTE_AT = 16, /* in a MAD */
};

void machine_send(struct cm_machine *machine, const uint8_t local_gid[16],
		  const uint8_t peer_gid[16], const uint8_t mad[IBCM_MAD_LEN])
{
	if (machine->closed)
		return;
	machine->stats.sent[get_be16(mad + ATTRIBUTE_AT) - IBCM_REQ]++;
	machine->ops->send(machine->ctx, local_gid, peer_gid, mad);
}

void machine_say(struct cm_machine *machine, const uint8_t local_gid[16],
		 const uint8_t peer_gid[16], const struct ibcm_msg *msg)
{
	uint8_t mad[IBCM_MAD_LEN];
	if (ibcm_encode(msg, mad) == 0)
		machine_send(machine, local_gid, peer_gid, mad);
}

/* ---- messages of a connection */

int machine_conn_say(struct cm_machine_conn *conn, struct ibcm_msg *msg)
{
	msg->local_id = conn->local_id;
	msg->remote_id = conn->has_peer_id ? conn->peer_id.number : 0;
	int r = ibcm_encode(msg, conn->mad);
	if (r == 0)
		machine_send(conn->machine, conn->local_gid, conn->peer->gid, conn->mad);
	return r;
}

void machine_conn_say_again(struct cm_machine_conn *conn)
{
	conn->resends++;
	conn->machine->stats.resent++;
	machine_send(conn->machine, conn->local_gid, conn->peer->gid, conn->mad);
}

static void set_timer(struct cm_machine_conn *conn, uint64_t after_us)
{
	uint64_t at = conn->machine->now + after_us;
	cm_timers_set(&conn->machine->timers, &conn->timer,
		      at < conn->give_up ? at : conn->give_up);
}

/* CM-18 */
void machine_conn_expect(struct cm_machine_conn *conn, uint64_t patience_us)
{
	conn->give_up = conn->machine->now + patience_us;
	conn->repeats_left = conn->max_repeats;
	set_timer(conn, conn->interval);
}

void machine_conn_repeat(struct cm_machine_conn *conn)
{
	conn->repeats_left--;
	machine_conn_say_again(conn);
	set_timer(conn, conn->interval);
}

/* CM-21: a peer cannot hold a connection up for longer than its `give_up` by this. */
void machine_conn_be_patient(struct cm_machine_conn *conn, uint8_t service_timeout)
{
	uint64_t patience = MACHINE_CODE_US(service_timeout);
	if (patience > MACHINE_PATIENCE_MOST_US)
		patience = MACHINE_PATIENCE_MOST_US;
	set_timer(conn, patience > conn->interval ? patience : conn->interval);
}

void machine_conn_say_rej(struct cm_machine_conn *conn, enum ibcm_subject subject, uint16_t reason,
			  const void *private_data, size_t private_len)
{
	struct ibcm_msg msg = {
		.type = IBCM_REJ,
		.transaction_id = conn->transaction_id, /* CM-4 */
		.rej = { .subject = subject, .reason = reason },
	};
	if (private_len > IBCM_REJ_PRIVATE_LEN)
		private_len = IBCM_REJ_PRIVATE_LEN;
	if (private_len)
		memcpy(msg.private_data, private_data, private_len);
	if (reason == IBCM_REJ_TIMEOUT) {
		/* by which a peer finds the connection, whose id there is not known here */
		for (int i = 0; i < 8; i++)
			msg.rej.info[i] = (uint8_t)(conn->machine->guid >> (56 - 8 * i));
		msg.rej.info_len = 8;
	}
	(void)machine_conn_say(conn, &msg);
}

/* ---- messages about no connection of ours */

void machine_say_rej(struct cm_machine *machine, const uint8_t local_gid[16],
		     const uint8_t peer_gid[16], const struct ibcm_msg *about, uint16_t reason,
		     const void *info, size_t info_len)
{
	bool req = about->type == IBCM_REQ;
	struct ibcm_msg msg = {
		.type = IBCM_REJ,
		.transaction_id = about->transaction_id,
		.local_id = req ? 0 : about->remote_id,
		.remote_id = about->local_id,
		.rej = {
			.subject = req ? IBCM_SUBJECT_REQ : IBCM_SUBJECT_REP,
			.reason = reason,
			.info_len = (uint8_t)info_len,
		},
	};
	if (info_len)
		memcpy(msg.rej.info, info, info_len);
	machine_say(machine, local_gid, peer_gid, &msg);
}
