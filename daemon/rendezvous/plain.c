/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51 /* since 6.3; newer than Debian 12's headers */
#endif

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* Reset the connection; the socket is as before its connect() then. */
static int disconnect(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	return connect(fd, &none, sizeof(none)) < 0 ? -errno : 0;
}

static int connect_to(int fd, const union ipc_addr *peer)
{
	socklen_t len = peer->sa.sa_family == AF_INET6 ? sizeof(peer->in6) : sizeof(peer->in);
	if (connect(fd, &peer->sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	return 0;
}

/* A port range of one port: lower and upper bound in one number. */
static int range_of(const union ipc_addr *local)
{
	uint32_t port = ntohs(local->in.sin_port); /* has the same offset in both families */
	return (int)(port << 16 | port);
}

int rdv_connect_plain(int fd, const union ipc_addr *local, const union ipc_addr *peer)
{
	int flags = fcntl(fd, F_GETFL);
	int r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0)
		r = disconnect(fd);
	if (r == 0)
		r = set_int(fd, IPC_SOL_SMCR, IPC_SO_CLAIM, 0);
	if (r < 0 && r != -ENOPROTOOPT &&
	    r != -EOPNOTSUPP) /* the option is not known: there is no claim */
		return r;
	/* Unlike bind(), a range lets other connections use the port at the same time. */
	int range = 0; /* back to the program's own */
	socklen_t len = sizeof(range);
	bool kept = getsockopt(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range, &len) == 0 &&
		    set_int(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, range_of(local)) == 0;
	r = connect_to(fd, peer);
	if (kept)
		set_int(fd, IPPROTO_IP, IP_LOCAL_PORT_RANGE, range);
	if (kept && (r == -EADDRNOTAVAIL || r == -EADDRINUSE))
		r = connect_to(fd, peer);
	return r;
}
