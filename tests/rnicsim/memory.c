/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/conn.h"
#include "tests/rnicsim/sights.h"

#define REMOTE (RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ)

/* ---- tokens */

static void give_by_mr(struct region *r)
{
	if (r->mr)
		region_give_token(r, rnic_mr_rkey(r->mr), rnic_mr_vaddr(r->mr), 0, r->block.len,
				  r->access);
}

void memory_give(struct end *end)
{
	give_by_mr(&end->regions[TARGET]);
	give_by_mr(&end->regions[OFFERED]);
}

/* A READ of the peer is under way whose token dies. If its response gets lost it has no other. */
static void may_fail(struct end *end, struct request *r)
{
	r->allowed |= ALLOWS(RNIC_WC_REM_ACCESS_ERR);
	if (r->opcode == RNIC_WR_RDMA_READ)
		r->allowed |= ALLOWS(RNIC_WC_RETRY_EXC_ERR);
	end->gave_cause = true;
	saw(SAW_TOKEN_DEATH);
}

void memory_token_ends(struct end *end, const struct token *token)
{
	for (size_t i = 0; i < end->count; i++) {
		struct request *r = request_at(end, i);
		if (r->opcode == RNIC_WR_RDMA_READ && r->token == token)
			may_fail(end, r);
	}
}

void memory_token_died(struct end *end, struct region *region, uint64_t from)
{
	struct end *peer = end->peer;
	const struct token *token = region->token;
	for (size_t i = 0; i < peer->count && token; i++) {
		struct request *r = request_at(peer, i);
		if (peer->done + i >= from && (r->token == token || r->kills == token))
			may_fail(peer, r);
	}
	region_take_token(region);
}

/* ---- windows */

static void bind_window(struct end *end)
{
	static const unsigned int rights[] = { RNIC_ACCESS_REMOTE_WRITE, RNIC_ACCESS_REMOTE_READ,
					       REMOTE };
	struct region *r = &end->regions[WINDOWED];
	if (!r->window && rnic_window_new(end->pd, &r->window)) {
		world_fail("%s gets no window", end->name);
		return;
	}
	size_t len = choose_size(1, r->block.len), offset = choose(0, r->block.len - len);
	unsigned int access = rights[choose(0, 2)];
	int error = rnic_window_bind(r->window, end->qp, r->mr, r->block.mem + offset, len, access);
	world_log("%s binds a window to [%zu, %zu): %s", end->name, offset, offset + len,
		  strerror(-error));
	if (error == -EIO || (error == -ENOTCONN && !end->started) || error == -ENOMEM)
		return;
	if (error)
		world_fail("%s cannot bind a window: %s", end->name, strerror(-error));
	saw(SAW_WINDOW);
	region_give_token(r, rnic_window_rkey(r->window), rnic_window_vaddr(r->window), offset, len,
			  access);
}

/* A window that is bound, or with rights that its region has not, must not be bound. */
static void bind_wrongly(struct end *end)
{
	struct region *r = &end->regions[WINDOWED];
	struct region *offered = &end->regions[OFFERED];
	int error = 0;
	if (r->token && r->token->given_up)
		return; /* it may have ended, and the user will be told */
	if (r->token)
		error = rnic_window_bind(r->window, end->qp, r->mr, r->block.mem, 1, REMOTE);
	else if (r->window && offered->mr)
		error = rnic_window_bind(r->window, end->qp, offered->mr, offered->block.mem, 1,
					 RNIC_ACCESS_REMOTE_WRITE);
	else
		return;
	if (!error)
		world_fail("%s has bound a window that it must not", end->name);
}

static void end_window(struct end *end)
{
	struct region *r = &end->regions[WINDOWED];
	int error = 0;
	if (chance(300)) {
		rnic_window_free(r->window);
		r->window = NULL;
	} else {
		error = rnic_window_invalidate(r->window, end->qp);
	}
	world_log("%s ends its window: %s", end->name, strerror(-error));
	if (error && error != -EIO && error != -ENOTCONN && error != -ENOMEM)
		world_fail("%s cannot invalidate a window: %s", end->name, strerror(-error));
	if (!error)
		memory_token_died(end, r, 0);
}

