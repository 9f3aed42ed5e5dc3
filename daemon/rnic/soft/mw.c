/* SPDX-License-Identifier: MIT */
/* Memory windows. All is done at once, so they need no place in the send queue: what a user posts
 * later comes later to the peer, too. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/rnic/soft/internal.h"

static struct soft_mw *window_of(struct rnic_window *base)
{
	return (struct soft_mw *)base;
}

static void unbind(struct soft_mw *mw)
{
	soft_token_remove(soft_device_of(mw->base.rnic), &mw->token);
	DL_DELETE2(mw->mr->windows, mw, prev_of_mr, next_of_mr);
	DL_DELETE2(mw->token.qp->windows, mw, prev_of_qp, next_of_qp);
	mw->mr = NULL;
	mw->token.qp = NULL;
}

int soft_mw_new(struct rnic_pd *pd, struct rnic_window **ret_window)
{
	struct soft_mw *mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->base.rnic = pd->rnic;
	mw->pd = (struct soft_pd *)pd;
	mw->pd->users++;
	*ret_window = &mw->base;
	return 0;
}

void soft_mw_free(struct rnic_window *base)
{
	struct soft_mw *mw = window_of(base);
	if (mw->mr)
		unbind(mw);
	mw->pd->users--;
	free(mw);
}

/* Is it a part of the region, with rights that the region has too? */
static bool covers(const struct soft_mr *mr, const void *addr, size_t len, unsigned int access)
{
	uintptr_t start = (uintptr_t)mr->token.addr, at = (uintptr_t)addr;
	return !(access & ~mr->token.access) && at >= start && len <= mr->token.len &&
	       at - start <= mr->token.len - len;
}

int soft_mw_bind(struct rnic_window *base, struct rnic_qp *base_qp, struct rnic_mr *base_mr,
		 const void *addr, size_t len, unsigned int access)
{
	struct soft_mw *mw = window_of(base);
	struct soft_qp *qp = soft_qp_of(base_qp);
	struct soft_mr *mr = (struct soft_mr *)base_mr;
	int r = soft_qp_may_send(qp);
	if (r)
		return r;
	if (mw->mr)
		return -EBUSY;
	if (qp->pd != mw->pd || mr->pd != mw->pd || !covers(mr, addr, len, access))
		return -EINVAL;
	mw->mr = mr;
	mw->token = (struct soft_token){ .access = access,
					 .pd = mw->pd,
					 .qp = qp,
					 .addr = mr->token.addr +
						 ((uintptr_t)addr - (uintptr_t)mr->token.addr),
					 .len = len };
	soft_token_add(qp->dev, &mw->token);
	DL_APPEND2(mr->windows, mw, prev_of_mr, next_of_mr);
	DL_APPEND2(qp->windows, mw, prev_of_qp, next_of_qp);
	mw->base.rkey = mw->token.key;
	mw->base.vaddr = mw->token.start;
	return 0;
}

int soft_mw_invalidate(struct rnic_window *base, struct rnic_qp *base_qp)
{
	struct soft_mw *mw = window_of(base);
	int r = soft_qp_may_send(soft_qp_of(base_qp));
	if (r)
		return r;
	if (mw->mr && mw->token.qp != soft_qp_of(base_qp))
		return -EINVAL;
	if (mw->mr)
		unbind(mw);
	return 0;
}

bool soft_mw_kill(struct soft_qp *qp, uint32_t key)
{
	struct soft_token *token = soft_token_find(qp->dev, key);
	if (!token || token->qp != qp)
		return false;
	unbind((struct soft_mw *)((uint8_t *)token - offsetof(struct soft_mw, token)));
	return true;
}

void soft_mw_leave_mr(struct soft_mr *mr)
{
	while (mr->windows)
		unbind(mr->windows);
}

void soft_mw_leave_qp(struct soft_qp *qp)
{
	while (qp->windows)
		unbind(qp->windows);
}
