/* SPDX-License-Identifier: MIT */
/* RMBs and send buffers: pieces of registered memory cut into elements (RFC 7609 2.1, 4.2). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/smcr/llc_rkey.h"
#include "daemon/smcr/trace.h"

/* The bytes of a slab. In first contact it is smaller, because anybody can begin one and it may
 * fail. It has room for a second connection, which then need not wait for a further slab. */
#define SLAB_BYTES       (4u << 20)
#define FIRST_SLAB_BYTES (1u << 20)
#define LAST_SLAB_BYTES  (256u << 10) /* of the part that is set aside (account.c) */

static unsigned int elements_of(const struct smcr_lgr *lgr, uint8_t bsize)
{
	const struct smcr_engine *engine = lgr->engine;
	if (engine->config.elements_per_rmb)
		return engine->config.elements_per_rmb;
	uint32_t bytes = lgr->state == SMCR_LGR_FIRST_CONTACT ? FIRST_SLAB_BYTES : SLAB_BYTES;
	unsigned int count = bytes / smcr_bsize_bytes(bsize);
	return count < SMCR_MAX_ELEMENTS ? count : SMCR_MAX_ELEMENTS;
}

static uint64_t memory_left(const struct smcr_engine *engine, uint64_t besides)
{
	uint64_t taken = engine->memory_used + besides;
	return taken < engine->config.memory_budget ? engine->config.memory_budget - taken : 0;
}

/* Elements have full size while at most six sixteenths of the budget are used, then half the size
 * for each further sixteenth. So the last six sixteenths are for elements of the smallest size: 1
 * GiB has room for 14,000 connections with an element and a send buffer each, and the first 390 of
 * them get 512 KiB each way. */
static uint8_t affordable_bsize(const struct smcr_engine *engine)
{
	uint64_t sixteenth = engine->config.memory_budget / 16, enough = 6 * sixteenth;
	uint8_t bsize = engine->config.bsize;
	for (; bsize > engine->config.bsize_min && engine->memory_used > enough; bsize--)
		enough += sixteenth;
	return bsize;
}

uint8_t smcr_bsize_holding(uint32_t want)
{
	uint8_t bsize = 0; /* beside an eye catcher (A37) */
	while (bsize < SMCR_BSIZE_MAX && smcr_bsize_bytes(bsize) - SMCR_EYE_CATCHER_LEN < want)
		bsize++;
	return bsize;
}

/* By how many codes a guess of the need may make an element smaller. A wrong guess lasts as long as
 * the connection, so it takes away three quarters of the size at most. With elements of 128 KiB
 * instead of 512 KiB a bulk transfer keeps 0.73 of its speed. */
#define MOST_STEPS 2

static uint8_t choose(const struct smcr_engine *engine, uint32_t need, uint8_t most)
{
	uint8_t bsize = smcr_bsize_holding(need);
	if (!need || bsize > most)
		return most;
	uint8_t least = engine->config.bsize_min;
	if (least + MOST_STEPS < most)
		least = most - MOST_STEPS;
	return bsize > least ? bsize : least;
}

uint8_t smcr_bsize_choose(const struct smcr_engine *engine, uint32_t need)
{
	return choose(engine, need, affordable_bsize(engine));
}

uint8_t smcr_bsize_plenty(const struct smcr_engine *engine, uint32_t need)
{
	return choose(engine, need, engine->config.bsize);
}

static bool map_test(const struct smcr_slab *slab, unsigned int i)
{
	return slab->map[i / 8] & 1u << i % 8;
}

static void take_from(struct smcr_slab *slab, struct smcr_element *ret)
{
	unsigned int i = 0;
	while (map_test(slab, i))
		i++;
	slab->map[i / 8] |= (uint8_t)(1u << i % 8);
	slab->used++;
	smcr_timer_stop(slab->lgr->engine, &slab->idle);
	if (!slab->is_rmb)
		slab->dirty[i] = slab->element_size;
	*ret = (struct smcr_element){ .slab = slab,
				      .index = (uint8_t)(i + 1),
				      .addr = slab->base + (size_t)i * slab->element_size,
				      .size = slab->element_size };
}

/** Is `a` to be preferred over `b` for an element of at least the wanted size? */
static bool better(const struct smcr_slab *a, const struct smcr_slab *b)
{
	if (!b)
		return true;
	bool a_ready = a->state == SMCR_SLAB_READY, b_ready = b->state == SMCR_SLAB_READY;
	return a_ready != b_ready ? a_ready : a->bsize < b->bsize;
}

/** The slab with a free element of at least and at most these sizes, or NULL. */
static struct smcr_slab *find_free(const struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize,
				   uint8_t most)
{
	struct smcr_slab *slab, *best = NULL;
	DL_FOREACH (is_rmb ? lgr->rmbs : lgr->sndbufs, slab)
		if (slab->bsize >= bsize && slab->bsize <= most &&
		    slab->used + slab->retired < slab->count && slab->state != SMCR_SLAB_DELETING &&
		    better(slab, best))
			best = slab;
	return best;
}

