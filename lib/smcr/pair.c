/* SPDX-License-Identifier: MIT */
#include "lib/smcr/pair.h"

#include <asm/ioctls.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "lib/smcr/settings.h"
#include "lib/smcr/session.h"
#include "lib/smcr/sys.h"

/* User who made the pair ends that the daemon gave to this process; -1: none yet. */
static _Atomic int64_t daemon_uid = -1;
/* Owner of the daemon's socket file when it was first seen (after chroot() the path may lead to
 * another file); -1: never seen. */
static _Atomic int64_t owner_uid = -1;

bool pre_is_tcp(int fd)
{
	int protocol, domain;
	return sys_get_int(fd, SOL_SOCKET, SO_PROTOCOL, &protocol) == 0 &&
	       protocol == IPPROTO_TCP && sys_get_int(fd, SOL_SOCKET, SO_DOMAIN, &domain) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

/* The user who made a socket pair; of a connected Unix socket, the user of the process at the other
 * end. */
static int maker_of(int fd, uid_t *ret_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int rc = sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (rc < 0)
		return rc;
	*ret_uid = cred.uid;
	return 0;
}

static bool owner_of_socket(uid_t *ret_uid)
{
	struct stat st;
	if (pre_settings.daemon_len == 0 ||
	    fstatat(AT_FDCWD, pre_settings.daemon.sun_path, &st, 0) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	*ret_uid = st.st_uid;
	return true;
}

static bool is_known(uid_t uid)
{
	return uid == 0 || uid == geteuid() || (int64_t)uid == atomic_load(&daemon_uid) ||
	       (int64_t)uid == atomic_load(&owner_uid);
}

/*
 * Is this user one whose pair ends can be trusted? Otherwise anybody could give one end of a socket
 * pair the name of a pair end and pass it to a program, which would believe in a connection with
 * any IP address. Root and the process's own user could do worse. Another user must own the
 * daemon's socket, or have given this process a pair end in a hand-over.
 */
static bool trusted(uid_t uid)
{
	uid_t owner;
	return is_known(uid) || (owner_of_socket(&owner) && owner == uid);
}

void pre_pair_note_owner(void)
{
	int64_t none = -1;
	uid_t owner;
	if (atomic_load(&owner_uid) == none && owner_of_socket(&owner))
		atomic_compare_exchange_strong(&owner_uid, &none, (int64_t)owner);
}

bool pre_pair_is_trusted(int fd)
{
	uid_t uid;
	return maker_of(fd, &uid) == 0 && is_known(uid);
}

/* The daemon's end of a pair has no name. An attacker's socket with the name of a pair end that is
 * connected to another user's listener would pass the check of users, but its peer has a name. */
static bool peer_is_unnamed(int fd)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);
	return sys_getpeername(fd, &addr, &len) == 0 && len == sizeof(addr.sun_family);
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
	uid_t uid;
	return is_named(fd, ret_name) && maker_of(fd, &uid) == 0 && trusted(uid) ? 0 : -ENOTSOCK;
}

bool pre_pair_trust(int fd)
{
	struct ipc_pair_name name;
	uid_t uid;
	if (maker_of(fd, &uid) < 0)
		return false;
	atomic_store(&daemon_uid, uid);
	return is_named(fd, &name);
}

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

/* POLLHUP alone is not enough: the program itself may have shut down both directions while the peer
 * is still there. So the daemon is asked. */
bool pre_is_over(int fd)
{
	const struct timespec now = { 0 };
	struct ipc_sockopt option = { .op = IPC_SOCKOPT_CONTROL, .name = SIOCOUTQ };
	short revents = 0;
	if (sys_poll_one(fd, 0, &now, &revents) <= 0 || !(revents & POLLHUP))
		return false;
	int rc = pre_ask_sockopt(fd, &option);
	return rc == -ENOTCONN || rc == -ECONNRESET;
}
