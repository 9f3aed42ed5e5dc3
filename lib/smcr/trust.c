/* SPDX-License-Identifier: MIT */
#include "lib/smcr/trust.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"

/* User who made the pair ends that the daemon gave to this process; -1: none yet. */
static _Atomic int64_t daemon_uid = -1;
/* Owner of the daemon's socket file when it was first seen (after chroot() the path may lead to
 * another file); -1: never seen. */
static _Atomic int64_t owner_uid = -1;

/* The user who made a socket pair; of a connected Unix socket, the user of the process at the other
 * end. */
static int maker_of(int fd, uid_t *ret_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int rc = sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	if (rc < 0)
		return rc;
	if (cred.uid == (uid_t)-1)
		return -ENOTCONN; /* no Unix socket, or one without another end */
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
 * Is the user who made this pair end one whose pair ends can be trusted? Otherwise anybody could
 * give one end of a socket pair the name of a pair end and pass it to a program, which would
 * believe in a connection with any IP address. Root and the process's own user could do worse.
 * Another user must own the daemon's socket, or have given this process a pair end in a hand-over.
 */
bool pre_trust_maker(int fd)
{
	uid_t uid, owner;
	return maker_of(fd, &uid) == 0 &&
	       (is_known(uid) || (owner_of_socket(&owner) && owner == uid));
}

void pre_trust_note_owner(void)
{
	int64_t none = -1;
	uid_t owner;
	if (atomic_load(&owner_uid) == none && owner_of_socket(&owner))
		atomic_compare_exchange_strong(&owner_uid, &none, (int64_t)owner);
}

bool pre_trust_given(int fd)
{
	uid_t uid;
	if (maker_of(fd, &uid) < 0)
		return false;
	atomic_store(&daemon_uid, uid);
	return true;
}

bool pre_trust_end(int fd)
{
	uid_t uid;
	return maker_of(fd, &uid) == 0 && is_known(uid);
}
