/* SPDX-License-Identifier: MIT */
#include "tests/sim/tcp.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/app.h"

#define WINDOW 65536u

static void init_pipe(struct tcp *tcp, int from, struct world *w, struct side *source,
		      struct side *to)
{
	tcp->pipe[from] = (struct tcp_pipe){
		.world = w,
		.tcp = tcp,
		.from = source,
		.to = to,
		.delay = (uint32_t)prng_range(&w->rng, w->set.tcp_min, w->set.tcp_max),
	};
}

void tcp_init(struct tcp *tcp, struct world *w, struct side *client, struct side *server)
{
	init_pipe(tcp, 0, w, client, server);
	init_pipe(tcp, 1, w, server, client);
}

void tcp_free(struct tcp *tcp)
{
	free(tcp->pipe[0].ring);
	free(tcp->pipe[1].ring);
}

size_t tcp_space(const struct tcp_pipe *pipe)
{
	uint64_t queued = pipe->written - pipe->taken;
	return queued < WINDOW ? WINDOW - (size_t)queued : 0;
}

size_t tcp_readable(const struct tcp_pipe *pipe)
{
	return (size_t)(pipe->arrived - pipe->taken);
}

static void put(struct tcp_pipe *pipe, const uint8_t *data, size_t len)
{
	size_t queued = (size_t)(pipe->written - pipe->taken);
	if (queued + len > pipe->cap) {
		size_t cap = pipe->cap ? pipe->cap : 256;
		while (cap < queued + len)
			cap *= 2;
		uint8_t *ring = sim_zalloc(cap);
		for (uint64_t i = pipe->taken; i < pipe->written; i++)
			ring[i % cap] = pipe->ring[i % pipe->cap];
		free(pipe->ring);
		pipe->ring = ring;
		pipe->cap = cap;
	}
	for (size_t i = 0; i < len; i++)
		pipe->ring[(pipe->written + i) % pipe->cap] = data[i];
	pipe->written += len;
}

static uint64_t arrival(struct tcp_pipe *pipe)
{
	struct world *w = pipe->world;
	uint64_t when = w->clock.now + pipe->delay + prng_range(&w->rng, 0, pipe->delay / 4 + 20);
	if (when <= pipe->last_arrival)
		when = pipe->last_arrival + 1;
	pipe->last_arrival = when;
	return when;
}

static void arrive_event(void *object, uint64_t arg)
{
	struct tcp_pipe *pipe = object;
	if (pipe->tcp->dead)
		return;
	pipe->arrived = arg;
	side_tcp_bytes(pipe->to);
}

static void fin_event(void *object, uint64_t arg)
{
	struct tcp_pipe *pipe = object;
	(void)arg;
	if (pipe->tcp->dead)
		return;
	pipe->fin_arrived = true;
	side_tcp_bytes(pipe->to);
}

/** Cut what waits into segments, across the borders of the writes that made it. */
static void flush_event(void *object, uint64_t arg)
{
	struct tcp_pipe *pipe = object;
	struct world *w = pipe->world;
	(void)arg;
	pipe->flush_pending = false;
	while (pipe->sent < pipe->written && !pipe->tcp->dead) {
		uint64_t len = pipe->written - pipe->sent;
		if (prng_chance(&w->rng, w->set.tcp_split_permille))
			len = prng_size(&w->rng, 1, len);
		pipe->sent += len;
		clock_at(&w->clock, arrival(pipe), arrive_event, pipe, pipe->sent);
	}
	if (pipe->fin && !pipe->fin_sent && !pipe->tcp->dead) {
		pipe->fin_sent = true;
		clock_at(&w->clock, arrival(pipe), fin_event, pipe, 0);
	}
}

static void schedule_flush(struct tcp_pipe *pipe)
{
	if (pipe->flush_pending)
		return;
	pipe->flush_pending = true;
	clock_in(&pipe->world->clock, prng_range(&pipe->world->rng, 0, 20), flush_event, pipe, 0);
}

void tcp_write(struct tcp_pipe *pipe, const uint8_t *data, size_t len)
{
	if (pipe->tcp->dead || pipe->fin)
		return;
	put(pipe, data, len);
	schedule_flush(pipe);
}

void tcp_peek(const struct tcp_pipe *pipe, uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = pipe->ring[(pipe->taken + i) % pipe->cap];
}

void tcp_take(struct tcp_pipe *pipe, uint8_t *buf, size_t len)
{
	tcp_peek(pipe, buf, len);
	pipe->taken += len;
	side_tcp_space(pipe->from);
}

void tcp_finish(struct tcp_pipe *pipe)
{
	if (pipe->fin || pipe->tcp->dead)
		return;
	pipe->fin = true;
	schedule_flush(pipe);
}

static void reset_event(void *object, uint64_t arg)
{
	struct tcp_pipe *pipe = object;
	(void)arg;
	side_tcp_reset(pipe->to);
}

void tcp_reset(struct tcp *tcp, int from)
{
	struct tcp_pipe *pipe = &tcp->pipe[from];
	if (tcp->dead)
		return;
	tcp->dead = true;
	clock_at(&pipe->world->clock, arrival(pipe), reset_event, pipe, 0);
}
