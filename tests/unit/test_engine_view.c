/* SPDX-License-Identifier: MIT */
/* The views of an engine, and the check of its own accounts: the simulator and tests of whole
 * exchanges rely on smcr_engine_check(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/smcr/llc.h"
#include "tests/lib/enginepair_filter.h"
#include "tests/lib/tries.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

/* ---- views ---- */

static void names(void **state)
{
	static const struct {
		int state;
		const char *name;
	} conns[] = {
		{ SMCR_STATE_INIT, "init" },
		{ SMCR_STATE_ACTIVE, "active" },
		{ SMCR_STATE_PEER_CLOSE_WAIT_1, "peer-close-wait-1" },
		{ SMCR_STATE_PEER_CLOSE_WAIT_2, "peer-close-wait-2" },
		{ SMCR_STATE_APP_CLOSE_WAIT_1, "app-close-wait-1" },
		{ SMCR_STATE_APP_CLOSE_WAIT_2, "app-close-wait-2" },
		{ SMCR_STATE_APP_FIN_CLOSE_WAIT, "app-fin-close-wait" },
		{ SMCR_STATE_PEER_FIN_CLOSE_WAIT, "peer-fin-close-wait" },
		{ SMCR_STATE_PEER_ABORT_WAIT, "peer-abort-wait" },
		{ SMCR_STATE_PROCESS_ABORT, "process-abort" },
		{ SMCR_STATE_CLOSED, "closed" },
		{ 99, "unknown" },
	}, links[] = {
		{ SMCR_LINK_ACTIVATING, "activating" },
		{ SMCR_LINK_ACTIVE, "active" },
		{ SMCR_LINK_DEACTIVATING, "deactivating" },
		{ SMCR_LINK_FAILED, "failed" },
		{ 99, "unknown" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(conns) / sizeof(conns[0]); i++) {
		TRIES("%s", conns[i].name);
		assert_string_equal(smcr_conn_state_name(conns[i].state), conns[i].name);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		TRIES("%s", links[i].name);
		assert_string_equal(smcr_link_state_name(links[i].state), links[i].name);
	}
}

/** Each timer that runs counts. Other tests rely on that: they end with no timer left. */
static void timers_are_counted(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	const uint32_t before = pair_engine_view(pair, S).num_timers;
	smcr_conn_shutdown(pair_end(pair, c, S)->smc); /* the peer's silence is limited now */
	pair_pump(pair);
	assert_int_equal(pair_engine_view(pair, S).num_timers, before + 1);
	pair_free(pair);
}

/** Bytes that wait for the window, bytes that may be on their way, and ends. */
static void view_of_a_connection(void **state)
{
	int c;
	struct smcr_conn_view view;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_conn *conn = pair_end(pair, c, S)->smc;
	struct smcr_conn_params params = pair_params(pair, S, SMCR_ROLE_SERVER, c);
	smcr_conn_get_view(conn, &view);
	assert_memory_equal(&view.local, &params.local, sizeof(view.local));
	assert_memory_equal(&view.peer, &params.peer, sizeof(view.peer));
	assert_int_equal(view.role, SMCR_ROLE_SERVER);
	assert_int_equal(view.lgr_id, pair_lgr_view(pair, S).id);
	assert_string_equal(view.peer_host, ""); /* no peer tells its host name in version 1 */
	assert_int_equal(view.link_number, conn->tx.link->number);
	assert_int_equal(view.state, SMCR_STATE_ACTIVE);
	assert_int_equal(view.pid, params.pid);
	assert_ptr_equal(view.user, pair_end(pair, c, S));
	assert_ptr_equal(smcr_conn_user(conn), pair_end(pair, c, S));
	assert_int_equal(view.rmbe_size, 16384);
	assert_int_equal(view.peer_rmbe_size, 16384);
	assert_true(view.sndbuf_size >= 16384);
	assert_false(view.tx_ended || view.rx_ended);
	assert_true(view.tx_unsent + view.tx_unacked == 0);
	uint64_t sent = view.tx_bytes, received = view.rx_bytes;

	pair->side[S].hold_completions = true;
	pair_send(pair, c, S, 100, 1);
	pair_send(pair, c, C, 30, 2);
	pair_pump(pair);
	smcr_conn_get_view(conn, &view);
	assert_true(view.tx_bytes == sent + 100 && view.rx_bytes == received + 30);
	assert_true(view.tx_unsent == 0 && view.tx_unacked == 100);
	pair->side[S].hold_completions = false;
	pair_pump(pair);
	smcr_conn_get_view(conn, &view);
	assert_true(view.tx_unacked == 0);
	pair_expect(pair, c, C, 100, 1);
	pair_expect(pair, c, S, 30, 2);
	pair_pump(pair);
	/* too little was read for an update of the consumer cursor */
	pair_send(pair, c, S, 16384 - 100, 3);
	pair_pump(pair);
	pair_send(pair, c, S, 70, 4); /* the window is full */
	pair_pump(pair);
	smcr_conn_get_view(conn, &view);
	assert_int_equal(view.tx_unsent, 70);
	assert_int_equal(view.tx_unacked, 70);

	smcr_conn_shutdown(pair_end(pair, c, C)->smc);
	pair_pump(pair);
	smcr_conn_get_view(conn, &view);
	assert_true(view.rx_ended && !view.tx_ended);
	smcr_conn_get_view(pair_end(pair, c, C)->smc, &view);
	assert_true(view.tx_ended && !view.rx_ended);
	pair_free(pair);
}

static void keep_conn_view(void *arg, const struct smcr_lgr_view *view)
{
	*(struct smcr_lgr_view *)arg = *view;
}

struct walk {
	unsigned int lgrs, links;
	bool enough;
};

static bool walk_lgr(void *arg, const struct smcr_lgr_view *view)
{
	struct walk *walk = arg;
	walk->lgrs += view->id != 0;
	return !walk->enough;
}

static bool walk_link(void *arg, const struct smcr_link_view *view)
{
	struct walk *walk = arg;
	walk->links += view->number != 0;
	return !walk->enough;
}

static void keep_link_view(void *arg, const struct smcr_link_view *view)
{
	struct smcr_link_view *views = arg;
	views[view->number] = *view;
}

static void views_of_a_group(void **state)
{
	(void)state;
	struct pair *pair = pair_new(NULL, NULL, 2, 2);
	int c[3];
	for (int i = 0; i < 3; i++)
		c[i] = pair_connected(pair);
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_engine *engine = pair->side[S].engine;
	struct smcr_lgr_view view;
	smcr_engine_each_lgr(engine, keep_conn_view, &view);
	assert_int_equal(view.id, lgr->id);
	assert_int_equal(view.role, SMCR_ROLE_SERVER);
	assert_string_equal(view.type, "symmetric");
	assert_int_equal(view.version, 1);
	assert_int_equal(view.num_conns, 3);
	assert_int_equal(view.num_links, 2);
	assert_int_equal(view.num_rmbs, 1);
	assert_int_equal(view.num_peer_rmbs, 1);
	assert_string_equal(view.eid, "");
	struct smcr_config config = pair_config(C);
	assert_memory_equal(view.peer_id, config.peer_id, SMCR_PEER_ID_LEN);
	pair_run(pair, 1000);
	smcr_engine_each_lgr(engine, keep_conn_view, &view);
	assert_true(view.idle_us == 0);

	struct smcr_link_view links[3] = { 0 };
	smcr_engine_each_link(engine, keep_link_view, links);
	for (uint8_t n = 1; n <= 2; n++) {
		const struct smcr_link *link = pair_link(pair, S, n);
		assert_int_equal(links[n].lgr_id, lgr->id);
		assert_memory_equal(&links[n].peer, &lgr->peer, sizeof(links[n].peer));
		assert_int_equal(links[n].state, SMCR_LINK_ACTIVE);
		assert_int_equal(links[n].device_id, pair->side[S].devices[n - 1].id);
		assert_string_equal(links[n].device_name, pair->side[S].devices[n - 1].name);
		assert_memory_equal(links[n].local_gid, link->local_gid, SMCR_GID_LEN);
		assert_memory_equal(links[n].peer_gid, pair_link_view(pair, C, n).local_gid,
				    SMCR_GID_LEN);
		assert_memory_equal(links[n].local_mac, link->local_mac, SMCR_MAC_LEN);
		assert_memory_equal(links[n].peer_mac, pair_link_view(pair, C, n).local_mac,
				    SMCR_MAC_LEN);
		assert_int_equal(links[n].local_qpn, pair_link_view(pair, C, n).peer_qpn);
		assert_int_equal(links[n].peer_qpn, pair_link_view(pair, C, n).local_qpn);
		assert_int_equal(links[n].uid, pair_link_view(pair, C, n).peer_uid);
		assert_int_equal(links[n].peer_uid, pair_link_view(pair, C, n).uid);
		assert_int_equal(links[n].mtu, SMCR_MTU_1024);
		assert_ptr_equal(links[n].qp, link->qp);
		assert_string_equal(links[n].last_error, "");
	}
	assert_int_equal(links[1].num_conns + links[2].num_conns, 3);

	struct walk walk = { 0 };
	assert_true(smcr_engine_walk_lgrs(engine, 0, walk_lgr, &walk));
	assert_true(smcr_engine_walk_lgrs(engine, lgr->id, walk_lgr, &walk));
	assert_int_equal(walk.lgrs, 1);
	assert_true(smcr_engine_walk_links(engine, 0, walk_link, &walk));
	assert_true(smcr_engine_walk_links(engine, lgr->id, walk_link, &walk));
	assert_int_equal(walk.links, 2);
	walk = (struct walk){ .enough = true }; /* a walk does not stop in the middle of a group */
	assert_false(smcr_engine_walk_lgrs(engine, 0, walk_lgr, &walk));
	assert_false(smcr_engine_walk_links(engine, 0, walk_link, &walk));
	assert_int_equal(walk.lgrs, 1);
	assert_int_equal(walk.links, 2);
	struct smcr_engine_view whole;
	smcr_engine_get_view(engine, &whole);
	assert_int_equal(whole.num_conns, 3);
	assert_int_equal(whole.num_lgrs, 1);
	assert_int_equal(whole.num_links, 2);
	assert_int_equal(whole.num_rmbs, 1);
	assert_int_equal(whole.num_elements_used, 3);
	assert_int_equal(whole.num_qps, 2);
	assert_int_equal(whole.conns_established, 3);
	assert_true(whole.memory_used > 0 && whole.memory_used <= whole.memory_budget);
	for (int i = 0; i < 3; i++)
		pair_close(pair, c[i]);
	pair_run(pair, 5000);
	smcr_engine_each_lgr(engine, keep_conn_view, &view);
	assert_true(view.idle_us >= 5000);
	assert_true(view.idle_us < 100000000);
	pair_free(pair);
}

/* ---- the check of the engine's accounts ---- */

static struct smcr_conn *conn_of(struct pair *pair)
{
	return pair->side[S].engine->conns;
}

static void expect_broken(struct pair *pair, const char *what)
{
	char text[256] = "";
	if (!smcr_engine_check(pair->side[S].engine, text, sizeof(text)))
		fail_msg("nothing is noticed: %s", what);
	if (!strstr(text, what))
		fail_msg("told: %s; expected: %s", text, what);
}

/** Change something, expect that it is noticed, and put it back. */
#define SPOIL(lvalue, value, what)                                                                 \
	do {                                                                                       \
		char text[256];                                                                    \
		__typeof__(lvalue) before = (lvalue);                                              \
		(lvalue) = (value);                                                                \
		expect_broken(pair, what);                                                         \
		(lvalue) = before;                                                                 \
		assert_int_equal(smcr_engine_check(pair->side[S].engine, text, sizeof(text)), 0);  \
	} while (0)

static void books_of_connections(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_conn *conn = conn_of(pair);
	pair_exchange(pair, c);
	SPOIL(conn->phase, SMCR_PHASE_GONE, "a connection that is gone is listed");
	SPOIL(conn->token, conn->token + 1, "does not find its connection");
	SPOIL(conn->tx.rmb->user[conn->tx.index], NULL, "is not marked as its own");
	SPOIL(conn->tx.urgent, true, "beyond an urgent byte");
	conn->tx.urgent_end = conn->tx.written;
	conn->tx.urgent = true;
	SPOIL(conn->tx.urgent_end, conn->tx.committed + 1, "beyond an urgent byte");
	conn->tx.urgent = false;
	SPOIL(conn->lgr, NULL, "an open connection has no group");
	struct smcr_link *link = conn->tx.link;
	conn->tx.link = NULL;
	conn->tx.waiting = true;
	expect_broken(pair, "waits for no link");
	conn->tx.waiting = false;
	conn->tx.link = link;
	pair_free(pair);
}

static void books_of_groups(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(2, &c);
	struct smcr_engine *engine = pair->side[S].engine;
	struct smcr_lgr *lgr = pair_lgr(pair, S);
	struct smcr_conn *conn = conn_of(pair);
	struct smcr_link *link = conn->tx.link;
	struct smcr_slab *slab = lgr->rmbs;
	SPOIL(lgr->num_conns, 2, "connections counted");
	SPOIL(link->slot, 5, "is not where it belongs");
	SPOIL(link->number, 0, "is not unique");
	SPOIL(link->number, 3 - link->number, "is not unique");
	SPOIL(link->tx_done, link->tx_next - link->tx_depth - 1, "send queue overrun");
	SPOIL(link->num_conns, link->num_conns + 1, "connections counted");
	SPOIL(link->num_named, link->num_named + 1, "connections counted");
	SPOIL(slab->used, slab->used + 1, "elements marked");
	SPOIL(slab->map[0], slab->map[0] | 0x80, "elements marked");
	SPOIL(conn->rx.element.slab, NULL, "elements held");
	SPOIL(slab->reg[link->slot].mr, NULL, "does not match the link");
	SPOIL(conn->tx.rmb->users, 2, "users marked");
	SPOIL(engine->memory_used, engine->memory_used + 1, "bytes held");
	SPOIL(engine->count.num_mrs, engine->count.num_mrs + 1, "MRs held");
	SPOIL(engine->count.num_qps, engine->count.num_qps + 1, "QPs");
	SPOIL(slab->reg[link->slot].told, false, "the peer has no RToken for an RMB (RKEY-11)");
	SPOIL(conn->tx.rmb->token[link->slot].valid, false, "no RToken for an RMB of the peer");
	/* Not while an exchange may change the value, nor on a link that is not active. */
	char text[256];
	slab->reg[link->slot].told = false;
	conn->tx.rmb->token[link->slot].valid = false;
	struct {
		int *what;
		int value;
	} excuses[] = { { (int *)&lgr->llc->step, SMCR_LLC_S_ADD },
			{ (int *)&lgr->llc->rkey.step, SMCR_RKEY_CONFIRM },
			{ (int *)&link->state, SMCR_LINK_FAILED },
			{ (int *)&lgr->state, SMCR_LGR_TERMINATING } };
	for (size_t i = 0; i < sizeof(excuses) / sizeof(excuses[0]); i++) {
		TRIES("row %zu", i);
		int before = *excuses[i].what;
		*excuses[i].what = excuses[i].value;
		assert_int_equal(smcr_engine_check(engine, text, sizeof(text)), 0);
		*excuses[i].what = before;
	}
	expect_broken(pair, "RToken");
	slab->reg[link->slot].told = true;
	conn->tx.rmb->token[link->slot].valid = true;
	/* The check tells the first thing that is wrong. */
	lgr->num_conns++;
	engine->memory_used++;
	expect_broken(pair, "group");
	lgr->num_conns--;
	engine->memory_used--;
	pair_free(pair);
}

static void books_of_timers(void **state)
{
	int c;
	(void)state;
	struct pair *pair = pair_grouped(1, &c);
	struct smcr_engine *engine = pair->side[S].engine;
	struct smcr_timer timers[3] = { 0 };
	for (int i = 0; i < 3; i++)
		smcr_timer_start(engine, &timers[i], 1000000u * (unsigned int)(i + 1));
	struct smcr_timer *first = engine->timers;
	assert_non_null(first->child);
	SPOIL(first->running, false, "does not run");
	SPOIL(first->child->deadline, 0, "is not ordered");
	SPOIL(first->child->prev, NULL, "is not ordered");
	SPOIL(engine->num_timers, engine->num_timers + 1, "timers counted");
	for (int i = 0; i < 3; i++)
		smcr_timer_stop(engine, &timers[i]);
	pair_free(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(timers_are_counted),
		cmocka_unit_test(view_of_a_connection),
		cmocka_unit_test(views_of_a_group),
		cmocka_unit_test(books_of_connections),
		cmocka_unit_test(books_of_groups),
		cmocka_unit_test(books_of_timers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
