/* SPDX-License-Identifier: MIT */
/* How connections begin and end: rendezvous, the TCP side, ends, and whether they ended well. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/smcr/conn.h"
#include "tests/sim/forge.h"
#include "tests/sim/observer.h"
#include "tests/sim/side.h"
#include "tests/sim/urgent.h"
#include "proto/smcr/clc.h"

const char *side_name(const struct side *side)
{
	return side->index == CLIENT ? "client" : "server";
}

struct side *side_peer(struct side *side)
{
	return &side->pair->side[!side->index];
}

/* ---- the end of a side ---- */

/** If the plans let every byte arrive, every byte must have arrived. */
static void check_clean(struct side *side)
{
	struct world *w = side->world;
	const struct side *peer = side_peer(side);
	if (!side->pair->clean)
		return;
	/* A Decline that comes after the peer's point of no return ends in a reset (ERR-6, A8). */
	bool gave_up = side->plan.end == END_GIVE_UP || peer->plan.end == END_GIVE_UP;
	if (gave_up && !(side->established && peer->established) &&
	    !(side->fallback && peer->fallback))
		return;
	if ((w->set.failures || w->set.timeouts) && (side->reset || !side->closed) &&
	    !obs_must_survive(w->observer, side->pair))
		return;
	if (side->reset || !side->closed)
		world_fail(w, "GEN-5",
			   "connection %u, %s: broken without a cause; %llu of %llu written, "
			   "%llu of %llu read",
			   side->pair->number, side_name(side), (unsigned long long)side->committed,
			   (unsigned long long)side->plan.tx_total,
			   (unsigned long long)side->consumed,
			   (unsigned long long)peer->plan.tx_total);
	else if (side->consumed != peer->plan.tx_total || side->committed != side->plan.tx_total)
		world_fail(w, "DATA",
			   "connection %u, %s: closed with %llu of %llu written, %llu of %llu read",
			   side->pair->number, side_name(side), (unsigned long long)side->committed,
			   (unsigned long long)side->plan.tx_total,
			   (unsigned long long)side->consumed,
			   (unsigned long long)peer->plan.tx_total);
}

static void check_outcomes(struct pair *pair)
{
	struct world *w = pair->world;
	const struct side *c = &pair->side[CLIENT], *s = &pair->side[SERVER];
	bool broken = (!c->established && !c->fallback) || (!s->established && !s->fallback);
	bool expected = w->set.failures || !pair->clean || c->plan.end == END_GIVE_UP ||
			s->plan.end == END_GIVE_UP;
	if (w->set.hostile || w->set.forged)
		return;
	if (c->fallback && s->fallback)
		obs_see(w->observer, SEEN_FALLBACK);
	/* When the acknowledgement of ADD LINK is lost with the link, the server cannot know that
	 * the client has gone on to SMC-R. Then the client must see an error, and no data. */
	if (w->set.failures && c->established && s->fallback && c->reset && !c->consumed)
		return;
	if ((c->established && s->fallback) || (c->fallback && s->established))
		world_fail(w, "GEN-4", "connection %u: client on %s, server on %s", pair->number,
			   c->established ? "SMC-R" : "TCP", s->established ? "SMC-R" : "TCP");
	else if (broken && !expected)
		world_fail(w, "GEN-4", "connection %u: the rendezvous broke the connection",
			   pair->number);
}

static void side_over(struct side *side)
{
	struct world *w = side->world;
	if (side->mode == SIDE_OVER)
		return;
	side->mode = SIDE_OVER;
	side->over_at = w->clock.now;
	w->sides_open--;
	world_log(w, side->host->name, "connection %u: over, %s%s", side->pair->number,
		  side->fallback ? "TCP" : "SMC-R", side->reset ? ", reset" : "");
	world_note(w, 3, side->pair->number, side->consumed);
	check_clean(side);
	if (side_peer(side)->mode == SIDE_OVER)
		check_outcomes(side->pair);
}

/* ---- what programs ask for ---- */

void side_shutdown(struct side *side)
{
	world_log(side->world, side->host->name, "connection %u: shutdown", side->pair->number);
	side->shut = true;
	if (side->mode == SIDE_TCP)
		tcp_finish(side_out(side));
	else
		smcr_conn_shutdown(side->conn);
}

