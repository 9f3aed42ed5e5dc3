/* SPDX-License-Identifier: MIT */
/* What programs do on a connection, over SMC-R and over TCP alike. pair.c opens and ends it. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/observer.h"
#include "tests/sim/side.h"
#include "tests/sim/urgent.h"

/* ---- one interface over both ways ---- */

static size_t iov_total(const struct iovec *iov, int n)
{
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total;
}

static size_t io_readable(struct side *side)
{
	struct iovec iov[2];
	if (side->mode == SIDE_TCP)
		return tcp_readable(side_in(side));
	return iov_total(iov, smcr_conn_rx_data(side->conn, iov));
}

static size_t io_space(struct side *side)
{
	struct iovec iov[2];
	if (side->mode == SIDE_TCP)
		return tcp_space(side_out(side));
	return iov_total(iov, smcr_conn_tx_space(side->conn, iov));
}

static bool io_eof(struct side *side)
{
	struct tcp_pipe *in = side_in(side);
	if (side->mode == SIDE_TCP)
		return in->fin_arrived && in->taken == in->arrived;
	return smcr_conn_rx_eof(side->conn);
}

static void check_bytes(struct side *side, const uint8_t *buf, size_t len)
{
	if (!side->world->set.hostile &&
	    !stream_check(&side_peer(side)->stream, side->consumed, buf, len))
		world_fail(side->world, side->mode == SIDE_TCP ? "GEN-4" : "DATA",
			   "connection %u, %s: wrong bytes within %llu..%llu", side->pair->number,
			   side_name(side), (unsigned long long)side->consumed,
			   (unsigned long long)(side->consumed + len));
	side->consumed += len;
}

static void io_read(struct side *side, size_t len)
{
	struct iovec iov[2];
	uint8_t buf[4096];
	if (side->mode == SIDE_TCP) {
		while (len) {
			size_t n = len < sizeof(buf) ? len : sizeof(buf);
			tcp_take(side_in(side), buf, n);
			check_bytes(side, buf, n);
			len -= n;
		}
		return;
	}
	size_t left = len;
	int segments = smcr_conn_rx_data(side->conn, iov);
	urgent_read(side, len, iov_total(iov, segments));
	for (int i = 0; i < segments && left; i++) {
		size_t n = left < iov[i].iov_len ? left : iov[i].iov_len;
		check_bytes(side, iov[i].iov_base, n);
		left -= n;
	}
	counted_rx(side->host, len);
	smcr_conn_rx_consume(side->conn, len);
	obs_consumed(side->world->observer, side);
}

static void io_write(struct side *side, size_t len)
{
	struct iovec iov[2];
	uint8_t buf[4096];
	size_t left = len;
	if (side->mode == SIDE_TCP) {
		for (; left; left -= iov[0].iov_len) {
			iov[0].iov_len = left < sizeof(buf) ? left : sizeof(buf);
			stream_fill(&side->stream, side->committed, buf, iov[0].iov_len);
			side->committed += iov[0].iov_len;
			tcp_write(side_out(side), buf, iov[0].iov_len);
		}
		return;
	}
	int segments = smcr_conn_tx_space(side->conn, iov);
	for (int i = 0; i < segments && left; i++) {
		size_t n = left < iov[i].iov_len ? left : iov[i].iov_len;
		stream_fill(&side->stream, side->committed, iov[i].iov_base, n);
		side->committed += n;
		left -= n;
	}
	urgent_commit(side, len);
}

/* ---- what the plan calls for ---- */

/** Bytes that the plan lets the program write by now. */
static uint64_t wants_to_write(const struct side *side)
{
	const struct plan *plan = &side->plan;
	uint64_t allowed = plan->tx_total;
	if (plan->rr_request && side->index == CLIENT) {
		uint64_t rounds = 1 + side->consumed / plan->rr_response;
		if (rounds * plan->rr_request < allowed)
			allowed = rounds * plan->rr_request;
	} else if (plan->rr_request) {
		uint64_t rounds = side->consumed / plan->rr_request;
		if (rounds * plan->rr_response < allowed)
			allowed = rounds * plan->rr_response;
	}
	allowed = urgent_limit(side, allowed);
	if (side->shut || side->committed >= allowed)
		return 0;
	return allowed - side->committed;
}

static void do_read(struct side *side)
{
	struct world *w = side->world;
	const struct plan *plan = &side->plan;
	if (w->clock.now < side->next_read)
		return;
	size_t have = io_readable(side);
	size_t len = prng_size(&w->rng, plan->read_min, plan->read_max);
	if (len > have)
		len = have;
	if (!len)
		return;
	io_read(side, len);
	if (plan->read_pause)
		side->next_read = w->clock.now + prng_range(&w->rng, 0, plan->read_pause);
}

