/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/smcrctl/check.h"

#define COUNT(array)       (sizeof(array) / sizeof((array)[0]))
#define TCP_PATIENCE_S     5
#define GUESS_PATIENCE_S   2 /* for a usual port, where there may be no server */
#define DISCARD_PORT       9
#define FAILURE_LEN        64
#define MOST_FAILURES_TOLD 16

/* Ports that are tried if none is given. */
static const uint16_t usual_ports[] = { 22, 80, 443 };

/* Places that did not take the connection. */
struct failed {
	size_t num; /* of all; only the first ones are kept */
	struct {
		char address[CHECK_ADDRESS_LEN];
		uint16_t port;
		int error; /* negative errno */
	} places[MOST_FAILURES_TOLD];
};

/* ---- addresses ---- */

static void address_text(const union check_address *address, char ret_text[CHECK_ADDRESS_LEN])
{
	const void *ip = address->sa.sa_family == AF_INET6 ? (const void *)&address->in6.sin6_addr
							   : (const void *)&address->in.sin_addr;
	if (!inet_ntop(address->sa.sa_family, ip, ret_text, CHECK_ADDRESS_LEN))
		*ret_text = '\0';
}

static void put_port(union check_address *address, uint16_t port)
{
	if (address->sa.sa_family == AF_INET6)
		address->in6.sin6_port = htons(port);
	else
		address->in.sin_port = htons(port);
}

/* Finds the local address that a connection would have. connect() of UDP tells without a packet. */
static void find_local(struct check *check)
{
	union check_address peer = check->peer;
	socklen_t len = sizeof(check->local);
	int fd = socket(peer.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	put_port(&peer, DISCARD_PORT);
	*check->local_text = '\0';
	if (fd >= 0 && connect(fd, &peer.sa, check->len) == 0 &&
	    getsockname(fd, &check->local.sa, &len) == 0)
		address_text(&check->local, check->local_text);
	if (fd >= 0)
		close(fd);
}

void check_set_place(struct check *check, const struct addrinfo *address, uint16_t port)
{
	check->len = address->ai_addrlen;
	memcpy(&check->peer, address->ai_addr, address->ai_addrlen);
	put_port(&check->peer, port);
	check->port = port;
	address_text(&check->peer, check->peer_text);
	find_local(check);
}

/* "fd00::2, 10.0.0.2" */
static void list_addresses(const struct addrinfo *found, char *text, size_t len)
{
	char one[CHECK_ADDRESS_LEN];
	size_t at = 0;
	for (const struct addrinfo *address = found; address && at < len;
	     address = address->ai_next) {
		union check_address copy;
		memcpy(&copy, address->ai_addr, address->ai_addrlen);
		address_text(&copy, one);
		at += (size_t)snprintf(text + at, len - at, "%s%s", at ? ", " : "", one);
	}
}

bool check_resolve(struct check *check)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct findings *findings = &check->doctor.findings;
	char text[512];
	findings->subject = "name";
	int error = getaddrinfo(check->host, NULL, &hints, &check->addresses);
	if (error) {
		check->addresses = NULL;
		findings_add(findings, FINDING_PROBLEM,
			     "%s has no address: %s\nis the name right? "
			     "'getent ahosts %s' asks the same",
			     check->host, gai_strerror(error), check->host);
		return false;
	}
	check_set_place(check, check->addresses, check->wanted_port);
	list_addresses(check->addresses, text, sizeof(text));
	if (strcmp(check->host, text) != 0)
		findings_add(findings, FINDING_OK, "%s is %s", check->host, text);
	return true;
}

/* ---- one place ---- */

static int patience_s(const struct check *check)
{
	return check->wanted_port ? TCP_PATIENCE_S : GUESS_PATIENCE_S;
}

int check_connect_again(struct check *check, enum smcr_policy policy)
{
	const struct timeval patience = { .tv_sec = patience_s(check) };
	int fd = socket(check->peer.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int error = smcr_connect(fd, &check->peer.sa, check->len, policy);
	if (error == 0)
		return fd;
	close(fd);
	return error == -EINPROGRESS ? -ETIMEDOUT : error;
}

void check_not_connected(struct check *check, int error)
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
			     "does a firewall drop it? 'ip route get %s' shows the route",
			     check->peer_text, check->port, patience_s(check), check->peer_text);
	else if (error == -ECONNRESET)
		findings_add(findings, FINDING_PROBLEM,
			     "the connection to %s port %u was reset, by the peer or because smcrd "
			     "has gone\nlook at the server there, and at journalctl -u smcrd here",
			     check->peer_text, check->port);
	else
		findings_add(findings, FINDING_PROBLEM,
			     "TCP to %s port %u fails: %s\n'ip route "
			     "get %s' shows the route",
			     check->peer_text, check->port, strerror(-error), check->peer_text);
}

