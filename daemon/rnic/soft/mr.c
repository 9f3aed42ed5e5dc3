/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/soft/internal.h"

static struct soft_mr *find(struct soft_device *dev, uint32_t key)
{
	struct soft_mr *mr;
	HASH_FIND(hh, dev->mrs, &key, sizeof(key), mr);
	return mr;
}

/* A random key that is not 0 and not in use. An old key comes again by chance only. */
static uint32_t new_key(struct soft_device *dev)
{
	uint32_t key;
	do {
		key = rnic_random();
	} while (key == 0 || find(dev, key));
	return key;
}

int soft_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr)
{
	struct soft_device *dev = soft_device_of(pd->rnic);
	struct soft_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->base.rnic = pd->rnic;
	mr->pd = (struct soft_pd *)pd;
	mr->key = mr->base.lkey = mr->base.rkey = new_key(dev);
	mr->base.vaddr = rnic_random_start();
	mr->addr = addr;
	mr->len = len;
	mr->access = access;
	HASH_ADD(hh, dev->mrs, key, sizeof(mr->key), mr);
	mr->pd->users++;
	*ret_mr = &mr->base;
	return 0;
}

void soft_mr_deregister(struct rnic_mr *base)
{
	struct soft_mr *mr = (struct soft_mr *)base;
	struct soft_device *dev = soft_device_of(base->rnic);
	HASH_DEL(dev->mrs, mr);
	mr->pd->users--;
	free(mr);
}

/* Do `len` bytes at `addr` lie in the region, if the region begins at `start`? */
static bool inside(const struct soft_mr *mr, uint64_t start, uint64_t addr, uint32_t len)
{
	return addr >= start && len <= mr->len && addr - start <= mr->len - len;
}

bool soft_mr_local_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
		      const void *addr, uint32_t len)
{
	const struct soft_mr *mr = find(dev, lkey);
	return mr && mr->pd == pd && !(mr->access & RNIC_ACCESS_REMOTE_WRITE) &&
	       inside(mr, (uintptr_t)mr->addr, (uintptr_t)addr, len);
}

uint8_t *soft_mr_remote(struct soft_device *dev, const struct soft_pd *pd, uint32_t rkey,
			uint64_t va, uint32_t len)
{
	const struct soft_mr *mr = find(dev, rkey);
	if (!mr || mr->pd != pd || !(mr->access & RNIC_ACCESS_REMOTE_WRITE) ||
	    !inside(mr, mr->base.vaddr, va, len))
		return NULL;
	return mr->addr + (va - mr->base.vaddr);
}
