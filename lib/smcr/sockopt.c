/* SPDX-License-Identifier: MIT */
/*
 * getsockopt() and setsockopt(): on a pair end most options concern the TCP socket that the daemon
 * holds.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "lib/smcr/calls.h"
#include "lib/smcr/fit.h"
#include "lib/smcr/next.h"
#include "lib/smcr/options.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pushing.h"
#include "lib/smcr/readable.h"
#include "lib/smcr/session.h"
#include "lib/smcr/status.h"
#include "lib/smcr/sys.h"

/* ---- getsockopt() */

/* The program's addresses may be wrong, which the kernel would find. */
static int check_room(const socklen_t *len)
{
	if (!pre_is_readable(len, sizeof(*len)))
		return -EFAULT;
	return (int)*len < 0 ? -EINVAL : 0;
}

static int copy_out(const void *from, socklen_t size, void *value, socklen_t *len)
{
	int rc = check_room(len);
	if (rc < 0)
		return rc;
	if (*len > size)
		*len = size;
	if (*len == 0)
		return 0;
	if (!pre_is_readable(value, *len))
		return -EFAULT;
	memcpy(value, from, *len);
	return 0;
}

static int copy_out_int(int number, void *value, socklen_t *len)
{
	return copy_out(&number, sizeof(number), value, len);
}

/* TCP keeps SO_KEEPALIVE after the end of a connection. A Unix socket keeps it too, without effect,
 * so a value that the program sets is also set there. */
static bool is_kept(int level, int name)
{
	return level == SOL_SOCKET && name == SO_KEEPALIVE;
}

/* Get or set an option of the TCP socket. If the connection is over, or the daemon cannot be
 * reached, an unconnected TCP socket answers: it accepts only valid values, but keeps none. The
 * daemon cannot be reached by a process that got the connection in a chroot and network namespace
 * of its own (as vsftpd's); such a process would take an error for a reset. */
static int ask(int fd, const struct ipc_pair_name *pair, struct ipc_sockopt *option)
{
	int rc = pre_ask_sockopt(fd, option);
	if (rc != -ENOTCONN && rc != -ECONNRESET)
		return rc;
	int tcp = pre_unconnected(pair);
	if (tcp < 0)
		return rc;
	socklen_t len = option->length;
	if (option->op == IPC_SOCKOPT_GET && is_kept(option->level, option->name))
		rc = sys_getsockopt(fd, option->level, option->name, option->value, &len);
	else if (option->op == IPC_SOCKOPT_SET)
		rc = sys_setsockopt(tcp, option->level, option->name, option->value, len);
	else
		rc = sys_getsockopt(tcp, option->level, option->name, option->value, &len);
	option->length = (uint16_t)len;
	sys_close(tcp);
	return rc;
}

static int get_from_tcp(int fd, const struct ipc_pair_name *pair, int level, int name, void *value,
			socklen_t *len)
{
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_GET, .level = level, .name = name };
	int rc = check_room(len);
	if (rc < 0)
		return rc;
	option.length = *len < IPC_SOCKOPT_VALUE_MAX ? (uint16_t)*len : IPC_SOCKOPT_VALUE_MAX;
	rc = ask(fd, pair, &option);
	return rc < 0 ? rc : copy_out(option.value, option.length, value, len);
}

/* SO_ERROR reports the outcome of connect() once, as with TCP; the daemon sees to that. Later
 * errors are those of the pair end. */
static int get_error(int fd, void *value, socklen_t *len)
{
	struct pre_status status;
	int own = 0;
	int rc = pre_status(fd, &status);
	if (rc == 0 && status.taken_back && status.ipc.state != IPC_CONN_FAILED)
		return sys_result(pre_next.getsockopt(fd, SOL_SOCKET, SO_ERROR, value, len));
	/* Reading clears the pair end's own error, so that one failure is reported once. */
	sys_get_int(fd, SOL_SOCKET, SO_ERROR, &own);
	if (rc == 0 && status.ipc.state == IPC_CONN_FAILED && status.ipc.error)
		own = status.ipc.error;
	return copy_out_int(own, value, len);
}

static int get_pushing(int fd, const struct ipc_pair_name *pair, int name, void *value,
		       socklen_t *len)
{
	bool on;
	if (pre_pushing_get(fd, name, &on))
		return copy_out_int(on, value, len);
	return get_from_tcp(fd, pair, IPPROTO_TCP, name, value, len);
}

static int get_on_pair(int fd, const struct ipc_pair_name *pair, int level, int name, void *value,
		       socklen_t *len)
{
	const struct ucred nobody = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	struct pre_option option = pre_option_of(level, name);
	switch (option.get) {
	case PRE_OPT_TCP:
	case PRE_OPT_TOLD: return get_from_tcp(fd, pair, level, name, value, len);
	case PRE_OPT_PUSHING: return get_pushing(fd, pair, name, value, len);
	case PRE_OPT_FAMILY: return copy_out_int(pair->peer.sa.sa_family, value, len);
	case PRE_OPT_PROTOCOL: return copy_out_int(IPPROTO_TCP, value, len);
	case PRE_OPT_NOBODY: return copy_out(&nobody, sizeof(nobody), value, len);
	case PRE_OPT_ERROR: return get_error(fd, value, len);
	case PRE_OPT_REFUSED:
	case PRE_OPT_OFF: return -option.error;
	case PRE_OPT_LOCAL: break;
	}
	return sys_result(pre_next.getsockopt(fd, level, name, value, len));
}

/* ---- setsockopt() */

/* The kernel reads no more of a value than its option has. @return how many bytes of it smcrd gets,
 * or a negative errno */
