/* SPDX-License-Identifier: MIT */
/* How large buffers have to be: learnt from connections, and forgotten. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sys/socket.h>

#include "daemon/policy/needs.h"

static int setup(void **state)
{
	*state = needs_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	needs_free(*state);
	return 0;
}

static struct smcr_addr peer(uint8_t last, uint16_t port)
{
	return (struct smcr_addr){ .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port };
}

static const struct smcr_addr own = { .port = 80 };

static void end(struct needs *needs, const struct smcr_addr *where, unsigned int count,
		uint32_t rcv, uint32_t snd)
{
	const struct smcr_needs seen = { rcv, snd };
	while (count-- > 0)
		needs_ended(needs, where, &seen);
}

static void expect(const struct needs *needs, const struct smcr_addr *where, uint32_t rcv,
		   uint32_t snd)
{
	struct smcr_needs expected = needs_expected(needs, where);
	assert_int_equal(expected.rcv, rcv);
	assert_int_equal(expected.snd, snd);
}

/** A small need is learnt from many connections in a row. The largest need among them counts, times
 *  two. */
static void little(void **state)
{
	struct needs *needs = *state;
	expect(needs, &own, 0, 0);
	end(needs, &own, 1, 1000, 1);
	expect(needs, &own, UINT32_MAX, UINT32_MAX);
	end(needs, &own, 1, 3000, 20);
	end(needs, &own, NEEDS_IN_A_ROW - 3, 1000, 1);
	expect(needs, &own, UINT32_MAX, UINT32_MAX);
	end(needs, &own, 1, 1000, 1);
	expect(needs, &own, 6000, 40);
	/* and the same for still smaller needs */
	end(needs, &own, NEEDS_IN_A_ROW - 1, 500, 20);
	expect(needs, &own, 6000, 40);
	end(needs, &own, 1, 500, 20);
	expect(needs, &own, 1000, 40);
}

/** A large need is learnt from the first connection that has it. A smaller one is learnt after that
 *  only from many in a row. */
static void much(void **state)
{
	struct needs *needs = *state;
	const struct smcr_needs full = { UINT32_MAX, 5000 };
	end(needs, &own, NEEDS_IN_A_ROW, 1000, 1000);
	end(needs, &own, 1, 4000, 900);
	expect(needs, &own, 8000, 2000);
	/* this connection is still open: it may yet need more in the other direction */
	needs_outgrown(needs, &own, &full);
	expect(needs, &own, UINT32_MAX, 2000);
	end(needs, &own, NEEDS_IN_A_ROW - 1, 10, 1000);
	end(needs, &own, 1, UINT32_MAX, 1000);
	end(needs, &own, NEEDS_IN_A_ROW - 1, 10, 1000);
	expect(needs, &own, UINT32_MAX, 2000);
	end(needs, &own, 1, 10, 1000);
	expect(needs, &own, 20, 2000);
	end(needs, &own, 1, UINT32_MAX / 2 + 1, UINT32_MAX / 2);
	expect(needs, &own, UINT32_MAX, UINT32_MAX - 1);
}

/** A connection whose program has set the size teaches nothing. */
static void unknown(void **state)
{
	struct needs *needs = *state;
	end(needs, &own, 2 * NEEDS_IN_A_ROW, 0, 100);
	expect(needs, &own, UINT32_MAX, 200);
}

static void places(void **state)
{
	struct needs *needs = *state;
	const struct smcr_addr where[] = {
		own, { .port = 81 }, peer(1, 80), peer(1, 81), peer(2, 80)
	};
	const size_t count = sizeof(where) / sizeof(where[0]);
	const struct smcr_addr all_of_1 = peer(1, 0);
	for (uint32_t i = 0; i < count; i++)
		end(needs, &where[i], NEEDS_IN_A_ROW, 100 + i, 200 + i);
	for (uint32_t i = 0; i < count; i++)
		expect(needs, &where[i], 2 * (100 + i), 2 * (200 + i));
	needs_forget(needs, &all_of_1);
	needs_forget(needs, &own);
	for (uint32_t i = 0; i < count; i++)
		if (i == 1 || i == 4)
			expect(needs, &where[i], 2 * (100 + i), 2 * (200 + i));
		else
			expect(needs, &where[i], 0, 0);
}

/** The table has 4096 places. The place that was unused for longest is given up. */
static void many_places(void **state)
{
	struct needs *needs = *state;
	for (uint16_t i = 0; i < 4096; i++) {
		const struct smcr_addr where = peer((uint8_t)(i / 64), i % 64 + 1);
		end(needs, &where, NEEDS_IN_A_ROW, 50, 50);
	}
	const struct smcr_addr first = peer(0, 1), second = peer(0, 2), third = peer(0, 3);
	end(needs, &first, 1, 50, 50);
	expect(needs, &second, 100, 100);
	end(needs, &own, NEEDS_IN_A_ROW, 50, 50);
	expect(needs, &first, 100, 100);
	expect(needs, &second, 0, 0);
	expect(needs, &third, 100, 100);
	expect(needs, &own, 100, 100);
}

/** A peer with many ports pushes out places of its own, not those of others. */
static void many_ports_of_one_peer(void **state)
{
	struct needs *needs = *state;
	const struct smcr_addr other = peer(2, 1), last = peer(1, 64), first = peer(1, 5000 - 63);
	end(needs, &other, NEEDS_IN_A_ROW, 50, 50);
	for (uint16_t port = 1; port <= 5000; port++) {
		const struct smcr_addr where = peer(1, port);
		end(needs, &where, NEEDS_IN_A_ROW, 50, 50);
	}
	expect(needs, &other, 100, 100);
	expect(needs, &last, 0, 0);
	expect(needs, &first, 100, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(little, setup, teardown),
		cmocka_unit_test_setup_teardown(much, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(places, setup, teardown),
		cmocka_unit_test_setup_teardown(many_places, setup, teardown),
		cmocka_unit_test_setup_teardown(many_ports_of_one_peer, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
