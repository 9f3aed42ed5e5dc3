/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

#define OUTCOME_PATIENCE_MS 15000

/* Settings in the environment are for programs that run under smcr-run, not for this check. */
static void prepare(const struct check *check)
{
	pre_ready();
	pre_set_daemon(check->doctor.socket_path);
	pre_settings.require = pre_settings.verbose = false;
	pre_settings.sharing = PRE_SHARING_NO;
	if (check->program)
		pre_settings.program = ipc_program_id(check->program, strlen(check->program));
}

/* ---- what became of the connection ---- */

json_t *check_row(const struct check *check, const char *method, const char *key, json_int_t group,
		  const char *number_key)
{
	char error[SESSION_ERROR_LEN];
	json_t *rows, *row, *found = NULL;
	size_t i;
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, method, json_object(), &rows,
		      error))
		return NULL;
	json_array_foreach(rows, i, row)
	{
		if (doctor_number(row, key, NULL) == group &&
		    (!number_key || doctor_number(row, number_key, NULL) == check->info.link))
			found = json_incref(row);
		if (found)
			break;
	}
	json_decref(rows);
	return found;
}

static void tell_smcr(struct check *check, int fd)
{
	struct findings *findings = &check->doctor.findings;
	json_t *group = check_row(check, "linkgroup.show", "id", check->info.linkgroup, NULL);
	check->version = doctor_number(group, "version", NULL);
	json_decref(group);
	findings->subject = "rendezvous";
	findings_add(findings, FINDING_OK,
		     "both sides agree on version %" JSON_INTEGER_FORMAT
		     " of SMC-R, in link group %u",
		     check->version, check->info.linkgroup);
	check_path(check, fd);
}

/* Has the peer sent the option back? A connection that smcrd relays was handed over, so both sides
 * had sent the option. For any other the socket tells. */
static bool was_echoed(const struct check *check, int fd)
{
	return check->info.flags & SMCR_INFO_RELAYED || pre_negotiated(fd) == IPC_NEGOTIATED_YES;
}

static void tell_tcp(struct check *check, int fd)
{
	struct findings *findings = &check->doctor.findings;
	bool peer = check->peer_reason != SMCR_REASON_NONE;
	uint32_t reason = peer ? check->peer_reason : check->reason;
	findings->subject = "option";
	if (was_echoed(check, fd)) {
		findings_add(findings, FINDING_OK,
			     "the peer answers with the SMC option in the TCP handshake");
		findings->subject = check_is_path(reason) || reason == SMCR_REASON_PATH_MTU
					    ? "path"
					    : "rendezvous";
	}
	if (check_is_path(reason))
		findings_add(findings, FINDING_PROBLEM,
			     "RoCE, UDP port 4791, does not pass between this host and %s%s\n%s",
			     check->peer_text, peer ? ", says the peer" : "",
			     check_advice(reason, peer));
	else if (peer)
		findings_add(findings, FINDING_PROBLEM, "the peer declines: %s\n%s",
			     smcr_reason_text(reason), check_advice(reason, true));
	else
		findings_add(findings, FINDING_PROBLEM, "%s\n%s", smcr_reason_text(reason),
			     check_advice(reason, false));
	if (check_is_path(reason)) {
		findings->subject = "firewall";
		doctor_firewall(&check->doctor);
	} else if (reason == SMCR_REASON_OPTION_REMOVED && !peer) {
		findings->subject = "bpf-programs";
		doctor_foreign(&check->doctor);
	}
}

static void tell_open(struct check *check)
{
	findings_add(
		&check->doctor.findings, FINDING_PROBLEM,
		"the peer has not answered the rendezvous within %d s: its program has not "
		"accepted the connection, or its smcrd stands still\nlook at the server at port "
		"%u there, and at 'smcrctl doctor' on the peer",
		OUTCOME_PATIENCE_MS / 1000, check->port);
}

/* The connection failed because only the server still had the link group. Now the server has given
 * it up, too, so the next connection may succeed. */
static bool was_stale(const struct check *check)
{
	return check->info.mode != SMCR_MODE_SMCR &&
	       (check->info.reason == SMCR_REASON_OUT_OF_SYNC ||
		check->info.peer_reason == SMCR_REASON_OUT_OF_SYNC);
}

/* @return false: no finding was added, because another connection may have another outcome */
static bool tell_outcome(struct check *check, int fd, bool is_last)
{
	struct findings *findings = &check->doctor.findings;
	int error = smcr_wait_established(fd, OUTCOME_PATIENCE_MS);
	findings->subject = "rendezvous";
	if (error == -ETIMEDOUT) {
		tell_open(check);
		return true;
	}
	int info_error = smcr_get_info(fd, &check->info, sizeof(check->info));
	if (error || info_error) {
		check_not_connected(check, error ? error : info_error);
		return true;
	}
	if (!is_last && was_stale(check))
		return false;
	check->smcr = check->info.mode == SMCR_MODE_SMCR;
	check->reason = check->info.reason;
	check->peer_reason = check->info.peer_reason;
	if (check->smcr)
		tell_smcr(check, fd);
	else
		tell_tcp(check, fd);
	return true;
}

void check_attempt(struct check *check)
{
	char error[SESSION_ERROR_LEN];
	prepare(check);
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, "linkgroup.show", json_object(),
		      &check->groups_before, error))
		check->groups_before = NULL;
	int fd = check_connect(check);
	if (fd < 0)
		return;
	bool told = tell_outcome(check, fd, false);
	close(fd);
	if (told)
		return;
	fd = check_connect_again(check, SMCR_PREFER);
	if (fd < 0) {
		check_not_connected(check, fd);
		return;
	}
	tell_outcome(check, fd, true);
	close(fd);
}
