/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/next.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

#define OUTCOME_PATIENCE_MS 15000
#define TEST_PATIENCE_S     15 /* smcrd gives up sooner, with a reason */
#define MOST_LINKS          3  /* that are tested before the path counts as dead */

/* What the environment says of connections is for programs, and not for this one. */
static void prepare(const struct check *check)
{
	pre_ready();
	pre_set_daemon(check->doctor.socket_path);
	pre_settings.require = pre_settings.verbose = false;
	pre_settings.sharing = PRE_SHARING_NO;
	if (check->program)
		pre_settings.program = ipc_program_id(check->program, strlen(check->program));
}

/* ---- what became of it ---- */

/* The row of a view that has these numbers; a new reference, or NULL. */
static json_t *row_of(const struct check *check, const char *method, const char *key,
		      json_int_t group, const char *number_key)
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

static bool was_there(const struct check *check, json_int_t group)
{
	size_t i;
	json_t *row;
	json_array_foreach(check->groups_before, i, row)
	{
		if (doctor_number(row, "id", NULL) == group)
			return true;
	}
	return false;
}

static void find_mtu(struct check *check)
{
	json_t *link = row_of(check, "link.show", "linkgroup", check->info.linkgroup, "number");
	check->mtu = doctor_number(link, "path_mtu", NULL);
	json_decref(link);
}

/* The link has failed: does the connection go on on another one? */
static bool has_moved(struct check *check, int fd)
{
	struct smcr_info info;
	if (smcr_get_info(fd, &info, sizeof(info)) || info.mode != SMCR_MODE_SMCR ||
	    info.flags & SMCR_INFO_ENDED || !info.link || info.link == check->info.link)
		return false;
	check->info = info;
	find_mtu(check);
	return true;
}

/* @return 0, or as ask_smcrd() */
static int test_link(const struct check *check, char ret_error[SESSION_ERROR_LEN])
{
	const struct smcr_info *info = &check->info;
	json_t *result;
	int r = ask_smcrd(check->doctor.socket_path, TEST_PATIENCE_S, "link.test",
			  json_pack("{s:I, s:i}", "linkgroup", (json_int_t)info->linkgroup, "link",
				    info->link),
			  &result, ret_error);
	if (!r)
		json_decref(result);
	return r;
}

static void tell_passes(struct check *check, const char *how)
{
	findings_add(&check->doctor.findings, FINDING_OK,
		     "UDP port 4791 passes: link %u/%u %s, on RNIC %s with MTU "
		     "%" JSON_INTEGER_FORMAT,
		     check->info.linkgroup, check->info.link, how, check->info.rnic, check->mtu);
}

static void tell_untested(struct check *check, const char *error)
{
	const struct smcr_info *info = &check->info;
	findings_add(&check->doctor.findings, FINDING_WARNING,
		     "link %u/%u was up before, on RNIC %s with MTU %" JSON_INTEGER_FORMAT
		     "; whether UDP port 4791 passes now was not tested: %s"
		     "\nrun as root 'smcrctl link test %u/%u'",
		     info->linkgroup, info->link, info->rnic, check->mtu, error, info->linkgroup,
		     info->link);
}

static void tell_dead(struct check *check, const char *error)
{
	struct findings *findings = &check->doctor.findings;
	check->smcr = false;
	findings_add(findings, FINDING_PROBLEM,
		     "link %u/%u was up before, and RoCE, UDP port 4791, does not pass now "
		     "between this host and %s: %s\n%s",
		     check->info.linkgroup, check->info.link, check->peer_text, error,
		     check_advice(SMCR_REASON_CONFIRM_LINK_FAILED, false));
	findings->subject = "firewall";
	doctor_firewall(&check->doctor);
}

/* The rendezvous went over TCP, and the link was made at another time. */
static void test_path(struct check *check, int fd)
{
	char error[SESSION_ERROR_LEN];
	for (int i = 0; i < MOST_LINKS; i++) {
		uint32_t link = check->info.link;
		int r = test_link(check, error);
		if (!r) {
			tell_passes(check, "answers");
			return;
		}
		if (r != -ENOENT) {
			tell_untested(check, error);
			return;
		}
		if (!has_moved(check, fd))
			break;
		findings_add(&check->doctor.findings, FINDING_WARNING,
			     "link %u/%u was up before, and does not answer now: %s"
			     "\nconnections go on on link %u/%u; 'smcrctl event' tells more",
			     check->info.linkgroup, link, error, check->info.linkgroup,
			     check->info.link);
	}
	tell_dead(check, error);
}

static void tell_smcr(struct check *check, int fd)
{
	struct findings *findings = &check->doctor.findings;
	json_t *group = row_of(check, "linkgroup.show", "id", check->info.linkgroup, NULL);
	check->version = doctor_number(group, "version", NULL);
	json_decref(group);
	find_mtu(check);
	findings->subject = "rendezvous";
	findings_add(findings, FINDING_OK,
		     "both sides agree on version %" JSON_INTEGER_FORMAT
		     " of SMC-R, in link group %u",
		     check->version, check->info.linkgroup);
	findings->subject = "path";
	if (was_there(check, check->info.linkgroup))
		test_path(check, fd);
	else
		tell_passes(check, "is up");
}

/* What smcrd relays was handed over, and had the option in both directions. Any other socket knows
 * itself what the handshake has come to. */
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

/* A group that only the server still had: after this connection neither has it. */
static bool was_stale(const struct check *check)
{
	return check->info.mode != SMCR_MODE_SMCR &&
	       (check->info.reason == SMCR_REASON_OUT_OF_SYNC ||
		check->info.peer_reason == SMCR_REASON_OUT_OF_SYNC);
}

/* @return false: nothing is told, for another connection may come to another outcome */
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
