/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/rnic/soft/internal.h"

struct soft_token *soft_token_find(const struct soft_device *dev, uint32_t key)
{
	struct soft_token *token;
	HASH_FIND(hh, dev->tokens, &key, sizeof(key), token);
	return token;
}

/* A random key that is not 0 and not in use. An old key comes again by chance only. */
static uint32_t new_key(struct soft_device *dev)
{
	uint32_t key;
	do {
		key = rnic_random();
	} while (key == 0 || soft_token_find(dev, key));
	return key;
}

void soft_token_add(struct soft_device *dev, struct soft_token *token)
{
	token->key = new_key(dev);
	token->start = rnic_random_start();
	HASH_ADD(hh, dev->tokens, key, sizeof(token->key), token);
}

void soft_token_remove(struct soft_device *dev, struct soft_token *token)
{
	HASH_DEL(dev->tokens, token);
}

int soft_mr_register(struct rnic_pd *pd, void *addr, size_t len, unsigned int access,
		     struct rnic_mr **ret_mr)
{
	struct soft_mr *mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->base.rnic = pd->rnic;
	mr->pd = (struct soft_pd *)pd;
	mr->token = (struct soft_token){ .access = access, .pd = mr->pd, .addr = addr, .len = len };
	soft_token_add(soft_device_of(pd->rnic), &mr->token);
	mr->base.lkey = mr->base.rkey = mr->token.key;
	mr->base.vaddr = mr->token.start;
	mr->pd->users++;
	*ret_mr = &mr->base;
	return 0;
}

void soft_mr_deregister(struct rnic_mr *base)
{
	struct soft_mr *mr = (struct soft_mr *)base;
	soft_mw_leave_mr(mr);
	soft_token_remove(soft_device_of(base->rnic), &mr->token);
	mr->pd->users--;
	free(mr);
}

/* Do `len` bytes at `addr` lie in the memory, if that begins at `start`? */
static bool inside(const struct soft_token *token, uint64_t start, uint64_t addr, uint32_t len)
{
	return addr >= start && len <= token->len && addr - start <= token->len - len;
}

/* The region for own requests with [addr, addr + len), or NULL. */
static const struct soft_token *local(struct soft_device *dev, const struct soft_pd *pd,
				      uint32_t lkey, const void *addr, uint32_t len)
{
	const struct soft_token *token = soft_token_find(dev, lkey);
	bool ok = token && token->pd == pd && !token->qp &&
		  !(token->access & RNIC_ACCESS_REMOTE_WRITE) &&
		  inside(token, (uintptr_t)token->addr, (uintptr_t)addr, len);
	return ok ? token : NULL;
}

bool soft_mr_local_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
		      const void *addr, uint32_t len)
{
	return local(dev, pd, lkey, addr, len) != NULL;
}

bool soft_mr_local_write_ok(struct soft_device *dev, const struct soft_pd *pd, uint32_t lkey,
			    const void *addr, uint32_t len)
{
	const struct soft_token *token = local(dev, pd, lkey, addr, len);
	return token && token->access & RNIC_ACCESS_LOCAL_WRITE;
}

uint8_t *soft_mr_remote(const struct soft_qp *qp, unsigned int access, uint32_t rkey, uint64_t va,
			uint32_t len)
{
	const struct soft_token *token = soft_token_find(qp->dev, rkey);
	if (!token || token->pd != qp->pd || !(token->access & access) ||
	    (token->qp && token->qp != qp) || !inside(token, token->start, va, len))
		return NULL;
	return token->addr + (va - token->start);
}
