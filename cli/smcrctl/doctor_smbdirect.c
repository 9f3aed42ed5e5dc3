/* SPDX-License-Identifier: MIT */
/* SMB Direct: does the SMB server of this host answer, and are the places there where connections
 * begin? */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"

/* "127.0.0.1:445", "[::1]:445" or the path of a Unix socket, as smcrd writes them.
 * @return the length of the address; 0: it is none */
static socklen_t address_of(const char *text, struct sockaddr_storage *ret_addr)
{
	struct sockaddr_un *local = (struct sockaddr_un *)ret_addr;
	struct sockaddr_in *in = (struct sockaddr_in *)ret_addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_addr;
	char host[INET6_ADDRSTRLEN + 2];
	const char *colon = strrchr(text, ':');
	memset(ret_addr, 0, sizeof(*ret_addr));
	if (*text == '/' && strlen(text) < sizeof(local->sun_path)) {
		local->sun_family = AF_UNIX;
		strcpy(local->sun_path, text);
		return sizeof(*local);
	}
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return 0;
	const bool six = *text == '[';
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - (six ? 2 : 0), text + six);
	const uint16_t port = htons((uint16_t)atoi(colon + 1));
	if (six && inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = port;
		return sizeof(*in6);
	}
	if (inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return 0;
	in->sin_family = AF_INET;
	in->sin_port = port;
	return sizeof(*in);
}

/* A connection that is made and ended at once. The server may be on another host: that one is given
 * some time. @return 0 or a positive errno */
static int try_server(const char *text)
{
	const struct timeval patience = { .tv_sec = DOCTOR_PATIENCE_S };
	struct sockaddr_storage addr;
	socklen_t len = address_of(text, &addr);
	int fd = len ? socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	if (fd < 0)
		return len ? errno : EINVAL;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	int error = connect(fd, (const struct sockaddr *)&addr, len) < 0 ? errno : 0;
	close(fd);
	return error == EINPROGRESS ? ETIMEDOUT : error; /* the time is over */
}

static void look_at_server(struct doctor *doctor, const char *server)
{
	int error = doctor->elsewhere ? 0 : try_server(server);
	if (error == EACCES && !doctor->root)
		return;
	if (error == ECONNREFUSED || error == ENOENT)
		findings_add(
			&doctor->findings, FINDING_PROBLEM,
			"nobody listens at %s, where clients of SMB Direct are led to\nstart the "
			"SMB server, or let smb_server in smcrd.conf be its address; Samba "
			"listens there with 'interfaces = lo' and 'bind interfaces only = yes'",
			server);
	else if (error)
		findings_add(
			&doctor->findings, FINDING_PROBLEM,
			"clients of SMB Direct are led to %s, which cannot be reached: %s\nlet "
			"smb_server in smcrd.conf be the address of the SMB server",
			server, strerror(error));
	else if (!doctor->elsewhere)
		findings_add(&doctor->findings, FINDING_OK,
			     "the server for clients of SMB Direct listens at %s", server);
}

/* Where hardware RNICs are, the kernel decides about ports below 1024. */
static const char *advice_of(const json_t *listener)
{
	const bool server = !strcmp(doctor_text(listener, "side"), "server");
	switch (doctor_number(listener, "errno", NULL)) {
	case EACCES:
	case EPERM:
		return "smcrd has no CAP_NET_BIND_SERVICE, which ports below 1024 take: 'sysctl -w "
		       "net.ipv4.ip_unprivileged_port_start=445' lets it, and every user of this "
		       "host, listen from there on, then 'smcrctl config reload' tries again; "
		       "clients that try port 5445 do not need 445";
	case EADDRINUSE:
		return server ? "another program has the port, perhaps the kernel's SMB server: "
				"'rdma resource show cm_id' lists them; end it or remove "
				"smb_server; 'smcrctl config reload' tries again"
			      : "'ss -ltnp' shows which program listens there; 'smcrctl config "
				"reload' tries again";
	case EADDRNOTAVAIL:
		return "no interface of this host has the address: correct smb_client in "
		       "smcrd.conf";
	default: return "'smcrctl config reload' tries again";
	}
}

static void look_at_listener(struct doctor *doctor, const json_t *listener)
{
	const char *error = doctor_text(listener, "error");
	if (*error)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "no connections of SMB Direct at %s: %s\n%s",
			     doctor_text(listener, "listens"), error, advice_of(listener));
}

/* Nothing is said where SMB Direct is not configured. */
void doctor_smbdirect(struct doctor *doctor)
{
	char error[SESSION_ERROR_LEN];
	const char *server = NULL;
	json_t *result, *listener;
	size_t i;
	if (!doctor->info || ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "smbdirect.show",
				       json_object(), &result, error))
		return;
	json_array_foreach(json_object_get(result, "listeners"), i, listener)
	{
		look_at_listener(doctor, listener);
		if (!strcmp(doctor_text(listener, "side"), "server"))
			server = doctor_text(listener, "leads_to");
	}
	if (server)
		look_at_server(doctor, server);
	json_decref(result);
}