static void do_write(struct side *side)
{
	struct world *w = side->world;
	const struct plan *plan = &side->plan;
	if (w->clock.now < side->next_write)
		return;
	uint64_t want = wants_to_write(side);
	size_t space = io_space(side);
	size_t len = prng_size(&w->rng, plan->write_min, plan->write_max);
	if (len > want)
		len = (size_t)want;
	if (len > space) {
		urgent_announce(side);
		len = space;
	}
	if (!len)
		return;
	io_write(side, len);
	if (plan->write_pause)
		side->next_write = w->clock.now + prng_range(&w->rng, 0, plan->write_pause);
}

/** The program has done everything: it closes, at once or after the plan's `linger`. */
static void close_in_time(struct side *side)
{
	uint64_t now = side->world->clock.now;
	if (!side->close_at)
		side->close_at = now + side->plan.linger;
	if (now >= side->close_at)
		side_close(side);
}

static bool its_moment(const struct side *side)
{
	const struct plan *plan = &side->plan;
	return side->committed + side->consumed >= plan->end_bytes ||
	       side->world->clock.now >= side->open_at + plan->end_after;
}

static void do_end(struct side *side)
{
	const struct plan *plan = &side->plan;
	bool sent = side->committed == plan->tx_total;
	bool got = side->consumed == side_peer(side)->plan.tx_total;
	if (!side->eof && io_eof(side)) {
		side->eof = true;
		world_log(side->world, side->host->name, "connection %u: end of data after %llu",
			  side->pair->number, (unsigned long long)side->consumed);
	}
	switch (plan->end) {
	case END_CLOSE_DONE:
	case END_GIVE_UP:
		if (got && sent)
			close_in_time(side);
		break;
	case END_SHUTDOWN:
		if (sent && side->eof)
			close_in_time(side);
		else if (sent && !side->shut)
			side_shutdown(side);
		break;
	case END_CLOSE_EOF:
		if (sent && side->eof)
			close_in_time(side);
		break;
	case END_CLOSE_SENT:
		if (sent)
			close_in_time(side);
		break;
	case END_CLOSE_EARLY:
		if (its_moment(side))
			side_close(side);
		break;
	case END_ABORT:
		if (!its_moment(side))
			break;
		if (sent && side->index == 0) /* one side shuts writing down before that */
			side_shutdown(side);
		side_abort(side);
		break;
	}
	/* The peer ended before it had sent all: the program has nothing to wait for. */
	if (side_open(side) && side->eof && !got)
		side_close(side);
}

/* ---- when the program acts ---- */

static void wake_event(void *object, uint64_t arg)
{
	struct side *side = object;
	if (arg == side->wake_number && side->wake_pending) {
		side->wake_pending = false;
		side_step(side);
	}
}

void side_wake_at(struct side *side, uint64_t when)
{
	struct world *w = side->world;
	if (side->wake_pending && side->wake_at <= when)
		return;
	side->wake_pending = true;
	side->wake_at = when;
	clock_at(&w->clock, when, wake_event, side, ++side->wake_number);
}

void side_wake(struct side *side)
{
	struct world *w = side->world;
	side_wake_at(side, w->clock.now + prng_range(&w->rng, 0, w->set.wake_max));
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** Wake the program again for what it can do without another event. */
static void plan_next(struct side *side)
{
	struct world *w = side->world;
	uint64_t soon = w->clock.now + prng_range(&w->rng, 1, 1 + w->set.wake_max);
	if (io_readable(side))
		side_wake_at(side, later(soon, side->next_read));
	if (wants_to_write(side) && io_space(side))
		side_wake_at(side, later(soon, side->next_write));
	if (side->close_at)
		side_wake_at(side, later(soon, side->close_at));
	if (side->plan.end == END_CLOSE_EARLY || side->plan.end == END_ABORT)
		side_wake_at(side, later(soon, side->open_at + side->plan.end_after));
}

void side_step(struct side *side)
{
	bool smc = side->mode == SIDE_SMC;
	if (side->world->failed || !side_open(side))
		return;
	if (host_frozen(side->host)) {
		side_wake_at(side, host_frozen(side->host));
		return;
	}
	if (smc)
		host_enter(side->host);
	if (side_open(side))
		do_read(side);
	if (side_open(side))
		do_write(side);
	if (side_open(side))
		do_end(side);
	if (side_open(side))
		plan_next(side);
	if (smc)
		host_leave(side->host);
}
