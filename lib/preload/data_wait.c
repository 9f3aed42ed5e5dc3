/* SPDX-License-Identifier: MIT */
#include "lib/preload/data_wait.h"

#include <limits.h>
#include <sched.h>

#include "lib/smcr/path.h"
#include "lib/smcr/sys.h"

/* About the time that it takes to put a process to sleep and wake it on another processor. */
#define SPIN_NS   50000
#define VAIN_MOST 9 /* after so many times in vain, one call in 512 still polls */
/* For how many calls a descriptor found non-blocking is not asked again. */
#define SKIP_NONBLOCKING 255

bool data_is_nonblocking(int fd)
{
	int flags = sys_fcntl(fd, F_GETFL, 0);
	return flags < 0 || flags & O_NONBLOCK;
}

bool data_may_wait(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !data_is_nonblocking(fd);
}

int64_t data_deadline(int fd, int flags, int64_t began, int option)
{
	struct timeval limit = { 0 };
	socklen_t len = sizeof(limit);
	if (!data_may_wait(fd, flags))
		return began;
	sys_getsockopt(fd, SOL_SOCKET, option, &limit, &len);
	if ((limit.tv_sec == 0 && limit.tv_usec == 0) || limit.tv_sec > INT_MAX)
		return DATA_FOR_EVER;
	return began + limit.tv_sec * 1000 + (limit.tv_usec + 999) / 1000;
}

int data_left_ms(int64_t deadline)
{
	if (deadline == DATA_FOR_EVER)
		return -1;
	const int64_t left = deadline - sys_now_ms();
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

bool data_may_spin(struct pre_path_spin *spin, int fd)
{
	uint32_t skip = atomic_load_explicit(&spin->skip, memory_order_relaxed);
	bool waits = skip == 0 && !data_is_nonblocking(fd);
	if (!waits)
		atomic_store_explicit(&spin->skip, skip == 0 ? SKIP_NONBLOCKING : skip - 1,
				      memory_order_relaxed);
	return waits;
}

static int64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void learn(struct pre_path_spin *spin, bool found)
{
	uint32_t vain = atomic_load_explicit(&spin->vain, memory_order_relaxed);
	vain = found ? 0 : vain + (vain < VAIN_MOST);
	atomic_store_explicit(&spin->vain, vain, memory_order_relaxed);
	atomic_store_explicit(&spin->skip, (1u << vain) - 1, memory_order_relaxed);
}

bool data_spin(struct pre_path_spin *spin, bool (*found)(void *arg), void *arg)
{
	const int64_t end = now_ns() + SPIN_NS;
	bool is_found;
	do {
		sched_yield();
		is_found = found(arg);
	} while (!is_found && now_ns() < end);
	learn(spin, is_found);
	return is_found;
}
