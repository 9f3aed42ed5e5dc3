/* SPDX-License-Identifier: MIT */
/* Rendezvous: what server and client have in common, and how a rendezvous fails (RFC 7609 3.5, C.1
 * to C.6).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/engine/data.h"
#include "daemon/engine/llc_delete_all.h"
#include "daemon/engine/llc_first_contact.h"
#include "daemon/engine/rendezvous.h"
#include "daemon/engine/trace.h"

enum smcr_decline_window smcr_clc_decline_window(enum smcr_rv_step step, bool first_contact,
						 bool committed)
{
	switch (step) {
	case SMCR_RV_S_AWAIT_PROPOSAL:
	case SMCR_RV_C_AWAIT_ACCEPT: return SMCR_DECLINE_LATER; /* ERR-3 */
	case SMCR_RV_C_AWAIT_DECLINE:
		return SMCR_DECLINE_LATER; /* never sent: the server's Decline ends the step */
	case SMCR_RV_S_DECIDES:
	case SMCR_RV_S_HELD:
	case SMCR_RV_S_ANNOUNCE:
	case SMCR_RV_C_CONTESTED:
	case SMCR_RV_C_ANNOUNCE: return SMCR_DECLINE_NOW; /* ERR-1 */
	case SMCR_RV_S_AWAIT_CONFIRM:                     /* ERR-3, ERR-4 */
		return first_contact ? SMCR_DECLINE_LATER : SMCR_DECLINE_NEVER;
	case SMCR_RV_LLC: return committed ? SMCR_DECLINE_NEVER : SMCR_DECLINE_NOW; /* ERR-5 */
	case SMCR_RV_S_CONTESTED:                                                   /* ERR-4 */
	case SMCR_RV_OUTCOME:
	case SMCR_RV_DECLINED: break;
	}
	return SMCR_DECLINE_NEVER;
}

enum smcr_contact smcr_clc_classify(bool first_contact_flag, bool matches_active_link)
{
	if (first_contact_flag)
		return SMCR_CONTACT_FIRST;
	return matches_active_link ? SMCR_CONTACT_SUBSEQUENT : SMCR_CONTACT_OUT_OF_SYNC;
}

static bool committed(const struct smcr_conn *conn)
{
	return conn->lgr && conn->lgr->fc.conn == conn && conn->lgr->fc.committed;
}

static enum smcr_decline_window window(const struct smcr_conn *conn)
{
	return smcr_clc_decline_window(conn->rv.step, conn->rv.first_contact, committed(conn));
}

/* ---- ways out ---- */

/** The connection of a first contact is gone before the first contact is over: end the group
 * (RV-14). After the point of no return the peer may rely on the group, and is told. `lgr` is NULL
 * if there is none. */
static void end_first_contact(struct smcr_lgr *lgr, bool path_dead)
{
	if (!lgr)
		return;
	lgr->path_dead = lgr->path_dead || path_dead;
	if (lgr->state != SMCR_LGR_FIRST_CONTACT)
		return;
	if (lgr->fc.committed)
		smcr_llc_delete_all(lgr, SMCR_LLC_DEL_LOST_PATH, ECONNRESET);
	else
		smcr_lgr_end(lgr, ECONNRESET);
}

/** Has an Accept offered the client an element in a group that goes on? Unless a Decline came, the
 * client may be writing there (RS-8). */
static bool offered(const struct smcr_conn *conn)
{
	return conn->lgr && conn->params.role == SMCR_ROLE_SERVER && !conn->rv.first_contact &&
	       (conn->rv.step == SMCR_RV_S_AWAIT_CONFIRM || conn->rv.step == SMCR_RV_S_CONTESTED ||
		conn->rv.step == SMCR_RV_LLC);
}

/** The group of which this connection is the first contact, or NULL. */
static struct smcr_lgr *first_group(const struct smcr_conn *conn)
{
	return conn->lgr && conn->lgr->fc.conn == conn ? conn->lgr : NULL;
}

/** Raise the last event of a connection in rendezvous and free it. */
static void finish(struct smcr_conn *conn, const struct smcr_conn_event *event)
{
	struct smcr_lgr *lgr = first_group(conn);
	conn->phase = SMCR_PHASE_GONE;
	smcr_conn_raise(conn, event);
	if (event->type == SMCR_CONN_FAILED && offered(conn)) {
		smcr_timer_stop(conn->engine, &conn->rv.clc_timer);
		smcr_timer_stop(conn->engine, &conn->rv.total_timer);
		smcr_conn_promise(conn, NULL);
		smcr_close_linger(conn);
		return;
	}
	smcr_conn_free(conn);
	end_first_contact(lgr, event->path_dead);
}

/** Is the outcome decided but not raised yet? */
static bool is_decided(const struct smcr_conn *conn)
{
	return conn->rv.step == SMCR_RV_OUTCOME || conn->rv.step == SMCR_RV_DECLINED;
}

/** Raise the event that was decided before. */
static void tell_outcome(struct smcr_conn *conn)
{
	struct smcr_conn_event event = conn->rv.outcome;
	finish(conn, &event);
}

/** End in FALLBACK without sending a Decline: plain TCP at once (ERR-2, GEN-4). Frees the
 * connection. */
static void fall_back(struct smcr_conn *conn, uint32_t reason, uint32_t peer_reason, bool path_dead)
{
	struct smcr_conn_event event = { .type = SMCR_CONN_FALLBACK,
					 .reason = reason,
					 .peer_reason = peer_reason,
					 .path_dead = path_dead };
	finish(conn, &event);
}

