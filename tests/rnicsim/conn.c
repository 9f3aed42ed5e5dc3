/* SPDX-License-Identifier: MIT */
#include "tests/rnicsim/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rnicsim/host.h"

#define REACTION    (100 * MSEC)
#define PERSISTENCE (10 * MSEC) /* an end tries so often to post its last request */

/* ---- users' time */

static void on_step(void *object, uint64_t arg)
{
	struct end *end = object;
	(void)arg;
	if (world->draining || end->over)
		return;
	if (end->host->frozen_until > now()) {
		clock_at(&world->clock, end->host->frozen_until, on_step, end, 0);
		return;
	}
	user_step(end);
	clock_in(&world->clock, choose_size(1, world->set.pace), on_step, end, 0);
}

static void on_late_destroy(void *object, uint64_t arg)
{
	struct end *end = object;
	(void)arg;
	if (end->qp)
		end_destroy(end);
}

/* The peer has heard on another way that this end is no more. */
static void on_told(void *object, uint64_t arg)
{
	struct end *end = object;
	(void)arg;
	if (end->over || !end->qp)
		return;
	end->gave_cause = true;
	if (chance(500))
		rnic_qp_error(end->qp);
	else
		end_destroy(end);
}

/* Nothing of the peer can happen any more. */
static void settle(struct end *end)
{
	for (size_t i = 0; i < MAX_REGIONS; i++)
		region_take_token(&end->regions[i]);
}

void end_is_over(struct end *end)
{
	if (end->over)
		return;
	end->over = true;
	settle(end);
	if (chance(600))
		clock_in(&world->clock, choose_size(1, REACTION), on_told, end->peer, 0);
	if (chance(800))
		clock_in(&world->clock, choose_size(1, REACTION), on_late_destroy, end, 0);
}

void end_destroy(struct end *end)
{
	struct rnic_qp *qp = end->qp;
	world_log("%s is destroyed", end->name);
	end->qp = NULL;
	rnic_qp_destroy(qp);
	for (; end->count > 0; end->count--, end->done++)
		free(request_at(end, end->count - 1)->read);
	end_is_over(end);
	arena_give(&end->source, end->source.end);
	arena_give(&end->sink, end->sink.end);
	arena_give(&end->inbox, end->inbox.end);
}

/* ---- begin */

static void choose_params(struct end *end)
{
	const unsigned int depth = chance(300) ? 4 : 64;
	end->params = (struct rnic_qp_params){
		.send_depth = (unsigned int)choose_size(1, depth),
		.recv_depth = (unsigned int)choose_size(1, depth),
		.recv_size = (unsigned int)choose_size(44, 8192),
		.on_completion = judge_completions,
		.may_give_up = chance(500) ? judge_may_give_up : NULL,
		.ctx = end,
	};
	end->asks_to_give_up = chance(500);
	end->send_params = (struct rnic_qp_send_params){
		.sq_psn = chance(300) ? 0xFFFFFF - (uint32_t)choose(0, 200)
				      : (uint32_t)choose(0, 0xFFFFFF),
		.retry_ms = (unsigned int)choose(world->set.retry_ms_min, world->set.retry_ms_max),
		.rnr_retry = chance(700) ? 7 : (unsigned int)choose(0, 6),
	};
	end->longest_retry_ms = end->send_params.retry_ms;
	end->room = end->params.recv_size;
	if (chance(400)) {
		end->params.user_receives = true;
		end->room = (uint32_t)choose_size(0, world->set.max_message);
	}
	if (chance(500))
		end->params.max_sge = (unsigned int)choose(0, RNIC_MAX_SGE);
	end->buffers = sim_alloc(end->params.recv_depth * sizeof(*end->buffers));
}

