/* SPDX-License-Identifier: MIT */
#include "lib/smcr/unasked.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/smcr/claim.h"
#include "lib/smcr/readable.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/unanswered.h"

/* Without sin6_scope_id, which the kernel does not ask for. */
#define IN6_LEN_MIN offsetof(struct sockaddr_in6, sin6_scope_id)

/* ---- the program's address */

static socklen_t copied_len(socklen_t len)
{
	return len < sizeof(struct sockaddr_in6) ? len : sizeof(struct sockaddr_in6);
}

bool pre_unasked_copy(const struct sockaddr *addr, socklen_t len, union ipc_addr *ret_to)
{
	union ipc_addr to = { .sa = { .sa_family = AF_UNSPEC } };
	memcpy(&to, addr, copied_len(len));
	bool whole = (to.sa.sa_family == AF_INET && len >= sizeof(to.in)) ||
		     (to.sa.sa_family == AF_INET6 && len >= IN6_LEN_MIN);
	*ret_to = to;
	return whole;
}

bool pre_unasked_may(const struct sockaddr *addr, socklen_t len, union ipc_addr *ret_to)
{
	/* The kernel sees the length as a signed number. */
	if (len < sizeof(struct sockaddr_in) || len > sizeof(struct sockaddr_storage) ||
	    !pre_is_readable(addr, copied_len(len)) || !pre_unasked_copy(addr, len, ret_to))
		return false;
	return pre_unanswered_skip(ret_to, pre_unanswered_now());
}

/* ---- its outcome */

/* Has a connect() gone on in the background, so that another one may ask for its outcome? */
static _Atomic bool in_background;

static _Atomic bool others_seen; /* sockets that connect() takes to an address of TCP too */

void pre_unasked_note_socket(int domain, int type, int protocol)
{
	bool ip = domain == AF_INET || domain == AF_INET6;
	bool stream = (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM;
	if (ip && !(stream && (protocol == 0 || protocol == IPPROTO_TCP)))
		atomic_store_explicit(&others_seen, true, memory_order_relaxed);
}

/* Only TCP knows this request. It does not pass BPF programs, as reading an option would. A UDP
 * socket of another process, which passed it here, counts as TCP. */
static bool is_tcp(int fd)
{
	int unsent;
	return !atomic_load_explicit(&others_seen, memory_order_relaxed) ||
	       sys_ioctl(fd, SIOCOUTQNSD, &unsent) == 0;
}

/* connect() on a non-blocking TCP socket succeeds only if an earlier one was in progress. */
static bool is_later_call(int fd)
{
	if (!atomic_load_explicit(&in_background, memory_order_relaxed))
		return false;
	int flags = sys_fcntl(fd, F_GETFL, 0);
	return flags >= 0 && (flags & O_NONBLOCK);
}

static bool is_connection(int fd, int rc)
{
	if (rc == -EINPROGRESS || rc == -EINTR) {
		atomic_store_explicit(&in_background, true, memory_order_relaxed);
		return true;
	}
	return rc == 0 && is_tcp(fd) && !is_later_call(fd);
}

bool pre_unasked_made(int fd, const union ipc_addr *to, int rc)
{
	bool made = is_connection(fd, rc);
	if (!made)
		pre_unanswered_uncount(to);
	return made;
}

/* ---- connections with a claim */

void pre_unasked_plain(int fd, const union ipc_addr *to)
{
	const uint64_t now = pre_unanswered_now();
	uint32_t number;
	if (!pre_unanswered_plain(to, now, &number))
		return;
	if (pre_tell_unasked(fd, number) == 0)
		pre_unanswered_confirm(to, now);
	else
		pre_unanswered_end(to);
}

void pre_unasked_answered(int fd, const union ipc_addr *to)
{
	uint32_t number = pre_unanswered_end(to);
	if (number > 0)
		pre_tell_unasked(fd, number);
}
