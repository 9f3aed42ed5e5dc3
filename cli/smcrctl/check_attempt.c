/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/next.h"
#include "proto/ipc/ipc.h"
#include "proto/smcr/reason.h"

#define TCP_PATIENCE_S      5
#define OUTCOME_PATIENCE_MS 15000
#define TEST_PATIENCE_S     15 /* smcrd gives up sooner, with a reason */

/* Where a server is likely, if nobody says. */
static const uint16_t usual_ports[] = { 22, 80, 443 };

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

static void set_port(struct check *check, uint16_t port)
{
	check->port = port;
	if (check->peer.sa.sa_family == AF_INET6)
		check->peer.in6.sin6_port = htons(port);
	else
		check->peer.in.sin_port = htons(port);
}

/* @return a connected descriptor, or a negative errno */
static int try_port(struct check *check, uint16_t port)
{
	const struct timeval patience = { .tv_sec = TCP_PATIENCE_S };
	int fd = socket(check->peer.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	set_port(check, port);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int error = smcr_connect(fd, &check->peer.sa, check->len, SMCR_PREFER);
	if (error == 0)
		return fd;
	close(fd);
	return error == -EINPROGRESS ? -ETIMEDOUT : error;
}

static void not_connected(struct check *check, int error)
{
	struct findings *findings = &check->doctor.findings;
	if (error == -ECONNREFUSED)
		findings_add(findings, FINDING_PROBLEM,
			     "nobody listens at %s port %u, or a firewall refuses it"
			     "\nname a port of a server there: smcrctl check %s PORT",
			     check->peer_text, check->port, check->host);
	else if (error == -ETIMEDOUT)
		findings_add(findings, FINDING_PROBLEM,
			     "TCP to %s port %u is not answered within %d s\nis the host up, and "
			     "does a firewall drop it? 'ip route get %s' tells the way",
			     check->peer_text, check->port, TCP_PATIENCE_S, check->peer_text);
	else if (error == -ECONNRESET)
		findings_add(findings, FINDING_PROBLEM,
			     "the connection to %s port %u was reset, by the peer or because smcrd "
			     "has gone\nlook at the server there, and at journalctl -u smcrd here",
			     check->peer_text, check->port);
	else
		findings_add(findings, FINDING_PROBLEM,
			     "TCP to %s port %u fails: %s\n'ip route "
			     "get %s' tells the way",
			     check->peer_text, check->port, strerror(-error), check->peer_text);
}

static int connect_somewhere(struct check *check)
{
	int error = -ECONNREFUSED;
	size_t n = sizeof(usual_ports) / sizeof(usual_ports[0]);
	if (check->port)
		return try_port(check, check->port);
	for (size_t i = 0; error == -ECONNREFUSED && i < n; i++)
		error = try_port(check, usual_ports[i]);
	return error;
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

/* The rendezvous went over TCP, and the link was made at another time. */
static void test_link(struct check *check)
{
	char error[SESSION_ERROR_LEN];
	struct findings *findings = &check->doctor.findings;
	const struct smcr_info *info = &check->info;
	json_t *result;
	int r = ask_smcrd(check->doctor.socket_path, TEST_PATIENCE_S, "link.test",
			  json_pack("{s:I, s:i}", "linkgroup", (json_int_t)info->linkgroup, "link",
				    info->link),
			  &result, error);
	if (!r) {
		json_decref(result);
		findings_add(findings, FINDING_OK,
			     "UDP port 4791 passes: link %u/%u answers, on RNIC %s with MTU "
			     "%" JSON_INTEGER_FORMAT,
			     info->linkgroup, info->link, info->rnic, check->mtu);
	} else if (r != -ENOENT) {
		findings_add(findings, FINDING_WARNING,
			     "link %u/%u was up before, on RNIC %s with MTU %" JSON_INTEGER_FORMAT
			     "; whether UDP port 4791 passes now was not tested: %s\n"
			     "run as root 'smcrctl link test %u/%u'",
			     info->linkgroup, info->link, info->rnic, check->mtu, error,
			     info->linkgroup, info->link);
	} else {
		check->smcr = false;
		findings_add(findings, FINDING_PROBLEM,
			     "link %u/%u was up before, and RoCE, UDP port 4791, does not pass now "
			     "between this host and %s: %s\n%s",
			     info->linkgroup, info->link, check->peer_text, error,
			     check_advice(SMCR_REASON_CONFIRM_LINK_FAILED, false));
		findings->subject = "firewall";
		doctor_firewall(&check->doctor);
	}
}

static void tell_path(struct check *check)
{
	const struct smcr_info *info = &check->info;
	if (was_there(check, info->linkgroup))
		test_link(check);
	else
		findings_add(&check->doctor.findings, FINDING_OK,
			     "UDP port 4791 passes: link %u/%u is up, on RNIC %s with MTU "
			     "%" JSON_INTEGER_FORMAT,
			     info->linkgroup, info->link, info->rnic, check->mtu);
}

static void tell_smcr(struct check *check)
{
	struct findings *findings = &check->doctor.findings;
	const struct smcr_info *info = &check->info;
	json_t *group = row_of(check, "linkgroup.show", "id", info->linkgroup, NULL);
	json_t *link = row_of(check, "link.show", "linkgroup", info->linkgroup, "number");
	check->version = doctor_number(group, "version", NULL);
	check->mtu = doctor_number(link, "path_mtu", NULL);
	findings->subject = "rendezvous";
	findings_add(findings, FINDING_OK,
		     "both sides agree on version %" JSON_INTEGER_FORMAT
		     " of SMC-R, in link group %u",
		     check->version, info->linkgroup);
	findings->subject = "path";
	tell_path(check);
	json_decref(group);
	json_decref(link);
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
		not_connected(check, error ? error : info_error);
		return true;
	}
	if (!is_last && was_stale(check))
		return false;
	check->smcr = check->info.mode == SMCR_MODE_SMCR;
	check->reason = check->info.reason;
	check->peer_reason = check->info.peer_reason;
	if (check->smcr)
		tell_smcr(check);
	else
		tell_tcp(check, fd);
	return true;
}

/* @return as tell_outcome() */
static bool attempt(struct check *check, bool is_last)
{
	struct findings *findings = &check->doctor.findings;
	findings->subject = "tcp";
	int fd = connect_somewhere(check);
	if (fd < 0) {
		not_connected(check, fd);
		return true;
	}
	if (!is_last)
		findings_add(findings, FINDING_OK, "TCP to %s port %u is answered",
			     check->peer_text, check->port);
	bool told = tell_outcome(check, fd, is_last);
	close(fd);
	return told;
}

void check_attempt(struct check *check)
{
	char error[SESSION_ERROR_LEN];
	prepare(check);
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, "linkgroup.show", json_object(),
		      &check->groups_before, error))
		check->groups_before = NULL;
	if (!attempt(check, false))
		attempt(check, true);
	json_decref(check->groups_before);
}