/* How many READs the peer of `end` may have under way, and how many it does have. */
static void choose_reads(struct end *end)
{
	struct rnic_info own, peers;
	rnic_get_info(end->host->rnic, &own);
	rnic_get_info(end->peer->host->rnic, &peers);
	end->reads_answered = (uint8_t)choose(0, own.max_reads_answered);
	uint8_t most = end->reads_answered < peers.max_reads_asked ? end->reads_answered
								   : peers.max_reads_asked;
	end->peer->send_params.reads_asked = chance(700) ? most : (uint8_t)choose(0, most);
	if (!chance(world->set.violations))
		return;
	end->peer->asks_too_much = true;
	end->peer->gave_cause = true;
	end->peer->send_params.reads_asked = (uint8_t)choose(most, peers.max_reads_asked);
}

static void give_memory(struct end *end)
{
	static const unsigned int rights[MAX_REGIONS] = {
		[TARGET] = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE,
		[OFFERED] = RNIC_ACCESS_REMOTE_READ,
		[WINDOWED] = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE |
			     RNIC_ACCESS_REMOTE_READ,
	};
	const size_t most = world->set.max_message;
	for (size_t i = 0; i < MAX_REGIONS; i++) {
		struct region *r = &end->regions[i];
		unsigned int more = i == TARGET && chance(500) ? RNIC_ACCESS_REMOTE_READ : 0;
		region_new(r, end, (size_t)choose_size(8, 2 * most), rights[i] | more);
		if (rnic_mr_register(end->pd, r->block.mem, r->block.len, r->access, &r->mr))
			world_fail("memory cannot be registered");
	}
	arena_new(&end->source, end->pd, 4 * most + 65536, 0);
	arena_new(&end->sink, end->pd, 4 * most + 4096, RNIC_ACCESS_LOCAL_WRITE);
	arena_new(&end->inbox, end->pd, 4 * ((size_t)end->room + 32) + 16384,
		  RNIC_ACCESS_LOCAL_WRITE);
	memory_give(end);
}

static void end_new(struct end *end, struct conn *conn, struct host *host)
{
	end->conn = conn;
	end->host = host;
	end->peer = end == &conn->ends[0] ? &conn->ends[1] : &conn->ends[0];
	snprintf(end->name, sizeof(end->name), "%zu%c@%zu", conn->number,
		 end == &conn->ends[0] ? 'a' : 'b', host->index);
	choose_params(end);
	end->pd = chance(700) ? host->pd : NULL;
	if ((!end->pd && rnic_pd_alloc(host->rnic, &end->pd)) ||
	    rnic_qp_create(end->pd, &end->params, &end->qp)) {
		world_fail("no queue pair for %s", end->name);
		return;
	}
	end->qpn = rnic_qp_num(end->qp);
	give_memory(end);
}

static void start(void *object, uint64_t arg)
{
	struct end *end = object;
	(void)arg;
	if (!end->qp || end->over || rnic_qp_start(end->qp, &end->send_params))
		return;
	end->started = true;
}

static void end_connect(struct end *end, uint8_t path_mtu)
{
	struct rnic_info info;
	struct rnic_qp_peer to = { .qpn = rnic_qp_num(end->peer->qp),
				   .rq_psn = end->peer->send_params.sq_psn,
				   .path_mtu = path_mtu,
				   .reads_answered = end->reads_answered };
	rnic_get_info(end->peer->host->rnic, &info);
	memcpy(to.gid, info.gids[0].raw, sizeof(to.gid));
	if (rnic_qp_connect(end->qp, &to))
		world_fail("%s cannot be connected", end->name);
	if (chance(800))
		start(end, 0);
	else
		clock_in(&world->clock, choose_size(1, 10 * MSEC), start, end, 0);
	clock_in(&world->clock, choose_size(1, 10 * MSEC), on_step, end, 0);
}

static uint8_t common_mtu(const struct conn *conn)
{
	struct rnic_info a, b;
	rnic_get_info(conn->ends[0].host->rnic, &a);
	rnic_get_info(conn->ends[1].host->rnic, &b);
	uint8_t most = a.max_path_mtu < b.max_path_mtu ? a.max_path_mtu : b.max_path_mtu;
	return chance(700) ? most : (uint8_t)choose(1, most);
}