static void step_window(struct end *end)
{
	if (chance(100))
		bind_wrongly(end);
	else if (!end->regions[WINDOWED].token)
		bind_window(end);
	else if (chance(world->set.token_deaths))
		end_window(end);
}

/* ---- registration */

static void register_again(struct end *end)
{
	struct region *r = &end->regions[choose(0, MAX_REGIONS - 1)];
	world_log("%s registers region %zu again", end->name, (size_t)(r - end->regions));
	rnic_mr_deregister(r->mr);
	r->mr = NULL;
	memory_token_died(end, r, 0);
	/* A window that was bound to it may be bound again. */
	if (r->window && chance(500)) {
		rnic_window_free(r->window);
		r->window = NULL;
	}
	if (rnic_mr_register(end->pd, r->block.mem, r->block.len, r->access, &r->mr))
		world_fail("memory cannot be registered");
	else if (r != &end->regions[WINDOWED])
		give_by_mr(r);
}

/* The program frees the memory of its own requests that are under way. */
static void forget_own(struct end *end)
{
	bool sink = chance(500);
	world_log("%s frees what its %s use", end->name, sink ? "READs" : "SENDs and WRITEs");
	if (sink)
		arena_renew(&end->sink, end->pd, RNIC_ACCESS_LOCAL_WRITE);
	else
		arena_renew(&end->source, end->pd, 0);
	for (size_t i = 0; i < end->count; i++) {
		struct request *r = request_at(end, i);
		if (sink != (r->opcode == RNIC_WR_RDMA_READ))
			continue;
		r->allowed |= ALLOWS(RNIC_WC_LOC_PROT_ERR);
		r->spoilt = sink;
		saw(SAW_FREED_MEMORY);
		end->gave_cause = true;
	}
}

static void store(struct end *end)
{
	struct region *r = &end->regions[OFFERED];
	size_t len = choose_size(1, r->block.len);
	region_store(r, prng_next(&world->rng) << 8, choose(0, r->block.len - len), len);
}

void memory_step(struct end *end)
{
	if (chance(world->set.token_deaths / 10))
		register_again(end);
	else if (chance(world->set.violations / 10))
		forget_own(end);
	else if (chance(400))
		step_window(end);
	else
		store(end);
}

/* ---- receive buffers */

static bool draft_buffer(struct end *end, struct rnic_recv_wr *wr, struct buffer *b)
{
	uint32_t length = end->room + (uint32_t)(chance(500) ? 0 : choose_size(0, end->room + 16));
	uint8_t *addr = arena_take(&end->inbox, length);
	if (!addr)
		return false;
	*b = (struct buffer){ end->next_buffer_id++, arena_mark(&end->inbox), addr, length };
	*wr = (struct rnic_recv_wr){ b->wr_id, addr, length, rnic_mr_lkey(end->inbox.mr) };
	return true;
}

void memory_post_buffers(struct end *end)
{
	struct rnic_recv_wr wrs[8];
	struct buffer buffers[8];
	const unsigned int depth = end->params.recv_depth;
	if (!end->params.user_receives || !end->qp)
		return;
	unsigned int n = 0, most = (unsigned int)choose(1, 8);
	while (n < most && end->num_buffers + n < depth && draft_buffer(end, &wrs[n], &buffers[n]))
		n++;
	if (!n)
		return;
	int error = rnic_post_recv(end->qp, wrs, n);
	if (error == -EIO)
		return; /* the queue pair has failed, of which the user will be told */
	if (error) {
		world_fail("%s: posting %u buffers behind %u fails: %s", end->name, n,
			   end->num_buffers, strerror(-error));
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		end->buffers[(end->first_buffer + end->num_buffers++) % depth] = buffers[i];
	if (end->num_buffers == depth && rnic_post_recv(end->qp, wrs, 1) != -ENOMEM)
		world_fail("%s could post more buffers than it has places", end->name);
	world_log("%s posts %u buffers, it has %u", end->name, n, end->num_buffers);
}