void side_close(struct side *side)
{
	struct world *w = side->world;
	struct iovec iov[2];
	if (side->mode == SIDE_TCP) {
		side->closed = true;
		if (tcp_readable(side_in(side)))
			tcp_reset(&side->pair->tcp, side->index);
		else
			tcp_finish(side_out(side));
		side_over(side);
		return;
	}
	bool unread = side->plan.end == END_CLOSE_EARLY && prng_chance(&w->rng, 100);
	side->unread_close = unread || smcr_conn_rx_data(side->conn, iov) > 0;
	side->closed = true;
	side->before_reset = side->unread_close ? side->conn->tx.written : 0;
	world_log(w, side->host->name, "connection %u: close%s", side->pair->number,
		  side->unread_close ? " with unread data" : "");
	smcr_conn_close(side->conn, unread);
}

void side_abort(struct side *side)
{
	side->aborted = true;
	world_log(side->world, side->host->name, "connection %u: abort", side->pair->number);
	if (side->mode == SIDE_TCP) {
		tcp_reset(&side->pair->tcp, side->index);
		side_over(side);
		return;
	}
	side->before_reset = side->conn->tx.written;
	smcr_conn_abort(side->conn);
}

/* ---- events of the engine ---- */

static const char *const event_names[] = {
	"ESTABLISHED", "FALLBACK", "FAILED", "READABLE", "WRITABLE",
	"URGENT",      "OUTGROWN", "RESET",  "CLOSED",
};

static bool event_allowed(const struct side *side, enum smcr_conn_event_type type)
{
	bool open = side->mode == SIDE_SMC && !side->closed && !side->aborted && !side->reset;
	switch (type) {
	case SMCR_CONN_ESTABLISHED:
	case SMCR_CONN_FALLBACK:
	case SMCR_CONN_FAILED: return side->mode == SIDE_RENDEZVOUS;
	case SMCR_CONN_READABLE:
	case SMCR_CONN_WRITABLE:
	case SMCR_CONN_URGENT:
	case SMCR_CONN_OUTGROWN:
	case SMCR_CONN_RESET: return open;
	case SMCR_CONN_CLOSED: return side->mode == SIDE_SMC && !open;
	}
	return false;
}

/* The connection is reset, and the program may still read what came before. If messages are mangled
 * or forged, they may say anything of the data. */
static void check_last_bytes(struct side *side, bool ended)
{
	const struct world *w = side->world;
	const struct side *peer = side_peer(side);
	const bool over = peer->shut || peer->closed;
	struct iovec iov[2];
	unsigned long long got = side->consumed;
	if (w->set.hostile || w->set.forged)
		return;
	int n = smcr_conn_rx_data(side->conn, iov);
	for (int i = 0; i < n; i++)
		got += iov[i].iov_len;
	if (ended && (!over || got != peer->committed))
		world_fail(side->world, "ABORT-2",
			   "connection %u, %s: end of data after %llu of %llu bytes%s",
			   side->pair->number, side_name(side), got,
			   (unsigned long long)peer->committed,
			   over ? "" : ", and nobody has ended them");
	/* What comes before the program has the connection is lost with it. */
	if (!w->set.failures && side->open_at < w->clock.now && got < peer->before_reset)
		world_fail(side->world, "ABORT-2",
			   "connection %u, %s: reset after %llu of %llu bytes that were written",
			   side->pair->number, side_name(side), got,
			   (unsigned long long)peer->before_reset);
}

