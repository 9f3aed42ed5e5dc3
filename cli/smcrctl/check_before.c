/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "cli/smcrctl/netns.h"
#include "proto/smcr/reason.h"

static json_t *parameters(const struct check *check)
{
	json_t *params = json_pack("{s:s}", "peer", check->peer_text);
	if (check->port)
		json_object_set_new(params, "port", json_integer(check->port));
	if (*check->local_text)
		json_object_set_new(params, "local", json_string(check->local_text));
	if (check->program)
		json_object_set_new(params, "program", json_string(check->program));
	return params;
}

/* SMC-R is skipped with the whole peer, or with one port of it: 'policy forget' takes either. */
static void tell_skipped(struct check *check, const json_t *judgement)
{
	json_int_t port = doctor_number(judgement, "failure_port", NULL);
	char text[32] = "";
	if (port)
		snprintf(text, sizeof(text), " port %" JSON_INTEGER_FORMAT, port);
	findings_add(&check->doctor.findings, FINDING_PROBLEM,
		     "SMC-R with %s%s has failed (%s), and connections with %s stay TCP for "
		     "%" JSON_INTEGER_FORMAT
		     " s more\n'smcrctl policy forget %s%s' lets SMC-R be tried at once",
		     check->peer_text, text, doctor_text(judgement, "failure"),
		     port ? "that port" : "the host",
		     doctor_number(judgement, "seconds_left", NULL), check->peer_text, text);
}

static void tell_reason(struct check *check, const json_t *judgement, const json_t *reason)
{
	struct findings *findings = &check->doctor.findings;
	uint32_t code = (uint32_t)json_integer_value(json_object_get(reason, "code"));
	const char *text = doctor_text(reason, "text"), *rule = doctor_text(judgement, "rule");
	if (!check->reason)
		check->reason = code;
	if (code == SMCR_REASON_NO_BPF || code == SMCR_REASON_NO_DEVICE ||
	    code == SMCR_REASON_DRAINING)
		return; /* check_before() has added a finding about these */
	if (code == SMCR_REASON_LOCAL_POLICY && *rule)
		findings_add(findings, FINDING_PROBLEM,
			     "the rule \"%s\" keeps the connection on TCP\n'smcrctl policy delete "
			     "%s' removes the rule",
			     rule, rule);
	else if (code == SMCR_REASON_LOCAL_POLICY)
		findings_add(
			findings, FINDING_PROBLEM,
			"rules allow SMC-R to some connections, and none of them to this one"
			"\n'smcrctl policy' shows the rules; 'smcrctl policy add allow peer %s' "
			"adds one",
			check->peer_text);
	else if (code == SMCR_REASON_PEER_SKIPPED)
		tell_skipped(check, judgement);
	else
		findings_add(findings, FINDING_PROBLEM, "%s\n%s", text, check_advice(code, false));
}

bool check_judge(struct check *check)
{
	json_decref(check->judgement);
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, "policy.judge",
		      parameters(check), &check->judgement, check->judgement_error))
		check->judgement = NULL;
	return json_array_size(json_object_get(check->judgement, "reasons")) == 0;
}

void check_tell_judgement(struct check *check)
{
	struct findings *findings = &check->doctor.findings;
	const json_t *reasons = json_object_get(check->judgement, "reasons"), *reason;
	findings->subject = "policy";
	if (!check->judgement) {
		findings_add(findings, FINDING_WARNING,
			     "what smcrd would do with this connection is not known: %s",
			     check->judgement_error);
		return;
	}
	for (size_t i = 0; (reason = json_array_get(reasons, i)); i++)
		tell_reason(check, check->judgement, reason);
	if (json_array_size(reasons) == 0)
		findings_add(findings, FINDING_OK,
			     "no rule and no earlier failure keeps the connection on TCP");
	if (json_is_true(json_object_get(check->judgement, "by_program")))
		findings_add(findings, FINDING_WARNING,
			     "there are rules for single programs, which were not checked"
			     "\nname a program: smcrctl check %s PORT program PATH",
			     check->host);
}

bool check_before(struct check *check)
{
	struct doctor *doctor = &check->doctor;
	doctor->findings.subject = "daemon";
	doctor_daemon(doctor);
	if (!doctor->info) {
		check->reason = SMCR_REASON_NO_DAEMON;
		return false;
	}
	doctor->findings.subject = "namespace";
	if (netns_compare(doctor->host) == NETNS_OTHER) {
		doctor_namespace(doctor);
		check->reason = SMCR_REASON_NOT_CLAIMED;
		return false;
	}
	if (!json_is_true(
		    json_object_get(json_object_get(doctor->info, "tcp_option"), "available"))) {
		doctor->findings.subject = "tcp-option";
		doctor_option(doctor);
	}
	if (json_array_size(doctor->devices) == 0) {
		doctor->findings.subject = "rnics";
		doctor_rnics(doctor);
	}
	return true;
}