bool smcr_slab_out_of_rmbs(const struct smcr_lgr *lgr, uint8_t bsize)
{
	return smcr_slab_num_rmbs(lgr) >= SMCR_MAX_RMBS &&
	       !find_free(lgr, true, bsize, SMCR_BSIZE_MAX);
}

int smcr_element_take(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t most,
		      struct smcr_element *ret)
{
	struct smcr_slab *best = find_free(lgr, is_rmb, bsize, most);
	if (!best)
		return -ENOENT;
	take_from(best, ret);
	return 0;
}

/* Is element `i` free, with memory that a connection has used? */
static bool may_go_back(const struct smcr_slab *slab, unsigned int i)
{
	return slab->dirty[i] && !map_test(slab, i);
}

/* Some time after connections have ended, the memory of free elements goes back to the system,
 * although other elements of the slab are in use. If the host cannot do that, the memory stays as
 * it is. Neighbouring elements go with one call, because each call changes the process' page
 * tables. */
static void on_sweep(struct smcr_engine *engine, void *arg)
{
	struct smcr_slab *slab = arg;
	for (unsigned int i = 0; i < slab->count; i++) {
		unsigned int first = i;
		while (i < slab->count && may_go_back(slab, i))
			i++;
		size_t from = (size_t)first * slab->element_size;
		size_t len = (size_t)(i - first) * slab->element_size;
		if (len > 0 &&
		    !engine->ops.rdma->mem_discard(engine->ops.rdma_ctx, slab->base + from, len))
			memset(&slab->dirty[first], 0, (i - first) * sizeof(slab->dirty[0]));
	}
}

/* Take the pages of smcr_conn_share() out of the element. @return false: they stay, and the element
 * may not be used again */
static bool recover(const struct smcr_element *element)
{
	struct smcr_slab *slab = element->slab;
	struct smcr_engine *engine = slab->lgr->engine;
	if (!element->shared)
		return true;
	if (engine->ops.rdma->mem_recover(engine->ops.rdma_ctx, element->addr, element->size))
		return false;
	slab->dirty[element->index - 1] = 0;
	return true;
}

void smcr_element_release(struct smcr_element *element)
{
	struct smcr_slab *slab = element->slab;
	if (!slab)
		return;
	struct smcr_engine *engine = slab->lgr->engine;
	unsigned int i = element->index - 1u;
	if (recover(element))
		slab->map[i / 8] &= (uint8_t) ~(1u << i % 8);
	else
		slab->retired++;
	slab->used--;
	if (!slab->used)
		smcr_timer_start(engine, &slab->idle, engine->config.rmb_idle_timeout);
	if (!smcr_timer_running(&slab->sweep))
		smcr_timer_start(engine, &slab->sweep, engine->config.rmb_idle_timeout);
	*element = (struct smcr_element){ 0 };
}

/** Nobody has used the slab for a while (RKEY-13). */
static void on_idle(struct smcr_engine *engine, void *arg)
{
	struct smcr_slab *slab = arg;
	if (slab->used)
		return;
	if (!slab->is_rmb)
		smcr_slab_free(slab);
	else if (slab->doubtful) /* both sides have to agree about it first */
		smcr_llc_kick(slab->lgr);
	else if (slab->state == SMCR_SLAB_NEW && slab->lgr->llc->step != SMCR_LLC_IDLE)
		smcr_timer_start(engine, &slab->idle, engine->config.rmb_idle_timeout);
	else if (slab->state == SMCR_SLAB_NEW) /* no exchange runs that might list it */
		smcr_slab_free(slab);
	else
		smcr_llc_kick(slab->lgr);
}

bool smcr_slab_deletable(const struct smcr_slab *slab)
{
	if (slab->used || slab->state != SMCR_SLAB_READY || smcr_timer_running(&slab->idle))
		return false;
	const struct smcr_slab *other;
	DL_FOREACH (slab->lgr->rmbs, other) /* keep an RMB for the next connection */
		if (other != slab && other->state == SMCR_SLAB_READY)
			return true;
	return false;
}

unsigned int smcr_slab_num_rmbs(const struct smcr_lgr *lgr)
{
	unsigned int n = 0;
	const struct smcr_slab *slab;
	DL_COUNT(lgr->rmbs, slab, n);
	return n;
}

/** How many elements of this size the budget still has room for, at most as many as a slab usually
 * has. With `last` also of the part that is set aside, but few at a time, so that others get some
 * too. */
static unsigned int affordable(const struct smcr_lgr *lgr, uint8_t bsize, bool last)
{
	const struct smcr_engine *engine = lgr->engine;
	uint32_t size = smcr_bsize_bytes(bsize);
	uint64_t usual = elements_of(lgr, bsize);
	uint64_t room = memory_left(engine, smcr_account_set_aside(engine)) / size;
	if (!room && last) {
		uint64_t few = size < LAST_SLAB_BYTES ? LAST_SLAB_BYTES / size : 1;
		room = memory_left(engine, 0) / size;
		room = room < few ? room : few;
	}
	return (unsigned int)(room < usual ? room : usual);
}

