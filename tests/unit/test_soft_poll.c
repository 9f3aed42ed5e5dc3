/* SPDX-License-Identifier: MIT */
/* Devices and callbacks. rnic_poll() handles packets that have arrived at a device at once, also
 * from the callback of another device. A callback that takes long must not count as silence of the
 * peer. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "daemon/rnic/alarm.h"
#include "tests/lib/rnic_side.h"
#include "tests/lib/testnet.h"

#define MEM      65536
#define SLOT     200
#define NOTES    100
#define PATIENCE 30000 /* milliseconds: of a busy machine */

static struct testnet net;
static struct event_base *far_base, *base, *other_base;
/* Each has an event loop of its own, which runs only when a test calls it. */
static struct rnic_side far_end; /* sends */
static struct rnic_side near;    /* receives */
static struct rnic_side other;   /* in near's namespace, connected to itself */

static int setup(void **state)
{
	(void)state;
	testnet_new(&net, 1500);
	far_base = event_base_new();
	base = event_base_new();
	other_base = event_base_new();
	rnic_side_open(&far_end, far_base, "soft:t0", MEM);
	testnet_enter(&net, 1);
	rnic_side_open(&near, base, "soft:t1", MEM);
	rnic_side_open(&other, other_base, "soft:lo", MEM);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rnic_side_close(&far_end);
	rnic_side_close(&near);
	rnic_side_close(&other);
	event_base_free(far_base);
	event_base_free(base);
	event_base_free(other_base);
	testnet_free(&net);
	return 0;
}

static int connect_all(void **state)
{
	(void)state;
	rnic_side_qp(&far_end, 2 * NOTES, 8, 64);
	rnic_side_qp(&near, 8, NOTES, 64);
	rnic_side_qp(&other, 8, 8, 64);
	rnic_side_join(&far_end, &near, 3);
	struct rnic_qp_peer self = rnic_side_peer(&other, 0, 3);
	rnic_side_connect(&other, &self, 4000, 7);
	rnic_side_pattern(far_end.mem, MEM, 7);
	memset(near.mem, 0, MEM);
	return 0;
}

static int disconnect(void **state)
{
	(void)state;
	struct rnic_side *sides[] = { &far_end, &near, &other };
	for (int i = 0; i < 3; i++) {
		rnic_side_qp_destroy(sides[i]);
		rnic_side_forget(sides[i]);
		sides[i]->hook = NULL;
	}
	return 0;
}

/* On return NOTES pairs of a WRITE and a SEND are in the near device's socket. */
static void fill_socket(void)
{
	struct rnic_stats before, now;
	rnic_get_stats(far_end.rnic, &before);
	for (uint32_t i = 0; i < NOTES; i++) {
		assert_int_equal(rnic_side_write(&far_end, i * SLOT, SLOT, &near, i * SLOT, i), 0);
		assert_int_equal(rnic_side_send(&far_end, &i, sizeof(i), i), 0);
	}
	do {
		event_base_loop(far_base, EVLOOP_ONCE);
		rnic_get_stats(far_end.rnic, &now);
	} while (now.tx_packets - before.tx_packets < 2 * NOTES);
	assert_int_equal(near.num_messages, 0);
	assert_int_equal(near.mem[0] | near.mem[SLOT], 0);
}

static void expect_everything(void)
{
	assert_int_equal(near.num_messages, NOTES);
	assert_memory_equal(near.mem, far_end.mem, NOTES * SLOT);
	for (uint32_t i = 0; i < NOTES; i++)
		assert_memory_equal(near.messages[i].data, &i, sizeof(i));
}

/* The ACKs are sent from the event loop. */
static void expect_answers(void)
{
	for (int i = 0; i < PATIENCE && far_end.num_sends < 2 * NOTES; i++) {
		rnic_side_idle(base, 1);
		rnic_side_idle(far_base, 1);
	}
	assert_int_equal(far_end.num_sends, 2 * NOTES);
	for (size_t i = 0; i < far_end.num_sends; i++)
		assert_int_equal(far_end.sends[i].status, RNIC_WC_SUCCESS);
	expect_everything(); /* each message came once */
}

static void hands_in_what_has_arrived(void **state)
{
	(void)state;
	rnic_poll(near.rnic); /* nothing has arrived */
	assert_int_equal(near.num_messages, 0);
	fill_socket();
	rnic_poll(near.rnic);
	expect_everything();
	rnic_poll(near.rnic);
	expect_everything();
	expect_answers();
}

static void poll_near(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (!wc->is_recv)
		return;
	assert_int_equal(near.num_messages, 0);
	rnic_poll(near.rnic);
	expect_everything();
	rnic_poll(side->rnic); /* this device has no other queue pair: nothing happens */
}

static void from_another_devices_callback(void **state)
{
	(void)state;
	other.hook = poll_near;
	assert_int_equal(rnic_side_send(&other, "now", 3, 1), 0);
	fill_socket();
	assert_true(rnic_side_wait(other_base, &other.num_messages, 1, PATIENCE));
	expect_answers();
}

static void destroy_all(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)wc;
	rnic_side_qp_destroy(side);
	rnic_side_qp_destroy(&other);
}

