/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/verbs/internal.h"

int verbs_pd_alloc(struct rnic *rnic, struct rnic_pd **ret_pd)
{
	struct verbs_device *dev = verbs_device_of(rnic);
	struct verbs_pd *pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->base.rnic = rnic;
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
	struct verbs_pd *pd = (struct verbs_pd *)base;
	ibv_dealloc_pd(pd->pd); /* fails only if the device is lost */
	verbs_device_of(base->rnic)->pds--;
	free(pd);
}

int verbs_mr_register(struct rnic_pd *base, void *addr, size_t len, unsigned int access,
		      struct rnic_mr **ret_mr)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));
	int flags = (access & RNIC_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
		    (access & RNIC_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	if (!mr)
		return -ENOMEM;
	mr->mr = ibv_reg_mr(((struct verbs_pd *)base)->pd, addr, len, flags);
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
	ibv_dereg_mr(mr->mr);
	verbs_device_of(base->rnic)->mrs--;
	free(mr);
}
