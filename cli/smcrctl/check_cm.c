/* SPDX-License-Identifier: MIT */
/* smcrctl check --cm: smcrd makes an RDMA connection, and its answer becomes findings. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "cli/smcrctl/netns.h"
#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/words.h"

/* smcrd gives up sooner. */
#define PATIENCE_S 30

static bool is_smcrd_here(struct doctor *doctor)
{
	doctor->findings.subject = "daemon";
	doctor_daemon(doctor);
	if (!doctor->info)
		return false;
	if (netns_compare(doctor->host) != NETNS_OTHER)
		return true;
	doctor->findings.subject = "namespace";
	doctor_namespace(doctor);
	return false;
}

/* ---- what to do ---- */

static const char *advice_of(const char *end)
{
	static const struct {
		const char *end, *advice;
	} rows[] = {
		{ "no-listener", "start the server for that port there; 'smcrctl cm' there shows "
				 "the ports on which its smcrd listens" },
		{ "refused", "the server there knows why: look at its log, and at what it takes "
			     "from whom" },
		{ "peer-refused", "'smcrctl log trace cm' here, and the log of the peer, show the "
				  "messages" },
		{ "timeout",
		  "let UDP port 4791 pass both ways, through the firewalls of both hosts "
		  "and those between them, and see whether the peer has RDMA: smcrd, or "
		  "the kernel's rdma_cm with 'rdma link'" },
		{ "peer-disconnected", "the server there knows why" },
		{ "local", "see 'smcrctl device' and 'smcrctl event'" },
	};
	for (size_t i = 0; end && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].end, end))
			return rows[i].advice;
	return "smcrd logs more: journalctl -u smcrd";
}

static bool has_end(const json_t *result, const char *end)
{
	return !strcmp(doctor_text(result, "end"), end);
}

/* ---- findings, step by step ---- */

static void tell_private(struct findings *findings, const json_t *result)
{
	const char *bytes = doctor_text(result, "private_data");
	if (*bytes)
		findings_add(findings, FINDING_OK, "private data of the peer: %s", bytes);
}

static void tell_made(struct findings *findings, const json_t *result)
{
	findings->subject = "connection";
	findings_add(findings, FINDING_OK,
		     "the connection was made; RDMA READs at a time: %" JSON_INTEGER_FORMAT
		     " of the peer, %" JSON_INTEGER_FORMAT " of this host",
		     doctor_number(result, "reads_answered", NULL),
		     doctor_number(result, "reads_asked", NULL));
	tell_private(findings, result);
	findings->subject = "end";
	if (has_end(result, "disconnected") || has_end(result, "peer-disconnected"))
		findings_add(findings, FINDING_OK, "and it was ended in good order");
	else
		findings_add(findings, FINDING_WARNING, "its end was not in good order: %s\n%s",
			     doctor_text(result, "why"), advice_of(doctor_text(result, "end")));
}

static void tell_not_made(struct check *check, const json_t *result)
{
	struct findings *findings = &check->doctor.findings;
	findings->subject =
		json_is_null(json_object_get(result, "answer_us")) ? "answer" : "connection";
	findings_add(findings, FINDING_PROBLEM, "%s\n%s", doctor_text(result, "why"),
		     advice_of(doctor_text(result, "end")));
	tell_private(findings, result);
	if (has_end(result, "timeout")) {
		findings->subject = "firewall";
		doctor_firewall(&check->doctor);
	}
}

static void tell_no_route(struct findings *findings, const json_t *result)
{
	findings->subject = "route";
	findings_add(findings, FINDING_PROBLEM,
		     "%s\n'ip route get ADDRESS' shows the interface that leads there; 'smcrctl "
		     "device' shows the interfaces with an RNIC",
		     doctor_text(result, "why"));
}