void smcr_clc_fail(struct smcr_conn *conn, int error, enum smcr_reason reason)
{
	struct smcr_conn_event event = { .type = SMCR_CONN_FAILED,
					 .error = error,
					 .reason = reason };
	finish(conn, &event);
}

/** The version of a Decline: for the server that of the Proposal, for the client 1 until an Accept
 * has told the version. */
static uint8_t decline_version(const struct smcr_conn *conn)
{
	uint8_t version = conn->params.role == SMCR_ROLE_SERVER ? conn->rv.proposal.version
								: conn->rv.agreed.version;
	return version >= SMCR_CLC_VERSION_2 ? SMCR_CLC_VERSION_2 : SMCR_CLC_VERSION_1;
}

void smcr_clc_send(struct smcr_conn *conn, const uint8_t *msg, size_t len)
{
	smcr_trace_clc(conn, SMCR_TRACE_SENT, msg, len);
	conn->engine->ops.conns->clc_send(conn->params.user, msg, len);
}

static void send_decline(struct smcr_conn *conn, enum smcr_reason reason, bool out_of_sync)
{
	struct smcr_engine *engine = conn->engine;
	uint8_t buf[SMCR_CLC_DECLINE_V2_LEN];
	struct smcr_clc_decline decline = {
		.version = decline_version(conn),
		.out_of_sync = out_of_sync,
		.diagnosis = smcr_clc_diagnosis(reason),
		.os = SMCR_CLC_OS_LINUX,
	};
	memcpy(decline.peer_id, engine->config.peer_id, SMCR_PEER_ID_LEN);
	int len = smcr_clc_encode_decline(&decline, buf, sizeof(buf));
	smcr_clc_send(conn, buf, (size_t)len);
}

/** The own Decline is sent: wait for a Decline of the peer that crosses it (A52). */
static void await_crossing(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = first_group(conn);
	memcpy(conn->rv.decliner, conn->lgr->peer_id, SMCR_PEER_ID_LEN);
	smcr_conn_detach(conn);
	conn->rv.step = SMCR_RV_DECLINED;
	/* C.2: a Decline ends in plain TCP, however long the rendezvous has taken. */
	smcr_timer_stop(conn->engine, &conn->rv.total_timer);
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, conn->engine->config.decline_grace);
	end_first_contact(lgr, conn->rv.outcome.path_dead);
}

void smcr_clc_decline(struct smcr_conn *conn, enum smcr_reason reason, bool out_of_sync)
{
	bool llc = conn->rv.step == SMCR_RV_LLC && conn->lgr;
	bool path_dead = llc && conn->lgr->path_dead;
	send_decline(conn, reason, out_of_sync);
	conn->rv.outcome = (struct smcr_conn_event){ .type = SMCR_CONN_FALLBACK,
						     .reason = reason,
						     .path_dead = path_dead };
	if (llc)
		await_crossing(conn);
	else
		tell_outcome(conn);
}

/** Decline if the rules allow it, at once or later, else fail. May free the connection. */
static void quit(struct smcr_conn *conn, enum smcr_reason reason, int error)
{
	switch (window(conn)) {
	case SMCR_DECLINE_NOW: smcr_clc_decline(conn, reason, false); break;
	case SMCR_DECLINE_LATER:
		conn->rv.give_up = true;
		conn->rv.give_up_reason = reason;
		break;
	case SMCR_DECLINE_NEVER: smcr_clc_fail(conn, error, reason); break;
	}
}

void smcr_clc_shutdown(struct smcr_conn *conn)
{
	smcr_conn_give_up(conn, SMCR_REASON_SHUTTING_DOWN);
}

void smcr_conn_give_up(struct smcr_conn *conn, enum smcr_reason reason)
{
	if (conn->phase != SMCR_PHASE_RENDEZVOUS || is_decided(conn))
		return;
	/* In the LLC phase either side may decline at any time (ERR-5). If the peer is being
	 * stopped too, two Declines cross. An engine that stops does not wait for the peer's
	 * Decline, which would reach the program as data. */
	if (conn->rv.step == SMCR_RV_LLC && reason == SMCR_REASON_SHUTTING_DOWN)
		smcr_clc_fail(conn, ECONNRESET, reason);
	else
		quit(conn, reason, ECONNABORTED);
}

/* ---- waiting ---- */

static void on_clc_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	(void)engine;
	if (is_decided(conn)) {
		tell_outcome(conn);
	} else if (conn->rv.step == SMCR_RV_S_CONTESTED) {
		smcr_clc_server_retry(conn, conn->rv.contested);
	} else if (conn->rv.step == SMCR_RV_C_CONTESTED) {
		smcr_clc_client_retry(conn, conn->rv.contested);
	} else if (conn->rv.step == SMCR_RV_S_HELD) {
		smcr_clc_server_held_long(conn);
	} else if (conn->rv.step == SMCR_RV_S_ANNOUNCE || conn->rv.step == SMCR_RV_C_ANNOUNCE) {
		smcr_clc_decline(conn, SMCR_REASON_RKEY_EXCHANGE, false); /* RKEY-9 */
	} else {
		smcr_clc_fail(conn, ETIMEDOUT, SMCR_REASON_NONE); /* ERR-10 */
	}
}

