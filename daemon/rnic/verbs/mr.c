/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

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

int verbs_mr_register(struct rnic_pd *base, void *addr, size_t len, unsigned int access,
		      struct rnic_mr **ret_mr)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));
	int flags = (access & RNIC_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
		    (access & RNIC_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	if (!mr)
		return -ENOMEM;
	mr->pd = (struct verbs_pd *)base;
	mr->free = (struct verbs_job){ .run = free_mr, .arg = mr };
	mr->mr = ibv_reg_mr(mr->pd->pd, addr, len, flags);
	if (!mr->mr) {
		int error = errno ? -errno : -ENOMEM;
		free(mr);
		return error;
	}
	mr->base = (struct rnic_mr){ base->rnic, mr->mr->lkey, mr->mr->rkey, (uintptr_t)addr };
	verbs_device_of(base->rnic)->mrs++;
	*ret_mr = &mr->base;
	return 0;
}

void verbs_mr_deregister(struct rnic_mr *base)
{
	struct verbs_mr *mr = (struct verbs_mr *)base;
	verbs_device_of(base->rnic)->mrs--;
	/* If a queue pair exists that could still use the memory, free it at once: nothing may
	 * reach it when this returns.
	 */
	if (mr->pd->qps > 0 && !verbs_device_of(base->rnic)->leaving)
		free_mr(mr);
	else
		give_back(base->rnic, &mr->free);
}