void side_event_raised(struct side *side, const struct smcr_conn_event *event)
{
	struct world *w = side->world;
	world_log(w, side->host->name, "connection %u: %s%s%s error %d reason %x/%x",
		  side->pair->number, event_names[event->type],
		  event->path_dead ? " dead path" : "", event->tcp_reset ? " tcp reset" : "",
		  event->error, event->reason, event->peer_reason);
	world_note(w, 4, side->pair->number, event->type);
	if (!event_allowed(side, event->type)) {
		world_fail(w, "HOST", "connection %u, %s: event %s out of turn", side->pair->number,
			   side_name(side), event_names[event->type]);
		return;
	}
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED:
		side->established = true;
		side->mode = SIDE_SMC;
		side->open_at = w->clock.now;
		side->next_read = w->clock.now + side->plan.read_start;
		obs_established(w->observer, side);
		break;
	case SMCR_CONN_FALLBACK:
		side->fallback = true;
		side->mode = SIDE_TCP;
		side->open_at = w->clock.now;
		side->next_read = w->clock.now + side->plan.read_start;
		break;
	case SMCR_CONN_FAILED:
		side->reset = true;
		if (obs_must_survive(w->observer, side->pair))
			world_fail(w, "ERR-4", "connection %u, %s: broken before it was open",
				   side->pair->number, side_name(side));
		if (event->error == ETIMEDOUT)
			obs_see(w->observer, SEEN_TIMED_OUT);
		break;
	case SMCR_CONN_RESET:
		side->reset = true;
		if (obs_must_survive(w->observer, side->pair))
			world_fail(w, "FO-2", "connection %u, %s: reset, but a link is left",
				   side->pair->number, side_name(side));
		obs_see(w->observer, SEEN_RESET);
		if (event->rx_intact)
			check_last_bytes(side, event->rx_ended);
		break;
	case SMCR_CONN_URGENT: urgent_raised(side); break;
	default: break;
	}
	if (event->type == SMCR_CONN_FALLBACK || event->type == SMCR_CONN_FAILED ||
	    event->type == SMCR_CONN_CLOSED) {
		side->conn = NULL;
		side->host->num_conns--;
		obs_side_gone(w->observer, side);
	}
}

void side_event(struct side *side, const struct smcr_conn_event *event)
{
	switch (event->type) {
	case SMCR_CONN_ESTABLISHED:
		side_share(side);
		side_wake(side);
		break;
	case SMCR_CONN_FALLBACK:
	case SMCR_CONN_READABLE:
	case SMCR_CONN_WRITABLE:
	case SMCR_CONN_URGENT:
		if (event->type == SMCR_CONN_FALLBACK && side->pair->tcp.dead) {
			/* The peer was faster, and has reset the TCP connection already. */
			side->reset = true;
			side_over(side);
			break;
		}
		if (event->type == SMCR_CONN_FALLBACK)
			side_tcp_bytes(side);
		side_wake(side);
		break;
	case SMCR_CONN_FAILED:
		tcp_reset(&side->pair->tcp, side->index);
		side_over(side);
		break;
	case SMCR_CONN_OUTGROWN: break;
	case SMCR_CONN_RESET: tcp_reset(&side->pair->tcp, side->index); break;
	case SMCR_CONN_CLOSED:
		if (event->tcp_reset)
			tcp_reset(&side->pair->tcp, side->index);
		else
			tcp_finish(side_out(side));
		side_over(side);
		break;
	}
}

/* ---- the TCP side ---- */

void side_clc_send(struct side *side, const uint8_t *msg, size_t len)
{
	struct prng *rng = &side->world->rng;
	uint8_t copy[SMCR_CLC_MAX_LEN];
	obs_clc_send(side->world->observer, side, msg, len);
	memcpy(copy, msg, len);
	len = forge_proposal(side->world, copy, len, sizeof(copy));
	if (prng_chance(rng, side->world->set.mangle_permille)) {
		obs_see(side->world->observer, SEEN_MANGLED);
		mangle(rng, copy, len);
	}
	tcp_write(side_out(side), copy, len);
}

/** Read CLC messages from the TCP connection, and not a byte that is no CLC message (CLC-15). */
static void feed_clc(struct side *side)
{
	struct tcp_pipe *in = side_in(side);
	uint8_t msg[SMCR_CLC_MAX_LEN];
	while (side->conn && smcr_conn_wants_clc(side->conn) && !side->world->failed &&
	       tcp_readable(in) >= SMCR_CLC_HEADER_LEN) {
		tcp_peek(in, msg, SMCR_CLC_HEADER_LEN);
		int len = smcr_clc_peek_length(msg, SMCR_CLC_HEADER_LEN);
		if (len < 0) {
			smcr_conn_clc_garbage(side->conn);
			return;
		}
		if (tcp_readable(in) < (size_t)len)
			return;
		tcp_peek(in, msg, (size_t)len);
		if (!smcr_conn_takes_clc(side->conn, msg, (size_t)len)) {
			smcr_conn_clc_garbage(side->conn);
			return;
		}
		tcp_take(in, msg, (size_t)len);
		obs_clc_recv(side->world->observer, side, msg, (size_t)len);
		smcr_conn_clc_input(side->conn, msg, (size_t)len);
	}
}