static void on_total_timer(struct smcr_engine *engine, void *arg)
{
	(void)engine;
	smcr_clc_fail(arg, ETIMEDOUT, SMCR_REASON_NONE); /* ERR-10 */
}

void smcr_clc_await(struct smcr_conn *conn, enum smcr_rv_step step)
{
	conn->rv.step = step;
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, conn->engine->config.clc_timeout);
}

void smcr_clc_asked(struct smcr_conn *conn)
{
	conn->rv.answer_by = conn->engine->now + conn->engine->config.clc_timeout / 2;
}

void smcr_clc_owe(struct smcr_conn *conn, enum smcr_rv_step step)
{
	uint64_t now = conn->engine->now, by = conn->rv.answer_by;
	conn->rv.step = step;
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, by > now ? by - now : 0);
}

void smcr_clc_proceed(struct smcr_conn *conn, enum smcr_rv_step step)
{
	conn->rv.step = step;
	smcr_timer_stop(conn->engine, &conn->rv.clc_timer);
}

int smcr_conn_start(struct smcr_engine *engine, const struct smcr_conn_params *params,
		    struct smcr_conn **ret_conn)
{
	struct smcr_conn *conn;
	int rc = smcr_conn_new(engine, params, &conn);
	if (rc)
		return rc;
	smcr_timer_init(&conn->rv.clc_timer, on_clc_timer, conn);
	smcr_timer_init(&conn->rv.total_timer, on_total_timer, conn);
	smcr_timer_start(engine, &conn->rv.total_timer, engine->config.clc_total_timeout);
	conn->rv.give_up = params->refuse != SMCR_REASON_NONE;
	conn->rv.give_up_reason = params->refuse;
	*ret_conn = conn;
	if (params->role == SMCR_ROLE_SERVER)
		smcr_clc_await(conn, SMCR_RV_S_AWAIT_PROPOSAL);
	else
		smcr_clc_client_start(conn);
	return 0;
}

void smcr_clc_start_outcome(struct smcr_conn *conn, enum smcr_reason reason)
{
	send_decline(conn, reason, false);
	conn->rv.outcome = (struct smcr_conn_event){ .type = SMCR_CONN_FALLBACK, .reason = reason };
	conn->rv.step = SMCR_RV_OUTCOME;
	smcr_timer_stop(conn->engine, &conn->rv.total_timer);
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, 0);
}

/* ---- what comes in ---- */

bool smcr_conn_wants_clc(const struct smcr_conn *conn)
{
	if (conn->phase != SMCR_PHASE_RENDEZVOUS)
		return false;
	switch ((enum smcr_rv_step)conn->rv.step) {
	case SMCR_RV_S_AWAIT_PROPOSAL:
	case SMCR_RV_S_DECIDES:
	case SMCR_RV_S_HELD:
	case SMCR_RV_S_ANNOUNCE:
	case SMCR_RV_S_AWAIT_CONFIRM:
	case SMCR_RV_C_AWAIT_ACCEPT: return true;
	case SMCR_RV_LLC:
	case SMCR_RV_C_AWAIT_DECLINE:
	case SMCR_RV_DECLINED: return true; /* a Decline may come (ERR-6) */
	case SMCR_RV_S_CONTESTED:
	case SMCR_RV_C_CONTESTED:
	case SMCR_RV_C_ANNOUNCE:
	case SMCR_RV_OUTCOME: break;
	}
	return false;
}

/** May the peer decline at this point? Only if we wait for its next message (ERR-1, ERR-6). */
static bool may_be_declined(const struct smcr_conn *conn)
{
	switch ((enum smcr_rv_step)conn->rv.step) {
	case SMCR_RV_S_AWAIT_PROPOSAL:
	case SMCR_RV_S_AWAIT_CONFIRM:
	case SMCR_RV_C_AWAIT_DECLINE:
	case SMCR_RV_C_AWAIT_ACCEPT: return true;
	case SMCR_RV_LLC: return !committed(conn);
	case SMCR_RV_S_DECIDES:
	case SMCR_RV_S_HELD:
	case SMCR_RV_S_ANNOUNCE:
	case SMCR_RV_S_CONTESTED:
	case SMCR_RV_C_CONTESTED:
	case SMCR_RV_C_ANNOUNCE:
	case SMCR_RV_DECLINED:
	case SMCR_RV_OUTCOME: break;
	}
	return false;
}

static void protocol_error(struct smcr_conn *conn, const char *what)
{
	smcr_log_peer(conn->engine, &conn->params.peer, LOG_NOTICE, what,
		      "rendezvous: %s; the TCP connection is reset", what);
	smcr_clc_fail(conn, EPROTO, SMCR_REASON_NONE); /* ERR-11 */
}

/** CLC-14, ERR-9, A64: a CLC message says that the peer does not know the group any more. CLC
 * proves nothing about its sender, as peer IDs and RoCE addresses are no secrets. So if the group
 * has other connections, the peer is asked with TEST LINK on the group's links, and the group gets
 * no new connection until the peer has answered. */
static void out_of_sync(struct smcr_lgr *lgr)
{
	if (lgr->num_conns == 1) {
		smcr_event_lgr_why(lgr, "the peer does not know it any more");
		smcr_lgr_end(lgr, ECONNRESET);
		return;
	}
	lgr->doubted = true;
	smcr_lgr_probe(lgr);
}

