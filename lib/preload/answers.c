/* SPDX-License-Identifier: MIT */
#include "lib/preload/answers.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib/preload/wait_all.h"
#include "lib/smcr/calls.h"
#include "lib/smcr/claim.h"
#include "lib/smcr/fit.h"
#include "lib/smcr/holders.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/path.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/sys.h"

/* Discarded bytes go into one buffer, part by part of one system call. A pair holds less than all
 * parts together. */
#define SCRATCH_BYTES   131072
#define SCRATCH_PARTS   64
#define DISCARD_AT_ONCE ((size_t)SCRATCH_BYTES * SCRATCH_PARTS)

static bool is_pair(int fd)
{
	struct ipc_pair_name name;
	return pre_ready() && pre_pair_name(fd, &name) == 0;
}

/* SO_ERROR, as the daemon knows it. @return 0: it knows of no error */
static int ask_for_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);
	return pre_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : 0;
}

/* A pair end was reset. TCP may have ended with another error than ECONNRESET: the daemon knows.
 * Where it has ended itself, as when all connections are reset at once, nobody is asked. */
static int why_reset(int fd)
{
	int error = pre_daemon_serves(fd) ? ask_for_error(fd) : 0;
	return error ? error : ECONNRESET;
}

/* The error that getsockopt() reports, and clears. The daemon knows that of a connect(). */
static int take_error(int fd)
{
	int error = 0;
	if (pre_pending_open_at(fd))
		return ask_for_error(fd);
	if (sys_get_int(fd, SOL_SOCKET, SO_ERROR, &error) < 0)
		return 0;
	return error == ECONNRESET ? why_reset(fd) : error;
}

bool answers_send_failed(int fd)
{
	int error = is_pair(fd) ? take_error(fd) : 0;
	errno = error ? error : EPIPE;
	return error;
}

bool answers_send_would_fail(int fd)
{
	const struct timespec now = { 0 };
	short revents;
	int saved = errno;
	bool fails = sys_poll_one(fd, 0, &now, &revents) > 0 && revents & POLLERR &&
		     answers_send_failed(fd);
	if (!fails)
		errno = saved;
	return fails;
}

void answers_receive_failed(int fd)
{
	int error = 0;
	if (is_pair(fd))
		error = pre_pending_open_at(fd) ? ask_for_error(fd) : why_reset(fd);
	errno = error ? error : ECONNRESET;
}

bool answers_ignores_address(int fd)
{
	bool ignores = is_pair(fd);
	errno = EISCONN;
	return ignores;
}

bool answers_zerocopy(int fd, int *flags)
{
	const int saved = errno;
	bool fails = false;
	pre_fit_note_zerocopy();
	if (pre_holders_of(fd) == PRE_HOLDERS_ALONE && !pre_path_is_pair(fd))
		return true;
	if (is_pair(fd)) {
		*flags &= ~MSG_ZEROCOPY;
		fails = pre_zerocopy_would_fail(fd);
	}
	errno = fails ? ENOBUFS : saved;
	return !fails;
}

/* recv() of at most DISCARD_AT_ONCE bytes that nobody wants. All threads write into one buffer, and
 * nobody reads what is there: on the stack it would take more than a small thread has. */
static ssize_t discard_part(int fd, size_t len, int flags)
{
	static uint8_t scratch[SCRATCH_BYTES];
	struct iovec parts[SCRATCH_PARTS];
	struct msghdr msg = { .msg_iov = parts };
	do {
		parts[msg.msg_iovlen] = (struct iovec){ scratch, MIN(len, sizeof(scratch)) };
		len -= parts[msg.msg_iovlen++].iov_len;
	} while (len > 0);
	ssize_t n;
	return wait_all_receive(fd, &msg, flags, &n) ? n : pre_next.recvmsg(fd, &msg, flags);
}

static ssize_t discard(int fd, size_t len, int flags)
{
	size_t gone = 0;
	ssize_t n;
	do {
		size_t part = MIN(len - gone, DISCARD_AT_ONCE);
		n = discard_part(fd, part, flags);
		if (n > 0)
			gone += (size_t)n;
		if (n < (ssize_t)part)
			break;
	} while (gone < len && flags & MSG_WAITALL && !(flags & MSG_PEEK));
	return gone > 0 ? (ssize_t)gone : n;
}

bool answers_receive(int fd, size_t len, int flags, ssize_t *ret)
{
	int saved = errno;
	bool concerns = !(flags & MSG_OOB) && is_pair(fd);
	errno = saved;
	if (!concerns)
		return false;
	if (flags & MSG_ERRQUEUE) {
		errno = EAGAIN;
		*ret = -1;
		return true;
	}
	*ret = discard(fd, len, flags & ~MSG_TRUNC);
	if (*ret >= 0)
		errno = saved;
	return true;
}
