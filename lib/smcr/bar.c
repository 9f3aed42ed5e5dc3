/* SPDX-License-Identifier: MIT */
#include "lib/smcr/bar.h"

#include <netinet/in.h>
#include <stdatomic.h>

#include "lib/smcr/next.h"
#include "lib/smcr/sys.h"
#include "proto/ipc/ipc.h"

/* ---- the mark on the socket */

struct mark {
	int level, name;
};

static struct mark mark_of(int fd)
{
	int domain = AF_INET;
	sys_get_int(fd, SOL_SOCKET, SO_DOMAIN, &domain);
	if (domain == AF_INET6)
		return (struct mark){ IPPROTO_IPV6, IPV6_MULTICAST_ALL };
	return (struct mark){ IPPROTO_IP, IP_MULTICAST_ALL };
}

static bool is_marked(int fd)
{
	const struct mark mark = mark_of(fd);
	int all;
	return sys_get_int(fd, mark.level, mark.name, &all) == 0 && !all;
}

static int set_mark(int fd, bool marked)
{
	const struct mark mark = mark_of(fd);
	const int all = !marked;
	return sys_setsockopt(fd, mark.level, mark.name, &all, sizeof(all));
}

/* ---- */

static int tell_smcrd(int fd, int on)
{
	return sys_result(pre_next.setsockopt(fd, IPC_SOL_SMCR, IPC_SO_BAR, &on, sizeof(on)));
}

int pre_bar(int fd)
{
	if (pre_is_barred(fd))
		return -EALREADY;
	int rc = set_mark(fd, true);
	if (rc < 0)
		return rc;
	tell_smcrd(fd, 1); /* without smcrd there is no claim */
	return 0;
}

void pre_unbar(int fd)
{
	if (!is_marked(fd))
		return;
	set_mark(fd, false);
	tell_smcrd(fd, 0);
}

bool pre_is_barred(int fd)
{
	if (!is_marked(fd))
		return false;
	tell_smcrd(fd, 1);
	return true;
}

static _Atomic bool may_hold_listener;

void pre_note_listener(void)
{
	atomic_store_explicit(&may_hold_listener, true, memory_order_relaxed);
}

bool pre_may_hold_listener(void)
{
	return atomic_load_explicit(&may_hold_listener, memory_order_relaxed);
}