static void on_decline(struct smcr_conn *conn, const struct smcr_clc_decline *decline)
{
	if (!may_be_declined(conn)) {
		protocol_error(conn, "Decline where none is allowed");
		return;
	}
	struct smcr_lgr *lgr = conn->lgr;
	if (decline->out_of_sync && lgr && lgr->state == SMCR_LGR_ACTIVE)
		out_of_sync(lgr);
	/* The peer's diagnosis does not count here (CLC-13). Whether any packet gets through is
	 * judged by what this side has waited for in vain (A61). */
	bool path_dead =
		conn->rv.step == SMCR_RV_LLC && lgr && (lgr->path_dead || smcr_llc_is_overdue(lgr));
	fall_back(conn, SMCR_REASON_PEER_DECLINED, decline->diagnosis, path_dead);
}

/**
 * What is wrong with a well-formed Accept or Confirm: another version (CLC-4), another kind of SMC,
 * a reserved value that matters (ERR-12); the MTU matters in first contact only (CLC-9).
 * `reserved`: the decoder has found a reserved value.
 */
static enum smcr_reason bad_value(const struct smcr_clc_accept *msg, bool first_contact,
				  bool reserved)
{
	if (msg->smc_type != SMCR_CLC_SMC_R)
		return SMCR_REASON_MODE_MISMATCH;
	return reserved || (first_contact && !smcr_mtu_valid(msg->mtu)) ? SMCR_REASON_BAD_ENUM
									: SMCR_REASON_NONE;
}

static void on_accept(struct smcr_conn *conn, const struct smcr_clc_accept *msg, bool reserved)
{
	enum smcr_reason reason = bad_value(msg, msg->first_contact, reserved);
	if (!reason)
		reason = smcr_clc_check_accept(&conn->rv.proposal, msg, &conn->rv.agreed);
	if (reason)
		smcr_clc_decline(conn, reason, false);
	else
		smcr_clc_client_accept(conn, msg);
}

static void on_confirm(struct smcr_conn *conn, const struct smcr_clc_accept *msg, bool reserved)
{
	enum smcr_reason reason = bad_value(msg, conn->rv.first_contact, reserved);
	if (!reason && msg->version != conn->rv.agreed.version)
		reason = SMCR_REASON_VERSION_MISMATCH;
	if (!reason && conn->rv.first_contact)
		reason = smcr_clc_check_confirm(&conn->rv.agreed, msg);
	smcr_clc_server_confirm(conn, msg, reason);
}

/** CLC-7: check the Proposal against the IP version of its TCP connection, which the decoder does
 * not know. */
static bool is_proposal_sound(const struct smcr_conn *conn,
			      const struct smcr_clc_proposal *proposal)
{
	return !proposal->offers_r_v1 || conn->params.peer.family == AF_INET ||
	       proposal->num_prefixes > 0;
}

/** CLC-16. `reserved`: the decoder has found a reserved value in the message. */
static void on_message(struct smcr_conn *conn, const struct smcr_clc_msg *msg, bool reserved)
{
	bool server = conn->params.role == SMCR_ROLE_SERVER;
	if (conn->rv.step == SMCR_RV_DECLINED) {
		tell_outcome(conn); /* the crossing Decline */
	} else if (msg->type == SMCR_CLC_DECLINE) {
		on_decline(conn, &msg->decline);
	} else if (msg->type == SMCR_CLC_PROPOSAL && conn->rv.step == SMCR_RV_S_AWAIT_PROPOSAL &&
		   is_proposal_sound(conn, &msg->proposal)) {
		conn->rv.proposal = msg->proposal;
		smcr_clc_asked(conn);
		smcr_clc_server_decide(conn);
	} else if (msg->type == SMCR_CLC_ACCEPT && conn->rv.step == SMCR_RV_C_AWAIT_ACCEPT) {
		on_accept(conn, &msg->accept, reserved);
	} else if (msg->type == SMCR_CLC_CONFIRM && conn->rv.step == SMCR_RV_S_AWAIT_CONFIRM) {
		on_confirm(conn, &msg->accept, reserved);
	} else {
		protocol_error(conn, server ? "unexpected CLC message from the client"
					    : "unexpected CLC message from the server");
	}
}

/** CLC-4: a well-formed Proposal of a version that is not defined: nothing in it can be used. */
static void reserved_proposal(struct smcr_conn *conn)
{
	conn->rv.step = SMCR_RV_S_DECIDES;
	smcr_clc_decline(conn, SMCR_REASON_VERSION_MISMATCH, false);
}

bool smcr_conn_takes_clc(const struct smcr_conn *conn, const uint8_t *buf, size_t len)
{
	struct smcr_clc_msg msg;
	if (conn->rv.step != SMCR_RV_DECLINED)
		return true;
	return smcr_clc_decode(buf, len, &msg) == 0 && msg.type == SMCR_CLC_DECLINE &&
	       !memcmp(msg.decline.peer_id, conn->rv.decliner, SMCR_PEER_ID_LEN);
}

