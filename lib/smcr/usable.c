/* SPDX-License-Identifier: MIT */
#include "lib/smcr/usable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/smcr/reach.h"
#include "lib/smcr/settings.h"
#include "lib/smcr/sys.h"

#define ABSENT_MS  1000  /* how long a daemon that could not be reached is not tried again */
#define FOREIGN_MS 60000 /* the same, if the daemon is of another network namespace */

#define NEVER INT64_MAX /* as a time */

/* No attempt before these times, in milliseconds; 0: the daemon may be tried. */
static _Atomic int64_t absent_until, foreign_until;
static _Atomic bool looked; /* look() has found the daemon */

bool pre_is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ENOBUFS;
}

void pre_usable_absent(void)
{
	atomic_store(&absent_until, sys_now_ms() + ABSENT_MS);
}

void pre_usable_foreign(void)
{
	atomic_store(&foreign_until, sys_now_ms() + FOREIGN_MS);
}

int pre_usable_socket(void)
{
	int fd = sys_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* A sandbox that forbids Unix sockets never ends. */
	if (fd < 0 && !pre_is_shortage(fd))
		atomic_store(&absent_until, NEVER);
	return fd;
}

/* May this process open a Unix socket and write to the daemon's? */
static bool look(void)
{
	if (pre_settings.daemon_len == 0)
		return false;
	int fd = pre_usable_socket();
	if (fd < 0)
		return false;
	int rc = pre_reach_look(fd);
	sys_close(fd);
	if (rc < 0)
		pre_usable_absent();
	else
		atomic_store(&looked, true);
	return rc == 0;
}

static bool lies_ahead(_Atomic int64_t *time)
{
	const int64_t at = atomic_load_explicit(time, memory_order_relaxed);
	return at != 0 && sys_now_ms() < at;
}

bool pre_daemon_usable(bool alive)
{
	const int64_t absent = atomic_load_explicit(&absent_until, memory_order_relaxed);
	if (absent == NEVER || lies_ahead(&foreign_until))
		return false;
	if (alive && absent != 0) {
		atomic_store(&absent_until, 0);
		return look();
	}
	if (lies_ahead(&absent_until))
		return false;
	return atomic_load_explicit(&looked, memory_order_relaxed) || look();
}

bool pre_daemon_known(void)
{
	return atomic_load_explicit(&looked, memory_order_relaxed) && !lies_ahead(&absent_until) &&
	       !lies_ahead(&foreign_until);
}