/* The callback may destroy the queue pair here too. */
static void callback_destroys(void **state)
{
	(void)state;
	fill_socket();
	near.hook = destroy_all;
	rnic_poll(near.rnic);
	assert_null(near.qp);
	rnic_side_idle(base, 1);
}

/* A second queue pair on each of the devices far_end and near, with its own records. */
static struct rnic_side far_second, near_second;

static void second_open(struct rnic_side *second, const struct rnic_side *side)
{
	*second = (struct rnic_side){ .base = side->base, .rnic = side->rnic, .pd = side->pd };
	second->psn = side->psn;
	rnic_side_qp(second, 8, 8, 64);
}

static int connect_second(void **state)
{
	connect_all(state);
	second_open(&far_second, &far_end);
	second_open(&near_second, &near);
	rnic_side_join(&far_second, &near_second, 3);
	rnic_qp_set_retry(far_end.qp, 200);
	rnic_qp_set_retry(far_second.qp, 200);
	return 0;
}

static int disconnect_second(void **state)
{
	rnic_side_qp_destroy(&far_second);
	rnic_side_qp_destroy(&near_second);
	rnic_side_forget(&far_second);
	rnic_side_forget(&near_second);
	return disconnect(state);
}

static void destroy_other(struct rnic_side *side, const struct rnic_wc *wc)
{
	(void)wc;
	rnic_side_qp_destroy(side->hook_ctx);
}

/* Two messages arrive, and the callback for the first one destroys the other queue pair; the
 * network may exchange their order. A message that no callback got is not acknowledged, so its
 * sender knows that it did not arrive. */
static void destroyed_before_it_was_told(void **state)
{
	(void)state;
	near.hook = near_second.hook = destroy_other;
	near.hook_ctx = &near_second;
	near_second.hook_ctx = &near;

	struct rnic_stats before, now;
	rnic_get_stats(far_end.rnic, &before);
	assert_int_equal(rnic_side_send(&far_end, "first", 5, 1), 0);
	assert_int_equal(rnic_side_send(&far_second, "second", 6, 2), 0);
	do {
		event_base_loop(far_base, EVLOOP_ONCE);
		rnic_get_stats(far_end.rnic, &now);
	} while (now.tx_packets - before.tx_packets < 2);
	for (int i = 0; i < PATIENCE && (far_end.num_sends < 1 || far_second.num_sends < 1); i++) {
		rnic_side_idle(base, 1);
		rnic_side_idle(far_base, 1);
	}
	assert_int_equal(near.num_messages + near_second.num_messages, 1);
	bool first = near.num_messages == 1;
	assert_null(first ? near_second.qp : near.qp);
	const struct rnic_side *told = first ? &far_end : &far_second;
	const struct rnic_side *untold = first ? &far_second : &far_end;
	assert_int_equal(told->num_sends, 1);
	assert_int_equal(told->sends[0].status, RNIC_WC_SUCCESS);
	assert_int_equal(untold->num_sends, 1);
	assert_int_equal(untold->sends[0].status, RNIC_WC_RETRY_EXC_ERR);
}

#define SLOW_US 250000 /* longer than any retransmission timer */
#define SOON_US 5000   /* shorter than any */
#define TRIES   20     /* on a busy machine SOON_US may not be enough */

static uint64_t posted_at;

/* The callback for the first completion takes long, and posts a request, which leaves in the same
 * run of the loop. */
static void post_slowly(struct rnic_side *side, const struct rnic_wc *wc)
{
	if (wc->is_recv || wc->wr_id != 1)
		return;
	usleep(SLOW_US);
	posted_at = alarm_now();
	assert_int_equal(rnic_side_send(side, "second", 6, 2), 0);
}

static void slow_callback_is_no_silence(void **state)
{
	struct rnic_stats before, now;
	for (int i = 0; i < TRIES; i++) {
		far_end.hook = post_slowly;
		assert_int_equal(rnic_side_send(&far_end, "first", 5, 1), 0);
		rnic_side_idle(far_base, 1);
		rnic_side_wait(base, &near.num_messages, 1, PATIENCE);
		rnic_side_idle(base, 5); /* time for the ACK */
		rnic_get_stats(far_end.rnic, &before);
		rnic_side_wait(far_base, &far_end.num_sends, 1, PATIENCE);
		for (int k = 0; k < 5; k++)
			event_base_loop(far_base, EVLOOP_NONBLOCK);
		rnic_get_stats(far_end.rnic, &now);
		assert_int_equal(far_end.num_sends, 1);
		if (alarm_now() - posted_at < SOON_US) {
			assert_int_equal(now.retransmits, before.retransmits);
			return;
		}
		disconnect(state);
		connect_all(state);
	}
	fail_msg("never fast enough");
}

int main(void)
{
#define CONNECTED(f) cmocka_unit_test_setup_teardown(f, connect_all, disconnect)
	const struct CMUnitTest tests[] = {
		CONNECTED(hands_in_what_has_arrived),
		CONNECTED(from_another_devices_callback),
		CONNECTED(callback_destroys),
		CONNECTED(slow_callback_is_no_silence),
		cmocka_unit_test_setup_teardown(destroyed_before_it_was_told, connect_second,
						disconnect_second),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
