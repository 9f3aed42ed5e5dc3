/* SPDX-License-Identifier: MIT */
/* How large buffers have to be: learnt from connections, and forgotten. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sys/socket.h>

#include "daemon/policy/needs.h"
#include "tests/lib/tries.h"

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

#define UID   1000
#define OTHER 1001

static struct rdv_place to(uid_t uid, uint8_t last, uint16_t port)
{
	return (struct rdv_place){
		.uid = uid, .peer = { .family = AF_INET, .ip = { 10, 0, 0, last }, .port = port }
	};
}

static const struct rdv_place own = {
	.uid = UID,
	.server = true,
	.peer = { .family = AF_INET, .ip = { 10, 0, 0, 9 }, .port = 80 },
	.local = { .family = AF_INET, .ip = { 10, 0, 0, 254 } },
};

/* Connections that a peer makes to a port of this host. */
static struct rdv_place from(uint8_t last, uid_t uid, uint16_t port)
{
	struct rdv_place where = to(uid, last, port);
	where.server = true;
	where.local = own.local;
	return where;
}

static void end(struct needs *needs, const struct rdv_place *where, unsigned int count,
		uint32_t rcv, uint32_t snd)
{
	const struct smcr_needs seen = { rcv, snd };
	while (count-- > 0)
		needs_ended(needs, where, &seen);
}

static void expect(const struct needs *needs, const struct rdv_place *where, uint32_t rcv,
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
	const struct rdv_place where[] = { own,
					   from(9, UID, 81),
					   to(UID, 1, 80),
					   to(UID, 1, 81),
					   to(OTHER, 1, 80),
					   to(UID, 2, 80),
					   from(1, OTHER, 82) };
	const size_t count = sizeof(where) / sizeof(where[0]);
	const struct smcr_addr all_of_1 = to(0, 1, 0).peer, port_80 = { .port = 80 };
	for (uint32_t i = 0; i < count; i++)
		end(needs, &where[i], NEEDS_IN_A_ROW, 100 + i, 200 + i);
	for (uint32_t i = 0; i < count; i++)
		expect(needs, &where[i], 2 * (100 + i), 2 * (200 + i));
	needs_forget(needs, &all_of_1);
	needs_forget(needs, &port_80);
	for (uint32_t i = 0; i < count; i++) {
		TRIES("%u", i);
		/* of the port of the last one it is known what any peer has needed */
		if (i == 1 || i == 5 || i == 6)
			expect(needs, &where[i], 2 * (100 + i), 2 * (200 + i));
		else
			expect(needs, &where[i], 0, 0);
	}
}

/** Connections of one user that need little make the buffers of no other user small. */
static void users(void **state)
{
	struct needs *needs = *state;
	const struct rdv_place mine = to(UID, 1, 80), others = to(OTHER, 1, 80);
	end(needs, &mine, 1, UINT32_MAX, UINT32_MAX);
	end(needs, &others, 1000, 10, 10);
	expect(needs, &mine, UINT32_MAX, UINT32_MAX);
	expect(needs, &others, 20, 20);
}

/** At a server what a peer has needed counts for that peer. A peer of which nothing is known gets
 *  what the others have needed, until it has shown that it needs more. */
static void peers(void **state)
{
	struct needs *needs = *state;
	const struct rdv_place big = from(1, UID, 80), small = from(2, UID, 80),
			       other = from(3, OTHER, 80);
	struct rdv_place later = from(3, UID, 80);
	end(needs, &big, 1, UINT32_MAX, UINT32_MAX);
	end(needs, &small, 1000, 10, 10);
	expect(needs, &big, UINT32_MAX, UINT32_MAX);
	expect(needs, &small, 20, 20);
	expect(needs, &later, 20, 20);
	expect(needs, &other, 0, 0);
	end(needs, &later, 1, 10, UINT32_MAX);
	end(needs, &small, 1000, 10, 10);
	expect(needs, &later, 20, UINT32_MAX);
	/* The peer is a new one at another address of the server. */
	later.local.ip[3]++;
	expect(needs, &later, 20, 20);
}

/** The place that was unused for longest is given up. */
static void many_places(void **state)
{
	struct needs *needs = *state;
	for (uint16_t i = 0; i < 1024; i++) {
		const struct rdv_place where = to(UID, (uint8_t)(i / 64), i % 64 + 1);
		end(needs, &where, NEEDS_IN_A_ROW, 50, 50);
	}
	const struct rdv_place first = to(UID, 0, 1), second = to(UID, 0, 2), third = to(UID, 0, 3),
			       next = to(UID, 99, 1);
	end(needs, &first, 1, 50, 50);
	expect(needs, &second, 100, 100);
	end(needs, &next, NEEDS_IN_A_ROW, 50, 50);
	expect(needs, &first, 100, 100);
	expect(needs, &second, 0, 0);
	expect(needs, &third, 100, 100);
	expect(needs, &next, 100, 100);
}

/** A user with many servers keeps what is known of each. */
static void many_own_ports(void **state)
{
	struct needs *needs = *state;
	for (uint16_t port = 1; port <= 400; port++) {
		const struct rdv_place where = from((uint8_t)(port % 200), UID, port);
		end(needs, &where, NEEDS_IN_A_ROW, 50, 50);
	}
	for (uint16_t port = 1; port <= 400; port++) {
		const struct rdv_place where = from(250, UID, port);
		expect(needs, &where, 100, 100);
	}
}

/** A peer with many ports pushes out places of its own, not those of others. */
static void many_ports_of_one_peer(void **state)
{
	struct needs *needs = *state;
	const struct rdv_place other = to(UID, 2, 1), last = to(UID, 1, 64),
			       first = to(UID, 1, 5000 - 63);
	end(needs, &other, NEEDS_IN_A_ROW, 50, 50);
	for (uint16_t port = 1; port <= 5000; port++) {
		const struct rdv_place where = to(UID, 1, port);
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
		cmocka_unit_test_setup_teardown(users, setup, teardown),
		cmocka_unit_test_setup_teardown(peers, setup, teardown),
		cmocka_unit_test_setup_teardown(many_places, setup, teardown),
		cmocka_unit_test_setup_teardown(many_own_ports, setup, teardown),
		cmocka_unit_test_setup_teardown(many_ports_of_one_peer, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
