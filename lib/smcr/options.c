/* SPDX-License-Identifier: MIT */
#include "lib/smcr/options.h"

#include <errno.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

struct row {
	int level;
	int name;
	struct pre_option option;
};

static const struct row rows[] = {
	{ SOL_SOCKET, SO_ERROR, { PRE_OPT_ERROR, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_DOMAIN, { PRE_OPT_FAMILY, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_PEERCRED, { PRE_OPT_NOBODY, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_PROTOCOL, { PRE_OPT_PROTOCOL, PRE_OPT_LOCAL } },

	/* Options by which recv(), send() and poll() on the program's end work. */
	{ SOL_SOCKET, SO_TYPE, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_ACCEPTCONN, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_RCVTIMEO_OLD, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_RCVTIMEO_NEW, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_SNDTIMEO_OLD, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_SNDTIMEO_NEW, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_RCVLOWAT, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_SNDLOWAT, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_OOBINLINE, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_PEEK_OFF, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },
	{ SOL_SOCKET, SO_BUF_LOCK, { PRE_OPT_LOCAL, PRE_OPT_LOCAL } },

	/* With these the program would wait for notices on an error queue, which pair ends do not
	 * have, or for timestamps, which data over SMC-R does not carry. Programs expect of some
	 * sockets that they refuse SO_ZEROCOPY, and copy then. So it is off, even if the listener
	 * has it. */
	{ SOL_SOCKET, SO_ZEROCOPY, { PRE_OPT_LOCAL, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMP_OLD, { PRE_OPT_LOCAL, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMP_NEW, { PRE_OPT_LOCAL, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMPNS_OLD, { PRE_OPT_LOCAL, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMPNS_NEW, { PRE_OPT_LOCAL, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMPING_OLD, { PRE_OPT_TCP, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TIMESTAMPING_NEW, { PRE_OPT_TCP, PRE_OPT_OFF, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_TXTIME, { PRE_OPT_TCP, PRE_OPT_REFUSED, EOPNOTSUPP } },

	/* Servers set these on each connection that they accept. */
	{ SOL_SOCKET,
	  SO_KEEPALIVE,
	  { PRE_OPT_TCP, PRE_OPT_TOLD, .least = INT_MIN, .most = INT_MAX } },
	{ IPPROTO_TCP, TCP_KEEPIDLE, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 1, .most = 32767 } },
	{ IPPROTO_TCP, TCP_KEEPINTVL, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 1, .most = 32767 } },
	{ IPPROTO_TCP, TCP_KEEPCNT, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 1, .most = 127 } },
	{ IPPROTO_TCP,
	  TCP_USER_TIMEOUT,
	  { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 0, .most = INT_MAX } },
	{ IPPROTO_TCP, TCP_QUICKACK, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 0, .most = 1 } },
	{ IPPROTO_IP, IP_TOS, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 0, .most = 255 } },
	{ IPPROTO_IPV6, IPV6_TCLASS, { PRE_OPT_TCP, PRE_OPT_TOLD, .least = 0, .most = 255 } },

	{ IPPROTO_TCP, TCP_NODELAY, { PRE_OPT_PUSHING, PRE_OPT_PUSHING } },
	{ IPPROTO_TCP, TCP_CORK, { PRE_OPT_PUSHING, PRE_OPT_PUSHING } },

	/* The values have pointers or descriptors of the program. */
	{ SOL_SOCKET, SO_ATTACH_FILTER, { PRE_OPT_REFUSED, PRE_OPT_REFUSED, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_ATTACH_BPF, { PRE_OPT_REFUSED, PRE_OPT_REFUSED, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, { PRE_OPT_REFUSED, PRE_OPT_REFUSED, EOPNOTSUPP } },
	{ SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, { PRE_OPT_REFUSED, PRE_OPT_REFUSED, EOPNOTSUPP } },
	{ IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, { PRE_OPT_REFUSED, PRE_OPT_REFUSED, ENOPROTOOPT } },

	/* These change the stream or how it is received. ENOENT is the error without the kernel's
	 * TLS module; programs encrypt by themselves then. */
	{ IPPROTO_TCP, TCP_ULP, { PRE_OPT_TCP, PRE_OPT_REFUSED, ENOENT } },
	{ IPPROTO_TCP, TCP_INQ, { PRE_OPT_TCP, PRE_OPT_OFF, ENOPROTOOPT } },
	{ IPPROTO_TCP, TCP_REPAIR, { PRE_OPT_TCP, PRE_OPT_REFUSED, EPERM } },
	{ IPPROTO_TCP, TCP_REPAIR_QUEUE, { PRE_OPT_TCP, PRE_OPT_REFUSED, EPERM } },
	{ IPPROTO_TCP, TCP_REPAIR_OPTIONS, { PRE_OPT_TCP, PRE_OPT_REFUSED, EPERM } },
	{ IPPROTO_TCP, TCP_REPAIR_WINDOW, { PRE_OPT_TCP, PRE_OPT_REFUSED, EPERM } },
	{ IPPROTO_TCP, TCP_QUEUE_SEQ, { PRE_OPT_TCP, PRE_OPT_REFUSED, EPERM } },
};

struct pre_option pre_option_of(int level, int name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].level == level && rows[i].name == name)
			return rows[i].option;
	if (level != SOL_SOCKET && level != IPPROTO_TCP && level != IPPROTO_IP &&
	    level != IPPROTO_IPV6)
		return (struct pre_option){ PRE_OPT_LOCAL, PRE_OPT_REFUSED, ENOPROTOOPT };
	return (struct pre_option){ .get = PRE_OPT_TCP, .set = PRE_OPT_TCP };
}