static void recheck_event(void *object, uint64_t arg)
{
	(void)arg;
	side_tcp_bytes(object);
}

static void bytes_for_engine(struct side *side)
{
	struct world *w = side->world;
	struct tcp_pipe *in = side_in(side);
	host_enter(side->host);
	feed_clc(side);
	if (side->conn && in->fin_arrived && !side->tcp_fin_told) {
		side->tcp_fin_told = true;
		smcr_conn_tcp_event(side->conn, SMCR_TCP_FIN);
	}
	bool again = side->conn && tcp_readable(in) > 0;
	if (again && side->mode == SIDE_SMC) {
		if (!w->set.failures)
			world_fail(w, "GEN-3", "connection %u: bytes on TCP after the rendezvous",
				   side->pair->number);
		/* The peer has fallen back, because it lost an acknowledgement and did not know
		 * that this side has passed its point of no return. The connection is lost. */
		smcr_conn_tcp_event(side->conn, SMCR_TCP_RESET);
	}
	host_leave(side->host);
	if (again && side->mode == SIDE_RENDEZVOUS)
		clock_in(&w->clock, prng_range(&w->rng, 50, 500), recheck_event, side, 0);
}

void side_tcp_bytes(struct side *side)
{
	struct world *w = side->world;
	if (w->failed || side->pair->tcp.dead)
		return;
	if (host_frozen(side->host)) {
		clock_at(&w->clock, host_frozen(side->host), recheck_event, side, 0);
		return;
	}
	if (side->conn && side->host->engine) {
		bytes_for_engine(side);
	} else if (side->mode == SIDE_TCP) {
		side_wake(side);
	} else if (side->mode == SIDE_OVER && side->fallback && tcp_readable(side_in(side))) {
		tcp_reset(&side->pair->tcp, side->index);
	}
}

void side_tcp_space(struct side *side)
{
	if (side->mode == SIDE_TCP)
		side_wake(side);
}

static void reset_later_event(void *object, uint64_t arg)
{
	(void)arg;
	side_tcp_reset(object);
}

void side_tcp_reset(struct side *side)
{
	if (side->world->failed)
		return;
	if (host_frozen(side->host)) {
		clock_at(&side->world->clock, host_frozen(side->host), reset_later_event, side, 0);
		return;
	}
	world_log(side->world, side->host->name, "connection %u: TCP reset by the peer",
		  side->pair->number);
	if (side->conn) {
		host_enter(side->host);
		if (side->conn)
			smcr_conn_tcp_event(side->conn, SMCR_TCP_RESET);
		host_leave(side->host);
	}
	/* Timers that host_enter() ran may have sent the connection back to TCP. */
	if (!side->conn && (side->mode == SIDE_TCP || side->mode == SIDE_NEW)) {
		side->reset = true;
		side_over(side);
	}
}

void side_daemon_died(struct side *side)
{
	if (side->mode == SIDE_OVER || side->mode == SIDE_TCP)
		return;
	if (side->conn)
		side->host->num_conns--;
	side->conn = NULL;
	side->reset = true;
	obs_side_gone(side->world->observer, side);
	tcp_reset(&side->pair->tcp, side->index);
	side_over(side);
}

/* ---- opening ---- */

static void give_up_event(void *object, uint64_t arg)
{
	struct side *side = object;
	(void)arg;
	if (side->world->failed || !side->conn || side->mode != SIDE_RENDEZVOUS ||
	    host_frozen(side->host))
		return;
	host_enter(side->host);
	if (side->conn && side->mode == SIDE_RENDEZVOUS)
		smcr_conn_give_up(side->conn, SMCR_REASON_NO_MEMORY);
	host_leave(side->host);
}

static struct smcr_addr address(const struct host *host, uint8_t family, unsigned int lan,
				uint16_t port)
{
	struct smcr_addr addr = { .family = family, .port = port };
	uint8_t number = (uint8_t)(host->index + 101);
	const uint8_t v4[4] = { 10, (uint8_t)lan, 0, number };
	const uint8_t v6[16] = { 0xfd, 0, 0, (uint8_t)lan, [15] = number };
	if (family == AF_INET)
		memcpy(addr.ip, v4, sizeof(v4));
	else
		memcpy(addr.ip, v6, sizeof(v6));
	return addr;
}

