/* SPDX-License-Identifier: MIT */
/* Random walks of two connections that are each other's peer, through their whole life: data,
 * shutdown, close, abort, TCP's FIN and RST, lost links, time. Every run ends with both programs
 * told and both connections freed. A run in which nobody breaks anything ends in good order, with
 * every byte delivered. */
#include "tests/lib/connfix.h"

#include "tests/lib/proves.h"

#define SECOND 1000000ull

struct program {
	struct connfix *f;
	size_t to_send, sent, received;
	bool shut, closed; /* the program called shutdown(WR), close() or abort() */
	bool tcp_told;     /* the end of this side's TCP has reached the other side */
	bool reset;        /* the program was told RESET */
};

struct walk {
	struct program side[2];
	uint64_t seed;
	bool rough; /* aborts, early closes and broken links may happen */
	bool lost;  /* a link was lost, or a timer ended a wait: the other side may not know yet */
};

static uint32_t dice(struct walk *w, uint32_t sides)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->seed >> 33) % sides;
}

static bool usable(const struct program *p)
{
	return !p->closed && !p->reset && !p->f->closed_raised;
}

/* Does what the host does at events: TCP ends with the connection. */
static void take_events(struct program *p, struct program *other)
{
	struct connfix *f = p->f;
	for (; f->events_seen < f->num_events; f->events_seen++) {
		const struct smcr_conn_event *event = &f->events[f->events_seen];
		bool rst = event->type == SMCR_CONN_RESET ||
			   (event->type == SMCR_CONN_CLOSED && event->tcp_reset);
		if (event->type == SMCR_CONN_RESET)
			p->reset = true;
		if (!rst && event->type != SMCR_CONN_CLOSED)
			continue;
		if (!p->tcp_told && !other->f->closed_raised)
			smcr_conn_tcp_event(other->f->conn, rst ? SMCR_TCP_RESET : SMCR_TCP_FIN);
		p->tcp_told = true;
	}
	f->num_events = f->events_seen = 0;
}

static void write_some(struct walk *w, struct program *p)
{
	size_t n = connfix_space(p->f);
	if (n > p->to_send - p->sent)
		n = p->to_send - p->sent;
	if (n == 0 || p->shut)
		return;
	n = dice(w, (uint32_t)n) + 1;
	connfix_write(p->f, n);
	p->sent += n;
}

static void read_some(struct walk *w, struct program *p)
{
	size_t n = connfix_readable(p->f);
	if (!n || !usable(p)) /* connfix_readable() may have ended the connection */
		return;
	n = dice(w, (uint32_t)n) + 1;
	connfix_read(p->f, n);
	p->received += n;
}

/* Ends in good order: shutdown when all is sent, close when the peer's end was read. */
static void end_politely(struct program *p)
{
	if (p->sent == p->to_send && !p->shut) {
		p->shut = true;
		smcr_conn_shutdown(p->f->conn);
	}
	if (p->shut && usable(p) && smcr_conn_rx_eof(p->f->conn)) {
		p->closed = true;
		smcr_conn_close(p->f->conn, false);
	}
}

static void end_roughly(struct walk *w, struct program *p)
{
	p->closed = true;
	if (dice(w, 2))
		smcr_conn_abort(p->f->conn);
	else
		smcr_conn_close(p->f->conn, dice(w, 2));
}

static void rnic(struct walk *w, struct program *p)
{
	connfix_deliver(p->f);
	size_t n = connfix_in_flight(p->f);
	if (n)
		connfix_complete_n(p->f, dice(w, (uint32_t)n) + 1);
}

static void lose_link(struct walk *w, struct program *p)
{
	w->lost = true;
	if (p->f->link->state == SMCR_LINK_ACTIVE)
		connfix_break_link(p->f, p->f->link);
}

static void pass_time(struct walk *w, struct program *p)
{
	w->lost = true;
	connfix_run(p->f, 30 * SECOND);
}

static void step(struct walk *w, struct program *p)
{
	uint32_t action = dice(w, w->rough ? 400 : 100);
	if (action < 30 && usable(p))
		write_some(w, p);
	else if (action < 60 && usable(p))
		read_some(w, p);
	else if (action < 90)
		rnic(w, p);
	else if (action < 98 && usable(p))
		end_politely(p);
	else if (action < 100)
		connfix_run(p->f, dice(w, 1000));
	else if (action == 100 && usable(p))
		end_roughly(w, p);
	else if (action == 101 && !p->f->closed_raised)
		smcr_conn_tcp_event(p->f->conn, dice(w, 2) ? SMCR_TCP_RESET : SMCR_TCP_FIN);
	else if (action == 102 && dice(w, 3) == 0)
		lose_link(w, p);
	else if (action == 103 && dice(w, 20) == 0)
		pass_time(w, p);
}

static void walk(uint64_t seed, bool rough)
{
	struct walk w = { .seed = seed, .rough = rough };
	struct connfix_params params = {
		.deployed = seed % 2,
		.element = 100 + dice(&w, 20000),
		.sndbuf = 1u << (6 + dice(&w, 10)),
		.send_depth = 64,
		.links = 1 + dice(&w, 2),
	};
	connfix_new_pair(&params, &params, &w.side[0].f, &w.side[1].f);
	for (unsigned int i = 0; i < 2; i++)
		w.side[i].to_send = dice(&w, 60000);
	unsigned int steps = 0;
	while (!connfix_gone(w.side[0].f) || !connfix_gone(w.side[1].f)) {
		unsigned int i = dice(&w, 2);
		struct program *p = &w.side[i], *other = &w.side[1 - i];
		if (!connfix_gone(p->f))
			step(&w, p);
		take_events(p, other);
		take_events(other, p);
		for (i = 0; i < 2; i++)
			if (w.side[i].f->num_posts > CONNFIX_LOG / 2)
				connfix_forget(w.side[i].f);
		if (++steps > 300000)
			fail_msg("seed %ju does not end", (uintmax_t)seed);
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct program *p = &w.side[i];
		assert_true(p->f->closed_raised);
		if (!w.lost) /* RMB-8 */
			assert_int_equal(p->f->strays, 0);
		if (!rough) {
			assert_false(p->reset);
			assert_int_equal(p->received, w.side[1 - i].to_send);
		}
	}
	connfix_free(w.side[0].f);
	connfix_free(w.side[1].f);
}

static void in_good_order(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++)
		walk(seed, false);
	PROVES("CLOSE-2 CLOSE-6 WIN-7");
}

static void with_everything(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 600; seed++)
		walk(seed, true);
	PROVES("ABORT-2 ABORT-5 GEN-5 RMB-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_good_order),
		cmocka_unit_test(with_everything),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
