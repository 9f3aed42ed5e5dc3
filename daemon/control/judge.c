/* SPDX-License-Identifier: MIT */
/* Tells whether a connection from this host would use SMC-R, without making one. */
#include <string.h>

#include "daemon/control/internal.h"
#include "daemon/control/views.h"
#include "daemon/host/words.h"
#include "proto/ipc/ipc.h"

/* Reasons for all connections of the host come first, as in the BPF programs. */
static enum smcr_reason of_host(const struct control *control)
{
	if (!control->option)
		return SMCR_REASON_NO_BPF;
	if (control->drain.on)
		return SMCR_REASON_DRAINING;
	return fabric_takes_new(control->fabric) ? SMCR_REASON_NONE : SMCR_REASON_NO_DEVICE;
}

static json_t *rule_or_null(const struct policy_rule *rule)
{
	char text[POLICY_RULE_TEXT];
	if (!rule)
		return json_null();
	policy_rule_text(rule, text);
	words_mend(text);
	return json_string(text);
}

static void add_reason(json_t *reasons, enum smcr_reason reason)
{
	if (reason != SMCR_REASON_NONE)
		json_array_append_new(reasons, json_pack("{s:s, s:I, s:s}", "reason",
							 smcr_reason_name(reason), "code",
							 (json_int_t)reason, "text",
							 smcr_reason_text(reason)));
}

json_t *control_judge(struct control *control, struct page *page, struct refusal *refusal)
{
	const struct params *params = page->params;
	struct smcr_addr peer, local = { .family = 0 };
	if (!policy_take_address(params->peer, "peer", &peer, refusal))
		return NULL;
	if (params->local && !policy_take_address(params->local, "local", &local, refusal))
		return NULL;
	peer.port = params->port;
	const struct smcr_subject subject = {
		.local = rdv_addr16(&local),
		.peer = rdv_addr16(&peer),
		.program = params->program
				   ? ipc_program_id(params->program, strlen(params->program))
				   : 0,
		.uid = page->uid,
		.port = peer.port,
	};
	struct policy_outlook outlook = policy_foresee(control->policy, &subject, &peer);
	json_t *reasons = json_array();
	add_reason(reasons, of_host(control));
	add_reason(reasons, outlook.reason);
	const struct failure *failure = outlook.failure;
	return json_pack(
		"{s:b, s:o, s:o, s:b, s:o, s:o, s:o}", "tried", json_array_size(reasons) == 0,
		"reasons", reasons, "rule", rule_or_null(outlook.rule), "by_program",
		outlook.by_program, "failure",
		failure ? json_string(failure_text(failure->kind)) : json_null(), "failure_port",
		failure && failure->peer.port ? json_integer(failure->peer.port) : json_null(),
		"seconds_left", failure ? json_integer(outlook.seconds_left) : json_null());
}
