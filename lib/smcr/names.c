/* SPDX-License-Identifier: MIT */
/*
 * getsockname() and getpeername(): a pair end's name carries both addresses of its connection, so
 * that these need no daemon and hold after exec and descriptor passing.
 */
#include <string.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

/* The kernel has written an address there: of a Unix socket? */
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
 * A pair end is not writable before the connection is there. One that is tells its peer; before,
 * and when the other end is gone (as after a reset), the daemon knows.
 */
static bool is_connected(int fd)
{
	const struct timespec now = { 0 };
	struct pre_status status;
	short revents = 0;
	bool writable = sys_poll_one(fd, POLLOUT, &now, &revents) > 0;
	bool gone = revents & (POLLERR | POLLHUP);
	if (writable && !gone)
		return true;
	if (pre_status(fd, &status) < 0)
		return !gone;
	switch ((enum ipc_conn_state)status.ipc.state) {
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
	*len = room; /* a call that fails leaves it alone */
	return -ENOTCONN;
}