void smcr_conn_clc_input(struct smcr_conn *conn, const uint8_t *buf, size_t len)
{
	struct smcr_clc_msg msg;
	if (conn->phase != SMCR_PHASE_RENDEZVOUS || conn->rv.step == SMCR_RV_OUTCOME)
		return;
	smcr_trace_clc(conn, SMCR_TRACE_RECEIVED, buf, len);
	int rc = smcr_clc_decode(buf, len, &msg);
	if (rc && rc != -ENOTSUP)
		protocol_error(conn, "malformed CLC message"); /* ERR-13 */
	else if (rc == -ENOTSUP && msg.type == SMCR_CLC_PROPOSAL &&
		 conn->rv.step == SMCR_RV_S_AWAIT_PROPOSAL)
		reserved_proposal(conn);
	else if (rc == -ENOTSUP && msg.type != SMCR_CLC_ACCEPT && msg.type != SMCR_CLC_CONFIRM)
		protocol_error(conn, "CLC message with reserved values");
	else
		on_message(conn, &msg, rc == -ENOTSUP);
}

void smcr_conn_clc_garbage(struct smcr_conn *conn)
{
	if (conn->phase != SMCR_PHASE_RENDEZVOUS || conn->rv.step == SMCR_RV_OUTCOME)
		return;
	if (conn->rv.step == SMCR_RV_DECLINED)
		tell_outcome(conn); /* the peer's program uses TCP already */
	else
		protocol_error(conn, "bytes that are no CLC message");
}

void smcr_clc_tcp_event(struct smcr_conn *conn, enum smcr_tcp_event event)
{
	if (conn->rv.step == SMCR_RV_OUTCOME)
		return;
	/* A FIN may overtake the LLC message that ends the first contact (deployed peers close TCP
	 * early): then the data path handles it. If a CLC message is awaited, the FIN means that
	 * none will come.
	 */
	bool awaited = smcr_conn_wants_clc(conn) && !committed(conn);
	if (event == SMCR_TCP_FIN && conn->rv.step == SMCR_RV_DECLINED)
		tell_outcome(conn);
	else if (event == SMCR_TCP_FIN && !awaited)
		conn->tcp_fin = true;
	else
		smcr_clc_fail(conn, ECONNRESET, SMCR_REASON_NONE);
}

/* ---- steps that both roles take ---- */

bool smcr_clc_is_impostor(const struct smcr_conn *conn, const uint8_t peer_id[SMCR_PEER_ID_LEN])
{
	const struct smcr_engine *engine = conn->engine;
	const struct smcr_device *device;
	if (!memcmp(peer_id, engine->config.peer_id, SMCR_PEER_ID_LEN))
		return false;
	DL_FOREACH (engine->devices, device)
		if (smcr_device_owns_address(device, &conn->params.peer))
			return true;
	return false;
}

struct smcr_prefix smcr_clc_own_lan(const struct smcr_conn *conn)
{
	struct smcr_prefix lan = { .family = conn->params.local.family,
				   .prefix_len = conn->params.local_prefix_len };
	memcpy(lan.ip, conn->params.local.ip, sizeof(lan.ip));
	return lan;
}

/* SEC-1: only an RNIC of the connection's VLAN (LG-2). */
struct smcr_device *smcr_clc_choose_device(const struct smcr_conn *conn, bool ipv4)
{
	struct smcr_device *device, *best = NULL;
	DL_FOREACH (conn->engine->devices, device) {
		if (!device->info.active || device->drained ||
		    device->info.vlan != conn->params.vlan ||
		    (ipv4 && !smcr_gid_is_ipv4(device->info.gid)) ||
		    !smcr_device_has_address(device, &conn->params.local,
					     conn->params.local_prefix_len))
			continue;
		if (smcr_device_owns_address(device, &conn->params.local))
			return device;
		if (!best)
			best = device;
	}
	return best;
}

/* How many first contacts with a host may be under way. One is enough for two hosts, but a host may
 * have several networks and instances. Each first contact has a queue pair and memory, and anybody
 * can begin one. */
#define FIRST_CONTACTS_MAX 16

bool smcr_clc_may_begin_group(const struct smcr_conn *conn)
{
	struct smcr_engine *engine = conn->engine;
	const struct smcr_addr *peer = &conn->params.peer;
	const struct smcr_lgr *lgr;
	unsigned int n = 0;
	DL_FOREACH (engine->lgrs, lgr)
		n += lgr->state == SMCR_LGR_FIRST_CONTACT && smcr_same_host(&lgr->peer, peer);
	if (n < FIRST_CONTACTS_MAX)
		return true;
	engine->count.first_contacts_refused++;
	smcr_log_peer(engine, peer, LOG_WARNING, "first contacts",
		      "%u link groups are being set up with this peer: connections that need one "
		      "more stay TCP",
		      n);
	return false;
}

uint8_t smcr_clc_element_bsize(const struct smcr_conn *conn)
{
	return conn->params.rcvbuf ? smcr_bsize_holding(conn->params.rcvbuf)
				   : smcr_bsize_choose(conn->engine, conn->params.expected.rcv);
}

/** Size code of the send buffer: as the program has set it, else as the administrator has, else as
 * the connection is expected to need. */
static uint8_t sndbuf_bsize(const struct smcr_conn *conn)
{
	uint32_t want = conn->params.sndbuf ? conn->params.sndbuf : conn->engine->config.sndbuf;
	uint8_t bsize = 0;
	if (!want)
		return smcr_bsize_choose(conn->engine, conn->params.expected.snd);
	while (bsize < SMCR_BSIZE_MAX && smcr_bsize_bytes(bsize) < want)
		bsize++;
	return bsize;
}

/** If the connection's user holds much, the size that the program has set gets it no more than
 * others get (account.c). */