static void start_event(void *object, uint64_t arg)
{
	struct side *side = object;
	struct world *w = side->world;
	struct pair *pair = side->pair;
	struct side *peer = side_peer(side);
	if (side->mode != SIDE_NEW || w->failed)
		return;
	if (host_frozen(side->host)) {
		clock_at(&w->clock, host_frozen(side->host), start_event, side, arg);
		return;
	}
	unsigned int lan = (unsigned int)arg & 0xff, peer_lan = (unsigned int)arg >> 8;
	uint16_t port = (uint16_t)(20000 + pair->number % 40000);
	bool client = side->index == CLIENT;
	struct smcr_conn_params params = {
		.role = client ? SMCR_ROLE_CLIENT : SMCR_ROLE_SERVER,
		.local = address(side->host, pair->family, lan, client ? port : 80),
		.peer = address(peer->host, pair->family, peer_lan, client ? 80 : port),
		.local_prefix_len = pair->family == AF_INET ? 24 : 64,
		.vlan = SMCR_NO_VLAN,
		.rcvbuf = side->plan.rcvbuf,
		.user = side,
		.pid = 1000 + pair->number,
	};
	struct smcr_conn *conn = NULL;
	host_enter(side->host);
	side->mode = SIDE_RENDEZVOUS;
	side->host->num_conns++;
	int r = smcr_conn_start(side->host->engine, &params, &conn);
	if (r < 0)
		world_fail(w, "HOST", "smcr_conn_start: %s", strerror(-r));
	else if (side->mode == SIDE_RENDEZVOUS)
		side->conn = conn;
	host_leave(side->host);
	if (side->plan.end == END_GIVE_UP)
		clock_in(&w->clock, prng_size(&w->rng, 0, 20 * MSEC), give_up_event, side, 0);
	side_tcp_bytes(side);
}

/** Streams that look like CLC must not be taken for it (ERR-14). */
static void init_stream(struct side *side)
{
	struct world *w = side->world;
	struct stream *stream = &side->stream;
	stream->key = prng_next(&w->rng);
	if (!prng_chance(&w->rng, 100))
		return;
	struct smcr_clc_decline decline = { .version = 1, .diagnosis = SMCR_REASON_CONFIG };
	int len = smcr_clc_encode_decline(&decline, stream->prefix, sizeof(stream->prefix));
	stream->prefix_len = len > 0 ? (size_t)len : 0;
}

/** Do these plans let every byte arrive? Early ends do not. A side that closes without reading must
 *  have nothing to read. */
static bool plans_clean(const struct plan plan[2])
{
	for (int s = 0; s < 2; s++) {
		if (plan[s].end == END_CLOSE_EARLY || plan[s].end == END_ABORT)
			return false;
		if (plan[s].end == END_CLOSE_SENT && plan[!s].tx_total)
			return false;
	}
	return plan[0].end != END_CLOSE_EOF || plan[1].end != END_CLOSE_EOF;
}

struct pair *pair_open(struct world *w, const struct route *route, const struct plan plan[2],
		       uint64_t when)
{
	struct pair *pair = sim_zalloc(sizeof(*pair));
	if (w->num_pairs == w->cap_pairs) {
		w->cap_pairs = w->cap_pairs ? 2 * w->cap_pairs : 32;
		w->pairs = realloc(w->pairs, w->cap_pairs * sizeof(struct pair *));
		if (!w->pairs)
			abort();
	}
	pair->world = w;
	pair->number = (uint32_t)w->num_pairs + 1;
	pair->family = route->family;
	pair->clean = plans_clean(plan);
	w->pairs[w->num_pairs++] = pair;
	for (int s = 0; s < 2; s++) {
		struct side *side = &pair->side[s];
		side->world = w;
		side->pair = pair;
		side->index = s;
		side->host = route->host[s];
		side->lan = route->lan[s];
		side->plan = plan[s];
		init_stream(side);
		w->sides_open++;
		clock_at(&w->clock, when + prng_range(&w->rng, 0, w->set.tcp_max), start_event,
			 side, route->lan[s] | route->lan[!s] << 8);
	}
	urgent_plan(pair);
	tcp_init(&pair->tcp, w, &pair->side[CLIENT], &pair->side[SERVER]);
	return pair;
}

void pair_free(struct pair *pair)
{
	tcp_free(&pair->tcp);
	free(pair);
}
