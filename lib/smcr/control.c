/* SPDX-License-Identifier: MIT */
/*
 * shutdown() and ioctl(), where a Unix socket answers otherwise than a TCP socket would.
 */
#include <asm/ioctls.h>
#include <linux/sockios.h>
#include <string.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/session.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

/* Is the connect() of this pair end in progress? One that is writable is connected. If it has ended
 * in this moment, a later call tells how. */
static bool is_connecting(int fd)
{
	const struct timespec now = { 0 };
	enum ipc_conn_state state;
	short revents;
	return pre_pending_open_at(fd) && sys_poll_one(fd, POLLOUT, &now, &revents) == 0 &&
	       pre_status_look(fd, &state) == 0 && state == IPC_CONN_CONNECTING;
}

/* Is the connection of this pair end over: reset, or ended in both directions? POLLHUP alone is not
 * enough: the program itself may have shut down both directions while the peer is still there. So
 * the daemon is asked. */
static bool is_over(int fd)
{
	const struct timespec now = { 0 };
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_CONTROL, .name = SIOCOUTQ };
	short revents = 0;
	if (sys_poll_one(fd, 0, &now, &revents) <= 0 || !(revents & POLLHUP))
		return false;
	int rc = pre_ask_sockopt(fd, &option);
	return rc == -ENOTCONN || rc == -ECONNRESET;
}

/* The kernel ends a connect() in progress, whichever direction is shut, and the socket can be
 * connected again. The pair end could only be shut, and connect() would go on. */
int pre_shutdown(int fd, int how)
{
	struct ipc_pair_name pair;
	bool is_pair = pre_pair_name(fd, &pair) == 0;
	if (is_pair && how >= SHUT_RD && how <= SHUT_RDWR && is_connecting(fd))
		return pre_status_disconnect(fd, &pair);
	bool over = is_pair && is_over(fd);
	int rc = sys_result(pre_next.shutdown(fd, how));
	/* If the program closes now, with bytes unread or on their way, its end of the pair tells
	 * smcrd of the close() alone. But the peer's program is to get end of file before the
	 * reset, as with TCP, where FIN comes before the RST. */
	if (rc == 0 && is_pair && how != SHUT_RD && !over)
		pre_tell_shutdown(fd);
	return rc == 0 && over ? -ENOTCONN : rc;
}

/* ---- ioctl() */

/* SIOCOUTQ: how many bytes the peer has not acknowledged. `arg` has the kernel's answer, the memory
 * of bytes that the daemon has not read, which is never 0 on a pair end. `arg` need not be
 * aligned. */
static int count_unacked(int fd, void *arg)
{
	struct ipc_pair_name pair;
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_CONTROL, .name = SIOCOUTQ };
	int value;
	option.length = sizeof(value);
	memcpy(&value, arg, sizeof(value));
	if (value == 0 || pre_pair_name(fd, &pair) < 0)
		return 0;
	if (pre_ask_sockopt(fd, &option) < 0)
		memset(option.value, 0, sizeof(value));
	memcpy(arg, option.value, sizeof(value));
	return 0;
}

static int count_unsent(int fd, const struct ipc_pair_name *pair, void *arg)
{
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_CONTROL, .name = SIOCOUTQNSD };
	int value = 0, tcp = pre_unconnected(pair);
	option.length = sizeof(value);
	if (tcp < 0)
		return tcp;
	/* First the kernel's own answer: `arg` may be invalid. */
	int rc = sys_result(pre_next.ioctl(tcp, SIOCOUTQNSD, arg));
	sys_close(tcp);
	if (rc == 0 && pre_ask_sockopt(fd, &option) == 0)
		memcpy(arg, option.value, sizeof(value));
	return rc;
}

/* Requests that Unix sockets do not know, mostly for addresses of interfaces. Any TCP socket
 * answers them. */
static int ask_another(const struct ipc_pair_name *pair, unsigned long request, void *arg)
{
	int tcp = pre_unconnected(pair);
	if (tcp < 0)
		return tcp;
	int rc = sys_result(pre_next.ioctl(tcp, request, arg));
	sys_close(tcp);
	return rc;
}

int pre_ioctl(int fd, unsigned long request, void *arg)
{
	struct ipc_pair_name pair;
	int rc = sys_result(pre_next.ioctl(fd, request, arg));
	if (request == SIOCOUTQ)
		return rc == 0 ? count_unacked(fd, arg) : rc;
	if (rc != -ENOTTY || pre_pair_name(fd, &pair) < 0)
		return rc;
	return request == SIOCOUTQNSD ? count_unsent(fd, &pair, arg)
				      : ask_another(&pair, request, arg);
}
