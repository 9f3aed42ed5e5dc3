/* SPDX-License-Identifier: MIT */
/* Connections that did not become SMC-R, as operators see them: how many are kept, and whose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/events/plain.h"
#include "proto/smcr/reason.h"

static struct plain *fresh(void)
{
	struct plain *plain;
	assert_int_equal(plain_new(NULL, &plain), 0);
	return plain;
}

static struct rdv_plain one(uid_t uid, uint32_t peer, uint64_t cookie)
{
	struct rdv_plain seen = { .cookie = cookie,
				  .peer = { .family = AF_INET, .port = 80 },
				  .reason = SMCR_REASON_PEER_NO_SMC,
				  .uid = uid };
	memcpy(seen.peer.ip, &peer, sizeof(peer));
	return seen;
}

static void add(struct plain *plain, uid_t uid, uint32_t peer, uint64_t cookie)
{
	const struct rdv_plain seen = one(uid, peer, cookie);
	plain_add(plain, &seen);
}

struct seen {
	size_t num, most;
	size_t of_uid[4];
	uint64_t first, last;
};

static bool see(void *arg, const struct plain_conn *conn)
{
	struct seen *seen = arg;
	if (seen->num++ == 0)
		seen->first = conn->number;
	else
		assert_true(conn->number < seen->last);
	seen->last = conn->number;
	if (conn->seen.uid < 4)
		seen->of_uid[conn->seen.uid]++;
	return seen->num != seen->most;
}

static struct seen look(const struct plain *plain, uint64_t below, size_t most)
{
	struct seen seen = { .most = most };
	plain_walk(plain, below, see, &seen);
	return seen;
}

static void the_newest_comes_first(void **state)
{
	(void)state;
	struct plain *plain = fresh();
	assert_int_equal(look(plain, 0, 0).num, 0);
	for (unsigned int i = 1; i <= 10; i++)
		add(plain, i, i, i);
	struct seen seen = look(plain, 0, 0);
	assert_int_equal(seen.num, 10);
	assert_int_equal(seen.first, 10);
	assert_int_equal(seen.last, 1);
	seen = look(plain, 8, 3);
	assert_int_equal(seen.num, 3);
	assert_int_equal(seen.first, 7);
	assert_int_equal(seen.last, 5);
	assert_int_equal(look(plain, 1, 0).num, 0);
	plain_free(plain);
}

/** A user with very many connections does not push out those of others, and has its own newest
 *  ones. */
static void no_user_takes_all(void **state)
{
	(void)state;
	struct plain *plain = fresh();
	for (unsigned int i = 0; i < 5; i++)
		add(plain, 1, 1, 0);
	for (unsigned int i = 0; i < 10 * PLAIN_KEPT; i++)
		add(plain, 2, 2, 0);
	add(plain, 3, 3, 0);
	struct seen seen = look(plain, 0, 0);
	assert_int_equal(seen.of_uid[1], 5);
	assert_int_equal(seen.of_uid[2], PLAIN_OF_A_USER);
	assert_int_equal(seen.of_uid[3], 1);
	assert_int_equal(seen.first, 10 * PLAIN_KEPT + 6);
	for (unsigned int uid = 1000; uid < 3000; uid++)
		add(plain, uid, 4, 0);
	assert_int_equal(look(plain, 0, 0).num, PLAIN_KEPT);
	plain_free(plain);
}

static void connections_shown_elsewhere_are_forgotten(void **state)
{
	(void)state;
	struct plain *plain = fresh();
	add(plain, 1, 1, 77);
	add(plain, 1, 1, 78);
	add(plain, 1, 1, 77); /* the socket of number 77 was connected once more */
	plain_forget(plain, 77);
	struct seen seen = look(plain, 0, 0);
	assert_int_equal(seen.num, 2);
	assert_int_equal(seen.first, 2);
	plain_forget(plain, 4711);
	plain_forget(plain, 0);
	assert_int_equal(look(plain, 0, 0).num, 2);
	plain_forget(plain, 78);
	assert_int_equal(look(plain, 0, 0).num, 1);
	plain_free(plain);
}

