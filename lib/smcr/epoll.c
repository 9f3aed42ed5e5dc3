/* SPDX-License-Identifier: MIT */
/* epoll_ctl(): remember which epoll instances watch a socket that may be replaced (watch.h). */
#include "lib/smcr/calls.h"
#include "lib/smcr/next.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/pending.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/watch.h"

/* True for TCP sockets before connect(), and for pair ends whose connect() is in progress. Programs
 * exist that register a descriptor for each message, and getsockopt() costs much more than
 * getpeername(), as the kernel runs smcrd's BPF program for it.
 *
 * The kernel is asked also where the table of descriptors (path.h) says that this is a pair end.
 * The library does not see every close(), nor every way by which a number comes to a new socket,
 * and no later step would notice the mistake: connect() would replace that socket, and its
 * registration would stay with the old file. */
static bool may_be_replaced(int fd, uint64_t *ret_cookie)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int rc = sys_getpeername(fd, &peer, &len);
	if (rc == -ENOTCONN)
		return pre_is_tcp(fd) && pre_cookie(fd, ret_cookie) == 0;
	return rc == 0 && peer.ss_family == AF_UNIX && pre_pending_registered(fd, ret_cookie);
}

static void added(int epfd, int fd, const struct epoll_event *event)
{
	uint64_t cookie;
	if (may_be_replaced(fd, &cookie))
		pre_watch_set(epfd, fd, cookie, event);
	else
		pre_watch_drop(epfd, fd); /* an earlier file of this number was closed */
}

int pre_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int rc = sys_result(pre_next.epoll_ctl(epfd, op, fd, event));
	if (rc < 0)
		return rc;
	switch (op) {
	case EPOLL_CTL_ADD: added(epfd, fd, event); break;
	case EPOLL_CTL_MOD: pre_watch_change(epfd, fd, event); break;
	case EPOLL_CTL_DEL: pre_watch_drop(epfd, fd); break;
	default: break;
	}
	return rc;
}