static uint8_t at_most_as_others(const struct smcr_conn *conn, uint8_t bsize)
{
	uint8_t most = smcr_bsize_choose(conn->engine, 0);
	return smcr_account_is_large(conn) && bsize > most ? most : bsize;
}

/** Take an element of code `bsize` up to code `most`. If there is none, add a slab, with elements
 * down to code `least` if memory is short. */
static int take_or_add(struct smcr_conn *conn, bool is_rmb, uint8_t bsize, uint8_t most,
		       uint8_t least, struct smcr_element *ret)
{
	struct smcr_lgr *lgr = conn->lgr;
	int rc = smcr_element_take(lgr, is_rmb, bsize, most, ret);
	if (rc != -ENOENT)
		return rc;
	struct smcr_slab *slab;
	if (!is_rmb && conn->params.sndbuf)
		bsize = at_most_as_others(conn, bsize);
	rc = smcr_account_is_small(conn) ? smcr_slab_add_last(lgr, is_rmb, bsize, least, &slab)
					 : smcr_slab_add(lgr, is_rmb, bsize, least, &slab);
	if (rc)
		return rc;
	return smcr_element_take(lgr, is_rmb, slab->bsize, most, ret);
}

/** RMB-6: the element may not be smaller than the program has set. */
static int take_element(struct smcr_conn *conn)
{
	uint8_t bsize = smcr_clc_element_bsize(conn);
	uint8_t least = conn->params.rcvbuf ? bsize : conn->engine->config.bsize_min;
	if (at_most_as_others(conn, least) < least)
		return -ENOSPC;
	return take_or_add(conn, true, bsize, SMCR_BSIZE_MAX, least, &conn->rx.element);
}

/** SOCK-2: a program that has set a size does not get more if memory of that size is free, as it
 * may want to have few bytes under way. It gets less if memory is short. */
static int take_send_buffer(struct smcr_conn *conn, uint8_t bsize)
{
	uint8_t least = conn->engine->config.bsize_min;
	uint8_t most = conn->params.sndbuf ? bsize : SMCR_BSIZE_MAX;
	int rc = take_or_add(conn, false, bsize, most, least, &conn->tx.buf);
	if (rc == -ENOMEM &&
	    !smcr_element_take(conn->lgr, false, bsize, SMCR_BSIZE_MAX, &conn->tx.buf))
		rc = 0;
	return rc;
}

static void count_buffer(struct smcr_flow_stats *stats, const struct smcr_element *got,
			 uint8_t want)
{
	stats->buffers[got->slab->bsize]++;
	stats->downgrades += got->slab->bsize < want;
}

/* Count the sizes that the connection got, and whether they are smaller than with all memory
 * free. */
static void count_memory(const struct smcr_conn *conn)
{
	const struct smcr_conn_params *params = &conn->params;
	struct smcr_engine *engine = conn->engine;
	uint8_t rcv = params->rcvbuf ? smcr_bsize_holding(params->rcvbuf)
				     : smcr_bsize_plenty(engine, params->expected.rcv);
	uint8_t snd = params->sndbuf || engine->config.sndbuf
			      ? sndbuf_bsize(conn)
			      : smcr_bsize_plenty(engine, params->expected.snd);
	count_buffer(&engine->stats.rx, &conn->rx.element, rcv);
	count_buffer(&engine->stats.tx, &conn->tx.buf, snd);
}

int smcr_clc_take_memory(struct smcr_conn *conn)
{
	int rc = smcr_account_open(conn);
	if (rc)
		return rc;
	uint8_t sndbuf = sndbuf_bsize(conn); /* before the element takes memory */
	rc = smcr_account_allows(conn) ? take_element(conn) : -ENOSPC;
	if (!rc)
		rc = take_send_buffer(conn, sndbuf);
	smcr_account_settle(conn);
	if (rc) {
		smcr_account_refused(conn);
		return rc;
	}
	smcr_rx_prepare(conn);
	count_memory(conn);
	return 0;
}

enum smcr_reason smcr_clc_memory_reason(int rc)
{
	return rc == -ENOMEM || rc == -ENOSPC ? SMCR_REASON_RMBE_EXHAUSTED : SMCR_REASON_INTERNAL;
}

void smcr_clc_send_credentials(struct smcr_conn *conn, uint8_t type)
{
	struct smcr_engine *engine = conn->engine;
	struct smcr_link *link = conn->rv.link;
	struct smcr_slab *slab = conn->rx.element.slab;
	uint8_t buf[SMCR_CLC_MAX_LEN];
	if (!conn->token)
		smcr_conn_new_token(conn);
	struct smcr_clc_accept msg = {
		.type = type,
		.first_contact = type == SMCR_CLC_ACCEPT && conn->rv.first_contact,
		.qpn = link->qpn,
		.rkey = slab->reg[link->slot].rkey,
		.rmbe_index = conn->rx.element.index,
		.alert_token = conn->token,
		.bsize = slab->bsize,
		.mtu = link->mtu,
		.rmb_vaddr = slab->reg[link->slot].vaddr,
		.psn = link->psn, /* CLC-10 */
	};
	memcpy(msg.peer_id, engine->config.peer_id, SMCR_PEER_ID_LEN);
	memcpy(msg.gid, link->local_gid, SMCR_GID_LEN);
	memcpy(msg.mac, link->local_mac, SMCR_MAC_LEN);
	if (conn->rv.agreed.version == SMCR_CLC_VERSION_2)
		smcr_clc_fill_v2(conn, &msg);
	if (conn->rv.first_contact)
		slab->reg[link->slot].told = true; /* RKEY-12 */
	int len = smcr_clc_encode_accept(&msg, buf, sizeof(buf));
	smcr_clc_send(conn, buf, (size_t)len);
}

