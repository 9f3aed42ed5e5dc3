/* SPDX-License-Identifier: MIT */
#include "lib/smcr/replace.h"

#include "lib/smcr/pair.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"

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

static void apply(const struct pre_file_state *state, int fd)
{
	set_option(fd, SO_RCVTIMEO, &state->receive_timeout, sizeof(state->receive_timeout));
	set_option(fd, SO_SNDTIMEO, &state->send_timeout, sizeof(state->send_timeout));
	set_option(fd, SO_RCVLOWAT, &state->receive_low, sizeof(state->receive_low));
	set_option(fd, SO_OOBINLINE, &state->oob_inline, sizeof(state->oob_inline));
	if (state->owner.pid != 0)
		sys_fcntl(fd, F_SETOWN_EX, (uintptr_t)&state->owner);
	if (state->signal > 0)
		sys_fcntl(fd, F_SETSIG, (uintptr_t)state->signal);
	/* Last: with O_ASYNC signals go to the owner set above. */
	pre_restore_status(fd, state);
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

int pre_replace(int fd, const struct pre_file_state *state, int new_fd, bool shared)
{
	const uint64_t cookie = state->cookie;
	uint64_t now;
	int rc = -ESTALE;
	if (pre_cookie(fd, &now) == 0 && now == cookie) {
		apply(state, new_fd);
		rc = shared ? move_number(fd, cookie, new_fd) : put_at(fd, new_fd);
	}
	if (rc == 0 && shared)
		for (int n = next_candidate(fd, -1); n >= 0; n = next_candidate(fd, n))
			if (is_dup(n, cookie))
				move_number(n, cookie, new_fd);
	sys_close(new_fd);
	return rc;
}
