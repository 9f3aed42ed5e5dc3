/* SPDX-License-Identifier: MIT */
#include "lib/preload/replace.h"

#include "lib/preload/pair.h"
#include "lib/preload/sys.h"
#include "lib/preload/watch.h"

#define DUP_LOWEST 128 /* descriptors 0 to this are looked at, */
#define DUP_AROUND 16  /* and this many before and after the socket's */

/* ---- dups */

/** @return the next number above `after` that may be a dup of `fd`, or -1 at the end */
static int next_candidate(int fd, int after)
{
	int next = after + 1;
	if (next >= DUP_LOWEST && next < fd - DUP_AROUND)
		next = fd - DUP_AROUND;
	if (next == fd)
		next++;
	return next < DUP_LOWEST || next <= fd + DUP_AROUND ? next : -1;
}

static bool is_dup(int fd, uint64_t cookie)
{
	uint64_t other;
	return pre_cookie(fd, &other) == 0 && other == cookie;
}

bool pre_has_dup(int fd, uint64_t cookie)
{
	for (int n = next_candidate(fd, -1); n >= 0; n = next_candidate(fd, n))
		if (is_dup(n, cookie))
			return true;
	return false;
}

/* ---- what belongs to the file */

static void copy_option(int from, int to, int name)
{
	struct timeval value; /* the largest of those below */
	socklen_t len = sizeof(value);
	if (sys_getsockopt(from, SOL_SOCKET, name, &value, &len) == 0)
		sys_setsockopt(to, SOL_SOCKET, name, &value, len);
}

static void copy_signal_owner(int from, int to)
{
	struct f_owner_ex owner;
	if (sys_fcntl(from, F_GETOWN_EX, (uintptr_t)&owner) == 0 && owner.pid != 0)
		sys_fcntl(to, F_SETOWN_EX, (uintptr_t)&owner);
	int signal = sys_fcntl(from, F_GETSIG, 0);
	if (signal > 0)
		sys_fcntl(to, F_SETSIG, (uintptr_t)signal);
}

static void copy_file_state(int from, int to)
{
	static const int options[] = { SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVLOWAT, SO_OOBINLINE };
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		copy_option(from, to, options[i]);
	copy_signal_owner(from, to);
	/* Last: with O_ASYNC signals go to the owner set above. */
	int status = sys_fcntl(from, F_GETFL, 0);
	if (status >= 0)
		sys_fcntl(to, F_SETFL, (uintptr_t)status);
}

/* ---- what belongs to the number */

static int put_at(int number, int new_fd)
{
	int flags = sys_fcntl(number, F_GETFD, 0);
	int rc;
	do
		rc = sys_dup3(new_fd, number, flags > 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0);
	while (rc == -EINTR || rc == -EBUSY);
	return rc < 0 ? rc : 0;
}

/*
 * A registration belongs to the old file: it would go on firing as long as anybody holds that, and
 * EPOLL_CTL_MOD and DEL on the number would find nothing. Only what the kernel still had is added
 * again.
 */
static int move_number(int number, uint64_t cookie, int new_fd)
{
	struct pre_watch watches[PRE_WATCH_MAX];
	size_t count = pre_watch_list(number, cookie, watches);
	bool watched[PRE_WATCH_MAX];
	for (size_t i = 0; i < count; i++)
		watched[i] = sys_epoll_ctl(watches[i].epfd, EPOLL_CTL_DEL, number,
					   &watches[i].event) == 0;
	int rc = put_at(number, new_fd);
	uint64_t now = cookie;
	if (rc == 0)
		pre_cookie(number, &now);
	pre_watch_forget(number);
	for (size_t i = 0; i < count; i++)
		if (watched[i] &&
		    sys_epoll_ctl(watches[i].epfd, EPOLL_CTL_ADD, number, &watches[i].event) == 0)
			pre_watch_set(watches[i].epfd, number, now, &watches[i].event);
	return rc;
}

int pre_replace(int fd, uint64_t cookie, int new_fd, bool shared)
{
	uint64_t now;
	int rc = -ESTALE;
	if (pre_cookie(fd, &now) == 0 && now == cookie) {
		copy_file_state(fd, new_fd);
		rc = shared ? move_number(fd, cookie, new_fd) : put_at(fd, new_fd);
	}
	if (rc == 0 && shared)
		for (int n = next_candidate(fd, -1); n >= 0; n = next_candidate(fd, n))
			if (is_dup(n, cookie))
				move_number(n, cookie, new_fd);
	sys_close(new_fd);
	return rc;
}