static void peers_are_counted(void **state)
{
	struct plain_peer peers[8];
	uint64_t others;
	(void)state;
	struct plain *plain = fresh();
	assert_int_equal(plain_peers(plain, peers, 8, &others), 0);
	assert_int_equal(others, 0);
	for (unsigned int i = 0; i < 3; i++)
		add(plain, 1, 1, 0);
	add(plain, 1, 2, 0);
	const struct rdv_plain other = one(1, 2, 0);
	plain_count(plain, &other.peer, 1, SMCR_REASON_LOCAL_POLICY);
	add(plain, 1, 3, 0);
	assert_int_equal(plain_peers(plain, peers, 8, &others), 3);
	assert_int_equal(peers[0].connections, 3);
	assert_int_equal(peers[0].reason, SMCR_REASON_PEER_NO_SMC);
	assert_int_equal(peers[0].addr.port, 0);
	assert_int_equal(peers[1].connections, 2);
	assert_int_equal(peers[1].reason, SMCR_REASON_LOCAL_POLICY);
	assert_int_equal(peers[2].connections, 1);
	assert_int_equal(others, 0);
	/* Peers that do not fit are counted together. */
	assert_int_equal(plain_peers(plain, peers, 1, &others), 1);
	assert_int_equal(others, 3);
	plain_free(plain);
}

/** Connections with very many addresses do not push out a peer of another user, and the sum has all
 *  of them. */
static void many_peers_are_others(void **state)
{
	static struct plain_peer peers[2 * PLAIN_PEERS];
	uint64_t others, sum = 0;
	bool there = false;
	(void)state;
	struct plain *plain = fresh();
	for (unsigned int i = 0; i < 5; i++)
		add(plain, 1, 0xFFFFFFFF, 0);
	for (unsigned int i = 1; i <= 10000; i++)
		add(plain, 2, i, 0);
	const struct smcr_addr unknown = { 0 };
	plain_count(plain, &unknown, 2, SMCR_REASON_OTHER_NETWORK);
	size_t n = plain_peers(plain, peers, 2 * PLAIN_PEERS, &others);
	assert_int_equal(n, PLAIN_PEERS_OF_USER + 1);
	for (size_t i = 0; i < n; i++) {
		sum += peers[i].connections;
		there |= peers[i].connections == 5;
	}
	assert_true(there);
	assert_int_equal(sum + others, 10006);
	for (unsigned int uid = 1000; uid < 3000; uid++)
		add(plain, uid, uid, 0);
	assert_int_equal(plain_peers(plain, peers, 2 * PLAIN_PEERS, &others), PLAIN_PEERS);
	plain_free(plain);
}

/** There are no BPF programs. */
static void nothing_is_known(void **state)
{
	uint64_t others = 1;
	(void)state;
	add(NULL, 1, 1, 1);
	plain_look(NULL);
	plain_forget(NULL, 1);
	assert_int_equal(look(NULL, 0, 0).num, 0);
	assert_int_equal(plain_peers(NULL, NULL, 0, &others), 0);
	assert_int_equal(others, 0);
	plain_free(NULL);
}

static uint32_t unasked_of_newest;

static bool note_unasked(void *arg, const struct plain_conn *conn)
{
	(void)arg;
	unasked_of_newest = conn->unasked;
	return false;
}

/* Connections that were made without a claim are counted with their peer, and shown with the
 * connection that they came before, if that is kept. */
static void connections_before_it_are_counted(void **state)
{
	(void)state;
	struct plain *plain = fresh();
	struct plain_peer peers[2];
	uint64_t others;
	struct rdv_plain before = one(1, 2, 77);
	add(plain, 1, 2, 77);
	before.unasked = 30;
	plain_add(plain, &before);
	assert_int_equal(look(plain, 0, 0).num, 1);
	plain_walk(plain, 0, note_unasked, NULL);
	assert_int_equal(unasked_of_newest, 30);
	before.cookie = 78; /* which nobody knows */
	plain_add(plain, &before);
	assert_int_equal(look(plain, 0, 0).num, 1);
	assert_int_equal(plain_peers(plain, peers, 2, &others), 1);
	assert_int_equal(peers[0].connections, 61);
	assert_int_equal(others, 0);
	plain_free(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_comes_first),
		cmocka_unit_test(no_user_takes_all),
		cmocka_unit_test(connections_shown_elsewhere_are_forgotten),
		cmocka_unit_test(peers_are_counted),
		cmocka_unit_test(many_peers_are_others),
		cmocka_unit_test(nothing_is_known),
		cmocka_unit_test(connections_before_it_are_counted),

	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
