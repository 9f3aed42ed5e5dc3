/* SPDX-License-Identifier: MIT */
/* What became of a connection. smcrd is asked about pair ends, the kernel about most TCP
 * sockets. */
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "lib/libsmcr/call.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"
#include "proto/smcr/reason.h"

/* Programs are built with this layout; new fields must be appended. */
#define FIRST_SIZE 144
_Static_assert(sizeof(struct smcr_info) == FIRST_SIZE, "the layout of version 0.1");

_Static_assert((int)SMCR_MODE_PENDING == (int)IPC_MODE_PENDING &&
		       (int)SMCR_MODE_SMCR == (int)IPC_MODE_SMCR &&
		       (int)SMCR_MODE_TCP == (int)IPC_MODE_TCP,
	       "modes are passed on as they come");
_Static_assert((int)SMCR_INFO_SERVER == (int)IPC_INFO_SERVER &&
		       (int)SMCR_INFO_BYTES == (int)IPC_INFO_BYTES &&
		       (int)SMCR_INFO_RELAYED == (int)IPC_INFO_RELAYED &&
		       (int)SMCR_INFO_ENDED == (int)IPC_INFO_ENDED,
	       "flags are passed on as they come");
_Static_assert(SMCR_RNIC_NAME_MAX == IPC_RNIC_MAX, "names of RNICs are passed on as they come");

/* ---- TCP sockets */

/** @return the kernel's state of the socket (TCP_ESTABLISHED ..), or a negative errno */
static int tcp_state(int fd)
{
	uint8_t state; /* the first byte of struct tcp_info */
	socklen_t len = sizeof(state);
	int rc = sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len);
	return rc < 0 ? rc : state;
}

static int tcp_info(int fd, struct ipc_info *ret_info)
{
	struct ipc_info info = { .mode = IPC_MODE_TCP };
	int state = tcp_state(fd);
	if (state < 0)
		return state;
	if (state == TCP_CLOSE || state == TCP_LISTEN)
		return -ENOTCONN;
	int negotiated = pre_negotiated(fd);
	if (state == TCP_SYN_SENT)
		info.mode = IPC_MODE_PENDING;
	else if (negotiated == IPC_NEGOTIATED_NO)
		info.reason = pre_reason_of_no(fd);
	else if (negotiated == IPC_NEGOTIATED_UNKNOWN || negotiated == IPC_NEGOTIATED_UNCLAIMED)
		info.reason = SMCR_REASON_NOT_CLAIMED;
	/* Otherwise only smcrd can know, if it remembers the connection: it may have declined. */
	else if (pre_ask_info(fd, false, PRE_REPLY_MS, &info) < 0 &&
		 negotiated != IPC_NEGOTIATED_YES)
		info.reason = SMCR_REASON_NO_BPF;
	*ret_info = info;
	return 0;
}

/* ---- which descriptor is it */

/* The error for a descriptor that is neither a pair end nor a TCP socket. */
static int no_connection(int fd)
{
	int type;
	int rc = sys_get_int(fd, SOL_SOCKET, SO_TYPE, &type);
	return rc < 0 ? rc : -EOPNOTSUPP;
}

static bool is_pair(int fd)
{
	struct ipc_pair_name name;
	return pre_pair_name(fd, &name) == 0;
}

static int get_info(int fd, struct ipc_info *ret_info)
{
	if (pre_is_tcp(fd))
		return tcp_info(fd, ret_info);
	return is_pair(fd) ? pre_ask_info(fd, false, PRE_REPLY_MS, ret_info) : no_connection(fd);
}

/* ---- smcr_get_info() */

static void translate(const struct ipc_info *from, struct smcr_info *ret_info)
{
	struct smcr_info info = {
		.mode = from->mode,
		.flags = from->flags,
		.error = from->error,
		.reason = from->reason,
		.peer_reason = from->peer_reason,
		.linkgroup = from->linkgroup,
		.reason_name = from->reason ? smcr_reason_name(from->reason) : "",
		.reason_text = from->reason ? smcr_reason_text(from->reason) : "",
		.peer_reason_text = from->peer_reason ? smcr_reason_text(from->peer_reason) : "",
		.tx_bytes = from->tx_bytes,
		.rx_bytes = from->rx_bytes,
		.rmbe_size = from->rmbe_size,
		.peer_rmbe_size = from->peer_rmbe_size,
		.link = from->link,
	};
	memcpy(info.rnic, from->rnic, sizeof(info.rnic));
	*ret_info = info;
}

static void copy_out(const struct smcr_info *info, struct smcr_info *ret_info, size_t size)
{
	memset(ret_info, 0, size);
	memcpy(ret_info, info, size < sizeof(*info) ? size : sizeof(*info));
}

int smcr_get_info(int fd, struct smcr_info *ret_info, size_t size)
{
	struct call call = call_begin();
	struct ipc_info ipc;
	struct smcr_info info;
	if (call.error)
		return call_end(&call, call.error);
	int rc = !ret_info || size < FIRST_SIZE ? -EINVAL : get_info(fd, &ipc);
	if (rc == 0) {
		translate(&ipc, &info);
		copy_out(&info, ret_info, size);
	}
	return call_end(&call, rc);
}

/* ---- smcr_wait_established() */

/* Wait for the TCP handshake of a socket that no pair end has replaced. */
static int wait_for_tcp(int fd, int timeout_ms)
{
	const struct timespec limit = { .tv_sec = timeout_ms / 1000,
					.tv_nsec = timeout_ms % 1000 * 1000000L };
	short revents;
	int rc = sys_poll_one(fd, POLLOUT, timeout_ms < 0 ? NULL : &limit, &revents);
	if (rc == 0)
		return -ETIMEDOUT;
	if (rc > 0)
		rc = tcp_state(fd);
	return rc == TCP_CLOSE ? -ENOTCONN : rc < 0 ? rc : 0;
}

static int wait_for_outcome(int fd, int timeout_ms, struct ipc_info *ret_info)
{
	int rc;
	do
		rc = pre_ask_info(fd, true, timeout_ms < 0 ? INT_MAX : timeout_ms, ret_info);
	while (rc == -ETIMEDOUT && timeout_ms < 0);
	return rc;
}

static int wait_established(int fd, int timeout_ms)
{
	struct ipc_info info;
	/* Ask without waiting first, so that a short limit is not used up by the request to
	 * smcrd. */
	int rc = get_info(fd, &info);
	if (rc < 0)
		return rc;
	if (info.mode == IPC_MODE_PENDING && timeout_ms == 0)
		return -ETIMEDOUT;
	if (info.mode == IPC_MODE_PENDING && pre_is_tcp(fd))
		return wait_for_tcp(fd, timeout_ms);
	if (info.mode == IPC_MODE_PENDING)
		rc = wait_for_outcome(fd, timeout_ms, &info);
	return rc < 0 ? rc : -info.error;
}

int smcr_wait_established(int fd, int timeout_ms)
{
	struct call call = call_begin();
	return call_end(&call, call.error ? call.error : wait_established(fd, timeout_ms));
}
