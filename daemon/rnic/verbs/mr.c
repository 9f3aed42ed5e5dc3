/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/rnic/verbs/internal.h"

/* Memory that queue pairs of the reaper may still use is freed after them. Memory of queue pairs
 * that were left working is freed by the kernel when the process ends. */
static void give_back(struct rnic *rnic, struct verbs_job *job)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	if (dev->leaving)
		return;
	if (verbs_reaper_busy(dev->reaper))
		verbs_reaper_do(dev->reaper, job);
	else
		job->run(job->arg);
}

static void free_pd(void *arg)
{
	struct verbs_pd *pd = arg;
	ibv_dealloc_pd(pd->pd); /* can fail only if the device is lost */
	free(pd);
}

static void free_mr(void *arg)
{
	struct verbs_mr *mr = arg;
	if (mr->for_windows)
		ibv_dereg_mr(mr->for_windows);
	ibv_dereg_mr(mr->mr);
	free(mr);
}

int verbs_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	struct verbs_pd *pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->base.rnic = rnic;
	pd->free = (struct verbs_job){ .run = free_pd, .arg = pd };
	pd->pd = ibv_alloc_pd(dev->context);
	if (!pd->pd) {
		int error = errno ? -errno : -ENOMEM;
		free(pd);
		return error;
	}
	dev->pds++;
	*ret_pd = &pd->base;
	return 0;
}

void verbs_pd_free(struct rnic_pd *base)
{
	verbs_device_of(base->rnic)->pds--;
	give_back(base->rnic, &((struct verbs_pd *)base)->free);
}

bool verbs_mr_may_start_anywhere(const char *ibdev_path)
{
	char link[PATH_MAX], driver[PATH_MAX];
	snprintf(link, sizeof(link), "%s/device/driver", ibdev_path);
	ssize_t n = readlink(link, driver, sizeof(driver) - 1);
	if (n <= 0)
		return true; /* no hardware: rdma_rxe */
	driver[n] = '\0';
	const char *name = strrchr(driver, '/');
	return strcmp(name ? name + 1 : driver, "mlx4_core") != 0;
}

/* The kernel wants the start to have the same place in a page as the memory itself. */
static uint64_t start_for_peers(const void *addr)
{
	return rnic_random_start() + (uintptr_t)addr % (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Peers are told a random start, of memory that they may write. Where the device refuses that, but
 * takes the memory's own address, the device is not asked again. */
static struct ibv_mr *register_with(struct verbs_device *dev, struct ibv_pd *pd, void *addr,
				    size_t len, int flags, uint64_t *ret_vaddr)
{
	bool hide = dev->starts_anywhere && flags & IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;
	if (hide) {
		*ret_vaddr = start_for_peers(addr);
		mr = ibv_reg_mr_iova(pd, addr, len, *ret_vaddr, flags);
		if (mr || (errno != EINVAL && errno != EOPNOTSUPP))
			return mr;
	}
	*ret_vaddr = (uintptr_t)addr;
	mr = ibv_reg_mr(pd, addr, len, flags);
	if (hide && mr)
		dev->starts_anywhere = false;
	return mr;
}

int verbs_access(unsigned int access)
{
	return (access & RNIC_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
	       (access & RNIC_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (access & RNIC_ACCESS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0);
}

int verbs_mr_register(struct rnic_pd *base, void *addr, size_t len, unsigned int access,
		      struct rnic_mr **ret_mr)
{
	struct verbs_device *dev = verbs_device_of(base->rnic);
	uint64_t vaddr;
	struct verbs_mr *mr = calloc(1, sizeof(*mr));
	int flags = verbs_access(access);
	if (!mr)
		return -ENOMEM;
	mr->addr = addr;
	mr->len = len;
	mr->access = access;
	mr->pd = (struct verbs_pd *)base;
	mr->free = (struct verbs_job){ .run = free_mr, .arg = mr };
	mr->mr = register_with(dev, mr->pd->pd, addr, len, flags, &vaddr);
	if (!mr->mr) {
		int error = errno ? -errno : -ENOMEM;
		free(mr);
		return error;
	}
	mr->base = (struct rnic_mr){ base->rnic, mr->mr->lkey, mr->mr->rkey, vaddr };
	HASH_ADD(hh, dev->regions, base.lkey, sizeof(mr->base.lkey), mr);
	dev->mrs++;
	*ret_mr = &mr->base;
	return 0;
}

void verbs_mr_deregister(struct rnic_mr *base)
{
	struct verbs_mr *mr = (struct verbs_mr *)base;
	struct verbs_device *dev = verbs_device_of(base->rnic);
	dev->mrs--;
	HASH_DEL(dev->regions, mr);
	verbs_window_drop_mr(mr); /* the kernel keeps a region that has windows */
	/* If a queue pair exists that could still use the memory, free it at once: nothing may
	 * reach it when this returns.
	 */
	if (mr->pd->qps > 0 && !dev->leaving)
		free_mr(mr);
	else
		give_back(base->rnic, &mr->free);
}

struct ibv_mr *verbs_mr_part(const struct verbs_mr *mr, uint64_t vaddr, const void *addr,
			     size_t len)
{
	int flags = IBV_ACCESS_MW_BIND | verbs_access(mr->access & RNIC_ACCESS_LOCAL_WRITE);
	return ibv_reg_mr_iova(mr->pd->pd, (void *)(uintptr_t)addr, len, vaddr, flags);
}

struct ibv_mr *verbs_mr_for_windows(struct verbs_mr *mr)
{
	if (!mr->for_windows)
		mr->for_windows = verbs_mr_part(mr, mr->base.vaddr, mr->addr, mr->len);
	return mr->for_windows;
}

bool verbs_mr_contains(const struct verbs_mr *mr, const void *addr, size_t len)
{
	uintptr_t at = (uintptr_t)addr, start = (uintptr_t)mr->addr;
	return at >= start && len <= mr->len && at - start <= mr->len - len;
}

bool verbs_mr_receives(struct verbs_device *dev, const struct verbs_pd *pd, uint32_t lkey,
		       const void *addr, size_t len)
{
	const struct verbs_mr *mr;
	HASH_FIND(hh, dev->regions, &lkey, sizeof(lkey), mr);
	return mr && mr->pd == pd && mr->access & RNIC_ACCESS_LOCAL_WRITE &&
	       !(mr->access & RNIC_ACCESS_REMOTE_WRITE) && verbs_mr_contains(mr, addr, len);
}
