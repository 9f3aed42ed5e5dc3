/* SPDX-License-Identifier: MIT */
/*
 * smcrctl check --cm: an RDMA connection to a host and port, as a program of this host could make
 * it, which is ended as soon as it is there. The answer comes when it has ended.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "daemon/cm/cm.h"
#include "daemon/control/views.h"
#include "daemon/rnic/alarm.h"
#include "proto/ibcm/text.h"

/* Each is a connection of the peer, too, and a queue pair of the RNIC. */
#define MOST_CHECKS 4
/* Long enough for a second request if the first one is lost; smcrctl waits longer. */
#define PATIENCE_MS 9000
/* Likewise for the end of a connection that was made: the connection manager repeats that for
 * longer than anybody waits for a check. */
#define END_PATIENCE_MS 5000
/* As long as it takes to end a connection that nobody uses. */
#define RETRY_MS    2000
#define RNR_RETRY   7
#define BUFFER_SIZE 4096

struct control_cm_check {
	struct control *control;
	struct waiter waiter;
	char text[COMMAND_TEXT_LEN]; /* who wants what, for the log */
	struct rnic *rnic;
	char rnic_name[RNIC_NAME_LEN];
	struct cm_addr local, peer;
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	struct rnic_qp *qp;
	struct cm_conn *conn;
	struct alarm *alarm; /* the peer does not answer that the connection ends */
	uint64_t begun;
	/* What has come of it. */
	bool connected;
	uint64_t answer_us; /* from the request to its answer; 0: there was none */
	uint8_t reads_answered, reads_asked;
	uint8_t private_data[CM_PRIVATE_MAX];
	size_t private_len;
	struct control_cm_check *prev, *next;
	uint8_t buffer[BUFFER_SIZE]; /* what the peer may send; nobody reads it */
};

/* ---- the queue pair ---- */

static void on_completion(void *ctx, struct rnic_qp *qp, const struct rnic_wc *wc, size_t n)
{
	(void)ctx;
	(void)qp;
	(void)wc;
	(void)n;
}

static void free_check(struct control_cm_check *check)
{
	if (check->conn)
		cm_conn_free(check->conn);
	if (check->qp)
		rnic_qp_destroy(check->qp);
	if (check->mr)
		rnic_mr_deregister(check->mr);
	if (check->pd)
		rnic_pd_free(check->pd);
	alarm_free(check->alarm);
	free(check);
}

/* The peer may send as soon as it has accepted, so that a receive buffer has to be there before. */
static int make_qp(struct control_cm_check *check)
{
	const struct rnic_qp_params params = { .send_depth = 1,
					       .recv_depth = 1,
					       .user_receives = true,
					       .on_completion = on_completion,
					       .ctx = check };
	int error = rnic_pd_alloc(check->rnic, &check->pd);
	if (!error)
		error = rnic_mr_register(check->pd, check->buffer, BUFFER_SIZE,
					 RNIC_ACCESS_LOCAL_WRITE, &check->mr);
	if (!error)
		error = rnic_qp_create(check->pd, &params, &check->qp);
	if (error)
		return error;
	const struct rnic_recv_wr wr = { .addr = check->buffer,
					 .length = BUFFER_SIZE,
					 .lkey = rnic_mr_lkey(check->mr) };
	return rnic_post_recv(check->qp, &wr, 1);
}

/* ---- the answer ---- */

static void put_place(const struct control_cm_check *check, char *text, size_t len)
{
	const struct smcr_addr peer = control_cm_addr(&check->peer);
	json_t *json = control_json_addr(&peer);
	const char *place = json_string_value(json);
	snprintf(text, len, "%s", place ? place : "the peer");
	json_decref(json);
}

