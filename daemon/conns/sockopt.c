/* SPDX-License-Identifier: MIT */
/*
 * Socket options of the TCP connection behind a pair end (SOCK-4). TCP_NODELAY is one of them:
 * SMC-R does not look at it (SOCK-3). The sizes of buffers are in rendezvous.c. The kernel answers
 * keepalives that come in on the TCP connection (TEST-6).
 *
 * The daemon makes the system call for the program. So it lets only options with plain values
 * through (none whose value has memory addresses, none that changes what the stream is), and it
 * sets them without its privileges.
 */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/conns/internal.h"

enum {
	GET = 1 << IPC_SOCKOPT_GET,
	SET = 1 << IPC_SOCKOPT_SET,
	ANYBODY = 1 << 7, /* the kernel asks for no privilege, whatever the value */
};

/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, by which proxies ask where a redirected connection was
 * going. The kernel's headers that define them do not go together with the C library's. */
#define ORIGINAL_DESTINATION 80

static const struct option {
	int level, name;
	unsigned int allowed;
} options[] = {
	{ SOL_SOCKET, SO_ACCEPTCONN, GET },
	{ SOL_SOCKET, SO_BINDTODEVICE, GET },
	{ SOL_SOCKET, SO_BROADCAST, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_BSDCOMPAT, GET | SET },
	{ SOL_SOCKET, SO_BUSY_POLL, GET | SET },
	{ SOL_SOCKET, SO_COOKIE, GET },
	{ SOL_SOCKET, SO_DEBUG, GET | SET },
	{ SOL_SOCKET, SO_DETACH_FILTER, SET },
	{ SOL_SOCKET, SO_DOMAIN, GET },
	{ SOL_SOCKET, SO_DONTROUTE, GET | SET },
	{ SOL_SOCKET, SO_INCOMING_CPU, GET | SET },
	{ SOL_SOCKET, SO_INCOMING_NAPI_ID, GET },
	{ SOL_SOCKET, SO_KEEPALIVE, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_LOCK_FILTER, GET },
	{ SOL_SOCKET, SO_MARK, GET | SET },
	{ SOL_SOCKET, SO_MAX_PACING_RATE, GET | SET },
	{ SOL_SOCKET, SO_MEMINFO, GET },
	{ SOL_SOCKET, SO_NETNS_COOKIE, GET },
	{ SOL_SOCKET, SO_NO_CHECK, GET | SET },
	{ SOL_SOCKET, SO_OOBINLINE, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_PEERGROUPS, GET },
	{ SOL_SOCKET, SO_PRIORITY, GET | SET },
	{ SOL_SOCKET, SO_PROTOCOL, GET },
	{ SOL_SOCKET, SO_RCVBUF, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_RCVBUFFORCE, SET },
	{ SOL_SOCKET, SO_REUSEADDR, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_REUSEPORT, GET | SET },
	{ SOL_SOCKET, SO_RXQ_OVFL, GET | SET },
	{ SOL_SOCKET, SO_SELECT_ERR_QUEUE, GET | SET },
	{ SOL_SOCKET, SO_SNDBUF, GET | SET | ANYBODY },
	{ SOL_SOCKET, SO_SNDBUFFORCE, SET },
	{ SOL_SOCKET, SO_TIMESTAMPING_NEW, GET },
	{ SOL_SOCKET, SO_TIMESTAMPING_OLD, GET },
	{ SOL_SOCKET, SO_TXREHASH, GET | SET },
	{ SOL_SOCKET, SO_TXTIME, GET },
	{ SOL_SOCKET, SO_TYPE, GET },
	{ SOL_SOCKET, SO_ZEROCOPY, GET },
	{ IPPROTO_TCP, TCP_CC_INFO, GET },
	{ IPPROTO_TCP, TCP_CONGESTION, GET | SET },
	{ IPPROTO_TCP, TCP_CORK, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_FASTOPEN, GET | SET },
	{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, GET | SET }, /* has no effect on a connected socket */
	{ IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, GET | SET },
	{ IPPROTO_TCP, TCP_INFO, GET },
	{ IPPROTO_TCP, TCP_INQ, GET },
	{ IPPROTO_TCP, TCP_KEEPCNT, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_KEEPIDLE, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_KEEPINTVL, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_LINGER2, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_MAXSEG, GET | SET },
	{ IPPROTO_TCP, TCP_NODELAY, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_QUICKACK, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_QUEUE_SEQ, GET },
	{ IPPROTO_TCP, TCP_REPAIR, GET },
	{ IPPROTO_TCP, TCP_REPAIR_QUEUE, GET },
	{ IPPROTO_TCP, TCP_REPAIR_WINDOW, GET },
	{ IPPROTO_TCP, TCP_SAVED_SYN, GET },
	{ IPPROTO_TCP, TCP_SYNCNT, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_THIN_DUPACK, GET | SET },
	{ IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, GET | SET },
	{ IPPROTO_TCP, TCP_TIMESTAMP, GET },
	{ IPPROTO_TCP, TCP_ULP, GET },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, GET | SET | ANYBODY },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, GET | SET },
	{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, GET | SET },
	{ IPPROTO_IP, IP_FREEBIND, GET | SET },
	{ IPPROTO_IP, IP_MINTTL, GET | SET },
	{ IPPROTO_IP, IP_MTU, GET },
	{ IPPROTO_IP, IP_MTU_DISCOVER, GET | SET },
	{ IPPROTO_IP, IP_OPTIONS, GET | SET },
	{ IPPROTO_IP, IP_PKTINFO, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_PKTOPTIONS, GET }, /* the TOS of the peer, say */
	{ IPPROTO_IP, IP_RECVERR, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_RECVERR_RFC4884, GET | SET },
	{ IPPROTO_IP, IP_RECVOPTS, GET | SET },
	{ IPPROTO_IP, IP_RECVORIGDSTADDR, GET | SET },
	{ IPPROTO_IP, IP_RECVTOS, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_RECVTTL, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_RETOPTS, GET | SET },
	{ IPPROTO_IP, IP_TOS, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_TRANSPARENT, GET | SET },
	{ IPPROTO_IP, IP_TTL, GET | SET | ANYBODY },
	{ IPPROTO_IP, IP_UNICAST_IF, GET | SET },
	{ IPPROTO_IP, ORIGINAL_DESTINATION, GET },
	{ IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, GET | SET },
	{ IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, GET | SET },
	{ IPPROTO_IPV6, IPV6_DONTFRAG, GET | SET },
	{ IPPROTO_IPV6, IPV6_FREEBIND, GET | SET },
	{ IPPROTO_IPV6, IPV6_MINHOPCOUNT, GET | SET },
	{ IPPROTO_IPV6, IPV6_MTU, GET },
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVERR, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVPATHMTU, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, GET | SET },
	{ IPPROTO_IPV6, IPV6_RECVTCLASS, GET | SET | ANYBODY },
	{ IPPROTO_IPV6, IPV6_TCLASS, GET | SET | ANYBODY },
	{ IPPROTO_IPV6, IPV6_TRANSPARENT, GET | SET },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, GET | SET | ANYBODY },
	{ IPPROTO_IPV6, IPV6_UNICAST_IF, GET | SET },
	{ IPPROTO_IPV6, IPV6_V6ONLY, GET | SET },
	{ IPPROTO_IPV6, ORIGINAL_DESTINATION, GET },
};