int smcr_clc_learn_rmb(struct smcr_link *link, const struct smcr_clc_accept *msg)
{
	struct smcr_peer_rmb *rmb;
	int rc = smcr_peer_rmb_add(link->lgr, &rmb);
	if (rc)
		return rc;
	smcr_peer_rmb_set(rmb, link, msg->rkey, msg->rmb_vaddr);
	return 0;
}

/** RMB-9: the peer has given the element of `old` to another connection. */
static void evict(struct smcr_conn *old)
{
	if (old->phase == SMCR_PHASE_OPEN)
		smcr_close_evict(old);
	else
		quit(old, SMCR_REASON_OUT_OF_SYNC, ECONNRESET);
}

/** When to check whether a contested element is free, in microseconds: soon, because most often its
 * user has just ended and a completion or a last CDC is on its way; then less and less often. */
#define FIRST_CONTEST_LOOK 250
#define LAST_CONTEST_LOOK  10000

static void begin_contest(struct smcr_conn *conn)
{
	uint64_t now = conn->engine->now, ends = now + conn->engine->config.llc_timeout / 2;
	if (conn->params.role == SMCR_ROLE_CLIENT && ends > conn->rv.answer_by)
		ends = conn->rv.answer_by; /* our message is due by then */
	conn->rv.contest_began = now;
	conn->rv.contest_ends = ends;
	conn->rv.contest_look = FIRST_CONTEST_LOOK;
}

/** Has the peer shown that it knows `old`, since CLC gave the element to another connection? */
static bool has_answered(const struct smcr_conn *conn, const struct smcr_conn *old)
{
	return !old->tx.asking && old->rx.heard >= conn->rv.contest_began;
}

/** Can the peer not be asked about `old`? It cannot when the connection is ending, or has no
 * link. */
static bool is_out_of_reach(const struct smcr_conn *old)
{
	return old->phase == SMCR_PHASE_OPEN &&
	       (!smcr_tx_may_ask(old) || !old->tx.link || old->tx.moving);
}

/** Have both sides sent their last CDC? Then only own completions are awaited. */
static bool is_over(const struct smcr_conn *old)
{
	return old->phase == SMCR_PHASE_OPEN && old->state == SMCR_STATE_CLOSED;
}

/**
 * RMB-9, A66: a CLC message, perhaps of an attacker, gives `conn` an element that `old` uses.
 * Connection `old` may be about to end. Otherwise the peer is asked on the links, where only the
 * peer can answer.
 * @param old  NULL: no connection uses the element
 * @return 0: the element is free now; -EBUSY: not known yet; -EEXIST: `old` keeps it
 */
static int take_over(struct smcr_conn *conn, struct smcr_conn *old)
{
	if (!old)
		return 0;
	if (is_over(old)) {
		evict(old);
		return 0;
	}
	if (!conn->rv.contest_ends)
		begin_contest(conn);
	else if (smcr_tx_may_ask(old) && has_answered(conn, old))
		return -EEXIST;
	smcr_tx_ask(old);
	if (conn->engine->now < conn->rv.contest_ends)
		return -EBUSY;
	if (is_out_of_reach(old))
		return -EEXIST;
	evict(old);
	return 0;
}

void smcr_clc_contest(struct smcr_conn *conn, const struct smcr_clc_accept *msg)
{
	bool server = conn->params.role == SMCR_ROLE_SERVER;
	if (!conn->rv.contested) {
		conn->rv.contested = malloc(sizeof(*msg));
		if (!conn->rv.contested) {
			quit(conn, SMCR_REASON_NO_MEMORY, ECONNRESET);
			return;
		}
		*conn->rv.contested = *msg;
	}
	conn->rv.step = server ? SMCR_RV_S_CONTESTED : SMCR_RV_C_CONTESTED;
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, conn->rv.contest_look);
	if (conn->rv.contest_look < LAST_CONTEST_LOOK)
		conn->rv.contest_look *= 2;
}

int smcr_clc_claim_element(struct smcr_conn *conn, struct smcr_link *link,
			   const struct smcr_clc_accept *msg)
{
	struct smcr_peer_rmb *rmb =
		link ? smcr_peer_rmb_find(conn->lgr, link, msg->rkey)
		     : smcr_peer_rmb_find_gone(conn->lgr, msg->qpn, msg->rkey, msg->rmb_vaddr);
	if (!rmb || (link && rmb->token[link->slot].vaddr != msg->rmb_vaddr))
		return -ENOENT; /* RS-4, RKEY-16 */
	if (!smcr_peer_rmb_may_have(rmb, msg->rmbe_index, smcr_bsize_bytes(msg->bsize)))
		return -EEXIST; /* RMB-1 */
	int rc = take_over(conn, rmb->user[msg->rmbe_index]);
	if (!rc) /* CLC-12: what we say with its token would be meant for that one */
		rc = take_over(conn, smcr_peer_rmb_user_of_token(conn->lgr, msg->alert_token));
	if (rc)
		return rc;
	smcr_peer_rmb_claim(rmb, msg, conn);
	return 0;
}