static void conn_new(void)
{
	struct conn *conn = sim_alloc(sizeof(*conn));
	size_t a = choose(0, world->num_hosts - 1), b = choose(1, world->num_hosts - 1);
	conn->number = world->num_conns;
	world->conns[world->num_conns++] = conn;
	if (chance(950))
		b = (a + b) % world->num_hosts;
	else
		b = a;
	end_new(&conn->ends[0], conn, &world->hosts[a]);
	end_new(&conn->ends[1], conn, &world->hosts[b]);
	if (world->failed)
		return;
	uint8_t path_mtu = common_mtu(conn);
	conn->mtu = 128u << path_mtu;
	choose_reads(&conn->ends[0]);
	choose_reads(&conn->ends[1]);
	for (size_t i = 0; i < 2; i++)
		end_connect(&conn->ends[i], path_mtu);
	world_log("connection %zu between hosts %zu and %zu, path MTU %u", conn->number, a, b,
		  conn->mtu);
}

void conns_begin(void)
{
	for (size_t n = choose(1, world->set.conns); n > 0 && !world->failed; n--)
		conn_new();
}

void conns_tick(void)
{
	size_t alive = 0;
	for (size_t i = 0; i < world->num_conns; i++) {
		const struct end *ends = world->conns[i]->ends;
		alive += !ends[0].over && !ends[1].over;
	}
	/* Somebody has to do the steps of the run. */
	if (world->num_conns == MAX_CONNS)
		world->steps += alive == 0 ? world->set.steps : 0;
	else if (alive == 0 || (alive < world->set.conns && chance(20)))
		conn_new();
}

/* ---- end */

static bool is_idle(const struct end *end)
{
	return end->over || (end->last_done && end->count == 0);
}

static void on_last(void *object, uint64_t arg)
{
	struct end *end = object;
	(void)arg;
	if (end->over || !end->qp)
		return;
	memory_post_buffers(end);
	if (!end->last_posted)
		user_post_last(end);
	if (!conns_are_idle())
		clock_in(&world->clock, PERSISTENCE, on_last, end, 0);
}

void conns_drain(void)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		for (size_t k = 0; k < 2; k++)
			on_last(&world->conns[i]->ends[k], 0);
	}
}

bool conns_are_idle(void)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		if (!is_idle(&world->conns[i]->ends[0]) || !is_idle(&world->conns[i]->ends[1]))
			return false;
	}
	return true;
}

const char *conns_busy_text(void)
{
	static char text[200];
	for (size_t i = 0; i < world->num_conns; i++) {
		for (size_t k = 0; k < 2; k++) {
			const struct end *end = &world->conns[i]->ends[k];
			if (is_idle(end))
				continue;
			snprintf(text, sizeof(text), "%s has %zu requests under way%s", end->name,
				 end->count, end->last_posted ? "" : ", and no room for the last");
			return text;
		}
	}
	return "all is done";
}

void conns_end(void)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		size_t first = choose(0, 1);
		for (size_t k = 0; k < 2; k++) {
			struct end *end = &world->conns[i]->ends[first ^ k];
			if (end->qp)
				end_destroy(end);
		}
	}
}

void conns_release(void)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		for (size_t k = 0; k < 2; k++) {
			struct end *end = &world->conns[i]->ends[k];
			for (size_t j = 0; j < MAX_REGIONS; j++) {
				region_check(&end->regions[j]);
				region_free(&end->regions[j]);
			}
			arena_free(&end->source);
			arena_free(&end->sink);
			arena_free(&end->inbox);
			if (end->pd != end->host->pd)
				rnic_pd_free(end->pd);
		}
	}
}

/* Memory of the simulator itself: after a failure much else is left. */
void conns_free(void)
{
	for (size_t i = 0; i < world->num_conns; i++) {
		for (size_t k = 0; k < 2; k++) {
			free(world->conns[i]->ends[k].requests);
			free(world->conns[i]->ends[k].messages);
			free(world->conns[i]->ends[k].buffers);
		}
		free(world->conns[i]);
	}
	world->num_conns = 0;
}
