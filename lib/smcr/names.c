/* SPDX-License-Identifier: MIT */
/*
 * getsockname() and getpeername(): the name of a pair end carries both addresses of its connection.
 * So the answer needs no daemon, and is right after exec and descriptor passing too.
 */
#include <string.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

/* Is the address that the kernel has written a Unix socket's? */
static bool answered_unix(const struct sockaddr *addr, const socklen_t *len, socklen_t room)
{
	socklen_t written = *len < room ? *len : room;
	return written < sizeof(addr->sa_family) || addr->sa_family == AF_UNIX;
}

static int answer(const union ipc_addr *from, struct sockaddr *addr, socklen_t *len, socklen_t room)
{
	socklen_t size = from->sa.sa_family == AF_INET6 ? sizeof(from->in6) : sizeof(from->in);
	memcpy(addr, from, size < room ? size : room);
	*len = size;
	return 0;
}

/*
 * A pair end is not writable before it is connected. So a writable one has a peer. Otherwise, or if
 * the daemon's end is closed (as after a reset), the daemon is asked. It is asked for the state
 * only: some programs call getpeername(), and then read() to learn why connect() has failed.
 */
static bool is_connected(int fd)
{
	const struct timespec now = { 0 };
	enum ipc_conn_state state;
	short revents = 0;
	bool writable = sys_poll_one(fd, POLLOUT, &now, &revents) > 0;
	bool gone = revents & (POLLERR | POLLHUP);
	if (writable && !gone)
		return true;
	if (pre_status_look(fd, &state) < 0)
		return !gone;
	switch (state) {
	case IPC_CONN_CONNECTING:
	case IPC_CONN_FAILED: return false;
	case IPC_CONN_OPEN:
	case IPC_CONN_SMCR:
	case IPC_CONN_RELAY: return true;
	case IPC_CONN_CLOSED: break;
	}
	return !gone;
}

int pre_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct ipc_pair_name name;
	const socklen_t room = pre_room_at(len);
	int rc = sys_result(pre_next.getsockname(fd, addr, len));
	if (rc < 0 || !answered_unix(addr, len, room) || pre_pair_name(fd, &name) < 0)
		return rc;
	return answer(&name.local, addr, len, room);
}

int pre_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct ipc_pair_name name;
	const socklen_t room = pre_room_at(len);
	int rc = sys_result(pre_next.getpeername(fd, addr, len));
	if (rc < 0 || !answered_unix(addr, len, room) || pre_pair_name(fd, &name) < 0)
		return rc;
	if (is_connected(fd))
		return answer(&name.peer, addr, len, room);
	*len = room; /* a call that fails does not change it */
	return -ENOTCONN;
}