static void put_outcome(const struct control_cm_check *check, const char *why, char *text,
			size_t len)
{
	char place[80];
	put_place(check, place, sizeof(place));
	if (check->connected)
		snprintf(text, len,
			 "%s accepts RDMA connections: one over %s was made in %.1f ms, and ended",
			 place, check->rnic_name, (double)check->answer_us / 1000);
	else
		snprintf(text, len, "there is no RDMA connection to %s over %s: %s", place,
			 check->rnic_name, why);
}

static json_t *number_or_null(bool known, uint64_t number)
{
	return known ? json_integer((json_int_t)number) : json_null();
}

static json_t *result_of(const struct control_cm_check *check, const struct cm_event *event,
			 const char *text)
{
	const struct smcr_addr local = control_cm_addr(&check->local);
	const struct smcr_addr peer = control_cm_addr(&check->peer);
	const uint16_t reason = event->reject_reason;
	return json_pack(
		"{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "text", text,
		"connected", check->connected, "local", control_json_host(&local), "peer",
		control_json_addr(&peer), "rnic", control_json_text(check->rnic_name), "answer_us",
		number_or_null(check->answer_us, check->answer_us), "reads_answered",
		number_or_null(check->connected, check->reads_answered), "reads_asked",
		number_or_null(check->connected, check->reads_asked), "private_data",
		control_json_hex(check->private_data, check->private_len), "end",
		control_json_text(cm_end_name(event->end)), "reject_code",
		number_or_null(reason, reason), "reject_reason",
		reason ? json_string(ibcm_reject_name(reason)) : json_null(), "why", event->text);
}

/* That no RNIC leads there is an outcome as well. */
static json_t *no_route(const struct control_cm_check *check, const char *why)
{
	const struct cm_event event = { .type = CM_ENDED, .text = why };
	return result_of(check, &event, why);
}

static void answer(struct control_cm_check *check, const struct cm_event *event)
{
	struct control *control = check->control;
	struct refusal refusal = { 0 };
	char text[sizeof(refusal.text)];
	put_outcome(check, event->text, text, sizeof(text));
	json_t *result = result_of(check, event, text);
	if (!result)
		refuse(&refusal, ENOMEM, "no-memory", "%s", text);
	if (control->events)
		events_command(control->events, check->text, !check->connected, text);
	DL_DELETE(control->cm_checks, check);
	waiter_reply(&check->waiter, result, &refusal);
	free_check(check);
}

/* ---- events of the connection ---- */

static void note_private(struct control_cm_check *check, const struct cm_event *event)
{
	check->private_len =
		event->private_len < CM_PRIVATE_MAX ? event->private_len : CM_PRIVATE_MAX;
	if (check->private_len)
		memcpy(check->private_data, event->private_data, check->private_len);
}

/* Who says nothing within the time has not answered, nor has a queue pair that has failed. */
static bool is_answer(const struct cm_event *event)
{
	return event->type == CM_CONNECTED || event->end == CM_END_NO_LISTENER ||
	       event->end == CM_END_REFUSED || event->end == CM_END_PEER_REFUSED;
}

/* The outcome is known. The peer is still told of the end. */
static void on_no_end(void *ctx)
{
	const struct cm_event event = {
		.type = CM_ENDED,
		.end = CM_END_TIMEOUT,
		.text = "the peer does not answer that the connection ends"
	};
	answer(ctx, &event);
}

static void on_event(void *ctx, struct cm_conn *conn, const struct cm_event *event)
{
	struct control_cm_check *check = ctx;
	if (is_answer(event)) {
		check->answer_us = fabric_now() - check->begun;
		note_private(check, event);
	}
	if (event->type == CM_CONNECTED) {
		check->connected = true;
		check->reads_answered = event->reads_answered;
		check->reads_asked = event->reads_asked;
		alarm_set(check->alarm, alarm_now() + END_PATIENCE_MS * 1000);
		cm_disconnect(conn);
	} else if (event->type == CM_ENDED)
		answer(check, event);
}

/* ---- begin ---- */