static void tell(struct check *check, const json_t *result)
{
	struct findings *findings = &check->doctor.findings;
	const json_t *answer = json_object_get(result, "answer_us");
	findings->subject = "route";
	findings_add(findings, FINDING_OK, "%s is reached over RNIC %s, from %s", check->peer_text,
		     doctor_text(result, "rnic"), doctor_text(result, "local"));
	findings->subject = "answer";
	if (json_is_integer(answer))
		findings_add(findings, FINDING_OK,
			     "the connection manager there answers, after %.1f ms",
			     (double)json_integer_value(answer) / 1000);
	if (json_is_true(json_object_get(result, "connected")))
		tell_made(findings, result);
	else
		tell_not_made(check, result);
}

/* ---- the request ---- */

/* @return the outcome, a new reference; NULL: there is none, and a finding says why */
static json_t *try_place(struct check *check)
{
	struct findings *findings = &check->doctor.findings;
	char error[SESSION_ERROR_LEN];
	json_t *params = json_pack("{s:s, s:i}", "peer", check->peer_text, "port", check->port);
	json_t *result;
	if (!ask_smcrd(check->doctor.socket_path, PATIENCE_S, "cm.check", params, &result, error))
		return result;
	findings->subject = "request";
	findings_add(findings, FINDING_PROBLEM, "smcrd does not try it: %s", error);
	return NULL;
}

static bool has_route(const json_t *result)
{
	return json_is_string(json_object_get(result, "rnic"));
}

/* The addresses of a name, until an RNIC leads to one. @return as try_place() */
static json_t *try_places(struct check *check)
{
	json_t *result = NULL;
	for (const struct addrinfo *at = check->addresses; at; at = at->ai_next) {
		json_decref(result);
		check_set_place(check, at, check->wanted_port);
		result = try_place(check);
		if (!result || has_route(result))
			break;
	}
	if (has_route(result))
		tell(check, result);
	else if (result)
		tell_no_route(&check->doctor.findings, result);
	return result;
}

/* ---- the outcome ---- */

static void conclude(struct check *check, bool connected)
{
	struct findings *findings = &check->doctor.findings;
	findings->subject = "outcome";
	if (connected)
		findings_add(findings, FINDING_OK,
			     "RDMA connections to %s port %u can be made from this host",
			     check->host, check->wanted_port);
	else
		findings_add(
			findings, FINDING_PROBLEM,
			"an RDMA connection to %s port %u cannot be made, for the reason above",
			check->host, check->wanted_port);
}

static void print_as_json(const struct tool_call *call, const struct check *check,
			  const json_t *outcome)
{
	static const char *const keys[] = {
		"rnic",         "local", "answer_us",   "reads_answered", "reads_asked",
		"private_data", "end",   "reject_code", "reject_reason"
	};
	json_t *result = json_pack("{s:s, s:o, s:i, s:b, s:O}", "host", check->host, "address",
				   *check->peer_text ? json_string(check->peer_text) : json_null(),
				   "port", check->wanted_port, "connected",
				   json_is_true(json_object_get(outcome, "connected")), "findings",
				   check->doctor.findings.list);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_t *value = json_object_get(outcome, keys[i]);
		json_object_set(result, keys[i], value ? value : json_null());
	}
	output_json(call->output, "check", result);
	json_decref(result);
}

bool check_cm_fits(const struct check *check)
{
	if (check->program)
		return words_refuse("'program' does not go with --cm: no program is asked");
	if (!check->wanted_port)
		return words_refuse("which port? smcrctl check HOST PORT --cm");
	return true;
}

bool check_cm(const struct tool_call *call, struct check *check)
{
	json_t *outcome = NULL;
	if (check_resolve(check) && is_smcrd_here(&check->doctor))
		outcome = try_places(check);
	const bool connected = json_is_true(json_object_get(outcome, "connected"));
	conclude(check, connected);
	if (call->output->json)
		print_as_json(call, check, outcome);
	else
		findings_print(&check->doctor.findings);
	json_decref(outcome);
	return connected;
}
