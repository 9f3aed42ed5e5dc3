/* SPDX-License-Identifier: MIT */
/* Rendezvous: what comes in, CLC messages and events of the TCP connection, and at which step it is
 * allowed (RFC 7609 3.5, C.2; CLC-16). */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/llc_first_contact.h"
#include "daemon/smcr/trace.h"

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
	case SMCR_RV_LLC: return !smcr_clc_committed(conn);
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
	smcr_clc_fall_back(conn, SMCR_REASON_PEER_DECLINED, decline->diagnosis, path_dead);
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
		smcr_clc_tell_outcome(conn); /* the crossing Decline */
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
		smcr_clc_tell_outcome(conn); /* the peer's program uses TCP already */
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
	bool awaited = smcr_conn_wants_clc(conn) && !smcr_clc_committed(conn);
	if (event == SMCR_TCP_FIN && conn->rv.step == SMCR_RV_DECLINED)
		smcr_clc_tell_outcome(conn);
	else if (event == SMCR_TCP_FIN && !awaited)
		conn->tcp_fin = true;
	else
		smcr_clc_fail(conn, ECONNRESET, SMCR_REASON_NONE);
}
