/* SPDX-License-Identifier: MIT */
#include "lib/smcr/replace.h"

#include "lib/smcr/dups.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"

/* ---- what belongs to the file */

static void get_option(int fd, int name, void *value, socklen_t len)
{
	sys_getsockopt(fd, SOL_SOCKET, name, value, &len);
}

int pre_file_state(int fd, struct pre_file_state *ret_state)
{
	struct pre_file_state state = { .receive_low = 1 };
	int rc = pre_cookie(fd, &state.cookie);
	if (rc < 0)
		return rc;
	state.status = sys_fcntl(fd, F_GETFL, 0);
	if (state.status < 0)
		return state.status;
	state.signal = sys_fcntl(fd, F_GETSIG, 0);
	sys_fcntl(fd, F_GETOWN_EX, (uintptr_t)&state.owner);
	get_option(fd, SO_RCVTIMEO, &state.receive_timeout, sizeof(state.receive_timeout));
	get_option(fd, SO_SNDTIMEO, &state.send_timeout, sizeof(state.send_timeout));
	get_option(fd, SO_RCVLOWAT, &state.receive_low, sizeof(state.receive_low));
	get_option(fd, SO_OOBINLINE, &state.oob_inline, sizeof(state.oob_inline));
	*ret_state = state;
	return 0;
}

void pre_restore_status(int fd, const struct pre_file_state *state)
{
	sys_fcntl(fd, F_SETFL, (uintptr_t)state->status);
}

static void set_option(int fd, int name, const void *value, socklen_t len)
{
	sys_setsockopt(fd, SOL_SOCKET, name, value, len);
}

static bool is_limited(const struct timeval *timeout)
{
	return timeout->tv_sec || timeout->tv_usec;
}

/* @param fresh  `fd` has default values, so only others have to be set */
static void apply(const struct pre_file_state *state, int fd, bool fresh)
{
	if (!fresh || is_limited(&state->receive_timeout))
		set_option(fd, SO_RCVTIMEO, &state->receive_timeout,
			   sizeof(state->receive_timeout));
	if (!fresh || is_limited(&state->send_timeout))
		set_option(fd, SO_SNDTIMEO, &state->send_timeout, sizeof(state->send_timeout));
	if (!fresh || state->receive_low != 1)
		set_option(fd, SO_RCVLOWAT, &state->receive_low, sizeof(state->receive_low));
	if (!fresh || state->oob_inline)
		set_option(fd, SO_OOBINLINE, &state->oob_inline, sizeof(state->oob_inline));
	if (state->owner.pid != 0)
		sys_fcntl(fd, F_SETOWN_EX, (uintptr_t)&state->owner);
	if (state->signal > 0)
		sys_fcntl(fd, F_SETSIG, (uintptr_t)state->signal);
	/* Last: with O_ASYNC, signals go to the owner that was set above. */
	pre_restore_status(fd, state);
}

/* ---- what belongs to the number */

static int put_at(int number, int new_fd)
{
	int flags = sys_fcntl(number, F_GETFD, 0);
	int rc;
	pre_path_replaced(number);
	do
		rc = sys_dup3(new_fd, number, flags > 0 && (flags & FD_CLOEXEC) ? O_CLOEXEC : 0);
	while (rc == -EINTR || rc == -EBUSY);
	return rc < 0 ? rc : 0;
}

static bool is_listed(int epfd, const struct pre_watch *watches, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (watches[i].epfd == epfd)
			return true;
	return false;
}

/* Remove a registration whose epoll instance has another number now: the program has duplicated it
 * and closed the first descriptor. @return the instance's number, or -1 */
static int unwatch_elsewhere(int number, const struct pre_watch *watches, size_t count)
{
	struct epoll_event unused;
	for (int n = pre_dups_candidate(number, -1); n >= 0; n = pre_dups_candidate(number, n))
		if (!is_listed(n, watches, count) &&
		    sys_epoll_ctl(n, EPOLL_CTL_DEL, number, &unused) == 0)
			return n;
	return -1;
}

/* Remove the registrations from the old file. Those that the kernel does not have any more get the
 * epoll instance -1. */
static void unwatch(int number, struct pre_watch *watches, size_t count)
{
	bool lost = false;
	for (size_t i = 0; i < count; i++)
		if (sys_epoll_ctl(watches[i].epfd, EPOLL_CTL_DEL, number, &watches[i].event) < 0) {
			watches[i].epfd = -1;
			lost = true;
		}
	for (size_t i = 0; lost && i < count; i++)
		if (watches[i].epfd < 0)
			watches[i].epfd = unwatch_elsewhere(number, watches, count);
}

/*
 * Put the new file at a number and move its epoll registrations. A registration belongs to the old
 * file: it would stay active while anybody holds that file, and EPOLL_CTL_MOD and DEL would not
 * find it. Only registrations that the kernel still had are added again.
 */
static int move_number(int number, uint64_t cookie, int new_fd)
{
	struct pre_watch watches[PRE_WATCH_MAX];
	size_t count = pre_watch_list(number, cookie, watches);
	unwatch(number, watches, count);
	int rc = put_at(number, new_fd);
	uint64_t now = cookie;
	if (rc == 0)
		pre_cookie(number, &now);
	pre_watch_forget(number);
	for (size_t i = 0; i < count; i++)
		if (watches[i].epfd >= 0 &&
		    sys_epoll_ctl(watches[i].epfd, EPOLL_CTL_ADD, number, &watches[i].event) == 0)
			pre_watch_set(watches[i].epfd, number, now, &watches[i].event);
	return rc;
}

/* The socket is at other numbers too, unless nobody else has it. */
static void move_dups(int fd, uint64_t cookie, int new_fd)
{
	struct pre_dups dups = pre_dups_begin(fd, cookie);
	for (int n = pre_dups_next(&dups); n >= 0; n = pre_dups_next(&dups))
		move_number(n, cookie, new_fd);
}

static bool is_still(int fd, uint64_t cookie)
{
	uint64_t now;
	return pre_cookie(fd, &now) == 0 && now == cookie;
}

int pre_replace(int fd, const struct pre_file_state *state, int new_fd, enum pre_replacement kind)
{
	const bool alone = pre_holders_of(fd) == PRE_HOLDERS_ALONE;
	const bool fresh = kind != PRE_REPLACE_BACK;
	int rc = -ESTALE;
	if (is_still(fd, state->cookie)) {
		apply(state, new_fd, fresh);
		rc = kind == PRE_REPLACE_ACCEPTED ? put_at(fd, new_fd)
						  : move_number(fd, state->cookie, new_fd);
	}
	if (rc == 0 && kind != PRE_REPLACE_ACCEPTED && !alone)
		move_dups(fd, state->cookie, new_fd);
	if (rc == 0 && fresh)
		pre_path_expect(fd);
	sys_close(new_fd);
	return rc;
}