static bool take_place(const struct params *params, struct cm_addr *ret_peer,
		       struct refusal *refusal)
{
	struct smcr_addr addr;
	if (!policy_take_address(params->peer, "peer", &addr, refusal))
		return false;
	*ret_peer = (struct cm_addr){ .family = (uint8_t)addr.family, .port = params->port };
	memcpy(ret_peer->addr, addr.ip, sizeof(ret_peer->addr));
	return true;
}

static bool has_room(const struct control *control, struct refusal *refusal)
{
	const struct control_cm_check *check;
	size_t num = 0;
	DL_COUNT(control->cm_checks, check, num);
	if (num >= MOST_CHECKS)
		refuse(refusal, EBUSY, "busy",
		       "%d such checks are under way already: try again in %d seconds", MOST_CHECKS,
		       PATIENCE_MS / 1000);
	return num < MOST_CHECKS;
}

static bool resolve(struct control_cm_check *check, char ret_error[CM_ERROR_LEN])
{
	struct rnic_info info;
	if (cm_resolve(check->control->cm, &check->peer, &check->rnic, &check->local, ret_error))
		return false;
	rnic_get_info(check->rnic, &info);
	memcpy(check->rnic_name, info.name, sizeof(check->rnic_name));
	return true;
}

static bool connect_to(struct control_cm_check *check, struct refusal *refusal)
{
	char error[CM_ERROR_LEN];
	int r = alarm_new(check->control->base, on_no_end, check, &check->alarm);
	if (!r)
		r = make_qp(check);
	if (r) {
		refuse(refusal, -r, "failed", "%s gives no queue pair: %s", check->rnic_name,
		       strerror(-r));
		return false;
	}
	const struct cm_connect_params params = { .rnic = check->rnic,
						  .local = check->local,
						  .peer = check->peer,
						  .qp = check->qp,
						  .offer = { .rnr_retry = RNR_RETRY },
						  .timeout_ms = PATIENCE_MS,
						  .retry_ms = RETRY_MS,
						  .fn = on_event,
						  .ctx = check };
	check->begun = fabric_now();
	r = cm_connect(check->control->cm, &params, &check->conn, error);
	if (r)
		refuse(refusal, -r, "failed", "%s", error);
	return !r;
}

json_t *cm_check_start(struct control *control, const struct command_call *call, bool *ret_later)
{
	struct cm_addr peer;
	if (!control->cm)
		return refuse(call->refusal, EOPNOTSUPP, "not-available",
			      "this smcrd has no connection manager yet: try again");
	if (!take_place(call->params, &peer, call->refusal) || !has_room(control, call->refusal))
		return NULL;
	struct control_cm_check *check = calloc(1, sizeof(*check));
	if (!check)
		return refuse(call->refusal, ENOMEM, "no-memory", "out of memory");
	check->control = control;
	check->peer = peer;
	check->waiter = waiter_of(call->asker);
	snprintf(check->text, sizeof(check->text), "%s", call->text);
	char error[CM_ERROR_LEN];
	json_t *result = NULL;
	if (!resolve(check, error))
		result = no_route(check, error);
	else
		*ret_later = connect_to(check, call->refusal);
	if (*ret_later)
		DL_APPEND(control->cm_checks, check);
	else
		free_check(check);
	return result;
}

/* ---- an early end ---- */

static void give_up(struct control *control, struct control_cm_check *check, const char *why)
{
	if (control->events)
		events_command(control->events, check->text, false, why);
	DL_DELETE(control->cm_checks, check);
	free_check(check);
}

bool cm_check_forget(struct control *control, uint64_t request)
{
	struct control_cm_check *check;
	DL_SEARCH_SCALAR(control->cm_checks, check, waiter.request, request);
	if (check)
		give_up(control, check, "given up; nobody waited for the outcome");
	return check;
}

void cm_check_forget_all(struct control *control)
{
	while (control->cm_checks)
		give_up(control, control->cm_checks, "given up; smcrd stops");
}