static int check_value(const void *value, socklen_t len)
{
	if ((int)len < 0)
		return -EINVAL;
	if (len > IPC_SOCKOPT_VALUE_MAX)
		len = IPC_SOCKOPT_VALUE_MAX;
	return len > 0 && !pre_is_readable(value, len) ? -EFAULT : (int)len;
}

/* @param known  the kernel takes the value: nobody waits until the daemon has set it */
static int set_on_tcp(int fd, const struct ipc_pair_name *pair, int level, int name,
		      const void *value, socklen_t len, bool known)
{
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_SET, .level = level, .name = name };
	option.length = (uint16_t)len;
	memcpy(option.value, len > 0 ? value : "", len);
	const bool told = known && pre_tell_sockopt(fd, &option) == 0;
	const int rc = told ? 0 : ask(fd, pair, &option);
	if (rc == 0 && is_kept(level, name))
		sys_setsockopt(fd, level, name, value, len);
	return rc;
}

static bool is_in_range(const struct pre_option *range, const void *value, socklen_t len)
{
	int number;
	if (len < sizeof(number))
		return false;
	memcpy(&number, value, sizeof(number));
	return number >= range->least && number <= range->most;
}

static int set_pushing(int fd, const struct ipc_pair_name *pair, int name, const void *value,
		       socklen_t len)
{
	int on;
	if (len < sizeof(on))
		return set_on_tcp(fd, pair, IPPROTO_TCP, name, value, len, false);
	memcpy(&on, value, sizeof(on));
	if (name == TCP_NODELAY && on && !pre_pushing_was_nodelay(fd)) {
		int rc = set_on_tcp(fd, pair, IPPROTO_TCP, name, value, len, true);
		if (rc < 0)
			return rc;
	}
	return pre_pushing_set(fd, name, on != 0);
}

/* Set an option that smcrd hears of. */
static int set_through_smcrd(int fd, const struct ipc_pair_name *pair, int level, int name,
			     const void *value, socklen_t len)
{
	const struct pre_option option = pre_option_of(level, name);
	const int size = check_value(value, len);
	if (size < 0)
		return size;
	len = (socklen_t)size;
	if (option.set == PRE_OPT_PUSHING)
		return set_pushing(fd, pair, name, value, len);
	/* TCP over IPv4 refuses options of IPv6. */
	const bool exists = level != IPPROTO_IPV6 || pair->peer.sa.sa_family == AF_INET6;
	const bool known = exists && option.set == PRE_OPT_TOLD && is_in_range(&option, value, len);
	return set_on_tcp(fd, pair, level, name, value, len, known);
}

/* Set an option that is off, and must stay so. */
static int leave_off(const struct pre_option *option, const void *value, socklen_t len)
{
	int number;
	const int size = check_value(value, len);
	if (size < 0)
		return size;
	if ((size_t)size < sizeof(number))
		return -EINVAL;
	memcpy(&number, value, sizeof(number));
	return number ? -option->error : 0;
}

static int set_on_pair(int fd, const struct ipc_pair_name *pair, int level, int name,
		       const void *value, socklen_t len)
{
	struct pre_option option = pre_option_of(level, name);
	switch (option.set) {
	case PRE_OPT_TCP:
	case PRE_OPT_TOLD:
	case PRE_OPT_PUSHING: return set_through_smcrd(fd, pair, level, name, value, len);
	case PRE_OPT_REFUSED: return -option.error;
	case PRE_OPT_OFF: return leave_off(&option, value, len);
	case PRE_OPT_LOCAL:
	case PRE_OPT_FAMILY:
	case PRE_OPT_PROTOCOL:
	case PRE_OPT_NOBODY:
	case PRE_OPT_ERROR: break;
	}
	return sys_result(pre_next.setsockopt(fd, level, name, value, len));
}

/* ---- which descriptors are concerned */

/* Unix sockets refuse the options of these levels with these errors; only then the descriptor may
 * be a pair end. */
static bool may_be_refusal(int rc)
{
	return rc == -EOPNOTSUPP || rc == -ENOPROTOOPT;
}

int pre_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct ipc_pair_name pair;
	int rc = -EOPNOTSUPP;
	if (level != SOL_SOCKET || pre_option_of(level, name).get == PRE_OPT_LOCAL)
		rc = sys_result(pre_next.getsockopt(fd, level, name, value, len));
	if (!may_be_refusal(rc))
		return rc;
	if (pre_pair_name(fd, &pair) == 0)
		return get_on_pair(fd, &pair, level, name, value, len);
	if (level != SOL_SOCKET)
		return rc;
	return sys_result(pre_next.getsockopt(fd, level, name, value, len));
}

static int set_on_other(int fd, int level, int name, const void *value, socklen_t len)
{
	int rc = sys_result(pre_next.setsockopt(fd, level, name, value, len));
	if (rc == 0)
		pre_fit_note_option(fd, level, name);
	return rc;
}

int pre_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct ipc_pair_name pair;
	int rc = -EOPNOTSUPP;
	if (level != SOL_SOCKET || pre_option_of(level, name).set == PRE_OPT_LOCAL)
		rc = set_on_other(fd, level, name, value, len);
	if (!may_be_refusal(rc))
		return rc;
	if (pre_pair_name(fd, &pair) == 0)
		return set_on_pair(fd, &pair, level, name, value, len);
	return level == SOL_SOCKET ? set_on_other(fd, level, name, value, len) : rc;
}

/* ---- MSG_ZEROCOPY */

bool pre_zerocopy_would_fail(int fd)
{
	struct ipc_pair_name pair;
	int on = 0;
	socklen_t len = sizeof(on);
	return pre_pair_name(fd, &pair) == 0 &&
	       get_from_tcp(fd, &pair, SOL_SOCKET, SO_ZEROCOPY, &on, &len) == 0 && on;
}
