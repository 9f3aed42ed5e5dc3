/* SPDX-License-Identifier: MIT */
#include "lib/smcr/pair.h"

#include <netinet/in.h>
#include <sys/un.h>

#include "lib/smcr/sys.h"
#include "lib/smcr/trust.h"

bool pre_is_tcp(int fd)
{
	int protocol, domain;
	return sys_get_int(fd, SOL_SOCKET, SO_PROTOCOL, &protocol) == 0 &&
	       protocol == IPPROTO_TCP && sys_get_int(fd, SOL_SOCKET, SO_DOMAIN, &domain) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

static bool is_nameless(const struct sockaddr_un *addr, socklen_t len)
{
	return len == sizeof(addr->sun_family) && addr->sun_family == AF_UNIX;
}

/* The daemon's end of a pair has no name. An attacker's socket with the name of a pair end that is
 * connected to another user's listener would pass the check of users, but its peer has a name. */
static bool peer_is_unnamed(int fd)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	return sys_getpeername(fd, &addr, &len) == 0 && is_nameless(&addr, len);
}

static bool has_name(int fd, struct ipc_pair_name *ret_name)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	return sys_getsockname(fd, &addr, &len) == 0 && len <= sizeof(addr) &&
	       ipc_pair_name_decode(&addr, len, ret_name) == 0;
}

static bool is_named(int fd, struct ipc_pair_name *ret_name)
{
	return has_name(fd, ret_name) && peer_is_unnamed(fd);
}

bool pre_pair_is_named(int fd)
{
	struct ipc_pair_name name;
	return has_name(fd, &name);
}

int pre_pair_name(int fd, struct ipc_pair_name *ret_name)
{
	return is_named(fd, ret_name) && pre_trust_maker(fd) ? 0 : -ENOTSOCK;
}

bool pre_pair_given(int fd)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	struct ipc_pair_name name;
	if (!pre_trust_given(fd))
		return false;
	return is_named(fd, &name) || (sys_getsockname(fd, &addr, &len) == 0 &&
				       is_nameless(&addr, len) && peer_is_unnamed(fd));
}

/* ---- what the kernel keeps with a pair end */

/* An option of the pair end that nothing else uses: the kernel keeps it without any effect on a
 * Unix stream socket, and a program's SO_BROADCAST is that of the TCP socket. */
static int set_mark(int fd, int on)
{
	return sys_setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
}

void pre_pair_owe_success(int fd)
{
	set_mark(fd, 1);
}

bool pre_pair_tell_success(int fd)
{
	int owed;
	return sys_get_int(fd, SOL_SOCKET, SO_BROADCAST, &owed) == 0 && owed &&
	       set_mark(fd, 0) == 0;
}

int pre_cookie(int fd, uint64_t *ret_cookie)
{
	uint64_t cookie;
	socklen_t len = sizeof(cookie);
	int rc = sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	if (rc < 0)
		return rc;
	*ret_cookie = cookie;
	return 0;
}

int pre_unconnected(const struct ipc_pair_name *name)
{
	return sys_socket(name->peer.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}
