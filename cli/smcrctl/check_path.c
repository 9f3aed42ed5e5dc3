/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/check.h"
#include "proto/smcr/reason.h"

#define PATIENCE_MS 10000 /* smcrd notices a dead link sooner */
#define PAUSE_MS    20

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
	json_t *link = check_row(check, "link.show", "linkgroup", check->info.linkgroup, "number");
	check->mtu = doctor_number(link, "path_mtu", NULL);
	json_decref(link);
}

/* The row of the check's connection: the newest with this peer and the local port, which no other
 * connection has. */
static json_t *own_row(const struct check *check, uint16_t port)
{
	char error[SESSION_ERROR_LEN];
	json_t *rows, *row, *found = NULL;
	size_t i;
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, "connection.show",
		      json_pack("{s:s, s:i}", "peer", check->peer_text, "port", port), &rows,
		      error))
		return NULL;
	json_array_foreach(rows, i, row)
	{
		if (!found || doctor_number(row, "id", NULL) > doctor_number(found, "id", NULL))
			found = row;
	}
	json_incref(found);
	json_decref(rows);
	return found;
}

static uint16_t own_port(int fd)
{
	union check_address local = { .sa = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(local);
	if (smcr_getsockname(fd, &local.sa, &len))
		return 0;
	return ntohs(local.sa.sa_family == AF_INET6 ? local.in6.sin6_port : local.in.sin_port);
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Ends this side's stream. smcrd tells the peer so by a message over RoCE, which the peer's RNIC
 * confirms; a server that then closes the connection sends a message over RoCE, too.
 * @return 0; -ETIMEDOUT: nothing has come back; -ECONNRESET: the connection has failed; -ENOENT:
 * smcrd does not show the connection
 */
static int wait_for_round_trip(const struct check *check, int fd)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	int64_t end = now_ms() + PATIENCE_MS;
	uint16_t port = own_port(fd);
	bool seen = false;
	smcr_shutdown(fd, SHUT_WR);
	while (port && now_ms() < end) {
		json_t *row = own_row(check, port);
		bool known = doctor_number(row, "rtt_us", NULL) > 0;
		bool ended = json_is_true(json_object_get(row, "ended"));
		bool failed = json_is_string(json_object_get(row, "error"));
		seen = seen || row;
		json_decref(row);
		if (known || ended || failed)
			return known || !failed ? 0 : -ECONNRESET;
		nanosleep(&pause, NULL);
	}
	return seen ? -ETIMEDOUT : -ENOENT;
}

static void tell_passes(struct check *check, const char *how)
{
	findings_add(&check->doctor.findings, FINDING_OK,
		     "UDP port 4791 passes: link %u/%u %s, on RNIC %s with MTU "
		     "%" JSON_INTEGER_FORMAT,
		     check->info.linkgroup, check->info.link, how, check->info.rnic, check->mtu);
}

static void tell_dead(struct check *check, int error)
{
	struct findings *findings = &check->doctor.findings;
	check->smcr = false;
	findings_add(findings, FINDING_PROBLEM,
		     "link %u/%u was up before, and RoCE, UDP port 4791, does not pass now "
		     "between this host and %s: %s\n%s",
		     check->info.linkgroup, check->info.link, check->peer_text,
		     error == -ETIMEDOUT ? "nothing was confirmed in time"
					 : "the connection was reset",
		     check_advice(SMCR_REASON_CONFIRM_LINK_FAILED, false));
	findings->subject = "firewall";
	doctor_firewall(&check->doctor);
}

/* Finds an active link: the one that `info` names, or another one of the group, which `info` names
 * then. @return false: the group has no active link */
static bool find_active(struct check *check)
{
	char error[SESSION_ERROR_LEN];
	struct smcr_info *info = &check->info;
	json_t *rows, *row, *found = NULL;
	size_t i;
	if (ask_smcrd(check->doctor.socket_path, DOCTOR_PATIENCE_S, "link.show",
		      json_pack("{s:I}", "linkgroup", (json_int_t)info->linkgroup), &rows, error))
		return true; /* smcrd does not say otherwise */
	json_array_foreach(rows, i, row)
	{
		if (strcmp(doctor_text(row, "state"), "active") != 0)
			continue;
		if (!found || doctor_number(row, "number", NULL) == info->link)
			found = row;
	}
	if (found) {
		info->link = (uint32_t)doctor_number(found, "number", NULL);
		snprintf(info->rnic, sizeof(info->rnic), "%s", doctor_text(found, "rnic"));
		check->mtu = doctor_number(found, "path_mtu", NULL);
	}
	json_decref(rows);
	return found;
}

/* If the link has failed meanwhile, the answer came on another link. If the connection has ended
 * already, smcrd no longer tells its link. */
static void tell_confirmed(struct check *check, int fd)
{
	struct smcr_info info;
	uint32_t link = check->info.link;
	if (!smcr_get_info(fd, &info, sizeof(info)) && info.link)
		check->info = info;
	if (!find_active(check)) {
		tell_dead(check, -ECONNRESET);
		return;
	}
	if (check->info.link != link)
		findings_add(&check->doctor.findings, FINDING_WARNING,
			     "link %u/%u was up before, and the connection has left it for link "
			     "%u/%u\n'smcrctl event' says why",
			     check->info.linkgroup, link, check->info.linkgroup, check->info.link);
	tell_passes(check, "answers");
}

/* The rendezvous went over TCP, and the link was set up earlier: RoCE has to be tested now. */
static void test_path(struct check *check, int fd)
{
	const struct smcr_info *info = &check->info;
	int error = wait_for_round_trip(check, fd);
	if (error == -ENOENT)
		findings_add(&check->doctor.findings, FINDING_WARNING,
			     "link %u/%u was up before, on RNIC %s; whether UDP port 4791 passes "
			     "now is not known\nrun as root 'smcrctl link test %u/%u'",
			     info->linkgroup, info->link, info->rnic, info->linkgroup, info->link);
	else if (error)
		tell_dead(check, error);
	else
		tell_confirmed(check, fd);
}

void check_path(struct check *check, int fd)
{
	check->doctor.findings.subject = "path";
	find_mtu(check);
	if (was_there(check, check->info.linkgroup))
		test_path(check, fd);
	else
		tell_passes(check, "is up");
}
