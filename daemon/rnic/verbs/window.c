/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "daemon/rnic/verbs/internal.h"

static struct verbs_window *window_of(struct rnic_window *window)
{
	return (struct verbs_window *)window;
}

/* ---- what a window was bound to */

static void attach(struct verbs_window *window, struct verbs_qp *qp, struct verbs_mr *mr)
{
	window->qp = qp;
	window->mr = mr;
	DL_APPEND(mr->windows, window);
	HASH_ADD(hh, qp->windows, base.rkey, sizeof(window->base.rkey), window);
}

static void detach(struct verbs_window *window)
{
	if (!window->qp)
		return;
	HASH_DEL(window->qp->windows, window);
	DL_DELETE(window->mr->windows, window);
	window->qp = NULL;
	window->mr = NULL;
}

/* Does the device still have a request about it to carry out? */
static bool in_use(const struct verbs_window *window)
{
	return window->qp && window->seq >= window->qp->sendq.tail;
}

/* The kernel object goes, and with it the token and what the device has bound. */
static void drop(struct verbs_window *window)
{
	detach(window);
	window->bound = false;
	if (!verbs_device_of(window->base.rnic)->leaving) {
		if (window->mw)
			ibv_dealloc_mw(window->mw);
		if (window->part)
			ibv_dereg_mr(window->part);
	}
	window->mw = NULL;
	window->part = NULL;
	if (window->freed)
		free(window);
}

void verbs_window_drop_qp(struct verbs_qp *qp)
{
	struct verbs_window *window, *next;
	HASH_ITER (hh, qp->windows, window, next) {
		drop(window);
	}
	qp->windows_wait = false;
}

void verbs_window_drop_mr(struct verbs_mr *mr)
{
	struct verbs_window *window, *next;
	DL_FOREACH_SAFE (mr->windows, window, next)
		drop(window);
}

void verbs_window_settle(struct verbs_qp *qp)
{
	struct verbs_window *window, *next;
	if (!qp->windows_wait)
		return;
	qp->windows_wait = false;
	HASH_ITER (hh, qp->windows, window, next) {
		if (window->freed && !in_use(window))
			drop(window);
		else
			qp->windows_wait |= window->freed;
	}
}

bool verbs_window_gone(struct verbs_qp *qp, uint32_t rkey)
{
	struct verbs_window *window;
	HASH_FIND(hh, qp->windows, &rkey, sizeof(rkey), window);
	/* It may be one that this side invalidates at the same time. */
	if (window)
		window->bound = false;
	return window != NULL;
}

/* ---- what the user does */

static int make_mw(struct verbs_window *window)
{
	window->mw = ibv_alloc_mw(window->pd->pd, IBV_MW_TYPE_2);
	if (window->mw)
		return 0;
	return errno ? -errno : -ENOMEM;
}

int verbs_window_new(struct rnic_pd *pd, struct rnic_window **ret_window)
{
	struct verbs_window *window = calloc(1, sizeof(*window));
	if (!window)
		return -ENOMEM;
	window->base.rnic = pd->rnic;
	window->pd = (struct verbs_pd *)pd;
	int error = make_mw(window);
	if (error) {
		free(window);
		return error;
	}
	verbs_device_of(pd->rnic)->windows++;
	*ret_window = &window->base;
	return 0;
}

void verbs_window_free(struct rnic_window *base)
{
	struct verbs_window *window = window_of(base);
	verbs_device_of(base->rnic)->windows--;
	window->freed = true;
	/* Without its window the request would fail, and the QP with it. */
	if (in_use(window) && window->qp->state != VERBS_QP_ERR)
		window->qp->windows_wait = true;
	else
		drop(window);
}

static bool may_bind(const struct verbs_window *window, const struct verbs_qp *qp,
		     const struct verbs_mr *mr, const void *addr, size_t len, unsigned int access)
{
	return window->pd == qp->pd && mr->pd == qp->pd && !(access & ~mr->access) &&
	       verbs_mr_contains(mr, addr, len);
}