/* ---- all places ---- */

static void note(struct failed *failed, const struct check *check, int error)
{
	if (failed->num < MOST_FAILURES_TOLD) {
		memcpy(failed->places[failed->num].address, check->peer_text,
		       sizeof(check->peer_text));
		failed->places[failed->num].port = check->port;
		failed->places[failed->num].error = error;
	}
	failed->num++;
}

static const char *why(const struct check *check, int error, char text[FAILURE_LEN])
{
	if (error == -ECONNREFUSED)
		snprintf(text, FAILURE_LEN, "refused");
	else if (error == -ETIMEDOUT)
		snprintf(text, FAILURE_LEN, "no answer within %d s", patience_s(check));
	else
		snprintf(text, FAILURE_LEN, "%s", strerror(-error));
	return text;
}

/* A program that connects to this port tries the failed addresses first. */
static void tell_passed_over(struct check *check, const struct failed *failed)
{
	char text[FAILURE_LEN];
	for (size_t i = 0; i < failed->num && i < MOST_FAILURES_TOLD; i++)
		if (failed->places[i].port == check->port)
			findings_add(&check->doctor.findings, FINDING_WARNING,
				     "%s port %u does not take connections (%s); programs try it "
				     "before %s\nremove the address from those of the name %s, or "
				     "let the server listen there",
				     failed->places[i].address, check->port,
				     why(check, failed->places[i].error, text), check->peer_text,
				     check->host);
}

static void tell_failed(struct check *check, const struct failed *failed)
{
	char text[1024], one[FAILURE_LEN];
	size_t at = 0, told = failed->num < MOST_FAILURES_TOLD ? failed->num : MOST_FAILURES_TOLD;
	if (failed->num == 1) {
		check_not_connected(check, failed->places[0].error);
		return;
	}
	for (size_t i = 0; i < told && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s port %u (%s)",
				       i ? ", " : "", failed->places[i].address,
				       failed->places[i].port,
				       why(check, failed->places[i].error, one));
	findings_add(&check->doctor.findings, FINDING_PROBLEM,
		     "none of the %zu places that were tried takes connections: %s\n"
		     "is the host up, and does a firewall drop or refuse them? Name a port of a "
		     "server there: smcrctl check %s PORT",
		     failed->num, text, check->host);
}

/* @return the descriptor of a connection as a program would have it, or a negative errno */
static int try_place(struct check *check, bool only, bool *ret_smcr)
{
	*ret_smcr = check_judge(check);
	if (!*ret_smcr && only)
		return -ECANCELED; /* smcrd's judgement is the answer: no connection is needed */
	return check_connect_again(check, *ret_smcr ? SMCR_PREFER : SMCR_NEVER);
}

int check_connect(struct check *check)
{
	const uint16_t *ports = check->wanted_port ? &check->wanted_port : usual_ports;
	size_t num_ports = check->wanted_port ? 1 : COUNT(usual_ports);
	bool only = num_ports == 1 && !check->addresses->ai_next, smcr = false;
	struct failed failed = { 0 };
	int fd = -1;
	for (size_t i = 0; fd < 0 && i < num_ports; i++) {
		const struct addrinfo *address = check->addresses;
		for (; fd < 0 && address; address = address->ai_next) {
			check_set_place(check, address, ports[i]);
			fd = try_place(check, only, &smcr);
			if (fd < 0)
				note(&failed, check, fd);
		}
	}
	check_tell_judgement(check);
	check->doctor.findings.subject = "tcp";
	if (fd >= 0) {
		tell_passed_over(check, &failed);
		findings_add(&check->doctor.findings, FINDING_OK, "TCP to %s port %u is answered",
			     check->peer_text, check->port);
	} else if (fd != -ECANCELED) {
		tell_failed(check, &failed);
	}
	if (fd >= 0 && !smcr) {
		close(fd);
		fd = -1;
	}
	return fd < 0 ? -1 : fd;
}