/** CLC has named a link, but the operator wants no writes on it: the choice is ours (RS-11). */
static struct smcr_link *unless_disabled(const struct smcr_conn *conn, struct smcr_link *link)
{
	struct smcr_link *other = smcr_lgr_least_loaded(conn->lgr);
	bool usable = other && conn->tx.rmb && conn->tx.rmb->token[other->slot].valid;
	return link && link->disabled && usable ? other : link;
}

void smcr_clc_open(struct smcr_conn *conn, struct smcr_link *link)
{
	smcr_timer_stop(conn->engine, &conn->rv.clc_timer);
	smcr_timer_stop(conn->engine, &conn->rv.total_timer);
	smcr_conn_promise(conn, NULL);
	smcr_link_assign(conn, unless_disabled(conn, link));
	conn->phase = SMCR_PHASE_OPEN;
	smcr_data_open(conn);
}

/* ---- what others tell ---- */

void smcr_clc_group_deleted(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn = lgr->fc.conn;
	if (!conn || lgr->fc.committed)
		return;
	smcr_conn_detach(conn);
	smcr_clc_await(conn, SMCR_RV_C_AWAIT_DECLINE);
}

void smcr_clc_lgr_lost(struct smcr_conn *conn)
{
	switch ((enum smcr_rv_step)conn->rv.step) {
	case SMCR_RV_S_ANNOUNCE: /* nothing has been said yet: decide anew */
		smcr_conn_detach(conn);
		smcr_clc_server_decide(conn);
		break;
	case SMCR_RV_S_AWAIT_CONFIRM:
		/* The client, whose group it is too, may be declining: its Decline is slower than
		 * what ended the group, and the TCP connection is whole then. Its Confirm is too
		 * late. */
		smcr_conn_detach(conn);
		conn->rv.give_up = true;
		conn->rv.give_up_reason = SMCR_REASON_NO_ACTIVE_LINK;
		break;
	case SMCR_RV_S_CONTESTED: /* the elements of both sides go with the group */
		smcr_conn_detach(conn);
		smcr_clc_fail(conn, ECONNRESET, SMCR_REASON_NO_ACTIVE_LINK);
		break;
	default: quit(conn, SMCR_REASON_NO_ACTIVE_LINK, ECONNRESET); break;
	}
}

void smcr_clc_slab_ready(struct smcr_slab *slab)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH_SAFE2 (slab->lgr->conns, conn, next, lgr_next) {
		if (conn->phase != SMCR_PHASE_RENDEZVOUS || conn->rx.element.slab != slab)
			continue;
		if (conn->rv.step == SMCR_RV_S_ANNOUNCE)
			smcr_clc_server_accept(conn);
		else if (conn->rv.step == SMCR_RV_C_ANNOUNCE)
			smcr_clc_client_confirm(conn);
	}
}

void smcr_clc_slab_refused(struct smcr_slab *slab)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH_SAFE2 (slab->lgr->conns, conn, next, lgr_next)
		if (conn->phase == SMCR_PHASE_RENDEZVOUS && conn->rx.element.slab == slab)
			quit(conn, SMCR_REASON_RKEY_EXCHANGE, ECONNRESET); /* RKEY-9 */
}

void smcr_clc_unhold(struct smcr_conn *conn)
{
	struct smcr_lgr *lgr = conn->rv.held_by;
	if (!lgr)
		return;
	conn->rv.held_by = NULL;
	DL_DELETE2(lgr->fc.held, conn, rv.held_prev, rv.held_next);
}

void smcr_clc_release_held(struct smcr_conn *held, bool path_dead)
{
	struct smcr_conn *conn, *next;
	DL_FOREACH2 (held, conn, rv.held_next)
		conn->rv.held_by = NULL;
	DL_FOREACH_SAFE2 (held, conn, next, rv.held_next) {
		if (path_dead) { /* each would only find out the same, one after the other */
			send_decline(conn, SMCR_REASON_PEER_SKIPPED, false);
			fall_back(conn, SMCR_REASON_PEER_SKIPPED, 0, true);
		} else {
			smcr_clc_server_decide(conn);
		}
	}
}

/** Who waits for another group that is being set up with this peer need not wait any longer. */
static void release_others(const struct smcr_lgr *done)
{
	struct smcr_lgr *lgr;
	DL_FOREACH (done->engine->lgrs, lgr) {
		struct smcr_conn *held = lgr->fc.held;
		if (!held || (!smcr_same_host(&lgr->peer, &done->peer) &&
			      memcmp(lgr->peer_id, done->peer_id, SMCR_PEER_ID_LEN) != 0))
			continue;
		lgr->fc.held = NULL;
		smcr_clc_release_held(held, false);
	}
}

/* RV-11: now application data may flow. */
void smcr_clc_first_contact_done(struct smcr_lgr *lgr)
{
	struct smcr_conn *conn = lgr->fc.conn, *held = lgr->fc.held;
	lgr->state = SMCR_LGR_ACTIVE;
	smcr_news_of_lgr(lgr, (struct smcr_news){ .type = SMCR_NEWS_LGR_UP });
	lgr->fc.conn = NULL;
	lgr->fc.held = NULL;
	if (conn)
		smcr_clc_open(conn, conn->rv.link ? conn->rv.link : smcr_lgr_any_link(lgr, NULL));
	smcr_clc_release_held(held, false);
	release_others(lgr);
}
