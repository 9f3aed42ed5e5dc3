/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/rnic/netdev.h"
#include "daemon/rnic/soft.h"
#include "daemon/rnic/soft/internal.h"
#include "tests/rnicsim/sights.h"
#include "tests/rnicsim/world.h"

/* ---- memory: counted, and now and then the RNIC gets none */

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *p, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);
void __real_free(void *p);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *p, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void __wrap_free(void *p);

static int64_t pieces;
static bool inside; /* the RNIC's code runs */

int64_t memory_live(void)
{
	return pieces;
}

void host_enter(void)
{
	inside = true;
}

bool host_leave(void)
{
	bool was = inside;
	inside = false;
	return was;
}

static bool fails(void)
{
	return inside && world && chance(world->set.no_memory);
}

static void *counted(void *p)
{
	pieces += p != NULL;
	return p;
}

void *__wrap_malloc(size_t len)
{
	return fails() ? NULL : counted(__real_malloc(len));
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails() ? NULL : counted(__real_calloc(n, len));
}

void *__wrap_realloc(void *p, size_t len)
{
	if (!p)
		return __wrap_malloc(len);
	return fails() ? NULL : __real_realloc(p, len);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
	return fails() ? NULL : counted(__real_aligned_alloc(alignment, len));
}

void __wrap_free(void *p)
{
	pieces -= p != NULL;
	__real_free(p);
}

void *sim_alloc(size_t len)
{
	void *p = counted(__real_calloc(1, len));
	if (!p)
		abort();
	return p;
}

/* ---- random numbers, and the scheduler */

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
int __wrap_sched_yield(void);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	(void)flags;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)prng_next(&world->rng);
	return (ssize_t)len;
}

int __wrap_sched_yield(void)
{
	world->clock.now += choose(1, 10);
	return 0;
}

/* ---- the interface */

int __wrap_rnic_netdev_look(const char *name, struct rnic_netdev *ret_netdev);
int __wrap_soft_reader_new(struct event_base *base, unsigned int ifindex,
			   void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev),
			   void *ctx, struct soft_reader **ret_reader);
void __wrap_soft_reader_ask(struct soft_reader *reader);
void __wrap_soft_reader_free(struct soft_reader *reader);

int __wrap_rnic_netdev_look(const char *name, struct rnic_netdev *ret_netdev)
{
	const struct host *host = &world->hosts[name[1] - '0'];
	*ret_netdev = (struct rnic_netdev){ .ifindex = (unsigned int)host->index + 1,
					    .active = true,
					    .mtu = host->mtu,
					    .num_addrs = 1 };
	snprintf(ret_netdev->name, sizeof(ret_netdev->name), "%s", name);
	ret_netdev->addrs[0].family = AF_INET;
	ret_netdev->addrs[0].prefix_len = 24;
	memcpy(ret_netdev->addrs[0].addr, &host->addr, sizeof(host->addr));
	return 0;
}

/* The interface does not change, so nobody has to be told of it. */
int __wrap_soft_reader_new(struct event_base *base, unsigned int ifindex,
			   void (*on_read)(void *ctx, int result, const struct rnic_netdev *netdev),
			   void *ctx, struct soft_reader **ret_reader)
{
	(void)ifindex;
	(void)on_read;
	(void)ctx;
	*ret_reader = (struct soft_reader *)base;
	return 0;
}

void __wrap_soft_reader_ask(struct soft_reader *reader)
{
	(void)reader;
}

void __wrap_soft_reader_free(struct soft_reader *reader)
{
	(void)reader;
}

/* ---- hosts */

struct host *host_of(struct in_addr addr)
{
	for (size_t i = 0; i < world->num_hosts; i++) {
		if (world->hosts[i].addr.s_addr == addr.s_addr)
			return &world->hosts[i];
	}
	return NULL;
}

static void open_host(struct host *host)
{
	static const uint32_t mtus[] = { 400, 1500, 1500, 4200, 9000 };
	char name[16], error[RNIC_ERROR_LEN];
	host->mtu = mtus[choose(0, sizeof(mtus) / sizeof(mtus[0]) - 1)];
	host->addr.s_addr = htonl(0x0A4D0001 + (uint32_t)host->index);
	struct rnic_open_params params = { .base = (struct event_base *)host, .hurry = true };
	snprintf(name, sizeof(name), "soft:h%zu", host->index);
	int r = rnic_open(name, &params, &host->rnic, error);
	if (r || rnic_pd_alloc(host->rnic, &host->pd))
		world_fail("cannot open an RNIC: %s", r ? error : "no protection domain");
	else if (chance(200))
		rnic_soft_set_segmentation(host->rnic, false);
}

void hosts_open(void)
{
	world->num_hosts = choose(2, MAX_HOSTS);
	for (size_t i = 0; i < world->num_hosts; i++) {
		world->hosts[i].index = i;
		open_host(&world->hosts[i]);
	}
}

void hosts_close(void)
{
	for (size_t i = 0; i < world->num_hosts; i++) {
		struct rnic_stats stats;
		rnic_get_stats(world->hosts[i].rnic, &stats);
		saw_stats(&stats);
		rnic_pd_free(world->hosts[i].pd);
		rnic_close(world->hosts[i].rnic);
	}
}