/* @return what the table allows, or 0 */
static unsigned int allowed(const struct ipc_sockopt *msg)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].level == msg->level && options[i].name == msg->name)
			return options[i].allowed & 1u << msg->op ? options[i].allowed : 0;
	return 0;
}

static int kernel_sockopt(int fd, struct ipc_sockopt *msg)
{
	socklen_t len = msg->length;
	if (msg->op == IPC_SOCKOPT_SET)
		return setsockopt(fd, msg->level, msg->name, msg->value, len) < 0 ? errno : 0;
	memset(msg->value, 0, sizeof(msg->value));
	if (getsockopt(fd, msg->level, msg->name, msg->value, &len) < 0)
		return errno;
	msg->length = (uint16_t)(len > sizeof(msg->value) ? sizeof(msg->value) : len);
	return 0;
}

struct unprivileged_call {
	int fd;
	struct ipc_sockopt *msg;
	int error;
};

static int without_privileges(int fd, struct ipc_sockopt *msg)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct full[_LINUX_CAPABILITY_U32S_3], none[2];
	if (syscall(SYS_capget, &header, full) < 0)
		return errno;
	memcpy(none, full, sizeof(none));
	none[0].effective = none[1].effective = 0;
	if (syscall(SYS_capset, &header, none) < 0)
		return errno;
	return kernel_sockopt(fd, msg);
}

