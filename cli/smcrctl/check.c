/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/tools.h"
#include "cli/smcrctl/words.h"
#include "proto/smcr/reason.h"

/* ---- the command line ---- */

static bool parse_port(const char *word, uint16_t *ret)
{
	char *end;
	unsigned long port = strtoul(word, &end, 10);
	if (*word < '0' || *word > '9' || *end || port < 1 || port > UINT16_MAX)
		return words_refuse("'%s' is no TCP port", word);
	*ret = (uint16_t)port;
	return true;
}

/* JSON is UTF-8, and names of hosts and programs go into it. */
static bool is_text(const char *word)
{
	json_t *json = json_string(word);
	if (!json)
		return words_refuse("a host or path is not UTF-8");
	json_decref(json);
	return true;
}

/* HOST [PORT] [program PATH] */
static bool parse(const struct tool_call *call, struct check *check)
{
	int at = 1;
	if (call->argc < 1)
		return words_refuse("which host? smcrctl check HOST [PORT] [program PATH]");
	check->host = call->argv[0];
	if (at < call->argc && strcmp(call->argv[at], "program") &&
	    !parse_port(call->argv[at++], &check->wanted_port))
		return false;
	if (at + 1 < call->argc && !strcmp(call->argv[at], "program")) {
		check->program = call->argv[at + 1];
		at += 2;
	}
	if (at == call->argc)
		return is_text(check->host) && (!check->program || is_text(check->program));
	return words_refuse("unexpected argument '%s'", call->argv[at]);
}

/* ---- the outcome ---- */

static void conclude(struct check *check)
{
	struct findings *findings = &check->doctor.findings;
	char port[16] = "";
	if (check->port)
		snprintf(port, sizeof(port), " port %u", check->port);
	findings->subject = "outcome";
	if (check->smcr)
		findings_add(findings, FINDING_OK, "a connection to %s%s uses SMC-R", check->host,
			     port);
	else
		findings_add(findings, FINDING_PROBLEM,
			     "a connection to %s%s does not use SMC-R, for the reason above",
			     check->host, port);
}

static json_t *name_or_null(uint32_t reason)
{
	return reason ? json_string(smcr_reason_name(reason)) : json_null();
}

static json_t *number_or_null(json_int_t number)
{
	return number ? json_integer(number) : json_null();
}

static void print_as_json(const struct tool_call *call, const struct check *check)
{
	json_t *result = json_pack(
		"{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:O}", "host", check->host,
		"address", *check->peer_text ? json_string(check->peer_text) : json_null(), "port",
		number_or_null(check->port), "smcr", check->smcr, "reason",
		name_or_null(check->reason), "peer_reason", name_or_null(check->peer_reason),
		"version", number_or_null(check->version), "linkgroup",
		number_or_null(check->info.linkgroup), "link", number_or_null(check->info.link),
		"rnic", check->smcr ? json_string(check->info.rnic) : json_null(), "mtu_bytes",
		number_or_null(check->mtu), "findings", check->doctor.findings.list);
	output_json(call->output, "check", result);
	json_decref(result);
}

static void check_smcr(const struct tool_call *call, struct check *check)
{
	if (check_resolve(check) && check_before(check))
		check_attempt(check);
	conclude(check);
	if (call->output->json)
		print_as_json(call, check);
	else
		findings_print(&check->doctor.findings);
}

int check_run(const struct tool_call *call)
{
	struct check check = { .doctor = { .socket_path = call->socket_path,
					   .root = geteuid() == 0 } };
	if (!parse(call, &check) || (call->cm && !check_cm_fits(&check)))
		return STATUS_USAGE;
	findings_open(&check.doctor.findings);
	interfaces_read(&check.doctor.interfaces);
	bool good = false;
	if (call->cm) {
		good = check_cm(call, &check);
	} else {
		check_smcr(call, &check);
		good = check.smcr;
	}
	if (check.addresses)
		freeaddrinfo(check.addresses);
	json_decref(check.judgement);
	json_decref(check.groups_before);
	json_decref(check.doctor.info);
	json_decref(check.doctor.host);
	json_decref(check.doctor.devices);
	findings_close(&check.doctor.findings);
	return good ? STATUS_DONE : STATUS_FAILED;
}
