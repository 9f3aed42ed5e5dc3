/* SPDX-License-Identifier: MIT */
/* Rendezvous: its beginning, its waits, and the ways in which it ends without SMC-R (RFC 7609 3.5,
 * C.1 to C.6). */
#include <errno.h>
#include <string.h>

#include "daemon/smcr/clc.h"
#include "daemon/smcr/data.h"
#include "daemon/smcr/llc_delete_all.h"
#include "daemon/smcr/trace.h"

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

bool smcr_clc_committed(const struct smcr_conn *conn)
{
	return conn->lgr && conn->lgr->fc.conn == conn && conn->lgr->fc.committed;
}

static enum smcr_decline_window window(const struct smcr_conn *conn)
{
	return smcr_clc_decline_window(conn->rv.step, conn->rv.first_contact,
				       smcr_clc_committed(conn));
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
		smcr_conn_name_link(conn, NULL);
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

void smcr_clc_tell_outcome(struct smcr_conn *conn)
{
	struct smcr_conn_event event = conn->rv.outcome;
	finish(conn, &event);
}

void smcr_clc_fall_back(struct smcr_conn *conn, uint32_t reason, uint32_t peer_reason,
			bool path_dead)
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

void smcr_clc_skip(struct smcr_conn *conn)
{
	send_decline(conn, SMCR_REASON_PEER_SKIPPED, false);
	smcr_clc_fall_back(conn, SMCR_REASON_PEER_SKIPPED, 0, true);
}

/** The own Decline is sent: wait for a Decline of the peer that crosses it (A52). */
static void await_crossing(struct smcr_conn *conn, const struct smcr_lgr *declined)
{
	struct smcr_lgr *lgr = first_group(conn);
	memcpy(conn->rv.decliner, declined->peer_id, SMCR_PEER_ID_LEN);
	smcr_conn_detach(conn);
	conn->rv.step = SMCR_RV_DECLINED;
	/* C.2: a Decline ends in plain TCP, however long the rendezvous has taken. */
	smcr_timer_stop(conn->engine, &conn->rv.total_timer);
	smcr_timer_start(conn->engine, &conn->rv.clc_timer, conn->engine->config.decline_grace);
	end_first_contact(lgr, conn->rv.outcome.path_dead);
}

void smcr_clc_decline(struct smcr_conn *conn, enum smcr_reason reason, bool out_of_sync)
{
	const struct smcr_lgr *lgr = conn->rv.step == SMCR_RV_LLC ? conn->lgr : NULL;
	bool path_dead = lgr && lgr->path_dead;
	send_decline(conn, reason, out_of_sync);
	conn->rv.outcome = (struct smcr_conn_event){ .type = SMCR_CONN_FALLBACK,
						     .reason = reason,
						     .path_dead = path_dead };
	if (lgr)
		await_crossing(conn, lgr);
	else
		smcr_clc_tell_outcome(conn);
}

void smcr_clc_quit(struct smcr_conn *conn, enum smcr_reason reason, int error)
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
		smcr_clc_quit(conn, reason, ECONNABORTED);
}

/* ---- waiting ---- */

static void on_clc_timer(struct smcr_engine *engine, void *arg)
{
	struct smcr_conn *conn = arg;
	(void)engine;
	if (is_decided(conn)) {
		smcr_clc_tell_outcome(conn);
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