static int allocate(struct smcr_slab *slab, uint8_t bsize, uint8_t least, bool last)
{
	struct smcr_engine *engine = slab->lgr->engine;
	while (!affordable(slab->lgr, bsize, last) && bsize > least)
		bsize--;
	slab->count = (uint16_t)affordable(slab->lgr, bsize, last);
	if (!slab->count)
		return -ENOMEM;
	slab->bsize = bsize;
	slab->element_size = smcr_bsize_bytes(bsize);
	void *base;
	int rc = engine->ops.rdma->mem_alloc(engine->ops.rdma_ctx,
					     (size_t)slab->count * slab->element_size, &base);
	if (rc)
		return rc;
	slab->base = base;
	engine->memory_used += (uint64_t)slab->count * slab->element_size;
	return 0;
}

static int add(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least, bool last,
	       struct smcr_slab **ret_slab)
{
	if (is_rmb && smcr_slab_num_rmbs(lgr) >= SMCR_MAX_RMBS)
		return -ENOSPC; /* LG-13 */
	struct smcr_slab *slab = calloc(1, sizeof(*slab));
	if (!slab)
		return -ENOMEM;
	slab->lgr = lgr;
	slab->number = ++lgr->last_slab;
	slab->is_rmb = is_rmb;
	slab->state = is_rmb ? SMCR_SLAB_NEW : SMCR_SLAB_READY;
	smcr_timer_init(&slab->idle, on_idle, slab);
	smcr_timer_init(&slab->sweep, on_sweep, slab);
	/* The slab belongs to this group alone (PLG-3). */
	int rc = allocate(slab, bsize, least, last);
	if (is_rmb)
		DL_APPEND(lgr->rmbs, slab);
	else
		DL_APPEND(lgr->sndbufs, slab);
	for (unsigned int i = 0; !rc && i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i] && lgr->links[i]->qp)
			rc = smcr_slab_register(slab, lgr->links[i]);
	if (rc) {
		smcr_slab_free(slab);
		return rc;
	}
	*ret_slab = slab;
	return 0;
}

int smcr_slab_add(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		  struct smcr_slab **ret_slab)
{
	return add(lgr, is_rmb, bsize, least, false, ret_slab);
}

int smcr_slab_add_last(struct smcr_lgr *lgr, bool is_rmb, uint8_t bsize, uint8_t least,
		       struct smcr_slab **ret_slab)
{
	return add(lgr, is_rmb, bsize, least, true, ret_slab);
}

int smcr_slab_register(struct smcr_slab *slab, struct smcr_link *link)
{
	struct smcr_engine *engine = slab->lgr->engine;
	struct smcr_mr mr;
	int rc = engine->ops.rdma->mr_register(engine->ops.rdma_ctx, link->qp, slab->base,
					       (size_t)slab->count * slab->element_size,
					       slab->is_rmb, &mr);
	smcr_trace_link(link, slab->is_rmb ? "RMB: registration" : "send buffers: registration",
			rc);
	if (rc)
		return rc;
	slab->reg[link->slot].mr = mr.handle;
	slab->reg[link->slot].lkey = mr.lkey;
	slab->reg[link->slot].rkey = mr.rkey;
	slab->reg[link->slot].vaddr = mr.vaddr;
	slab->reg[link->slot].told = false;
	engine->count.num_mrs++;
	return 0;
}

void smcr_slab_deregister(struct smcr_slab *slab, struct smcr_link *link)
{
	struct smcr_engine *engine = slab->lgr->engine;
	if (!slab->reg[link->slot].mr)
		return;
	engine->ops.rdma->mr_deregister(engine->ops.rdma_ctx, slab->reg[link->slot].mr);
	smcr_trace_link(
		link,
		slab->is_rmb ? "RMB: end of registration" : "send buffers: end of registration", 0);
	memset(&slab->reg[link->slot], 0, sizeof(slab->reg[link->slot]));
	engine->count.num_mrs--;
}

void smcr_slab_free(struct smcr_slab *slab)
{
	struct smcr_lgr *lgr = slab->lgr;
	struct smcr_engine *engine = lgr->engine;
	smcr_llc_forget_slab(lgr, slab);
	for (unsigned int i = 0; i < SMCR_LINK_SLOTS; i++)
		if (lgr->links[i])
			smcr_slab_deregister(slab, lgr->links[i]);
	if (slab->base) {
		size_t len = (size_t)slab->count * slab->element_size;
		engine->ops.rdma->mem_free(engine->ops.rdma_ctx, slab->base, len);
		engine->memory_used -= len;
	}
	smcr_timer_stop(engine, &slab->idle);
	smcr_timer_stop(engine, &slab->sweep);
	if (slab->is_rmb)
		DL_DELETE(lgr->rmbs, slab);
	else
		DL_DELETE(lgr->sndbufs, slab);
	free(slab);
}