/* Where each binding has a region of its own, that of before stays until the device has carried out
 * the invalidation: with the kernel object, as a window that the user has freed. */
static int leave_behind(struct verbs_window *window)
{
	struct verbs_qp *qp = window->qp;
	struct verbs_mr *mr = window->mr;
	struct verbs_window *old = malloc(sizeof(*old));
	if (!old)
		return -ENOMEM;
	detach(window);
	*old = *window;
	old->freed = true;
	attach(old, qp, mr);
	qp->windows_wait = true;
	window->mw = NULL;
	window->part = NULL;
	return 0;
}

/* What the device has bound before must be unbound when the request comes: by a request in front of
 * it, or with the kernel object. */
static int make_free(struct verbs_window *window, const struct verbs_qp *qp)
{
	int error = 0;
	if (window->bound || (in_use(window) && window->qp != qp))
		return -EBUSY;
	if (window->part && in_use(window))
		error = leave_behind(window);
	else if (window->part || (window->qp && window->qp->state == VERBS_QP_ERR))
		drop(window); /* in ERR the invalidation was flushed */
	if (!error && !window->mw)
		error = make_mw(window);
	return error;
}

/* The kernel's region behind a window. @return NULL with errno set */
static struct ibv_mr *region_for(struct verbs_window *window, struct verbs_mr *mr, uint64_t vaddr,
				 const void *addr, size_t len)
{
	if (!verbs_device_of(window->base.rnic)->windows_leak)
		return verbs_mr_for_windows(mr);
	window->part = verbs_mr_part(mr, vaddr, addr, len);
	return window->part;
}

int verbs_window_bind(struct rnic_window *base, struct rnic_qp *rnic_qp, struct rnic_mr *rnic_mr,
		      const void *addr, size_t len, unsigned int access)
{
	struct verbs_window *window = window_of(base);
	struct verbs_qp *qp = (struct verbs_qp *)rnic_qp;
	struct verbs_mr *mr = (struct verbs_mr *)rnic_mr;
	int error = verbs_post_refusal(qp, 1);
	if (!error && !may_bind(window, qp, mr, addr, len, access))
		error = -EINVAL;
	if (!error)
		error = make_free(window, qp);
	if (error)
		return error;
	uint32_t rkey = ibv_inc_rkey(window->mw->rkey);
	uint64_t vaddr = mr->base.vaddr + (uint64_t)((const uint8_t *)addr - mr->addr);
	struct ibv_mr *region = region_for(window, mr, vaddr, addr, len);
	if (!region)
		return errno ? -errno : -ENOMEM;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = window->mw,
			     .rkey = rkey,
			     .bind_info = { .mr = region,
					    .addr = vaddr,
					    .length = len,
					    .mw_access_flags =
						    (unsigned int)verbs_access(access) } },
	};
	uint64_t seq;
	error = verbs_post_own(qp, &wr, &seq);
	if (error)
		return error;
	detach(window);
	window->mw->rkey = window->base.rkey = rkey;
	window->base.vaddr = vaddr;
	window->bound = true;
	window->seq = seq;
	attach(window, qp, mr);
	return 0;
}

int verbs_window_invalidate(struct rnic_window *base, struct rnic_qp *rnic_qp)
{
	struct verbs_window *window = window_of(base);
	struct verbs_qp *qp = (struct verbs_qp *)rnic_qp;
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = base->rkey };
	uint64_t seq;
	int error = verbs_post_refusal(qp, 1);
	if (!error && window->bound && window->qp != qp)
		error = -EINVAL;
	if (error || !window->bound) /* the peer may have been the first */
		return error;
	error = verbs_post_own(qp, &wr, &seq);
	if (error)
		return error;
	window->bound = false;
	window->seq = seq;
	return 0;
}
