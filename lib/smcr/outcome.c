/* SPDX-License-Identifier: MIT */
#include "lib/smcr/outcome.h"

#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

static bool is_blocking(int fd)
{
	int flags = sys_fcntl(fd, F_GETFL, 0);
	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Wait as the kernel does on a blocking socket: until the outcome is known, a signal comes, or
 * SO_SNDTIMEO ends. With any outcome the pair end becomes writable or hangs up. */
static int wait_writable(int fd)
{
	struct timeval limit = { 0 };
	socklen_t len = sizeof(limit);
	short revents;
	sys_getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &len);
	const struct timespec ts = { .tv_sec = limit.tv_sec, .tv_nsec = limit.tv_usec * 1000 };
	bool limited = limit.tv_sec || limit.tv_usec;
	int rc = sys_poll_one(fd, POLLOUT, limited ? &ts : NULL, &revents);
	return rc == 0 ? -EALREADY : rc;
}

static int report_outcome(int fd, const struct ipc_status *status)
{
	switch ((enum ipc_conn_state)status->state) {
	case IPC_CONN_CONNECTING: return -EALREADY;
	case IPC_CONN_FAILED: return status->error ? -status->error : -ECONNABORTED;
	case IPC_CONN_OPEN:
	case IPC_CONN_SMCR:
	case IPC_CONN_RELAY:
	case IPC_CONN_CLOSED: break;
	}
	return pre_pair_tell_success(fd) ? 0 : -EISCONN;
}

static int kernel_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return sys_result(pre_next.connect(fd, addr, len));
}

/* The state of the connection. A blocking socket waits until it is known whether it is connected.
 * @return 0, or what connect() returns */
static int state_for(int fd, struct pre_status *ret_status)
{
	if (pre_status(fd, ret_status) < 0)
		return -EISCONN;
	if (ret_status->ipc.state != IPC_CONN_CONNECTING || !is_blocking(fd))
		return 0;
	int rc = wait_writable(fd);
	if (rc < 0)
		return rc;
	return pre_status(fd, ret_status) < 0 ? -EISCONN : 0;
}

int pre_outcome_connect(int fd, const struct sockaddr *addr, socklen_t len,
			const struct ipc_pair_name *name)
{
	struct pre_status status;
	/* Have the kernel read the address. It then refuses one that is not a Unix socket's. */
	if (kernel_connect(fd, addr, len) == -EFAULT)
		return -EFAULT;
	if (len >= sizeof(addr->sa_family) && addr->sa_family == AF_UNSPEC)
		return pre_status_disconnect(fd, name);
	int rc = state_for(fd, &status);
	if (rc < 0)
		return rc;
	/* The TCP socket is back: the kernel knows whether it has reported success before. */
	if (status.taken_back && status.ipc.state != IPC_CONN_FAILED)
		return kernel_connect(fd, addr, len);
	if (status.taken_back)
		sys_disconnect(fd); /* or the kernel would report this failure again */
	return report_outcome(fd, &status.ipc);
}

int pre_take_back(int fd)
{
	struct ipc_pair_name name;
	struct pre_status status;
	if (pre_is_tcp(fd))
		return 0;
	int rc = pre_pair_name(fd, &name);
	if (rc == 0)
		rc = pre_status_taking_back(fd, &status);
	if (rc < 0)
		return rc;
	if (!status.taken_back)
		return status.ipc.error ? -status.ipc.error : -EBUSY;
	if (status.ipc.state == IPC_CONN_FAILED)
		sys_disconnect(fd);
	return 0;
}