static void *unprivileged_thread(void *arg)
{
	struct unprivileged_call *call = arg;
	call->error = without_privileges(call->fd, call->msg);
	return NULL;
}

/* The kernel decides what a caller may set, and would judge by the daemon's capabilities. So the
 * call is made without any. That takes a thread, which takes as long as everything else about the
 * request: capabilities belong to a thread, and uverbs refuses requests of a thread that has
 * changed its credentials since it opened the device. */
static int unprivileged_sockopt(int fd, struct ipc_sockopt *msg)
{
	struct unprivileged_call call = { .fd = fd, .msg = msg };
	pthread_t thread;
	int error = pthread_create(&thread, NULL, unprivileged_thread, &call);
	if (error)
		return error;
	pthread_join(thread, NULL);
	return call.error;
}

/* As the kernel does, keep of l_onoff whether it is set, and l_linger only where it is. */
static int set_linger(const struct ipc_sockopt *msg, struct linger *linger)
{
	struct linger wanted;
	if (msg->length < sizeof(wanted))
		return EINVAL;
	memcpy(&wanted, msg->value, sizeof(wanted));
	linger->l_onoff = wanted.l_onoff != 0;
	if (wanted.l_onoff)
		linger->l_linger = wanted.l_linger;
	return 0;
}

static int linger_option(struct ipc_sockopt *msg, struct linger *linger)
{
	if (msg->op == IPC_SOCKOPT_SET)
		return set_linger(msg, linger);
	if (msg->length > sizeof(*linger))
		msg->length = sizeof(*linger);
	memcpy(msg->value, linger, msg->length);
	return 0;
}

/* ---- keepalive (4.5.3) ---- */

int sockopt_number(int tcp, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);
	return getsockopt(tcp, level, name, &value, &len) < 0 ? 0 : value;
}

uint64_t sockopt_keepalive(int tcp, const struct own_keepalive *own)
{
	if (!sockopt_number(tcp, SOL_SOCKET, SO_KEEPALIVE))
		return 0;
	int idle = own->idle ? own->idle : sockopt_number(tcp, IPPROTO_TCP, TCP_KEEPIDLE);
	return idle > 0 ? (uint64_t)idle * 1000 * 1000 : 0;
}

void sockopt_own_keepalive(struct ipc_sockopt *msg, struct own_keepalive *own)
{
	int *value;
	if (msg->result || msg->level != IPPROTO_TCP)
		return;
	switch (msg->name) {
	case TCP_KEEPIDLE: value = &own->idle; break;
	case TCP_KEEPINTVL: value = &own->interval; break;
	default: return;
	}
	if (msg->op == IPC_SOCKOPT_SET)
		*value = 0;
	else if (*value)
		memcpy(msg->value, value,
		       msg->length < sizeof(*value) ? msg->length : sizeof(*value));
}

static void limit(int tcp, int name, int least, int *own)
{
	int value = sockopt_number(tcp, IPPROTO_TCP, name);
	if (value <= 0 || value >= least)
		return;
	if (setsockopt(tcp, IPPROTO_TCP, name, &least, sizeof(least)) == 0)
		*own = value;
}

void sockopt_limit_keepalive(int tcp, uint32_t seconds, struct own_keepalive *own)
{
	limit(tcp, TCP_KEEPIDLE, (int)seconds, &own->idle);
	limit(tcp, TCP_KEEPINTVL, (int)seconds, &own->interval);
}

void sockopt_restore_keepalive(int tcp, const struct own_keepalive *own)
{
	if (own->idle)
		setsockopt(tcp, IPPROTO_TCP, TCP_KEEPIDLE, &own->idle, sizeof(own->idle));
	if (own->interval)
		setsockopt(tcp, IPPROTO_TCP, TCP_KEEPINTVL, &own->interval, sizeof(own->interval));
}

/* ---- the whole request ---- */

void sockopt_apply(int tcp, struct ipc_sockopt *msg, struct linger *linger)
{
	const unsigned int may = allowed(msg);
	if (tcp < 0)
		msg->result = ENOTCONN;
	else if (msg->level == SOL_SOCKET && msg->name == SO_LINGER)
		msg->result = linger ? linger_option(msg, linger) : kernel_sockopt(tcp, msg);
	else if (!may)
		msg->result = ENOPROTOOPT;
	else if (msg->op == IPC_SOCKOPT_GET || may & ANYBODY)
		msg->result = kernel_sockopt(tcp, msg);
	else
		msg->result = unprivileged_sockopt(tcp, msg);
}
